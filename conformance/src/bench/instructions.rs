//! How many instructions the server needs for each of the requests that are sent most, beside those
//! that are committed: unlike times, they are the same on every machine and at every load.
//!
//! The server runs in memory under callgrind, which counts while requests are sent one by one. The
//! kernel's work is not counted.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;

use clap::{Arg, ArgAction, ArgMatches};
use tempfile::TempDir;
use tessera_conformance::Server;

use crate::Failure;
use crate::bench::load::{Connection, Dialect, Operation};
use crate::bench::{cql, mongo, table};

/// What is committed.
const BASELINE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/expected/instructions.json");
/// By how much a count may differ from what is committed, in percent: less is noise of hash seeds
/// and of when timers fire, also to the better, so that the baseline stays true.
const TOLERANCE: u64 = 10;
/// Requests that nobody counts: the first of each kind fill caches.
const WARM_UP: u64 = 20;
const COUNTED: u64 = 100;
/// Items that there are: as many as a range has.
const ITEMS: u64 = 100;

/// Instructions for one request, by its name.
type Counts = BTreeMap<String, u64>;

pub(crate) fn arguments() -> Vec<Arg> {
    vec![
        Arg::new("update")
            .long("update")
            .action(ArgAction::SetTrue)
            .help("Write what is counted as what is expected from now on"),
    ]
}

/// Fails if a count is further from what is committed than it may be.
pub(crate) fn command(matches: &ArgMatches) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let counted = runtime.block_on(count())?;
    if matches.get_flag("update") {
        let text = serde_json::to_string_pretty(&counted)?;
        return Ok(fs::write(BASELINE, text + "\n")?);
    }
    let expected: Counts = serde_json::from_str(&fs::read_to_string(BASELINE)?)?;
    match compare(&counted, &expected)? {
        0 => Ok(()),
        different => Err(format!(
            "{different} requests need another number of instructions than is committed; if that \
             is meant: tessera-conformance instructions --update"
        )
        .into()),
    }
}

/// Prints each count beside what is expected. How many are not as they should be.
fn compare(counted: &Counts, expected: &Counts) -> Result<usize, Failure> {
    let mut different = 0;
    let mut out = std::io::stdout().lock();
    for name in counted
        .keys()
        .chain(expected.keys().filter(|name| !counted.contains_key(*name)))
    {
        let [now, before] = [counted, expected].map(|all| all.get(name).copied());
        let verdict = match is_near(now, before) {
            true => "",
            false => {
                different += 1;
                "  DIFFERENT"
            }
        };
        let shown = |count: Option<u64>| count.map_or("none".to_owned(), |it| it.to_string());
        let change = change(now, before).map_or(String::new(), |change| format!("{change:+.1} %"));
        writeln!(
            out,
            "{name:<28} {:>9} instructions, committed {:>9} {change}{verdict}",
            shown(now),
            shown(before)
        )?;
    }
    Ok(different)
}

fn is_near(now: Option<u64>, before: Option<u64>) -> bool {
    let (Some(now), Some(before)) = (now, before) else {
        return false;
    };
    now.abs_diff(before).saturating_mul(100) <= before.saturating_mul(TOLERANCE)
}

/// In percent.
fn change(now: Option<u64>, before: Option<u64>) -> Option<f64> {
    let float = |count: u64| Some(f64::from(u32::try_from(count).ok()?));
    let (now, before) = (float(now?)?, float(before?)?);
    (before > 0.0).then(|| (now / before - 1.0) * 100.0)
}

/// The server under callgrind.
struct Counted {
    server: Server,
    folder: TempDir,
}

impl Counted {
    fn start() -> Result<Self, Failure> {
        let folder = tempfile::tempdir()?;
        let file = format!(
            "--callgrind-out-file={}",
            folder.path().join("out").display()
        );
        // One thread, so that no work is counted twice for waking another.
        let wrapper = [
            "env",
            "TOKIO_WORKER_THREADS=1",
            "valgrind",
            "--tool=callgrind",
            &file,
        ];
        let server = Server::start_under(&wrapper, &["--memory"])
            .map_err(|error| format!("cannot count instructions with valgrind: {error}"))?;
        Ok(Self { server, folder })
    }

    /// Tells callgrind something.
    fn tell(&self, command: &str) -> Result<(), Failure> {
        let process = format!("--pid={}", self.server.id());
        let told = Command::new("vgdb").args([&process, command]).output()?;
        match told.status.success() {
            true => Ok(()),
            false => Err(String::from_utf8_lossy(&told.stderr).into()),
        }
    }

