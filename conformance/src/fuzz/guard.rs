//! Looks at the server while it is fuzzed: canaries, memory, log.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use bson::doc;
use tessera_conformance::Server;

use super::Bounds;
use super::client::{Api, Clients, STARTUP, packet};

/// How often a canary asks.
const PERIOD: Duration = Duration::from_millis(50);
/// After this time a canary gives up, and says so.
const GIVE_UP: Duration = Duration::from_secs(20);

/// What is known of the server's health.
pub(super) struct Guard {
    bounds: Bounds,
    addresses: Vec<(Api, SocketAddr)>,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    /// The longest that each canary waited.
    longest: Vec<(Api, Duration)>,
    memory: u64,
    found: Option<String>,
}

impl Guard {
    pub(super) fn new(server: &Server, bounds: Bounds) -> Self {
        let address = |api: &Api| Some((*api, server.address(api.name())?));
        Self {
            bounds,
            addresses: Api::ALL.iter().filter_map(address).collect(),
            seen: Mutex::default(),
        }
    }

    /// Asks one API again and again.
    pub(super) fn canary(&self, api: Api, clients: &Clients<'_>) {
        while !clients.is_over() {
            self.ask(api);
            thread::sleep(PERIOD);
        }
    }

    /// Asks each API once.
    pub(super) fn ask_all(&self) {
        Api::ALL.iter().for_each(|api| self.ask(*api));
    }

    fn ask(&self, api: Api) {
        let Some((_, address)) = self.addresses.iter().find(|(known, _)| *known == api) else {
            return;
        };
        let began = Instant::now();
        let answered = asked(api, *address);
        let took = began.elapsed();
        let Ok(mut seen) = self.seen.lock() else {
            return;
        };
        match seen.longest.iter_mut().find(|(known, _)| *known == api) {
            Some((_, longest)) => *longest = took.max(*longest),
            None => seen.longest.push((api, took)),
        }
        if let Err(error) = answered {
            let name = api.name();
            seen.found
                .get_or_insert(format!("{name}'s canary got no answer: {error}"));
        } else if took > self.bounds.patience {
            let name = api.name();
            seen.found
                .get_or_insert(format!("{name}'s canary waited {took:?}"));
        }
    }

    /// What is wrong, if anything is.
    pub(super) fn look(&self, server: &Server) -> Option<String> {
        let memory = resident(server.id());
        let Ok(mut seen) = self.seen.lock() else {
            return None;
        };
        match memory {
            None => return Some("the server is gone".to_owned()),
            Some(memory) => seen.memory = seen.memory.max(memory),
        }
        if seen.memory > self.bounds.memory {
            return Some(format!("the server takes {} MiB", seen.memory >> 20));
        }
        let output = server.output();
        let panic = output.lines().find(|line| line.contains("panicked"));
        panic.map(str::to_owned).or_else(|| seen.found.clone())
    }

    pub(super) fn summary(&self) -> String {
        let Ok(seen) = self.seen.lock() else {
            return String::new();
        };
        let longest = seen.longest.iter();
        let longest = longest.map(|(api, took)| format!("{} {took:.0?}", api.name()));
        let longest = longest.collect::<Vec<_>>().join(", ");
        format!(
            "canaries waited at most {longest}; memory {} MiB",
            seen.memory >> 20
        )
    }
}

/// Asks for little on a connection of its own.
fn asked(api: Api, address: SocketAddr) -> std::io::Result<()> {
    let mut stream = TcpStream::connect_timeout(&address, GIVE_UP)?;
    stream.set_read_timeout(Some(GIVE_UP))?;
    let http = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n";
    let request = match api {
        Api::Mongo => packet(&doc! { "ping": 1, "$db": "admin" }),
        Api::Cql => STARTUP.to_vec(),
        Api::Table | Api::Console => http.to_vec(),
    };
    stream.write_all(&request)?;
    // What any of them answers is longer.
    let mut answer = [0; 9];
    stream.read_exact(&mut answer)
}

/// The memory that a process takes, in bytes; none if it is gone.
fn resident(process: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    let kilobytes = line.split_whitespace().nth(1)?;
    kilobytes
        .parse::<u64>()
        .ok()
        .map(|kilobytes| kilobytes << 10)
}
