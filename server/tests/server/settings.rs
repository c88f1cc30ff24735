//! Settings from file, environment and flags, as `tessera config` shows them.

use std::fs;

use crate::support::{Server, outcome, tessera, text};

#[test]
fn config_shows_values_and_where_they_came_from() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("my.toml");
    fs::write(
        &file,
        "max-connections = 3\nread-timeout = \"3s\"\nidle-timeout = \"3s\"\n",
    )
    .unwrap();
    let mut command = tessera(&["config", "--idle-timeout", "1s", "--config", text(&file)]);
    command
        .env("TESSERA_IDLE_TIMEOUT", "2s")
        .env("TESSERA_READ_TIMEOUT", "2s");
    let (code, printed, errors) = outcome(&mut command);
    assert_eq!((code, errors.as_str()), (0, ""));
    let check = |setting: &str, origin: &str| {
        let line = printed
            .lines()
            .find(|line| line.starts_with(setting))
            .unwrap_or("");
        assert!(
            line.ends_with(&format!("  # {origin}")),
            "{setting}: {printed}"
        );
    };
    check("idle-timeout = \"1s\"", "flag --idle-timeout");
    check("read-timeout = \"2s\"", "environment TESSERA_READ_TIMEOUT");
    check("max-connections = 3", &format!("file {}:1", text(&file)));
    check("console = \"127.0.0.1:8080\"", "default");

    let copy = folder.path().join("copy.toml");
    fs::write(&copy, &printed).unwrap();
    let (code, again, _) = outcome(tessera(&["config"]).env("TESSERA_CONFIG", &copy));
    assert_eq!(code, 0);
    let values = |toml: &str| -> Vec<String> {
        toml.lines()
            .filter_map(|line| Some(line.split_once("  #")?.0.trim().to_owned()))
            .collect()
    };
    assert_eq!(values(&printed), values(&again));
}

#[test]
fn the_server_runs_with_what_config_shows() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(
        folder.path().join("t.toml"),
        "memory = true\nlog = \"json\"\n",
    )
    .unwrap();
    let server = Server::start_in(folder, &["--config", "t.toml"]);
    assert_eq!(server.get("/health").body["engine"], "memory");
    let log = server.log();
    let first: serde_json::Value = serde_json::from_str(log.lines().next().unwrap()).unwrap();
    assert_eq!(first["level"], "INFO");
    assert_eq!(first["message"], "listening");
    // Standard output and standard error merged are JSON, line by line.
    let banner: serde_json::Value = serde_json::from_str(&server.banner).unwrap();
    assert_eq!(banner["message"], "ready");
    assert_eq!(banner["level"], "INFO");
    assert!(banner["timestamp"].as_str().unwrap().starts_with("20"));
    let mongo = banner["listeners"]["mongo"]["connect"].as_str().unwrap();
    assert!(mongo.starts_with("mongosh mongodb://"), "{banner}");
}

#[test]
fn a_switch_in_the_file_can_be_turned_off_by_a_flag() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("t.toml"), "memory = true\n").unwrap();
    let server = Server::start_in(folder, &["--config", "t.toml", "--memory=false"]);
    assert_eq!(server.get("/health").body["engine"], "rocks");
}

/// Checks that a file with this text is refused in one line that ends with `expected`.
fn check_file(toml: &str, expected: &str) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t.toml");
    fs::write(&file, toml).unwrap();
    let (code, _, errors) = outcome(&mut tessera(&["serve", "--config", text(&file)]));
    assert_eq!(code, 2);
    assert_eq!(errors.lines().count(), 1, "{errors}");
    assert!(errors.contains(text(&file)), "{errors}");
    assert!(errors.trim_end().ends_with(expected), "{errors}");
}

#[test]
fn mistakes_in_the_file_are_named() {
    check_file(
        "\nconsol = \"off\"\n",
        "t.toml:2: unknown setting consol; did you mean console?",
    );
    check_file(
        "[console]\nport = 1\n",
        "has a value of type table: write a text in quotes",
    );
    check_file(
        "durability = \"often\"",
        "is not allowed; allowed is group or periodic",
    );
    check_file(
        "max-connections = 0",
        "t.toml:1) is not allowed; allowed is a whole number from 1 to 1000000",
    );
}

#[test]
fn wrong_flags_end_with_code_2() {
    for arguments in [
        &["serve", "--consle", "off"][..],
        &["sevre"],
        &[],
        &["backup"],
    ] {
        assert_eq!(outcome(&mut tessera(arguments)).0, 2, "{arguments:?}");
    }
}
