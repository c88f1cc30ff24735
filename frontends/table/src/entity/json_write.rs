//! Entities and tables in JSON, at the three levels of metadata.

use std::fmt::{self, Display, Write};
use std::io;

use base64::display::Base64Display;
use base64::engine::general_purpose::STANDARD;

use super::datetime::LENGTH;
use super::view::{EntityView, Field, PARTITION_KEY, ROW_KEY, Select};
use super::{EntityLink, Etag, Origin, TableLink, Value, Writer};

/// The level of control information in an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Metadata {
    /// Names and values only.
    None,
    /// Types that do not follow from the values.
    Minimal,
    /// Addresses and types of everything.
    Full,
}

/// Writes the bodies of answers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JsonWriter<'a> {
    pub(crate) origin: Origin<'a>,
    pub(crate) metadata: Metadata,
}

impl Writer for JsonWriter<'_> {
    fn entity(
        &self,
        out: &mut Vec<u8>,
        table: &str,
        select: Option<&Select>,
        entity: &EntityView<'_>,
    ) {
        out.push(b'{');
        self.put_context(out, format_args!("{table}/@Element"));
        self.put_entity(out, table, select, entity);
        out.push(b'}');
    }

    fn entities(
        &self,
        out: &mut Vec<u8>,
        table: &str,
        select: Option<&Select>,
        entities: &mut dyn Iterator<Item = EntityView<'_>>,
    ) {
        self.put_list(out, table, entities, |out, entity| {
            self.put_entity(out, table, select, &entity);
        });
    }

    fn table(&self, out: &mut Vec<u8>, name: &str) {
        out.push(b'{');
        self.put_context(out, "Tables/@Element");
        self.put_table(out, name);
        out.push(b'}');
    }

    fn tables(&self, out: &mut Vec<u8>, names: &mut dyn Iterator<Item = &str>) {
        self.put_list(out, "Tables", names, |out, name| self.put_table(out, name));
    }
}

/// An entity outside of an answer: with the types and the etag of minimal metadata, and without
/// addresses.
pub(crate) fn plain_json(entity: &EntityView<'_>) -> String {
    let writer = JsonWriter {
        origin: Origin {
            tls: false,
            host: "",
            account: "",
            path_style: false,
        },
        metadata: Metadata::Minimal,
    };
    let mut out = Vec::with_capacity(entity.room());
    out.push(b'{');
    writer.put_entity(&mut out, "", None, entity);
    out.push(b'}');
    String::from_utf8(out).unwrap_or_default()
}

/// The keys of an entity alone.
pub(crate) fn key_json(partition_key: &str, row_key: &str) -> String {
    let mut out = vec![b'{'];
    put_text(&mut out, PARTITION_KEY, partition_key);
    put_text(&mut out, ROW_KEY, row_key);
    out.push(b'}');
    String::from_utf8(out).unwrap_or_default()
}

