//! What the change feed tells from its beginning must come to what the container holds, wherever a
//! kill or a power cut fell.

use std::collections::BTreeMap;

use bytes::Bytes;
use tessera_core::Store;
use tessera_core::feed::policy::FeedScope;
use tessera_core::feed::position::Position;
use tessera_core::feed::reader::{Change, FeedRequest};
use tessera_core::name::ContainerName;
use tessera_core::reading::{PageRequest, Span};

pub(crate) async fn assert_tells_all(store: &Store, name: &ContainerName) {
    let scope = FeedScope::Container(name.clone());
    let feed = store.feed_of(&scope).await.unwrap().unwrap();
    let mut request = FeedRequest::after(Position::START);
    let mut told: BTreeMap<Bytes, Bytes> = BTreeMap::new();
    loop {
        let page = store.read_feed(feed, &request).await.unwrap();
        for item in page.items {
            let Change::Item(record) = item.change else {
                continue;
            };
            match record.body_after() {
                Some(body) => told.insert(record.locator.row_key.clone(), body.clone()),
                None => told.remove(&record.locator.row_key),
            };
        }
        request.after = page.position;
        if !page.has_more && !page.is_pending {
            break;
        }
    }
    let mut transaction = store.begin().await.unwrap();
    let container = transaction.container(name).await.unwrap();
    let mut page = PageRequest::default();
    let mut held: BTreeMap<Bytes, Bytes> = BTreeMap::new();
    loop {
        let found = transaction
            .scan(&container, &Span::All, &page)
            .await
            .unwrap();
        held.extend(
            found
                .items
                .into_iter()
                .map(|it| (it.locator.row_key, it.body)),
        );
        page.continuation = found.continuation;
        if page.continuation.is_none() {
            break;
        }
    }
    assert!(
        told == held,
        "{} items told of, {} there",
        told.len(),
        held.len()
    );
}
