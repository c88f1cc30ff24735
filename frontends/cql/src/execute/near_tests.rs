//! Statements in, rows out: the rows whose vectors are nearest to another one.

use super::tests::{check, with};
use super::value_tests::bound;
use crate::testing::Tester;
use crate::wire::{ResultBody, Value};

const INDEX: &str = "CREATE CUSTOM INDEX near ON t (e) USING 'StorageAttachedIndex'";

async fn filled(index: &str) -> Tester {
    with(&[
        "CREATE TABLE t (p int, c int, n int, e vector<float, 2>, PRIMARY KEY (p, c))",
        index,
        "CREATE INDEX ON t (n)",
        "INSERT INTO t (p, c, n, e) VALUES (1, 1, 1, [1, 0])",
        "INSERT INTO t (p, c, n, e) VALUES (1, 2, 2, [3, 3])",
        "INSERT INTO t (p, c, n, e) VALUES (2, 1, 1, [0, 1])",
        "INSERT INTO t (p, c, n, e) VALUES (3, 1, 2, [-1, 0])",
        "INSERT INTO t (p, c, n) VALUES (3, 2, 2)",
    ])
    .await
}

#[tokio::test]
async fn the_nearest_come_first() {
    let tester = filled(INDEX).await;
    check(
        &tester,
        &[
            (
                "SELECT p, c FROM t ORDER BY e ANN OF [1, 0.1] LIMIT 9",
                "1, 1; 1, 2; 2, 1; 3, 1",
            ),
            (
                "SELECT p, c FROM t ORDER BY e ANN OF [0, 1] LIMIT 1",
                "2, 1",
            ),
            (
                "SELECT c, similarity_cosine(e, [0, 1]) FROM t WHERE p = 1 ORDER BY e ANN OF \
                 [0, 1] LIMIT 2",
                "2, 0.8535534; 1, 0.5",
            ),
            (
                "SELECT p FROM t WHERE p IN (1, 3) AND c = 1 ORDER BY e ANN OF [-1, 0] LIMIT 2",
                "3; 1",
            ),
            (
                "SELECT p FROM t WHERE n = 1 ORDER BY e ANN OF [0, 1] LIMIT 5",
                "2; 1",
            ),
            ("UPDATE t SET e = null WHERE p = 2 AND c = 1", ""),
            (
                "SELECT p, c FROM t ORDER BY e ANN OF [0, 1] LIMIT 1",
                "1, 2",
            ),
        ],
    )
    .await;
    let near: Vec<u8> = [-1.0f32, 0.0]
        .into_iter()
        .flat_map(f32::to_be_bytes)
        .collect();
    let values = vec![Value::Bytes(&near), Value::Bytes(&[0, 0, 0, 1])];
    let asked = "SELECT p FROM t ORDER BY e ANN OF ? LIMIT ?";
    assert_eq!(bound(&tester, asked, values).await, "3");
    let values = vec![Value::Null, Value::Bytes(&[0, 0, 0, 1])];
    assert_eq!(
        bound(&tester, asked, values).await,
        "Unsupported null value for column e"
    );
}

#[tokio::test]
async fn an_index_says_by_what_vectors_are_compared() {
    for (function, expected) in [
        ("cosine", "1, 1"),
        ("dot_product", "1, 2"),
        ("euclidean", "1, 1"),
    ] {
        let index = format!("{INDEX} WITH OPTIONS = {{'similarity_function': '{function}'}}");
        let tester = filled(&index).await;
        let asked = "SELECT p, c FROM t ORDER BY e ANN OF [1, 0.2] LIMIT 1";
        check(&tester, &[(asked, expected)]).await;
    }
}

#[tokio::test]
async fn of_many_rows_the_nearest_are_kept() {
    let tester = filled(&format!(
        "{INDEX} WITH OPTIONS = {{'similarity_function': 'euclidean'}}"
    ))
    .await;
    for number in 0..300 {
        let x = (number * 7) % 300 + 10;
        let insert = format!("INSERT INTO t (p, c, e) VALUES (9, {number}, [{x}, 0])");
        tester.ok(&[&insert]).await;
    }
    let asked = "SELECT c FROM t WHERE p = 9 ORDER BY e ANN OF [10, 0] LIMIT 3";
    check(&tester, &[(asked, "0; 43; 86")]).await;
}

