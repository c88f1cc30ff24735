//! The change feed: what whoever follows sees of items and containers, in which order, and when
//! not.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tessera_core::clock::Clock;
use tessera_core::feed::control::Event;
use tessera_core::feed::definition::{FeedId, Images};
use tessera_core::feed::policy::{FeedScope, FeedWish, Followed};
use tessera_core::feed::position::Position;
use tessera_core::feed::reader::{Change, FeedItem, FeedRequest};
use tessera_core::feed::record::{Annotation, ChangeKind, ChangeRecord};
use tessera_core::feed::writing::ChangeHint;
use tessera_core::locator::Locator;
use tessera_core::name::ContainerName;
use tessera_core::rebuild::NewPlacement;
use tessera_core::{Error, Result, Store};

use crate::support::{
    all, assert_sound, delete, insert, item, keys_in, locator, name, new_container, open_store,
    open_store_at, upsert,
};

pub(crate) async fn follow(store: &Store, name: &ContainerName) -> Followed {
    follow_with(store, name, FeedWish::default()).await
}

async fn follow_with(store: &Store, name: &ContainerName, wish: FeedWish) -> Followed {
    let scope = FeedScope::Container(name.clone());
    store.follow(&scope, &wish).await.unwrap()
}

/// Everything behind a position, in small pages.
pub(crate) async fn read(
    store: &Store,
    feed: FeedId,
    after: Position,
) -> Result<(Vec<FeedItem>, Position)> {
    let mut request = FeedRequest::after(after);
    request.max_entries = 3;
    let mut items = Vec::new();
    loop {
        let page = store.read_feed(feed, &request).await?;
        assert!(page.items.len() <= 3);
        assert!(page.position >= request.after);
        request.after = page.position;
        items.extend(page.items);
        if !page.has_more {
            assert!(items.is_sorted_by(|a: &FeedItem, b: &FeedItem| a.position < b.position));
            return Ok((items, request.after));
        }
    }
}

pub(crate) async fn changes(store: &Store, followed: Followed) -> Vec<FeedItem> {
    read(store, followed.feed, followed.position)
        .await
        .unwrap()
        .0
}

/// What happened, in short.
pub(crate) fn told(items: &[FeedItem]) -> Vec<String> {
    items
        .iter()
        .map(|item| match &item.change {
            Change::Item(record) => {
                let row = String::from_utf8_lossy(&record.locator.row_key).into_owned();
                format!(
                    "{:?} {row} {}",
                    record.kind,
                    String::from_utf8_lossy(&record.payload)
                )
            }
            Change::Container(control) => format!("{:?}", control.event),
        })
        .collect()
}

pub(crate) fn records(items: &[FeedItem]) -> Vec<ChangeRecord> {
    let record = |item: &FeedItem| match &item.change {
        Change::Item(record) => Some(ChangeRecord::clone(record)),
        Change::Container(_) => None,
    };
    items.iter().filter_map(record).collect()
}

pub(crate) async fn create(store: &Store, container: &str, partitions: u32) -> ContainerName {
    let name = name(container);
    let new = new_container(vec![], partitions);
    store.create_container(&name, &new).await.unwrap();
    name
}

/// Runs a statement that says something of its change.
async fn hinted(store: &Store, name: &ContainerName, number: usize, hint: Option<ChangeHint>) {
    let name = name.clone();
    let done = store.run(&[], move |transaction| {
        let (name, hint) = (name.clone(), hint.clone());
        Box::pin(async move {
            let container = transaction.container(&name).await?;
            let old = transaction
                .read(&container, &locator(number))
                .await?
                .unwrap();
            transaction.annotate(Some(Annotation {
                session: Bytes::from_static(b"session"),
                transaction: Some(7),
                statement: 2,
            }));
            if let Some(hint) = hint {
                transaction.hint_change(hint);
            }
            transaction
                .replace(&container, &old, item(number, "changed"))
                .await?;
            Ok::<_, Error>(())
        })
    });
    done.await.unwrap();
}

