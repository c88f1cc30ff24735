//! The placement of collections on physical partitions in MongoDB's terms: shards and chunks.
//!
//! Each physical partition of a collection is one chunk; partitions of the same number form a
//! shard. Collections that are not sharded lie in the first one.

use std::collections::BTreeSet;

use bson::oid::ObjectId;
use bson::spec::BinarySubtype;
use bson::{Binary, Bson, Document, Timestamp, doc};
use md5::{Digest, Md5};
use tessera_core::key::PartitionId;
use tessera_core::statistics::PartitionStatistics;
use tessera_core::{Container, Error as CoreError};
use tessera_mongo_language::error::Result as LanguageResult;

use crate::API;
use crate::collection::{Collection, Namespace};
use crate::failure::Result;
use crate::service::Service;
use crate::write::target::unreadable;

/// Where collections lie that are not sharded.
pub(crate) const FIRST_SHARD: PartitionId = 0;

/// The name of a shard.
pub(crate) fn shard_name(partition: PartitionId) -> String {
    format!("partition-{partition}")
}

/// The shard of this name.
pub(crate) fn parse_shard_name(name: &str) -> Option<PartitionId> {
    name.strip_prefix("partition-")?.parse().ok()
}

/// One collection and its physical partitions.
pub(crate) struct Layout {
    pub(crate) namespace: Namespace,
    pub(crate) collection: Collection,
    /// By first token. Those of one that is not sharded count as the first shard.
    pub(crate) partitions: Vec<PartitionStatistics>,
    /// Grows with each change of the collection or its partitions.
    pub(crate) version: u64,
    /// The schema that a relocation under way leads to.
    pub(crate) moving_to: Option<Collection>,
}

impl Layout {
    /// The layout of one collection, if it is there.
    pub(crate) async fn of(service: &Service, namespace: &Namespace) -> Result<Option<Self>> {
        let mut transaction = service.store.begin().await?;
        let container = match transaction.container(&namespace.container).await {
            Ok(container) => container,
            Err(CoreError::NotFound(_)) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let partitions = transaction.statistics(&container).await?;
        let read = Self::read(namespace, &container, partitions);
        read.map(Some)
            .map_err(|error| unreadable(namespace, &error).into())
    }

    fn read(
        namespace: &Namespace,
        container: &Container,
        partitions: Vec<PartitionStatistics>,
    ) -> LanguageResult<Self> {
        let moving_to = container.relocation();
        let moving_to = moving_to.map(|target| Collection::decode(&target.schema));
        Ok(Self {
            namespace: namespace.clone(),
            collection: Collection::decode(&container.definition.schema)?,
            partitions,
            version: container.definition.version,
            moving_to: moving_to.transpose()?,
        })
    }

    /// Every collection and view that can be read, by name.
    pub(crate) async fn all(service: &Service, database: Option<&str>) -> Result<Vec<Self>> {
        let mut layouts = Vec::new();
        for name in service.store.list_containers(API, database).await? {
            let mut transaction = service.store.begin().await?;
            let container = match transaction.container(&name).await {
                Err(CoreError::NotFound(_) | CoreError::Corrupt(_)) => continue,
                container => container?,
            };
            let partitions = transaction.statistics(&container).await?;
            let namespace = Namespace { container: name };
            layouts.extend(Self::read(&namespace, &container, partitions).ok());
        }
        Ok(layouts)
    }

    /// Every sharded collection, by name.
    pub(crate) async fn sharded(service: &Service) -> Result<Vec<Self>> {
        let mut layouts = Self::all(service, None).await?;
        layouts.retain(|layout| layout.collection.shard_key.is_some());
        Ok(layouts)
    }

    pub(crate) fn is_sharded(&self) -> bool {
        self.collection.shard_key.is_some()
    }

    /// The shard of a physical partition.
    pub(crate) fn shard_of(&self, partition: PartitionId) -> String {
        shard_name(if self.is_sharded() {
            partition
        } else {
            FIRST_SHARD
        })
    }

    /// The version of the chunks: of all of them, because they change together.
    pub(crate) fn chunk_version(&self) -> Timestamp {
        Timestamp {
            time: u32::try_from(self.version).unwrap_or(u32::MAX),
            increment: 0,
        }
    }

    /// When the collection came to lie as it does, as far as versions go.
    pub(crate) fn timestamp(&self) -> Timestamp {
        Timestamp {
            time: 1,
            increment: u32::try_from(self.version).unwrap_or(u32::MAX),
        }
    }

    /// The bounds of a chunk, in the hash of the shard key.
    pub(crate) fn bounds(&self, partition: &PartitionStatistics) -> (Document, Document) {
        let first = match partition.first {
            i64::MIN => Bson::MinKey,
            token => Bson::Int64(token),
        };
        let behind = match partition.last.checked_add(1) {
            None => Bson::MaxKey,
            Some(token) => Bson::Int64(token),
        };
        (self.bound(&first), self.bound(&behind))
    }

    /// All fields of the key are hashed to one number, which stands in the first of them.
    fn bound(&self, token: &Bson) -> Document {
        let paths = self.collection.shard_key.iter().flat_map(|key| &key.paths);
        let rest = match token {
            Bson::MaxKey => Bson::MaxKey,
            _ => Bson::MinKey,
        };
        let values = std::iter::once(token).chain(std::iter::repeat(&rest));
        paths.cloned().zip(values.cloned()).collect()
    }

    /// The rows of `config.chunks`.
    pub(crate) fn chunks(&self) -> impl Iterator<Item = Document> {
        let since = self.timestamp();
        self.partitions
            .iter()
            .enumerate()
            .map(move |(position, partition)| {
                let (min, max) = self.bounds(partition);
                let shard = self.shard_of(partition.partition);
                let name = format!("{} {}", self.collection.uuid, partition.partition);
                let mut version = self.chunk_version();
                version.increment = u32::try_from(position).unwrap_or(u32::MAX);
                doc! {
                    "_id": object_id(&name),
                    "uuid": self.collection.uuid_bson(),
                    "min": min,
                    "max": max,
                    "shard": shard.clone(),
                    "lastmod": version,
                    "onCurrentShardSince": since,
                    "history": [{ "validAfter": since, "shard": shard }],
                    "estimatedSizeBytes": partition.tally.bytes,
                }
            })
    }

    /// The bounds of a chunk read back: a token of the ring, or none at its ends.
    pub(crate) fn token_of_bound(bound: &Document) -> Option<i64> {
        match bound.values().next()? {
            Bson::Int64(token) => Some(*token),
            Bson::Int32(token) => Some(i64::from(*token)),
            _ => None,
        }
    }
}

/// Turns the plan of a query on a sharded collection into that of each shard that it goes to.
pub(crate) fn explain_shards(planner: &mut Document, partitions: &Document) {
    let touched = partitions.get_array("touched").ok().into_iter().flatten();
    let numbers = touched.filter_map(|number| PartitionId::try_from(number.as_i64()?).ok());
    let plan = planner.get("winningPlan").cloned().unwrap_or(Bson::Null);
    let shards = numbers.map(|number| {
        Bson::Document(doc! { "shardName": shard_name(number), "winningPlan": plan.clone() })
    });
    let shards: Vec<Bson> = shards.collect();
    let stage = match shards.len() {
        1 => "SINGLE_SHARD",
        _ => "SHARD_MERGE",
    };
    planner.insert("winningPlan", doc! { "stage": stage, "shards": shards });
}

/// Where clients reach the server, as `host:port`.
pub(crate) fn address(service: &Service) -> String {
    let address = service.config.address;
    address.map_or_else(
        || "localhost:27017".to_owned(),
        |address| address.to_string(),
    )
}

/// All shards that any collection lies on.
pub(crate) async fn shards(service: &Service) -> Result<Vec<String>> {
    let mut numbers = BTreeSet::from([FIRST_SHARD]);
    for layout in Layout::sharded(service).await? {
        numbers.extend(
            layout
                .partitions
                .iter()
                .map(|partition| partition.partition),
        );
    }
    Ok(numbers.into_iter().map(shard_name).collect())
}

/// An id that stays the same for one name.
pub(crate) fn object_id(name: &str) -> ObjectId {
    let digest = Md5::digest(name.as_bytes());
    let mut bytes = [0; 12];
    bytes
        .iter_mut()
        .zip(digest)
        .for_each(|(place, byte)| *place = byte);
    ObjectId::from_bytes(bytes)
}

/// A UUID that stays the same for one name.
pub(crate) fn uuid(name: &str) -> Bson {
    Bson::Binary(Binary {
        subtype: BinarySubtype::Uuid,
        bytes: Md5::digest(name.as_bytes()).to_vec(),
    })
}

#[cfg(test)]
mod tests {
    use tessera_core::write_set::Tally;

