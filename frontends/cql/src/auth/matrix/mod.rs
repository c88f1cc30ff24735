//! Each kind of statement with each permission on each resource, held against the rules that
//! `rules` writes down; and the same statements on every way that a request can take.

mod kinds;
mod rules;
mod ways;

use std::collections::BTreeSet;
use std::path::Path;

use super::tests::testers;
use crate::auth::Rights;
use crate::error::ErrorKind;
use crate::parser::parse;
use crate::plan;
use crate::prepared::is_on_rows;
use crate::statement::Permission;
use crate::testing::Tester;
use kinds::{KINDS, kind};
use rules::{AFTER, BEFORE, RULES, above};

/// What there is to be granted permissions on: what the rules name and what is beside it.
const PLACES: &[&str] = &[
    "ALL KEYSPACES",
    "KEYSPACE ks",
    "KEYSPACE other",
    "KEYSPACE system",
    "KEYSPACE system_auth",
    "ALL TABLES IN KEYSPACE ks",
    "ALL TABLES IN KEYSPACE other",
    "ALL TABLES IN KEYSPACE system_views",
    "TABLE ks.t",
    "TABLE ks.u",
    "TABLE ks.mv",
    "TABLE other.t",
    "TABLE system.prepared_statements",
    "TABLE system_auth.roles",
    "TABLE system_traces.sessions",
    "ALL ROLES",
    "ROLE target",
    "ROLE another",
    "ROLE eve",
    "ALL FUNCTIONS",
    "ALL FUNCTIONS IN KEYSPACE ks",
    "ALL FUNCTIONS IN KEYSPACE other",
];

pub(super) const SETUP: &[&str] = &[
    "CREATE KEYSPACE other WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    "CREATE INDEX t_v ON ks.t (v)",
    "CREATE TABLE ks.u (k int PRIMARY KEY, v int)",
    "CREATE TABLE other.t (k int PRIMARY KEY, v int)",
    "CREATE TABLE other.u (k int PRIMARY KEY, v int)",
    "CREATE TYPE ks.y (a int)",
    "CREATE MATERIALIZED VIEW ks.mv AS SELECT * FROM ks.t WHERE k IS NOT NULL AND v IS NOT NULL \
     PRIMARY KEY (v, k)",
    "INSERT INTO ks.t (k, v) VALUES (1, 2)",
    "CREATE ROLE eve WITH PASSWORD = 'e' AND LOGIN = true",
    "CREATE ROLE target",
    "CREATE ROLE another",
    "CREATE ROLE boss WITH SUPERUSER = true",
];

/// What a statement needs, as a rule says it.
#[derive(Debug)]
enum Rule {
    /// Each of these: a permission, and a place as GRANT writes it.
    Grants(Vec<(String, String)>),
    Superuser,
}

impl Rule {
    /// Whether these grants are enough.
    fn is_met(&self, granted: &BTreeSet<(String, String)>) -> bool {
        match self {
            Self::Superuser => false,
            Self::Grants(needed) => needed.iter().all(|(permission, place)| {
                let mut places = above(place).into_iter();
                places.any(|place| granted.contains(&(permission.clone(), place)))
            }),
        }
    }
}

/// The statements and their rules.
fn rules() -> Vec<(&'static str, Rule)> {
    let lines = RULES.lines().filter(|line| !line.is_empty());
    let rule = |line: &'static str| {
        let (text, needed) = line.split_once("::").unwrap();
        let rule = match needed.trim() {
            "superuser" => Rule::Superuser,
            "nothing" => Rule::Grants(Vec::new()),
            grants => Rule::Grants(
                grants
                    .split(" + ")
                    .map(|grant| grant.split_once(" on ").unwrap())
                    .map(|(permission, place)| (permission.to_owned(), place.to_owned()))
                    .collect(),
            ),
        };
        (text.trim(), rule)
    };
    lines.map(rule).collect()
}

/// The superuser, and eve, to whom nothing was granted.
async fn root_and_eve() -> (Tester, Tester) {
    let (root, _) = testers().await;
    root.ok(SETUP).await;
    let eve = root.another();
    eve.session.log_in("eve");
    (root, eve)
}

/// Whether a statement would be run.
async fn may(tester: &Tester, text: &str) -> bool {
    let parsed = parse(text).unwrap();
    let catalog = tester.service.catalog().await.unwrap();
    let rights = Rights::of(&tester.service, &tester.session).await.unwrap();
    let keyspace = tester.session.keyspace();
    let keyspace = keyspace.as_deref();
    let permitted = if is_on_rows(&parsed.statement) {
        let plan = plan::prepare(&parsed, &catalog, keyspace).unwrap();
        rights.plan(&plan).map(|_| ())
    } else {
        let permitted = rights.statement(&parsed.statement, keyspace, &catalog);
        permitted.map(|_| ())
    };
    match permitted {
        Ok(()) => true,
        Err(error) => {
            assert_eq!(error.kind, ErrorKind::Unauthorized, "{text}: {error:?}");
            false
        }
    }
}

