//! The options of a new collection, and which of them can be combined.

use bson::{Bson, Document, RawBsonRef, RawDocument, doc};
use tessera_mongo_language::collation::Collation;
use tessera_mongo_language::error::{
    Code, Error, Result, bad_value, failed_to_parse, type_mismatch,
};
use tessera_mongo_language::filter::{Filter, Place};

use crate::collection::Namespace;
use crate::commands::asked::{rounded, view_stages};
use crate::commands::repeats::query;
use crate::failure::Result as CommandResult;
use crate::fields::{
    ANY, ARRAY, BOOL, BOOL_OR_NUMBER, DOCUMENT, Field, Fields, NUMBER, STRING, optional, required,
};
use crate::index::IndexSpec;

/// What `create` may be given.
pub(crate) const FIELDS: &[Field] = &[
    optional("capped", BOOL_OR_NUMBER),
    optional("size", NUMBER),
    optional("max", NUMBER),
    optional("autoIndexId", BOOL_OR_NUMBER),
    optional("idIndex", DOCUMENT),
    optional("storageEngine", DOCUMENT),
    optional("indexOptionDefaults", DOCUMENT),
    optional("validator", DOCUMENT),
    optional("validationLevel", STRING),
    optional("validationAction", STRING),
    optional("viewOn", STRING),
    optional("pipeline", ARRAY),
    optional("collation", DOCUMENT),
    optional(IMAGES, DOCUMENT),
    optional("timeseries", DOCUMENT),
    optional("clusteredIndex", ANY),
    optional("expireAfterSeconds", NUMBER),
    optional("recordPreImages", BOOL_OR_NUMBER).refused(Code::INVALID_OPTIONS.0, NO_PRE_IMAGES),
    optional("encryptedFields", DOCUMENT),
    optional("flags", NUMBER),
    optional("temp", BOOL_OR_NUMBER),
    optional("recordIdsReplicated", BOOL_OR_NUMBER),
];

/// What MongoDB had before version 6.
pub(crate) const NO_PRE_IMAGES: &str =
    "recordPreImages is not supported: use changeStreamPreAndPostImages: {enabled: true}";

/// The option that documents are kept as they were before and after each change.
pub(crate) const IMAGES: &str = "changeStreamPreAndPostImages";

const IMAGES_FIELDS: &[Field] = &[required("enabled", BOOL)];

const CLUSTERED: &[Field] = &[
    required("key", DOCUMENT),
    required("unique", BOOL_OR_NUMBER),
    optional("name", STRING),
    optional("v", NUMBER),
];

/// The most bytes of a capped collection.
const MAX_CAPPED_BYTES: i64 = 1 << 50;
/// The most documents of a capped collection.
const MAX_CAPPED_DOCUMENTS: i64 = i32::MAX as i64;
/// Seconds after the epoch that a date can still say.
const MAX_EXPIRY_SECONDS: i64 = 9_223_372_036_854_775;

/// Checks the options of a new collection, and answers them as they are stored and shown.
pub(crate) fn read(namespace: &Namespace, fields: &Fields<'_>) -> CommandResult<Document> {
    let mut options = Document::new();
    check_level_and_action(fields)?;
    check_storage_engine(fields)?;
    check_clustered_conflicts(fields)?;
    if fields.get("timeseries").is_some() {
        let message = "time series collections are not supported yet";
        return Err(Error::new(Code::COMMAND_NOT_SUPPORTED, message).into());
    }
    if fields.get("encryptedFields").is_some() {
        let message = "'encryptedFields' is not supported: Queryable Encryption needs its state \
                       collections; encrypt on the client, without encryptedFields";
        return Err(Error::new(Code::COMMAND_NOT_SUPPORTED, message).into());
    }
    if namespace.collection().starts_with("system.buckets.") {
        let message = "collections of buckets belong to time series";
        return Err(Error::new(Code::ILLEGAL_OPERATION, message).into());
    }
    read_capped(fields, &mut options)?;
    read_clustered(fields, &mut options)?;
    if fields.get("expireAfterSeconds").is_some() {
        read_expiry(fields, &mut options)?;
    }
    let collation = read_collation(fields, &mut options)?;
    read_validator(namespace, fields, (&collation, &mut options))?;
    read_view(fields, &mut options)?;
    read_id_index(fields, &collation)?;
    for name in ["storageEngine", "indexOptionDefaults"] {
        if let Some(value) = fields.get(name) {
            options.insert(name, Bson::try_from(value)?);
        }
    }
    if let Some(given) = fields.document(IMAGES) {
        read_images(namespace, ("create", given), &mut options)?;
    }
    Ok(options)
}

