//! Rules for the crates' manifests: shared lints, and who may depend on whom.

use toml::Table;

use crate::{Breach, Rule, Tree};

/// Which crates of this workspace a folder's crates may use, tests included; ARCHITECTURE.md says
/// why.
const LAYERS: &[(&str, &[&str])] = &[
    ("advisor/", &["tessera-core"]),
    ("core/", &[]),
    ("storage/", &["tessera-core"]),
    ("frontends/mongo/language/", &["tessera-core"]),
    (
        "frontends/mongo/",
        &["tessera-core", "tessera-frontend", "tessera-mongo-language"],
    ),
    (
        "frontends/console/",
        &["tessera-advisor", "tessera-core", "tessera-frontend"],
    ),
    ("frontends/", &["tessera-core", "tessera-frontend"]),
    ("conformance/", &[]),
    ("fuzz/libfuzzer/", &["tessera-fuzz"]),
    (
        "fuzz/",
        &[
            "tessera-console",
            "tessera-core",
            "tessera-cql",
            "tessera-frontend",
            "tessera-mongo",
            "tessera-mongo-language",
            "tessera-table",
        ],
    ),
];

/// The one crate that may use all the others.
const TOP: &str = "server/";

/// Where a third-party crate may appear. Crates that are not listed may appear anywhere.
const HOMES: &[(&str, &[&str])] = &[
    (
        "bson",
        &[
            "conformance/",
            "frontends/mongo/",
            "frontends/mongo/language/",
            "fuzz/",
        ],
    ),
    ("cassandra-protocol", &["conformance/"]),
    ("cdrs-tokio", &["conformance/clients/rust/"]),
    ("nom", &["frontends/cql/", "frontends/table/"]),
    ("rocksdb", &["storage/"]),
    (
        "rustls",
        &["conformance/clients/rust/", "server/", "storage/"],
    ),
    ("tokio-postgres", &["storage/"]),
    ("tokio-rustls", &["server/", "storage/"]),
];

pub(crate) const RULES: &[Rule] = &[
    Rule {
        name: "manifests can be read",
        check: unreadable,
        sample: || Tree::of(&[("core/Cargo.toml", "[package\n")]),
        caught: &["core/Cargo.toml:1: not a TOML file"],
    },
    Rule {
        name: "every crate uses the shared lints",
        check: missing_lints,
        sample: || {
            Tree::of(&[
                ("Cargo.toml", "[workspace]\n"),
                ("clients/Cargo.toml", "[workspace]\n\n[package]\n"),
                (
                    "core/Cargo.toml",
                    "[package]\n\n[lints]\nworkspace = true\n",
                ),
                (
                    "server/Cargo.toml",
                    "[package]\n\n[lints]\nworkspace = false\n",
                ),
                ("storage/Cargo.toml", "[package]\n"),
            ])
        },
        caught: &[
            "server/Cargo.toml:1: needs `[lints] workspace = true`",
            "storage/Cargo.toml:1: needs `[lints] workspace = true`",
        ],
    },
    Rule {
        name: "crates depend downwards only",
        check: upward_edges,
        sample: || {
            Tree::of(&[
                (
                    "conformance/Cargo.toml",
                    "[dependencies]\ntessera-core.workspace = true\n",
                ),
                (
                    "core/Cargo.toml",
                    "[dev-dependencies]\ntessera-storage.workspace = true\n",
                ),
                (
                    "elsewhere/Cargo.toml",
                    "[dependencies]\ntessera-core.workspace = true\n",
                ),
                (
                    "frontends/cql/Cargo.toml",
                    "[dependencies]\n\
                     tessera-core = { workspace = true }\n\
                     tessera-frontend.workspace = true\n\
                     other = { path = '../mongo', package = 'tessera-mongo' }\n",
                ),
                (
                    "server/Cargo.toml",
                    "[dependencies]\ntessera-storage.workspace = true\n",
                ),
                (
                    "storage/Cargo.toml",
                    "[target.'cfg(unix)'.build-dependencies.tessera-console]\nworkspace = true\n",
                ),
            ])
        },
        caught: &[
            "conformance/Cargo.toml:2: conformance/ may not depend on tessera-core",
            "core/Cargo.toml:2: core/ may not depend on tessera-storage",
            "elsewhere/Cargo.toml:2: elsewhere/ may not depend on tessera-core",
            "frontends/cql/Cargo.toml:4: frontends/cql/ may not depend on tessera-mongo",
            "storage/Cargo.toml:1: storage/ may not depend on tessera-console",
        ],
    },
    Rule {
        name: "third-party crates stay at home",
        check: strays,
        sample: || {
            Tree::of(&[
                (
                    "frontends/mongo/Cargo.toml",
                    "[dependencies]\nbson.workspace = true\n",
                ),
                (
                    "frontends/table/Cargo.toml",
                    "[dependencies]\nbson = '2'\nnom = '8'\n",
                ),
                (
                    "server/Cargo.toml",
                    "[dependencies]\nrustls = '0'\nrocksdb = '0'\n",
                ),
            ])
        },
        caught: &[
            "frontends/table/Cargo.toml:2: bson belongs in conformance/ and frontends/mongo/ and \
             frontends/mongo/language/ and fuzz/",
            "server/Cargo.toml:3: rocksdb belongs in storage/",
        ],
    },
];

