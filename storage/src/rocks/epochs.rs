//! The epochs of the data folder: they identify the history of its commits.
//!
//! ```text
//! <data>/epochs       one line for each epoch that ended, "epoch version" of its last commit; then
//!                     one with the epoch that goes on
//! ```
//!
//! A checkpoint has only epochs that ended, so that opening it begins a new one: later commits of
//! the original are another history.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use tessera_core::feed::stamp::Stamp;

use super::folder::{create_file, sync_folder};

/// The epochs of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Epochs {
    pub(super) current: u64,
    /// The ends of earlier ones, oldest first.
    pub(super) past: Vec<Stamp>,
}

impl Epochs {
    /// Reads the epochs of a folder, and begins one if all have ended.
    pub(super) fn open(data: &Path) -> io::Result<Self> {
        let (past, current) = read(data)?;
        if let Some(current) = current {
            return Ok(Self { current, past });
        }
        let floor = past.iter().map(|end| end.epoch).max().unwrap_or(0);
        let current = next(floor);
        let epochs = Self { current, past };
        epochs.save(data)?;
        Ok(epochs)
    }

    /// Begins another epoch behind these, which are those of a copy's source.
    pub(super) fn adopt(&self, data: &Path, past: Vec<Stamp>) -> io::Result<Self> {
        let floor = past.iter().map(|end| end.epoch).max().unwrap_or(0);
        let current = next(self.current.max(floor));
        let adopted = Self { current, past };
        adopted.save(data)?;
        Ok(adopted)
    }

    /// Writes the epochs of a checkpoint that holds everything up to `version`.
    pub(super) fn save_ended(&self, data: &Path, version: u64) -> io::Result<()> {
        let end = Stamp::end_of(self.current, version);
        write(data, self.past.iter().chain([&end]), None)
    }

    fn save(&self, data: &Path) -> io::Result<()> {
        write(data, self.past.iter(), Some(self.current))
    }
}

/// The number of a new epoch: the time, which no other history of the same data is likely to have.
fn next(floor: u64) -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.unwrap_or_default().as_millis();
    u64::try_from(now).unwrap_or(0).max(floor.saturating_add(1))
}

fn path(data: &Path) -> PathBuf {
    data.join("epochs")
}

fn read(data: &Path) -> io::Result<(Vec<Stamp>, Option<u64>)> {
    let text = match fs::read_to_string(path(data)) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((Vec::new(), None)),
        Err(error) => return Err(error),
    };
    parse(&text).ok_or_else(|| {
        let cause = format!(
            "{} cannot be read; remove it to begin anew",
            path(data).display()
        );
        io::Error::new(io::ErrorKind::InvalidData, cause)
    })
}

fn parse(text: &str) -> Option<(Vec<Stamp>, Option<u64>)> {
    let (mut past, mut current) = (Vec::new(), None);
    for line in text.lines() {
        match line.split_once(' ') {
            Some((epoch, version)) => {
                past.push(Stamp::end_of(epoch.parse().ok()?, version.parse().ok()?));
            }
            None => current = Some(line.parse().ok()?),
        }
    }
    Some((past, current))
}

fn write<'a>(
    data: &Path,
    past: impl Iterator<Item = &'a Stamp>,
    current: Option<u64>,
) -> io::Result<()> {
    let draft = data.join("epochs.new");
    let mut file = create_file(&draft)?;
    for end in past {
        writeln!(file, "{} {}", end.epoch, end.version)?;
    }
    if let Some(current) = current {
        writeln!(file, "{current}")?;
    }
    file.sync_all()?;
    fs::rename(&draft, path(data))?;
    sync_folder(data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_goes_on_and_a_checkpoint_of_it_begins_anew() {
        let folder = tempfile::tempdir().unwrap();
        let (data, copy) = (folder.path().join("data"), folder.path().join("copy"));
        fs::create_dir(&data).unwrap();
        fs::create_dir(&copy).unwrap();
        let first = Epochs::open(&data).unwrap();
        assert_eq!(Epochs::open(&data).unwrap(), first);
        first.save_ended(&copy, 70).unwrap();
        let copied = Epochs::open(&copy).unwrap();
        assert!(copied.current > first.current);
        assert_eq!(copied.past, [Stamp::end_of(first.current, 70)]);
        assert_eq!(Epochs::open(&copy).unwrap(), copied);
        let source = Stamp::end_of(copied.current + 1_000_000, 90);
        let adopted = copied.adopt(&copy, vec![source]).unwrap();
        assert!(adopted.current > source.epoch);
        assert_eq!(adopted.past, [source]);
        assert_eq!(Epochs::open(&copy).unwrap(), adopted);
    }

    #[test]
    fn damage_is_named() {
        for text in ["x", "1 x", "1 2 3", "-1"] {
            assert_eq!(parse(text), None, "{text}");
        }
        assert_eq!(parse(""), Some((vec![], None)));
    }
}
