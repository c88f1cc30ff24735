//! The table of keywords, and from a schema document to its rules.

use bson::{Bson, Document, doc};

use super::super::TypeSet;
use super::matching::canonical;
use super::{Additional, Comparison, Dependency, Keyword, Members, OneOf, Rule, Schema};
use crate::collation::Collation;
use crate::compare::type_name;
use crate::error::{Code, Error, Result, bad_value, failed_to_parse, type_mismatch};
use crate::number::Number;
use crate::regex::{BAD_PATTERN, Regex};

/// How deeply schemas may be nested.
const MAX_DEPTH: usize = 200;

/// One keyword as it stands in its schema.
struct Entry<'a> {
    name: &'a str,
    value: &'a Bson,
    schema: &'a Document,
    depth: usize,
}

/// Parses a keyword; nothing comes of those that others read.
type Parse = fn(&Entry<'_>) -> Result<Option<Keyword>>;

/// All keywords, in the order in which a document's faults are told.
const KEYWORDS: &[(&str, Parse)] = &[
    ("maximum", bound),
    ("exclusiveMaximum", exclusive),
    ("minimum", bound),
    ("exclusiveMinimum", exclusive),
    ("maxLength", |entry| {
        Ok(Some(Keyword::MaxLength(entry.count()?)))
    }),
    ("minLength", |entry| {
        Ok(Some(Keyword::MinLength(entry.count()?)))
    }),
    ("pattern", |entry| {
        Ok(Some(Keyword::Pattern(Regex::new(entry.string()?, "")?)))
    }),
    ("multipleOf", multiple_of),
    ("minItems", |entry| {
        Ok(Some(Keyword::MinItems(entry.count()?)))
    }),
    ("maxItems", |entry| {
        Ok(Some(Keyword::MaxItems(entry.count()?)))
    }),
    ("uniqueItems", |entry| {
        Ok(entry.boolean()?.then_some(Keyword::UniqueItems))
    }),
    ("items", items),
    ("additionalItems", additional_items),
    ("encrypt", encrypt),
    ("encryptMetadata", encrypt_metadata),
    ("properties", |entry| {
        Ok(Some(Keyword::Properties(entry.schemas_by_name()?)))
    }),
    ("patternProperties", members),
    ("additionalProperties", members),
    ("required", required),
    ("minProperties", |entry| {
        Ok(Some(Keyword::MinProperties(entry.count()?)))
    }),
    ("maxProperties", |entry| {
        Ok(Some(Keyword::MaxProperties(entry.count()?)))
    }),
    ("dependencies", dependencies),
    ("allOf", |entry| {
        Ok(Some(Keyword::AllOf(entry.schema_list()?)))
    }),
    ("anyOf", |entry| {
        Ok(Some(Keyword::AnyOf(entry.schema_list()?)))
    }),
    ("oneOf", |entry| {
        Ok(Some(Keyword::OneOf(entry.schema_list()?)))
    }),
    ("not", |entry| {
        Ok(Some(Keyword::Not(Box::new(entry.nested(entry.value)?))))
    }),
    ("enum", enumeration),
    ("type", types),
    ("bsonType", types),
    ("title", |entry| entry.string().map(|_| None)),
    ("description", |entry| entry.string().map(|_| None)),
];

/// Draft 4 has these and MongoDB has not.
const UNSUPPORTED: &[&str] = &["$ref", "$schema", "default", "definitions", "format", "id"];

/// The names that `type` knows and what BSON calls them.
const JSON_TYPES: &[(&str, &str)] = &[
    ("array", "array"),
    ("boolean", "bool"),
    ("null", "null"),
    ("number", "number"),
    ("object", "object"),
    ("string", "string"),
];

pub(super) fn schema(source: &Document, depth: usize) -> Result<Schema> {
    if depth > MAX_DEPTH {
        return Err(Error::new(
            Code::OVERFLOW,
            "the schema is nested too deeply",
        ));
    }
    refuse_unknown(source)?;
    let mut rules = Vec::new();
    for (name, parse) in KEYWORDS {
        let Some(value) = source.get(name) else {
            continue;
        };
        if let Some(keyword) = parse(&Entry {
            name,
            value,
            schema: source,
            depth,
        })? {
            rules.push(Rule {
                stated: stated(name, value, source),
                keyword,
            });
        }
    }
    let notes = ["title", "description"].into_iter();
    let notes = notes.filter_map(|name| Some((name.to_owned(), source.get(name)?.clone())));
    Ok(Schema {
        rules,
        notes: notes.collect(),
        source: source.clone(),
    })
}

fn refuse_unknown(source: &Document) -> Result<()> {
    for name in source.keys() {
        if UNSUPPORTED.contains(&name.as_str()) {
            let message = format!("$jsonSchema keyword '{name}' is not currently supported");
            return Err(failed_to_parse(message));
        }
        if !KEYWORDS.iter().any(|(known, _)| known == name) {
            return Err(failed_to_parse(format!(
                "Unknown $jsonSchema keyword: {name}"
            )));
        }
    }
    Ok(())
}

/// How a rule was written; whether a bound is exclusive stands in a keyword of its own.
fn stated(name: &str, value: &Bson, source: &Document) -> Document {
    let mut stated = doc! {name: value.clone()};
    let exclusive = exclusive_name(name);
    if let Some(exclusive) = exclusive
        && source.get(exclusive) == Some(&Bson::Boolean(true))
    {
        stated.insert(exclusive, true);
    }
    stated
}

fn exclusive_name(name: &str) -> Option<&'static str> {
    match name {
        "maximum" => Some("exclusiveMaximum"),
        "minimum" => Some("exclusiveMinimum"),
        _ => None,
    }
}

