//! The settings of the console.

use tessera_frontend::guessable;

use super::value::Secret;
use super::{Apply, Kind, Setting};

/// The fewest characters of a key that cannot be guessed.
const MIN_KEY_CHARACTERS: usize = 16;

/// The parsed settings.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ConsoleSettings {
    admin_key: Option<Secret>,
}

impl ConsoleSettings {
    /// The key that clients on other machines send.
    pub(crate) fn admin_key(&self) -> Option<&str> {
        self.admin_key.as_ref().map(|Secret(key)| key.as_str())
    }

    /// The weakness of a key that can be guessed, although it is long enough to be taken.
    pub(crate) fn weakness(&self) -> Option<String> {
        let why = guessable(self.admin_key()?.as_bytes())?;
        Some(format!("the key in console-admin-key {why}"))
    }
}

/// The front end's settings beside its address.
pub(crate) const OPTIONS: &[Setting] = &[Setting {
    name: "console-admin-key",
    kind: Kind::Text,
    placeholder: "KEY",
    secret: true,
    default: None,
    help: "Key that clients on other machines send as 'Authorization: Bearer KEY'; without it, \
           the console is for this machine only",
    allowed: "at least 16 characters, no spaces",
    apply: Apply::Field(|config, text| {
        let is_good =
            text.len() >= MIN_KEY_CHARACTERS && text.bytes().all(|b| b.is_ascii_graphic());
        config.console.admin_key = is_good.then(|| Secret(text.to_owned()));
        is_good.then_some(())
    }),
}];
