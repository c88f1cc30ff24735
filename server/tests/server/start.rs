//! Starting: what the banner and the health page say, and what refuses to start.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rustix::fs::Mode;

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
fn all_ports_in_use_are_named_at_once() {
    let taken = [(), ()].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let [mongo, table] = taken
        .each_ref()
        .map(|it| it.local_addr().unwrap().to_string());
    let arguments = [
        "--cql",
        "off",
        "--console",
        "off",
        "--mongo",
        &mongo,
        "--table",
        &table,
    ];
    let parts = [
        format!("{mongo} for mongo: another program"),
        format!("{table} for table: another program"),
    ];
    check_refusal(&arguments, 1, &parts.each_ref().map(String::as_str));
}

#[test]
fn a_bare_port_is_one_of_this_machine() {
    let server = Server::start(&["--memory"]);
    assert!(server.address.ip().is_loopback());
    let port = server.address.port().to_string();
    check_refusal(
        &["--console", &port],
        1,
        &["listen on 127.0.0.1:", "another program"],
    );
}

#[test]
fn the_way_to_users_names_both_settings() {
    for (front_end, settings) in [
        ("mongo", ["mongo-users", "mongo-auth"]),
        ("cql", ["cql-users", "cql-auth"]),
    ] {
        check_refusal(&[&format!("--{front_end}"), "0.0.0.0:0"], 2, &settings);
    }
}

#[test]
fn a_folder_with_files_of_others_is_warned_of_once() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("tessera-data");
    fs::create_dir_all(data.join("lost+found")).unwrap();
    fs::write(data.join("thesis.tex"), "").unwrap();
    let server = Server::start_in(folder, &[]);
    assert!(
        server.log().contains("found=\"thesis.tex\""),
        "{}",
        server.log()
    );
    let (_, folder) = server.stop();
    let again = Server::start_in(folder, &[]);
    assert!(!again.log().contains("thesis"), "{}", again.log());
    let server = Server::start(&[]);
    assert!(!server.log().contains("not empty"), "{}", server.log());
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

/// Front end, the setting of its secrets, one that can be guessed, what the refusal says of it.
const GUESSABLE: [(&str, &str, &str, &str); 8] = [
    (
        "mongo",
        "mongo-users",
        "ada:b",
        "'ada' in mongo-users has 1 characters",
    ),
    (
        "mongo",
        "mongo-users",
        "ada:correct-horse,bob:1234567",
        "'bob' in mongo-users",
    ),
    (
        "cql",
        "cql-users",
        "administrator:administrator",
        "is the name itself",
    ),
    (
        "cql",
        "cql-users",
        "ada:1234567",
        "'ada' in cql-users has 7 characters",
    ),
    (
        "cql",
        "cql-users",
        "ada:Changeme1",
        "'ada' in cql-users is one of the commonest",
    ),
    ("table", "table-accounts", "mine:AA==", "'mine' has 1 bytes"),
    (
        "console",
        "console-admin-key",
        "aaaaaaaaaaaaaaaa",
        "the key in console-admin-key repeats a few",
    ),
    (
        "table",
        "table-accounts",
        PUBLIC_KEY,
        "public key of the storage emulators",
    ),
];

const PUBLIC_KEY: &str = "mine:Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/\
                          K1SZFPTOtr/KBHBeksoGMGw==";

#[test]
fn refuses_secrets_that_can_be_guessed_where_others_can_try() {
    let zeros = format!("mine:{}==", "A".repeat(86));
    let second = PUBLIC_KEY.replace(':', &format!(":{}:", "c3Ryb25n".repeat(6)));
    let long = [
        (
            "table",
            "table-accounts",
            zeros.as_str(),
            "'mine' repeats a few characters",
        ),
        (
            "table",
            "table-accounts",
            second.as_str(),
            "public key of the storage emulators",
        ),
    ];
    for address in [
        "0.0.0.0:0",
        "[::]:0",
        "192.0.2.1:8080",
        "[::ffff:0.0.0.0]:0",
    ] {
        for (front_end, setting, secret, words) in GUESSABLE.into_iter().chain(long) {
            let (listen, set) = (format!("--{front_end}"), format!("--{setting}"));
            let quoted = format!("{front_end} = \"{address}\" (flag --{front_end})");
            let parts = [
                &quoted,
                words,
                setting,
                "openssl rand -base64",
                "127.0.0.1:",
            ];
            check_refusal(&[&listen, address, &set, secret], 2, &parts);
        }
    }
}

