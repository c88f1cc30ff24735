//! Storage-attached indexes of texts without case, in one form, or of ASCII alone.

use super::tests::{ask, with};
use crate::testing::Tester;

/// How many rows are found for each text that is asked for.
const FOUND: [(&str, [usize; 5]); 7] = [
    ("'case_sensitive': 'true'", [1, 1, 1, 1, 1]),
    ("'case_sensitive': 'false'", [3, 3, 1, 2, 1]),
    ("'normalize': 'true'", [1, 1, 1, 2, 2]),
    ("'ascii': 'true'", [1, 1, 1, 1, 1]),
    ("'normalize': 'true', 'ascii': 'true'", [1, 1, 1, 2, 2]),
    (
        "'case_sensitive': 'FALSE', 'normalize': 'TRUE'",
        [3, 3, 1, 3, 3],
    ),
    (
        "'case_sensitive': 'false', 'normalize': 'true', 'ascii': 'true'",
        [3, 3, 1, 3, 3],
    ),
];

async fn insert_texts(tester: &Tester) {
    let texts = [
        "Val1",
        "val1",
        "VAL1",
        "other",
        "\u{e9}T",
        "e\u{301}T",
        "\u{c9}t",
    ];
    for (key, text) in texts.iter().enumerate() {
        let insert = format!(
            "INSERT INTO t (k, v, l, m) VALUES ({key}, '{text}', ['x', '{text}'], \
             {{'{text}': '{text}'}})"
        );
        tester.ok(&[&insert]).await;
    }
}

/// Rows by the texts that they have, for each column and each way to ask.
#[tokio::test]
async fn texts_are_found_as_options_say() {
    for (options, found) in FOUND {
        let tester =
            with(&["CREATE TABLE t (k int PRIMARY KEY, v text, l list<text>, m map<text, text>)"])
                .await;
        for (target, name) in [
            ("v", "a"),
            ("values(l)", "b"),
            ("keys(m)", "c"),
            ("values(m)", "d"),
        ] {
            let create = format!(
                "CREATE CUSTOM INDEX {name} ON t ({target}) USING 'sai' WITH OPTIONS = \
                 {{{options}}}"
            );
            // Some rows are there before the index, others come later.
            tester.ok(&[&create]).await;
        }
        insert_texts(&tester).await;
        for (wanted, count) in ["Val1", "vaL1", "other", "\u{e9}T", "e\u{301}T"]
            .iter()
            .zip(found)
        {
            // One that nobody wrote so is found only without case.
            let count = match (
                *wanted,
                options.contains("'false'") || options.contains("FALSE"),
            ) {
                ("vaL1", false) => 0,
                _ => count,
            };
            for condition in [
                format!("v = '{wanted}'"),
                format!("l CONTAINS '{wanted}'"),
                format!("m CONTAINS KEY '{wanted}'"),
                format!("m CONTAINS '{wanted}'"),
            ] {
                for rest in [
                    "",
                    " ALLOW FILTERING",
                    " AND token(k) > -9223372036854775808",
                ] {
                    let text = format!("SELECT count(*) FROM t WHERE {condition}{rest}");
                    assert_eq!(
                        ask(&tester, &text).await,
                        count.to_string(),
                        "{options}: {text}"
                    );
                }
                let beside = format!(
                    "SELECT count(*) FROM t WHERE k IN (0, 1, 2, 3, 4, 5, 6) AND {condition} ALLOW \
                     FILTERING"
                );
                assert_eq!(
                    ask(&tester, &beside).await,
                    count.to_string(),
                    "{options}: {beside}"
                );
            }
        }
    }
}

