//! Finds the `tessera` binary that belongs to the running test, building it when it must.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use crate::Error;

/// Names a binary to use instead of this checkout's: an installed release, another build.
pub const OVERRIDE: &str = "TESSERA_BINARY";

/// The binary to start: the one that `TESSERA_BINARY` names, otherwise this checkout's.
///
/// Clones share one target folder, and `cargo test` alone need not build the binary, so a file that
/// is there may be someone else's or old. Cargo knows; asking it costs a fraction of a second, once
/// in each test process.
pub fn path() -> Result<PathBuf, Error> {
    static FOUND: Mutex<Option<PathBuf>> = Mutex::new(None);

    if let Some(named) = env::var_os(OVERRIDE) {
        return existing(PathBuf::from(named));
    }
    // A panic elsewhere leaves the path as good as it was.
    let mut found = FOUND
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    if let Some(path) = &*found {
        return Ok(path.clone());
    }
    let path = build(["--bin", "tessera"])?;
    *found = Some(path.clone());
    Ok(path)
}

/// An example of this workspace, built as [`path`] builds the binary. It reaches from outside what
/// this crate may not depend on.
pub fn example(name: &str) -> Result<PathBuf, Error> {
    build(["--example", name])
}

/// Builds a program with the profile of the running test, into the same target folder.
fn build([kind, name]: [&str; 2]) -> Result<PathBuf, Error> {
    let executable = env::current_exe().map_err(Error::io("finding the test's own executable"))?;
    // <target>/<profile>/<program>, or in the folders deps or examples there
    let mut output = executable.parent().unwrap_or(Path::new(""));
    if output.ends_with("deps") || output.ends_with("examples") {
        output = output.parent().unwrap_or(output);
    }
    let profile = match output.file_name().and_then(|name| name.to_str()) {
        None | Some("debug") => "dev",
        Some(name) => name,
    };
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for (name, _) in env::vars_os().filter(|(name, _)| is_about_the_test(name)) {
        cargo.env_remove(name);
    }
    // The whole workspace is selected so that features, and with them the build, are those of the
    // tests.
    let status = cargo
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args(["build", "--quiet", "--locked", "--workspace", kind, name])
        .args(["--profile", profile])
        .arg("--target-dir")
        .arg(output.parent().unwrap_or(Path::new("target")))
        .status()
        .map_err(Error::io("running cargo"))?;
    if !status.success() {
        return Err(Error::Build(status));
    }
    existing(match kind {
        "--example" => output.join("examples").join(name),
        _ => output.join(name),
    })
}

/// Whether cargo has set this variable to tell the running test about itself. Some build scripts
/// ask to run again when such a variable changes, and everything above them would be compiled
/// again.
fn is_about_the_test(variable: &OsStr) -> bool {
    const ABOUT_THE_TEST: [&str; 3] = ["CARGO_MANIFEST_", "CARGO_PKG_", "CARGO_CRATE_"];
    let name = variable.to_string_lossy();
    ABOUT_THE_TEST.iter().any(|prefix| name.starts_with(prefix))
}

fn existing(path: PathBuf) -> Result<PathBuf, Error> {
    if path.is_file() {
        Ok(path)
    } else {
        Err(Error::NoBinary(path))
    }
}
