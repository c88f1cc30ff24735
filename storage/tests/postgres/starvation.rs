//! Few connections for many: what is kept while a client thinks leaves enough for the others.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tessera_core::definition::NewContainer;
use tessera_core::engine::{Engine, EngineError};
use tessera_core::item::NewItem;
use tessera_core::locator::Locator;
use tessera_core::name::ContainerName;
use tessera_core::store::StoreOptions;
use tessera_core::transaction::Transaction;
use tessera_core::{Error, Store};
use tessera_storage::{Address, PostgresEngine};
use tokio::sync::Barrier;

use crate::cluster::{Cluster, new_schema_name};
use crate::put;

const LIFETIME: Duration = Duration::from_secs(60);

async fn store(connections: usize) -> Store {
    let address = Cluster::shared().address(&new_schema_name()).await;
    let engine = PostgresEngine::connect(&address, connections)
        .await
        .unwrap();
    let store = Store::open(Arc::new(engine), StoreOptions::default())
        .await
        .unwrap();
    let new = NewContainer::default();
    store.create_container(&items(), &new).await.unwrap();
    store
}

fn items() -> ContainerName {
    ContainerName::new("test", "few", "items")
}

fn locator(number: usize) -> Locator {
    Locator::murmur3(format!("item {number}"), "")
}

async fn read(transaction: &mut Transaction, number: usize) -> Result<bool, Error> {
    let container = transaction.container(&items()).await?;
    let item = transaction.read(&container, &locator(number)).await?;
    Ok(item.is_some())
}

async fn transact(store: Store, number: usize, together: Arc<Barrier>) -> Result<(), Error> {
    let mut transaction = store.open_transaction(LIFETIME).await?;
    together.wait().await;
    assert!(!read(&mut transaction, number).await?);
    let container = transaction.container(&items()).await?;
    for part in 0..3 {
        let new = NewItem::new(locator(number + 1_000 * part), "1");
        transaction.insert(&container, new).await?;
    }
    transaction.commit().await.map(drop)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn more_transactions_at_once_than_connections_all_succeed() {
    for connections in [1, 2, 3, 4, 8] {
        let store = store(connections).await;
        let at_once = connections * 3 + 1;
        let together = Arc::new(Barrier::new(at_once));
        let transactions: Vec<_> = (0..at_once)
            .map(|number| tokio::spawn(transact(store.clone(), number, Arc::clone(&together))))
            .collect();
        for transaction in transactions {
            let outcome = transaction.await.unwrap();
            assert_eq!(outcome, Ok(()), "{connections} connections");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn idle_transactions_leave_connections_for_statements_and_monitors() {
    for connections in [2, 5] {
        let store = store(connections).await;
        let mut idle = Vec::new();
        for number in 0..connections / 2 {
            let mut transaction = store.open_transaction(LIFETIME).await.unwrap();
            read(&mut transaction, number).await.unwrap();
            idle.push(transaction);
        }
        let mut beyond = store.open_transaction(LIFETIME).await.unwrap();
        let began = Instant::now();
        let (refused, ()) = tokio::join!(read(&mut beyond, 0), async {
            for number in 0..20 {
                let began = Instant::now();
                let mut statement = store.begin().await.unwrap();
                read(&mut statement, number).await.unwrap();
                store.engine().probe().await.unwrap();
                assert!(began.elapsed() < Duration::from_secs(1), "{number}");
            }
        });
        let refused = refused.unwrap_err();
        assert!(matches!(refused, Error::Unavailable(_)), "{refused}");
        assert!(
            refused.to_string().contains("engine-connections"),
            "{refused}"
        );
        assert!(began.elapsed() < Duration::from_secs(8));
        idle.pop();
        assert_eq!(read(&mut beyond, 0).await, Ok(false));
        // The first write of each key looks for what is newest beside the transaction.
        let container = beyond.container(&items()).await.unwrap();
        let new = NewItem::new(locator(7), "1");
        beyond.insert(&container, new).await.unwrap();
        beyond.commit().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn moments_count_as_kept_and_can_be_committed_at() {
    let store = store(2).await;
    let moment = store.keep_moment().await.unwrap();
    assert_eq!(read(&mut store.read_at(&moment), 0).await, Ok(false));
    let mut transaction = store.open_transaction_at(&moment, LIFETIME);
    let container = transaction.container(&items()).await.unwrap();
    let new = NewItem::new(locator(1), "1");
    transaction.insert(&container, new).await.unwrap();
    transaction.commit().await.unwrap();
    assert_eq!(read(&mut store.read_at(&moment), 1).await, Ok(false));
    drop(moment);
    let mut after = store.open_transaction(LIFETIME).await.unwrap();
    assert_eq!(read(&mut after, 1).await, Ok(true));
}

/// A role that may have so many connections, which is fewer than its engine is allowed, and the
/// address under which it uses a schema of its own.
async fn crowded(limit: usize) -> Address {
    let (cluster, schema) = (Cluster::shared(), new_schema_name());
    cluster.address(&schema).await;
    let role = format!(
        "CREATE ROLE role_{schema} LOGIN PASSWORD 'few' CONNECTION LIMIT {limit};
         GRANT ALL ON SCHEMA {schema} TO role_{schema}"
    );
    cluster.run(&role).await;
    let url = cluster.url_of_database("postgres");
    let (_, place) = url.split_once('@').unwrap();
    let url = format!("postgres://role_{schema}:few@{place}&options=-csearch_path%3D{schema}");
    Address::parse(&url).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn where_the_database_has_few_connections_to_give_requests_wait_for_those() {
    for limit in [5, 7] {
        let engine = PostgresEngine::connect(&crowded(limit).await, 40).await;
        let engine: Arc<dyn Engine> = Arc::new(engine.unwrap());
        let mut writers = Vec::new();
        for number in 0..40 {
            let engine = Arc::clone(&engine);
            writers.push(tokio::spawn(async move {
                for round in 0..5 {
                    let key = format!("{number} {round}");
                    let snapshot = engine.snapshot().await?;
                    snapshot.get(key.as_bytes()).await?;
                    snapshot.commit(put(&key, "1")).await?;
                }
                Ok::<_, EngineError>(())
            }));
        }
        for writer in writers {
            assert_eq!(writer.await.unwrap(), Ok(()), "{limit}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn definitions_at_once_need_no_more_connections_than_there_are() {
    let store = store(2).await;
    let mut creations = Vec::new();
    for number in 0..12 {
        let store = store.clone();
        creations.push(tokio::spawn(async move {
            let name = ContainerName::new("test", "few", format!("container {number}"));
            store
                .create_container(&name, &NewContainer::default())
                .await?;
            store.drop_container(&name).await.map(drop)
        }));
    }
    for creation in creations {
        creation.await.unwrap().unwrap();
    }
}
