//! How many instructions the server needs for each of the requests that are sent most, beside those
//! at the start of a wave of work: unlike times, they are the same at every load.
//!
//! The server runs in memory under callgrind, which counts while requests are sent one by one. The
//! kernel's work is not counted. Hash seeds and addresses differ between processes, and with them
//! counts by up to 1.5 %, so each figure is the median of several processes.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::{Arg, ArgAction, ArgMatches, value_parser};
use tempfile::TempDir;
use tessera_conformance::Server;

use crate::Failure;
use crate::bench::load::{Connection, Dialect, Operation};
use crate::bench::wave::{Counts, Ledger};
use crate::bench::{cql, mongo, table};

/// What is committed.
const LEDGER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/expected/instructions.json");
/// Requests that nobody counts: the first of each kind fill caches.
const WARM_UP: u64 = 20;
const COUNTED: u64 = 100;
/// Items that there are: as many as a range has.
const ITEMS: u64 = 100;

pub(crate) fn arguments() -> Vec<Arg> {
    vec![
        Arg::new("update")
            .long("update")
            .action(ArgAction::SetTrue)
            .help("Write what is counted as what is expected from now on"),
        Arg::new("begin")
            .long("begin")
            .value_name("COMMIT")
            .conflicts_with("update")
            .help("Write what is counted as the start of a wave, of which this is the commit"),
        Arg::new("processes")
            .long("processes")
            .value_name("COUNT")
            .value_parser(value_parser!(u8).range(1..))
            .default_value("5")
            .help("Of how many processes each figure is the median"),
        Arg::new("profiles")
            .long("profiles")
            .value_name("FOLDER")
            .value_parser(value_parser!(PathBuf))
            .help("Keep there what callgrind wrote of each request, for callgrind_annotate"),
    ]
}

/// Fails if a count is not as it should be.
pub(crate) fn command(matches: &ArgMatches) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let processes = matches.get_one::<u8>("processes").copied().unwrap_or(1);
    let mut processes_counts = Vec::new();
    let profiles = matches.get_one::<PathBuf>("profiles");
    for _ in 0..processes {
        let counted = count(profiles.map(PathBuf::as_path));
        processes_counts.push(runtime.block_on(counted)?);
    }
    let counted = medians(&processes_counts);
    let file = Path::new(LEDGER);
    if let Some(commit) = matches.get_one::<String>("begin") {
        return Ledger::begin(commit, &counted).write(file);
    }
    let mut ledger = Ledger::read(file)?;
    let wrong = ledger.compare(&counted, &mut std::io::stdout().lock())?;
    if matches.get_flag("update") {
        ledger.update(&counted);
        return ledger.write(file);
    }
    match wrong {
        0 => Ok(()),
        wrong => Err(format!(
            "{wrong} requests need another number of instructions than they may; what is meant, \
             and has not grown too far since the start of the wave, is written down by \
             tessera-conformance instructions --update"
        )
        .into()),
    }
}

/// The middle of what several processes counted of each request.
fn medians(processes: &[Counts]) -> Counts {
    let mut all: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for (name, count) in processes.iter().flatten() {
        all.entry(name).or_default().push(*count);
    }
    let median = |mut counts: Vec<u64>| {
        counts.sort_unstable();
        counts.get(counts.len() / 2).copied()
    };
    let all = all.into_iter();
    all.filter_map(|(name, counts)| Some((name.to_owned(), median(counts)?)))
        .collect()
}

/// The server under callgrind.
struct Counted<'a> {
    server: Server,
    folder: TempDir,
    /// Where its profiles are kept, if anybody wants them.
    profiles: Option<&'a Path>,
}

impl<'a> Counted<'a> {
    fn start(profiles: Option<&'a Path>) -> Result<Self, Failure> {
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
        Ok(Self {
            server,
            folder,
            profiles,
        })
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

    /// What was counted for one of these requests since it was told to begin at zero.
    fn take(&self, request: &str) -> Result<u64, Failure> {
        self.tell("dump")?;
        let mut files: Vec<PathBuf> = Vec::new();
        for entry in fs::read_dir(self.folder.path())? {
            files.push(entry?.path());
        }
        let mut counted = None;
        for file in files {
            // It keeps an empty file for the end of the process.
            let profile = fs::read_to_string(&file)?;
            if let (Some(total), None) = (total(&profile), counted) {
                counted = Some(total);
                if let Some(profiles) = self.profiles {
                    let name = request.replace([':', ' '], "-");
                    fs::write(profiles.join(name), profile)?;
                }
            }
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

async fn count(profiles: Option<&Path>) -> Result<Counts, Failure> {
    let server = Counted::start(profiles)?;
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
    server: &Counted<'_>,
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
        let name = format!("{suite}: {name}");
        let count = server.take(&name)? / COUNTED;
        counts.insert(name, count);
    }
    for request in 0..WARM_UP + COUNTED {
        if request == WARM_UP {
            server.tell("zero")?;
        }
        connection.ask(&other_request).await?;
    }
    let name = format!("{suite}: {other}");
    let count = server.take(&name)? / COUNTED;
    counts.insert(name, count);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_several_processes_counts() {
        let counts = |all: &[(&str, u64)]| -> Counts {
            let all = all.iter();
            all.map(|(name, count)| ((*name).to_owned(), *count))
                .collect()
        };
        let processes = [
            counts(&[("a", 5), ("b", 1)]),
            counts(&[("a", 900), ("b", 2)]),
            counts(&[("a", 4), ("b", 3)]),
        ];
        assert_eq!(medians(&processes), counts(&[("a", 5), ("b", 2)]));
        assert_eq!(medians(&processes[..1]), processes[0]);
    }

    #[test]
    fn the_total_of_a_profile_is_found() {
        assert_eq!(total("version: 1\nevents: Ir\nsummary: 123 \n"), Some(123));
        assert_eq!(total("fn=x\n\ntotals: 5\n"), Some(5));
        assert_eq!(total("events: Ir\n"), None);
    }

    #[test]
    fn the_ledger_has_five_requests_of_each_protocol() {
        let ledger = Ledger::read(Path::new(LEDGER)).unwrap();
        for suite in ["mongo", "cql", "table"] {
            let own = ledger.names().filter(|name| name.starts_with(suite));
            assert_eq!(own.count(), 5, "{suite}");
        }
    }
}
