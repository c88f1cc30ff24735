//! What a change stream costs those who write, and what a thousand of them cost that wait.
//!
//! Two servers take the same inserts of documents of 1 KiB in turn: one whose collection nobody has
//! ever followed, and one with a client that follows it and reads every event meanwhile.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bson::{Document, doc};
use tokio::task::{JoinHandle, JoinSet};

use crate::Failure;
use crate::bench::Scale;
use crate::bench::client::Client;
use crate::bench::figures::{Figure, Limit, Measured, Report, Section, median};
use crate::bench::load::{self, Operation, Pace, Step};
use crate::bench::mongo::{self, COLLECTION};
use crate::bench::subject::Subject;

const SUITE: &str = "feed";
/// How many follow and hear nothing.
const IDLE: u32 = 1_000;
/// For how long they are watched.
const IDLE_TIME: Duration = Duration::from_secs(10);
/// How long an answer waits for an event: what drivers ask for by themselves.
const AWAIT_MS: i64 = 1_000;

pub(crate) async fn run(report: &mut Report, scale: &Scale) -> Result<(), Failure> {
    let inserts = "insertOne of 1 KiB, nobody follows and one does";
    if scale.wants(inserts) {
        report.add(inserting(inserts, scale).await?)?;
    }
    let idle = "1,000 change streams that wait";
    if scale.wants(idle) {
        report.add(waiting(idle).await?)?;
    }
    Ok(())
}

/// What rounds of inserts on one server came to.
struct Inserted {
    subject: Subject,
    rounds: Vec<Measured>,
    bytes: Vec<f64>,
    next: Arc<AtomicU64>,
}

impl Inserted {
    fn start(name: &'static str) -> Result<Self, Failure> {
        let mut subject = Subject::tessera("mongo", tempfile::tempdir()?)?;
        subject.name = name;
        Ok(Self {
            subject,
            rounds: Vec::new(),
            bytes: Vec::new(),
            next: Arc::default(),
        })
    }

    /// Inserts for a while. The first round fills caches and counts for nothing.
    async fn round(&mut self, time: Duration, counts: bool) -> Result<(), Failure> {
        self.subject.quiet().await?;
        let next = Arc::clone(&self.next);
        let steps = move || {
            Some(Step {
                operation: Operation::Insert,
                item: next.fetch_add(1, Ordering::Relaxed),
                then: None,
            })
        };
        let before = (
            self.subject.processor_seconds()?,
            self.subject.written_bytes()?,
        );
        let dialect = mongo::dialect()?;
        let address = self.subject.address;
        let done = load::load(address, &dialect, Pace::Answers, time, Arc::new(steps)).await?;
        // What is flushed later was written for these inserts as well.
        self.subject.quiet().await?;
        if counts {
            let requests = f64::from(done.requests);
            let seconds = self.subject.processor_seconds()? - before.0;
            self.bytes
                .push((self.subject.written_bytes()? - before.1) / requests);
            self.rounds.push(Measured {
                subject: self.subject.name,
                per_second: done.per_second(),
                latencies_ms: Measured::percentiles_ms(&done.latencies_ns),
                processor_us: seconds * 1_000_000.0 / requests,
                memory_mb: self.subject.memory_mb()?,
            });
        }
        Ok(())
    }

    fn typical(&self) -> Result<(Measured, f64), Failure> {
        let measured = Measured::typical(&self.rounds).ok_or("nothing was measured")?;
        Ok((measured, median(self.bytes.iter().copied())))
    }
}