#[tokio::test]
async fn changes_come_in_order_and_say_what_they_are() {
    let store = open_store().await;
    let name = create(&store, "c", 1).await;
    insert(&store, &name, item(0, "before anybody follows"))
        .await
        .unwrap();
    let followed = follow(&store, &name).await;
    insert(&store, &name, item(1, "one")).await.unwrap();
    upsert(&store, &name, item(1, "two")).await.unwrap();
    hinted(
        &store,
        &name,
        1,
        Some(ChangeHint::Update(Some(Bytes::from_static(b"diff")))),
    )
    .await;
    hinted(&store, &name, 1, Some(ChangeHint::Update(None))).await;
    hinted(&store, &name, 1, Some(ChangeHint::Silent)).await;
    delete(&store, &name, locator(1)).await.unwrap();
    let found = changes(&store, followed).await;
    assert_eq!(
        told(&found),
        [
            "Insert r1 one",
            "Replace r1 two",
            "Update r1 diff",
            "Update r1 changed",
            "Delete r1 ",
        ]
    );
    let records = records(&found);
    assert!(records.is_sorted_by(|one, other| one.version <= other.version));
    let note = records[2].note.clone().unwrap();
    assert_eq!((note.transaction, note.statement), (Some(7), 2));
    assert_eq!(records[1].note, None);
    assert!(
        records
            .iter()
            .all(|it| it.before.is_none() && it.after.is_none())
    );
    // Each position goes on right behind its entry.
    for (at, entry) in found.iter().enumerate() {
        let (rest, _) = read(&store, followed.feed, entry.position).await.unwrap();
        assert_eq!(told(&rest), told(&found[at + 1..]));
    }
    assert_sound(&store, &name).await;
}

#[tokio::test]
async fn nobody_listening_writes_nothing() {
    let store = open_store().await;
    let name = create(&store, "c", 2).await;
    insert(&store, &name, item(1, "one")).await.unwrap();
    store.truncate_container(&name).await.unwrap();
    assert_eq!(keys_in(&store, tessera_core::key::log()).await, 0);
    follow(&store, &name).await;
    store.turn_off_feed(&name).await.unwrap();
    let before = keys_in(&store, tessera_core::key::log()).await;
    insert(&store, &name, item(2, "two")).await.unwrap();
    assert_eq!(keys_in(&store, tessera_core::key::log()).await, before);
}

#[tokio::test]
async fn images_are_there_where_they_were_asked_for() {
    let store = open_store().await;
    let name = create(&store, "c", 1).await;
    let wish = FeedWish {
        images: Images::BOTH,
        ..FeedWish::default()
    };
    let followed = follow_with(&store, &name, wish).await;
    insert(&store, &name, item(1, "one")).await.unwrap();
    hinted(
        &store,
        &name,
        1,
        Some(ChangeHint::Update(Some(Bytes::from_static(b"diff")))),
    )
    .await;
    delete(&store, &name, locator(1)).await.unwrap();
    let records = records(&changes(&store, followed).await);
    let text = |body: Option<&Bytes>| body.map(|it| String::from_utf8_lossy(it).into_owned());
    let images: Vec<_> = records
        .iter()
        .map(|it| (text(it.before.as_ref()), text(it.body_after())))
        .collect();
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(
        images,
        [
            (None, some("one")),
            (some("one"), some("changed")),
            (some("changed"), None),
        ]
    );
    // A follower who asks for less takes nothing away from the others.
    follow(&store, &name).await;
    delete(&store, &name, locator(1)).await.unwrap();
    insert(&store, &name, item(2, "x")).await.unwrap();
    upsert(&store, &name, item(2, "y")).await.unwrap();
    let last = self::records(&changes(&store, followed).await)
        .pop()
        .unwrap();
    assert_eq!(text(last.before.as_ref()), some("x"));
}