#[tokio::test]
async fn what_has_no_nearest_is_refused() {
    let tester = filled(INDEX).await;
    tester
        .ok(&[
            "CREATE TABLE u (p int PRIMARY KEY, v vector<float, 2>, i vector<int, 2>, \
             l list<float>)",
            "CREATE INDEX ON u (v)",
        ])
        .await;
    let unindexed = "ANN ordering by vector requires all restricted column(s) to be indexed";
    check(
        &tester,
        &[
            (
                "SELECT * FROM u ORDER BY v ANN OF [1, 2] LIMIT 1",
                "ANN ordering by vector requires the column to be indexed",
            ),
            (
                "SELECT * FROM u ORDER BY i ANN OF [1, 2] LIMIT 1",
                "ANN ordering is only supported on float vector indexes",
            ),
            (
                "SELECT * FROM u ORDER BY l ANN OF [1, 2] LIMIT 1",
                "ANN ordering is only supported on float vector indexes",
            ),
            (
                "SELECT * FROM u ORDER BY p ANN OF [1, 2] LIMIT 1",
                "Unexpected receiver type 'int'; only list and vector are expected",
            ),
            (
                "SELECT * FROM t ORDER BY e ANN OF [1, 2]",
                "Top-K queries must have a limit specified and the limit must be less than the \
                 query page size",
            ),
            (
                "SELECT * FROM t ORDER BY e ANN OF [1, 2] LIMIT 1001",
                "Use of ANN OF in an ORDER BY clause requires a LIMIT that is not greater than \
                 1000. LIMIT was 1001",
            ),
            (
                "SELECT * FROM t ORDER BY e ANN OF [1, 2] PER PARTITION LIMIT 1 LIMIT 1",
                "Top-K queries do not support per-partition limits",
            ),
            (
                "SELECT count(*) FROM t ORDER BY e ANN OF [1, 2] LIMIT 1",
                "Top-K queries can not be run with aggregation",
            ),
            (
                "SELECT * FROM t ORDER BY e ANN OF [1, 2] DESC LIMIT 1",
                "Descending ANN ordering is not supported",
            ),
            (
                "SELECT * FROM t ORDER BY e ANN OF [1, 2], c LIMIT 1",
                "ANN ordering does not support any other ordering",
            ),
            (
                "SELECT * FROM t WHERE c = 1 ORDER BY e ANN OF [1, 2] LIMIT 1 ALLOW FILTERING",
                unindexed,
            ),
            (
                "SELECT * FROM t WHERE e = [1, 2] ORDER BY e ANN OF [1, 2] LIMIT 1",
                "e cannot be restricted by more than one relation in an ANN ordering",
            ),
            (
                "SELECT * FROM t WHERE e = [1, 2] ALLOW FILTERING",
                "Vector indexes only support ANN queries",
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn vectors_without_a_direction_have_no_angle() {
    let tester = filled(INDEX).await;
    let zero = "Zero vectors cannot be indexed or queried with cosine similarity";
    check(
        &tester,
        &[
            ("SELECT * FROM t ORDER BY e ANN OF [0, 0] LIMIT 1", zero),
            ("INSERT INTO t (p, c, e) VALUES (5, 5, [0, 0])", zero),
            ("DROP INDEX near", ""),
            ("INSERT INTO t (p, c, e) VALUES (5, 5, [0, 0])", ""),
            (INDEX, ""),
            (
                "SELECT p FROM t ORDER BY e ANN OF [1, 0] LIMIT 9",
                "1; 1; 2; 3",
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn the_nearest_come_in_one_page() {
    let tester = filled(INDEX).await;
    let asked = crate::wire::Parameters {
        page_size: Some(1),
        ..crate::wire::Parameters::new(crate::wire::Consistency::One)
    };
    let given = tester
        .run_with("SELECT p FROM t ORDER BY e ANN OF [1, 2] LIMIT 3", &asked)
        .await
        .unwrap();
    let ResultBody::Rows(rows) = given.body else {
        panic!("no rows");
    };
    assert_eq!((rows.len(), rows.metadata.paging_state), (3, None));
    assert_eq!(
        given.warnings,
        [
            "Top-K queries do not support paging and the page size is set to 1, which is less than \
          LIMIT 3. The page size has been set to 3 to match the LIMIT."
        ]
    );
}
