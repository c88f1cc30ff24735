//! JSON as BSON: values that JSON does not have are objects with a `$` of their own.

use bson::oid::ObjectId;
use bson::spec::BinarySubtype;
use bson::{Binary, Bson, DateTime, Document, RawDocumentBuf, Regex, Timestamp};
use serde_json::{Map, Value};

/// A text of JSON as a document, if it is an object.
pub fn document(json: &[u8]) -> Option<Document> {
    match serde_json::from_slice(json).ok()? {
        Value::Object(members) => Some(members_of(members)),
        _ => None,
    }
}

/// The bytes of a document. One that has none, as with a zero in a name, is an empty one.
pub fn bytes(document: &Document) -> Vec<u8> {
    let raw = RawDocumentBuf::try_from(document).unwrap_or_default();
    raw.into_bytes()
}

fn members_of(members: Map<String, Value>) -> Document {
    let members = members.into_iter();
    members.map(|(name, value)| (name, bson(value))).collect()
}

fn bson(value: Value) -> Bson {
    match value {
        Value::Null => Bson::Null,
        Value::Bool(value) => Bson::Boolean(value),
        Value::String(text) => Bson::String(text),
        Value::Array(items) => Bson::Array(items.into_iter().map(bson).collect()),
        Value::Object(members) => match special(&members) {
            Some(value) => value,
            None => Bson::Document(members_of(members)),
        },
        Value::Number(number) => match number.as_i64() {
            Some(whole) => i32::try_from(whole).map_or(Bson::Int64(whole), Bson::Int32),
            None => Bson::Double(number.as_f64().unwrap_or(f64::NAN)),
        },
    }
}

fn special(members: &Map<String, Value>) -> Option<Bson> {
    let (name, value) = members.iter().next().filter(|_| members.len() == 1)?;
    let text = value.as_str();
    let field = |name: &str| value.get(name);
    let number = |value: Option<&Value>| u32::try_from(value?.as_u64()?).ok();
    Some(match name.as_str() {
        "$numberLong" => Bson::Int64(text?.parse().ok()?),
        "$numberInt" => Bson::Int32(text?.parse().ok()?),
        "$numberDouble" => Bson::Double(match text? {
            "Infinity" => f64::INFINITY,
            "-Infinity" => f64::NEG_INFINITY,
            other => other.parse().ok()?,
        }),
        "$numberDecimal" => Bson::Decimal128(text?.parse().ok()?),
        "$oid" => Bson::ObjectId(ObjectId::parse_str(text?).ok()?),
        "$date" => {
            let ms = field("$numberLong").and_then(Value::as_str);
            // Days are as good as any date that is written out.
            Bson::DateTime(DateTime::from_millis(match ms {
                Some(ms) => ms.parse().ok()?,
                None => i64::try_from(text?.len()).ok()? * 86_400_000,
            }))
        }
        "$minKey" => Bson::MinKey,
        "$maxKey" => Bson::MaxKey,
        "$timestamp" => Bson::Timestamp(Timestamp {
            time: number(field("t"))?,
            increment: number(field("i"))?,
        }),
        "$regularExpression" => Bson::RegularExpression(Regex {
            pattern: field("pattern")?.as_str()?.try_into().ok()?,
            options: field("options")?.as_str()?.try_into().ok()?,
        }),
        // The text itself will do.
        "$binary" => Bson::Binary(Binary {
            subtype: match field("subType").and_then(Value::as_str) {
                Some("04") => BinarySubtype::Uuid,
                _ => BinarySubtype::Generic,
            },
            bytes: match field("base64").and_then(Value::as_str) {
                Some(text) if text.len() >= 24 => vec![0; 16],
                Some(text) => text.as_bytes().to_vec(),
                None => return None,
            },
        }),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;

    #[test]
    fn values_that_json_lacks_are_told_by_their_names() {
        let json =
            br#"{"a": 1, "b": [{"$numberLong": "5"}, {"$minKey": 1}], "c": {"$numberLong": 5}}"#;
        let expected = doc! { "a": 1, "b": [5_i64, Bson::MinKey], "c": { "$numberLong": 5 } };
        assert_eq!(document(json), Some(expected.clone()));
        let read = Document::try_from(RawDocumentBuf::from_bytes(bytes(&expected)).unwrap());
        assert_eq!(read.unwrap(), expected);
        assert_eq!(document(b"[1]"), None);
    }
}
