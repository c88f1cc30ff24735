//! Starts the binary, waits for it, talks HTTP to it.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// Nothing here takes this long unless it hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// The binary, without settings from the environment of whoever runs the tests.
pub(crate) fn tessera(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tessera"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("TESSERA_") {
            command.env_remove(name);
        }
    }
    command.args(arguments);
    command
}

/// What a command that ends by itself said: exit code, standard output, standard error.
pub(crate) fn outcome(command: &mut Command) -> (i32, String, String) {
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let (printed, errors) = (text(stdout), text(stderr));
    let Some(code) = status.code() else {
        panic!("{status}: {printed}{errors}");
    };
    (code, printed, errors)
}

/// A running server on a free port, with its own folder.
pub(crate) struct Server {
    /// None once [`Server::wait`] has taken it.
    child: Option<Child>,
    pid: Pid,
    pub(crate) banner: String,
    pub(crate) address: SocketAddr,
    pub(crate) folder: TempDir,
}

impl Server {
    /// Starts `tessera serve` in a new folder and waits until it is ready.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), arguments)
    }

    /// Starts `tessera serve` with `folder` as its working directory.
    pub(crate) fn start_in(folder: TempDir, arguments: &[&str]) -> Self {
        Self::start_with(folder, arguments, &[])
    }

    /// The same, with these variables in its environment.
    pub(crate) fn start_with(
        folder: TempDir,
        arguments: &[&str],
        variables: &[(&str, &Path)],
    ) -> Self {
        let log = File::create(folder.path().join("log")).unwrap();
        let mut child = tessera(&[
            "serve",
            "--console",
            "127.0.0.1:0",
            "--cql",
            "127.0.0.1:0",
            "--mongo",
            "127.0.0.1:0",
            "--table",
            "127.0.0.1:0",
        ])
        .args(arguments)
        .envs(variables.iter().copied())
        .current_dir(folder.path())
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()
        .unwrap();
        let mut banner = String::new();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        while !banner.contains("Ready in") && !banner.contains("\"ready\"") {
            let read = lines.read_line(&mut banner).unwrap();
            assert!(
                read > 0,
                "{}",
                fs::read_to_string(folder.path().join("log")).unwrap()
            );
        }
        let address = console_in(&banner).unwrap().parse().unwrap();
        let pid = Pid::from_child(&child);
        Self {
            child: Some(child),
            pid,
            banner,
            address,
            folder,
        }
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.folder.path().join("tessera-data")
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap()
    }

    pub(crate) fn connect(&self) -> Client<TcpStream> {
        Client(connect(self.address))
    }

    /// One request on its own connection.
    pub(crate) fn get(&self, path: &str) -> Reply {
        self.connect().ask("GET", path)
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid, signal).unwrap();
    }

    /// Waits for the process to end by itself: its exit code, none if a signal ended it.
    pub(crate) fn wait(mut self) -> (Option<i32>, TempDir) {
        let (send, ended) = mpsc::channel();
        let mut child = self.child.take().unwrap();
        std::thread::spawn(move || send.send(child.wait().unwrap().code()));
        let code = ended.recv_timeout(PATIENCE).unwrap_or_else(|_| {
            self.signal(Signal::KILL);
            panic!("the server did not stop:\n{}", self.log());
        });
        let folder = std::mem::replace(&mut self.folder, tempfile::tempdir().unwrap());
        (code, folder)
    }

    /// SIGTERM, and its exit code.
    pub(crate) fn stop(self) -> (Option<i32>, TempDir) {
        self.signal(Signal::TERM);
        self.wait()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            child.kill().ok();
            child.wait().ok();
        }
    }
}

pub(crate) fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Where the console listens, as the banner says it in words or in JSON.
fn console_in(banner: &str) -> Option<String> {
    if let Ok(banner) = serde_json::from_str::<serde_json::Value>(banner) {
        let address = &banner["listeners"]["console"]["address"];
        return address.as_str().map(str::to_owned);
    }
    let mut lines = banner.lines().map(str::trim_start);
    let line = lines.find(|line| line.starts_with("console"))?;
    line.split_whitespace().nth(1).map(str::to_owned)
}

/// One connection that speaks HTTP/1.1.
pub(crate) struct Client<S>(pub(crate) S);

/// Status, head and body of one answer.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: serde_json::Value,
}

impl<S: Read + Write> Client<S> {
    pub(crate) fn send(&mut self, text: &str) {
        self.0.write_all(text.as_bytes()).unwrap();
        self.0.flush().unwrap();
    }

    pub(crate) fn ask(&mut self, method: &str, path: &str) -> Reply {
        self.send(&format!("{method} {path} HTTP/1.1\r\nhost: test\r\n\r\n"));
        self.reply().unwrap()
    }

    /// Reads one answer. None: the server closed the connection instead.
    pub(crate) fn reply(&mut self) -> Option<Reply> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(self.byte()?);
        }
        let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let length = head.split("content-length: ").nth(1).unwrap();
        let length = length.split("\r\n").next().unwrap().parse().unwrap();
        let body: Vec<u8> = (0..length).map(|_| self.byte().unwrap()).collect();
        let body = if body.is_empty() {
            serde_json::Value::Null
        } else {
            json(&body)
        };
        Some(Reply { status, head, body })
    }

    /// The next byte. None: the connection is closed, in order or not.
    pub(crate) fn byte(&mut self) -> Option<u8> {
        use std::io::ErrorKind::{TimedOut, WouldBlock};
        let mut byte = [0];
        match self.0.read(&mut byte) {
            Ok(1) => Some(byte[0]),
            Ok(_) => None,
            Err(error) if matches!(error.kind(), TimedOut | WouldBlock) => panic!("no answer"),
            Err(_) => None,
        }
    }

    /// Waits until the server closes the connection without another word.
    pub(crate) fn expect_close(&mut self) {
        assert_eq!(self.byte(), None);
    }
}

fn json(bytes: &[u8]) -> serde_json::Value {
    serde_json::from_slice(bytes).unwrap()
}

/// Runs a quick command until it says true, for conditions that nobody announces.
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let started = std::time::Instant::now();
    while !holds() {
        assert!(started.elapsed() < PATIENCE, "{what} did not happen");
        std::thread::yield_now();
    }
}

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}
