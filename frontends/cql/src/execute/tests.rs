//! Statements in, rows out: what each part of the language does, over a store in memory.

use crate::testing::Tester;
use crate::types::to_literal;
use crate::wire::{ResultBody, Rows};

/// Rows as text: `1, 'a'; 2, null`.
pub(super) fn text(rows: &Rows) -> String {
    let columns = &rows.metadata.columns;
    let cells = rows.cells();
    let row = |cells: &[Option<Vec<u8>>]| {
        let cells = cells.iter().zip(columns.iter());
        let texts: Vec<String> = cells
            .map(|(cell, column)| match cell {
                None => "null".to_owned(),
                Some(value) => to_literal(&column.data_type, value).unwrap(),
            })
            .collect();
        texts.join(", ")
    };
    let rows: Vec<String> = cells.chunks(columns.len().max(1)).map(row).collect();
    rows.join("; ")
}

/// What a statement answers: its rows, nothing, or the words of a refusal.
pub(super) async fn ask(tester: &Tester, statement: &str) -> String {
    match tester.run(statement).await {
        Err(error) => error.message,
        Ok(given) => match given.body {
            ResultBody::Rows(rows) => text(&rows),
            _ => String::new(),
        },
    }
}

/// A keyspace `k` with what these statements make.
pub(super) async fn with(statements: &[&str]) -> Tester {
    Tester::new().await.in_keyspace(statements).await
}

/// Asks one statement after another.
pub(super) async fn check(tester: &Tester, cases: &[(&str, &str)]) {
    for (statement, expected) in cases {
        assert_eq!(ask(tester, statement).await, *expected, "{statement}");
    }
}

#[tokio::test]
async fn rows_are_written_and_read_by_key() {
    let tester = with(&["CREATE TABLE t (p int, c int, v text, PRIMARY KEY (p, c))"]).await;
    check(
        &tester,
        &[
            ("INSERT INTO t (p, c, v) VALUES (1, 2, 'a')", ""),
            ("INSERT INTO t (p, c, v) VALUES (1, 1, 'b')", ""),
            ("SELECT * FROM t WHERE p = 1 AND c = 2", "1, 2, 'a'"),
            ("SELECT * FROM t WHERE p = 1", "1, 1, 'b'; 1, 2, 'a'"),
            ("UPDATE t SET v = 'x' WHERE p = 1 AND c = 2", ""),
            ("SELECT v FROM t WHERE p = 1 AND c = 2", "'x'"),
            ("DELETE v FROM t WHERE p = 1 AND c = 2", ""),
            ("SELECT * FROM t WHERE p = 1", "1, 1, 'b'; 1, 2, null"),
            ("DELETE FROM t WHERE p = 1 AND c = 2", ""),
            ("SELECT * FROM t", "1, 1, 'b'"),
            ("UPDATE t SET v = 'u' WHERE p = 2 AND c = 1", ""),
            ("UPDATE t SET v = null WHERE p = 2 AND c = 1", ""),
            ("SELECT * FROM t WHERE p = 2", ""),
            ("DELETE FROM t WHERE p = 1", ""),
            ("SELECT * FROM t", ""),
        ],
    )
    .await;
}

/// Slices of three `a` by two `b`, of which `v` has the digits.
const SLICES: &[(&str, &str)] = &[
    ("SELECT v FROM t WHERE p = 0", "31; 32; 21; 22; 11; 12"),
    ("SELECT v FROM t WHERE p = 0 AND a > 1", "31; 32; 21; 22"),
    ("SELECT v FROM t WHERE p = 0 AND a >= 2 AND a < 3", "21; 22"),
    ("SELECT v FROM t WHERE p = 0 AND a = 2 AND b > 1", "22"),
    (
        "SELECT v FROM t WHERE p = 0 AND a IN (3, 1)",
        "31; 32; 11; 12",
    ),
    (
        "SELECT v FROM t WHERE p = 0 AND a IN (1, 3) AND b IN (2, 2, 1)",
        "31; 32; 11; 12",
    ),
    (
        "SELECT v FROM t WHERE p = 0 AND (a, b) > (2, 1)",
        "31; 32; 22",
    ),
    (
        "SELECT v FROM t WHERE p = 0 AND (a, b) <= (2, 1)",
        "21; 11; 12",
    ),
    (
        "SELECT v FROM t WHERE p = 0 AND (a, b) >= (1, 2) AND (a, b) < (3, 1)",
        "21; 22; 12",
    ),
    (
        "SELECT v FROM t WHERE p = 0 AND (a, b) IN ((3, 2), (1, 1))",
        "32; 11",
    ),
    ("SELECT v FROM t WHERE p = 0 AND (a, b) = (2, 2)", "22"),
    (
        "SELECT v FROM t WHERE p = 0 ORDER BY a ASC",
        "12; 11; 22; 21; 32; 31",
    ),
    (
        "SELECT v FROM t WHERE p = 0 AND a > 1 ORDER BY a ASC, b DESC",
        "22; 21; 32; 31",
    ),
    ("SELECT v FROM t WHERE p = 0 LIMIT 2", "31; 32"),
    (
        "SELECT v FROM t WHERE p = 0 AND b = 1 ALLOW FILTERING",
        "31; 21; 11",
    ),
    (
        "SELECT v FROM t WHERE p = 0 ORDER BY a ASC, b ASC",
        "Unsupported order by relation",
    ),
    (
        "SELECT v FROM t WHERE p = 0 AND b = 1",
        "PRIMARY KEY column \"b\" cannot be restricted as preceding column \"a\" is not \
                 restricted",
    ),
    (
        "SELECT v FROM t WHERE p = 0 AND a > 1 AND b = 1",
        "Clustering column \"b\" cannot be restricted (preceding column \"a\" is \
                 restricted by a non-EQ relation)",
    ),
    ("DELETE FROM t WHERE p = 0 AND a > 1 AND a < 3", ""),
    ("SELECT v FROM t WHERE p = 0", "31; 32; 11; 12"),
    ("DELETE FROM t WHERE p = 0 AND a = 3", ""),
    ("SELECT v FROM t WHERE p = 0", "11; 12"),
    ("DELETE FROM t WHERE p = 0 AND a = 1 AND b IN (1, 2)", ""),
    ("SELECT v FROM t WHERE p = 0", ""),
];

