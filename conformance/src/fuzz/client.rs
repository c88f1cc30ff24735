//! Clients that send made-up requests.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bson::{Bson, Document};
use tessera_conformance::Server;
use tessera_conformance::made_up::dice::Dice;
use tessera_conformance::made_up::structure::Pool;
use tessera_conformance::made_up::{corpus, extended_json, mutate};

use super::recording::{self, Recording};
use crate::Failure;

/// How long an answer is waited for before more is sent.
const ANSWER: Duration = Duration::from_millis(25);
/// How long a server that is busy may take a connection, or bytes.
const BUSY: Duration = Duration::from_secs(10);
/// So much is sent on a connection at most.
const ROUNDS: usize = 40;

/// What a port speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Api {
    Mongo,
    Cql,
    Table,
    Console,
}

impl Api {
    pub(super) const ALL: &[Self] = &[Self::Mongo, Self::Cql, Self::Table, Self::Console];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Mongo => "mongo",
            Self::Cql => "cql",
            Self::Table => "table",
            Self::Console => "console",
        }
    }

    pub(super) fn number(self) -> u8 {
        match self {
            Self::Mongo => 0,
            Self::Cql => 1,
            Self::Table => 2,
            Self::Console => 3,
        }
    }

    pub(super) fn of_number(number: u8) -> Option<Self> {
        Self::ALL.iter().copied().find(|api| api.number() == number)
    }
}

macro_rules! corpus {
    ($name:literal) => {
        corpus::read(include_str!(concat!(
            "../../../fuzz/corpus/",
            $name,
            ".txt"
        )))
    };
}

/// What requests are made from.
pub(super) struct Sources {
    packets: Vec<Vec<u8>>,
    commands: Pool,
    frames: Vec<Vec<u8>>,
    statements: Vec<Vec<u8>>,
    table: Vec<Vec<u8>>,
    console: Vec<Vec<u8>>,
}

impl Sources {
    pub(super) fn new() -> Self {
        Self {
            packets: corpus!("mongo-packet"),
            commands: Pool::new(&corpus!("mongo-server")),
            frames: corpus!("cql-wire"),
            statements: corpus!("cql-statement"),
            table: corpus!("table-server"),
            console: corpus!("console-server"),
        }
    }

    /// A request, as it should be or not.
    fn make(&self, api: Api, dice: &mut Dice) -> Vec<u8> {
        let raw = dice.once_in(4);
        match api {
            Api::Mongo if raw => changed(dice, &self.packets),
            Api::Mongo => command(&self.commands.make(dice)),
            Api::Cql if raw => changed(dice, &self.frames),
            Api::Cql => query(&changed(dice, &self.statements)),
            Api::Table => changed(dice, &self.table),
            Api::Console => changed(dice, &self.console),
        }
    }
}

/// One of these as it is, or changed.
fn changed(dice: &mut Dice, seeds: &[Vec<u8>]) -> Vec<u8> {
    let mut input = dice.pick(seeds).cloned().unwrap_or_default();
    if !dice.once_in(3) {
        mutate::bytes(dice, &mut input, seeds);
    }
    input
}

/// A command that JSON stands for, which may take two seconds.
fn command(json: &[u8]) -> Vec<u8> {
    let Some(mut command) = extended_json::document(json) else {
        return Vec::new();
    };
    if !matches!(command.get("$db"), Some(Bson::String(_))) {
        command.insert("$db", "test");
    }
    command.insert("maxTimeMS", 2_000);
    packet(&command)
}

pub(super) fn packet(command: &Document) -> Vec<u8> {
    let body = extended_json::bytes(command);
    let length = i32::try_from(21 + body.len()).unwrap_or(i32::MAX);
    let numbers = [length, 1, 0, 2013, 0];
    let mut packet: Vec<u8> = numbers
        .iter()
        .flat_map(|number| number.to_le_bytes())
        .collect();
    packet.push(0);
    packet.extend_from_slice(&body);
    packet
}

fn query(statement: &[u8]) -> Vec<u8> {
    let length = |length: usize| u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes();
    let mut frame = vec![4, 0, 0, 7, 7];
    frame.extend_from_slice(&length(statement.len() + 7));
    frame.extend_from_slice(&length(statement.len()));
    frame.extend_from_slice(statement);
    frame.extend_from_slice(&[0, 1, 0]);
    frame
}

/// What opens a connection of CQL.
pub(super) const STARTUP: &[u8] =
    b"\x04\x00\x00\x01\x01\x00\x00\x00\x16\x00\x01\x00\x0bCQL_VERSION\x00\x053.0.0";

