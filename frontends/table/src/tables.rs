//! Tables: their names and records, and creating, listing and deleting them.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tessera_core::definition::NewContainer;
use tessera_core::name::ContainerName;
use tessera_core::provisioning::Throughput;
use tessera_core::{Error, Store};

use crate::error::{Code, Result, ServiceError};
use crate::model::{API, indexes};
use crate::service::AccessPolicy;

/// The record of a table in the catalog.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct TableRecord {
    /// The name as it was written when the table was created.
    pub(crate) name: String,
    /// Stored access policies.
    #[serde(default)]
    pub(crate) policies: Vec<AccessPolicy>,
}

impl TableRecord {
    pub(crate) fn read(schema: &[u8]) -> tessera_core::Result<Self> {
        let record = serde_json::from_slice(schema);
        record.map_err(|error| Error::Corrupt(format!("the record of a table: {error}")))
    }

    /// The substitute for a record that cannot be read.
    pub(crate) fn nameless(container: &str) -> Self {
        Self {
            name: container.to_owned(),
            policies: Vec::new(),
        }
    }

    /// The stored form, which reads back as it is written.
    pub(crate) fn write(&self) -> tessera_core::Result<Bytes> {
        let record = serde_json::to_vec(self).map(Bytes::from);
        let record =
            record.map_err(|error| Error::Internal(format!("the record of a table: {error}")))?;
        if Self::read(&record)? == *self {
            return Ok(record);
        }
        let what = "the record of a table does not read back";
        Err(Error::Internal(what.to_owned()))
    }
}

/// The emulated service: the rules for names, order and limits differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Azure Table storage.
    Storage,
    /// Azure Cosmos DB for Table.
    Cosmos,
}

/// The container of a table, whose name must be one that tables can have. Storage tells names apart
/// without regard to case, Cosmos with.
pub(crate) fn container(mode: Mode, account: &str, table: &str) -> Result<ContainerName> {
    check_name(mode, table)?;
    let table = match mode {
        Mode::Storage => table.to_ascii_lowercase(),
        Mode::Cosmos => table.to_owned(),
    };
    Ok(ContainerName::new(API, account, table))
}

/// Whether two names are those of one table.
pub(crate) fn same_name(mode: Mode, one: &str, other: &str) -> bool {
    match mode {
        Mode::Storage => one.eq_ignore_ascii_case(other),
        Mode::Cosmos => one == other,
    }
}

/// Refuses names that a table cannot have.
fn check_name(mode: Mode, name: &str) -> Result<()> {
    match mode {
        Mode::Storage => check_storage_name(name),
        Mode::Cosmos => check_cosmos_name(name),
    }
}

fn check_storage_name(name: &str) -> Result<()> {
    if !(3..=63).contains(&name.len()) {
        let words = "The specified resource name length is not within the permissible limits.";
        let why = format!(
            "A table's name has 3 to 63 characters, and '{name}' has {}.",
            name.chars().count()
        );
        return Err(ServiceError::new(Code::OutOfRangeInput, words).with_detail(why));
    }
    let starts_with_letter = name.starts_with(|first: char| first.is_ascii_alphabetic());
    let plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if !starts_with_letter || !plain {
        let why = format!("'{name}' is not letters and digits, beginning with a letter");
        return Err(Code::InvalidResourceName.because(why));
    }
    if name.eq_ignore_ascii_case("tables") {
        let message = "The name 'tables' is reserved.";
        return Err(Code::InvalidResourceName.because(message));
    }
    Ok(())
}

fn check_cosmos_name(name: &str) -> Result<()> {
    const FORBIDDEN: [char; 4] = ['/', '\\', '#', '?'];
    let too_long = name.chars().nth(254).is_some();
    if name.is_empty() || too_long || name.contains(FORBIDDEN) || name.ends_with(' ') {
        let message = "A table's name has 1 to 254 characters, none of them / \\ # or ?, and does \
                       not end with a space.";
        return Err(Code::InvalidResourceName.because(message));
    }
    Ok(())
}

/// Creates a table.
pub(crate) async fn create(
    store: &Store,
    container: &ContainerName,
    name: &str,
    throughput: Option<Throughput>,
) -> Result<()> {
    let record = TableRecord {
        name: name.to_owned(),
        policies: Vec::new(),
    };
    let new = NewContainer {
        schema: record.write()?,
        indexes: indexes(),
        throughput,
        counts_logical_partitions: true,
        ..NewContainer::default()
    };
    match store.create_container(container, &new).await {
        Ok(_) => Ok(()),
        Err(Error::AlreadyExists(_)) => Err(Code::TableAlreadyExists.into()),
        Err(error) => Err(error.into()),
    }
}

/// The record of a table.
pub(crate) async fn find(store: &Store, container: &ContainerName) -> Result<TableRecord> {
    let mut transaction = store.begin().await?;
    let container = transaction.container(container).await?;
    Ok(TableRecord::read(&container.definition.schema)?)
}

/// The provisioned throughput of a table.
pub(crate) async fn throughput(
    store: &Store,
    container: &ContainerName,
) -> Result<Option<Throughput>> {
    let mut transaction = store.begin().await?;
    let container = transaction.container(container).await?;
    Ok(Throughput::of(&container.definition))
}

/// Deletes a table with all its entities.
pub(crate) async fn delete(store: &Store, container: &ContainerName) -> Result<()> {
    match store.drop_container(container).await {
        Err(Error::NotFound(_)) => Err(Code::ResourceNotFound.into()),
        outcome => Ok(outcome?),
    }
}

/// Replaces the stored access policies of a table.
pub(crate) async fn set_policies(
    store: &Store,
    container: &ContainerName,
    policies: Vec<AccessPolicy>,
) -> Result<()> {
    let altered = store.alter_schema(container, move |schema| {
        let record = TableRecord {
            policies: policies.clone(),
            ..TableRecord::read(schema)?
        };
        record.write()
    });
    altered.await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(mode: Mode, name: &str, expected: Option<Code>) {
        let found = check_name(mode, name).err().map(|error| error.code);
        assert_eq!(found, expected, "{name}");
    }

    #[test]
    fn names_follow_the_rules_of_the_service_played() {
        check(Mode::Storage, "abc", None);
        check(Mode::Storage, &"a".repeat(63), None);
        check(Mode::Storage, "ab", Some(Code::OutOfRangeInput));
        check(Mode::Storage, &"a".repeat(64), Some(Code::OutOfRangeInput));
        for invalid in ["1abc", "a-b-c", "täble", "Tables"] {
            check(Mode::Storage, invalid, Some(Code::InvalidResourceName));
        }
        check(Mode::Cosmos, "a-b", None);
        for invalid in ["a/b", "a#b", "a ", ""] {
            check(Mode::Cosmos, invalid, Some(Code::InvalidResourceName));
        }
    }

    #[test]
    fn storage_ignores_case_and_cosmos_does_not() {
        let name = |mode, table| container(mode, "acct", table).unwrap();
        assert_eq!(name(Mode::Storage, "AbC"), name(Mode::Storage, "aBc"));
        assert_ne!(name(Mode::Cosmos, "AbC"), name(Mode::Cosmos, "aBc"));
    }
}
