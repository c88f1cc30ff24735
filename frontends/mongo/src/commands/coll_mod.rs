//! `collMod`: changes the options of a collection, a view or an index.

use std::sync::Arc;

use bson::{Bson, Document, RawBsonRef, RawDocument, doc};
use tessera_mongo_language::error::{Code, Error, bad_value};

use crate::access::{Access, Action};
use crate::collection::{Collection, Namespace, options};
use crate::command::Command;
use crate::commands::create::check_uuid;
use crate::commands::{asked, repeats, view};
use crate::failure::{Failure, Result};
use crate::fields::{
    ANY, ARRAY, BOOL_OR_NUMBER, DOCUMENT, Field, Fields, NUMBER, STRING, optional,
};
use crate::index::{IndexSpec, build, same_key};
use crate::reply::Reply;
use crate::request::Request;
use crate::service::Service;
use crate::session::Session;
use crate::write::prepared;
use crate::write::target::Target;

pub(crate) const COMMANDS: &[Command] = &[Command::new(
    "collMod",
    "Changes the options of a collection.",
    Access::Collection(&[Action::CollMod]),
    |service, session, request| Box::pin(run(service, session, request)),
)
.writes()
.stable()];

const FIELDS: &[Field] = &[
    optional("index", DOCUMENT),
    optional("validator", DOCUMENT),
    optional("validationLevel", STRING),
    optional("validationAction", STRING),
    optional("viewOn", STRING),
    optional("pipeline", ARRAY),
    optional(options::IMAGES, DOCUMENT),
    optional("expireAfterSeconds", ANY),
    optional("cappedSize", NUMBER),
    optional("cappedMax", NUMBER),
    optional("timeseries", DOCUMENT),
    optional("dryRun", BOOL_OR_NUMBER),
    optional("collectionUUID", ANY),
    optional("isTimeseriesNamespace", BOOL_OR_NUMBER),
    optional("recordPreImages", BOOL_OR_NUMBER)
        .refused(Code::INVALID_OPTIONS.0, options::NO_PRE_IMAGES),
];

const INDEX: &[Field] = &[
    optional("name", STRING),
    optional("keyPattern", DOCUMENT),
    optional("expireAfterSeconds", NUMBER),
    optional("hidden", BOOL_OR_NUMBER),
    optional("unique", BOOL_OR_NUMBER),
    optional("prepareUnique", BOOL_OR_NUMBER),
    optional("forceNonUnique", BOOL_OR_NUMBER).refused(
        Code::INVALID_OPTIONS.0,
        "forceNonUnique is not supported: drop the index and make one that is not unique",
    ),
];

async fn run(service: &Service, session: &Session, request: &Request<'_>) -> Result<Reply> {
    let namespace = Namespace::new(request.database, request.collection()?)?;
    let fields = Fields::of(request, FIELDS)?;
    let _changing = service.data.lock_schema(&namespace).await;
    let mut transaction = service.store.begin().await?;
    let target = Target::find(&service.data, &mut transaction, &namespace).await?;
    check_uuid(&namespace, fields.get("collectionUUID"), target.as_ref())?;
    let Some(target) = target else {
        let message = format!("ns does not exist: {namespace}");
        return Err(Failure::new(Code::NAMESPACE_NOT_FOUND, message));
    };
    let mut options = target.collection.options.clone();
    change_options(&namespace, &target.collection, &fields, &mut options)?;
    let mut collection = target.collection.with_options(options)?;
    if collection.view.is_some() {
        let given = |name: &str| fields.get(name).is_some();
        if service.config.requires_authentication && given("viewOn") != given("pipeline") {
            let message = "Must specify both 'viewOn' and 'pipeline' when modifying a view and \
                           auth is enabled";
            return Err(invalid(message));
        }
        view::check_new(session, request, &namespace, &collection).await?;
    }
    let dry_run = fields.bool("dryRun").unwrap_or(false);
    let (mut reply, mut unique) = (Document::new(), None);
    if let Some(index) = fields.document("index") {
        (reply, unique) = change_index(&mut collection, index)?;
    }
    if dry_run && unique.is_none() {
        let message = "dryRun mode is only supported when converting an index to unique";
        return Err(Error::new(Code::INVALID_OPTIONS, message).into());
    }
    if let Some(unique) = &unique {
        let violations = prepared::violations(&mut transaction, &target, unique).await?;
        if !violations.is_empty() {
            return Err(cannot_convert(violations));
        }
    }
    if dry_run {
        reply.remove("unique_new");
        return Ok(reply.into());
    }
    collection.modified += 1;
    let schema = collection.encode()?;
    service
        .store
        .alter_schema(&namespace.container, move |_| Ok(schema.clone()))
        .await?;
    if let Some(unique) = unique {
        make_unique(service, &namespace, unique).await?;
    }
    Ok(reply.into())
}

