//! `tessera copy` from a served folder to PostgreSQL and back, while servers run on both.
#![cfg(test)]

use std::path::Path;
use std::process::Command;

use tessera_conformance::clients::Client;
use tessera_conformance::{Error, Postgres, Server, binary};

const ITEMS: &str = "3000";

fn stock(server: &Server, option: &str) -> Result<(), Error> {
    let address = server
        .address("mongo")
        .expect("a listener for MongoDB clients");
    Client::python_script("mongo/python", "stock.py")?
        .with([option, ITEMS])
        .walk(&format!("mongodb://{address}/"))
        .map(drop)
}

fn copy(folder: &Path, from: &str, to: &str) -> Result<(), Error> {
    let mut command = Command::new(binary::path()?);
    command.args(["copy", "--from", from, "--to", to]);
    let output = command.current_dir(folder).output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && printed.contains("count and checksum agree"),
        "{printed}{errors}"
    );
    Ok(())
}

#[test]
fn a_served_folder_goes_to_postgresql_and_back() -> Result<(), Error> {
    let folder = tempfile::tempdir().unwrap();
    let postgres = Postgres::start()?;
    let place = postgres.place("copy")?;
    let here = Server::start_on(&folder.path().join("here"), &[])?;
    stock(&here, "--fill")?;
    copy(folder.path(), "here", &place)?;
    let there = Server::start(&["--engine", &place])?;
    stock(&there, "--expect")?;
    copy(folder.path(), &place, "back")?;
    let back = Server::start_on(&folder.path().join("back"), &[])?;
    stock(&back, "--expect")?;
    [here, there, back].into_iter().try_for_each(Server::stop)
}
