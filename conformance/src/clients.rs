//! Clients in other languages: the programs under `clients/`, which use a server as people do.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::Error;
use crate::cases::Case;
use crate::packages::{self, source};
use crate::process::Process;

/// Installing reaches out to the internet and compiles, and a walk shares its machine with others.
const PATIENCE: Duration = Duration::from_secs(1_800);

/// A program that takes the address of a server and options, prints a line of JSON for every case
/// and ends with success if all passed.
#[derive(Debug)]
pub struct Client {
    command: Command,
}

/// What a walk printed.
#[derive(Debug, Default)]
pub struct Printed {
    /// In the order in which they were tried.
    pub cases: Vec<Case>,
    /// All lines but those of cases: figures, or how it broke off.
    pub said: Vec<String>,
}

impl Client {
    /// `walk.py` of a folder, with the packages of its `requirements.txt`.
    pub fn python(folder: &str) -> Result<Self, Error> {
        Self::python_script(folder, "walk.py")
    }

    /// Another script of such a folder.
    pub fn python_script(folder: &str, script: &str) -> Result<Self, Error> {
        let mut command = Command::new(packages::python(folder)?);
        command.env("PYTHONDONTWRITEBYTECODE", "1");
        // What the walks share is in the folder above them all.
        command.env("PYTHONPATH", source(""));
        command.arg(source(folder).join(script));
        Ok(Self { command })
    }

    /// `walk.js` of a folder, with the packages of its `package-lock.json`.
    pub fn node(folder: &str) -> Result<Self, Error> {
        Self::node_script(folder, "walk.js")
    }

    /// Another script of such a folder.
    pub fn node_script(folder: &str, script: &str) -> Result<Self, Error> {
        let mut command = Command::new("node");
        command.env("NODE_PATH", packages::node_packages(folder)?);
        command.arg(source(folder).join(script));
        Ok(Self { command })
    }

    /// A script of the folder `mongo/mongosh`, run by mongosh.
    pub fn mongosh(script: &str) -> Result<Self, Error> {
        const FOLDER: &str = "mongo/mongosh";
        let mongosh = packages::node_packages(FOLDER)?.join("mongosh/bin/mongosh.js");
        let mut command = Command::new("node");
        command.arg(mongosh).args(["--quiet", "--file"]);
        command.arg(source(FOLDER).join(script));
        Ok(Self { command })
    }

    /// A program of the package `clients/rust`.
    pub fn rust(program: &str) -> Result<Self, Error> {
        packages::rust(program).map(Self::program)
    }

    /// A program of the module `clients/go`.
    pub fn go(program: &str) -> Result<Self, Error> {
        packages::go(program).map(Self::program)
    }

    /// A class of the project `clients/java`.
    pub fn java(class: &str) -> Result<Self, Error> {
        let mut command = Command::new("java");
        command.args(["-cp", &packages::java()?]);
        command.arg(format!("tessera.{class}"));
        Ok(Self { command })
    }

    /// The script `walk` of a folder.
    pub fn script(folder: &str) -> Self {
        Self::program(source(folder).join("walk"))
    }

    fn program(path: PathBuf) -> Self {
        Self {
            command: Command::new(path),
        }
    }

    /// The same program with more options.
    #[must_use]
    pub fn with(mut self, options: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        self.command.args(options);
        self
    }

    /// Starts it with the server at this address, for a test that does something meanwhile.
    pub fn start(mut self, endpoint: &str) -> Result<Process, Error> {
        Process::start(self.command.arg(endpoint))
    }

    /// Walks over the server at this address, and tells every case as it comes. A walk that breaks
    /// off has a case that says so.
    pub fn cases(mut self, endpoint: &str, mut heard: impl FnMut(&Case)) -> Result<Printed, Error> {
        let mut process = Process::start(self.command.arg(endpoint))?;
        let deadline = Instant::now() + PATIENCE;
        let mut walked = Printed::default();
        let mut seen = 0;
        let ended = loop {
            let ended = process.ended_within(Duration::ZERO)?;
            let lines = process.output().lines_from(seen, ended.is_some());
            seen += lines.len();
            for line in lines {
                match Case::read(&line) {
                    None => walked.said.push(line),
                    Some(case) => {
                        heard(&case);
                        walked.cases.push(case);
                    }
                }
            }
            if ended.is_some() || Instant::now() >= deadline {
                break ended;
            }
        };
        let failed = walked.cases.iter().any(|case| !case.passed);
        let broken = match ended {
            Some(status) if status.success() || (failed && status.code() == Some(1)) => None,
            Some(status) => Some(status.to_string()),
            None => Some(format!("no end in {PATIENCE:?}")),
        };
        if let Some(how) = broken {
            let case = Case::broken_off(format!("{how}\n{}", walked.said.join("\n")));
            heard(&case);
            walked.cases.push(case);
        }
        Ok(walked)
    }

