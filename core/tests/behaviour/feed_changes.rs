//! The changes of a container as Cosmos DB gives them: two modes, from anywhere, in ranges, in
//! whole transactions.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use tessera_core::clock::Clock;
use tessera_core::feed::changes::{
    ChangesMode, ChangesPage, ChangesStart, FeedRange, PageBounds, Told, ToldChange, WHOLE,
};
use tessera_core::feed::changes_token::ChangesToken;
use tessera_core::feed::control::Event;
use tessera_core::feed::policy::{FeedScope, FeedWish};
use tessera_core::name::ContainerName;
use tessera_core::rebuild::NewPlacement;
use tessera_core::{Error, Result, Store};

use crate::feed::{create, follow};
use crate::support::{
    all, delete, insert, item, locator, name, open_store, open_store_at, reopened, upsert,
};

use ChangesMode::{AllVersions, LatestVersion};
use ChangesStart::{At, Beginning, Now};

const SMALL: PageBounds = PageBounds {
    max_changes: 3,
    max_bytes: 1 << 20,
};

async fn begin(
    store: &Store,
    name: &ContainerName,
    mode: ChangesMode,
    start: ChangesStart,
) -> ChangesToken {
    store.begin_changes(name, mode, start, WHOLE).await.unwrap()
}

/// One page behind a token that went through a client's hands.
async fn page(store: &Store, token: &ChangesToken, bounds: PageBounds) -> Result<ChangesPage> {
    let token = ChangesToken::decode(&token.encode())?;
    store.read_changes(&token, bounds).await
}

/// Everything behind a token, in small pages.
async fn drain(store: &Store, token: &ChangesToken) -> (Vec<ToldChange>, ChangesToken) {
    let (mut changes, mut token) = (Vec::new(), token.clone());
    loop {
        let page = page(store, &token, SMALL).await.unwrap();
        // A page ends where a transaction ends.
        assert!(page.changes.last().is_none_or(|last| last.token.is_some()));
        changes.extend(page.changes);
        token = page.token;
        if !page.has_more {
            return (changes, token);
        }
    }
}

fn told(changes: &[ToldChange]) -> Vec<String> {
    let text = |bytes: &Bytes| String::from_utf8_lossy(bytes).into_owned();
    let one = |change: &ToldChange| match &change.told {
        Told::Latest(item) => format!("{} {}", text(&item.locator.row_key), text(&item.body)),
        Told::Version(record) => format!(
            "{:?} {} {}",
            record.kind,
            text(&record.locator.row_key),
            record.body_after().map(text).unwrap_or_default()
        ),
        Told::Container(control) => format!("{:?}", control.event),
    };
    changes.iter().map(one).collect()
}

/// Writes some items in one transaction.
async fn write_together(store: &Store, name: &ContainerName, numbers: std::ops::Range<usize>) {
    let mut transaction = store.begin().await.unwrap();
    let container = transaction.container(name).await.unwrap();
    for number in numbers {
        let item = item(number, "together");
        transaction.upsert(&container, item).await.unwrap();
    }
    transaction.commit().await.unwrap();
}

/// What changes come to, by row key.
fn apply(changes: &[ToldChange], state: &mut BTreeMap<Bytes, Bytes>) {
    for change in changes {
        match &change.told {
            Told::Container(control) if control.event == Event::Truncated => state.clear(),
            Told::Container(_) => {}
            Told::Latest(item) => {
                state.insert(item.locator.row_key.clone(), item.body.clone());
            }
            Told::Version(record) => {
                let key = record.locator.row_key.clone();
                match record.body_after() {
                    Some(body) => state.insert(key, body.clone()),
                    None => state.remove(&key),
                };
            }
        }
    }
}

async fn state_of(store: &Store, name: &ContainerName) -> BTreeMap<Bytes, Bytes> {
    let items = all(store, name).await.into_iter();
    items.map(|it| (it.locator.row_key, it.body)).collect()
}

#[tokio::test]
async fn a_page_never_cuts_a_transaction() {
    let store = open_store().await;
    let name = create(&store, "c", 4).await;
    for mode in [AllVersions, LatestVersion] {
        let mut token = begin(&store, &name, mode, Now).await;
        write_together(&store, &name, 0..2).await;
        write_together(&store, &name, 2..12).await;
        write_together(&store, &name, 12..14).await;
        write_together(&store, &name, 14..15).await;
        let mut sizes = Vec::new();
        loop {
            let page = page(&store, &token, SMALL).await.unwrap();
            let ends = page.changes.iter().map(|change| change.token.is_some());
            sizes.push(ends.collect::<Vec<_>>());
            token = page.token;
            if !page.has_more {
                break;
            }
        }
        sizes.retain(|page| !page.is_empty());
        let mut whole = vec![false; 9];
        whole.push(true);
        let expected = [vec![false, true], whole, vec![false, true, true]];
        assert_eq!(sizes, expected, "{mode:?}");
    }
}

