//! CREATE, ALTER and DROP TABLE.

use bytes::Bytes;
use tessera_core::definition::NewContainer;
use tessera_core::provisioning::Throughput;

use super::change::{place, stored_table, views_depend};
use super::throughput;
use super::{Definer, Done, changed, nothing, nothing_there, refuse};
use crate::error::{CqlError, Result};
use crate::ids::time_uuid;
use crate::schema::{self, AlteredTable, Table, TableOptions, alter_table, create_table};
use crate::statement::{
    AlterTable, CreateTable, Properties, PropertyValue, QualifiedName, Resource,
};
use crate::types::{Native, parse_native};
use crate::wire::{ChangeTarget, ChangeType};

pub(super) async fn create(definer: &Definer<'_>, create: &CreateTable) -> Done {
    let entry = definer.keyspace(&create.name)?;
    let name = &create.name.name;
    // Options that cannot be are told of first.
    TableOptions::default().with(&create.properties)?;
    if definer.is_there(entry, name, create.if_not_exists)? {
        return nothing();
    }
    let keyspace = &entry.keyspace.name;
    let id = id_of(definer, &create.properties)?;
    let table = create_table(create, keyspace, &entry.types, id)?;
    let throughput = match (throughput(&table)?, definer.throughput) {
        (Some(throughput), _) => Some(throughput),
        (None, Some(units)) => Some(Throughput::manual(units)?),
        (None, None) => None,
    };
    let stored = schema::Relation::Table(table, Vec::new());
    let new = NewContainer {
        schema: Bytes::from(stored.encode()?),
        throughput,
        counts_logical_partitions: true,
        requires_database: true,
        ..NewContainer::default()
    };
    let store = &definer.service.store;
    store.create_container(&place(keyspace, name), &new).await?;
    let target = ChangeTarget::Table(name.clone());
    let mut defined = changed(ChangeType::Created, keyspace, target);
    defined.created.push(Resource::Table(QualifiedName {
        keyspace: Some(keyspace.clone()),
        name: name.clone(),
    }));
    Ok(defined)
}

/// The id of what a statement makes: the one that it gives, or a new one.
pub(super) fn id_of(definer: &Definer<'_>, properties: &Properties) -> Result<[u8; 16]> {
    let new = || time_uuid(definer.service.store.clock());
    Ok(given_id(properties)?.unwrap_or_else(new))
}

/// The id that the statement gives, as DESCRIBE WITH INTERNALS prints it.
fn given_id(properties: &Properties) -> Result<Option<[u8; 16]>> {
    let given = properties.iter().find(|(name, _)| name == "id");
    let Some((_, value)) = given else {
        return Ok(None);
    };
    let invalid = || CqlError::configuration("Invalid table id");
    let PropertyValue::Text(text) = value else {
        return Err(invalid());
    };
    let bytes = parse_native(Native::Uuid, text).map_err(|_| invalid())?;
    bytes.try_into().map(Some).map_err(|_| invalid())
}

/// The throughput that the options of a table or view ask for.
pub(super) fn throughput(table: &Table) -> Result<Option<Throughput>> {
    let options = table.options.cosmos.iter();
    throughput::asked(options.map(|(name, value)| (name.as_str(), value.as_str())))
}

pub(super) async fn alter(definer: &Definer<'_>, alter: &AlterTable) -> Done {
    let Some((entry, relation)) = definer.find(&alter.name)? else {
        let name = definer.full_name(&alter.name)?;
        return nothing_there(alter.if_exists, format!("Table '{name}' doesn't exist"));
    };
    if relation.view.is_some() {
        return refuse(
            "Cannot use ALTER TABLE on a materialized view; use ALTER MATERIALIZED VIEW instead",
        );
    }
    let views = entry.views_of(relation);
    let before = AlteredTable {
        table: Table::clone(&relation.table),
        views: views
            .iter()
            .filter_map(|view| Some(schema::View::clone(view.view.as_ref()?)))
            .collect(),
    };
    let now_us = definer.now_us();
    let after = alter_table(before.clone(), &alter.action, &entry.types, now_us)?;
    if after == before {
        return nothing();
    }
    let throughput = match throughput(&after.table)? {
        wanted if wanted == throughput(&before.table)? => None,
        wanted => Some(wanted),
    };
    // Views first: a write to the table that knows a new column finds it there.
    for ((old, new), relation) in before.views.iter().zip(after.views).zip(&views) {
        if *old != new {
            definer
                .replace(relation, &schema::Relation::View(new))
                .await?;
        }
    }
    definer
        .replace(relation, &stored_table(relation, after.table))
        .await?;
    if let Some(wanted) = throughput {
        let container = place(&entry.keyspace.name, &alter.name.name);
        let store = &definer.service.store;
        store.provision(&container, wanted).await?;
    }
    let target = ChangeTarget::Table(alter.name.name.clone());
    Ok(changed(ChangeType::Updated, &entry.keyspace.name, target))
}

pub(super) async fn drop(definer: &Definer<'_>, name: &QualifiedName, if_exists: bool) -> Done {
    if let Some(dropped) = definer.drop_damaged(name).await? {
        return Ok(dropped);
    }
    let Some((entry, relation)) = definer.find(name)? else {
        let name = definer.full_name(name)?;
        return nothing_there(if_exists, format!("Table '{name}' doesn't exist"));
    };
    if relation.view.is_some() {
        return refuse(
            "Cannot use DROP TABLE on a materialized view. Please use DROP MATERIALIZED VIEW \
             instead.",
        );
    }
    if !relation.views.is_empty() {
        return refuse(views_depend(&relation.views));
    }
    let keyspace = &entry.keyspace.name;
    let store = &definer.service.store;
    store.drop_container(&place(keyspace, &name.name)).await?;
    let target = ChangeTarget::Table(name.name.clone());
    Ok(changed(ChangeType::Dropped, keyspace, target))
}
