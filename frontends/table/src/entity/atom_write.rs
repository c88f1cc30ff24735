//! Entities and tables in Atom, as the versions of the service before 2015-12-11 sent them.

use std::fmt::{self, Display, Write};
use std::io;

use base64::display::Base64Display;
use base64::engine::general_purpose::STANDARD;

use super::view::{EntityView, Field, Select};
use super::{DateTime, EntityLink, Etag, Origin, TableLink, Value, Writer};

const DECLARATION: &str = r#"<?xml version="1.0" encoding="utf-8" standalone="yes"?>"#;
const ATOM: &str = "http://www.w3.org/2005/Atom";
const DATA: &str = "http://schemas.microsoft.com/ado/2007/08/dataservices";

/// Writes the bodies of answers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AtomWriter<'a> {
    pub(crate) origin: Origin<'a>,
    /// The time of the answer.
    pub(crate) updated: DateTime,
}

impl Writer for AtomWriter<'_> {
    fn entity(
        &self,
        out: &mut Vec<u8>,
        table: &str,
        select: Option<&Select>,
        entity: &EntityView<'_>,
    ) {
        put(out, DECLARATION);
        put(out, "<entry");
        self.put_namespaces(out);
        self.put_entity(out, table, select, entity);
    }

    fn entities(
        &self,
        out: &mut Vec<u8>,
        table: &str,
        select: Option<&Select>,
        entities: &mut dyn Iterator<Item = EntityView<'_>>,
    ) {
        self.put_feed(out, table, entities, |out, entity| {
            self.put_entity(out, table, select, &entity);
        });
    }

    fn table(&self, out: &mut Vec<u8>, name: &str) {
        put(out, DECLARATION);
        put(out, "<entry");
        self.put_namespaces(out);
        self.put_table(out, name);
    }

    fn tables(&self, out: &mut Vec<u8>, names: &mut dyn Iterator<Item = &str>) {
        self.put_feed(out, "Tables", names, |out, name| self.put_table(out, name));
    }
}

