//! The documents, done as a reader does: their commands are understood and their examples work.
//!
//! A code block whose info string has the word `test` is run against a server, in the order of the
//! page: `sh` by bash, `js` typed into mongosh, `cql` by cqlsh, `python` with the packages of the
//! client that the third word names (`mongo`, `cql`, `table`). A block `text output` after it says
//! what it prints; `…` stands for anything. In other `sh` blocks the commands of `tessera` and of
//! this crate's program are parsed and not run.
#![cfg(test)]

mod bench;
mod blocks;

use std::path::{Path, PathBuf};

use bench::Bench;
use blocks::{Block, blocks};
use tessera_conformance::Error;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Every page for users and contributors, with its blocks.
fn pages() -> Vec<(String, Vec<Block>)> {
    let mut names = vec!["README.md".to_owned(), "CONTRIBUTING.md".to_owned()];
    for entry in root().join("docs").read_dir().expect("the folder docs") {
        let name = entry.expect("a page").file_name();
        let name = name.to_string_lossy();
        names.extend(name.ends_with(".md").then(|| format!("docs/{name}")));
    }
    names.sort();
    let read = |name: String| {
        let text = std::fs::read_to_string(root().join(&name)).expect("a page that can be read");
        let blocks = blocks(&text);
        (name, blocks)
    };
    names.into_iter().map(read).collect()
}

#[test]
fn examples_do_what_the_pages_say() -> Result<(), Error> {
    let mut ran = 0;
    let mut wrong = String::new();
    for (page, blocks) in pages() {
        if !blocks.iter().any(Block::is_tested) {
            continue;
        }
        let bench = Bench::new()?;
        for block in blocks.iter().filter(|block| block.is_tested()) {
            ran += 1;
            if let Err(problem) = bench.run(block) {
                wrong += &format!("\n{page}:{}: {problem}", block.line);
            }
        }
        bench.stop()?;
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(ran >= 15, "only {ran} examples were found");
    Ok(())
}

#[test]
fn commands_are_understood() -> Result<(), Error> {
    let bench = Bench::without_server()?;
    let mut wrong = String::new();
    let mut parsed = 0;
    for (page, blocks) in pages() {
        // Those of examples are run.
        let is_shown = |block: &&Block| block.language() == "sh" && !block.is_tested();
        for block in blocks.iter().filter(is_shown) {
            for (line, command) in block.commands() {
                let Some(known) = bench.parse(&command) else {
                    continue;
                };
                parsed += 1;
                if let Err(problem) = known {
                    wrong += &format!("\n{page}:{line}: {command}\n{problem}");
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(parsed >= 10, "only {parsed} commands were found");
    Ok(())
}

#[test]
fn a_wrong_flag_is_noticed() -> Result<(), Error> {
    let bench = Bench::without_server()?;
    for (command, expected) in [
        ("tessera serve --memory", Some(true)),
        ("tessera serve --memroy", Some(false)),
        ("TESSERA_LOG=json tessera serve", Some(true)),
        ("TESSERA_LOG=yaml tessera serve", Some(false)),
        ("tessera backup copy", Some(true)),
        ("tessera backup --frobnicate copy", Some(false)),
        ("scripts/run --frobnicate", Some(false)),
        (
            "cargo run -p tessera-conformance -- bench --quick",
            Some(true),
        ),
        (
            "cargo run -p tessera-conformance -- bench --slow",
            Some(false),
        ),
        ("tessera config | touch ran", Some(true)),
        ("curl http://127.0.0.1:8080/", None),
    ] {
        let found = bench.parse(command).map(|known| known.is_ok());
        assert_eq!(found, expected, "{command}");
    }
    assert!(!bench.has("ran"), "only the program itself is run");
    Ok(())
}