/// Grants as much of this as there is, and answers what.
async fn grant(root: &Tester, grants: &[(String, String)], to: &str) -> BTreeSet<(String, String)> {
    let mut granted = BTreeSet::new();
    for (permission, place) in grants {
        let text = format!("GRANT {permission} ON {place} TO {to}");
        if root.run(&text).await.is_ok() {
            granted.insert((permission.clone(), place.clone()));
        }
    }
    granted
}

async fn revoke(root: &Tester, grants: &BTreeSet<(String, String)>, from: &str) {
    for (permission, place) in grants {
        let text = format!("REVOKE {permission} ON {place} FROM {from}");
        root.ok(&[&text]).await;
    }
}

#[test]
fn every_kind_of_statement_has_a_rule() {
    let rules = rules();
    let ruled: BTreeSet<&str> = rules
        .iter()
        .map(|(text, _)| kind(&parse(text).unwrap().statement))
        .collect();
    let missing: Vec<_> = KINDS
        .iter()
        .filter(|kind| !ruled.contains(**kind))
        .collect();
    assert!(missing.is_empty(), "no rule for {missing:?}");
}

#[tokio::test]
async fn one_permission_allows_what_the_rules_say() {
    let (root, eve) = root_and_eve().await;
    let rules = rules();
    let mut walked = 0;
    for place in PLACES {
        for permission in Permission::ALL {
            let one = [(permission.name().to_owned(), (*place).to_owned())];
            let granted = grant(&root, &one, "eve").await;
            for (text, rule) in &rules {
                let expected = rule.is_met(&granted);
                assert_eq!(may(&eve, text).await, expected, "{granted:?}: {text}");
            }
            revoke(&root, &granted, "eve").await;
            walked += granted.len();
        }
    }
    // Data has 8 or 7 permissions, roles 5 or 3, functions 5.
    assert_eq!(walked, 8 * 8 + 7 * 7 + 5 + 3 * 3 + 5 * 3);
}

/// Exactly what is needed is enough, directly and by a role; without any part of it, it is not,
/// whatever else was granted.
#[tokio::test]
async fn every_part_of_what_is_needed_is_needed() {
    let (root, eve) = root_and_eve().await;
    root.ok(&["CREATE ROLE few", "CREATE ROLE all", "GRANT few TO eve"])
        .await;
    let names = Permission::ALL.iter().map(|permission| permission.name());
    for (place, name) in PLACES
        .iter()
        .flat_map(|place| names.clone().map(move |name| (place, name)))
    {
        grant(&root, &[(name.to_owned(), (*place).to_owned())], "all").await;
    }
    for (text, rule) in rules() {
        assert!(may(&root, text).await, "{text}");
        let Rule::Grants(needed) = &rule else {
            root.ok(&["GRANT all TO eve"]).await;
            assert!(!may(&eve, text).await, "{text}");
            root.ok(&["REVOKE all FROM eve"]).await;
            continue;
        };
        for level in 0..4 {
            let at = |(permission, place): &(String, String)| {
                let places = above(place);
                let place = places.get(level).or(places.last()).unwrap().clone();
                (permission.clone(), place)
            };
            let wanted: Vec<_> = needed.iter().map(at).collect();
            for to in ["eve", "few"] {
                let granted = grant(&root, &wanted, to).await;
                assert_eq!(may(&eve, text).await, rule.is_met(&granted), "{text}");
                revoke(&root, &granted, to).await;
            }
        }
        for (permission, place) in needed {
            let here = above(place).into_iter();
            let here: Vec<_> = here.map(|place| (permission.clone(), place)).collect();
            let granted = grant(&root, &here, "all").await;
            revoke(&root, &granted, "all").await;
            root.ok(&["GRANT all TO eve"]).await;
            assert!(!may(&eve, text).await, "{permission} on {place}: {text}");
            root.ok(&["REVOKE all FROM eve"]).await;
            grant(&root, &here, "all").await;
        }
    }
}

#[test]
fn permissions_are_documented() {
    let mut text = BEFORE.to_owned();
    text.push_str("\n| Kind | Statement | Needs |\n|---|---|---|\n");
    for line in RULES.lines().filter(|line| !line.is_empty()) {
        let (statement, needed) = line.split_once("::").unwrap();
        let (statement, needed) = (statement.trim(), needed.trim().replace(" + ", ", "));
        let kind = kind(&parse(statement).unwrap().statement);
        text.push_str(&format!("| {kind} | `{statement}` | {needed} |\n"));
    }
    text.push_str(AFTER);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cassandra-permissions.md");
    if std::env::var_os("TESSERA_WRITE_DOCS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &text).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == text,
        "docs/cassandra-permissions.md is not current: TESSERA_WRITE_DOCS=1 writes it"
    );
}
