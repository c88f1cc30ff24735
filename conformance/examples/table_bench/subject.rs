//! The servers that are measured, each in a process of its own.

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use tessera_conformance::{Process, Server, binary, clients};

use crate::Failure;

/// Node reads many files before it listens.
const PATIENCE: Duration = Duration::from_secs(60);
/// In what `/proc` counts time, on every machine that Linux runs on: the interface is fixed.
const TICKS_PER_SECOND: f64 = 100.0;

/// A running server.
pub(crate) struct Subject {
    pub(crate) address: SocketAddr,
    pub(crate) id: u32,
    _running: Running,
}

enum Running {
    Server { _server: Box<Server> },
    Process { _process: Process },
}

impl Subject {
    /// Our server, with its data in this folder: the binary that users have, as it is by itself.
    pub(crate) fn tessera(data: &Path) -> Result<Self, Failure> {
        let server = Server::start_on(data, &[])?;
        Ok(Self {
            address: server.address("table").ok_or("nothing serves tables")?,
            id: server.id(),
            _running: Running::Server {
                _server: Box::new(server),
            },
        })
    }

    /// Azurite, as its own documentation starts it for tables alone.
    pub(crate) fn azurite() -> Result<Self, Failure> {
        let program = clients::node_packages("azurite")?.join("azurite/dist/src/table/main.js");
        // It tells nobody which port it got, so the port must be known before.
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let mut command = Command::new("node");
        command.arg(program);
        command.args(["--silent", "--disableTelemetry", "--tablePort"]);
        let process = Process::start(command.arg(address.port().to_string()))?;
        let deadline = Instant::now() + PATIENCE;
        while TcpStream::connect(address).is_err() {
            if Instant::now() > deadline {
                return Err(format!("Azurite does not listen:\n{}", process.printed()).into());
            }
            thread::sleep(Duration::from_millis(50));
        }
        Ok(Self::of(address, process))
    }

    /// This program again, as a bare server whose answers have so many bytes.
    pub(crate) fn echo(answer_bytes: usize) -> Result<Self, Failure> {
        let mut command = Command::new(std::env::current_exe()?);
        let process = Process::start(command.args(["--echo", &answer_bytes.to_string()]))?;
        let found = |line: &str| line.strip_prefix("echo ")?.parse().ok();
        let address = process.wait_for(found, PATIENCE);
        let address = address.ok_or("the bare server does not listen")?;
        Ok(Self::of(address, process))
    }

    fn of(address: SocketAddr, process: Process) -> Self {
        Self {
            address,
            id: process.id(),
            _running: Running::Process { _process: process },
        }
    }

    /// Seconds that it has used a processor, in all threads.
    pub(crate) fn processor_seconds(&self) -> Result<f64, Failure> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.id))?;
        // The name of the program, in parentheses, may hold spaces.
        let fields = stat.rsplit(')').next().unwrap_or_default();
        let times = fields.split_whitespace().skip(11).take(2);
        let ticks = times.map(str::parse::<f64>).sum::<Result<f64, _>>()?;
        Ok(ticks / TICKS_PER_SECOND)
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

/// Inserts per second of the core alone, for so long.
pub(crate) fn core_inserts(time: Duration) -> Result<f64, Failure> {
    let mut command = Command::new(binary::example("core_insert")?);
    let process = Process::start(command.arg(time.as_millis().to_string()))?;
    let found = |line: &str| line.strip_suffix(" inserts per second")?.parse().ok();
    let rate = process.wait_for(found, time + PATIENCE);
    rate.ok_or_else(|| format!("core_insert failed:\n{}", process.printed()).into())
}
