//! The accounts that the service knows, and their keys.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use tessera_frontend::guessable;

use super::signature::{Key, Signature};
use crate::address::SECONDARY;

/// The account of every storage emulator.
const EMULATOR_NAME: &str = "devstoreaccount1";
/// The key that every client knows for the emulators' account.
pub const EMULATOR_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

const NAME_LENGTH_MAX: usize = 63;
const KEYS_MAX: usize = 2;
/// A shorter key could be guessed; the service's own have 64 bytes.
const KEY_BYTES_MIN: usize = 32;

/// All accounts, by name. They are few: comparing names finds one sooner than hashing them does.
#[derive(Clone)]
pub struct Accounts(BTreeMap<String, Account>);

/// One account: its name, and the one or two keys that sign for it.
#[derive(Clone)]
pub(super) struct Account {
    pub(super) name: String,
    keys: Vec<Key>,
    /// What is wrong with the first key that can be guessed, after "a key of the account".
    guessable: Option<String>,
    /// Has only the public key of the emulators.
    pub(super) is_emulator: bool,
    /// One of its keys is the public one, so that its signatures protect nothing.
    pub(super) is_public: bool,
}

impl Accounts {
    /// The emulator's account alone.
    pub fn emulator() -> Self {
        let account = Account {
            name: EMULATOR_NAME.to_owned(),
            keys: Key::parse(EMULATOR_KEY)
                .map(|(key, _)| key)
                .into_iter()
                .collect(),
            guessable: None,
            is_emulator: true,
            is_public: true,
        };
        Self(BTreeMap::from([(EMULATOR_NAME.to_owned(), account)]))
    }

    /// Reads a setting such as `name:key1:key2,name2:key1`. Errors repeat no part of the text that
    /// could be a key.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut accounts = BTreeMap::new();
        for (entry, number) in text.split(',').zip(1..) {
            let account = Account::parse(entry.trim(), number)?;
            match accounts.entry(account.name.clone()) {
                Entry::Occupied(taken) => {
                    return Err(format!("The account '{}' is given twice.", taken.key()));
                }
                Entry::Vacant(place) => place.insert(account),
            };
        }
        Ok(Self(accounts))
    }

    /// The weakness of the first key that can be guessed or is public, if there is one.
    pub fn weakness(&self) -> Option<String> {
        self.0.values().find_map(|account| {
            let name = &account.name;
            if account.is_public {
                return Some(format!(
                    "the account '{name}' has the public key of the storage emulators"
                ));
            }
            let why = account.guessable.as_ref()?;
            Some(format!("a key of the account '{name}' {why}"))
        })
    }

    /// The account of this name, or whose second location has this name.
    pub(super) fn find(&self, name: &str) -> Option<&Account> {
        self.0.get(name.strip_suffix(SECONDARY).unwrap_or(name))
    }
}

impl Account {
    fn parse(entry: &str, number: usize) -> Result<Self, String> {
        let mut parts = entry.split(':').map(str::trim);
        let name = parts.next().unwrap_or_default();
        if !is_name(name) {
            return Err(format!(
                "The name of account number {number} must be 1 to {NAME_LENGTH_MAX} lowercase \
                 letters, digits and hyphens, and must not end in '{SECONDARY}'."
            ));
        }
        let mut keys = Vec::with_capacity(KEYS_MAX);
        let mut texts = Vec::with_capacity(KEYS_MAX);
        let mut weak = None;
        for text in parts.filter(|text| !text.is_empty()) {
            let (key, bytes) = Key::parse(text)
                .ok_or_else(|| format!("A key of the account '{name}' is not in base64."))?;
            weak = weak.or_else(|| weakness(&bytes));
            keys.push(key);
            texts.push(text);
        }
        match keys.len() {
            0 => return Err(format!("The account '{name}' has no key.")),
            1..=KEYS_MAX => {}
            _ => return Err(format!("The account '{name}' has more than two keys.")),
        }
        Ok(Self {
            name: name.to_owned(),
            keys,
            guessable: weak,
            is_emulator: texts.iter().all(|text| *text == EMULATOR_KEY),
            is_public: texts.contains(&EMULATOR_KEY),
        })
    }

    /// Whether one of the keys signed the text.
    pub(super) fn signed(&self, text: &str, signature: &Signature) -> bool {
        let mut keys = self.keys.iter();
        keys.any(|key| key.verifies(text, signature))
    }
}

/// Why a key can be guessed, if it can.
fn weakness(key: &[u8]) -> Option<String> {
    if key.len() < KEY_BYTES_MIN {
        let length = key.len();
        return Some(format!(
            "has {length} bytes, and {KEY_BYTES_MIN} are the least"
        ));
    }
    guessable(key).map(str::to_owned)
}

