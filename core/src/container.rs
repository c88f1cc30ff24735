//! A container as one transaction sees it: its definition, its partitions, and its front end's
//! model.

use std::sync::Arc;

use crate::definition::Definition;
use crate::insight::heat::Heat;
use crate::key::{PartitionId, StorageId};
use crate::locator::Locator;
use crate::model::Model;
use crate::name::ContainerName;
use crate::partition_map::PartitionMap;
use crate::throughput::Charge;

/// One version of a container. Immutable and shared; a change of the container makes a new one.
pub struct Container {
    /// Its name.
    pub name: ContainerName,
    /// What the catalog says of it.
    pub definition: Definition,
    /// Its physical partitions.
    pub partitions: PartitionMap,
    /// The storage that a relocation is filling, seen as a container: it gets every write too.
    pub(crate) shadow: Option<Arc<Self>>,
    pub(crate) model: Arc<dyn Model>,
    pub(crate) heat: Heat,
    /// An engine version at which this definition was in force.
    pub(crate) as_of: u64,
}

impl Container {
    /// Where its data lies.
    pub fn storage(&self) -> StorageId {
        self.definition.storage
    }

    /// What the container will be once a relocation under way is done.
    pub fn relocation(&self) -> Option<&Definition> {
        self.shadow.as_ref().map(|shadow| &shadow.definition)
    }

    /// The physical partition of a token, as meters name it.
    pub(crate) fn place(&self, token: i64) -> (StorageId, PartitionId) {
        (self.storage(), self.partitions.locate(token).id)
    }

    /// What each physical partition may spend in a second: its even share of what was provisioned.
    pub(crate) fn share(&self) -> Option<Charge> {
        let partitions = u64::try_from(self.partitions.count()).unwrap_or(u64::MAX);
        let share = |provisioned| u64::from(provisioned) * 1_000 / partitions.max(1);
        let share = self.definition.provisioned.map(share);
        share.map(Charge::from_milli_units)
    }

    /// A partition key as people write it.
    pub fn key_text(&self, partition_key: &[u8]) -> String {
        self.model
            .partition_key_text(&self.definition, partition_key)
    }

    /// The key of an item's data on the engine.
    pub(crate) fn item_key(&self, locator: &Locator) -> bytes::Bytes {
        crate::key::item(self.storage(), locator)
    }
}

impl std::fmt::Debug for Container {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Container")
            .field("name", &self.name)
            .field("definition", &self.definition)
            .field("partitions", &self.partitions)
            .finish_non_exhaustive()
    }
}
