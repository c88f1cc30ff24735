//! Provisioned throughput: each physical partition has its share of every second.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::support::*;
use tessera_core::clock::Clock;
use tessera_core::definition::NewContainer;
use tessera_core::locator::Locator;
use tessera_core::provisioning::Throughput;
use tessera_core::{Error, Store};

const PROVISIONED: u32 = 400;
const PARTITIONS: u32 = 2;
/// An insert of a small item costs 5.5 request units, and a partition has 200 a second: the 37th
/// insert uses up what is left.
const INSERTS_PER_SECOND: usize = 37;

async fn store(clock: &Clock, provisioned: Option<u32>) -> Store {
    let store = open_store_at(clock.clone()).await;
    let new = NewContainer {
        throughput: provisioned.map(Throughput::Manual),
        ..new_container(vec![], PARTITIONS)
    };
    store.create_container(&name("c"), &new).await.unwrap();
    store
}

/// A place in the first (`-1`) or second (`1`) partition.
fn place(token: i64, row: usize) -> Locator {
    Locator::row(token, "p", row.to_string())
}

async fn put(store: &Store, locator: Locator) -> Result<(), Error> {
    let new = tessera_core::item::NewItem::new(locator, "x");
    insert(store, &name("c"), new).await.map(|_| ())
}

#[tokio::test]
async fn a_partition_that_used_up_its_share_waits_for_the_next_second() {
    let clock = Clock::manual(5_200);
    let store = store(&clock, Some(PROVISIONED)).await;
    for row in 0..INSERTS_PER_SECOND {
        put(&store, place(-1, row)).await.unwrap();
    }
    let throttled = put(&store, place(-1, 99)).await.unwrap_err();
    let Error::Throttled { retry_after, .. } = throttled else {
        panic!("{throttled}");
    };
    assert_eq!(retry_after.as_millis(), 800);
    assert_eq!(body(&store, &name("c"), &place(1, 0)).await, None);
    put(&store, place(1, 0)).await.unwrap();
    clock.advance(800);
    put(&store, place(-1, 99)).await.unwrap();
}

#[tokio::test]
async fn reads_and_failed_writes_are_paid_for_too() {
    let clock = Clock::manual(5_000);
    let store = store(&clock, Some(PROVISIONED)).await;
    put(&store, place(-1, 0)).await.unwrap();
    let mut reads = 0;
    loop {
        let mut transaction = store.begin().await.unwrap();
        let container = transaction.container(&name("c")).await.unwrap();
        match transaction.read(&container, &place(-1, 0)).await {
            Ok(item) => assert!(item.is_some()),
            Err(Error::Throttled { .. }) => break,
            Err(error) => panic!("{error}"),
        }
        reads += 1;
    }
    // 200 request units, of which the insert took 5.5.
    assert_eq!(reads, 195);
}

#[tokio::test]
async fn without_provisioned_throughput_nothing_is_held_back() {
    let clock = Clock::manual(5_000);
    let store = store(&clock, None).await;
    for row in 0..10 * INSERTS_PER_SECOND {
        put(&store, place(-1, row)).await.unwrap();
    }
}

/// Thirty seconds in which the first partition is asked for more than it has, all the time, and the
/// second for a little.
#[tokio::test]
async fn what_is_granted_is_what_was_provisioned_and_neighbours_do_not_suffer() {
    const SECONDS: usize = 30;
    let clock = Clock::manual(5_000);
    let store = store(&clock, Some(PROVISIONED)).await;
    for tenth in 0..SECONDS * 10 {
        for row in 0..INSERTS_PER_SECOND {
            // Of different prices, so that seconds do not end where a budget does.
            let body = "x".repeat(100 * (row + tenth % 7));
            let locator = place(-1, tenth * INSERTS_PER_SECOND + row);
            let new = tessera_core::item::NewItem::new(locator, body);
            match insert(&store, &name("c"), new).await {
                Ok(()) => {}
                Err(Error::Throttled { .. }) => break,
                Err(error) => panic!("{error}"),
            }
        }
        put(&store, place(1, tenth)).await.unwrap();
        clock.advance(100);
    }
    let insight = store.insight(&name("c")).await.unwrap();
    let [busy, quiet] = insight.partitions.as_slice() else {
        panic!("{insight:?}");
    };
    assert_eq!(quiet.throttled, 0);
    assert!(busy.throttled > 0);
    let granted = busy.charged.request_units();
    let share = f64::from(PROVISIONED / PARTITIONS);
    let expected = share * f64::from(u32::try_from(SECONDS).unwrap());
    assert!(
        (granted / expected - 1.0).abs() < 0.02,
        "{granted} of {expected}"
    );
}

