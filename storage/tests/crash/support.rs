//! Transactions that can be recognised after a crash, and small tools around them.

use std::collections::BTreeSet;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use tessera_core::engine::{CommitOutcome, Engine, EngineResult, KeyRange, Scan};
use tessera_core::write_set::{Tally, WriteSet};
use tessera_storage::{Durability, EngineConfig, OpenError};

const HALVES: [&str; 3] = ["first", "second", "third"];

pub(crate) fn run<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(work)
}

pub(crate) fn try_open(path: &Path, durability: Durability) -> Result<Arc<dyn Engine>, OpenError> {
    try_open_with(path, durability, 64 << 20)
}

pub(crate) fn try_open_with(
    path: &Path,
    durability: Durability,
    memory_bytes: usize,
) -> Result<Arc<dyn Engine>, OpenError> {
    let path = path.to_owned();
    tessera_storage::open(&EngineConfig::Rocks {
        path,
        durability,
        memory_bytes,
    })
}

pub(crate) fn open(path: &Path) -> Arc<dyn Engine> {
    try_open(path, Durability::Group).unwrap()
}

/// A transaction over three keys far apart, and a tally that counts them.
pub(crate) fn transaction(id: &str, value_bytes: usize) -> WriteSet {
    let mut writes = WriteSet::default();
    for half in HALVES {
        let mut value = format!("{id} {half} ").into_bytes();
        value.resize(value.len() + value_bytes, b'.');
        writes.put(Bytes::from(format!("{half} {id}")), value.into());
    }
    let keys = i64::try_from(HALVES.len()).unwrap();
    let bytes = i64::try_from(value_bytes).unwrap();
    writes.add(Bytes::from_static(b"tally"), Tally { items: keys, bytes });
    writes
}

/// Takes such a transaction of 5,000 bytes back.
pub(crate) fn deletion(id: &str) -> WriteSet {
    let mut writes = WriteSet::default();
    for half in HALVES {
        writes.delete(Bytes::from(format!("{half} {id}")));
    }
    let keys = i64::try_from(HALVES.len()).unwrap();
    let taken = Tally {
        items: -keys,
        bytes: -5_000,
    };
    writes.add(Bytes::from_static(b"tally"), taken);
    writes
}

pub(crate) async fn commit(
    engine: &Arc<dyn Engine>,
    writes: WriteSet,
) -> EngineResult<CommitOutcome> {
    engine.snapshot().await?.commit(writes).await
}

/// Checks that no transaction is there in part and that the tally agrees. Answers the ids found,
/// sorted.
pub(crate) async fn whole_transactions(engine: &Arc<dyn Engine>) -> Vec<String> {
    let snapshot = engine.snapshot().await.unwrap();
    let mut ids_by_half = Vec::new();
    let mut filler_bytes = 0;
    for half in HALVES {
        let mut scan = Scan::new(KeyRange::prefix(format!("{half} ")));
        let mut ids = Vec::new();
        loop {
            let page = snapshot.scan(&scan).await.unwrap();
            for (key, value) in &page.entries {
                let key = std::str::from_utf8(key).unwrap();
                let id = key.strip_prefix(half).unwrap().trim_start().to_owned();
                let filler = value
                    .strip_prefix(format!("{id} {half} ").as_bytes())
                    .unwrap();
                assert!(
                    filler.iter().all(|byte| *byte == b'.'),
                    "{key} has other bytes"
                );
                filler_bytes += filler.len();
                ids.push(id);
            }
            match page.entries.last() {
                Some((last, _)) if page.more => scan = scan.after(last),
                _ => break,
            }
        }
        ids_by_half.push(ids);
    }
    let tally = snapshot.get(b"tally").await.unwrap();
    let tally = tally
        .map(|tally| Tally::decode(&tally).unwrap())
        .unwrap_or_default();
    let ids = ids_by_half.pop().unwrap();
    assert!(
        ids_by_half.iter().all(|other| *other == ids),
        "transactions are there in part"
    );
    let keys = HALVES.len();
    assert_eq!(tally.items, i64::try_from(ids.len() * keys).unwrap());
    assert_eq!(tally.bytes, i64::try_from(filler_bytes / keys).unwrap());
    ids
}

/// Numbers that differ from run to run; a failing test prints the seed.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(name: &str) -> Self {
        use std::hash::{BuildHasher, RandomState};
        let seed = RandomState::new().hash_one(name) | 1;
        println!("{name}: seed {seed}");
        Self(seed)
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// The files of the database whose names end like this, oldest first.
pub(crate) fn files(data: &Path, ending: &str) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(data.join("rocks"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_str().unwrap().ends_with(ending))
        .collect();
    files.sort();
    files
}

/// Copies a data folder file by file, as it is on disk. Begins again where files come or go
/// meanwhile, as the tables and logs of an open engine do: half of them would be of one moment and
/// half of another.
pub(crate) fn copy_folder(from: &Path, to: &Path) {
    loop {
        let before = names(from);
        match try_copy_folder(from, to) {
            Ok(()) if names(from) == before => return,
            Ok(()) => {}
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::NotFound, "{error}"),
        }
        std::fs::remove_dir_all(to).unwrap();
    }
}

/// Every file in a folder and in those below it.
fn names(folder: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.append(&mut names(&path));
        }
        found.insert(path);
    }
    found
}

fn try_copy_folder(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir(to)?;
    for entry in std::fs::read_dir(from)? {
        let path = entry?.path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            try_copy_folder(&path, &target)?;
        } else {
            std::fs::copy(&path, &target)?;
        }
    }
    Ok(())
}
