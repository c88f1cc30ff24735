//! More statements in, rows out: times, conditions, groups, indexes and views.

use super::tests::{check, with};

#[tokio::test]
async fn the_newest_write_wins() {
    let tester = with(&["CREATE TABLE t (p int, c int, v text, PRIMARY KEY (p, c))"]).await;
    check(
        &tester,
        &[
            (
                "INSERT INTO t (p, c, v) VALUES (1, 1, 'b') USING TIMESTAMP 20",
                "",
            ),
            (
                "INSERT INTO t (p, c, v) VALUES (1, 1, 'a') USING TIMESTAMP 10",
                "",
            ),
            ("SELECT v, writetime(v) FROM t", "'b', 20"),
            ("DELETE FROM t USING TIMESTAMP 15 WHERE p = 1", ""),
            ("SELECT v FROM t", "'b'"),
            ("DELETE FROM t USING TIMESTAMP 25 WHERE p = 1", ""),
            ("SELECT v FROM t", ""),
            (
                "INSERT INTO t (p, c, v) VALUES (1, 2, 'late') USING TIMESTAMP 24",
                "",
            ),
            ("SELECT v FROM t", ""),
            (
                "INSERT INTO t (p, c, v) VALUES (1, 2, 'new') USING TIMESTAMP 26",
                "",
            ),
            ("SELECT v FROM t", "'new'"),
            (
                "DELETE FROM t USING TIMESTAMP 30 WHERE p = 1 AND c >= 2",
                "",
            ),
            (
                "INSERT INTO t (p, c, v) VALUES (1, 3, 'x') USING TIMESTAMP 29",
                "",
            ),
            ("SELECT v FROM t", ""),
            (
                "INSERT INTO t (p, c, v) VALUES (1, 1, 'y') USING TIMESTAMP 29",
                "",
            ),
            ("SELECT c, v FROM t", "1, 'y'"),
            (
                "INSERT INTO t (p, c, v) VALUES (2, 1, 'z') USING TTL 100",
                "",
            ),
            ("SELECT ttl(v) FROM t WHERE p = 2", "100"),
            (
                "INSERT INTO t (p, c) VALUES (2, 1) USING TTL -1",
                "A TTL must be greater or equal to 0, but was -1",
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn conditions_decide() {
    let tester =
        with(&["CREATE TABLE t (p int, c int, s int static, v int, PRIMARY KEY (p, c))"]).await;
    check(
        &tester,
        &[
            (
                "INSERT INTO t (p, c, v) VALUES (1, 1, 5) IF NOT EXISTS",
                "true",
            ),
            (
                "INSERT INTO t (p, c, v) VALUES (1, 1, 6) IF NOT EXISTS",
                "false, 1, 1, null, 5",
            ),
            (
                "UPDATE t SET v = 7 WHERE p = 1 AND c = 1 IF v = 6",
                "false, 5",
            ),
            (
                "UPDATE t SET v = 7 WHERE p = 1 AND c = 1 IF v IN (4, 5)",
                "true",
            ),
            (
                "UPDATE t SET v = 8 WHERE p = 1 AND c = 1 IF v > 6 AND s = null",
                "true",
            ),
            (
                "UPDATE t SET v = 1 WHERE p = 1 AND c = 9 IF EXISTS",
                "false",
            ),
            ("UPDATE t SET v = 1 WHERE p = 1 AND c = 9 IF v = 3", "false"),
            ("UPDATE t SET v = 1 WHERE p = 1 AND c = 9 IF v != 3", "true"),
            ("DELETE FROM t WHERE p = 1 AND c = 9 IF EXISTS", "true"),
            (
                "BEGIN BATCH UPDATE t SET v = 9 WHERE p = 1 AND c = 1 IF v = 8; \
                 INSERT INTO t (p, c, v) VALUES (1, 2, 2); APPLY BATCH",
                "true",
            ),
            ("SELECT c, v FROM t", "1, 9; 2, 2"),
            (
                "BEGIN BATCH INSERT INTO t (p, c) VALUES (1, 3); \
                 UPDATE t SET v = 0 WHERE p = 1 AND c = 2 IF v = 8; APPLY BATCH",
                "false, 1, 2, 2",
            ),
            ("SELECT c FROM t", "1; 2"),
            (
                "BEGIN BATCH INSERT INTO t (p, c) VALUES (1, 3) IF NOT EXISTS; \
                 INSERT INTO t (p, c) VALUES (2, 3); APPLY BATCH",
                "Batch with conditions cannot span multiple partitions",
            ),
            ("BEGIN BATCH APPLY BATCH", ""),
            (
                "UPDATE t USING TIMESTAMP 5 SET v = 1 WHERE p = 1 AND c = 1 IF EXISTS",
                "Cannot provide custom timestamp for conditional updates",
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn rows_are_grouped_and_aggregated() {
    let tester =
        with(&["CREATE TABLE t (p int, a int, b int, v int, PRIMARY KEY (p, a, b))"]).await;
    for (a, b) in [(1, 1), (1, 2), (2, 1), (2, 2), (2, 3)] {
        tester
            .ok(&[&format!(
                "INSERT INTO t (p, a, b, v) VALUES (1, {a}, {b}, {})",
                a * b
            )])
            .await;
    }
    check(
        &tester,
        &[
            ("SELECT count(*) FROM t", "5"),
            (
                "SELECT count(*), sum(v), avg(v), min(v), max(v) FROM t",
                "5, 15, 3, 1, 6",
            ),
            (
                "SELECT a, count(*), max(v) FROM t GROUP BY p, a",
                "1, 2, 2; 2, 3, 6",
            ),
            (
                "SELECT a, sum(v) + 1 FROM t WHERE p = 1 GROUP BY a LIMIT 1",
                "1, 4",
            ),
            ("SELECT count(v) FROM t WHERE p = 2", "0"),
            ("SELECT a, b FROM t GROUP BY p, a", "1, 1; 2, 1"),
            ("SELECT a FROM t PER PARTITION LIMIT 2", "1; 1"),
            (
                "SELECT v * 2 + a, -v, cast(v AS text) FROM t WHERE p = 1 AND a = 1 AND b = 2",
                "5, -2, '2'",
            ),
            (
                "SELECT JSON a, v AS \"V\" FROM t WHERE p = 1 AND a = 1 AND b = 1",
                "'{\"a\": 1, \"\\\"V\\\"\": 1}'",
            ),
            (
                "SELECT v FROM t GROUP BY v",
                "Group by is currently only supported on the columns of the PRIMARY KEY, got v",
            ),
            (
                "INSERT INTO t JSON '{\"p\": 3, \"a\": 1, \"b\": 1, \"v\": 7}'",
                "",
            ),
            ("SELECT v FROM t WHERE p = 3", "7"),
            (
                "SELECT v FROM t WHERE p IN (3, 1) ORDER BY a DESC LIMIT 2",
                "6; 4",
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn indexes_find_rows() {
    let tester = with(&[
        "CREATE TABLE t (p int, c int, s int static, v text, m map<text, int>, PRIMARY KEY (p, c))",
        "CREATE INDEX ON t (v)",
        "CREATE INDEX ON t (c)",
        "CREATE INDEX ON t (s)",
        "CREATE INDEX ON t (values(m))",
        "CREATE INDEX by_entry ON t (entries(m))",
    ])
    .await;
    check(
        &tester,
        &[
            (
                "INSERT INTO t (p, c, s, v, m) VALUES (1, 1, 7, 'a', {'x': 1})",
                "",
            ),
            (
                "INSERT INTO t (p, c, v, m) VALUES (1, 2, 'b', {'x': 2})",
                "",
            ),
            ("INSERT INTO t (p, c, s, v) VALUES (2, 1, 8, 'a')", ""),
            ("SELECT p FROM t WHERE v = 'b'", "1"),
            ("SELECT p, c FROM t WHERE v = 'a'", "1, 1; 2, 1"),
            ("SELECT p FROM t WHERE c = 2", "1"),
            ("SELECT p, c FROM t WHERE s = 7", "1, 1; 1, 2"),
            ("SELECT c FROM t WHERE m CONTAINS 2", "2"),
            ("SELECT c FROM t WHERE m['x'] = 1", "1"),
            ("SELECT c FROM t WHERE p = 1 AND v = 'b'", "2"),
            ("UPDATE t SET v = 'c' WHERE p = 1 AND c = 1", ""),
            ("SELECT p FROM t WHERE v = 'a'", "2"),
            (
                "SELECT p FROM t WHERE v = 'a' AND c = 1 ALLOW FILTERING",
                "2",
            ),
            ("DELETE FROM t WHERE p = 2", ""),
            ("SELECT p FROM t WHERE v = 'a'", ""),
            (
                "SELECT p FROM t WHERE v > 'a'",
                crate::plan::NEEDS_FILTERING,
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn views_follow_their_table() {
    let tester = with(&[
        "CREATE TABLE t (p int, c int, v text, w int, PRIMARY KEY (p, c))",
        "CREATE MATERIALIZED VIEW m AS SELECT * FROM t WHERE v IS NOT NULL AND p IS NOT NULL AND \
         c IS NOT NULL PRIMARY KEY (v, p, c)",
    ])
    .await;
    check(
        &tester,
        &[
            ("INSERT INTO t (p, c, v, w) VALUES (1, 1, 'a', 5)", ""),
            ("INSERT INTO t (p, c, w) VALUES (1, 2, 6)", ""),
            ("SELECT * FROM m", "'a', 1, 1, 5"),
            ("UPDATE t SET v = 'b' WHERE p = 1 AND c = 1", ""),
            ("SELECT * FROM m", "'b', 1, 1, 5"),
            ("SELECT w FROM m WHERE v = 'a'", ""),
            ("UPDATE t SET w = 9 WHERE p = 1 AND c = 1", ""),
            ("SELECT w FROM m WHERE v = 'b'", "9"),
            ("UPDATE t SET v = 'b' WHERE p = 1 AND c = 2", ""),
            ("SELECT c FROM m WHERE v = 'b'", "1; 2"),
            ("DELETE v FROM t WHERE p = 1 AND c = 2", ""),
            ("SELECT c FROM m WHERE v = 'b'", "1"),
            ("DELETE FROM t WHERE p = 1", ""),
            ("SELECT * FROM m", ""),
            (
                "INSERT INTO m (v, p, c) VALUES ('a', 1, 1)",
                "Cannot directly modify a materialized view",
            ),
        ],
    )
    .await;
}