#[tokio::test]
async fn rows_that_change_are_found_by_what_they_are() {
    let tester = with(&[
        "CREATE TABLE t (k int PRIMARY KEY, v text, w text)",
        "INSERT INTO t (k, v) VALUES (1, 'ABC')",
        "INSERT INTO t (k, v) VALUES (2, 'abc')",
        "CREATE INDEX plain ON t (v)",
        "CREATE CUSTOM INDEX i ON t (v) USING 'StorageAttachedIndex' WITH OPTIONS = \
         {'case_sensitive': 'false'}",
    ])
    .await;
    let count = "SELECT count(*) FROM t WHERE v = 'aBc'";
    assert_eq!(ask(&tester, count).await, "2");
    tester
        .ok(&[
            "UPDATE t SET v = 'x' WHERE k = 1",
            "DELETE v FROM t WHERE k = 2",
        ])
        .await;
    assert_eq!(ask(&tester, count).await, "0");
    assert_eq!(
        ask(&tester, "SELECT count(*) FROM t WHERE v = 'X'").await,
        "1"
    );
    tester.ok(&["DROP INDEX i"]).await;
    assert_eq!(
        ask(&tester, "SELECT count(*) FROM t WHERE v = 'X'").await,
        "0"
    );
    assert_eq!(
        ask(&tester, "SELECT count(*) FROM t WHERE v = 'x'").await,
        "1"
    );
}

#[tokio::test]
async fn options_that_cannot_be_are_refused() {
    let tester = with(&[
        "CREATE TABLE t (k int, c text, v int, s text, m map<text, int>, l list<text>, e \
         vector<float, 3>, PRIMARY KEY (k, c))",
    ])
    .await;
    for (target, options, words) in [
        (
            "v",
            "'case_sensitive': 'false'",
            "CQL type int cannot be analyzed.",
        ),
        ("v", "'ascii': 'true'", "CQL type int cannot be analyzed."),
        (
            "v",
            "'normalize': 'false'",
            "CQL type int cannot be analyzed.",
        ),
        (
            "values(m)",
            "'ascii': 'true'",
            "CQL type int cannot be analyzed.",
        ),
        (
            "entries(m)",
            "'ascii': 'true'",
            "CQL type map<text, int> cannot be analyzed.",
        ),
        (
            "s",
            "'ascii': 'yes'",
            "Illegal value for boolean option 'ascii': yes",
        ),
        (
            "s",
            "'normalize': ''",
            "Empty value for boolean option 'normalize'",
        ),
        (
            "s",
            "'similarity_function': 'cosine'",
            "CQL type text cannot have vector options",
        ),
        (
            "s",
            "'index_analyzer': 'standard'",
            "Properties specified [index_analyzer] are not understood by StorageAttachedIndex",
        ),
        (
            "c",
            "'ascii': 'true'",
            "Analysis options are not supported on primary key columns, but found {'ascii': \
             'true'}",
        ),
    ] {
        let text =
            format!("CREATE CUSTOM INDEX ON t ({target}) USING 'sai' WITH OPTIONS = {{{options}}}");
        assert_eq!(tester.refused(&text).await, words, "{text}");
    }
}

#[tokio::test]
async fn options_that_nothing_would_come_of_are_refused() {
    let tester = with(&["CREATE TABLE t (k int PRIMARY KEY, v int)"]).await;
    for (text, words) in [
        (
            "CREATE TABLE x (k int PRIMARY KEY) WITH cdc = true",
            "Change data capture is not enabled on this server, which has no setting that enables \
             it: 'cdc' cannot be true",
        ),
        (
            "ALTER TABLE t WITH cdc = 'yes'",
            "Change data capture is not enabled on this server, which has no setting that enables \
             it: 'cdc' cannot be true",
        ),
        (
            "ALTER TABLE t ADD x text MASKED WITH DEFAULT",
            "Cannot mask columns because dynamic data masking is not enabled, and this server has \
             no setting that enables it",
        ),
    ] {
        assert_eq!(tester.refused(text).await, words, "{text}");
    }
    tester.ok(&["ALTER TABLE t WITH cdc = false"]).await;
}

