//! Whatever is defined can be read back, by this server and by one that starts on the same store,
//! and can be made again from what DESCRIBE prints.
//!
//! `TESSERA_DEFINITIONS` says how many statements are tried, and `TESSERA_DEFINITIONS_FROM` with
//! which seed they begin.

use std::collections::BTreeMap;

use tessera_core::provisioning::Throughput;

use super::tests::tester;
use crate::auth::RoleMap;
use crate::catalog::KeyspaceEntry;
use crate::schema::{self, Table, Types};
use crate::testing::Tester;
use crate::wire::ResultBody;

/// How many statements one server gets.
const STATEMENTS: usize = 20;

fn rounds() -> u64 {
    let wanted = std::env::var("TESSERA_DEFINITIONS").ok();
    let wanted = wanted.and_then(|wanted| wanted.parse().ok());
    wanted.unwrap_or(3_000_u64).div_ceil(STATEMENTS as u64)
}

/// The seed of the first round: many statements can be tried in portions.
fn first() -> u64 {
    let wanted = std::env::var("TESSERA_DEFINITIONS_FROM").ok();
    wanted.and_then(|wanted| wanted.parse().ok()).unwrap_or(0)
}

/// All that is defined and can be compared.
#[derive(Debug, PartialEq)]
struct Defined {
    keyspaces: BTreeMap<String, InKeyspace>,
    throughputs: Vec<(String, String, Throughput)>,
    roles: RoleMap,
}

/// A keyspace, and what is in it.
#[derive(Debug, PartialEq)]
struct InKeyspace {
    keyspace: schema::Keyspace,
    types: Types,
    relations: BTreeMap<String, (Table, Vec<String>, Option<schema::View>)>,
}

fn in_keyspace(entry: &KeyspaceEntry) -> InKeyspace {
    assert!(entry.lost_types.is_empty(), "{:?}", entry.lost_types);
    let relations = entry.relations().map(|relation| {
        let table = Table::clone(&relation.table);
        let view = relation.view.as_deref().cloned();
        (table.name.clone(), (table, relation.views.clone(), view))
    });
    InKeyspace {
        keyspace: entry.keyspace.clone(),
        types: entry.types.clone(),
        relations: relations.collect(),
    }
}

async fn defined(tester: &Tester) -> Defined {
    let catalog = tester.service.catalog().await.unwrap();
    let own = catalog.keyspaces().filter(|entry| !entry.is_system());
    let roles = tester.service.roles.all().await.unwrap();
    assert!(
        roles.values().all(|role| role.damage.is_none()),
        "{roles:?}"
    );
    Defined {
        keyspaces: own
            .map(|entry| (entry.keyspace.name.clone(), in_keyspace(entry)))
            .collect(),
        throughputs: tester.service.store.database_throughputs().await.unwrap(),
        roles: RoleMap::clone(&roles),
    }
}

/// Without what is a table's own business: the numbers of columns, the order of indexes. Nor does
/// DESCRIBE tell of roles, and of what keyspaces share.
fn comparable(mut defined: Defined) -> Defined {
    let bare = |table: &mut Table| {
        let dropped = table.dropped.iter_mut().map(|(column, _)| column);
        for column in table.columns.iter_mut().chain(dropped) {
            column.number = 0;
        }
        table.options = table.options.clone().explicit();
        table.indexes.sort_by(|a, b| a.name.cmp(&b.name));
        for index in &mut table.indexes {
            index.options.sort();
        }
        table.dropped.sort_by(|(a, _), (b, _)| a.name.cmp(&b.name));
    };
    let keyspaces = defined.keyspaces.values_mut();
    for (table, views, view) in keyspaces.flat_map(|it| it.relations.values_mut()) {
        bare(table);
        views.sort();
        if let Some(view) = view {
            bare(&mut view.table);
        }
    }
    defined.roles.clear();
    defined.throughputs.clear();
    defined
}

/// Says where they differ, if they do: they are long.
fn same(left: &Defined, right: &Defined, seed: u64, log: &[String]) {
    if left == right {
        return;
    }
    let (left, right) = (format!("{left:?}"), format!("{right:?}"));
    let pairs = left.bytes().zip(right.bytes());
    let at = pairs.take_while(|(left, right)| left == right).count();
    let around = |text: &str| {
        let bytes = text.as_bytes();
        let part = &bytes[at.saturating_sub(300)..(at + 200).min(bytes.len())];
        String::from_utf8_lossy(part).into_owned()
    };
    let (left, right) = (around(&left), around(&right));
    panic!("seed {seed}:\n{left}\n is not \n{right}\n{log:#?}");
}

