//! Data folders as earlier releases left them, which every later one must open: `fixtures/` holds
//! some for each format, filled and looked at by the programs `kept.py` of each API's clients.
//!
//! The example `keep` makes a new one when the format changes; those that are there stay.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::clients::{Client, run};
use crate::{Error, Server};

/// Every fixture there is.
pub fn all() -> Result<Vec<PathBuf>, Error> {
    let folder = folder();
    let entries = folder.read_dir().map_err(Error::io("reading fixtures"))?;
    let mut found: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    found.sort();
    Ok(found)
}

/// Where fixtures lie.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures")
}

/// Fills a new server with data of each kind.
pub fn fill(server: &Server) -> Result<(), Error> {
    each_api(server, "--fill")
}

/// Looks whether a server has all of it, as readable and as changeable as it was.
pub fn expect(server: &Server) -> Result<(), Error> {
    each_api(server, "--expect")
}

fn each_api(server: &Server, option: &str) -> Result<(), Error> {
    for (api, before, after) in [
        ("mongo", "mongodb://", "/"),
        ("cql", "", ""),
        ("table", "http://", "/devstoreaccount1"),
    ] {
        let Some(address) = server.address(api) else {
            continue;
        };
        Client::python_script(&format!("{api}/python"), "kept.py")?
            .with([option])
            .walk(&format!("{before}{address}{after}"))?;
    }
    Ok(())
}

/// Packs the data folder `data` of a server that has stopped into the file `fixture`.
pub fn pack(data: &Path, fixture: &Path) -> Result<(), Error> {
    let mut tar = Command::new("tar");
    tar.args(["--create", "--xz", "--sort=name", "--owner=0", "--group=0"]);
    // What only tells of the run that made it.
    tar.args(["--exclude=LOG*", "--exclude=./lock", "--exclude=*.sock"]);
    tar.arg("--file").arg(fixture);
    run(tar.arg("--directory").arg(data).arg(".")).map(drop)
}

/// Unpacks a fixture into the new folder `data`.
pub fn unpack(fixture: &Path, data: &Path) -> Result<(), Error> {
    std::fs::create_dir(data).map_err(Error::io("making a folder"))?;
    let mut tar = Command::new("tar");
    tar.args(["--extract", "--file"]).arg(fixture);
    run(tar.arg("--directory").arg(data)).map(drop)
}
