//! The accounts that the service knows, and their keys.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::signature::{Key, Signature};
use crate::address::SECONDARY;

/// The account of every storage emulator.
const EMULATOR_NAME: &str = "devstoreaccount1";
/// The key that every client knows for the emulators' account.
pub const EMULATOR_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

const NAME_LENGTH_MAX: usize = 63;
const KEYS_MAX: usize = 2;

/// All accounts, by name. They are few: comparing names finds one sooner than hashing them does.
#[derive(Clone)]
pub struct Accounts(BTreeMap<String, Account>);

/// One account: its name, and the one or two keys that sign for it.
#[derive(Clone)]
pub(super) struct Account {
    pub(super) name: String,
    keys: Vec<Key>,
    /// Signed by the key that everybody knows, so that its signatures protect nothing.
    pub(super) is_emulator: bool,
}

impl Accounts {
    /// The emulator's account alone.
    pub fn emulator() -> Self {
        let account = Account {
            name: EMULATOR_NAME.to_owned(),
            keys: Key::parse(EMULATOR_KEY).into_iter().collect(),
            is_emulator: true,
        };
        Self(BTreeMap::from([(EMULATOR_NAME.to_owned(), account)]))
    }

    /// Reads a setting such as `name:key1:key2,name2:key1`. What is wrong is said without
    /// repeating any part of the text that could be a key.
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
        for text in parts.filter(|text| !text.is_empty()) {
            let key = Key::parse(text)
                .ok_or_else(|| format!("A key of the account '{name}' is not in base64."))?;
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
            is_emulator: texts.iter().all(|text| *text == EMULATOR_KEY),
        })
    }

    /// Whether one of the keys signed the text.
    pub(super) fn signed(&self, text: &str, signature: &Signature) -> bool {
        let mut keys = self.keys.iter();
        keys.any(|key| key.verifies(text, signature))
    }
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
            assert_eq!(accounts.find("other").unwrap().is_emulator, expected);
        }
    }
}
