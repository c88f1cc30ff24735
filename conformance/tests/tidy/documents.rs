//! Rules for what people read, and for what must not leave the machine it was written on.

use tessera_conformance::reports::is_current;
use tessera_conformance::suites::Suite;

use crate::sources::in_lines;
use crate::{Breach, Rule, Tree};

const MAX_ARCHITECTURE_LINES: usize = 300;

/// Top folders of somebody's machine. What a test needs, it creates; what a user chooses, they
/// name.
const MACHINE_FOLDERS: [&str; 5] = ["root", "home", "work", "tmp", "Users"];

/// Hosts of package registries, label by label, or this file would break its own rule. Packages are
/// named, not located: each machine has its own way to them.
const REGISTRIES: [&[&str]; 8] = [
    &["crates", "io"],
    &["pypi", "org"],
    &["pythonhosted", "org"],
    &["npmjs", "org"],
    &["golang", "org"],
    &["maven", "org"],
    &["maven", "apache", "org"],
    &["deb", "debian", "org"],
];

pub(crate) const RULES: &[Rule] = &[
    Rule {
        name: "no path of one machine",
        check: machine_paths,
        sample: || {
            let [first, second] = [MACHINE_FOLDERS[0], MACHINE_FOLDERS[3]];
            let bad = format!("cd /{first}/x\nuse '/{second}/y'\n../{second}/z a/{first}/b\n");
            Tree::of(&[("README.md", &bad)])
        },
        caught: &[
            concat!("README.md:1: /ro", "ot/ exists on one machine only"),
            concat!("README.md:2: /tm", "p/ exists on one machine only"),
        ],
    },
    Rule {
        name: "no host of a package registry",
        check: registry_hosts,
        sample: || {
            let host = REGISTRIES[1].join(".");
            Tree::of(&[
                ("Cargo.lock", &format!("https://{host}/x\n")),
                ("scripts/run", &format!("#\ncurl https://{host}/x\n")),
            ])
        },
        caught: &["scripts/run:2: the host of a package registry"],
    },
    Rule {
        name: "README names every script",
        check: unnamed_scripts,
        sample: || {
            Tree::of(&[
                ("README.md", "`scripts/run`\n"),
                ("scripts/run", ""),
                ("scripts/test", ""),
            ])
        },
        caught: &["README.md:1: does not mention scripts/test"],
    },
    Rule {
        name: "README says what the ledgers say",
        check: stale_support,
        sample: || Tree::of(&[("README.md", "no table\n")]),
        caught: &[
            "README.md:1: its table of clients is not what the ledgers say: \
                   tessera-conformance run --update",
        ],
    },
    Rule {
        name: "ARCHITECTURE.md can be read in one sitting",
        check: long_architecture,
        sample: || Tree::of(&[("ARCHITECTURE.md", &"line\n".repeat(301))]),
        caught: &["ARCHITECTURE.md:301: 301 lines, at most 300"],
    },
    Rule {
        name: "links lead somewhere",
        check: dead_links,
        sample: || {
            let text = "[a](core/src/a.rs#x) [b](../README.md) [c](https://example.org) [d](#e)\n\
                        [f](core) [g](src/missing.rs) [h](../outside) [i](nowhere \"title\")\n";
            Tree::of(&[
                ("README.md", ""),
                ("core/src/a.rs", ""),
                ("core/README.md", text),
            ])
        },
        caught: &[
            "core/README.md:1: core/src/a.rs#x leads nowhere",
            "core/README.md:2: core leads nowhere",
            "core/README.md:2: src/missing.rs leads nowhere",
            "core/README.md:2: ../outside leads nowhere",
            "core/README.md:2: nowhere leads nowhere",
        ],
    },
];

fn machine_paths(tree: &Tree) -> Vec<Breach> {
    in_lines(tree.written(), |line| {
        let found = MACHINE_FOLDERS
            .iter()
            .map(|folder| format!("/{folder}/"))
            .find(|folder| {
                line.match_indices(folder.as_str())
                    .any(|(at, _)| starts_a_path(line, at))
            })?;
        Some(format!("{found} exists on one machine only"))
    })
}

/// Whether the slash at this place begins a path, rather than going on with one.
fn starts_a_path(line: &str, at: usize) -> bool {
    let before = line.get(..at).and_then(|before| before.chars().next_back());
    !before.is_some_and(|c| c.is_alphanumeric() || "./_-}~*".contains(c))
}

fn registry_hosts(tree: &Tree) -> Vec<Breach> {
    let hosts: Vec<String> = REGISTRIES.iter().map(|labels| labels.join(".")).collect();
    in_lines(tree.written(), |line| {
        let names_one = hosts.iter().any(|host| line.contains(host));
        names_one.then(|| "the host of a package registry".to_owned())
    })
}

fn unnamed_scripts(tree: &Tree) -> Vec<Breach> {
    let readme = tree.text("README.md").unwrap_or_default();
    tree.written()
        .filter(|(path, _)| path.starts_with("scripts/") && !readme.contains(path))
        .map(|(path, _)| Breach::new("README.md", 1, format!("does not mention {path}")))
        .collect()
}

fn stale_support(tree: &Tree) -> Vec<Breach> {
    let readme = tree.text("README.md").unwrap_or_default();
    let ledger = |suite: &Suite| tree.text(&format!("conformance/expected/{}.toml", suite.name));
    let message = match is_current(readme, ledger) {
        Ok(true) => return Vec::new(),
        Ok(false) => "its table of clients is not what the ledgers say: \
                      tessera-conformance run --update"
            .to_owned(),
        Err(error) => error.to_string(),
    };
    vec![Breach::new("README.md", 1, message)]
}

fn long_architecture(tree: &Tree) -> Vec<Breach> {
    let lines = tree
        .text("ARCHITECTURE.md")
        .map_or(0, |text| text.lines().count());
    let message = format!("{lines} lines, at most {MAX_ARCHITECTURE_LINES}");
    let breach = Breach::new("ARCHITECTURE.md", MAX_ARCHITECTURE_LINES + 1, message);
    (lines > MAX_ARCHITECTURE_LINES)
        .then_some(breach)
        .into_iter()
        .collect()
}

fn dead_links(tree: &Tree) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for (path, text) in tree.ending(".md") {
        for (index, line) in text.lines().enumerate() {
            for link in links(line).filter(|link| !is_alive(tree, path, link)) {
                breaches.push(Breach::new(
                    path,
                    index + 1,
                    format!("{link} leads nowhere"),
                ));
            }
        }
    }
    breaches
}

/// The targets of the `[text](target)` links in a line.
fn links(line: &str) -> impl Iterator<Item = &str> {
    line.split("](")
        .skip(1)
        .filter_map(|after| after.split([')', ' ']).next())
}

/// Whether a link from this document leads out of the repository's reach or to something in it.
fn is_alive(tree: &Tree, document: &str, link: &str) -> bool {
    let target = link.split('#').next().unwrap_or_default();
    if target.is_empty() || link.contains("://") || link.starts_with("mailto:") {
        return true;
    }
    let mut parts: Vec<&str> = document.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "." | "" => {}
            ".." if parts.pop().is_none() => return false,
            ".." => {}
            name => parts.push(name),
        }
    }
    tree.has(&parts.join("/"))
}
