//! The MongoDB front end as its clients see it: plain, over TLS with a login and compression, and
//! on PostgreSQL.
#![cfg(test)]

use tessera_conformance::clients::Client;
use tessera_conformance::{Error, Postgres, Server};

const USER: &str = "walker";
const PASSWORD: &str = "walk:ing";

fn walk_plain(client: Client) -> Result<(), Error> {
    walk(client, Server::start(&["--memory"])?, "")
}

/// Everyone must log in, all bytes are encrypted, and most are compressed before.
fn walk_guarded(client: Client, compressors: &str) -> Result<(), Error> {
    let folder = tempfile::tempdir().unwrap();
    let users = format!("{USER}:{PASSWORD}");
    let server = Server::start_tls(folder.path(), &["--mongo-users", &users])?;
    let login = format!("{USER}:{}@", PASSWORD.replace(':', "%3A"));
    let client = match compressors {
        "" => client,
        names => client.with(["--compressors", names]),
    };
    walk(client, server, &login)
}

fn walk_postgres(postgres: &Postgres, name: &str, client: Client) -> Result<(), Error> {
    walk(
        client,
        Server::start(&["--engine", &postgres.place(name)?])?,
        "",
    )
}

fn walk(client: Client, server: Server, login: &str) -> Result<(), Error> {
    let address = server
        .address("mongo")
        .expect("a listener for MongoDB clients");
    let endpoint = format!("mongodb://{login}{address}/");
    if let Err(error) = client.walk(&endpoint, server.certificate()) {
        // Not as a result: the report is many lines long, and must be shown as lines.
        panic!("{error}\n\nThe server printed:\n{}", server.output());
    }
    server.stop()
}

#[test]
fn python_driver() -> Result<(), Error> {
    walk_plain(Client::python("mongo/python")?)
}

#[test]
fn python_driver_over_tls() -> Result<(), Error> {
    walk_guarded(Client::python("mongo/python")?, "zstd")
}

#[test]
fn node_driver() -> Result<(), Error> {
    walk_plain(Client::node("mongo/javascript")?)
}

#[test]
fn node_driver_over_tls() -> Result<(), Error> {
    walk_guarded(Client::node("mongo/javascript")?, "snappy,zlib")
}

#[test]
fn rust_driver() -> Result<(), Error> {
    walk_plain(Client::rust("mongo")?)
}

#[test]
fn rust_driver_over_tls() -> Result<(), Error> {
    walk_guarded(Client::rust("mongo")?, "zstd,zlib")
}

#[test]
fn mongosh() -> Result<(), Error> {
    walk_plain(Client::node("mongo/mongosh")?)
}

/// The database stops when its value is dropped, so the walks on it are one test.
#[test]
fn all_on_postgresql() -> Result<(), Error> {
    let postgres = Postgres::start()?;
    walk_postgres(&postgres, "python", Client::python("mongo/python")?)?;
    walk_postgres(&postgres, "node", Client::node("mongo/javascript")?)?;
    walk_postgres(&postgres, "mongosh", Client::node("mongo/mongosh")?)
}
