//! The MongoDB front end as its clients see it: plain, and over TLS with a login and compression.
#![cfg(test)]

use tessera_conformance::clients::Client;
use tessera_conformance::{Error, Server};

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
