//! Whatever is defined can be read back, by this server and by one that starts on the same store,
//! and can be made again from what DESCRIBE prints.
//!
//! `TESSERA_DEFINITIONS` says how many statements are tried.

use std::collections::BTreeMap;

use super::tests::{KEYSPACE, tester};
use crate::catalog::{Catalog, Catalogs};
use crate::schema::{self, Table, Types};
use crate::testing::Tester;
use crate::wire::ResultBody;

/// How many statements one keyspace gets.
const STATEMENTS: usize = 12;

fn rounds() -> u64 {
    let wanted = std::env::var("TESSERA_DEFINITIONS").ok();
    let wanted = wanted.and_then(|wanted| wanted.parse().ok());
    wanted.unwrap_or(3_000_u64).div_ceil(STATEMENTS as u64)
}

/// What is defined in the keyspace: all that can be compared.
#[derive(Debug, PartialEq)]
struct Defined {
    keyspace: schema::Keyspace,
    types: Types,
    relations: BTreeMap<String, (Table, Vec<String>, Option<schema::View>)>,
}

fn defined(catalog: &Catalog) -> Defined {
    let entry = catalog.find("ks").unwrap();
    assert!(entry.lost_types.is_empty(), "{:?}", entry.lost_types);
    let relations = entry.relations().map(|relation| {
        let table = Table::clone(&relation.table);
        let view = relation.view.as_deref().cloned();
        (table.name.clone(), (table, relation.views.clone(), view))
    });
    Defined {
        keyspace: entry.keyspace.clone(),
        types: entry.types.clone(),
        relations: relations.collect(),
    }
}

/// Without what is a table's own business: the numbers of columns, the order of indexes.
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
    for (table, views, view) in defined.relations.values_mut() {
        bare(table);
        views.sort();
        if let Some(view) = view {
            bare(&mut view.table);
        }
    }
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

/// The statements that make the keyspace again.
async fn described(tester: &Tester) -> Vec<String> {
    let given = tester.ok(&["DESCRIBE KEYSPACE ks WITH INTERNALS"]).await;
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
    for seed in 0..rounds() {
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
        let here = defined(&tester.service.catalog().await.unwrap());
        let again = Catalogs::new(tester.service.store.clone());
        let restarted = defined(&again.current().await.unwrap());
        same(&here, &restarted, seed, &log);
        let texts = described(&tester).await;
        tester.ok(&["DROP KEYSPACE ks"]).await;
        for statement in texts.iter().flat_map(|text| statements(text)) {
            let made = tester.run(&statement).await;
            assert!(made.is_ok(), "seed {seed}: {statement}: {made:?}\n{log:#?}");
        }
        let made = defined(&tester.service.catalog().await.unwrap());
        same(&comparable(here), &comparable(made), seed, &log);
    }
    assert!(accepted * 3 > tried, "{accepted} of {tried}");
}

/// What is refused of things that cannot be read.
const ONLY_DROPPED: &[(&str, &str)] = &[
    (
        "SELECT * FROM bad",
        "Table 'ks.bad' can only be dropped. A stored definition is damaged",
    ),
    (
        "INSERT INTO bad (k) VALUES (1)",
        "Table 'ks.bad' can only be dropped.",
    ),
    (
        "ALTER TABLE bad ADD x int",
        "Table 'ks.bad' can only be dropped.",
    ),
    ("TRUNCATE bad", "Table 'ks.bad' can only be dropped."),
    (
        "CREATE TABLE bad (k int PRIMARY KEY)",
        "Cannot add already existing table \"bad\"",
    ),
    ("DESCRIBE TABLE bad", "Table 'ks.bad' can only be dropped."),
    ("SELECT * FROM m", "Table 'ks.m' can only be dropped."),
    (
        "DROP TABLE under",
        "Cannot drop a table when materialized views still depend on it (n)",
    ),
    ("ALTER TYPE u ADD b int", "Type 'ks.u' can only be dropped."),
    (
        "CREATE TYPE u (b int)",
        "A user type with name 'u' already exists",
    ),
    (
        "CREATE TABLE x (k int PRIMARY KEY, v u)",
        "Unknown type ks.u",
    ),
];

