//! Parsing and checking index specifications: the type of each option, and which can be combined.

use std::sync::Arc;

use bson::{Bson, Document};
use tessera_mongo_language::collation::Collation;
use tessera_mongo_language::compare::type_name;
use tessera_mongo_language::error::{
    Code, Error, Result, bad_value, failed_to_parse, type_mismatch,
};
use tessera_mongo_language::path::Path;

use crate::index::accesses::Accesses;
use crate::index::partial;
use crate::index::spec::{ID_INDEX, IndexSpec, KeyField, Order, Partial};
use crate::index::wildcard::{self, Wildcard};

/// The most fields in one key.
const MAX_FIELDS: usize = 32;
/// The largest number of seconds after which documents go.
const MAX_EXPIRE_SECONDS: i64 = i32::MAX as i64;
/// Options that an index may have, besides `v`, `key` and `name`, which all have.
const OPTIONS: &[&str] = &[
    "v",
    "key",
    "name",
    "ns",
    "unique",
    "sparse",
    "hidden",
    "background",
    "expireAfterSeconds",
    "partialFilterExpression",
    "collation",
    "wildcardProjection",
    "storageEngine",
    "dropDups",
    "prepareUnique",
    "clustered",
    "weights",
    "default_language",
    "language_override",
    "textIndexVersion",
    "2dsphereIndexVersion",
    "bits",
    "min",
    "max",
    "bucketSize",
    "coarsestIndexedLevel",
    "finestIndexedLevel",
    "enableLargeIndexKeys",
];
/// What an index on `_id` may have.
const ID_OPTIONS: &[&str] = &["v", "key", "name", "ns", "collation", "unique", "clustered"];
/// Kinds of index that are known and not there yet.
const NOT_YET: &[&str] = &["text", "2d", "2dsphere", "2dsphere_bucket", "geoHaystack"];

/// Reads a specification; types are checked, what goes together is not.
pub(super) fn read(asked: &Document, default: &Collation) -> Result<IndexSpec> {
    for name in asked.keys() {
        if !OPTIONS.contains(&name.as_str()) {
            return Err(Error::new(
                Code::INVALID_INDEX_SPECIFICATION_OPTION,
                format!("The field '{name}' is not valid for an index specification"),
            ));
        }
    }
    let key = match asked.get("key") {
        None => return Err(missing("key")),
        Some(Bson::Document(key)) => key.clone(),
        Some(other) => return Err(wrong_type("key", "object", other)),
    };
    let name = match asked.get("name") {
        None => return Err(missing("name")),
        Some(Bson::String(name)) => name.clone(),
        Some(other) => return Err(wrong_type("name", "string", other)),
    };
    let (fields, wildcard) = read_key(&key, asked)?;
    let collation = read_collation(asked, default)?;
    let partial = match asked.get("partialFilterExpression") {
        None => None,
        Some(Bson::Document(document)) => Some(Partial {
            filter: partial::parse(document, &collation)?,
        }),
        Some(other) => return Err(wrong_type("partialFilterExpression", "object", other)),
    };
    let plain = fields.iter().enumerate().filter(|(position, _)| {
        wildcard
            .as_ref()
            .is_none_or(|wildcard: &Wildcard| wildcard.position != *position)
    });
    let mut spec = IndexSpec {
        name,
        key,
        paths: plain.map(|(_, field)| Path::parse(&field.path)).collect(),
        fields,
        wildcard,
        unique: read_flag(asked, "unique")?,
        sparse: read_flag(asked, "sparse")?,
        hidden: match asked.get("hidden") {
            None => false,
            Some(Bson::Boolean(hidden)) => *hidden,
            Some(other) => return Err(wrong_type("hidden", "bool", other)),
        },
        prepare_unique: read_flag(asked, "prepareUnique")?,
        partial,
        collation,
        expire_after_seconds: read_expiry(asked)?,
        document: Document::new(),
        accesses: Arc::new(Accesses::new(None)),
    };
    spec.document = shown(&spec, asked);
    Ok(spec)
}

/// Checks what the options of a new index say together.
pub(super) fn check(spec: &IndexSpec, asked: &Document) -> Result<()> {
    if spec.name.is_empty() {
        return Err(cannot_create("index name cannot be empty"));
    }
    if spec.name.contains('\0') {
        return Err(cannot_create("index names cannot contain NUL"));
    }
    check_version(asked)?;
    if is_id_key(&spec.key) {
        return check_id(spec, asked);
    }
    if spec.name == ID_INDEX {
        return Err(bad_value(
            "The index name '_id_' is reserved for the _id index",
        ));
    }
    if let Some(order) = spec.key.get("_id").filter(|_| spec.key.len() == 1)
        && spec.fields.iter().all(|field| field.order != Order::Hashed)
    {
        let message =
            format!("The field 'key' for an _id index must be {{_id: 1}}, but got {order}");
        return Err(bad_value(message));
    }
    check_special(spec, asked)?;
    if spec.sparse && spec.partial.is_some() {
        let message = "cannot mix \"partialFilterExpression\" and \"sparse\" options";
        return Err(cannot_create(message));
    }
    if spec.expire_after_seconds.is_some() && spec.fields.len() > 1 {
        let message = "TTL indexes are single-field indexes, compound indexes do not support TTL";
        return Err(cannot_create(message));
    }
    Ok(())
}

