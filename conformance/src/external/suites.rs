//! The public suites: how each is installed, started and counted.

use std::path::Path;
use std::process::Command;

use tessera_conformance::packages::{self, source};

use super::{Run, Step, Suite};
use crate::Failure;

pub(super) const SUITES: &[Suite] = &[
    Suite {
        name: "functional-tests",
        sign: "documentdb_tests/compatibility/tests",
        origin: "documentdb/functional-tests",
        front_end: "mongo",
        options: &["--durability", "periodic"],
        target: |address| format!("mongodb://{address}"),
        steps: functional_tests,
        area: |case| folders(case, 4, &["core", "commands"]),
        table: Some("mongo/functional/table.py"),
        ledger: None,
    },
    Suite {
        name: "specifications",
        sign: "source/unified-test-format",
        origin: "mongodb/specifications",
        front_end: "mongo",
        options: &["--memory", "--enable-test-commands"],
        target: |address| format!("mongodb://{address}"),
        steps: specifications,
        area: |case| case.split('/').next().unwrap_or_default().to_owned(),
        table: None,
        ledger: Some("mongo-specifications.toml"),
    },
    Suite {
        name: "specifications-replica-set",
        sign: "source/unified-test-format",
        origin: "mongodb/specifications",
        front_end: "mongo",
        options: &[
            "--memory",
            "--enable-test-commands",
            "--mongo-replica-set",
            "walk",
        ],
        target: |address| format!("mongodb://{address}"),
        steps: specifications,
        area: |case| case.split('/').next().unwrap_or_default().to_owned(),
        table: None,
        ledger: Some("mongo-specifications-replica-set.toml"),
    },
    Suite {
        name: "cqlpy",
        sign: "test/cqlpy",
        origin: "scylladb/scylladb",
        front_end: "cql",
        options: &["--memory", "--cql-users", "cassandra:cassandra"],
        target: str::to_owned,
        steps: cqlpy,
        area: |case| case.split("::").next().unwrap_or_default().to_owned(),
        table: Some("cql/cqlpy/table.py"),
        ledger: None,
    },
    Suite {
        name: "azurite",
        sign: "tests/table/apis",
        origin: "Azure/Azurite",
        front_end: "table",
        options: &["--memory"],
        target: str::to_owned,
        steps: azurite,
        area: |case| case.split("::").next().unwrap_or_default().to_owned(),
        table: None,
        ledger: None,
    },
];

/// Folder by folder: a run over everything at once leaves cases out. Those marked as not to be run
/// beside others come in a run of their own.
fn functional_tests(run: &Run<'_>) -> Result<Vec<Step>, Failure> {
    let python = packages::python_with(&run.path.join("requirements.txt"))?;
    let tests = run.path.join("documentdb_tests");
    let all = Path::new("compatibility/tests");
    let mut areas = vec![all.join("system")];
    for entry in std::fs::read_dir(tests.join(all).join("core"))? {
        areas.push(all.join("core").join(entry?.file_name()));
    }
    areas.retain(|area| tests.join(area).is_dir());
    areas.retain(|area| area.to_string_lossy().contains(run.only));
    areas.sort();
    let step = |area: &Path, (manner, options): (&str, [&str; 4])| {
        let mut command = pytest(&python, run, run.path);
        command.args(["-o", "addopts=", "--strict-markers"]);
        command.args(options);
        command.args(["--engine-name", "documentdb", "--connection-string"]);
        command.arg(run.target).arg(area).current_dir(&tests);
        Step {
            name: format!("{}{manner}", area.display()),
            command,
        }
    };
    let beside_each_other = ("", ["-n", "2", "-m", "not no_parallel"]);
    let one_by_one = (", one by one", ["-p", "no:xdist", "-m", "no_parallel"]);
    let manners = [beside_each_other, one_by_one];
    let steps = areas
        .iter()
        .flat_map(|area| manners.map(|manner| step(area, manner)));
    Ok(steps.collect())
}

/// File by file: the suite ends a run whose connection was lost, which costs one file this way.
fn cqlpy(run: &Run<'_>) -> Result<Vec<Step>, Failure> {
    let python = packages::python_with(&source("cql/cqlpy").join("requirements.txt"))?;
    let (host, port) = run
        .target
        .rsplit_once(':')
        .ok_or("the target is HOST:PORT")?;
    let tests = run.path.join("test/cqlpy");
    let step = |file: String| {
        let mut command = pytest(&python, run, run.path);
        command.args(["-o", "xfail_strict=false", "--rootdir", "."]);
        command.args(["--host", host, "--port", port, &file]);
        command.env("NODETOOL", "/bin/true").current_dir(&tests);
        Step {
            name: file,
            command,
        }
    };
    let files = python_tests(&tests, "")?.into_iter();
    // Needs a newer Python than suites may ask for.
    let files = files.filter(|file| file != "test_describe.py" && file.contains(run.only));
    Ok(files.map(step).collect())
}

