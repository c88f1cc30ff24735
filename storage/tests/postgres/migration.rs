//! Tables that an earlier release made become those of this one, with all that is in them.

use std::sync::Arc;

use tessera_core::engine::{CommitOutcome, Engine, KeyRange, Scan};
use tessera_core::write_set::Tally;
use tessera_storage::PostgresEngine;

use crate::cluster::{Cluster, new_schema_name};
use crate::{bytes, put};

/// The tables of version 1, with a value, a tally of two connections and a long key in them.
const FIRST: &str = "
CREATE TABLE tessera_entry (key bytea NOT NULL, mark bytea NOT NULL, tail bytea, value bytea,
    items bigint, bytes bigint, PRIMARY KEY (key, mark));
CREATE TABLE tessera_connection (id bytea PRIMARY KEY, commits bigint NOT NULL,
    fenced boolean NOT NULL, opened timestamptz NOT NULL);
CREATE TABLE tessera_schema (version bigint PRIMARY KEY);
INSERT INTO tessera_schema VALUES (1);
INSERT INTO tessera_entry VALUES ('a', '', NULL, 'value', NULL, NULL),
    ('n', '\\x0100000000', NULL, NULL, 3, 30), ('n', '\\x0100000007', NULL, NULL, 4, 40),
    ('v00000001', '', NULL, 'version', NULL, NULL),
    (convert_to(repeat('k', 2000), 'UTF8'),
        '\\x80'::bytea || sha256(convert_to(repeat('k', 2500), 'UTF8')),
        convert_to(repeat('k', 500), 'UTF8'), 'long', NULL, NULL);";

async fn first_version() -> String {
    let (cluster, schema) = (Cluster::shared(), new_schema_name());
    cluster.address(&schema).await;
    let url = cluster.url_of_database("postgres");
    let url = format!("{url}&options=-csearch_path%3D{schema}");
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls)
        .await
        .unwrap();
    tokio::spawn(connection);
    client.batch_execute(FIRST).await.unwrap();
    schema
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_an_earlier_release_wrote_is_there_and_goes_on() {
    let (cluster, schema) = (Cluster::shared(), first_version().await);
    let address = cluster.address(&schema).await;
    // Servers that start at once do it once.
    let connect = || {
        let address = address.clone();
        tokio::spawn(async move { PostgresEngine::connect(&address, 4).await })
    };
    for server in [connect(), connect(), connect()] {
        server.await.unwrap().unwrap();
    }
    let engine: Arc<dyn Engine> = cluster.open(&schema);
    let long = "k".repeat(2_500);
    let snapshot = engine.snapshot().await.unwrap();
    let sum = Tally {
        items: 7,
        bytes: 70,
    };
    for (key, value) in [
        ("a", bytes("value")),
        ("n", bytes(sum.encode())),
        ("v00000001", bytes("version")),
        (long.as_str(), bytes("long")),
    ] {
        let found = snapshot.get(key.as_bytes()).await.unwrap();
        assert_eq!(found, Some(value), "{key}");
    }
    let page = snapshot.scan(&Scan::new(KeyRange::all())).await.unwrap();
    assert_eq!(page.entries.len(), 4);
    drop(snapshot);
    let mut set = put("a", "newer");
    set.add(bytes("n"), Tally { items: 1, bytes: 1 });
    set.guard(bytes("v00000001"));
    set.delete(bytes(&long));
    let snapshot = engine.snapshot().await.unwrap();
    let outcome = snapshot.commit(set).await.unwrap();
    assert!(matches!(outcome, CommitOutcome::Done(_)));
    let snapshot = engine.snapshot().await.unwrap();
    let tally = snapshot.get(b"n").await.unwrap().unwrap();
    assert_eq!(Tally::decode(&tally).unwrap().items, 8);
    assert_eq!(snapshot.get(long.as_bytes()).await.unwrap(), None);
    // What changes often is apart from the rest.
    let hot = count(&schema, "tessera_hot").await;
    assert!(
        (2..=3).contains(&hot),
        "{hot}: a tally of two or three connections"
    );
    assert_eq!(count(&schema, "tessera_cold").await, 2);
}

async fn count(schema: &str, table: &str) -> i64 {
    let url = Cluster::shared().url_of_database("postgres");
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls)
        .await
        .unwrap();
    tokio::spawn(connection);
    let query = format!("SELECT count(*) FROM {schema}.{table}");
    client.query_one(&query, &[]).await.unwrap().get(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_server_of_an_earlier_release_can_write_no_more() {
    let (cluster, schema) = (Cluster::shared(), first_version().await);
    let url = cluster.url_of_database("postgres");
    let url = format!("{url}&options=-csearch_path%3D{schema}");
    let (old, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls)
        .await
        .unwrap();
    tokio::spawn(connection);
    let write = "INSERT INTO tessera_entry (key, mark, value) VALUES ($1, '', 'x')";
    let write = old.prepare(write).await.unwrap();
    old.execute(&write, &[&&b"one"[..]]).await.unwrap();
    let address = cluster.address(&schema).await;
    let engine = PostgresEngine::connect(&address, 2).await.unwrap();
    let refused = old.execute(&write, &[&&b"two"[..]]).await.unwrap_err();
    assert_eq!(refused.code().unwrap().code(), "42P01", "{refused}");
    let snapshot = engine.snapshot().await.unwrap();
    assert!(snapshot.get(b"one").await.unwrap().is_some());
    assert_eq!(snapshot.get(b"two").await.unwrap(), None);
}
