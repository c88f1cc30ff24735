//! Entities in Atom, as the versions of the service before 2015-12-11 took them.

use std::borrow::Cow;

use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::{BytesRef, BytesStart, Event};
use quick_xml::name::{Namespace, NamespaceResolver, ResolveResult};
use quick_xml::{NsReader, XmlVersion};

use super::EdmType;
use super::incoming::{Incoming, Members, Raw, unreadable};
use crate::error::Result;

/// The namespace of properties, without its scheme: clients write it with either.
const DATA: &str = "://schemas.microsoft.com/ado/2007/08/dataservices";
/// The namespace of their types.
const METADATA: &str = "://schemas.microsoft.com/ado/2007/08/dataservices/metadata";

/// An entry declares three.
const NAMESPACES_MAX: usize = 16;

impl Incoming {
    /// Reads the entry of a request: the children of its `m:properties`.
    pub(crate) fn from_atom(body: &[u8]) -> Result<Self> {
        let text = str::from_utf8(body).ok();
        let members = text.and_then(|text| read(text.trim_start_matches('\u{feff}')));
        let malformed = || unreadable("the body is no Atom entry with m:properties, in UTF-8");
        members.ok_or_else(malformed)?.finish()
    }
}

fn read(text: &str) -> Option<Members<'static>> {
    let mut reader = NsReader::from_str(text);
    reader.config_mut().expand_empty_elements = true;
    let resolver = reader.resolver_mut();
    resolver.set_max_namespace_bindings(NAMESPACES_MAX);
    let mut entry = Entry::default();
    loop {
        match reader.read_event().ok()? {
            Event::Start(element) => entry.start(reader.resolver(), &element)?,
            Event::End(_) => entry.end()?,
            Event::Text(text) => entry.text(&text.xml10_content()),
            Event::CData(text) => entry.text(&text.xml10_content()),
            Event::GeneralRef(reference) => entry.reference(&reference)?,
            Event::Eof => return entry.finish(),
            // It could define entities of its own.
            Event::DocType(_) => return None,
            Event::Empty(_) | Event::Comment(_) | Event::Decl(_) | Event::PI(_) => {}
        }
    }
}

/// An entry that is being read.
#[derive(Default)]
struct Entry {
    depth: usize,
    place: Place,
    members: Members<'static>,
}

#[derive(Default)]
enum Place {
    #[default]
    Before,
    Properties,
    Property(Property),
    After,
}

/// A property that is not complete yet.
#[derive(Default)]
struct Property {
    name: String,
    /// The name of its type, if there is one.
    edm: Option<String>,
    null: bool,
    text: String,
}

impl Entry {
    fn start(&mut self, resolver: &NamespaceResolver, element: &BytesStart<'_>) -> Option<()> {
        self.depth += 1;
        let (namespace, name) = resolver.resolve_element(element.name());
        match self.place {
            Place::Before if is(&namespace, METADATA) && name.as_ref() == "properties" => {
                self.place = Place::Properties;
            }
            Place::Before | Place::After => {}
            Place::Properties if is(&namespace, DATA) => {
                self.place = Place::Property(Property::new(resolver, element)?);
            }
            Place::Properties | Place::Property(_) => return None,
        }
        Some(())
    }

    fn end(&mut self) -> Option<()> {
        self.depth = self.depth.checked_sub(1)?;
        self.place = match std::mem::take(&mut self.place) {
            Place::Property(property) => {
                property.close(&mut self.members);
                Place::Properties
            }
            Place::Properties => Place::After,
            other => other,
        };
        Some(())
    }

    fn text(&mut self, text: &str) {
        if let Place::Property(property) = &mut self.place {
            property.text.push_str(text);
        }
    }

    fn reference(&mut self, reference: &BytesRef<'_>) -> Option<()> {
        match reference.resolve_char_ref().ok()? {
            Some(char) => self.text(char.encode_utf8(&mut [0; 4])),
            None => self.text(resolve_predefined_entity(reference)?),
        }
        Some(())
    }

    fn finish(self) -> Option<Members<'static>> {
        let whole = self.depth == 0 && matches!(self.place, Place::After);
        whole.then_some(self.members)
    }
}

impl Property {
    fn new(resolver: &NamespaceResolver, element: &BytesStart<'_>) -> Option<Self> {
        let mut property = Self {
            name: element.local_name().as_ref().to_owned(),
            ..Self::default()
        };
        // The reader's check for equal names is quadratic.
        for attribute in element.attributes().with_checks(false) {
            let attribute = attribute.ok()?;
            let (namespace, name) = resolver.resolve_attribute(attribute.key);
            if !is(&namespace, METADATA) {
                continue;
            }
            let value = attribute.normalized_value(XmlVersion::Implicit1_0).ok()?;
            match name.as_ref() {
                "type" => property.edm = Some(value.into_owned()),
                "null" => property.null = value == "true",
                _ => {}
            }
        }
        Some(property)
    }

    fn close(self, members: &mut Members<'static>) {
        let name = Cow::Owned(self.name);
        if self.null {
            members.value(name, Raw::Null);
            return;
        }
        let mut text = self.text;
        if let Some(edm) = self.edm {
            let edm = EdmType::parse(&edm);
            if edm != Some(EdmType::String) {
                text = text.trim().to_owned();
            }
            members.edm(Cow::clone(&name), edm);
        }
        members.value(name, Raw::Text(Cow::Owned(text)));
    }
}

