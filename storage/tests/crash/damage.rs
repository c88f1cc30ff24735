//! Folders that cannot be opened: each says what is wrong in one sentence, and stays as it was.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use tessera_core::engine::EngineError;
use tessera_storage::{Durability, OpenError};

use crate::support::{commit, files, open, run, transaction, try_open, whole_transactions};

/// A closed data folder with some transactions in table files.
fn filled_folder() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    run(async {
        for part in 0..2 {
            let engine = open(&data);
            for number in 0..50 {
                let id = format!("{part} {number}");
                commit(&engine, transaction(&id, 1_000)).await.unwrap();
            }
            engine.close().await.unwrap();
        }
    });
    (folder, data)
}

/// Names and contents of everything below a folder, except RocksDB's own text logs and lock.
fn contents(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if path.is_dir() {
            found.extend(contents(&path));
        } else if !name.starts_with("LOG") && name != "LOCK" {
            found.push((path.clone(), fs::read(path).unwrap()));
        }
    }
    found.sort();
    found
}

/// Opening must fail, say one sentence that names `names`, and change nothing.
fn refuses(data: &Path, names: &Path) -> OpenError {
    let before = contents(data);
    let error = try_open(data, Durability::Group).err().expect("it opened");
    let sentence = error.to_string();
    println!("{sentence}");
    assert!(sentence.contains(names.to_str().unwrap()), "{sentence}");
    assert!(
        !sentence.contains('\n') && sentence.len() < 400,
        "{sentence}"
    );
    assert!(
        contents(data) == before,
        "the folder was changed: {sentence}"
    );
    error
}

fn scramble(file: &Path, from: usize) {
    let mut bytes = fs::read(file).unwrap();
    bytes.iter_mut().skip(from).for_each(|byte| *byte ^= 0x55);
    fs::write(file, bytes).unwrap();
}

#[test]
fn a_missing_table_file_is_named() {
    let (_folder, data) = filled_folder();
    let file = files(&data, ".sst").remove(0);
    fs::remove_file(&file).unwrap();
    assert!(matches!(refuses(&data, &file), OpenError::Damaged { .. }));
}

#[test]
fn a_shortened_table_file_is_named() {
    let (_folder, data) = filled_folder();
    let file = files(&data, ".sst").remove(0);
    let bytes = fs::read(&file).unwrap();
    fs::write(&file, &bytes[..bytes.len() / 2]).unwrap();
    assert!(matches!(refuses(&data, &file), OpenError::Damaged { .. }));
}

#[test]
fn a_damaged_table_file_is_named_when_opened_or_read() {
    let (_folder, data) = filled_folder();
    let file = files(&data, ".sst").remove(0);
    scramble(&file, 0);
    match try_open(&data, Durability::Group) {
        Err(error) => assert!(matches!(error, OpenError::Damaged { .. }), "{error}"),
        Ok(engine) => run(async {
            let snapshot = engine.snapshot().await.unwrap();
            let error = snapshot.get(b"first 0 7").await.unwrap_err();
            assert!(matches!(error, EngineError::Corrupt(_)), "{error}");
            let name = file.file_name().unwrap().to_str().unwrap();
            assert!(error.to_string().contains(name), "{error}");
        }),
    }
}

#[test]
fn a_damaged_block_inside_a_table_file_is_reported_by_reads() {
    let (_folder, data) = filled_folder();
    for file in files(&data, ".sst") {
        let mut bytes = fs::read(&file).unwrap();
        bytes.iter_mut().take(2_000).for_each(|byte| *byte ^= 0x55);
        fs::write(&file, bytes).unwrap();
    }
    let engine = open(&data);
    run(async {
        let snapshot = engine.snapshot().await.unwrap();
        let error = snapshot.get(b"first 0 0").await.unwrap_err();
        println!("{error}");
        assert!(matches!(error, EngineError::Corrupt(_)), "{error}");
    });
}

#[test]
fn a_damaged_manifest_is_named() {
    let (_folder, data) = filled_folder();
    let current = fs::read_to_string(data.join("rocks/CURRENT")).unwrap();
    let file = data.join("rocks").join(current.trim());
    scramble(&file, 20);
    assert!(matches!(refuses(&data, &file), OpenError::Damaged { .. }));
}

