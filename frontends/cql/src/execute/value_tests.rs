//! Statements with values and times of their own, many at once, and computed tables.

use std::sync::Arc;

use super::tests::{ask, check, text, with};
use crate::plan::FollowingView;
use crate::testing::Tester;
use crate::wire::{Consistency, Parameters, ResultBody, Value};

/// What a statement answers with these parameters.
async fn ask_with(tester: &Tester, statement: &str, parameters: Parameters<'_>) -> String {
    match tester.run_with(statement, &parameters).await {
        Err(error) => error.message,
        Ok(given) => match given.body {
            ResultBody::Rows(rows) => text(&rows),
            _ => String::new(),
        },
    }
}

pub(super) async fn bound(tester: &Tester, statement: &str, values: Vec<Value<'_>>) -> String {
    let parameters = Parameters {
        values,
        ..Parameters::new(Consistency::One)
    };
    ask_with(tester, statement, parameters).await
}

#[tokio::test]
async fn values_are_bound_checked_and_put_in_order() {
    let tester = with(&["CREATE TABLE t (k int PRIMARY KEY, v int, s set<int>)"]).await;
    let one = Value::Bytes(&[0, 0, 0, 1]);
    // Two elements in the wrong order: 2, then 1.
    let set = [0, 0, 0, 2, 0, 0, 0, 4, 0, 0, 0, 2, 0, 0, 0, 4, 0, 0, 0, 1];
    let insert = "INSERT INTO t (k, v, s) VALUES (?, ?, ?)";
    let select = "SELECT * FROM t WHERE k = ?";
    for (statement, values, expected) in [
        (insert, vec![one, one, Value::Bytes(&set)], ""),
        (select, vec![one], "1, {1, 2}, 1"),
        (insert, vec![one, Value::Unset, Value::Unset], ""),
        (select, vec![one], "1, {1, 2}, 1"),
        (insert, vec![one, Value::Null, Value::Unset], ""),
        (select, vec![one], "1, {1, 2}, null"),
        (
            insert,
            vec![one, Value::Bytes(&[1]), Value::Unset],
            "Expected 4 or 0 byte int (1)",
        ),
        (
            select,
            vec![Value::Null],
            "Invalid null value in condition for column k",
        ),
        (
            select,
            vec![Value::Unset],
            "Invalid unset value for column k",
        ),
        (
            "SELECT k FROM t LIMIT ?",
            vec![Value::Bytes(&[0, 0, 0, 0])],
            "LIMIT must be strictly positive",
        ),
        ("SELECT k FROM t LIMIT ?", vec![Value::Unset], "1"),
        (
            "UPDATE t SET v = ? WHERE k = 1 IF v = ?",
            vec![one, Value::Unset],
            "Invalid 'unset' value in condition",
        ),
    ] {
        assert_eq!(
            bound(&tester, statement, values).await,
            expected,
            "{statement}"
        );
    }
}