/// A store whose database shares 20,000 request units per second, with containers `a` and `b` from
/// before and `c` with its own.
async fn sharing_store(clock: &Clock) -> Store {
    let store = open_store_at(clock.clone()).await;
    for container in ["a", "b", "c"] {
        let new = NewContainer {
            throughput: (container == "c").then_some(Throughput::Manual(PROVISIONED)),
            ..new_container(vec![], 1)
        };
        store
            .create_container(&name(container), &new)
            .await
            .unwrap();
    }
    store
        .provision_database(API, "db", Some(Throughput::Manual(20_000)))
        .await
        .unwrap();
    store
}

async fn put_into(store: &Store, container: &str, locator: Locator) -> Result<(), Error> {
    let new = tessera_core::item::NewItem::new(locator, "x");
    insert(store, &name(container), new).await.map(|_| ())
}

#[tokio::test]
async fn containers_share_what_their_database_has() {
    let clock = Clock::manual(5_000);
    let store = sharing_store(&clock).await;
    let later = new_container(vec![], 1);
    store
        .create_container(&name("later"), &later)
        .await
        .unwrap();
    let other = tessera_core::name::ContainerName::new(API, "other", "a");
    store.create_container(&other, &later).await.unwrap();
    for (container, partitions, budget) in
        [("a", 2, 10_000.0), ("later", 2, 10_000.0), ("c", 1, 400.0)]
    {
        let insight = store.insight(&name(container)).await.unwrap();
        assert_eq!(insight.partitions.len(), partitions, "{container}");
        assert_eq!(insight.partitions[0].budget, Some(budget), "{container}");
    }
    assert_eq!(store.insight(&other).await.unwrap().shared, None);

    // Both take from the first half's share, which has 10,000; 1,819 inserts use it up.
    let mut passed = 0;
    while put_into(&store, ["a", "b", "later"][passed % 3], place(-1, passed))
        .await
        .is_ok()
    {
        passed += 1;
    }
    assert_eq!(passed, 1_819);
    for container in ["a", "b", "later"] {
        let refused = put_into(&store, container, place(-2, 0)).await;
        assert!(
            matches!(refused, Err(Error::Throttled { .. })),
            "{container}"
        );
        put_into(&store, container, place(1, 0)).await.unwrap();
    }
    put_into(&store, "c", place(-1, 0)).await.unwrap();
}

#[tokio::test]
async fn what_a_database_shares_changes_for_all_its_containers() {
    let clock = Clock::manual(5_000);
    let store = sharing_store(&clock).await;
    let shared = async |container: &str| store.insight(&name(container)).await.unwrap().shared;
    assert_eq!(shared("a").await, Some(Throughput::Manual(20_000)));
    assert_eq!(shared("c").await, None, "it has its own");
    store.provision(&name("c"), None).await.unwrap();
    assert_eq!(shared("c").await, Some(Throughput::Manual(20_000)));
    assert_eq!(store.insight(&name("c")).await.unwrap().partitions.len(), 2);
    let scaled = Some(Throughput::Autoscale(30_000));
    store.provision_database(API, "db", scaled).await.unwrap();
    for container in ["a", "b", "c"] {
        assert_eq!(shared(container).await, scaled, "{container}");
        let insight = store.insight(&name(container)).await.unwrap();
        assert_eq!(insight.partitions.len(), 3, "{container}");
    }
    let listed = store.database_throughputs().await.unwrap();
    assert_eq!(
        listed,
        [(
            API.to_owned(),
            "db".to_owned(),
            Throughput::Autoscale(30_000)
        )]
    );
    store.provision_database(API, "db", None).await.unwrap();
    assert_eq!(shared("a").await, None);
    assert_eq!(store.database_throughput(API, "db").await.unwrap(), None);
}

