//! Transactions that stay open across a client's round trips, and who meets them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tessera_core::definition::NewIndex;
use tessera_core::{Container, Error, Result, Store, Transaction};

use crate::support::*;

const LONG: Duration = Duration::from_secs(60);
const MOMENT: Duration = Duration::from_millis(40);

async fn filled(count: usize) -> Store {
    let store = open_store().await;
    let new = new_container(vec![NewIndex::unique("mail")], 2);
    store.create_container(&name("c"), &new).await.unwrap();
    for number in 0..count {
        let new = item(number, format!("mail=m{number};n=0"));
        insert(&store, &name("c"), new).await.unwrap();
    }
    store
}

async fn open(store: &Store) -> (Box<Transaction>, Arc<Container>) {
    let mut transaction = store.open_transaction(LONG).await.unwrap();
    let container = transaction.container(&name("c")).await.unwrap();
    (transaction, container)
}

async fn write(transaction: &mut Transaction, container: &Arc<Container>, n: usize) -> Result<()> {
    let new = item(n, format!("mail=m{n};n=1"));
    transaction.upsert(container, new).await.map(|_| ())
}

/// Whether a future stays unfinished for a moment.
async fn waits<T>(task: &mut tokio::task::JoinHandle<T>) -> bool {
    tokio::time::timeout(MOMENT, task).await.is_err()
}

#[tokio::test]
async fn the_second_open_writer_hears_of_the_first_at_its_statement() {
    let store = filled(3).await;
    let (mut first, container) = open(&store).await;
    let (mut second, _) = open(&store).await;
    write(&mut first, &container, 1).await.unwrap();
    write(&mut first, &container, 1).await.unwrap();
    write(&mut second, &container, 2).await.unwrap();
    assert_eq!(
        write(&mut second, &container, 1).await,
        Err(Error::Conflict)
    );
    assert!(second.is_blocked());
    drop(second);
    let (mut third, _) = open(&store).await;
    write(&mut third, &container, 2).await.unwrap();
    first.commit().await.unwrap();
    third.commit().await.unwrap();
    assert_sound(&store, &name("c")).await;
}

#[tokio::test]
async fn each_kind_of_write_meets_an_intent() {
    let store = filled(3).await;
    let (mut first, container) = open(&store).await;
    let held = first.read(&container, &locator(0)).await.unwrap().unwrap();
    first.remove(&container, &held).await.unwrap();
    first.guard(&container, &locator(1)).await.unwrap();
    first.insert(&container, item(7, "mail=new")).await.unwrap();
    for (what, number, body) in [
        ("a removed item", 0, "mail=x"),
        ("a guarded item", 1, "mail=y"),
        ("an inserted item", 7, "mail=z"),
        ("a unique value taken", 8, "mail=new"),
        ("a unique value given up", 9, "mail=m0"),
    ] {
        let (mut other, _) = open(&store).await;
        let refused = other.upsert(&container, item(number, body)).await;
        assert_eq!(refused.unwrap_err(), Error::Conflict, "{what}");
        assert!(other.is_blocked(), "{what}");
    }
}

#[tokio::test]
async fn a_write_since_the_snapshot_is_told_at_the_statement_and_a_fresh_start_helps() {
    let store = filled(2).await;
    let (mut late, container) = open(&store).await;
    upsert(&store, &name("c"), item(0, "mail=m0;n=5"))
        .await
        .unwrap();
    assert_eq!(write(&mut late, &container, 0).await, Err(Error::Conflict));
    assert!(!late.is_blocked());
    late.refresh().await.unwrap();
    write(&mut late, &container, 0).await.unwrap();
    late.commit().await.unwrap();
    let stored = body(&store, &name("c"), &locator(0)).await;
    assert_eq!(stored.as_deref(), Some("mail=m0;n=1"));
}

#[tokio::test]
async fn a_statement_waits_until_the_open_transaction_has_ended() {
    for commits in [true, false] {
        let store = filled(2).await;
        let (mut open, container) = open(&store).await;
        write(&mut open, &container, 0).await.unwrap();
        let writer = store.clone();
        let mut statement =
            tokio::spawn(async move { upsert(&writer, &name("c"), item(0, "mail=m0;n=2")).await });
        assert!(waits(&mut statement).await);
        // Others are not held up, not even by the latch of the waiting one.
        upsert(&store, &name("c"), item(1, "mail=m1;n=2"))
            .await
            .unwrap();
        if commits {
            open.commit().await.unwrap();
        } else {
            drop(open);
        }
        statement.await.unwrap().unwrap();
        let stored = body(&store, &name("c"), &locator(0)).await;
        assert_eq!(stored.as_deref(), Some("mail=m0;n=2"), "{commits}");
    }
}

#[tokio::test]
async fn a_transaction_beyond_its_time_is_refused_and_blocks_nobody() {
    let store = filled(1).await;
    let mut late = store.open_transaction(MOMENT).await.unwrap();
    let container = late.container(&name("c")).await.unwrap();
    write(&mut late, &container, 0).await.unwrap();
    let named = name("c");
    let statement = upsert(&store, &named, item(0, "mail=m0;n=3"));
    tokio::time::timeout(LONG / 2, statement)
        .await
        .unwrap()
        .unwrap();
    assert!(late.deadline().unwrap() <= tokio::time::Instant::now());
    assert_eq!(write(&mut late, &container, 0).await, Err(Error::Conflict));
    assert_eq!(late.commit().await.unwrap_err(), Error::Conflict);
}