fn unreadable(tree: &Tree) -> Vec<Breach> {
    tree.ending("Cargo.toml")
        .filter(|(_, text)| text.parse::<Table>().is_err())
        .map(|(path, _)| Breach::new(path, 1, "not a TOML file"))
        .collect()
}

fn missing_lints(tree: &Tree) -> Vec<Breach> {
    let shares_lints = |manifest: &Table| {
        let lints = manifest
            .get("lints")
            .and_then(|lints| lints.get("workspace"));
        lints.and_then(toml::Value::as_bool) == Some(true)
    };
    // A workspace of its own has nothing to share.
    let is_member =
        |manifest: &Table| manifest.contains_key("package") && !manifest.contains_key("workspace");
    manifests(tree)
        .filter(|(_, _, manifest)| is_member(manifest) && !shares_lints(manifest))
        .map(|(path, _, _)| Breach::new(path, 1, "needs `[lints] workspace = true`"))
        .collect()
}

fn upward_edges(tree: &Tree) -> Vec<Breach> {
    in_dependencies(tree, |folder, dependency| {
        if !dependency.starts_with("tessera-") || folder == TOP {
            return None;
        }
        let layer = LAYERS.iter().find(|(layer, _)| folder.starts_with(layer));
        let allowed = layer.is_some_and(|(_, allowed)| allowed.contains(&dependency));
        (!allowed).then(|| format!("{folder} may not depend on {dependency}"))
    })
}

fn strays(tree: &Tree) -> Vec<Breach> {
    in_dependencies(tree, |folder, dependency| {
        let (_, homes) = HOMES.iter().find(|(name, _)| *name == dependency)?;
        let message = format!("{dependency} belongs in {}", homes.join(" and "));
        (!homes.contains(&folder)).then_some(message)
    })
}

/// Every manifest with its path and its text.
fn manifests(tree: &Tree) -> impl Iterator<Item = (&str, &str, Table)> {
    tree.ending("Cargo.toml")
        .filter_map(|(path, text)| Some((path, text, text.parse().ok()?)))
}

/// Asks `check` about the folder of each crate and the package name of each of its dependencies.
fn in_dependencies(tree: &Tree, check: impl Fn(&str, &str) -> Option<String>) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for (path, text, manifest) in manifests(tree) {
        let folder = path.trim_end_matches("Cargo.toml");
        for (key, package) in dependencies(&manifest) {
            let line = text
                .lines()
                .position(|line| line.contains(&key))
                .unwrap_or(0)
                + 1;
            breaches.extend(check(folder, &package).map(|text| Breach::new(path, line, text)));
        }
    }
    breaches
}

/// Key and package name of every dependency of a crate, of whatever kind and for whatever target.
fn dependencies(manifest: &Table) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for kind in ["dependencies", "dev-dependencies", "build-dependencies"] {
        for (key, value) in manifest
            .get(kind)
            .and_then(toml::Value::as_table)
            .into_iter()
            .flatten()
        {
            let renamed = value.get("package").and_then(toml::Value::as_str);
            found.push((key.clone(), renamed.unwrap_or(key).to_owned()));
        }
    }
    let targets = manifest.get("target").and_then(toml::Value::as_table);
    for target in targets.into_iter().flat_map(Table::values) {
        found.extend(target.as_table().map(dependencies).into_iter().flatten());
    }
    found
}
