//! Options that several commands have in common: a collation, a hint, variables, numbers with
//! limits.

use bson::{Bson, Document, RawArray, RawBsonRef, RawDocument};
use tessera_core::deadline;
use tessera_mongo_language::collation::Collation;
use tessera_mongo_language::compare::type_name;
use tessera_mongo_language::error::{bad_value, failed_to_parse, type_mismatch};
use tessera_mongo_language::expression::Context;
use tessera_mongo_language::size::document_footprint;

use crate::collection::Collection;
use crate::commands::{repeats, stage_options};
use crate::context;
use crate::execute::query::natural;
use crate::failure::Result;
use crate::fields::{Fields, whole};
use crate::plan::Hint;
use crate::service::Service;

/// Why nobody may say what the time is: `$$NOW` would be another one for each client.
pub(crate) const CONSTANTS: &str = "Cannot specify runtime constants option to a mongos";
/// Arguments up to this length are part of what a connection is guaranteed.
const SMALL_BYTES: usize = 4 << 10;
/// A filter, an update or a pipeline is there so many times: as it was sent, parsed, planned.
const PARSED_COPIES: usize = 6;
/// How many bytes are read in a step.
const BYTES_IN_STEP: usize = 64;

/// A document of a command, read.
pub(crate) fn owned(document: &RawDocument) -> Result<Document> {
    let bytes = document.as_bytes().len();
    deadline::step(bytes / BYTES_IN_STEP)?;
    let owned = Document::try_from(document)?;
    if bytes > SMALL_BYTES {
        deadline::keep(PARSED_COPIES * document_footprint(&owned))?;
    }
    Ok(owned)
}

/// A field of a command that is a query, read; an empty one if it is not there.
pub(crate) fn query(fields: &Fields<'_>, name: &str) -> Result<Document> {
    fields
        .document(name)
        .map_or_else(|| Ok(Document::new()), repeats::query)
}

/// A field of a command that is an order, read; an empty one if it is not there.
pub(crate) fn order(fields: &Fields<'_>, name: &str) -> Result<Document> {
    fields
        .document(name)
        .map_or_else(|| Ok(Document::new()), repeats::order)
}

/// A field of a command that says what is shown, read; an empty one if it is not there.
pub(crate) fn projection(fields: &Fields<'_>, name: &str) -> Result<Document> {
    fields
        .document(name)
        .map_or_else(|| Ok(Document::new()), repeats::projection)
}

/// A field of a command that is a document, read.
pub(crate) fn optional_document(fields: &Fields<'_>, name: &str) -> Result<Option<Document>> {
    fields.document(name).map(owned).transpose()
}

/// A value of a command, read.
pub(crate) fn value(value: RawBsonRef<'_>) -> Result<Bson> {
    if let RawBsonRef::Document(document) = value {
        return owned(document).map(Bson::Document);
    }
    Ok(Bson::try_from(value)?)
}

/// The collation that a command asks for, or that of its collection.
pub(crate) fn collation(
    asked: Option<&RawDocument>,
    own: Option<&Collection>,
) -> Result<Collation> {
    match asked {
        Some(asked) if !asked.is_empty() => Ok(Collation::parse(&owned(asked)?)?),
        _ => Ok(own.map_or_else(Collation::default, |own| own.collation.clone())),
    }
}

/// The context of a command: what its `collation` and its `let` say.
pub(crate) fn context(
    service: &Service,
    collation: Collation,
    definitions: Option<&RawDocument>,
) -> Result<Context> {
    let definitions = definitions.map(owned).transpose()?;
    let now_ms = service.store.clock().now_ms();
    Ok(context::of_command(
        now_ms,
        collation,
        definitions.as_ref(),
    )?)
}

/// Which index a command wants to be used.
pub(crate) fn hint(asked: Option<RawBsonRef<'_>>) -> Result<Hint> {
    match asked {
        None => Ok(Hint::None),
        Some(RawBsonRef::String(name)) => Ok(Hint::Name(name.to_owned())),
        Some(RawBsonRef::Document(key)) if key.is_empty() => Ok(Hint::None),
        Some(RawBsonRef::Document(key)) => {
            let key = owned(key)?;
            Ok(match natural(&key)? {
                Some(reverse) => Hint::Natural { reverse },
                None => Hint::Key(key),
            })
        }
        Some(_) => {
            let message = "hint must be specified as a string or an object";
            Err(failed_to_parse(message).into())
        }
    }
}

/// A number that must not be negative.
pub(crate) fn not_negative(fields: &Fields<'_>, name: &str) -> Result<Option<u64>> {
    let Some(value) = fields.get(name) else {
        return Ok(None);
    };
    let number = rounded(value);
    match u64::try_from(number) {
        Ok(number) => Ok(Some(number)),
        Err(_) => Err(bad_value(format!(
            "BSON field '{name}' value must be >= 0, actual value '{number}'"
        ))
        .into()),
    }
}

/// A number as a whole one: decimals are rounded to the nearest, doubles are cut.
pub(crate) fn rounded(value: RawBsonRef<'_>) -> i64 {
    match value {
        RawBsonRef::Decimal128(number) => {
            let nearest = number
                .to_string()
                .parse::<f64>()
                .unwrap_or(0.0)
                .round_ties_even();
            whole(RawBsonRef::Double(nearest)).unwrap_or(0)
        }
        other => whole(other).unwrap_or(0),
    }
}

/// The stages of a view's pipeline; nulls among them mean nothing.
pub(crate) fn view_stages(sent: Option<&RawArray>) -> Result<Vec<Bson>> {
    read_stages(sent, true)
}

/// The stages of a pipeline.
pub(crate) fn stages(sent: Option<&RawArray>) -> Result<Vec<Bson>> {
    read_stages(sent, false)
}

fn read_stages(sent: Option<&RawArray>, skips_nulls: bool) -> Result<Vec<Bson>> {
    if let Some(sent) = sent {
        stage_options::check(sent)?;
    }
    let read = sent.map_or_else(|| Ok(Vec::new()), repeats::stages)?;
    let mut stages = Vec::with_capacity(read.len());
    for stage in read {
        match stage {
            Bson::Null if skips_nulls => {}
            stage @ Bson::Document(_) => stages.push(stage),
            other => {
                let message = format!(
                    "Each element of the 'pipeline' array must be an object, not {}",
                    type_name(&other)
                );
                return Err(type_mismatch(message).into());
            }
        }
    }
    Ok(stages)
}
