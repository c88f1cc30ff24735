//! TLS with brought and with generated certificates.

use std::fs;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use tempfile::TempDir;

use crate::support::{Client, Server, connect, eventually, outcome, tessera, text};

type TlsClient = Client<StreamOwned<ClientConnection, TcpStream>>;

/// A client that trusts exactly the certificate in `cert`.
fn client(server: &Server, cert: &Path, name: &str) -> TlsClient {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_file(cert).unwrap())
        .unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = name.to_owned().try_into().unwrap();
    let session = ClientConnection::new(Arc::new(config), name).unwrap();
    Client(StreamOwned::new(session, connect(server.address)))
}

/// A certificate for localhost and its key, in `folder`.
fn make_pair(folder: &TempDir, name: &str) -> (PathBuf, PathBuf) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let cert = folder.path().join(format!("{name}.cert"));
    let key = folder.path().join(format!("{name}.key"));
    fs::write(&cert, made.cert.pem()).unwrap();
    fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    (cert, key)
}

#[test]
fn a_hangup_reloads_the_certificate_and_the_log_level_and_ends_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (cert, key) = make_pair(&folder, "a");
    let (next_cert, next_key) = make_pair(&folder, "b");
    let settings = folder.path().join("settings.toml");
    fs::write(&settings, "log-level = \"info\"\n").unwrap();
    let server = Server::start(&[
        "--memory",
        "--config",
        text(&settings),
        "--tls-cert",
        text(&cert),
        "--tls-key",
        text(&key),
    ]);
    let mut before = client(&server, &cert, "localhost");
    assert_eq!(before.ask("GET", "/health").status, 200);
    let hangup = |times: usize| {
        server.signal(rustix::process::Signal::HUP);
        eventually("a line about it", || {
            server.log().matches("SIGHUP: reloaded").count() == times
        });
    };
    // A key that does not belong to the certificate changes nothing.
    fs::copy(&next_key, &key).unwrap();
    hangup(1);
    assert!(server.log().contains("stays as it was"), "{}", server.log());
    assert_eq!(
        client(&server, &cert, "localhost")
            .ask("GET", "/health")
            .status,
        200
    );

    fs::copy(&next_cert, &cert).unwrap();
    fs::write(&settings, "log-level = \"debug\"\n").unwrap();
    hangup(2);
    let mut after = client(&server, &next_cert, "localhost");
    assert_eq!(after.ask("GET", "/health").status, 200);
    assert!(server.log().contains("DEBUG"), "{}", server.log());
    // Open connections go on.
    assert_eq!(before.ask("GET", "/health").status, 200);
    assert_eq!(server.stop().0, Some(0));
}

#[test]
fn a_brought_certificate_is_served() {
    let folder = tempfile::tempdir().unwrap();
    let (cert, key) = make_pair(&folder, "a");
    let server = Server::start(&[
        "--memory",
        "--tls-cert",
        text(&cert),
        "--tls-key",
        text(&key),
    ]);
    let reply = client(&server, &cert, "localhost").ask("GET", "/health");
    assert_eq!(reply.status, 200);
    assert_eq!(reply.body["listeners"]["console"]["tls"], true);
    assert!(
        server.banner.contains("https://127.0.0.1:"),
        "{}",
        server.banner
    );
}

#[test]
fn the_self_signed_certificate_stays_the_same_and_private() {
    let server = Server::start(&["--tls-self-signed"]);
    let cert = server.data().join("tls/cert.pem");
    assert!(
        server
            .banner
            .contains(&format!("--tlsCAFile {}", text(&cert))),
        "{}",
        server.banner
    );
    assert_eq!(
        client(&server, &cert, "localhost")
            .ask("GET", "/health")
            .status,
        200
    );
    let key = fs::metadata(server.data().join("tls/key.pem")).unwrap();
    assert_eq!(key.permissions().mode() & 0o777, 0o600);

    let fingerprint = |banner: &str| {
        let line = banner
            .lines()
            .find(|line| line.contains("SHA-256 "))
            .unwrap();
        line.split("SHA-256 ").nth(1).unwrap().to_owned()
    };
    let before = fingerprint(&server.banner);
    assert_eq!(before.len(), 32 * 3 - 1);
    let again = Server::start_in(server.stop().1, &["--tls-self-signed"]);
    assert_eq!(fingerprint(&again.banner), before);
    let cert = again.data().join("tls/cert.pem");
    assert_eq!(
        client(&again, &cert, "127.0.0.1")
            .ask("GET", "/health")
            .status,
        200
    );
}

#[test]
fn a_stalled_handshake_and_a_plain_request_are_dropped() {
    let server = Server::start(&["--memory", "--tls-self-signed", "--read-timeout", "300ms"]);
    let mut silent = server.connect();
    let mut plain = server.connect();
    plain.send("GET /health HTTP/1.1\r\nhost: test\r\n\r\n");
    silent.expect_close();
    while plain.byte().is_some() {}
}

#[test]
fn an_idle_tls_connection_is_closed() {
    let server = Server::start(&["--tls-self-signed", "--idle-timeout", "300ms"]);
    let mut client = client(&server, &server.data().join("tls/cert.pem"), "localhost");
    assert_eq!(client.ask("GET", "/health").status, 200);
    client.expect_close();
}

#[test]
fn unusable_files_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let (cert, key) = make_pair(&folder, "a");
    let (_, other_key) = make_pair(&folder, "b");
    let (none, empty) = (folder.path().join("none"), folder.path().join("empty"));
    fs::write(&empty, "").unwrap();
    let check = |cert: &Path, key: &Path, parts: &[&str]| {
        let mut command = tessera(&[
            "serve",
            "--memory",
            "--console",
            "127.0.0.1:0",
            "--tls-cert",
        ]);
        let (code, _, errors) = outcome(command.arg(cert).arg("--tls-key").arg(key));
        assert_eq!(code, 1, "{errors}");
        assert_eq!(errors.lines().count(), 1, "{errors}");
        for part in parts {
            assert!(errors.contains(part), "{part:?} is not in {errors}");
        }
    };
    check(
        &none,
        &key,
        &[text(&none), "No such file", "check tls-cert"],
    );
    check(&empty, &key, &[text(&empty), "holds no certificate"]);
    check(&key, &key, &[text(&key), "holds no certificate"]);
    check(&cert, &none, &[text(&none), "No such file", "tls-key"]);
    check(&cert, &cert, &[text(&cert), "holds no private key"]);
    let mismatch = "is not the key of the certificate";
    check(
        &cert,
        &other_key,
        &[text(&other_key), mismatch, text(&cert)],
    );
}
