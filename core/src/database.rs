//! Databases that exist on their own: keyspaces, which may be empty and have options of their own.
//! APIs whose databases are just the first part of a container's name need none of this.
//!
//! A database's entry has the key of a container without a name. Creating a container that needs
//! its database writes the entry again, so that it conflicts with a drop of the database at the
//! same moment: no container is left behind in a database that is gone.

use std::sync::Arc;

use bytes::Bytes;

use crate::damage;
use crate::definition::Definition;
use crate::engine::{KeyRange, Scan};
use crate::error::{Error, Result};
use crate::key;
use crate::name::ContainerName;
use crate::sharing;
use crate::store::Store;
use crate::transaction::Transaction;
use crate::walk::Walk;

impl Store {
    /// Creates a database with the front end's own bytes.
    pub async fn create_database(&self, api: &str, database: &str, schema: Bytes) -> Result<()> {
        let entry = Entry::of(api, database);
        self.run(&[], move |transaction| {
            let (entry, schema) = (entry.clone(), schema.clone());
            Box::pin(async move {
                if transaction.get(&entry.key).await?.is_some() {
                    return Err(Error::AlreadyExists(entry.description));
                }
                transaction.writes.announce(entry.key.clone());
                transaction.writes.put(entry.key, schema);
                Ok(())
            })
        })
        .await
        .map(|_| ())
    }

    /// Replaces the front end's bytes of a database by the result of `edit`, and creates the
    /// database if there is none. One statement, so concurrent changes are not lost.
    pub async fn alter_database<F>(&self, api: &str, database: &str, edit: F) -> Result<()>
    where
        F: Fn(Option<Bytes>) -> Result<Bytes> + Send + Sync + 'static,
    {
        let key = Entry::of(api, database).key;
        let edit = Arc::new(edit);
        self.run(&[], move |transaction| {
            let (key, edit) = (key.clone(), Arc::clone(&edit));
            Box::pin(async move {
                let schema = edit(transaction.get(&key).await?)?;
                transaction.writes.announce(key.clone());
                transaction.writes.put(key, schema);
                Ok(())
            })
        })
        .await
        .map(|_| ())
    }

    /// The front end's bytes of a database; none if there is no such database.
    pub async fn database(&self, api: &str, database: &str) -> Result<Option<Bytes>> {
        let transaction = self.begin().await?;
        transaction.get(&Entry::of(api, database).key).await
    }

    /// Drops a database and all containers in it.
    pub async fn drop_database(&self, api: &str, database: &str) -> Result<()> {
        let entry = Entry::of(api, database);
        loop {
            for name in self.list_containers(api, Some(database)).await? {
                match self.drop_container(&name).await {
                    Ok(()) | Err(Error::NotFound(_)) => {}
                    Err(error) => return Err(error),
                }
            }
            let (name, entry) = (ContainerName::new(api, database, ""), entry.clone());
            let dropped = self.run(&[], move |transaction| {
                let (name, entry) = (name.clone(), entry.clone());
                Box::pin(async move {
                    entry.existing(transaction).await?;
                    let range = key::catalog_range(&name.api, Some(&name.database));
                    let containers = containers_in(transaction, range);
                    if !containers.await?.is_empty() {
                        return Ok::<_, Error>(false);
                    }
                    transaction.writes.announce(entry.key.clone());
                    transaction.writes.delete(entry.key);
                    sharing::forget(transaction, &name.api, &name.database);
                    Ok(true)
                })
            });
            if dropped.await?.value {
                return Ok(());
            }
        }
    }

    /// All databases of an API that exist on their own, by name.
    pub async fn list_databases(&self, api: &str) -> Result<Vec<String>> {
        let transaction = self.begin().await?;
        let names = names(&transaction, Scan::new(key::catalog_range(api, None))).await?;
        let databases = names.into_iter().filter(|name| name.container.is_empty());
        Ok(databases.map(|name| name.database).collect())
    }

    /// All containers of an API, or of one of its databases, by name.
    pub async fn list_containers(
        &self,
        api: &str,
        database: Option<&str>,
    ) -> Result<Vec<ContainerName>> {
        let range = key::catalog_range(api, database);
        let transaction = self.begin().await?;
        containers_in(&transaction, range).await
    }

    /// All containers that clients can see, of all APIs, by name.
    pub async fn all_containers(&self) -> Result<Vec<ContainerName>> {
        let transaction = self.begin().await?;
        let mut names = containers_in(&transaction, key::catalog_all()).await?;
        names.retain(|name| !name.is_bookkeeping());
        Ok(names)
    }

