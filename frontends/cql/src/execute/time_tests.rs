//! Statements in, rows out: what depends on when something was written, by a clock that stands.

use tessera_core::clock::Clock;

use super::tests::check;
use crate::service::CqlConfig;
use crate::testing::Tester;

/// A keyspace `k` with what these statements make, at a time that only the test moves on.
async fn standing(statements: &[&str]) -> (Tester, Clock) {
    let clock = Clock::manual(1_800_000_000_000);
    let tester = Tester::at(clock.clone(), CqlConfig::default()).await;
    (tester.in_keyspace(statements).await, clock)
}

#[tokio::test]
async fn a_column_dropped_and_added_in_one_millisecond_is_empty() {
    let (tester, _) = standing(&[
        "CREATE TABLE t (k int PRIMARY KEY, x int, l list<int>)",
        "INSERT INTO t (k, x, l) VALUES (1, 1, [1])",
        "ALTER TABLE t DROP (x, l)",
        "ALTER TABLE t ADD (x int, l list<int>)",
    ])
    .await;
    check(
        &tester,
        &[
            ("SELECT k, x, l FROM t", "1, null, null"),
            ("UPDATE t SET x = 2, l = l + [2] WHERE k = 1", ""),
            ("SELECT k, x, l FROM t", "1, 2, [2]"),
        ],
    )
    .await;
}

#[tokio::test]
async fn what_a_deletion_of_the_future_hides_stays_hidden() {
    let later = 1_900_000_000_000_000_i64;
    let (tester, clock) = standing(&[
        "CREATE TABLE t (p int, c int, s int static, v int, l list<int>, PRIMARY KEY (p, c)) \
         WITH gc_grace_seconds = 60",
        &format!("DELETE FROM t USING TIMESTAMP {later} WHERE p = 1"),
        &format!("DELETE FROM t USING TIMESTAMP {later} WHERE p = 2 AND c > 0"),
        &format!("DELETE FROM t USING TIMESTAMP {later} WHERE p = 3 AND c = 1"),
        &format!("DELETE s, v, l FROM t USING TIMESTAMP {later} WHERE p = 4 AND c = 1"),
        "INSERT INTO t (p, c, s, v, l) VALUES (1, 1, 1, 1, [1])",
        "INSERT INTO t (p, c, s, v, l) VALUES (2, 1, 1, 1, [1])",
        "INSERT INTO t (p, c, v, l) VALUES (3, 1, 1, [1])",
        "INSERT INTO t (p, c, s, v, l) VALUES (4, 1, 1, 1, [1])",
        "DELETE FROM t WHERE p = 2 AND c > 5",
    ])
    .await;
    for days in [0_u64, 1, 400] {
        clock.advance(days * 24 * 60 * 60 * 1_000);
        check(
            &tester,
            &[
                ("SELECT c, s, v, l FROM t WHERE p = 1", ""),
                (
                    "SELECT c, s, v, l FROM t WHERE p = 2",
                    "null, 1, null, null",
                ),
                ("SELECT c, s, v, l FROM t WHERE p = 3", ""),
                (
                    "SELECT c, s, v, l FROM t WHERE p = 4",
                    "1, null, null, null",
                ),
            ],
        )
        .await;
    }
}

#[tokio::test]
async fn additions_of_one_time_to_a_list_are_two() {
    let (tester, _) = standing(&[
        "CREATE TABLE t (k int PRIMARY KEY, l list<int>)",
        "UPDATE t USING TIMESTAMP 5 SET l = l + [1] WHERE k = 1",
        "UPDATE t USING TIMESTAMP 5 SET l = l + [1] WHERE k = 1",
        "UPDATE t USING TIMESTAMP 5 SET l = [2] + l WHERE k = 1",
        "UPDATE t USING TIMESTAMP 5 SET l = [2] + l WHERE k = 1",
        "BEGIN BATCH USING TIMESTAMP 5 UPDATE t SET l = l + [3] WHERE k = 1; \
         UPDATE t SET l = l + [3] WHERE k = 1; APPLY BATCH",
    ])
    .await;
    check(&tester, &[("SELECT l FROM t", "[2, 2, 1, 1, 3, 3]")]).await;
}

