//! The data folder: its files beside RocksDB's own, and the checks before opening it.
//!
//! ```text
//! <data>/format       one line, "tessera rocks 1"; written before the data
//! <data>/new          there until the database was made: nothing that is missing is a loss yet
//! <data>/lock         locked while the folder is open; holds the number of that process
//! <data>/synced       how far the log was synced: see `synced_mark`
//! <data>/epochs       which history the commits belong to: see `epochs`
//! <data>/rocks/       RocksDB
//! ```
//!
//! All files are accessible to the owner alone, whatever the process's umask: they contain password
//! verifiers.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use super::open_error::{OpenError, is_database_file};

/// The newest layout that this program reads, and the one that it writes.
const FORMAT: u32 = 1;
const FORMAT_LINE_START: &str = "tessera rocks ";

/// The mode of every file in a data folder.
pub(super) const PRIVATE_FILE: u32 = 0o600;
const PRIVATE_FOLDER: u32 = 0o700;

/// The folder of RocksDB's files.
pub(super) fn rocks_path(data: &Path) -> PathBuf {
    data.join("rocks")
}

/// Locks a data folder for this process. RocksDB has a lock too, but takes it only after the check
/// of the logs, which no other process may be writing then.
pub(super) struct FolderLock {
    file: File,
}

impl Drop for FolderLock {
    fn drop(&mut self) {
        // Closing the file alone would leave it locked while another thread starts a program: until
        // the exec, the child has a copy of every open file, and with it the lock. An error means
        // that it is not locked.
        let _unlocked = self.file.unlock().is_ok();
    }
}

impl FolderLock {
    /// Creates the folder if needed, and locks it.
    pub(super) fn take(data: &Path) -> Result<Self, OpenError> {
        create_folder(data)?;
        let cannot = |error: io::Error| OpenError::from_io(data, &error);
        let options = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .mode(PRIVATE_FILE)
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
        Ok(Self { file })
    }
}

/// Prepares a locked folder for RocksDB, or returns why it cannot be used. Returns whether the
/// database is new.
pub(super) fn prepare(data: &Path) -> Result<bool, OpenError> {
    let rocks = rocks_path(data);
    let has_data = has_database_files(&rocks)?;
    check_format(data, has_data)?;
    let has_current = fs::exists(rocks.join("CURRENT")).unwrap_or(true);
    if !has_current && !is_unfinished(data) {
        // RocksDB would start an empty database, beside files that it deletes as obsolete.
        return Err(missing(data, has_data));
    }
    create_folder(&rocks)?;
    narrow(data);
    narrow(&rocks);
    Ok(!has_current)
}

/// Records that the database was created: from here on it is an error if it is missing.
pub(super) fn finish(data: &Path) -> io::Result<()> {
    match fs::remove_file(new_path(data)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => sync_folder(data),
    }
}

/// Removes the permissions of everyone but the owner from a folder and its files. Files that cannot
/// be changed belong to another user, and are logged.
pub(super) fn narrow(folder: &Path) {
    let mut first_failure = None;
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = entries.map(|entry| (entry.path(), PRIVATE_FILE));
    let folder_itself = (folder.to_owned(), PRIVATE_FOLDER);
    for (path, private) in std::iter::once(folder_itself).chain(paths) {
        // Links point elsewhere, and a file may vanish meanwhile.
        let Ok(metadata) = path.symlink_metadata() else {
            continue;
        };
        let is_ours = private == PRIVATE_FOLDER || metadata.is_file();
        if !is_ours || metadata.permissions().mode() & 0o077 == 0 {
            continue;
        }
        if let Err(error) = fs::set_permissions(&path, Permissions::from_mode(private)) {
            first_failure.get_or_insert((path, error));
        }
    }
    if let Some((path, error)) = first_failure {
        tracing::warn!(
            path = %path.display(), %error,
            "other users may be able to read the data, and this cannot be changed: run the server \
             as the owner of the folder, or have the owner run chmod -R go= on it"
        );
    }
}

/// The process that has `data` open, according to its lock file.
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
    let mut file = create_file(&draft)?;
    writeln!(file, "{FORMAT_LINE_START}{FORMAT}")?;
    file.sync_all()?;
    fs::rename(&draft, data.join("format"))?;
    sync_folder(data)
}

/// Creates or truncates a file that only the owner may access.
pub(super) fn create_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    options.mode(PRIVATE_FILE).open(path)
}

/// Creates a folder that only the owner may access.
pub(super) fn create_private_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(PRIVATE_FOLDER).create(path)
}

/// Syncs the entries of a folder.
pub(super) fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Syncs a new folder, which is an entry of the one above it.
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

fn new_path(data: &Path) -> PathBuf {
    data.join("new")
}

/// Whether the creation of the database was begun and not finished.
fn is_unfinished(data: &Path) -> bool {
    fs::exists(new_path(data)).unwrap_or(false)
}

/// The missing parts of a database that was created.
fn missing(data: &Path, has_data: bool) -> OpenError {
    let rocks = rocks_path(data);
    let cause = if has_data {
        "the file is missing though the data is there"
    } else {
        "the database is missing, though the file format beside it says that it was made here"
    };
    let file = if rocks.is_dir() {
        rocks.join("CURRENT")
    } else {
        rocks
    };
    OpenError::Damaged {
        file,
        cause: cause.to_owned(),
    }
}

fn create_folder(path: &Path) -> Result<(), OpenError> {
    match create_private_folder(path) {
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

/// Warns of other files in a folder where data is created: the folder may be meant for something
/// else.
fn warn_of_strangers(data: &Path) {
    const OURS: [&str; 6] = ["lock", "new", "format.new", "rocks", "tls", "control.sock"];
    // The folder of a newly formatted disk.
    const USUAL: &str = "lost+found";
    let entries = fs::read_dir(data).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut strangers: Vec<String> = names
        .filter(|name| name != USUAL && !OURS.contains(&name.as_str()))
        .collect();
    if strangers.is_empty() {
        return;
    }
    strangers.sort();
    strangers.truncate(5);
    tracing::warn!(
        path = %data.display(), found = strangers.join(", "),
        "the data folder is new to this program and not empty: if its files belong to another \
         program, stop the server and choose another data folder"
    );
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
            warn_of_strangers(data);
            let begun = create_file(&new_path(data)).and_then(|file| file.sync_all());
            let begun = begun.and_then(|()| write_format(data));
            return begun.map_err(|error| OpenError::from_io(data, &error));
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
