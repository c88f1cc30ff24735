//! House rules as a test: what the compiler and clippy cannot see.
//!
//! A rule is a row of a table: a function from the tree to its breaches, and the smallest tree that
//! breaks it. Adding a rule is one function and its row.

mod code_map;
mod documents;
mod links;
mod manifests;
mod sources;
mod tree;

use std::fmt;
use std::path::Path;

use tree::Tree;

/// One house rule.
struct Rule {
    name: &'static str,
    check: fn(&Tree) -> Vec<Breach>,
    /// A tree that breaks the rule beside files that keep it.
    sample: fn() -> Tree,
    /// What the rule says of the sample.
    caught: &'static [&'static str],
}

/// One place that breaks a rule.
struct Breach {
    path: String,
    line: usize,
    message: String,
}

impl Breach {
    fn new(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self {
            path: path.to_owned(),
            line,
            message: message.into(),
        }
    }
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.message)
    }
}

fn rules() -> impl Iterator<Item = &'static Rule> {
    sources::RULES
        .iter()
        .chain(manifests::RULES)
        .chain(documents::RULES)
        .chain(links::RULES)
        .chain(code_map::RULES)
}

fn breaches(rule: &Rule, tree: &Tree) -> Vec<String> {
    (rule.check)(tree).iter().map(Breach::to_string).collect()
}

#[test]
fn the_tree_keeps_every_rule() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the workspace");
    let tree = Tree::read(root).expect("a readable tree");
    let mut report = String::new();
    for rule in rules() {
        for breach in breaches(rule, &tree) {
            report += &format!("\n{breach} [{}]", rule.name);
        }
    }
    assert!(report.is_empty(), "house rules are broken:{report}");
}

#[test]
fn every_rule_catches_its_sample() {
    for rule in rules() {
        assert_eq!(
            breaches(rule, &(rule.sample)()),
            rule.caught,
            "{}",
            rule.name
        );
    }
}
