//! `createIndexes`, `dropIndexes`, `listIndexes` and `reIndex`.

use std::sync::Arc;

use bson::{Bson, Document, RawBsonRef, RawDocument, doc};
use tessera_mongo_language::error::{Code, Error, bad_value, failed_to_parse};

use crate::access::{Access, Action};
use crate::collection::{Collection, Namespace};
use crate::command::Command;
use crate::commands::create::check_uuid;
use crate::commands::{asked, repeats};
use crate::failure::{Failure, Result};
use crate::fields::{
    ANY, ARRAY, BOOL_OR_NUMBER, DOCUMENT, Field, Fields, NUMBER, optional, required,
};
use crate::index::build;
use crate::index::{IndexSpec, Likeness, same_key};
use crate::listing;
use crate::reply::Reply;
use crate::request::Request;
use crate::service::Service;
use crate::session::Session;
use crate::sharding::check_unique_index;
use crate::write::target::{self, Target, on_view};

pub(crate) const COMMANDS: &[Command] = &[
    Command::new(
        "createIndexes",
        "Creates indexes.",
        Access::Collection(&[Action::CreateIndex]),
        |service, session, request| Box::pin(create(service, session, request)),
    )
    .also(&["createIndex"])
    .in_transactions()
    .writes()
    .stable(),
    Command::new(
        "dropIndexes",
        "Drops indexes.",
        Access::Collection(&[Action::DropIndex]),
        |service, session, request| Box::pin(drop_indexes(service, session, request)),
    )
    .also(&["deleteIndexes"])
    .writes()
    .stable(),
    Command::new(
        "listIndexes",
        "Lists the indexes of a collection.",
        Access::Collection(&[Action::ListIndexes]),
        |service, session, request| Box::pin(list(service, session, request)),
    )
    .stable(),
    Command::new(
        "reIndex",
        "Rebuilds the indexes of a collection.",
        Access::Collection(&[Action::ReIndex]),
        |service, session, request| Box::pin(reindex(service, session, request)),
    ),
];

const CREATE: &[Field] = &[
    required("indexes", ARRAY),
    optional("ignoreUnknownIndexOptions", BOOL_OR_NUMBER),
    optional("commitQuorum", ANY),
    optional("blocking", BOOL_OR_NUMBER),
    optional("enableLargeIndexKeys", BOOL_OR_NUMBER),
    optional("isTimeseriesNamespace", BOOL_OR_NUMBER),
    optional("collectionUUID", ANY),
    optional("returnOnStart", BOOL_OR_NUMBER),
];

const DROP: &[Field] = &[
    required("index", ANY),
    optional("isTimeseriesNamespace", BOOL_OR_NUMBER),
    optional("collectionUUID", ANY),
];

const LIST: &[Field] = &[
    optional("cursor", DOCUMENT),
    optional("includeBuildUUIDs", BOOL_OR_NUMBER),
    optional("includeIndexBuildInfo", BOOL_OR_NUMBER),
    optional("isTimeseriesNamespace", BOOL_OR_NUMBER),
    optional("collectionUUID", ANY),
    optional("batchSize", NUMBER),
];

/// The most indexes of one collection.
const MAX_INDEXES: usize = 64;

