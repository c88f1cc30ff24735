//! One value of a property, of one of the eight types of the data model.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use uuid::Uuid;

use super::DateTime;

/// A typed value. Borrows from stored bytes where it can.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value<'a> {
    String(Cow<'a, str>),
    Int32(i32),
    Int64(i64),
    Double(f64),
    Boolean(bool),
    DateTime(DateTime),
    Guid(Uuid),
    Binary(Cow<'a, [u8]>),
}

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EdmType {
    String,
    Int32,
    Int64,
    Double,
    Boolean,
    DateTime,
    Guid,
    Binary,
}

impl EdmType {
    const ALL: [Self; 8] = [
        Self::String,
        Self::Int32,
        Self::Int64,
        Self::Double,
        Self::Boolean,
        Self::DateTime,
        Self::Guid,
        Self::Binary,
    ];

    /// The type of a name such as `Edm.Int64`.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|edm| edm.name() == name)
    }

    /// The name that it has in requests and answers.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::String => "Edm.String",
            Self::Int32 => "Edm.Int32",
            Self::Int64 => "Edm.Int64",
            Self::Double => "Edm.Double",
            Self::Boolean => "Edm.Boolean",
            Self::DateTime => "Edm.DateTime",
            Self::Guid => "Edm.Guid",
            Self::Binary => "Edm.Binary",
        }
    }
}

impl<'a> Value<'a> {
    /// Reads the text that a value of this type has in requests; none if it is not of the type.
    pub(crate) fn parse(edm: EdmType, text: impl Into<Cow<'a, str>>) -> Option<Self> {
        let text = text.into();
        Some(match edm {
            EdmType::String => Self::String(text),
            EdmType::Int32 => Self::Int32(text.parse().ok()?),
            EdmType::Int64 => Self::Int64(text.parse().ok()?),
            EdmType::Double => Self::Double(parse_double(&text)?),
            EdmType::Boolean => Self::Boolean(parse_boolean(&text)?),
            EdmType::DateTime => Self::DateTime(DateTime::parse(&text)?),
            EdmType::Guid => Self::Guid(parse_guid(&text)?),
            EdmType::Binary => Self::Binary(Cow::Owned(STANDARD.decode(&*text).ok()?)),
        })
    }

    /// The same value, borrowing nothing.
    pub(crate) fn into_owned(self) -> Value<'static> {
        match self {
            Self::String(text) => Value::String(Cow::Owned(text.into_owned())),
            Self::Int32(value) => Value::Int32(value),
            Self::Int64(value) => Value::Int64(value),
            Self::Double(value) => Value::Double(value),
            Self::Boolean(value) => Value::Boolean(value),
            Self::DateTime(value) => Value::DateTime(value),
            Self::Guid(value) => Value::Guid(value),
            Self::Binary(bytes) => Value::Binary(Cow::Owned(bytes.into_owned())),
        }
    }

    /// Its type.
    pub(crate) fn edm_type(&self) -> EdmType {
        match self {
            Self::String(_) => EdmType::String,
            Self::Int32(_) => EdmType::Int32,
            Self::Int64(_) => EdmType::Int64,
            Self::Double(_) => EdmType::Double,
            Self::Boolean(_) => EdmType::Boolean,
            Self::DateTime(_) => EdmType::DateTime,
            Self::Guid(_) => EdmType::Guid,
            Self::Binary(_) => EdmType::Binary,
        }
    }

    /// The name of its type, such as `Edm.Int64`.
    pub(crate) fn edm_name(&self) -> &'static str {
        self.edm_type().name()
    }

    /// Its bytes as the service counts them: text is UTF-16.
    pub(crate) fn size(&self) -> usize {
        match self {
            Self::String(text) => utf16_bytes(text),
            Self::Int32(_) => 4,
            Self::Int64(_) | Self::Double(_) | Self::DateTime(_) => 8,
            Self::Boolean(_) => 1,
            Self::Guid(_) => 16,
            Self::Binary(bytes) => bytes.len(),
        }
    }
}

/// The size of a text in UTF-16.
pub(super) fn utf16_bytes(text: &str) -> usize {
    if text.is_ascii() {
        return text.len() * 2;
    }
    text.encode_utf16().count() * 2
}