/// All clients.
pub(super) struct Clients<'a> {
    addresses: Vec<(Api, SocketAddr)>,
    sources: &'a Sources,
    seed: u64,
    is_over: AtomicBool,
    connections: AtomicU64,
    /// What each client sent on its connection.
    sent: Mutex<Vec<(u64, Recording)>>,
}

fn addresses(server: &Server) -> Vec<(Api, SocketAddr)> {
    let address = |api: &Api| Some((*api, server.address(api.name())?));
    Api::ALL.iter().filter_map(address).collect()
}

pub(super) fn connect(server: &Server, api: Api) -> Option<TcpStream> {
    let address = server.address(api.name())?;
    connect_to(address).ok()
}

fn connect_to(address: SocketAddr) -> std::io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, BUSY)?;
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(BUSY))?;
    stream.set_read_timeout(Some(ANSWER))?;
    Ok(stream)
}

impl<'a> Clients<'a> {
    pub(super) fn new(server: &Server, sources: &'a Sources, seed: u64) -> Self {
        Self {
            addresses: addresses(server),
            sources,
            seed,
            is_over: AtomicBool::new(false),
            connections: AtomicU64::new(0),
            sent: Mutex::default(),
        }
    }

    pub(super) fn stop(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    pub(super) fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }

    /// Sends requests until so many were sent by all.
    pub(super) fn work(&self, number: u64, inputs: u64, sent: &AtomicU64) {
        let mut dice = Dice::new(self.seed, number);
        while sent.load(Ordering::Relaxed) < inputs && !self.is_over() {
            let Some((api, address)) = dice.pick(&self.addresses).copied() else {
                return;
            };
            // A port may be full for a moment.
            let Ok(stream) = connect_to(address) else {
                std::thread::sleep(ANSWER);
                continue;
            };
            self.connections.fetch_add(1, Ordering::Relaxed);
            self.begin(number, api);
            self.talk((number, api), stream, &mut dice, sent);
        }
    }

    fn talk(
        &self,
        (number, api): (u64, Api),
        mut stream: TcpStream,
        dice: &mut Dice,
        sent: &AtomicU64,
    ) {
        let mut answer = vec![0; 1 << 16];
        if api == Api::Cql && stream.write_all(STARTUP).is_err() {
            return;
        }
        for _ in 0..ROUNDS {
            let count = 1 + dice.below(8);
            let inputs: Vec<Vec<u8>> = (0..count).map(|_| self.sources.make(api, dice)).collect();
            let together = inputs.concat();
            self.note(number, inputs);
            if self.is_over() || stream.write_all(&together).is_err() {
                return;
            }
            sent.fetch_add(u64::try_from(count).unwrap_or(0), Ordering::Relaxed);
            match stream.read(&mut answer) {
                Ok(0) => return,
                Ok(_) => {}
                // It waits for more, or computes: another connection is as good.
                Err(_) if dice.once_in(2) => return,
                Err(_) => {}
            }
        }
    }

    fn begin(&self, number: u64, api: Api) {
        if let Ok(mut sent) = self.sent.lock() {
            sent.retain(|(client, _)| *client != number);
            let inputs = match api {
                Api::Cql => vec![STARTUP.to_vec()],
                _ => Vec::new(),
            };
            sent.push((number, Recording { api, inputs }));
        }
    }

    fn note(&self, number: u64, inputs: Vec<Vec<u8>>) {
        if let Ok(mut sent) = self.sent.lock()
            && let Some((_, mine)) = sent.iter_mut().find(|(client, _)| *client == number)
        {
            mine.inputs.extend(inputs);
        }
    }

    /// Keeps what all clients sent on their last connections.
    pub(super) fn keep(&self, folder: &Path) -> Result<PathBuf, Failure> {
        std::fs::create_dir_all(folder)?;
        let path = folder.join(format!("connections-{}", std::process::id()));
        let sent = self
            .sent
            .lock()
            .map(|sent| sent.clone())
            .unwrap_or_default();
        let recordings: Vec<Recording> = sent.into_iter().map(|(_, recording)| recording).collect();
        std::fs::write(&path, recording::write(&recordings))?;
        Ok(path)
    }
}

/// Sends what was recorded of one connection, and reads what comes.
pub(super) fn send_all(server: &Server, recording: &Recording) {
    let Some(mut stream) = connect(server, recording.api) else {
        return;
    };
    let mut answer = vec![0; 1 << 16];
    for input in &recording.inputs {
        if stream.write_all(input).is_err() {
            return;
        }
        // What is answered does not matter here.
        let _read = stream.read(&mut answer).is_ok();
    }
}