async fn create(service: &Service, _session: &mut Session, request: &Request<'_>) -> Result<Reply> {
    let namespace = Namespace::new(request.database, request.collection()?)?;
    let fields = Fields::of(request, CREATE)?;
    let sent = request.documents("indexes")?.unwrap_or_default();
    if sent.is_empty() {
        return Err(bad_value("Must specify at least one index to create").into());
    }
    if namespace.collection().starts_with("system.") {
        namespace.check_creatable()?;
    }
    check_quorum(fields.get("commitQuorum"))?;
    let _changing = service.data.lock_schema(&namespace).await;
    let transactions = &service.data.transactions;
    let mut scope = transactions.scope(service, request).await?;
    let mut reader = scope.reader(&service.data).await?;
    let existing = Target::find(&service.data, &mut reader, &namespace).await?;
    drop(reader);
    check_uuid(&namespace, fields.get("collectionUUID"), existing.as_ref())?;
    if existing
        .as_ref()
        .is_some_and(|target| target.collection.view.is_some())
    {
        return Err(on_view(&namespace));
    }
    let collection = match &existing {
        Some(target) => known(target),
        None => Collection::new(Document::new())?,
    };
    let lenient = fields.bool("ignoreUnknownIndexOptions").unwrap_or(false);
    let mut asked = Vec::with_capacity(sent.len());
    for spec in sent {
        let spec = specification(spec)?;
        let spec = if lenient { known_options(spec) } else { spec };
        asked.push(IndexSpec::parse(&spec, &collection.collation)?);
    }
    if namespace.collection().starts_with("system.") && asked.iter().any(|spec| spec.hidden) {
        return Err(bad_value("Can't hide index on system collection").into());
    }
    let new = only_new(&collection, asked)?;
    for index in new.iter().filter(|index| index.unique) {
        if let Some(shard_key) = &collection.shard_key {
            check_unique_index(&index.key, &shard_key.key, Code::CANNOT_CREATE_INDEX)?;
        }
    }
    let before = counted(&collection);
    if before + new.len() > MAX_INDEXES {
        let message = format!("add index fails, too many indexes for {namespace}");
        return Err(Failure::new(Code::CANNOT_CREATE_INDEX, message));
    }
    let count = new.len();
    let created = existing.is_none();
    if existing.is_some() && !scope.is_joined() {
        build::build(&service.data, &namespace, new).await?;
    } else if existing.is_none() || count > 0 {
        let mut collection = collection;
        let added = new.iter().map(|index| (index.name.clone(), index.unique));
        let added: Vec<(String, bool)> = added.collect();
        collection.indexes.extend(new.into_iter().map(Arc::new));
        if existing.is_some() {
            scope.add_indexes(&namespace, &added, &collection).await?;
        } else {
            namespace.check_creatable()?;
            target::create(&service.data, &mut scope, &namespace, &collection).await?;
        }
    }
    scope.succeed();
    Ok(creation_reply(before, count, created).into())
}

/// How many indexes a collection has. What a clustered one is ordered by is no index of its own.
fn counted(collection: &Collection) -> usize {
    let own = usize::from(!collection.is_clustered());
    own + collection.indexes.len()
}

fn creation_reply(before: usize, added: usize, created: bool) -> Document {
    let number = |number: usize| i32::try_from(number).unwrap_or(i32::MAX);
    let mut reply = doc! {
        "numIndexesBefore": number(before),
        "numIndexesAfter": number(before + added),
        "createdCollectionAutomatically": created,
    };
    if added == 0 {
        reply.insert("note", "all indexes already exist");
    }
    reply
}

/// The collection with those of its indexes that are there.
fn known(target: &Target) -> Collection {
    let mut collection = (*target.collection).clone();
    let definition = &target.container.definition;
    collection
        .indexes
        .retain(|index| definition.index(&index.name).is_some());
    collection
}

fn known_options(spec: Document) -> Document {
    let known = |name: &String| crate::index::is_option(name);
    spec.into_iter().filter(|(name, _)| known(name)).collect()
}

/// What one index shall be, its filter read as one.
fn specification(sent: &RawDocument) -> Result<Document> {
    const FILTER: &str = "partialFilterExpression";
    let mut spec = asked::owned(sent)?;
    if let Ok(filter) = sent.get_document(FILTER) {
        spec.insert(FILTER, repeats::query(filter)?);
    }
    Ok(spec)
}

/// A quorum is a number of members or the name of one. An index is there for all readers once it is
/// built, so that every one of them is met.
fn check_quorum(quorum: Option<RawBsonRef<'_>>) -> Result<()> {
    /// The most members of a replica set.
    const MOST: i64 = 50;
    match quorum {
        None | Some(RawBsonRef::Null | RawBsonRef::String("majority" | "votingMembers")) => Ok(()),
        // Such names are given to tags of members, which there are none of.
        Some(RawBsonRef::String(mode)) => {
            let message = format!("No write concern mode named '{mode}' found in replica set");
            Err(Failure::new(Code::UNKNOWN_REPL_WRITE_CONCERN, message))
        }
        Some(number) => match crate::fields::whole(number) {
            Some(0..=MOST) => Ok(()),
            Some(_) => {
                let message = format!(
                    "commitQuorum has to be a non-negative value and not greater than {MOST}"
                );
                Err(failed_to_parse(message).into())
            }
            None => {
                let found = crate::fields::type_name(number.element_type());
                let message = format!("commitQuorum has to be a number or a string, not {found}");
                Err(failed_to_parse(message).into())
            }
        },
    }
}

