//! The write-ahead log cut off, as a power cut leaves it: kill -9 alone does not test the sync.
//!
//! After each acknowledged transaction the length of the log is noted. Cut anywhere, as a power cut
//! would if the syncs had not been, the data must open, hold every transaction acknowledged up to
//! that length, and of the rest a clean prefix. Where the folder still says how far it was synced,
//! the same cut is a loss, and must be named.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use tessera_storage::{Durability, OpenError};

use crate::support::{
    Dice, commit, copy_folder, files, open, run, transaction, try_open, try_open_with,
    whole_transactions,
};

const TRANSACTIONS: usize = 120;
/// The log is written in blocks of this size, and a record may span several.
const BLOCK: u64 = 32 << 10;

/// A data folder as it was on disk while the engine ran, and how long the log was at each answer.
struct Recording {
    folder: TempDir,
    log_lengths: Vec<u64>,
}

impl Recording {
    /// Writes with one sync per transaction, then copies the folder without closing the engine.
    fn make(dice: &mut Dice) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let live = folder.path().join("live");
        let mut log_lengths = Vec::new();
        run(async {
            let engine = open(&live);
            for number in 0..TRANSACTIONS {
                let sizes = [20, 2_000, 40_000];
                let size = sizes[usize::try_from(dice.below(3)).unwrap()];
                let size = usize::try_from(dice.below(size)).unwrap();
                commit(&engine, transaction(&id(number), size))
                    .await
                    .unwrap();
                log_lengths.push(newest_log(&live).metadata().unwrap().len());
            }
            copy_folder(&live, &folder.path().join("copy"));
            engine.close().await.unwrap();
        });
        Self {
            folder,
            log_lengths,
        }
    }

    fn log_length(&self) -> u64 {
        *self.log_lengths.last().unwrap()
    }

    /// A fresh copy whose newest log was changed by `change`, and which does not say how far it was
    /// synced: that note reached the disk no more than the rest.
    fn changed(&self, name: &str, change: impl FnOnce(&Path)) -> PathBuf {
        let target = self.robbed(name, change);
        std::fs::remove_file(target.join("synced")).unwrap();
        target
    }

    /// A fresh copy whose newest log was changed by `change` after all of it was synced.
    fn robbed(&self, name: &str, change: impl FnOnce(&Path)) -> PathBuf {
        let target = self.folder.path().join(name);
        copy_folder(&self.folder.path().join("copy"), &target);
        change(&newest_log(&target));
        target
    }
}

fn id(number: usize) -> String {
    format!("{number:05}")
}

fn newest_log(data: &Path) -> PathBuf {
    files(data, ".log").pop().unwrap()
}

fn cut(log: &Path, length: u64) {
    OpenOptions::new()
        .write(true)
        .open(log)
        .unwrap()
        .set_len(length)
        .unwrap();
}

fn flip(log: &Path, offset: u64) {
    let mut bytes = std::fs::read(log).unwrap();
    bytes[usize::try_from(offset).unwrap()] ^= 0x55;
    std::fs::write(log, bytes).unwrap();
}

/// Puts zeros in the place of some bytes.
fn clear(log: &Path, offset: u64, length: usize) {
    let mut bytes = std::fs::read(log).unwrap();
    let offset = usize::try_from(offset).unwrap();
    bytes
        .iter_mut()
        .skip(offset)
        .take(length)
        .for_each(|byte| *byte = 0);
    std::fs::write(log, bytes).unwrap();
}

/// Opens the folder and checks that it holds the first transactions, whole, and no others.
fn count_prefix(data: &Path) -> usize {
    let found = run(async {
        let engine = open(data);
        let found = whole_transactions(&engine).await;
        engine.close().await.unwrap();
        found
    });
    let expected: Vec<String> = (0..found.len()).map(id).collect();
    assert_eq!(found, expected, "not a prefix");
    found.len()
}

#[test]
fn a_log_cut_anywhere_keeps_what_was_acknowledged_before() {
    let mut dice = Dice::new("log cut");
    let recording = Recording::make(&mut dice);
    let lengths = &recording.log_lengths;
    assert!(
        recording.log_length() > 4 * BLOCK,
        "the log must span several blocks"
    );
    let mut cuts: Vec<u64> = (0..25)
        .map(|_| dice.below(recording.log_length() + 1))
        .collect();
    let last_but_one = lengths[TRANSACTIONS - 2];
    for edge in [
        0,
        lengths[0],
        lengths[TRANSACTIONS / 2],
        last_but_one,
        recording.log_length(),
    ] {
        cuts.extend([edge.saturating_sub(1), edge, edge + 1, edge + 7]);
    }
    cuts.extend([BLOCK - 1, BLOCK, BLOCK + 1, BLOCK + 6, 2 * BLOCK + 3]);
    cuts.retain(|length| *length <= recording.log_length());
    for length in cuts {
        let data = recording.changed(&format!("cut at {length}"), |log| cut(log, length));
        let acknowledged = lengths.iter().filter(|needed| **needed <= length).count();
        let found = count_prefix(&data);
        // Each answer had its own sync, so the log holds no more than the acknowledged ones either.
        assert_eq!(found, acknowledged, "cut at {length}");
        std::fs::remove_dir_all(data).unwrap();
    }
}

