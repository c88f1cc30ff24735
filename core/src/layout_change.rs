//! The storages and partitions that a change of the catalog writes.

use bytes::Bytes;

use crate::catalog::{Draft, relocation_key};
use crate::container::Container;
use crate::error::{Error, Result};
use crate::key::{self, StorageId};
use crate::misfit::misfit_key;
use crate::partition_map::PartitionMap;
use crate::reaper::reap_key;
use crate::transaction::Transaction;

/// Writes the storage that a relocation fills, or leaves it behind if it was taken over or given
/// up.
pub(crate) fn write_target(
    transaction: &mut Transaction,
    existing: Option<&Container>,
    draft: &Draft,
) -> Result<()> {
    let wanted = draft.target.as_ref();
    if let Some(existing) = existing {
        if draft.definition.storage == existing.storage() {
            // Taken over: it is the container's own now, with its partitions as they are.
            transaction
                .writes
                .delete(relocation_key(existing.storage()));
        } else if wanted.is_none_or(|(target, _)| target.storage != existing.storage()) {
            forget_target(transaction, existing);
        }
    }
    if let Some((target, partitions)) = wanted {
        transaction
            .writes
            .put(relocation_key(target.storage), target.encode()?);
        let stored = existing.filter(|e| e.storage() == target.storage);
        let stored = stored.map(|existing| &existing.partitions);
        write_partitions(transaction, target.storage, stored, partitions)?;
    }
    Ok(())
}

/// Writes the entries of a partition map that differ from the stored ones.
pub(crate) fn write_partitions(
    transaction: &mut Transaction,
    storage: StorageId,
    stored: Option<&PartitionMap>,
    wanted: &PartitionMap,
) -> Result<()> {
    let stored: Vec<_> = stored.into_iter().flat_map(PartitionMap::records).collect();
    let wanted: Vec<_> = wanted.records().collect();
    for (first, _) in &stored {
        if !wanted.iter().any(|(wanted, _)| wanted == first) {
            transaction.writes.delete(key::partition(storage, *first));
        }
    }
    for (first, record) in wanted {
        if !stored.contains(&(first, record.clone())) {
            let value =
                serde_json::to_vec(&record).map_err(|error| Error::Internal(error.to_string()))?;
            transaction
                .writes
                .put(key::partition(storage, first), value.into());
        }
    }
    Ok(())
}

/// Leaves the data of a container to the reaper.
pub(crate) fn forget_storage(transaction: &mut Transaction, container: &Container) {
    let storage = container.storage();
    transaction.writes.delete(key::definition_version(storage));
    transaction
        .writes
        .put(reap_key(storage, None), Bytes::new());
}

/// Leaves the data that a relocation has filled to the reaper.
pub(crate) fn forget_target(transaction: &mut Transaction, shadow: &Container) {
    transaction.writes.delete(relocation_key(shadow.storage()));
    transaction.writes.delete(misfit_key(shadow.storage()));
    transaction
        .writes
        .put(reap_key(shadow.storage(), None), Bytes::new());
}
