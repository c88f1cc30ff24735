//! The collection that a command works on, as one transaction sees it.

use std::sync::Arc;

use tessera_core::container::Container;
use tessera_core::definition::{NewContainer, NewIndex};
use tessera_core::{Error as CoreError, Transaction};
use tessera_mongo_language::error::{Code, Error};

use crate::collection::{CORE_ID_INDEX, Collection, Namespace};
use crate::data::Data;
use crate::failure::{Failure, Result};
use crate::transaction::Scope;

/// A collection with where its documents are.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) namespace: Namespace,
    pub(crate) container: Arc<Container>,
    pub(crate) collection: Arc<Collection>,
    /// Whether a document may get another shard key, and so another place.
    pub(crate) may_move: bool,
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
        let collection = data.collections.of(&container.definition);
        let collection = collection.map_err(|error| unreadable(namespace, &error))?;
        Ok(Some(Self::new(namespace, container, collection)))
    }

    /// The same for what goes over many collections: one that cannot be read is none, and costs the
    /// others nothing.
    pub(crate) async fn readable(
        data: &Data,
        transaction: &mut Transaction,
        namespace: &Namespace,
    ) -> Result<Option<Self>> {
        let container = match transaction.container(&namespace.container).await {
            Err(CoreError::NotFound(_) | CoreError::Corrupt(_)) => return Ok(None),
            container => container?,
        };
        let collection = data.collections.of(&container.definition).ok();
        Ok(collection.map(|collection| Self::new(namespace, container, collection)))
    }

    fn new(namespace: &Namespace, container: Arc<Container>, collection: Arc<Collection>) -> Self {
        Self {
            namespace: namespace.clone(),
            container,
            collection,
            may_move: false,
        }
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

/// The error for a collection whose definition cannot be read.
pub(crate) fn unreadable(namespace: &Namespace, error: &Error) -> Error {
    let message = format!(
        "the definition of {namespace} cannot be read ({}); drop it, or restore it from a backup",
        error.message
    );
    Error::new(Code::INTERNAL_ERROR, message)
}

/// The error for a command that views do not take.
pub(crate) fn on_view(namespace: &Namespace) -> Failure {
    let message = format!("Namespace {namespace} is a view, not a collection");
    Failure::new(Code::COMMAND_NOT_SUPPORTED_ON_VIEW, message)
}

/// Creates a collection, in the session's transaction if there is one.
pub(crate) async fn create(
    data: &Data,
    scope: &mut Scope,
    namespace: &Namespace,
    collection: &Collection,
) -> Result<()> {
    let new = new_container(collection)?;
    match scope
        .create_container(data, &namespace.container, &new)
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

/// What the core keeps of a collection that is new.
pub(crate) fn new_container(collection: &Collection) -> Result<NewContainer> {
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
    Ok(NewContainer {
        schema: collection.encode()?,
        indexes,
        ..NewContainer::default()
    })
}

/// Creates a collection without options if there is none: the first write to a name makes one.
pub(crate) async fn create_if_missing(
    data: &Data,
    scope: &mut Scope,
    namespace: &Namespace,
) -> Result<()> {
    namespace.check_creatable()?;
    let collection = Collection::new(bson::Document::new())?;
    match create(data, scope, namespace, &collection).await {
        Err(failure) if failure.code() == Code::NAMESPACE_EXISTS => Ok(()),
        created => created,
    }
}