/// Builds an index again beside what there is, this time refusing equal values, and lets it take
/// the place of the old one, which refuses them until then. If there are some, all stays as it was.
async fn make_unique(service: &Service, namespace: &Namespace, unique: IndexSpec) -> Result<()> {
    let data = &service.data;
    let name = build::beside(&unique.name);
    // A server that stopped amid this may have left one.
    build::drop(data, namespace, std::slice::from_ref(&name)).await?;
    let mut document = unique.document.clone();
    document.insert("name", &name);
    let beside = IndexSpec::stored(&document)?;
    match build::build(data, namespace, vec![beside]).await {
        Ok(()) => build::replace(data, namespace, &name, unique).await,
        Err(failure) if failure.code() == Code::DUPLICATE_KEY => Err(cannot_convert(Vec::new())),
        Err(failure) => Err(failure),
    }
}

fn cannot_convert(violations: Vec<Bson>) -> Failure {
    let message = "Cannot convert the index to unique. Please resolve conflicting documents \
                   before running collMod again.";
    let failure = Failure::new(Code::CANNOT_CONVERT_INDEX_TO_UNIQUE, message);
    failure.with("violations", violations)
}

fn change_options(
    namespace: &Namespace,
    collection: &Collection,
    fields: &Fields<'_>,
    options: &mut Document,
) -> Result<()> {
    let is_view = collection.view.is_some();
    let given = |name: &str| fields.get(name).is_some();
    if given("timeseries") {
        return Err(invalid(
            "option only supported on a time-series collection: timeseries",
        ));
    }
    for name in [
        "validator",
        "validationLevel",
        "validationAction",
        "index",
        "cappedSize",
        "cappedMax",
    ] {
        if is_view && given(name) {
            return Err(invalid(&format!("option not supported on a view: {name}")));
        }
    }
    if is_view && given(options::IMAGES) {
        let message = format!("option not supported on a view: {}", options::IMAGES);
        return Err(invalid(&message));
    }
    if !is_view && (given("viewOn") || given("pipeline")) {
        return Err(invalid("'viewOn' and 'pipeline' are options of views"));
    }
    if let Some(validator) = fields.document("validator") {
        let validator = repeats::query(validator)?;
        options::check_validator(namespace, &validator, &collection.collation)?;
        options.insert("validator", validator);
    }
    options::check_level_and_action(fields)?;
    for name in ["validationLevel", "validationAction", "viewOn"] {
        if let Some(value) = fields.str(name) {
            if name == "viewOn" && value.is_empty() {
                return Err(bad_value("'viewOn' cannot be empty").into());
            }
            options.insert(name, value);
        }
    }
    if options.contains_key("validator") {
        options
            .entry("validationLevel")
            .or_insert_with(|| "strict".into());
        options
            .entry("validationAction")
            .or_insert_with(|| "error".into());
    }
    if let Some(stages) = fields.array("pipeline") {
        options.insert("pipeline", asked::view_stages(Some(stages))?);
    }
    if let Some(images) = fields.document(options::IMAGES) {
        options::read_images(namespace, ("collMod", images), options)?;
    }
    change_expiry(fields, options)?;
    change_capped(collection, fields, options)
}

