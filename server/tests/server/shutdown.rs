//! Stopping: in order, in bounded time, or at once.

use std::net::TcpStream;

use rustix::process::Signal;

use crate::support::{Server, eventually};

#[test]
fn a_request_that_runs_is_finished_and_nothing_new_is_taken() {
    for signal in [Signal::TERM, Signal::INT] {
        let server = Server::start(&[]);
        let mut idle = server.connect();
        assert_eq!(idle.ask("GET", "/health").status, 200);
        let mut untouched = server.connect();
        let mut running = server.connect();
        running.send("GET /health HTTP/1.1\r\n");
        // An answer on a later connection shows that the ones before were accepted.
        assert_eq!(server.get("/health").status, 200);

        server.signal(signal);
        let address = server.address;
        eventually("the end of listening", || {
            TcpStream::connect(address).is_err()
        });
        idle.expect_close();
        untouched.expect_close();
        running.send("host: test\r\n\r\n");
        let reply = running.reply().unwrap();
        assert_eq!(reply.status, 200);
        assert!(reply.head.contains("connection: close"), "{}", reply.head);
        running.expect_close();

        let (code, folder) = server.wait();
        assert_eq!(code, Some(0));
        assert!(!folder.path().join("tessera-data/control.sock").exists());
        let log = std::fs::read_to_string(folder.path().join("log")).unwrap();
        assert!(log.trim_end().ends_with("stopped"), "{log}");
    }
}

#[test]
fn a_request_that_never_ends_is_cut_off() {
    let server = Server::start(&["--memory", "--shutdown-timeout", "200ms"]);
    let mut running = server.connect();
    running.send("GET /health HTTP/1.1\r\n");
    assert_eq!(server.get("/health").status, 200);
    let (code, folder) = server.stop();
    assert_eq!(code, Some(0));
    running.expect_close();
    let log = std::fs::read_to_string(folder.path().join("log")).unwrap();
    assert!(log.contains("were cut off"), "{log}");
}

#[test]
fn a_second_signal_stops_at_once() {
    let server = Server::start(&[
        "--memory",
        "--shutdown-timeout",
        "1h",
        "--read-timeout",
        "1h",
    ]);
    let mut running = server.connect();
    running.send("GET /health HTTP/1.1\r\n");
    assert_eq!(server.get("/health").status, 200);
    server.signal(Signal::TERM);
    eventually("the first signal", || {
        server.log().contains("a second signal stops at once")
    });
    server.signal(Signal::INT);
    assert_eq!(server.wait().0, Some(130));
}
