//! A process that a test or a benchmark starts, watches and leaves no trace of.

use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::Error;
use crate::output::Output;

/// A process that does not outlive its owner, and what it prints.
#[derive(Debug)]
pub struct Process {
    child: Child,
    output: Output,
    /// Its working folder, and with it the data unless `--data` says otherwise: removed at the end.
    _folder: TempDir,
}

impl Process {
    /// Starts it in an empty folder of its own.
    pub fn start(command: &mut Command) -> Result<Self, Error> {
        let folder = TempDir::new().map_err(Error::io("creating a folder for a process"))?;
        // What a developer has configured must not reach a test.
        for (name, _) in std::env::vars_os() {
            if name.as_encoded_bytes().starts_with(b"TESSERA_") {
                command.env_remove(name);
            }
        }
        command.current_dir(folder.path());
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let starting = format!("starting {command:?}");
        let mut child = command.spawn().map_err(Error::io(starting))?;
        let output = Output::default();
        if let Some(stdout) = child.stdout.take() {
            output.follow(stdout);
        }
        if let Some(stderr) = child.stderr.take() {
            output.follow(stderr);
        }
        Ok(Self {
            child,
            output,
            _folder: folder,
        })
    }

    /// Everything that it printed so far.
    pub(crate) fn output(&self) -> &Output {
        &self.output
    }

    /// Waits until `find` sees in some line what it looks for. `None` when the process has ended
    /// without it, or after `patience`.
    pub fn wait_for<T>(&self, find: impl Fn(&str) -> Option<T>, patience: Duration) -> Option<T> {
        self.output.wait_for(find, patience)
    }

    /// Everything that it printed so far, as text.
    pub fn printed(&self) -> String {
        self.output.text()
    }

    /// Its number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends SIGTERM.
    pub(crate) fn ask_to_end(&self) -> Result<(), Error> {
        self.signal(Signal::TERM)
    }

    /// Sends SIGINT, which not everybody takes as SIGTERM.
    pub(crate) fn interrupt(&self) -> Result<(), Error> {
        self.signal(Signal::INT)
    }

    fn signal(&self, signal: Signal) -> Result<(), Error> {
        kill_process(Pid::from_child(&self.child), signal)
            .map_err(|refused| Error::io(format!("sending {signal:?}"))(refused.into()))
    }

    /// Why it is not ready after this time.
    pub(crate) fn not_ready(&mut self, waited: Duration) -> Error {
        // A process closes its streams a moment before it has ended.
        const MOMENT: Duration = Duration::from_secs(1);
        let ended = self.ended_within(MOMENT);
        let output = self.output.last_words();
        match ended {
            Ok(Some(status)) => Error::Ended { status, output },
            Ok(None) => Error::Late {
                state: "ready",
                waited,
                output,
            },
            Err(error) => error,
        }
    }

    /// How the process ended, if it does so in time.
    pub fn ended_within(&mut self, patience: Duration) -> Result<Option<ExitStatus>, Error> {
        const POLL: Duration = Duration::from_millis(5);
        let deadline = Instant::now() + patience;
        loop {
            let ended = self
                .child
                .try_wait()
                .map_err(Error::io("waiting for a process"))?;
            if ended.is_some() || Instant::now() >= deadline {
                return Ok(ended);
            }
            thread::sleep(POLL);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only for a process that has already ended.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