fn change_expiry(fields: &Fields<'_>, options: &mut Document) -> Result<()> {
    let Some(expiry) = fields.get("expireAfterSeconds") else {
        return Ok(());
    };
    if !options.contains_key("clusteredIndex") {
        let message =
            "'expireAfterSeconds' option is only supported on collections clustered by _id";
        return Err(invalid(message));
    }
    match expiry {
        RawBsonRef::String("off") => {
            options.remove("expireAfterSeconds");
        }
        number => match crate::fields::whole(number) {
            Some(seconds) if seconds >= 0 => {
                options.insert("expireAfterSeconds", seconds);
            }
            Some(_) => return Err(invalid("'expireAfterSeconds' cannot be negative")),
            None => {
                let found = crate::fields::type_name(number.element_type());
                let message = format!("'expireAfterSeconds' is of type {found}");
                return Err(tessera_mongo_language::error::type_mismatch(message).into());
            }
        },
    }
    Ok(())
}

fn change_capped(
    collection: &Collection,
    fields: &Fields<'_>,
    options: &mut Document,
) -> Result<()> {
    const MAX_BYTES: i64 = 1 << 50;
    for (field, option) in [("cappedSize", "size"), ("cappedMax", "max")] {
        let Some(number) = fields.get(field).map(asked::rounded) else {
            continue;
        };
        if collection.capped.is_none() {
            return Err(invalid("Collection must be capped."));
        }
        if field == "cappedSize" && !(1..=MAX_BYTES).contains(&number) {
            let message =
                format!("BSON field 'cappedSize' value must be >= 1, actual value '{number}'");
            return Err(bad_value(message).into());
        }
        if number > MAX_BYTES || (field == "cappedMax" && number > i64::from(i32::MAX)) {
            return Err(bad_value(format!("'{field}' is too large: {number}")).into());
        }
        if field == "cappedMax" && number <= 0 {
            options.remove(option);
        } else {
            options.insert(
                option,
                i32::try_from(number).map_or(Bson::Int64(number), Bson::Int32),
            );
        }
    }
    Ok(())
}

/// Changes one index; answers what it was and what it is.
fn change_index(
    collection: &mut Collection,
    asked: &RawDocument,
) -> Result<(Document, Option<IndexSpec>)> {
    let fields = Fields::of_document("collMod.index", asked, INDEX)?;
    let position = find_index(collection, &fields)?;
    let changes = ["expireAfterSeconds", "hidden", "unique", "prepareUnique"];
    if !changes.iter().any(|name| fields.get(name).is_some()) {
        return Err(invalid(
            "no expireAfterSeconds, hidden, unique, or prepareUnique field",
        ));
    }
    let Some(position) = position else {
        return Err(id_index_stays(collection, &fields));
    };
    let mut reply = Document::new();
    let Some(place) = collection.indexes.get_mut(position) else {
        return Ok((reply, None));
    };
    let mut index = (**place).clone();
    if let Some(seconds) = fields.get("expireAfterSeconds").map(asked::rounded) {
        change_index_expiry(&mut index, seconds, &mut reply)?;
    }
    if let Some(hidden) = fields.bool("hidden")
        && hidden != index.hidden
    {
        reply.insert("hidden_old", index.hidden);
        reply.insert("hidden_new", hidden);
        index.set_option("hidden", hidden.then_some(Bson::Boolean(true)));
    }
    if let Some(prepare) = fields.bool("prepareUnique") {
        let was = index.document.get_bool("prepareUnique").unwrap_or(false);
        if was != prepare {
            reply.insert("prepareUnique_old", was);
            reply.insert("prepareUnique_new", prepare);
        }
        index.set_option("prepareUnique", prepare.then_some(Bson::Boolean(true)));
    }
    let converts = becomes_unique(&index, &fields)?;
    *place = Arc::new(IndexSpec::stored(&index.document)?);
    if converts {
        reply.insert("unique_new", true);
        index.set_option("prepareUnique", None);
        index.set_option("unique", Some(Bson::Boolean(true)));
        return Ok((reply, Some(IndexSpec::stored(&index.document)?)));
    }
    Ok((reply, None))
}

