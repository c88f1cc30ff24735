//! Building and dropping indexes while their collection is in use.

use std::collections::HashMap;
use std::sync::Arc;

use tessera_core::Error as CoreError;
use tessera_core::definition::NewIndex;
use tessera_core::reading::{PageRequest, Span};
use tessera_core::rebuild::SchemaSwap;
use tessera_mongo_language::error::Code;

use crate::collection::{Collection, Namespace};
use crate::data::Data;
use crate::execute::decode;
use crate::failure::{Failure, Result};
use crate::index::{IndexSpec, keys};
use crate::model::refusal_of;
use crate::write::duplicate;
use crate::write::target::Target;

/// How often an index is tried while other servers change the same collection.
const ATTEMPTS: usize = 20;

/// Documents that are looked at to say which value is there twice.
const MAX_SEARCHED: usize = 100_000;

/// What the name of an index ends with that is built beside the one whose place it takes.
const BESIDE: &str = " becoming unique";

/// The name of an index that is built to take the place of the one of this name.
pub(crate) fn beside(name: &str) -> String {
    format!("{name}{BESIDE}")
}

/// Whether an index is there only to take the place of another one.
pub(crate) fn is_beside(name: &str) -> bool {
    name.ends_with(BESIDE)
}

/// Builds indexes one after another. If one cannot be built, none of them stays.
pub(crate) async fn build(data: &Data, namespace: &Namespace, specs: Vec<IndexSpec>) -> Result<()> {
    let mut built: Vec<String> = Vec::new();
    for spec in specs {
        let name = spec.name.clone();
        if let Err(failure) = build_one(data, namespace, spec).await {
            drop(data, namespace, &built).await?;
            return Err(failure);
        }
        built.push(name);
    }
    Ok(())
}

async fn build_one(data: &Data, namespace: &Namespace, spec: IndexSpec) -> Result<()> {
    let new = NewIndex {
        name: spec.name.clone(),
        unique: spec.unique,
    };
    let spec = Arc::new(spec);
    let container = &namespace.container;
    for _ in 0..ATTEMPTS {
        let schema = changed(data, namespace, |collection| {
            collection.indexes.retain(|index| index.name != spec.name);
            collection.indexes.push(Arc::clone(&spec));
        });
        let schema = Some(schema.await?);
        return match data.store.create_index(container, &new, schema).await {
            Ok(_) => Ok(()),
            Err(CoreError::Conflict) => continue,
            Err(CoreError::DuplicateValue { .. }) => Err(twice(data, namespace, &spec).await?),
            Err(CoreError::Rejected(text)) => Err(refusal_of(&text).into()),
            Err(error) => Err(error.into()),
        };
    }
    Err(CoreError::Conflict.into())
}

/// Drops indexes by name.
pub(crate) async fn drop(data: &Data, namespace: &Namespace, names: &[String]) -> Result<()> {
    for name in names {
        drop_one(data, namespace, name).await?;
    }
    Ok(())
}

async fn drop_one(data: &Data, namespace: &Namespace, name: &str) -> Result<()> {
    let container = &namespace.container;
    for _ in 0..ATTEMPTS {
        let schema = changed(data, namespace, |collection| {
            collection.indexes.retain(|index| index.name != name);
        });
        let schema = Some(schema.await?);
        return match data.store.drop_index(container, name, schema).await {
            Ok(_) | Err(CoreError::NotFound(_)) => Ok(()),
            Err(CoreError::Conflict) => continue,
            Err(error) => Err(error.into()),
        };
    }
    Err(CoreError::Conflict.into())
}

/// Lets a complete index take the place of another one, as this one of its name.
pub(crate) async fn replace(
    data: &Data,
    namespace: &Namespace,
    new: &str,
    spec: IndexSpec,
) -> Result<()> {
    let spec = Arc::new(spec);
    for _ in 0..ATTEMPTS {
        let schema = changed(data, namespace, |collection| {
            collection.indexes.retain(|index| index.name != new);
            for index in &mut collection.indexes {
                if index.name == spec.name {
                    *index = Arc::clone(&spec);
                }
            }
        });
        let (container, names) = (&namespace.container, (spec.name.as_str(), new));
        return match data
            .store
            .replace_index(container, names, schema.await?)
            .await
        {
            Ok(_) => Ok(()),
            Err(CoreError::Conflict) => continue,
            Err(error) => Err(error.into()),
        };
    }
    Err(CoreError::Conflict.into())
}

/// The schema of a collection after a change, for whoever finds the same one still there.
async fn changed(
    data: &Data,
    namespace: &Namespace,
    change: impl FnOnce(&mut Collection),
) -> Result<SchemaSwap> {
    let mut transaction = data.store.begin().await?;
    let target = Target::find(data, &mut transaction, namespace).await?;
    let Some(target) = target else {
        let message = format!("ns does not exist: {namespace}");
        return Err(Failure::new(Code::NAMESPACE_NOT_FOUND, message));
    };
    let mut collection = (*target.collection).clone();
    change(&mut collection);
    Ok(SchemaSwap {
        from: target.container.definition.schema.clone(),
        to: collection.encode()?,
    })
}

/// Says which value two documents have.
async fn twice(data: &Data, namespace: &Namespace, spec: &IndexSpec) -> Result<Failure> {
    let mut transaction = data.store.begin().await?;
    let none = bson::Document::new();
    let Some(target) = Target::find(data, &mut transaction, namespace).await? else {
        return Ok(duplicate::of_value(namespace, spec, &none));
    };
    let mut seen = HashMap::new();
    let mut continuation = None;
    while seen.len() < MAX_SEARCHED {
        let request = PageRequest {
            max_items: 1_000,
            continuation: continuation.take(),
            ..PageRequest::default()
        };
        let page = transaction
            .scan(&target.container, &Span::All, &request)
            .await?;
        for item in page.items {
            let document = decode(&item.body)?;
            for (value, _) in keys::of(spec, &document)?.entries {
                let holder = seen.insert(value.clone(), item.locator.clone());
                if holder.is_some_and(|holder| holder != item.locator) {
                    let value = keys::key_of_value(spec, &document, &value).unwrap_or_default();
                    return Ok(duplicate::of_value(namespace, spec, &value));
                }
            }
        }
        match page.continuation {
            None => break,
            next => continuation = next,
        }
    }
    Ok(duplicate::of_value(namespace, spec, &none))
}
