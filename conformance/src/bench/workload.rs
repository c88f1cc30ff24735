//! The same requests to several servers by turns, and what they come to beside each other.

use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::Failure;
use crate::bench::Scale;
use crate::bench::figures::{Figure, Limit, Measured, Report, Section};
use crate::bench::keys::Random;
use crate::bench::load::{self, Connection, Dialect, Done, Operation, Pace, Step, Steps};
use crate::bench::subject::Subject;

/// Items that reads and updates choose from.
pub(crate) const STORED: u64 = 10_000;
/// Items that a range has.
pub(crate) const RANGE: u64 = 100;

/// A server with what it is asked, and the items that it has.
pub(crate) struct Target {
    pub(crate) subject: Subject,
    pub(crate) dialect: Dialect,
    /// The number of the next item to insert.
    next: Arc<AtomicU64>,
    /// What it is not asked, because nobody could wait for the answers.
    left_out: Option<Operation>,
    /// How it is filled, if not item by item: with inserts of so many at once.
    filling: Option<(Dialect, u64)>,
}

impl Target {
    /// A server that holds nothing yet.
    pub(crate) fn new(subject: Subject, dialect: Dialect) -> Self {
        Self {
            subject,
            dialect,
            next: Arc::default(),
            left_out: None,
            filling: None,
        }
    }

    /// The same, filled with inserts of so many items.
    pub(crate) fn filled_by(self, dialect: Dialect, items: u64) -> Self {
        Self {
            filling: Some((dialect, items)),
            ..self
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

    /// A bare server with the answers of this one.
    async fn echo(&self, operation: Operation, together: bool) -> Result<Self, Failure> {
        let mut connection = Connection::open(self.subject.address, &self.dialect).await?;
        let item = match operation {
            Operation::Insert => self.next.fetch_add(1, Ordering::Relaxed),
            Operation::Read | Operation::Update | Operation::Range => 0,
        };
        let answer = connection.exchange(operation, item).await?.to_vec();
        let echo = Self {
            subject: Subject::echo(self.dialect.wire, &answer, together)?,
            dialect: self.dialect.clone(),
            // What the bare server takes is stored nowhere.
            next: Arc::new(AtomicU64::new(STORED)),
            left_out: None,
            filling: None,
        };
        let mut connection = Connection::open(echo.subject.address, &echo.dialect).await?;
        let echoed = connection.exchange(operation, item).await?.len();
        match echoed == answer.len() {
            true => Ok(echo),
            false => Err("the bare server's answers have another length than ours".into()),
        }
    }

    /// Stores what reads choose from.
    pub(crate) async fn fill(&self) -> Result<(), Failure> {
        const LONGEST: Duration = Duration::from_secs(300);
        let filling = self.filling.as_ref();
        let (dialect, items) =
            filling.map_or((&self.dialect, 1), |(dialect, items)| (dialect, *items));
        let next = AtomicU64::new(0);
        let steps = move || {
            let insert = next.fetch_add(1, Ordering::Relaxed);
            (insert * items < STORED).then_some(step(Operation::Insert, insert))
        };
        let (address, steps) = (self.subject.address, Arc::new(steps));
        load::load(address, dialect, Pace::Answers, LONGEST, steps).await?;
        self.next.store(STORED, Ordering::Relaxed);
        Ok(())
    }

    /// Lets a server that compiles itself while it runs do so before anything is measured.
    pub(crate) async fn warm_up(&self, scale: &Scale) -> Result<(), Failure> {
        let operations = [
            Operation::Read,
            Operation::Insert,
            Operation::Update,
            Operation::Range,
        ];
        for operation in operations {
            let steps = self.steps(operation);
            self.load(Pace::Answers, scale.warm_up, steps).await?;
        }
        Ok(())
    }

    /// Operations of one kind, for ever.
    fn steps(&self, operation: Operation) -> Arc<Steps> {
        let (next, random) = (Arc::clone(&self.next), Random::default());
        Arc::new(move || {
            let item = match operation {
                Operation::Insert => next.fetch_add(1, Ordering::Relaxed),
                Operation::Read | Operation::Update => random.below(STORED),
                Operation::Range => random.below(STORED - RANGE),
            };
            Some(step(operation, item))
        })
    }

    /// The counter of its items.
    pub(crate) fn next(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.next)
    }

    async fn load(&self, pace: Pace, time: Duration, steps: Arc<Steps>) -> Result<Done, Failure> {
        load::load(self.subject.address, &self.dialect, pace, time, steps).await
    }

    /// One round of these steps.
    async fn round(
        &self,
        pace: Pace,
        time: Duration,
        steps: Arc<Steps>,
    ) -> Result<Measured, Failure> {
        let before = self.subject.processor_seconds()?;
        let done = self.load(pace, time, steps).await?;
        let used = self.subject.processor_seconds()? - before;
        Ok(Measured {
            subject: self.subject.name,
            per_second: done.per_second(),
            latencies_ms: Measured::percentiles_ms(&done.latencies_ns),
            processor_us: used * 1_000_000.0 / f64::from(done.requests),
            memory_mb: self.subject.memory_mb()?,
        })
    }
}

pub(crate) fn step(operation: Operation, item: u64) -> Step {
    Step {
        operation,
        item,
        then: None,
    }
}

/// What is asked, and what it must come to.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) operation: Operation,
    /// Of our processor time beside the bare server's, and of our throughput beside its.
    pub(crate) echo: [Option<Limit>; 2],
    /// Of our throughput beside the peer's.
    pub(crate) peer: Option<Limit>,
}