#[tokio::test]
async fn a_transaction_that_grows_too_large_is_told_at_its_statement() {
    let store = filled(0).await;
    let limit = store.engine().capabilities().max_transaction_bytes;
    let (mut large, container) = open(&store).await;
    let body = "x".repeat(8 << 20);
    let mut refused = None;
    for number in 0..=limit / body.len() {
        let new = item(number, body.clone());
        refused = large.upsert(&container, new).await.err();
    }
    assert!(
        matches!(refused, Some(Error::TooLarge { .. })),
        "{refused:?}"
    );
}

/// Transfers by open transactions and by statements between few accounts: the sum never changes,
/// and everybody gets ahead.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn money_is_neither_lost_nor_made_between_open_transactions_and_statements() {
    const ACCOUNTS: usize = 4;
    const TRANSFERS: usize = 40;
    let store = filled(0).await;
    for number in 0..ACCOUNTS {
        insert(&store, &name("c"), item(number, "1000"))
            .await
            .unwrap();
    }
    let refusals = Arc::new(AtomicUsize::new(0));
    let tasks: Vec<_> = (0..6)
        .map(|worker| {
            let (store, refusals) = (store.clone(), Arc::clone(&refusals));
            tokio::spawn(async move {
                for step in 0..TRANSFERS {
                    let (from, to) = ((worker + step) % ACCOUNTS, (worker + step + 1) % ACCOUNTS);
                    if worker % 2 == 0 {
                        let places = [locator(from), locator(to)];
                        let named = name("c");
                        let items = [(&named, &places[0]), (&named, &places[1])];
                        let moved = store.run(&items, |transaction| {
                            Box::pin(transfer(transaction, from, to))
                        });
                        moved.await.unwrap();
                        continue;
                    }
                    while let Err(error) = transfer_openly(&store, from, to).await {
                        assert_eq!(error, Error::Conflict);
                        refusals.fetch_add(1, Ordering::Relaxed);
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        tokio::time::timeout(LONG, task).await.unwrap().unwrap();
    }
    let amounts = all(&store, &name("c")).await;
    let amounts = amounts.iter().map(|item| amount(&item.body));
    assert_eq!(
        amounts.sum::<i64>(),
        1_000 * i64::try_from(ACCOUNTS).unwrap()
    );
    assert!(refusals.load(Ordering::Relaxed) > 0, "nobody ever met");
}

async fn transfer_openly(store: &Store, from: usize, to: usize) -> Result<()> {
    let mut open = store.open_transaction(LONG).await?;
    transfer(&mut open, from, to).await?;
    // A client takes its time, so that somebody is always in the way of somebody.
    tokio::time::sleep(Duration::from_millis(1)).await;
    open.commit().await.map(|_| ())
}

async fn transfer(transaction: &mut Transaction, from: usize, to: usize) -> Result<()> {
    let container = transaction.container(&name("c")).await?;
    for (number, change) in [(from, -1), (to, 1)] {
        let old = transaction.read(&container, &locator(number)).await?;
        let old = old.ok_or(Error::NotFound("an account".into()))?;
        let new = item(number, (amount(&old.body) + change).to_string());
        transaction.replace(&container, &old, new).await?;
    }
    Ok(())
}

fn amount(body: &[u8]) -> i64 {
    std::str::from_utf8(body).unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_created_container_is_seen_by_others_from_the_commit_on() {
    let store = filled(0).await;
    let mut transaction = store.open_transaction(LONG).await.unwrap();
    let new = new_container(vec![], 1);
    let named = name("new");
    transaction.create_container(&named, &new).await.unwrap();
    let again = transaction.create_container(&named, &new).await;
    assert!(matches!(again, Err(Error::AlreadyExists(_))), "{again:?}");
    let indexes = [NewIndex::unique("mail")];
    let container = transaction
        .create_indexes(&named, &indexes, "pk".into())
        .await
        .unwrap();
    transaction
        .insert(&container, item(1, "mail=a"))
        .await
        .unwrap();
    let late = transaction
        .create_indexes(&named, &[NewIndex::new("late")], "pk".into())
        .await;
    assert!(matches!(late, Err(Error::Rejected(_))), "{late:?}");
    let unseen = store.begin().await.unwrap().container(&named).await;
    assert!(matches!(unseen, Err(Error::NotFound(_))), "{unseen:?}");
    transaction.commit().await.unwrap();
    assert_eq!(find(&store, &named, "mail", "a").await, [locator(1)]);
    let taken = insert(&store, &named, item(2, "mail=a")).await;
    assert!(matches!(taken, Err(Error::DuplicateValue { .. })));
    assert_sound(&store, &named).await;
    let store = reopened(store).await;
    assert_eq!(all(&store, &named).await.len(), 1);
}

#[tokio::test]
async fn a_container_created_by_nobody_in_the_end_leaves_nothing() {
    let store = filled(0).await;
    let (named, new) = (name("new"), new_container(vec![], 1));
    let mut dropped = store.open_transaction(LONG).await.unwrap();
    dropped.create_container(&named, &new).await.unwrap();
    let mut rival = store.open_transaction(LONG).await.unwrap();
    let refused = rival.create_container(&named, &new).await;
    assert_eq!(refused.unwrap_err(), Error::Conflict);
    drop((dropped, rival));
    let mut overtaken = store.open_transaction(LONG).await.unwrap();
    overtaken.create_container(&named, &new).await.unwrap();
    store.create_container(&named, &new).await.unwrap();
    assert_eq!(overtaken.commit().await.unwrap_err(), Error::Conflict);
    insert(&store, &named, item(1, "mail=a")).await.unwrap();
    assert_sound(&store, &named).await;
}
