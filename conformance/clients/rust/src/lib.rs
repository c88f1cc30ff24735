//! What the walks share: their options, their cases and the verdicts.

use std::env;
use std::error::Error;
use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};

/// Tables of the three designs of a primary key.
pub const KEY_TABLES: [&str; 3] = [
    "CREATE TABLE single (id int PRIMARY KEY, v int)",
    "CREATE TABLE compound (p int, c int, v int, PRIMARY KEY (p, c)) \
     WITH CLUSTERING ORDER BY (c DESC)",
    "CREATE TABLE composite (a int, b text, c int, PRIMARY KEY ((a, b), c))",
];

/// What a walk is told: `ENDPOINT [--ca FILE] [--user NAME --password WORD] [--compressors NAMES]`.
#[derive(Debug, Default)]
pub struct Options {
    pub endpoint: String,
    pub certificate: Option<PathBuf>,
    pub user: Option<String>,
    pub password: Option<String>,
    pub compressors: Vec<String>,
}

impl Options {
    /// Reads the command line; an answer in words if it makes no sense.
    pub fn read() -> Result<Self, String> {
        let mut options = Self::default();
        let mut words = env::args().skip(1);
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or(format!("{word} needs a value"));
            match word.as_str() {
                "--ca" => options.certificate = Some(value()?.into()),
                "--user" => options.user = Some(value()?),
                "--password" => options.password = Some(value()?),
                "--compressors" => {
                    options.compressors = value()?.split(',').map(str::to_owned).collect();
                }
                _ if word.starts_with('-') => return Err(format!("there is no option {word}")),
                _ => options.endpoint = word,
            }
        }
        if options.endpoint.is_empty() {
            return Err("which server? Give its address".to_owned());
        }
        Ok(options)
    }
}

/// Prints a line of JSON for each case; the runner, `tessera-conformance run`, reads them.
#[derive(Debug)]
pub struct Report {
    area: &'static str,
    /// What is said before the name of each case, when all are done several times.
    setting: String,
    passed: u32,
    failed: u32,
    since: Instant,
}

impl Default for Report {
    fn default() -> Self {
        Self {
            area: "walk",
            setting: String::new(),
            passed: 0,
            failed: 0,
            since: Instant::now(),
        }
    }
}

impl Report {
    /// The area of the cases that follow.
    pub fn area(&mut self, area: &'static str) {
        self.area = area;
    }

    /// Under what conditions the cases that follow are done.
    pub fn setting(&mut self, setting: &str) {
        self.setting = format!("{setting}: ");
    }

    /// Compares what came of a case with what should have.
    pub fn check<T: Debug + PartialEq>(
        &mut self,
        name: &str,
        expected: T,
        actual: Result<T, impl Debug>,
    ) {
        match actual {
            Ok(actual) if actual == expected => self.pass(name),
            other => self.fail(name, &expected, &other),
        }
    }

    /// Checks that a case is refused, and that the refusal says so.
    pub fn refused<T: Debug, E: Debug>(
        &mut self,
        name: &str,
        as_expected: impl FnOnce(&E) -> bool,
        actual: Result<T, E>,
    ) {
        match actual {
            Err(error) if as_expected(&error) => self.pass(name),
            other => self.fail(name, &"a refusal", &other),
        }
    }

    fn pass(&mut self, name: &str) {
        self.passed += 1;
        self.tell(name, "passed", "");
    }

    fn fail(&mut self, name: &str, expected: &dyn Debug, actual: &dyn Debug) {
        self.failed += 1;
        let message = format!("expected {expected:?}, got {actual:?}");
        self.tell(name, "failed", &message);
    }

    /// Prints a case, whose time began with the end of the case before it.
    fn tell(&mut self, name: &str, outcome: &str, message: &str) {
        let now = Instant::now();
        let line = serde_json::json!({
            "area": self.area,
            "case": format!("{}{name}", self.setting),
            "outcome": outcome,
            "ms": now.duration_since(self.since).as_secs_f64() * 1_000.0,
            "message": message,
        });
        println!("{line}");
        self.since = now;
    }

    /// Ends with success if nothing failed.
    pub fn finish(self) -> ExitCode {
        if self.failed == 0 && self.passed > 0 {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        }
    }
}

/// A name that no other walk has.
pub fn unique_name() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    format!("walk_{:x}", since.unwrap_or_default().as_nanos())
}

/// Trusts the server that shows this certificate, and no other.
pub fn trust(certificate: &Path) -> Result<ClientConfig, Box<dyn Error>> {
    let mut trusted = RootCertStore::empty();
    for shown in CertificateDer::pem_file_iter(certificate)? {
        trusted.add(shown?)?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    Ok(ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(trusted)
        .with_no_client_auth())
}

/// Runs a walk as the whole of a program.
pub async fn run<W: Future<Output = Result<Report, Box<dyn Error>>>>(
    walk: impl FnOnce(Options) -> W,
) -> ExitCode {
    let options = match Options::read() {
        Ok(options) => options,
        Err(mistake) => {
            eprintln!("{mistake}");
            return ExitCode::from(2);
        }
    };
    match walk(options).await {
        Ok(report) => report.finish(),
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
