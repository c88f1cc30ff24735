//! A server under load, round by round, and the items that it holds.
//!
//! A process that starts with an unlucky layout of its memory is a tenth or more slower for all its
//! life. So every round has a process of its own where that is possible, on a copy of the same
//! data, and what is typical of the rounds is typical of the processes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tempfile::TempDir;

use crate::Failure;
use crate::bench::figures::Measured;
use crate::bench::folder;
use crate::bench::keys::Random;
use crate::bench::load::{self, Connection, Dialect, Done, Operation, Pace, Step, Steps};
use crate::bench::subject::Subject;

/// Items that reads and updates choose from.
pub(crate) const STORED: u64 = 10_000;
/// Items that a range has.
pub(crate) const RANGE: u64 = 100;

/// How often a server is measured, and how long each time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rounds {
    pub(crate) count: u32,
    /// Under the same load beforehand: caches fill, and code is compiled that is compiled late.
    pub(crate) settle: Duration,
    pub(crate) time: Duration,
}

/// A server with what it is asked.
pub(crate) struct Target {
    pub(crate) name: &'static str,
    pub(crate) rounds: Rounds,
    dialect: Dialect,
    process: Lifetime,
    /// What it is not asked, because nobody could wait for the answers.
    left_out: Option<Operation>,
}

/// How long a process of the server lives.
enum Lifetime {
    /// For one round.
    Round(Box<dyn Fn() -> Result<Subject, Failure>>),
    /// For all of them, because it is slow to start.
    Run(Session),
}

/// A running process that holds [`STORED`] items, and more when they are inserted.
#[derive(Clone)]
struct Session {
    subject: Arc<Subject>,
    items: Items,
}

impl Target {
    /// A server that starts anew for every round.
    pub(crate) fn started_by(
        start: impl Fn() -> Result<Subject, Failure> + 'static,
        name: &'static str,
        dialect: Dialect,
        rounds: Rounds,
    ) -> Self {
        Self {
            name,
            rounds,
            dialect,
            process: Lifetime::Round(Box::new(start)),
            left_out: None,
        }
    }

    /// A server that starts anew for every round, with a copy of what this one holds.
    pub(crate) async fn restarted(
        subject: Subject,
        start: fn(TempDir) -> Result<Subject, Failure>,
        dialect: Dialect,
        rounds: Rounds,
    ) -> Result<Self, Failure> {
        subject.quiet().await?;
        let (name, data) = (subject.name, subject.stop()?);
        let start = move || start(folder::copy(data.path())?);
        Ok(Self::started_by(start, name, dialect, rounds))
    }

    /// A server that runs on through all rounds.
    pub(crate) fn kept(subject: Subject, dialect: Dialect, rounds: Rounds) -> Self {
        Self {
            name: subject.name,
            rounds,
            dialect,
            process: Lifetime::Run(Session::new(subject)),
            left_out: None,
        }
    }

    /// The same, never asked this.
    pub(crate) fn without(self, operation: Operation) -> Self {
        Self {
            left_out: Some(operation),
            ..self
        }
    }

    /// Whether it is asked this.
    pub(crate) fn takes(&self, operation: Operation) -> bool {
        self.left_out != Some(operation)
    }

    /// Bare servers with the answers of this one: one that sends each by itself and, if several
    /// requests wait on a connection, one that sends those together whose requests came together.
    pub(crate) async fn echoes(&self, operation: Operation) -> Result<Vec<Self>, Failure> {
        let session = self.session().await?;
        let mut connection = Connection::open(session.subject.address, &self.dialect).await?;
        let item = session.items.choose(operation, &Random::default());
        let answer: Arc<[u8]> = connection.exchange(operation, item).await?.into();
        let names: &[&str] = match self.dialect.window {
            1 => &["echo"],
            _ => &["echo", "echo, batched"],
        };
        let mut echoes = Vec::new();
        for (name, together) in names.iter().copied().zip([false, true]) {
            let (wire, echoed) = (self.dialect.wire, Arc::clone(&answer));
            let start = move || Subject::echo(name, (wire, &echoed), together);
            let echo = Self::started_by(start, name, self.dialect.clone(), self.rounds);
            let session = echo.session().await?;
            let mut connection = Connection::open(session.subject.address, &echo.dialect).await?;
            if connection.exchange(operation, item).await?.len() != answer.len() {
                return Err("a bare server's answers have another length than ours".into());
            }
            echoes.push(echo);
        }
        Ok(echoes)
    }

