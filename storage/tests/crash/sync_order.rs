//! That an answer really comes after the sync, seen from the operating system.
//!
//! Needs `strace`; where it is missing or not allowed, the test says so and passes.

use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use tessera_storage::Durability;

use crate::support::{commit, run, transaction, try_open};

/// Set for the child: the folder to write to.
const CHILD_FOLDER: &str = "TESSERA_CRASH_SYNC_FOLDER";
const COMMITS: usize = 50;

#[test]
fn every_answer_comes_after_a_sync_of_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace");
    let tracer = |traced: &Path| {
        let mut command = Command::new("strace");
        command
            .args(["-f", "-y", "-e", "trace=write,fdatasync,fsync", "-o"])
            .arg(&trace);
        command.arg(traced);
        command
    };
    if !tracer(Path::new("true"))
        .status()
        .is_ok_and(|status| status.success())
    {
        println!("skipped: strace does not work here");
        return;
    }
    let status = tracer(&std::env::current_exe().unwrap())
        .args([
            "--exact",
            "sync_order::acknowledges_some_commits",
            "--nocapture",
        ])
        .env(CHILD_FOLDER, folder.path().join("data"))
        .stdout(std::process::Stdio::null())
        .status();
    assert!(status.unwrap().success());
    let mut synced = true;
    let mut answers = 0;
    for line in std::fs::read_to_string(&trace).unwrap().lines() {
        if line.contains("write(") && line.contains(".log>") {
            synced = false;
        } else if line.contains("sync") && line.ends_with("= 0") {
            synced = true;
        } else if line.contains("\"ack ") {
            assert!(synced, "answered before the sync: {line}");
            answers += 1;
        }
    }
    // Half of them asked for the sync themselves.
    assert_eq!(answers, 2 * COMMITS);
}

/// Not a test by itself: the process that is watched.
#[test]
fn acknowledges_some_commits() {
    let Some(folder) = std::env::var_os(CHILD_FOLDER) else {
        return;
    };
    for durability in [Durability::Group, Durability::Periodic] {
        let engine = try_open(Path::new(&folder), durability).unwrap();
        run(async {
            for number in 0..COMMITS {
                let mut writes = transaction(&number.to_string(), 100);
                if durability == Durability::Periodic {
                    writes.demand_sync();
                }
                commit(&engine, writes).await.unwrap();
                std::io::stdout()
                    .write_all(format!("ack {number}\n").as_bytes())
                    .unwrap();
            }
            engine.close().await.unwrap();
        });
    }
}
