//! How fast the Table front end is: beside Azurite, beside the core below it, beside a bare HTTP
//! server, and with a million entities in one table. Each figure stands beside its limit.
//!
//! ```text
//! cargo run --release -p tessera-conformance --example table_bench [-- --quick]
//! ```
//!
//! One client with 16 kept connections loads each server in turn with the same requests: entities
//! of 1 KB under 64 PartitionKeys, signed beforehand. Our server syncs each write to disk before it
//! answers. The best of the rounds counts, because a shared machine only ever makes one slower.
//! Pages are asked for one after the other, and their median counts. Fails if a figure misses its
//! limit. `--quick` takes a minute, with shorter rounds and fewer entities; `--gets` measures
//! only what a point get costs, `--pages` only the pages.

mod client;
mod echo;
mod pages;
mod subject;
mod template;

use std::error::Error;
use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::client::{Connection, Keys};
use crate::subject::Subject;
use crate::template::{Key, PARTITION_KEYS, Template};

/// The server's allocator, for the bare server too.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Failure = Box<dyn Error + Send + Sync>;

const TABLE: &str = "bench";
/// Entities that point gets choose from.
const STORED: u64 = 5_000;

/// How much is measured.
struct Scale {
    rounds: u32,
    round: Duration,
    small_table: u64,
    large_table: u64,
    pages: u64,
}

const FULL: Scale = Scale {
    rounds: 3,
    round: Duration::from_secs(4),
    small_table: 10_000,
    large_table: 1_000_000,
    pages: 500,
};

const QUICK: Scale = Scale {
    rounds: 2,
    round: Duration::from_millis(1_500),
    small_table: 10_000,
    large_table: 50_000,
    pages: 200,
};

/// What is measured: a profiler wants one thing at a time.
#[derive(PartialEq)]
enum Part {
    All,
    Gets,
    Pages,
}

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (scale, part) = match *arguments {
        [] => (FULL, Part::All),
        ["--quick"] => (QUICK, Part::All),
        ["--gets"] => (FULL, Part::Gets),
        ["--pages"] => (FULL, Part::Pages),
        ["--echo", bytes] => return echo::run(bytes.parse()?),
        _ => return Err("the only options are --quick, --gets and --pages".into()),
    };
    let data = tempfile::tempdir()?;
    let tessera = Subject::tessera(data.path())?;
    // One thread for the client: it must leave the processors to the servers.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let met = runtime.block_on(async {
        let mut met = true;
        if part != Part::Pages {
            fill(&tessera).await?;
            met &= measure_processor(&tessera, &scale).await?;
        }
        if part == Part::All {
            met &= measure_throughput(&tessera, &scale).await?;
        }
        if part != Part::Gets {
            met &= measure_pages(&tessera, &scale).await?;
        }
        Ok::<bool, Failure>(met)
    })?;
    if met {
        Ok(())
    } else {
        Err("a figure misses its limit".into())
    }
}

/// Stores what point gets choose from.
async fn fill(subject: &Subject) -> Result<(), Failure> {
    pages::create(subject.address, TABLE).await?;
    insert(subject, stored()).await?;
    Ok(())
}

/// What a point get costs the server.
async fn measure_processor(tessera: &Subject, scale: &Scale) -> Result<bool, Failure> {
    let answer_bytes = answer_bytes(tessera.address).await?;
    let echo = Subject::echo(answer_bytes)?;
    if answer_bytes != self::answer_bytes(echo.address).await? {
        return Err("the bare server's answers have another length than ours".into());
    }
    let (mut get_us, mut echo_us) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..scale.rounds {
        get_us = get_us.min(get(tessera, scale.round).await?.processor_us);
        echo_us = echo_us.min(get(&echo, scale.round).await?.processor_us);
    }
    let figure = Figure {
        name: "processor per point get",
        value: format!("{get_us:.1} µs"),
        beside: format!("a bare server's {echo_us:.1} µs"),
        ratio: get_us / echo_us,
        limit: Limit::AtMost(2.5),
    };
    figure.print()
}

/// Requests per second.
async fn measure_throughput(tessera: &Subject, scale: &Scale) -> Result<bool, Failure> {
    let azurite = Subject::azurite()?;
    fill(&azurite).await?;
    let inserted = Arc::new(AtomicU64::new(STORED));
    let (mut gets, mut azurite_gets) = (0.0_f64, 0.0_f64);
    let (mut inserts, mut azurite_inserts, mut core_inserts) = (0.0_f64, 0.0_f64, 0.0_f64);
    for _ in 0..scale.rounds {
        gets = gets.max(get(tessera, scale.round).await?.per_second);
        azurite_gets = azurite_gets.max(get(&azurite, scale.round).await?.per_second);
        inserts = inserts.max(insert(tessera, new(&inserted, scale.round)).await?);
        azurite_inserts = azurite_inserts.max(insert(&azurite, new(&inserted, scale.round)).await?);
        core_inserts = core_inserts.max(subject::core_inserts(scale.round)?);
    }
    let figures = [
        Figure {
            name: "point gets",
            value: format!("{gets:.0}/s"),
            beside: format!("Azurite's {azurite_gets:.0}/s"),
            ratio: gets / azurite_gets,
            limit: Limit::AtLeast(15.0),
        },
        Figure {
            name: "inserts",
            value: format!("{inserts:.0}/s"),
            beside: format!("Azurite's {azurite_inserts:.0}/s"),
            ratio: inserts / azurite_inserts,
            limit: Limit::AtLeast(5.0),
        },
        Figure {
            name: "inserts",
            value: format!("{inserts:.0}/s"),
            beside: format!("the core's {core_inserts:.0}/s"),
            ratio: inserts / core_inserts,
            limit: Limit::AtLeast(0.4),
        },
    ];
    let mut met = true;
    for figure in &figures {
        met &= figure.print()?;
    }
    Ok(met)
}

