//! `scripts/packages` names what a machine lacks, also where something of almost the same name is
//! there.
#![cfg(test)]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

const WORKS: &str = "exit 0";
const FAILS: &str = "exit 1";

/// A machine with a root and programs of its own.
struct Machine(tempfile::TempDir);

impl Machine {
    /// One that lacks nothing.
    fn complete() -> Self {
        let machine = Self(tempfile::tempdir().unwrap());
        for program in [
            "c++",
            "python3",
            "node",
            "npm",
            "curl",
            "openssl",
            "chromium",
            "valgrind",
            "qemu-x86_64",
        ] {
            machine.program(program, WORKS);
        }
        machine.file("usr/lib/llvm-14/lib/libclang-14.so.1");
        machine.file("usr/lib/llvm-14/lib/clang/14.0.6/include/stddef.h");
        machine.file("usr/lib/postgresql/15/bin/initdb");
        machine
    }

    fn path(&self, path: &str) -> std::path::PathBuf {
        self.0.path().join(path)
    }

    fn file(&self, path: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    }

    fn program(&self, name: &str, script: &str) {
        let path = format!("programs/{name}");
        self.file(&path);
        fs::write(self.path(&path), format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(self.path(&path), fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn without(self, path: &str) -> Self {
        fs::remove_file(self.path(path)).unwrap();
        self
    }

    fn lacks(&self, purpose: &str) -> Vec<String> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/packages");
        let output = Command::new("/bin/bash")
            .arg(script)
            .arg(purpose)
            .arg(self.0.path())
            .env("PATH", self.path("programs"))
            .env_remove("LIBCLANG_PATH")
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
        let lines = String::from_utf8(output.stdout).unwrap();
        lines.lines().map(str::to_owned).collect()
    }
}

#[test]
fn a_complete_machine_lacks_nothing() {
    let machine = Machine::complete();
    assert_eq!(machine.lacks("building"), [""; 0]);
    assert_eq!(machine.lacks("testing"), [""; 0]);
}

#[test]
fn an_empty_machine_lacks_everything() {
    let machine = Machine(tempfile::tempdir().unwrap());
    assert_eq!(machine.lacks("building"), ["g++", "libclang-dev"]);
    let all = [
        "g++",
        "libclang-dev",
        "python3-venv",
        "nodejs",
        "npm",
        "curl",
        "openssl",
        "chromium",
        "valgrind",
        "qemu-user",
        "postgresql",
    ];
    assert_eq!(machine.lacks("testing"), all);
}

#[test]
fn libclang_cpp_is_not_libclang() {
    let machine = Machine::complete().without("usr/lib/llvm-14/lib/libclang-14.so.1");
    // What Chromium's packages bring.
    machine.file("usr/lib/llvm-14/lib/libclang-cpp.so.14");
    machine.file("usr/lib/x86_64-linux-gnu/libclang-cpp.so.14");
    assert_eq!(machine.lacks("building"), ["libclang-dev"]);
    for path in [
        "usr/lib/x86_64-linux-gnu/libclang-14.so.14.0.6",
        "usr/lib64/libclang.so.18.1",
        "usr/local/lib/libclang.so",
    ] {
        machine.file(path);
        assert_eq!(machine.lacks("building"), [""; 0], "{path}");
        fs::remove_file(machine.path(path)).unwrap();
    }
}

#[test]
fn libclang_needs_the_headers_of_its_compiler() {
    let header = "usr/lib/llvm-14/lib/clang/14.0.6/include/stddef.h";
    let machine = Machine::complete().without(header);
    assert_eq!(machine.lacks("building"), ["libclang-dev"]);
    machine.file("usr/lib/clang/18/include/stddef.h");
    assert_eq!(machine.lacks("building"), [""; 0]);
}

#[test]
fn programs_that_do_not_work_are_missing() {
    for (program, package) in [
        ("c++", "g++"),
        ("python3", "python3-venv"),
        ("node", "nodejs"),
        ("chromium", "chromium"),
        ("valgrind", "valgrind"),
    ] {
        let machine = Machine::complete();
        machine.program(program, FAILS);
        assert_eq!(machine.lacks("testing"), [package]);
    }
}

#[test]
fn any_of_the_browsers_suffices() {
    let machine = Machine::complete().without("programs/chromium");
    machine.program("chromium-browser", FAILS);
    assert_eq!(machine.lacks("testing"), ["chromium"]);
    machine.program("google-chrome", WORKS);
    assert_eq!(machine.lacks("testing"), [""; 0]);
}

#[test]
fn the_client_of_postgresql_is_not_its_server() {
    let machine = Machine::complete().without("usr/lib/postgresql/15/bin/initdb");
    machine.file("usr/lib/postgresql/15/bin/psql");
    assert_eq!(machine.lacks("testing"), ["postgresql"]);
}
