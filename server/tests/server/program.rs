//! What the program tells about itself, and what is asked of it: version, manual, health, notify.

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::Path;

use rustix::process::Signal;

use crate::support::{PATIENCE, Server, outcome, tessera, text};

#[test]
fn the_version_names_commit_and_target_whatever_the_settings() {
    let (code, printed, _) = outcome(&mut tessera(&["--version"]));
    assert_eq!(code, 0);
    let version = env!("CARGO_PKG_VERSION");
    assert!(
        printed.starts_with(&format!("tessera {version} (")),
        "{printed}"
    );
    let mut command = tessera(&["version"]);
    let (code, printed, errors) = outcome(command.env("TESSERA_CONFIG", "/nowhere/t.toml"));
    assert_eq!((code, errors.as_str()), (0, ""));
    let mut lines = printed.lines();
    assert_eq!(lines.next(), Some(format!("tessera {version}").as_str()));
    for name in ["commit", "build", "processor"] {
        let mut words = lines.next().unwrap().split_whitespace();
        assert_eq!(words.next(), Some(name));
        assert!(words.next().is_some(), "{printed}");
    }
}

#[test]
fn completions_know_commands_and_flags() {
    for shell in ["bash", "zsh", "fish"] {
        let (code, printed, _) = outcome(&mut tessera(&["completions", shell]));
        assert_eq!(code, 0, "{shell}");
        for word in ["serve", "durability", "mongo-replica-set"] {
            assert!(printed.contains(word), "{shell}: {word}");
        }
    }
    assert_eq!(outcome(&mut tessera(&["completions", "cmd"])).0, 2);
}

#[test]
fn every_command_has_a_manual_page() {
    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().join("man1");
    let (code, _, errors) = outcome(&mut tessera(&["man", text(&pages)]));
    assert_eq!(code, 0, "{errors}");
    let (_, help, _) = outcome(&mut tessera(&["help"]));
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let commands = commands.take_while(|line| !line.is_empty());
    // The lines between them go on with what a command does.
    let names = commands.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    let names: Vec<&str> = names
        .filter(|name| !name.is_empty() && *name != "help")
        .collect();
    assert!(names.contains(&"serve") && names.len() > 5, "{names:?}");
    for name in names {
        let page = fs::read_to_string(pages.join(format!("tessera-{name}.1"))).unwrap();
        assert!(page.contains(".SH NAME"), "{page}");
    }
    assert!(pages.join("tessera.1").exists());
}

#[test]
fn health_tells_a_well_server_from_none() {
    for tls in [&[][..], &["--tls-self-signed"]] {
        let server = Server::start(tls);
        let address = server.address.to_string();
        let data = server.data();
        let arguments = ["health", "--console", &address, "--data", text(&data)];
        let (code, printed, errors) = outcome(tessera(&arguments).args(tls));
        assert_eq!(code, 0, "{errors}");
        assert!(printed.contains("\"status\":\"ok\""), "{printed}");
        drop(server);
        let (code, _, errors) = outcome(tessera(&arguments).args(tls));
        assert_eq!(code, 1, "{errors}");
        assert!(errors.contains(&address), "{errors}");
    }
    let (code, _, errors) = outcome(&mut tessera(&["health", "--console", "off"]));
    assert_eq!(code, 2);
    assert!(errors.contains("--console"), "{errors}");
}

#[test]
fn systemd_is_told_when_the_server_is_ready_reloads_and_stops() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify");
    let listener = UnixDatagram::bind(&path).unwrap();
    listener.set_read_timeout(Some(PATIENCE)).unwrap();
    let server = Server::start_with(folder, &["--memory"], &[("NOTIFY_SOCKET", &path)]);
    let heard = || {
        let mut bytes = [0; 256];
        let length = listener.recv(&mut bytes).unwrap();
        String::from_utf8(bytes[..length].to_vec()).unwrap()
    };
    assert!(heard().starts_with("READY=1\n"));
    server.signal(Signal::HUP);
    let reloading = heard();
    let time = reloading
        .strip_prefix("RELOADING=1\nMONOTONIC_USEC=")
        .unwrap();
    assert!(time.parse::<u64>().unwrap() > 0, "{reloading}");
    assert!(heard().starts_with("READY=1\n"));
    server.signal(Signal::TERM);
    assert!(heard().starts_with("STOPPING=1\n"));
    assert_eq!(server.wait().0, Some(0));
}

/// A processor that lacks something is named before anything of ours runs on it.
#[test]
#[cfg(target_arch = "x86_64")]
fn a_processor_that_is_too_old_is_told_what_it_lacks() {
    let under = |processor: &str, arguments: &[&str]| {
        let mut command = std::process::Command::new("qemu-x86_64");
        command.args(["-cpu", processor, env!("CARGO_BIN_EXE_tessera")]);
        outcome(command.args(arguments))
    };
    for (processor, lacks) in [
        ("Nehalem", "lacks PCLMUL, which"),
        ("Penryn", "lacks SSE4.2, POPCNT, PCLMUL, which"),
        (
            "qemu64,-sse3,-ssse3,-sse4.1,-sse4.2,-popcnt,-pclmulqdq",
            "SSSE3, SSE4.1, SSE4.2",
        ),
    ] {
        let (code, printed, errors) = under(processor, &["version"]);
        assert_eq!((code, printed.as_str()), (1, ""), "{processor}: {errors}");
        // qemu has warnings of its own.
        let line = errors.lines().find(|line| line.starts_with("tessera: "));
        let line = line.unwrap_or_else(|| panic!("{processor}: {errors}"));
        assert!(line.contains(lacks), "{processor}: {line}");
        assert!(
            line.ends_with("TESSERA_PROCESSOR=x86-64 scripts/run"),
            "{line}"
        );
    }
    let (code, _, errors) = under("Westmere", &["version"]);
    assert_eq!(code, 0, "{errors}");
}

/// Every symbol version of a library that the program asks for.
fn asked_for(program: &Path) -> String {
    let mut command = std::process::Command::new("objdump");
    let (code, printed, errors) = outcome(command.arg("-p").arg(program));
    assert_eq!(code, 0, "{errors}");
    printed
}

#[test]
fn the_program_needs_nothing_but_glibc() {
    /// Debian 12, Ubuntu 22.04, Fedora 36 and newer; docs/install.md says so.
    const NEWEST_GLIBC: (u32, u32) = (2, 36);
    let printed = asked_for(Path::new(env!("CARGO_BIN_EXE_tessera")));
    let needed = printed
        .lines()
        .filter_map(|line| line.trim().strip_prefix("NEEDED"));
    for library in needed.map(str::trim) {
        let of_glibc = ["libc.so.6", "libm.so.6", "ld-linux"];
        assert!(
            of_glibc.iter().any(|ours| library.starts_with(ours)),
            "{library}"
        );
    }
    let versions = printed.split_whitespace();
    let versions = versions.filter_map(|word| word.strip_prefix("GLIBC_")?.split_once('.'));
    let numbers = versions.map(|(major, minor)| {
        let minor = minor.split('.').next().unwrap_or_default();
        (major.parse().unwrap(), minor.parse().unwrap())
    });
    let newest: (u32, u32) = numbers.max().unwrap();
    assert!(newest <= NEWEST_GLIBC, "it needs glibc {newest:?}");
}