/// A keyspace in which some things cannot be read any more.
async fn damaged_keyspace() -> Tester {
    let tester = tester(&[
        "CREATE TYPE u (a int)",
        "CREATE TYPE w (a frozen<u>)",
        "CREATE TABLE good (k int PRIMARY KEY, v frozen<w>)",
        "CREATE TABLE bad (k int PRIMARY KEY, v int)",
        "CREATE TABLE base (k int PRIMARY KEY, v int)",
        "CREATE MATERIALIZED VIEW m AS SELECT * FROM base WHERE k IS NOT NULL AND v IS NOT NULL \
         PRIMARY KEY (v, k)",
        "CREATE TABLE under (k int PRIMARY KEY, v int)",
        "CREATE MATERIALIZED VIEW n AS SELECT * FROM under WHERE k IS NOT NULL AND v IS NOT NULL \
         PRIMARY KEY (v, k)",
        "INSERT INTO good (k) VALUES (1)",
    ])
    .await;
    let store = &tester.service.store;
    for (table, bytes) in [
        ("bad", "{\"types\":[],\"tab"),
        ("m", ""),
        ("under", "\u{0}\u{ff}"),
    ] {
        let place = crate::catalog::container_name("ks", table);
        let bytes = bytes::Bytes::from(bytes.to_owned());
        let altered = store.alter_schema(&place, move |_| Ok(bytes.clone()));
        altered.await.unwrap();
    }
    let stored = store.database(crate::API, "ks").await.unwrap().unwrap();
    let text = String::from_utf8(stored.to_vec()).unwrap();
    let text = text.replace("[\"a\",\"int\"]", "[\"a\",\"int<\"]");
    let altered = store.alter_database(crate::API, "ks", move |_| {
        Ok(bytes::Bytes::from(text.clone()))
    });
    altered.await.unwrap();
    tester
}

/// A data folder may have definitions that nobody can read: they cost nothing else.
#[tokio::test]
async fn what_cannot_be_read_is_lost_alone() {
    let tester = damaged_keyspace().await.beside();
    tester
        .ok(&[
            "USE ks",
            "SELECT * FROM good",
            "INSERT INTO good (k) VALUES (2)",
        ])
        .await;
    tester
        .ok(&["INSERT INTO base (k, v) VALUES (1, 1)", "DESCRIBE SCHEMA"])
        .await;
    tester
        .ok(&[
            "SELECT * FROM system_schema.tables",
            "CREATE TABLE other (k int PRIMARY KEY)",
        ])
        .await;
    for (text, words) in ONLY_DROPPED {
        let refused = tester.refused(text).await;
        assert!(refused.starts_with(words), "{text}: {refused}");
    }
    tester
        .ok(&[
            "ALTER KEYSPACE ks WITH durable_writes = false",
            "DROP TABLE bad",
            "DROP MATERIALIZED VIEW m",
            "DROP MATERIALIZED VIEW n",
            "DROP TABLE under",
            "DROP TABLE base",
            "DROP TYPE w",
            "DROP TYPE u",
            "CREATE TYPE u (b int)",
            "CREATE TABLE bad (k int PRIMARY KEY, v u)",
            "SELECT * FROM bad",
            "DROP KEYSPACE ks",
            KEYSPACE,
        ])
        .await;
}

