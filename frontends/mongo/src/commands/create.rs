//! `create`, `drop`, `dropDatabase` and `renameCollection`.

use bson::{Document, RawBsonRef, doc};
use tessera_core::Error as CoreError;
use tessera_mongo_language::collation::Collation;
use tessera_mongo_language::compare;
use tessera_mongo_language::error::{Code, Error, type_mismatch};

use crate::API;
use crate::access::{Access, Action, Need};
use crate::auth::login::Identity;
use crate::collection::{Collection, Namespace, check_database, options};
use crate::command::Command;
use crate::commands::view;
use crate::data::Data;
use crate::failure::{Failure, Result};
use crate::fields::{ANY, BOOL, Field, Fields, STRING, optional, required};
use crate::reply::Reply;
use crate::request::Request;
use crate::service::Service;
use crate::session::Session;
use crate::write::target::{self, Target};

pub(crate) const COMMANDS: &[Command] = &[
    Command::new(
        "create",
        "Creates a collection or a view.",
        Access::Judge(may_create),
        |service, session, request| Box::pin(create(service, session, request)),
    )
    .in_transactions()
    .writes()
    .stable(),
    Command::new(
        "drop",
        "Drops a collection or a view.",
        Access::Collection(&[Action::DropCollection]),
        |service, session, request| Box::pin(drop_collection(service, session, request)),
    )
    .writes()
    .stable(),
    Command::new(
        "dropDatabase",
        "Drops a database with all its collections.",
        Access::Database(&[Action::DropDatabase]),
        |service, session, request| Box::pin(drop_database(service, session, request)),
    )
    .writes()
    .stable(),
    Command::new(
        "renameCollection",
        "Renames a collection.",
        Access::Judge(may_rename),
        |service, session, request| Box::pin(rename(service, session, request)),
    )
    .admin_only()
    .writes(),
];

/// Creating a collection is also for who may insert into it; a view, and a capped collection, need
/// their own right.
fn may_create(request: &Request<'_>, user: &Identity) -> Result<bool> {
    let (database, name) = (request.database, request.collection()?);
    let may = |action| user.may_all(&[action], database, name);
    let caps = request.is_on("capped");
    let views = request.is_on("viewOn");
    let creates = may(Action::CreateCollection) || (!views && may(Action::Insert));
    Ok(creates && (!caps || may(Action::ConvertToCapped)))
}

/// Within a database renaming is a right of its own, unless it would let somebody read what they
/// could not read before. Otherwise it is as copying and dropping.
fn may_rename(request: &Request<'_>, user: &Identity) -> Result<bool> {
    let argument = |value: RawBsonRef<'_>| Namespace::parse(value.as_str().unwrap_or_default());
    let from = argument(request.argument()).map_err(illegal)?;
    let fields = Fields::of(request, RENAME)?;
    let to = Namespace::parse(fields.str("to").unwrap_or_default()).map_err(illegal)?;
    let may = |actions: &[Action], namespace: &Namespace| {
        user.may_all(actions, namespace.database(), namespace.collection())
    };
    if request.is_on("dropTarget") && !may(&[Action::DropCollection], &to) {
        return Ok(false);
    }
    let rename = Need::on_database(Action::RenameCollectionSameDb, from.database());
    if from.database() == to.database() && user.may(&rename) {
        let find = &[Action::Find];
        if may(find, &from) || !may(find, &to) {
            return Ok(true);
        }
    }
    Ok(may(&[Action::Find, Action::DropCollection], &from)
        && may(&[Action::Insert, Action::CreateIndex], &to))
}

const DROP: &[Field] = &[optional("collectionUUID", ANY)];

const RENAME: &[Field] = &[
    required("to", STRING),
    optional("dropTarget", ANY),
    optional("stayTemp", BOOL),
    optional("collectionUUID", ANY),
];

async fn create(service: &Service, session: &Session, request: &Request<'_>) -> Result<Reply> {
    let namespace = Namespace::new(request.database, request.collection()?)?;
    let fields = Fields::of(request, options::FIELDS)?;
    namespace.check_creatable()?;
    let options = options::read(&namespace, &fields)?;
    let collection = Collection::new(options)?;
    if collection.view.is_some() {
        view::check_new(session, request, &namespace, &collection).await?;
    }
    let transactions = &service.data.transactions;
    let mut scope = transactions.scope(service, request).await?;
    match target::create(&service.data, &mut scope, &namespace, &collection).await {
        Err(failure) if failure.code() == Code::NAMESPACE_EXISTS && !scope.is_joined() => {
            same_as_existing(&service.data, &namespace, &collection).await?;
        }
        created => created?,
    }
    scope.succeed();
    Ok(Reply::ok())
}

