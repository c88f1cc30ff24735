//! Documents as extended JSON, version 2.
//!
//! Values look as in the relaxed form, which people read, where that keeps their type: 64-bit
//! integers do not, so they are written as in the canonical form. Whoever reads it gets the same
//! document back.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bson::{DateTime, RawArray, RawBsonRef, RawDocument};

/// The last moment that the relaxed form writes as a date: the end of the year 9999.
const LAST_DATE_MS: i64 = 253_402_300_799_999;

/// Appends a document; fails if its bytes are not one.
pub fn write_document(document: &RawDocument, out: &mut String) -> bson::error::Result<()> {
    out.push('{');
    for (place, field) in document.into_iter().enumerate() {
        let (name, value) = field?;
        if place > 0 {
            out.push(',');
        }
        write_text(name.as_str(), out);
        out.push(':');
        write_value(value, out)?;
    }
    out.push('}');
    Ok(())
}

fn write_array(array: &RawArray, out: &mut String) -> bson::error::Result<()> {
    out.push('[');
    for (place, value) in array.into_iter().enumerate() {
        if place > 0 {
            out.push(',');
        }
        write_value(value?, out)?;
    }
    out.push(']');
    Ok(())
}

fn write_value(value: RawBsonRef<'_>, out: &mut String) -> bson::error::Result<()> {
    // Writing into a text cannot fail.
    let _infallible = match value {
        RawBsonRef::Document(document) => return write_document(document, out),
        RawBsonRef::Array(array) => return write_array(array, out),
        RawBsonRef::JavaScriptCodeWithScope(code) => {
            out.push_str("{\"$code\":");
            write_text(code.code, out);
            out.push_str(",\"$scope\":");
            write_document(code.scope, out)?;
            out.write_char('}')
        }
        RawBsonRef::Null => out.write_str("null"),
        RawBsonRef::Boolean(truth) => write!(out, "{truth}"),
        RawBsonRef::Int32(number) => write!(out, "{number}"),
        RawBsonRef::Int64(number) => write!(out, "{{\"$numberLong\":\"{number}\"}}"),
        // Debug, unlike Display, writes a point or an exponent into every number.
        RawBsonRef::Double(number) if number.is_finite() => write!(out, "{number:?}"),
        RawBsonRef::Double(number) => {
            let name = match number {
                _ if number.is_nan() => "NaN",
                _ if number > 0.0 => "Infinity",
                _ => "-Infinity",
            };
            write!(out, "{{\"$numberDouble\":\"{name}\"}}")
        }
        RawBsonRef::Decimal128(number) => write!(out, "{{\"$numberDecimal\":\"{number}\"}}"),
        RawBsonRef::ObjectId(id) => write!(out, "{{\"$oid\":\"{}\"}}", id.to_hex()),
        RawBsonRef::DateTime(date) => write_date(date, out),
        RawBsonRef::Timestamp(time) => write!(
            out,
            "{{\"$timestamp\":{{\"t\":{},\"i\":{}}}}}",
            time.time, time.increment
        ),
        RawBsonRef::Binary(binary) => {
            let (bytes, subtype) = (STANDARD.encode(binary.bytes), u8::from(binary.subtype));
            write!(
                out,
                "{{\"$binary\":{{\"base64\":\"{bytes}\",\"subType\":\"{subtype:02x}\"}}}}"
            )
        }
        RawBsonRef::RegularExpression(regex) => {
            out.push_str("{\"$regularExpression\":{\"pattern\":");
            write_text(regex.pattern.as_str(), out);
            out.push_str(",\"options\":");
            write_text(regex.options.as_str(), out);
            out.write_str("}}")
        }
        RawBsonRef::String(text) => {
            write_text(text, out);
            Ok(())
        }
        RawBsonRef::Symbol(text) => write_named("$symbol", text, out),
        RawBsonRef::JavaScriptCode(code) => write_named("$code", code, out),
        RawBsonRef::Undefined => out.write_str("{\"$undefined\":true}"),
        RawBsonRef::MinKey => out.write_str("{\"$minKey\":1}"),
        RawBsonRef::MaxKey => out.write_str("{\"$maxKey\":1}"),
        pointer @ RawBsonRef::DbPointer(_) => {
            write_named("$dbPointer", &format!("{pointer:?}"), out)
        }
    };
    Ok(())
}

fn write_date(date: DateTime, out: &mut String) -> std::fmt::Result {
    let millis = date.timestamp_millis();
    let text = date.try_to_rfc3339_string().ok();
    match text.filter(|_| (0..=LAST_DATE_MS).contains(&millis)) {
        Some(text) => write_named("$date", &text, out),
        None => write!(out, "{{\"$date\":{{\"$numberLong\":\"{millis}\"}}}}"),
    }
}

