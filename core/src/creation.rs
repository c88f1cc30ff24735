//! Containers created within a transaction: visible only to it until it commits.

use std::sync::Arc;

use bytes::Bytes;

use crate::catalog::Draft;
use crate::container::Container;
use crate::definition::{IndexState, NewContainer, NewIndex};
use crate::engine::Scan;
use crate::error::{Error, Result};
use crate::key;
use crate::name::ContainerName;
use crate::schema_change::write_change;
use crate::transaction::{Committed, Transaction};

impl Transaction {
    /// Creates a container with the commit of this transaction.
    pub async fn create_container(
        &mut self,
        name: &ContainerName,
        new: &NewContainer,
    ) -> Result<Arc<Container>> {
        match self.container(name).await {
            Err(Error::NotFound(_)) => {}
            Ok(_) => return Err(Error::AlreadyExists(format!("container '{name}'"))),
            Err(error) => return Err(error),
        }
        self.intend(&key::catalog(name), None).await?;
        let storage = self.store.take_storage_id().await?;
        let draft = Draft::create(self, name.clone(), storage, new).await?;
        self.created.push(draft.clone());
        self.write_created(draft)
    }

    /// Adds indexes to a container that this transaction created and has written nothing to yet.
    /// `schema` takes effect with them.
    pub async fn create_indexes(
        &mut self,
        name: &ContainerName,
        new: &[NewIndex],
        schema: Bytes,
    ) -> Result<Arc<Container>> {
        let created = self.created.iter().position(|draft| draft.name == *name);
        let Some(mut draft) = created.and_then(|at| self.created.get(at).cloned()) else {
            return Err(Error::Rejected(
                "only a container that this transaction created can get indexes in it".into(),
            ));
        };
        let items = Scan::new(key::items(draft.definition.storage));
        if !self.scan_keys(&items).await?.entries.is_empty() {
            return Err(Error::Rejected(
                "only an empty container can get indexes in a transaction".into(),
            ));
        }
        for index in new {
            if draft.definition.index(&index.name).is_some() {
                return Err(Error::AlreadyExists(format!("index '{}'", index.name)));
            }
            draft.definition.add_index(index, IndexState::Ready);
        }
        draft.definition.schema = schema;
        self.created.retain(|known| known.name != *name);
        self.created.push(draft.clone());
        self.write_created(draft)
    }

    /// Whether this transaction creates the container of this name.
    pub fn creates(&self, name: &ContainerName) -> bool {
        self.created.iter().any(|draft| draft.name == *name)
    }

    fn write_created(&mut self, draft: Draft) -> Result<Arc<Container>> {
        let draft = write_change(self, None, Some(draft))?;
        let draft =
            draft.ok_or_else(|| Error::Internal("a created container is missing".into()))?;
        let catalog = Arc::clone(self.store.catalog());
        let container = catalog.container(draft, self.snapshot.version());
        self.remember(Arc::clone(&container));
        Ok(container)
    }

    /// Commits, and adds what was created to the catalog; also if the caller is dropped, because a
    /// commit whose result never reached the cache would leave it wrong for good.
    pub(crate) async fn commit_with_containers(mut self) -> Result<Committed> {
        let catalog = Arc::clone(self.store.catalog());
        let created = std::mem::take(&mut self.created);
        let commit = crate::deadline::spawn("definition", async move {
            let changes = created
                .into_iter()
                .map(|draft| (catalog.begin_change(), draft))
                .collect::<Vec<_>>();
            let committed = self.commit_writes().await?;
            for (change, mut draft) in changes {
                // As `write_change` stored it.
                draft.definition.version = 1;
                let name = draft.name.clone();
                let container = catalog.container(draft, committed.version);
                change.settle(committed.version, &name, Some(container));
            }
            Ok(committed)
        });
        commit
            .await
            .map_err(|error| Error::Internal(error.to_string()))?
    }
}
