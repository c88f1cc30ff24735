//! Definitions that cannot be read, of a damaged folder or of an older server, cost nothing but
//! themselves; and none is made that could not be read.

use super::tests::{KEYSPACE, tester};
use crate::testing::Tester;
use crate::wire::ResultBody;

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
    let list = "SELECT kind, name FROM system_views.damaged_definitions WHERE keyspace_name = 'ks'";
    let listed = async |tester: &Tester| match tester.ok(&[list]).await.body {
        ResultBody::Rows(rows) => {
            let text = |cell: &Option<Vec<u8>>| String::from_utf8(cell.clone().unwrap()).unwrap();
            rows.cells().iter().map(text).collect::<Vec<_>>().join(" ")
        }
        other => panic!("{other:?}"),
    };
    let all = "table bad table m table under type u type w";
    assert_eq!(listed(&tester).await, all);
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
        ])
        .await;
    assert_eq!(listed(&tester).await, "");
    tester.ok(&["DROP KEYSPACE ks", KEYSPACE]).await;
}

/// Types each of which has the one before as so many of its fields.
fn chain(length: usize, fields: usize) -> Vec<(String, Vec<String>)> {
    let of = |number: usize| {
        let field = match number {
            0 => "int".to_owned(),
            _ => format!("frozen<u{}>", number - 1),
        };
        (format!("u{number}"), vec![field; fields])
    };
    (0..length).map(of).collect()
}

/// Types as servers of before took them are beyond what is taken now, and stay what they are.
#[tokio::test]
async fn types_of_before_are_still_read() {
    let wide = vec![(
        "u0".to_owned(),
        vec![format!("tuple<{}int>", "int, ".repeat(20_000))],
    )];
    let nested = |depth: usize| format!("{}int{}", "tuple<".repeat(depth), ">".repeat(depth));
    for (types, is_read) in [
        (chain(60, 1), true),
        (chain(200, 1), true),
        (chain(255, 1), true),
        (chain(400, 1), false),
        (chain(14, 2), true),
        (wide, true),
        (vec![("u0".to_owned(), vec![nested(45)])], true),
        (chain(40, 2), false),
    ] {
        let tester = tester(&["CREATE TABLE good (k int PRIMARY KEY)"]).await;
        let last = types.last().unwrap().0.clone();
        let types = types.into_iter().map(|(name, fields)| {
            let fields = fields.into_iter().enumerate();
            let fields: Vec<_> = fields.map(|(at, of)| (format!("f{at}"), of)).collect();
            serde_json::json!({ "name": name, "fields": fields })
        });
        let stored = serde_json::json!({
            "replication": [["class", "SimpleStrategy"], ["replication_factor", "1"]],
            "durable_writes": true,
            "types": types.collect::<Vec<_>>(),
        });
        let altered = tester
            .service
            .store
            .alter_database(crate::API, "ks", move |_| {
                Ok(bytes::Bytes::from(stored.to_string()))
            });
        altered.await.unwrap();
        let tester = tester.restarted().await;
        tester
            .ok(&[
                "SELECT * FROM ks.good",
                "SELECT * FROM system_schema.types",
                "DESCRIBE SCHEMA",
            ])
            .await;
        let catalog = tester.service.catalog().await.unwrap();
        let entry = catalog.find("ks").unwrap();
        assert_eq!(entry.types.contains_key(&last), is_read, "{last}");
        assert_eq!(entry.damages().count() == 0, is_read, "{last}");
        // What is new keeps to the limits of today, unless it is the very type.
        tester
            .ok(&[
                "CREATE TYPE ks.small (a int)",
                "CREATE TABLE ks.t (k int PRIMARY KEY, v small)",
            ])
            .await;
    }
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
