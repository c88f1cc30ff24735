//! Clients at the wrong port: what SDKs of Cosmos DB's NoSQL API and browsers are told.

use std::net::SocketAddr;

use crate::support::{Client, Reply, Server, connect};

/// The first request of azure-cosmos for Python (4.17) and for JavaScript (4.9), as captured.
const PYTHON: &str = "GET / HTTP/1.1\r\nHost: 127.0.0.1:34000\r\n\
    User-Agent: azsdk-python-cosmos/4.17.1 Python/3.11.7\r\nAccept-Encoding: gzip, deflate\r\n\
    Accept: application/json\r\nConnection: keep-alive\r\nCache-Control: no-cache\r\n\
    x-ms-version: 2020-07-15\r\nx-ms-documentdb-query-iscontinuationexpected: False\r\n\
    x-ms-cosmos-sdk-supportedcapabilities: 1\r\n\
    x-ms-activity-id: 2726c7f7-bf30-4827-83d8-5d988aeafe56\r\n\
    x-ms-date: Wed, 18 Nov 2026 19:59:40 GMT\r\nauthorization: \
    type%3Dmaster%26ver%3D1.0%26sig%3DhOD%2BMG13BZoEFCrFJgHDNJTcKFY1PEl%2BWUsYxwoPluo%3D\r\n\
    Content-Length: 0\r\n\r\n";
const JAVASCRIPT: &str = "GET / HTTP/1.1\r\n\
    x-ms-documentdb-responsecontinuationtokenlimitinkb: 1\r\n\
    x-ms-documentdb-query-enablecrosspartition: true\r\nCache-Control: no-cache\r\n\
    x-ms-version: 2020-07-15\r\nUser-Agent: Node.js/20.20.2 (linux; x64) azure-cosmos-js/4.9.3\r\n\
    x-ms-cosmos-sdk-supportedcapabilities: 1\r\nx-ms-cosmos-allow-tentative-writes: true\r\n\
    x-ms-date: Wed, 18 Nov 2026 19:59:42 GMT\r\nAccept: application/json\r\nauthorization: \
    type%3Dmaster%26ver%3D1.0%26sig%3DsMUOrasuFqJyPniGoZ5SCknGRBMRnPcFVoMRHxxggAg%3D\r\n\
    Host: 127.0.0.1:34000\r\nConnection: keep-alive\r\n\r\n";
/// What they would send next, and what curl does.
const QUERY: &str = "POST /dbs/shop/colls/orders/docs HTTP/1.1\r\nhost: x\r\n\
    authorization: type%3Daad%26ver%3D1.0%26sig%3DeyJ0\r\n\
    content-type: application/query+json\r\ncontent-length: 2\r\n\r\n{}";
const CURL: &str = "GET / HTTP/1.1\r\nHost: 127.0.0.1:27017\r\nUser-Agent: curl/8\r\n\r\n";

fn listeners(server: &Server) -> Vec<(String, SocketAddr)> {
    let health = server.get("/health").body;
    let listeners = health["listeners"].as_object().unwrap();
    let listener = |(name, about): (&String, &serde_json::Value)| {
        let address = about["address"].as_str().unwrap().parse().unwrap();
        (name.clone(), address)
    };
    listeners.iter().map(listener).collect()
}

fn ask(address: SocketAddr, request: &str) -> Reply {
    let mut client = Client(connect(address));
    client.send(request);
    client.reply().unwrap()
}

#[test]
fn a_client_of_the_nosql_api_is_told_at_every_port_which_apis_there_are() {
    let server = Server::start(&["--memory"]);
    let listeners = listeners(&server);
    assert_eq!(listeners.len(), 4);
    for (name, address) in &listeners {
        for request in [PYTHON, JAVASCRIPT, QUERY] {
            let reply = ask(*address, request);
            assert_eq!(reply.status, 400, "{name}: {reply:?}");
            assert_eq!(reply.body["code"], "BadRequest", "{name}");
            let message = reply.body["message"].as_str().unwrap();
            assert!(
                message.contains("Tessera has no NoSQL (SQL) API yet"),
                "{message}"
            );
            for (name, address) in &listeners {
                assert!(
                    message.contains(&format!("{name} at {address}")),
                    "{message}"
                );
            }
        }
    }
}

#[test]
fn http_on_a_port_of_another_protocol_is_answered_in_http() {
    let server = Server::start(&["--memory"]);
    for (name, address) in listeners(&server) {
        let expected = match name.as_str() {
            "mongo" => "trying to access MongoDB over HTTP on the native driver port.",
            "cql" => "trying to access Cassandra over HTTP on the native driver port.",
            _ => continue,
        };
        // Also where it comes byte by byte, and where a body is announced.
        let announced = "PUT /x HTTP/1.1\r\ncontent-length: 9000\r\n\r\n";
        let with_body = format!("{announced}{}", "x".repeat(9_000));
        for request in [CURL, announced, &with_body] {
            let reply = ask(address, request);
            let message = reply.body["message"].as_str().unwrap();
            assert!(message.contains(expected), "{message}");
        }
        let mut slow = Client(connect(address));
        for byte in CURL.chars().take(40) {
            slow.send(&byte.to_string());
        }
        assert_eq!(slow.reply().unwrap().status, 400);
    }
    // Those that speak HTTP answer it as before.
    assert_eq!(server.get("/health").status, 200);
}
