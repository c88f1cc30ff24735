//! Parsers of values. None means that the text is not allowed.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use tessera_frontend::guessable;
use tessera_storage::Address;

use super::EngineChoice;

/// A secret text, which is not printed.
#[derive(Clone, PartialEq)]
pub(super) struct Secret(pub(super) String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(hidden)")
    }
}

pub(super) fn switch(text: &str) -> Option<bool> {
    one_of(text, &[("true", true), ("false", false)])
}

pub(super) fn one_of<T: Copy>(text: &str, choices: &[(&str, T)]) -> Option<T> {
    choices
        .iter()
        .find(|(name, _)| *name == text)
        .map(|(_, value)| *value)
}

pub(crate) fn engine(text: &str) -> Option<EngineChoice> {
    match text {
        "rocks" => Some(EngineChoice::Rocks),
        "memory" => Some(EngineChoice::Memory),
        address => Address::parse(address)
            .ok()
            .map(|address| EngineChoice::Postgres(Box::new(address))),
    }
}

pub(super) fn path(text: &str) -> Option<PathBuf> {
    (!text.is_empty()).then(|| PathBuf::from(text))
}

/// `Some(None)` is off.
pub(super) fn listen_address(text: &str) -> Option<Option<SocketAddr>> {
    if text == "off" {
        return Some(None);
    }
    // A port alone means the loopback address.
    let port = text.strip_prefix("localhost:").unwrap_or(text);
    if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(Some((Ipv4Addr::LOCALHOST, port.parse().ok()?).into()));
    }
    text.parse().ok().map(Some)
}

/// Bytes. Units are powers of 1,024, as in other databases' settings, with or without the `i`.
pub(super) fn size(text: &str) -> Option<usize> {
    let (number, unit) = split_unit(text)?;
    let shift = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return None,
    };
    usize::try_from(number.checked_mul(1 << shift)?).ok()
}

/// A bare number is not allowed: its unit would be unclear.
pub(super) fn duration(text: &str) -> Option<Duration> {
    let (number, unit) = split_unit(text)?;
    let millis_per_unit = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    let millis = number
        .checked_mul(millis_per_unit)
        .filter(|millis| *millis > 0)?;
    // Beyond this, adding the time to the clock could overflow.
    (millis <= 365 * 86_400_000).then(|| Duration::from_millis(millis))
}

fn split_unit(text: &str) -> Option<(u64, &str)> {
    let digits = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(digits)?;
    Some((number.parse().ok()?, unit.trim_start()))
}

/// Reads `NAME:PASSWORD,…`. A password may have colons in it, but no comma.
pub(super) fn users(text: &str) -> Option<Vec<(String, String)>> {
    let user = |entry: &str| {
        let (name, password) = entry.split_once(':')?;
        let allowed = |text: &str| !text.is_empty() && !text.contains(char::is_whitespace);
        let user = (name.to_owned(), password.to_owned());
        (allowed(name) && !password.is_empty()).then_some(user)
    };
    text.split(',').map(user).collect()
}

/// The fewest characters of a password for an address that other machines can reach.
const MIN_PASSWORD_CHARACTERS: usize = 8;