    /// Walks over the server at this address, and answers what was printed besides cases.
    pub fn walk(self, endpoint: &str) -> Result<String, Error> {
        let command = format!("{:?}", self.command);
        let walked = self.cases(endpoint, |_| ())?;
        let failed = walked.cases.iter().filter(|case| !case.passed);
        let failed: Vec<String> = failed.map(Case::to_string).collect();
        match failed.as_slice() {
            [] => Ok(walked.said.join("\n")),
            failed => Err(Error::Client {
                command,
                status: format!("{} of {} failed", failed.len(), walked.cases.len()),
                output: failed.join("\n"),
            }),
        }
    }
}

/// An issuer of bearer tokens, in a folder of its own.
pub struct Issuer {
    folder: tempfile::TempDir,
}

impl Issuer {
    /// How its tokens name it.
    pub const NAME: &str = "https://issuer.example";

    /// Makes one with the script `issuer` of a folder of clients.
    pub fn new(folder: &str) -> Result<Self, Error> {
        let target = tempfile::tempdir().map_err(Error::io("making a folder for an issuer"))?;
        let mut script = Command::new(source(folder).join("issuer"));
        run(script.arg(target.path()).arg(Self::NAME))?;
        Ok(Self { folder: target })
    }

    /// The file with its public keys, a JSON Web Key Set.
    pub fn keys(&self) -> PathBuf {
        self.folder.path().join("keys.json")
    }

    /// The file with a token of it.
    pub fn token(&self) -> PathBuf {
        self.folder.path().join("token")
    }
}

/// Runs a command to its end and returns what it printed.
pub(crate) fn run(command: &mut Command) -> Result<String, Error> {
    let mut process = Process::start(command)?;
    let (status, output) = match process.ended_within(PATIENCE)? {
        Some(status) if status.success() => return Ok(process.output().last_words()),
        Some(status) => (status.to_string(), process.output().last_words()),
        None => (format!("no end in {PATIENCE:?}"), process.output().text()),
    };
    Err(Error::Client {
        command: format!("{command:?}"),
        status,
        output,
    })
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::{Client, run};

    /// A walk that prints these cases and ends in this way.
    fn walk(outcomes: &[&str], end: &str) -> Client {
        let print = |outcome: &&str| {
            let head = format!(r#""area":"a","case":"{outcome}","outcome":"{outcome}""#);
            format!(r#"echo '{{{head},"ms":1,"message":"because"}}'; "#)
        };
        let script: String = outcomes.iter().map(print).collect();
        let mut command = Command::new("sh");
        command.args(["-c", &format!("{script} {end}")]);
        Client { command }
    }

    #[test]
    fn hears_every_case_and_how_a_walk_ended() {
        for (outcomes, end, passed) in [
            (&["passed"][..], "exit 0", &[true][..]),
            (&["passed", "failed"], "exit 1", &[true, false]),
            (&["passed"], "exit 1", &[true, false]),
            (&["failed"], "exit 2", &[false, false]),
            (&[], "echo Traceback >&2; kill -9 $$", &[false]),
        ] {
            let mut heard = Vec::new();
            let walked = walk(outcomes, end).cases("nowhere", |case| heard.push(case.clone()));
            let walked = walked.unwrap();
            let found: Vec<bool> = walked.cases.iter().map(|case| case.passed).collect();
            assert_eq!(found, passed, "{outcomes:?} {end}");
            assert_eq!(heard, walked.cases);
        }
    }

    #[test]
    fn shows_what_failed_and_not_what_passed() {
        assert_eq!(
            walk(&["passed"], "echo 7 ms").walk("nowhere").unwrap(),
            "7 ms"
        );
        let error = walk(&["passed", "failed"], "exit 1").walk("nowhere");
        let error = error.unwrap_err().to_string();
        assert!(error.contains("a: failed: because"), "{error}");
        assert!(!error.contains("a: passed"), "{error}");
    }

    #[test]
    fn a_command_that_fails_says_why() {
        assert_eq!(
            run(Command::new("echo").arg("Python 3")).unwrap(),
            "Python 3"
        );
        let error = run(Command::new("sh").args(["-c", "echo no >&2; exit 3"]));
        let error = error.unwrap_err().to_string();
        assert!(error.contains("no") && error.contains('3'), "{error}");
    }
}
