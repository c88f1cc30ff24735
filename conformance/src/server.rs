//! One running `tessera serve` on free ports.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::process::Process;
use crate::{Error, binary, http};

/// Everything that the server listens with; each gets a free port. A front end adds its flag here.
const LISTENERS: &[&str] = &["--console", "--cql", "--mongo", "--table"];

/// A machine that compiles at the same time is slow; a server that hangs is not waited for longer.
const PATIENCE: Duration = Duration::from_secs(30);

/// A running server. Dropping it kills the process; [`Server::stop`] asks it to end, as a user
/// does.
#[derive(Debug)]
pub struct Server {
    process: Process,
    console: SocketAddr,
    certificate: Option<PathBuf>,
    listeners: BTreeMap<String, SocketAddr>,
    started_in: Duration,
}

impl Server {
    /// Starts `tessera serve` with these options besides the free ports, in an empty folder of its
    /// own, and waits until `/health` answers.
    pub fn start(options: &[&str]) -> Result<Self, Error> {
        let mut command = Command::new(binary::path()?);
        Self::launch(command.arg("serve").args(options), None)
    }

    /// Starts `tessera serve` through another program, such as one that counts or traces.
    pub fn start_under(wrapper: &[&str], options: &[&str]) -> Result<Self, Error> {
        let (program, arguments) = wrapper.split_first().unwrap_or((&"env", &[]));
        let mut command = Command::new(program);
        command.args(arguments).arg(binary::path()?);
        Self::launch(command.arg("serve").args(options), None)
    }

    /// Starts a server that keeps its data in this folder.
    pub fn start_on(data: &Path, options: &[&str]) -> Result<Self, Error> {
        let mut command = Command::new(binary::path()?);
        Self::launch(
            command.arg("serve").arg("--data").arg(data).args(options),
            None,
        )
    }

    /// Starts a server that keeps its data in this folder, and speaks TLS with the certificate that
    /// it makes for itself there.
    pub fn start_tls(data: &Path, options: &[&str]) -> Result<Self, Error> {
        let certificate = data.join("tls").join("cert.pem");
        let mut command = Command::new(binary::path()?);
        command.args(["serve", "--tls-self-signed", "--data"]);
        Self::launch(command.arg(data).args(options), Some(certificate))
    }

    fn launch(command: &mut Command, certificate: Option<PathBuf>) -> Result<Self, Error> {
        for listener in LISTENERS {
            command.args([listener, "127.0.0.1:0"]);
        }
        let began = Instant::now();
        let mut process = Process::start(command)?;
        // The banner names the console, and the console names everything else.
        let Some(console) = process.output().wait_for(console_address, PATIENCE) else {
            return Err(process.not_ready(PATIENCE));
        };
        let health = match &certificate {
            None => http::get(console, "/health")?,
            Some(certificate) => http::get_tls(console, "/health", certificate)?,
        };
        let started_in = began.elapsed();
        match listeners(&health) {
            Some(listeners) => Ok(Self {
                process,
                console,
                certificate,
                listeners,
                started_in,
            }),
            None => Err(Error::NotHealthy(health)),
        }
    }

    /// Where the console listens.
    pub fn console(&self) -> SocketAddr {
        self.console
    }

    /// Where the front end of this name listens, as `/health` tells.
    pub fn address(&self, front_end: &str) -> Option<SocketAddr> {
        self.listeners.get(front_end).copied()
    }

    /// The file with the certificate that a client must trust, if the server speaks TLS.
    pub fn certificate(&self) -> Option<&Path> {
        self.certificate.as_deref()
    }

    /// The number of the process.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// The time from starting the process to the first answer of `/health`.
    pub fn started_in(&self) -> Duration {
        self.started_in
    }

    /// Everything that the server printed so far.
    pub fn output(&self) -> String {
        self.process.output().text()
    }

    /// Sends SIGTERM and waits until the process ends. Anything but exit code 0 is an error.
    pub fn stop(mut self) -> Result<(), Error> {
        let process = &mut self.process;
        process.ask_to_end()?;
        let ended = process.ended_within(PATIENCE)?;
        let output = process.output().last_words();
        match ended {
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(Error::Unclean { status, output }),
            None => Err(Error::Late {
                state: "stopped",
                waited: PATIENCE,
                output,
            }),
        }
    }
}

/// The address in the banner's link to the console.
fn console_address(line: &str) -> Option<SocketAddr> {
    let mut words = line.split_whitespace();
    (words.next()? == "console").then(|| words.next()?.parse().ok())?
}

/// The address of every listener, or nothing unless the server is well.
fn listeners(health: &http::Response) -> Option<BTreeMap<String, SocketAddr>> {
    let body: Value = serde_json::from_str(&health.body).ok()?;
    if health.status != 200 || body.get("status")? != "ok" {
        return None;
    }
    let listeners = body.get("listeners")?.as_object()?;
    listeners
        .iter()
        .map(|(name, about)| Some((name.clone(), about.get("address")?.as_str()?.parse().ok()?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{console_address, listeners};
    use crate::http::Response;

    #[test]
    fn finds_the_console_in_a_banner() {
        for (line, address) in [
            (
                "  console   127.0.0.1:8080         curl http://127.0.0.1:8080/health",
                Some("127.0.0.1:8080"),
            ),
            ("  console   [::1]:8080", Some("[::1]:8080")),
            (
                "  table     127.0.0.1:10002        '…TableEndpoint=http://127.0.0.1:10002/x'",
                None,
            ),
            ("  console   off", None),
            ("see http://example.org/", None),
        ] {
            assert_eq!(
                console_address(line),
                address.map(|it| it.parse().unwrap()),
                "{line}"
            );
        }
    }

    #[test]
    fn only_a_healthy_server_tells_its_listeners() {
        let check = |status, body: &str, expected: Option<usize>| {
            let response = Response {
                status,
                head: String::new(),
                body: body.to_owned(),
            };
            assert_eq!(
                listeners(&response).map(|all| all.len()),
                expected,
                "{status} {body}"
            );
        };
        let listening = r#"{"console":{"address":"127.0.0.1:1"},"cql":{"address":"127.0.0.1:2"}}"#;
        let healthy = format!(r#"{{"status":"ok","listeners":{listening}}}"#);
        check(200, &healthy, Some(2));
        check(503, &healthy, None);
        check(200, &healthy.replace("ok", "read-only"), None);
        check(200, &healthy.replace("127.0.0.1:2", "nowhere"), None);
        check(200, "not JSON", None);
    }
}