impl JsonWriter<'_> {
    fn put_list<T>(
        self,
        out: &mut Vec<u8>,
        set: &str,
        items: impl Iterator<Item = T>,
        mut put: impl FnMut(&mut Vec<u8>, T),
    ) {
        out.push(b'{');
        self.put_context(out, set);
        put_name(out, "value");
        out.push(b'[');
        for (index, item) in items.enumerate() {
            if index > 0 {
                out.push(b',');
            }
            out.push(b'{');
            put(out, item);
            out.push(b'}');
        }
        out.extend_from_slice(b"]}");
    }

    fn put_context(self, out: &mut Vec<u8>, set: impl Display) {
        if self.metadata != Metadata::None {
            let base = self.origin;
            put_shown(
                out,
                "odata.metadata",
                format_args!("{base}/$metadata#{set}"),
            );
        }
    }

    fn put_entity(
        self,
        out: &mut Vec<u8>,
        table: &str,
        select: Option<&Select>,
        entity: &EntityView<'_>,
    ) {
        let link = EntityLink {
            table,
            partition_key: entity.partition_key,
            row_key: entity.row_key,
        };
        if self.metadata == Metadata::Full {
            self.put_address(out, table, link);
        }
        if self.metadata != Metadata::None {
            put_shown(out, "odata.etag", Etag(entity.timestamp));
        }
        if self.metadata == Metadata::Full {
            put_shown(out, "odata.editLink", link);
        }
        entity.for_each(select, |name, field| self.put_field(out, name, &field));
    }

    fn put_table(self, out: &mut Vec<u8>, name: &str) {
        if self.metadata == Metadata::Full {
            self.put_address(out, "Tables", TableLink(name));
            put_shown(out, "odata.editLink", TableLink(name));
        }
        put_text(out, "TableName", name);
    }

    fn put_address(self, out: &mut Vec<u8>, set: &str, link: impl Display) {
        let (base, account) = (self.origin, self.origin.account);
        put_shown(out, "odata.type", format_args!("{account}.{set}"));
        put_shown(out, "odata.id", format_args!("{base}/{link}"));
    }

    fn put_field(self, out: &mut Vec<u8>, name: &str, field: &Field<'_>) {
        match field {
            Field::Timestamp(moment) => {
                if self.metadata == Metadata::Full {
                    put_type(out, name, "Edm.DateTime");
                }
                put_name(out, name);
                // Every entity has one, and nothing in it is escaped.
                out.push(b'"');
                out.extend_from_slice(&moment.ascii());
                out.push(b'"');
            }
            Field::Value(value) => {
                if self.metadata != Metadata::None && !is_evident(value) {
                    put_type(out, name, value.edm_name());
                }
                put_value(out, name, value);
            }
            Field::Missing => {
                put_name(out, name);
                out.extend_from_slice(b"null");
            }
        }
    }
}

/// Whether the type follows from the value in JSON.
fn is_evident(value: &Value<'_>) -> bool {
    match value {
        Value::String(_) | Value::Int32(_) | Value::Boolean(_) => true,
        Value::Double(value) => value.is_finite(),
        Value::Int64(_) | Value::DateTime(_) | Value::Guid(_) | Value::Binary(_) => false,
    }
}

fn put_value(out: &mut Vec<u8>, name: &str, value: &Value<'_>) {
    match value {
        Value::String(text) => put_text(out, name, text),
        Value::Int32(value) => put_plain(out, name, value),
        Value::Int64(value) => put_shown(out, name, value),
        // Debug, unlike Display, writes a point or an exponent into every number.
        Value::Double(value) if value.is_finite() => {
            put_plain(out, name, format_args!("{value:?}"));
        }
        Value::Double(value) if value.is_nan() => put_text(out, name, "NaN"),
        Value::Double(value) if *value > 0.0 => put_text(out, name, "Infinity"),
        Value::Double(_) => put_text(out, name, "-Infinity"),
        Value::Boolean(value) => {
            put_name(out, name);
            let text = if *value { "true" } else { "false" };
            out.extend_from_slice(text.as_bytes());
        }
        Value::DateTime(moment) => put_text(out, name, moment.trimmed().text(&mut [0; LENGTH])),
        Value::Guid(guid) => put_shown(out, name, guid),
        Value::Binary(bytes) => put_shown(out, name, Base64Display::new(bytes, &STANDARD)),
    }
}

fn put_type(out: &mut Vec<u8>, name: &str, edm: &str) {
    put_comma(out);
    put_quoted_shown(out, format_args!("{name}@odata.type"));
    out.push(b':');
    put_quoted(out, edm);
}

/// A text.
fn put_text(out: &mut Vec<u8>, name: &str, text: &str) {
    put_name(out, name);
    put_quoted(out, text);
}

/// A formatted text.
fn put_shown(out: &mut Vec<u8>, name: &str, text: impl Display) {
    put_name(out, name);
    put_quoted_shown(out, text);
}

