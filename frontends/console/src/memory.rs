//! `GET /api/memory`: the server's memory by owner, as JSON; `metrics` has the same figures.

use std::fmt::Write as _;

use hyper::{Method, StatusCode};
use serde::Serialize;
use tessera_core::memory_budget::{MemoryBudget, Taken};

use crate::reply::Reply;
use crate::routes::{Call, Route};

pub(crate) const ROUTES: &[Route] = &[Route {
    method: Method::GET,
    path: "/api/memory",
    is_public: false,
    run: |call| Box::pin(async { Reply::json(StatusCode::OK, &Shown::of(call)) }),
}];

/// The memory of the server.
#[derive(Serialize)]
struct Shown {
    /// The budget of requests.
    limit: usize,
    used: usize,
    peak: usize,
    /// Limit and use of the engine's caches and buffers.
    engine_limit: usize,
    engine_used: Option<usize>,
    /// Resident memory of the process.
    resident: Option<usize>,
    owners: Vec<ShownOwner>,
}

#[derive(Serialize)]
struct ShownOwner {
    owner: &'static str,
    used: usize,
    peak: usize,
    refused: u64,
}

impl Shown {
    fn of(call: &Call<'_>) -> Self {
        let store = &call.console.store;
        let memory = store.memory();
        Self {
            limit: memory.limit(),
            used: memory.used(),
            peak: memory.peak(),
            engine_limit: memory.engine(),
            engine_used: store.engine().memory_used(),
            resident: resident(),
            owners: memory.taken().map(ShownOwner::of).collect(),
        }
    }
}

impl ShownOwner {
    fn of(taken: Taken) -> Self {
        Self {
            owner: taken.purpose.name(),
            used: taken.used,
            peak: taken.peak,
            refused: taken.refused,
        }
    }
}

/// Resident memory of this process; none where the system does not report it.
fn resident() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: usize = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1_024)
}

fn bytes(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

/// The same as metrics.
pub(crate) fn render(memory: &MemoryBudget, engine_used: Option<usize>, text: &mut String) {
    let owners: Vec<Taken> = memory.taken().collect();
    let mut metric = |name: &str, kind: &str, help: &str, samples: &[(String, u64)]| {
        // Writing into a text cannot fail.
        let _infallible = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for (labels, value) in samples {
            let _infallible = writeln!(text, "{name}{labels} {value}");
        }
    };
    let each = |value: fn(&Taken) -> u64| -> Vec<(String, u64)> {
        let sample = |taken: &Taken| {
            let labels = format!("{{owner=\"{}\"}}", taken.purpose.name());
            (labels, value(taken))
        };
        owners.iter().map(sample).collect()
    };
    let single = |value: Option<usize>| -> Vec<(String, u64)> {
        value
            .map(|it| (String::new(), bytes(it)))
            .into_iter()
            .collect()
    };
    let mut used = each(|taken| bytes(taken.used));
    used.extend(engine_used.map(|used| ("{owner=\"engine\"}".to_owned(), bytes(used))));
    let peak = each(|taken| bytes(taken.peak));
    let refused = each(|taken| taken.refused);
    let (limit, engine) = (single(Some(memory.limit())), single(Some(memory.engine())));
    let all = [
        (
            "tessera_memory_bytes",
            "gauge",
            "Memory taken, by what for.",
            used,
        ),
        (
            "tessera_memory_peak_bytes",
            "gauge",
            "The most memory taken at any time.",
            peak,
        ),
        (
            "tessera_memory_refused_total",
            "counter",
            "Times there was no memory left.",
            refused,
        ),
        (
            "tessera_memory_limit_bytes",
            "gauge",
            "Memory that requests share.",
            limit,
        ),
        (
            "tessera_memory_engine_limit_bytes",
            "gauge",
            "Memory of the engine's caches.",
            engine,
        ),
        (
            "tessera_resident_memory_bytes",
            "gauge",
            "Memory of the process, as the system sees it.",
            single(resident()),
        ),
    ];
    for (name, kind, help, samples) in &all {
        metric(name, kind, help, samples);
    }
}
