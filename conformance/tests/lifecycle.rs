//! The server as a user meets it: it starts, says that it is well, and ends when asked.

use tessera_conformance::{Error, Server, http};

fn answers_health_and_stops(server: Server) -> Result<(), Error> {
    let health = http::get(server.console(), "/health")?;
    assert_eq!(health.status, 200, "{health:?}");
    assert_eq!(server.address("console"), Some(server.console()));
    assert_eq!(http::get(server.console(), "/nowhere")?.status, 404);
    server.stop()
}

#[test]
fn serves_from_memory_and_stops_on_sigterm() -> Result<(), Error> {
    answers_health_and_stops(Server::start(&["--memory"])?)
}

#[test]
fn serves_the_same_folder_again_after_a_stop() -> Result<(), Error> {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    answers_health_and_stops(Server::start_on(&data, &[])?)?;
    assert!(data.is_dir());
    answers_health_and_stops(Server::start_on(&data, &[])?)
}

#[test]
fn serves_the_default_folder_without_options() -> Result<(), Error> {
    answers_health_and_stops(Server::start(&[])?)
}

#[test]
fn reports_what_a_server_that_cannot_start_printed() {
    let error = Server::start(&["--no-such-option"]).unwrap_err();
    assert!(matches!(error, Error::Ended { .. }), "{error}");
    assert!(error.to_string().contains("--no-such-option"), "{error}");
}