#[test]
fn weak_secrets_stay_possible_on_this_machine_and_beginnings_are_explained() {
    let server = Server::start(&["--memory", "--mongo-auth", "--cql-auth"]);
    let log = server.log();
    assert!(
        log.contains("createUser") && log.contains("CREATE ROLE"),
        "{log}"
    );
    assert!(!log.contains("unencrypted"), "{log}");
    let weak = ["--memory", "--mongo-users", "a:b", "--cql-users", "a:a"];
    let server = Server::start(&weak);
    assert!(!server.log().contains("createUser"), "{}", server.log());
}

#[test]
fn credentials_without_tls_beyond_this_machine_are_warned_of() {
    let check = |more: &[&str], expected: bool| {
        let mut arguments = vec!["serve", "--mongo-users", "ada:correct-horse"];
        arguments.extend(["--console", "off", "--cql", "off", "--table", "off"]);
        // It ends there, after what is looked at first.
        arguments.extend(["--data", "/dev/null/data"]);
        let (code, _, log) = outcome(tessera(&arguments).args(more));
        assert_eq!(code, 1, "{log}");
        assert_eq!(log.contains("unencrypted"), expected, "{more:?}: {log}");
    };
    for address in ["0.0.0.0:0", "[::]:0"] {
        check(&["--mongo", address], true);
        check(&["--mongo", address, "--tls-self-signed"], false);
    }
    check(&["--mongo", "127.0.0.1:0"], false);
    check(&["--mongo", "[::ffff:127.0.0.1]:0"], false);
}

/// Everything below a folder that others than its owner may use, itself included.
fn open_to_others(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = vec![folder.to_owned()];
    while let Some(path) = rest.pop() {
        let metadata = path.symlink_metadata().unwrap();
        if metadata.permissions().mode() & 0o077 != 0 {
            found.push(format!(
                "{:o} {}",
                metadata.permissions().mode(),
                path.display()
            ));
        }
        if metadata.is_dir() {
            rest.extend(
                fs::read_dir(path)
                    .unwrap()
                    .map(|entry| entry.unwrap().path()),
            );
        }
    }
    found
}

#[test]
fn what_is_written_is_for_its_owner_alone_whatever_the_umask() {
    for umask in [0o022, 0o000] {
        // Of this whole process; nothing else here depends on it.
        rustix::process::umask(Mode::from_raw_mode(umask));
        let folder = tempfile::tempdir().unwrap();
        let server = Server::start_in(folder, &["--tls-self-signed"]);
        let data = server.data();
        let backup = server.folder.path().join("backups/first");
        let arguments = ["backup", "--data", text(&data), text(&backup)];
        let (code, _, errors) = outcome(&mut tessera(&arguments));
        assert_eq!(code, 0, "{errors}");
        let copy = server.folder.path().join("copy");
        let arguments = ["copy", "--from", text(&data), "--to", text(&copy)];
        let (code, _, errors) = outcome(&mut tessera(&arguments));
        assert_eq!(code, 0, "{errors}");
        for folder in [&data, &backup, &copy] {
            assert_eq!(open_to_others(folder), Vec::<String>::new());
        }
        let (_, folder) = server.stop();
        // As an earlier release left it.
        for path in [&data, &data.join("rocks"), &data.join("rocks/CURRENT")] {
            let mode = fs::metadata(path).unwrap().permissions().mode();
            let wide = fs::Permissions::from_mode(mode | 0o055);
            fs::set_permissions(path, wide).unwrap();
        }
        let server = Server::start_in(folder, &["--tls-self-signed"]);
        assert_eq!(open_to_others(&server.data()), Vec::<String>::new());
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
fn too_few_addresses_for_the_engine_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let under = |kilobytes: u32, arguments: &str| {
        let binary = env!("CARGO_BIN_EXE_tessera");
        let mut shell = std::process::Command::new("sh");
        let line = format!("ulimit -v {kilobytes}; exec {binary} {arguments}");
        outcome(shell.args(["-c", &line]).current_dir(folder.path()))
    };
    for kilobytes in [200_000, 800_000, 1_500_000] {
        let (code, _, errors) = under(kilobytes, "serve --console 0 --mongo 0 --cql 0 --table 0");
        assert_eq!(code, 1, "{errors}");
        assert!(errors.contains("ulimit -v"), "{errors}");
    }
}

#[test]
fn a_data_folder_that_cannot_be_is_named() {
    check_refusal(
        &["--console", "127.0.0.1:0", "--data", "no/such/parent"],
        1,
        &["no/such/parent", "create the folder above it first"],
    );
    check_refusal(
        &["--console", "127.0.0.1:0", "--data", "/proc/nope"],
        1,
        &["/proc/nope", "choose another data folder"],
    );
}