#[test]
fn a_missing_manifest_is_named() {
    let (_folder, data) = filled_folder();
    let current = fs::read_to_string(data.join("rocks/CURRENT")).unwrap();
    let file = data.join("rocks").join(current.trim());
    fs::remove_file(&file).unwrap();
    assert!(matches!(refuses(&data, &file), OpenError::Damaged { .. }));
}

#[test]
fn a_damaged_current_file_is_named() {
    let (_folder, data) = filled_folder();
    let file = data.join("rocks/CURRENT");
    for content in ["", "nonsense", "nonsense\n", "MANIFEST-999999\n"] {
        fs::write(&file, content).unwrap();
        let named = if content.starts_with("MANIFEST") {
            data.join("rocks").join(content.trim())
        } else {
            file.clone()
        };
        assert!(
            matches!(refuses(&data, &named), OpenError::Damaged { .. }),
            "{content:?}"
        );
    }
}

#[test]
fn a_missing_current_file_does_not_start_an_empty_database() {
    let (_folder, data) = filled_folder();
    let file = data.join("rocks/CURRENT");
    fs::remove_file(&file).unwrap();
    assert!(matches!(refuses(&data, &file), OpenError::Damaged { .. }));
}

#[test]
fn a_missing_database_does_not_become_an_empty_one() {
    let remove_all = |folder: &Path, keep: fn(&str) -> bool| {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if !keep(path.file_name().unwrap().to_str().unwrap()) {
                fs::remove_file(path).unwrap();
            }
        }
    };
    let keeps: [fn(&str) -> bool; 4] = [
        |_| false,
        |name| name.ends_with(".log"),
        |name| name.starts_with("LOG") || name == "LOCK" || name == "IDENTITY",
        |name| name.starts_with("OPTIONS"),
    ];
    for keep in keeps {
        let (_folder, data) = filled_folder();
        remove_all(&data.join("rocks"), keep);
        let current = data.join("rocks/CURRENT");
        assert!(matches!(
            refuses(&data, &current),
            OpenError::Damaged { .. }
        ));
    }
    let (_folder, data) = filled_folder();
    fs::remove_dir_all(data.join("rocks")).unwrap();
    let error = refuses(&data, &data.join("rocks"));
    assert!(matches!(error, OpenError::Damaged { .. }), "{error}");
    assert!(!data.join("rocks").exists());
}

/// A first start that was cut off at any step is simply begun again.
#[test]
fn a_folder_whose_making_was_cut_off_is_made() {
    let steps: [fn(&Path); 4] = [
        |_| {},
        |data| fs::write(data.join("format"), "tessera rocks 1\n").unwrap(),
        |data| {
            fs::write(data.join("format"), "tessera rocks 1\n").unwrap();
            fs::create_dir(data.join("rocks")).unwrap();
        },
        |data| {
            fs::write(data.join("format"), "tessera rocks 1\n").unwrap();
            fs::create_dir(data.join("rocks")).unwrap();
            fs::write(data.join("rocks/MANIFEST-000001"), "half").unwrap();
        },
    ];
    for step in steps {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        fs::create_dir(&data).unwrap();
        fs::write(data.join("new"), "").unwrap();
        step(&data);
        run(async {
            let engine = open(&data);
            commit(&engine, transaction("1", 10)).await.unwrap();
            engine.close().await.unwrap();
        });
        assert!(!data.join("new").exists());
        assert_eq!(run(async { whole_transactions(&open(&data)).await }), ["1"]);
    }
}

#[test]
fn a_damaged_note_of_what_is_synced_stops_nobody() {
    let (_folder, data) = filled_folder();
    for content in [
        &b""[..],
        b"short",
        b"far more than there should be",
        &[0; 12],
    ] {
        fs::write(data.join("synced"), content).unwrap();
        run(open(&data).close()).unwrap();
        assert_eq!(fs::metadata(data.join("synced")).unwrap().len(), 12);
    }
}

/// Starting a program copies every open file into its process for a moment: a lock that was given
/// back meanwhile must be free all the same.
#[test]
fn a_closed_folder_is_free_while_other_threads_start_programs() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let stop = std::sync::atomic::AtomicBool::new(false);
    let stopped = || stop.load(std::sync::atomic::Ordering::Relaxed);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !stopped() {
                    std::process::Command::new("true").status().unwrap();
                }
            });
        }
        let outcomes: Vec<Option<OpenError>> = (0..60)
            .map(|_| try_open(&data, Durability::Group).err())
            .collect();
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        let failed = outcomes.iter().flatten().next();
        assert!(failed.is_none(), "{failed:?}");
    });
}

