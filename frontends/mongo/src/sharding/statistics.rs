//! Stages with statistics by shard: `$shardedDataDistribution`, `$collStats` and
//! `$listClusterCatalog`.

use bson::{Bson, Document, doc};

use crate::collection::Namespace;
use crate::failure::Result;
use crate::service::Service;
use crate::sharding::layout::Layout;

/// Documents and bytes of a collection on one shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OnShard {
    pub(crate) shard: String,
    pub(crate) documents: i64,
    pub(crate) bytes: i64,
}

impl OnShard {
    /// Turns the sizes of a whole collection, of which `total` bytes are documents, into those of
    /// this share. What is only known of the whole is divided as the documents are.
    pub(crate) fn apply(&self, storage: &mut Document, total: i64) {
        for name in ["size", "storageSize", "totalIndexSize", "totalSize"] {
            self.divide(storage, name, total);
        }
        if let Ok(indexes) = storage.get_document_mut("indexSizes") {
            let names: Vec<String> = indexes.keys().cloned().collect();
            names
                .iter()
                .for_each(|name| self.divide(indexes, name, total));
        }
        storage.insert("count", Bson::Int64(self.documents));
        match self.documents {
            0 => storage.remove("avgObjSize"),
            documents => storage.insert("avgObjSize", Bson::Int64(self.bytes / documents)),
        };
    }

    fn divide(&self, document: &mut Document, name: &str, total: i64) {
        let whole = match document.get(name) {
            Some(Bson::Int32(whole)) => i64::from(*whole),
            Some(Bson::Int64(whole)) => *whole,
            _ => return,
        };
        let share = i128::from(whole) * i128::from(self.bytes) / i128::from(total.max(1));
        let share = i64::try_from(share).unwrap_or(whole);
        let share = i32::try_from(share).map_or(Bson::Int64(share), Bson::Int32);
        document.insert(name, share);
    }
}

/// How much of a collection lies on which shard; none if it is not there.
pub(crate) async fn on_shards(
    service: &Service,
    namespace: &Namespace,
) -> Result<Option<Vec<OnShard>>> {
    let layout = Layout::of(service, namespace).await?;
    Ok(layout.map(|layout| shares(&layout)))
}

fn shares(layout: &Layout) -> Vec<OnShard> {
    let mut shares: Vec<OnShard> = Vec::new();
    for partition in &layout.partitions {
        let shard = layout.shard_of(partition.partition);
        let share = OnShard {
            shard,
            documents: partition.tally.items,
            bytes: partition.tally.bytes,
        };
        match shares.iter_mut().find(|known| known.shard == share.shard) {
            Some(known) => {
                known.documents += share.documents;
                known.bytes += share.bytes;
            }
            None => shares.push(share),
        }
    }
    shares
}

/// The documents of `$shardedDataDistribution`.
pub(crate) async fn data_distribution(service: &Service) -> Result<Vec<Document>> {
    let layouts = Layout::sharded(service).await?;
    let rows = layouts.iter().map(|layout| {
        let shards = shares(layout).into_iter().map(|share| {
            Bson::Document(doc! {
                "shardName": share.shard,
                "numOrphanedDocs": 0i64,
                "numOwnedDocuments": share.documents,
                "ownedSizeBytes": share.bytes,
                "orphanedSizeBytes": 0i64,
            })
        });
        doc! { "ns": layout.namespace.to_string(), "shards": shards.collect::<Vec<_>>() }
    });
    Ok(rows.collect())
}

/// The documents of `$listClusterCatalog` for one database, or for all.
pub(crate) async fn cluster_catalog(
    service: &Service,
    database: Option<&str>,
    with_shards: bool,
) -> Result<Vec<Document>> {
    let layouts = Layout::all(service, database).await?;
    let rows = layouts.iter().map(|layout| {
        let collection = &layout.collection;
        let is_view = collection.view.is_some();
        let mut info = doc! { "readOnly": is_view };
        if !is_view {
            info.insert("uuid", collection.uuid_bson());
        }
        let mut row = doc! {
            "ns": layout.namespace.to_string(),
            "db": layout.namespace.database(),
            "type": collection.kind(),
            "options": collection.options.clone(),
            "info": info,
            "sharded": layout.is_sharded(),
        };
        if !is_view {
            row.insert("idIndex", collection.id_index.document.clone());
        }
        if let Some(shard_key) = &collection.shard_key {
            row.insert("shardKey", shard_key.key.clone());
        }
        if with_shards {
            let shards = shares(layout)
                .into_iter()
                .map(|share| Bson::String(share.shard));
            row.insert("shards", shards.collect::<Vec<_>>());
        }
        row
    });
    Ok(rows.collect())
}
