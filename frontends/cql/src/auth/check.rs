//! Whether a role may do what a statement asks for.

use super::resource::{chain, key, shown};
use super::roles::{RoleMap, with_granted};
use crate::catalog::{Catalog, keyspace_of};
use crate::error::{CqlError, ErrorKind, Result};
use crate::service::Service;
use crate::statement::{DropKind, If, Permission, QualifiedName, Resource, Statement};

/// Refuses a statement that this user, in a session with this keyspace, may not run.
pub(crate) async fn check(
    service: &Service,
    user: Option<&str>,
    statement: &Statement,
    keyspace: Option<&str>,
) -> Result<()> {
    let Some(user) = user else {
        return Ok(());
    };
    let roles = service.roles.all().await?;
    if is_superuser(&roles, user) {
        return Ok(());
    }
    let catalog = service.catalog().await?;
    for (permission, resource) in needs(statement, keyspace, &catalog)? {
        require(&roles, user, permission, &resource)?;
    }
    Ok(())
}

/// Whether a role, or one that was granted to it, is a superuser.
pub(super) fn is_superuser(roles: &RoleMap, user: &str) -> bool {
    let own = with_granted(roles, user);
    let mut own = own.iter().filter_map(|name| roles.get(name));
    own.any(|role| role.is_superuser)
}

/// Refuses unless a role, or one that was granted to it, may do this to the resource or to one
/// above it.
pub(super) fn require(
    roles: &RoleMap,
    user: &str,
    permission: Permission,
    resource: &Resource,
) -> Result<()> {
    if is_superuser(roles, user) {
        return Ok(());
    }
    let keys: Vec<String> = chain(resource).iter().map(key).collect();
    let own = with_granted(roles, user);
    let mut own = own.iter().filter_map(|name| roles.get(name));
    if own.any(|role| keys.iter().any(|key| role.may(permission, key))) {
        return Ok(());
    }
    Err(unauthorized(format!(
        "User {user} has no {} permission on {} or any of its parents",
        permission.name(),
        shown(&key(resource))
    )))
}

pub(super) fn unauthorized(words: impl Into<String>) -> CqlError {
    CqlError::new(ErrorKind::Unauthorized, words)
}

/// Everyone may read these: drivers do before anything else.
const READABLE: [&str; 3] = ["system", "system_schema", "system_virtual_schema"];

type Need = (Permission, Resource);

/// What a statement needs.
fn needs(statement: &Statement, keyspace: Option<&str>, catalog: &Catalog) -> Result<Vec<Need>> {
    let table = |permission, name| table(permission, name, keyspace);
    let modify = |name, reads: bool| -> Result<Vec<Need>> {
        let mut needs = table(Permission::Modify, name)?;
        // What a conditional write answers tells what was there.
        if reads {
            needs.extend(table(Permission::Select, name)?);
        }
        Ok(needs)
    };
    let within = |permission, name| within(permission, name, keyspace);
    match statement {
        Statement::Select(select) => table(Permission::Select, &select.table),
        Statement::Insert(insert) => modify(&insert.table, insert.if_not_exists),
        Statement::InsertJson(insert) => modify(&insert.table, insert.if_not_exists),
        Statement::Update(update) => modify(&update.table, update.condition != If::Always),
        Statement::Delete(delete) => modify(&delete.table, delete.condition != If::Always),
        Statement::Batch(batch) => {
            let mut all = Vec::new();
            for statement in &batch.statements {
                all.extend(needs(statement, keyspace, catalog)?);
            }
            Ok(all)
        }
        Statement::Truncate(name) => table(Permission::Modify, name),
        Statement::CreateKeyspace(_) => Ok(vec![(Permission::Create, Resource::AllKeyspaces)]),
        Statement::AlterKeyspace { name, .. } => {
            Ok(vec![(Permission::Alter, Resource::Keyspace(name.clone()))])
        }
        Statement::CreateTable(create) => within(Permission::Create, &create.name),
        Statement::CreateType(create) => within(Permission::Create, &create.name),
        Statement::AlterType(alter) => within(Permission::Alter, &alter.name),
        Statement::AlterTable(alter) => table(Permission::Alter, &alter.name),
        Statement::CreateIndex(create) => table(Permission::Alter, &create.table),
        Statement::CreateView(create) => table(Permission::Alter, &create.table),
        Statement::AlterView { name, .. } => view(name, keyspace, catalog),
        Statement::CreateFunction(create) => functions(Permission::Create, &create.name, keyspace),
        Statement::CreateAggregate(create) => functions(Permission::Create, &create.name, keyspace),
        Statement::CreateTrigger { .. } => Err(unauthorized(
            "Only superusers are allowed to perform CREATE TRIGGER queries",
        )),
        Statement::Drop(drop) => needs_of_drop(&drop.kind, keyspace, catalog),
        // Those of roles are checked where they run.
        Statement::Use(_) | Statement::Describe(_) | Statement::Access(_) => Ok(Vec::new()),
    }
}