impl AtomWriter<'_> {
    /// A feed. The callback continues after the name in the opening tag of each entry.
    fn put_feed<T>(
        self,
        out: &mut Vec<u8>,
        set: &str,
        items: impl Iterator<Item = T>,
        mut put_item: impl FnMut(&mut Vec<u8>, T),
    ) {
        put(out, DECLARATION);
        put(out, "<feed");
        self.put_namespaces(out);
        let (base, set, updated) = (Escaped(self.origin), Escaped(set), self.updated);
        put(
            out,
            format_args!(
                r#"><title type="text">{set}</title><id>{base}/{set}</id>
<updated>{updated}</updated><link rel="self" title="{set}" href="{set}" />"#
            ),
        );
        for item in items {
            put(out, "<entry");
            put_item(out, item);
        }
        put(out, "</feed>");
    }

    fn put_namespaces(self, out: &mut Vec<u8>) {
        let base = Escaped(self.origin);
        put(
            out,
            format_args!(
                r#" xml:base="{base}/" xmlns:d="{DATA}" xmlns:m="{DATA}/metadata" xmlns="{ATOM}""#
            ),
        );
    }

    fn put_entity(
        self,
        out: &mut Vec<u8>,
        table: &str,
        select: Option<&Select>,
        entity: &EntityView<'_>,
    ) {
        let etag = Escaped(Etag(entity.timestamp));
        put(out, format_args!(r#" m:etag="{etag}""#));
        let link = EntityLink {
            table,
            partition_key: entity.partition_key,
            row_key: entity.row_key,
        };
        self.put_entry(out, table, link, |out| {
            entity.for_each(select, |name, field| put_field(out, name, &field));
        });
    }

    fn put_table(self, out: &mut Vec<u8>, name: &str) {
        self.put_entry(out, "Tables", TableLink(name), |out| {
            put_string(out, "TableName", name);
        });
    }

    /// The rest of an entry, from the end of its opening tag.
    fn put_entry(
        self,
        out: &mut Vec<u8>,
        set: &str,
        link: impl Display,
        put_properties: impl FnOnce(&mut Vec<u8>),
    ) {
        let (base, account) = (Escaped(self.origin), Escaped(self.origin.account));
        let (set, link, updated) = (Escaped(set), Escaped(link), self.updated);
        put(
            out,
            format_args!(
                r#"><id>{base}/{link}</id><title type="text"></title><updated>{updated}</updated>
<author><name /></author><link rel="edit" title="{set}" href="{link}" />
<category term="{account}.{set}" scheme="{DATA}/scheme" />
<content type="application/xml"><m:properties>"#
            ),
        );
        put_properties(out);
        put(out, "</m:properties></content></entry>");
    }
}

fn put_field(out: &mut Vec<u8>, name: &str, field: &Field<'_>) {
    let value = match field {
        Field::Timestamp(moment) => return put_typed(out, name, "Edm.DateTime", moment),
        Field::Missing => {
            let name = Escaped(name);
            return put(out, format_args!(r#"<d:{name} m:null="true" />"#));
        }
        Field::Value(value) => value,
    };
    let edm = value.edm_name();
    match value {
        Value::String(text) => put_string(out, name, text),
        Value::Int32(value) => put_typed(out, name, edm, value),
        Value::Int64(value) => put_typed(out, name, edm, value),
        Value::Double(value) if value.is_nan() => put_typed(out, name, edm, "NaN"),
        Value::Double(f64::INFINITY) => put_typed(out, name, edm, "INF"),
        Value::Double(f64::NEG_INFINITY) => put_typed(out, name, edm, "-INF"),
        // Debug, unlike Display, has an exponent instead of hundreds of digits.
        Value::Double(value) => put_typed(out, name, edm, format_args!("{value:?}")),
        Value::Boolean(value) => put_typed(out, name, edm, value),
        Value::DateTime(moment) => put_typed(out, name, edm, moment.trimmed()),
        Value::Guid(guid) => put_typed(out, name, edm, guid),
        Value::Binary(bytes) => {
            put_typed(out, name, edm, Base64Display::new(bytes, &STANDARD));
        }
    }
}

fn put_typed(out: &mut Vec<u8>, name: &str, edm: &str, text: impl Display) {
    let (name, text) = (Escaped(name), Escaped(text));
    put(
        out,
        format_args!(r#"<d:{name} m:type="{edm}">{text}</d:{name}>"#),
    );
}

fn put_string(out: &mut Vec<u8>, name: &str, text: &str) {
    let bare = text.trim().len() == text.len();
    let space = if bare { "" } else { r#" xml:space="preserve""# };
    let (name, text) = (Escaped(name), Escaped(text));
    put(out, format_args!("<d:{name}{space}>{text}</d:{name}>"));
}

fn put(out: &mut Vec<u8>, markup: impl Display) {
    // Writing to memory cannot fail.
    io::Write::write_fmt(out, format_args!("{markup}")).ok();
}

/// Writes text as the content of an element or an attribute.
struct Escaped<T>(T);

impl<T: Display> Display for Escaped<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(EscapeWriter(f), "{}", self.0)
    }
}

struct EscapeWriter<'a, 'b>(&'a mut fmt::Formatter<'b>);

impl Write for EscapeWriter<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        // XML 1.0 has no way to write most controls; readers that take them take references.
        let special = |char: char| {
            matches!(char, '&' | '<' | '>' | '"')
                || (char.is_control() && !matches!(char, '\n' | '\t'))
        };
        let mut rest = text;
        while let Some((plain, tail)) = rest.find(special).and_then(|at| rest.split_at_checked(at))
        {
            self.0.write_str(plain)?;
            let mut chars = tail.chars();
            match chars.next() {
                Some('&') => self.0.write_str("&amp;")?,
                Some('<') => self.0.write_str("&lt;")?,
                Some('>') => self.0.write_str("&gt;")?,
                Some('"') => self.0.write_str("&quot;")?,
                Some(control) => write!(self.0, "&#x{:X};", u32::from(control))?,
                None => {}
            }
            rest = chars.as_str();
        }
        self.0.write_str(rest)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::entity::stored::tests::any_properties;
    use crate::entity::{Incoming, Stored, encode};

    const BASE: &str = "http://127.0.0.1:10002/acct";

    fn writer() -> AtomWriter<'static> {
        AtomWriter {
            origin: Origin {
                tls: false,
                host: "127.0.0.1:10002",
                account: "acct",
                path_style: true,
            },
            updated: DateTime::parse("2026-11-17").unwrap(),
        }
    }

    fn entity(properties: &[u8]) -> EntityView<'_> {
        EntityView {
            partition_key: "p<1",
            row_key: "it's",
            timestamp: DateTime::parse("2026-11-16T01:44:04.393788Z").unwrap(),
            properties: Stored::new(properties).unwrap(),
        }
    }

    fn check(write: impl FnOnce(&mut Vec<u8>), expected: &str) {
        let mut out = Vec::new();
        write(&mut out);
        let text = String::from_utf8(out).unwrap();
        let namespaces = format!(
            r#"xml:base="{BASE}/" xmlns:d="{DATA}" xmlns:m="{DATA}/metadata" xmlns="{ATOM}""#
        );
        let expected = expected
            .replace("\n        ", "\n")
            .replace("+\n", "")
            .replace("NAMESPACES", &namespaces)
            .replace("DATA", DATA);
        assert_eq!(text, expected);
    }

    #[test]
    fn one_entity() {
        let bytes = encode(&[
            ("s".to_owned(), Value::String("a & <b>\r".into())),
            ("i".to_owned(), Value::Int64(5)),
            ("d".to_owned(), Value::Double(f64::NEG_INFINITY)),
        ]);
        check(
            |out| writer().entity(out, "tab", None, &entity(&bytes)),
            r#"<?xml version="1.0" encoding="utf-8" standalone="yes"?>+
        <entry NAMESPACES m:etag="W/&quot;datetime'2026-11-16T01%3A44%3A04.3937880Z'&quot;">+
        <id>http://127.0.0.1:10002/acct/tab(PartitionKey='p%3C1',RowKey='it%27%27s')</id>+
        <title type="text"></title><updated>2026-11-17T00:00:00.0000000Z</updated>
        <author><name /></author>+
        <link rel="edit" title="tab" href="tab(PartitionKey='p%3C1',RowKey='it%27%27s')" />
        <category term="acct.tab" scheme="DATA/scheme" />
        <content type="application/xml"><m:properties>+
        <d:PartitionKey>p&lt;1</d:PartitionKey>+
        <d:RowKey>it's</d:RowKey>+
        <d:Timestamp m:type="Edm.DateTime">2026-11-16T01:44:04.3937880Z</d:Timestamp>+
        <d:s xml:space="preserve">a &amp; &lt;b&gt;&#xD;</d:s>+
        <d:i m:type="Edm.Int64">5</d:i>+
        <d:d m:type="Edm.Double">-INF</d:d>+
        </m:properties></content></entry>"#,
        );
    }

    #[test]
    fn a_selection_has_what_is_missing() {
        let bytes = encode(&[]);
        let select = Select::parse("x").unwrap();
        let mut out = Vec::new();
        writer().entity(&mut out, "tab", select.as_ref(), &entity(&bytes));
        let text = String::from_utf8(out).unwrap();
        let expected = r#"<m:properties><d:x m:null="true" /></m:properties>"#;
        assert!(text.contains(expected), "{text}");
    }

    #[test]
    fn a_feed_of_tables() {
        check(
            |out| writer().tables(out, &mut ["t"].into_iter()),
            r#"<?xml version="1.0" encoding="utf-8" standalone="yes"?>+
        <feed NAMESPACES><title type="text">Tables</title>+
        <id>http://127.0.0.1:10002/acct/Tables</id>
        <updated>2026-11-17T00:00:00.0000000Z</updated>+
        <link rel="self" title="Tables" href="Tables" />+
        <entry><id>http://127.0.0.1:10002/acct/Tables('t')</id>+
        <title type="text"></title><updated>2026-11-17T00:00:00.0000000Z</updated>
        <author><name /></author>+
        <link rel="edit" title="Tables" href="Tables('t')" />
        <category term="acct.Tables" scheme="DATA/scheme" />
        <content type="application/xml"><m:properties>+
        <d:TableName>t</d:TableName>+
        </m:properties></content></entry></feed>"#,
        );
    }

    #[test]
    fn one_table_is_a_document() {
        let mut out = Vec::new();
        writer().table(&mut out, "tab");
        let incoming = Incoming::from_atom(&out).unwrap();
        assert_eq!(incoming.into_table_name().as_deref(), Some("tab"));
    }

    #[test]
    fn a_feed_of_entities_has_an_entry_for_each() {
        let bytes = encode(&[]);
        let mut out = Vec::new();
        let mut entities = [entity(&bytes), entity(&bytes)].into_iter();
        writer().entities(&mut out, "tab", None, &mut entities);
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text.matches("<entry m:etag=").count(), 2);
        assert!(text.ends_with("</entry></feed>"), "{text}");
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(properties in any_properties()) {
            // XML 1.0 cannot hold it, not even as a reference.
            let holds = |value: &Value<'_>| !matches!(value, Value::String(s) if s.contains('\0'));
            prop_assume!(properties.iter().all(|property| holds(&property.1)));
            let bytes = encode(&properties);
            let mut out = Vec::new();
            writer().entity(&mut out, "tab", None, &entity(&bytes));
            let incoming = Incoming::from_atom(&out).unwrap();
            prop_assert_eq!(incoming.row_key.as_deref(), Some("it's"));
            prop_assert_eq!(incoming.properties, properties);
        }
    }
}
