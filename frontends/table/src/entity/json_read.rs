//! Entities in JSON: one pass over the bytes of a body.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::EdmType;
use super::incoming::{Incoming, Members, Raw, unreadable};
use crate::error;

/// What follows the name of a member in the name of its annotation.
const TYPE_SUFFIX: &str = "@odata.type";

impl Incoming {
    /// Reads the body of a request.
    ///
    /// Without an annotation a text, a number with a point or an exponent, an integer of 32 bits
    /// and a boolean have the type that they look like. A null counts as no member, unless it
    /// stands for a number or a date that JSON cannot write.
    pub(crate) fn from_json(body: &[u8]) -> error::Result<Self> {
        let mut reader = serde_json::Deserializer::from_slice(body);
        let members = reader
            .deserialize_map(MembersVisitor)
            .and_then(|members| reader.end().map(|()| members))
            .map_err(|error| unreadable(format_args!("the body is no entity in JSON: {error}")))?;
        members.finish()
    }
}

struct MembersVisitor;

impl<'de> Visitor<'de> for MembersVisitor {
    type Value = Members<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an entity")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Members::default();
        while let Some(name) = map.next_key_seed(TextSeed)? {
            if members.refused() || is_ignored(&name) {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            let value = map.next_value_seed(RawSeed)?;
            match without_suffix(name) {
                Ok(name) => members.edm(name, edm_of(&value)),
                Err(name) => members.value(name, value),
            }
        }
        Ok(members)
    }
}

/// Control information that clients may send back and that is ignored.
fn is_ignored(name: &str) -> bool {
    name.starts_with("odata.") || (name.contains("@odata.") && !name.ends_with(TYPE_SUFFIX))
}

/// The name that an annotation refers to, or else the name as it is.
fn without_suffix(name: Cow<'_, str>) -> Result<Cow<'_, str>, Cow<'_, str>> {
    match name {
        Cow::Borrowed(text) => match text.strip_suffix(TYPE_SUFFIX) {
            Some(name) => Ok(Cow::Borrowed(name)),
            None => Err(name),
        },
        Cow::Owned(text) => match text.strip_suffix(TYPE_SUFFIX) {
            Some(name) => Ok(Cow::Owned(name.to_owned())),
            None => Err(Cow::Owned(text)),
        },
    }
}

fn edm_of(value: &Raw<'_>) -> Option<EdmType> {
    match value {
        Raw::Text(name) => EdmType::parse(name),
        _ => None,
    }
}

/// A text, borrowed from the body unless it has escapes.
struct TextSeed;

impl<'de> DeserializeSeed<'de> for TextSeed {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for TextSeed {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(text))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(text.to_owned()))
    }
}

struct RawSeed;

