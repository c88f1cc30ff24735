//! `$out`: a pipeline's documents in place of a collection.

use std::sync::Arc;

use bson::{Document, Timestamp};
use tessera_core::Error as CoreError;
use tessera_mongo_language::error::{Code, Error};
use tessera_mongo_language::pipeline::{Out, Source};

use crate::aggregate::environment::Environment;
use crate::collection::{Collection, Namespace};
use crate::failure::{Failure, Result};
use crate::transaction::Scope;
use crate::write::document::NewDocument;
use crate::write::store;
use crate::write::target::{self, Target, on_view};

/// Documents of one transaction.
const STEP: usize = 200;

/// Writes all documents to a new collection, and puts that in the place of the old one at the end.
pub(super) async fn replace(
    environment: &Arc<Environment>,
    out: &Out,
    mut documents: Box<dyn Source>,
) -> Result<()> {
    if out.timeseries.is_some() {
        let message = "time series collections are not supported yet";
        return Err(Failure::new(Code::COMMAND_NOT_SUPPORTED, message));
    }
    let namespace = environment.resolve(&out.namespace);
    Namespace::new(namespace.database(), namespace.collection())?;
    let existing = environment.target(&namespace).await?;
    let collection = successor(&namespace, existing.as_ref())?;
    let unique = bson::Uuid::new();
    let temporary = namespace.sibling(&format!("tmp.agg_out.{unique}"));
    target::create(
        &environment.data,
        &mut Scope::Alone,
        &temporary,
        &collection,
    )
    .await?;
    let written = async {
        while let Some(batch) = documents.next_batch().await? {
            for part in batch.chunks(STEP) {
                insert(environment, &temporary, part).await?;
            }
        }
        Ok::<_, Failure>(())
    };
    let written = match written.await {
        Ok(()) => put_in_place(environment, &temporary, &namespace, collection).await,
        failed => failed,
    };
    if written.is_err() {
        drop_quietly(environment, &temporary).await?;
    }
    written
}

/// Readers find the old collection or the new one, and a failure leaves the old one. So does a
/// change of its options or indexes meanwhile, which the new one does not have.
async fn put_in_place(
    environment: &Environment,
    temporary: &Namespace,
    namespace: &Namespace,
    collection: Collection,
) -> Result<()> {
    let store = &environment.data.store;
    let replaced =
        store.replace_container_if(&temporary.container, &namespace.container, move |there| {
            let existing = Collection::decode(&there.definition.schema).map_err(|_| changed())?;
            let live = existing.live_indexes(&there.definition);
            let is_same = existing.options == collection.options
                && live
                    .map(|(spec, ..)| &spec.document)
                    .eq(collection.indexes.iter().map(|spec| &spec.document));
            is_same.then_some(()).ok_or_else(changed)
        });
    match replaced.await {
        Ok(_) => Ok(()),
        Err(CoreError::Rejected(_)) => {
            let message = format!(
                "the options or indexes of '{namespace}' changed while $out was writing to it; \
                 nothing was replaced"
            );
            Err(Failure::new(Code::COMMAND_FAILED, message))
        }
        Err(error) => Err(error.into()),
    }
}

/// The core's word for a refusal.
fn changed() -> CoreError {
    CoreError::Rejected("the collection has changed".into())
}

/// An empty collection with the options and indexes of the one it replaces.
fn successor(namespace: &Namespace, existing: Option<&Target>) -> Result<Collection> {
    let Some(existing) = existing else {
        return Ok(Collection::new(Document::new())?);
    };
    if existing.collection.view.is_some() {
        return Err(on_view(namespace));
    }
    if existing.collection.capped.is_some() {
        let message = format!("namespace '{namespace}' is capped so it can't be used for $out");
        return Err(Error::new(Code(17_152), message).into());
    }
    let mut collection = Collection::new(existing.collection.options.clone())?;
    let live = existing
        .collection
        .live_indexes(&existing.container.definition);
    collection.indexes = live.map(|(spec, ..)| Arc::clone(spec)).collect();
    Ok(collection)
}

async fn drop_quietly(environment: &Environment, namespace: &Namespace) -> Result<()> {
    match environment
        .data
        .store
        .drop_container(&namespace.container)
        .await
    {
        Ok(()) | Err(CoreError::NotFound(_)) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

async fn insert(
    environment: &Arc<Environment>,
    namespace: &Namespace,
    documents: &[Document],
) -> Result<()> {
    let documents: Vec<NewDocument> = documents.iter().map(prepare).collect::<Result<_>>()?;
    let documents = Arc::new(documents);
    let (environment, namespace) = (Arc::clone(environment), namespace.clone());
    let store = environment.data.store.clone();
    store
        .run(&[], move |transaction| {
            let documents = Arc::clone(&documents);
            let (environment, namespace) = (Arc::clone(&environment), namespace.clone());
            Box::pin(async move {
                let data = &environment.data;
                let Some(target) = Target::for_write(data, transaction, &namespace).await? else {
                    return Err(CoreError::NotFound(namespace.to_string()).into());
                };
                let bypass = environment.bypass_validation;
                for document in documents.iter() {
                    store::insert(data, transaction, &target, document, bypass).await?;
                }
                Ok::<_, Failure>(())
            })
        })
        .await?;
    Ok(())
}

/// A document that a pipeline made, as it is stored.
pub(super) fn prepare(document: &Document) -> Result<NewDocument> {
    let raw = bson::RawDocumentBuf::try_from(document)?;
    let kept = Timestamp {
        time: 0,
        increment: 0,
    };
    Ok(NewDocument::insert(&raw, kept)?)
}
