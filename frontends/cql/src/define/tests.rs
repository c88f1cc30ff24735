//! Definitions run against a store in memory.

use tessera_core::provisioning::Throughput;

use crate::testing::Tester;
use crate::wire::{ChangeTarget, ChangeType, ResultBody, SchemaChange};

pub(super) const KEYSPACE: &str =
    "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";

pub(super) async fn tester(statements: &[&str]) -> Tester {
    let tester = Tester::new().await;
    tester.ok(&[KEYSPACE, "USE ks"]).await;
    tester.ok(statements).await;
    tester
}

fn change(change: ChangeType, target: ChangeTarget) -> ResultBody {
    ResultBody::SchemaChange(SchemaChange {
        change,
        keyspace: "ks".to_owned(),
        target,
    })
}

/// The columns of a table, with their types.
async fn columns(tester: &Tester, table: &str) -> String {
    let catalog = tester.service.catalog().await.unwrap();
    let relation = catalog.find("ks").unwrap().relation(table).unwrap();
    let columns = relation.table.columns.iter();
    let columns: Vec<String> = columns
        .map(|column| format!("{} {}", column.name, column.data_type))
        .collect();
    columns.join(", ")
}

#[tokio::test]
async fn definitions_tell_what_changed() {
    let tester = Tester::new().await;
    let table = |name: &str| ChangeTarget::Table(name.to_owned());
    for (text, expected) in [
        (
            KEYSPACE,
            change(ChangeType::Created, ChangeTarget::Keyspace),
        ),
        ("USE ks", ResultBody::SetKeyspace("ks".to_owned())),
        (
            "ALTER KEYSPACE ks WITH durable_writes = false",
            change(ChangeType::Updated, ChangeTarget::Keyspace),
        ),
        (
            "CREATE TYPE u (a int)",
            change(ChangeType::Created, ChangeTarget::Type("u".to_owned())),
        ),
        (
            "CREATE TABLE t (k int PRIMARY KEY, v frozen<u>, w int)",
            change(ChangeType::Created, table("t")),
        ),
        (
            "CREATE TABLE IF NOT EXISTS t (k int PRIMARY KEY)",
            ResultBody::Void,
        ),
        (
            "ALTER TABLE t ADD x int",
            change(ChangeType::Updated, table("t")),
        ),
        ("ALTER TABLE t ADD IF NOT EXISTS x int", ResultBody::Void),
        (
            "CREATE INDEX ON t (w)",
            change(ChangeType::Updated, table("t")),
        ),
        ("CREATE INDEX IF NOT EXISTS ON t (w)", ResultBody::Void),
        (
            "CREATE MATERIALIZED VIEW m AS SELECT * FROM t WHERE k IS NOT NULL AND w IS NOT NULL \
             PRIMARY KEY (w, k)",
            change(ChangeType::Created, table("m")),
        ),
        (
            "ALTER MATERIALIZED VIEW m WITH comment = 'x'",
            change(ChangeType::Updated, table("m")),
        ),
        ("TRUNCATE t", ResultBody::Void),
        (
            "DROP MATERIALIZED VIEW m",
            change(ChangeType::Dropped, table("m")),
        ),
        (
            "DROP INDEX t_w_idx",
            change(ChangeType::Updated, table("t")),
        ),
        ("DROP TABLE t", change(ChangeType::Dropped, table("t"))),
        ("DROP TABLE IF EXISTS t", ResultBody::Void),
        (
            "DROP TYPE u",
            change(ChangeType::Dropped, ChangeTarget::Type("u".to_owned())),
        ),
        (
            "DROP KEYSPACE ks",
            change(ChangeType::Dropped, ChangeTarget::Keyspace),
        ),
        ("DROP KEYSPACE IF EXISTS ks", ResultBody::Void),
    ] {
        assert_eq!(tester.ok(&[text]).await.body, expected, "{text}");
    }
}

