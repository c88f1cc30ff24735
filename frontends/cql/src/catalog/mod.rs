//! What is defined, as statements find it: keyspaces, their types, tables and views.
//!
//! A [`Catalog`] is a value that does not change; [`Catalogs`] gives the one in force. A keyspace
//! is a database of the core, a table or a view a container, whose schema bytes say everything
//! about its rows. So a statement that was planned with an older catalog notices when it opens the
//! container: see [`Relation::is_in_force`].

mod cache;
mod load;

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use tessera_core::Container;
use tessera_core::name::ContainerName;

use crate::API;
use crate::error::{CqlError, ErrorKind, Result, refuse};
use crate::schema::{Keyspace, KeyspaceDefinition, LostType, Table, Types, View};
use crate::statement::QualifiedName;

pub(crate) use cache::Catalogs;
pub(crate) use load::mark_as_hash;

/// Everything that is defined at one moment, Cassandra's own keyspaces included.
#[derive(Debug)]
pub(crate) struct Catalog {
    keyspaces: BTreeMap<String, Arc<KeyspaceEntry>>,
    /// Changes with each definition, and is the same on all servers that see the same ones.
    pub(crate) version: [u8; 16],
}

/// A keyspace and what is in it.
#[derive(Debug)]
pub(crate) struct KeyspaceEntry {
    pub(crate) keyspace: Keyspace,
    pub(crate) types: Types,
    relations: BTreeMap<String, Arc<Relation>>,
    /// Tables and views whose definitions cannot be read, by name.
    damaged: BTreeMap<String, Arc<DamagedRelation>>,
    /// Types that cannot be read.
    pub(crate) lost_types: Vec<LostType>,
    /// Why its own definition cannot be read, if it cannot: what is in it can be used, and it can
    /// be dropped.
    damage: Option<String>,
    /// The core's bytes of it; none for Cassandra's own.
    pub(crate) stored: Option<Bytes>,
}

/// A table or a view whose definition cannot be read: it can be dropped, and nothing else.
#[derive(Debug)]
pub(crate) struct DamagedRelation {
    /// The core's bytes of it.
    schema: Bytes,
    why: String,
}

/// A table or a view.
#[derive(Debug)]
pub(crate) struct Relation {
    /// The table, or the rows of the view.
    pub(crate) table: Arc<Table>,
    pub(crate) place: Place,
    /// What makes it a view.
    pub(crate) view: Option<Arc<View>>,
    /// The names of the views that follow it.
    pub(crate) views: Vec<String>,
}

/// Where the rows are.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    /// In this container, whose schema is these bytes.
    Stored { name: ContainerName, schema: Bytes },
    /// Nowhere: they are computed when they are read.
    Computed,
}

const NO_KEYSPACE: &str =
    "No keyspace has been specified. USE a keyspace, or explicitly specify keyspace.tablename";

impl Catalog {
    /// One in which nothing is defined.
    #[cfg(test)]
    pub(crate) fn empty() -> Self {
        Self {
            keyspaces: BTreeMap::new(),
            version: [0; 16],
        }
    }

    /// The keyspace of this name.
    pub(crate) fn find(&self, keyspace: &str) -> Option<&Arc<KeyspaceEntry>> {
        self.keyspaces.get(keyspace)
    }

    /// The keyspace of this name, refused as statements on tables do.
    pub(crate) fn keyspace(&self, name: &str) -> Result<&Arc<KeyspaceEntry>> {
        let missing = || CqlError::invalid(format!("keyspace {name} does not exist"));
        self.find(name).ok_or_else(missing)
    }

    /// The table or view that a statement means, in a session with this keyspace.
    pub(crate) fn relation(
        &self,
        name: &QualifiedName,
        session_keyspace: Option<&str>,
    ) -> Result<&Arc<Relation>> {
        let keyspace = keyspace_of(name, session_keyspace)?;
        let table = &name.name;
        let entry = self.keyspace(keyspace)?;
        let Some(relation) = entry.relation(table) else {
            entry.check_damaged(table)?;
            return refuse(format!("table {table} does not exist"));
        };
        Ok(relation)
    }

    /// All keyspaces by name.
    pub(crate) fn keyspaces(&self) -> impl Iterator<Item = &Arc<KeyspaceEntry>> {
        self.keyspaces.values()
    }
}

/// The keyspace that a name means, in a session with this keyspace.
pub(crate) fn keyspace_of<'n>(
    name: &'n QualifiedName,
    session_keyspace: Option<&'n str>,
) -> Result<&'n str> {
    let keyspace = name.keyspace.as_deref().or(session_keyspace);
    keyspace.ok_or_else(|| CqlError::invalid(NO_KEYSPACE))
}