fn needs_of_drop(kind: &DropKind, keyspace: Option<&str>, catalog: &Catalog) -> Result<Vec<Need>> {
    match kind {
        DropKind::Keyspace(name) => Ok(vec![(Permission::Drop, Resource::Keyspace(name.clone()))]),
        DropKind::Table(name) => table(Permission::Drop, name, keyspace),
        DropKind::Type(name) => within(Permission::Drop, name, keyspace),
        DropKind::View(name) => view(name, keyspace, catalog),
        DropKind::Index(name) => index(name, keyspace, catalog),
        // Misspelt, as Cassandra has it.
        DropKind::Trigger(..) => Err(unauthorized(
            "Only superusers are allowed to perfrom DROP TRIGGER queries",
        )),
        DropKind::Function(signature) | DropKind::Aggregate(signature) => {
            functions(Permission::Drop, &signature.name, keyspace)
        }
    }
}

/// A permission on one table; none to read what everyone may.
fn table(
    permission: Permission,
    name: &QualifiedName,
    keyspace: Option<&str>,
) -> Result<Vec<Need>> {
    let keyspace = keyspace_of(name, keyspace)?;
    if permission == Permission::Select && READABLE.contains(&keyspace) {
        return Ok(Vec::new());
    }
    let name = QualifiedName {
        keyspace: Some(keyspace.to_owned()),
        name: name.name.clone(),
    };
    Ok(vec![(permission, Resource::Table(name))])
}

/// A permission on all tables of a keyspace.
fn within(
    permission: Permission,
    name: &QualifiedName,
    keyspace: Option<&str>,
) -> Result<Vec<Need>> {
    let keyspace = keyspace_of(name, keyspace)?.to_owned();
    Ok(vec![(permission, Resource::AllTables(keyspace))])
}

/// A permission on all functions of a keyspace.
fn functions(
    permission: Permission,
    name: &QualifiedName,
    keyspace: Option<&str>,
) -> Result<Vec<Need>> {
    let keyspace = keyspace_of(name, keyspace)?.to_owned();
    Ok(vec![(permission, Resource::AllFunctionsIn(keyspace))])
}

/// A view is its base table's.
fn view(name: &QualifiedName, keyspace: Option<&str>, catalog: &Catalog) -> Result<Vec<Need>> {
    let keyspace = keyspace_of(name, keyspace)?;
    let entry = catalog.find(keyspace);
    let relation = entry.and_then(|entry| entry.relation(&name.name));
    let base = relation.and_then(|relation| relation.view.as_ref());
    Ok(base.map_or_else(Vec::new, |view| vec![alter(keyspace, &view.base)]))
}

/// An index is its table's.
fn index(name: &QualifiedName, keyspace: Option<&str>, catalog: &Catalog) -> Result<Vec<Need>> {
    let keyspace = keyspace_of(name, keyspace)?;
    let entry = catalog.find(keyspace);
    let mut tables = entry.into_iter().flat_map(|entry| entry.tables());
    let table = tables.find(|relation| {
        let mut indexes = relation.table.indexes.iter();
        indexes.any(|index| index.name == name.name)
    });
    Ok(table.map_or_else(Vec::new, |relation| {
        vec![alter(keyspace, &relation.table.name)]
    }))
}

fn alter(keyspace: &str, table: &str) -> Need {
    let name = QualifiedName {
        keyspace: Some(keyspace.to_owned()),
        name: table.to_owned(),
    };
    (Permission::Alter, Resource::Table(name))
}
