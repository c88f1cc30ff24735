//! The code map of ARCHITECTURE.md beside the tree: it names every module, and nothing else.

use std::collections::BTreeSet;

use crate::{Breach, Rule, Tree};

const PAGE: &str = "ARCHITECTURE.md";
const TITLE: &str = "## Code map";

/// Files that begin a crate, and those that only tests use.
const UNNAMED: &[&str] = &["lib", "main", "tests", "testing"];

pub(crate) const RULES: &[Rule] = &[
    Rule {
        name: "the code map names every module",
        check: differences,
        sample: || {
            let map = "## Code map\n| Crate | Modules |\n| `core` | `a`, `gone` | words `x` |\n\
                       | `other` | |\n## Next\n| `more` | `b` | |\n";
            Tree::of(&[
                (PAGE, map),
                ("core/Cargo.toml", ""),
                ("core/src/lib.rs", ""),
                ("core/src/a.rs", ""),
                ("core/src/a/b.rs", ""),
                ("core/src/tests/b.rs", ""),
                ("core/src/c/mod.rs", ""),
                ("more/Cargo.toml", ""),
                ("more/src/lib.rs", ""),
            ])
        },
        caught: &[
            "ARCHITECTURE.md:1: the code map does not name core/src/c",
            "ARCHITECTURE.md:1: the code map does not name the crate more",
            "ARCHITECTURE.md:3: there is no core/src/gone",
            "ARCHITECTURE.md:4: there is no crate other",
        ],
    },
    Rule {
        name: "commands of cargo name what is there",
        check: wrong_commands,
        sample: || {
            let text = "Run `cargo test -p one --test here`, `cargo test -p one --test gone` or\n\
                        ```sh\ncargo run -p two -- x\ncargo run -p one --example here\n```\n";
            Tree::of(&[
                ("README.md", text),
                ("a/Cargo.toml", "[package]\nname = \"one\"\n"),
                ("a/tests/here.rs", ""),
            ])
        },
        caught: &[
            "README.md:1: there is no a/tests/gone",
            "README.md:3: there is no package two",
            "README.md:4: there is no a/examples/here",
        ],
    },
    Rule {
        name: "scripts that documents name are there",
        check: missing_scripts,
        sample: || {
            Tree::of(&[
                (
                    "README.md",
                    "`scripts/run --memory` and\nscripts/gone, `scripts/here`.\n",
                ),
                ("scripts/run", ""),
                ("scripts/here", ""),
            ])
        },
        caught: &["README.md:2: there is no scripts/gone"],
    },
];

fn differences(tree: &Tree) -> Vec<Breach> {
    let rows = rows(tree.text(PAGE).unwrap_or_default());
    let mut breaches = Vec::new();
    for folder in folders(tree) {
        let named: BTreeSet<&str> = rows
            .iter()
            .flat_map(|row| row.modules_of(folder).iter().copied())
            .collect();
        if !rows.iter().any(|row| row.folder == folder) {
            let message = format!("the code map does not name the crate {folder}");
            breaches.push(Breach::new(PAGE, 1, message));
            continue;
        }
        let missing = modules(tree, folder).into_iter();
        breaches.extend(missing.filter(|name| !named.contains(name)).map(|name| {
            let message = format!("the code map does not name {folder}/src/{name}");
            Breach::new(PAGE, 1, message)
        }));
    }
    for row in rows {
        let is_there = tree.has(&format!("{}/Cargo.toml", row.folder));
        let crate_gone = (!is_there).then(|| format!("there is no crate {}", row.folder));
        let modules = modules(tree, row.folder);
        let gone = row.modules.iter().filter(|name| !modules.contains(*name));
        let gone = gone.map(|name| format!("there is no {}/src/{name}", row.folder));
        let messages = crate_gone.into_iter().chain(gone);
        breaches.extend(messages.map(|message| Breach::new(PAGE, row.line, message)));
    }
    breaches
}

/// A row of the map.
struct Row<'a> {
    line: usize,
    folder: &'a str,
    modules: Vec<&'a str>,
}

