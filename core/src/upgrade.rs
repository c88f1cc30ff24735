//! Online upgrades of containers that earlier versions created.
//!
//! Containers from before logical partitions were counted have no tallies of them. A tally must be
//! exact from its first write on, so such a container is rebuilt into a storage that is counted
//! from the beginning.

use crate::database::all_definitions;
use crate::definition::Definition;
use crate::error::{Error, Result};
use crate::name::ContainerName;
use crate::rebuild::NewPlacement;
use crate::store::Store;

impl Store {
    /// Logs once which containers cannot be read; all others are upgraded.
    pub(crate) async fn report_damage(&self) -> Result<()> {
        for (container, reason) in self.damaged_containers().await? {
            tracing::error!(
                %container, reason,
                "its definition cannot be read; it can be dropped, or restored from a backup"
            );
        }
        Ok(())
    }

    /// Begins to rebuild containers that would be created differently today; returns their number.
    /// The jobs do the rest, also after a restart.
    pub(crate) async fn upgrade(&self) -> Result<usize> {
        let transaction = self.begin().await?;
        let mut begun = 0;
        for (name, definition) in all_definitions(&transaction).await? {
            if !self.is_outdated(&name, &definition) {
                continue;
            }
            tracing::info!(container = %name, "now counts its logical partitions");
            match self.recount(&name, &definition).await {
                Ok(()) => begun += 1,
                // It was dropped, is being rebuilt already, or cannot be read: the next start
                // checks again.
                Err(Error::NotFound(_) | Error::Rejected(_) | Error::Corrupt(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(begun)
    }

    fn is_outdated(&self, name: &ContainerName, definition: &Definition) -> bool {
        !definition.counts_logical_partitions
            && definition.relocation.is_none()
            && self
                .catalog()
                .model(&name.api)
                .counts_logical_partitions(definition)
    }

    /// Moves a container to a storage like its own, and counts there.
    async fn recount(&self, name: &ContainerName, definition: &Definition) -> Result<()> {
        let container = self.begin().await?.container(name).await?;
        let placement = NewPlacement {
            schema: definition.schema.clone(),
            partitions: u32::try_from(container.partitions.count()).unwrap_or(1),
            counts_logical_partitions: Some(true),
            ..NewPlacement::default()
        };
        self.relocate(name, &placement).await.map(|_| ())
    }
}
