//! A bounded fuzzer over statements, and definitions of every kind as its seeds.

use proptest::prelude::*;

use crate::error::ErrorKind;
use crate::parser::{parse, parse_type};
use crate::statement::{AlterTableAction, CreateTable, Direction, IndexTargetKind, Statement};

/// One of each kind of definition, and what it is read as.
const DEFINITIONS: &[(&str, &str)] = &[
    ("USE \"Ks\"", "Use(\"Ks\")"),
    ("TRUNCATE TABLE ks.t", "Truncate"),
    ("TRUNCATE t", "Truncate"),
    (
        "CREATE KEYSPACE IF NOT EXISTS ks WITH replication = {'class': 'SimpleStrategy', \
         'replication_factor': 1} AND durable_writes = false",
        "CreateKeyspace",
    ),
    (
        "ALTER KEYSPACE ks WITH durable_writes = true",
        "AlterKeyspace",
    ),
    (
        "DROP KEYSPACE IF EXISTS ks",
        "Drop(Drop { if_exists: true, kind: Keyspace",
    ),
    ("CREATE TABLE t (k int PRIMARY KEY)", "CreateTable"),
    (
        "CREATE COLUMNFAMILY ks.t (a int, b text static, c frozen<map<text, list<int>>>, d ks.u, \
         e tuple<int, text>, f vector<float, 3>, g 'org.x', PRIMARY KEY ((a, b), c, d),) \
         WITH CLUSTERING ORDER BY (c DESC, d ASC) AND comment = 'x' AND COMPACT STORAGE \
         AND gc_grace_seconds = 0 AND caching = {'keys': 'ALL'}",
        "CreateTable",
    ),
    (
        "CREATE TABLE t (k int PRIMARY KEY, v text MASKED WITH mask_inner(1, null))",
        "CreateTable",
    ),
    (
        "CREATE TABLE t (k int PRIMARY KEY, v text MASKED WITH DEFAULT)",
        "CreateTable",
    ),
    (
        "ALTER TABLE IF EXISTS t ADD IF NOT EXISTS a int",
        "AlterTable",
    ),
    ("ALTER TABLE t ADD (a int, b text static)", "AlterTable"),
    ("ALTER TABLE t DROP a USING TIMESTAMP 5", "AlterTable"),
    ("ALTER TABLE t DROP (a, b)", "AlterTable"),
    ("ALTER TABLE t RENAME a TO b AND c TO d", "AlterTable"),
    ("ALTER TABLE t ALTER a TYPE int", "AlterTable"),
    ("ALTER TABLE t ALTER a MASKED WITH DEFAULT", "AlterTable"),
    ("ALTER TABLE t ALTER a DROP MASKED", "AlterTable"),
    ("ALTER TABLE t DROP COMPACT STORAGE", "AlterTable"),
    (
        "ALTER TABLE t WITH comment = 'x' AND compaction = {'class': 'x'}",
        "AlterTable",
    ),
    (
        "DROP TABLE ks.t",
        "Drop(Drop { if_exists: false, kind: Table",
    ),
    (
        "CREATE TYPE IF NOT EXISTS ks.u (a int, b frozen<v>,)",
        "CreateType",
    ),
    ("ALTER TYPE u ADD c int", "AlterType"),
    ("ALTER TYPE u RENAME a TO b AND c TO d", "AlterType"),
    ("ALTER TYPE u ALTER a TYPE text", "AlterType"),
    ("DROP TYPE u", "Drop(Drop { if_exists: false, kind: Type"),
    ("CREATE INDEX ON t (a)", "CreateIndex"),
    (
        "CREATE INDEX IF NOT EXISTS i ON ks.t (keys(m))",
        "CreateIndex",
    ),
    (
        "CREATE CUSTOM INDEX i ON t (a) USING 'sai' WITH OPTIONS = {'a': 'b'}",
        "CreateIndex",
    ),
    (
        "DROP INDEX ks.i",
        "Drop(Drop { if_exists: false, kind: Index",
    ),
    (
        "CREATE MATERIALIZED VIEW v AS SELECT a, b FROM t WHERE a IS NOT NULL AND b IS NOT NULL \
         PRIMARY KEY (b, a) WITH CLUSTERING ORDER BY (a DESC) AND comment = 'c'",
        "CreateView",
    ),
    ("ALTER MATERIALIZED VIEW v WITH comment = 'x'", "AlterView"),
    (
        "DROP MATERIALIZED VIEW IF EXISTS ks.v",
        "Drop(Drop { if_exists: true, kind: View",
    ),
    (
        "CREATE OR REPLACE FUNCTION ks.f (a int, b text) CALLED ON NULL INPUT RETURNS int \
         LANGUAGE java AS $$ return a; $$",
        "CreateFunction",
    ),
    (
        "CREATE FUNCTION f () RETURNS NULL ON NULL INPUT RETURNS int LANGUAGE Java AS 'x'",
        "CreateFunction",
    ),
    (
        "DROP FUNCTION f (int, text)",
        "Drop(Drop { if_exists: false, kind: Function",
    ),
    (
        "CREATE AGGREGATE ks.a (int) SFUNC s STYPE tuple<int, bigint> FINALFUNC f INITCOND (0, 0)",
        "CreateAggregate",
    ),
    (
        "DROP AGGREGATE IF EXISTS a",
        "Drop(Drop { if_exists: true, kind: Aggregate",
    ),
    ("CREATE TRIGGER x ON t USING 'c'", "CreateTrigger"),
    (
        "DROP TRIGGER x ON t",
        "Drop(Drop { if_exists: false, kind: Trigger",
    ),
];