/// Those of the wanted indexes that are not there yet.
fn only_new(collection: &Collection, wanted: Vec<IndexSpec>) -> Result<Vec<IndexSpec>> {
    let mut new: Vec<IndexSpec> = Vec::new();
    for spec in wanted {
        if crate::index::is_id_key(&spec.key) {
            check_id_index(collection, &spec)?;
            continue;
        }
        let existing = collection.all_indexes().map(|index| &**index);
        let conflict = existing
            .chain(&new)
            .find_map(|index| conflict(&spec, index));
        match conflict {
            None => new.push(spec),
            Some(Ok(())) => {}
            Some(Err(error)) => return Err(error.into()),
        }
    }
    Ok(new)
}

fn check_id_index(collection: &Collection, spec: &IndexSpec) -> Result<()> {
    if spec.collation != collection.collation {
        let message = "The _id index must have the same collation as the collection";
        return Err(bad_value(message).into());
    }
    Ok(())
}

/// Whether a wanted index is there already (`Ok`), or cannot be beside one that is.
fn conflict(wanted: &IndexSpec, existing: &IndexSpec) -> Option<std::result::Result<(), Error>> {
    let likeness = wanted.likeness(existing);
    let same_name = wanted.name == existing.name;
    match (same_name, likeness) {
        (true, Likeness::Identical) => Some(Ok(())),
        (true, Likeness::Equivalent) | (false, Likeness::Equivalent) => Some(Err(Error::new(
            Code::INDEX_OPTIONS_CONFLICT,
            format!(
                "An equivalent index already exists with a different name or options: {}",
                existing.name
            ),
        ))),
        (false, Likeness::Identical) => Some(Err(Error::new(
            Code::INDEX_OPTIONS_CONFLICT,
            format!(
                "Index already exists with a different name: {}",
                existing.name
            ),
        ))),
        (true, Likeness::Different) => Some(Err(Error::new(
            Code::INDEX_KEY_SPECS_CONFLICT,
            format!(
                "An existing index has the same name as the requested index. When index names are \
                 not specified, they are auto generated and can cause conflicts. Requested index: \
                 {}, existing index: {}",
                wanted.document, existing.document
            ),
        ))),
        (false, Likeness::Different) => None,
    }
}

async fn drop_indexes(
    service: &Service,
    _session: &mut Session,
    request: &Request<'_>,
) -> Result<Reply> {
    let namespace = Namespace::new(request.database, request.collection()?)?;
    let fields = Fields::of(request, DROP)?;
    let _changing = service.data.lock_schema(&namespace).await;
    let target = existing(service, &namespace, &fields).await?;
    let collection = known(&target);
    let wanted = fields.get("index").unwrap_or(RawBsonRef::Null);
    let (names, all) = dropped_names(&collection, wanted)?;
    let before = i32::try_from(counted(&collection)).unwrap_or(i32::MAX);
    build::drop(&service.data, &namespace, &names).await?;
    let mut reply = doc! { "nIndexesWas": before };
    if all {
        let message = "non-_id indexes dropped for collection";
        reply.insert("msg", message);
    }
    Ok(reply.into())
}

async fn existing(service: &Service, namespace: &Namespace, fields: &Fields<'_>) -> Result<Target> {
    let mut transaction = service.store.begin().await?;
    let target = Target::find(&service.data, &mut transaction, namespace).await?;
    check_uuid(namespace, fields.get("collectionUUID"), target.as_ref())?;
    let Some(target) = target else {
        let message = format!("ns does not exist: {namespace}");
        return Err(Failure::new(Code::NAMESPACE_NOT_FOUND, message));
    };
    if target.collection.view.is_some() {
        return Err(on_view(namespace));
    }
    Ok(target)
}

/// Which indexes to drop, and whether that is all of them.
fn dropped_names(collection: &Collection, wanted: RawBsonRef<'_>) -> Result<(Vec<String>, bool)> {
    match wanted {
        RawBsonRef::String("*") => {
            let names = collection.indexes.iter().map(|index| index.name.clone());
            Ok((names.collect(), true))
        }
        RawBsonRef::String(name) => Ok((vec![by_name(collection, name)?], false)),
        RawBsonRef::Document(key) => Ok((vec![by_key(collection, &asked::owned(key)?)?], false)),
        RawBsonRef::Array(names) => {
            let mut found = Vec::new();
            for name in names {
                let name = name?;
                let RawBsonRef::String(name) = name else {
                    return Err(wrong_index_type(name));
                };
                if name == "*" {
                    let all = collection.indexes.iter().map(|index| index.name.clone());
                    return Ok((all.collect(), true));
                }
                let name = by_name(collection, name)?;
                if found.contains(&name) {
                    let message = format!("index not found with name [{name}]");
                    return Err(Failure::new(Code::INDEX_NOT_FOUND, message));
                }
                found.push(name);
            }
            Ok((found, false))
        }
        other => Err(wrong_index_type(other)),
    }
}