impl<'a> Entry<'a> {
    fn must_be(&self, what: &str) -> Error {
        let found = type_name(self.value);
        type_mismatch(format!(
            "$jsonSchema keyword '{}' must be {what}, not {found}",
            self.name
        ))
    }

    fn refused(&self, why: &str) -> Error {
        failed_to_parse(format!("$jsonSchema keyword '{}' {why}", self.name))
    }

    fn count(&self) -> Result<i64> {
        let number = Number::from_bson(self.value).and_then(Number::as_i64_exact);
        number
            .filter(|count| *count >= 0)
            .ok_or_else(|| self.refused("must be a non-negative integer"))
    }

    fn number(&self) -> Result<Number> {
        Number::from_bson(self.value).ok_or_else(|| self.must_be("a number"))
    }

    fn string(&self) -> Result<&'a str> {
        self.value.as_str().ok_or_else(|| self.must_be("a string"))
    }

    fn boolean(&self) -> Result<bool> {
        self.value
            .as_bool()
            .ok_or_else(|| self.must_be("a boolean"))
    }

    fn array(&self) -> Result<&'a [Bson]> {
        let array = self
            .value
            .as_array()
            .ok_or_else(|| self.must_be("an array"))?;
        Ok(array)
    }

    fn document(&self) -> Result<&'a Document> {
        self.value
            .as_document()
            .ok_or_else(|| self.must_be("an object"))
    }

    fn nested(&self, value: &Bson) -> Result<Schema> {
        let Bson::Document(source) = value else {
            let (name, found) = (self.name, type_name(value));
            let message =
                format!("$jsonSchema keyword '{name}' must hold schemas, but found a {found}");
            return Err(type_mismatch(message));
        };
        schema(source, self.depth + 1)
    }

    fn schemas_by_name(&self) -> Result<Vec<(String, Schema)>> {
        let named = self.document()?.iter();
        named
            .map(|(name, value)| Ok((name.clone(), self.nested(value)?)))
            .collect()
    }

    fn schema_list(&self) -> Result<Vec<Schema>> {
        let schemas = self.array()?;
        if schemas.is_empty() {
            let name = self.name;
            return Err(bad_value(format!(
                "$jsonSchema keyword '{name}' must be a non-empty array"
            )));
        }
        schemas.iter().map(|value| self.nested(value)).collect()
    }

    /// Names of properties: strings, at least one, each once.
    fn names(&self, values: &[Bson]) -> Result<Vec<String>> {
        let mut names: Vec<String> = Vec::with_capacity(values.len());
        for value in values {
            let Bson::String(name) = value else {
                let (keyword, found) = (self.name, type_name(value));
                let message = format!(
                    "$jsonSchema keyword '{keyword}' must name properties, but found a {found}"
                );
                return Err(type_mismatch(message));
            };
            if names.contains(name) {
                return Err(self.refused("cannot contain duplicate values"));
            }
            names.push(name.clone());
        }
        if names.is_empty() {
            return Err(self.refused("cannot be an empty array"));
        }
        Ok(names)
    }

    fn additional(&self, value: &Bson) -> Result<Additional> {
        match value {
            Bson::Boolean(true) => Ok(Additional::Anything),
            Bson::Boolean(false) => Ok(Additional::Nothing),
            Bson::Document(_) => Ok(Additional::Valid(Box::new(self.nested(value)?))),
            _ => Err(self.must_be("an object or a boolean")),
        }
    }
}

