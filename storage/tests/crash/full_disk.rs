//! A disk that fills up under load: acknowledged transactions stay, the rest is refused clearly,
//! and writes go on once there is room.
//!
//! The small disk is a tmpfs in a mount namespace of its own, so no privileges are needed where the
//! kernel allows that to users; elsewhere the test says so and passes. A disk that is full in the
//! middle of a write, before anybody could see it coming, is played by a limit on the size of
//! files.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use tessera_core::engine::{CommitOutcome, Engine, EngineError};
use tessera_core::write_set::WriteSet;
use tessera_storage::Durability;

use crate::support::{commit, deletion, open, run, transaction, try_open_with, whole_transactions};

/// Set for the child, which runs in the namespace: where to mount the small disk.
const DISK: &str = "TESSERA_CRASH_SMALL_DISK";

/// Set for the child whose files may not grow beyond a few MiB: the folder of its data.
const FILE_LIMIT: &str = "TESSERA_CRASH_FILE_LIMIT";

#[test]
fn an_almost_full_disk_refuses_writes_until_there_is_room() {
    let folder = tempfile::tempdir().unwrap();
    let works = Command::new("unshare")
        .args([
            "--map-root-user",
            "--mount",
            "mount",
            "-t",
            "tmpfs",
            "tmpfs",
        ])
        .arg(folder.path())
        .output();
    if !works.is_ok_and(|output| output.status.success()) {
        println!("skipped: this machine does not let tests mount a small disk");
        return;
    }
    let mut child = Command::new("unshare");
    child.args(["--map-root-user", "--mount"]);
    child.arg(std::env::current_exe().unwrap());
    child.args(["--exact", "full_disk::fills_the_small_disk", "--nocapture"]);
    passes(child.env(DISK, folder.path()));
}

#[test]
fn a_write_that_fails_half_way_turns_the_engine_read_only_and_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let test = std::env::current_exe().unwrap();
    let mut child = Command::new("bash");
    // In KiB. Without the trap the signal would end the process instead.
    child.args(["-c", "trap '' XFSZ; ulimit -f 6000; exec \"$@\"", "bash"]);
    child.arg(test);
    child.args(["--exact", "full_disk::fills_its_files", "--nocapture"]);
    passes(child.env(FILE_LIMIT, folder.path()));
}

/// The child test passes, and was not skipped.
fn passes(child: &mut Command) {
    let output = child.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    println!("{said}");
    assert!(output.status.success(), "{said}\n{errors}");
    assert!(said.contains("filled and recovered"), "{said}\n{errors}");
}

/// Not a test by itself: runs where the small disk can be mounted.
#[test]
fn fills_the_small_disk() {
    let Some(disk) = std::env::var_os(DISK) else {
        return;
    };
    let disk = Path::new(&disk);
    mount(disk, "size=96m");
    for durability in [Durability::Group, Durability::Periodic] {
        let data = disk.join("data");
        let filler = disk.join("filler");
        std::fs::write(&filler, vec![1; 72 << 20]).unwrap();
        let engine = try_open_with(&data, durability, 32 << 20).unwrap();
        run(async {
            let mut filled = fill(&engine, "MB are kept free").await;
            assert_eq!(
                filled.unknown, 0,
                "what is refused in time has not happened"
            );
            check(&engine, &filled.acknowledged).await;
            let id = filled.acknowledged.pop().unwrap();
            commit(&engine, deletion(&id)).await.unwrap();
            std::fs::remove_file(&filler).unwrap();
            // By itself, without being opened again.
            for number in 0..50 {
                let id = format!("after {number}");
                commit(&engine, transaction(&id, 5_000)).await.unwrap();
                filled.acknowledged.push(id);
            }
            check(&engine, &filled.acknowledged).await;
            engine.close().await.unwrap();
        });
        drop(engine);
        std::fs::remove_dir_all(&data).unwrap();
    }
    println!("filled and recovered");
}

/// Not a test by itself: runs where files may not grow.
#[test]
fn fills_its_files() {
    let Some(folder) = std::env::var_os(FILE_LIMIT) else {
        return;
    };
    for (number, durability) in [Durability::Group, Durability::Periodic].iter().enumerate() {
        let data = Path::new(&folder).join(number.to_string());
        // So much memory that the log reaches the limit before a table does.
        let engine = try_open_with(&data, *durability, 1 << 30).unwrap();
        let filled = run(fill(&engine, "File too large"));
        assert!(filled.unknown >= 1, "the commits of the failed batch");
        run(refuses_everything(&engine));
        run(check(&engine, &filled.acknowledged));
        let closing = run(engine.close()).unwrap_err();
        assert!(matches!(closing, EngineError::ReadOnly(_)), "{closing}");
        drop(engine);
        let engine = open(&data);
        run(check(&engine, &filled.acknowledged));
        run(async {
            commit(&engine, transaction("after", 100)).await.unwrap();
            engine.close().await.unwrap();
        });
    }
    println!("filled and recovered");
}

/// What [`fill`] did.
struct Filled {
    acknowledged: Vec<String>,
    /// How many commits may or may not have happened.
    unknown: usize,
}

fn mount(disk: &Path, options: &str) {
    let status = Command::new("mount")
        .args(["-t", "tmpfs", "-o", options, "tmpfs"])
        .arg(disk)
        .status();
    assert!(status.unwrap().success());
}

/// Writes until the engine refuses, for the cause that is expected.
async fn fill(engine: &Arc<dyn Engine>, cause: &str) -> Filled {
    let mut writers = Vec::new();
    for writer in 0..8 {
        let engine = Arc::clone(engine);
        writers.push(tokio::spawn(async move {
            let (mut acknowledged, mut unknown) = (Vec::new(), 0);
            loop {
                let id = format!("{writer} {}", acknowledged.len());
                match commit(&engine, transaction(&id, 5_000)).await {
                    Ok(CommitOutcome::Unknown) => unknown += 1,
                    Ok(_) => acknowledged.push(id),
                    Err(error) => return (acknowledged, unknown, error),
                }
            }
        }));
    }
    let (mut acknowledged, mut all_unknown) = (Vec::new(), 0);
    for writer in writers {
        let (ids, unknown, error) = writer.await.unwrap();
        assert!(
            unknown <= 1,
            "only the commits of the failed batch are unknown"
        );
        all_unknown += unknown;
        assert!(matches!(error, EngineError::ReadOnly(_)), "{error}");
        assert!(error.to_string().contains(cause), "{error}");
        acknowledged.extend(ids);
    }
    assert!(acknowledged.len() > 100, "{}", acknowledged.len());
    Filled {
        acknowledged,
        unknown: all_unknown,
    }
}

async fn refuses_everything(engine: &Arc<dyn Engine>) {
    for writes in [transaction("later", 1), deletion("0 0")] {
        let error = commit(engine, writes).await.unwrap_err();
        println!("{error}");
        assert!(matches!(error, EngineError::ReadOnly(_)), "{error}");
    }
    commit(engine, WriteSet::default()).await.unwrap();
    let mut nothing = WriteSet::default();
    nothing.demand_sync();
    let asked = commit(engine, nothing).await.unwrap_err();
    let learns = matches!(asked, EngineError::ReadOnly(_));
    assert!(learns, "a monitor learns of it: {asked}");
}

async fn check(engine: &Arc<dyn Engine>, acknowledged: &[String]) {
    let found = whole_transactions(engine).await;
    for id in acknowledged {
        assert!(found.binary_search(id).is_ok(), "{id} is lost");
    }
}