#[test]
fn a_log_cut_anywhere_after_it_was_synced_is_named() {
    let mut dice = Dice::new("log robbed");
    let recording = Recording::make(&mut dice);
    let end = recording.log_length();
    let mut cuts: Vec<u64> = (0..25).map(|_| dice.below(end)).collect();
    // Also exactly between two batches, where nothing looks torn.
    cuts.extend(recording.log_lengths.iter().rev().skip(1).step_by(9));
    cuts.extend([0, 1, 7, BLOCK, BLOCK + 7, end / 2, end - 1]);
    for length in cuts {
        let data = recording.robbed(&format!("robbed at {length}"), |log| cut(log, length));
        check_loss_is_named(&data, &newest_log(&data));
        // As the message says: without the note, what is left opens.
        std::fs::remove_file(data.join("synced")).unwrap();
        let kept = |needed: &&u64| **needed <= length;
        let left = recording.log_lengths.iter().filter(kept).count();
        assert_eq!(count_prefix(&data), left, "cut at {length}");
        std::fs::remove_dir_all(data).unwrap();
    }
    let data = recording.robbed("deleted", |log| std::fs::remove_file(log).unwrap());
    check_loss_is_named(&data, &data.join("rocks"));
    let data = recording.robbed("whole", |_| {});
    assert_eq!(count_prefix(&data), TRANSACTIONS);
    // And once more: by now everything is in table files.
    assert_eq!(count_prefix(&data), TRANSACTIONS);
}

/// Opening must fail with a sentence that names `file`, and change no log.
fn check_loss_is_named(data: &Path, file: &Path) {
    let contents = || files(data, ".log").into_iter().map(std::fs::read);
    let before: Vec<Vec<u8>> = contents().map(Result::unwrap).collect();
    match try_open(data, Durability::Group) {
        Err(error @ OpenError::Damaged { .. }) => {
            let sentence = error.to_string();
            assert!(sentence.contains(file.to_str().unwrap()), "{sentence}");
            assert!(sentence.contains("acknowledged writes"), "{sentence}");
            assert!(sentence.contains("/synced"), "{sentence}");
        }
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("the loss was not noticed"),
    }
    let after: Vec<Vec<u8>> = contents().map(Result::unwrap).collect();
    assert!(before == after, "a log was changed");
}

/// The newest log is lost while older writes are in table files, in older logs, or both.
#[test]
fn a_lost_log_is_noticed_whatever_lies_in_table_files() {
    let mut dice = Dice::new("log lost");
    for round in 0..6 {
        let folder = tempfile::tempdir().unwrap();
        let (live, copy) = (folder.path().join("live"), folder.path().join("copy"));
        run(async {
            for _ in 0..dice.below(3) {
                let engine = open(&live);
                for _ in 0..dice.below(20) {
                    let id = format!("closed {}", dice.below(1 << 40));
                    commit(&engine, transaction(&id, 500)).await.unwrap();
                }
                engine.close().await.unwrap();
            }
            // So little memory that tables are written while it runs.
            let engine = try_open_with(&live, Durability::Group, 1).unwrap();
            let writes = if round % 2 == 0 { 5 } else { 150 };
            for number in 0..writes {
                let size = 30_000;
                commit(&engine, transaction(&id(number), size))
                    .await
                    .unwrap();
            }
            copy_folder(&live, &copy);
            engine.close().await.unwrap();
        });
        let log = newest_log(&copy);
        if log.metadata().unwrap().len() == 0 {
            continue;
        }
        if round % 3 == 0 {
            cut(&log, 0);
        } else {
            std::fs::remove_file(&log).unwrap();
        }
        let error = try_open(&copy, Durability::Group).err().expect("unnoticed");
        assert!(matches!(error, OpenError::Damaged { .. }), "{error}");
        assert!(try_open(&live, Durability::Group).is_ok());
    }
}

