//! What the server shows of partitions and keys.

use bson::doc;

use super::sharded;

#[tokio::test]
async fn partitions_and_keys_are_shown_in_config_and_by_command() {
    let mut client = sharded(40).await;
    let hot: Vec<_> = (100..160).map(|id| doc! { "_id": id, "a": 7 }).collect();
    client.insert("db", "c", hot).await;
    let partitions = client
        .find("config", "partitions", doc! { "ns": "db.c" })
        .await;
    let documents: i64 = partitions
        .iter()
        .map(|row| row.get_i64("documents").unwrap())
        .sum();
    assert_eq!(documents, 100);
    assert!(partitions[0].contains_key("_id") && partitions[0].contains_key("requestUnits"));
    for collection in ["hotKeys", "largeKeys"] {
        let keys = client
            .find("config", collection, doc! { "ns": "db.c" })
            .await;
        assert_eq!(keys[0].get_str("key").unwrap(), "{ a: 7 }", "{collection}");
    }
    let command = doc! { "partitionInsight": "db.c" };
    let shown = client.run("admin", command).await;
    assert_eq!(
        shown.get_array("partitions").unwrap().len(),
        partitions.len()
    );
    let hottest = shown.get_array("hotKeys").unwrap()[0]
        .as_document()
        .unwrap();
    assert_eq!(hottest.get_str("key").unwrap(), "{ a: 7 }");
    for (database, command, code) in [
        ("admin", doc! { "partitionInsight": "db.none" }, 26),
        ("admin", doc! { "partitionInsight": "nowhere" }, 73),
        ("db", doc! { "partitionInsight": "db.c" }, 13),
    ] {
        assert_eq!(
            client.code(database, command.clone()).await,
            code,
            "{command}"
        );
    }
    assert_eq!(shown.get_array("warnings").unwrap().len(), 0);
    // One insert of 60 documents costs more than a second's 400 request units, of four partitions.
    let provision = doc! {
        "customAction": "UpdateCollection", "collection": "c", "offerThroughput": 400,
    };
    client.run("db", provision).await;
    let more: Vec<_> = (200..260).map(|id| doc! { "_id": id, "a": 7 }).collect();
    client.insert("db", "c", more).await;
    tokio::time::sleep(std::time::Duration::from_millis(1_100)).await;
    let warnings = client
        .find("config", "partitionWarnings", doc! { "ns": "db.c" })
        .await;
    assert_eq!(warnings[0].get_str("limit").unwrap(), "throughput");
    assert!(warnings[0].get_f64("used").unwrap() >= 0.7);
    let insert = doc! { "insert": "partitions", "documents": [{ "_id": 1 }] };
    assert_eq!(client.code("config", insert).await, 20);
}