#[tokio::test]
async fn slices_follow_the_clustering_order() {
    let tester = with(&[
        "CREATE TABLE t (p int, a int, b int, v int, PRIMARY KEY (p, a, b)) \
         WITH CLUSTERING ORDER BY (a DESC, b ASC)",
    ])
    .await;
    for a in 1..=3 {
        for b in 1..=2 {
            let v = a * 10 + b;
            tester
                .ok(&[&format!(
                    "INSERT INTO t (p, a, b, v) VALUES (0, {a}, {b}, {v})"
                )])
                .await;
        }
    }
    check(&tester, SLICES).await;
}

#[tokio::test]
async fn partitions_come_in_the_order_of_tokens() {
    let tester = with(&["CREATE TABLE t (a text, b int, v int, PRIMARY KEY ((a, b)))"]).await;
    for n in 0..5 {
        tester
            .ok(&[&format!("INSERT INTO t (a, b, v) VALUES ('x', {n}, {n})")])
            .await;
    }
    let all = ask(&tester, "SELECT token(a, b), v FROM t").await;
    let mut tokens: Vec<(i64, String)> = all
        .split("; ")
        .map(|row| row.split_once(", ").unwrap())
        .map(|(token, v)| (token.parse().unwrap(), v.to_owned()))
        .collect();
    assert_eq!(tokens.len(), 5);
    assert!(tokens.is_sorted());
    let middle = tokens[2].0;
    let after = ask(
        &tester,
        &format!("SELECT v FROM t WHERE token(a, b) > {middle}"),
    )
    .await;
    assert_eq!(after, format!("{}; {}", tokens[3].1, tokens[4].1));
    let upto = ask(
        &tester,
        &format!("SELECT v FROM t WHERE token(a, b) <= {middle}"),
    )
    .await;
    assert_eq!(upto.split("; ").count(), 3);
    tokens.sort_by(|left, right| left.1.cmp(&right.1));
    check(
        &tester,
        &[
            ("SELECT v FROM t WHERE a = 'x' AND b IN (3, 1)", "1; 3"),
            ("SELECT v FROM t WHERE token(a, b) = token('x', 4)", "4"),
            ("SELECT v FROM t WHERE a = 'x' AND b = 2", "2"),
            (
                "SELECT v FROM t WHERE token(a) > 1",
                "The token() function must be applied to all partition key components or none of \
                 them",
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn static_columns_are_shared() {
    let tester =
        with(&["CREATE TABLE t (p int, c int, s text static, v int, PRIMARY KEY (p, c))"]).await;
    check(
        &tester,
        &[
            ("INSERT INTO t (p, s) VALUES (1, 'one')", ""),
            ("SELECT * FROM t", "1, null, 'one', null"),
            ("INSERT INTO t (p, c, v) VALUES (1, 1, 11)", ""),
            ("INSERT INTO t (p, c, s, v) VALUES (1, 2, 'two', 12)", ""),
            ("SELECT * FROM t", "1, 1, 'two', 11; 1, 2, 'two', 12"),
            ("SELECT DISTINCT p, s FROM t", "1, 'two'"),
            ("UPDATE t SET s = 'three' WHERE p = 1", ""),
            ("SELECT s FROM t WHERE p = 1 AND c = 1", "'three'"),
            (
                "UPDATE t SET s = 'x' WHERE p = 1 AND c = 1",
                "Invalid restrictions on clustering columns since the UPDATE statement modifies \
                 only static columns",
            ),
            ("DELETE s FROM t WHERE p = 1", ""),
            ("SELECT * FROM t", "1, 1, null, 11; 1, 2, null, 12"),
        ],
    )
    .await;
}

#[tokio::test]
async fn collections_change_element_by_element() {
    let tester = with(&[
        "CREATE TYPE u (a int, b text)",
        "CREATE TABLE t (k int PRIMARY KEY, l list<int>, s set<text>, m map<text, int>, n u, \
         f frozen<list<int>>)",
        "INSERT INTO t (k, l, s, m, n, f) VALUES (1, [1, 2], {'b', 'a'}, {'x': 1}, \
         {a: 1, b: 'z'}, [9])",
    ])
    .await;
    check(
        &tester,
        &[
            (
                "SELECT * FROM t",
                "1, [9], [1, 2], {'x': 1}, {a: 1, b: 'z'}, {'a', 'b'}",
            ),
            (
                "UPDATE t SET l = l + [3], l2 = 1 WHERE k = 1",
                "Undefined column name l2 in table k.t",
            ),
            ("UPDATE t SET l = l + [3] WHERE k = 1", ""),
            ("UPDATE t SET l = [0, 7] + l WHERE k = 1", ""),
            ("SELECT l FROM t", "[0, 7, 1, 2, 3]"),
            ("UPDATE t SET l[1] = 8 WHERE k = 1", ""),
            ("UPDATE t SET l = l - [2, 3] WHERE k = 1", ""),
            ("DELETE l[0] FROM t WHERE k = 1", ""),
            ("SELECT l FROM t", "[8, 1]"),
            (
                "UPDATE t SET l[5] = 8 WHERE k = 1",
                "List index 5 out of bound, list has size 2",
            ),
            (
                "UPDATE t SET s = s + {'c'}, m = m + {'y': 2}, n.b = 'w' WHERE k = 1",
                "",
            ),
            (
                "SELECT s, m, n FROM t",
                "{'a', 'b', 'c'}, {'x': 1, 'y': 2}, {a: 1, b: 'w'}",
            ),
            ("UPDATE t SET s = s - {'a'}, m = m - {'x'} WHERE k = 1", ""),
            ("UPDATE t SET m['z'] = 3 WHERE k = 1", ""),
            ("DELETE m['y'], n.a FROM t WHERE k = 1", ""),
            (
                "SELECT s, m, n FROM t",
                "{'b', 'c'}, {'z': 3}, {a: null, b: 'w'}",
            ),
            ("SELECT m['z'], n.b, s['b'] FROM t", "3, 'w', 'b'"),
            ("UPDATE t SET s = {} WHERE k = 1", ""),
            ("SELECT s FROM t", "null"),
            (
                "UPDATE t SET f = f + [1] WHERE k = 1",
                "Invalid operation (f = f + [1]) for frozen collection column f",
            ),
            ("SELECT k FROM t WHERE l CONTAINS 8 ALLOW FILTERING", "1"),
            (
                "SELECT k FROM t WHERE m CONTAINS KEY 'z' AND m CONTAINS 3 ALLOW FILTERING",
                "1",
            ),
            ("SELECT k FROM t WHERE m['z'] = 4 ALLOW FILTERING", ""),
            ("SELECT k FROM t WHERE f = [9] ALLOW FILTERING", "1"),
        ],
    )
    .await;
}

#[tokio::test]
async fn counters_count() {
    let tester = with(&["CREATE TABLE t (k int PRIMARY KEY, a counter, b counter)"]).await;
    check(
        &tester,
        &[
            ("UPDATE t SET a = a + 5, b = b - 2 WHERE k = 1", ""),
            ("UPDATE t SET a += 1 WHERE k = 1", ""),
            ("SELECT * FROM t", "1, 6, -2"),
            (
                "INSERT INTO t (k, a) VALUES (1, 1)",
                "INSERT statements are not allowed on counter tables, use UPDATE instead",
            ),
            (
                "UPDATE t SET a = 5 WHERE k = 1",
                "Cannot set the value of counter column a (counters can only be \
                 incremented/decremented, not set)",
            ),
            (
                "UPDATE t USING TTL 5 SET a = a + 1 WHERE k = 1",
                "Cannot provide custom TTL for counter updates",
            ),
            (
                "BEGIN COUNTER BATCH UPDATE t SET a = a + 1 WHERE k = 1; \
                 UPDATE t SET a = a + 1 WHERE k = 1; APPLY BATCH",
                "",
            ),
            ("SELECT a FROM t WHERE k = 1", "8"),
            ("DELETE a FROM t WHERE k = 1", ""),
            ("SELECT * FROM t", "1, null, -2"),
        ],
    )
    .await;
}
