//! Backups and copies of running and of stopped servers, and that they open.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

use bytes::Bytes;
use tempfile::TempDir;
use tessera_core::write_set::WriteSet;
use tessera_storage::{Durability, EngineConfig};

use crate::support::{Client, Server, outcome, tessera, text};

const KEY: &[u8] = b"zz-backup-test";
const VALUE: &[u8] = b"kept";

fn engine(data: &Path) -> EngineConfig {
    let path = data.to_owned();
    EngineConfig::Rocks {
        path,
        durability: Durability::Group,
        memory_bytes: 32 << 20,
    }
}

fn run<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Runtime::new().unwrap().block_on(work)
}

/// A folder whose `tessera-data` holds one key.
fn seeded() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    run(async {
        let engine = tessera_storage::open(&engine(&folder.path().join("tessera-data"))).unwrap();
        let mut writes = WriteSet::default();
        writes.put(Bytes::from_static(KEY), Bytes::from_static(VALUE));
        engine
            .snapshot()
            .await
            .unwrap()
            .commit(writes)
            .await
            .unwrap();
        engine.close().await.unwrap();
    });
    folder
}

fn check_holds_the_key(data: &Path) {
    run(async {
        let engine = tessera_storage::open(&engine(data)).unwrap();
        let value = engine.snapshot().await.unwrap().get(KEY).await.unwrap();
        assert_eq!(value.as_deref(), Some(VALUE));
        engine.close().await.unwrap();
    });
}

/// `tessera backup target --data …/tessera-data`, run in `folder`.
fn backup(folder: &Path, target: &str) -> (i32, String, String) {
    outcome(tessera(&["backup", target]).current_dir(folder))
}

fn entries(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

#[test]
fn a_running_server_is_backed_up_and_the_copy_opens() {
    let server = Server::start_in(seeded(), &[]);
    let folder = server.folder.path();
    fs::create_dir(folder.join("empty")).unwrap();
    for target in ["copy", "new/nested/copy", "empty", "it's a copy"] {
        let (code, printed, errors) = backup(folder, target);
        assert_eq!((code, errors.as_str()), (0, ""));
        assert!(printed.contains(text(&folder.join(target))), "{printed}");
        check_holds_the_key(&folder.join(target));
    }
    assert_eq!(
        entries(folder),
        ["copy", "empty", "it's a copy", "log", "new", "tessera-data"]
    );
    assert_eq!(server.get("/health").status, 200);

    let copy = folder.join("copy");
    let restored = Server::start(&["--data", text(&copy)]);
    assert_eq!(restored.get("/health").status, 200);
    assert_eq!(restored.stop().0, Some(0));
    assert_eq!(server.stop().0, Some(0));
}

#[test]
fn a_running_server_is_copied_to_another_folder() {
    let server = Server::start_in(seeded(), &[]);
    let folder = server.folder.path();
    let copy = |from: &str, to: &str| {
        let command = ["copy", "--from", from, "--to", to];
        outcome(tessera(&command).current_dir(folder))
    };
    let (code, printed, errors) = copy("tessera-data", "there");
    assert_eq!((code, errors.as_str()), (0, ""));
    assert!(printed.contains("count and checksum agree"), "{printed}");
    check_holds_the_key(&folder.join("there"));
    let (code, _, errors) = copy("tessera-data", "there");
    assert_eq!(code, 1);
    assert!(errors.contains("choose an empty one"), "{errors}");
    // A server keeps its folder to itself as a target.
    assert_eq!(copy("there", "tessera-data").0, 1);
    assert_eq!(entries(folder), ["log", "tessera-data", "there"]);
    assert_eq!(server.get("/health").status, 200);
    assert_eq!(server.stop().0, Some(0));
}

#[test]
fn a_stopped_or_killed_server_is_backed_up() {
    let folder = seeded();
    assert_eq!(backup(folder.path(), "stopped").0, 0);
    check_holds_the_key(&folder.path().join("stopped"));

    let server = Server::start_in(folder, &[]);
    server.signal(rustix::process::Signal::KILL);
    let (_, folder) = server.wait();
    assert!(folder.path().join("tessera-data/control.sock").exists());
    let (code, _, errors) = backup(folder.path(), "killed");
    assert_eq!((code, errors.as_str()), (0, ""));
    check_holds_the_key(&folder.path().join("killed"));
}

#[test]
fn folders_that_cannot_take_a_backup_are_refused_and_left_alone() {
    let server = Server::start_in(seeded(), &[]);
    let folder = server.folder.path();
    fs::create_dir(folder.join("full")).unwrap();
    fs::write(folder.join("full/file"), "precious").unwrap();
    for (target, part) in [
        ("full", "the folder is not empty"),
        ("full/file", "a file stands there"),
        ("tessera-data/inside", "inside the data folder"),
        ("full/file/below", "full/file/below"),
    ] {
        let (code, _, errors) = backup(folder, target);
        assert_eq!(code, 1, "{errors}");
        assert_eq!(errors.lines().count(), 1, "{errors}");
        assert!(errors.contains(part), "{errors}");
    }
    assert_eq!(entries(&folder.join("full")), ["file"]);
    assert_eq!(entries(folder), ["full", "log", "tessera-data"]);
}

#[test]
fn where_there_is_nothing_to_back_up_nothing_is_made() {
    let server = Server::start(&["--memory"]);
    let (code, _, errors) = backup(server.folder.path(), "copy");
    assert_eq!(code, 1);
    assert!(errors.contains("nothing to back up"), "{errors}");
    assert!(errors.contains("--memory"), "{errors}");
    assert_eq!(entries(server.folder.path()), ["log"]);
}

#[test]
fn the_control_socket_is_private_and_survives_nonsense() {
    let server = Server::start(&[]);
    let socket = server.data().join("control.sock");
    assert_eq!(
        fs::metadata(&socket).unwrap().permissions().mode() & 0o777,
        0o600
    );
    let long = format!("tessera-control 1 backup /{}\n", "x".repeat(20_000));
    for (request, part) in [
        ("hello\n", "use the same version"),
        ("tessera-control 2 backup /x\n", "use the same version"),
        ("tessera-control 1 destroy /x\n", "no such request"),
        ("\n", "use the same version"),
        (long.as_str(), "too long"),
    ] {
        let mut client = Client(UnixStream::connect(&socket).unwrap());
        std::io::Write::write_all(&mut client.0, request.as_bytes()).ok();
        let mut reply = Vec::new();
        while let Some(byte) = client.byte() {
            reply.push(byte);
        }
        let reply = String::from_utf8(reply).unwrap();
        assert!(
            reply.starts_with("error ") && reply.contains(part),
            "{request:?}: {reply:?}"
        );
    }
    assert_eq!(server.get("/health").status, 200);
}

#[test]
fn a_long_data_path_works_too() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("d".repeat(120));
    let server = Server::start(&["--data", text(&data)]);
    let copy = folder.path().join("copy");
    let (code, _, errors) = outcome(&mut tessera(&[
        "backup",
        text(&copy),
        "--data",
        text(&data),
    ]));
    assert_eq!((code, errors.as_str()), (0, ""));
    assert!(server.log().contains("backup made"), "{}", server.log());
}
