//! Where the database is and how to get in: a `postgres://` address.
//!
//! The driver reads most of it. It does not know how to check certificates, so `sslrootcert` and
//! the modes that need it are read here.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};

/// Of a host that does not answer the next one is tried after this, unless the address says else.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A host that is gone without a word is noticed after about this time, unless the address says
/// else.
const TCP_TIMEOUT: Duration = Duration::from_secs(10);
const KEEPALIVES_INTERVAL: Duration = Duration::from_secs(3);
const KEEPALIVES_RETRIES: u32 = 3;

/// How long an answer may take, unless the address says else.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a connection is used, unless the address says else. Far less than the day for which
/// its last commit is remembered.
const CONNECTION_AGE: Duration = Duration::from_secs(60 * 60);
const LONGEST_CONNECTION_AGE: Duration = Duration::from_secs(12 * 60 * 60);

/// The address of a database, with the password in it: it is shown without.
#[derive(Clone, PartialEq)]
pub struct Address {
    config: Config,
    roots: Option<PathBuf>,
    answer_timeout: Duration,
    connection_age: Duration,
}

impl Address {
    /// Reads `postgres://user:password@host:port,host:port/database?sslmode=verify-full&…`.
    pub fn parse(text: &str) -> Result<Self, String> {
        if !["postgres://", "postgresql://"]
            .iter()
            .any(|scheme| text.starts_with(scheme))
        {
            return Err("it does not begin with postgres://".to_owned());
        }
        let (place, parameters) = text.split_once('?').unwrap_or((text, ""));
        let mut kept = Vec::new();
        let mut roots = None;
        let mut verifies = false;
        let (mut answer_timeout, mut connection_age) = (ANSWER_TIMEOUT, CONNECTION_AGE);
        for parameter in parameters.split('&').filter(|text| !text.is_empty()) {
            match parameter.split_once('=') {
                Some(("sslrootcert", file)) => roots = Some(PathBuf::from(decoded(file)?)),
                Some(("sslmode", "verify-full")) => verifies = true,
                Some(("sslmode", "verify-ca")) => {
                    return Err("sslmode=verify-ca is not there, verify-full is".to_owned());
                }
                Some(("answer_timeout", text)) => answer_timeout = seconds("answer_timeout", text)?,
                Some(("connection_age", text)) => {
                    connection_age = seconds("connection_age", text)?.min(LONGEST_CONNECTION_AGE);
                }
                _ => kept.push(parameter),
            }
        }
        if verifies != roots.is_some() {
            return Err("sslmode=verify-full and sslrootcert=FILE need each other".to_owned());
        }
        let rest = format!("{place}?{}", kept.join("&"));
        // The driver's messages name the parameter and never its value.
        let mut config: Config = rest.parse().map_err(|error| chain(&error))?;
        if config.get_hosts().is_empty() {
            return Err("it names no host".to_owned());
        }
        config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        if verifies {
            config.ssl_mode(SslMode::Require);
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_TIMEOUT);
        }
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(TCP_TIMEOUT);
        }
        if !text.contains("keepalives_idle=") {
            config.keepalives_idle(TCP_TIMEOUT);
        }
        if config.get_keepalives_interval().is_none() {
            config.keepalives_interval(KEEPALIVES_INTERVAL);
        }
        if config.get_keepalives_retries().is_none() {
            config.keepalives_retries(KEEPALIVES_RETRIES);
        }
        if config.get_application_name().is_none() {
            config.application_name("tessera");
        }
        Ok(Self {
            config,
            roots,
            answer_timeout,
            connection_age,
        })
    }

    pub(super) fn config(&self) -> &Config {
        &self.config
    }

    /// How long the database may take for one answer.
    pub(super) fn answer_timeout(&self) -> Duration {
        self.answer_timeout
    }

    /// For how long a connection is used.
    pub(super) fn connection_age(&self) -> Duration {
        self.connection_age
    }

    pub(super) fn roots(&self) -> Option<&Path> {
        self.roots.as_deref()
    }
}