fn write_named(name: &str, text: &str, out: &mut String) -> std::fmt::Result {
    write!(out, "{{\"{name}\":")?;
    write_text(text, out);
    out.write_char('}')
}

/// Appends a text as a string of JSON.
pub fn write_text(text: &str, out: &mut String) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            control if control < ' ' => {
                let _infallible = write!(out, "\\u{:04x}", u32::from(control));
            }
            other => out.push(other),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use bson::oid::ObjectId;
    use bson::spec::BinarySubtype;
    use bson::{Binary, Bson, RawDocumentBuf, Regex, Timestamp, doc};

    use super::*;

    fn check(value: Bson, expected: &str) {
        let document = RawDocumentBuf::try_from(&doc! { "a\"": value, "b": 1 }).unwrap();
        let mut out = String::new();
        write_document(&document, &mut out).unwrap();
        assert_eq!(out, format!("{{\"a\\\"\":{expected},\"b\":1}}"));
    }

    #[test]
    fn numbers_and_dates_are_written_so_that_they_read_back() {
        for (value, expected) in [
            (Bson::Int32(-7), "-7"),
            (Bson::Int64(7), "{\"$numberLong\":\"7\"}"),
            (Bson::Double(1.0), "1.0"),
            (Bson::Double(-0.0), "-0.0"),
            (Bson::Double(1e300), "1e300"),
            (Bson::Double(f64::NAN), "{\"$numberDouble\":\"NaN\"}"),
            (
                Bson::Double(f64::NEG_INFINITY),
                "{\"$numberDouble\":\"-Infinity\"}",
            ),
            (
                Bson::Decimal128("1.50".parse().unwrap()),
                "{\"$numberDecimal\":\"1.50\"}",
            ),
            (
                Bson::DateTime(DateTime::from_millis(1_500)),
                "{\"$date\":\"1970-01-01T00:00:01.5Z\"}",
            ),
            (
                Bson::DateTime(DateTime::from_millis(-1)),
                "{\"$date\":{\"$numberLong\":\"-1\"}}",
            ),
            (
                Bson::DateTime(DateTime::from_millis(LAST_DATE_MS + 1)),
                "{\"$date\":{\"$numberLong\":\"253402300800000\"}}",
            ),
        ] {
            check(value, expected);
        }
    }

    #[test]
    fn every_other_type_is_written_so_that_it_reads_back() {
        let binary = |subtype| Binary {
            subtype,
            bytes: vec![0, 255],
        };
        let id = ObjectId::parse_str("0123456789abcdef01234567").unwrap();
        let regex = Regex {
            pattern: "a\"b".try_into().unwrap(),
            options: "im".try_into().unwrap(),
        };
        for (value, expected) in [
            (Bson::Null, "null"),
            (Bson::Boolean(true), "true"),
            (
                Bson::ObjectId(id),
                "{\"$oid\":\"0123456789abcdef01234567\"}",
            ),
            (
                Bson::Timestamp(Timestamp {
                    time: 1,
                    increment: 2,
                }),
                "{\"$timestamp\":{\"t\":1,\"i\":2}}",
            ),
            (
                Bson::Binary(binary(BinarySubtype::Uuid)),
                "{\"$binary\":{\"base64\":\"AP8=\",\"subType\":\"04\"}}",
            ),
            (
                Bson::RegularExpression(regex),
                "{\"$regularExpression\":{\"pattern\":\"a\\\"b\",\"options\":\"im\"}}",
            ),
            (Bson::Symbol("s".into()), "{\"$symbol\":\"s\"}"),
            (Bson::JavaScriptCode("f()".into()), "{\"$code\":\"f()\"}"),
            (Bson::Undefined, "{\"$undefined\":true}"),
            (Bson::MinKey, "{\"$minKey\":1}"),
            (Bson::MaxKey, "{\"$maxKey\":1}"),
            (
                Bson::String("ä\"\\\n\u{1}".into()),
                "\"ä\\\"\\\\\\n\\u0001\"",
            ),
            (
                Bson::Array(vec![Bson::Int32(1), Bson::Document(doc! { "x": {} })]),
                "[1,{\"x\":{}}]",
            ),
        ] {
            check(value, expected);
        }
    }

    #[test]
    fn bytes_that_are_no_document_are_refused() {
        let document = RawDocumentBuf::try_from(&doc! { "a": [1, { "b": "text" }] }).unwrap();
        let mut bytes = document.into_bytes();
        // The length of the inner text.
        let place = bytes.windows(4).position(|part| part == b"text").unwrap();
        bytes[place - 4] = 0xff;
        let document = RawDocument::from_bytes(&bytes).unwrap();
        assert!(write_document(document, &mut String::new()).is_err());
    }
}
