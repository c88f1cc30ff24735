//! CREATE, ALTER and DROP TYPE.

use std::sync::Arc;

use super::change::stored_table;
use super::{Definer, Done, changed, nothing, nothing_there, refuse};
use crate::catalog::{KeyspaceEntry, Relation, keyspace_of};
use crate::failure::Failure;
use crate::schema::{
    self, Table, Types, alter_type, create_type, fields_with_type, uses, with_type,
};
use crate::statement::{AlterType, CreateType, QualifiedName};
use crate::types::UserType;
use crate::wire::{ChangeTarget, ChangeType};

pub(super) async fn create(definer: &Definer<'_>, create: &CreateType) -> Done {
    let entry = definer.keyspace(&create.name)?;
    let name = &create.name.name;
    if entry.types.contains_key(name) {
        let words = format!("A user type with name '{name}' already exists");
        return nothing_there(create.if_not_exists, words);
    }
    let user_type = create_type(create, &entry.keyspace.name, &entry.types)?;
    let mut types = entry.types.clone();
    types.insert(name.clone(), user_type);
    definer
        .replace_keyspace(entry, &entry.keyspace, &types)
        .await?;
    let target = ChangeTarget::Type(name.clone());
    Ok(changed(ChangeType::Created, &entry.keyspace.name, target))
}

/// The keyspace and the type of a name, if it is there.
fn find<'d>(
    definer: &'d Definer<'_>,
    name: &QualifiedName,
) -> Result<Option<(&'d Arc<KeyspaceEntry>, &'d UserType)>, Failure> {
    let keyspace = keyspace_of(name, definer.keyspace)?;
    if definer.catalog.find(keyspace).is_none() {
        return Ok(None);
    }
    let entry = definer.keyspace(name)?;
    Ok(entry.types.get(&name.name).map(|found| (entry, found)))
}

pub(super) async fn alter(definer: &Definer<'_>, alter: &AlterType) -> Done {
    let Some((entry, before)) = find(definer, &alter.name)? else {
        let name = definer.full_name(&alter.name)?;
        return nothing_there(alter.if_exists, format!("Type {name} doesn't exist"));
    };
    let has_in_key = |relation: &&Arc<Relation>| {
        let mut key = relation.table.partition_key();
        key.any(|column| uses(&column.data_type, &before.name))
    };
    let key_users = entry.relations().filter(has_in_key);
    let key_users: Vec<String> = key_users.map(|user| user.table.full_name()).collect();
    let Some(after) = alter_type(before, &alter.action, &entry.types, &key_users)? else {
        return nothing();
    };
    let types: Types = entry
        .types
        .values()
        .map(|user_type| {
            let altered = if user_type.name == after.name {
                after.clone()
            } else {
                fields_with_type(user_type, &after)
            };
            (altered.name.clone(), altered)
        })
        .collect();
    definer
        .replace_keyspace(entry, &entry.keyspace, &types)
        .await?;
    for relation in entry.relations() {
        alter_user(definer, relation, &after).await?;
    }
    let target = ChangeTarget::Type(alter.name.name.clone());
    Ok(changed(ChangeType::Updated, &entry.keyspace.name, target))
}

/// Writes a table or view that uses the type again.
async fn alter_user(
    definer: &Definer<'_>,
    relation: &Relation,
    changed: &UserType,
) -> Result<(), Failure> {
    let columns = || relation.table.columns.iter();
    if !columns().any(|column| uses(&column.data_type, &changed.name)) {
        return Ok(());
    }
    let mut table = Table::clone(&relation.table);
    for column in &mut table.columns {
        column.data_type = with_type(&column.data_type, changed);
    }
    let new = match &relation.view {
        None => stored_table(relation, table),
        Some(view) => schema::Relation::View(schema::View {
            table,
            ..schema::View::clone(view)
        }),
    };
    definer.replace(relation, &new).await
}

pub(super) async fn drop(definer: &Definer<'_>, name: &QualifiedName, if_exists: bool) -> Done {
    let Some((entry, dropped)) = find(definer, name)? else {
        let name = definer.full_name(name)?;
        return nothing_there(if_exists, format!("Type '{name}' doesn't exist"));
    };
    let keyspace = &entry.keyspace.name;
    let used_by = |kind: &str, users: Vec<&str>| {
        refuse(format!(
            "Cannot drop user type '{keyspace}.{}' as it is still used by {kind} {}",
            name.name,
            users.join(", ")
        ))
    };
    let has = |types: &UserType| {
        let mut fields = types.fields.iter();
        types.name != dropped.name && fields.any(|(_, field)| uses(field, &dropped.name))
    };
    let types: Vec<&str> = entry
        .types
        .values()
        .filter(|user| has(user))
        .map(|user| user.name.as_str())
        .collect();
    if !types.is_empty() {
        return used_by("user types", types);
    }
    let has = |table: &Table| {
        let mut columns = table.columns.iter();
        columns.any(|column| uses(&column.data_type, &dropped.name))
    };
    let tables: Vec<&str> = entry
        .relations()
        .filter(|relation| has(&relation.table))
        .map(|relation| relation.table.name.as_str())
        .collect();
    if !tables.is_empty() {
        return used_by("tables", tables);
    }
    let mut left = entry.types.clone();
    left.remove(&name.name);
    definer
        .replace_keyspace(entry, &entry.keyspace, &left)
        .await?;
    let target = ChangeTarget::Type(name.name.clone());
    Ok(changed(ChangeType::Dropped, keyspace, target))
}