fn wrong_index_type(found: RawBsonRef<'_>) -> Failure {
    let found = crate::fields::type_name(found.element_type());
    let message = format!(
        "BSON field 'dropIndexes.index' is the wrong type '{found}', expected types \
         '[string, array, object]'"
    );
    tessera_mongo_language::error::type_mismatch(message).into()
}

fn by_name(collection: &Collection, name: &str) -> Result<String> {
    if collection.id_index.name == name {
        return Err(cannot_drop_id(collection));
    }
    if collection.indexes.iter().any(|index| index.name == name) {
        return Ok(name.to_owned());
    }
    let message = format!("index not found with name [{name}]");
    Err(Failure::new(Code::INDEX_NOT_FOUND, message))
}

fn by_key(collection: &Collection, key: &Document) -> Result<String> {
    if crate::index::is_id_key(key) {
        return Err(cannot_drop_id(collection));
    }
    let mut matching = collection
        .indexes
        .iter()
        .filter(|index| same_key(&index.key, key));
    match (matching.next(), matching.next()) {
        (Some(only), None) => Ok(only.name.clone()),
        (Some(_), Some(_)) => {
            let message = format!("{} indexes found for key: {key}", 2);
            Err(Failure::new(Code::AMBIGUOUS_INDEX_KEY_PATTERN, message))
        }
        (None, _) => {
            let message = format!("can't find index with key: {key}");
            Err(Failure::new(Code::INDEX_NOT_FOUND, message))
        }
    }
}

fn cannot_drop_id(collection: &Collection) -> Failure {
    if collection.options.contains_key("clusteredIndex") {
        return Failure::new(Code(5_979_800), "cannot drop the clustered index");
    }
    Failure::new(Code::INVALID_OPTIONS, "cannot drop _id index")
}

async fn list(service: &Service, _session: &mut Session, request: &Request<'_>) -> Result<Reply> {
    let namespace = Namespace::new(request.database, request.collection()?)?;
    let fields = Fields::of(request, LIST)?;
    let size = listing::batch_size(fields.document("cursor"))?;
    let target = existing(service, &namespace, &fields).await?;
    let collection = known(&target);
    let flag = |name| fields.bool(name).unwrap_or(false);
    let with_builds = flag("includeIndexBuildInfo");
    if with_builds && flag("includeBuildUUIDs") {
        let message = "'includeIndexBuildInfo' cannot be given with 'includeBuildUUIDs'";
        return Err(Error::new(Code::INVALID_OPTIONS, message).into());
    }
    let documents = collection.all_indexes().map(|index| match with_builds {
        true => doc! { "spec": index.document.clone() },
        false => index.document.clone(),
    });
    let documents = documents.collect();
    let name = namespace.to_string();
    listing::reply(&service.data, request, (&name, documents), size)
}

async fn reindex(
    service: &Service,
    _session: &mut Session,
    request: &Request<'_>,
) -> Result<Reply> {
    let namespace = Namespace::new(request.database, request.collection()?)?;
    const NONE: &[Field] = &[optional("collectionUUID", ANY)];
    let fields = Fields::of(request, NONE)?;
    let _changing = service.data.lock_schema(&namespace).await;
    let target = existing(service, &namespace, &fields).await?;
    let collection = known(&target);
    let names: Vec<String> = collection
        .indexes
        .iter()
        .map(|index| index.name.clone())
        .collect();
    let specs: Vec<IndexSpec> = collection
        .indexes
        .iter()
        .map(|index| (**index).clone())
        .collect();
    build::drop(&service.data, &namespace, &names).await?;
    build::build(&service.data, &namespace, specs).await?;
    let count = i32::try_from(1 + names.len()).unwrap_or(i32::MAX);
    let shown = collection
        .all_indexes()
        .map(|index| Bson::Document(index.document.clone()));
    let reply = doc! {
        "nIndexesWas": count,
        "nIndexes": count,
        "indexes": shown.collect::<Vec<_>>(),
    };
    Ok(reply.into())
}