fn bound(entry: &Entry<'_>) -> Result<Option<Keyword>> {
    entry.number()?;
    let exclusive = exclusive_name(entry.name)
        .and_then(|name| entry.schema.get(name))
        .is_some_and(|value| *value == Bson::Boolean(true));
    let comparison = match (entry.name, exclusive) {
        ("maximum", false) => Comparison::LessOrEqual,
        ("maximum", true) => Comparison::Less,
        (_, false) => Comparison::GreaterOrEqual,
        (_, true) => Comparison::Greater,
    };
    Ok(Some(Keyword::Bound(comparison, entry.value.clone())))
}

fn exclusive(entry: &Entry<'_>) -> Result<Option<Keyword>> {
    entry.boolean()?;
    let bound = if entry.name == "exclusiveMaximum" {
        "maximum"
    } else {
        "minimum"
    };
    if !entry.schema.contains_key(bound) {
        return Err(entry.refused(&format!("needs '{bound}'")));
    }
    Ok(None)
}

fn multiple_of(entry: &Entry<'_>) -> Result<Option<Keyword>> {
    let number = entry.number()?;
    if number.is_nan() || !number.compare(Number::Int32(0)).is_gt() {
        return Err(entry.refused("must have a positive value"));
    }
    Ok(Some(Keyword::MultipleOf(entry.value.clone())))
}

fn items(entry: &Entry<'_>) -> Result<Option<Keyword>> {
    Ok(Some(match entry.value {
        Bson::Array(schemas) => {
            let schemas = schemas.iter().map(|value| entry.nested(value));
            Keyword::ItemList(schemas.collect::<Result<_>>()?)
        }
        Bson::Document(_) => Keyword::Items(Box::new(entry.nested(entry.value)?)),
        _ => return Err(entry.must_be("an array or an object")),
    }))
}

fn additional_items(entry: &Entry<'_>) -> Result<Option<Keyword>> {
    let additional = entry.additional(entry.value)?;
    let listed = entry.schema.get_array("items").map(Vec::len);
    Ok(listed
        .ok()
        .map(|count| Keyword::AdditionalItems(count, additional)))
}