fn parsed(text: &str) -> Statement {
    match parse(text) {
        Ok(parsed) => parsed.statement,
        Err(error) => panic!("{text}: {}", error.message),
    }
}

#[test]
fn definitions_of_every_kind_are_read() {
    for (text, expected) in DEFINITIONS {
        let statement = format!("{:?}", parsed(text));
        assert!(statement.starts_with(expected), "{text}: {statement}");
        let in_comments = format!("/* a */ {text} -- b\n;;");
        assert_eq!(format!("{:?}", parsed(&in_comments)), statement);
    }
}

fn table(text: &str) -> CreateTable {
    match parsed(text) {
        Statement::CreateTable(create) => create,
        other => panic!("{other:?}"),
    }
}

#[test]
fn tables_are_read_in_full() {
    let create = table(
        "CREATE TABLE ks.\"T\" (A int, b text STATIC, PRIMARY KEY ((a, b), c)) \
         WITH CLUSTERING ORDER BY (c DESC) AND comment = 'it''s'",
    );
    assert_eq!(create.name.to_string(), "ks.\"T\"");
    let names: Vec<&str> = create
        .columns
        .iter()
        .map(|column| column.name.as_str())
        .collect();
    assert_eq!(names, ["a", "b"]);
    assert!(create.columns[1].is_static);
    assert_eq!(create.primary_keys[0].partition, ["a", "b"]);
    assert_eq!(create.primary_keys[0].clustering, ["c"]);
    assert_eq!(
        create.clustering_order,
        [("c".to_owned(), Direction::Descending)]
    );
    assert_eq!(create.properties.len(), 1);
    let Statement::CreateIndex(index) = parsed("CREATE INDEX ON t (ENTRIES(m))") else {
        panic!()
    };
    assert_eq!(index.targets[0].kind, IndexTargetKind::Entries);
    let Statement::AlterTable(alter) = parsed("ALTER TABLE t DROP a USING TIMESTAMP 5") else {
        panic!()
    };
    assert!(matches!(
        alter.action,
        AlterTableAction::Drop {
            timestamp: Some(5),
            ..
        }
    ));
}

#[test]
fn types_are_read_alone() {
    for text in [
        "int",
        "frozen<map<text, list<int>>>",
        "tuple<int, set<text>>",
        "ks.u",
        "\"U\"",
        "vector<float, 3>",
        "list<frozen<u>>",
        "'org.apache.cassandra.db.marshal.UTF8Type'",
        "'it''s'",
        "list<'''a''b'''>",
    ] {
        assert_eq!(parse_type(text).unwrap().to_string(), text);
    }
    assert!(parse_type("int int").is_err());
    assert!(parse_type("list<>").is_err());
    assert_eq!(parse_type("varchar").unwrap().to_string(), "text");
}

#[test]
fn mistakes_in_definitions_are_named() {
    for (text, message) in [
        (
            "CREATE TABLE t (k int",
            "line 0:-1 mismatched input '<EOF>' expecting ')'",
        ),
        (
            "CREATE TABLE t (k int PRIMARY KEY) WITH a = 1 AND a = 2",
            "Multiple definitions for property 'a'",
        ),
        (
            "CREATE KEYSPACE k WITH replication = {'a': ?}",
            "Invalid property value: ? for property: a (bind variables are not supported in DDL \
             queries)",
        ),
        (
            "CREATE TYPE date (a int)",
            "Invalid (reserved) user type name date",
        ),
        (
            "CREATE FOO x",
            "line 1:7 no viable alternative at input 'FOO' (CREATE [FOO]...)",
        ),
        (
            "DROP TABLE t x",
            "line 1:13 mismatched input 'x' expecting EOF (DROP TABLE t [x])",
        ),
        (
            "CREATE TABLE table (k int)",
            "line 1:13 no viable alternative at input 'table' \
            (CREATE TABLE [table]...)",
        ),
    ] {
        let error = parse(text).unwrap_err();
        let squeeze = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(squeeze(&error.message), squeeze(message), "{text}");
        assert_eq!(error.kind, ErrorKind::Syntax);
    }
}

