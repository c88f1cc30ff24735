//! What plans say of their markers, and what is refused before anything runs.

use super::{Plan, prepare};
use crate::error::Result;
use crate::parser::parse;
use crate::testing::Tester;

const TABLES: [&str; 6] = [
    "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    "USE k",
    "CREATE TYPE u (a int, b text)",
    "CREATE TABLE t (p int, c text, d int, v int, l list<int>, m map<text, int>, n u, s int \
     static, f frozen<set<int>>, x duration, PRIMARY KEY (p, c, d))",
    "CREATE TABLE o (a int, b int, v int, PRIMARY KEY ((a, b)))",
    "CREATE TABLE n (k int PRIMARY KEY, c counter)",
];

async fn planned(tester: &Tester, text: &str) -> Result<Plan> {
    let catalog = tester.service.catalog().await.unwrap();
    prepare(&parse(text)?, &catalog, Some("k"))
}

#[tokio::test]
async fn markers_have_names_types_and_places_in_the_key() {
    let tester = Tester::new().await;
    tester.ok(&TABLES).await;
    for (text, variables, keys) in [
        (
            "INSERT INTO o (b, a, v) VALUES (?, ?, ?)",
            "b int, a int, v int",
            &[1, 0][..],
        ),
        (
            "SELECT * FROM o WHERE b = ? AND a = ?",
            "b int, a int",
            &[1, 0],
        ),
        ("SELECT * FROM o WHERE b = ? AND a = 1", "b int", &[]),
        (
            "SELECT * FROM t WHERE p IN ? AND c = :x",
            "in(p) frozen<list<int>>, x text",
            &[],
        ),
        (
            "SELECT * FROM t WHERE p = ? AND (c, d) > ? LIMIT ?",
            "p int, (c,d) frozen<tuple<text, int>>, [limit] int",
            &[0],
        ),
        (
            "SELECT * FROM t WHERE token(p) > ?",
            "partition key token bigint",
            &[],
        ),
        (
            "UPDATE t USING TTL ? SET m[?] = ?, l = ?, n.b = ? WHERE p = ? AND c = ? AND d = ? \
             IF v = ?",
            "[ttl] int, key(m) text, value(m) int, l list<int>, u.b text, p int, c text, d int, \
             v int",
            &[5],
        ),
        (
            "DELETE FROM o USING TIMESTAMP ? WHERE a = ? AND b = ?",
            "[timestamp] bigint, a int, b int",
            &[1, 2],
        ),
        ("INSERT INTO t JSON ?", "[json] text", &[]),
        (
            "SELECT blob_as_int(?), v + ? FROM t",
            "arg0(blob_as_int) blob, arg1(_) int",
            &[],
        ),
        (
            "DELETE l[?] FROM t WHERE p = ? AND c = '' AND d = 1",
            "idx(l) int, p int",
            &[1],
        ),
    ] {
        let plan = planned(&tester, text).await.unwrap();
        let found: Vec<String> = plan
            .variables
            .iter()
            .map(|variable| format!("{} {}", variable.name, variable.data_type))
            .collect();
        assert_eq!(found.join(", "), variables, "{text}");
        assert_eq!(plan.partition_key_indexes, keys, "{text}");
    }
}

#[tokio::test]
async fn result_columns_have_the_names_of_cassandra() {
    let tester = Tester::new().await;
    tester.ok(&TABLES).await;
    for (selection, name, data_type) in [
        ("v", "v", "int"),
        ("v AS w", "w", "int"),
        ("count(*)", "count", "bigint"),
        ("max(v)", "system.max(v)", "int"),
        ("writetime(v)", "writetime(v)", "bigint"),
        ("ttl(l)", "ttl(l)", "list<int>"),
        ("cast(v AS text)", "cast(v as text)", "text"),
        ("v + 1", "v + 1", "int"),
        ("v * 1.5", "v * 1.5", "double"),
        ("n.b", "n.b", "text"),
        ("m['k']", "m['k']", "int"),
        ("toJson(v)", "system.tojson(v)", "text"),
        ("token(p)", "system.token(p)", "bigint"),
        ("(int)1", "(int)1", "int"),
        ("map_keys(m)", "system.map_keys(m)", "set<text>"),
    ] {
        let plan = planned(&tester, &format!("SELECT {selection} FROM t"))
            .await
            .unwrap();
        let columns = plan.result_columns.unwrap();
        assert_eq!(columns[0].name, name);
        assert_eq!(columns[0].data_type.to_string(), data_type, "{selection}");
    }
}

