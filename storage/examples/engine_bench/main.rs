//! How much of RocksDB's own speed is left above it, as ratios taken in one run, each beside its
//! limit.
//!
//! ```text
//! cargo run --release -p tessera-storage --example engine_bench -- [--items N] [--rounds N]
//! ```
//!
//! Two workloads: 32 tasks that each write 1 KiB items with a sync, and 2 threads that read 1 KiB
//! items at random from a million in memory. Each runs on several [`subjects`]: RocksDB alone with
//! the engine's own options and the same grouping of writes, and what is built on it. Short
//! [`rounds`] alternate between subjects, in several processes one after another: how fast a
//! process reads depends on where its memory happens to lie, by a quarter and for all its life.
//! The median of the processes' medians counts. A third workload has 32 tasks increment one counter
//! through transactions of the core. Fails if a figure misses its limit.

mod data;
mod rounds;
mod subjects;

use std::error::Error;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tessera_storage::Durability;
use tokio::runtime::Runtime;

use crate::rounds::{Rounds, Typical, Workload, median};
use crate::subjects::{OverCore, Subjects};

/// The server's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Failure = Box<dyn Error + Send + Sync>;

const COUNTING: Duration = Duration::from_millis(1_500);
const COUNTERS: usize = 32;
const MIN_RATIO: f64 = 0.7;
const MIN_INCREMENTS: f64 = 5_000.0;

/// What the command line asks for: how much is measured, and in a process that only measures, what
/// and where.
struct Arguments {
    items: u64,
    rounds: u32,
    measure: Option<Workload>,
    folder: PathBuf,
    process: u64,
}

impl Arguments {
    fn read() -> Result<Self, Failure> {
        let mut read = Self {
            items: 1_000_000,
            rounds: 4,
            measure: None,
            folder: PathBuf::new(),
            process: 0,
        };
        let mut arguments = std::env::args().skip(1);
        while let Some(name) = arguments.next() {
            let value = arguments.next().ok_or("a value is missing")?;
            match name.as_str() {
                "--items" => read.items = value.parse()?,
                "--rounds" => read.rounds = value.parse()?,
                "--measure" => read.measure = Some(value.parse()?),
                "--folder" => read.folder = value.into(),
                "--process" => read.process = value.parse()?,
                _ => return Err(format!("unknown argument {name}").into()),
            }
        }
        Ok(read)
    }
}

fn main() -> Result<(), Failure> {
    let arguments = Arguments::read()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .build()?;
    if let Some(workload) = arguments.measure {
        let rounds = Rounds {
            items: arguments.items,
            rounds: workload.rounds(arguments.rounds),
            process: arguments.process,
        };
        return runtime.block_on(async {
            let subjects = subjects::open(&arguments.folder).await?;
            for typical in rounds.measure(workload, &subjects).await? {
                writeln!(std::io::stdout(), "{typical}")?;
            }
            Ok(())
        });
    }
    let folder = tempfile::tempdir()?;
    prepare(&runtime, folder.path(), arguments.items)?;
    let mut met = runtime.block_on(count(folder.path()))?;
    for workload in [Workload::Get, Workload::Put] {
        met &= compare(workload, folder.path(), &arguments)?;
    }
    writeln!(
        std::io::stdout(),
        "the core's ratios must be at least {MIN_RATIO}"
    )?;
    match met {
        true => Ok(()),
        false => Err("a figure misses its limit".into()),
    }
}

fn prepare(runtime: &Runtime, folder: &Path, items: u64) -> Result<(), Failure> {
    let start = Instant::now();
    runtime.block_on(subjects::load(folder, items))?;
    let seconds = start.elapsed().as_secs_f64();
    writeln!(
        std::io::stdout(),
        "{items} items written twice in {seconds:.1} s"
    )?;
    Ok(())
}

/// Runs a workload in one process after another and prints what is typical of each subject; answers
/// whether the core meets its limit.
fn compare(workload: Workload, folder: &Path, arguments: &Arguments) -> Result<bool, Failure> {
    let mut typical: [Vec<Typical>; Subjects::COUNT] = Default::default();
    for process in 0..workload.processes() {
        let measured = measure_elsewhere(workload, folder, arguments, process)?;
        for (typical, measured) in typical.iter_mut().zip(measured) {
            typical.push(measured);
        }
    }
    let mut met = true;
    for (name, typical) in Subjects::NAMES.iter().zip(&typical) {
        let rate = median(typical.iter().map(|typical| typical.rate));
        let ratio = median(typical.iter().map(|typical| typical.ratio));
        let each = typical
            .iter()
            .map(|typical| format!("{:.2}", typical.ratio));
        let each: Vec<String> = each.collect();
        writeln!(
            std::io::stdout(),
            "{name:>14}: {} {rate:>9.0}/s, ratio {ratio:.2}, the median of {}",
            workload.description(),
            each.join(" ")
        )?;
        met &= *name != "core" || ratio >= MIN_RATIO;
    }
    Ok(met)
}

/// What a process of its own finds typical of each subject.
fn measure_elsewhere(
    workload: Workload,
    folder: &Path,
    arguments: &Arguments,
    process: u64,
) -> Result<Vec<Typical>, Failure> {
    let output = Command::new(std::env::current_exe()?)
        .args(["--items", &arguments.items.to_string()])
        .args(["--rounds", &arguments.rounds.to_string()])
        .args(["--measure", workload.name()])
        .args(["--process", &process.to_string()])
        .arg("--folder")
        .arg(folder)
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        return Err(format!("process {process} of '{}' failed", workload.name()).into());
    }
    let printed = String::from_utf8(output.stdout)?;
    printed.lines().map(str::parse).collect()
}

/// Increments per second of one counter by many tasks, none of which may be lost.
async fn count(folder: &Path) -> Result<bool, Failure> {
    let core = OverCore::create(&folder.join("counter"), Durability::Periodic).await?;
    let core = Arc::new(core);
    let start = Instant::now();
    let mut tasks = Vec::new();
    for _ in 0..COUNTERS {
        let core = Arc::clone(&core);
        tasks.push(tokio::spawn(async move {
            let mut done = 0;
            while start.elapsed() < COUNTING {
                core.increment().await?;
                done += 1;
            }
            Ok::<u64, Failure>(done)
        }));
    }
    let mut incremented = 0;
    for task in tasks {
        incremented += task.await??;
    }
    let rate = f64::from(u32::try_from(incremented)?) / start.elapsed().as_secs_f64();
    let lost = incremented - core.counted().await?;
    writeln!(
        std::io::stdout(),
        "          core: increments of one counter, {COUNTERS} tasks, periodic {rate:.0}/s \
         (limit {MIN_INCREMENTS}), {lost} lost"
    )?;
    Ok(lost == 0 && rate >= MIN_INCREMENTS)
}
