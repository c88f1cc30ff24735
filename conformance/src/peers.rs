//! Other servers of our protocols, brought by npm, Maven and Go, to compare with and to measure
//! beside.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::packages::{ferretdb, java_packages, node_packages, source};
use crate::{Error, Process};

/// Node and Java read many files before they listen.
const PATIENCE: Duration = Duration::from_secs(180);

/// A running server that somebody else wrote. It does not outlive this value.
#[derive(Debug)]
pub struct Peer {
    /// Its name, also in commands and ledgers.
    pub name: &'static str,
    /// Where it listens.
    pub address: SocketAddr,
    process: Process,
    /// Removed behind the process that wrote it.
    data: Option<TempDir>,
}

impl Peer {
    /// The names of those that our cases are proved by: FerretDB is only measured beside, because
    /// it is no MongoDB.
    pub const NAMES: [&str; 2] = [AZURITE, CASSANDRA];

    /// Starts the one of this name.
    pub fn start(name: &str) -> Result<Self, Error> {
        match name {
            AZURITE => Self::azurite(),
            _ => Self::cassandra(),
        }
    }

    /// Azurite, as its own documentation starts it for tables alone.
    pub fn azurite() -> Result<Self, Error> {
        let data = tempfile::tempdir().map_err(Error::io("making a folder for Azurite"))?;
        Self::azurite_in(data)
    }

    /// Azurite with what another one has left in this folder.
    pub fn azurite_in(data: TempDir) -> Result<Self, Error> {
        let program = node_packages("azurite")?.join("azurite/dist/src/table/main.js");
        // It tells nobody which port it got, so the port must be known before.
        let address = free_address()?;
        let mut command = Command::new("node");
        command.arg(program);
        command.args(["--silent", "--disableTelemetry", "--location"]);
        command.arg(data.path());
        command.args(["--tablePort", &address.port().to_string()]);
        let process = Process::start(&mut command)?;
        Self::listening(AZURITE, address, process, Some(data))
    }

    /// Cassandra with one node, which syncs before it answers as our server does.
    pub fn cassandra() -> Result<Self, Error> {
        let (jars, folder) = (java_packages("cassandra")?, source("cassandra"));
        let (address, gossip) = (free_address()?, free_address()?);
        let data = tempfile::tempdir().map_err(Error::io("making a folder for Cassandra"))?;
        let mut command = Command::new("java");
        command.arg(format!("@{}", folder.join("jvm.options").display()));
        let settings = folder.join("cassandra.yaml");
        let properties = [
            ("config", format!("file://{}", settings.display())),
            ("storagedir", data.path().display().to_string()),
            ("native_transport_port", address.port().to_string()),
            ("storage_port", gossip.port().to_string()),
        ];
        for (name, value) in properties {
            command.arg(format!("-Dcassandra.{name}={value}"));
        }
        command.args(["-cp", &format!("{}/*", jars.display())]);
        command.arg("org.apache.cassandra.service.CassandraDaemon");
        let process = Process::start(&mut command)?;
        Self::listening(CASSANDRA, address, process, Some(data))
    }

    /// FerretDB over SQLite, which syncs before it answers as our server does.
    pub fn ferretdb() -> Result<Self, Error> {
        let (program, address) = (ferretdb()?, free_address()?);
        let data = tempfile::tempdir().map_err(Error::io("making a folder for FerretDB"))?;
        let folder = data.path().display();
        let mut command = Command::new(program);
        command.args(["--handler=sqlite", "--telemetry=disable", "--debug-addr=-"]);
        command.arg("--log-level=error");
        command.arg(format!("--state-dir={folder}"));
        command.arg(format!(
            "--sqlite-url=file:{folder}/?_pragma=synchronous(full)"
        ));
        let process = Process::start(command.arg(format!("--listen-addr={address}")))?;
        Self::listening(FERRETDB, address, process, Some(data))
    }

    /// A server that tells nobody when it is ready.
    fn listening(
        name: &'static str,
        address: SocketAddr,
        mut process: Process,
        data: Option<TempDir>,
    ) -> Result<Self, Error> {
        let deadline = Instant::now() + PATIENCE;
        while TcpStream::connect(address).is_err() {
            if Instant::now() > deadline {
                return Err(process.not_ready(PATIENCE));
            }
            thread::sleep(Duration::from_millis(50));
        }
        Ok(Self {
            name,
            address,
            process,
            data,
        })
    }

    /// Interrupts it as a user does and waits until it ends: what it leaves behind.
    pub fn stop(mut self) -> Result<Option<TempDir>, Error> {
        self.process.interrupt()?;
        match self.process.ended_within(PATIENCE)? {
            Some(_) => Ok(self.data),
            None => Err(Error::Late {
                state: "stopped",
                waited: PATIENCE,
                output: self.process.printed(),
            }),
        }
    }

    /// The number of its process.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// How a client is told where it is.
    pub fn target(&self) -> String {
        match self.name {
            AZURITE => format!("http://{}", self.address),
            _ => self.address.to_string(),
        }
    }
}

const AZURITE: &str = "azurite";
const CASSANDRA: &str = "cassandra";
const FERRETDB: &str = "ferretdb";

fn free_address() -> Result<SocketAddr, Error> {
    TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| listener.local_addr())
        .map_err(Error::io("looking for a free port"))
}