/// Creating what is there already is no error.
async fn same_as_existing(data: &Data, namespace: &Namespace, new: &Collection) -> Result<()> {
    let mut transaction = data.store.begin().await?;
    let existing = Target::find(data, &mut transaction, namespace).await?;
    let is_same = existing.is_some_and(|existing| {
        let (old, new) = (
            defaulted(&existing.collection.options),
            defaulted(&new.options),
        );
        compare::equal(&old.into(), &new.into(), &Collation::default())
    });
    if is_same {
        return Ok(());
    }
    let message = format!("namespace {namespace} already exists, but with different options");
    Err(Failure::new(Code::NAMESPACE_EXISTS, message))
}

/// Options by name, so that their order does not matter.
fn defaulted(options: &Document) -> Document {
    let mut sorted: Vec<_> = options.clone().into_iter().collect();
    sorted.sort_by(|(a, _), (b, _)| a.cmp(b));
    sorted.into_iter().collect()
}

async fn drop_collection(
    service: &Service,
    _session: &mut Session,
    request: &Request<'_>,
) -> Result<Reply> {
    let namespace = Namespace::new(request.database, request.collection()?)?;
    let fields = Fields::of(request, DROP)?;
    let mut transaction = service.store.begin().await?;
    let target = Target::readable(&service.data, &mut transaction, &namespace).await?;
    check_uuid(&namespace, fields.get("collectionUUID"), target.as_ref())?;
    let Some(target) = target else {
        // Dropping what is not there is no error, and what cannot be read can still be dropped.
        return match service.store.drop_container(&namespace.container).await {
            Ok(()) => Ok(doc! { "ns": namespace.to_string() }.into()),
            Err(CoreError::NotFound(_)) => Ok(Reply::ok()),
            Err(error) => Err(error.into()),
        };
    };
    match service.store.drop_container(&namespace.container).await {
        Ok(()) | Err(CoreError::NotFound(_)) => {}
        Err(error) => return Err(error.into()),
    }
    let mut reply = doc! { "ns": namespace.to_string() };
    if target.collection.view.is_none() {
        let indexes = 1 + target
            .collection
            .live_indexes(&target.container.definition)
            .count();
        let mut with_indexes = doc! { "nIndexesWas": i32::try_from(indexes).unwrap_or(i32::MAX) };
        with_indexes.extend(reply);
        reply = with_indexes;
    }
    Ok(reply.into())
}

/// Refuses a command that names its collection by an identity which is another's.
pub(crate) fn check_uuid(
    namespace: &Namespace,
    given: Option<RawBsonRef<'_>>,
    target: Option<&Target>,
) -> Result<()> {
    let bytes = match given {
        None | Some(RawBsonRef::Null) => return Ok(()),
        Some(RawBsonRef::Binary(given)) if given.subtype == bson::spec::BinarySubtype::Uuid => {
            given.bytes
        }
        Some(other) => {
            let found = crate::fields::type_name(other.element_type());
            let message = format!("'collectionUUID' is of type {found}, expected a UUID");
            return Err(type_mismatch(message).into());
        }
    };
    if bytes.len() != 16 {
        let message = "uuid must be a 16-byte binary field with UUID (4) subtype";
        return Err(Error::new(Code::INVALID_UUID, message).into());
    }
    let actual = target.filter(|target| target.collection.view.is_none());
    if actual.is_some_and(|target| target.collection.uuid.bytes() == bytes) {
        return Ok(());
    }
    let failure = Failure::new(
        Code::COLLECTION_UUID_MISMATCH,
        "Collection UUID does not match that specified",
    );
    let uuid = bson::Binary {
        subtype: bson::spec::BinarySubtype::Uuid,
        bytes: bytes.to_vec(),
    };
    Err(failure
        .with("db", namespace.database())
        .with("collectionUUID", uuid)
        .with("expectedCollection", namespace.collection())
        .with("actualCollection", bson::Bson::Null))
}

