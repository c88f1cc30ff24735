//! Connections that are too many, too slow, too quiet or broken.

use std::io::Write;
use std::time::{Duration, Instant};

use crate::support::{Client, Server, connect, eventually};

/// A read timeout within which a busy machine still lets a client send what it means to send.
const PAUSE: &str = "1s";

#[test]
fn connections_over_the_limit_are_closed_and_places_are_given_back() {
    let server = Server::start(&["--memory", "--max-connections", "2"]);
    let (mut first, mut second) = (server.connect(), server.connect());
    assert_eq!(first.ask("GET", "/health").status, 200);
    assert_eq!(second.ask("GET", "/health").status, 200);
    // Both are in the middle of a request.
    first.send("GET /health HTTP/1.1\r\n");
    second.send("GET /health HTTP/1.1\r\n");
    for _ in 0..20 {
        server.connect().expect_close();
    }
    assert_eq!(
        server.log().matches("connection refused").count(),
        1,
        "{}",
        server.log()
    );
    first.send("host: test\r\n\r\n");
    assert_eq!(first.reply().unwrap().status, 200);
    drop(first);
    eventually("a free place", || {
        let mut client = server.connect();
        let request = client
            .0
            .write_all(b"GET /health HTTP/1.1\r\nhost: test\r\n\r\n");
        request.is_ok() && client.reply().is_some_and(|reply| reply.status == 200)
    });
    second.send("host: test\r\n\r\n");
    assert_eq!(second.reply().unwrap().status, 200);
}

/// Connections that said something once, or nothing, and were left alone keep nobody out.
#[test]
fn idle_connections_give_way_to_new_ones_and_busy_ones_do_not() {
    let server = Server::start(&["--memory", "--max-connections", "20"]);
    let mut busy = server.connect();
    assert_eq!(busy.ask("GET", "/health").status, 200);
    busy.send("GET /health HTTP/1.1\r\n");
    let mut idle: Vec<_> = (0..19).map(|_| server.connect()).collect();
    for client in idle.iter_mut().step_by(2) {
        assert_eq!(client.ask("GET", "/health").status, 200);
    }
    std::thread::sleep(Duration::from_millis(1_500));
    let mut fresh: Vec<_> = (0..10).map(|_| server.connect()).collect();
    for client in &mut fresh {
        assert_eq!(client.ask("GET", "/health").status, 200);
    }
    busy.send("host: test\r\n\r\n");
    assert_eq!(busy.reply().unwrap().status, 200);
    // Those that gave way were closed in order.
    for client in &mut idle {
        client.0.set_nonblocking(true).unwrap();
    }
    let closed = |client: &mut Client<std::net::TcpStream>| {
        matches!(std::io::Read::read(&mut client.0, &mut [0]), Ok(0))
    };
    eventually("ten are closed", || {
        idle.retain_mut(|client| !closed(client));
        idle.len() <= 9
    });
    assert_eq!(idle.len(), 9);
}

#[test]
fn an_idle_connection_is_closed_after_the_idle_timeout() {
    let server = Server::start(&[
        "--memory",
        "--idle-timeout",
        "300ms",
        "--read-timeout",
        "20s",
    ]);
    let mut client = server.connect();
    assert_eq!(client.ask("GET", "/health").status, 200);
    let since = Instant::now();
    client.expect_close();
    let silent = since.elapsed();
    let allowed = Duration::from_millis(250)..Duration::from_secs(10);
    assert!(allowed.contains(&silent), "{silent:?}");
    assert_eq!(server.get("/health").status, 200);
}

#[test]
fn a_stalled_request_is_closed_after_the_read_timeout() {
    let server = Server::start(&["--memory", "--read-timeout", PAUSE]);
    let mut silent = server.connect();
    let mut halfway = server.connect();
    halfway.send("GET /health HTTP/1.1\r\nhos");
    let mut second_request = server.connect();
    assert_eq!(second_request.ask("GET", "/health").status, 200);
    second_request.send("GET /hea");
    silent.expect_close();
    halfway.expect_close();
    second_request.expect_close();
}

#[test]
fn dripping_a_request_byte_by_byte_does_not_keep_it_open() {
    let server = Server::start(&["--memory", "--read-timeout", "300ms"]);
    let mut stream = connect(server.address);
    stream.write_all(b"GET /health HTTP/1.1\r\n").unwrap();
    let since = Instant::now();
    stream
        .set_read_timeout(Some(Duration::from_millis(10)))
        .unwrap();
    let closed = |stream: &mut std::net::TcpStream| {
        let sent = stream.write_all(b"x");
        let mut byte = [0];
        // Reading is also the pause between two bytes.
        match std::io::Read::read(stream, &mut byte) {
            Err(error) if sent.is_ok() => error.kind() == std::io::ErrorKind::ConnectionReset,
            _ => true,
        }
    };
    eventually("the close", || closed(&mut stream));
    assert!(since.elapsed() < Duration::from_secs(10));
}

#[test]
fn quiet_connections_live_on_below_the_idle_timeout() {
    let server = Server::start(&["--memory", "--idle-timeout", "off", "--read-timeout", PAUSE]);
    let mut quiet = server.connect();
    assert_eq!(quiet.ask("GET", "/health").status, 200);
    // A second connection that runs into the read timeout shows that more than that time has
    // passed.
    for _ in 0..3 {
        server.connect().expect_close();
    }
    assert_eq!(quiet.ask("GET", "/health").status, 200);
}

#[test]
fn malformed_bytes_cost_only_their_own_connection() {
    let server = Server::start(&["--memory", "--read-timeout", PAUSE]);
    let mut good = server.connect();
    assert_eq!(good.ask("GET", "/health").status, 200);
    let huge_head = format!("GET / HTTP/1.1\r\nx: {}\r\n", "a".repeat(100_000));
    let bad: [&[u8]; 6] = [
        b"\x00\xff\x16\x03\x01",
        b"GET\r\n\r\n",
        b"GET /health HTTP/9.9\r\n\r\n",
        b"POST /health HTTP/1.1\r\ncontent-length: -1\r\n\r\n",
        b"POST /health HTTP/1.1\r\ncontent-length: 99999999999999999999\r\n\r\n",
        huge_head.as_bytes(),
    ];
    for bytes in bad {
        let mut client = Client(connect(server.address));
        // The server may close before it has taken all of it.
        client.0.write_all(bytes).ok();
        while client.byte().is_some() {}
        assert_eq!(good.ask("GET", "/health").status, 200);
    }
    assert!(!server.log().contains("panicked"), "{}", server.log());
}