    /// The process that is asked next.
    async fn session(&self) -> Result<Session, Failure> {
        match &self.process {
            Lifetime::Run(session) => Ok(session.clone()),
            Lifetime::Round(start) => {
                let session = Session::new(start()?);
                let address = session.subject.address;
                let mut connection = Connection::open(address, &self.dialect).await?;
                for request in &self.dialect.preparations {
                    connection.ask(request).await?;
                }
                Ok(session)
            }
        }
    }

    /// One round of these steps.
    pub(crate) async fn round(
        &self,
        pace: Pace,
        steps: impl Fn(&Items) -> Result<Arc<Steps>, Failure>,
    ) -> Result<Measured, Failure> {
        let Session { subject, items } = self.session().await?;
        let load = async |time| -> Result<Done, Failure> {
            load::load(subject.address, &self.dialect, pace, time, steps(&items)?).await
        };
        load(self.rounds.settle).await?;
        let before = subject.processor_seconds()?;
        let done = load(self.rounds.time).await?;
        let used = subject.processor_seconds()? - before;
        Ok(Measured {
            subject: self.name,
            per_second: done.per_second(),
            latencies_ms: Measured::percentiles_ms(&done.latencies_ns),
            processor_us: used * 1_000_000.0 / f64::from(done.requests),
            memory_mb: subject.memory_mb()?,
        })
    }

    /// Lets a server that compiles itself while it runs do so before anything is measured.
    pub(crate) async fn warm_up(&self, time: Duration) -> Result<(), Failure> {
        let operations = [
            Operation::Read,
            Operation::Insert,
            Operation::Update,
            Operation::Range,
        ];
        let Session { subject, items } = self.session().await?;
        for operation in operations {
            let (address, steps) = (subject.address, items.steps(operation));
            load::load(address, &self.dialect, Pace::Answers, time, steps).await?;
        }
        Ok(())
    }
}

impl Session {
    fn new(subject: Subject) -> Self {
        Self {
            subject: Arc::new(subject),
            items: Items {
                next: Arc::new(AtomicU64::new(STORED)),
            },
        }
    }
}

/// The items of one process.
#[derive(Clone)]
pub(crate) struct Items {
    /// The number of the next one to insert.
    next: Arc<AtomicU64>,
}

impl Items {
    /// How many there are, with those that are being inserted.
    pub(crate) fn count(&self) -> u64 {
        self.next.load(Ordering::Relaxed)
    }

    /// The number of one that nobody has inserted.
    pub(crate) fn insert(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Operations of one kind, for ever.
    pub(crate) fn steps(&self, operation: Operation) -> Arc<Steps> {
        let (items, random) = (self.clone(), Random::default());
        Arc::new(move || Some(step(operation, items.choose(operation, &random))))
    }

    fn choose(&self, operation: Operation, random: &Random) -> u64 {
        match operation {
            Operation::Insert => self.insert(),
            Operation::Read | Operation::Update => random.below(STORED),
            Operation::Range => random.below(STORED - RANGE),
        }
    }
}

/// Stores what reads choose from, with inserts of so many items each.
pub(crate) async fn fill(
    address: SocketAddr,
    dialect: &Dialect,
    items: u64,
) -> Result<(), Failure> {
    const LONGEST: Duration = Duration::from_secs(300);
    let next = AtomicU64::new(0);
    let steps = move || {
        let insert = next.fetch_add(1, Ordering::Relaxed);
        (insert * items < STORED).then_some(step(Operation::Insert, insert))
    };
    load::load(address, dialect, Pace::Answers, LONGEST, Arc::new(steps)).await?;
    Ok(())
}

pub(crate) fn step(operation: Operation, item: u64) -> Step {
    Step {
        operation,
        item,
        then: None,
    }
}
