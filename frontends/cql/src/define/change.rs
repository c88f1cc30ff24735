//! What definitions have in common: finding what they change, and changing it in the core.

use std::sync::Arc;

use bytes::Bytes;
use tessera_core::Error;
use tessera_core::name::ContainerName;
use tessera_core::rebuild::SchemaSwap;

use super::{Defined, Definer, changed, refuse};
use crate::API;
use crate::catalog::{KeyspaceEntry, Place, Relation, container_name, keyspace_of};
use crate::error::{CqlError, ErrorKind, Result};
use crate::failure::Failure;
use crate::schema::{self, KeyspaceDefinition};
use crate::statement::QualifiedName;
use crate::wire::{ChangeTarget, ChangeType};

type Done<T> = std::result::Result<T, Failure>;

impl Definer<'_> {
    /// The keyspace of a name, in which things may be defined.
    pub(super) fn keyspace(&self, name: &QualifiedName) -> Done<&Arc<KeyspaceEntry>> {
        let keyspace = keyspace_of(name, self.keyspace)?;
        match self.catalog.find(keyspace) {
            None => refuse(format!("Keyspace '{keyspace}' doesn't exist")),
            Some(entry) => {
                check_own(entry)?;
                Ok(entry)
            }
        }
    }

    /// The keyspace and the table or view of a name, if it is there.
    pub(super) fn find(
        &self,
        name: &QualifiedName,
    ) -> Done<Option<(&Arc<KeyspaceEntry>, &Arc<Relation>)>> {
        let keyspace = keyspace_of(name, self.keyspace)?;
        let Some(entry) = self.catalog.find(keyspace) else {
            return Ok(None);
        };
        check_own(entry)?;
        entry.check_damaged(&name.name)?;
        Ok(entry.relation(&name.name).map(|relation| (entry, relation)))
    }

    /// The table of a name.
    pub(super) fn table(&self, name: &QualifiedName) -> Done<&Arc<Relation>> {
        self.keyspace(name)?;
        match self.find(name)? {
            Some((_, relation)) => Ok(relation),
            None => refuse(format!("Table '{}' doesn't exist", name.name)),
        }
    }

    /// Puts another definition in the place of a keyspace's.
    pub(super) async fn replace_keyspace(
        &self,
        entry: &KeyspaceEntry,
        definition: &KeyspaceDefinition,
    ) -> Done<()> {
        let new: Bytes = definition.encode()?.into();
        let expected = entry.stored.clone();
        let altered = self
            .service
            .store
            .alter_database(API, &entry.keyspace.name, move |stored| {
                if stored == expected {
                    Ok(new.clone())
                } else {
                    Err(Error::Conflict)
                }
            });
        Ok(altered.await?)
    }

    /// Puts another definition in the place of a table's or view's.
    pub(super) async fn replace(&self, relation: &Relation, new: &schema::Relation) -> Done<()> {
        let (name, swap) = self.swap(relation, new)?;
        let altered = self.service.store.alter_schema(name, move |stored| {
            if *stored == swap.from {
                Ok(swap.to.clone())
            } else {
                Err(Error::Conflict)
            }
        });
        Ok(altered.await.map(|_| ())?)
    }

    /// What puts another definition in the place of a table's or view's, and where that is.
    pub(super) fn swap<'r>(
        &self,
        relation: &'r Relation,
        new: &schema::Relation,
    ) -> Done<(&'r ContainerName, SchemaSwap)> {
        let Place::Stored { name, schema } = &relation.place else {
            return Err(not_ours(&relation.table.keyspace).into());
        };
        let swap = SchemaSwap {
            from: schema.clone(),
            to: new.encode()?.into(),
        };
        Ok((name, swap))
    }

    /// Whether a table or view of this name is there; refused unless that is allowed.
    pub(super) fn is_there(
        &self,
        entry: &KeyspaceEntry,
        name: &str,
        is_allowed: bool,
    ) -> Result<bool> {
        if entry.relation(name).is_none() && entry.damaged(name).is_none() {
            return Ok(false);
        }
        if is_allowed {
            return Ok(true);
        }
        let keyspace = entry.keyspace.name.clone();
        let message =
            format!("Cannot add already existing table \"{name}\" to keyspace \"{keyspace}\"");
        let table = name.to_owned();
        Err(CqlError::new(
            ErrorKind::AlreadyExists { keyspace, table },
            message,
        ))
    }

    /// Microseconds since 1970, later than any write that this server has timed.
    pub(super) fn now_us(&self) -> i64 {
        let now_us = self.service.store.clock().next_version(0);
        i64::try_from(now_us).unwrap_or(i64::MAX)
    }
}

impl Definer<'_> {
    /// Drops a table or view whose definition cannot be read; none if the name is not that of one.
    pub(super) async fn drop_damaged(&self, name: &QualifiedName) -> Done<Option<Defined>> {
        let keyspace = keyspace_of(name, self.keyspace)?;
        let damaged = |entry: &&Arc<KeyspaceEntry>| entry.damaged(&name.name).is_some();
        let Some(entry) = self.catalog.find(keyspace).filter(damaged) else {
            return Ok(None);
        };
        let followers = entry.views().filter(|view| view.base == name.name);
        let followers: Vec<&str> = followers.map(|view| view.table.name.as_str()).collect();
        if !followers.is_empty() {
            return refuse(views_depend(&followers));
        }
        for base in entry
            .tables()
            .filter(|base| base.views.contains(&name.name))
        {
            let mut views = base.views.clone();
            views.retain(|other| *other != name.name);
            let left = schema::Relation::Table(schema::Table::clone(&base.table), views);
            self.replace(base, &left).await?;
        }
        let store = &self.service.store;
        store.drop_container(&place(keyspace, &name.name)).await?;
        let target = ChangeTarget::Table(name.name.clone());
        Ok(Some(changed(ChangeType::Dropped, keyspace, target)))
    }
}

/// Why a table with views is not dropped.
pub(super) fn views_depend(views: &[impl AsRef<str>]) -> String {
    let views: Vec<&str> = views.iter().map(AsRef::as_ref).collect();
    format!(
        "Cannot drop a table when materialized views still depend on it ({})",
        views.join(", ")
    )
}

/// Cassandra's own keyspaces are nobody's to change.
pub(super) fn check_own(entry: &KeyspaceEntry) -> Result<()> {
    if entry.is_system() {
        return Err(not_ours(&entry.keyspace.name));
    }
    Ok(())
}

fn not_ours(keyspace: &str) -> CqlError {
    CqlError::new(
        ErrorKind::Unauthorized,
        format!("{keyspace} keyspace is not user-modifiable."),
    )
}

/// A table as it is stored, with the names of its views.
pub(super) fn stored_table(relation: &Relation, table: schema::Table) -> schema::Relation {
    schema::Relation::Table(table, relation.views.clone())
}

/// The container that a new table or view gets.
pub(super) fn place(keyspace: &str, name: &str) -> ContainerName {
    container_name(keyspace, name)
}
