//! HTTP/1.1 as it can arrive: in pieces, too early, too much, or not at all.

use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _};

use crate::answer::Answer;
use crate::ask::{Ask, ask, create_table, entity, put, query};
use crate::service::Service;

const MIB: usize = 1 << 20;

async fn service() -> Service {
    let service = Service::storage().await;
    service.must(create_table("table")).await;
    service
}

fn one_put() -> Ask {
    put("table", ("p", "r"), &json!({ "n": 1 }))
}

fn one_get() -> Ask {
    ask("GET", entity("table", ("p", "r")))
}

#[tokio::test]
async fn a_connection_is_used_again() {
    let service = service().await;
    let (mut stream, _served) = service.connect();
    for (ask, status) in [
        (one_get(), 404),
        (one_put(), 204),
        (one_get(), 200),
        (ask("BREW", "/table"), 405),
        (one_get().signed_by("one", "AAAA"), 403),
        (one_get(), 200),
    ] {
        stream.write_all(ask.text().as_bytes()).await.unwrap();
        assert_eq!(Answer::read(&mut stream).await.unwrap().status, status);
    }
}

#[tokio::test]
async fn requests_may_be_sent_before_the_answers_are_read() {
    let service = service().await;
    let (mut stream, _served) = service.connect();
    let delete = ask("DELETE", entity("table", ("p", "r"))).with("if-match", "*");
    let all = [one_put(), one_get(), delete, one_get()].map(|ask| ask.text());
    stream.write_all(all.concat().as_bytes()).await.unwrap();
    for status in [204, 200, 204, 404] {
        assert_eq!(Answer::read(&mut stream).await.unwrap().status, status);
    }
}

#[tokio::test]
async fn a_body_may_come_in_chunks() {
    let service = service().await;
    let (mut stream, _served) = service.connect();
    let head = format!("{}transfer-encoding: chunked\r\n\r\n", one_put().head());
    stream.write_all(head.as_bytes()).await.unwrap();
    for chunk in ["2\r\n{\"\r\n", "4\r\nm\":4\r\n", "1\r\n2\r\n", "1\r\n}\r\n"] {
        stream.write_all(chunk.as_bytes()).await.unwrap();
        tokio::task::yield_now().await;
    }
    stream.write_all(b"0\r\n\r\n").await.unwrap();
    assert_eq!(Answer::read(&mut stream).await.unwrap().status, 204);
    assert_eq!(service.must(one_get()).await.json()["m"], 42);
}

#[tokio::test]
async fn who_waits_for_leave_to_send_gets_it() {
    let service = service().await;
    let (mut stream, _served) = service.connect();
    let put = one_put().with("expect", "100-continue");
    let (head, body) = (put.head(), put.body);
    let head = format!("{head}content-length: {}\r\n\r\n", body.len());
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut leave = String::new();
    stream.read_line(&mut leave).await.unwrap();
    assert_eq!(leave, "HTTP/1.1 100 Continue\r\n");
    stream.read_line(&mut leave).await.unwrap();
    stream.write_all(body.as_bytes()).await.unwrap();
    assert_eq!(Answer::read(&mut stream).await.unwrap().status, 204);
}

#[tokio::test]
async fn who_waits_for_leave_to_send_too_much_is_refused_at_once() {
    let service = service().await;
    let (mut stream, _served) = service.connect();
    let head = one_put().with("expect", "100-continue").head();
    let head = format!("{head}content-length: {}\r\n\r\n", 5 * MIB);
    stream.write_all(head.as_bytes()).await.unwrap();
    let answer = Answer::read(&mut stream).await.unwrap();
    assert_eq!((answer.status, answer.code()), (413, "RequestBodyTooLarge"));
}

#[tokio::test]
async fn unknown_methods_are_refused_and_head_has_no_body() {
    let service = service().await;
    for method in ["BREW", "TRACE"] {
        let refused = service.ask(ask(method, "/table")).await;
        let expected = (405, "UnsupportedHttpVerb");
        assert_eq!((refused.status, refused.code()), expected, "{method}");
    }
    let (mut stream, _served) = service.connect();
    let head = ask("HEAD", "/table").with("connection", "close").text();
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 405 "), "{answer}");
    assert!(answer.ends_with("\r\n\r\n"), "{answer}");
}