/// Statements, and the words with which they are refused.
const MISTAKES: &[(&str, &str)] = &[
    ("SELECT z FROM t", "Undefined column name z in table k.t"),
    ("SELECT * FROM z", "table z does not exist"),
    ("SELECT f(v) FROM t", "Unknown function 'f'"),
    (
        "SELECT ? FROM t",
        "Cannot infer type for term ? in selection clause (try using a cast to \
                             force a type)",
    ),
    (
        "INSERT INTO t (p) VALUES (1)",
        "Some clustering keys are missing: c, d",
    ),
    (
        "INSERT INTO o (a, v) VALUES (1, 1)",
        "Some partition key parts are missing: b",
    ),
    (
        "INSERT INTO o (a, b, v) VALUES (1, 1, 'x')",
        "Invalid STRING constant (x) for \"v\" of type int",
    ),
    (
        "INSERT INTO o (a, b) VALUES (1)",
        "Unmatched column names/values",
    ),
    (
        "UPDATE t SET p = 1 WHERE p = 1",
        "PRIMARY KEY part p found in SET part",
    ),
    (
        "UPDATE t SET v = 1 WHERE p = 1 AND c = 'a'",
        "Some clustering keys are missing: d",
    ),
    (
        "UPDATE t SET v = v + 1 WHERE p = 1 AND c = 'a' AND d = 1",
        "Invalid operation (v = v + 1) for non counter column v",
    ),
    (
        "UPDATE t SET v = 1 WHERE p = 1 AND c = 'a' AND d > 1",
        "Slice restrictions are not supported on the clustering columns in UPDATE statements",
    ),
    (
        "DELETE v FROM t WHERE p = 1 AND c = 'a' AND d > 1",
        "Range deletions are not supported for specific columns",
    ),
    (
        "DELETE FROM t WHERE p = 1 AND v = 1",
        "Non PRIMARY KEY columns found in where clause: v ",
    ),
    (
        "SELECT * FROM t WHERE p = 1 AND p = 2",
        "p cannot be restricted by more than one relation if it includes an Equal",
    ),
    (
        "SELECT * FROM t WHERE p = 1 AND c > 'a' AND c >= 'b'",
        "More than one restriction was found for the start bound on c",
    ),
    ("SELECT * FROM t WHERE p > 1", super::NEEDS_FILTERING),
    ("SELECT * FROM t WHERE v = 1", super::NEEDS_FILTERING),
    (
        "SELECT * FROM t WHERE l = [1] ALLOW FILTERING",
        "Collection column 'l' (list<int>) cannot be restricted by a '=' relation",
    ),
    (
        "SELECT * FROM t WHERE v CONTAINS 1 ALLOW FILTERING",
        "Cannot use CONTAINS on non-collection column v",
    ),
    (
        "SELECT * FROM t WHERE x > 1d ALLOW FILTERING",
        "Slice restrictions are not supported on duration columns",
    ),
    (
        "SELECT * FROM t WHERE v != 1",
        "Unsupported \"!=\" relation: v != 1",
    ),
    (
        "SELECT * FROM t WHERE v IS NOT NULL",
        "Unsupported restriction: v IS NOT NULL",
    ),
    (
        "SELECT * FROM t ORDER BY c",
        "ORDER BY is only supported when the partition key is restricted by an EQ or an IN.",
    ),
    (
        "SELECT * FROM t WHERE p = 1 ORDER BY d",
        "Order by currently only supports the ordering of columns following their declared order \
          in the PRIMARY KEY",
    ),
    (
        "SELECT DISTINCT v FROM t",
        "SELECT DISTINCT queries must only request partition key columns and/or static columns \
         (not v)",
    ),
    ("SELECT * FROM t LIMIT 0", "LIMIT must be strictly positive"),
    (
        "SELECT ttl(p) FROM t",
        "Cannot use selection function ttl on PRIMARY KEY part p",
    ),
    (
        "SELECT sum(c) FROM t",
        "Invalid call to function sum, none of its type signatures match (known type signatures: \
          system.sum : (numeric) -> numeric)",
    ),
    (
        "UPDATE n SET c = 1 WHERE k = 1 IF EXISTS",
        "Cannot set the value of counter column c (counters can only be incremented/decremented, \
          not set)",
    ),
    (
        "UPDATE t SET v = 1 WHERE p IN (1, 2) AND c = 'a' AND d = 1 IF EXISTS",
        "IN on the partition key is not supported with conditional updates",
    ),
    (
        "UPDATE t SET v = 1 WHERE p = 1 AND c = 'a' AND d = 1 IF p = 1",
        "PRIMARY KEY column 'p' cannot have IF conditions",
    ),
    (
        "BEGIN BATCH UPDATE n SET c = c + 1 WHERE k = 1; APPLY BATCH",
        "Cannot include a counter statement in a logged batch",
    ),
    (
        "INSERT INTO system.local (key) VALUES ('x')",
        "system keyspace is not user-modifiable.",
    ),
];

#[tokio::test]
async fn mistakes_are_refused_in_the_words_of_cassandra() {
    let tester = Tester::new().await;
    tester.ok(&TABLES).await;
    for (text, words) in MISTAKES {
        let error = planned(&tester, text)
            .await
            .err()
            .map(|error| error.message);
        assert_eq!(error.as_deref(), Some(*words), "{text}");
    }
}