/// Whether an index specification may have a field of this name.
pub(crate) fn is_option(name: &str) -> bool {
    OPTIONS.contains(&name)
}

/// Whether this is the key of the index that every collection has.
pub(crate) fn is_id_key(key: &Document) -> bool {
    key.len() == 1 && key.get("_id").and_then(number) == Some(1.0)
}

fn check_id(spec: &IndexSpec, asked: &Document) -> Result<()> {
    for (name, value) in asked {
        let harmless = matches!(value, Bson::Boolean(false)) || name == "background";
        if !ID_OPTIONS.contains(&name.as_str()) && !harmless {
            return Err(Error::new(
                Code::INVALID_INDEX_SPECIFICATION_OPTION,
                format!(
                    "The field '{name}' is not valid for an _id index specification. \
                     Specification: {}",
                    spec.key
                ),
            ));
        }
    }
    Ok(())
}

fn check_version(asked: &Document) -> Result<()> {
    let Some(version) = asked.get("v") else {
        return Ok(());
    };
    match number(version) {
        Some(1.0 | 2.0) => Ok(()),
        Some(_) => Err(cannot_create(format!("Invalid index version: {version}"))),
        None => Err(wrong_type("v", "number", version)),
    }
}

fn check_special(spec: &IndexSpec, asked: &Document) -> Result<()> {
    let hashed = spec
        .fields
        .iter()
        .filter(|field| field.order == Order::Hashed);
    let hashed = hashed.count();
    if hashed > 1 {
        let message = "A maximum of one index field is allowed to be hashed";
        return Err(Error::new(Code(31_303), message));
    }
    if hashed == 1 && spec.unique {
        let message = "Currently hashed indexes cannot guarantee uniqueness. Use a regular index.";
        return Err(Error::new(Code(16_764), message));
    }
    // What is hashed is in no order of time.
    if hashed == 1 && spec.expire_after_seconds.is_some() {
        return Err(cannot_create("hashed indexes do not support TTL"));
    }
    if asked.contains_key("weights") {
        return Err(cannot_create("weights are for text indexes only"));
    }
    if let Some(wildcard) = &spec.wildcard {
        return wildcard::check(spec, wildcard, asked);
    }
    if asked.contains_key("wildcardProjection") {
        let message = "The field 'wildcardProjection' is only allowed in an 'wildcard' index";
        return Err(bad_value(message));
    }
    Ok(())
}

fn read_key(key: &Document, asked: &Document) -> Result<(Vec<KeyField>, Option<Wildcard>)> {
    if key.is_empty() {
        return Err(cannot_create("Index keys cannot be an empty object"));
    }
    if key.len() > MAX_FIELDS {
        return Err(Error::new(Code(13_103), "too many compound keys"));
    }
    let mut fields = Vec::with_capacity(key.len());
    let mut wildcard = None;
    for (position, (path, order)) in key.iter().enumerate() {
        let order = read_order(path, order)?;
        let before = wildcard::prefix(path);
        check_path(path, before)?;
        if let Some(prefix) = before {
            if wildcard.is_some() {
                let message = "wildcard indexes do not allow more than one wildcard field";
                return Err(Error::new(Code(7_246_201), message));
            }
            wildcard = Some(Wildcard::read(position, prefix, asked)?);
        }
        fields.push(KeyField {
            path: before.unwrap_or(path).to_owned(),
            order,
        });
    }
    Ok((fields, wildcard))
}

fn read_order(path: &str, order: &Bson) -> Result<Order> {
    match order {
        Bson::String(kind) if kind == "hashed" => Ok(Order::Hashed),
        Bson::String(kind) if NOT_YET.contains(&kind.as_str()) => Err(cannot_create(format!(
            "indexes of type '{kind}' are not supported yet"
        ))),
        Bson::String(kind) if kind == "wildcard" => {
            let message = "'wildcard' is not the type of a field; use a field named '$**'";
            Err(Error::new(Code(7_246_202), message))
        }
        Bson::String(kind) => Err(cannot_create(format!("Unknown index plugin '{kind}'"))),
        other => match number(other) {
            Some(number) if number > 0.0 => Ok(Order::Ascending),
            Some(number) if number < 0.0 => Ok(Order::Descending),
            Some(_) => Err(cannot_create(format!(
                "Values in the index key pattern cannot be 0 or NaN, as of '{path}'"
            ))),
            None => Err(cannot_create(format!(
                "Values in v:2 index key pattern cannot be of type {}. Only numbers > 0, numbers \
                 < 0, and strings are allowed.",
                type_name(other)
            ))),
        },
    }
}