/// A value that needs no quotes.
fn put_plain(out: &mut Vec<u8>, name: &str, value: impl Display) {
    put_name(out, name);
    // Writing to memory cannot fail.
    io::Write::write_fmt(out, format_args!("{value}")).ok();
}

fn put_name(out: &mut Vec<u8>, name: &str) {
    put_comma(out);
    put_quoted(out, name);
    out.push(b':');
}

/// Every member but the first of its object has a comma before it.
fn put_comma(out: &mut Vec<u8>) {
    if out.last() != Some(&b'{') {
        out.push(b',');
    }
}

fn put_quoted(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    put_escaped(out, text);
    out.push(b'"');
}

fn put_quoted_shown(out: &mut Vec<u8>, text: impl Display) {
    out.push(b'"');
    write!(Escaped(out), "{text}").ok();
    out.push(b'"');
}

/// Writes text as the inside of a JSON string.
struct Escaped<'a>(&'a mut Vec<u8>);

impl Write for Escaped<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        put_escaped(self.0, text);
        Ok(())
    }
}

fn put_escaped(out: &mut Vec<u8>, text: &str) {
    let mut rest = text.as_bytes();
    loop {
        let (plain, special) = rest.split_at(plain_length(rest));
        out.extend_from_slice(plain);
        let Some((byte, tail)) = special.split_first() else {
            return;
        };
        put_escape(out, *byte);
        rest = tail;
    }
}

/// How many bytes come before the first that must be escaped.
fn plain_length(text: &[u8]) -> usize {
    const BLOCK: usize = 32;
    const WORD: usize = 8;
    // Nearly all texts are plain, and a whole block is checked as quickly as one byte.
    let (blocks, _) = text.as_chunks::<BLOCK>();
    let is_plain = |block: &&[u8; BLOCK]| {
        !block
            .iter()
            .fold(false, |any, byte| any | is_special(*byte))
    };
    let in_blocks = blocks.iter().take_while(is_plain).count() * BLOCK;
    let (words, _) = text
        .get(in_blocks..)
        .unwrap_or_default()
        .as_chunks::<WORD>();
    let in_words = words.iter().take_while(|word| !has_special(**word)).count() * WORD;
    let length = in_blocks + in_words;
    let rest = text.get(length..).unwrap_or_default().iter();
    length + rest.take_while(|byte| !is_special(**byte)).count()
}

/// Without branches, so that many bytes are checked at once.
fn is_special(byte: u8) -> bool {
    (byte < 0x20) | (byte == b'"') | (byte == b'\\')
}

/// Whether any of eight bytes is special: a difference of one that is less than it should be
/// borrows, and so sets the highest bit of its byte.
fn has_special(word: [u8; 8]) -> bool {
    const EACH: u64 = 0x0101_0101_0101_0101;
    let word = u64::from_le_bytes(word);
    let is_any_below = |word: u64, least: u64| word.wrapping_sub(EACH * least) & !word;
    let is_any = |byte: u8| is_any_below(word ^ (EACH * u64::from(byte)), 1);
    let found = is_any_below(word, 0x20) | is_any(b'"') | is_any(b'\\');
    found & (EACH * 0x80) != 0
}

