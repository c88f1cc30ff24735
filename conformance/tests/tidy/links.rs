//! Rules for links between documents, and for what their code blocks say of themselves.

use std::collections::BTreeSet;

use crate::{Breach, Rule, Tree};

/// Languages of code blocks. The first four may be followed by `test`: `tests/documents` runs
/// those.
const LANGUAGES: &[&str] = &[
    "sh", "js", "cql", "python", "text", "json", "toml", "rust", "yaml", "ini", "csharp", "go",
];

pub(crate) const RULES: &[Rule] = &[
    Rule {
        name: "links lead somewhere",
        check: dead_links,
        sample: || {
            let text = "[a](core/src/a.rs#x) [b](../README.md) [c](https://example.org) [d](#e)\n\
                        [f](core) [g](src/missing.rs) [h](../outside) [i](nowhere \"title\")\n\
                        ```text\n[j](nowhere)\n# no heading\n```\n`[k](nowhere)`\n\
                        [l](../README.md#some-words) [m](../README.md#no-heading)\n";
            Tree::of(&[
                ("README.md", "# Some `words`!\n```sh\n# no heading\n```\n"),
                ("core/src/a.rs", ""),
                ("core/README.md", text),
            ])
        },
        caught: &[
            "core/README.md:1: core/src/a.rs#x leads nowhere",
            "core/README.md:1: #e leads nowhere",
            "core/README.md:2: core leads nowhere",
            "core/README.md:2: src/missing.rs leads nowhere",
            "core/README.md:2: ../outside leads nowhere",
            "core/README.md:2: nowhere leads nowhere",
            "core/README.md:8: ../README.md#no-heading leads nowhere",
        ],
    },
    Rule {
        name: "code blocks name their language",
        check: unnamed_languages,
        sample: || {
            Tree::of(&[(
                "README.md",
                "```\na\n```\n```sh test\n```\n```klingon\n```\n```sh\n",
            )])
        },
        caught: &[
            "README.md:1: a code block without a known language: ''",
            "README.md:6: a code block without a known language: 'klingon'",
            "README.md:8: this code block does not end",
        ],
    },
    Rule {
        name: "the index of the documents names each page",
        check: pages_without_index,
        sample: || {
            Tree::of(&[
                ("docs/README.md", "[a](a.md)\n"),
                ("docs/a.md", ""),
                ("docs/b.md", ""),
            ])
        },
        caught: &["docs/README.md:1: has no link to docs/b.md"],
    },
];

/// The lines of a document that are not in code blocks, numbered from 1.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_code = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        (!is_code && !is_fence).then_some((index + 1, line))
    })
}

fn dead_links(tree: &Tree) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for (path, text) in tree.ending(".md") {
        for (number, line) in prose(text) {
            let shown = without_code(line);
            for link in links(&shown).filter(|link| !is_alive(tree, path, link)) {
                breaches.push(Breach::new(path, number, format!("{link} leads nowhere")));
            }
        }
    }
    breaches
}

/// A line without what stands between backticks.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join("``")
}

/// The targets of the `[text](target)` links in a line.
fn links(line: &str) -> impl Iterator<Item = &str> {
    line.split("](")
        .skip(1)
        .filter_map(|after| after.split([')', ' ']).next())
}

/// Whether a link from this document leads to the web or to something in the repository.
fn is_alive(tree: &Tree, document: &str, link: &str) -> bool {
    if link.contains("://") || link.starts_with("mailto:") {
        return true;
    }
    let (target, anchor) = link.split_once('#').unwrap_or((link, ""));
    let Some(path) = resolved(document, target) else {
        return false;
    };
    if !tree.has(&path) {
        return false;
    }
    let text = tree.text(&path).unwrap_or_default();
    anchor.is_empty() || !path.ends_with(".md") || anchors(text).contains(anchor)
}

/// The path from the root that a link names; none if it is outside.
fn resolved(document: &str, target: &str) -> Option<String> {
    if target.is_empty() {
        return Some(document.to_owned());
    }
    let mut parts: Vec<&str> = document.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "." | "" => {}
            ".." => drop(parts.pop()?),
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

/// What the headings of a document are called in links, as GitHub makes it.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    for (_, line) in prose(text) {
        let title = line.trim_start_matches('#');
        if title.len() == line.len() || !title.starts_with(' ') {
            continue;
        }
        let kept = |c: &char| c.is_alphanumeric() || " -_".contains(*c);
        let plain: String = title.trim().to_lowercase().chars().filter(kept).collect();
        let name = plain.replace(' ', "-");
        let numbered = (1..).map(|number| format!("{name}-{number}"));
        let free = std::iter::once(name.clone()).chain(numbered);
        anchors.extend(free.into_iter().find(|name| !anchors.contains(name)));
    }
    anchors
}

fn unnamed_languages(tree: &Tree) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for (path, text) in tree.ending(".md") {
        let mut begun = None;
        for (index, line) in text.lines().enumerate() {
            let Some(info) = line.trim_start().strip_prefix("```") else {
                continue;
            };
            begun = match begun {
                Some(_) => None,
                None => Some(index + 1),
            };
            let language = info.split(' ').next().unwrap_or_default();
            if begun.is_some() && !LANGUAGES.contains(&language) {
                let message = format!("a code block without a known language: '{language}'");
                breaches.push(Breach::new(path, index + 1, message));
            }
        }
        let open = begun.map(|line| Breach::new(path, line, "this code block does not end"));
        breaches.extend(open);
    }
    breaches
}

fn pages_without_index(tree: &Tree) -> Vec<Breach> {
    const INDEX: &str = "docs/README.md";
    let index = tree.text(INDEX).unwrap_or_default();
    let pages = tree.ending(".md").filter(|(path, _)| *path != INDEX);
    pages
        .filter_map(|(path, _)| path.strip_prefix("docs/"))
        .filter(|page| !index.contains(&format!("]({page})")))
        .map(|page| Breach::new(INDEX, 1, format!("has no link to docs/{page}")))
        .collect()
}
