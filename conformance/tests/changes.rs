//! Change feeds over HTTP: a replica that is made of one equals its source, whatever happens
//! meanwhile. `clients/partitions/replica.py` writes and follows.
#![cfg(test)]

use std::path::Path;
use std::time::Duration;

use tessera_conformance::clients::Client;
use tessera_conformance::{Error, Server};

/// How long a phase may take until its server is to be killed, and until it ends after that.
const PATIENCE: Duration = Duration::from_secs(180);

fn client(api: &str, state: &Path, phase: &str) -> Result<Client, Error> {
    let state = state.to_string_lossy();
    let client = Client::python_script("partitions", "replica.py")?;
    Ok(client.with([api, &state, phase]))
}

/// Two servers that are killed under load and one that is not, on the same data.
fn replicate(api: &str) -> Result<(), Error> {
    let folder = tempfile::tempdir().expect("a folder");
    let (data, state) = (folder.path().join("data"), folder.path().join("state"));
    for phase in ["begin", "go-on"] {
        let server = Server::start_on(&data, &[])?;
        let mut walk = client(api, &state, phase)?.start(&server.console().to_string())?;
        let is_following = |line: &str| (line == "following").then_some(());
        let following = walk.wait_for(is_following, PATIENCE);
        assert!(following.is_some(), "{phase}: {}", walk.printed());
        // Kills it.
        drop(server);
        let ended = walk.ended_within(PATIENCE)?;
        let said = walk.printed();
        assert!(
            ended.is_some_and(|status| status.success()),
            "{phase}: {said}"
        );
    }
    let server = Server::start_on(&data, &[])?;
    let walked = client(api, &state, "end")?.walk(&server.console().to_string());
    if let Err(error) = walked {
        panic!("{error}\n\nThe server printed:\n{}", server.output());
    }
    server.stop()
}

#[test]
fn a_replica_of_documents_equals_them() -> Result<(), Error> {
    replicate("mongo")
}

#[test]
fn a_replica_of_rows_equals_them() -> Result<(), Error> {
    replicate("cql")
}

#[test]
fn a_replica_of_entities_equals_them() -> Result<(), Error> {
    replicate("table")
}
