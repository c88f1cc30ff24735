//! The servers that are measured, each in a process of its own.

use std::collections::HashMap;
use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tessera_conformance::{Process, Server, binary, packages};

use crate::Failure;
use crate::bench::wire::Wire;

/// Node and Java read many files before they listen.
const PATIENCE: Duration = Duration::from_secs(60);
/// In what `/proc` counts time, on every machine that Linux runs on: the interface is fixed.
const TICKS_PER_SECOND: f64 = 100.0;

/// A running server.
pub(crate) struct Subject {
    pub(crate) name: &'static str,
    pub(crate) address: SocketAddr,
    id: u32,
    _running: Running,
    /// Removed behind the process that wrote it.
    data: Option<TempDir>,
}

enum Running {
    Server { _server: Box<Server> },
    Process { _process: Process },
}

impl Subject {
    /// A front end of our server, with its data in this folder: the binary that users have, as it
    /// is by itself.
    pub(crate) fn tessera(front_end: &str, data: &Path) -> Result<Self, Failure> {
        let server = Server::start_on(data, &[])?;
        let address = server.address(front_end);
        Ok(Self {
            name: "tessera",
            address: address.ok_or_else(|| format!("nothing serves {front_end}"))?,
            id: server.id(),
            _running: Running::Server {
                _server: Box::new(server),
            },
            data: None,
        })
    }

    /// Azurite, as its own documentation starts it for tables alone.
    pub(crate) fn azurite() -> Result<Self, Failure> {
        let program = packages::node_packages("azurite")?.join("azurite/dist/src/table/main.js");
        // It tells nobody which port it got, so the port must be known before.
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let mut command = Command::new("node");
        command.arg(program);
        command.args(["--silent", "--disableTelemetry", "--tablePort"]);
        let process = Process::start(command.arg(address.port().to_string()))?;
        Self::listening("Azurite", address, process)
    }

    /// Cassandra with one node, which syncs before it answers as our server does.
    pub(crate) fn cassandra() -> Result<Self, Failure> {
        let (jars, folder) = (
            packages::java_packages("cassandra")?,
            packages::source("cassandra"),
        );
        let free = || TcpListener::bind("127.0.0.1:0")?.local_addr();
        let (address, gossip) = (free()?, free()?);
        let data = tempfile::tempdir()?;
        let mut command = Command::new("java");
        command.arg(format!("@{}", folder.join("jvm.options").display()));
        let properties = [
            (
                "config",
                format!("file://{}", folder.join("cassandra.yaml").display()),
            ),
            ("storagedir", data.path().display().to_string()),
            ("native_transport_port", address.port().to_string()),
            ("storage_port", gossip.port().to_string()),
        ];
        for (name, value) in properties {
            command.arg(format!("-Dcassandra.{name}={value}"));
        }
        command.args(["-cp", &format!("{}/*", jars.display())]);
        command.arg("org.apache.cassandra.service.CassandraDaemon");
        let mut subject = Self::listening("Cassandra", address, Process::start(&mut command)?)?;
        subject.data = Some(data);
        Ok(subject)
    }

    /// A server that tells nobody when it is ready.
    fn listening(
        name: &'static str,
        address: SocketAddr,
        process: Process,
    ) -> Result<Self, Failure> {
        let deadline = Instant::now() + PATIENCE;
        while TcpStream::connect(address).is_err() {
            if Instant::now() > deadline {
                return Err(format!("{name} does not listen:\n{}", process.printed()).into());
            }
            thread::sleep(Duration::from_millis(50));
        }
        Ok(Self::of(name, address, process))
    }

