//! Statements in, rows out: where a Cassandra 5 that was asked the same differed from this server.

use super::tests::{check, with};
use super::value_tests::bound;
use crate::wire::Value;

#[tokio::test]
async fn selections_have_the_types_and_names_of_their_parts() {
    let tester = with(&[
        "CREATE TYPE u (a int)",
        "CREATE TABLE t (k int PRIMARY KEY, s smallint, ts timestamp, l list<int>, f frozen<u>)",
        "INSERT INTO t (k, s, ts) VALUES (1, 2, '2020-01-02')",
    ])
    .await;
    let unknown = |term: &str| {
        format!(
            "Cannot infer type for term {term} in selection clause (try using a cast to force a \
             type)"
        )
    };
    check(
        &tester,
        &[
            ("SELECT 5 FROM t", &unknown("5")),
            ("SELECT {'a': k} FROM t", &unknown("{'a': k}")),
            ("SELECT (1, k) FROM t", &unknown("(1, k)")),
            ("SELECT [1, k] FROM t", "[1, 1]"),
            (
                "SELECT l[0..1] FROM t",
                "Slice selection is only allowed on sets and maps, but l is \
              a list",
            ),
            ("SELECT f.b FROM t", "f of type frozen<u> has no field b"),
            (
                "SELECT k FROM t WHERE ts > '2020-01-03' - 2d ALLOW FILTERING",
                "1",
            ),
            (
                "SELECT k FROM t WHERE s = 10/0 ALLOW FILTERING",
                "the operation 'smallint / \
              smallint' failed: / by zero",
            ),
        ],
    )
    .await;
    let rows = tester
        .run("SELECT CAST(k AS int), CAST(k AS text), count(1) FROM t")
        .await;
    let rows = format!("{:?}", rows.unwrap().body);
    for name in ["\"k\"", "\"cast(k as text)\"", "\"count\""] {
        assert!(rows.contains(&format!("name: {name}")), "{name} in {rows}");
    }
}