fn read_capped(fields: &Fields<'_>, options: &mut Document) -> Result<()> {
    let capped = fields.bool("capped").unwrap_or(false);
    let given = |name: &str| fields.get(name).is_some();
    if !capped {
        if given("size") || given("max") {
            return Err(invalid(
                "the 'capped' field needs to be true when 'size' or 'max' is given",
            ));
        }
        return Ok(());
    }
    if !given("size") {
        return Err(invalid(
            "the 'size' field is required when 'capped' is true",
        ));
    }
    let size = fields.get("size").map_or(0, rounded);
    if !(1..=MAX_CAPPED_BYTES).contains(&size) {
        return Err(bad_value(format!(
            "BSON field 'size' value must be >= 1 and <= {MAX_CAPPED_BYTES}, actual value '{size}'"
        )));
    }
    if given("viewOn") {
        // Options of a collection are checked, and mean nothing to a view.
        return Ok(());
    }
    options.insert("capped", true);
    options.insert("size", narrow(size));
    if given("max") {
        let max = fields.get("max").map_or(0, rounded);
        if max > MAX_CAPPED_DOCUMENTS {
            return Err(bad_value(format!(
                "max in a capped collection has to be < 2^31, not {max}"
            )));
        }
        options.insert("max", narrow(max.max(0)));
    }
    Ok(())
}

fn check_clustered_conflicts(fields: &Fields<'_>) -> Result<()> {
    if fields.get("clusteredIndex").is_none() {
        return Ok(());
    }
    let located = |code, message| Err(Error::new(Code(code), message));
    if fields.bool("capped").unwrap_or(false) {
        return located(6_049_200, "'capped' cannot be given with 'clusteredIndex'");
    }
    if fields.get("max").is_some() {
        return located(6_049_204, "'max' cannot be given with 'clusteredIndex'");
    }
    if fields.get("viewOn").is_some() {
        return located(6_026_500, "a view cannot have a 'clusteredIndex'");
    }
    if fields.get("timeseries").is_some() || fields.get("idIndex").is_some() {
        return Err(invalid(
            "'clusteredIndex' cannot be given with these options",
        ));
    }
    Ok(())
}

fn read_clustered(fields: &Fields<'_>, options: &mut Document) -> CommandResult<()> {
    let clustered = match fields.get("clusteredIndex") {
        None => return Ok(()),
        Some(RawBsonRef::Document(clustered)) => clustered,
        Some(other) => {
            return match crate::fields::truth(other) {
                Some(true) => {
                    let message = "'clusteredIndex: true' is for buckets of time series alone";
                    Err(Error::new(Code(5_979_703), message).into())
                }
                Some(false) => Ok(()),
                None => {
                    let found = crate::fields::type_name(other.element_type());
                    let message =
                        format!("'clusteredIndex' is of type {found}, expected an object");
                    Err(type_mismatch(message).into())
                }
            };
        }
    };
    let given = Fields::of_document("create.clusteredIndex", clustered, CLUSTERED)?;
    let key = given.document("key").map(Document::try_from).transpose()?;
    if !key.as_ref().is_some_and(crate::index::is_id_key) {
        return Err(Error::new(
            Code::INVALID_INDEX_SPECIFICATION_OPTION,
            "the clusteredIndex key must be {_id: 1}",
        )
        .into());
    }
    if !given.bool("unique").unwrap_or(false) {
        let message = "the clusteredIndex option requires 'unique: true'";
        return Err(Error::new(Code(5_979_700), message).into());
    }
    let version = given.get("v").map_or(2, rounded);
    if version != 2 {
        let message = format!("the clusteredIndex has the invalid version {version}");
        return Err(Error::new(Code(5_979_704), message).into());
    }
    let name = given.str("name").unwrap_or("_id_");
    let stored = doc! { "v": 2, "key": { "_id": 1 }, "name": name, "unique": true };
    options.insert("clusteredIndex", stored);
    Ok(())
}