/// More combinations than anybody may ask for are refused before any of them is made.
#[tokio::test]
async fn products_of_in_are_bounded_in_every_statement() {
    let tester = with(&[
        "CREATE TABLE t (a int, b int, c int, d int, v int, PRIMARY KEY (a, b, c, d))",
        "CREATE TABLE p (a int, b int, c int, d int, v int, PRIMARY KEY ((a, b), c, d))",
    ])
    .await;
    let list = |count: usize| {
        let numbers: Vec<String> = (0..count).map(|number| number.to_string()).collect();
        format!("({})", numbers.join(", "))
    };
    let words = "The IN restrictions of this statement combine to more than 100000 keys";
    for counts in [
        [300, 300, 300, 1],
        [3, 300, 300, 300],
        [60, 60, 60, 60],
        [50, 50, 50, 1],
    ] {
        let [a, b, c, d] = counts.map(list);
        let all = format!("a IN {a} AND b IN {b} AND c IN {c} AND d IN {d}");
        let some = format!("a IN {a} AND b IN {b} AND c IN {c}");
        for table in ["t", "p"] {
            for text in [
                format!("SELECT * FROM {table} WHERE {all}"),
                format!("UPDATE {table} SET v = 1 WHERE {all}"),
                format!("DELETE FROM {table} WHERE {all}"),
                format!("DELETE v FROM {table} WHERE {all}"),
                format!("DELETE FROM {table} WHERE {some}"),
                format!("DELETE FROM {table} WHERE {some} AND d > 5"),
                format!("SELECT * FROM {table} WHERE {some} AND d < 5"),
            ] {
                assert_eq!(tester.refused(&text).await, words, "{counts:?} {table}");
            }
        }
    }
    let few = list(5);
    let few = format!("a IN {few} AND b IN {few} AND c IN {few} AND d IN {few}");
    tester
        .ok(&[&format!("UPDATE t SET v = 1 WHERE {few}")])
        .await;
    assert_eq!(ask(&tester, "SELECT count(*) FROM t").await, "625");
    tester.ok(&[&format!("DELETE FROM t WHERE {few}")]).await;
    assert_eq!(ask(&tester, "SELECT count(*) FROM t").await, "0");
}

/// Numbers are as long as they can be read and written in a moment.
#[tokio::test]
async fn long_numbers_are_refused() {
    let tester = with(&["CREATE TABLE t (k int PRIMARY KEY, v varint, d decimal)"]).await;
    let (long, longer) = ("9".repeat(90_000), "9".repeat(5_000_000));
    let words = "A varint or decimal may have at most 100000 digits";
    for text in [
        format!("INSERT INTO t (k, v) VALUES (1, {longer})"),
        format!("INSERT INTO t (k, v) VALUES (1, -{longer})"),
        format!("INSERT INTO t (k, d) VALUES (1, {longer})"),
        format!("INSERT INTO t (k, d) VALUES (1, 1.{longer})"),
        format!("INSERT INTO t (k, d) VALUES (1, {longer}e5)"),
        format!("INSERT INTO t JSON '{{\"k\": 1, \"v\": {longer}}}'"),
        format!("INSERT INTO t JSON '{{\"k\": 1, \"d\": {longer}.5}}'"),
        format!("INSERT INTO t JSON '{{\"k\": 1, \"v\": \"{longer}\"}}'"),
        format!("SELECT * FROM t WHERE v = {longer} ALLOW FILTERING"),
        format!("UPDATE t SET v = 1 WHERE k = 1 IF v = {longer}"),
        format!("SELECT (varint) {longer} FROM t"),
        format!("UPDATE t SET d = (decimal) {long} * (decimal) {long} WHERE k = 1"),
    ] {
        let refused = tester.refused(&text).await;
        let is_json = text.contains("JSON") && refused.starts_with("Error decoding JSON value");
        assert!(
            refused.contains(words) || is_json,
            "{}: {refused:.200}",
            &text[..60]
        );
    }
    tester
        .ok(&[&format!("INSERT INTO t (k, v) VALUES (1, {long})")])
        .await;
    assert_eq!(
        ask(&tester, "SELECT CAST(v AS text) FROM t").await,
        format!("'{long}'")
    );
    for text in [
        "SELECT v * v FROM t",
        "SELECT v * v * v * v FROM t",
        "SELECT (v * v) / v FROM t",
    ] {
        let refused = tester.refused(text).await;
        assert!(refused.ends_with(words), "{text}: {refused}");
    }
    let literal = "CREATE TABLE m (k int PRIMARY KEY, m map<int, int>)";
    tester.ok(&[literal]).await;
    let entries: Vec<String> = (0..20_000)
        .map(|key| format!("{}: {key}", key % 15_000))
        .collect();
    let insert = format!(
        "INSERT INTO m (k, m) VALUES (1, {{{}}})",
        entries.join(", ")
    );
    tester.ok(&[&insert]).await;
    assert_eq!(
        ask(&tester, "SELECT m[7], m[14999] FROM m").await,
        "15007, 14999"
    );
}
