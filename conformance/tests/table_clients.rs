//! The Table front end as its clients see it: as Table storage, over plain sockets and over TLS, on
//! both kinds of engine, and as Cosmos.
#![cfg(test)]

use tessera_conformance::clients::{Client, Issuer};
use tessera_conformance::{Error, Postgres, Server};

/// The account of every storage emulator.
const ACCOUNT: &str = "devstoreaccount1";

fn walk_plain(client: Client) -> Result<(), Error> {
    walk(client, Server::start(&["--memory"])?)
}

fn walk_cosmos(client: Client) -> Result<(), Error> {
    let server = Server::start(&["--memory", "--table-mode", "cosmos"])?;
    walk(client.with(["--cosmos"]), server)
}

fn walk_tls(client: Client) -> Result<(), Error> {
    let folder = tempfile::tempdir().unwrap();
    let issuer = Issuer::new("table")?;
    let keys = issuer.keys();
    let options = [
        "--table-bearer-issuer",
        Issuer::NAME,
        "--table-bearer-keys",
        keys.to_str().unwrap(),
    ];
    let server = Server::start_tls(folder.path(), &options)?;
    // Clients send tokens over TLS only.
    let client = client.with(["--token".as_ref(), issuer.token().as_os_str()]);
    walk(client, server)
}

/// The database stops when this is dropped, so the walks on it are one test.
fn walk_postgres(postgres: &Postgres, name: &str, client: Client) -> Result<(), Error> {
    let place = postgres.place(name)?;
    let server = Server::start(&["--engine", &place])?;
    assert!(server.output().contains("postgres: other servers may use"));
    walk(client, server)
}

fn walk(client: Client, server: Server) -> Result<(), Error> {
    let address = server.address("table").expect("a listener for tables");
    let certificate = server.certificate();
    let scheme = certificate.map_or("http", |_| "https");
    if let Err(error) = client.walk(&format!("{scheme}://{address}/{ACCOUNT}"), certificate) {
        // Not as a result: the report is many lines long, and must be shown as lines.
        panic!("{error}\n\nThe server printed:\n{}", server.output());
    }
    server.stop()
}

#[test]
fn python_sdk() -> Result<(), Error> {
    walk_plain(Client::python("table/python")?)
}

#[test]
fn python_sdk_over_tls() -> Result<(), Error> {
    walk_tls(Client::python("table/python")?)
}

#[test]
fn javascript_sdk() -> Result<(), Error> {
    walk_plain(Client::node("table/javascript")?)
}

#[test]
fn javascript_sdk_over_tls() -> Result<(), Error> {
    walk_tls(Client::node("table/javascript")?)
}

#[test]
fn curl() -> Result<(), Error> {
    walk_plain(Client::script("table/curl"))
}

#[test]
fn curl_over_tls() -> Result<(), Error> {
    walk_tls(Client::script("table/curl"))
}

#[test]
fn python_sdk_on_cosmos() -> Result<(), Error> {
    walk_cosmos(Client::python("table/python")?)
}

#[test]
fn javascript_sdk_on_cosmos() -> Result<(), Error> {
    walk_cosmos(Client::node("table/javascript")?)
}

#[test]
fn curl_on_cosmos() -> Result<(), Error> {
    walk_cosmos(Client::script("table/curl"))
}

#[test]
fn all_on_postgresql() -> Result<(), Error> {
    let postgres = Postgres::start()?;
    walk_postgres(&postgres, "curl", Client::script("table/curl"))?;
    walk_postgres(&postgres, "python", Client::python("table/python")?)?;
    walk_postgres(&postgres, "javascript", Client::node("table/javascript")?)
}
