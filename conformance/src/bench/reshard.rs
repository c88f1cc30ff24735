//! What a resharding costs those who write meanwhile: 8 clients insert and update documents of a
//! collection before it and during it; afterwards everything that was answered must be there, once.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bson::{Document, doc};
use hdrhistogram::Histogram;
use tokio::task::JoinSet;

use crate::Failure;
use crate::bench::Scale;
use crate::bench::client::{Client, number};
use crate::bench::figures::{Figure, Limit, Measured, Report, Section};
use crate::bench::load::histogram;
use crate::bench::mongo::{COLLECTION, DATABASE};
use crate::bench::subject::Subject;

const SUITE: &str = "reshard";
const WRITERS: i64 = 8;
/// Documents in one command while the collection is filled.
const BATCH: i64 = 1_000;
/// Documents that each writer changes again and again.
const CHANGED: i64 = 250;
/// Numbers of inserted documents: far from those that are there, and those of other writers.
const INSERTED: i64 = 1_000_000_000;

pub(crate) async fn run(report: &mut Report, scale: &Scale) -> Result<(), Failure> {
    let workload = format!("{} documents, {WRITERS} clients write", scale.large_table);
    if !scale.wants(&workload) {
        return Ok(());
    }
    let subject = Subject::tessera("mongo", tempfile::tempdir()?)?;
    let documents = i64::try_from(scale.large_table)?;
    let mut client = Client::connect(subject.address).await?;
    shard(&mut client, "shardCollection", "tenant").await?;
    fill(subject.address, documents).await?;
    subject.quiet().await?;

    let before = Load::start(&subject, 0)?;
    tokio::time::sleep(scale.rounds.time * scale.rounds.count).await;
    let before = before.stop(&subject).await?;
    let during = Load::start(&subject, 1)?;
    let began = Instant::now();
    shard(&mut client, "reshardCollection", "group").await?;
    let took = began.elapsed();
    let during = during.stop(&subject).await?;

    let lost = lost(&mut client, documents, &[&before, &during]).await?;
    let p99 = |written: &Written| Measured::percentiles_ms(&written.latencies_ns)[1];
    let (calm, busy) = (p99(&before), p99(&during));
    let refused = before.refused.iter().chain(&during.refused);
    let first = refused.clone().next().cloned().unwrap_or_default();
    let none = |name, count: usize, beside: String| Figure {
        name,
        value: count.to_string(),
        beside,
        ratio: f64::from(u32::try_from(count).unwrap_or(u32::MAX)),
        limit: Some(Limit::AtMost(0.0)),
    };
    let written = before.latencies_ns.len() + during.latencies_ns.len();
    report.add(Section {
        suite: SUITE,
        name: format!("{workload}; {:.1} s", took.as_secs_f64()),
        measured: vec![
            before.measured("before", &subject)?,
            during.measured("during", &subject)?,
        ],
        figures: vec![
            Figure {
                name: "p99 of a write",
                value: format!("{busy:.2} ms"),
                beside: format!("{calm:.2} ms before"),
                ratio: busy / calm,
                limit: Some(Limit::AtMost(5.0)),
            },
            none("writes refused", refused.count(), first),
            none("writes lost or doubled", lost, format!("{written} writes")),
        ],
    })
}

/// Every document has a field for each of the two keys.
fn document(id: i64) -> Document {
    doc! {
        "_id": id,
        "tenant": format!("tenant {}", id % 5_003),
        "group": format!("group {}", id % 20_011),
        "n": 0_i64,
        "payload": "x".repeat(200),
    }
}

async fn fill(address: SocketAddr, documents: i64) -> Result<(), Failure> {
    let mut filling = JoinSet::new();
    for filler in 0..4 {
        filling.spawn(async move {
            let mut client = Client::connect(address).await?;
            for first in (filler * BATCH..documents).step_by(4 * usize::try_from(BATCH)?) {
                let last = (first + BATCH).min(documents);
                let batch: Vec<Document> = (first..last).map(document).collect();
                let insert = doc! { "insert": COLLECTION, "documents": batch, "ordered": false };
                client.changed(insert, last - first).await?;
            }
            Ok::<_, Failure>(())
        });
    }
    while let Some(filled) = filling.join_next().await {
        filled??;
    }
    Ok(())
}

