//! Copies of what a server has stored, so that every round begins with the same.

use std::path::Path;
use std::{fs, io};

use tempfile::TempDir;

/// A folder with the same files, removed with the value.
pub(crate) fn copy(from: &Path) -> io::Result<TempDir> {
    let folder = tempfile::tempdir()?;
    copy_into(from, folder.path())?;
    Ok(folder)
}

fn copy_into(from: &Path, to: &Path) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        match entry.file_type()?.is_dir() {
            true => {
                fs::create_dir(&target)?;
                copy_into(&source, &target)?;
            }
            false => drop(fs::copy(&source, &target)?),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_has_the_files_of_all_folders() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("a/b")).unwrap();
        fs::write(folder.path().join("one"), "1").unwrap();
        fs::write(folder.path().join("a/b/two"), "2").unwrap();
        let copied = copy(folder.path()).unwrap();
        let read = |name| fs::read_to_string(copied.path().join(name)).unwrap();
        assert_eq!((read("one"), read("a/b/two")), ("1".into(), "2".into()));
    }
}