#[tokio::test]
async fn the_end_of_a_transaction_is_where_a_reader_goes_on() {
    let store = open_store().await;
    let name = create(&store, "c", 3).await;
    let start = begin(&store, &name, AllVersions, Now).await;
    for number in 0..6 {
        write_together(&store, &name, number..number + 1 + number % 3).await;
    }
    delete(&store, &name, locator(3)).await.unwrap();
    let (changes, _) = drain(&store, &start).await;
    for (at, change) in changes.iter().enumerate() {
        let Some(token) = &change.token else { continue };
        let (rest, _) = drain(&store, token).await;
        assert_eq!(told(&rest), told(&changes[at + 1..]), "{at}");
    }
}

#[tokio::test]
async fn the_latest_version_is_told_once_and_nothing_of_what_is_gone() {
    let store = open_store().await;
    let name = create(&store, "c", 1).await;
    let start = begin(&store, &name, LatestVersion, Now).await;
    for round in 0..5 {
        upsert(&store, &name, item(1, format!("round {round}")))
            .await
            .unwrap();
    }
    insert(&store, &name, item(2, "two")).await.unwrap();
    insert(&store, &name, item(3, "three")).await.unwrap();
    delete(&store, &name, locator(2)).await.unwrap();
    let (changes, token) = drain(&store, &start).await;
    assert_eq!(told(&changes), ["r1 round 4", "r3 three"]);
    upsert(&store, &name, item(3, "again")).await.unwrap();
    let (changes, token) = drain(&store, &token).await;
    assert_eq!(told(&changes), ["r3 again"]);
    assert_eq!(told(&drain(&store, &token).await.0), [""; 0]);
    let all = begin(&store, &name, AllVersions, Beginning).await;
    let versions = told(&drain(&store, &all).await.0);
    let of_items = versions.iter().filter(|told| told.contains(' '));
    assert_eq!(of_items.count(), 9);
}

#[tokio::test]
async fn the_beginning_of_latest_versions_is_before_the_feed() {
    let store = open_store().await;
    let name = create(&store, "c", 3).await;
    for number in 0..20 {
        insert(&store, &name, item(number, "early")).await.unwrap();
    }
    let start = begin(&store, &name, LatestVersion, Beginning).await;
    // Some pages are read, then items change that were read and that were not.
    let first = page(&store, &start, SMALL).await.unwrap();
    let mut state = BTreeMap::new();
    apply(&first.changes, &mut state);
    assert_eq!(first.changes.len(), 3);
    store.split_partition(&name, 1, None).await.unwrap();
    for number in (0..30).step_by(3) {
        upsert(&store, &name, item(number, "late")).await.unwrap();
    }
    let store = reopened(store).await;
    let (rest, _) = drain(&store, &first.token).await;
    apply(&rest, &mut state);
    assert_eq!(state, state_of(&store, &name).await);
    assert!(first.charge.milli_units() > 0);
    // All versions begin with the feed.
    let all = begin(&store, &name, AllVersions, Beginning).await;
    let begun = told(&drain(&store, &all).await.0);
    assert_eq!(begun[0], "Begun");
    assert_eq!(begun.iter().filter(|it| it.ends_with("late")).count(), 10);
    assert_eq!(begun.iter().filter(|it| it.ends_with("early")).count(), 0);
}

