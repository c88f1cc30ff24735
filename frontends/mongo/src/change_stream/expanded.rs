//! Events that only streams with `showExpandedEvents` or `showSystemEvents` tell: what happened to
//! the definition of a collection, made out from what it was before and what it is.

use bson::{Bson, Document, doc};
use tessera_core::feed::reader::FeedItem;
use tessera_core::feed::segments::Term;

use crate::collection::Collection;
use crate::failure::Result;
use crate::index::IndexSpec;
use crate::index::build::is_beside;

/// One thing that happened to a definition.
#[derive(Debug, PartialEq)]
pub(crate) struct Told {
    pub(crate) operation: &'static str,
    pub(crate) description: Document,
    /// How what was modified was before.
    pub(crate) state_before: Option<Document>,
    /// Whether it is for those alone who want to know what the server does by itself.
    pub(crate) is_of_system: bool,
}

impl Told {
    fn new(operation: &'static str, description: Document) -> Self {
        Self {
            operation,
            description,
            state_before: None,
            is_of_system: false,
        }
    }

    fn of_system(self) -> Self {
        Self {
            is_of_system: true,
            ..self
        }
    }
}

/// A definition at one moment.
struct Defined {
    collection: Collection,
    building: Vec<String>,
}

impl Defined {
    fn read(term: &Term) -> Result<Self> {
        Ok(Self {
            collection: Collection::decode(&term.schema)?,
            building: term.building.clone(),
        })
    }

    fn indexes(&self) -> impl Iterator<Item = &IndexSpec> {
        let indexes = self.collection.indexes.iter().map(AsRef::as_ref);
        indexes.filter(|index| !is_beside(&index.name))
    }

    fn is_building(&self, index: &IndexSpec) -> bool {
        self.building.contains(&index.name)
    }

    /// Those that this one has and the other has not.
    fn beyond<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = &'a IndexSpec> {
        self.indexes()
            .filter(|index| other.collection.index(&index.name).is_none())
    }

    fn shard_key(&self) -> Option<&Document> {
        self.collection.shard_key.as_ref().map(|key| &key.key)
    }
}

/// The new collection or view, with what it was created with.
pub(crate) fn created(item: &FeedItem) -> Result<Vec<Told>> {
    let after = Defined::read(&item.term)?;
    let collection = &after.collection;
    let mut description = collection.options.clone();
    let is_plain = collection.view.is_none() && !collection.is_clustered();
    if is_plain {
        description.insert("idIndex", collection.id_index.document.clone());
    }
    let mut told = vec![Told::new("create", description)];
    told.extend(sharded(None, after.shard_key()));
    told.extend(indexes("createIndexes", after.indexes()));
    Ok(told)
}

/// What became of a definition.
pub(crate) fn altered(item: &FeedItem) -> Result<Vec<Told>> {
    let Some(before) = &item.before else {
        return Ok(Vec::new());
    };
    let (before, after) = (Defined::read(before)?, Defined::read(&item.term)?);
    let mut told = Vec::new();
    if before.collection.modified != after.collection.modified {
        told.push(modified(&before, &after));
    }
    told.extend(sharded(before.shard_key(), after.shard_key()));
    told.extend(indexes_changed(&before, &after));
    Ok(told)
}

fn indexes_changed(before: &Defined, after: &Defined) -> impl Iterator<Item = Told> {
    let dropped: Vec<&IndexSpec> = before.beyond(after).collect();
    let (aborted, dropped): (Vec<_>, Vec<_>) = dropped
        .into_iter()
        .partition(|index| before.is_building(index));
    let begun = after
        .beyond(before)
        .filter(|index| after.is_building(index));
    let ready = after.indexes().filter(|index| {
        let was_there = before.collection.index(&index.name).is_some();
        !after.is_building(index) && (!was_there || before.is_building(index))
    });
    let told = [
        indexes("dropIndexes", dropped.into_iter()),
        indexes("abortIndexBuild", aborted.into_iter()).map(Told::of_system),
        indexes("startIndexBuild", begun).map(Told::of_system),
        indexes("createIndexes", ready),
    ];
    told.into_iter().flatten()
}

fn indexes<'a>(
    operation: &'static str,
    indexes: impl Iterator<Item = &'a IndexSpec>,
) -> Option<Told> {
    let indexes = indexes.map(|index| Bson::Document(index.document.clone()));
    let indexes: Vec<Bson> = indexes.collect();
    (!indexes.is_empty()).then(|| Told::new(operation, doc! { "indexes": indexes }))
}

/// What `collMod` did, and how what it changed was before.
fn modified(before: &Defined, after: &Defined) -> Told {
    let (old, new) = (&before.collection, &after.collection);
    let mut description = Document::new();
    for (name, value) in &new.options {
        if old.options.get(name) != Some(value) {
            description.insert(name.clone(), value.clone());
        }
    }
    let mut options = doc! { "uuid": old.uuid_bson() };
    options.extend(old.options.clone());
    let mut state = doc! { "collectionOptions": options };
    let changed = new.indexes.iter().find_map(|index| {
        let was = old.index(&index.name)?;
        (was.document != index.document).then_some((was, index))
    });
    if let Some((was, index)) = changed {
        let (changes, before) = (difference(was, index), difference(index, was));
        let mut named = doc! { "name": index.name.clone() };
        named.extend(changes);
        description.insert("index", named);
        state.insert("indexOptions", before);
    }
    Told {
        state_before: Some(state),
        ..Told::new("modify", description)
    }
}

/// The options of an index that it has otherwise than it had them.
fn difference(was: &IndexSpec, is: &IndexSpec) -> Document {
    let mut changes = Document::new();
    for (name, value) in &is.document {
        if was.document.get(name) != Some(value) {
            changes.insert(name.clone(), value.clone());
        }
    }
    let flags = was.document.iter().filter(|(name, value)| {
        matches!(value, Bson::Boolean(true)) && !is.document.contains_key(name)
    });
    for (name, _) in flags {
        changes.insert(name.clone(), false);
    }
    changes
}

fn sharded(before: Option<&Document>, after: Option<&Document>) -> Option<Told> {
    let extends = |old: &Document, new: &Document| {
        new.len() > old.len() && old.iter().zip(new).all(|(old, new)| old == new)
    };
    match (before, after) {
        (None, Some(new)) => Some(Told::new(
            "shardCollection",
            doc! { "shardKey": new.clone(), "unique": false },
        )),
        (Some(old), Some(new)) if extends(old, new) => Some(Told::new(
            "refineCollectionShardKey",
            doc! { "shardKey": new.clone(), "oldShardKey": old.clone() },
        )),
        (Some(old), new) if Some(old) != new => {
            // What is not sharded any more lies by its `_id`.
            let new = new.cloned().unwrap_or_else(|| doc! { "_id": 1 });
            Some(Told::new(
                "reshardCollection",
                doc! { "shardKey": new, "oldShardKey": old.clone(), "unique": false },
            ))
        }
        _ => None,
    }
}