fn check_path(path: &str, wildcard_prefix: Option<&str>) -> Result<()> {
    if path.is_empty() {
        return Err(cannot_create("Index keys cannot be an empty field"));
    }
    let path = match wildcard_prefix {
        Some("") => return Ok(()),
        Some(prefix) => prefix,
        None => path,
    };
    for (position, part) in path.split('.').enumerate() {
        if part.is_empty() {
            return Err(cannot_create("Index keys cannot contain an empty field"));
        }
        let reference = position > 0 && matches!(part, "$id" | "$ref" | "$db");
        if part.starts_with('$') && !reference {
            return Err(cannot_create(format!(
                "Index key contains an illegal field name: field name starts with '$': '{path}'"
            )));
        }
    }
    Ok(())
}

fn read_collation(asked: &Document, default: &Collation) -> Result<Collation> {
    match asked.get("collation") {
        None => Ok(default.clone()),
        Some(Bson::Document(document)) if document.is_empty() => {
            Err(bad_value("The field 'collation' cannot be an empty object"))
        }
        Some(Bson::Document(document)) => Collation::parse(document),
        Some(other) => Err(wrong_type("collation", "object", other)),
    }
}

fn read_flag(asked: &Document, name: &'static str) -> Result<bool> {
    match asked.get(name) {
        None => Ok(false),
        Some(Bson::Boolean(flag)) => Ok(*flag),
        Some(other) => match number(other) {
            Some(number) => Ok(number != 0.0),
            None => Err(wrong_type(name, "bool", other)),
        },
    }
}

fn read_expiry(asked: &Document) -> Result<Option<i64>> {
    let Some(value) = asked.get("expireAfterSeconds") else {
        return Ok(None);
    };
    let seconds = number(value).ok_or_else(|| {
        cannot_create(format!(
            "TTL index 'expireAfterSeconds' option must be numeric, but received a type of '{}'",
            type_name(value)
        ))
    })?;
    // NaN is taken for the largest, as the service does when it repairs such indexes.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "saturates, and is checked below"
    )]
    let whole = if seconds.is_nan() {
        MAX_EXPIRE_SECONDS
    } else {
        seconds as i64
    };
    if !(0..=MAX_EXPIRE_SECONDS).contains(&whole) {
        return Err(cannot_create(format!(
            "TTL index 'expireAfterSeconds' option must be within an acceptable range, \
             0 to {MAX_EXPIRE_SECONDS}, and is {value}"
        )));
    }
    Ok(Some(whole))
}

/// The form that listIndexes shows and that is stored.
fn shown(spec: &IndexSpec, asked: &Document) -> Document {
    let mut shown = Document::new();
    let version = asked.get("v").and_then(number);
    shown.insert("v", if version == Some(1.0) { 1 } else { 2 });
    shown.insert("key", spec.key.clone());
    shown.insert("name", spec.name.clone());
    for (name, value) in asked {
        let flag = |flag: bool| flag.then_some(Bson::Boolean(true));
        let value = match name.as_str() {
            "v" | "key" | "name" | "ns" | "collation" | "dropDups" | "enableLargeIndexKeys" => None,
            "unique" => flag(spec.unique),
            "sparse" => flag(spec.sparse),
            "hidden" => flag(spec.hidden),
            "expireAfterSeconds" => spec.expire_after_seconds.map(seconds),
            _ => Some(value.clone()),
        };
        if let Some(value) = value {
            shown.insert(name, value);
        }
    }
    if !spec.collation.is_simple() {
        shown.insert("collation", spec.collation.to_document());
    }
    shown
}

fn seconds(seconds: i64) -> Bson {
    i32::try_from(seconds).map_or(Bson::Int64(seconds), Bson::Int32)
}

/// The value of a number, whatever its type.
pub(super) fn number(value: &Bson) -> Option<f64> {
    match value {
        Bson::Int32(number) => Some(f64::from(*number)),
        #[expect(
            clippy::cast_precision_loss,
            reason = "only signs and small numbers matter"
        )]
        Bson::Int64(number) => Some(*number as f64),
        Bson::Double(number) => Some(*number),
        Bson::Decimal128(number) => number.to_string().parse().ok(),
        _ => None,
    }
}

pub(super) fn cannot_create(message: impl Into<String>) -> Error {
    Error::new(Code::CANNOT_CREATE_INDEX, message)
}

fn missing(name: &str) -> Error {
    failed_to_parse(format!(
        "The '{name}' field is a required property of an index specification"
    ))
}

