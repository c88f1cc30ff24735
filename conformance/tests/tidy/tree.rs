//! The files that the rules look at.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

/// Hidden folders that are ours.
const HIDDEN: &[&str] = &[".ci", ".github"];

/// Folders that hold nothing of ours, beside other hidden ones.
const FOREIGN: &[&str] = &["target", "tessera-data", "node_modules"];

/// Text that is not ours to write, by its name. `.git` is a file in a second checkout of one
/// repository, and Go keeps the names of modules, which are addresses.
const GENERATED: &[&str] = &[".git", "Cargo.lock", "LICENSE", "go.mod", "go.sum"];

/// Every text file of the repository by its path from the root, `/` between folders.
pub(crate) struct Tree {
    files: BTreeMap<String, String>,
    /// Files that are not text, such as pictures.
    data: BTreeSet<String>,
}

impl Tree {
    /// Reads all text files under `root`.
    pub(crate) fn read(root: &Path) -> io::Result<Self> {
        let mut tree = Self {
            files: BTreeMap::new(),
            data: BTreeSet::new(),
        };
        tree.add_folder(root, "")?;
        Ok(tree)
    }

    /// A tree made of these paths and texts.
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        let owned = files
            .iter()
            .map(|(path, text)| ((*path).to_owned(), (*text).to_owned()));
        Self {
            files: owned.collect(),
            data: BTreeSet::new(),
        }
    }

    /// Every file that somebody here wrote.
    pub(crate) fn written(&self) -> impl Iterator<Item = (&str, &str)> {
        let all = self
            .files
            .iter()
            .map(|(path, text)| (path.as_str(), text.as_str()));
        let name = |path: &str| path.rsplit('/').next().unwrap_or(path).to_owned();
        all.filter(move |(path, _)| !GENERATED.contains(&name(path).as_str()))
    }

    /// Every file with this ending.
    pub(crate) fn ending(&self, ending: &str) -> impl Iterator<Item = (&str, &str)> {
        self.written()
            .filter(move |(path, _)| path.ends_with(ending))
    }

    /// The text of one file.
    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path).map(String::as_str)
    }

    /// Whether the path names a file, or a folder that holds one.
    pub(crate) fn has(&self, path: &str) -> bool {
        let folder = format!("{}/", path.trim_end_matches('/'));
        self.data.contains(path)
            || self.files.contains_key(path)
            || self.files.keys().any(|file| file.starts_with(&folder))
    }

    fn add_folder(&mut self, folder: &Path, prefix: &str) -> io::Result<()> {
        for entry in folder.read_dir()? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = format!("{prefix}{name}");
            let kind = entry.file_type()?;
            if kind.is_dir() && name.starts_with('.') && !HIDDEN.contains(&name.as_str()) {
                continue;
            }
            if kind.is_dir() && !FOREIGN.contains(&name.as_str()) {
                self.add_folder(&entry.path(), &format!("{path}/"))?;
            }
            if kind.is_file() {
                match String::from_utf8(std::fs::read(entry.path())?) {
                    Ok(text) => drop(self.files.insert(path, text)),
                    Err(_) => drop(self.data.insert(path)),
                }
            }
        }
        Ok(())
    }
}
