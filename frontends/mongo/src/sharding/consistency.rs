//! `checkMetadataConsistency`: checks that the stored definitions of a collection, a database or
//! all can be read and are consistent.

use bson::{Bson, Document, RawBsonRef, doc};
use tessera_core::definition::Definition;
use tessera_core::name::ContainerName;
use tessera_mongo_language::error::Code;

use crate::API;
use crate::access::{Access, Action, Need};
use crate::collection::{Collection, Namespace};
use crate::command::Command;
use crate::failure::Result;
use crate::fields::{BOOL, DOCUMENT, Field, Fields, optional};
use crate::listing;
use crate::reply::Reply;
use crate::request::Request;
use crate::service::Service;
use crate::sharding::check_unique_index;

pub(crate) const COMMANDS: &[Command] = &[Command::new(
    "checkMetadataConsistency",
    "Checks the metadata of collections.",
    Access::Decide(needs),
    |service, _, request| Box::pin(check(service, request)),
)];

/// On what is looked through: a collection, a database, or all.
fn needs(request: &Request<'_>) -> Result<Vec<Need>> {
    let (action, database) = (Action::CheckMetadataConsistency, request.database);
    Ok(vec![match request.argument() {
        RawBsonRef::String(name) => Need::on_collection(action, database, name),
        _ if database == "admin" => Need::on_cluster(action),
        _ => Need::on_database(action, database),
    }])
}

const FIELDS: &[Field] = &[optional("cursor", DOCUMENT), optional("checkIndexes", BOOL)];

/// Containers that are read in one step.
const STEP: usize = 1_000;

async fn check(service: &Service, request: &Request<'_>) -> Result<Reply> {
    let fields = Fields::of(request, FIELDS)?;
    let size = listing::batch_size(fields.document("cursor"))?;
    let only = match request.argument() {
        RawBsonRef::String(_) => Some(Namespace::new(request.database, request.collection()?)?),
        _ => None,
    };
    let mut databases = vec![request.database.to_owned()];
    if only.is_none() && request.database == "admin" {
        let all = service.store.list_containers(API, None).await?;
        databases.extend(all.into_iter().map(|name| name.database));
        databases.sort();
        databases.dedup();
    }
    let mut found = Vec::new();
    for database in databases {
        let mut from = String::new();
        loop {
            let page = service
                .store
                .describe_containers(API, &database, &from, STEP)
                .await?;
            let is_last = page.len() < STEP;
            for (name, definition) in page {
                from = format!("{}\0", name.container);
                let wanted = only.as_ref().is_none_or(|only| only.container == name);
                found.extend(wanted.then(|| inconsistency(&name, definition)).flatten());
            }
            if is_last {
                break;
            }
        }
    }
    let namespace = format!("{}.$cmd.aggregate", request.database);
    listing::reply(&service.data, request, (&namespace, found), size)
}

/// What is wrong with a collection.
fn inconsistency(
    name: &ContainerName,
    definition: tessera_core::Result<Definition>,
) -> Option<Document> {
    let shown = |kind: &str, description: String, mut details: Document| {
        let namespace = Namespace::unchecked(&name.database, &name.container);
        details.insert("namespace", namespace.to_string());
        doc! { "type": kind, "description": description, "details": details }
    };
    let definition = match definition {
        Ok(definition) => definition,
        Err(error) => return Some(shown("CorruptedMetadata", error.to_string(), doc! {})),
    };
    let collection = match Collection::decode(&definition.schema) {
        Ok(collection) => collection,
        Err(error) => return Some(shown("CorruptedMetadata", error.message, doc! {})),
    };
    let shard_key = collection.shard_key.as_ref()?;
    let live = collection.live_indexes(&definition);
    let mut unique = live.filter(|(spec, ..)| spec.unique);
    unique.find_map(|(spec, ..)| {
        let refused = check_unique_index(&spec.key, &shard_key.key, Code::CANNOT_CREATE_INDEX);
        let index = Bson::Document(spec.document.clone());
        let details = doc! { "index": index, "shardKey": shard_key.key.clone() };
        Some(shown("InconsistentIndex", refused.err()?.message, details))
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;

    use super::*;
    use crate::client::Client;
    use crate::collection::ShardKey;
    use crate::index::IndexSpec;

    #[tokio::test]
    async fn what_does_not_fit_together_is_told() {
        let mut client = Client::new().await;
        let create = doc! { "create": "c" };
        client.send("test", create).await;
        let check = doc! { "checkMetadataConsistency": 1 };
        for database in ["test", "admin"] {
            let reply = client.send(database, check.clone()).await;
            let cursor = reply.get_document("cursor").unwrap();
            assert!(cursor.get_array("firstBatch").unwrap().is_empty());
        }
        let name = ContainerName::new(API, "test", "c");
        let described = client.service.store.describe_containers(API, "test", "", 1);
        let (_, definition) = described.await.unwrap().remove(0);
        let mut definition = definition.unwrap();
        assert_eq!(inconsistency(&name, Ok(definition.clone())), None);

        let mut collection = Collection::decode(&definition.schema).unwrap();
        let unique = doc! { "v": 2, "key": { "a": 1 }, "name": "_id_", "unique": true };
        let unique = IndexSpec::stored(&unique).unwrap();
        collection.indexes.push(Arc::new(unique));
        collection.shard_key = Some(ShardKey::new(doc! { "b": "hashed" }));
        definition.schema = collection.encode().unwrap();
        // Only an index that the core has counts.
        assert_eq!(inconsistency(&name, Ok(definition.clone())), None);
        definition.schema = Bytes::from_static(b"no document");
        let found = inconsistency(&name, Ok(definition)).unwrap();
        assert_eq!(found.get_str("type").unwrap(), "CorruptedMetadata");
    }
}
