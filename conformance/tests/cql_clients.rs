//! The Cassandra front end as its clients see it: plain, over TLS with a login, and on PostgreSQL.
#![cfg(test)]

use tessera_conformance::clients::Client;
use tessera_conformance::{Error, Postgres, Server};

const USER: &str = "walker";
const PASSWORD: &str = "walk:ing";

fn walk_plain(client: Client) -> Result<(), Error> {
    walk(client, Server::start(&["--memory"])?)
}

/// Everyone must log in, and all bytes are encrypted.
fn walk_guarded(client: Client) -> Result<(), Error> {
    let folder = tempfile::tempdir().unwrap();
    let users = format!("{USER}:{PASSWORD}");
    let server = Server::start_tls(folder.path(), &["--cql-users", &users])?;
    walk(
        client.with(["--user", USER, "--password", PASSWORD]),
        server,
    )
}

fn walk_postgres(postgres: &Postgres, name: &str, client: Client) -> Result<(), Error> {
    walk(
        client,
        Server::start(&["--engine", &postgres.place(name)?])?,
    )
}

fn walk(client: Client, server: Server) -> Result<(), Error> {
    let address = server
        .address("cql")
        .expect("a listener for Cassandra clients");
    if let Err(error) = client.walk(&address.to_string(), server.certificate()) {
        // Not as a result: the report is many lines long, and must be shown as lines.
        panic!("{error}\n\nThe server printed:\n{}", server.output());
    }
    server.stop()
}

#[test]
fn cqlsh() -> Result<(), Error> {
    walk_plain(Client::python("cql/cqlsh")?)
}

#[test]
fn cqlsh_over_tls() -> Result<(), Error> {
    walk_guarded(Client::python("cql/cqlsh")?)
}

#[test]
fn python_driver() -> Result<(), Error> {
    walk_plain(Client::python("cql/python")?)
}

#[test]
fn python_driver_over_tls() -> Result<(), Error> {
    walk_guarded(Client::python("cql/python")?)
}

#[test]
fn rust_scylla_driver() -> Result<(), Error> {
    walk_plain(Client::rust("scylla")?)
}

#[test]
fn rust_scylla_driver_over_tls() -> Result<(), Error> {
    walk_guarded(Client::rust("scylla")?)
}

#[test]
fn rust_cdrs_driver() -> Result<(), Error> {
    walk_plain(Client::rust("cdrs")?)
}

#[test]
fn rust_cdrs_driver_over_tls() -> Result<(), Error> {
    walk_guarded(Client::rust("cdrs")?)
}

#[test]
fn node_driver() -> Result<(), Error> {
    walk_plain(Client::node("cql/javascript")?)
}

#[test]
fn node_driver_over_tls() -> Result<(), Error> {
    walk_guarded(Client::node("cql/javascript")?)
}

/// The database stops when its value is dropped, so the walks on it are one test.
#[test]
fn all_on_postgresql() -> Result<(), Error> {
    let postgres = Postgres::start()?;
    walk_postgres(&postgres, "python", Client::python("cql/python")?)?;
    let cqlsh = Client::python("cql/cqlsh")?.with(["--rows", "5000"]);
    walk_postgres(&postgres, "cqlsh", cqlsh)
}