    /// What was counted since it was told to begin at zero.
    fn take(&self) -> Result<u64, Failure> {
        self.tell("dump")?;
        let mut files: Vec<PathBuf> = Vec::new();
        for entry in fs::read_dir(self.folder.path())? {
            files.push(entry?.path());
        }
        let mut counted = None;
        for file in files {
            // It keeps an empty file for the end of the process.
            counted = counted.or(total(&fs::read_to_string(&file)?));
            fs::remove_file(file)?;
        }
        Ok(counted.ok_or("callgrind has counted nothing")?)
    }
}

/// The number in the summary of a profile.
fn total(profile: &str) -> Option<u64> {
    let mut lines = profile.lines();
    let summary = lines.find_map(|line| {
        let totals = line.strip_prefix("totals: ");
        totals.or_else(|| line.strip_prefix("summary: "))
    });
    summary?.split_whitespace().next()?.parse().ok()
}

/// The four operations that all protocols have.
const OPERATIONS: &[(&str, Operation)] = &[
    ("read", Operation::Read),
    ("insert", Operation::Insert),
    ("update", Operation::Update),
    ("range of 100", Operation::Range),
];

async fn count() -> Result<Counts, Failure> {
    let server = Counted::start()?;
    let mut counts = Counts::new();
    let address = |name: &str| {
        let address = server.server.address(name);
        address.ok_or_else(|| format!("nothing serves {name}"))
    };
    let mongo = (mongo::dialect()?, mongo::hello()?);
    count_all(&server, &mut counts, ("mongo", address("mongo")?), mongo).await?;
    let cql = (cql::prepare(address("cql")?).await?, cql::unprepared()?);
    count_all(&server, &mut counts, ("cql", address("cql")?), cql).await?;
    table::create(address("table")?).await?;
    let table = (table::one_partition(), table::not_there());
    count_all(&server, &mut counts, ("table", address("table")?), table).await?;
    Ok(counts)
}

/// The operations of one protocol, and one more request that only it has.
async fn count_all(
    server: &Counted,
    counts: &mut Counts,
    (suite, address): (&str, std::net::SocketAddr),
    (dialect, (other, other_request)): (Dialect, (&str, Vec<u8>)),
) -> Result<(), Failure> {
    let mut connection = Connection::open(address, &dialect).await?;
    for item in 0..ITEMS {
        connection.exchange(Operation::Insert, item).await?;
    }
    let mut next = ITEMS;
    for (name, operation) in OPERATIONS {
        for request in 0..WARM_UP + COUNTED {
            if request == WARM_UP {
                server.tell("zero")?;
            }
            let item = match operation {
                Operation::Insert => next,
                Operation::Read | Operation::Update | Operation::Range => 0,
            };
            next += 1;
            connection.exchange(*operation, item).await?;
        }
        counts.insert(format!("{suite}: {name}"), server.take()? / COUNTED);
    }
    for request in 0..WARM_UP + COUNTED {
        if request == WARM_UP {
            server.tell("zero")?;
        }
        connection.ask(&other_request).await?;
    }
    counts.insert(format!("{suite}: {other}"), server.take()? / COUNTED);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_far_from_what_is_committed_is_different() {
        let counts = |counts: &[(&str, u64)]| -> Counts {
            counts
                .iter()
                .map(|(name, count)| ((*name).to_owned(), *count))
                .collect()
        };
        let expected = counts(&[("a", 1_000), ("b", 1_000), ("c", 1_000), ("gone", 1)]);
        let counted = counts(&[("a", 1_100), ("b", 1_101), ("c", 899), ("new", 1)]);
        assert_eq!(compare(&counted, &expected).unwrap(), 4);
        assert_eq!(compare(&expected, &expected).unwrap(), 0);
    }

    #[test]
    fn the_total_of_a_profile_is_found() {
        assert_eq!(total("version: 1\nevents: Ir\nsummary: 123 \n"), Some(123));
        assert_eq!(total("fn=x\n\ntotals: 5\n"), Some(5));
        assert_eq!(total("events: Ir\n"), None);
    }

    #[test]
    fn the_committed_counts_are_five_of_each_protocol() {
        let expected: Counts =
            serde_json::from_str(&fs::read_to_string(BASELINE).unwrap()).unwrap();
        for suite in ["mongo", "cql", "table"] {
            let own = expected.keys().filter(|name| name.starts_with(suite));
            assert_eq!(own.count(), 5, "{suite}");
        }
    }
}
