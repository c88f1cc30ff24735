//! A load on one server over 16 connections: as fast as answers come, or at a fixed rate.
//!
//! At a fixed rate every request has a moment at which it is due, and its latency counts from
//! there, also if it had to wait for the answers before it: a server that stalls is not asked less
//! often, and what the stall costs is not left out (no coordinated omission).

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::Failure;
use crate::bench::template::{Key, Sender, Template};
use crate::bench::wire::Wire;

pub(crate) const CONNECTIONS: u32 = 16;

/// A server that does not answer within this time is given up.
const PATIENCE: Duration = Duration::from_secs(60);
/// Latencies are kept in nanoseconds with three digits.
const LONGEST_NS: u64 = 60_000_000_000;

/// What is asked of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Read,
    Insert,
    Update,
    Range,
}

/// How a database is spoken to, with everything written beforehand.
#[derive(Clone, Debug)]
pub(crate) struct Dialect {
    pub(crate) wire: Wire,
    /// Requests that wait for answers on one connection.
    pub(crate) window: usize,
    /// What a connection begins with, if it must.
    pub(crate) greeting: Vec<u8>,
    /// What a process must have been asked once before everything else.
    pub(crate) preparations: Vec<Vec<u8>>,
    pub(crate) read: Template,
    pub(crate) insert: Template,
    pub(crate) update: Template,
    pub(crate) range: Template,
    /// The keys of the item with this number.
    pub(crate) key: fn(u64) -> Key,
}

impl Dialect {
    pub(crate) fn template(&mut self, operation: Operation) -> &mut Template {
        match operation {
            Operation::Read => &mut self.read,
            Operation::Insert => &mut self.insert,
            Operation::Update => &mut self.update,
            Operation::Range => &mut self.range,
        }
    }
}

/// One request, and the one that follows its answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) operation: Operation,
    pub(crate) item: u64,
    pub(crate) then: Option<Operation>,
}

/// The next step; none when it is enough.
pub(crate) type Steps = dyn Fn() -> Option<Step> + Send + Sync;

/// When requests are sent.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pace {
    /// When the answer before is there: a closed loop.
    Answers,
    /// So many each second in all, whatever becomes of them: an open loop.
    PerSecond(f64),
}

/// What a load amounted to.
#[derive(Clone, Debug)]
pub(crate) struct Done {
    pub(crate) requests: u32,
    pub(crate) took: Duration,
    pub(crate) latencies_ns: Histogram<u64>,
}

impl Done {
    pub(crate) fn per_second(&self) -> f64 {
        f64::from(self.requests) / self.took.as_secs_f64()
    }
}

/// Sends steps for so long, or until there are none.
pub(crate) async fn load(
    address: SocketAddr,
    dialect: &Dialect,
    pace: Pace,
    time: Duration,
    steps: Arc<Steps>,
) -> Result<Done, Failure> {
    let mut connections = Vec::new();
    for _ in 0..CONNECTIONS {
        connections.push(Connection::open(address, dialect).await?);
    }
    let start = Instant::now();
    let mut running = JoinSet::new();
    for (number, connection) in (0..).zip(connections) {
        let worker = Worker {
            connection,
            steps: Arc::clone(&steps),
            due: Due::new(pace, start, number),
            end: start + time,
            latencies_ns: histogram()?,
            requests: 0,
        };
        running.spawn(tokio::time::timeout(time + PATIENCE, worker.run()));
    }
    let (mut requests, mut latencies_ns) = (0, histogram()?);
    while let Some(ended) = running.join_next().await {
        let (count, latencies) = ended?.map_err(|_| "the server does not answer")??;
        requests += count;
        latencies_ns.add(latencies)?;
    }
    Ok(Done {
        requests,
        took: start.elapsed(),
        latencies_ns,
    })
}

pub(crate) fn histogram() -> Result<Histogram<u64>, Failure> {
    Ok(Histogram::new_with_max(LONGEST_NS, 3)?)
}

/// When the next request of a connection is due.
struct Due {
    next: Instant,
    /// None: at once.
    interval: Option<Duration>,
}

impl Due {
    /// The connections take turns.
    fn new(pace: Pace, start: Instant, number: u32) -> Self {
        match pace {
            Pace::Answers => Self {
                next: start,
                interval: None,
            },
            Pace::PerSecond(rate) => {
                let turn = Duration::from_secs_f64(1.0 / rate);
                Self {
                    next: start + turn * number,
                    interval: Some(turn * CONNECTIONS),
                }
            }
        }
    }

    /// When the request that is sent now should have been sent.
    fn take(&mut self) -> Instant {
        match self.interval {
            None => Instant::now(),
            Some(interval) => {
                let due = self.next;
                self.next = due + interval;
                due
            }
        }
    }

    /// Until when nothing more is to be sent.
    fn wait(&self) -> Option<Instant> {
        self.interval.map(|_| self.next)
    }
}

/// A request that waits for its answer.
#[derive(Clone, Copy)]
struct Waiting {
    step: Step,
    since: Instant,
}