/// Files of an older copy in the place of newer ones.
#[test]
fn an_older_database_in_the_folder_of_a_newer_one_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let (live, backup) = (folder.path().join("live"), folder.path().join("backup"));
    run(async {
        let engine = open(&live);
        commit(&engine, transaction("old", 100)).await.unwrap();
        engine.checkpoint(&backup).await.unwrap();
        commit(&engine, transaction("new", 100)).await.unwrap();
        engine.close().await.unwrap();
        let engine = open(&backup);
        assert_eq!(whole_transactions(&engine).await, ["old"]);
        engine.close().await.unwrap();
    });
    std::fs::remove_dir_all(live.join("rocks")).unwrap();
    copy_folder(&backup.join("rocks"), &live.join("rocks"));
    let error = try_open(&live, Durability::Group).err().expect("unnoticed");
    assert!(matches!(error, OpenError::Damaged { .. }), "{error}");
}

#[test]
fn a_log_with_zeros_behind_its_end_opens_whole() {
    let mut dice = Dice::new("log zeros");
    let recording = Recording::make(&mut dice);
    for zeros in [1, 6, 7, 8, 4_096, 100_000] {
        let length = recording.log_length() + zeros;
        let data = recording.changed(&format!("{zeros} zeros"), |log| cut(log, length));
        assert_eq!(count_prefix(&data), TRANSACTIONS, "{zeros} zeros");
    }
}

#[test]
fn damage_inside_the_log_is_reported_and_never_skipped() {
    let mut dice = Dice::new("log damage");
    let recording = Recording::make(&mut dice);
    let last_start = recording.log_lengths[TRANSACTIONS - 2];
    for round in 0..30 {
        // Anywhere but in the last transaction. Every third time a whole page becomes zeros.
        let offset = dice.below(last_start);
        let data = recording.changed(&format!("damage {round}"), |log| {
            if round % 3 == 0 {
                clear(log, offset, 4_096)
            } else {
                flip(log, offset)
            }
        });
        match try_open(&data, Durability::Group) {
            Err(OpenError::Damaged { file, cause }) => {
                assert_eq!(file, newest_log(&data), "{cause}");
            }
            Err(error) => panic!("damage at {offset}: {error}"),
            Ok(engine) => {
                let found = run(whole_transactions(&engine)).len();
                assert_eq!(found, TRANSACTIONS, "damage at {offset} was not noticed");
                // The few bytes that pad a block mean nothing, whatever they are.
                assert!(
                    BLOCK - offset % BLOCK < 7,
                    "damage at {offset} was not noticed"
                );
            }
        }
        std::fs::remove_dir_all(data).unwrap();
    }
}

#[test]
fn a_garbled_last_transaction_counts_as_torn() {
    let mut dice = Dice::new("log garbled");
    let recording = Recording::make(&mut dice);
    let (start, end) = (
        recording.log_lengths[TRANSACTIONS - 2],
        recording.log_length(),
    );
    for round in 0..15 {
        let offset = start + dice.below(end - start);
        let data = recording.changed(&format!("garbled {round}"), |log| {
            if round % 3 == 0 {
                clear(log, offset, 4_096)
            } else {
                flip(log, offset)
            }
        });
        let found = count_prefix(&data);
        assert!(
            found >= TRANSACTIONS - 1,
            "{found} after a flip at {offset}"
        );
        std::fs::remove_dir_all(data).unwrap();
    }
}

/// Pages are written in any order: of what was never synced, a later page may survive an earlier
/// one.
#[test]
fn a_hole_in_what_was_never_synced_leaves_a_clean_prefix() {
    const WRITTEN: usize = 300;
    let mut dice = Dice::new("log hole");
    let mut prefixes = 0;
    for _ in 0..20 {
        let folder = tempfile::tempdir().unwrap();
        let (live, copy) = (folder.path().join("live"), folder.path().join("copy"));
        run(async {
            let engine = try_open(&live, Durability::Periodic).unwrap();
            for number in 0..WRITTEN {
                commit(&engine, transaction(&id(number), 300))
                    .await
                    .unwrap();
            }
            copy_folder(&live, &copy);
            engine.close().await.unwrap();
        });
        let log = newest_log(&copy);
        let length = log.metadata().unwrap().len();
        let page = dice.below(length / 4_096) * 4_096;
        clear(&log, page, 4_096);
        // A hole in what was synced is damage by the testimony of the log alone, too.
        std::fs::remove_file(copy.join("synced")).unwrap();
        match try_open(&copy, Durability::Periodic) {
            Ok(engine) => {
                run(engine.close()).unwrap();
                drop(engine);
                assert!(count_prefix(&copy) < WRITTEN, "page {page}");
                prefixes += 1;
            }
            // A sync fell in between: then this page had been promised.
            Err(error) => assert!(matches!(error, OpenError::Damaged { .. }), "{error}"),
        }
    }
    assert!(prefixes > 0, "there was always a sync in between");
}