fn put_escape(out: &mut Vec<u8>, byte: u8) {
    let short = match byte {
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        b'"' | b'\\' => byte,
        _ => {
            io::Write::write_fmt(out, format_args!("\\u{byte:04x}")).ok();
            return;
        }
    };
    out.extend_from_slice(&[b'\\', short]);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use uuid::Uuid;

    use super::*;
    use crate::entity::stored::tests::any_properties;
    use crate::entity::{DateTime, Incoming, Stored, encode};

    #[test]
    fn special_bytes_are_found_wherever_they_are() {
        for special in (0..=u8::MAX).filter(|byte| is_special(*byte)) {
            for length in (1..20).chain([32, 39, 40, 41, 77]) {
                for place in 0..length {
                    for other in [b' ', b'!', b'#', b'[', b']', 0x7f, 0x80, 0xa0, 0xff] {
                        let mut text = vec![other; length];
                        assert_eq!(plain_length(&text), length, "{other}");
                        text[place] = special;
                        assert_eq!(plain_length(&text), place, "{special} {other} {length}");
                    }
                }
            }
        }
        for byte in (0..=u8::MAX).filter(|byte| !is_special(*byte)) {
            assert!(!has_special([byte; 8]), "{byte}");
        }
    }

    const BASE: &str = "http://127.0.0.1:10002/devstoreaccount1";

    fn writer(metadata: Metadata) -> JsonWriter<'static> {
        let origin = Origin {
            tls: false,
            host: "127.0.0.1:10002",
            account: "devstoreaccount1",
            path_style: true,
        };
        JsonWriter { origin, metadata }
    }

    fn moment() -> DateTime {
        DateTime::parse("2026-11-16T01:44:04.393788Z").unwrap()
    }

    fn entity(properties: &[u8]) -> EntityView<'_> {
        EntityView {
            partition_key: "pk1",
            row_key: "it's",
            timestamp: moment(),
            properties: Stored::new(properties).unwrap(),
        }
    }

    fn every_type() -> Vec<(String, Value<'static>)> {
        [
            ("s", Value::String("te\"x\u{1}t\n\u{e9}".into())),
            ("i32", Value::Int32(5)),
            ("i64", Value::Int64(1_099_511_627_776)),
            ("d", Value::Double(1.0)),
            ("big", Value::Double(1e300)),
            ("n", Value::Double(f64::NAN)),
            ("b", Value::Boolean(true)),
            ("bin", Value::Binary(vec![0, 1, 255].into())),
            ("g", Value::Guid(Uuid::from_u128(1))),
            ("dt", Value::DateTime(moment())),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .to_vec()
    }

    fn check(metadata: Metadata, select: &str, expected: &str) {
        let bytes = encode(&every_type());
        let select = Select::parse(select).unwrap();
        let mut out = Vec::new();
        writer(metadata).entity(&mut out, "tab", select.as_ref(), &entity(&bytes));
        let text = String::from_utf8(out).unwrap();
        assert_eq!(
            text,
            expected.replace("\n            ", "").replace("BASE", BASE)
        );
        serde_json::from_str::<serde_json::Value>(&text).unwrap();
    }

    #[test]
    fn without_metadata() {
        check(
            Metadata::None,
            "",
            r#"{"PartitionKey":"pk1","RowKey":"it's","Timestamp":"2026-11-16T01:44:04.3937880Z",
            "s":"te\"x\u0001t\n\u00e9","i32":5,"i64":"1099511627776","d":1.0,"big":1e300,
            "n":"NaN","b":true,"bin":"AAH/","g":"00000000-0000-0000-0000-000000000001",
            "dt":"2026-11-16T01:44:04.393788Z"}"#
                .replace("\\u00e9", "\u{e9}")
                .as_str(),
        );
    }

    #[test]
    fn with_minimal_metadata() {
        check(
            Metadata::Minimal,
            "",
            r#"{"odata.metadata":"BASE/$metadata#tab/@Element",
            "odata.etag":"W/\"datetime'2026-11-16T01%3A44%3A04.3937880Z'\"",
            "PartitionKey":"pk1","RowKey":"it's","Timestamp":"2026-11-16T01:44:04.3937880Z",
            "s":"te\"x\u0001t\n\u00e9","i32":5,
            "i64@odata.type":"Edm.Int64","i64":"1099511627776","d":1.0,"big":1e300,
            "n@odata.type":"Edm.Double","n":"NaN","b":true,
            "bin@odata.type":"Edm.Binary","bin":"AAH/",
            "g@odata.type":"Edm.Guid","g":"00000000-0000-0000-0000-000000000001",
            "dt@odata.type":"Edm.DateTime","dt":"2026-11-16T01:44:04.393788Z"}"#
                .replace("\\u00e9", "\u{e9}")
                .as_str(),
        );
    }

    #[test]
    fn with_full_metadata_and_a_selection() {
        check(
            Metadata::Full,
            "Timestamp,i32,missing,i64",
            r#"{"odata.metadata":"BASE/$metadata#tab/@Element",
            "odata.type":"devstoreaccount1.tab",
            "odata.id":"BASE/tab(PartitionKey='pk1',RowKey='it%27%27s')",
            "odata.etag":"W/\"datetime'2026-11-16T01%3A44%3A04.3937880Z'\"",
            "odata.editLink":"tab(PartitionKey='pk1',RowKey='it%27%27s')",
            "Timestamp@odata.type":"Edm.DateTime","Timestamp":"2026-11-16T01:44:04.3937880Z",
            "i32":5,"missing":null,"i64@odata.type":"Edm.Int64","i64":"1099511627776"}"#,
        );
    }

    #[test]
    fn lists_of_entities() {
        let bytes = encode(&every_type());
        let select = Select::parse("RowKey").unwrap();
        let list = |metadata, count| {
            let mut out = Vec::new();
            let mut entities = std::iter::repeat_n(entity(&bytes), count);
            writer(metadata).entities(&mut out, "tab", select.as_ref(), &mut entities);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(list(Metadata::None, 0), r#"{"value":[]}"#);
        assert_eq!(
            list(Metadata::None, 2),
            r#"{"value":[{"RowKey":"it's"},{"RowKey":"it's"}]}"#
        );
        let etag = r#""odata.etag":"W/\"datetime'2026-11-16T01%3A44%3A04.3937880Z'\"""#;
        let context = format!(r#""odata.metadata":"{BASE}/$metadata#tab""#);
        assert_eq!(
            list(Metadata::Minimal, 1),
            format!(r#"{{{context},"value":[{{{etag},"RowKey":"it's"}}]}}"#)
        );
    }

    #[test]
    fn tables() {
        let check = |metadata, expected: &str| {
            let mut out = Vec::new();
            writer(metadata).table(&mut out, "tab");
            writer(metadata).tables(&mut out, &mut ["a", "b"].into_iter());
            let expected = expected.replace("\n            ", "").replace("BASE", BASE);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        };
        check(
            Metadata::None,
            r#"{"TableName":"tab"}{"value":[{"TableName":"a"},{"TableName":"b"}]}"#,
        );
        check(
            Metadata::Minimal,
            r#"{"odata.metadata":"BASE/$metadata#Tables/@Element","TableName":"tab"}
            {"odata.metadata":"BASE/$metadata#Tables",
            "value":[{"TableName":"a"},{"TableName":"b"}]}"#,
        );
        check(
            Metadata::Full,
            r#"{"odata.metadata":"BASE/$metadata#Tables/@Element",
            "odata.type":"devstoreaccount1.Tables","odata.id":"BASE/Tables('tab')",
            "odata.editLink":"Tables('tab')","TableName":"tab"}
            {"odata.metadata":"BASE/$metadata#Tables","value":[
            {"odata.type":"devstoreaccount1.Tables","odata.id":"BASE/Tables('a')",
            "odata.editLink":"Tables('a')","TableName":"a"},
            {"odata.type":"devstoreaccount1.Tables","odata.id":"BASE/Tables('b')",
            "odata.editLink":"Tables('b')","TableName":"b"}]}"#,
        );
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(properties in any_properties()) {
            let bytes = encode(&properties);
            let mut out = Vec::new();
            writer(Metadata::Minimal).entity(&mut out, "tab", None, &entity(&bytes));
            let incoming = Incoming::from_json(&out).unwrap();
            prop_assert_eq!(incoming.partition_key.as_deref(), Some("pk1"));
            prop_assert_eq!(incoming.row_key.as_deref(), Some("it's"));
            prop_assert_eq!(incoming.properties, properties);
        }
    }
}
