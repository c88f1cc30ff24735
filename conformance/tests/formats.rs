//! Data folders that earlier releases left are opened, with everything in them.
#![cfg(test)]

use tessera_conformance::{Error, Server, fixtures};

#[test]
fn every_format_there_was_is_read_and_written() -> Result<(), Error> {
    let all = fixtures::all()?;
    for format in [
        "format-1.",
        "format-1-killed.",
        "format-2.",
        "format-2-killed.",
    ] {
        let is_of_it = |fixture: &std::path::PathBuf| fixture.to_string_lossy().contains(format);
        assert!(all.iter().any(is_of_it), "no fixture of {format}");
    }
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
