//! Large values lie in files of their own: damage to those is named, and compaction leaves them be.

use std::fs;
use std::path::PathBuf;

use bytes::Bytes;
use tempfile::TempDir;
use tessera_core::engine::EngineError;
use tessera_core::write_set::WriteSet;
use tessera_storage::{Durability, OpenError};

use crate::support::{commit, files, open, run, try_open};

const LARGE: usize = 200 << 10;

fn put(number: usize, filler: u8, size: usize) -> WriteSet {
    let mut writes = WriteSet::default();
    // Not to be compressed away.
    let mut state = u64::from(filler) + number as u64;
    let mut value = Vec::with_capacity(size + 8);
    while value.len() < size {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        value.extend_from_slice(&state.to_le_bytes());
    }
    writes.put(
        format!("{number:05}").into_bytes().into(),
        Bytes::from(value),
    );
    writes
}

/// A closed folder with large and small values in files.
fn filled_folder() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let engine = open(&data);
    run(async {
        for number in 0..40 {
            commit(&engine, put(number, 7, LARGE)).await.unwrap();
            commit(&engine, put(1_000 + number, 7, 100)).await.unwrap();
        }
        engine.close().await.unwrap();
    });
    drop(engine);
    // Opening writes what the log holds to files.
    run(async { open(&data).close().await.unwrap() });
    (folder, data)
}

#[test]
fn large_values_lie_in_files_of_their_own_and_come_back_whole() {
    let (_folder, data) = filled_folder();
    let size = |suffix: &str| -> u64 {
        let files = files(&data, suffix);
        files.iter().map(|it| fs::metadata(it).unwrap().len()).sum()
    };
    assert!(size(".blob") > 40 * 100 * 1_024, "{}", size(".blob"));
    assert!(size(".sst") < 1 << 20, "{}", size(".sst"));
    let engine = open(&data);
    run(async {
        let snapshot = engine.snapshot().await.unwrap();
        for number in [0, 17, 39] {
            let value = snapshot.get(format!("{number:05}").as_bytes()).await;
            let expected = put(number, 7, LARGE);
            let mut puts = expected.writes().values();
            let tessera_core::write_set::Write::Put(expected) = puts.next().unwrap() else {
                unreachable!("it puts");
            };
            assert_eq!(value.unwrap().as_ref(), Some(expected));
        }
    });
}

#[test]
fn a_missing_file_of_large_values_is_noticed() {
    let (_folder, data) = filled_folder();
    fs::remove_file(files(&data, ".blob").remove(0)).unwrap();
    let error = try_open(&data, Durability::Group).err().expect("it opened");
    assert!(matches!(error, OpenError::Damaged { .. }), "{error}");
    let sentence = error.to_string();
    assert!(sentence.contains(data.join("rocks").to_str().unwrap()));
    assert!(
        sentence.contains("1 of 1 .blob files are missing"),
        "{sentence}"
    );
}

#[test]
fn a_damaged_file_of_large_values_is_named_when_opened_or_read() {
    for place in [0, 2, 3] {
        let (_folder, data) = filled_folder();
        let file = files(&data, ".blob").remove(0);
        let mut bytes = fs::read(&file).unwrap();
        let from = bytes.len() * place / 4;
        bytes
            .iter_mut()
            .skip(from)
            .take(2_000)
            .for_each(|it| *it ^= 0x55);
        fs::write(&file, bytes).unwrap();
        let name = file.file_name().unwrap().to_str().unwrap().to_owned();
        let engine = match try_open(&data, Durability::Group) {
            Err(error) => {
                assert!(matches!(error, OpenError::Damaged { .. }), "{error}");
                assert!(error.to_string().contains(&name), "{error}");
                continue;
            }
            Ok(engine) => engine,
        };
        let found = run(async {
            let snapshot = engine.snapshot().await.unwrap();
            let mut found = 0;
            for number in 0..40 {
                let value = snapshot.get(format!("{number:05}").as_bytes()).await;
                if let Err(error) = value {
                    assert!(matches!(error, EngineError::Corrupt(_)), "{error}");
                    found += 1;
                }
            }
            found
        });
        assert!(found >= 1, "damage at {place} of 4 went unnoticed");
    }
}
