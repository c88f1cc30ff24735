//! What web sites can do through a browser on this machine, which sends what they ask for.

use tessera_table::EMULATOR_KEY;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::ask::{Ask, ask, create_table, put};
use crate::service::{PUBLIC_ACCOUNT, Service};

fn public(ask: Ask) -> Ask {
    ask.signed_by(PUBLIC_ACCOUNT, EMULATOR_KEY)
}

#[tokio::test]
async fn an_account_that_everybody_knows_answers_to_this_machine_alone() {
    let service = Service::storage().await;
    for (host, expected) in [
        ("127.0.0.1:10002", 200),
        ("localhost", 200),
        ("LOCALHOST:10002", 200),
        ("[::1]:10002", 200),
        ("web.localhost:10002", 200),
        ("evil.example:10002", 403),
        ("localhost.evil.example", 403),
        ("127.0.0.1.evil.example", 403),
        ("192.168.1.1:10002", 403),
        ("0.0.0.0:10002", 403),
        ("evil-localhost", 403),
        ("", 403),
    ] {
        let tables = public(ask("GET", "/Tables")).at_host(host);
        assert_eq!(service.ask(tables).await.status, expected, "{host}");
        let make = public(create_table("made")).at_host(host);
        let made = service.ask(make).await.status;
        assert_eq!(made == 403, expected == 403, "{host}: {made}");
        // An address with a host in it counts more than the header.
        let absolute = public(ask("GET", "/Tables")).text();
        let absolute = absolute.replacen("GET ", "GET http://evil.example", 1);
        let (mut stream, _served) = service.connect();
        stream.write_all(absolute.as_bytes()).await.unwrap();
        let mut start = [0; 13];
        stream.read_exact(&mut start).await.unwrap();
        assert_eq!(str::from_utf8(&start).unwrap(), "HTTP/1.1 403 ");
        // Who has a key of their own may call the server what they like.
        let own = ask("GET", "/Tables").at_host(host);
        let status = service.ask(own).await.status;
        assert_eq!(status, 200, "{host}");
    }
}

#[tokio::test]
async fn a_page_from_elsewhere_changes_nothing_without_a_rule() {
    let service = Service::storage().await;
    service.must(public(create_table("table"))).await;
    let origins: [&[(&str, &str)]; 7] = [
        &[("origin", "http://evil.example")],
        &[("origin", "null")],
        &[("origin", "http://127.0.0.1:3000")],
        &[("origin", "https://127.0.0.1.evil.example")],
        &[
            ("origin", "http://evil.example"),
            ("sec-fetch-site", "cross-site"),
        ],
        &[("sec-fetch-site", "cross-site")],
        &[
            ("origin", "http://127.0.0.1"),
            ("sec-fetch-site", "same-site"),
        ],
    ];
    let with = |ask: Ask, headers: &[(&str, &str)]| {
        let add = |ask: Ask, (name, value): &(&str, &str)| ask.with(name, *value);
        headers.iter().fold(ask, add)
    };
    let change = || {
        let mut insert = ask("POST", "/table");
        insert.body = r#"{"PartitionKey":"p","RowKey":"r"}"#.to_owned();
        let plain = insert.clone().with("content-type", "text/plain");
        let put = put("table", ("p", "r"), &serde_json::json!({ "n": 1 }));
        [insert, plain, put, create_table("another")].map(public)
    };
    for headers in origins {
        for change in change() {
            let answer = service.ask(with(change, headers)).await;
            assert_eq!(answer.status, 403, "{headers:?} {answer:?}");
            assert!(answer.body.contains("AuthorizationFailure"), "{answer:?}");
        }
        let read = with(public(ask("GET", "/table()")), headers);
        assert!(service.must(read).await.body.contains("[]"));
    }
    // Programs, pages of this server, and what people type.
    let allowed: [&[(&str, &str)]; 4] = [
        &[],
        &[("origin", "http://127.0.0.1")],
        &[
            ("origin", "http://127.0.0.1"),
            ("sec-fetch-site", "same-origin"),
        ],
        &[("sec-fetch-site", "none")],
    ];
    for headers in allowed {
        let put = put("table", ("p", "r"), &serde_json::json!({ "n": 1 }));
        service.must(with(public(put), headers)).await;
    }
}

#[tokio::test]
async fn a_rule_of_the_account_lets_its_pages_in() {
    let service = Service::storage().await;
    service.must(public(create_table("table"))).await;
    let rules = "<?xml version=\"1.0\"?><StorageServiceProperties><Cors><CorsRule>\
                 <AllowedOrigins>http://app.example</AllowedOrigins>\
                 <AllowedMethods>PUT,GET</AllowedMethods><AllowedHeaders>*</AllowedHeaders>\
                 <ExposedHeaders>*</ExposedHeaders><MaxAgeInSeconds>9</MaxAgeInSeconds>\
                 </CorsRule></Cors></StorageServiceProperties>";
    let mut set = public(ask("PUT", "/?restype=service&comp=properties"));
    set.body = rules.to_owned();
    service.must(set).await;
    let put = |origin: &str| {
        let put = put("table", ("p", "r"), &serde_json::json!({ "n": 1 }));
        public(put)
            .with("origin", origin)
            .with("sec-fetch-site", "cross-site")
    };
    assert_eq!(service.ask(put("http://app.example")).await.status, 204);
    assert_eq!(service.ask(put("http://evil.example")).await.status, 403);
    let post = public(create_table("another")).with("origin", "http://app.example");
    assert_eq!(service.ask(post).await.status, 403);
}

/// Whoever asks for leave to send a body gets an answer instead, if the head is not signed.
#[tokio::test]
async fn a_body_is_not_asked_for_before_its_signature_is_right() {
    let service = Service::storage().await;
    service.must(create_table("table")).await;
    let put = put("table", ("p", "r"), &serde_json::json!({ "n": 1 }));
    for (ask, expected) in [
        (put.clone(), "HTTP/1.1 100 "),
        (put.clone().signed_by("one", "AAAA"), "HTTP/1.1 403 "),
        (put.clone().signed_by("nobody", "AAAA"), "HTTP/1.1 404 "),
        (public(put).at_host("evil.example"), "HTTP/1.1 403 "),
    ] {
        let (mut stream, _served) = service.connect();
        let head = ask.with("expect", "100-continue").head();
        let head = format!("{head}content-length: 4000000\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut start = [0; 13];
        stream.read_exact(&mut start).await.unwrap();
        assert_eq!(str::from_utf8(&start).unwrap(), expected);
    }
}