/// How many documents are not as they were answered to be.
async fn lost(client: &mut Client, documents: i64, written: &[&Written]) -> Result<usize, Failure> {
    let inserted: i64 = written.iter().map(|it| it.inserted).sum();
    let count = doc! { "count": COLLECTION };
    let counted = client.run(count).await?;
    let counted = counted.get("n").and_then(number).ok_or("no count")?;
    let mut lost = usize::try_from(counted.abs_diff(documents + inserted))?;
    let mut expected: HashMap<i64, i64> = HashMap::new();
    for load in written {
        expected.extend(&load.updated);
    }
    for (id, n) in expected {
        let find = doc! { "find": COLLECTION, "filter": { "_id": id }, "limit": 2 };
        let found = client.run(find).await?;
        let found = found.get_document("cursor")?.get_array("firstBatch")?;
        let values: Vec<Option<i64>> = found
            .iter()
            .map(|it| it.as_document()?.get("n").and_then(number))
            .collect();
        lost += usize::from(values != [Some(n)]);
    }
    Ok(lost)
}

/// The writers of one phase.
struct Load {
    stop: Arc<AtomicBool>,
    running: JoinSet<Result<Written, Failure>>,
    began: Instant,
    /// What the server's processors had done then.
    processor_seconds: f64,
}

impl Load {
    fn start(subject: &Subject, phase: i64) -> Result<Self, Failure> {
        let stop = Arc::new(AtomicBool::new(false));
        let mut running = JoinSet::new();
        for writer in 0..WRITERS {
            let stop = Arc::clone(&stop);
            running.spawn(write(subject.address, (phase, writer), stop));
        }
        Ok(Self {
            stop,
            running,
            began: Instant::now(),
            processor_seconds: subject.processor_seconds()?,
        })
    }

    async fn stop(mut self, subject: &Subject) -> Result<Written, Failure> {
        self.stop.store(true, Ordering::Relaxed);
        let mut all = Written::new()?;
        while let Some(written) = self.running.join_next().await {
            let written = written??;
            all.latencies_ns.add(written.latencies_ns)?;
            all.inserted += written.inserted;
            all.updated.extend(written.updated);
            all.refused.extend(written.refused);
        }
        all.took = self.began.elapsed();
        all.processor_seconds = subject.processor_seconds()? - self.processor_seconds;
        Ok(all)
    }
}

/// What was written and answered.
struct Written {
    latencies_ns: Histogram<u64>,
    took: Duration,
    processor_seconds: f64,
    inserted: i64,
    /// What the documents that were changed hold now.
    updated: HashMap<i64, i64>,
    refused: Vec<String>,
}

impl Written {
    fn new() -> Result<Self, Failure> {
        Ok(Self {
            latencies_ns: histogram()?,
            took: Duration::ZERO,
            processor_seconds: 0.0,
            inserted: 0,
            updated: HashMap::new(),
            refused: Vec::new(),
        })
    }

    fn measured(&self, name: &'static str, subject: &Subject) -> Result<Measured, Failure> {
        let writes = f64::from(u32::try_from(self.latencies_ns.len())?);
        Ok(Measured {
            subject: name,
            per_second: writes / self.took.as_secs_f64(),
            latencies_ms: Measured::percentiles_ms(&self.latencies_ns),
            processor_us: self.processor_seconds * 1_000_000.0 / writes.max(1.0),
            memory_mb: subject.memory_mb()?,
        })
    }
}

/// Inserts one document and changes another, in turn.
async fn write(
    address: SocketAddr,
    (phase, writer): (i64, i64),
    stop: Arc<AtomicBool>,
) -> Result<Written, Failure> {
    let mut client = Client::connect(address).await?;
    let mut written = Written::new()?;
    let mut turn = 0;
    while !stop.load(Ordering::Relaxed) {
        turn += 1;
        let new = INSERTED * (1 + phase * WRITERS + writer) + turn;
        let id = writer + WRITERS * (turn % CHANGED);
        let old = document(id);
        let n = phase * INSERTED + turn;
        let commands = [
            doc! { "insert": COLLECTION, "documents": [document(new)] },
            doc! { "update": COLLECTION, "updates": [{
                "q": { "_id": id, "tenant": old.get("tenant"), "group": old.get("group") },
                "u": { "$set": { "n": n } },
            }] },
        ];
        for (place, command) in commands.into_iter().enumerate() {
            let began = Instant::now();
            let answered = client.changed(command, 1).await;
            let took = u64::try_from(began.elapsed().as_nanos())?;
            written.latencies_ns.saturating_record(took);
            match (answered, place) {
                (Ok(()), 0) => written.inserted += 1,
                (Ok(()), _) => drop(written.updated.insert(id, n)),
                (Err(refusal), _) => written.refused.push(refusal.to_string()),
            }
        }
    }
    Ok(written)
}

/// Gives the collection this shard key.
async fn shard(client: &mut Client, command: &str, field: &str) -> Result<(), Failure> {
    let name = format!("{DATABASE}.{COLLECTION}");
    let command = doc! { command: name, "key": { field: "hashed" }, "$db": "admin" };
    client.run(command).await.map(|_| ())
}
