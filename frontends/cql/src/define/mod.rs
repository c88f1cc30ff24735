//! Runs statements that define: CREATE, ALTER, DROP, TRUNCATE.
//!
//! A statement is checked against the catalog in force and changes the core only if what it was
//! checked against is still there; else it is tried again with what is there now. One at a time in
//! this process, so that only other servers can be in the way.

mod change;
mod index;
mod keyspace;
#[cfg(test)]
mod round_trips;
mod table;
#[cfg(test)]
mod tests;
mod throughput;
mod truncate;
#[cfg(test)]
mod unreadable;
mod user_type;
mod view;

use std::sync::Arc;

use tessera_core::Error;

pub(crate) use self::throughput::Throughputs;

use crate::auth::{Permitted, Rights};
use crate::catalog::Catalog;
use crate::error::{CqlError, ErrorKind, Result};
use crate::failure::Failure;
use crate::service::Service;
use crate::statement::{DropKind, QualifiedName, Resource, Statement};
use crate::wire::{ChangeTarget, ChangeType, SchemaChange};

/// How often a statement is tried while other servers change the same.
const ATTEMPTS: usize = 20;

/// What a definition changed.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Defined {
    /// None if everything was already as wanted.
    pub(crate) change: Option<SchemaChange>,
    pub(crate) warnings: Vec<String>,
    /// What whoever made it may do everything with.
    pub(crate) created: Vec<Resource>,
}

/// What a statement is checked against.
pub(crate) struct Definer<'a> {
    pub(crate) service: &'a Service,
    pub(crate) catalog: Arc<Catalog>,
    /// The session's keyspace.
    pub(crate) keyspace: Option<&'a str>,
    /// Request units per second for what is created, as the request asks for them.
    pub(crate) throughput: Option<u32>,
}

/// What a request wants to be defined.
pub(crate) struct Wanted<'a> {
    pub(crate) statement: &'a Statement,
    /// The session's keyspace.
    pub(crate) keyspace: Option<&'a str>,
    pub(crate) throughput: Option<u32>,
    /// Those of the role that asks.
    pub(crate) rights: &'a Rights,
}

/// Runs a statement that defines, if the role that asks may do so by the catalog that it runs with.
pub(crate) async fn run(service: &Service, wanted: &Wanted<'_>) -> Result<Defined> {
    let keyspace = wanted.keyspace;
    let _changing = service.catalogs.lock().await;
    let mut catalog = service.catalog().await?;
    for _ in 0..ATTEMPTS {
        let rights = wanted.rights;
        let statement = rights.statement(wanted.statement, keyspace, &catalog)?;
        let definer = Definer {
            service,
            catalog,
            keyspace,
            throughput: wanted.throughput,
        };
        let defined = define(&definer, statement).await;
        // Also if it failed: it may have failed half way, or because others changed something.
        catalog = service.catalogs.reload().await?;
        match defined {
            Ok(defined) => {
                if let Some(change) = &defined.change {
                    service.events.schema_changed(change);
                }
                return Ok(defined);
            }
            Err(Failure::Core(Error::Conflict | Error::AlreadyExists(_) | Error::NotFound(_))) => {}
            Err(failure) => return Err(failure.into()),
        }
    }
    Err(CqlError::new(
        ErrorKind::Server,
        "What is defined kept changing; try again",
    ))
}

/// Whether a statement defines something.
pub(crate) fn is_definition(statement: &Statement) -> bool {
    matches!(
        statement,
        Statement::CreateKeyspace(_)
            | Statement::AlterKeyspace { .. }
            | Statement::CreateTable(_)
            | Statement::AlterTable(_)
            | Statement::CreateType(_)
            | Statement::AlterType(_)
            | Statement::CreateIndex(_)
            | Statement::CreateView(_)
            | Statement::AlterView { .. }
            | Statement::CreateFunction(_)
            | Statement::CreateAggregate(_)
            | Statement::CreateTrigger { .. }
            | Statement::Drop(_)
            | Statement::Truncate(_)
    )
}

async fn define(definer: &Definer<'_>, statement: Permitted<'_, Statement>) -> Done {
    match &*statement {
        Statement::CreateKeyspace(create) => keyspace::create(definer, create).await,
        Statement::AlterKeyspace {
            name,
            if_exists,
            properties,
        } => keyspace::alter(definer, name, *if_exists, properties).await,
        Statement::CreateTable(create) => table::create(definer, create).await,
        Statement::AlterTable(alter) => table::alter(definer, alter).await,
        Statement::CreateType(create) => user_type::create(definer, create).await,
        Statement::AlterType(alter) => user_type::alter(definer, alter).await,
        Statement::CreateIndex(create) => index::create(definer, create).await,
        Statement::CreateView(create) => view::create(definer, create).await,
        Statement::AlterView {
            name,
            if_exists,
            properties,
        } => view::alter(definer, name, *if_exists, properties).await,
        Statement::CreateFunction(_) | Statement::CreateAggregate(_) => refuse(
            "User-defined functions are disabled: this server has no setting that enables them",
        ),
        Statement::CreateTrigger { table, class, .. } => {
            definer.table(table)?;
            refuse(format!("Trigger class '{class}' couldn't be loaded"))
        }
        Statement::Drop(dropped) => drop(definer, &dropped.kind, dropped.if_exists).await,
        Statement::Truncate(name) => truncate::run(definer, name).await,
        _ => refuse("This statement defines nothing"),
    }
}

async fn drop(definer: &Definer<'_>, kind: &DropKind, if_exists: bool) -> Done {
    match kind {
        DropKind::Keyspace(name) => keyspace::drop(definer, name, if_exists).await,
        DropKind::Table(name) => table::drop(definer, name, if_exists).await,
        DropKind::Type(name) => user_type::drop(definer, name, if_exists).await,
        DropKind::Index(name) => index::drop(definer, name, if_exists).await,
        DropKind::View(name) => view::drop(definer, name, if_exists).await,
        DropKind::Trigger(name, table) => {
            let table = definer.table(table)?.table.full_name();
            nothing_there(
                if_exists,
                format!("Trigger '{name}' on '{table}' doesn't exist"),
            )
        }
        DropKind::Function(signature) => {
            let name = definer.full_name(&signature.name)?;
            nothing_there(if_exists, format!("Function '{name}' doesn't exist"))
        }
        DropKind::Aggregate(signature) => {
            let name = definer.full_name(&signature.name)?;
            nothing_there(if_exists, format!("Aggregate '{name}' doesn't exist"))
        }
    }
}

/// What each kind of definition answers.
type Done = std::result::Result<Defined, Failure>;

/// Nothing was done, because that was allowed.
fn nothing() -> Done {
    Ok(Defined::default())
}

/// Nothing of this name: no harm if that was allowed.
fn nothing_there(is_allowed: bool, words: String) -> Done {
    if is_allowed { nothing() } else { refuse(words) }
}

fn refuse<T>(words: impl Into<String>) -> std::result::Result<T, Failure> {
    Err(CqlError::invalid(words).into())
}

/// A change of this kind.
fn changed(change: ChangeType, keyspace: &str, target: ChangeTarget) -> Defined {
    let change = SchemaChange {
        change,
        keyspace: keyspace.to_owned(),
        target,
    };
    Defined {
        change: Some(change),
        ..Defined::default()
    }
}

impl Definer<'_> {
    /// The name with its keyspace, as messages write it.
    fn full_name(&self, name: &QualifiedName) -> Result<String> {
        let keyspace = crate::catalog::keyspace_of(name, self.keyspace)?;
        Ok(format!("{keyspace}.{}", name.name))
    }
}