/// The keyspace's own bytes may be lost as well: what is in it can be used, and all of it dropped.
#[tokio::test]
async fn a_keyspace_that_cannot_be_read_can_be_dropped() {
    let tester = tester(&["CREATE TABLE t (k int PRIMARY KEY)"]).await;
    let store = &tester.service.store;
    for bytes in ["", "{", "{\"replication\": 5}", "\u{0}"] {
        let bytes = bytes::Bytes::from(bytes.to_owned());
        let altered = store.alter_database(crate::API, "ks", move |_| Ok(bytes.clone()));
        altered.await.unwrap();
        let tester = tester.beside();
        tester
            .ok(&["USE ks", "INSERT INTO t (k) VALUES (1)", "SELECT * FROM t"])
            .await;
        tester
            .ok(&["DESCRIBE SCHEMA", "SELECT * FROM system_schema.keyspaces"])
            .await;
        tester
            .ok(&["CREATE TABLE x (k int PRIMARY KEY)", "DROP TABLE x"])
            .await;
        for text in [
            "ALTER KEYSPACE ks WITH durable_writes = true",
            "CREATE TYPE u (a int)",
        ] {
            let refused = tester.refused(text).await;
            assert!(
                refused.starts_with("Keyspace 'ks' can only be dropped"),
                "{refused}"
            );
        }
    }
    tester.beside().ok(&["DROP KEYSPACE ks", KEYSPACE]).await;
}

/// Types that are deep or large are taken and read back, or refused: never one without the other.
#[tokio::test]
async fn deep_and_large_types_are_kept_or_refused() {
    let tester = tester(&[]).await;
    let mut kept = 0;
    let mut number = 0;
    for (open, close) in [
        ("tuple<", ">"),
        ("frozen<tuple<", ">>"),
        ("frozen<list<", ">>"),
        ("frozen<set<", ">>"),
        ("frozen<map<int, ", ">>"),
        ("vector<", ", 2>"),
        ("tuple<int, ", ", text>"),
        ("frozen<frozen<tuple<", ">>>"),
        ("frozen<list<tuple<", ">>>"),
        ("vector<frozen<list<", ">>, 3>"),
    ] {
        for levels in [1, 24, 25, 26, 30, 49, 50, 51, 60, 100, 101, 1_000] {
            number += 1;
            let data_type = format!("{}int{}", open.repeat(levels), close.repeat(levels));
            let text = format!("CREATE TABLE t{number} (k int PRIMARY KEY, v {data_type})");
            kept += usize::from(tester.run(&text).await.is_ok());
            let text = format!("CREATE TYPE u{number} (v {data_type})");
            kept += usize::from(tester.run(&text).await.is_ok());
        }
        let beside = tester.beside();
        beside.ok(&["SELECT * FROM system_schema.tables"]).await;
    }
    assert!(kept > 80, "{kept}");
}

/// Definitions that are short and stand for much.
#[tokio::test]
async fn types_that_double_or_go_on_are_bounded() {
    let tester = tester(&[]).await;
    // Short definitions that double each time.
    tester.ok(&["CREATE TYPE d0 (a int, b int)"]).await;
    let mut last = 0;
    for number in 1..200 {
        let before = number - 1;
        let text = format!("CREATE TYPE d{number} (a frozen<d{before}>, b frozen<d{before}>)");
        match tester.run(&text).await {
            Ok(_) => last = number,
            Err(error) => {
                assert!(
                    error.message.starts_with("The type is too large"),
                    "{}",
                    error.message
                );
                break;
            }
        }
    }
    assert!((8..20).contains(&last), "{last}");
    tester
        .ok(&["CREATE TABLE wide (k int PRIMARY KEY, v frozen<d2>)"])
        .await;
    let large: Vec<String> = (0..5_000).map(|_| "int".to_owned()).collect();
    let add = format!("ALTER TYPE d0 ADD c tuple<{}>", large.join(", "));
    assert!(
        tester
            .refused(&add)
            .await
            .starts_with("The type is too large")
    );
    // Chains of user types are as deep as types may be.
    tester.ok(&["CREATE TYPE c0 (a int)"]).await;
    let chained = async |number: usize| {
        let before = number - 1;
        tester
            .run(&format!("CREATE TYPE c{number} (a frozen<c{before}>)"))
            .await
    };
    let mut number = 1;
    while chained(number).await.is_ok() {
        number += 1;
        assert!(number < 1_000);
    }
    assert!(number > 20, "{number}");
    tester
        .beside()
        .ok(&["SELECT * FROM system_schema.types"])
        .await;
}
