//! `$merge`: merges a pipeline's documents into a collection.

use std::sync::Arc;

use bson::{Bson, Document};
use tessera_core::Transaction;
use tessera_mongo_language::collation::Collation;
use tessera_mongo_language::error::{Code, Error};
use tessera_mongo_language::path::Path;
use tessera_mongo_language::pipeline::{Merge, MergeAction};
use tessera_mongo_language::update::Manner;

use crate::aggregate::environment::Environment;
use crate::aggregate::out::prepare;
use crate::collection::Namespace;
use crate::context;
use crate::execute::query::Query;
use crate::execute::{Execution, decode};
use crate::failure::{Failure, Result};
use crate::transaction::Scope;
use crate::write::store;
use crate::write::target::{Target, create_if_missing, on_view};

/// Merges documents one by one.
pub(super) async fn merge(
    environment: &Arc<Environment>,
    merge: &Merge,
    documents: Vec<Document>,
) -> Result<()> {
    let namespace = environment.resolve(&merge.into);
    Namespace::new(namespace.database(), namespace.collection())?;
    let target = match environment.target(&namespace).await? {
        Some(target) => target,
        None => {
            create_if_missing(&environment.data, &mut Scope::Alone, &namespace).await?;
            let created = environment.target(&namespace).await?;
            created.ok_or_else(|| missing(&namespace))?
        }
    };
    if target.collection.view.is_some() {
        return Err(on_view(&namespace));
    }
    check_unique(merge, &target)?;
    let merge = Arc::new(merge.clone());
    for document in documents {
        let (merge, namespace) = (Arc::clone(&merge), namespace.clone());
        let handle = Arc::clone(environment);
        let store = environment.data.store.clone();
        let written = store
            .run(&[], move |transaction| {
                let (merge, namespace) = (Arc::clone(&merge), namespace.clone());
                let (environment, document) = (Arc::clone(&handle), document.clone());
                Box::pin(async move {
                    let one = One {
                        environment: &environment,
                        merge: &merge,
                        namespace: &namespace,
                    };
                    one.run(transaction, document).await
                })
            })
            .await?;
        if written.value {
            environment.merged();
        }
    }
    Ok(())
}

fn missing(namespace: &Namespace) -> Failure {
    Failure::new(
        Code::NAMESPACE_NOT_FOUND,
        format!("ns not found {namespace}"),
    )
}

/// The fields that tell documents apart must be those of a unique index.
fn check_unique(merge: &Merge, target: &Target) -> Result<()> {
    let on = merge.on_fields();
    if on == ["_id"] {
        return Ok(());
    }
    let live = target.collection.live_indexes(&target.container.definition);
    let fits = live.map(|(spec, ..)| spec).any(|spec| {
        spec.unique
            && spec.partial.is_none()
            && spec.fields.len() == on.len()
            && spec
                .fields
                .iter()
                .all(|field| on.contains(&field.path.as_str()))
    });
    if fits {
        return Ok(());
    }
    let message = "Cannot find index to verify that join fields will be unique";
    Err(Error::new(Code(51_183), message).into())
}

/// One document on its way into the collection.
struct One<'a> {
    environment: &'a Environment,
    merge: &'a Merge,
    namespace: &'a Namespace,
}

impl One<'_> {
    /// Whether it wrote something.
    async fn run(&self, transaction: &mut Transaction, mut document: Document) -> Result<bool> {
        let data = &self.environment.data;
        let target = Target::for_write(data, transaction, self.namespace).await?;
        let target = target.ok_or_else(|| missing(self.namespace))?;
        let filter = self.same(&mut document)?;
        let query = Query::by_filter(filter, context::constant(&Collation::default()))?;
        let query = Arc::new(query);
        let plan = query
            .plan(transaction, &target.container, &target.collection)
            .await?;
        let mut execution = Execution::new(query, plan);
        let found = execution.next(transaction, &target.container, 1).await?;
        let item = found.and_then(|row| row.item);
        let existing = item.as_ref().map(|item| decode(&item.body)).transpose()?;
        let action = self.merge.decide(document, existing.clone())?;
        let bypass = self.environment.bypass_validation;
        match (action, item, existing) {
            (MergeAction::Insert(new), ..) => {
                store::insert(data, transaction, &target, &prepare(&new)?, bypass).await?;
            }
            (MergeAction::Replace(new), Some(item), Some(before)) => {
                if new.get("_id") != before.get("_id") {
                    let message = "$merge cannot change the _id of a document that is there";
                    return Err(Failure::new(Code::IMMUTABLE_FIELD, message));
                }
                let old = (&item, &before);
                let new = (&new, &Manner::Computed, bypass);
                store::replace(data, transaction, &target, old, new).await?;
            }
            (MergeAction::Replace(_) | MergeAction::Nothing, ..) => return Ok(false),
        }
        Ok(true)
    }

    /// The filter that finds what is the same document in the collection.
    fn same(&self, document: &mut Document) -> Result<Document> {
        let mut filter = Document::new();
        for field in self.merge.on_fields() {
            let value = Path::parse(field).get(document).cloned();
            let value = match value {
                Some(Bson::Array(_)) => {
                    let message = "$merge write error: 'on' field cannot be an array";
                    return Err(Error::new(Code(51_185), message).into());
                }
                Some(Bson::Null | Bson::Undefined) | None if field == "_id" => {
                    let id = Bson::ObjectId(bson::oid::ObjectId::new());
                    document.insert("_id", id.clone());
                    id
                }
                Some(Bson::Null | Bson::Undefined) | None => {
                    let message =
                        "$merge write error: 'on' field cannot be missing, null or undefined";
                    return Err(Error::new(Code(51_132), message).into());
                }
                Some(value) => value,
            };
            filter.insert(field, bson::doc! { "$eq": value });
        }
        Ok(filter)
    }
}
