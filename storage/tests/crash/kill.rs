//! A process under write load is killed at random moments. What it acknowledged must be there.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use tessera_storage::Durability;

use crate::support::{Dice, commit, open, run, transaction, try_open, whole_transactions};

/// Set for the child: the folder to write to.
const CHILD_FOLDER: &str = "TESSERA_CRASH_CHILD_FOLDER";
const CHILD_ROUND: &str = "TESSERA_CRASH_CHILD_ROUND";

#[test]
fn every_acknowledged_transaction_survives_a_kill() {
    let rounds = std::env::var("TESSERA_CRASH_ROUNDS")
        .ok()
        .and_then(|text| text.parse().ok());
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let mut dice = Dice::new("kill");
    let mut acknowledged = BTreeSet::new();
    for round in 0..rounds.unwrap_or(10) {
        let before_kill = dice.below(3_000);
        acknowledged.extend(write_until_killed(&data, round, before_kill));
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

/// Starts a writer, kills it after it acknowledged a number of transactions, and answers all it
/// acknowledged.
fn write_until_killed(data: &Path, round: u32, before_kill: u64) -> Vec<String> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "kill::writes_until_it_is_killed", "--nocapture"])
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

/// Not a test by itself: the process that gets killed.
#[test]
fn writes_until_it_is_killed() {
    let Some(folder) = std::env::var_os(CHILD_FOLDER) else {
        return;
    };
    let round: u32 = std::env::var(CHILD_ROUND).unwrap().parse().unwrap();
    // Killing a process leaves the operating system's memory, so both settings must keep
    // everything.
    let durability = if round.is_multiple_of(2) {
        Durability::Group
    } else {
        Durability::Periodic
    };
    let engine = try_open(Path::new(&folder), durability).unwrap();
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
                    // Past the test runner's capture, in one call: the pipe outlives the process.
                    let line = format!("ack {id} .\n");
                    std::io::stdout().write_all(line.as_bytes()).unwrap();
                }
            }));
        }
        for writer in writers {
            writer.await.unwrap();
        }
    });
}