/// Each row as fast as answers come, beside a bare server and the peer; the first one then at a
/// fixed rate too.
pub(crate) async fn points(
    report: &mut Report,
    suite: &'static str,
    (ours, peer): (&Target, Option<&Target>),
    rows: &[Row],
    scale: &Scale,
) -> Result<(), Failure> {
    let mut at_fixed_rate = scale.wants(FIXED_RATE);
    for row in rows {
        if !scale.wants(row.name) && !at_fixed_rate {
            continue;
        }
        let echo = ours.echo(row.operation, false).await?;
        // Only where several requests wait on a connection is there anything to answer together.
        let batched = match ours.dialect.window {
            1 => None,
            _ => Some(ours.echo(row.operation, true).await?),
        };
        let peer = peer.filter(|peer| peer.takes(row.operation));
        let targets = [ours, &echo].into_iter().chain(peer);
        let mut targets: Vec<&Target> = targets.chain(&batched).collect();
        let steps = |target: &Target| Ok(target.steps(row.operation));
        let closed = by_turns(&targets, Pace::Answers, scale, steps).await?;
        report.add(Section {
            suite,
            name: row.name.to_owned(),
            figures: figures(&closed, row, peer),
            measured: closed.clone(),
        })?;
        if std::mem::take(&mut at_fixed_rate) {
            targets.truncate(targets.len() - batched.iter().len());
            report.add(open(suite, &targets, row, (&closed, scale)).await?)?;
        }
    }
    Ok(())
}

const FIXED_RATE: &str = "at a fixed rate";

/// At the rate of a server that is so many times slower than ours, nobody would be busy.
const MUCH_SLOWER: f64 = 50.0;

/// At half of what the slowest can do: all servers do the same work in the same time, so that none
/// is cheaper because it is busier.
async fn open(
    suite: &'static str,
    targets: &[&Target],
    row: &Row,
    (closed, scale): (&[Measured], &Scale),
) -> Result<Section, Failure> {
    let ours = closed.first().map_or(0.0, |ours| ours.per_second);
    let all = targets.iter().copied().zip(closed.iter().cloned());
    let (targets, closed): (Vec<_>, Vec<_>) = all
        .filter(|(_, measured)| measured.per_second * MUCH_SLOWER >= ours)
        .unzip();
    let slowest = closed.iter().map(|measured| measured.per_second);
    let rate = slowest.fold(f64::INFINITY, f64::min) / 2.0;
    let steps = |target: &Target| Ok(target.steps(row.operation));
    let measured = by_turns(&targets, Pace::PerSecond(rate), scale, steps).await?;
    let mut figures = Vec::new();
    for (name, measured) in [
        ("processor per request", measured.as_slice()),
        ("  as fast as it can", closed.as_slice()),
    ] {
        if let [ours, others @ ..] = measured {
            let shown = others.iter().take(targets.len() - 1);
            figures.extend(shown.map(|other| Figure {
                name,
                ..processor(ours, other, None)
            }));
        }
    }
    Ok(Section {
        suite,
        name: format!("{}, {FIXED_RATE} of {rate:.0}/s", row.name),
        measured,
        figures,
    })
}

/// The same steps on each of the servers in turn, several times: what is typical of each. A shared
/// machine is slower at times, and so it is for all of them.
pub(crate) async fn by_turns(
    targets: &[&Target],
    pace: Pace,
    scale: &Scale,
    steps: impl Fn(&Target) -> Result<Arc<Steps>, Failure>,
) -> Result<Vec<Measured>, Failure> {
    let mut rounds = vec![Vec::new(); targets.len()];
    for _ in 0..scale.rounds {
        for (target, rounds) in targets.iter().zip(&mut rounds) {
            rounds.push(target.round(pace, scale.round, steps(target)?).await?);
        }
    }
    Ok(rounds
        .iter()
        .filter_map(|rounds| Measured::typical(rounds))
        .collect())
}

/// Ours, which are first, beside the bare server's, which are second, and all others.
fn figures(measured: &[Measured], row: &Row, peer: Option<&Target>) -> Vec<Figure> {
    let [ours, others @ ..] = measured else {
        return Vec::new();
    };
    let mut figures = Vec::new();
    for (place, other) in others.iter().enumerate() {
        let is_peer = peer.is_some_and(|peer| peer.subject.name == other.subject);
        let [processor_limit, throughput_limit] = match (place, is_peer) {
            (0, _) => row.echo,
            (_, true) => [None, row.peer],
            (_, false) => [None, None],
        };
        figures.push(processor(ours, other, processor_limit));
        figures.push(throughput(ours, other, throughput_limit));
    }
    figures
}

/// The peer if it can be had; the others are measured without it.
pub(crate) fn if_there(
    suite: &str,
    name: &str,
    peer: Result<Target, Failure>,
) -> Result<Option<Target>, Failure> {
    match peer {
        Ok(peer) => Ok(Some(peer)),
        Err(why) => {
            writeln!(
                std::io::stdout(),
                "{suite}: without {name} beside it: {why}"
            )?;
            Ok(None)
        }
    }
}

pub(crate) fn processor(ours: &Measured, other: &Measured, limit: Option<Limit>) -> Figure {
    Figure {
        name: "processor per request",
        value: format!("{:.1} µs", ours.processor_us),
        beside: format!("{}'s {:.1} µs", other.subject, other.processor_us),
        ratio: ours.processor_us / other.processor_us,
        limit,
    }
}

pub(crate) fn throughput(ours: &Measured, other: &Measured, limit: Option<Limit>) -> Figure {
    Figure {
        name: "throughput",
        value: format!("{:.0}/s", ours.per_second),
        beside: format!("{}'s {:.0}/s", other.subject, other.per_second),
        ratio: ours.per_second / other.per_second,
        limit,
    }
}
