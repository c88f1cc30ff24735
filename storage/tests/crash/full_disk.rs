//! A disk that fills up under load: acknowledged transactions stay, the rest is refused clearly.
//!
//! The small disk is a tmpfs in a mount namespace of its own, so no privileges are needed where the
//! kernel allows that to users; elsewhere the test says so and passes.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use tessera_core::engine::{CommitOutcome, Engine, EngineError};
use tessera_core::write_set::WriteSet;
use tessera_storage::{Durability, OpenError};

use crate::support::{commit, open, run, transaction, try_open, try_open_with, whole_transactions};

/// Set for the child, which runs in the namespace: where to mount the small disk.
const DISK: &str = "TESSERA_CRASH_SMALL_DISK";

#[test]
fn a_full_disk_turns_the_engine_read_only_and_loses_nothing() {
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
    let output = Command::new("unshare")
        .args(["--map-root-user", "--mount"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "full_disk::fills_the_small_disk", "--nocapture"])
        .env(DISK, folder.path())
        .output()
        .unwrap();
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
    mount(disk, "size=24m");
    let data = disk.join("data");
    // With little memory a table file hits the end of the disk first, with much the log does.
    let settings = [
        (Durability::Group, 64 << 20),
        (Durability::Group, 1 << 30),
        (Durability::Periodic, 64 << 20),
        (Durability::Periodic, 1 << 30),
    ];
    for (durability, memory_bytes) in settings {
        let engine = try_open_with(&data, durability, memory_bytes).unwrap();
        let acknowledged = run(fill(&engine));
        drop(engine);
        let full = try_open(&data, Durability::Group);
        if let Err(error) = &full {
            println!("{error}");
            assert!(matches!(error, OpenError::DiskFull { .. }), "{error}");
        }
        if let Ok(engine) = full {
            // Replaying the log may fit; then everything must be there already.
            run(check(&engine, &acknowledged));
            run(engine.close()).ok();
        }
        mount(disk, "remount,size=256m");
        let engine = open(&data);
        run(check(&engine, &acknowledged));
        run(async {
            commit(&engine, transaction("after", 100)).await.unwrap();
            engine.close().await.unwrap();
        });
        drop(engine);
        std::fs::remove_dir_all(&data).unwrap();
        mount(disk, "remount,size=24m");
    }
    println!("filled and recovered");
}

fn mount(disk: &Path, options: &str) {
    let status = Command::new("mount")
        .args(["-t", "tmpfs", "-o", options, "tmpfs"])
        .arg(disk)
        .status();
    assert!(status.unwrap().success());
}

/// Writes until the engine refuses. Answers what was acknowledged.
async fn fill(engine: &Arc<dyn Engine>) -> Vec<String> {
    let mut writers = Vec::new();
    for writer in 0..8 {
        let engine = Arc::clone(engine);
        writers.push(tokio::spawn(async move {
            let (mut acknowledged, mut unknown) = (Vec::new(), 0);
            loop {
                let id = format!("{writer} {}", acknowledged.len());
                match commit(&engine, transaction(&id, 5_000)).await {
                    // What was on its way when the disk was full may or may not be in the log.
                    Ok(CommitOutcome::Unknown) => unknown += 1,
                    Ok(_) => acknowledged.push(id),
                    Err(error) => return (acknowledged, unknown, error),
                }
            }
        }));
    }
    let mut acknowledged = Vec::new();
    let mut all_unknown = 0;
    for writer in writers {
        let (ids, unknown, error) = writer.await.unwrap();
        assert!(
            unknown <= 1,
            "only the commits of the failed batch are unknown"
        );
        all_unknown += unknown;
        assert!(matches!(error, EngineError::ReadOnly(_)), "{error}");
        assert!(
            error.to_string().contains("No space left on device"),
            "{error}"
        );
        acknowledged.extend(ids);
    }
    assert!(acknowledged.len() > 100, "{}", acknowledged.len());
    assert!(all_unknown >= 1, "the commits of the failed batch");
    let error = commit(engine, transaction("later", 1)).await.unwrap_err();
    println!("{error}");
    assert!(matches!(error, EngineError::ReadOnly(_)), "{error}");
    let mut nothing = WriteSet::default();
    commit(engine, nothing.clone()).await.unwrap();
    nothing.demand_sync();
    let asked = commit(engine, nothing).await.unwrap_err();
    assert!(
        matches!(asked, EngineError::ReadOnly(_)),
        "a monitor learns of it: {asked}"
    );
    check(engine, &acknowledged).await;
    let closing = engine.close().await.unwrap_err();
    assert!(matches!(closing, EngineError::ReadOnly(_)), "{closing}");
    acknowledged
}

async fn check(engine: &Arc<dyn Engine>, acknowledged: &[String]) {
    let found = whole_transactions(engine).await;
    for id in acknowledged {
        assert!(found.binary_search(id).is_ok(), "{id} is lost");
    }
}