    /// This program again, as a bare server that answers everything with these bytes: each answer
    /// with a write of its own, or those together whose requests came together.
    pub(crate) fn echo(wire: Wire, answer: &[u8], together: bool) -> Result<Self, Failure> {
        let file = tempfile::NamedTempFile::new()?;
        fs::write(file.path(), answer)?;
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["echo", wire.name()]).arg(file.path());
        if together {
            command.arg("--together");
        }
        let process = Process::start(&mut command)?;
        let found = |line: &str| line.strip_prefix("echo ")?.parse().ok();
        let address = process.wait_for(found, PATIENCE);
        let address = address.ok_or("the bare server does not listen")?;
        let name = match together {
            true => "echo, batched",
            false => "echo",
        };
        Ok(Self::of(name, address, process))
    }

    fn of(name: &'static str, address: SocketAddr, process: Process) -> Self {
        Self {
            name,
            address,
            id: process.id(),
            _running: Running::Process { _process: process },
            data: None,
        }
    }

    /// Seconds that it has used a processor, in all threads of it and of its children.
    pub(crate) fn processor_seconds(&self) -> Result<f64, Failure> {
        let mut ticks = 0.0;
        for fields in tree(self.id)?.values() {
            let times = fields.split_whitespace().skip(11).take(2);
            ticks += times.map(str::parse::<f64>).sum::<Result<f64, _>>()?;
        }
        Ok(ticks / TICKS_PER_SECOND)
    }

    /// Memory that it and its children hold, in megabytes.
    pub(crate) fn memory_mb(&self) -> Result<f64, Failure> {
        let mut kibibytes = 0.0;
        for id in tree(self.id)?.keys() {
            let status = fs::read_to_string(format!("/proc/{id}/status"))?;
            let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
            let words = line.and_then(|line| line.split_whitespace().next());
            kibibytes += words.map_or(Ok(0.0), str::parse::<f64>)?;
        }
        Ok(kibibytes * 1_024.0 / 1_000_000.0)
    }

    /// Waits until it does next to nothing: what it was given is flushed and compacted.
    pub(crate) async fn quiet(&self) -> Result<(), Failure> {
        const WINDOW: Duration = Duration::from_millis(500);
        const LONGEST: u32 = 240;
        for _ in 0..LONGEST {
            let before = self.processor_seconds()?;
            tokio::time::sleep(WINDOW).await;
            if self.processor_seconds()? - before < 0.02 {
                return Ok(());
            }
        }
        Err("the server does not come to rest".into())
    }
}

/// The process with this number and those that it started, with what `/proc` says of each behind
/// its name, which is in parentheses and may hold anything.
fn tree(root: u32) -> Result<HashMap<u32, String>, Failure> {
    let mut parents: HashMap<u32, (u32, String)> = HashMap::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(id) = name.to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        // A process may be gone since.
        let Ok(stat) = fs::read_to_string(format!("/proc/{id}/stat")) else {
            continue;
        };
        let fields = stat.rsplit(')').next().unwrap_or_default();
        let parent = fields.split_whitespace().nth(1);
        let parent = parent.and_then(|parent| parent.parse().ok());
        parents.insert(id, (parent.unwrap_or_default(), fields.to_owned()));
    }
    let belongs = |id: u32| {
        let ancestors = std::iter::successors(Some(id), |id| Some(parents.get(id)?.0));
        // Numbers are given again, so a chain read in between might be a ring.
        ancestors.take(100).any(|ancestor| ancestor == root)
    };
    let found: HashMap<u32, String> = parents
        .iter()
        .filter(|(id, _)| belongs(**id))
        .map(|(id, (_, fields))| (*id, fields.clone()))
        .collect();
    match found.contains_key(&root) {
        true => Ok(found),
        false => Err("a server has ended".into()),
    }
}

/// Inserts per second of the core alone, for so long.
pub(crate) fn core_inserts(time: Duration) -> Result<f64, Failure> {
    let mut command = Command::new(binary::example("core_insert")?);
    let process = Process::start(command.arg(time.as_millis().to_string()))?;
    let found = |line: &str| line.strip_suffix(" inserts per second")?.parse().ok();
    let rate = process.wait_for(found, time + PATIENCE);
    rate.ok_or_else(|| format!("core_insert failed:\n{}", process.printed()).into())
}

#[cfg(test)]
mod tests {
    use super::tree;

    #[test]
    fn a_tree_has_its_root_and_what_the_root_started() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let found = tree(std::process::id()).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(found.contains_key(&std::process::id()));
        assert!(found.contains_key(&child.id()));
        assert!(!found.contains_key(&1) || std::process::id() == 1);
    }
}
