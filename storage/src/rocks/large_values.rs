//! Checks that the files of large values are complete. RocksDB looks for missing tables when it
//! opens, and for missing blob files only when a value is read.

use std::path::Path;

use rocksdb::DB;

use super::open_error::OpenError;

/// The number of blob files in the newest version of the data.
const REFERRED: &str = "rocksdb.num-blob-files";

/// Refuses a database that refers to more blob files than there are.
pub(super) fn check(database: &DB, rocks_path: &Path) -> Result<(), OpenError> {
    let referred = database.property_int_value(REFERRED);
    let referred = referred.ok().flatten().unwrap_or(0);
    let found = count(rocks_path).map_err(|error| OpenError::from_io(rocks_path, &error))?;
    if found >= referred {
        return Ok(());
    }
    Err(OpenError::Damaged {
        file: rocks_path.to_owned(),
        cause: format!("{} of {referred} .blob files are missing", referred - found),
    })
}

fn count(rocks_path: &Path) -> std::io::Result<u64> {
    let mut found = 0;
    for entry in std::fs::read_dir(rocks_path)? {
        let is_blob = entry?.path().extension().is_some_and(|it| it == "blob");
        found += u64::from(is_blob);
    }
    Ok(found)
}
