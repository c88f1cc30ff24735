//! The commands that the users' own documents show, as they are written there.

use bson::{Document, doc};

use crate::client::Service;

#[tokio::test]
async fn a_collection_is_sharded_from_any_database() {
    let service = Service::plain().await;
    let mut client = service.connect();
    let command = doc! { "shardCollection": "admin.people", "key": { "region": "hashed" } };
    for database in ["test", "admin"] {
        let reply = client.must(database, command.clone()).await;
        assert_eq!(reply.get_str("_t").unwrap(), "ShardCollectionResponse");
        assert_eq!(reply.get_str("collectionsharded").unwrap(), "admin.people");
    }
}

#[tokio::test]
async fn employees_are_sharded_indexed_and_resharded() {
    let service = Service::plain().await;
    let mut client = service.connect();
    let employee = doc! {
        "firstName": "Steve",
        "lastName": "Smith",
        "companyName": "Microsoft",
        "division": "Azure",
        "subDivision": "Data & AI",
        "timeInOrgInYears": 7,
    };
    let insert = doc! { "insert": "employee", "documents": [employee] };
    client.must("cosmicworks", insert).await;
    let key = |path: &str| doc! { path: "hashed" };
    let of = |command: &str, path: &str| doc! { command: "cosmicworks.employee", "key": key(path) };
    let shard_key = async |client: &mut crate::client::Client| -> Document {
        let find = doc! { "find": "collections", "filter": { "_id": "cosmicworks.employee" } };
        let reply = client.must("config", find).await;
        let cursor = reply.get_document("cursor").unwrap();
        let found = cursor.get_array("firstBatch").unwrap();
        let found = found.first().unwrap().as_document().unwrap();
        found.get_document("key").unwrap().clone()
    };
    // As the document shows it, twice each: by the helper of the shell and by the command.
    for _ in 0..2 {
        let sharding = of("shardCollection", "firstName");
        client.must("admin", sharding).await;
        assert_eq!(shard_key(&mut client).await, key("firstName"));
    }
    for _ in 0..2 {
        let resharding = of("reshardCollection", "lastName");
        client.must("admin", resharding).await;
        assert_eq!(shard_key(&mut client).await, key("lastName"));
    }
    let index =
        doc! { "key": { "firstName": 1 }, "name": "firstName_1", "enableLargeIndexKeys": true };
    let indexes = doc! { "createIndexes": "employee", "indexes": [index], "blocking": true };
    let reply = client.must("cosmicworks", indexes).await;
    assert_eq!(reply.get_i32("numIndexesAfter").unwrap(), 2);
    let find = doc! { "find": "employee", "filter": { "lastName": "Smith" } };
    let reply = client.must("cosmicworks", find).await;
    let cursor = reply.get_document("cursor").unwrap();
    assert_eq!(cursor.get_array("firstBatch").unwrap().len(), 1);
}