impl<'de> DeserializeSeed<'de> for RawSeed {
    type Value = Raw<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for RawSeed {
    type Value = Raw<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(Raw::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Self::Value, E> {
        Ok(Raw::Boolean(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Self::Value, E> {
        Ok(Raw::Integer(value.into()))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Self::Value, E> {
        Ok(Raw::Integer(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Self::Value, E> {
        Ok(Raw::Number(value))
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Raw::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Raw::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Raw::Nested)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Raw::Nested)
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::entity::{DateTime, Value};
    use crate::error::Code;

    fn check(body: &str, expected: &[(&str, Value<'_>)]) {
        let incoming = Incoming::from_json(body.as_bytes());
        let incoming = incoming.unwrap_or_else(|refusal| panic!("{body}: {refusal:?}"));
        let found: Vec<_> = incoming.properties.iter().map(|(n, v)| (&**n, v)).collect();
        let expected: Vec<_> = expected.iter().map(|(n, v)| (*n, v)).collect();
        assert_eq!(found, expected, "{body}");
    }

    fn check_refused(body: &str, code: Code) {
        let refusal = Incoming::from_json(body.as_bytes()).expect_err(body);
        assert_eq!(refusal.code, code, "{body}");
    }

    #[test]
    fn reads_what_a_client_sends() {
        let body = r#"{"PartitionKey": "pk1", "PartitionKey@odata.type": "Edm.String",
            "RowKey": "rk1", "RowKey@odata.type": "Edm.String", "s": "te\"xt\u00e9",
            "i32": 5, "i64": "1099511627776", "i64@odata.type": "Edm.Int64", "d": 1.5,
            "d@odata.type": "Edm.Double", "b": true, "bin": "AAH/", "bin@odata.type": "Edm.Binary",
            "g@odata.type": "Edm.Guid", "g": "00000000-0000-0000-0000-000000000001",
            "dt": "2024-01-02T03:04:05.678901Z", "dt@odata.type": "Edm.DateTime"}"#;
        let moment = DateTime::parse("2024-01-02T03:04:05.678901Z").unwrap();
        check(
            body,
            &[
                ("s", Value::String("te\"xt\u{e9}".into())),
                ("i32", Value::Int32(5)),
                ("i64", Value::Int64(1_099_511_627_776)),
                ("d", Value::Double(1.5)),
                ("b", Value::Boolean(true)),
                ("bin", Value::Binary(vec![0, 1, 255].into())),
                ("g", Value::Guid(Uuid::from_u128(1))),
                ("dt", Value::DateTime(moment)),
            ],
        );
        let incoming = Incoming::from_json(body.as_bytes()).unwrap();
        assert_eq!(incoming.partition_key.as_deref(), Some("pk1"));
        assert_eq!(incoming.row_key.as_deref(), Some("rk1"));
    }

    #[test]
    fn takes_the_type_that_a_value_looks_like() {
        check(r#"{"a":1.0}"#, &[("a", Value::Double(1.0))]);
        check(r#"{"a":1e3}"#, &[("a", Value::Double(1000.0))]);
        check(r#"{"a":-2147483648}"#, &[("a", Value::Int32(i32::MIN))]);
        check(r#"{"a":"1"}"#, &[("a", Value::String("1".into()))]);
    }

    #[test]
    fn an_annotation_decides() {
        for (value, edm, expected) in [
            ("5", "Double", Value::Double(5.0)),
            ("4294967296", "Double", Value::Double(4_294_967_296.0)),
            (r#""-Infinity""#, "Double", Value::Double(f64::NEG_INFINITY)),
            (r#""2.5""#, "Double", Value::Double(2.5)),
            (r#""-31""#, "Int32", Value::Int32(-31)),
            ("7", "Int32", Value::Int32(7)),
            (r#""False""#, "Boolean", Value::Boolean(false)),
            ("true", "Boolean", Value::Boolean(true)),
            (r#""x""#, "String", Value::String("x".into())),
        ] {
            let properties = [("a", expected)];
            check(
                &format!(r#"{{"a@odata.type":"Edm.{edm}","a":{value}}}"#),
                &properties,
            );
            check(
                &format!(r#"{{"a":{value},"a@odata.type":"Edm.{edm}"}}"#),
                &properties,
            );
        }
    }

    #[test]
    fn refuses_values_of_another_type() {
        for (value, edm) in [
            ("5", "Int64"),
            (r#""9223372036854775808""#, "Int64"),
            ("2147483648", "Int32"),
            ("1.5", "Int32"),
            (r#""-3.1""#, "Int32"),
            ("42", "String"),
            ("0", "Boolean"),
            (r#""not a bool""#, "Boolean"),
            (r#""x""#, "Guid"),
            (r#""""#, "DateTime"),
            (r#""tomorrow""#, "DateTime"),
            (r#""1.797693134862316e308""#, "Double"),
            (r#""%""#, "Binary"),
            ("1", "Decimal"),
            ("null", "Double"),
            ("null", "DateTime"),
            ("[]", "String"),
        ] {
            let body = format!(r#"{{"a":{value},"a@odata.type":"Edm.{edm}"}}"#);
            check_refused(&body, Code::InvalidInput);
        }
    }

    #[test]
    fn refuses_what_is_no_entity() {
        let deep = format!(r#"{{"a":{}1{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
        for body in [
            "",
            "[]",
            "5",
            "{",
            r#"{"a":1} x"#,
            r#"{"a":2147483648}"#,
            r#"{"a":1e400}"#,
            r#"{"a":{"b":1}}"#,
            r#"{"a":[1]}"#,
            r#"{"a@odata.type":5,"a":1}"#,
            r#"{"PartitionKey":1}"#,
            r#"{"RowKey":true}"#,
            r#"{"RowKey":"2024-01-02","RowKey@odata.type":"Edm.DateTime"}"#,
            &deep,
        ] {
            check_refused(body, Code::InvalidInput);
        }
        check_refused(r#"{"a":1,"a":1}"#, Code::DuplicatePropertiesSpecified);
        let types = r#"{"a@odata.type":"Edm.Int32","a":1,"a@odata.type":"Edm.Int32"}"#;
        check_refused(types, Code::DuplicatePropertiesSpecified);
    }

    #[test]
    fn ignores_control_information() {
        check(
            r#"{"odata.etag":"x","odata.metadata":{"a":[1]},"Timestamp":5,
                "a@odata.type":"Edm.Int64","Timestamp@odata.type":"Edm.DateTime",
                "b@odata.media":1,"c":null,
                "d":null,"d@odata.type":"Edm.Boolean","e":1,"e@odata.type":"Edm.Int32",
                "e@odata.type@odata.type":"Edm.String"}"#,
            &[("e", Value::Int32(1))],
        );
    }

    #[test]
    fn a_key_may_be_empty_or_missing() {
        let incoming = Incoming::from_json(br#"{"PartitionKey":"","RowKey":null}"#).unwrap();
        assert_eq!(incoming.partition_key.as_deref(), Some(""));
        assert_eq!(incoming.row_key, None);
    }
}