fn is_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=NAME_LENGTH_MAX).contains(&name.len())
        && name.bytes().all(allowed)
        && !name.ends_with(SECONDARY)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 4231, case 2: the key "Jefe" in base64, a text and its signature.
    const KEY: &str = "SmVmZQ==";
    const TEXT: &str = "what do ya want for nothing?";
    const SIGNATURE: &str = "W9zBRr9gdU5qBCQmCJV1x1oAPwidJzmDnexYuWTsOEM=";

    #[test]
    fn either_key_of_an_account_signs() {
        let signature = Signature::parse(SIGNATURE).unwrap();
        for setting in [
            "one:SmVmZQ==",
            "one:SmVmZQ==:",
            "one::SmVmZQ==",
            "one:AAAA:SmVmZQ==",
            "one:SmVmZQ==:AAAA",
            "two:AAAA , one : SmVmZQ== ",
        ] {
            let accounts = Accounts::parse(setting).unwrap();
            for name in ["one", "one-secondary"] {
                let account = accounts.find(name).unwrap();
                assert_eq!(account.name, "one");
                assert!(account.signed(TEXT, &signature), "{setting}");
                assert!(!account.signed("other", &signature), "{setting}");
                assert!(!account.is_emulator);
            }
        }
        let accounts = Accounts::parse("two:AAAA,one:SmVmZQ==").unwrap();
        assert!(!accounts.find("two").unwrap().signed(TEXT, &signature));
        assert!(accounts.find("three").is_none());
        assert!(accounts.find("-secondary").is_none());
    }

    #[test]
    fn malformed_settings_are_refused_without_showing_a_key() {
        let check = |setting: &str, expected: &str| {
            let error = Accounts::parse(setting).err().unwrap();
            assert!(error.contains(expected), "{setting}: {error}");
            assert!(!error.contains(KEY) && !error.contains("secret"), "{error}");
        };
        check("", "account number 1");
        check("one:SmVmZQ==,", "account number 2");
        check("SmVmZQ==", "account number 1");
        check("SmVmZQ==:one", "account number 1");
        check("one-secondary:SmVmZQ==", "account number 1");
        check("One:SmVmZQ==", "account number 1");
        check("one", "'one' has no key");
        check("one::", "'one' has no key");
        check("one:secret", "'one' is not in base64");
        check("one:AAAA:secret", "'one' is not in base64");
        check("one:AAAA:SmVmZQ==:AAAA", "more than two keys");
        check("one:SmVmZQ==,one:AAAA", "'one' is given twice");
    }

    #[test]
    fn the_key_that_everybody_knows_is_recognized() {
        let accounts = Accounts::emulator();
        assert!(accounts.find(EMULATOR_NAME).unwrap().is_emulator);
        for (setting, expected) in [("other:{}", true), ("other:AAAA:{}", false)] {
            let accounts = Accounts::parse(&setting.replace("{}", EMULATOR_KEY)).unwrap();
            let account = accounts.find("other").unwrap();
            assert_eq!(account.is_emulator, expected);
            assert!(account.is_public);
        }
    }

    #[test]
    fn keys_that_could_be_guessed_are_named_and_never_shown() {
        let strong = "c3Ryb25n".repeat(6);
        let check = |setting: &str, expected: Option<&str>| {
            let weakness = Accounts::parse(setting).unwrap().weakness();
            match (&weakness, expected) {
                (None, None) => {}
                (Some(weakness), Some(expected)) => {
                    assert!(weakness.contains(expected), "{weakness}");
                    assert!(!weakness.contains("AAAA") && !weakness.contains("Eby8"));
                }
                _ => panic!("{setting}: {weakness:?}"),
            }
        };
        check(&format!("one:{strong}"), None);
        check(&format!("one:{strong},two:{strong}:{strong}"), None);
        let thirty = "c3Ryb25n".repeat(5);
        check(&format!("one:{thirty}c3Q="), None);
        check(&format!("one:{thirty}cw=="), Some("31 bytes"));
        check(&format!("one:{}A=", "A".repeat(42)), Some("repeats a few"));
        check("one:AA==", Some("'one' has 1 bytes"));
        check(&format!("one:{strong}:AAAA"), Some("'one' has 3 bytes"));
        check(&format!("one:{strong},two:AAAA"), Some("'two'"));
        for name in ["devstoreaccount1", "mine", "x"] {
            check(&format!("{name}:{EMULATOR_KEY}"), Some("emulators"));
            check(
                &format!("{name}:{strong}:{EMULATOR_KEY}"),
                Some("emulators"),
            );
        }
        assert!(Accounts::emulator().weakness().is_some());
    }
}
