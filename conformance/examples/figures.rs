//! Prints what the server costs before it does anything: start time, idle memory, size on disk.
//!
//! Run by `scripts/figures`. Ends with an error when a figure is over its limit.

use std::fs;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use tessera_conformance::{Error, Server, binary};

const STARTS: usize = 11;
const IDLE: Duration = Duration::from_secs(2);
const MEGABYTE: f64 = 1_000_000.0;

/// One measured value beside the most that it may be.
struct Figure {
    name: &'static str,
    value: f64,
    limit: f64,
    unit: &'static str,
    how: String,
}

#[expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "printing is what it is for"
)]
fn main() -> ExitCode {
    let figures = match measure() {
        Ok(figures) => figures,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    let mut code = ExitCode::SUCCESS;
    for Figure {
        name,
        value,
        limit,
        unit,
        how,
    } in figures
    {
        let within = value <= limit;
        if !within {
            code = ExitCode::FAILURE;
        }
        let verdict = if within { "" } else { "  OVER" };
        println!("{name:<12} {value:>7.1} {unit:<2}  (limit {limit} {unit}; {how}){verdict}");
    }
    code
}

fn measure() -> Result<[Figure; 3], Error> {
    let size = fs::metadata(binary::path()?).map_or(f64::NAN, |about| megabytes(about.len()));
    let mut starts = (0..STARTS)
        .map(|_| start_ms())
        .collect::<Result<Vec<f64>, Error>>()?;
    starts.sort_by(f64::total_cmp);
    let (fastest, slowest) = (at(&starts, 0), at(&starts, STARTS - 1));
    let (resident, proportional) = idle_memory()?;
    Ok([
        Figure {
            name: "empty start",
            value: at(&starts, STARTS / 2),
            limit: 200.0,
            unit: "ms",
            how: format!("median of {STARTS} to /health, {fastest:.1} to {slowest:.1}"),
        },
        Figure {
            name: "idle memory",
            value: resident,
            limit: 60.0,
            unit: "MB",
            how: format!(
                "resident after {} s, proportional share {proportional:.1}",
                IDLE.as_secs()
            ),
        },
        Figure {
            name: "binary",
            value: size,
            limit: 45.0,
            unit: "MB",
            how: "stripped release build".to_owned(),
        },
    ])
}

/// Milliseconds from starting the process on an empty folder to its first answer.
fn start_ms() -> Result<f64, Error> {
    let server = Server::start(&[])?;
    let elapsed = server.started_in().as_secs_f64() * 1_000.0;
    server.stop()?;
    Ok(elapsed)
}

/// Resident memory of an idle server, and its proportional share of what is mapped, in megabytes.
fn idle_memory() -> Result<(f64, f64), Error> {
    let server = Server::start(&[])?;
    thread::sleep(IDLE);
    let rollup = fs::read_to_string(format!("/proc/{}/smaps_rollup", server.id()));
    let rollup = rollup.unwrap_or_default();
    server.stop()?;
    Ok((field(&rollup, "Rss:"), field(&rollup, "Pss:")))
}

/// A field of `smaps_rollup`, which counts in units of 1,024 bytes. A missing one
/// is not a number, which is within no limit.
fn field(rollup: &str, name: &str) -> f64 {
    let line = rollup.lines().find_map(|line| line.strip_prefix(name));
    let kibibytes = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    kibibytes.map_or(f64::NAN, |kibibytes| megabytes(kibibytes * 1_024))
}

#[expect(clippy::cast_precision_loss, reason = "shown with one decimal")]
fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / MEGABYTE
}

fn at(sorted: &[f64], index: usize) -> f64 {
    sorted.get(index).copied().unwrap_or(f64::NAN)
}
