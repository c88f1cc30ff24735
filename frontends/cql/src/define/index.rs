//! CREATE and DROP INDEX. An index is a part of its table, and the core keeps one of its name.

use tessera_core::definition::NewIndex;

use super::change::stored_table;
use super::{Definer, Done, changed, nothing, nothing_there, refuse};
use crate::catalog::keyspace_of;
use crate::schema::{Table, create_index};
use crate::statement::{CreateIndex, QualifiedName};
use crate::wire::{ChangeTarget, ChangeType};

pub(super) async fn create(definer: &Definer<'_>, create: &CreateIndex) -> Done {
    let entry = definer.keyspace(&create.table)?;
    let relation = definer.table(&create.table)?;
    if relation.view.is_some() {
        return refuse("Secondary indexes on materialized views aren't supported");
    }
    let taken = |name: &str| {
        let mut indexes = entry.tables().flat_map(|relation| &relation.table.indexes);
        indexes.any(|index| index.name == name)
    };
    let Some(index) = create_index(create, &relation.table, &taken)? else {
        return nothing();
    };
    let mut table = Table::clone(&relation.table);
    let name = index.name.clone();
    table.indexes.push(index);
    let (container, schema) = definer.swap(relation, &stored_table(relation, table))?;
    let keyspace = &entry.keyspace.name;
    let store = &definer.service.store;
    store
        .create_index(container, &NewIndex::new(name), Some(schema))
        .await?;
    let target = ChangeTarget::Table(create.table.name.clone());
    Ok(changed(ChangeType::Updated, keyspace, target))
}

pub(super) async fn drop(definer: &Definer<'_>, name: &QualifiedName, if_exists: bool) -> Done {
    let keyspace = keyspace_of(name, definer.keyspace)?;
    let missing = || {
        let words = format!("Index '{keyspace}.{}' doesn't exist'", name.name);
        nothing_there(if_exists, words)
    };
    if definer.catalog.find(keyspace).is_none() {
        return missing();
    }
    let entry = definer.keyspace(name)?;
    let has = |table: &Table| table.indexes.iter().any(|index| index.name == name.name);
    let Some(relation) = entry.tables().find(|relation| has(&relation.table)) else {
        return missing();
    };
    let mut table = Table::clone(&relation.table);
    table.indexes.retain(|index| index.name != name.name);
    let target = ChangeTarget::Table(table.name.clone());
    let (container, schema) = definer.swap(relation, &stored_table(relation, table))?;
    let store = &definer.service.store;
    store
        .drop_index(container, &name.name, Some(schema))
        .await?;
    Ok(changed(ChangeType::Updated, keyspace, target))
}
