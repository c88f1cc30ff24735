//! State of one connection, shared by its concurrent requests.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tessera_frontend::LoginGate;

use crate::error::{CqlError, Result};
use crate::wire::{Compression, Opcode, Version};

/// One connection.
pub(crate) struct Session {
    pub(crate) peer: SocketAddr,
    pub(crate) is_encrypted: bool,
    /// Where logins are counted.
    pub(crate) gate: LoginGate,
    /// How many requests have come.
    requests: AtomicU64,
    state: Mutex<State>,
    logging_in: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct State {
    stage: Stage,
    keyspace: Option<Arc<str>>,
    user: Option<Arc<str>>,
    /// Whether it wants to hear of changes of definitions.
    hears_schema: bool,
    reads_payloads: bool,
    started: Option<Arc<Started>>,
}

/// How a client has introduced itself.
#[derive(Debug)]
pub(crate) struct Started {
    pub(crate) version: Version,
    /// What STARTUP said, as far as it is kept.
    pub(crate) options: Vec<(String, String)>,
}

/// So much is kept of what a client says of itself.
const OPTIONS_BYTES: usize = 4_096;

impl Started {
    pub(crate) fn new(version: Version, options: &[(&str, &str)]) -> Self {
        let mut room = OPTIONS_BYTES;
        let kept = options.iter().take_while(|(name, value)| {
            let left = room.checked_sub(name.len() + value.len());
            room = left.unwrap_or(0);
            left.is_some()
        });
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let options = kept.map(owned).collect();
        Self { version, options }
    }

    /// The value of an option, whose name may be written in any case.
    pub(crate) fn option(&self, name: &str) -> Option<&str> {
        let mut options = self.options.iter();
        let found = options.find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }
}

/// How far a connection is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Nothing was agreed on.
    #[default]
    Established,
    /// The client must say who it is.
    Authenticating,
    Ready,
}

impl Stage {
    /// As Cassandra calls it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Established => "established",
            Self::Authenticating => "authenticating",
            Self::Ready => "ready",
        }
    }
}

impl Session {
    pub(crate) fn new(peer: SocketAddr, is_encrypted: bool, gate: LoginGate) -> Self {
        Self {
            peer,
            is_encrypted,
            gate,
            requests: AtomicU64::new(0),
            state: Mutex::default(),
            logging_in: tokio::sync::Mutex::default(),
        }
    }

    /// Refuses what may not come at this stage.
    pub(crate) fn expect(&self, opcode: Opcode) -> Result<()> {
        let stage = self.state().stage;
        let is_expected = match stage {
            Stage::Established => matches!(opcode, Opcode::Startup | Opcode::Options),
            Stage::Authenticating => matches!(opcode, Opcode::AuthResponse | Opcode::Options),
            Stage::Ready => opcode != Opcode::Startup,
        };
        if is_expected {
            return Ok(());
        }
        let name = format!("{opcode:?}").to_uppercase();
        let rest = match stage {
            Stage::Established => "expecting STARTUP or OPTIONS",
            Stage::Authenticating => "expecting SASL_RESPONSE",
            Stage::Ready => "the connection is already initialized",
        };
        refuse(format!("Unexpected message {name}, {rest}"))
    }

