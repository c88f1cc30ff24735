//! What `scripts/release` makes is installed and used, as far as this machine allows.
#![cfg(test)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tessera_conformance::binary;

/// What `packaging/try` ends with where it may not make a copy of the root.
const NOT_HERE: i32 = 77;

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

fn ran(command: &mut Command) -> Output {
    command.current_dir(repository()).output().unwrap()
}

fn must(command: &mut Command) -> String {
    let output = ran(command);
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {printed}{errors}");
    printed
}

fn release(version: &str, folder: &Path) -> Vec<PathBuf> {
    let binary = binary::path().unwrap();
    let mut release = Command::new(repository().join("scripts/release"));
    must(
        release
            .arg("--binary")
            .arg(binary)
            .args(["--version", version])
            .arg(folder),
    );
    let entries = folder.read_dir().unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

fn ending(files: &[PathBuf], end: &str) -> PathBuf {
    let mut found = files
        .iter()
        .filter(|file| file.to_string_lossy().ends_with(end));
    found
        .next()
        .unwrap_or_else(|| panic!("no {end} in {files:?}"))
        .clone()
}

#[test]
fn a_release_is_installed_upgraded_downgraded_and_removed_with_its_data() {
    let folder = tempfile::tempdir().unwrap();
    let versions = ["0.1.0", "0.1.1~test"].map(|version| {
        let target = folder.path().join(version);
        release(version, &target)
    });
    let [old, new] = &versions;

    let tarball = ending(old, "-linux.tar.gz");
    must(
        Command::new("tar")
            .arg("xzf")
            .arg(&tarball)
            .arg("-C")
            .arg(folder.path()),
    );
    let name = tarball.file_name().unwrap().to_string_lossy().into_owned();
    let tree = folder.path().join(name.trim_end_matches(".tar.gz"));
    let version = must(Command::new(tree.join("bin/tessera")).arg("version"));
    assert!(version.starts_with("tessera "), "{version}");
    for file in [
        "LICENSE",
        "share/man1/tessera.1",
        "share/completions/tessera.bash",
    ] {
        assert!(tree.join(file).is_file(), "{file}");
    }
    let licences = std::fs::read_to_string(tree.join("THIRD-PARTY-LICENSES")).unwrap();
    for linked in [
        "librocksdb-sys",
        "zstd-sys",
        "tokio ",
        "pcre2-sys",
        "rocksdb/LICENSE.Apache",
    ] {
        assert!(licences.contains(linked), "{linked}");
    }

    let packages = [ending(old, ".deb"), ending(new, ".deb")];
    let tried = ran(Command::new(repository().join("packaging/try")).args(&packages));
    let printed = String::from_utf8_lossy(&tried.stdout);
    let errors = String::from_utf8_lossy(&tried.stderr);
    if tried.status.code() == Some(NOT_HERE) {
        // Without root, as on a developer's machine: CI has it.
        let info = must(Command::new("dpkg-deb").arg("--contents").arg(&packages[0]));
        assert!(info.contains("./usr/bin/tessera"), "{info}");
        return;
    }
    assert!(tried.status.success(), "{printed}{errors}");
    for step in [
        "installed",
        "upgraded",
        "downgraded",
        "installed again",
        "purged",
    ] {
        assert!(
            printed.contains(&format!("ok: {step}")),
            "{printed}{errors}"
        );
    }
}
