//! What a statement needs of the role that runs it, taken from the very form that is run.
//!
//! Statements on rows are judged by their plan, in which tables are found and keyspaces are known;
//! all others by what the parser read, in the catalog that they run with. Both are matched whole: a
//! new kind of statement does not compile before it says here what it needs. The rules are those of
//! Cassandra 5.0; `docs/cassandra-permissions.md` shows them, and where they differ.

use super::resource::{chain, complete, key};
use super::roles::{RoleMap, is_superuser};
use crate::catalog::{Catalog, Relation, keyspace_of};
use crate::error::{CqlError, ErrorKind, Result};
use crate::plan::{Modification, Step};
use crate::statement::{
    Access, CreateView, DropKind, Permission, QualifiedName, Resource, RoleOptions, Statement,
};

/// One thing that a role must have or be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// This permission on the first of these resources, or on one of those after it, which are
    /// above it.
    Permission(Permission, Vec<String>),
    /// The same, refused in the words that statements on roles have.
    OverRole(Permission, Vec<String>),
    /// A superuser; everyone else is told these words.
    Superuser(String),
    /// Neither this role nor one that it was granted to; those are told these words.
    Without(String, &'static str),
}

impl Need {
    fn on(permission: Permission, resource: &Resource) -> Self {
        Self::Permission(permission, keys(resource))
    }

    fn over_role(permission: Permission, role: &str) -> Self {
        Self::OverRole(permission, keys(&Resource::Role(role.to_owned())))
    }

    fn on_table(permission: Permission, keyspace: &str, table: &str) -> Self {
        let name = QualifiedName {
            keyspace: Some(keyspace.to_owned()),
            name: table.to_owned(),
        };
        Self::on(permission, &Resource::Table(name))
    }
}

/// A resource and all above it, nearest first, as roles keep them.
pub(super) fn keys(resource: &Resource) -> Vec<String> {
    chain(resource).iter().map(key).collect()
}

/// The tables that every role may read: drivers and cqlsh do so before anything else.
pub(super) fn is_readable_by_all(keyspace: &str, table: &str) -> bool {
    match keyspace {
        "system" => matches!(table, "local" | "peers" | "peers_v2"),
        "system_schema" | "system_virtual_schema" => true,
        _ => false,
    }
}

/// What a plan needs.
pub(crate) fn of_plan(step: &Step) -> Vec<Need> {
    match step {
        Step::Select(select) => reading(&select.relation).into_iter().collect(),
        Step::Modify(modification) => changing(modification),
        Step::Batch(batch) => {
            let mut needs = Vec::new();
            for need in batch.modifications.iter().flat_map(|one| changing(one)) {
                if !needs.contains(&need) {
                    needs.push(need);
                }
            }
            needs
        }
    }
}

/// To read a view is to read its table.
fn reading(relation: &Relation) -> Option<Need> {
    let (keyspace, name) = (&relation.table.keyspace, &relation.table.name);
    if is_readable_by_all(keyspace, name) {
        return None;
    }
    let base = relation.view.as_ref().map_or(name, |view| &view.base);
    Some(Need::on_table(Permission::Select, keyspace, base))
}

/// Views follow their table without a permission of their own.
fn changing(modification: &Modification) -> Vec<Need> {
    let table = &modification.relation.table;
    let on_table = |permission| Need::on_table(permission, &table.keyspace, &table.name);
    let mut needs = vec![on_table(Permission::Modify)];
    // What a conditional write answers tells what was there.
    if modification.condition.is_conditional() {
        needs.push(on_table(Permission::Select));
    }
    needs
}

/// Who asks, and what a statement's names mean.
pub(super) struct Asker<'a> {
    pub(super) user: &'a str,
    pub(super) roles: &'a RoleMap,
    /// The keyspace of names without one.
    pub(super) keyspace: Option<&'a str>,
    pub(super) catalog: &'a Catalog,
}