#[tokio::test]
async fn parts_of_literals_are_of_their_types() {
    let tester = with(&[
        "CREATE TYPE u (a int)",
        "CREATE TABLE t (k int PRIMARY KEY, l list<int>, m map<text, int>, f frozen<u>, \
         p tuple<int, text>)",
    ])
    .await;
    check(
        &tester,
        &[
            (
                "INSERT INTO t (k, f) VALUES (1, {a: 'x'})",
                "Invalid user type literal for f: field a is not of type int",
            ),
            (
                "INSERT INTO t (k, l) VALUES (1, ['x'])",
                "Invalid list literal for l: value 'x' is not of type int",
            ),
            (
                "INSERT INTO t (k, m) VALUES (1, {1: 1})",
                "Invalid map literal for m: key 1 is not of type text",
            ),
            (
                "INSERT INTO t (k, p) VALUES (1, ('x', 'y'))",
                "Invalid tuple literal for p: component 0 is not of type int",
            ),
            ("INSERT INTO t (k, p) VALUES (1, '1:a\\:b')", ""),
            ("INSERT INTO t (k, p) VALUES (2, '@:\\@')", ""),
            ("INSERT INTO t (k, p) VALUES (3, '3')", ""),
            (
                "SELECT k, p FROM t",
                "1, (1, 'a:b'); 2, (null, '@'); 3, (3)",
            ),
            (
                "INSERT INTO t (k, p) VALUES (1, '1:2:3')",
                "Invalid tuple literal: too many elements. Type frozen<tuple<int, text>> expects 2 \
                 but got 3",
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn rows_that_cannot_be_found_so_are_refused() {
    let tester = with(&[
        "CREATE TYPE u (d duration)",
        "CREATE TABLE t (p int, a int, b frozen<list<int>>, c int, v int, l list<int>, n u, \
         PRIMARY KEY (p, a, b, c))",
        "CREATE INDEX ON t (c)",
        "CREATE TABLE n (k int PRIMARY KEY, c counter)",
    ])
    .await;
    check(
        &tester,
        &[
            (
                "SELECT v FROM t WHERE p = 1 AND a > 0 AND c = 1",
                crate::plan::NEEDS_FILTERING,
            ),
            (
                "SELECT v FROM t WHERE p = 1 AND (b, c) < ([1], 2) AND c = 1",
                "Column \"c\" cannot be restricted by both an equality and an inequality relation",
            ),
            (
                "SELECT v FROM t WHERE p = 1 AND (b, c) < ([1], 2) ALLOW FILTERING",
                "Multi-column slice restrictions cannot be used for filtering.",
            ),
            (
                "SELECT v FROM t WHERE a > 1 AND b CONTAINS 2",
                "Clustering column \"b\" cannot be restricted (preceding column \"a\" is \
                 restricted by a non-EQ relation)",
            ),
            (
                "SELECT v FROM t WHERE n > {d: 1d} ALLOW FILTERING",
                "Slice restrictions are not supported on UDTs containing durations",
            ),
            (
                "SELECT v FROM t WHERE v = null ALLOW FILTERING",
                "Unsupported null value for column v",
            ),
            (
                "SELECT v FROM t WHERE l[0] = 1 ALLOW FILTERING",
                "Indexes on list entries (l[index] = value) are not currently supported.",
            ),
            (
                "SELECT v FROM t WHERE c = 1 ORDER BY a",
                "ORDER BY with 2ndary indexes is not supported, except for ANN queries.",
            ),
            (
                "SELECT c FROM n WHERE c = null ALLOW FILTERING",
                "Invalid null value for counter increment/decrement",
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn deletions_name_whole_rows_where_they_must() {
    let tester = with(&[
        "CREATE TABLE t (p int, c int, s int static, v int, PRIMARY KEY (p, c))",
        "INSERT INTO t (p, c, s, v) VALUES (1, 1, 1, 1)",
    ])
    .await;
    let whole = "DELETE statements must restrict all PRIMARY KEY columns with equality relations \
                 in order to delete non static columns";
    check(
        &tester,
        &[
            (
                "DELETE v FROM t WHERE p = 1",
                "Range deletions are not supported for specific columns",
            ),
            ("DELETE FROM t WHERE p = 1 IF EXISTS", whole),
            ("DELETE FROM t WHERE p = 1 AND c > 0 IF EXISTS", whole),
            ("DELETE FROM t WHERE p = 1 IF s = 1", whole),
            ("DELETE s, v FROM t WHERE p = 1 IF s = 1", whole),
            ("DELETE s FROM t WHERE p = 1 IF s = 1", "true"),
            ("DELETE FROM t WHERE p = 1 AND c = 1 IF v = 1", "true"),
            ("SELECT * FROM t", ""),
            (
                "UPDATE t SET v = 1 WHERE v = 2",
                "Some partition key parts are missing: p",
            ),
            (
                "UPDATE t SET v = 1 WHERE p > 2 AND c = 1",
                "Only EQ and IN relation are supported on the partition key (unless you use the \
                 token() function) for UPDATE statements",
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn a_row_of_dropped_cells_alone_is_none() {
    let tester = with(&[
        "CREATE TABLE t (k int PRIMARY KEY, x int, y int)",
        "UPDATE t USING TIMESTAMP 5 SET x = 1 WHERE k = 1",
        "UPDATE t USING TIMESTAMP 5 SET x = 1, y = 1 WHERE k = 2",
        "INSERT INTO t (k, x) VALUES (3, 1) USING TIMESTAMP 5",
        "ALTER TABLE t DROP x",
    ])
    .await;
    check(
        &tester,
        &[
            ("SELECT * FROM t", "2, 1; 3, null"),
            ("UPDATE t SET y = 5 WHERE k = 1 IF EXISTS", "false"),
            ("ALTER TABLE t ADD x int", ""),
            ("SELECT k, x FROM t", "2, null; 3, null"),
            ("UPDATE t SET x = 7 WHERE k = 1", ""),
            ("SELECT k, x FROM t WHERE k = 1", "1, 7"),
        ],
    )
    .await;
}

#[tokio::test]
async fn an_index_of_the_partition_key_finds_partitions_without_rows() {
    let tester = with(&[
        "CREATE TABLE t (a int, b int, c int, s int static, v int, PRIMARY KEY ((a, b), c))",
        "CREATE INDEX ON t (b)",
        "INSERT INTO t (a, b, c, s, v) VALUES (1, 1, 1, 9, 1)",
        "INSERT INTO t (a, b, c, s, v) VALUES (1, 1, 2, 9, 2)",
        "INSERT INTO t (a, b, s) VALUES (2, 1, 9)",
        "INSERT INTO t (a, b, s) VALUES (2, 2, 9)",
    ])
    .await;
    check(
        &tester,
        &[
            (
                "SELECT * FROM t WHERE b = 1",
                "2, 1, null, 9, null; 1, 1, 1, 9, 1; 1, 1, 2, 9, 2",
            ),
            ("DELETE s FROM t WHERE a = 2 AND b = 1", ""),
            ("SELECT a, c FROM t WHERE b = 1", "1, 1; 1, 2"),
            ("DELETE FROM t WHERE a = 1 AND b = 1", ""),
            ("SELECT a, c FROM t WHERE b = 1", ""),
        ],
    )
    .await;
}

#[tokio::test]
async fn what_is_empty_or_not_given_has_its_own_rules() {
    let tester = with(&[
        "CREATE TABLE t (k int PRIMARY KEY, v varint, w int)",
        "INSERT INTO t (k, w) VALUES (1, 1)",
    ])
    .await;
    for text in [
        "CREATE TYPE \"\" (a int)",
        "CREATE TABLE \"\" (a int PRIMARY KEY)",
    ] {
        let words = tester.refused(text).await;
        assert!(words.contains("no viable alternative"), "{text}: {words}");
    }
    check(
        &tester,
        &[(
            "INSERT INTO t JSON '{\"k\": 1, \"v\": \"\"}'",
            "Error decoding JSON value for v: Value '' is not a valid representation of a varint \
             value",
        )],
    )
    .await;
    let update = "UPDATE t SET v = 1 WHERE k = 1 IF w IN (?, ?)";
    let one: &[u8] = &[0, 0, 0, 1];
    for (values, applied) in [
        ([Value::Bytes(one), Value::Unset], "true"),
        ([Value::Unset, Value::Unset], "false, 1"),
    ] {
        assert_eq!(bound(&tester, update, values.to_vec()).await, applied);
    }
    let filter = "SELECT k FROM t WHERE w = ? ALLOW FILTERING";
    assert_eq!(
        bound(&tester, filter, vec![Value::Unset]).await,
        "Unsupported unset value for column w"
    );
}
