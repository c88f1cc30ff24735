//! Two servers on one database: one sum of money, one catalog, one budget.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tessera_core::background::Background;
use tessera_core::clock::Clock;
use tessera_core::definition::NewContainer;
use tessera_core::item::NewItem;
use tessera_core::locator::Locator;
use tessera_core::name::ContainerName;
use tessera_core::provisioning::Throughput;
use tessera_core::store::StoreOptions;
use tessera_core::{Error, Store};
use tessera_storage::PostgresEngine;
use tokio::time::{Duration, Instant};

use crate::cluster::{Cluster, new_schema_name};

const ACCOUNTS: usize = 20;
const START_BALANCE: i64 = 1_000;
const SUMS: usize = 10_000;

/// Two servers that start at the same moment on an empty database.
async fn two_stores() -> [Store; 2] {
    let (cluster, schema) = (Cluster::shared(), new_schema_name());
    let open = async || Store::open(cluster.open(&schema), StoreOptions::default()).await;
    let (one, other) = tokio::join!(open(), open());
    [one.unwrap(), other.unwrap()]
}

fn name(container: &str) -> ContainerName {
    ContainerName::new("test", "bank", container)
}

async fn create(store: &Store, container: &str) {
    store
        .create_container(&name(container), &NewContainer::default())
        .await
        .unwrap();
}

fn accounts() -> Vec<Locator> {
    let account = |number| Locator::murmur3(format!("account {number}"), "");
    (0..ACCOUNTS).map(account).collect()
}

fn balance(body: &[u8]) -> i64 {
    std::str::from_utf8(body).unwrap().parse().unwrap()
}

/// Moves one from a container to the other.
async fn transfer(store: &Store, account: &Locator, other: &Locator) -> Result<(), Error> {
    let mut transaction = store.begin().await?;
    for (container, account, change) in [("left", account, -1), ("right", other, 1)] {
        let container = transaction.container(&name(container)).await?;
        let item = transaction.read(&container, account).await?.unwrap();
        let body = (balance(&item.body) + change).to_string();
        let new = NewItem::new(account.clone(), body);
        transaction.upsert(&container, new).await?;
    }
    transaction.commit().await.map(drop)
}