/// The mode of everything below a folder, itself included.
fn modes(folder: &Path) -> Vec<(PathBuf, u32)> {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let mut found = vec![(folder.to_owned(), mode(folder))];
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(modes(&path));
        } else {
            let mode = mode(&path);
            found.push((path, mode));
        }
    }
    found
}

/// Nobody but the owner gets past the folder, whatever RocksDB gives its files meanwhile; and what
/// is there when it is opened is narrowed.
#[test]
fn a_data_folder_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let (folder, data) = filled_folder();
    let backup = folder.path().join("backup");
    for (path, mode) in modes(&data) {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode | 0o055)).unwrap();
    }
    run(async {
        let engine = open(&data);
        engine.checkpoint(&backup).await.unwrap();
        for folder in [&data, &backup] {
            let wide = |(path, mode): &(PathBuf, u32)| path.is_dir() && *mode != 0o700;
            let wide: Vec<_> = modes(folder).into_iter().filter(wide).collect();
            assert!(wide.is_empty(), "{wide:?}");
        }
        engine.close().await.unwrap();
    });
    run(open(&data).close()).unwrap();
    let wide = |(path, mode): &(PathBuf, u32)| {
        let is_data = path
            .extension()
            .is_some_and(|kind| kind == "sst" || kind == "log");
        is_data && path.metadata().unwrap().len() > 0 && mode & 0o077 != 0
    };
    let wide: Vec<_> = modes(&data).into_iter().filter(wide).collect();
    assert!(wide.is_empty(), "{wide:?}");
}

#[test]
fn a_missing_or_damaged_format_file_is_named() {
    let (_folder, data) = filled_folder();
    let file = data.join("format");
    fs::write(&file, "nonsense").unwrap();
    assert!(matches!(refuses(&data, &file), OpenError::Damaged { .. }));
    fs::remove_file(&file).unwrap();
    assert!(matches!(refuses(&data, &file), OpenError::Damaged { .. }));
}

#[test]
fn a_newer_format_asks_for_a_newer_release() {
    let (_folder, data) = filled_folder();
    fs::write(data.join("format"), "tessera rocks 2\n").unwrap();
    let error = refuses(&data, &data);
    assert!(
        matches!(
            error,
            OpenError::NewerFormat {
                found: 2,
                known: 1,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn a_folder_in_use_names_who_has_it() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let engine = open(&data);
    let error = try_open(&data, Durability::Group).err().unwrap();
    println!("{error}");
    assert!(
        error.to_string().contains("in use by this process"),
        "{error}"
    );
    run(async {
        // The refused attempt leaves the first one whole.
        commit(&engine, transaction("1", 10)).await.unwrap();
        assert_eq!(whole_transactions(&engine).await, ["1"]);
    });
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "damage::opens_a_folder_in_use", "--nocapture"])
        .env(IN_USE_FOLDER, &data)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stdout);
    let expected = format!("in use by process {}", std::process::id());
    assert!(said.contains(&expected), "{said}");
}

const IN_USE_FOLDER: &str = "TESSERA_CRASH_IN_USE_FOLDER";

/// Not a test by itself: the second process.
#[test]
fn opens_a_folder_in_use() {
    let Some(folder) = std::env::var_os(IN_USE_FOLDER) else {
        return;
    };
    let error = try_open(Path::new(&folder), Durability::Group)
        .err()
        .unwrap();
    println!("{error}");
}

#[test]
fn a_file_in_the_place_of_the_folder_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("data");
    fs::write(&file, "mine").unwrap();
    let error = try_open(&file, Durability::Group).err().unwrap();
    println!("{error}");
    assert!(matches!(error, OpenError::NotAFolder { .. }), "{error}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
    let below = try_open(&file.join("below"), Durability::Group)
        .err()
        .unwrap();
    assert!(matches!(below, OpenError::NotAFolder { .. }), "{below}");
}

#[test]
fn a_missing_folder_above_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("missing/data");
    let error = try_open(&data, Durability::Group).err().unwrap();
    println!("{error}");
    assert!(matches!(error, OpenError::NoParent { .. }), "{error}");
    assert!(!folder.path().join("missing").exists());
}