#[tokio::test]
async fn what_is_undone_is_not_told() {
    let store = open_store().await;
    let name = create(&store, "c", 1).await;
    let followed = follow(&store, &name).await;
    insert(&store, &name, item(1, "one")).await.unwrap();
    let refused = insert(&store, &name, item(1, "again")).await;
    assert!(matches!(refused, Err(Error::AlreadyExists(_))));
    let mut dropped = store.begin().await.unwrap();
    let container = dropped.container(&name).await.unwrap();
    dropped
        .insert(&container, item(2, "never committed"))
        .await
        .unwrap();
    drop(dropped);
    assert_eq!(told(&changes(&store, followed).await), ["Insert r1 one"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn statements_of_a_convoy_are_told_each_with_its_own_note() {
    let store = open_store().await;
    let name = create(&store, "c", 1).await;
    let followed = follow(&store, &name).await;
    let writers = (0..40_u32).map(|writer| {
        let (store, name) = (store.clone(), name.clone());
        tokio::spawn(async move {
            let hot = locator(1);
            let latched = [(&name, &hot)];
            let statement = store.run(&latched, |transaction| {
                let name = name.clone();
                Box::pin(async move {
                    let container = transaction.container(&name).await?;
                    // Every other one says nothing, and must not inherit what the one before said.
                    if writer % 2 == 0 {
                        transaction.annotate(Some(Annotation {
                            session: writer.to_string().into(),
                            ..Annotation::default()
                        }));
                    }
                    transaction
                        .upsert(&container, item(1, writer.to_string()))
                        .await?;
                    match writer % 5 {
                        0 => Err(Error::Rejected("fails after it wrote".into())),
                        _ => Ok(()),
                    }
                })
            });
            statement.await.is_ok()
        })
    });
    for (writer, done) in writers.collect::<Vec<_>>().into_iter().enumerate() {
        assert_eq!(done.await.unwrap(), writer % 5 != 0);
    }
    let records = records(&changes(&store, followed).await);
    let mut told: Vec<u32> = Vec::new();
    for record in &records {
        let writer: u32 = String::from_utf8_lossy(&record.payload).parse().unwrap();
        let expected = writer
            .is_multiple_of(2)
            .then(|| Bytes::from(writer.to_string()));
        assert_eq!(
            record.note.as_ref().map(|note| note.session.clone()),
            expected
        );
        told.push(writer);
    }
    let last = all(&store, &name).await.pop().unwrap();
    assert_eq!(records.last().unwrap().payload, last.body);
    told.sort_unstable();
    let expected: Vec<u32> = (0..40).filter(|writer| writer % 5 != 0).collect();
    assert_eq!(told, expected);
}

#[tokio::test]
async fn an_insert_over_an_expired_item_is_two_changes() {
    let clock = Clock::manual(1_000_000);
    let store = open_store_at(clock.clone()).await;
    let name = create(&store, "c", 1).await;
    let followed = follow(&store, &name).await;
    insert(&store, &name, item(1, "one").expiring_at(1_000_500))
        .await
        .unwrap();
    insert(&store, &name, item(2, "two").expiring_at(1_000_500))
        .await
        .unwrap();
    clock.advance(1_000);
    insert(&store, &name, item(1, "new")).await.unwrap();
    store.settle().await.unwrap();
    assert_eq!(
        told(&changes(&store, followed).await),
        [
            "Insert r1 one",
            "Insert r2 two",
            "Expire r1 ",
            "Insert r1 new",
            "Expire r2 ",
        ]
    );
}

/// The items that the changes come to, by row key.
fn replay(items: &[FeedItem], into: &mut BTreeMap<Bytes, Bytes>) {
    for item in items {
        match &item.change {
            Change::Container(control) if control.event == Event::Truncated => into.clear(),
            Change::Container(_) => {}
            Change::Item(record) => {
                let key = record.locator.row_key.clone();
                match record.body_after() {
                    Some(body) => into.insert(key, body.clone()),
                    None => into.remove(&key),
                };
            }
        }
    }
}

async fn write_some(store: &Store, name: &ContainerName, round: usize) {
    for number in 0..12 {
        let number = (round * 7 + number) % 30;
        let body = format!("pk=p{number};round={round}");
        match number % 4 {
            0 => {
                delete(store, name, locator(number)).await.unwrap();
            }
            _ => upsert(store, name, item(number, body)).await.unwrap(),
        }
    }
}

#[tokio::test]
async fn a_follower_over_every_change_of_the_container_equals_it() {
    let store = open_store().await;
    let mut name = create(&store, "c", 2).await;
    let followed = follow(&store, &name).await;
    let mut round = 0;
    let mut step = async |store: &Store, name: &ContainerName| {
        round += 1;
        write_some(store, name, round).await;
    };
    step(&store, &name).await;
    let (left, right) = store.split_partition(&name, 0, None).await.unwrap();
    step(&store, &name).await;
    store.merge_partitions(&name, left).await.unwrap();
    step(&store, &name).await;
    assert!(right > left);
    let other = self::name("renamed");
    store.rename_container(&name, &other).await.unwrap();
    name = other;
    step(&store, &name).await;
    store.truncate_container(&name).await.unwrap();
    step(&store, &name).await;
    let placement = NewPlacement {
        schema: "pk".into(),
        partitions: 3,
        ..NewPlacement::default()
    };
    let job = store.begin_relocation(&name, &placement).await.unwrap();
    step(&store, &name).await;
    store.run_job(job).await.unwrap();
    step(&store, &name).await;
    let found = changes(&store, followed).await;
    let events = found.iter().filter_map(|item| match &item.change {
        Change::Container(control) => Some(control.event),
        Change::Item(_) => None,
    });
    assert_eq!(
        events.collect::<Vec<_>>(),
        [
            Event::Repartitioned,
            Event::Repartitioned,
            Event::Renamed,
            Event::Truncated,
            Event::Relocated,
        ]
    );
    let expected: BTreeMap<Bytes, Bytes> = all(&store, &name)
        .await
        .into_iter()
        .map(|it| (it.locator.row_key, it.body))
        .collect();
    // From every position on the rest is the same.
    for at in 0..=found.len() {
        let mut state = BTreeMap::new();
        replay(&found[..at], &mut state);
        let after = found[..at]
            .last()
            .map_or(followed.position, |last| last.position);
        let (rest, _) = read(&store, followed.feed, after).await.unwrap();
        assert_eq!(told(&rest), told(&found[at..]));
        replay(&rest, &mut state);
        assert_eq!(state, expected);
    }
    let names: Vec<&str> = found
        .iter()
        .map(|item| item.term.name.container.as_str())
        .collect();
    let renamed = names.iter().position(|name| *name == "renamed").unwrap();
    assert!(names[..renamed].iter().all(|name| *name == "c"));
    assert!(names[renamed..].iter().all(|name| *name == "renamed"));
    assert_sound(&store, &name).await;
}

#[tokio::test]
async fn a_range_of_tokens_is_followed_over_splits() {
    let store = open_store().await;
    let name = create(&store, "c", 2).await;
    let followed = follow(&store, &name).await;
    for number in 0..30 {
        insert(&store, &name, item(number, "x")).await.unwrap();
        if number == 15 {
            store.split_partition(&name, 1, None).await.unwrap();
        }
    }
    let everything = records(&changes(&store, followed).await);
    let mut sum = 0;
    for tokens in [
        (i64::MIN, -1),
        (0, i64::MAX / 3),
        (i64::MAX / 3 + 1, i64::MAX),
    ] {
        let mut request = FeedRequest::after(followed.position);
        (request.tokens, request.max_entries) = (tokens, 1_000);
        let page = store.read_feed(followed.feed, &request).await.unwrap();
        let found = records(&page.items);
        let inside = |it: &&ChangeRecord| (tokens.0..=tokens.1).contains(&it.locator.token);
        let expected: Vec<_> = everything.iter().filter(inside).cloned().collect();
        assert_eq!(found, expected);
        assert!(!page.has_more && page.meter.charge().milli_units() > 0);
        sum += found.len();
    }
    assert_eq!(sum, 30);
}

#[tokio::test]
async fn a_dropped_container_is_told_of_and_its_successor_is_another() {
    let store = open_store().await;
    let name = create(&store, "c", 1).await;
    let followed = follow(&store, &name).await;
    insert(&store, &name, item(1, "one")).await.unwrap();
    store.drop_container(&name).await.unwrap();
    create(&store, "c", 1).await;
    insert(&store, &name, item(1, "another")).await.unwrap();
    assert_eq!(
        told(&changes(&store, followed).await),
        ["Insert r1 one", "Dropped"]
    );
    let again = follow(&store, &name).await;
    assert_ne!(again.feed, followed.feed);
}

#[tokio::test]
async fn a_feed_that_was_off_for_a_while_is_another_one() {
    let store = open_store().await;
    let name = create(&store, "c", 1).await;
    let followed = follow(&store, &name).await;
    store.turn_off_feed(&name).await.unwrap();
    insert(&store, &name, item(1, "unseen")).await.unwrap();
    let again = follow(&store, &name).await;
    assert_ne!(again.feed, followed.feed);
    insert(&store, &name, item(2, "seen")).await.unwrap();
    assert_eq!(told(&changes(&store, followed).await), ["Ended"]);
    assert_eq!(told(&changes(&store, again).await), ["Insert r2 seen"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_follower_beside_writers_and_splits_misses_nothing() {
    let store = open_store().await;
    let name = create(&store, "c", 1).await;
    let followed = follow(&store, &name).await;
    let done = Arc::new(AtomicBool::new(false));
    let follower = tokio::spawn({
        let (store, done) = (store.clone(), Arc::clone(&done));
        async move {
            let (mut seen, mut after) = (Vec::new(), followed.position);
            loop {
                let was_done = done.load(Ordering::Acquire);
                let (items, position) = read(&store, followed.feed, after).await.unwrap();
                seen.extend(items);
                after = position;
                if was_done {
                    return seen;
                }
                tokio::task::yield_now().await;
            }
        }
    });
    let writers = (0..8).map(|writer| {
        let (store, name) = (store.clone(), name.clone());
        tokio::spawn(async move {
            for number in 0..60 {
                let number = writer * 100 + number;
                upsert(&store, &name, item(number, "x")).await.unwrap();
            }
        })
    });
    let writers: Vec<_> = writers.collect();
    for _ in 0..4 {
        tokio::time::sleep(Duration::from_millis(5)).await;
        let id = crate::support::container(&store, &name)
            .await
            .partitions
            .iter()
            .last()
            .unwrap()
            .id;
        match store.split_partition(&name, id, None).await {
            Ok(_) | Err(Error::Rejected(_)) => {}
            Err(other) => panic!("{other}"),
        }
    }
    for writer in writers {
        writer.await.unwrap();
    }
    done.store(true, Ordering::Release);
    let seen = follower.await.unwrap();
    let mut rows: Vec<Bytes> = records(&seen)
        .into_iter()
        .map(|it| it.locator.row_key)
        .collect();
    assert_eq!(rows.len(), 480);
    rows.sort();
    rows.dedup();
    assert_eq!(rows.len(), 480);
}

#[tokio::test]
async fn an_operation_on_many_items_is_told_as_one() {
    let store = open_store().await;
    let name = create(&store, "c", 1).await;
    let followed = follow(&store, &name).await;
    insert(&store, &name, item(1, "x")).await.unwrap();
    let mut transaction = store.begin().await.unwrap();
    let container = transaction.container(&name).await.unwrap();
    let place = Locator::murmur3("p1", "");
    transaction.note_operation(&container, place, Bytes::from_static(b"all of p1"));
    let old = transaction
        .read(&container, &locator(1))
        .await
        .unwrap()
        .unwrap();
    transaction.hint_change(ChangeHint::Silent);
    transaction.remove(&container, &old).await.unwrap();
    let committed = transaction.commit().await.unwrap();
    let found = changes(&store, followed).await;
    assert_eq!(told(&found), ["Insert r1 x", "Operation  all of p1"]);
    assert_eq!(records(&found)[1].kind, ChangeKind::Operation);
    let stamp = committed.stamp.unwrap();
    assert!(found[1].position.stamp.is_same_commit(stamp) && found[1].position.stamp < stamp);
}