async fn inserting(name: &str, scale: &Scale) -> Result<Section, Failure> {
    let (mut off, mut on) = (
        Inserted::start("not followed")?,
        Inserted::start("followed")?,
    );
    let watcher = Watcher::start(on.subject.address).await?;
    for round in 0..=scale.rounds.count {
        for inserted in [&mut off, &mut on] {
            inserted.round(scale.rounds.time, round > 0).await?;
        }
    }
    let heard = watcher.stop().await?;
    let wrote = on.next.load(Ordering::Relaxed);
    let ((off, off_bytes), (on, on_bytes)) = (off.typical()?, on.typical()?);
    let figure = |name, (value, beside): (String, String), ratio, limit| Figure {
        name,
        value,
        beside,
        ratio,
        limit,
    };
    let [rate, time] = [
        (on.per_second, off.per_second),
        (on.processor_us, off.processor_us),
    ];
    let shown = |(on, off): (f64, f64), unit: &str| {
        (
            format!("{on:.0}{unit}"),
            format!("{off:.0}{unit} not followed"),
        )
    };
    let missed = wrote.abs_diff(heard);
    let counted = (missed.to_string(), format!("{wrote} inserts"));
    #[expect(clippy::cast_precision_loss, reason = "zero, or too many")]
    let figures = vec![
        figure(
            "time of an insert",
            shown(rate, "/s"),
            rate.1 / rate.0,
            Some(Limit::AtMost(1.25)),
        ),
        figure(
            "processor time",
            shown(time, " us"),
            time.0 / time.1,
            Some(Limit::AtMost(1.25)),
        ),
        figure(
            "bytes to the disk",
            shown((on_bytes, off_bytes), " B"),
            on_bytes / off_bytes,
            None,
        ),
        figure(
            "events missed",
            counted,
            missed as f64,
            Some(Limit::AtMost(0.0)),
        ),
    ];
    Ok(Section {
        suite: SUITE,
        name: name.to_owned(),
        measured: vec![off, on],
        figures,
    })
}

/// A client that follows the collection, and counts what it hears.
struct Watcher {
    stop: Arc<AtomicBool>,
    running: JoinHandle<Result<u64, Failure>>,
}

impl Watcher {
    async fn start(address: SocketAddr) -> Result<Self, Failure> {
        let mut stream = Stream::open(address).await?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopping = Arc::clone(&stop);
        let running = tokio::spawn(async move {
            let mut heard = 0;
            loop {
                let is_last = stopping.load(Ordering::Relaxed);
                let events = stream.next().await?;
                heard += events;
                if is_last && events == 0 {
                    return Ok(heard);
                }
            }
        });
        Ok(Self { stop, running })
    }

    /// How many events it heard, to the last.
    async fn stop(self) -> Result<u64, Failure> {
        self.stop.store(true, Ordering::Relaxed);
        self.running.await?
    }
}

/// A change stream on a connection of its own.
struct Stream {
    client: Client,
    cursor: i64,
}

impl Stream {
    async fn open(address: SocketAddr) -> Result<Self, Failure> {
        let mut client = Client::connect(address).await?;
        let pipeline = [doc! { "$changeStream": {} }];
        let asked = doc! { "aggregate": COLLECTION, "pipeline": pipeline, "cursor": {} };
        let answer = client.run(asked).await?;
        let cursor = answer.get_document("cursor")?.get_i64("id")?;
        Ok(Self { client, cursor })
    }

    /// How many events the next answer has.
    async fn next(&mut self) -> Result<u64, Failure> {
        let more = doc! {
            "getMore": self.cursor, "collection": COLLECTION, "maxTimeMS": AWAIT_MS,
        };
        let answer: Document = self.client.run(more).await?;
        let events = answer.get_document("cursor")?.get_array("nextBatch")?;
        Ok(u64::try_from(events.len())?)
    }
}

async fn waiting(name: &str) -> Result<Section, Failure> {
    let subject = Subject::tessera("mongo", tempfile::tempdir()?)?;
    // The first stream turns the feed on, and everything that is made once is there.
    Stream::open(subject.address).await?.next().await?;
    subject.quiet().await?;
    let alone = subject.memory_mb()?;
    let mut streams = JoinSet::new();
    for _ in 0..IDLE {
        let mut stream = Stream::open(subject.address).await?;
        streams.spawn(async move {
            loop {
                if let Err(failure) = stream.next().await {
                    return failure.to_string();
                }
            }
        });
    }
    let before = subject.processor_seconds()?;
    let ended = tokio::time::timeout(IDLE_TIME, streams.join_next()).await;
    if let Ok(Some(failure)) = ended {
        return Err(failure?.into());
    }
    let seconds = subject.processor_seconds()? - before;
    let memory = subject.memory_mb()? - alone;
    Ok(Section {
        suite: SUITE,
        name: name.to_owned(),
        measured: Vec::new(),
        figures: vec![
            Figure {
                name: "memory of all",
                value: format!("{memory:.1} MB"),
                beside: format!("{alone:.1} MB without them"),
                ratio: memory,
                limit: Some(Limit::AtMost(50.0)),
            },
            Figure {
                name: "processor time",
                value: format!("{seconds:.2} s"),
                beside: format!("{:.0} s", IDLE_TIME.as_secs_f64()),
                ratio: seconds / IDLE_TIME.as_secs_f64(),
                limit: None,
            },
        ],
    })
}