fn is(found: &ResolveResult<'_>, namespace: &str) -> bool {
    let ResolveResult::Bound(Namespace(found)) = found else {
        return false;
    };
    let schemeless = found.strip_prefix("https").or(found.strip_prefix("http"));
    schemeless == Some(namespace)
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::entity::{DateTime, Value};
    use crate::error::Code;

    /// An entry as clients send it, with these elements for properties.
    fn entry(properties: &str) -> String {
        format!(
            r#"<?xml version="1.0" encoding="utf-8" standalone="yes"?>
<entry xmlns:d="http://schemas.microsoft.com/ado/2007/08/dataservices"
       xmlns:m="http://schemas.microsoft.com/ado/2007/08/dataservices/metadata"
       xmlns="http://www.w3.org/2005/Atom">
  <title />
  <updated>2013-09-18T23:46:19.3857256Z</updated>
  <author><name /></author>
  <id />
  <content type="application/xml"><m:properties>{properties}</m:properties></content>
</entry>"#
        )
    }

    fn check(properties: &str, expected: &[(&str, Value<'_>)]) {
        let incoming = Incoming::from_atom(entry(properties).as_bytes());
        let incoming = incoming.unwrap_or_else(|refusal| panic!("{properties}: {refusal:?}"));
        let found: Vec<_> = incoming.properties.iter().map(|(n, v)| (&**n, v)).collect();
        let expected: Vec<_> = expected.iter().map(|(n, v)| (*n, v)).collect();
        assert_eq!(found, expected, "{properties}");
    }

    fn check_refused(body: &str, code: Code) {
        let refusal = Incoming::from_atom(body.as_bytes()).expect_err(body);
        assert_eq!(refusal.code, code, "{body}");
    }

    #[test]
    fn reads_what_a_client_sends() {
        let properties = r#"
          <d:Address>Mountain View</d:Address>
          <d:Age m:type="Edm.Int32"> 23 </d:Age>
          <d:AmountDue m:type="Edm.Double">200.23</d:AmountDue>
          <d:BinaryData m:type="Edm.Binary" m:null="true" />
          <d:Since m:type="Edm.DateTime">2008-07-10T00:00:00</d:Since>
          <d:Until m:type="Edm.DateTime" m:null="true" />
          <d:Code m:type="Edm.Guid">00000000-0000-0000-0000-000000000001</d:Code>
          <d:IsActive m:type="Edm.Boolean">true</d:IsActive>
          <d:Orders m:type="Edm.Int64">255</d:Orders>
          <d:PartitionKey>p</d:PartitionKey>
          <d:RowKey></d:RowKey>
          <d:Timestamp m:type="Edm.DateTime">0001-01-01T00:00:00</d:Timestamp>"#;
        let since = DateTime::parse("2008-07-10T00:00:00Z").unwrap();
        check(
            properties,
            &[
                ("Address", Value::String("Mountain View".into())),
                ("Age", Value::Int32(23)),
                ("AmountDue", Value::Double(200.23)),
                ("Since", Value::DateTime(since)),
                ("Code", Value::Guid(Uuid::from_u128(1))),
                ("IsActive", Value::Boolean(true)),
                ("Orders", Value::Int64(255)),
            ],
        );
        let incoming = Incoming::from_atom(entry(properties).as_bytes()).unwrap();
        assert_eq!(incoming.partition_key.as_deref(), Some("p"));
        assert_eq!(incoming.row_key.as_deref(), Some(""));
    }

    #[test]
    fn text_is_kept_as_it_is() {
        check(
            "<d:a> &lt;b&gt; &amp; &#x41;&#66;<!-- no --><![CDATA[<c>]]>\t</d:a><d:b/>",
            &[
                ("a", Value::String(" <b> & AB<c>\t".into())),
                ("b", Value::String("".into())),
            ],
        );
    }

    #[test]
    fn refuses_what_is_no_entry() {
        let whole = entry("<d:a>1</d:a>");
        for body in [
            "",
            "text",
            "<entry/>",
            "{}",
            &whole.replace("</entry>", ""),
            &whole.replace("</d:a>", "</d:b>"),
            &whole.replace(
                "standalone=\"yes\"?>",
                "?><!DOCTYPE entry [<!ENTITY x 'y'>]>",
            ),
            &entry("<d:a><d:b/></d:a>"),
            &entry("<a>1</a>"),
            &entry("<d:a>&x;</d:a>"),
            &entry(r#"<d:a m:type="Edm.Decimal">1</d:a>"#),
            &entry(r#"<d:a m:type="Edm.Int32">x</d:a>"#),
            &"<a>".repeat(100_000),
        ] {
            check_refused(body, Code::InvalidInput);
        }
        let twice = entry("<d:a>1</d:a><d:a>1</d:a>");
        check_refused(&twice, Code::DuplicatePropertiesSpecified);
    }

    #[test]
    fn every_beginning_of_an_entry_is_refused() {
        let whole = entry("<d:a m:type='Edm.Int32'>1</d:a>");
        for length in 0..whole.len() {
            let body = whole.as_bytes().get(..length).unwrap();
            assert!(Incoming::from_atom(body).is_err(), "{length}");
        }
    }
}