impl<'a> Row<'a> {
    fn read(line: usize, text: &'a str) -> Option<Self> {
        let mut cells = text.strip_prefix("| `")?.split('|');
        let folder = cells.next()?.trim().trim_end_matches('`');
        let modules = cells.next()?.split('`').skip(1).step_by(2).collect();
        Some(Self {
            line,
            folder,
            modules,
        })
    }

    fn modules_of(&self, folder: &str) -> &[&'a str] {
        if self.folder == folder {
            &self.modules
        } else {
            &[]
        }
    }
}

fn rows(text: &str) -> Vec<Row<'_>> {
    let lines = text
        .lines()
        .enumerate()
        .skip_while(|(_, line)| *line != TITLE);
    let lines = lines
        .skip(1)
        .take_while(|(_, line)| !line.starts_with("## "));
    lines
        .filter_map(|(index, line)| Row::read(index + 1, line))
        .collect()
}

/// The folders of the workspace's crates.
fn folders(tree: &Tree) -> impl Iterator<Item = &str> {
    let manifests = tree.ending("/Cargo.toml").map(|(path, _)| path);
    let folders = manifests.filter_map(|path| path.strip_suffix("/Cargo.toml"));
    let has_sources = |folder: &&str| tree.has(&format!("{folder}/src"));
    folders
        .filter(has_sources)
        .filter(|folder| !folder.contains("/clients/"))
}

/// The modules right under a crate's root.
fn modules<'a>(tree: &'a Tree, folder: &str) -> BTreeSet<&'a str> {
    let source = format!("{folder}/src/");
    let files = tree.ending(".rs").map(|(path, _)| path);
    let inside = files.filter_map(|path| path.strip_prefix(&source));
    let names = inside.filter_map(|path| path.split(['/', '.']).next());
    names.filter(|name| !UNNAMED.contains(name)).collect()
}

fn wrong_commands(tree: &Tree) -> Vec<Breach> {
    let package = |name: &str| {
        let line = format!("name = \"{name}\"\n");
        let manifests = tree.ending("Cargo.toml");
        let mut named = manifests.filter(|(_, text)| text.contains(&line));
        named.find_map(|(path, _)| path.strip_suffix("/Cargo.toml"))
    };
    let wrong = |line: &str| {
        let command = line.split("cargo ").nth(1)?.split('`').next()?;
        let command = command.split(" -- ").next()?;
        let words: Vec<&str> = command.split_whitespace().collect();
        let after = |flag: &str| {
            let at = words.iter().position(|word| *word == flag)?;
            words.get(at + 1).copied()
        };
        let name = after("-p")?;
        let Some(folder) = package(name) else {
            return Some(format!("there is no package {name}"));
        };
        let target = |flag: &str, kind: &str| {
            let path = format!("{folder}/{kind}/{}", after(flag)?);
            let is_there = tree.has(&path) || tree.has(&format!("{path}.rs"));
            (!is_there).then(|| format!("there is no {path}"))
        };
        target("--test", "tests").or_else(|| target("--example", "examples"))
    };
    let mut breaches = Vec::new();
    for (path, text) in tree.ending(".md") {
        for (index, line) in text.lines().enumerate() {
            // Each command of a line by itself.
            for part in line.split("cargo ").skip(1) {
                let found = wrong(&format!("cargo {part}"));
                breaches.extend(found.map(|message| Breach::new(path, index + 1, message)));
            }
        }
    }
    breaches
}

fn missing_scripts(tree: &Tree) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for (path, text) in tree.ending(".md") {
        for (index, line) in text.lines().enumerate() {
            for after in line.split("scripts/").skip(1) {
                let is_name = |c: char| c.is_alphanumeric() || "-_".contains(c);
                let name = after.split(|c| !is_name(c)).next().unwrap_or_default();
                let script = format!("scripts/{name}");
                if !name.is_empty() && !tree.has(&script) {
                    let message = format!("there is no {script}");
                    breaches.push(Breach::new(path, index + 1, message));
                }
            }
        }
    }
    breaches
}