/// The files of tests under a folder, in order: those of pytest's two kinds of name.
fn python_tests(root: &Path, folder: &str) -> Result<Vec<String>, Failure> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(root.join(folder))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{folder}{name}");
        if entry.file_type()?.is_dir() {
            found.extend(python_tests(root, &format!("{path}/"))?);
        } else if name.ends_with(".py") && (name.starts_with("test_") || name.ends_with("_test.py"))
        {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Runs of pytest write down what came of each case with a plugin of ours.
fn pytest(python: &Path, run: &Run<'_>, modules: &Path) -> Command {
    let mut command = Command::new(python);
    let modules = [modules.to_owned(), source("")];
    let modules = modules.map(|path| path.display().to_string()).join(":");
    command.env("PYTHONPATH", modules);
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    command.args([
        "-m",
        "pytest",
        "-p",
        "recorder",
        "-p",
        "no:cacheprovider",
        "-q",
    ]);
    command
        .args(["--timeout", "60", "--record"])
        .arg(run.record);
    command
}

fn specifications(run: &Run<'_>) -> Result<Vec<Step>, Failure> {
    let python = packages::python_with(&source("mongo/python").join("requirements.txt"))?;
    let mut command = Command::new(python);
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    command.arg(source("mongo/specifications").join("walk.py"));
    command.arg("--path").arg(run.path);
    command.arg("--record").arg(run.record);
    if !run.only.is_empty() {
        command.args(["--only", run.only]);
    }
    command.arg(run.target);
    Ok(vec![Step {
        name: "unified tests".to_owned(),
        command,
    }])
}

/// Its tests start the server that they test themselves; instead of that, a module of ours leads
/// them to the target.
fn azurite(run: &Run<'_>) -> Result<Vec<Step>, Failure> {
    let modules = packages::node_with(run.path)?;
    let ours = source("table/azurite");
    let mut tests = Vec::new();
    for folder in ["apis", "auth"] {
        for entry in std::fs::read_dir(run.path.join("tests/table").join(folder))? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if name.ends_with(".test.ts") && name.contains(run.only) {
                tests.push(format!("tests/table/{folder}/{name}"));
            }
        }
    }
    tests.sort();
    let step = |test: String| {
        let mut command = Command::new("node");
        command.arg(modules.join("mocha/bin/mocha.js"));
        command.args(["--require", "ts-node/register", "--require"]);
        command.arg(ours.join("redirect.js"));
        command.arg("--reporter").arg(ours.join("recorder.js"));
        command.args(["--timeout", "20000", "--exit", &test]);
        for (name, value) in [
            ("NODE_PATH", modules.display().to_string()),
            ("NODE_TLS_REJECT_UNAUTHORIZED", "0".to_owned()),
            ("TS_NODE_TRANSPILE_ONLY", "1".to_owned()),
            ("TS_NODE_COMPILER_OPTIONS", r#"{"rootDir":"."}"#.to_owned()),
            ("TESSERA_TARGET", run.target.to_owned()),
            ("TESSERA_RECORD", run.record.display().to_string()),
            ("TESSERA_FILE", test.clone()),
        ] {
            command.env(name, value);
        }
        command.current_dir(run.path);
        Step {
            name: test,
            command,
        }
    };
    Ok(tests.into_iter().map(step).collect())
}

/// The folders that a case is in: the first ones behind `tests`, without some.
fn folders(case: &str, most: usize, without: &[&str]) -> String {
    let file = case.split("::").next().unwrap_or_default();
    let folders: Vec<&str> = file.split('/').collect();
    let (_, folders) = folders.split_last().unwrap_or((&"", &[]));
    let begin = folders.iter().position(|folder| *folder == "tests");
    let behind = folders.iter().skip(begin.map_or(0, |begin| begin + 1));
    let shown = behind.take(most).filter(|folder| !without.contains(folder));
    shown.copied().collect::<Vec<_>>().join("/")
}

/// What a script of ours makes of a record.
pub(super) fn table(script: &str, record: &Path) -> Result<Vec<u8>, Failure> {
    let mut command = Command::new("python3");
    let made = command.arg(source(script)).arg(record).output()?;
    match made.status.success() {
        true => Ok(made.stdout),
        false => Err(String::from_utf8_lossy(&made.stderr).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_are_folders() {
        for (case, expected) in [
            (
                "compatibility/tests/core/operator/query/a/test_b.py::c[d]",
                "operator/query/a",
            ),
            (
                "compatibility/tests/system/commands/x/test_b.py::c",
                "system/x",
            ),
            ("test_b.py::c", ""),
        ] {
            assert_eq!(folders(case, 4, &["core", "commands"]), expected);
        }
    }
}
