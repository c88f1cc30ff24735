//! CREATE, ALTER and DROP TYPE.

use std::sync::Arc;

use super::change::stored_table;
use super::{Defined, Definer, Done, changed, nothing, nothing_there, refuse};
use crate::catalog::{KeyspaceEntry, Relation, keyspace_of};
use crate::error::{CqlError, ErrorKind};
use crate::failure::Failure;
use crate::schema::{
    self, Table, alter_type, check_durations, check_with, create_type, fields_with_type, uses,
    with_type,
};
use crate::statement::{AlterType, CreateType, QualifiedName};
use crate::types::{DataType, UserType};
use crate::wire::{ChangeTarget, ChangeType};

pub(super) async fn create(definer: &Definer<'_>, create: &CreateType) -> Done {
    let entry = definer.keyspace(&create.name)?;
    let name = &create.name.name;
    let mut definition = entry.definition()?;
    if entry.types.contains_key(name) || entry.lost_type(name).is_some() {
        let words = format!("A user type with name '{name}' already exists");
        return nothing_there(create.if_not_exists, words);
    }
    let user_type = create_type(create, &entry.keyspace.name, &entry.types)?;
    definition.types.insert(name.clone(), user_type);
    definer.replace_keyspace(entry, &definition).await?;
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
    if let Some(lost) = entry.lost_type(&name.name) {
        let words = format!(
            "Type '{keyspace}.{}' can only be dropped. {}",
            name.name, lost.why
        );
        return Err(CqlError::new(ErrorKind::Server, words).into());
    }
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
    check_users(entry, &after)?;
    let mut definition = entry.definition()?;
    definition.types = entry
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
    definer.replace_keyspace(entry, &definition).await?;
    for relation in entry.relations() {
        alter_user(definer, relation, &after).await?;
    }
    let target = ChangeTarget::Type(alter.name.name.clone());
    Ok(changed(ChangeType::Updated, &entry.keyspace.name, target))
}

/// Refuses a change that would make something that uses the type too deep or too large, before
/// anything of it is made.
fn check_users(entry: &KeyspaceEntry, after: &UserType) -> Result<(), Failure> {
    let fields = entry.types.values().flat_map(|it| &it.fields);
    let fields = fields.map(|(_, data_type)| data_type);
    let relations = entry.relations();
    let columns = relations.flat_map(|relation| &relation.table.columns);
    let columns = columns.map(|column| &column.data_type);
    let whole = DataType::User {
        definition: Box::new(after.clone()),
        frozen: true,
    };
    for data_type in fields.chain(columns).chain([&whole]) {
        check_with(data_type, after)?;
    }
    for relation in entry.relations() {
        check_indexes(&relation.table, after)?;
    }
    Ok(())
}

/// Refuses a change after which an index could not be made as it is there: durations have no order.
fn check_indexes(table: &Table, after: &UserType) -> Result<(), Failure> {
    for index in &table.indexes {
        let column = table.column(&index.column);
        let used = column.filter(|column| uses(&column.data_type, &after.name));
        if let Some(column) = used {
            check_durations(&with_type(&column.data_type, after))?;
        }
    }
    Ok(())
}

/// Writes a table or view that uses the type again.
async fn alter_user(
    definer: &Definer<'_>,
    relation: &Relation,
    changed: &UserType,
) -> Result<(), Failure> {
    let mut table = Table::clone(&relation.table);
    let dropped = table.dropped.iter().map(|(column, _)| column);
    let mut columns = table.columns.iter().chain(dropped);
    if !columns.any(|column| uses(&column.data_type, &changed.name)) {
        return Ok(());
    }
    let dropped = table.dropped.iter_mut().map(|(column, _)| column);
    for column in table.columns.iter_mut().chain(dropped) {
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

/// Drops a type that cannot be read; none if the name is not that of one.
async fn drop_lost(
    definer: &Definer<'_>,
    name: &QualifiedName,
) -> Result<Option<Defined>, Failure> {
    let keyspace = keyspace_of(name, definer.keyspace)?;
    let Some(entry) = definer.catalog.find(keyspace) else {
        return Ok(None);
    };
    if entry.lost_type(&name.name).is_none() {
        return Ok(None);
    }
    let mut left = entry.definition()?;
    left.lost.retain(|lost| lost.name() != name.name);
    definer.replace_keyspace(entry, &left).await?;
    let target = ChangeTarget::Type(name.name.clone());
    Ok(Some(changed(ChangeType::Dropped, keyspace, target)))
}

pub(super) async fn drop(definer: &Definer<'_>, name: &QualifiedName, if_exists: bool) -> Done {
    if let Some(dropped) = drop_lost(definer, name).await? {
        return Ok(dropped);
    }
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
    let mut left = entry.definition()?;
    left.types.remove(&name.name);
    definer.replace_keyspace(entry, &left).await?;
    let target = ChangeTarget::Type(name.name.clone());
    Ok(changed(ChangeType::Dropped, keyspace, target))
}
