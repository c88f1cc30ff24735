//! What an index is: its fields and their order, and its options, read from what a client sends or
//! from what is stored.

use std::sync::Arc;

use bson::{Bson, Document, doc};
use tessera_mongo_language::collation::Collation;
use tessera_mongo_language::compare;
use tessera_mongo_language::error::Result;
use tessera_mongo_language::filter::Filter;
use tessera_mongo_language::path::Path;

use crate::index::accesses::Accesses;
use crate::index::check;
use crate::index::wildcard::Wildcard;

/// The name of the index that every collection has.
pub(crate) const ID_INDEX: &str = "_id_";

/// How one field of a key stands in the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Ascending,
    Descending,
    /// By the hash of its value.
    Hashed,
}

impl Order {
    pub(crate) fn is_descending(self) -> bool {
        self == Self::Descending
    }
}

/// One field of an index's key.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct KeyField {
    /// The dotted path; of a wildcard field, the path before `$**`, which may be empty.
    pub(crate) path: String,
    pub(crate) order: Order,
}

/// One index.
#[derive(Clone, Debug)]
pub(crate) struct IndexSpec {
    pub(crate) name: String,
    pub(crate) key: Document,
    pub(crate) fields: Vec<KeyField>,
    /// The paths of all fields but the wildcard.
    pub(crate) paths: Vec<Path>,
    /// The field that stands for all paths below its own, if there is one.
    pub(crate) wildcard: Option<Wildcard>,
    pub(crate) unique: bool,
    pub(crate) sparse: bool,
    pub(crate) hidden: bool,
    /// Whether it refuses new equal values, before it becomes unique.
    pub(crate) prepare_unique: bool,
    /// Which documents the index holds, if not all.
    pub(crate) partial: Option<Partial>,
    pub(crate) collation: Collation,
    /// Documents go this many seconds after the date in the field.
    pub(crate) expire_after_seconds: Option<i64>,
    /// What listIndexes shows.
    pub(crate) document: Document,
    pub(crate) accesses: Arc<Accesses>,
}

/// The filter of a partial index.
#[derive(Clone, Debug)]
pub(crate) struct Partial {
    pub(crate) filter: Filter,
}

/// How a new index relates to one that exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Likeness {
    /// The same in everything.
    Identical,
    /// The same entries, but other options.
    Equivalent,
    Different,
}

impl IndexSpec {
    /// The index that every collection has.
    pub(crate) fn id_index(collation: &Collation) -> Self {
        let mut document = doc! { "v": 2, "key": { "_id": 1 }, "name": ID_INDEX };
        if !collation.is_simple() {
            document.insert("collation", collation.to_document());
        }
        Self {
            name: ID_INDEX.to_owned(),
            key: doc! { "_id": 1 },
            fields: vec![KeyField {
                path: "_id".to_owned(),
                order: Order::Ascending,
            }],
            paths: vec![Path::parse("_id")],
            wildcard: None,
            unique: true,
            sparse: false,
            hidden: false,
            prepare_unique: false,
            partial: None,
            collation: collation.clone(),
            expire_after_seconds: None,
            document,
            accesses: Arc::new(Accesses::new(None)),
        }
    }

    /// Reads what a client asks for. `default` is the collation of the collection.
    pub(crate) fn parse(asked: &Document, default: &Collation) -> Result<Self> {
        let spec = check::read(asked, default)?;
        check::check(&spec, asked)?;
        Ok(spec)
    }

    /// Reads what was stored: it was checked when it was made.
    pub(crate) fn stored(document: &Document) -> Result<Self> {
        check::read(document, &Collation::default())
    }

    pub(crate) fn is_id_index(&self) -> bool {
        self.name == ID_INDEX
    }

    pub(crate) fn is_hashed(&self) -> bool {
        self.fields.iter().any(|field| field.order == Order::Hashed)
    }

    /// Changes an option of what is stored; the index itself is read again from that.
    pub(crate) fn set_option(&mut self, name: &str, value: Option<Bson>) {
        match value {
            Some(value) => {
                self.document.insert(name, value);
            }
            None => {
                self.document.remove(name);
            }
        }
    }

    /// How this index, asked for now, relates to one that exists.
    pub(crate) fn likeness(&self, existing: &Self) -> Likeness {
        const IDENTIFYING: [&str; 2] = ["partialFilterExpression", "wildcardProjection"];
        let same = |name: &str| same_option(&self.document, &existing.document, name);
        if !same_key(&self.key, &existing.key)
            || self.collation != existing.collation
            || (self.unique, self.sparse) != (existing.unique, existing.sparse)
            || !IDENTIFYING.iter().all(|name| same(name))
        {
            return Likeness::Different;
        }
        if same("expireAfterSeconds") && self.hidden == existing.hidden {
            Likeness::Identical
        } else {
            Likeness::Equivalent
        }
    }

    /// The name that drivers give an index without one.
    pub(crate) fn default_name(key: &Document) -> String {
        let parts = key.iter().map(|(path, order)| match order {
            Bson::String(kind) => format!("{path}_{kind}"),
            Bson::Double(number) => format!("{path}_{number}"),
            other => format!("{path}_{other}"),
        });
        parts.collect::<Vec<_>>().join("_")
    }
}

/// Whether two key patterns are the same index: the fields in their order, each with its direction.
pub(crate) fn same_key(a: &Document, b: &Document) -> bool {
    a.len() == b.len()
        && a.iter().zip(b).all(|((left, x), (right, y))| {
            left == right && compare::equal(x, y, &Collation::default())
        })
}

fn same_option(a: &Document, b: &Document, name: &str) -> bool {
    match (a.get(name), b.get(name)) {
        (None, None) => true,
        (Some(a), Some(b)) => compare::equal(a, b, &Collation::default()),
        _ => false,
    }
}