#[tokio::test]
async fn readers_begin_at_a_time() {
    let clock = Clock::manual(1_000_000);
    let store = open_store_at(clock.clone()).await;
    let name = create(&store, "c", 1).await;
    insert(&store, &name, item(1, "before the feed"))
        .await
        .unwrap();
    clock.advance(5_000);
    insert(&store, &name, item(2, "at 1005")).await.unwrap();
    follow(&store, &name).await;
    for number in 3..8 {
        clock.advance(10_000);
        store.tend_feeds_now().await.unwrap();
        insert(&store, &name, item(number, "x")).await.unwrap();
        clock.advance(700);
        let body = format!("x at {}", clock.now_ms());
        upsert(&store, &name, item(number, body)).await.unwrap();
    }
    let check = async |mode, time, expected: Result<&[&str]>| {
        let started = store.begin_changes(&name, mode, At(time), WHOLE).await;
        match (started, expected) {
            (Ok(token), Ok(expected)) => {
                let mut found = told(&drain(&store, &token).await.0);
                found.retain(|told| told.contains(' '));
                assert_eq!(found, expected, "{time}");
            }
            (Err(error), Err(expected)) => assert_eq!(
                std::mem::discriminant(&error),
                std::mem::discriminant(&expected)
            ),
            (started, _) => panic!("{time}: {started:?}"),
        }
    };
    let last = "Replace r7 x at 1058500";
    check(AllVersions, 1_058_500, Ok(&[last])).await;
    check(AllVersions, 1_057_801, Ok(&[last])).await;
    check(AllVersions, 1_057_800, Ok(&["Insert r7 x", last])).await;
    check(AllVersions, 1_047_801, Ok(&["Insert r7 x", last])).await;
    let six = "Replace r6 x at 1047800";
    check(AllVersions, 1_047_500, Ok(&[six, "Insert r7 x", last])).await;
    check(AllVersions, 1_058_501, Ok(&[])).await;
    check(AllVersions, 2_000_000, Ok(&[])).await;
    check(AllVersions, 1_004_999, Err(Error::HistoryLost(""))).await;
    check(AllVersions, 0, Err(Error::HistoryLost(""))).await;
    let both = ["r6 x at 1047800", "r7 x at 1058500"];
    check(LatestVersion, 1_047_500, Ok(&both)).await;
    // Before the feed the items themselves tell.
    let since = begin(&store, &name, LatestVersion, At(1_003_000)).await;
    let found = told(&drain(&store, &since).await.0);
    assert!(found.contains(&"r2 at 1005".to_owned()), "{found:?}");
    assert!(!found.contains(&"r1 before the feed".to_owned()));
    let everything = begin(&store, &name, LatestVersion, At(0)).await;
    assert_eq!(drain(&store, &everything).await.0.len(), 7);
}

#[tokio::test]
async fn a_container_that_always_had_a_feed_is_known_from_before_its_time() {
    let clock = Clock::manual(1_000_000);
    let store = open_store_at(clock.clone()).await;
    let database = FeedScope::Api("test".into());
    store.follow(&database, &FeedWish::default()).await.unwrap();
    let name = create(&store, "c", 1).await;
    insert(&store, &name, item(1, "one")).await.unwrap();
    let token = begin(&store, &name, AllVersions, At(5)).await;
    let found = told(&drain(&store, &token).await.0);
    assert!(found.contains(&"Insert r1 one".to_owned()), "{found:?}");
}

#[tokio::test]
async fn every_token_leads_through_all_that_happens_to_a_container() {
    let store = open_store().await;
    let mut name = create(&store, "c", 2).await;
    for number in 0..10 {
        insert(&store, &name, item(number, format!("pk=p{number}")))
            .await
            .unwrap();
    }
    let starts = [
        begin(&store, &name, AllVersions, Now).await,
        begin(&store, &name, LatestVersion, Beginning).await,
        begin(&store, &name, LatestVersion, Now).await,
    ];
    let mut tokens = Vec::new();
    let initial = state_of(&store, &name).await;
    for step in 0..6 {
        for number in 0..12 {
            let number = (step * 7 + number) % 25;
            let body = format!("pk=p{number};step={step}");
            upsert(&store, &name, item(number, body)).await.unwrap();
        }
        delete(&store, &name, locator(step)).await.unwrap();
        match step {
            0 => drop(store.split_partition(&name, 0, None).await.unwrap()),
            1 => drop(store.truncate_container(&name).await.unwrap()),
            2 => {
                let other = self::name("renamed");
                store.rename_container(&name, &other).await.unwrap();
                name = other;
            }
            3 => {
                let placement = NewPlacement {
                    schema: "pk".into(),
                    partitions: 3,
                    ..NewPlacement::default()
                };
                let job = store.begin_relocation(&name, &placement).await.unwrap();
                store.run_job(job).await.unwrap();
            }
            _ => {}
        }
    }
    let expected = state_of(&store, &name).await;
    for (number, start) in starts.iter().enumerate() {
        let mut state = match number {
            0 => initial.clone(),
            _ => BTreeMap::new(),
        };
        let (changes, _) = drain(&store, start).await;
        apply(&changes, &mut state);
        if number == 0 {
            assert_eq!(state, expected);
            tokens.extend(changes.iter().map(|change| change.token.clone()));
        }
        // Latest versions tell of no removals.
        for (key, body) in &expected {
            assert_eq!(state.get(key), Some(body), "{number}");
        }
    }
    let (changes, _) = drain(&store, &starts[0]).await;
    for (at, token) in tokens.iter().enumerate() {
        let Some(token) = token else { continue };
        let mut state = initial.clone();
        apply(&changes[..=at], &mut state);
        apply(&drain(&store, token).await.0, &mut state);
        assert_eq!(state, expected, "{at}");
    }
}