fn read_expiry(fields: &Fields<'_>, options: &mut Document) -> Result<()> {
    if !options.contains_key("clusteredIndex") {
        return Err(invalid(
            "'expireAfterSeconds' is for time series and clustered collections alone",
        ));
    }
    let seconds = fields.get("expireAfterSeconds").map_or(0, rounded);
    if !(0..=MAX_EXPIRY_SECONDS).contains(&seconds) || seconds > i64::from(i32::MAX) * 4 {
        return Err(invalid("'expireAfterSeconds' is out of range"));
    }
    options.insert("expireAfterSeconds", seconds);
    Ok(())
}

fn read_collation(fields: &Fields<'_>, options: &mut Document) -> CommandResult<Collation> {
    let Some(asked) = fields.document("collation") else {
        return Ok(Collation::default());
    };
    let collation = Collation::parse(&Document::try_from(asked)?)?;
    if !collation.is_simple() {
        options.insert("collation", collation.to_document());
    }
    Ok(collation)
}

fn read_validator(
    namespace: &Namespace,
    fields: &Fields<'_>,
    (collation, options): (&Collation, &mut Document),
) -> CommandResult<()> {
    if let Some(validator) = fields.document("validator") {
        let validator = query(validator)?;
        check_validator(namespace, &validator, collation)?;
        if !validator.is_empty() {
            options.insert("validator", validator);
        }
    }
    for name in ["validationLevel", "validationAction"] {
        if let Some(value) = fields.str(name) {
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
    Ok(())
}

/// Refuses what no validator may be.
pub(crate) fn check_validator(
    namespace: &Namespace,
    validator: &Document,
    collation: &Collation,
) -> Result<()> {
    let reserved = ["admin", "local", "config"].contains(&namespace.database())
        || namespace.collection().starts_with("system.");
    if reserved && !validator.is_empty() {
        return Err(invalid(&format!(
            "Document validators are not allowed on system collection {namespace}"
        )));
    }
    Filter::parse_in(
        validator,
        &crate::context::constant(collation),
        Place::Validator,
    )?;
    Ok(())
}

pub(crate) fn check_level_and_action(fields: &Fields<'_>) -> Result<()> {
    let rules = [
        ("validationLevel", &["off", "strict", "moderate"][..]),
        ("validationAction", &["error", "warn", "errorAndLog"][..]),
    ];
    for (name, allowed) in rules {
        if let Some(value) = fields.str(name)
            && !allowed.contains(&value)
        {
            return Err(bad_value(format!(
                "Enumeration value '{value}' for field '{name}' is not a valid value."
            )));
        }
    }
    Ok(())
}

fn read_view(fields: &Fields<'_>, options: &mut Document) -> CommandResult<()> {
    let pipeline = fields.array("pipeline");
    let Some(on) = fields.str("viewOn") else {
        if pipeline.is_some() {
            return Err(invalid("'pipeline' requires 'viewOn' to also be specified").into());
        }
        return Ok(());
    };
    if fields.get("idIndex").is_some() {
        return Err(invalid("a view cannot have an 'idIndex'").into());
    }
    if on.is_empty() {
        return Err(bad_value("'viewOn' cannot be empty").into());
    }
    let stages = view_stages(pipeline)?;
    options.insert("viewOn", on);
    options.insert("pipeline", stages);
    Ok(())
}

fn read_id_index(fields: &Fields<'_>, collation: &Collation) -> CommandResult<()> {
    let Some(asked) = fields.document("idIndex") else {
        return Ok(());
    };
    let asked = Document::try_from(asked)?;
    if let Some(Bson::Document(key)) = asked.get("key")
        && !crate::index::is_id_key(key)
    {
        let message = format!("The field 'key' for an _id index must be {{_id: 1}}, but got {key}");
        return Err(bad_value(message).into());
    }
    let spec = IndexSpec::parse(&asked, collation)?;
    if spec.collation != *collation {
        let message = "The 'collation' of an _id index must be that of its collection";
        return Err(bad_value(message).into());
    }
    Ok(())
}

/// Whether documents are kept as they were before and after each change: shown only if they are.
pub(crate) fn read_images(
    namespace: &Namespace,
    (command, given): (&str, &RawDocument),
    options: &mut Document,
) -> CommandResult<()> {
    let path = format!("{command}.{IMAGES}");
    let fields = Fields::of_document(&path, given, IMAGES_FIELDS)?;
    options.remove(IMAGES);
    if fields.bool("enabled") != Some(true) {
        return Ok(());
    }
    if ["admin", "config", "local"].contains(&namespace.database()) {
        let message = format!(
            "Change stream pre- and post-images are not supported for collections of the internal \
             database {}",
            namespace.database()
        );
        return Err(invalid(&message).into());
    }
    if options.contains_key("viewOn") {
        return Err(invalid(&format!("a view cannot have {IMAGES}")).into());
    }
    options.insert(IMAGES, doc! { "enabled": true });
    Ok(())
}

/// Options of MongoDB's own engine are taken and mean nothing here; others are unknown.
fn check_storage_engine(fields: &Fields<'_>) -> CommandResult<()> {
    let defaults = fields.document("indexOptionDefaults");
    let mut given = Vec::new();
    if let Some(defaults) = defaults {
        const DEFAULTS: &[Field] = &[optional("storageEngine", DOCUMENT)];
        let defaults = Fields::of_document("create.indexOptionDefaults", defaults, DEFAULTS)?;
        given.extend(defaults.document("storageEngine"));
    }
    given.extend(fields.document("storageEngine"));
    for engines in given {
        for element in engines.iter_elements() {
            let element = element?;
            if element.key().as_str() != "wiredTiger" {
                let message = format!("{} is not a registered storage engine", element.key());
                return Err(invalid(&message).into());
            }
            let RawBsonRef::Document(config) = element.value()? else {
                return Err(bad_value("the options of an engine are a document").into());
            };
            check_engine_config(config)?;
        }
    }
    Ok(())
}

fn check_engine_config(config: &RawDocument) -> CommandResult<()> {
    for option in config.iter_elements() {
        let option = option?;
        match (option.key().as_str(), option.value()?) {
            ("configString", RawBsonRef::String(text)) if text.contains('\0') => {
                return Err(failed_to_parse("the configString contains NUL").into());
            }
            ("configString", RawBsonRef::String(text)) => {
                const KNOWN: &[&str] = &[
                    "access_pattern_hint",
                    "allocation_size",
                    "app_metadata",
                    "block_allocator",
                    "block_compressor",
                    "cache_resident",
                    "checksum",
                    "internal_page_max",
                    "leaf_page_max",
                    "leaf_value_max",
                    "log",
                    "memory_page_max",
                    "prefix_compression",
                    "split_pct",
                    "type",
                ];
                let unknown = config_keys(text).find(|name| !KNOWN.contains(name));
                if let Some(name) = unknown {
                    return Err(bad_value(format!("unknown configuration key '{name}'")).into());
                }
            }
            ("configString", _) => {
                return Err(type_mismatch("configString must be a string").into());
            }
            (other, _) => {
                let message = format!("the engine has no option '{other}'");
                return Err(invalid(&message).into());
            }
        }
    }
    Ok(())
}

/// The names in `name=value,name=(…),…`, those within parentheses left out.
fn config_keys(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_i32;
    let parts = text.split(move |character| {
        depth += match character {
            '(' | '[' | '{' => 1,
            ')' | ']' | '}' => -1,
            _ => 0,
        };
        character == ',' && depth == 0
    });
    let names = parts.map(|part| part.split('=').next().unwrap_or_default().trim());
    names.filter(|name| !name.is_empty())
}

fn narrow(number: i64) -> Bson {
    i32::try_from(number).map_or(Bson::Int64(number), Bson::Int32)
}

fn invalid(message: &str) -> Error {
    Error::new(Code::INVALID_OPTIONS, message)
}