/// Deep nesting of every kind is refused and not followed.
#[test]
fn nesting_is_bounded() {
    for (open, middle, close) in [
        ("(", "1", ")"),
        ("[", "1", "]"),
        ("{", "1", "}"),
        ("f(", "1", ")"),
        ("(int)", "1", ""),
        ("CAST(", "1", " AS int)"),
        ("-", "a", ""),
        ("a[", "1", "]"),
        ("(list<int>)[", "1", "]"),
        ("{1:", "1", "}"),
    ] {
        for count in [5, 4_000] {
            let nested = format!("{}{middle}{}", open.repeat(count), close.repeat(count));
            for text in [
                format!("SELECT {nested} FROM t"),
                format!("INSERT INTO t (a) VALUES ({nested})"),
                format!("SELECT * FROM t WHERE {nested} = 1"),
                format!("SELECT * FROM t WHERE a = {nested}"),
            ] {
                let read = parse(&text);
                assert!(count == 5 || read.is_err(), "{open}");
            }
        }
    }
    let types = format!("{}int{}", "list<".repeat(4_000), ">".repeat(4_000));
    assert!(parse_type(&types).is_err());
    let fields = format!("SELECT a{} FROM t", ".b".repeat(4_000));
    assert!(parse(&fields).is_err());
    let where_parentheses = format!("SELECT * FROM t WHERE {}", "(".repeat(4_000));
    assert!(parse(&where_parentheses).is_err());
}

/// Sums and lists may be long without being deep.
#[test]
fn long_statements_are_read() {
    let sum = format!("SELECT 1{} FROM t", " + 1".repeat(90));
    assert!(parse(&sum).is_ok());
    let longer = format!("SELECT 1{} FROM t", " + 1".repeat(10_000));
    assert_eq!(
        parse(&longer).unwrap_err().message,
        "The statement has too many operators"
    );
    let list = format!("SELECT * FROM t WHERE a IN (1{})", ", 1".repeat(10_000));
    assert!(parse(&list).is_ok());
}

const WORDS: &[&str] = &[
    "SELECT",
    "*",
    "FROM",
    "t",
    "WHERE",
    "a",
    "=",
    "1",
    "AND",
    "IN",
    "(",
    ")",
    ",",
    "?",
    ":n",
    "INSERT",
    "INTO",
    "VALUES",
    "UPDATE",
    "SET",
    "+",
    "-",
    "DELETE",
    "BEGIN",
    "BATCH",
    "APPLY",
    "CREATE",
    "TABLE",
    "int",
    "PRIMARY",
    "KEY",
    "WITH",
    "{",
    "}",
    "[",
    "]",
    "'x'",
    "\"q\"",
    "list",
    "<",
    ">",
    ".",
    "..",
    "token",
    "IF",
    "NOT",
    "EXISTS",
    "USING",
    "TTL",
    "LIMIT",
    "JSON",
    "CAST",
    "AS",
    "null",
    "1.5",
    "-1",
    "frozen",
    "map",
    "CONTAINS",
    "LIKE",
    "DESCRIBE",
    ";",
    "GRANT",
    "ON",
    "TO",
    "ROLE",
    "ALTER",
    "DROP",
    "TYPE",
    "INDEX",
    "VIEW",
    "MATERIALIZED",
    "0xff",
    "1h",
    "count",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn random_texts_never_panic(text in ".{0,60}") {
        prop_assert!(parse(&text).is_err() || !text.is_empty());
    }

    #[test]
    fn random_words_never_panic(
        words in prop::collection::vec(prop::sample::select(WORDS), 0..40),
    ) {
        if let Err(error) = parse(&words.join(" ")) {
            prop_assert_eq!(error.kind, ErrorKind::Syntax);
            prop_assert!(!error.message.is_empty());
        }
    }

    /// Cut or with one token replaced, a statement is read or refused, and never more than that.
    #[test]
    fn damaged_statements_never_panic(
        which: prop::sample::Index,
        at: prop::sample::Index,
        word in prop::sample::select(WORDS),
    ) {
        let text = which.get(DEFINITIONS).0;
        let mut words: Vec<&str> = text.split(' ').collect();
        let at = at.index(words.len());
        prop_assert!(parse(&words[..at].join(" ")).is_err() || at > 1);
        words[at] = word;
        let read = parse(&words.join(" "));
        prop_assert!(read.is_ok() || read.is_err_and(|error| error.kind == ErrorKind::Syntax));
    }
}