#[tokio::test]
async fn ranges_are_read_apart_and_a_token_is_divided() {
    let store = open_store().await;
    let name = create(&store, "c", 2).await;
    for number in 0..60 {
        insert(&store, &name, item(number, "x")).await.unwrap();
    }
    for (mode, start) in [
        (LatestVersion, Beginning),
        (LatestVersion, Now),
        (AllVersions, Now),
    ] {
        let ranges = store.feed_ranges(&name).await.unwrap();
        let mut whole = begin(&store, &name, mode, start).await;
        let mut state = BTreeMap::new();
        // The first steps together, the rest in the ranges of now.
        let first = page(&store, &whole, SMALL).await.unwrap();
        apply(&first.changes, &mut state);
        whole = first.token;
        let last = ranges.last().unwrap().0;
        let partition = crate::support::container(&store, &name).await;
        let partition = partition.partitions.iter().last().unwrap().id;
        store.split_partition(&name, partition, None).await.unwrap();
        for number in 5..20 {
            let body = format!("{mode:?}{start:?}");
            upsert(&store, &name, item(number, body)).await.unwrap();
        }
        let ranges: Vec<FeedRange> = store.feed_ranges(&name).await.unwrap();
        assert!(ranges.iter().any(|range| range.0 > last));
        let mut count = 0;
        for range in ranges {
            let part = whole.narrowed(range).unwrap();
            let (changes, _) = drain(&store, &part).await;
            for change in &changes {
                let token = match &change.told {
                    Told::Latest(item) => item.locator.token,
                    Told::Version(record) => record.locator.token,
                    Told::Container(_) => continue,
                };
                assert!((range.0..=range.1).contains(&token));
                count += 1;
            }
            apply(&changes, &mut state);
        }
        assert!(count >= 15);
        let expected = state_of(&store, &name).await;
        for (key, body) in &expected {
            let is_new = body.starts_with(b"Lat") || body.starts_with(b"All");
            assert!(!is_new || state.get(key) == Some(body), "{key:?}");
        }
        if start == Beginning {
            assert_eq!(state, expected);
        }
    }
}

