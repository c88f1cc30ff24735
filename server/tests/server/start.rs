//! Starting: what the banner and the health page say, and what refuses to start.

use std::fs;
use std::net::TcpListener;

use crate::support::{Server, outcome, tessera, text};

#[test]
fn health_says_what_listens_where() {
    let server = Server::start(&[]);
    let reply = server.get("/health");
    assert_eq!(reply.status, 200);
    assert_eq!(reply.body["status"], "ok");
    assert_eq!(reply.body["engine"], "rocks");
    assert_eq!(reply.body["version"], env!("CARGO_PKG_VERSION"));
    assert!(reply.body["uptime_seconds"].is_u64());
    let console = &reply.body["listeners"]["console"];
    assert_eq!(console["address"], server.address.to_string());
    assert_eq!(console["tls"], false);
    let line = format!("http://{}/", server.address);
    assert!(server.banner.contains(&line), "{}", server.banner);
    assert!(
        server.banner.contains(text(&server.data())),
        "{}",
        server.banner
    );
}

#[test]
fn wrong_paths_and_methods_are_answered() {
    let server = Server::start(&["--memory"]);
    let mut client = server.connect();
    let missing = client.ask("GET", "/nothing");
    assert_eq!(missing.status, 404);
    assert!(missing.body["error"].is_string());
    let refused = client.ask("POST", "/health");
    assert_eq!(refused.status, 405);
    assert!(
        refused.head.contains("\r\nallow: get, head\r\n"),
        "{}",
        refused.head
    );
    assert_eq!(client.ask("GET", "/health?verbose=1").status, 200);
}

#[test]
fn memory_leaves_nothing_on_disk() {
    let server = Server::start(&["--memory"]);
    assert_eq!(server.get("/health").body["engine"], "memory");
    assert!(!server.data().exists());
    let (code, folder) = server.stop();
    assert_eq!(code, Some(0));
    assert!(!folder.path().join("tessera-data").exists());
}

#[test]
fn restarts_on_its_own_data_even_after_a_kill() {
    let server = Server::start(&[]);
    server.signal(rustix::process::Signal::KILL);
    let (code, folder) = server.wait();
    assert_eq!(code, None);
    assert!(folder.path().join("tessera-data/control.sock").exists());
    let again = Server::start_in(folder, &[]);
    assert_eq!(again.get("/health").status, 200);
    assert_eq!(again.stop().0, Some(0));
}

/// Checks that `tessera serve` with these arguments ends with `code` and one line holding `parts`.
fn check_refusal(arguments: &[&str], code: i32, parts: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let mut command = tessera(&["serve"]);
    let (actual, _, errors) = outcome(command.args(arguments).current_dir(folder.path()));
    assert_eq!(actual, code, "{errors}");
    assert_eq!(errors.lines().count(), 1, "{errors}");
    for part in parts {
        assert!(errors.contains(part), "{part:?} is not in {errors}");
    }
    assert_eq!(
        fs::read_dir(folder.path()).unwrap().count(),
        0,
        "something was left behind"
    );
}

#[test]
fn a_port_in_use_is_named_with_its_setting() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let parts = [
        address.as_str(),
        "another program already uses",
        "--console ADDR",
    ];
    check_refusal(&["--console", &address], 1, &parts);
}

#[test]
fn refuses_to_be_reachable_from_elsewhere_without_users() {
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:8080"] {
        let quoted = format!("console = \"{address}\" (flag --console)");
        check_refusal(
            &["--console", address],
            2,
            &[&quoted, "other machines", "127.0.0.1:"],
        );
    }
}

#[test]
fn refuses_to_run_with_everything_off() {
    check_refusal(
        &[
            "--console",
            "off",
            "--cql",
            "off",
            "--mongo",
            "off",
            "--table",
            "off",
        ],
        2,
        &["every front end is off"],
    );
}

#[test]
fn a_data_folder_in_use_is_named() {
    let first = Server::start(&[]);
    let mut second = tessera(&["serve", "--console", "127.0.0.1:0", "--data"]);
    let (code, _, errors) = outcome(second.arg(first.data()));
    assert_eq!(code, 1);
    assert!(errors.contains("tessera-data is in use"), "{errors}");
    assert_eq!(errors.lines().count(), 1, "{errors}");
    assert_eq!(first.get("/health").status, 200);
}

#[test]
fn a_data_folder_that_cannot_be_is_named() {
    check_refusal(
        &["--console", "127.0.0.1:0", "--data", "no/such/parent"],
        1,
        &["no/such/parent"],
    );
}
