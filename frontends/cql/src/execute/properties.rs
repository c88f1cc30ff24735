//! Properties of execution: any order of the same writes ends in the same rows, and pages over
//! token ranges give each row exactly once.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::tests::{ask, with};
use crate::parser::parse;
use crate::statements::Asking;
use crate::testing::Tester;
use crate::wire::{Consistency, Parameters, ResultBody, Rows};

/// One page of a SELECT.
async fn page(tester: &Tester, text: &str, size: i32, state: Option<&[u8]>) -> Rows {
    let parameters = Parameters {
        page_size: Some(size),
        paging_state: state,
        ..Parameters::new(Consistency::One)
    };
    let asking = Asking {
        service: &tester.service,
        session: &tester.session,
        parameters: &parameters,
        payload: &[],
        keyspace: tester.session.keyspace(),
    };
    match asking
        .run(&parse(text).unwrap(), &mut None)
        .await
        .unwrap()
        .body
    {
        ResultBody::Rows(rows) => rows,
        other => panic!("{text}: {other:?}"),
    }
}

/// The rows of all pages, as text, and how many pages there were.
async fn all_pages(tester: &Tester, text: &str, size: i32) -> (Vec<String>, usize) {
    let (mut found, mut state, mut pages) = (Vec::new(), None::<Vec<u8>>, 0);
    loop {
        let rows = page(tester, text, size, state.as_deref()).await;
        assert!(rows.len() <= usize::try_from(size).unwrap());
        pages += 1;
        let shown = super::tests::text(&rows);
        found.extend(
            shown
                .split("; ")
                .filter(|row| !row.is_empty())
                .map(str::to_owned),
        );
        state = rows.metadata.paging_state.clone();
        if state.is_none() {
            return (found, pages);
        }
    }
}

const TABLE: &str = "CREATE TABLE t (p int, c int, s int static, v int, m map<int, int>, \
                     e set<int>, PRIMARY KEY (p, c)) WITH gc_grace_seconds = 864000";

/// A write with its own time: of a cell, a row, a range, a partition or an element.
fn write() -> impl Strategy<Value = String> {
    let time = 1..8i64;
    let row = (0..2i32, 0..3i32);
    prop_oneof![
        3 => (row.clone(), 0..3i32, time.clone()).prop_map(|((p, c), v, t)| format!(
            "INSERT INTO t (p, c, v) VALUES ({p}, {c}, {v}) USING TIMESTAMP {t}"
        )),
        1 => (row.clone(), 0..3i32, time.clone()).prop_map(|((p, c), v, t)| format!(
            "INSERT INTO t (p, c, v) VALUES ({p}, {c}, {v}) USING TIMESTAMP {t} AND TTL 100000"
        )),
        2 => (row.clone(), 0..3i32, time.clone()).prop_map(|((p, c), v, t)| format!(
            "UPDATE t USING TIMESTAMP {t} SET v = {v} WHERE p = {p} AND c = {c}"
        )),
        2 => (row.clone(), 0..3i32, 0..3i32, time.clone()).prop_map(|((p, c), k, v, t)| format!(
            "UPDATE t USING TIMESTAMP {t} SET m[{k}] = {v}, e = e + {{{k}}} \
             WHERE p = {p} AND c = {c}"
        )),
        1 => (row.clone(), 0..3i32, time.clone()).prop_map(|((p, c), k, t)| format!(
            "UPDATE t USING TIMESTAMP {t} SET m = {{{k}: {k}}}, e = e - {{{k}}} \
             WHERE p = {p} AND c = {c}"
        )),
        1 => (row.clone(), 0..3i32, time.clone()).prop_map(|((p, c), k, t)| format!(
            "DELETE m[{k}], v FROM t USING TIMESTAMP {t} WHERE p = {p} AND c = {c}"
        )),
        2 => (row.clone(), time.clone()).prop_map(|((p, c), t)| format!(
            "DELETE FROM t USING TIMESTAMP {t} WHERE p = {p} AND c = {c}"
        )),
        1 => (row.clone(), time.clone()).prop_map(|((p, c), t)| format!(
            "DELETE FROM t USING TIMESTAMP {t} WHERE p = {p} AND c >= {c}"
        )),
        1 => (row, time.clone()).prop_map(|((p, c), t)| format!(
            "DELETE FROM t USING TIMESTAMP {t} WHERE p = {p} AND c < {c}"
        )),
        1 => (0..2i32, time.clone()).prop_map(|(p, t)| format!(
            "DELETE FROM t USING TIMESTAMP {t} WHERE p = {p}"
        )),
        1 => (0..2i32, 0..3i32, time).prop_map(|(p, s, t)| format!(
            "UPDATE t USING TIMESTAMP {t} SET s = {s} WHERE p = {p}"
        )),
    ]
}

