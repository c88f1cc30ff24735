//! What the catalog stores of one container: where its data lies, its indexes, and the front end's
//! schema.

use std::collections::BTreeMap;

use bytes::{BufMut, Bytes, BytesMut};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::feed::definition::FeedDefinition;
use crate::key::{IndexId, PartitionId, StorageId};
use crate::provisioning::Throughput;
use crate::sharing::SharedThroughput;
use crate::throughput::partitions_for;

/// The index id under which a relocation claims the places of items in the new storage. Front ends'
/// own indexes begin at 1.
pub(crate) const RELOCATION_INDEX: IndexId = 0;
const FIRST_INDEX: IndexId = 1;

/// Fields of a stored record that a newer version of this code wrote. A server that does not know
/// them keeps them when it rewrites the record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct UnknownFields(BTreeMap<String, serde_json::Value>);

/// A container's definition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Definition {
    /// Where the data lies.
    pub storage: StorageId,
    /// Grows with each change of this definition or of the partition map.
    pub version: u64,
    /// The secondary indexes.
    #[serde(default)]
    pub indexes: Vec<IndexDefinition>,
    /// Provisioned request units per second. None: never throttled.
    #[serde(default)]
    pub provisioned: Option<u32>,
    /// Whether that is the maximum of autoscale.
    #[serde(default)]
    pub autoscale: bool,
    /// Throughput of its database, shared by the containers without their own.
    #[serde(default)]
    pub shared: Option<SharedThroughput>,
    /// Whether each logical partition has a tally of its own, which its size limit needs.
    #[serde(default)]
    pub counts_logical_partitions: bool,
    /// The storage that a rebuild is filling and that will replace `storage`.
    #[serde(default)]
    pub relocation: Option<StorageId>,
    /// Its change feed, if that is on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feed: Option<FeedDefinition>,
    pub(crate) next_index: IndexId,
    pub(crate) next_partition: PartitionId,
    #[serde(flatten)]
    pub(crate) unknown: UnknownFields,
    /// The front end's own bytes: columns, validators, options.
    #[serde(skip)]
    pub schema: Bytes,
}

impl Definition {
    /// The first definition of a container described by `new` in a database with throughput to
    /// share, if it has any, and how many partitions the container starts with.
    pub(crate) fn create(
        storage: StorageId,
        new: &NewContainer,
        shared: Option<SharedThroughput>,
    ) -> (Self, u32) {
        let mut definition = Self {
            storage,
            version: 0,
            indexes: Vec::new(),
            provisioned: new.throughput.map(Throughput::units),
            autoscale: matches!(new.throughput, Some(Throughput::Autoscale(_))),
            shared,
            counts_logical_partitions: new.counts_logical_partitions,
            relocation: None,
            feed: None,
            next_index: FIRST_INDEX,
            next_partition: 0,
            unknown: UnknownFields::default(),
            schema: new.schema.clone(),
        };
        let partitions = new.partitions.max(definition.partitions_needed());
        definition.next_partition = partitions;
        for index in &new.indexes {
            definition.add_index(index, IndexState::Ready);
        }
        (definition, partitions)
    }

    /// Its throughput: its own, or that of its database.
    pub fn throughput(&self) -> Option<Throughput> {
        let shared = self.shared.map(|shared| shared.throughput);
        Throughput::of(self).or(shared)
    }

    /// How many physical partitions its throughput needs.
    pub(crate) fn partitions_needed(&self) -> u32 {
        partitions_for(self.throughput().map(Throughput::units))
    }

    /// The index of this name.
    pub fn index(&self, name: &str) -> Option<&IndexDefinition> {
        self.indexes.iter().find(|index| index.name == name)
    }

    pub(crate) fn index_by_id(&self, id: IndexId) -> Option<&IndexDefinition> {
        self.indexes.iter().find(|index| index.id == id)
    }

    pub(crate) fn add_index(&mut self, new: &NewIndex, state: IndexState) -> IndexId {
        let id = self.next_index;
        self.next_index += 1;
        self.indexes.push(IndexDefinition {
            id,
            name: new.name.clone(),
            unique: new.unique,
            state,
            unknown: UnknownFields::default(),
        });
        id
    }

    /// Takes a number for a new partition.
    pub(crate) fn take_partition_id(&mut self) -> PartitionId {
        let id = self.next_partition;
        self.next_partition += 1;
        id
    }

    /// The stored form: the length of the JSON part, the JSON part, the front end's schema.
    pub(crate) fn encode(&self) -> Result<Bytes> {
        let json = serde_json::to_vec(self).map_err(|error| Error::Internal(error.to_string()))?;
        let length = u32::try_from(json.len()).map_err(|_| Error::TooLarge {
            what: "container definition",
            size: json.len(),
            limit: u32::MAX as usize,
        })?;
        let mut encoded = BytesMut::with_capacity(4 + json.len() + self.schema.len());
        encoded.put_u32(length);
        encoded.put_slice(&json);
        encoded.put_slice(&self.schema);
        Ok(encoded.freeze())
    }