/// A client that sends all before it reads still learns that it was too much, and may go on.
#[tokio::test]
async fn too_large_a_body_is_refused_to_clients_that_are_still_sending() {
    let service = service().await;
    let (mut stream, _served) = service.connect();
    let head = one_put().head();
    let head = format!("{head}content-length: {}\r\n\r\n", 5 * MIB);
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(&vec![b'x'; 5 * MIB]).await.unwrap();
    let answer = Answer::read(&mut stream).await.unwrap();
    assert_eq!((answer.status, answer.code()), (413, "RequestBodyTooLarge"));
    assert_eq!(answer.json()["odata.error"]["code"], "RequestBodyTooLarge");

    let head = format!("{}transfer-encoding: chunked\r\n\r\n", one_put().head());
    stream.write_all(head.as_bytes()).await.unwrap();
    for _ in 0..5 {
        let chunk = format!("{MIB:x}\r\n{}\r\n", "x".repeat(MIB));
        stream.write_all(chunk.as_bytes()).await.unwrap();
    }
    stream.write_all(b"0\r\n\r\n").await.unwrap();
    let answer = Answer::read(&mut stream).await.unwrap();
    assert_eq!((answer.status, answer.code()), (413, "RequestBodyTooLarge"));

    stream.write_all(one_get().text().as_bytes()).await.unwrap();
    assert_eq!(Answer::read(&mut stream).await.unwrap().status, 404);
}

#[tokio::test]
async fn the_largest_body_is_still_taken() {
    let service = service().await;
    let mut put = one_put();
    put.body = format!("{{\"n\":1{}}}", " ".repeat(4 * MIB - 7));
    assert_eq!(service.ask(put.clone()).await.status, 204);
    put.body.push(' ');
    assert_eq!(service.ask(put).await.status, 413);
}

#[tokio::test]
async fn a_body_that_nobody_would_wait_for_is_not_waited_for() {
    let service = service().await;
    let (mut stream, served) = service.connect();
    let head = format!("{}content-length: {}\r\n\r\n", one_put().head(), 65 * MIB);
    stream.write_all(head.as_bytes()).await.unwrap();
    let answer = Answer::read(&mut stream).await.unwrap();
    assert_eq!((answer.status, answer.code()), (413, "RequestBodyTooLarge"));
    drop(stream);
    served.await.unwrap();
}

#[tokio::test]
async fn garbage_ends_its_connection_and_no_other() {
    let service = service().await;
    let (mut other, _served) = service.connect();
    for garbage in [
        &b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[..],
        b"GET\r\n\r\n",
        b"nonsense of some length and without any sense at all\r\n\r\n",
        b"GET / HTTP/1.1\r\nbad header\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nnonsense behind the preface",
        b"POST /one/table HTTP/1.1\r\nhost: x\r\ncontent-length: many\r\n\r\n",
    ] {
        let (mut stream, served) = service.connect();
        stream.write_all(garbage).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).await.unwrap();
        served.await.unwrap();
        other.write_all(one_get().text().as_bytes()).await.unwrap();
        assert_eq!(Answer::read(&mut other).await.unwrap().status, 404);
    }
}

#[tokio::test]
async fn half_a_request_does_nothing() {
    let service = service().await;
    let whole = one_put().text();
    for cut in [1, whole.len() / 2, whole.len() - 1] {
        let (mut stream, served) = service.connect();
        stream.write_all(&whole.as_bytes()[..cut]).await.unwrap();
        drop(stream);
        served.await.unwrap();
        assert_eq!(service.ask(one_get()).await.status, 404, "cut at {cut}");
    }
}

#[tokio::test]
async fn heads_have_a_limit_and_long_filters_are_within() {
    let service = service().await;
    let long = query("table", &format!("text eq '{}'", "x".repeat(30_000)), "");
    assert_eq!(service.ask(long).await.status, 200);
    let (mut stream, served) = service.connect();
    let huge = one_get().with("x-huge", "x".repeat(300_000)).text();
    // The server may end the connection before all of it is sent.
    let _sent = stream.write_all(huge.as_bytes()).await.is_ok();
    let answer = Answer::read(&mut stream).await.unwrap();
    assert_eq!(answer.status, 431);
    drop(stream);
    served.await.unwrap();
    assert_eq!(service.ask(one_get()).await.status, 404);
}