    use super::*;
    use crate::collection::ShardKey;

    fn layout(key: Document, bounds: &[(PartitionId, i64, i64)]) -> Layout {
        let mut collection = Collection::new(doc! {}).unwrap();
        collection.shard_key = (!key.is_empty()).then(|| ShardKey::new(key));
        let partitions = bounds
            .iter()
            .map(|(partition, first, last)| PartitionStatistics {
                partition: *partition,
                first: *first,
                last: *last,
                tally: Tally {
                    items: 3,
                    bytes: 90,
                },
            });
        Layout {
            namespace: Namespace::unchecked("db", "c"),
            collection,
            partitions: partitions.collect(),
            version: 7,
            moving_to: None,
        }
    }

    #[test]
    fn chunks_tile_the_ring_in_the_hash_of_the_key() {
        let key = doc! { "a": "hashed", "b": "hashed" };
        let layout = layout(key, &[(0, i64::MIN, -1), (4, 0, i64::MAX)]);
        let chunks: Vec<Document> = layout.chunks().collect();
        assert_eq!(
            chunks[0].get("min"),
            Some(&doc! { "a": Bson::MinKey, "b": Bson::MinKey }.into())
        );
        assert_eq!(chunks[0].get("max"), chunks[1].get("min"));
        assert_eq!(
            chunks[1].get("min"),
            Some(&doc! { "a": 0i64, "b": Bson::MinKey }.into())
        );
        assert_eq!(
            chunks[1].get("max"),
            Some(&doc! { "a": Bson::MaxKey, "b": Bson::MaxKey }.into())
        );
        assert_eq!(chunks[1].get("shard"), Some(&"partition-4".into()));
        assert_ne!(chunks[0].get("_id"), chunks[1].get("_id"));
        let (min, _) = layout.bounds(&layout.partitions[1]);
        assert_eq!(Layout::token_of_bound(&min), Some(0));
    }

    #[test]
    fn unsharded_collections_lie_on_the_first_shard() {
        let layout = layout(doc! {}, &[(6, i64::MIN, i64::MAX)]);
        assert_eq!(layout.shard_of(6), shard_name(FIRST_SHARD));
        assert_eq!(parse_shard_name(&shard_name(12)), Some(12));
        assert_eq!(parse_shard_name("elsewhere"), None);
    }
}
