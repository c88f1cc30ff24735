//! A container as one transaction sees it: its definition, its partitions, and its front end's
//! model.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use crate::budget::Budget;
use crate::definition::Definition;
use crate::insight::heat::Heat;
use crate::key::{PartitionId, StorageId};
use crate::limits::ContainerLimits;
use crate::locator::Locator;
use crate::model::Model;
use crate::name::ContainerName;
use crate::partition_map::{Partition, PartitionMap};
use crate::throughput::Charge;

/// One version of a container. Immutable and shared; a change of the container makes a new one.
pub struct Container {
    /// Its name.
    pub name: ContainerName,
    /// Its definition in the catalog.
    pub definition: Definition,
    /// Its physical partitions.
    pub partitions: PartitionMap,
    /// The storage that a relocation is filling, as a container: every write is repeated there.
    pub(crate) shadow: Option<Arc<Self>>,
    pub(crate) model: Arc<dyn Model>,
    pub(crate) limits: ContainerLimits,
    pub(crate) heat: Heat,
    /// Whether its name is a bookkeeping one; kept because every request asks.
    pub(crate) is_bookkeeping: bool,
    /// An engine version at which this definition was in force.
    pub(crate) as_of: u64,
    pub(crate) usage: Usage,
}

/// Whether a container is in use, so that idle ones can leave the cache.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    used: AtomicBool,
    idle_rounds: AtomicU8,
}

impl Usage {
    /// Marks it as used.
    pub(crate) fn note(&self) {
        // Read first: most requests find it set, and then share the cache line without writing it.
        if !self.used.load(Ordering::Relaxed) {
            self.used.store(true, Ordering::Relaxed);
        }
    }

    /// Ends a round; returns the number of rounds in a row without a request.
    pub(crate) fn end_round(&self) -> u8 {
        let idle = match self.used.swap(false, Ordering::Relaxed) {
            true => 0,
            false => self.idle_rounds.load(Ordering::Relaxed).saturating_add(1),
        };
        self.idle_rounds.store(idle, Ordering::Relaxed);
        idle
    }
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

    /// Whether its requests can be throttled.
    pub(crate) fn has_throughput(&self) -> bool {
        self.definition.provisioned.is_some() || self.definition.shared.is_some()
    }

    /// What the requests of a physical partition are paid from: an even share of its container's
    /// own throughput, or the share of the database that its part of the ring belongs to.
    pub(crate) fn budget(&self, partition: &Partition) -> Option<Budget> {
        let Some(provisioned) = self.definition.provisioned else {
            let shared = self.definition.shared?;
            return Some(shared.budget(partition));
        };
        let partitions = u64::try_from(self.partitions.count()).unwrap_or(u64::MAX);
        let share = u64::from(provisioned) * 1_000 / partitions.max(1);
        Some(Budget {
            place: (self.storage(), partition.id),
            share: Charge::from_milli_units(share),
        })
    }

    /// A partition key in readable form.
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