/// NaN and the infinities have the names of JSON or those of XML.
fn parse_double(text: &str) -> Option<f64> {
    match text {
        "NaN" => return Some(f64::NAN),
        "Infinity" | "INF" => return Some(f64::INFINITY),
        "-Infinity" | "-INF" => return Some(f64::NEG_INFINITY),
        _ => {}
    }
    let numeric = |byte: &u8| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E');
    if !text.as_bytes().iter().all(numeric) {
        return None;
    }
    text.parse().ok().filter(|value: &f64| value.is_finite())
}

fn parse_boolean(text: &str) -> Option<bool> {
    if text.eq_ignore_ascii_case("true") {
        return Some(true);
    }
    text.eq_ignore_ascii_case("false").then_some(false)
}

/// Takes digits with dashes, without, and within braces.
fn parse_guid(text: &str) -> Option<Uuid> {
    if !matches!(text.len(), 32 | 36 | 38) {
        return None;
    }
    Uuid::try_parse(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(edm: EdmType, text: &str, expected: Option<Value<'_>>) {
        assert_eq!(Value::parse(edm, text), expected, "{edm:?} {text}");
    }

    #[test]
    fn texts_are_read_by_their_type() {
        check(EdmType::String, "", Some(Value::String("".into())));
        check(EdmType::Int32, "-31", Some(Value::Int32(-31)));
        check(EdmType::Int32, "-3.1", None);
        check(EdmType::Int32, "2147483648", None);
        check(
            EdmType::Int64,
            "9223372036854775807",
            Some(Value::Int64(i64::MAX)),
        );
        check(EdmType::Int64, "9223372036854775808", None);
        check(EdmType::Int64, " 1", None);
        check(EdmType::Boolean, "False", Some(Value::Boolean(false)));
        check(EdmType::Boolean, "true", Some(Value::Boolean(true)));
        check(EdmType::Boolean, "1", None);
        check(EdmType::DateTime, "", None);
        check(
            EdmType::Binary,
            "AAH/",
            Some(Value::Binary(Cow::Borrowed(&[0, 1, 255]))),
        );
        check(EdmType::Binary, "", Some(Value::Binary(Cow::Borrowed(&[]))));
        check(EdmType::Binary, "AAH", None);
        check(EdmType::Binary, "!", None);
    }

    #[test]
    fn doubles_have_three_names_and_an_end() {
        for (text, expected) in [
            ("0", 0.0),
            ("-1.5e3", -1500.0),
            ("1.797693134862315e308", 1.797_693_134_862_315e308),
            ("Infinity", f64::INFINITY),
            ("-Infinity", f64::NEG_INFINITY),
            ("INF", f64::INFINITY),
        ] {
            check(EdmType::Double, text, Some(Value::Double(expected)));
        }
        for text in [
            "",
            "inf",
            "nan",
            "infinity",
            "1.797693134862316e308",
            "1,5",
            "0x10",
        ] {
            check(EdmType::Double, text, None);
        }
        let Some(Value::Double(value)) = Value::parse(EdmType::Double, "NaN") else {
            panic!("NaN is refused");
        };
        assert!(value.is_nan());
    }

    #[test]
    fn guids_have_three_forms() {
        let guid = Uuid::from_u128(0xc9da_6455_213d_42c9_9a79_3e91_49a5_7833);
        for text in [
            "c9da6455-213d-42c9-9a79-3e9149a57833",
            "C9DA6455213D42C99A793E9149A57833",
            "{c9da6455-213d-42c9-9a79-3e9149a57833}",
        ] {
            check(EdmType::Guid, text, Some(Value::Guid(guid)));
        }
        for text in [
            "",
            "c9da6455",
            "c9da6455-213d-42c9-9a79-3e9149a5783g",
            "urn:uuid:c9da6455-213d-42c9-9a79-3e9149a57833",
        ] {
            check(EdmType::Guid, text, None);
        }
    }

    #[test]
    fn sizes_count_text_in_utf16() {
        for (value, expected) in [
            (Value::String("abc".into()), 6),
            (Value::String("\u{e9}\u{1d11e}".into()), 6),
            (Value::Binary(Cow::Borrowed(b"abc")), 3),
            (Value::Boolean(true), 1),
            (Value::Guid(Uuid::nil()), 16),
        ] {
            assert_eq!(value.size(), expected, "{value:?}");
        }
    }

    #[test]
    fn type_names_read_back() {
        for edm in EdmType::ALL {
            assert_eq!(EdmType::parse(edm.name()), Some(edm));
        }
        assert_eq!(EdmType::parse("Edm.Decimal"), None);
        assert_eq!(EdmType::parse("int64"), None);
        assert_eq!(Value::Int64(1).edm_name(), "Edm.Int64");
    }
}