const REFUSED: &[(&str, &str)] = &[
    (KEYSPACE, "Cannot add existing keyspace \"ks\""),
    ("USE nope", "Keyspace 'nope' does not exist"),
    ("DROP KEYSPACE nope", "Keyspace 'nope' doesn't exist"),
    (
        "CREATE TABLE nope.t (k int PRIMARY KEY)",
        "Keyspace 'nope' doesn't exist",
    ),
    (
        "CREATE TABLE t (k int PRIMARY KEY)",
        "Cannot add already existing table \"t\" to keyspace \"ks\"",
    ),
    (
        "CREATE TABLE system.t (k int PRIMARY KEY)",
        "system keyspace is not user-modifiable.",
    ),
    ("DROP TABLE nope", "Table 'ks.nope' doesn't exist"),
    (
        "DROP TABLE t",
        "Cannot drop a table when materialized views still depend on it (m)",
    ),
    (
        "DROP TABLE m",
        "Cannot use DROP TABLE on a materialized view. Please use DROP MATERIALIZED VIEW \
             instead.",
    ),
    (
        "ALTER TABLE m ADD x int",
        "Cannot use ALTER TABLE on a materialized view; use ALTER MATERIALIZED VIEW instead",
    ),
    (
        "TRUNCATE m",
        "Cannot TRUNCATE materialized view directly; must truncate base table instead",
    ),
    ("TRUNCATE nope", "table nope does not exist"),
    ("CREATE INDEX ON nope (v)", "Table 'nope' doesn't exist"),
    (
        "CREATE INDEX ON m (v)",
        "Secondary indexes on materialized views aren't supported",
    ),
    ("DROP INDEX nope", "Index 'ks.nope' doesn't exist'"),
    (
        "CREATE TYPE u (b int)",
        "A user type with name 'u' already exists",
    ),
    (
        "DROP TYPE u",
        "Cannot drop user type 'ks.u' as it is still used by user types w",
    ),
    (
        "DROP TYPE w",
        "Cannot drop user type 'ks.w' as it is still used by tables t",
    ),
    (
        "ALTER TYPE u ADD b int",
        "Cannot add new field b of type int to user type ks.u as the type is being used in \
             partition key by the following tables: ks.p",
    ),
    ("ALTER TYPE nope ADD b int", "Type ks.nope doesn't exist"),
    (
        "CREATE MATERIALIZED VIEW t AS SELECT * FROM t WHERE k IS NOT NULL PRIMARY KEY (k)",
        "Cannot create materialized view 't' - a table with the same name already exists",
    ),
    (
        "CREATE FUNCTION f (a int) CALLED ON NULL INPUT RETURNS int LANGUAGE java AS 'x'",
        "User-defined functions are disabled: this server has no setting that enables them",
    ),
    ("DROP FUNCTION f", "Function 'ks.f' doesn't exist"),
];

#[tokio::test]
async fn what_cannot_be_is_refused() {
    let tester = tester(&[
        "CREATE TYPE u (a int)",
        "CREATE TYPE w (a frozen<u>)",
        "CREATE TABLE t (k int PRIMARY KEY, v int, x frozen<w>)",
        "CREATE TABLE p (k frozen<u> PRIMARY KEY)",
        "CREATE MATERIALIZED VIEW m AS SELECT k, v FROM t WHERE k IS NOT NULL AND v IS NOT NULL \
         PRIMARY KEY (v, k)",
    ])
    .await;
    for (text, words) in REFUSED {
        assert_eq!(tester.refused(text).await, *words, "{text}");
    }
    let without = Tester::new().await;
    assert_eq!(
        without.refused("CREATE TABLE t (k int PRIMARY KEY)").await,
        "No keyspace has been specified. USE a keyspace, or explicitly specify keyspace.tablename"
    );
}

#[tokio::test]
async fn altered_types_reach_everything_that_uses_them() {
    let tester = tester(&[
        "CREATE TYPE u (a int)",
        "CREATE TYPE w (x frozen<list<frozen<u>>>)",
        "CREATE TABLE t (k int PRIMARY KEY, v w)",
        "ALTER TYPE u ADD b text",
        "ALTER TYPE u RENAME a TO c",
    ])
    .await;
    let catalog = tester.service.catalog().await.unwrap();
    let entry = catalog.find("ks").unwrap();
    let table = &entry.relation("t").unwrap().table;
    let class = table.columns[1].data_type.class_name();
    let nested = crate::types::DataType::User {
        definition: Box::new(entry.types["u"].clone()),
        frozen: true,
    };
    let names: Vec<&str> = entry.types["u"]
        .fields
        .iter()
        .map(|(n, _)| n.as_str())
        .collect();
    assert_eq!(names, ["c", "b"]);
    assert!(class.contains(&nested.class_name()), "{class}");
}

