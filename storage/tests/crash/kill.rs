//! A process under write load is killed at random moments. What it acknowledged must be there.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use tessera_storage::Durability;

use crate::support::{Dice, commit, open, run, transaction, try_open, whole_transactions};

/// Set for the child: the folder to write to.
const CHILD_FOLDER: &str = "TESSERA_CRASH_CHILD_FOLDER";
const CHILD_ROUND: &str = "TESSERA_CRASH_CHILD_ROUND";

#[test]
fn every_acknowledged_transaction_survives_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let mut dice = Dice::new("kill");
    let mut acknowledged = BTreeSet::new();
    for round in 0..rounds() {
        let before_kill = dice.below(3_000);
        let child = "kill::writes_until_it_is_killed";
        acknowledged.extend(write_until_killed(child, &data, round, before_kill));
        let found = run(async {
            let engine = open(&data);
            let found: BTreeSet<String> = whole_transactions(&engine).await.into_iter().collect();
            engine.close().await.unwrap();
            found
        });
        let lost: Vec<&String> = acknowledged.difference(&found).collect();
        assert!(lost.is_empty(), "round {round} lost {lost:?}");
        // What was never acknowledged may be there or not, but it stays as it was found.
        acknowledged = found;
    }
}

/// How often a writing process is killed.
pub(crate) fn rounds() -> u32 {
    let rounds = std::env::var("TESSERA_CRASH_ROUNDS").ok();
    rounds.and_then(|text| text.parse().ok()).unwrap_or(10)
}

/// Starts the test `child` as a process of its own, kills it after it acknowledged a number of
/// transactions, and answers all it acknowledged.
pub(crate) fn write_until_killed(
    child: &str,
    data: &Path,
    round: u32,
    before_kill: u64,
) -> Vec<String> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", child, "--nocapture"])
        .env(CHILD_FOLDER, data)
        .env(CHILD_ROUND, round.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut acknowledged = Vec::new();
    let mut killed = false;
    while let Some(Ok(line)) = lines.next() {
        // The test runner of the child prints lines of its own.
        if let Some(id) = line
            .strip_prefix("ack ")
            .and_then(|id| id.strip_suffix(" ."))
        {
            acknowledged.push(id.to_owned());
        }
        if !killed && acknowledged.len() as u64 > before_kill {
            child.kill().unwrap();
            killed = true;
        }
    }
    child.wait().unwrap();
    assert!(
        killed,
        "the writer ended by itself after {} transactions",
        acknowledged.len()
    );
    acknowledged
}

/// The folder that a child is to write to; none in an ordinary test run.
pub(crate) fn child_folder() -> Option<PathBuf> {
    std::env::var_os(CHILD_FOLDER).map(PathBuf::from)
}

pub(crate) fn child_round() -> u32 {
    std::env::var(CHILD_ROUND).unwrap().parse().unwrap()
}

/// Killing a process leaves the operating system's memory, so both settings must keep everything.
pub(crate) fn child_durability() -> Durability {
    if child_round().is_multiple_of(2) {
        Durability::Group
    } else {
        Durability::Periodic
    }
}

/// Says that a transaction was committed: past the test runner's capture, in one call, because the
/// pipe outlives the process.
pub(crate) fn acknowledge(id: &str) {
    let line = format!("ack {id} .\n");
    std::io::stdout().write_all(line.as_bytes()).unwrap();
}

/// Not a test by itself: the process that gets killed.
#[test]
fn writes_until_it_is_killed() {
    let Some(folder) = child_folder() else {
        return;
    };
    let round = child_round();
    let engine = try_open(&folder, child_durability()).unwrap();
    run(async {
        let mut writers = Vec::new();
        for writer in 0..16_u64 {
            let engine = Arc::clone(&engine);
            writers.push(tokio::spawn(async move {
                for number in 0..u64::MAX {
                    let id = format!("{round} {writer} {number}");
                    let value_bytes = usize::try_from(writer * number % 3_000).unwrap();
                    commit(&engine, transaction(&id, value_bytes))
                        .await
                        .unwrap();
                    acknowledge(&id);
                }
            }));
        }
        for writer in writers {
            writer.await.unwrap();
        }
    });
}
