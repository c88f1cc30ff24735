//! What insight costs: the instructions of a point read through the core, with and without noting
//! where its charge falls.
//!
//! ```text
//! cargo run --release -p tessera-storage --example insight_cost
//! ```
//!
//! Runs itself under valgrind, which counts; a difference of two lengths leaves out the start.
//! `scattered` reads another key each time, the costliest case for the sketch of hot keys; `one key`
//! reads the same logical key. A request costs a client's server more than a read through the core:
//! most of it is the protocol, so the part of a whole request is smaller than what is printed.

use std::error::Error;
use std::hint::black_box;
use std::io::Write as _;
use std::process::{Command, ExitCode, Stdio};

use tessera_core::Store;
use tessera_core::definition::NewContainer;
use tessera_core::item::NewItem;
use tessera_core::locator::Locator;
use tessera_core::name::ContainerName;
use tessera_core::store::StoreOptions;
use tessera_storage::{Durability, EngineConfig};

type Failure = Box<dyn Error + Send + Sync>;

const ITEMS: u64 = 2_000;
const BODY_BYTES: usize = 1_000;
const MEMORY_BYTES: usize = 64 << 20;
const SHORT: u64 = 2_000;
const LONG: u64 = 12_000;
/// The most that insight may add to the instructions of a point read.
const MAX_PART: f64 = 0.03;

fn main() -> Result<ExitCode, Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [reads, scattered, insight] = arguments.as_slice() {
        let options = StoreOptions {
            insight: insight.parse()?,
            ..StoreOptions::default()
        };
        let runtime = tokio::runtime::Builder::new_current_thread().build()?;
        runtime.block_on(read(reads.parse()?, scattered.parse()?, options))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut out = std::io::stdout();
    let mut is_good = true;
    for (name, scattered) in [("scattered", true), ("one key", false)] {
        let without = per_read(scattered, false)?;
        let with = per_read(scattered, true)?;
        let part = with / without - 1.0;
        is_good &= part < MAX_PART;
        writeln!(
            out,
            "{name:10} {without:8.0} instructions without, {with:8.0} with: {:.2} % (under {} %)",
            part * 100.0,
            MAX_PART * 100.0
        )?;
    }
    Ok(ExitCode::from(u8::from(!is_good)))
}

/// Instructions of one read.
#[expect(clippy::cast_precision_loss, reason = "counts far below 2^53")]
fn per_read(scattered: bool, insight: bool) -> Result<f64, Failure> {
    let short = instructions(SHORT, scattered, insight)?;
    let long = instructions(LONG, scattered, insight)?;
    Ok(long.saturating_sub(short) as f64 / (LONG - SHORT) as f64)
}

/// Instructions of a run of this program.
fn instructions(reads: u64, scattered: bool, insight: bool) -> Result<u64, Failure> {
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
    valgrind.arg(std::env::current_exe()?);
    valgrind.args([
        reads.to_string(),
        scattered.to_string(),
        insight.to_string(),
    ]);
    let output = valgrind.stdin(Stdio::null()).output()?;
    let report = String::from_utf8_lossy(&output.stderr);
    let counted = report
        .lines()
        .find_map(|line| line.split_once("Collected :"));
    let counted = counted.and_then(|(_, number)| number.trim().parse().ok());
    counted.ok_or_else(|| format!("valgrind did not count: {report}").into())
}

async fn read(reads: u64, scattered: bool, options: StoreOptions) -> Result<(), Failure> {
    let folder = tempfile::tempdir()?;
    let engine = tessera_storage::open(&EngineConfig::Rocks {
        path: folder.path().to_owned(),
        durability: Durability::Periodic,
        memory_bytes: MEMORY_BYTES,
    })?;
    let store = Store::open(engine, options).await?;
    let name = ContainerName::new("cost", "db", "c");
    let new = NewContainer::default();
    store.create_container(&name, &new).await?;
    let mut transaction = store.begin().await?;
    let container = transaction.container(&name).await?;
    let place = |number: u64| {
        let key = if scattered { number } else { 0 };
        Locator::murmur3(key.to_be_bytes().to_vec(), number.to_be_bytes().to_vec())
    };
    for number in 0..ITEMS {
        let item = NewItem::new(place(number), vec![b'.'; BODY_BYTES]);
        transaction.insert(&container, item).await?;
    }
    transaction.commit().await?;
    for number in 0..reads {
        let mut transaction = store.begin().await?;
        let container = transaction.container(&name).await?;
        let found = transaction.read(&container, &place(number % ITEMS)).await?;
        black_box(found.ok_or("an item is missing")?);
    }
    store.engine().close().await?;
    Ok(())
}
