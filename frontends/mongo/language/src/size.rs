//! How many bytes values take, as BSON and in memory, by which memory is accounted and limits are
//! checked.

use bson::{Bson, Document};
use tessera_core::deadline;

/// How many fields move in a step.
const FIELDS_MOVED_IN_STEP: usize = 16;

/// How many elements are sized in a step.
const ELEMENTS_SIZED_IN_STEP: usize = 16;

/// How many bytes of a text are gone through in a step.
const BYTES_IN_STEP: usize = 1 << 10;

/// What a field of a document takes beside its name and its value: the hash, the length and the
/// place of the name, and its entry in the table.
pub(crate) const FIELD_BYTES: usize = 48;

/// The bytes of memory that a value takes, with what it owns. Going through it is counted, and so
/// is what a copy costs that follows.
pub fn footprint(value: &Bson) -> usize {
    let owned = match value {
        Bson::String(text) | Bson::Symbol(text) | Bson::JavaScriptCode(text) => {
            long_text(text.len())
        }
        Bson::Binary(binary) => long_text(binary.bytes.len()),
        Bson::RegularExpression(regex) => {
            regex.pattern.as_str().len() + regex.options.as_str().len()
        }
        Bson::JavaScriptCodeWithScope(code) => code.code.len() + document_footprint(&code.scope),
        Bson::Document(document) => document_footprint(document),
        Bson::Array(items) => {
            deadline::note(1 + items.len() / 4);
            items.iter().map(footprint).sum()
        }
        Bson::Null
        | Bson::Undefined
        | Bson::MinKey
        | Bson::MaxKey
        | Bson::Boolean(_)
        | Bson::Int32(_)
        | Bson::Double(_)
        | Bson::Int64(_)
        | Bson::Timestamp(_)
        | Bson::DateTime(_)
        | Bson::ObjectId(_)
        | Bson::Decimal128(_)
        | Bson::DbPointer(_) => 0,
    };
    size_of::<Bson>() + owned
}

/// Counts so many bytes that are gone through, and gives them back.
fn long_text(bytes: usize) -> usize {
    if bytes >= BYTES_IN_STEP {
        deadline::note(bytes / BYTES_IN_STEP);
    }
    bytes
}

/// A copy of a value, counted as the work that it is.
pub(crate) fn copy(value: &Bson) -> Bson {
    let _counted = footprint(value);
    value.clone()
}

/// A copy of a document, counted likewise.
pub(crate) fn copy_document(document: &Document) -> Document {
    let _counted = document_footprint(document);
    document.clone()
}

/// The bytes of memory that a document's fields take.
pub fn document_footprint(document: &Document) -> usize {
    deadline::note(1 + document.len() / 4);
    let field = |(name, value): (&String, &Bson)| FIELD_BYTES + name.len() + footprint(value);
    document.iter().map(field).sum()
}

/// The bytes of a document: its length, its elements, and the closing null.
pub fn document_size(document: &Document) -> usize {
    deadline::note(1 + document.len() / ELEMENTS_SIZED_IN_STEP);
    let element = |(name, value): (&String, &Bson)| element_size(name.len(), value);
    5 + document.iter().map(element).sum::<usize>()
}

/// The bytes of a value, without type and name.
pub fn value_size(value: &Bson) -> usize {
    match value {
        Bson::Null | Bson::Undefined | Bson::MinKey | Bson::MaxKey => 0,
        Bson::Boolean(_) => 1,
        Bson::Int32(_) => 4,
        Bson::Double(_) | Bson::Int64(_) | Bson::Timestamp(_) | Bson::DateTime(_) => 8,
        Bson::ObjectId(_) => 12,
        Bson::Decimal128(_) => 16,
        Bson::String(text) | Bson::Symbol(text) | Bson::JavaScriptCode(text) => text.len() + 5,
        Bson::Binary(binary) => {
            // The oldest subtype says its length twice.
            let inner = if binary.subtype == bson::spec::BinarySubtype::BinaryOld {
                4
            } else {
                0
            };
            binary.bytes.len() + 5 + inner
        }
        Bson::RegularExpression(regex) => {
            regex.pattern.as_str().len() + regex.options.as_str().len() + 2
        }
        Bson::JavaScriptCodeWithScope(code) => code.code.len() + 9 + document_size(&code.scope),
        // The reference has no public parts; a name of some length and an identifier.
        Bson::DbPointer(_) => 32,
        Bson::Document(document) => document_size(document),
        Bson::Array(items) => {
            deadline::note(1 + items.len() / ELEMENTS_SIZED_IN_STEP);
            let mut digits = 1;
            let mut limit = 10;
            let mut size = 5;
            for (index, item) in items.iter().enumerate() {
                if index == limit {
                    digits += 1;
                    limit *= 10;
                }
                size += element_size(digits, item);
            }
            size
        }
    }
}