impl KeyspaceEntry {
    /// One of Cassandra's own.
    pub(crate) fn system(keyspace: Keyspace, relations: BTreeMap<String, Arc<Relation>>) -> Self {
        Self {
            keyspace,
            types: Types::new(),
            relations,
            damaged: BTreeMap::new(),
            lost_types: Vec::new(),
            damage: None,
            stored: None,
        }
    }

    /// The same, with nothing in it.
    fn without_relations(&self) -> Self {
        Self {
            keyspace: self.keyspace.clone(),
            types: self.types.clone(),
            relations: BTreeMap::new(),
            damaged: BTreeMap::new(),
            lost_types: self.lost_types.clone(),
            damage: self.damage.clone(),
            stored: self.stored.clone(),
        }
    }

    /// All that cannot be read: what it is, its name, and why.
    pub(crate) fn damages(&self) -> impl Iterator<Item = (&'static str, &str, &str)> {
        let own = self.damage.iter();
        let own = own.map(|why| ("keyspace", self.keyspace.name.as_str(), why.as_str()));
        let types = self.lost_types.iter();
        let types = types.map(|lost| ("type", lost.name(), lost.why.as_str()));
        let relations = self.damaged.iter();
        let relations =
            relations.map(|(name, damaged)| ("table", name.as_str(), damaged.why.as_str()));
        own.chain(types).chain(relations)
    }

    /// A table or view that cannot be read.
    pub(crate) fn damaged(&self, name: &str) -> Option<&Arc<DamagedRelation>> {
        self.damaged.get(name)
    }

    /// Refuses a table or view that cannot be read.
    pub(crate) fn check_damaged(&self, name: &str) -> Result<()> {
        match self.damaged(name) {
            None => Ok(()),
            Some(damaged) => Err(CqlError::new(
                ErrorKind::Server,
                format!(
                    "Table '{}.{name}' can only be dropped. {}",
                    self.keyspace.name, damaged.why
                ),
            )),
        }
    }

    /// A type that cannot be read.
    pub(crate) fn lost_type(&self, name: &str) -> Option<&LostType> {
        self.lost_types.iter().find(|lost| lost.name() == name)
    }

    /// The definition, refused if it cannot be read.
    pub(crate) fn definition(&self) -> Result<KeyspaceDefinition> {
        match &self.damage {
            None => Ok(KeyspaceDefinition {
                keyspace: self.keyspace.clone(),
                types: self.types.clone(),
                lost: self.lost_types.clone(),
            }),
            Some(why) => Err(CqlError::new(
                ErrorKind::Server,
                format!(
                    "Keyspace '{}' can only be dropped, and what is in it used. {why}",
                    self.keyspace.name
                ),
            )),
        }
    }

    pub(crate) fn relation(&self, name: &str) -> Option<&Arc<Relation>> {
        self.relations.get(name)
    }

    /// Tables and views by name.
    pub(crate) fn relations(&self) -> impl Iterator<Item = &Arc<Relation>> {
        self.relations.values()
    }

    pub(crate) fn tables(&self) -> impl Iterator<Item = &Arc<Relation>> {
        self.relations().filter(|relation| relation.view.is_none())
    }

    pub(crate) fn views(&self) -> impl Iterator<Item = &Arc<View>> {
        self.relations()
            .filter_map(|relation| relation.view.as_ref())
    }

    /// The views that follow a table.
    pub(crate) fn views_of(&self, relation: &Relation) -> Vec<Arc<Relation>> {
        let views = relation.views.iter();
        views
            .filter_map(|name| self.relation(name).map(Arc::clone))
            .collect()
    }

    /// Whether it is one of Cassandra's own, in which nobody defines anything.
    pub(crate) fn is_system(&self) -> bool {
        self.stored.is_none()
    }
}

impl Relation {
    /// Whether an opened container has the definition that this is.
    pub(crate) fn is_in_force(&self, container: &Container) -> bool {
        match &self.place {
            Place::Computed => false,
            Place::Stored { schema, .. } => {
                let now = &container.definition.schema;
                let is_same_place =
                    std::ptr::eq(schema.as_ptr(), now.as_ptr()) && schema.len() == now.len();
                is_same_place || schema == now
            }
        }
    }
}

/// The container of a table or view.
pub(crate) fn container_name(keyspace: &str, name: &str) -> ContainerName {
    ContainerName::new(API, keyspace, name)
}
