//! Whether a value obeys a schema.

use bson::spec::BinarySubtype;
use bson::{Bson, Document};

use tessera_core::deadline;

use super::{Additional, Dependency, Keyword, Members, OneOf, Schema, Subject};
use crate::collation::Collation;
use crate::error::Result;
use crate::number::Number;

impl Schema {
    pub(super) fn accepts(&self, subject: Subject<'_>) -> Result<bool> {
        for rule in &self.rules {
            deadline::step(2)?;
            if !rule.keyword.accepts(subject)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl Keyword {
    pub(super) fn accepts(&self, subject: Subject<'_>) -> Result<bool> {
        match self {
            Self::AllOf(schemas) => Ok(count(schemas, subject)? == schemas.len()),
            Self::AnyOf(schemas) => Ok(count(schemas, subject)? > 0),
            Self::OneOf(schemas) => Ok(count(schemas, subject)? == 1),
            Self::Not(schema) => Ok(!schema.accepts(subject)?),
            Self::Enum(values) => values.contains(&canonical(&subject.to_bson())),
            Self::Type(types) => Ok(types.contains_type(subject.element_type())),
            Self::Encrypt => Ok(is_encrypted(subject)),
            Self::Bound(comparison, bound) => Ok(subject.number().is_none()
                || comparison.holds(subject.value(), bound, &Collation::default())),
            Self::MultipleOf(divisor) => Ok(is_multiple(subject.number(), divisor)),
            Self::MinLength(_) | Self::MaxLength(_) | Self::Pattern(_) => {
                self.accepts_string(subject)
            }
            Self::MinItems(_)
            | Self::MaxItems(_)
            | Self::UniqueItems
            | Self::Items(_)
            | Self::ItemList(_)
            | Self::AdditionalItems(..) => match subject.array() {
                Some(items) => self.accepts_array(items),
                None => Ok(true),
            },
            Self::Properties(_)
            | Self::Members(_)
            | Self::Required(_)
            | Self::MinProperties(_)
            | Self::MaxProperties(_)
            | Self::Dependencies(..) => match subject.document() {
                Some(document) => self.accepts_document(document),
                None => Ok(true),
            },
        }
    }

    fn accepts_string(&self, subject: Subject<'_>) -> Result<bool> {
        let Some(text) = subject.string() else {
            return Ok(true);
        };
        match self {
            Self::MinLength(limit) => Ok(length(text) >= *limit),
            Self::MaxLength(limit) => Ok(length(text) <= *limit),
            Self::Pattern(regex) => regex.is_match(text),
            _ => Ok(true),
        }
    }

    fn accepts_array(&self, items: &[Bson]) -> Result<bool> {
        match self {
            Self::MinItems(limit) => Ok(as_count(items.len()) >= *limit),
            Self::MaxItems(limit) => Ok(as_count(items.len()) <= *limit),
            Self::UniqueItems => Ok(first_duplicate(items)?.is_none()),
            Self::Items(schema) => Ok(first_failing(schema, items)?.is_none()),
            Self::ItemList(schemas) => {
                for (schema, item) in schemas.iter().zip(items) {
                    if !schema.accepts(Subject::Value(item))? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Self::AdditionalItems(from, additional) => {
                let rest = items.get(*from..).unwrap_or_default();
                match additional {
                    Additional::Anything => Ok(true),
                    Additional::Nothing => Ok(rest.is_empty()),
                    Additional::Valid(schema) => Ok(first_failing(schema, rest)?.is_none()),
                }
            }
            _ => Ok(true),
        }
    }

    fn accepts_document(&self, document: &Document) -> Result<bool> {
        match self {
            Self::Properties(properties) => {
                for (name, schema) in properties {
                    let Some(value) = document.get(name) else {
                        continue;
                    };
                    if !schema.accepts(Subject::Value(value))? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Self::Members(members) => members.accept(document),
            Self::Required(names) => Ok(names.iter().all(|name| document.contains_key(name))),
            Self::MinProperties(limit) => Ok(as_count(document.len()) >= *limit),
            Self::MaxProperties(limit) => Ok(as_count(document.len()) <= *limit),
            Self::Dependencies(_, all) => {
                for (name, dependency) in all {
                    if document.contains_key(name) && !dependency.holds(document)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            _ => Ok(true),
        }
    }
}

impl Dependency {
    pub(super) fn holds(&self, document: &Document) -> Result<bool> {
        match self {
            Self::Properties(names) => Ok(names.iter().all(|name| document.contains_key(name))),
            Self::Schema(schema) => schema.accepts(Subject::Document(document)),
        }
    }
}

impl Members {
    fn accept(&self, document: &Document) -> Result<bool> {
        for (name, value) in document {
            for (pattern, schema) in &self.patterns {
                if pattern.is_match(name)? && !schema.accepts(Subject::Value(value))? {
                    return Ok(false);
                }
            }
            if self.is_additional(name)? && !self.accepts_additional(value)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether no other keyword says anything about a property of that name.
    pub(super) fn is_additional(&self, name: &str) -> Result<bool> {
        for (pattern, _) in &self.patterns {
            if pattern.is_match(name)? {
                return Ok(false);
            }
        }
        Ok(!self.named.contains(name))
    }

    pub(super) fn accepts_additional(&self, value: &Bson) -> Result<bool> {
        match &self.additional {
            Additional::Anything => Ok(true),
            Additional::Nothing => Ok(false),
            Additional::Valid(schema) => schema.accepts(Subject::Value(value)),
        }
    }
}

fn count(schemas: &[Schema], subject: Subject<'_>) -> Result<usize> {
    let mut accepting = 0;
    for schema in schemas {
        accepting += usize::from(schema.accepts(subject)?);
    }
    Ok(accepting)
}

pub(super) fn first_failing(schema: &Schema, items: &[Bson]) -> Result<Option<usize>> {
    for (index, item) in items.iter().enumerate() {
        if !schema.accepts(Subject::Value(item))? {
            return Ok(Some(index));
        }
    }
    Ok(None)
}

/// The first item that was there before, whatever the order of its fields.
pub(super) fn first_duplicate(items: &[Bson]) -> Result<Option<&Bson>> {
    let mut seen = OneOf::new(&Collation::default());
    for item in items {
        if !seen.insert(&canonical(item))? {
            return Ok(Some(item));
        }
    }
    Ok(None)
}

/// The value with the fields of its documents in alphabetical order.
pub(super) fn canonical(value: &Bson) -> Bson {
    deadline::note(1);
    match value {
        Bson::Array(items) => Bson::Array(items.iter().map(canonical).collect()),
        Bson::Document(document) => {
            let mut fields: Vec<_> = document.iter().collect();
            fields.sort_by_key(|(name, _)| *name);
            let fields = fields
                .into_iter()
                .map(|(name, value)| (name.clone(), canonical(value)));
            Bson::Document(fields.collect())
        }
        other => other.clone(),
    }
}

fn is_encrypted(subject: Subject<'_>) -> bool {
    matches!(
        subject.value(),
        Some(Bson::Binary(binary)) if binary.subtype == BinarySubtype::Encrypted
    )
}

fn is_multiple(number: Option<Number>, divisor: &Bson) -> bool {
    let pair = number.zip(Number::from_bson(divisor));
    pair.is_none_or(|(number, divisor)| number.to_decimal().modulo(divisor.to_decimal()).is_zero())
}

fn length(text: &str) -> i64 {
    as_count(text.chars().count())
}

fn as_count(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