/// Both keywords make one rule; the first that is there makes it.
fn members(entry: &Entry<'_>) -> Result<Option<Keyword>> {
    let patterns = entry.schema.get("patternProperties");
    if entry.name == "additionalProperties" && patterns.is_some() {
        return Ok(None);
    }
    let additional = match entry.schema.get("additionalProperties") {
        Some(value) => Entry {
            name: "additionalProperties",
            ..*entry
        }
        .additional(value)?,
        None => Additional::Anything,
    };
    let patterns = match patterns {
        Some(_) => entry.schemas_by_name()?,
        None => Vec::new(),
    };
    let patterns = patterns.into_iter().map(|(pattern, schema)| {
        let regex = Regex::new(&pattern, "").map_err(|error| match error.code {
            BAD_PATTERN => bad_value(error.message),
            _ => error,
        })?;
        Ok((regex, schema))
    });
    let named = entry.schema.get_document("properties").ok();
    Ok(Some(Keyword::Members(Members {
        named: named
            .map(|named| named.keys().cloned().collect())
            .unwrap_or_default(),
        patterns: patterns.collect::<Result<_>>()?,
        additional,
    })))
}

fn required(entry: &Entry<'_>) -> Result<Option<Keyword>> {
    Ok(Some(Keyword::Required(entry.names(entry.array()?)?)))
}

fn dependencies(entry: &Entry<'_>) -> Result<Option<Keyword>> {
    let mut notes = Document::new();
    let mut all = Vec::new();
    for (name, value) in entry.document()? {
        let dependency = match value {
            Bson::Array(names) => Dependency::Properties(entry.names(names)?),
            Bson::Document(_) => Dependency::Schema(entry.nested(value)?),
            Bson::String(_) if name == "title" || name == "description" => {
                notes.insert(name, value.clone());
                continue;
            }
            _ => return Err(entry.must_be("of objects and arrays")),
        };
        all.push((name.clone(), dependency));
    }
    Ok(Some(Keyword::Dependencies(notes, all)))
}

fn enumeration(entry: &Entry<'_>) -> Result<Option<Keyword>> {
    let values = entry.array()?;
    if values.is_empty() {
        return Err(entry.refused("cannot be an empty array"));
    }
    let mut all = OneOf::new(&Collation::default());
    for value in values {
        if !all.insert(&canonical(value))? {
            return Err(entry.refused("array cannot contain duplicate values"));
        }
    }
    Ok(Some(Keyword::Enum(all)))
}

fn types(entry: &Entry<'_>) -> Result<Option<Keyword>> {
    if entry.schema.contains_key("type") && entry.schema.contains_key("bsonType") {
        let message = "Cannot specify both $jsonSchema keywords 'type' and 'bsonType'";
        return Err(failed_to_parse(message));
    }
    let names = match entry.value {
        Bson::String(name) => vec![name.clone()],
        Bson::Array(names) if names.is_empty() => {
            return Err(entry.refused("must name at least one type"));
        }
        Bson::Array(names) => entry.names(names)?,
        _ => return Err(entry.must_be("either a string or an array of strings")),
    };
    let mut set = TypeSet::default();
    for name in &names {
        if name == "integer" {
            return Err(failed_to_parse(
                "$jsonSchema type 'integer' is not currently supported.",
            ));
        }
        let known = match entry.name {
            "type" => JSON_TYPES
                .iter()
                .find(|(json, _)| json == name)
                .map(|(_, bson)| *bson),
            _ => Some(name.as_str()),
        };
        let Some(known) = known else {
            return Err(bad_value(format!("Unknown type name alias: {name}")));
        };
        set.add_named(known)?;
    }
    Ok(Some(Keyword::Type(set)))
}

fn encrypt(entry: &Entry<'_>) -> Result<Option<Keyword>> {
    entry.document()?;
    if entry.schema.contains_key("type") || entry.schema.contains_key("bsonType") {
        return Err(entry.refused("cannot be used in conjunction with 'type' or 'bsonType'"));
    }
    if entry.schema.contains_key("encryptMetadata") {
        return Err(entry.refused("cannot be used in conjunction with 'encryptMetadata'"));
    }
    Ok(Some(Keyword::Encrypt))
}

fn encrypt_metadata(entry: &Entry<'_>) -> Result<Option<Keyword>> {
    if entry.document()?.is_empty() {
        return Err(entry.refused("cannot be an empty object"));
    }
    Ok(None)
}
