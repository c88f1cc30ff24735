//! Updates: operators, replacements and pipelines that change a document.

mod application;
mod arithmetic;
mod array;
mod array_filter;
mod difference;
mod fields;
mod modifier;
mod names;
mod operators;
mod push;
mod target;
mod touched;
mod tree;
mod upsert;

#[cfg(test)]
mod tests;
#[cfg(test)]
mod whole_tests;

use bson::{Bson, Document, Timestamp};

use crate::{
    collation::Collation,
    compare::{compare, identical_documents, type_name},
    error::{Code, Error, Result, failed_to_parse},
    expression::variables::Context,
    filter::Filter,
    pipeline::Pipeline,
};
use array_filter::ArrayFilters;
use operators::Operators;

pub use difference::{Difference, Manner};
pub use names::check_id;

/// The field that updates cannot change.
const ID: &str = "_id";

/// An update, parsed once and applied to each document that it concerns.
#[derive(Clone, Debug)]
pub struct Update {
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Operators(Operators),
    Replacement(Document),
    Pipeline(Pipeline),
}

/// What an update made of a document.
#[derive(Clone, Debug)]
pub struct Applied {
    /// The document as it is now.
    pub document: Document,
    /// Whether it is another than before.
    pub modified: bool,
    /// How the update went about it.
    pub manner: Manner,
}

impl Update {
    /// Reads an update as commands give it: a document whose first field is an operator, any other
    /// document as a replacement, or the stages of a pipeline.
    pub fn parse(update: &Bson, array_filters: &[Document], context: &Context) -> Result<Self> {
        let filters = ArrayFilters::parse(array_filters, context)?;
        let kind = match update {
            Bson::Document(document) if is_operators(document) => {
                Kind::Operators(Operators::parse(document, filters, context)?)
            }
            Bson::Document(document) => {
                refuse_filters(&filters, "replacement")?;
                Kind::Replacement(replacement(document, context))
            }
            Bson::Array(stages) => {
                refuse_filters(&filters, "pipeline")?;
                Kind::Pipeline(Pipeline::parse_update(stages, context)?)
            }
            other => {
                return Err(failed_to_parse(format!(
                    "Update argument must be either an object or an array, not {}",
                    type_name(other)
                )));
            }
        };
        Ok(Self { kind })
    }

    /// Whether it gives the whole new document, so that it cannot be meant for several.
    pub fn is_replacement(&self) -> bool {
        matches!(self.kind, Kind::Replacement(_))
    }

    /// Whether it is a pipeline, which alone may be given variables of its own.
    pub fn is_pipeline(&self) -> bool {
        matches!(self.kind, Kind::Pipeline(_))
    }

    /// Applies the update. `matched` is the position in an array at which the query matched, and
    /// `is_insert` says that the document is the one that an upsert begins with.
    pub fn apply(
        &self,
        document: Document,
        matched: Option<usize>,
        is_insert: bool,
    ) -> Result<Applied> {
        let id = document.get(ID).cloned();
        let mut applied = match &self.kind {
            Kind::Operators(operators) => {
                let mut document = document;
                let touched = operators.apply(&mut document, matched, is_insert)?;
                Applied {
                    document,
                    modified: !touched.is_empty(),
                    manner: touched.manner(),
                }
            }
            Kind::Replacement(replacement) => {
                names::check_replacement(replacement)?;
                replace(&document, replacement.clone(), Manner::Replacement)?
            }
            Kind::Pipeline(pipeline) => {
                let new = pipeline.update(document.clone(), &pipeline.context().variables)?;
                replace(&document, new, Manner::Computed)?
            }
        };
        if let Some(id) = id {
            check_id_stays(&id, applied.document.get(ID))?;
        }
        if is_insert && let Some(id) = applied.document.get(ID) {
            check_id(id)?;
        }
        put_id_first(&mut applied.document);
        Ok(applied)
    }

    /// The document that an upsert begins with: the values that the query compares for equality,
    /// and for a replacement the `_id` alone.
    pub fn upsert_seed(&self, filter: &Filter) -> Result<Document> {
        match self.kind {
            Kind::Replacement(_) => upsert::seed_id(filter),
            Kind::Operators(_) | Kind::Pipeline(_) => upsert::seed(filter),
        }
    }
}

/// Whether a document is made of operators: its first field decides.
fn is_operators(document: &Document) -> bool {
    document
        .keys()
        .next()
        .is_some_and(|name| name.starts_with('$'))
}

fn refuse_filters(filters: &ArrayFilters, style: &str) -> Result<()> {
    if filters.is_empty() {
        return Ok(());
    }
    Err(failed_to_parse(format!(
        "arrayFilters may not be specified for {style}-style updates"
    )))
}

/// A replacement in which empty timestamps have become the current one, as they do in inserts.
fn replacement(document: &Document, context: &Context) -> Document {
    let empty = Timestamp {
        time: 0,
        increment: 0,
    };
    document
        .iter()
        .map(|(name, value)| {
            let value = match value {
                Bson::Timestamp(given) if *given == empty && name != ID => {
                    Bson::Timestamp(fields::current_timestamp(context))
                }
                value => value.clone(),
            };
            (name.clone(), value)
        })
        .collect()
}

/// The new document in place of the old, whose `_id` it keeps if it has none itself.
fn replace(old: &Document, mut new: Document, manner: Manner) -> Result<Applied> {
    names::check_depth(&new)?;
    if let (Some(id), None) = (old.get(ID), new.get(ID)) {
        new.insert(ID, id.clone());
    }
    put_id_first(&mut new);
    Ok(Applied {
        modified: !identical_documents(old, &new),
        manner,
        document: new,
    })
}

fn check_id_stays(old: &Bson, new: Option<&Bson>) -> Result<()> {
    // Its type may change, but it must be the same key.
    match new {
        Some(new) if compare(old, new, &Collation::default()).is_eq() => Ok(()),
        Some(_) => Err(immutable(ID)),
        None => Err(Error::new(
            Code::IMMUTABLE_FIELD,
            "After applying the update, the '_id' (required and immutable) field was found to have \
             been removed",
        )),
    }
}

/// The error of changing the `_id` by the given path.
fn immutable(path: &str) -> Error {
    Error::new(
        Code::IMMUTABLE_FIELD,
        format!("Performing an update on the path '{path}' would modify the immutable field '_id'"),
    )
}

/// Documents are stored with the `_id` in front.
fn put_id_first(document: &mut Document) {
    let first = document.keys().next().is_some_and(|name| name == ID);
    if first || !document.contains_key(ID) {
        return;
    }
    let mut ordered = Document::new();
    if let Some(id) = document.remove(ID) {
        ordered.insert(ID, id);
    }
    ordered.extend(std::mem::take(document));
    *document = ordered;
}