async fn measure_pages(tessera: &Subject, scale: &Scale) -> Result<bool, Failure> {
    let tables = [("small", scale.small_table), ("large", scale.large_table)];
    for (table, entities) in tables {
        let filled = pages::fill(tessera.address, table, entities).await?;
        let (seconds, rate) = (filled.took.as_secs_f64(), filled.per_second());
        let mut out = std::io::stdout();
        writeln!(
            out,
            "{entities} entities inserted by hundreds in {seconds:.1} s, {rate:.0}/s"
        )?;
    }
    tessera.quiet().await?;
    let mut met = true;
    for page in pages::PAGES {
        let tables = tables.map(|(table, _)| table);
        let [small, large] = pages::latencies(tessera.address, page, tables, scale.pages).await?;
        let figure = Figure {
            name: page.name(),
            value: format!("{large:.2} ms of {}", scale.large_table),
            beside: format!("{small:.2} ms of {}", scale.small_table),
            ratio: large / small,
            limit: Limit::AtMost(2.0),
        };
        met &= figure.print()?;
    }
    Ok(met)
}

/// One measured value beside another, and what their ratio must be.
struct Figure {
    name: &'static str,
    value: String,
    beside: String,
    ratio: f64,
    limit: Limit,
}

enum Limit {
    AtLeast(f64),
    AtMost(f64),
}

impl Figure {
    /// Prints it; answers whether it meets its limit.
    fn print(&self) -> Result<bool, Failure> {
        let Self {
            name,
            value,
            beside,
            ratio,
            limit,
        } = self;
        let (met, limit) = match limit {
            Limit::AtLeast(limit) => (ratio >= limit, format!("at least {limit}")),
            Limit::AtMost(limit) => (ratio <= limit, format!("at most {limit}")),
        };
        let verdict = if met { "" } else { "  MISSED" };
        let mut out = std::io::stdout();
        writeln!(
            out,
            "{name:<29} {value:<18} beside {beside:<26} ratio {ratio:>5.2} ({limit}){verdict}"
        )?;
        Ok(met)
    }
}

/// What point gets of one round came to.
struct Gets {
    per_second: f64,
    /// Time of the server's processors for each.
    processor_us: f64,
}

async fn get(subject: &Subject, time: Duration) -> Result<Gets, Failure> {
    let request = Template::get(subject.address, TABLE);
    let before = subject.processor_seconds()?;
    let done = client::load(subject.address, &request, any(time)).await?;
    let used = subject.processor_seconds()? - before;
    Ok(Gets {
        per_second: done.per_second(),
        processor_us: used * 1_000_000.0 / f64::from(done.requests),
    })
}

/// Inserts per second.
async fn insert(subject: &Subject, keys: Arc<Keys>) -> Result<f64, Failure> {
    let request = Template::insert(subject.address, TABLE);
    let done = client::load(subject.address, &request, keys).await?;
    Ok(done.per_second())
}

/// The entity with this number, of those that are inserted one by one.
fn entity(number: u64) -> Key {
    Key {
        partition: number % PARTITION_KEYS,
        row: number,
    }
}

/// All that point gets choose from.
fn stored() -> Arc<Keys> {
    let next = AtomicU64::new(0);
    Arc::new(move || {
        let number = next.fetch_add(1, Ordering::Relaxed);
        (number < STORED).then_some(entity(number))
    })
}

/// Stored entities at random, for so long.
fn any(time: Duration) -> Arc<Keys> {
    // Numbers that step around the ring by a golden share of it visit all in no visible order.
    const STEP: u64 = 0x9E37_79B9_7F4A_7C15;
    let deadline = Instant::now() + time;
    let state = AtomicU64::new(0);
    Arc::new(move || {
        let random = state.fetch_add(STEP, Ordering::Relaxed) >> 32;
        (Instant::now() < deadline).then_some(entity((random * STORED) >> 32))
    })
}

/// Entities that were never inserted, for so long.
fn new(inserted: &Arc<AtomicU64>, time: Duration) -> Arc<Keys> {
    let (inserted, deadline) = (Arc::clone(inserted), Instant::now() + time);
    Arc::new(move || {
        let number = inserted.fetch_add(1, Ordering::Relaxed);
        (Instant::now() < deadline).then_some(entity(number))
    })
}

/// The number of bytes in the answer to a point get.
async fn answer_bytes(address: SocketAddr) -> Result<usize, Failure> {
    let mut connection = Connection::open(address).await?;
    let mut request = Template::get(address, TABLE);
    let answer = connection.exchange(&mut request, entity(1)).await?;
    Ok(answer.head.len() + answer.body.len())
}