/// The statements that make all keyspaces again.
async fn described(tester: &Tester) -> Vec<String> {
    let given = tester.ok(&["DESCRIBE SCHEMA WITH INTERNALS"]).await;
    let ResultBody::Rows(rows) = given.body else {
        panic!("no rows");
    };
    let cells = rows.cells();
    let cells = cells.chunks(4);
    let texts = cells.map(|cells| String::from_utf8(cells[3].clone().unwrap()).unwrap());
    texts.collect()
}

/// The statements of a text, cut where a line ends with a semicolon that is in no quotes.
fn statements(text: &str) -> Vec<String> {
    let (mut found, mut current, mut open) = (Vec::new(), String::new(), None);
    for character in text.chars() {
        match open {
            Some(quote) if quote == character => open = None,
            None if matches!(character, '\'' | '"') => open = Some(character),
            _ => {}
        }
        if character == ';' && open.is_none() {
            found.push(std::mem::take(&mut current));
        } else {
            current.push(character);
        }
    }
    found
}

#[tokio::test]
async fn what_is_defined_is_read_back_and_made_again() {
    let (mut accepted, mut tried) = (0_u64, 0_u64);
    let first = first();
    for seed in first..first + rounds() {
        let tester = tester(&[]).await;
        let mut writer = schema::generated::Writer::new(seed);
        let mut log = Vec::new();
        for _ in 0..STATEMENTS {
            let text = writer.next();
            tried += 1;
            match tester.run(&text).await {
                Ok(_) => accepted += 1,
                Err(error) => assert!(
                    !error.message.contains("cannot be kept"),
                    "seed {seed}: {text}: {}",
                    error.message
                ),
            }
            log.push(text);
        }
        let here = defined(&tester).await;
        let restarted = tester.restarted().await;
        same(&here, &defined(&restarted).await, seed, &log);
        for list in ["LIST ROLES", "LIST ALL PERMISSIONS"] {
            let (before, after) = (tester.ok(&[list]).await, restarted.ok(&[list]).await);
            assert_eq!(before.body, after.body, "seed {seed}: {list}\n{log:#?}");
        }
        let texts = described(&restarted).await;
        for name in here.keyspaces.keys() {
            tester.ok(&[&format!("DROP KEYSPACE \"{name}\"")]).await;
        }
        for statement in texts.iter().flat_map(|text| statements(text)) {
            let made = tester.run(&statement).await;
            assert!(made.is_ok(), "seed {seed}: {statement}: {made:?}\n{log:#?}");
        }
        let made = defined(&tester).await;
        same(&comparable(here), &comparable(made), seed, &log);
    }
    assert!(accepted * 3 > tried, "{accepted} of {tried}");
}

/// An index stays one that could be made: durations do not come into what it is on.
#[tokio::test]
async fn types_of_indexed_columns_get_no_durations() {
    for (column, target) in [
        ("frozen<u>", "v"),
        ("list<frozen<u>>", "values(v)"),
        ("set<frozen<u>>", "v"),
        ("map<int, frozen<u>>", "values(v)"),
        ("map<int, frozen<u>>", "keys(v)"),
        ("map<int, frozen<u>>", "entries(v)"),
        ("frozen<list<frozen<u>>>", "full(v)"),
        ("frozen<tuple<int, frozen<u>>>", "v"),
        ("frozen<w>", "v"),
        ("list<frozen<w>>", "v"),
    ] {
        let (table, index) = (
            format!("CREATE TABLE t (k int PRIMARY KEY, v {column}, free frozen<x>)"),
            format!("CREATE INDEX ON t ({target})"),
        );
        let tester = tester(&[
            "CREATE TYPE u (a int)",
            "CREATE TYPE w (u frozen<u>)",
            "CREATE TYPE x (a int)",
            &table,
            &index,
        ])
        .await;
        for added in ["duration", "map<int, duration>", "frozen<list<duration>>"] {
            let refused = tester.refused(&format!("ALTER TYPE u ADD d {added}")).await;
            assert!(
                refused.starts_with("Secondary indexes are not"),
                "{column}: {refused}"
            );
        }
        tester
            .ok(&["ALTER TYPE u ADD e int", "ALTER TYPE x ADD d duration"])
            .await;
        // So whatever is there can be made again.
        let texts = described(&tester).await;
        tester.ok(&["DROP KEYSPACE ks"]).await;
        for statement in texts.iter().flat_map(|text| statements(text)) {
            tester.ok(&[&statement]).await;
        }
    }
}