#[test]
fn any_order_of_writes_ends_in_the_same_rows() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let writes = prop::collection::vec(write(), 1..12)
        .prop_flat_map(|writes| (Just(writes.clone()), Just(writes).prop_shuffle()));
    let mut runner = TestRunner::new(Config::with_cases(150));
    let run = |statements: Vec<String>| {
        runtime.block_on(async {
            let tester = with(&[TABLE]).await;
            for statement in &statements {
                assert_eq!(ask(&tester, statement).await, "", "{statement}");
            }
            ask(
                &tester,
                "SELECT p, c, s, v, m, e, writetime(v), writetime(s) FROM t",
            )
            .await
        })
    };
    runner
        .run(&writes, |(writes, shuffled)| {
            prop_assert_eq!(run(writes), run(shuffled));
            Ok(())
        })
        .unwrap();
}

#[tokio::test]
async fn each_row_comes_once_over_token_ranges_and_pages() {
    let tester = with(&["CREATE TABLE t (p int, c int, s int static, PRIMARY KEY (p, c))"]).await;
    let mut expected = Vec::new();
    for p in 0..40 {
        if p % 5 == 0 {
            tester
                .ok(&[&format!("INSERT INTO t (p, s) VALUES ({p}, {p})")])
                .await;
        }
        for c in 0..p % 4 {
            tester
                .ok(&[&format!("INSERT INTO t (p, c) VALUES ({p}, {c})")])
                .await;
            expected.push(format!("{p}, {c}"));
        }
        if p % 5 == 0 && p % 4 == 0 {
            expected.push(format!("{p}, null"));
        }
    }
    expected.sort();
    for size in [1, 2, 3, 7, 1000] {
        let (mut found, _) = all_pages(&tester, "SELECT p, c FROM t", size).await;
        found.sort();
        assert_eq!(found, expected, "{size}");
        let mut pieces = Vec::new();
        let ends = [i64::MIN, -(1 << 62), 0, 1 << 62, i64::MAX];
        for (start, end) in ends.iter().zip(&ends[1..]) {
            let text = format!("SELECT p, c FROM t WHERE token(p) > {start} AND token(p) <= {end}");
            pieces.append(&mut all_pages(&tester, &text, size).await.0);
        }
        pieces.sort();
        assert_eq!(pieces, expected, "{size}");
        let (distinct, _) = all_pages(&tester, "SELECT DISTINCT p FROM t", size).await;
        let partitions: std::collections::BTreeSet<&str> = expected
            .iter()
            .map(|row| row.split_once(',').unwrap().0)
            .collect();
        assert_eq!(distinct.len(), partitions.len(), "{size}");
    }
}

#[tokio::test]
async fn limits_and_groups_hold_over_pages() {
    let tester = with(&[
        "CREATE TABLE t (p int, a int, b int, v text, PRIMARY KEY (p, a, b))",
        "CREATE INDEX ON t (v)",
    ])
    .await;
    for p in 0..3 {
        for n in 0..6 {
            let (a, b) = (n / 2, n % 2);
            tester
                .ok(&[&format!(
                    "INSERT INTO t (p, a, b, v) VALUES ({p}, {a}, {b}, 'x')"
                )])
                .await;
        }
    }
    for (text, count) in [
        ("SELECT p, a, b FROM t LIMIT 7", 7),
        ("SELECT p, a, b FROM t PER PARTITION LIMIT 2", 6),
        ("SELECT p, a, count(*) FROM t GROUP BY p, a", 9),
        ("SELECT p, a, count(*) FROM t GROUP BY p, a LIMIT 4", 4),
        (
            "SELECT p, a, count(*) FROM t GROUP BY p, a PER PARTITION LIMIT 2",
            6,
        ),
        ("SELECT p, a, b FROM t WHERE v = 'x'", 18),
        ("SELECT p, a, b FROM t WHERE b = 1 ALLOW FILTERING", 9),
        ("SELECT p, a, b FROM t WHERE p = 1 AND a IN (0, 2)", 4),
        (
            "SELECT p, a, b FROM t WHERE p IN (2, 0) AND a = 1 AND b IN (0, 1)",
            4,
        ),
        (
            "SELECT p, a, b FROM t WHERE p = 1 ORDER BY a DESC, b DESC",
            6,
        ),
    ] {
        let whole = ask(&tester, text).await;
        for size in [1, 2, 5, 100] {
            let (found, pages) = all_pages(&tester, text, size).await;
            assert_eq!(found.join("; "), whole, "{text} by {size}");
            assert_eq!(found.len(), count, "{text} by {size}");
            let least = count.div_ceil(usize::try_from(size).unwrap());
            assert!(
                (least..=least + 1).contains(&pages),
                "{text} by {size}: {pages}"
            );
        }
    }
}