impl Asker<'_> {
    /// What a statement needs that is not on rows.
    pub(super) fn needs(&self, statement: &Statement) -> Result<Vec<Need>> {
        let one = |need: Result<Need>| need.map(|need| vec![need]);
        match statement {
            Statement::Select(_)
            | Statement::Insert(_)
            | Statement::InsertJson(_)
            | Statement::Update(_)
            | Statement::Delete(_)
            | Statement::Batch(_) => Err(CqlError::new(
                ErrorKind::Server,
                "A statement on rows is permitted by its plan",
            )),
            Statement::Truncate(name) => one(self.table(Permission::Modify, name)),
            Statement::CreateKeyspace(_) => {
                Ok(vec![Need::on(Permission::Create, &Resource::AllKeyspaces)])
            }
            Statement::AlterKeyspace { name, .. } => {
                let keyspace = Resource::Keyspace(name.clone());
                Ok(vec![Need::on(Permission::Alter, &keyspace)])
            }
            Statement::CreateTable(create) => one(self.within(Permission::Create, &create.name)),
            Statement::AlterTable(alter) => one(self.table(Permission::Alter, &alter.name)),
            Statement::CreateType(create) => one(self.within(Permission::Create, &create.name)),
            Statement::AlterType(alter) => one(self.within(Permission::Alter, &alter.name)),
            Statement::CreateIndex(create) => one(self.table(Permission::Alter, &create.table)),
            Statement::CreateView(create) => self.create_view(create),
            Statement::AlterView { name, .. } => self.view(name),
            Statement::CreateFunction(create) => {
                one(self.functions(Permission::Create, &create.name))
            }
            Statement::CreateAggregate(create) => {
                one(self.functions(Permission::Create, &create.name))
            }
            Statement::CreateTrigger { .. } => Ok(superuser(
                "Only superusers are allowed to perform CREATE TRIGGER queries",
            )),
            Statement::Drop(drop) => self.drop(&drop.kind),
            Statement::Access(access) => self.access(access),
            // Every role may: what is defined can be read in `system_schema`.
            Statement::Use(_) | Statement::Describe(_) => Ok(Vec::new()),
        }
    }

    fn drop(&self, kind: &DropKind) -> Result<Vec<Need>> {
        let one = |need: Result<Need>| need.map(|need| vec![need]);
        match kind {
            DropKind::Keyspace(name) => {
                let keyspace = Resource::Keyspace(name.clone());
                Ok(vec![Need::on(Permission::Drop, &keyspace)])
            }
            DropKind::Table(name) => one(self.table(Permission::Drop, name)),
            DropKind::Type(name) => one(self.within(Permission::Drop, name)),
            DropKind::View(name) => self.view(name),
            DropKind::Index(name) => self.index(name),
            // Misspelt, as Cassandra has it.
            DropKind::Trigger(..) => Ok(superuser(
                "Only superusers are allowed to perfrom DROP TRIGGER queries",
            )),
            DropKind::Function(signature) | DropKind::Aggregate(signature) => {
                one(self.functions(Permission::Drop, &signature.name))
            }
        }
    }

    fn access(&self, access: &Access) -> Result<Vec<Need>> {
        match access {
            Access::CreateRole { options, .. } => {
                let all = keys(&Resource::AllRoles);
                let mut needs = vec![Need::OverRole(Permission::Create, all)];
                if options.is_superuser == Some(true) {
                    needs.extend(superuser(
                        "Only superusers can create a role with superuser status",
                    ));
                }
                Ok(needs)
            }
            Access::AlterRole { name, options, .. } => Ok(self.alter_role(name, options)),
            Access::DropRole { name, .. } => {
                let mut needs = vec![Need::over_role(Permission::Drop, name)];
                if is_superuser(self.roles, name) {
                    needs.extend(superuser(
                        "Only superusers can drop a role with superuser status",
                    ));
                }
                Ok(needs)
            }
            // Nobody gives or takes what they may not do themselves.
            Access::Grant {
                permissions,
                resource,
                ..
            }
            | Access::Revoke {
                permissions,
                resource,
                ..
            } => {
                let keys = keys(&complete(resource, self.keyspace));
                let all = [Permission::Authorize].iter().chain(permissions);
                let need = |permission: &Permission| Need::Permission(*permission, keys.clone());
                Ok(all.map(need).collect())
            }
            Access::GrantRole { role, .. } => {
                let mut needs = vec![Need::over_role(Permission::Authorize, role)];
                if is_superuser(self.roles, role) {
                    needs.extend(superuser(
                        "Only superusers can grant a role with superuser status",
                    ));
                }
                Ok(needs)
            }
            Access::RevokeRole { role, .. } => {
                Ok(vec![Need::over_role(Permission::Authorize, role)])
            }
            // Every role may; what it is shown depends on what it may see.
            Access::ListPermissions(_) | Access::ListRoles { .. } | Access::ListUsers => {
                Ok(Vec::new())
            }
            Access::AddIdentity { .. } => Ok(vec![Need::over_role(Permission::Create, self.user)]),
            Access::DropIdentity { .. } => Ok(vec![Need::over_role(Permission::Drop, self.user)]),
        }
    }

    fn alter_role(&self, name: &str, options: &RoleOptions) -> Vec<Need> {
        let mut needs = Vec::new();
        if options.is_superuser.is_some() {
            let words = "You aren't allowed to alter your own superuser status or that of a role \
                         granted to you";
            needs.push(Need::Without(name.to_owned(), words));
            needs.extend(superuser(
                "Only superusers are allowed to alter superuser status",
            ));
        }
        if name != self.user {
            needs.push(Need::over_role(Permission::Alter, name));
            // Whoever sets its password is that role.
            if is_superuser(self.roles, name) {
                needs.extend(superuser(
                    "Only superusers can alter a role with superuser status",
                ));
            }
            return needs;
        }
        // Of itself a role may change the password, and nothing that restricts it.
        let restrictions = [
            (options.can_login.is_some(), "LOGIN"),
            (options.datacenters.is_some(), "DATACENTERS"),
            (options.address_groups.is_some(), "CIDRS"),
        ];
        let given = restrictions.iter().filter(|(is_given, _)| *is_given);
        needs.extend(
            given.flat_map(|(_, option)| {
                superuser(&format!("You aren't allowed to alter {option}"))
            }),
        );
        needs
    }

    fn table(&self, permission: Permission, name: &QualifiedName) -> Result<Need> {
        let keyspace = keyspace_of(name, self.keyspace)?;
        Ok(Need::on_table(permission, keyspace, &name.name))
    }

    /// A permission on all tables of a keyspace.
    fn within(&self, permission: Permission, name: &QualifiedName) -> Result<Need> {
        let keyspace = keyspace_of(name, self.keyspace)?.to_owned();
        Ok(Need::on(permission, &Resource::AllTables(keyspace)))
    }

    /// A permission on all functions of a keyspace.
    fn functions(&self, permission: Permission, name: &QualifiedName) -> Result<Need> {
        let keyspace = keyspace_of(name, self.keyspace)?.to_owned();
        Ok(Need::on(permission, &Resource::AllFunctionsIn(keyspace)))
    }

    /// A view shows the rows of its table, which is the one of its own keyspace.
    fn create_view(&self, create: &CreateView) -> Result<Vec<Need>> {
        let keyspace = keyspace_of(&create.name, self.keyspace)?;
        let on = |permission| Need::on_table(permission, keyspace, &create.table.name);
        Ok(vec![on(Permission::Alter), on(Permission::Select)])
    }

    /// A view is its table's. One that is not there needs nothing: it is not found.
    fn view(&self, name: &QualifiedName) -> Result<Vec<Need>> {
        let keyspace = keyspace_of(name, self.keyspace)?;
        let entry = self.catalog.find(keyspace);
        let relation = entry.and_then(|entry| entry.relation(&name.name));
        let view = relation.and_then(|relation| relation.view.as_ref());
        let alter = |base: &str| Need::on_table(Permission::Alter, keyspace, base);
        Ok(view.iter().map(|view| alter(&view.base)).collect())
    }

    /// An index is its table's, likewise.
    fn index(&self, name: &QualifiedName) -> Result<Vec<Need>> {
        let keyspace = keyspace_of(name, self.keyspace)?;
        let entry = self.catalog.find(keyspace);
        let mut tables = entry.into_iter().flat_map(|entry| entry.tables());
        let table = tables.find(|relation| {
            let mut indexes = relation.table.indexes.iter();
            indexes.any(|index| index.name == name.name)
        });
        let alter = |table: &str| Need::on_table(Permission::Alter, keyspace, table);
        Ok(table
            .iter()
            .map(|relation| alter(&relation.table.name))
            .collect())
    }
}

fn superuser(words: &str) -> Vec<Need> {
    vec![Need::Superuser(words.to_owned())]
}