#[tokio::test]
async fn a_patient_store_lets_requests_wait_for_their_turn() {
    let mut options = options(Clock::system());
    options.throttling.patience = Duration::from_secs(3);
    let engine = Arc::new(tessera_core::memory::MemoryEngine::new());
    let store = Store::open(engine, options).await.unwrap();
    let new = NewContainer {
        throughput: Some(Throughput::Manual(PROVISIONED)),
        ..new_container(vec![], 1)
    };
    store.create_container(&name("c"), &new).await.unwrap();
    let began = Instant::now();
    // A second has 73 inserts; the first one may be almost over, the third begins two waits later.
    for row in 0..2 * 73 + 1 {
        put(&store, place(-1, row)).await.unwrap();
    }
    let waited = began.elapsed();
    assert!(waited >= Duration::from_secs(1), "{waited:?}");
    let throttled = async || store.insight(&name("c")).await.unwrap().partitions[0].throttled;
    assert_eq!(throttled().await, 0);
    // 16 MiB cost more than twenty seconds have. For one such request nobody waits long; the next
    // one is more than is put off, and for that it has no patience.
    let large = |row| tessera_core::item::NewItem::new(place(-1, row), "x".repeat(16 << 20));
    insert(&store, &name("c"), large(998)).await.unwrap();
    insert(&store, &name("c"), large(999)).await.unwrap();
    let refused = put(&store, place(-1, 1_000)).await.unwrap_err();
    assert!(matches!(refused, Error::Throttled { .. }), "{refused}");
    let why = "is paying off a request of";
    assert!(refused.to_string().contains(why), "{refused}");
    assert_eq!(throttled().await, 1);
}

/// What waits for throughput has no latch: a writer that meets it there goes ahead.
#[tokio::test]
async fn who_waits_for_throughput_keeps_nobody_waiting_who_has_it() {
    let mut options = options(Clock::system());
    options.throttling.patience = Duration::from_secs(30);
    let engine = Arc::new(tessera_core::memory::MemoryEngine::new());
    let store = Store::open(engine, options).await.unwrap();
    for (container, throughput) in [("slow", Some(Throughput::Manual(400))), ("free", None)] {
        let new = NewContainer {
            throughput,
            ..new_container(vec![], 1)
        };
        let created = store.create_container(&name(container), &new).await;
        created.unwrap();
    }
    let large = tessera_core::item::NewItem::new(place(-1, 0), "x".repeat(4 << 20));
    insert(&store, &name("slow"), large).await.unwrap();
    // All of them name the same item of the other container, as if their items met on a stripe.
    let shared = place(-1, 1);
    let waiting = (0..20).map(|row| {
        let (store, shared) = (store.clone(), shared.clone());
        tokio::spawn(async move {
            let free = name("free");
            let items = [(&free, &shared)];
            let written = store.run(&items, move |transaction| {
                Box::pin(async move {
                    let slow = transaction.container(&name("slow")).await?;
                    let new = tessera_core::item::NewItem::new(place(-1, 100 + row), "x");
                    transaction.upsert(&slow, new).await.map(|_| ())
                })
            });
            written.await.map(|_| ())
        })
    });
    let waiting: Vec<_> = waiting.collect();
    tokio::time::sleep(Duration::from_millis(50)).await;
    let began = Instant::now();
    for row in 0..20 {
        let new = tessera_core::item::NewItem::new(shared.clone(), row.to_string());
        upsert(&store, &name("free"), new).await.unwrap();
    }
    let took = began.elapsed();
    assert!(took < Duration::from_millis(700), "{took:?}");
    assert!(waiting.iter().any(|task| !task.is_finished()));
    for task in waiting {
        task.await.unwrap().unwrap();
    }
    let insight = store.insight(&name("slow")).await.unwrap();
    assert_eq!(insight.partitions[0].statistics.tally.items, 21);
    assert_eq!(insight.partitions[0].throttled, 0);
}

/// Whatever becomes of the wall clock, what is granted stays what was provisioned.
#[tokio::test]
async fn a_wall_clock_that_is_set_changes_no_admission() {
    const HOUR: i64 = 3_600_000;
    for step in [HOUR, -HOUR, 24 * HOUR, -24 * HOUR] {
        let clock = Clock::manual(1_700_000_000_000);
        let store = store(&clock, Some(PROVISIONED)).await;
        for second in 0..4 {
            let mut granted = 0;
            while put(&store, place(-1, 100 * second + granted)).await.is_ok() {
                granted += 1;
            }
            // The first second lends a little to the ones that follow.
            assert!((36..=INSERTS_PER_SECOND).contains(&granted), "{granted}");
            clock.set_wall(clock.now_ms().saturating_add_signed(step));
            assert!(put(&store, place(-1, 9_999)).await.is_err(), "{step}");
            clock.advance(1_000);
        }
    }
}

