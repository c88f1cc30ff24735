//! What the schema of a container asks of its feed, and what the feed tells of schemas.

use bytes::Bytes;
use tessera_core::Store;
use tessera_core::clock::Clock;
use tessera_core::definition::NewIndex;
use tessera_core::feed::control::Event;
use tessera_core::feed::definition::{FeedDefinition, Images};
use tessera_core::feed::position::Position;
use tessera_core::feed::reader::{Change, FeedItem};
use tessera_core::name::ContainerName;

use crate::feed::{changes, create, follow, read, records, told};
use crate::support::{insert, item, name, new_container, open_store, open_store_at, upsert};

async fn feed(store: &Store, name: &ContainerName) -> Option<FeedDefinition> {
    let mut transaction = store.begin().await.unwrap();
    let container = transaction.container(name).await.unwrap();
    container.definition.feed.clone()
}

async fn set_schema(store: &Store, name: &ContainerName, schema: &'static [u8]) {
    let altered = store.alter_schema(name, move |_| Ok(Bytes::from_static(schema)));
    altered.await.unwrap();
}

#[tokio::test]
async fn a_schema_that_asks_for_images_turns_the_feed_on_in_the_same_commit() {
    let store = open_store().await;
    let name = name("c");
    let mut new = new_container(vec![], 1);
    new.schema = Bytes::from_static(b"images");
    store.create_container(&name, &new).await.unwrap();
    insert(&store, &name, item(1, "one")).await.unwrap();
    upsert(&store, &name, item(1, "two")).await.unwrap();
    let number = feed(&store, &name).await.unwrap().number;
    let (found, _) = read(&store, number, Position::START).await.unwrap();
    assert_eq!(told(&found), ["Created", "Insert r1 one", "Replace r1 two"]);
    let before = records(&found).pop().unwrap().before;
    assert_eq!(before, Some(Bytes::from_static(b"one")));
}

#[tokio::test]
async fn images_are_what_the_schema_and_the_followers_ask_for() {
    let store = open_store().await;
    let name = create(&store, "c", 1).await;
    let asked = async || feed(&store, &name).await.map(|feed| feed.recorded());
    assert_eq!(asked().await, None);
    set_schema(&store, &name, b"both images").await;
    assert_eq!(asked().await, Some(Images::BOTH));
    set_schema(&store, &name, b"images").await;
    let before = Images {
        before: true,
        after: false,
    };
    assert_eq!(asked().await, Some(before));
    follow(&store, &name).await;
    set_schema(&store, &name, b"pk").await;
    assert_eq!(asked().await, Some(Images::default()));
}

/// The feed of a container that asks for images is not turned off for want of followers.
#[tokio::test]
async fn a_feed_stays_on_as_long_as_the_schema_needs_it() {
    const DAYS_MS: u64 = 3 * 24 * 60 * 60 * 1_000;
    let clock = Clock::manual(1_700_000_000_000);
    let store = open_store_at(clock.clone()).await;
    let name = create(&store, "c", 1).await;
    set_schema(&store, &name, b"images").await;
    for _ in 0..3 {
        store.tend_feeds_now().await.unwrap();
        clock.advance(DAYS_MS);
    }
    store.tend_feeds_now().await.unwrap();
    assert!(feed(&store, &name).await.is_some());
    set_schema(&store, &name, b"pk").await;
    store.tend_feeds_now().await.unwrap();
    assert!(feed(&store, &name).await.is_none());
}

#[tokio::test]
async fn changes_of_a_container_are_told_with_what_it_was_before() {
    let store = open_store().await;
    let name = create(&store, "c", 1).await;
    insert(&store, &name, item(1, "a=1")).await.unwrap();
    let followed = follow(&store, &name).await;
    set_schema(&store, &name, b"other").await;
    let index = NewIndex::new("a");
    store.create_index(&name, &index, None).await.unwrap();
    store.drop_container(&name).await.unwrap();
    let events = changes(&store, followed).await;
    let shown: Vec<_> = events.iter().filter_map(shown).collect();
    assert_eq!(
        shown,
        [
            "Altered pk [] > other []",
            "Altered other [] > other [\"a\"]",
            "Altered other [\"a\"] > other []",
            "Dropped other [] >  []",
        ]
    );
}

fn shown(item: &FeedItem) -> Option<String> {
    let Change::Container(control) = &item.change else {
        return None;
    };
    if control.event == Event::Begun {
        return None;
    }
    let before = item.before.as_ref().unwrap();
    let schema = |schema: &[u8]| String::from_utf8_lossy(schema).into_owned();
    Some(format!(
        "{:?} {} {:?} > {} {:?}",
        control.event,
        schema(&before.schema),
        before.building,
        schema(&item.term.schema),
        item.term.building
    ))
}
