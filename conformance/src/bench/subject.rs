//! The servers that are measured, each in a process of its own.

use std::collections::HashMap;
use std::fs;
use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;
use tessera_conformance::peers::Peer;
use tessera_conformance::{Process, Server, binary};

use crate::Failure;
use crate::bench::wire::Wire;

/// Other work on the machine makes a start slow.
const PATIENCE: Duration = Duration::from_secs(60);
/// In what `/proc` counts time, on every machine that Linux runs on: the interface is fixed.
const TICKS_PER_SECOND: f64 = 100.0;

/// A running server.
pub(crate) struct Subject {
    pub(crate) name: &'static str,
    pub(crate) address: SocketAddr,
    id: u32,
    running: Running,
}

enum Running {
    /// Its data are removed behind it.
    Server(Box<Server>, TempDir),
    Peer(Box<Peer>),
    Process {
        _process: Process,
    },
}

impl Subject {
    /// A front end of our server, with its data in this folder: the binary that users have, as it
    /// is by itself.
    pub(crate) fn tessera(front_end: &str, data: TempDir) -> Result<Self, Failure> {
        let server = Server::start_on(data.path(), &[])?;
        let address = server.address(front_end);
        Ok(Self {
            name: "tessera",
            address: address.ok_or_else(|| format!("nothing serves {front_end}"))?,
            id: server.id(),
            running: Running::Server(Box::new(server), data),
        })
    }

    /// Another server of the same protocol.
    pub(crate) fn peer(peer: Peer) -> Self {
        Self {
            name: peer.name,
            address: peer.address,
            id: peer.id(),
            running: Running::Peer(Box::new(peer)),
        }
    }

    /// This program again, as a bare server that answers everything with these bytes: each answer
    /// with a write of its own, or those together whose requests came together.
    pub(crate) fn echo(
        name: &'static str,
        (wire, answer): (Wire, &[u8]),
        together: bool,
    ) -> Result<Self, Failure> {
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
        Ok(Self::of(name, address, process))
    }

    fn of(name: &'static str, address: SocketAddr, process: Process) -> Self {
        Self {
            name,
            address,
            id: process.id(),
            running: Running::Process { _process: process },
        }
    }

    /// Asks it to end: what it leaves behind.
    pub(crate) fn stop(self) -> Result<TempDir, Failure> {
        match self.running {
            Running::Server(server, data) => {
                server.stop()?;
                Ok(data)
            }
            Running::Peer(peer) => Ok(peer.stop()?.ok_or("it keeps nothing")?),
            Running::Process { .. } => Err("it keeps nothing".into()),
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

    /// Bytes that it and its children have given to the disk so far.
    pub(crate) fn written_bytes(&self) -> Result<f64, Failure> {
        let mut bytes = 0.0;
        for id in tree(self.id)?.keys() {
            let counts = fs::read_to_string(format!("/proc/{id}/io"))?;
            let mut lines = counts.lines();
            let written = lines.find_map(|line| line.strip_prefix("write_bytes: "));
            bytes += written.map_or(Ok(0.0), str::parse::<f64>)?;
        }
        Ok(bytes)
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
