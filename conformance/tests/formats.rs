//! Data folders that earlier releases left are opened, with everything in them.
#![cfg(test)]

use tessera_conformance::{Error, Server, fixtures};

#[test]
fn every_format_there_was_is_read_and_written() -> Result<(), Error> {
    let all = fixtures::all()?;
    assert!(!all.is_empty());
    for fixture in all {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        fixtures::unpack(&fixture, &data)?;
        let server = Server::start_on(&data, &[])?;
        fixtures::expect(&server)?;
        server.stop()?;
    }
    Ok(())
}
