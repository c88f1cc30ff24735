//! Statements in, rows out: where the public suite found this server to differ from Cassandra.

use super::tests::{check, with};

#[tokio::test]
async fn limits_count_sorted_rows() {
    let tester = with(&[
        "CREATE TABLE t (p int, c int, PRIMARY KEY (p, c))",
        "INSERT INTO t (p, c) VALUES (1, 3)",
        "INSERT INTO t (p, c) VALUES (1, 4)",
        "INSERT INTO t (p, c) VALUES (2, 1)",
        "INSERT INTO t (p, c) VALUES (2, 2)",
    ])
    .await;
    check(
        &tester,
        &[
            (
                "SELECT c FROM t WHERE p IN (1, 2) ORDER BY c LIMIT 3",
                "1; 2; 3",
            ),
            (
                "SELECT c FROM t WHERE p IN (1, 2) ORDER BY c DESC PER PARTITION LIMIT 1",
                "4; 2",
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn bounds_of_one_and_of_several_columns_meet() {
    let tester = with(&[
        "CREATE TABLE t (p int, a int, b int, PRIMARY KEY (p, a, b))",
        "INSERT INTO t (p, a, b) VALUES (1, 1, 3)",
        "INSERT INTO t (p, a, b) VALUES (1, 2, 0)",
    ])
    .await;
    check(
        &tester,
        &[
            (
                "SELECT a, b FROM t WHERE p = 1 AND (a, b) > (1, 2) AND a < 2",
                "1, 3",
            ),
            (
                "SELECT a FROM t WHERE p = 1 AND (a) < (2) AND (a, b) < (2, 1)",
                "More than one restriction was found for the end bound on a",
            ),
            (
                "SELECT a FROM t WHERE p = 1 AND (a, b) > (1, 1) AND b < 2",
                "Column \"b\" cannot be restricted by two inequalities not starting with the same \
                 column",
            ),
            (
                "SELECT a FROM t WHERE p = 1 AND (a, b) IN ((1, 2, 3))",
                "Invalid list literal for in(a,b): value (1, 2, 3) is not of type \
                 frozen<tuple<int, int>>",
            ),
            ("SELECT a, b FROM t WHERE p = 1 AND (a) = (2)", "2, 0"),
            (
                "SELECT p FROM t WHERE token(p, p) = 0",
                "The token() function contains duplicate partition key components",
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn an_index_heeds_tokens() {
    let tester = with(&[
        "CREATE TABLE t (p int PRIMARY KEY, v int)",
        "CREATE INDEX ON t (v)",
        "INSERT INTO t (p, v) VALUES (1, 7)",
        "INSERT INTO t (p, v) VALUES (2, 7)",
    ])
    .await;
    check(
        &tester,
        &[
            ("SELECT p FROM t WHERE v = 7", "1; 2"),
            (
                "SELECT p FROM t WHERE v = 7 AND token(p) > -4069959284402364209",
                "2",
            ),
            (
                "SELECT p FROM t WHERE v = 7 AND token(p) <= -4069959284402364209",
                "1",
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn keys_of_user_types_outlive_new_fields() {
    let tester = with(&[
        "CREATE TYPE u (a text)",
        "CREATE TABLE t (p int, c frozen<u>, v int, PRIMARY KEY (p, c))",
        "INSERT INTO t (p, c, v) VALUES (0, {a: 'x'}, 0)",
        "ALTER TYPE u ADD b text",
        "INSERT INTO t (p, c, v) VALUES (0, {a: 'x'}, 1)",
        "INSERT INTO t (p, c, v) VALUES (0, {a: 'x', b: 'y'}, 2)",
    ])
    .await;
    check(
        &tester,
        &[
            ("SELECT v FROM t WHERE p = 0", "1; 2"),
            ("SELECT v FROM t WHERE p = 0 AND c = {a: 'x', b: null}", "1"),
        ],
    )
    .await;
}

#[tokio::test]
async fn collections_are_as_large_and_as_often_changed_as_one_likes() {
    let long = "x".repeat(66_000);
    let tester = with(&[
        "CREATE TABLE t (p int PRIMARY KEY, l list<int>, m map<text, int>, \
         f frozen<map<text, int>>)",
        &format!("UPDATE t SET m['{long}'] = 1, m['a'] = 2 WHERE p = 1"),
        "UPDATE t USING TIMESTAMP 5 SET l = l + [1] WHERE p = 1",
        "UPDATE t USING TIMESTAMP 5 SET l = l + [1] WHERE p = 1",
        "UPDATE t SET m = m + {'b': 3}, m = m - {'a'}, f = {'a': 1} WHERE p = 1",
    ])
    .await;
    check(
        &tester,
        &[
            ("SELECT l FROM t", "[1, 1]"),
            ("SELECT m['b'], m['a'] FROM t", "3, null"),
            ("SELECT m['c'..'d'], f['c'..'d'] FROM t", "null, {}"),
            (
                "UPDATE t SET l = [1], l = l + [2] WHERE p = 1",
                "Multiple incompatible setting of column l",
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn operations_and_functions_fail_in_words() {
    let tester = with(&[
        "CREATE TABLE t (p int PRIMARY KEY, b boolean, d decimal, i bigint)",
        "INSERT INTO t (p, b, d, i) VALUES (1, true, 1, 2)",
    ])
    .await;
    check(
        &tester,
        &[
            (
                "SELECT p / 0 FROM t",
                "the operation 'int / int' failed: / by zero",
            ),
            (
                "SELECT d + NaN FROM t",
                "the operation 'decimal + double' failed: A NaN cannot be converted into a \
                 decimal",
            ),
            (
                "SELECT p + b FROM t",
                "the '+' operation is not supported between p and b",
            ),
            ("SELECT (int) -1 FROM t", "-1"),
            (
                "UPDATE t SET p2 = 1 WHERE p = sum((int) 4)",
                "Undefined column name p2 in table k.t",
            ),
            (
                "SELECT * FROM t WHERE p = sum((int) 4)",
                "Aggregation function are not supported in the where clause",
            ),
            (
                "SELECT blobasint(bigintasblob(i)) FROM t",
                "In call to function system.blobasint, value 0x0000000000000002 is not a valid \
                 binary representation for type int",
            ),
            (
                "INSERT INTO t (p) VALUES (fromJson('dog'))",
                "execution of 'system.from_json[text]' failed: Could not decode JSON string 'dog'",
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn keys_have_their_length() {
    let tester = with(&["CREATE TABLE t (p int, a text, b text, PRIMARY KEY (p, a, b))"]).await;
    let half = "x".repeat(32_768);
    let insert = format!("INSERT INTO t (p, a, b) VALUES (1, '{half}', '{half}')");
    check(
        &tester,
        &[(
            &insert,
            "Key length of 65536 is longer than maximum of 65535",
        )],
    )
    .await;
}

#[tokio::test]
async fn views_take_after_their_tables() {
    let tester = with(&[
        "CREATE TABLE t (p int, c int, v text, PRIMARY KEY (p, c)) \
         WITH CLUSTERING ORDER BY (c DESC)",
        "CREATE MATERIALIZED VIEW w AS SELECT * FROM t WHERE p IS NOT NULL AND c IS NOT NULL AND \
         v IS NOT NULL PRIMARY KEY (v, c, p)",
        "INSERT INTO t (p, c, v) VALUES (1, 1, '')",
        "INSERT INTO t (p, c, v) VALUES (1, 2, '')",
    ])
    .await;
    check(
        &tester,
        &[
            ("SELECT c FROM w", "2; 1"),
            (
                "SELECT view_name, status FROM system_distributed.view_build_status",
                "'w', 'SUCCESS'",
            ),
            (
                "CREATE MATERIALIZED VIEW x AS SELECT * FROM t WHERE p = ? AND c IS NOT NULL \
                 PRIMARY KEY (p, c)",
                "Bind variables are not allowed in CREATE MATERIALIZED VIEW statements",
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn a_row_by_its_whole_key_is_one_read() {
    let tester = with(&[
        "CREATE TABLE single (p int PRIMARY KEY, v int)",
        "CREATE TABLE many (p int, c int, s int static, v int, PRIMARY KEY (p, c))",
        "INSERT INTO single (p, v) VALUES (1, 1)",
        "INSERT INTO many (p, c, s, v) VALUES (1, 1, 1, 1)",
    ])
    .await;
    for query in [
        "SELECT v FROM single WHERE p = 1",
        "SELECT v FROM single WHERE p = 2",
        "SELECT s, v FROM many WHERE p = 1 AND c = 1",
        "SELECT s, v FROM many WHERE p = 2 AND c = 1",
    ] {
        let charge = tester.run(query).await.unwrap().charge;
        assert!((charge.request_units() - 1.0).abs() < 0.001, "{query}");
    }
}

#[tokio::test]
async fn groups_of_several_partitions_are_sorted() {
    let tester = with(&[
        "CREATE TABLE t (p int, c int, PRIMARY KEY (p, c))",
        "INSERT INTO t (p, c) VALUES (1, 1)",
        "INSERT INTO t (p, c) VALUES (1, 4)",
        "INSERT INTO t (p, c) VALUES (2, 3)",
    ])
    .await;
    check(
        &tester,
        &[
            (
                "SELECT p, c, count(*) FROM t WHERE p IN (1, 2) GROUP BY p, c ORDER BY c DESC",
                "1, 4, 1; 2, 3, 1; 1, 1, 1",
            ),
            (
                "SELECT c FROM t WHERE p IN (1, 2) GROUP BY p, c ORDER BY c DESC LIMIT 2",
                "4; 3",
            ),
        ],
    )
    .await;
}
