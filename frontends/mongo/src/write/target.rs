//! The collection that a command works on, as one transaction sees it.

use std::sync::Arc;

use tessera_core::container::Container;
use tessera_core::definition::{NewContainer, NewIndex};
use tessera_core::{Error as CoreError, Transaction};
use tessera_mongo_language::error::Code;

use crate::collection::{CORE_ID_INDEX, Collection, Namespace};
use crate::data::Data;
use crate::failure::{Failure, Result};

/// A collection with where its documents are.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) namespace: Namespace,
    pub(crate) container: Arc<Container>,
    pub(crate) collection: Arc<Collection>,
}

impl Target {
    /// The collection or view of this name; none if there is none.
    pub(crate) async fn find(
        data: &Data,
        transaction: &mut Transaction,
        namespace: &Namespace,
    ) -> Result<Option<Self>> {
        let container = match transaction.container(&namespace.container).await {
            Err(CoreError::NotFound(_)) => return Ok(None),
            container => container?,
        };
        let collection = data.collections.of(&container.definition)?;
        Ok(Some(Self {
            namespace: namespace.clone(),
            container,
            collection,
        }))
    }

    /// The collection that a write goes to: views take none.
    pub(crate) async fn for_write(
        data: &Data,
        transaction: &mut Transaction,
        namespace: &Namespace,
    ) -> Result<Option<Self>> {
        let found = Self::find(data, transaction, namespace).await?;
        if found
            .as_ref()
            .is_some_and(|target| target.collection.view.is_some())
        {
            return Err(on_view(namespace));
        }
        Ok(found)
    }
}

/// The error for a command that views do not take.
pub(crate) fn on_view(namespace: &Namespace) -> Failure {
    let message = format!("Namespace {namespace} is a view, not a collection");
    Failure::new(Code::COMMAND_NOT_SUPPORTED_ON_VIEW, message)
}

/// Creates a collection.
pub(crate) async fn create(
    data: &Data,
    namespace: &Namespace,
    collection: &Collection,
) -> std::result::Result<(), Failure> {
    let mut indexes: Vec<NewIndex> = Vec::new();
    if collection.needs_id_index() && collection.view.is_none() {
        let unique = collection.capped.is_some();
        let name = CORE_ID_INDEX.to_owned();
        indexes.push(NewIndex { name, unique });
    }
    for index in &collection.indexes {
        indexes.push(NewIndex {
            name: index.name.clone(),
            unique: index.unique,
        });
    }
    let new = NewContainer {
        schema: collection.encode()?,
        indexes,
        ..NewContainer::default()
    };
    match data
        .store
        .create_container(&namespace.container, &new)
        .await
    {
        Ok(_) => Ok(()),
        Err(CoreError::AlreadyExists(_)) => {
            let message = format!("Collection {namespace} already exists.");
            Err(Failure::new(Code::NAMESPACE_EXISTS, message))
        }
        Err(error) => Err(error.into()),
    }
}

/// Creates a collection without options if there is none: the first write to a name makes one.
pub(crate) async fn create_if_missing(data: &Data, namespace: &Namespace) -> Result<()> {
    namespace.check_creatable()?;
    match create(data, namespace, &Collection::new(bson::Document::new())?).await {
        Err(failure) if failure.code() == Code::NAMESPACE_EXISTS => Ok(()),
        created => created,
    }
}