/// The address without user and password.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("postgres://")?;
        let ports = self.config.get_ports();
        for (number, host) in self.config.get_hosts().iter().enumerate() {
            if number > 0 {
                f.write_str(",")?;
            }
            match host {
                Host::Tcp(name) => f.write_str(name)?,
                Host::Unix(path) => write!(f, "{}", path.display())?,
            }
            // One port stands for all hosts.
            if let Some(port) = ports.get(number).or_else(|| ports.first()) {
                write!(f, ":{port}")?;
            }
        }
        match self.config.get_dbname() {
            Some(name) => write!(f, "/{name}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// An error of the driver with its causes: alone it often says only "db error".
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

/// A parameter that is a number of seconds.
fn seconds(name: &str, text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|seconds| *seconds > 0);
    let seconds = seconds.ok_or_else(|| format!("{name} is not a number of seconds"))?;
    Ok(Duration::from_secs(seconds))
}

/// A parameter with its %XX replaced.
fn decoded(text: &str) -> Result<String, String> {
    let wrong = || format!("'{text}' is not written in percent encoding");
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        if *first == b'%' {
            let (digits, behind) = behind.split_at_checked(2).ok_or_else(wrong)?;
            let digits = std::str::from_utf8(digits).map_err(|_| wrong())?;
            bytes.push(u8::from_str_radix(digits, 16).map_err(|_| wrong())?);
            rest = behind;
        } else {
            bytes.push(*first);
            rest = behind;
        }
    }
    String::from_utf8(bytes).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_shown_without_its_secrets() {
        for (text, shown) in [
            (
                "postgres://ada:secret@one:5433,two:5434/shop?sslmode=disable",
                "postgres://one:5433,two:5434/shop",
            ),
            ("postgresql://localhost", "postgres://localhost:5432"),
            (
                "postgres://db/shop?sslmode=verify-full&sslrootcert=%2Ftmp%2Fca.pem&user=ada",
                "postgres://db:5432/shop",
            ),
        ] {
            let address = Address::parse(text).unwrap();
            assert_eq!(address.to_string(), shown);
            assert_eq!(format!("{address:?}"), shown);
        }
    }

    #[test]
    fn times_are_bounded_unless_the_address_says_else() {
        let plain = Address::parse("postgres://db").unwrap();
        assert_eq!(plain.answer_timeout(), ANSWER_TIMEOUT);
        assert_eq!(plain.connection_age(), CONNECTION_AGE);
        assert_eq!(plain.config().get_tcp_user_timeout(), Some(&TCP_TIMEOUT));
        assert_eq!(plain.config().get_keepalives_idle(), TCP_TIMEOUT);
        let own = "postgres://db?answer_timeout=3&connection_age=999999&tcp_user_timeout=7\
                   &keepalives_idle=60&keepalives_interval=20";
        let own = Address::parse(own).unwrap();
        assert_eq!(own.answer_timeout(), Duration::from_secs(3));
        assert_eq!(own.connection_age(), LONGEST_CONNECTION_AGE);
        let config = own.config();
        assert_eq!(config.get_tcp_user_timeout(), Some(&Duration::from_secs(7)));
        assert_eq!(config.get_keepalives_idle(), Duration::from_secs(60));
        assert_eq!(
            config.get_keepalives_interval(),
            Some(Duration::from_secs(20))
        );
    }

    #[test]
    fn certificates_are_checked_only_when_both_parameters_say_so() {
        let verified =
            Address::parse("postgres://db?sslmode=verify-full&sslrootcert=%2Fca.pem").unwrap();
        assert_eq!(verified.roots(), Some(Path::new("/ca.pem")));
        assert_eq!(verified.config().get_ssl_mode(), SslMode::Require);
        for text in [
            "postgres://db?sslmode=verify-full",
            "postgres://db?sslrootcert=ca.pem",
            "postgres://db?sslmode=require&sslrootcert=ca.pem",
            "postgres://db?sslmode=verify-ca&sslrootcert=ca.pem",
            "postgres://db?sslmode=sometimes",
            "postgres://db?sslmode=verify-full&sslrootcert=%zz",
            "postgres://db?answer_timeout=0",
            "postgres://db?answer_timeout=soon",
            "postgres://db?connection_age=-1",
            "mysql://db",
            "postgres://?user=ada",
        ] {
            assert!(Address::parse(text).is_err(), "{text}");
        }
    }
}