    /// A page of the containers of an API with their definitions, by name, behind `after`; none at
    /// the end. One that cannot be read is listed with the reason in its place.
    pub async fn next_containers(
        &self,
        api: &str,
        after: Option<&ContainerName>,
    ) -> Result<Vec<(ContainerName, Result<Definition>)>> {
        let mut scan = Scan::new(key::catalog_range(api, None));
        if let Some(after) = after {
            scan = scan.after(&key::catalog(after));
        }
        let transaction = self.begin().await?;
        let mut walk = Walk::new(&transaction, scan);
        let mut described = Vec::new();
        // A page may hold nothing but databases' own entries.
        while described.is_empty()
            && let Some(page) = walk.next().await?
        {
            for (key, value) in page {
                let name = parse_name(&key)?;
                if !name.container.is_empty() {
                    let definition = Definition::decode(&value);
                    let definition = definition.map_err(|error| damage::named(&name, error));
                    described.push((name, definition));
                }
            }
        }
        Ok(described)
    }

    /// At most `limit` containers of a database, by name, from the name `from` on, with their
    /// definitions. One that cannot be read is listed with the reason in its place.
    pub async fn describe_containers(
        &self,
        api: &str,
        database: &str,
        from: &str,
        limit: usize,
    ) -> Result<Vec<(ContainerName, Result<Definition>)>> {
        let transaction = self.begin().await?;
        let mut range = key::catalog_range(api, Some(database));
        // The database's own entry, whose container has no name, stands before all others.
        let first = from.to_owned().max("\0".to_owned());
        range.start = key::catalog(&ContainerName::new(api, database, first));
        let mut scan = Scan::new(range);
        scan.max_rows = limit;
        let mut described = Vec::new();
        let mut walk = Walk::new(&transaction, scan);
        while described.len() < limit
            && let Some(page) = walk.next().await?
        {
            for (key, value) in page {
                let name = parse_name(&key)?;
                let definition = Definition::decode(&value);
                let definition = definition.map_err(|error| damage::named(&name, error));
                described.push((name, definition));
            }
        }
        described.truncate(limit);
        Ok(described)
    }
}

/// Makes a container's creation depend on its database.
pub(crate) async fn require_database(
    transaction: &mut Transaction,
    container: &ContainerName,
) -> Result<()> {
    let entry = Entry::of(&container.api, &container.database);
    let schema = entry.existing(transaction).await?;
    transaction.writes.put(entry.key, schema);
    Ok(())
}

/// Where a database's own entry is.
#[derive(Clone)]
struct Entry {
    key: Bytes,
    description: String,
}

impl Entry {
    fn of(api: &str, database: &str) -> Self {
        let name = ContainerName::new(api, database, "");
        Self {
            key: key::catalog(&name),
            description: format!("database '{name}'"),
        }
    }

    async fn existing(&self, transaction: &Transaction) -> Result<Bytes> {
        let stored = transaction.get(&self.key).await?;
        stored.ok_or_else(|| Error::NotFound(self.description.clone()))
    }
}

/// All containers whose definitions can be read, by name. Others are logged once after each start:
/// see [`Store::damaged_containers`].
pub(crate) async fn all_definitions(
    transaction: &Transaction,
) -> Result<Vec<(ContainerName, Definition)>> {
    let mut all = Vec::new();
    let mut walk = Walk::new(transaction, Scan::new(key::catalog_all()));
    while let Some(page) = walk.next().await? {
        for (key, value) in page {
            let name = parse_name(&key)?;
            // A database's own entry, whose container has no name, is not a container.
            if !name.container.is_empty()
                && let Ok(definition) = Definition::decode(&value)
            {
                all.push((name, definition));
            }
        }
    }
    Ok(all)
}

async fn containers_in(transaction: &Transaction, range: KeyRange) -> Result<Vec<ContainerName>> {
    let names = names(transaction, Scan::new(range)).await?;
    Ok(names
        .into_iter()
        .filter(|name| !name.container.is_empty())
        .collect())
}

async fn names(transaction: &Transaction, mut scan: Scan) -> Result<Vec<ContainerName>> {
    scan.keys_only = true;
    let mut names = Vec::new();
    let mut walk = Walk::new(transaction, scan);
    while let Some(page) = walk.next().await? {
        for (key, _) in page {
            names.push(parse_name(&key)?);
        }
    }
    Ok(names)
}

fn parse_name(key: &[u8]) -> Result<ContainerName> {
    let name = key::parse_catalog(key);
    name.ok_or_else(|| Error::Corrupt("a catalog key cannot be read".into()))
}
