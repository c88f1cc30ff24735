//! A PostgreSQL with two standbys, for servers that keep their data there.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::Error;

/// A running primary and its standbys. They stop when this value is dropped or the process ends.
#[derive(Debug)]
pub struct Postgres {
    url: String,
    child: Child,
    commands: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Postgres {
    /// Starts them with `scripts/postgres`, and waits until they are ready.
    pub fn start() -> Result<Self, Error> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/postgres");
        let mut child = Command::new(script)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(Error::io("starting scripts/postgres"))?;
        let (commands, output) = (child.stdin.take(), child.stdout.take());
        let nothing = || std::io::Error::other("it has no standard output");
        let output = output.ok_or_else(nothing).map_err(Error::io("starting"))?;
        let mut started = Self {
            url: String::new(),
            child,
            commands,
            answers: BufReader::new(output),
        };
        started.url = started.next_line()?;
        Ok(started)
    }

    /// The address of an empty place for one server, or for several that share their data.
    pub fn place(&self, name: &str) -> Result<String, Error> {
        let create = format!("CREATE SCHEMA {name}");
        let output = Command::new("psql")
            .args([self.url.as_str(), "-c", create.as_str()])
            .output()
            .map_err(Error::io("running psql"))?;
        if !output.status.success() {
            return Err(Error::Client {
                command: format!("psql -c '{create}'"),
                status: output.status.to_string(),
                output: String::from_utf8_lossy(&output.stderr).into_owned(),
            });
        }
        Ok(format!("{}&options=-csearch_path%3D{name}", self.url))
    }

    /// Kills the primary and all its processes, as a power cut would.
    pub fn kill_primary(&mut self) -> Result<(), Error> {
        self.tell("kill-primary")
    }

    /// Starts it again after it was killed.
    pub fn start_primary(&mut self) -> Result<(), Error> {
        self.tell("start-primary")
    }

    /// Makes the first standby the primary.
    pub fn promote(&mut self) -> Result<(), Error> {
        self.tell("promote 1")
    }

    fn tell(&mut self, command: &str) -> Result<(), Error> {
        if let Some(commands) = &mut self.commands {
            writeln!(commands, "{command}").map_err(Error::io(command))?;
        }
        let answer = self.next_line()?;
        if answer == "done" {
            return Ok(());
        }
        let unexpected = std::io::Error::other(format!("it answered {answer:?}"));
        Err(Error::io(format!("{command} of scripts/postgres"))(
            unexpected,
        ))
    }

    fn next_line(&mut self) -> Result<String, Error> {
        let mut line = String::new();
        let read = self.answers.read_line(&mut line);
        match read.map_err(Error::io("reading from scripts/postgres"))? {
            0 => {
                let ended = std::io::Error::other("it ended; its messages are on standard error");
                Err(Error::io("waiting for scripts/postgres")(ended))
            }
            _ => Ok(line.trim_end().to_owned()),
        }
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // The script stops everything when its standard input ends.
        drop(self.commands.take());
        let _ended = self.child.wait().is_ok();
    }
}
