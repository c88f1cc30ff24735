//! What the walks share: their options, their cases and the verdicts.

use std::env;
use std::error::Error;
use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};

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

/// Prints a line for each case and counts them.
#[derive(Debug, Default)]
pub struct Report {
    passed: u32,
    failed: u32,
}

impl Report {
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
        println!("ok {name}");
    }

    fn fail(&mut self, name: &str, expected: &dyn Debug, actual: &dyn Debug) {
        self.failed += 1;
        println!("FAILED {name}: expected {expected:?}, got {actual:?}");
    }

    /// Prints the count, and ends with success if nothing failed.
    pub fn finish(self) -> ExitCode {
        println!("{} passed, {} failed", self.passed, self.failed);
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
            println!("FAILED the walk: {error}");
            ExitCode::FAILURE
        }
    }
}
