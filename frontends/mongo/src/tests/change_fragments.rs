//! Events of change streams that are larger than a document may be.

use bson::{Bson, Document, doc};

use super::change_streams::{Asked, shop, update};
use crate::client::Client;

/// Two of them make an event too large, one does not.
const LARGE: usize = 9 << 20;

async fn with_large_documents() -> Client {
    let mut client = shop().await;
    let images = doc! { "enabled": true };
    let keep = doc! { "collMod": "orders", "changeStreamPreAndPostImages": images };
    client.run("shop", keep).await;
    let large = doc! { "_id": 1, "text": "x".repeat(LARGE) };
    client.insert("shop", "orders", vec![large]).await;
    client
}

fn asked() -> Asked {
    Asked::collection()
        .option("fullDocument", "required")
        .option("fullDocumentBeforeChange", "required")
}

fn splitting() -> Asked {
    asked().stage(doc! { "$changeStreamSplitLargeEvent": {} })
}

fn number(event: &Document) -> Option<(i32, i32)> {
    let split = event.get_document("splitEvent").ok()?;
    let number = |name| split.get_i32(name).unwrap();
    Some((number("fragment"), number("of")))
}

#[tokio::test]
async fn a_large_event_comes_in_fragments_that_can_each_be_resumed_behind() {
    let mut client = with_large_documents().await;
    let mut watcher = splitting().open(&client).await;
    update(&mut client, 1, doc! { "$set": { "n": 1 } }).await;
    client
        .insert("shop", "orders", vec![doc! { "_id": 2 }])
        .await;
    let events = watcher.events().await;
    let numbers: Vec<_> = events.iter().map(number).collect();
    assert_eq!(numbers, [Some((1, 2)), Some((2, 2)), None]);
    let mut whole = Document::new();
    for event in &events[..2] {
        whole.extend(event.clone());
    }
    for name in ["fullDocument", "fullDocumentBeforeChange"] {
        let image = whole.get_document(name).unwrap();
        assert_eq!(image.get_str("text").unwrap().len(), LARGE);
    }
    assert_eq!(whole.get_str("operationType").unwrap(), "update");
    for (at, event) in events.iter().enumerate() {
        let token = event.get_document("_id").unwrap().clone();
        let mut rest = splitting().option("resumeAfter", token).open(&client).await;
        assert_eq!(rest.events().await, events[at + 1..], "behind {at}");
    }
    // Only who takes fragments can go on behind one.
    let token = events[0].get_document("_id").unwrap().clone();
    let code = asked().option("resumeAfter", token).code(&client).await;
    assert_eq!(code, 280);
}

#[tokio::test]
async fn a_large_event_ends_a_stream_that_does_not_split() {
    let mut client = with_large_documents().await;
    let mut watcher = asked().open(&client).await;
    // What the pipeline leaves out does not count.
    let mut small = asked()
        .stage(doc! { "$project": { "fullDocumentBeforeChange": 0 } })
        .open(&client)
        .await;
    update(&mut client, 1, doc! { "$set": { "n": 1 } }).await;
    let failed = watcher.client.send("shop", watcher.get_more()).await;
    assert_eq!(failed.get_i32("code").unwrap(), 10_334);
    assert_eq!(small.told().await, ["update 1"]);
}

#[tokio::test]
async fn the_splitting_stage_is_the_last_of_a_change_stream() {
    let client = shop().await;
    let split = |argument: Bson| doc! { "$changeStreamSplitLargeEvent": argument };
    let empty = || split(doc! {}.into());
    let matching = || doc! { "$match": {} };
    for (stages, code) in [
        (vec![empty()], 0),
        (vec![matching(), empty()], 0),
        (vec![empty(), matching()], 7_182_802),
        (vec![empty(), empty()], 7_182_802),
        (vec![split(1.into())], 7_182_800),
        (vec![split(Bson::Null)], 7_182_800),
        (vec![split(doc! { "a": 1 }.into())], 7_182_800),
    ] {
        let told = format!("{stages:?}");
        let mut asked = Asked::collection();
        for stage in stages {
            asked = asked.stage(stage);
        }
        assert_eq!(asked.code(&client).await, code, "{told}");
    }
    let alone = doc! { "aggregate": "orders", "pipeline": [empty()], "cursor": {} };
    assert_eq!(client.another().code("shop", alone).await, 7_182_801);
}