#[tokio::test]
async fn lower_throughput_refuses_nobody_for_what_was_spent_before() {
    let clock = Clock::manual(5_000);
    let store = store(&clock, Some(20_000)).await;
    for row in 0..1_000 {
        put(&store, place(-1, row)).await.unwrap();
    }
    for lowered in [10_000, 4_000, 400] {
        let throughput = Some(Throughput::Manual(lowered));
        store.provision(&name("c"), throughput).await.unwrap();
        put(&store, place(-1, 1_000 + lowered as usize))
            .await
            .unwrap();
    }
}

/// A throughput that cannot have the partitions it needs is not set.
#[tokio::test]
async fn throughput_without_its_partitions_is_refused_whole() {
    let clock = Clock::manual(5_000);
    let store = store(&clock, Some(PROVISIONED)).await;
    // Both partitions are being split by somebody who does not finish.
    for partition in 0..2 {
        let begun = store.begin_split(&name("c"), partition, None).await;
        if begun.is_err() {
            let at = [i64::MIN / 2, i64::MAX / 2][partition as usize];
            let begun = store.begin_split(&name("c"), partition, Some(at)).await;
            begun.unwrap();
        }
    }
    let wanted = Some(Throughput::Manual(30_000));
    let refused = store.provision(&name("c"), wanted).await.unwrap_err();
    let insight = store.insight(&name("c")).await.unwrap();
    assert_eq!(
        insight.throughput,
        Some(Throughput::Manual(PROVISIONED)),
        "{refused}"
    );
    // What needs no more partitions is set.
    let enough = Some(Throughput::Manual(20_000));
    store.provision(&name("c"), enough).await.unwrap();
    let insight = store.insight(&name("c")).await.unwrap();
    assert_eq!(insight.throughput, enough);
}

#[tokio::test]
async fn only_so_many_containers_share_what_a_database_has() {
    let mut options = options(Clock::manual(5_000));
    options.limits.shared_containers = Some(3);
    let engine = Arc::new(tessera_core::memory::MemoryEngine::new());
    let store = Store::open(engine, options).await.unwrap();
    let new = |own: bool| NewContainer {
        throughput: own.then_some(Throughput::Manual(PROVISIONED)),
        ..new_container(vec![], 1)
    };
    let create = async |container: &str, own: bool| {
        store
            .create_container(&name(container), &new(own))
            .await
            .map(|_| ())
    };
    let refused = |outcome: Result<(), Error>| match outcome {
        Err(Error::Rejected(words)) => {
            assert!(words.starts_with("at most 3 containers"), "{words}")
        }
        other => panic!("{other:?}"),
    };
    let shared = Some(Throughput::Manual(PROVISIONED));
    for container in ["a", "b", "c", "d"] {
        create(container, false).await.unwrap();
    }
    refused(store.provision_database(API, "db", shared).await);
    store.drop_container(&name("d")).await.unwrap();
    store.provision_database(API, "db", shared).await.unwrap();
    store.provision_database(API, "db", shared).await.unwrap();
    refused(create("e", false).await);
    create("own", true).await.unwrap();
    refused(store.provision(&name("own"), None).await);
    let elsewhere = tessera_core::name::ContainerName::new(API, "other", "x");
    store
        .create_container(&elsewhere, &new(false))
        .await
        .unwrap();
    refused(
        store
            .rename_container(&elsewhere, &name("x"))
            .await
            .map(|_| ()),
    );
    store
        .rename_container(&name("a"), &name("z"))
        .await
        .unwrap();
    store.drop_container(&name("b")).await.unwrap();
    store.provision(&name("own"), None).await.unwrap();
    refused(create("e", false).await);
    store.drop_container(&name("c")).await.unwrap();
    // Of two that come at the same moment one gets the last place.
    let (one, other) = tokio::join!(create("f", false), create("g", false));
    assert_eq!(one.is_ok() as u8 + other.is_ok() as u8, 1);
}
