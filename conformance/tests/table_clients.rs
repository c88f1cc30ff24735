//! The Table front end as its clients see it: as Table storage, over plain sockets and over TLS,
//! and as Cosmos.
#![cfg(test)]

use tessera_conformance::clients::{Client, Issuer};
use tessera_conformance::{Error, Server};

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