    /// Notes that a request has come.
    pub(crate) fn count_request(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn requests(&self) -> i64 {
        let requests = self.requests.load(Ordering::Relaxed);
        i64::try_from(requests).unwrap_or(i64::MAX)
    }

    pub(crate) fn stage(&self) -> Stage {
        self.state().stage
    }

    /// How the client has introduced itself, once it has.
    pub(crate) fn started(&self) -> Option<Arc<Started>> {
        self.state().started.clone()
    }

    pub(crate) fn move_to(&self, stage: Stage) {
        self.state().stage = stage;
    }

    /// Whether the client has said all that it must say first.
    pub(crate) fn is_ready(&self) -> bool {
        self.state().stage == Stage::Ready
    }

    /// Waits until no other login is under way on this connection.
    pub(crate) async fn turn_to_log_in(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.logging_in.lock().await
    }

    pub(crate) fn log_in(&self, user: &str) {
        let mut state = self.state();
        state.user = Some(user.into());
        state.stage = Stage::Ready;
    }

    /// Who it is, if it had to say so.
    pub(crate) fn user(&self) -> Option<Arc<str>> {
        self.state().user.clone()
    }

    pub(crate) fn keyspace(&self) -> Option<Arc<str>> {
        self.state().keyspace.clone()
    }

    pub(crate) fn use_keyspace(&self, keyspace: &str) {
        self.state().keyspace = Some(keyspace.into());
    }

    pub(crate) fn register(&self, kinds: &[&str]) {
        if kinds.contains(&"SCHEMA_CHANGE") {
            self.state().hears_schema = true;
        }
    }

    pub(crate) fn hears_schema(&self) -> bool {
        self.state().hears_schema
    }

    /// Notes who the client is, and whether it can read a payload that it has not asked for.
    pub(crate) fn agree(&self, startup: Startup, started: Started) {
        let mut state = self.state();
        state.reads_payloads = startup.names_driver;
        state.started = Some(Arc::new(started));
    }

    pub(crate) fn reads_payloads(&self) -> bool {
        self.state().reads_payloads
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What STARTUP asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Startup {
    pub(crate) compression: Option<Compression>,
    /// Whether the client says which driver it is. Those who do know payloads; some who do not take
    /// one for the answer itself, and close the connection.
    pub(crate) names_driver: bool,
}

impl Startup {
    /// Reads the options, whose names may be written in any case.
    pub(crate) fn read(options: &[(&str, &str)], version: Version) -> Result<Self> {
        let option = |name: &str| {
            let mut options = options.iter();
            let found = options.find(|(known, _)| known.eq_ignore_ascii_case(name));
            found.map(|(_, value)| *value)
        };
        let Some(language) = option("CQL_VERSION") else {
            return refuse("Missing value CQL_VERSION in STARTUP message");
        };
        let major = language.split('.').next();
        let major: Option<u32> = major.and_then(|text| text.parse().ok());
        match major {
            Some(3..) => {}
            Some(_) => {
                return refuse(format!(
                    "CQL version {language} is not supported by the binary protocol (supported \
                     version are >= 3.0.0)"
                ));
            }
            None => return refuse(format!("Invalid version value: {language}")),
        }
        let compression = match option("COMPRESSION") {
            None => None,
            Some(name) => match Compression::from_name(name) {
                Some(Compression::Snappy) if version.is_framed() => {
                    return refuse("Snappy compression is not supported in protocol V5");
                }
                Some(compression) => Some(compression),
                None => return refuse(format!("Unknown compression algorithm: {name}")),
            },
        };
        Ok(Self {
            compression,
            names_driver: option("DRIVER_NAME").is_some(),
        })
    }
}

fn refuse<T>(words: impl Into<String>) -> Result<T> {
    Err(CqlError::protocol(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_their_stage() {
        let session = crate::testing::session("127.0.0.1:1");
        let words = |opcode| session.expect(opcode).map_err(|error| error.message);
        assert_eq!(words(Opcode::Startup), Ok(()));
        assert_eq!(
            words(Opcode::Query),
            Err("Unexpected message QUERY, expecting STARTUP or OPTIONS".to_owned())
        );
        session.move_to(Stage::Authenticating);
        assert_eq!(words(Opcode::AuthResponse), Ok(()));
        assert_eq!(
            words(Opcode::Query),
            Err("Unexpected message QUERY, expecting SASL_RESPONSE".to_owned())
        );
        session.log_in("ada");
        assert_eq!(words(Opcode::Query), Ok(()));
        assert!(words(Opcode::Startup).is_err());
    }

    #[test]
    fn startup_is_read() {
        let read = |options: &[(&str, &str)], version| {
            let read = Startup::read(options, version);
            read.map(|startup| startup.compression)
                .map_err(|error| error.message)
        };
        let language = ("cql_version", "3.0.0");
        assert_eq!(read(&[language], Version::V4), Ok(None));
        assert_eq!(
            read(&[language, ("COMPRESSION", "snappy")], Version::V4),
            Ok(Some(Compression::Snappy))
        );
        let named = Startup::read(&[language, ("DRIVER_NAME", "x")], Version::V4);
        assert!(named.unwrap().names_driver);
        for (options, version, words) in [
            (
                vec![],
                Version::V4,
                "Missing value CQL_VERSION in STARTUP message",
            ),
            (
                vec![("CQL_VERSION", "2.0.0")],
                Version::V4,
                "CQL version 2.0.0 is not supported by the binary protocol (supported version are \
                 >= 3.0.0)",
            ),
            (
                vec![("CQL_VERSION", "x")],
                Version::V4,
                "Invalid version value: x",
            ),
            (
                vec![language, ("COMPRESSION", "zstd")],
                Version::V4,
                "Unknown compression algorithm: zstd",
            ),
            (
                vec![language, ("COMPRESSION", "snappy")],
                Version::V5,
                "Snappy compression is not supported in protocol V5",
            ),
        ] {
            assert_eq!(read(&options, version), Err(words.to_owned()));
        }
    }
}
