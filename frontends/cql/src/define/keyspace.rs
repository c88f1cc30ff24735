//! CREATE, ALTER and DROP KEYSPACE.

use tessera_core::provisioning::Throughput;

use super::change::check_own;
use super::throughput;
use super::{Definer, Done, changed, nothing, nothing_there};
use crate::API;
use crate::error::{CqlError, ErrorKind, Result};
use crate::schema::{KeyspaceDefinition, Types, check_name, keyspace_options};
use crate::statement::{CreateKeyspace, Properties, PropertyValue, Resource};
use crate::wire::{ChangeTarget, ChangeType};

pub(super) async fn create(definer: &Definer<'_>, create: &CreateKeyspace) -> Done {
    let name = &create.name;
    check_name("Keyspace", name)?;
    if let Some(entry) = definer.catalog.find(name) {
        if create.if_not_exists {
            return nothing();
        }
        if entry.is_system() {
            let words = format!("System keyspace '{name}' is not user-modifiable");
            return Err(CqlError::invalid(words).into());
        }
        let exists = ErrorKind::AlreadyExists {
            keyspace: name.clone(),
            table: String::new(),
        };
        let words = format!("Cannot add existing keyspace \"{name}\"");
        return Err(CqlError::new(exists, words).into());
    }
    let keyspace = keyspace_options(name, None, &create.properties)?;
    let throughput = throughput(&create.properties)?;
    let definition = KeyspaceDefinition {
        keyspace,
        types: Types::new(),
        lost: Vec::new(),
    };
    let bytes = definition.encode()?;
    let store = &definer.service.store;
    store.create_database(API, name, bytes.into()).await?;
    if throughput.is_some() {
        store.provision_database(API, name, throughput).await?;
    }
    let mut defined = changed(ChangeType::Created, name, ChangeTarget::Keyspace);
    defined.created = vec![
        Resource::Keyspace(name.clone()),
        Resource::AllFunctionsIn(name.clone()),
    ];
    Ok(defined)
}

/// What the tables of a keyspace shall share.
fn throughput(properties: &Properties) -> Result<Option<Throughput>> {
    let texts = properties.iter().filter_map(|(name, value)| match value {
        PropertyValue::Text(text) => Some((name.as_str(), text.as_str())),
        PropertyValue::Map(_) => None,
    });
    throughput::asked(texts)
}

pub(super) async fn alter(
    definer: &Definer<'_>,
    name: &str,
    if_exists: bool,
    properties: &Properties,
) -> Done {
    let Some(entry) = definer.catalog.find(name) else {
        return nothing_there(if_exists, format!("Keyspace '{name}' doesn't exist"));
    };
    check_own(entry)?;
    let before = &entry.keyspace;
    let definition = entry.definition()?;
    let altered = KeyspaceDefinition {
        keyspace: keyspace_options(name, Some(before), properties)?,
        ..definition
    };
    let throughput = throughput(properties)?;
    definer.replace_keyspace(entry, &altered).await?;
    if throughput.is_some() {
        let store = &definer.service.store;
        store.provision_database(API, name, throughput).await?;
    }
    let mut defined = changed(ChangeType::Updated, name, ChangeTarget::Keyspace);
    let factor = |replication: &[(String, String)]| {
        let factors = replication.iter().filter(|(key, _)| key != "class");
        factors
            .filter_map(|(_, value)| value.parse::<u64>().ok())
            .sum::<u64>()
    };
    if factor(&before.replication) < factor(&altered.keyspace.replication) {
        defined.warnings.push(
            "When increasing replication factor you need to run a full (-full) repair to \
             distribute the data."
                .to_owned(),
        );
    }
    Ok(defined)
}

pub(super) async fn drop(definer: &Definer<'_>, name: &str, if_exists: bool) -> Done {
    let Some(entry) = definer.catalog.find(name) else {
        return nothing_there(if_exists, format!("Keyspace '{name}' doesn't exist"));
    };
    check_own(entry)?;
    definer.service.store.drop_database(API, name).await?;
    Ok(changed(ChangeType::Dropped, name, ChangeTarget::Keyspace))
}
