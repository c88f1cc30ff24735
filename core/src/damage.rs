//! Containers whose definition cannot be read: by this core, or by the front end that they belong
//! to.
//!
//! Such a definition affects its own container and nothing else. Loops over all containers leave it
//! out or show it as damaged, and dropping it needs only its name.

use std::collections::BTreeSet;

use bytes::Bytes;

use crate::catalog::{decode_version, relocation_key};
use crate::definition::Definition;
use crate::engine::Scan;
use crate::error::{Error, Result};
use crate::key::{self, StorageId};
use crate::name::ContainerName;
use crate::reaper::reap_key;
use crate::schema_change::Subject;
use crate::store::Store;
use crate::transaction::Transaction;
use crate::walk::Walk;

/// The message about a definition that cannot be read: its container, and what can be done.
pub(crate) fn named(name: &ContainerName, error: Error) -> Error {
    match error {
        Error::Corrupt(cause) => Error::Corrupt(format!(
            "the definition of '{name}' cannot be read ({cause}); drop it, or restore it from a \
             backup"
        )),
        other => other,
    }
}

impl Store {
    /// Why a definition cannot be used by the front end that it belongs to; none if it can.
    pub(crate) fn damage(&self, name: &ContainerName, definition: &Definition) -> Option<String> {
        let model = self.catalog().model(&name.api);
        let refused = model.check_definition(definition).err();
        refused.map(|error| error.to_string())
    }

    /// Every container whose definition cannot be read, with the reason.
    pub async fn damaged_containers(&self) -> Result<Vec<(ContainerName, String)>> {
        let transaction = self.begin().await?;
        let mut damaged = Vec::new();
        let mut walk = Walk::new(&transaction, Scan::new(key::catalog_all()));
        while let Some(page) = walk.next().await? {
            for (key, value) in page {
                let Some(name) = key::parse_catalog(&key) else {
                    continue;
                };
                if name.container.is_empty() {
                    continue;
                }
                let reason = match Definition::decode(&value) {
                    Ok(definition) => self.damage(&name, &definition),
                    Err(error) => Some(error.to_string()),
                };
                damaged.extend(reason.map(|reason| (name, reason)));
            }
        }
        Ok(damaged)
    }

    /// Drops a container whose definition cannot be read. Its data is found through the version
    /// keys, which name the owner of each storage.
    pub(crate) async fn drop_damaged(&self, name: &ContainerName) -> Result<()> {
        let subject = Subject::Name(name.clone());
        let dropped = self.write_catalog(subject, |transaction, name| {
            Box::pin(async move {
                let key = key::catalog(&name);
                let Some(stored) = transaction.get(&key).await? else {
                    return Err(Error::NotFound(format!("container '{name}'")));
                };
                forget(transaction, &name, &stored).await?;
                Ok(None)
            })
        });
        dropped.await.map(|_| ())
    }
}

/// Buffers the drop of a container whose definition, these bytes, cannot be read.
pub(crate) async fn forget(
    transaction: &mut Transaction,
    name: &ContainerName,
    stored: &Bytes,
) -> Result<()> {
    for storage in storages(transaction, name, stored).await? {
        let version = key::definition_version(storage);
        transaction.writes.announce(version.clone());
        transaction.writes.delete(version);
        transaction.writes.delete(relocation_key(storage));
        let reap = reap_key(storage, None);
        transaction.writes.put(reap, Bytes::new());
    }
    transaction.writes.delete(key::catalog(name));
    Ok(())
}

/// Every storage of a damaged container, also one that a relocation was filling.
async fn storages(
    transaction: &Transaction,
    name: &ContainerName,
    stored: &Bytes,
) -> Result<BTreeSet<StorageId>> {
    let mut storages = BTreeSet::new();
    if let Ok(definition) = Definition::decode(stored) {
        storages.insert(definition.storage);
        storages.extend(definition.relocation);
    }
    let mut walk = Walk::new(transaction, Scan::new(key::definition_versions()));
    while let Some(page) = walk.next().await? {
        for (key, value) in page {
            let owner = decode_version(&value).map(|(_, owner)| owner);
            if owner.as_ref() == Some(name) {
                storages.extend(key::parse_definition_version(&key));
            }
        }
    }
    Ok(storages)
}