async fn sum(store: &Store) -> Result<i64, Error> {
    let mut transaction = store.begin().await?;
    let mut sum = 0;
    for container in ["left", "right"] {
        let container = transaction.container(&name(container)).await?;
        let items = transaction.read_many(&container, &accounts()).await?;
        sum += items
            .iter()
            .map(|item| balance(&item.as_ref().unwrap().body))
            .sum::<i64>();
    }
    Ok(sum)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_sum_of_all_money_is_the_same_on_both() {
    let stores = two_stores().await;
    for container in ["left", "right"] {
        create(&stores[0], container).await;
        let mut transaction = stores[1].begin().await.unwrap();
        let container = transaction.container(&name(container)).await.unwrap();
        for account in accounts() {
            let new = NewItem::new(account, START_BALANCE.to_string());
            transaction.insert(&container, new).await.unwrap();
        }
        transaction.commit().await.unwrap();
    }
    let stop = Arc::new(AtomicBool::new(false));
    let mut writers = Vec::new();
    for (number, store) in stores.iter().cycle().take(6).enumerate() {
        let (store, stop) = (store.clone(), Arc::clone(&stop));
        writers.push(tokio::spawn(async move {
            let (accounts, mut done, mut step) = (accounts(), 0, number);
            while !stop.load(Ordering::Relaxed) {
                step += 7;
                let account = &accounts[step % ACCOUNTS];
                let other = &accounts[step * 3 % ACCOUNTS];
                match transfer(&store, account, other).await {
                    Ok(()) => done += 1,
                    Err(Error::Conflict) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            done
        }));
    }
    let sums = Arc::new(AtomicUsize::new(0));
    let mut readers = Vec::new();
    for store in stores.iter().cycle().take(6) {
        let (store, sums) = (store.clone(), Arc::clone(&sums));
        readers.push(tokio::spawn(async move {
            while sums.fetch_add(1, Ordering::Relaxed) < SUMS {
                let expected = 2 * START_BALANCE * i64::try_from(ACCOUNTS).unwrap();
                assert_eq!(sum(&store).await.unwrap(), expected);
            }
        }));
    }
    // Beside it one server splits what both write to.
    let left = name("left");
    let halves = stores[0].split_partition(&left, 0, Some(0)).await.unwrap();
    for reader in readers {
        reader.await.unwrap();
    }
    stop.store(true, Ordering::Relaxed);
    let mut transfers = 0;
    for writer in writers {
        transfers += writer.await.unwrap();
    }
    assert!(transfers > 100, "{transfers}");
    let mut transaction = stores[1].begin().await.unwrap();
    let split = transaction.container(&left).await.unwrap();
    let halves_seen = transaction.statistics(&split).await.unwrap().len();
    assert_eq!(halves_seen, 2, "{halves:?}");
    println!("{transfers} transfers while {SUMS} sums were read");
    for store in &stores {
        for container in ["left", "right"] {
            let faults = store.verify(&name(container)).await.unwrap();
            assert_eq!(faults, Vec::<String>::new());
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn servers_that_start_at_once_on_an_empty_database_make_its_tables_once() {
    for _ in 0..5 {
        let address = Cluster::shared().address(&new_schema_name()).await;
        let connect = || {
            let address = address.clone();
            tokio::spawn(async move { PostgresEngine::connect(&address, 4).await.map(drop) })
        };
        let servers = [connect(), connect(), connect(), connect()];
        for server in servers {
            server.await.unwrap().unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_one_server_defines_is_announced_to_the_other() {
    let stores = two_stores().await;
    let backgrounds = stores.clone().map(Background::start);
    let [one, other] = &stores;
    let mut heard = other.news();
    // Until they listen, servers hear that they may have missed something.
    let mut created = 0;
    while created < 3 {
        create(one, &format!("c{created}")).await;
        let patience = Instant::now() + Duration::from_secs(10);
        while other.news() == heard {
            assert!(
                Instant::now() < patience,
                "container {created} was not announced"
            );
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        heard = other.news();
        created += 1;
    }
    assert!(one.news() <= 1, "nobody hears itself");
    for background in backgrounds {
        background.stop().await;
    }
}

/// Reads one item over and over, and returns how often it was let in.
async fn spend(store: Store, stop: Arc<AtomicBool>) -> usize {
    let mut granted = 0;
    while !stop.load(Ordering::Relaxed) {
        let read = async {
            let mut transaction = store.begin().await?;
            let container = transaction.container(&name("budget")).await?;
            transaction.read(&container, &accounts()[0]).await
        };
        match read.await {
            Ok(_) => granted += 1,
            Err(Error::Throttled { .. }) => tokio::time::sleep(Duration::from_millis(20)).await,
            Err(error) => panic!("{error}"),
        }
    }
    granted
}

/// For how long grants are counted.
const SECONDS: u32 = 6;

/// How many reads each server grants in a second, asked by so many tasks; in some seconds, after
/// it was asked for a while.
async fn granted(stores: &[Store; 2], tasks: [usize; 2]) -> [f64; 2] {
    const SETTLING: Duration = Duration::from_secs(3);
    let mut granted = [0.0; 2];
    for (measured, patience) in [
        (false, SETTLING),
        (true, Duration::from_secs(SECONDS.into())),
    ] {
        let began = Instant::now();
        let stop = Arc::new(AtomicBool::new(false));
        let spenders: Vec<_> = stores
            .iter()
            .zip(tasks)
            .enumerate()
            .flat_map(|(server, (store, tasks))| (0..tasks).map(move |_| (server, store.clone())))
            .map(|(server, store)| (server, tokio::spawn(spend(store, Arc::clone(&stop)))))
            .collect();
        tokio::time::sleep(patience).await;
        stop.store(true, Ordering::Relaxed);
        // A machine that is busy wakes this up late.
        let seconds = began.elapsed().as_secs_f64();
        for (server, spender) in spenders {
            let reads = spender.await.unwrap();
            if measured {
                granted[server] += f64::from(u32::try_from(reads).unwrap()) / seconds;
            }
        }
    }
    granted
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_servers_together_grant_one_budget() {
    const PROVISIONED: u32 = 400;
    let stores = two_stores().await;
    let new = NewContainer {
        throughput: Some(Throughput::Manual(PROVISIONED)),
        ..NewContainer::default()
    };
    let budget = name("budget");
    stores[0].create_container(&budget, &new).await.unwrap();
    let backgrounds = stores.clone().map(Background::start);
    // Reading what is not there costs one request unit.
    for tasks in [[4, 4], [8, 0]] {
        let [one, other] = granted(&stores, tasks).await;
        println!("{tasks:?} tasks were granted {one:.0} and {other:.0} of {PROVISIONED} RU/s");
        let ratio = (one + other) / f64::from(PROVISIONED);
        // So many seconds touch one more, and each is granted at its beginning.
        let most = 1.1 + 1.0 / f64::from(SECONDS);
        assert!((0.9..most).contains(&ratio), "{tasks:?}: {one} and {other}");
        if tasks[1] > 0 {
            assert!((0.8..1.25).contains(&(one / other)), "{one} and {other}");
        }
    }
    for background in backgrounds {
        background.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_one_server_does_to_containers_holds_for_the_other() {
    let stores = two_stores().await;
    let [one, other] = &stores;
    let bank = name("bank");
    let insert = async |store: &Store, key: &str| -> Result<(), Error> {
        let mut transaction = store.begin().await?;
        let container = transaction.container(&bank).await?;
        let new = NewItem::new(Locator::murmur3(key.to_owned(), ""), "1");
        transaction.insert(&container, new).await?;
        transaction.commit().await.map(drop)
    };
    for round in 0..3 {
        assert!(matches!(insert(other, "a").await, Err(Error::NotFound(_))));
        create(one, "bank").await;
        insert(other, "a").await.unwrap();
        insert(one, "b").await.unwrap();
        // A transaction that began before the drop must not write after it.
        let mut late = other.begin().await.unwrap();
        let container = late.container(&bank).await.unwrap();
        let new = NewItem::new(Locator::murmur3("late", ""), "1");
        late.insert(&container, new).await.unwrap();
        assert_eq!(other.verify(&bank).await.unwrap(), Vec::<String>::new());
        one.drop_container(&bank).await.unwrap();
        let outcome = late.commit().await.err();
        assert!(matches!(outcome, Some(Error::Conflict)), "{round}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_server_leads_until_it_is_silent() {
    const TERM: Duration = Duration::from_secs(10);
    let clock = Clock::manual(1_700_000_000_000);
    let (cluster, schema) = (Cluster::shared(), new_schema_name());
    let open = async || {
        let options = StoreOptions {
            clock: clock.clone(),
            ..StoreOptions::default()
        };
        Store::open(cluster.open(&schema), options).await.unwrap()
    };
    let (one, other) = tokio::join!(open(), open());
    let term_ms = u64::try_from(TERM.as_millis()).unwrap();
    for work in ["expiry", "sizes"] {
        let (first, second) = tokio::join!(one.leads(work, TERM), other.leads(work, TERM));
        let (first, second) = (first.unwrap(), second.unwrap());
        assert!(!(first && second), "{work}: both");
        // If both tried at once, the next one asked gets it.
        let leader = if second { &other } else { &one };
        let follower = if second { &one } else { &other };
        // Longer than a term, because it says in time that it is still there.
        for _ in 0..10 {
            assert!(leader.leads(work, TERM).await.unwrap(), "{work}");
            assert!(!follower.leads(work, TERM).await.unwrap(), "{work}");
            clock.advance(term_ms / 2);
        }
        // By now it has been silent for half of a term.
        clock.advance(term_ms / 2 - 1);
        assert!(!follower.leads(work, TERM).await.unwrap(), "{work}");
        clock.advance(1);
        assert!(follower.leads(work, TERM).await.unwrap(), "{work}");
        assert!(!leader.leads(work, TERM).await.unwrap(), "{work}");
    }
    // One that a clock far ahead gave does not last.
    assert!(one.leads("ahead", TERM * 1_000).await.unwrap());
    assert!(other.leads("ahead", TERM).await.unwrap());
}
