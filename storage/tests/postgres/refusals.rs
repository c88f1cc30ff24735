//! Databases that are refused, each with its reason.

use tessera_storage::{Address, ConnectError, PostgresEngine};

use crate::cluster::{Cluster, new_schema_name};

async fn refusal(address: &Address) -> ConnectError {
    PostgresEngine::connect(address, 1).await.err().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_of_a_newer_release_are_refused() {
    let (cluster, schema) = (Cluster::shared(), new_schema_name());
    let address = cluster.address(&schema).await;
    PostgresEngine::connect(&address, 1).await.unwrap();
    let newer = format!("INSERT INTO {schema}.tessera_schema VALUES (7)");
    cluster.run(&newer).await;
    let refusal = refusal(&address).await;
    assert!(matches!(refusal, ConnectError::Newer { found: 7, .. }));
    assert!(refusal.to_string().contains("newer release"), "{refusal}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_without_rights_is_refused() {
    let (cluster, schema) = (Cluster::shared(), new_schema_name());
    cluster.address(&schema).await;
    let guest = "CREATE ROLE guest LOGIN PASSWORD 'guest'";
    cluster.run(guest).await;
    let url = format!(
        "postgres://guest:guest@127.0.0.1:{}/postgres?options=-csearch_path%3D{schema}",
        cluster.primary_port()
    );
    let address = Address::parse(&url).unwrap();
    let first = refusal(&address).await;
    assert!(matches!(first, ConnectError::NoRights { .. }), "{first}");
    assert!(!first.to_string().contains("guest:"), "{first}");
    cluster
        .run(&format!("GRANT USAGE ON SCHEMA {schema} TO guest"))
        .await;
    let second = refusal(&address).await;
    assert!(matches!(second, ConnectError::NoRights { .. }), "{second}");
    let right = format!("GRANT CREATE ON SCHEMA {schema} TO guest");
    cluster.run(&right).await;
    PostgresEngine::connect(&address, 1).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn citus_is_refused() {
    let cluster = Cluster::shared();
    cluster.run("CREATE DATABASE sharded").await;
    let url = cluster.url_of_database("sharded");
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls)
        .await
        .unwrap();
    tokio::spawn(connection);
    // Its packages are not here; what is looked at is whether the extension is in the database.
    let pretend = "INSERT INTO pg_extension
        SELECT (oid::bigint + 1000000)::oid, 'citus', extowner, extnamespace, extrelocatable,
            extversion
        FROM pg_extension WHERE extname = 'plpgsql'";
    client.batch_execute(pretend).await.unwrap();
    let refusal = refusal(&Address::parse(&url).unwrap()).await;
    assert!(matches!(refusal, ConnectError::Unsuitable { .. }));
    assert!(
        refusal.to_string().contains("within one shard"),
        "{refusal}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_at_the_address_is_said_without_the_password() {
    let address = Address::parse("postgres://ada:secret@127.0.0.1:1/shop").unwrap();
    let refusal = refusal(&address).await;
    assert!(matches!(refusal, ConnectError::Unreachable { .. }));
    assert!(!refusal.to_string().contains("secret"), "{refusal}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_that_nobody_vouches_for_is_refused() {
    let cluster = Cluster::shared();
    let folder = tempfile::tempdir().unwrap();
    let other = folder.path().join("other.pem");
    std::fs::write(&other, OTHER_ROOT).unwrap();
    let port = cluster.primary_port();
    let url = format!(
        "postgres://tessera:x@127.0.0.1:{port}/postgres?sslmode=verify-full&sslrootcert={}",
        other.display()
    );
    let refusal = refusal(&Address::parse(&url).unwrap()).await;
    assert!(refusal.to_string().contains("certificate"), "{refusal}");
}

/// A certificate of somebody else.
const OTHER_ROOT: &str = include_str!("other_root.pem");