#[tokio::test]
async fn what_a_deletion_has_overtaken_stays_hidden() {
    let now = 1_800_000_000_000_000_i64;
    let (before, ahead) = (now - 500_000, now + 900_000);
    let (tester, clock) = standing(&[
        "CREATE TABLE t (p int, c int, v int, PRIMARY KEY (p, c)) WITH gc_grace_seconds = 60",
        "DELETE FROM t WHERE p = 1",
        &format!("INSERT INTO t (p, c, v) VALUES (1, 1, 1) USING TIMESTAMP {before}"),
        "DELETE FROM t WHERE p = 2 AND c > 0",
        &format!("INSERT INTO t (p, c, v) VALUES (2, 1, 1) USING TIMESTAMP {before}"),
        &format!("DELETE FROM t USING TIMESTAMP {ahead} WHERE p = 3"),
        "INSERT INTO t (p, c, v) VALUES (3, 1, 1)",
        "INSERT INTO t (p, c, v) VALUES (4, 1, 1)",
    ])
    .await;
    for minutes in [0_u64, 2] {
        clock.advance(minutes * 60 * 1_000);
        check(&tester, &[("SELECT * FROM t", "4, 1, 1")]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_is_seen_after_deletions_and_writes_at_once_stays_so() {
    // Where there are collections, a write looks for deletions itself.
    for columns in ["v int", "v int, tags set<int>"] {
        let (tester, clock) = standing(&[&format!(
            "CREATE TABLE t (p int, c int, {columns}, PRIMARY KEY (p, c)) \
             WITH gc_grace_seconds = 60"
        )])
        .await;
        let tester = std::sync::Arc::new(tester);
        let mut tasks = tokio::task::JoinSet::new();
        for worker in 0..4 {
            let tester = std::sync::Arc::clone(&tester);
            tasks.spawn(async move {
                for round in 0..200 {
                    let text = match worker {
                        0 => "DELETE FROM t WHERE p = 1".to_owned(),
                        1 => format!("DELETE FROM t WHERE p = 1 AND c > {}", round % 7),
                        _ => format!(
                            "INSERT INTO t (p, c, v) VALUES (1, {}, {round})",
                            round % 10
                        ),
                    };
                    tester.ok(&[&text]).await;
                }
            });
        }
        tasks.join_all().await;
        let seen = super::tests::ask(&tester, "SELECT p, c, v FROM t").await;
        clock.advance(3_600 * 1_000);
        check(&tester, &[("SELECT p, c, v FROM t", &seen)]).await;
    }
}

/// Whatever a statement changes, and wherever: without throughput nothing of it is done.
#[tokio::test]
async fn what_is_refused_for_want_of_throughput_leaves_nothing() {
    let (tester, clock) = standing(&[
        "CREATE TABLE t (k int PRIMARY KEY, v int) WITH cosmosdb_provisioned_throughput = 400",
        "CREATE TABLE free (k int PRIMARY KEY, v int)",
        "CREATE TABLE n (k int PRIMARY KEY, c counter) WITH cosmosdb_provisioned_throughput = 400",
        "INSERT INTO t (k, v) VALUES (1, 1)",
        "UPDATE n SET c = c + 1 WHERE k = 1",
    ])
    .await;
    let all = |begin: &str, changes: &[&str]| {
        let changes = changes.join("; ");
        format!("BEGIN {begin} {changes}; APPLY BATCH")
    };
    let across = [
        "INSERT INTO free (k, v) VALUES (1, 1)",
        "INSERT INTO t (k, v) VALUES (2, 2)",
        "UPDATE t SET v = 5 WHERE k = 1",
        "INSERT INTO free (k, v) VALUES (2, 2)",
    ];
    let statements = [
        all("BATCH", &across),
        all("UNLOGGED BATCH", &across),
        all("BATCH", &["DELETE FROM t WHERE k = 1", across[0]]),
        all("COUNTER BATCH", &["UPDATE n SET c = c + 1 WHERE k = 1"; 3]),
        all(
            "BATCH",
            &["INSERT INTO t (k, v) VALUES (9, 9) IF NOT EXISTS"],
        ),
        "UPDATE t SET v = 7 WHERE k IN (1, 2, 3, 4, 5)".to_owned(),
        "DELETE FROM t WHERE k IN (1, 2, 3)".to_owned(),
        "INSERT INTO t (k, v) VALUES (3, 3)".to_owned(),
        "INSERT INTO t (k, v) VALUES (3, 3) IF NOT EXISTS".to_owned(),
        "UPDATE t SET v = 3 WHERE k = 1 IF v = 1".to_owned(),
    ];
    for statement in statements {
        for table in ["t", "n"] {
            loop {
                let read = format!("SELECT * FROM {table} WHERE k = 1");
                if tester.run(&read).await.is_err() {
                    break;
                }
            }
        }
        let words = tester.refused(&statement).await;
        assert!(words.contains("RetryAfterMs="), "{statement}: {words}");
        clock.advance(10_000);
        for (read, expected) in [
            ("SELECT k, v FROM t", "1, 1"),
            ("SELECT k, v FROM free", ""),
            ("SELECT k, c FROM n", "1, 1"),
        ] {
            check(&tester, &[(read, expected)]).await;
        }
    }
}
