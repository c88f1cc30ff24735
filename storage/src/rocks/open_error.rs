//! Why a data folder could not be opened: one sentence with the path, the cause and the remedy.

use std::io;
use std::path::{Path, PathBuf};

use rocksdb::ErrorKind;

/// Why a data folder could not be opened. Nothing in it was changed.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has it open.
    #[error("{} is in use by {holder}: stop it, or choose another data folder", path.display())]
    InUse {
        /// The data folder.
        path: PathBuf,
        /// The owner: "process 1234", "this process" or "another process".
        holder: String,
    },
    /// A file stands where the folder should be.
    #[error("{} is not a folder: choose another data folder", path.display())]
    NotAFolder {
        /// The data folder.
        path: PathBuf,
    },
    /// The folder above the data folder does not exist.
    #[error("cannot create {}: create the folder above it first", path.display())]
    NoParent {
        /// The data folder.
        path: PathBuf,
    },
    /// The operating system refuses.
    #[error(
        "no permission to read and write {}: change its owner, or choose another data folder",
        path.display()
    )]
    NoPermission {
        /// The data folder, or the file in it.
        path: PathBuf,
    },
    /// No space is left.
    #[error("the disk that holds {} is full: free some space and start again", path.display())]
    DiskFull {
        /// The data folder.
        path: PathBuf,
    },
    /// Stored bytes are not what was written, or a file is missing.
    #[error(
        "{} is damaged ({cause}): restore the data folder from a checkpoint; nothing was changed",
        file.display()
    )]
    Damaged {
        /// The damaged or missing file, or the folder if the file is not known.
        file: PathBuf,
        /// The error.
        cause: String,
    },
    /// Written by a newer release.
    #[error(
        "{} has format {found}, this program knows formats up to {known}: use a newer release",
        path.display()
    )]
    NewerFormat {
        /// The data folder.
        path: PathBuf,
        /// The format of the data.
        found: u32,
        /// The newest format this program reads.
        known: u32,
    },
    /// Anything else, in the words of RocksDB or the operating system.
    #[error("cannot open {}: {cause}", path.display())]
    Other {
        /// The data folder.
        path: PathBuf,
        /// The cause.
        cause: String,
    },
}

impl OpenError {
    /// An error of the operating system about `path`.
    pub(super) fn from_io(path: &Path, error: &io::Error) -> Self {
        let path = path.to_owned();
        match error.kind() {
            io::ErrorKind::NotFound if path.parent().is_some_and(Path::is_dir) => Self::Other {
                path,
                cause: "nothing can be created there; choose another data folder".to_owned(),
            },
            io::ErrorKind::NotFound => Self::NoParent { path },
            io::ErrorKind::NotADirectory => Self::NotAFolder { path },
            io::ErrorKind::PermissionDenied => Self::NoPermission { path },
            io::ErrorKind::StorageFull => Self::DiskFull { path },
            _ => Self::Other {
                path,
                cause: error.to_string(),
            },
        }
    }

    /// An error of RocksDB when opening `rocks_path` in the data folder `path`. RocksDB's errors
    /// are only text, so this parses the text.
    pub(super) fn from_rocks(path: &Path, rocks_path: &Path, error: &rocksdb::Error) -> Self {
        let message: &str = error.as_ref();
        let path = path.to_owned();
        if message.contains("lock hold by current process")
            || (message.contains("LOCK") && message.contains("temporarily unavailable"))
        {
            return Self::InUse {
                holder: super::folder::holder(&path),
                path,
            };
        }
        if message.contains("No space left on device") {
            return Self::DiskFull { path };
        }
        if message.contains("Permission denied") || message.contains("Read-only file system") {
            let path = named_file(rocks_path, message).unwrap_or(path);
            return Self::NoPermission { path };
        }
        let missing_file = message.contains("No such file or directory");
        if missing_file || error.kind() == ErrorKind::Corruption {
            let file = named_file(rocks_path, message)
                .or_else(|| damaged_log(rocks_path))
                .unwrap_or_else(|| rocks_path.to_owned());
            let cause = if missing_file {
                "a file is missing".to_owned()
            } else {
                shorten(message)
            };
            return Self::Damaged { file, cause };
        }
        Self::Other {
            path,
            cause: shorten(message),
        }
    }
}

/// The database file that `message` names, if any.
fn named_file(rocks_path: &Path, message: &str) -> Option<PathBuf> {
    message
        .split(|c: char| c.is_whitespace() || matches!(c, ':' | ',' | ';' | '\'' | '"' | '(' | ')'))
        .filter_map(|word| word.rsplit('/').next())
        .map(|word| word.trim_end_matches('.'))
        .find(|name| is_database_file(name))
        .map(|name| rocks_path.join(name))
}

/// The write-ahead log that RocksDB found damaged. Its error does not name the file, its own log
/// does.
fn damaged_log(rocks_path: &Path) -> Option<PathBuf> {
    let text = std::fs::read(rocks_path.join("LOG")).ok()?;
    let text = String::from_utf8_lossy(&text);
    let line = text
        .lines()
        .rev()
        .find(|line| line.contains(".log: dropping "))?;
    named_file(rocks_path, line)
}

/// Whether RocksDB keeps data under this file name.
pub(super) fn is_database_file(name: &str) -> bool {
    let numbered = |stem: &str| !stem.is_empty() && stem.bytes().all(|byte| byte.is_ascii_digit());
    let has_suffix = |suffix| name.strip_suffix(suffix).is_some_and(numbered);
    name == "CURRENT"
        || name.strip_prefix("MANIFEST-").is_some_and(numbered)
        || [".sst", ".log", ".blob"].into_iter().any(has_suffix)
}

/// One line without repeated prefixes, because it becomes part of a sentence.
fn shorten(message: &str) -> String {
    let line = message.lines().next().unwrap_or_default();
    line.trim_start_matches("Corruption: ")
        .trim_start_matches("IO error: ")
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_file_a_message_speaks_of() {
        let check = |message: &str, expected: Option<&str>| {
            let found = named_file(Path::new("/d/rocks"), message);
            assert_eq!(
                found,
                expected.map(|name| Path::new("/d/rocks").join(name)),
                "{message}"
            );
        };
        check(
            "Corruption: bad magic number in /d/rocks/000012.sst",
            Some("000012.sst"),
        );
        check(
            "While open a file: /d/rocks/000012.sst: No such file",
            Some("000012.sst"),
        );
        check(
            "Corruption: checksum mismatch in file MANIFEST-000005.",
            Some("MANIFEST-000005"),
        );
        check("CURRENT file does not end with newline", Some("CURRENT"));
        check("Corruption: checksum mismatch", None);
    }
}