/// The weakness of the first password in `text`, the setting `name`, that is easily guessed.
pub(super) fn weak_password(name: &str, text: &str) -> Option<String> {
    users(text)?.into_iter().find_map(|(user, password)| {
        if password.eq_ignore_ascii_case(&user) {
            return Some(format!(
                "the password of '{user}' in {name} is the name itself"
            ));
        }
        let characters = password.chars().count();
        if characters < MIN_PASSWORD_CHARACTERS {
            return Some(format!(
                "the password of '{user}' in {name} has {characters} characters, and \
                 {MIN_PASSWORD_CHARACTERS} are the least"
            ));
        }
        let why = guessable(password.as_bytes())?;
        Some(format!("the password of '{user}' in {name} {why}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_that_are_soon_guessed_are_named_and_never_shown() {
        for (text, expected) in [
            ("ada:correct-horse", None),
            ("ada:12345678", Some("is a sequence")),
            ("ada:Password1", Some("commonest")),
            ("ada:1234567", Some("'ada'")),
            ("ada:correct-horse,bob:b", Some("'bob'")),
            ("administrator:Administrator", Some("the name itself")),
            ("ada::::::::", Some("7 characters")),
            ("ada:::::::::", Some("repeats a few")),
            ("ada:éééé", Some("4 characters")),
            ("ada:éééééééé", Some("repeats a few")),
            ("ada:éüöäêôîß", None),
        ] {
            let weak = weak_password("mongo-users", text);
            assert_eq!(weak.is_some(), expected.is_some(), "{text}: {weak:?}");
            if let (Some(weak), Some(expected)) = (weak, expected) {
                assert!(weak.contains(expected), "{weak}");
                assert!(weak.contains("mongo-users"), "{weak}");
                assert!(!weak.contains("1234567"), "{weak}");
            }
        }
    }

    #[test]
    fn engines() {
        for (text, expected) in [
            ("rocks", Some("Rocks")),
            ("memory", Some("Memory")),
            (
                "postgres://ada:secret@db:5433/shop",
                Some("Postgres(postgres://db:5433/shop)"),
            ),
            ("postgres://db/shop?sslmode=sometimes", None),
            ("mysql://db/shop", None),
            ("", None),
        ] {
            let shown = engine(text).map(|choice| format!("{choice:?}"));
            assert_eq!(shown.as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn sizes() {
        for (text, expected) in [
            ("1024", Some(1_024)),
            ("64kb", Some(65_536)),
            ("256MB", Some(256 << 20)),
            ("256 MiB", Some(256 << 20)),
            ("2g", Some(2 << 30)),
            ("99999999999999TB", None),
            ("-1", None),
            ("1.5GB", None),
            ("GB", None),
            ("", None),
        ] {
            assert_eq!(size(text), expected, "{text}");
        }
    }

    #[test]
    fn durations() {
        for (text, expected) in [
            ("500ms", Some(500)),
            ("30s", Some(30_000)),
            ("10m", Some(600_000)),
            ("1h", Some(3_600_000)),
            ("365d", Some(365 * 86_400_000)),
            ("366d", None),
            ("0s", None),
            ("30", None),
            ("s", None),
            ("99999999999999999999s", None),
        ] {
            assert_eq!(
                duration(text),
                expected.map(Duration::from_millis),
                "{text}"
            );
        }
    }

    #[test]
    fn listen_addresses() {
        let address = |text: &str| Some(Some(text.parse().unwrap()));
        for (text, expected) in [
            ("off", Some(None)),
            ("127.0.0.1:0", address("127.0.0.1:0")),
            ("localhost:80", address("127.0.0.1:80")),
            ("[::1]:80", address("[::1]:80")),
            ("8080", address("127.0.0.1:8080")),
            ("0", address("127.0.0.1:0")),
            ("65536", None),
            ("+80", None),
            (":80", None),
            ("localhost:+80", None),
            ("127.0.0.1", None),
            ("127.0.0.1:65536", None),
            ("localhost:", None),
            ("example.org:80", None),
            ("", None),
        ] {
            assert_eq!(listen_address(text), expected, "{text}");
        }
    }

    #[test]
    fn users_have_names_and_passwords() {
        let pair = |name: &str, password: &str| (name.to_owned(), password.to_owned());
        assert_eq!(users("ada:secret"), Some(vec![pair("ada", "secret")]));
        assert_eq!(
            users("a:b:c,d:e"),
            Some(vec![pair("a", "b:c"), pair("d", "e")])
        );
        for text in ["", "ada", "ada:", ":secret", "ada:secret,", "a b:c"] {
            assert_eq!(users(text), None, "{text}");
        }
    }
}