#[tokio::test]
async fn a_reader_hears_the_end_and_what_was_not_kept() {
    let clock = Clock::manual(1_000_000);
    let store = open_store_at(clock.clone()).await;
    let name = create(&store, "c", 1).await;
    let start = begin(&store, &name, AllVersions, Now).await;
    let latest = begin(&store, &name, LatestVersion, Beginning).await;
    insert(&store, &name, item(1, "one")).await.unwrap();
    let other = create(&store, "other", 1).await;
    let kept = begin(&store, &other, AllVersions, Now).await;
    assert_eq!(store.container_of_changes(&kept).await.unwrap(), other);
    store.drop_container(&name).await.unwrap();
    for token in [&start, &latest] {
        let (changes, token) = drain(&store, token).await;
        assert_eq!(told(&changes).last().unwrap(), "Dropped");
        let last = changes.last().and_then(|last| last.token.clone());
        assert!(last.is_some());
        assert_eq!(drain(&store, &token).await.0.len(), 0);
    }
    for _ in 0..3 {
        clock.advance(20 * 3_600_000);
        insert(&store, &other, item(1, "x")).await.unwrap_or(());
        upsert(&store, &other, item(1, "y")).await.unwrap();
        store.tend_feeds_now().await.unwrap();
    }
    let lost = page(&store, &kept, SMALL).await.unwrap_err();
    assert!(matches!(lost, Error::HistoryLost(_)), "{lost}");
    let lost = page(&store, &start, SMALL).await.unwrap_err();
    assert!(matches!(lost, Error::HistoryLost(_)), "{lost}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn readers_beside_writers_and_splits_equal_the_container() {
    let store = open_store().await;
    let name = create(&store, "c", 1).await;
    for number in 0..50 {
        insert(&store, &name, item(number, "early")).await.unwrap();
    }
    let initial = state_of(&store, &name).await;
    let done = Arc::new(AtomicBool::new(false));
    let mut readers = Vec::new();
    for (mode, start) in [(AllVersions, Now), (LatestVersion, Beginning)] {
        let token = begin(&store, &name, mode, start).await;
        let (store, done) = (store.clone(), Arc::clone(&done));
        let mut state = match start {
            Now => initial.clone(),
            _ => BTreeMap::new(),
        };
        readers.push(tokio::spawn(async move {
            let mut token = token;
            loop {
                let was_done = done.load(Ordering::Acquire);
                let (changes, next) = drain(&store, &token).await;
                apply(&changes, &mut state);
                token = next;
                if was_done {
                    return state;
                }
                tokio::task::yield_now().await;
            }
        }));
    }
    let writers: Vec<_> = (0..8_usize)
        .map(|writer| {
            let (store, name) = (store.clone(), name.clone());
            tokio::spawn(async move {
                for round in 0..40_usize {
                    let number = (writer * 13 + round * 7) % 90;
                    let body = format!("{writer} {round}");
                    upsert(&store, &name, item(number, body)).await.unwrap();
                }
            })
        })
        .collect();
    for _ in 0..3 {
        let container = crate::support::container(&store, &name).await;
        let last = container.partitions.iter().last().unwrap().id;
        match store.split_partition(&name, last, None).await {
            Ok(_) | Err(Error::Rejected(_)) => {}
            Err(other) => panic!("{other}"),
        }
    }
    for writer in writers {
        writer.await.unwrap();
    }
    done.store(true, Ordering::Release);
    let expected = state_of(&store, &name).await;
    for reader in readers {
        assert_eq!(reader.await.unwrap(), expected);
    }
}

#[tokio::test]
async fn monitors_see_who_follows_and_how_far_behind() {
    let clock = Clock::manual(1_000_000);
    let store = open_store_at(clock.clone()).await;
    let name = create(&store, "c", 1).await;
    let followed = follow(&store, &name).await;
    let alarm = store.feed_alarm(followed.feed);
    alarm.note("test", followed.position);
    let lag = async || {
        let status = store.feed_status(followed.feed).await.unwrap().unwrap();
        status.consumers[0].lag_ms
    };
    assert_eq!(lag().await, 0);
    insert(&store, &name, item(1, "x")).await.unwrap();
    clock.advance(7_000);
    assert_eq!(lag().await, 7_000);
    let end = store.feed_end().await.unwrap();
    alarm.note("test", end);
    assert_eq!(lag().await, 0);
    let statuses = store.feed_statuses().await.unwrap();
    assert_eq!(statuses.len(), 1);
    let status = &statuses[0];
    assert_eq!(
        (&status.name, status.is_on, status.is_kept),
        (&name, true, false)
    );
    assert_eq!(status.since_ms, Some(1_000_000));
    assert_eq!(status.retention_ms, 24 * 3_600_000);
    assert_eq!(status.consumers[0].manner, "test");
    drop(alarm);
    let status = store.feed_status(followed.feed).await.unwrap().unwrap();
    assert_eq!(status.consumers.len(), 0);
    assert!(!store.settled_status().await.unwrap().is_behind);
}

#[tokio::test]
async fn a_feed_is_kept_for_as_long_as_was_said_last() {
    let store = open_store().await;
    let name = create(&store, "c", 1).await;
    let followed = follow(&store, &name).await;
    let day = 86_400_000;
    let wish = |retention_ms| FeedWish {
        retention_ms,
        is_kept: true,
        ..FeedWish::default()
    };
    let retention = async || {
        let status = store.feed_status(followed.feed).await.unwrap().unwrap();
        (status.is_kept, status.retention_ms)
    };
    assert_eq!(retention().await, (false, day));
    store
        .configure_feed(&name, wish(Some(7 * day)))
        .await
        .unwrap();
    assert_eq!(retention().await, (true, 7 * day));
    let scope = FeedScope::Container(name.clone());
    store.follow(&scope, &wish(Some(2 * day))).await.unwrap();
    assert_eq!(retention().await, (true, 2 * day));
    store.configure_feed(&name, wish(None)).await.unwrap();
    assert_eq!(retention().await, (true, day));
}