pub(super) fn wrong_type(name: &str, expected: &str, found: &Bson) -> Error {
    type_mismatch(format!(
        "The field '{name}' must be of type {expected}, but got {}",
        type_name(found)
    ))
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;

    fn check_code(asked: Document, expected: i32) {
        let found = IndexSpec::parse(&asked, &Collation::default());
        let code = found.err().map_or(0, |error| error.code.0);
        assert_eq!(code, expected, "{asked}");
    }

    #[test]
    fn bad_specifications_get_their_codes() {
        let rows = [
            (doc! { "key": { "a": 1 }, "name": "a" }, 0),
            (doc! { "key": { "a": -1.5 }, "name": "a" }, 0),
            (doc! { "name": "a" }, 9),
            (doc! { "key": { "a": 1 } }, 9),
            (doc! { "key": { "a": 1 }, "name": 1 }, 14),
            (doc! { "key": {}, "name": "a" }, 67),
            (doc! { "key": { "a": 0 }, "name": "a" }, 67),
            (doc! { "key": { "a": true }, "name": "a" }, 67),
            (doc! { "key": { "a": "abc" }, "name": "a" }, 67),
            (doc! { "key": { "a": "text" }, "name": "a" }, 67),
            (doc! { "key": { "a": "wildcard" }, "name": "a" }, 7_246_202),
            (doc! { "key": { "$a": 1 }, "name": "a" }, 67),
            (doc! { "key": { "a..b": 1 }, "name": "a" }, 67),
            (doc! { "key": { "": 1 }, "name": "a" }, 67),
            (doc! { "key": { "a": 1 }, "name": "" }, 67),
            (doc! { "key": { "a": 1 }, "name": "a", "other": 1 }, 197),
            (
                doc! { "key": { "_id": 1 }, "name": "a", "hidden": true },
                197,
            ),
            (doc! { "key": { "_id": -1 }, "name": "a" }, 2),
            (doc! { "key": { "a": 1 }, "name": "_id_" }, 2),
        ];
        for (asked, expected) in rows {
            check_code(asked, expected);
        }
    }

    #[test]
    fn options_that_do_not_go_together_get_their_codes() {
        let rows = [
            (
                doc! { "key": { "a": "hashed" }, "name": "a", "unique": true },
                16_764,
            ),
            (
                doc! { "key": { "a": "hashed", "b": "hashed" }, "name": "a" },
                31_303,
            ),
            (
                doc! { "key": { "a": 1, "b": 1 }, "name": "a", "expireAfterSeconds": 1 },
                67,
            ),
            (
                doc! { "key": { "a": "hashed" }, "name": "a", "expireAfterSeconds": 1 },
                67,
            ),
            (
                doc! { "key": { "_id": "hashed" }, "name": "a", "expireAfterSeconds": 0 },
                67,
            ),
            (
                doc! { "key": { "$**": 1 }, "name": "a", "expireAfterSeconds": 1 },
                67,
            ),
            (
                doc! { "key": { "a": 1 }, "name": "a", "expireAfterSeconds": "1" },
                67,
            ),
            (
                doc! { "key": { "a": 1 }, "name": "a", "expireAfterSeconds": -1 },
                67,
            ),
            (
                doc! { "key": { "a": 1 }, "name": "a", "weights": { "a": 1 } },
                67,
            ),
            (doc! { "key": { "a": 1 }, "name": "a", "collation": {} }, 2),
            (
                doc! { "key": { "a": 1 }, "name": "a", "collation": "en" },
                14,
            ),
            (
                doc! { "key": { "a": 1 }, "name": "a", "wildcardProjection": { "b": 1 } },
                2,
            ),
            (
                doc! { "key": { "$**": 1 }, "name": "a", "unique": true },
                67,
            ),
            (doc! { "key": { "a": 1 }, "name": "a", "v": 3 }, 67),
        ];
        for (asked, expected) in rows {
            check_code(asked, expected);
        }
    }

    #[test]
    fn what_is_shown_reads_back() {
        let asked = doc! {
            "name": "n", "key": { "a": 1, "b": -1 }, "unique": true, "sparse": false,
            "partialFilterExpression": { "a": { "$gt": 3 } },
        };
        let spec = IndexSpec::parse(&asked, &Collation::default()).unwrap();
        let expected = doc! {
            "v": 2, "key": { "a": 1, "b": -1 }, "name": "n", "unique": true,
            "partialFilterExpression": { "a": { "$gt": 3 } },
        };
        assert_eq!(spec.document, expected);
        let again = IndexSpec::stored(&spec.document).unwrap();
        assert_eq!(again.document, expected);
        assert_eq!(
            spec.likeness(&again),
            crate::index::spec::Likeness::Identical
        );
    }
}