    pub(crate) fn decode(encoded: &Bytes) -> Result<Self> {
        let corrupt = |cause: String| Error::Corrupt(format!("a container definition: {cause}"));
        let (length, rest) = encoded
            .split_first_chunk()
            .ok_or_else(|| corrupt("too short".into()))?;
        let length = u32::from_be_bytes(*length) as usize;
        let (json, schema) = rest
            .split_at_checked(length)
            .ok_or_else(|| corrupt("cut off".into()))?;
        let mut definition: Self =
            serde_json::from_slice(json).map_err(|error| corrupt(error.to_string()))?;
        // Copied: a slice would keep alive the whole page that it was read with.
        definition.schema = Bytes::copy_from_slice(schema);
        Ok(definition)
    }
}

/// One secondary index.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexDefinition {
    /// Its number, never reused in its container.
    pub id: IndexId,
    /// Its name.
    pub name: String,
    /// Whether two items may not have the same value.
    pub unique: bool,
    /// Whether queries may use it.
    pub state: IndexState,
    #[serde(flatten)]
    pub(crate) unknown: UnknownFields,
}

/// The state of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum IndexState {
    /// Writers maintain it, earlier items are still being added, queries do not use it.
    Building,
    /// Complete.
    Ready,
}

/// The definition of a container to create.
#[derive(Clone, Debug, Default)]
pub struct NewContainer {
    /// The front end's own bytes.
    pub schema: Bytes,
    /// Indexes that exist from the start, and so need no building.
    pub indexes: Vec<NewIndex>,
    /// Its own throughput; decides the number of partitions too.
    pub throughput: Option<Throughput>,
    /// At least this many partitions to begin with.
    pub partitions: u32,
    /// Whether each logical partition is counted on its own.
    pub counts_logical_partitions: bool,
    /// Whether its database must have been created before.
    pub requires_database: bool,
}

/// The definition of an index to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewIndex {
    /// Its name.
    pub name: String,
    /// Whether two items may not have the same value.
    pub unique: bool,
}

impl NewIndex {
    /// An index that allows equal values.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            unique: false,
        }
    }

    /// An index that refuses equal values.
    pub fn unique(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            unique: true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_read_back_and_reject_truncation() {
        let new = NewContainer {
            schema: Bytes::from_static(b"\x00columns"),
            indexes: vec![NewIndex::unique("by_mail")],
            ..NewContainer::default()
        };
        let (definition, partitions) = Definition::create(8, &new, None);
        assert_eq!(partitions, 1);
        let encoded = definition.encode().unwrap();
        assert_eq!(Definition::decode(&encoded).unwrap(), definition);
        for length in 0..encoded.len() - definition.schema.len() {
            assert!(
                Definition::decode(&encoded.slice(..length)).is_err(),
                "{length}"
            );
        }
    }

    #[test]
    fn fields_of_a_newer_version_survive_being_rewritten() {
        let json = r#"{"storage":8,"version":3,"next_index":2,"next_partition":1,
            "indexes":[{"id":1,"name":"a","unique":false,"state":"Ready","order":[1,-1]}],
            "future":{"images":"both"},"views":null}"#;
        let mut encoded = BytesMut::new();
        encoded.put_u32(u32::try_from(json.len()).unwrap());
        encoded.put_slice(json.as_bytes());
        let mut definition = Definition::decode(&encoded.freeze()).unwrap();
        definition.version = 4;
        let rewritten = definition.encode().unwrap();
        let text = String::from_utf8_lossy(&rewritten[4..]).into_owned();
        let rewritten: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(rewritten["version"], 4);
        assert_eq!(rewritten["future"]["images"], "both");
        assert!(rewritten.as_object().unwrap().contains_key("views"));
        assert_eq!(rewritten["indexes"][0]["order"][1], -1);
    }

    #[test]
    fn provisioned_throughput_decides_the_number_of_partitions() {
        let shared = |units| SharedThroughput {
            pool: 7,
            throughput: Throughput::Manual(units),
        };
        for (throughput, shared, expected) in [
            (None, None, 1),
            (Some(Throughput::Manual(10_000)), None, 1),
            (Some(Throughput::Autoscale(11_000)), None, 2),
            (None, Some(shared(30_000)), 3),
            (Some(Throughput::Manual(400)), Some(shared(30_000)), 1),
        ] {
            let new = NewContainer {
                throughput,
                ..NewContainer::default()
            };
            let (definition, partitions) = Definition::create(1, &new, shared);
            assert_eq!(partitions, expected, "{throughput:?} {shared:?}");
            assert_eq!(Throughput::of(&definition), throughput);
        }
    }
}