/// A connection that is kept, with its own copy of the requests.
pub(crate) struct Connection {
    stream: TcpStream,
    dialect: Dialect,
    sender: Sender,
    waiting: Vec<Option<Waiting>>,
    free: Vec<usize>,
    sending: Vec<u8>,
    received: Vec<u8>,
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr, dialect: &Dialect) -> Result<Self, Failure> {
        static OPENED: AtomicU64 = AtomicU64::new(1);
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let mut connection = Self {
            stream,
            dialect: dialect.clone(),
            sender: Sender {
                connection: OPENED.fetch_add(1, Ordering::Relaxed),
                ..Sender::default()
            },
            waiting: vec![None; dialect.window],
            free: (0..dialect.window).collect(),
            sending: Vec::new(),
            received: Vec::with_capacity(256 * 1024),
        };
        if !dialect.greeting.is_empty() {
            connection.ask(&dialect.greeting).await?;
            connection.received.clear();
        }
        Ok(connection)
    }

    /// Sends these bytes and waits for one answer.
    pub(crate) async fn ask(&mut self, request: &[u8]) -> Result<&[u8], Failure> {
        self.stream.write_all(request).await?;
        self.received.clear();
        while self.dialect.wire.message(&self.received).is_none() {
            self.receive().await?;
        }
        Ok(&self.received)
    }

    /// Sends one request of its own and waits for its answer, which must be as expected.
    pub(crate) async fn exchange(
        &mut self,
        operation: Operation,
        item: u64,
    ) -> Result<&[u8], Failure> {
        self.sender.sequence += 1;
        let (key, sender) = ((self.dialect.key)(item), self.sender);
        let template = self.dialect.template(operation);
        let (request, expected) = (template.fill(key, sender).to_vec(), template.expected);
        let answer = self.ask(&request).await?;
        match expected(answer) {
            true => Ok(answer),
            false => Err(unexpected(answer)),
        }
    }

    async fn receive(&mut self) -> Result<(), Failure> {
        match self.stream.read_buf(&mut self.received).await? {
            0 => Err("the server closed a connection".into()),
            _ => Ok(()),
        }
    }

    /// Writes a request that is sent with the next others.
    fn put(&mut self, slot: usize, waiting: Waiting) -> Result<(), Failure> {
        self.sender.sequence += 1;
        self.sender.slot = u64::try_from(slot)?;
        let key = (self.dialect.key)(waiting.step.item);
        let sender = self.sender;
        let request = self.dialect.template(waiting.step.operation);
        self.sending.extend_from_slice(request.fill(key, sender));
        if let Some(place) = self.waiting.get_mut(slot) {
            *place = Some(waiting);
        }
        Ok(())
    }

    async fn send(&mut self) -> Result<(), Failure> {
        if !self.sending.is_empty() {
            self.stream.write_all(&self.sending).await?;
            self.sending.clear();
        }
        Ok(())
    }

    /// Takes the answers that are there; calls `ended` for each step that needs no other request.
    fn answers(&mut self, mut ended: impl FnMut(Waiting)) -> Result<(), Failure> {
        let received = std::mem::take(&mut self.received);
        let mut rest = received.as_slice();
        while let Some(length) = self.dialect.wire.message(rest) {
            let (answer, behind) = rest.split_at_checked(length).unwrap_or_default();
            rest = behind;
            let slot = self.dialect.wire.slot(answer).unwrap_or(usize::MAX);
            let waiting = self.waiting.get_mut(slot).and_then(Option::take);
            let waiting = waiting.ok_or("an answer to what nobody asked")?;
            let Step {
                operation, then, ..
            } = waiting.step;
            if !(self.dialect.template(operation).expected)(answer) {
                return Err(unexpected(answer));
            }
            match then {
                None => {
                    self.free.push(slot);
                    ended(waiting);
                }
                Some(operation) => {
                    let step = Step {
                        operation,
                        then: None,
                        ..waiting.step
                    };
                    self.put(slot, Waiting { step, ..waiting })?;
                }
            }
        }
        let kept = received.len() - rest.len();
        self.received = received;
        self.received.drain(..kept);
        Ok(())
    }
}

pub(crate) fn unexpected(answer: &[u8]) -> Failure {
    let text = String::from_utf8_lossy(answer.get(..500).unwrap_or(answer));
    format!("unexpected answer: {text:?}").into()
}

/// One connection under load.
struct Worker {
    connection: Connection,
    steps: Arc<Steps>,
    due: Due,
    end: Instant,
    latencies_ns: Histogram<u64>,
    requests: u32,
}

impl Worker {
    async fn run(mut self) -> Result<(u32, Histogram<u64>), Failure> {
        let mut more = true;
        loop {
            more = more && self.put_due()?;
            self.connection.send().await?;
            let idle = self.connection.free.len() == self.connection.waiting.len();
            if idle && !more {
                return Ok((self.requests, self.latencies_ns));
            }
            match self.due.wait() {
                Some(due) if more && idle => tokio::time::sleep_until(due.into()).await,
                Some(due) if more && !self.connection.free.is_empty() => {
                    tokio::select! {
                        received = self.connection.receive() => received?,
                        () = tokio::time::sleep_until(due.into()) => {}
                    }
                }
                _ => self.connection.receive().await?,
            }
            self.take_answers()?;
        }
    }

    /// Writes what is due. Whether there will be more.
    fn put_due(&mut self) -> Result<bool, Failure> {
        while let Some(slot) = self.connection.free.last().copied() {
            let due = self.due.wait();
            if due.unwrap_or_else(Instant::now) >= self.end {
                return Ok(false);
            }
            if due.is_some_and(|due| due > Instant::now()) {
                return Ok(true);
            }
            let Some(step) = (self.steps)() else {
                return Ok(false);
            };
            self.connection.free.pop();
            let since = self.due.take();
            self.connection.put(slot, Waiting { step, since })?;
        }
        Ok(true)
    }

    fn take_answers(&mut self) -> Result<(), Failure> {
        let (latencies_ns, requests) = (&mut self.latencies_ns, &mut self.requests);
        self.connection.answers(|waiting| {
            let latency = u64::try_from(waiting.since.elapsed().as_nanos()).unwrap_or(u64::MAX);
            latencies_ns.saturating_record(latency);
            *requests += 1;
        })
    }
}