#[tokio::test]
async fn everything_is_there_after_a_restart() {
    let tester = tester(&[
        "CREATE TYPE u (a int)",
        "CREATE TABLE t (k int, c text, v frozen<u>, PRIMARY KEY (k, c))",
        "CREATE INDEX i ON t (v)",
        "CREATE MATERIALIZED VIEW m AS SELECT * FROM t WHERE k IS NOT NULL AND c IS NOT NULL \
         PRIMARY KEY (c, k)",
        "ALTER TABLE t ADD x int",
    ])
    .await;
    let version = tester.service.catalog().await.unwrap().version;
    assert_eq!(
        columns(&tester, "t").await,
        "k int, c text, v frozen<u>, x int"
    );
    assert_eq!(
        columns(&tester, "m").await,
        "c text, k int, v frozen<u>, x int"
    );
    let store = tester.service.store.clone();
    let again = crate::catalog::Catalogs::new(store);
    let catalog = again.current().await.unwrap();
    assert_eq!(catalog.version, version);
    let relation = catalog.find("ks").unwrap().relation("t").unwrap();
    assert_eq!(relation.views, ["m"]);
    assert_eq!(relation.table.indexes[0].name, "i");
}

#[tokio::test]
async fn versions_change_with_definitions_alone() {
    let tester = tester(&["CREATE TABLE t (k int PRIMARY KEY)"]).await;
    let version = async || tester.service.catalog().await.unwrap().version;
    let before = version().await;
    tester.ok(&["TRUNCATE t"]).await;
    assert_eq!(version().await, before);
    tester.ok(&["ALTER TABLE t ADD v int"]).await;
    assert_ne!(version().await, before);
    tester.ok(&["ALTER TABLE t DROP v"]).await;
    assert_ne!(version().await, before);
}

#[tokio::test]
async fn who_listens_hears_of_changes() {
    let tester = Tester::new().await;
    let mut events = tester.service.events.listen();
    tester.ok(&[KEYSPACE]).await;
    let ResultBody::SchemaChange(expected) = change(ChangeType::Created, ChangeTarget::Keyspace)
    else {
        panic!()
    };
    assert_eq!(
        events.recv().await,
        Ok(crate::wire::Event::Schema(expected))
    );
}

#[tokio::test]
async fn throughput_is_what_was_asked_for() {
    let tester = tester(&[
        "CREATE TABLE t (k int PRIMARY KEY) WITH cosmosdb_provisioned_throughput = 400",
        "CREATE TABLE free (k int PRIMARY KEY)",
    ])
    .await;
    let provisioned = async |table: &str| {
        let name = crate::catalog::container_name("ks", table);
        let mut transaction = tester.service.store.begin().await.unwrap();
        let container = transaction.container(&name).await.unwrap();
        container.definition.provisioned
    };
    assert_eq!(provisioned("t").await, Some(400));
    assert_eq!(provisioned("free").await, None);
    tester
        .ok(&["ALTER TABLE t WITH cosmosdb_autoscale_max_throughput = 2000"])
        .await;
    assert_eq!(provisioned("t").await, Some(2_000));
    tester
        .ok(&["ALTER KEYSPACE ks WITH cosmosdb_provisioned_throughput = 20000"])
        .await;
    let store = &tester.service.store;
    let shared = store.database_throughput(crate::API, "ks").await.unwrap();
    assert_eq!(shared, Some(Throughput::Manual(20_000)));
    assert_eq!(provisioned("free").await, None);
    let free = crate::catalog::container_name("ks", "free");
    let insight = store.insight(&free).await.unwrap();
    assert_eq!((insight.partitions.len(), insight.shared), (2, shared));
    tester.ok(&["DROP KEYSPACE ks"]).await;
    let shared = store.database_throughput(crate::API, "ks").await.unwrap();
    assert_eq!(shared, None);
    tester
        .ok(&[
            "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', \
               'replication_factor': 1} AND cosmosdb_autoscale_max_throughput = 1000",
        ])
        .await;
    let shared = store.database_throughput(crate::API, "ks").await.unwrap();
    assert_eq!(shared, Some(Throughput::Autoscale(1_000)));
    let refused = tester
        .refused("CREATE TABLE x (k int PRIMARY KEY) WITH cosmosdb_provisioned_throughput = 7")
        .await;
    assert!(refused.contains("multiple of 100"), "{refused}");
}

