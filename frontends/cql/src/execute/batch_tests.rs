//! Batches: how large they may be, and what conditional ones answer.

use super::tests::{check, with};
use crate::service::CqlConfig;
use crate::testing::Tester;

const TABLES: &[&str] = &[
    "CREATE TABLE t (p int, c int, s int static, v text, PRIMARY KEY (p, c))",
    "CREATE TABLE u (p int PRIMARY KEY, n counter)",
    "CREATE TABLE g (p int PRIMARY KEY, v text) WITH gc_grace_seconds = 0",
];

fn batch(kind: &str, statements: impl Iterator<Item = String>) -> String {
    let statements: Vec<String> = statements.collect();
    format!("BEGIN {kind} BATCH {} APPLY BATCH", statements.join("; "))
}

fn insert(p: usize, length: usize) -> String {
    let v = "x".repeat(length);
    format!("INSERT INTO t (p, c, v) VALUES ({p}, 1, '{v}')")
}

async fn warnings(tester: &Tester, statement: &str) -> Vec<String> {
    tester.ok(&[statement]).await.warnings
}

#[tokio::test]
async fn batches_of_several_partitions_have_a_size() {
    let tester = with(TABLES).await;
    // A row is 21 bytes and 4 of its key, its cell 20 and the text; 29 are of the partition.
    let of = |length: usize| batch("", (0..2).map(move |p| insert(p, length)));
    let fits = (5 * 1_024 - 2 * 74) / 2;
    assert_eq!(warnings(&tester, &of(fits)).await, [""; 0]);
    assert_eq!(
        warnings(&tester, &of(fits + 1)).await,
        ["Batch for [k.t] is of size 5122, exceeding specified threshold of 5120 by 2."]
    );
    assert_eq!(tester.refused(&of(26_000)).await, "Batch too large");
    check(&tester, &[("SELECT p, c FROM t", "1, 1; 0, 1")]).await;
    // One partition is one write, however large.
    let one = batch("", (0..2).map(|_| insert(7, 40_000)));
    assert_eq!(warnings(&tester, &one).await, [""; 0]);
    let apart = batch("UNLOGGED", (0..2).map(|p| insert(p, 26_000)));
    assert_eq!(tester.refused(&apart).await, "Batch too large");
}

#[tokio::test]
async fn the_sizes_can_be_set() {
    let mut config = CqlConfig::default();
    config.batches.warned_bytes = 0;
    config.batches.refused_bytes = 1_000;
    config.batches.warned_partitions = 1;
    let tester = Tester::with(config).await.in_keyspace(TABLES).await;
    let small = batch("UNLOGGED", (0..2).map(|p| insert(p, 1)));
    assert_eq!(
        warnings(&tester, &small).await,
        [
            "Batch for [k.t] is of size 150, exceeding specified threshold of 0 by 150.",
            "Unlogged batch covering 2 partitions detected against table [k.t]. You should use a \
             logged batch for atomicity, or asynchronous writes for performance.",
        ]
    );
    let large = batch("", (0..2).map(|p| insert(p, 500)));
    assert_eq!(tester.refused(&large).await, "Batch too large");
}

#[tokio::test]
async fn batches_of_many_partitions_are_warned_of() {
    let tester = with(TABLES).await;
    let of = |kind, count| batch(kind, (0..count).map(|p| insert(p, 1)));
    for (kind, count) in [("UNLOGGED", 10), ("", 11)] {
        assert_eq!(warnings(&tester, &of(kind, count)).await, [""; 0]);
    }
    let words = |tables: &str| {
        format!(
            "Unlogged batch covering 11 partitions detected against table{tables}. You should use \
             a logged batch for atomicity, or asynchronous writes for performance."
        )
    };
    assert_eq!(
        warnings(&tester, &of("UNLOGGED", 11)).await,
        [words(" [k.t]")]
    );
    let counts = (0..11).map(|p| format!("UPDATE u SET n = n + 1 WHERE p = {p}"));
    let counts = batch("COUNTER", counts);
    assert_eq!(warnings(&tester, &counts).await, [words(" [k.u]")]);
    let two = (0..11).map(|p| match p {
        0 => "INSERT INTO g (p) VALUES (0)".to_owned(),
        p => insert(p, 1),
    });
    let two = batch("UNLOGGED", two);
    assert_eq!(warnings(&tester, &two).await, [words("s [k.g, k.t]")]);
    let forgetful = warnings(&tester, "BEGIN BATCH DELETE FROM g WHERE p = 1 APPLY BATCH").await;
    assert_eq!(forgetful.len(), 1);
    assert!(forgetful[0].starts_with(
        "Executing a LOGGED BATCH on table [k.g], configured with a gc_grace_seconds of 0."
    ));
}