#[tokio::test]
async fn values_end_with_their_time_to_live() {
    let tester = with(&[
        "CREATE TABLE t (k int PRIMARY KEY, v int, w int)",
        "CREATE TABLE d (k int PRIMARY KEY, v int) WITH default_time_to_live = 60",
    ])
    .await;
    // Around the store's own time, by which it forgets what has ended long ago.
    let start = i32::try_from(tester.service.store.clock().now_ms() / 1_000).unwrap();
    let at = |now: i32| Parameters {
        now_in_seconds: Some(start + now),
        ..Parameters::new(Consistency::One)
    };
    for (now, statement, expected) in [
        (
            0,
            "INSERT INTO t (k, v, w) VALUES (1, 1, 1) USING TTL 100",
            "",
        ),
        (0, "UPDATE t SET w = 2 WHERE k = 1", ""),
        (40, "SELECT ttl(v), ttl(w) FROM t", "60, null"),
        (99, "SELECT * FROM t", "1, 1, 2"),
        (100, "SELECT * FROM t", "1, null, 2"),
        (100, "UPDATE t SET w = null WHERE k = 1", ""),
        (100, "SELECT * FROM t", ""),
        (0, "INSERT INTO d (k, v) VALUES (1, 1)", ""),
        (59, "SELECT * FROM d", "1, 1"),
        (60, "SELECT * FROM d", ""),
        (0, "INSERT INTO d (k, v) VALUES (2, 2) USING TTL 0", ""),
        (9_999, "SELECT * FROM d", "2, 2"),
    ] {
        assert_eq!(
            ask_with(&tester, statement, at(now)).await,
            expected,
            "{now} {statement}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn counters_are_exact_under_concurrency() {
    let tester = with(&["CREATE TABLE t (k int PRIMARY KEY, c counter)"]).await;
    let tester = Arc::new(tester);
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let tester = Arc::clone(&tester);
            tokio::spawn(async move {
                for _ in 0..25 {
                    tester.ok(&["UPDATE k.t SET c = c + 1 WHERE k = 1"]).await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(ask(&tester, "SELECT c FROM t").await, "200");
}

#[tokio::test]
async fn large_partitions_are_deleted_whole() {
    let tester = with(&["CREATE TABLE t (p int, c int, PRIMARY KEY (p, c))"]).await;
    for start in (0..2_500).step_by(500) {
        let inserts: Vec<String> = (start..start + 500)
            .map(|c| format!("INSERT INTO t (p, c) VALUES (1, {c})"))
            .collect();
        let batch = format!("BEGIN UNLOGGED BATCH {} APPLY BATCH", inserts.join("; "));
        tester.ok(&[&batch]).await;
    }
    check(
        &tester,
        &[
            ("SELECT count(*) FROM t", "2500"),
            ("DELETE FROM t WHERE p = 1 AND c >= 2400", ""),
            ("SELECT count(*) FROM t", "2400"),
            ("DELETE FROM t WHERE p = 1", ""),
            ("SELECT count(*) FROM t", "0"),
            ("INSERT INTO t (p, c) VALUES (1, 7)", ""),
            ("SELECT * FROM t", "1, 7"),
        ],
    )
    .await;
    let name = crate::catalog::container_name("k", "t");
    let statistics = tester
        .service
        .store
        .begin()
        .await
        .unwrap()
        .container(&name)
        .await
        .unwrap();
    let mut transaction = tester.service.store.begin().await.unwrap();
    let request = tessera_core::reading::PageRequest::default();
    let span = tessera_core::reading::Span::All;
    let items = transaction
        .scan(&statistics, &span, &request)
        .await
        .unwrap()
        .items;
    assert_eq!(items.len(), 2, "the partition's record and the new row");
}

#[tokio::test]
async fn views_are_filled_with_what_was_there() {
    let tester = with(&["CREATE TABLE t (p int PRIMARY KEY, v int)"]).await;
    for p in 0..450 {
        tester
            .ok(&[&format!("INSERT INTO t (p, v) VALUES ({p}, {})", p % 3)])
            .await;
    }
    tester
        .ok(&[
            "CREATE MATERIALIZED VIEW m AS SELECT p FROM t WHERE v IS NOT NULL AND v > 0 AND p \
               IS NOT NULL PRIMARY KEY (v, p)",
        ])
        .await;
    let catalog = tester.service.catalog().await.unwrap();
    let entry = catalog.find("k").unwrap();
    let base = entry.relation("t").unwrap();
    let view = FollowingView::new(entry.relation("m").unwrap(), &base.table, &entry.types).unwrap();
    super::build_view(&tester.service.store, base, view)
        .await
        .unwrap();
    check(
        &tester,
        &[
            ("SELECT count(*) FROM m WHERE v = 1", "150"),
            ("SELECT count(*) FROM m", "300"),
            ("DELETE FROM t WHERE p = 1", ""),
            ("SELECT count(*) FROM m WHERE v = 1", "149"),
        ],
    )
    .await;
}

#[tokio::test]
async fn computed_tables_are_read_as_others() {
    let tester = with(&["CREATE TABLE t (k int PRIMARY KEY, v int)"]).await;
    check(
        &tester,
        &[
            (
                "SELECT key, partitioner FROM system.local",
                "'local', 'org.apache.cassandra.dht.Murmur3Partitioner'",
            ),
            (
                "SELECT key FROM system.local WHERE key = 'local'",
                "'local'",
            ),
            ("SELECT key FROM system.local WHERE key = 'x'", ""),
            (
                "SELECT table_name FROM system_schema.tables WHERE keyspace_name = 'k'",
                "'t'",
            ),
            (
                "SELECT column_name, kind FROM system_schema.columns WHERE keyspace_name = 'k' AND \
                 table_name = 't'",
                "'k', 'partition_key'; 'v', 'regular'",
            ),
            (
                "SELECT keyspace_name, toJson(replication) AS r FROM system_schema.keyspaces WHERE \
                 keyspace_name IN ('k')",
                "'k', '{\"class\": \"org.apache.cassandra.locator.SimpleStrategy\", \
                 \"replication_factor\": \"1\"}'",
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn vectors_are_compared_with_what_is_written() {
    let tester = with(&[
        "CREATE TABLE v (p int PRIMARY KEY, e vector<float, 3>)",
        "INSERT INTO v (p, e) VALUES (1, [1, 0, 0])",
    ])
    .await;
    check(
        &tester,
        &[
            ("SELECT similarity_cosine(e, [1, 0, 0]) FROM v", "1.0"),
            (
                "SELECT similarity_dot_product([0.5, 2, 3], e) FROM v",
                "0.75",
            ),
            (
                "SELECT similarity_euclidean(e, [1.0, 0.0, 1.0]) FROM v",
                "0.5",
            ),
            ("SELECT similarity_cosine([1, 2], [1, 2]) FROM v", "1.0"),
            (
                "SELECT similarity_cosine(e, [1, 0]) FROM v",
                "Invalid call to function similarity_cosine, none of its type signatures match \
                 (known type signatures: system.similarity_cosine : (vector<float, n>, same) -> \
                 float)",
            ),
        ],
    )
    .await;
}
