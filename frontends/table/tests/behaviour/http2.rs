//! HTTP/2, by prior knowledge: many requests on one connection at once.

use std::collections::BTreeSet;

use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::json;
use tokio::task::JoinSet;

use crate::answer::Answer;
use crate::ask::{Ask, create_table, put, query};
use crate::service::Service;

/// More than the server lets run at once.
const REQUESTS: usize = 300;

async fn connect(service: &Service) -> SendRequest<Full<Bytes>> {
    let (stream, _served) = service.connect();
    let stream = TokioIo::new(stream);
    let (sender, connection) = handshake(TokioExecutor::new(), stream).await.unwrap();
    tokio::spawn(connection);
    sender
}

async fn send(mut sender: SendRequest<Full<Bytes>>, ask: Ask) -> Answer {
    sender.ready().await.unwrap();
    let response = sender.send_request(ask.request()).await.unwrap();
    let (parts, body) = response.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    Answer {
        status: parts.status.as_u16(),
        headers: parts.headers,
        body: String::from_utf8(body.to_vec()).unwrap(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_connection_carries_many_requests_at_once() {
    let service = Service::storage().await;
    service.must(create_table("table")).await;
    let sender = connect(&service).await;
    let mut sent = JoinSet::new();
    for number in 0..REQUESTS {
        let (partition_key, row_key) = (format!("p{}", number % 7), format!("{number:03}"));
        let ask = put(
            "table",
            (&partition_key, &row_key),
            &json!({ "n": number, "text": "x".repeat(number * 50) }),
        );
        sent.spawn(send(sender.clone(), ask));
    }
    let mut ids = BTreeSet::new();
    for answer in sent.join_all().await {
        assert_eq!(answer.status, 204, "{answer:?}");
        ids.insert(answer.header("x-ms-request-id").to_owned());
    }
    assert_eq!(ids.len(), REQUESTS, "each request has an id of its own");
    let all = send(sender, query("table", "", "")).await;
    for entity in all.entities() {
        let number: usize = entity["RowKey"].as_str().unwrap().parse().unwrap();
        assert_eq!(entity["n"], number);
        assert_eq!(entity["text"].as_str().unwrap().len(), number * 50);
    }
    assert_eq!(all.entities().len(), REQUESTS);
}

#[tokio::test]
async fn the_account_may_be_in_the_authority() {
    let service = Service::storage().await;
    let sender = connect(&service).await;
    let answer = send(sender, create_table("table").in_host()).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    let location = answer.header("location");
    assert_eq!(location, "http://one.localhost/Tables('table')");
}

#[tokio::test]
async fn long_filters_pass() {
    let service = Service::storage().await;
    service.must(create_table("table")).await;
    let long = query("table", &format!("text eq '{}'", "x".repeat(30_000)), "");
    let answer = send(connect(&service).await, long).await;
    assert_eq!(answer.status, 200, "{answer:?}");
}
