//! The data folder: what lies in it beside RocksDB's own files, and what is checked before opening
//! it.
//!
//! ```text
//! <data>/format       one line, "tessera rocks 1"; written before anything else
//! <data>/lock         locked while the folder is open; holds the number of that process
//! <data>/rocks/       RocksDB
//! ```

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use super::open_error::{OpenError, is_database_file};

/// The newest layout this program reads and the one it writes.
const FORMAT: u32 = 1;
const FORMAT_LINE_START: &str = "tessera rocks ";

/// Where RocksDB's files lie.
pub(super) fn rocks_path(data: &Path) -> PathBuf {
    data.join("rocks")
}

/// Holds a data folder for this process. RocksDB has a lock too, but takes it only after we looked
/// at its logs, which nobody may be writing then.
pub(super) struct FolderLock {
    _file: File,
}

impl FolderLock {
    /// Makes the folder if need be, and takes it.
    pub(super) fn take(data: &Path) -> Result<Self, OpenError> {
        create_folder(data)?;
        let cannot = |error: io::Error| OpenError::from_io(data, &error);
        let options = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .clone();
        let mut file = options.open(lock_path(data)).map_err(cannot)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(OpenError::InUse {
                    path: data.to_owned(),
                    holder: holder(data),
                });
            }
            Err(TryLockError::Error(error)) => return Err(cannot(error)),
        }
        file.set_len(0).map_err(cannot)?;
        writeln!(file, "{}", std::process::id()).map_err(cannot)?;
        Ok(Self { _file: file })
    }
}

/// Makes a locked folder ready for RocksDB, or says why it cannot be. Answers whether the database
/// is new.
pub(super) fn prepare(data: &Path) -> Result<bool, OpenError> {
    let rocks = rocks_path(data);
    let has_data = has_database_files(&rocks)?;
    check_format(data, has_data)?;
    create_folder(&rocks)?;
    // RocksDB would start an empty database beside the files and delete them as obsolete.
    let has_current = fs::exists(rocks.join("CURRENT")).unwrap_or(true);
    if has_data && !has_current {
        let cause = "the file is missing though the data is there".to_owned();
        return Err(OpenError::Damaged {
            file: rocks.join("CURRENT"),
            cause,
        });
    }
    Ok(!has_data)
}

/// Who has `data` open, as far as its lock file tells.
pub(super) fn holder(data: &Path) -> String {
    let pid: Option<u32> = fs::read_to_string(lock_path(data))
        .ok()
        .and_then(|text| text.trim().parse().ok());
    match pid {
        Some(pid) if pid == std::process::id() => "this process".to_owned(),
        Some(pid) if Path::new("/proc").join(pid.to_string()).exists() => format!("process {pid}"),
        _ => "another process".to_owned(),
    }
}

/// Writes the format line into a folder that has none, durably.
pub(super) fn write_format(data: &Path) -> io::Result<()> {
    let draft = data.join("format.new");
    let mut file = File::create(&draft)?;
    writeln!(file, "{FORMAT_LINE_START}{FORMAT}")?;
    file.sync_all()?;
    fs::rename(&draft, data.join("format"))?;
    sync_folder(data)
}

/// Makes the entries of a folder durable.
pub(super) fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Makes a new folder durable, which is an entry of the one above it.
pub(super) fn sync_parent(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => sync_folder(Path::new(".")),
        Some(parent) => sync_folder(parent),
        None => Ok(()),
    }
}

fn lock_path(data: &Path) -> PathBuf {
    data.join("lock")
}

fn create_folder(path: &Path) -> Result<(), OpenError> {
    match fs::create_dir(path) {
        Ok(()) => sync_parent(path).map_err(|error| OpenError::from_io(path, &error)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            if path.is_dir() {
                Ok(())
            } else {
                Err(OpenError::NotAFolder {
                    path: path.to_owned(),
                })
            }
        }
        Err(error) => Err(OpenError::from_io(path, &error)),
    }
}

fn has_database_files(rocks: &Path) -> Result<bool, OpenError> {
    let entries = match fs::read_dir(rocks) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(OpenError::from_io(rocks, &error)),
    };
    for entry in entries {
        let entry = entry.map_err(|error| OpenError::from_io(rocks, &error))?;
        if entry.file_name().to_str().is_some_and(is_database_file) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn check_format(data: &Path, has_data: bool) -> Result<(), OpenError> {
    let file = data.join("format");
    let damaged = |cause: &str| OpenError::Damaged {
        file: file.clone(),
        cause: cause.to_owned(),
    };
    let text = match fs::read_to_string(&file) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound && !has_data => {
            return write_format(data).map_err(|error| OpenError::from_io(data, &error));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(damaged("the file is missing though the data is there"));
        }
        Err(error) => return Err(OpenError::from_io(&file, &error)),
    };
    let found: u32 = text
        .strip_prefix(FORMAT_LINE_START)
        .and_then(|rest| rest.trim().parse().ok())
        .ok_or_else(|| damaged("it does not say which format the data has"))?;
    if found > FORMAT {
        return Err(OpenError::NewerFormat {
            path: data.to_owned(),
            found,
            known: FORMAT,
        });
    }
    Ok(())
}