fn change_index_expiry(index: &mut IndexSpec, seconds: i64, reply: &mut Document) -> Result<()> {
    if index.fields.len() > 1 || index.wildcard.is_some() || index.is_hashed() {
        return Err(invalid(
            "TTL indexes are single-field indexes in the order of values",
        ));
    }
    let seconds = seconds.min(i64::from(i32::MAX));
    if seconds < 0 {
        return Err(invalid(
            "TTL index 'expireAfterSeconds' option must be within an acceptable range",
        ));
    }
    if let Some(old) = index.expire_after_seconds {
        reply.insert("expireAfterSeconds_old", old);
    }
    reply.insert("expireAfterSeconds_new", seconds);
    let value = i32::try_from(seconds).map_or(Bson::Int64(seconds), Bson::Int32);
    index.set_option("expireAfterSeconds", Some(value));
    Ok(())
}

/// Whether an index that allows equal values is to refuse them from now on.
fn becomes_unique(index: &IndexSpec, fields: &Fields<'_>) -> Result<bool> {
    match fields.bool("unique") {
        None => Ok(false),
        Some(false) => Err(bad_value("the 'unique' option of collMod can only be true").into()),
        Some(true) if index.unique => Ok(false),
        Some(true) if index.document.get_bool("prepareUnique").unwrap_or(false) => Ok(true),
        Some(true) => Err(invalid(
            "The index must be converted with prepareUnique first",
        )),
    }
}

/// Why the index on `_id` stays as it is.
fn id_index_stays(collection: &Collection, fields: &Fields<'_>) -> Failure {
    let clustered = collection.is_clustered();
    if clustered && fields.get("hidden").is_none() {
        return not_found(&doc! { "_id": 1 });
    }
    if fields.get("hidden").is_none() {
        return invalid("the _id index cannot be changed");
    }
    if clustered {
        return Error::new(Code(6_011_800), "the clustered index cannot be hidden").into();
    }
    bad_value("can't hide _id index").into()
}

/// The position of the index that is meant; none is the one on `_id`.
fn find_index(collection: &Collection, fields: &Fields<'_>) -> Result<Option<usize>> {
    let (name, key) = (fields.str("name"), fields.document("keyPattern"));
    match (name, key) {
        (None, None) => Err(invalid("must specify index name or key pattern")),
        (Some(_), Some(_)) => Err(invalid("Cannot specify both key pattern and name.")),
        (Some(name), None) if name == collection.id_index.name => Ok(None),
        (Some(name), None) => {
            let position = collection
                .indexes
                .iter()
                .position(|index| index.name == name);
            position
                .map(Some)
                .ok_or_else(|| not_found(&doc! { "name": name }))
        }
        (None, Some(key)) => {
            let key = asked::owned(key)?;
            if crate::index::is_id_key(&key) {
                return Ok(None);
            }
            let matching = collection.indexes.iter().enumerate();
            let mut matching = matching.filter(|(_, index)| same_key(&index.key, &key));
            match (matching.next(), matching.next()) {
                (Some((position, _)), None) => Ok(Some(position)),
                (Some(_), Some(_)) => {
                    let message = format!("index keyPattern {key} matches several indexes");
                    Err(Failure::new(Code::AMBIGUOUS_INDEX_KEY_PATTERN, message))
                }
                (None, _) => Err(not_found(&key)),
            }
        }
    }
}

fn not_found(wanted: &Document) -> Failure {
    Failure::new(
        Code::INDEX_NOT_FOUND,
        format!("cannot find index {wanted} for ns"),
    )
}

fn invalid(message: &str) -> Failure {
    Failure::new(Code::INVALID_OPTIONS, message)
}