fn element_size(name: usize, value: &Bson) -> usize {
    2 + name + value_size(value)
}

/// How many elements are copied in a step, and how many bytes of a text are as much work as one.
const ELEMENTS_IN_STEP: usize = 4;
const BYTES_IN_ELEMENT: usize = 64;

/// Steps to copy a value, or to go through it: the first of its elements stands for all of them.
pub(crate) fn steps_to_copy(value: &Bson) -> usize {
    let elements = match value {
        Bson::Array(items) => items.len() * (1 + items.first().map_or(0, width)),
        Bson::Document(document) => {
            let first = document.values().next();
            document.len() * (1 + first.map_or(0, width))
        }
        other => width(other),
    };
    elements / ELEMENTS_IN_STEP
}

/// How many bytes of a text are read as a number, a date or other bytes in a step.
const BYTES_READ_IN_STEP: usize = 32;

/// Steps to read what a text or some bytes say.
pub(crate) fn text_steps(value: &Bson) -> usize {
    match value {
        Bson::String(text) => text.len() / BYTES_READ_IN_STEP,
        Bson::Binary(binary) => binary.bytes.len() / BYTES_READ_IN_STEP,
        _ => 0,
    }
}

/// How many elements a value has, without a look at them.
fn width(value: &Bson) -> usize {
    match value {
        Bson::Array(items) => items.len(),
        Bson::Document(document) => document.len(),
        Bson::String(text) => text.len() / BYTES_IN_ELEMENT,
        Bson::Binary(binary) => binary.bytes.len() / BYTES_IN_ELEMENT,
        _ => 0,
    }
}

/// Takes a field out of a document. All that stand behind it move, which is counted.
pub(crate) fn take_field(document: &mut Document, name: &str) -> Option<Bson> {
    deadline::note(document.len() / FIELDS_MOVED_IN_STEP);
    document.remove(name)
}

#[cfg(test)]
mod tests {
    use bson::{Bson, doc};

    use super::document_size;

    #[test]
    fn counts_what_is_written() {
        let many: Vec<i32> = (0..1001).collect();
        for document in [
            doc! {},
            doc! { "a": 1, "b": 2_i64, "c": 1.5, "d": "text", "e": null, "f": true },
            doc! { "a": [1, "x", { "b": [] }], "o": { "p": { "q": 1 } } },
            doc! { "many": many },
            doc! { "id": bson::oid::ObjectId::new(), "now": bson::DateTime::now() },
            doc! { "r": bson::Regex { pattern: "^a".try_into().unwrap(),
            options: "i".try_into().unwrap() } },
            doc! { "t": bson::Timestamp { time: 1, increment: 2 }, "min": Bson::MinKey },
            doc! { "d": "1.5".parse::<bson::Decimal128>().unwrap() },
            doc! { "b": bson::Binary { subtype: bson::spec::BinarySubtype::Generic,
            bytes: vec![1, 2, 3] } },
            doc! { "c": Bson::JavaScriptCodeWithScope(bson::JavaScriptCodeWithScope {
            code: "f".into(), scope: doc! { "a": 1 } }) },
        ] {
            assert_eq!(
                document_size(&document),
                document.to_vec().unwrap().len(),
                "{document}"
            );
        }
    }
}