async fn drop_database(
    service: &Service,
    _session: &mut Session,
    request: &Request<'_>,
) -> Result<Reply> {
    Fields::of(request, &[])?;
    let argument = request.argument();
    if argument == RawBsonRef::Null {
        let message = "BSON field 'dropDatabase.dropDatabase' is missing but a required field";
        return Err(Error::new(Code::IDL_FAILED_TO_PARSE, message).into());
    }
    if crate::fields::float(argument).is_none() {
        let found = crate::fields::type_name(argument.element_type());
        let message = format!("dropDatabase is of type {found}, expected a number");
        return Err(type_mismatch(message).into());
    }
    if crate::commands::asked::rounded(argument) != 1 {
        let message = "have to pass 1 as db parameter";
        return Err(Error::new(Code(5_255_100), message).into());
    }
    let database = request.database;
    if ["admin", "config", "local"].contains(&database) {
        let message = format!("Cannot drop '{database}' database");
        return Err(Failure::new(Code::ILLEGAL_OPERATION, message));
    }
    for name in service.store.list_containers(API, Some(database)).await? {
        match service.store.drop_container(&name).await {
            Ok(()) | Err(CoreError::NotFound(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let store = &service.store;
    store.note_database_dropped(API, database).await?;
    if store.database_throughput(API, database).await?.is_some() {
        store.provision_database(API, database, None).await?;
    }
    Ok(Reply::ok())
}

async fn rename(service: &Service, _session: &mut Session, request: &Request<'_>) -> Result<Reply> {
    let from = match request.argument() {
        RawBsonRef::String(from) => from,
        other => {
            let found = crate::fields::type_name(other.element_type());
            let message = format!(
                "BSON field 'renameCollection.renameCollection' is the wrong type '{found}', \
                 expected type 'string'"
            );
            return Err(type_mismatch(message).into());
        }
    };
    let fields = Fields::of(request, RENAME)?;
    let from = Namespace::parse(from).map_err(illegal)?;
    let to = Namespace::parse(fields.str("to").unwrap_or_default()).map_err(illegal)?;
    let drop_target = drop_target(fields.get("dropTarget"))?;
    check_rename(&from, &to)?;
    let mut transaction = service.store.begin().await?;
    let source = Target::find(&service.data, &mut transaction, &from).await?;
    check_uuid(&from, fields.get("collectionUUID"), source.as_ref())?;
    let Some(source) = source else {
        let message = format!("Source collection {from} does not exist");
        return Err(Failure::new(Code::NAMESPACE_NOT_FOUND, message));
    };
    if source.collection.view.is_some() {
        return Err(target::on_view(&from));
    }
    if from == to {
        let message = "Can't rename a collection to itself";
        return Err(Failure::new(Code::ILLEGAL_OPERATION, message));
    }
    if let Some(existing) = Target::find(&service.data, &mut transaction, &to).await? {
        if existing.collection.view.is_some() {
            let message = format!("a view already exists with that name: {to}");
            return Err(Failure::new(Code::NAMESPACE_EXISTS, message));
        }
        if !drop_target {
            return Err(Failure::new(
                Code::NAMESPACE_EXISTS,
                "target namespace exists",
            ));
        }
    }
    let store = &service.store;
    // Readers of the target find the old collection or the new one.
    let renamed = match drop_target {
        true => {
            store
                .replace_container(&from.container, &to.container)
                .await
        }
        false => store.rename_container(&from.container, &to.container).await,
    };
    match renamed {
        Ok(_) => Ok(Reply::ok()),
        Err(CoreError::AlreadyExists(_)) => Err(Failure::new(
            Code::NAMESPACE_EXISTS,
            "target namespace exists",
        )),
        Err(error) => Err(error.into()),
    }
}

/// Whether the target of a renaming may be dropped: a bool, or the UUID of what may be.
fn drop_target(asked: Option<RawBsonRef<'_>>) -> Result<bool> {
    match asked {
        None => Ok(false),
        Some(RawBsonRef::Boolean(flag)) => Ok(flag),
        Some(RawBsonRef::Binary(id)) if id.subtype == bson::spec::BinarySubtype::Uuid => Ok(true),
        Some(RawBsonRef::Binary(_)) => {
            let message = "dropTarget is binary, and no UUID";
            Err(Error::new(Code::INVALID_UUID, message).into())
        }
        Some(other) => {
            let found = crate::fields::type_name(other.element_type());
            let message = format!("dropTarget is of type {found}, expected a bool or a UUID");
            Err(type_mismatch(message).into())
        }
    }
}

/// Names that are too long or have a `$` are refused in their own way.
fn illegal(error: Error) -> Error {
    let message = &error.message;
    if message.contains("too long") || message.contains("Invalid collection name") {
        return Error::new(Code::ILLEGAL_OPERATION, error.message);
    }
    error
}

fn check_rename(from: &Namespace, to: &Namespace) -> Result<()> {
    check_database(from.database())?;
    for namespace in [from, to] {
        if namespace.collection().starts_with("system.") {
            let message = format!("{namespace} cannot be renamed, nor be the name of another");
            return Err(Failure::new(Code::ILLEGAL_OPERATION, message));
        }
    }
    Ok(())
}
