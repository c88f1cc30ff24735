//! Rules for what people read, and for what must not leave the machine it was written on.

use tessera_conformance::reports::is_current;
use tessera_conformance::suites::Suite;

use crate::sources::in_lines;
use crate::{Breach, Rule, Tree};

const MAX_ARCHITECTURE_LINES: usize = 300;
const MAX_README_BYTES: usize = 8 << 10;
const COMPATIBILITY: &str = "docs/compatibility.md";

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
        name: "CONTRIBUTING names every script",
        check: unnamed_scripts,
        sample: || {
            Tree::of(&[
                ("CONTRIBUTING.md", "`scripts/run`\n"),
                ("scripts/run", ""),
                ("scripts/test", ""),
            ])
        },
        caught: &["CONTRIBUTING.md:1: does not mention scripts/test"],
    },
    Rule {
        name: "the page of compatibility says what the ledgers say",
        check: stale_support,
        sample: || Tree::of(&[(COMPATIBILITY, "no table\n")]),
        caught: &[
            "docs/compatibility.md:1: its table of clients is not what the ledgers say: \
                   tessera-conformance run --update",
        ],
    },
    Rule {
        name: "README.md is short",
        check: long_readme,
        sample: || Tree::of(&[("README.md", &"a".repeat(8_193))]),
        caught: &["README.md:1: 8193 bytes, at most 8192: move it to docs/"],
    },
    Rule {
        name: "ARCHITECTURE.md can be read in one sitting",
        check: long_architecture,
        sample: || Tree::of(&[("ARCHITECTURE.md", &"line\n".repeat(301))]),
        caught: &["ARCHITECTURE.md:301: 301 lines, at most 300"],
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
    const PAGE: &str = "CONTRIBUTING.md";
    let page = tree.text(PAGE).unwrap_or_default();
    tree.written()
        .filter(|(path, _)| path.starts_with("scripts/") && !page.contains(path))
        .map(|(path, _)| Breach::new(PAGE, 1, format!("does not mention {path}")))
        .collect()
}

fn stale_support(tree: &Tree) -> Vec<Breach> {
    let page = tree.text(COMPATIBILITY).unwrap_or_default();
    let ledger = |suite: &Suite| tree.text(&format!("conformance/expected/{}.toml", suite.name));
    let message = match is_current(page, ledger) {
        Ok(true) => return Vec::new(),
        Ok(false) => "its table of clients is not what the ledgers say: \
                      tessera-conformance run --update"
            .to_owned(),
        Err(error) => error.to_string(),
    };
    vec![Breach::new(COMPATIBILITY, 1, message)]
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

fn long_readme(tree: &Tree) -> Vec<Breach> {
    let bytes = tree.text("README.md").map_or(0, str::len);
    let message = format!("{bytes} bytes, at most {MAX_README_BYTES}: move it to docs/");
    let breach = Breach::new("README.md", 1, message);
    (bytes > MAX_README_BYTES)
        .then_some(breach)
        .into_iter()
        .collect()
}