#[tokio::test]
async fn throughput_is_described_whoever_set_it() {
    let tester = tester(&[
        "CREATE TABLE t (k int PRIMARY KEY) WITH cosmosdb_provisioned_throughput = 400",
        "CREATE TABLE free (k int PRIMARY KEY)",
        "ALTER KEYSPACE ks WITH cosmosdb_provisioned_throughput = 5000",
    ])
    .await;
    let described = async |what: &str| {
        let given = tester.ok(&[&format!("DESCRIBE {what}")]).await;
        let ResultBody::Rows(rows) = given.body else {
            panic!("no rows");
        };
        String::from_utf8(rows.cells()[3].clone().unwrap()).unwrap()
    };
    let keyspace = described("ONLY KEYSPACE ks").await;
    assert!(keyspace.ends_with(" AND cosmosdb_provisioned_throughput = 5000;"));
    assert!(
        described("TABLE t")
            .await
            .contains("cosmosdb_provisioned_throughput = 400")
    );
    assert!(!described("TABLE free").await.contains("cosmosdb"));
    let name = crate::catalog::container_name("ks", "t");
    let autoscale = Some(Throughput::Autoscale(3_000));
    let store = &tester.service.store;
    store.provision(&name, autoscale).await.unwrap();
    let table = described("TABLE t").await;
    assert!(
        table.contains("AND cosmosdb_autoscale_max_throughput = 3000"),
        "{table}"
    );
    assert!(!table.contains("provisioned"), "{table}");
}

/// Two servers on one store: neither loses what the other changes at the same time.
#[tokio::test(flavor = "multi_thread")]
async fn indexes_and_columns_are_added_by_two_servers_at_once() {
    const ROUNDS: usize = 8;
    let columns: Vec<String> = (0..ROUNDS).map(|n| format!(", a{n} int")).collect();
    let create = format!("CREATE TABLE t (k int PRIMARY KEY{})", columns.concat());
    let left = tester(&[&create, "INSERT INTO t (k, a0) VALUES (1, 1)"]).await;
    let right = left.beside();
    right.ok(&["USE ks"]).await;
    for round in 0..ROUNDS {
        let add = format!("ALTER TABLE t ADD b{round} int");
        let index = format!("CREATE INDEX i{round} ON t (a{round})");
        let (add, index) = ([add.as_str()], [index.as_str()]);
        tokio::join!(left.ok(&add), right.ok(&index));
    }
    left.service.catalogs.reload().await.unwrap();
    let catalog = left.service.catalog().await.unwrap();
    let relation = catalog.find("ks").unwrap().relation("t").unwrap();
    let place = crate::catalog::container_name("ks", "t");
    let mut transaction = left.service.store.begin().await.unwrap();
    let container = transaction.container(&place).await.unwrap();
    for round in 0..ROUNDS {
        assert!(relation.table.column(&format!("b{round}")).is_some());
        let name = format!("i{round}");
        assert!(relation.table.indexes.iter().any(|it| it.name == name));
        assert!(container.definition.index(&name).is_some());
    }
}

/// An index is there with its definition, or neither is.
#[tokio::test]
async fn an_index_that_is_given_up_leaves_no_definition() {
    let tester = tester(&["CREATE TABLE t (k int PRIMARY KEY, a int)"]).await;
    let catalog = tester.service.catalog().await.unwrap();
    let relation = catalog.find("ks").unwrap().relation("t").unwrap();
    tester.ok(&["CREATE INDEX i ON t (a)"]).await;
    let model = crate::CqlModel::default();
    let place = crate::catalog::container_name("ks", "t");
    let mut transaction = tester.service.store.begin().await.unwrap();
    let container = transaction.container(&place).await.unwrap();
    let schema = &container.definition.schema;
    let crate::catalog::Place::Stored { schema: before, .. } = &relation.place else {
        panic!("not stored");
    };
    assert_ne!(schema, before);
    let without = tessera_core::model::Model::without_index(&model, schema, "i");
    assert_eq!(without.as_ref(), Ok(before));
}