#[tokio::test]
async fn conditional_batches_answer_each_row_once_and_in_order() {
    let tester = with(TABLES).await;
    check(
        &tester,
        &[
            ("INSERT INTO t (p, c, s, v) VALUES (1, 2, 7, 'b')", ""),
            ("INSERT INTO t (p, c, v) VALUES (1, 1, 'a')", ""),
            // Conditions on a static and on regular columns, of which one is not met.
            (
                "BEGIN BATCH UPDATE t SET v = 'x' WHERE p = 1 AND c = 2 IF v = 'b'; \
                 UPDATE t SET v = 'y' WHERE p = 1 AND c = 1 IF v = 'z'; \
                 UPDATE t SET s = 8 WHERE p = 1 IF s = 7 APPLY BATCH",
                "false, 1, 1, 'a', 7; false, 1, 2, 'b', 7",
            ),
            (
                "BEGIN BATCH UPDATE t SET v = 'x' WHERE p = 1 AND c = 2 IF v = 'b' AND s = 7; \
                 UPDATE t SET v = 'y' WHERE p = 1 AND c = 1 IF v = 'a'; \
                 UPDATE t SET s = 8 WHERE p = 1 IF s = 7 APPLY BATCH",
                "true",
            ),
            ("SELECT c, s, v FROM t", "1, 8, 'y'; 2, 8, 'x'"),
            // One row is one, however often it is asked about; one statement tells which it is.
            (
                "BEGIN BATCH UPDATE t SET v = 'a' WHERE p = 1 AND c = 2 IF v = 'x'; \
                 DELETE v FROM t WHERE p = 1 AND c = 2 IF v = 'n' APPLY BATCH",
                "false, 1, 2, 'x'",
            ),
            (
                "BEGIN BATCH UPDATE t SET v = 'a' WHERE p = 1 AND c = 2 IF v = 'n' APPLY BATCH",
                "false, 1, 2, 'x'",
            ),
            (
                "UPDATE t SET v = 'a' WHERE p = 1 AND c = 2 IF v = 'n'",
                "false, 'x'",
            ),
            // Of the partition alone the first row tells.
            (
                "BEGIN BATCH UPDATE t SET s = 9 WHERE p = 1 IF s = 7; \
                 INSERT INTO t (p, c) VALUES (1, 5) APPLY BATCH",
                "false, 1, 1, 8",
            ),
            // What is not there has no row; its static columns were not asked about.
            (
                "UPDATE t SET v = 'a' WHERE p = 1 AND c = 9 IF v = 'n'",
                "false",
            ),
            (
                "UPDATE t SET v = 'a' WHERE p = 1 AND c = 9 IF s = 1",
                "false, 8",
            ),
            (
                "BEGIN BATCH INSERT INTO t (p, c, v) VALUES (1, 5, 'c') IF NOT EXISTS; \
                 UPDATE t SET v = 'q' WHERE p = 1 AND c = 1 IF v = 'n' APPLY BATCH",
                "false, 1, 1, null, 'y'",
            ),
            (
                "INSERT INTO t (p, c) VALUES (1, 1) IF NOT EXISTS",
                "false, 1, 1, null, 'y'",
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn conditions_that_cannot_be_together_are_refused() {
    let tester = with(TABLES).await;
    let of = |left: &str, right: &str| format!("BEGIN BATCH {left}; {right} APPLY BATCH");
    let insert = "INSERT INTO t (p, c) VALUES (1, 1) IF NOT EXISTS";
    let exists = "UPDATE t SET v = 'a' WHERE p = 1 AND c = 1 IF EXISTS";
    let column = "UPDATE t SET v = 'a' WHERE p = 1 AND c = 1 IF v = 'b'";
    let elsewhere = "INSERT INTO t (p, c) VALUES (2, 1)";
    for (left, right, expected) in [
        (
            insert,
            exists,
            "Cannot mix IF EXISTS and IF NOT EXISTS conditions for the same row",
        ),
        (
            column,
            exists,
            "Cannot mix IF conditions and IF EXISTS for the same row",
        ),
        (
            column,
            insert,
            "Cannot mix IF conditions and IF NOT EXISTS for the same row",
        ),
        (
            insert,
            column,
            "Cannot mix IF conditions and IF NOT EXISTS for the same row",
        ),
        (
            insert,
            elsewhere,
            "Batch with conditions cannot span multiple partitions",
        ),
    ] {
        assert_eq!(tester.refused(&of(left, right)).await, expected);
    }
    let twice = of(
        insert,
        "INSERT INTO t (p, c, v) VALUES (1, 1, 'a') IF NOT EXISTS",
    );
    check(&tester, &[(&twice, "true"), ("SELECT v FROM t", "'a'")]).await;
}

#[tokio::test]
async fn lists_change_several_times_in_one_statement() {
    let tester = with(&["CREATE TABLE l (p int PRIMARY KEY, l list<int>)"]).await;
    check(
        &tester,
        &[
            (
                "UPDATE l SET l = l + [4, 5], l = l + [6], l = l + [7, 8] WHERE p = 1",
                "",
            ),
            ("SELECT l FROM l", "[4, 5, 6, 7, 8]"),
            (
                "UPDATE l SET l = [2, 3] + l, l = [0, 1] + l, l = l + [9] WHERE p = 1",
                "",
            ),
            ("SELECT l FROM l", "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]"),
            // Each change is made of what those before it have left.
            (
                "UPDATE l SET l[0] = 10, l = l - [1, 2], l = [11] + l, l[9] = 12 WHERE p = 1",
                "List index 9 out of bound, list has size 9",
            ),
            (
                "UPDATE l SET l[0] = 10, l = l - [1, 2], l = [11] + l, l[8] = 12 WHERE p = 1",
                "",
            ),
            ("SELECT l FROM l", "[11, 10, 3, 4, 5, 6, 7, 8, 12]"),
            (
                "UPDATE l SET l[null] = 1 WHERE p = 1",
                "Invalid null value for list index",
            ),
            (
                "BEGIN BATCH UPDATE l SET l = l + [1], l = l + [2] WHERE p = 2; \
                 UPDATE l SET l = l + [3], l = [0] + l WHERE p = 2 APPLY BATCH",
                "",
            ),
            ("SELECT l FROM l WHERE p = 2", "[0, 1, 2, 3]"),
        ],
    )
    .await;
}

#[tokio::test]
async fn values_that_are_too_long_for_keys_and_indexes_are_refused() {
    let tester = with(&[
        "CREATE TABLE a (p text, c text, v text, m map<text, text>, x text, PRIMARY KEY (p, c))",
        "CREATE INDEX av ON a (v)",
        "CREATE INDEX am ON a (keys(m))",
        "CREATE INDEX ac ON a (c)",
    ])
    .await;
    let long = |length: usize| format!("'{}'", "x".repeat(length));
    let key = "Key length of 65536 is longer than maximum of 65535";
    let cannot = |index: &str, column: &str| {
        format!(
            "Cannot index value of size 65535 for index {index} on k.a({column}) (maximum allowed \
             size=65535)"
        )
    };
    for (statement, expected) in [
        (
            format!("INSERT INTO a (p, c) VALUES ({}, 'c')", long(65_536)),
            key.to_owned(),
        ),
        (
            format!("INSERT INTO a (p, c) VALUES ('p', {})", long(65_536)),
            key.to_owned(),
        ),
        (
            format!("INSERT INTO a (p, c) VALUES ('p', {})", long(65_535)),
            cannot("ac", "c"),
        ),
        (
            format!(
                "INSERT INTO a (p, c, v) VALUES ('p', 'c', {})",
                long(65_535)
            ),
            cannot("av", "v"),
        ),
        (
            format!(
                "UPDATE a SET m[{}] = 'v' WHERE p = 'p' AND c = 'c'",
                long(65_535)
            ),
            cannot("am", "m"),
        ),
        (
            format!("SELECT * FROM a WHERE v = {}", long(65_536)),
            "Index expression values may not be larger than 64K".to_owned(),
        ),
    ] {
        assert_eq!(tester.refused(&statement).await, expected);
    }
    let fits = format!(
        "INSERT INTO a (p, c, v) VALUES ('p', 'c', {})",
        long(65_534)
    );
    let free = format!(
        "UPDATE a SET x = {}, m['k'] = {} WHERE p = 'p' AND c = 'c'",
        long(70_000),
        long(70_000)
    );
    tester.ok(&[&fits, &free]).await;
    let find = format!("SELECT p FROM a WHERE v = {}", long(65_534));
    check(&tester, &[(&find, "'p'")]).await;
}

#[tokio::test]
async fn aggregates_over_many_partitions_are_warned_of() {
    let tester = with(TABLES).await;
    for (statement, expected) in [
        (
            "SELECT count(*) FROM t",
            &["Aggregation query used without partition key"][..],
        ),
        (
            "SELECT max(c) FROM t WHERE p IN (1, 2)",
            &["Aggregation query used on multiple partition keys (IN restriction)"],
        ),
        ("SELECT count(*) FROM t WHERE p = 1", &[]),
        ("SELECT count(*) FROM t WHERE token(p) > 1", &[]),
        ("SELECT p FROM t", &[]),
    ] {
        assert_eq!(warnings(&tester, statement).await, expected, "{statement}");
    }
}
