//! The XML of the service as a small tree, read without recursion, and its few forms of writing.
//!
//! The service's documents are flat and short: deep or long ones are refused, and so are document
//! types, which define entities.

use quick_xml::Reader;
use quick_xml::escape::{escape, resolve_xml_entity};
use quick_xml::events::{BytesRef, Event};

use crate::error::{Code, Result, ServiceError};

/// No document of the service goes deeper than four.
const DEPTH_MAX: usize = 8;
/// The longest document that is accepted has about seventy.
const ELEMENTS_MAX: usize = 256;

/// An element, its text and the elements in it. Attributes mean nothing to the service.
#[derive(Debug, Default)]
pub(super) struct Element {
    name: String,
    text: String,
    children: Vec<Self>,
}

impl Element {
    /// Reads a document whose root has this name.
    pub(super) fn read(body: &[u8], root: &str) -> Result<Self> {
        parse(body)
            .filter(|element| element.name == root)
            .ok_or_else(|| {
                let why = format!("the document must be a short <{root}> in UTF-8");
                Code::InvalidXmlDocument.because(why)
            })
    }

    /// The text of an element without children.
    pub(super) fn text(&self) -> Result<&str> {
        match self.children.as_slice() {
            [] => Ok(self.text.trim()),
            [_, ..] => {
                let why = format!("<{}> holds text and no elements", self.name);
                Err(Code::InvalidXmlDocument.because(why))
            }
        }
    }

    /// The refusal of its text.
    pub(super) fn wrong_value(&self) -> ServiceError {
        let why = format!("<{}> is '{}'", self.name, self.text.trim());
        Code::InvalidXmlNodeValue.because(why)
    }

    /// The children with these names; refuses others and repetitions.
    pub(super) fn fields<const N: usize>(&self, names: [&str; N]) -> Result<[Option<&Self>; N]> {
        let mut fields = [None; N];
        for child in &self.children {
            let at = names.iter().position(|name| *name == child.name);
            let field = at.and_then(|at| fields.get_mut(at));
            match field {
                Some(field @ None) => *field = Some(child),
                Some(Some(_)) | None => {
                    let (child, parent) = (&child.name, &self.name);
                    let why = format!("<{child}> cannot be in <{parent}>, or not twice");
                    return Err(Code::InvalidXmlDocument.because(why));
                }
            }
        }
        Ok(fields)
    }

    /// The children, all of this name and at most this many.
    pub(super) fn list(&self, name: &str, most: usize) -> Result<&[Self]> {
        if self.children.len() > most || self.children.iter().any(|child| child.name != name) {
            let why = format!(
                "<{}> holds at most {most} <{name}>, and nothing else",
                self.name
            );
            return Err(Code::InvalidXmlDocument.because(why));
        }
        Ok(&self.children)
    }
}

/// An element that must be there.
pub(super) fn required(element: Option<&Element>) -> Result<&Element> {
    let why = "an element that must be there is missing";
    element.ok_or_else(|| Code::InvalidXmlDocument.because(why))
}

/// Reads the root, with `open` holding the elements around the place that is read.
fn parse(body: &[u8]) -> Option<Element> {
    let mut reader = Reader::from_str(str::from_utf8(body).ok()?);
    let mut open: Vec<Element> = Vec::new();
    let mut root = None;
    let mut elements = 0;
    loop {
        let event = reader.read_event().ok()?;
        let closed = match event {
            Event::Start(ref start) | Event::Empty(ref start) => {
                elements += 1;
                if root.is_some() || elements > ELEMENTS_MAX || open.len() == DEPTH_MAX {
                    return None;
                }
                open.push(Element {
                    name: start.name().as_ref().to_owned(),
                    ..Element::default()
                });
                matches!(event, Event::Empty(_))
            }
            Event::End(_) => true,
            Event::Text(text) => {
                append(&mut open, &text.xml10_content())?;
                false
            }
            Event::CData(text) => {
                append(&mut open, &text.xml10_content())?;
                false
            }
            Event::GeneralRef(reference) => {
                append(&mut open, &resolve(&reference)?)?;
                false
            }
            Event::DocType(_) => return None,
            Event::Comment(_) | Event::Decl(_) | Event::PI(_) => false,
            Event::Eof => break,
        };
        if closed {
            let element = close(open.pop()?)?;
            match open.last_mut() {
                Some(parent) => parent.children.push(element),
                None => root = Some(element),
            }
        }
    }
    if open.is_empty() { root } else { None }
}

/// Adds to the text of the innermost element. Outside of the root only white space is allowed.
fn append(open: &mut [Element], text: &str) -> Option<()> {
    let legal = |c: char| c >= ' ' || matches!(c, '\t' | '\n' | '\r');
    match open.last_mut() {
        Some(element) => {
            element.text.push_str(text);
            text.chars().all(legal).then_some(())
        }
        None => text.trim().is_empty().then_some(()),
    }
}

/// Elements hold either text or other elements.
fn close(element: Element) -> Option<Element> {
    let clear = element.children.is_empty() || element.text.trim().is_empty();
    clear.then_some(element)
}

fn resolve(reference: &BytesRef<'_>) -> Option<String> {
    match reference.resolve_char_ref().ok()? {
        Some(character) => Some(character.to_string()),
        None => resolve_xml_entity(reference).map(str::to_owned),
    }
}

/// A document: what `content` writes, in a root of this name.
pub(super) fn document(root: &str, content: impl FnOnce(&mut String)) -> Vec<u8> {
    let mut out = String::from(r#"<?xml version="1.0" encoding="utf-8"?>"#);
    nest(&mut out, root, content);
    out.into_bytes()
}

/// Writes an element around what `content` writes.
pub(super) fn nest(out: &mut String, name: &str, content: impl FnOnce(&mut String)) {
    out.extend(["<", name, ">"]);
    content(out);
    out.extend(["</", name, ">"]);
}

/// Writes an element with text.
pub(super) fn leaf(out: &mut String, name: &str, text: &str) {
    nest(out, name, |out| out.push_str(&escape(text)));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The tree in short: names, texts in quotes, children in brackets.
    fn summary(element: &Element) -> String {
        let children: Vec<_> = element.children.iter().map(summary).collect();
        match children.as_slice() {
            [] => format!("{}'{}'", element.name, element.text.trim()),
            children => format!("{}[{}]", element.name, children.join(" ")),
        }
    }

    fn check(text: &str, expected: Option<&str>) {
        let element = parse(text.as_bytes());
        assert_eq!(element.as_ref().map(summary).as_deref(), expected, "{text}");
    }

    #[test]
    fn reads_elements() {
        check("<a/>", Some("a''"));
        check(
            "\u{feff}<?xml version='1.0'?>\n<a>\n <b> x </b>\n <c></c></a>\n",
            Some("a[b'x' c'']"),
        );
        check(
            "<a x='1'><!-- no --><b>1<![CDATA[<2>]]>3</b></a>",
            Some("a[b'1<2>3']"),
        );
        check("<a>&lt;&amp;&#65;&#x42;&quot;</a>", Some("a'<&AB\"'"));
    }

    #[test]
    fn refuses_what_is_not_a_document() {
        for text in [
            "",
            "text",
            "<a>",
            "<a></b>",
            "</a>",
            "<a/><b/>",
            "<a/>text",
            "<a>text<b/></a>",
            "<a>&unknown;</a>",
            "<a>&#0;</a>",
            "<a>&#1;</a>",
            "<a>&</a>",
            "<!DOCTYPE a><a/>",
            "<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>",
            "<a><b",
        ] {
            check(text, None);
        }
        assert!(parse(b"<a>\xff</a>").is_none());
    }

    #[test]
    fn refuses_deep_and_long_documents() {
        let nested = |depth: usize| "<a>".repeat(depth) + &"</a>".repeat(depth);
        assert!(parse(nested(DEPTH_MAX).as_bytes()).is_some());
        assert!(parse(nested(DEPTH_MAX + 1).as_bytes()).is_none());
        assert!(parse("<a>".repeat(1_000_000).as_bytes()).is_none());
        let wide = |elements: usize| format!("<a>{}</a>", "<b/>".repeat(elements - 1));
        assert!(parse(wide(ELEMENTS_MAX).as_bytes()).is_some());
        assert!(parse(wide(ELEMENTS_MAX + 1).as_bytes()).is_none());
    }

    #[test]
    fn fields_are_known_and_single() {
        let fields = |text: &str| {
            let element = parse(text.as_bytes()).unwrap();
            let fields = element.fields(["b", "c"]);
            fields.map(|fields| fields.map(|field| field.is_some()))
        };
        assert_eq!(fields("<a/>"), Ok([false, false]));
        assert_eq!(fields("<a><c/></a>"), Ok([false, true]));
        assert_eq!(fields("<a><c/><b/></a>"), Ok([true, true]));
        for wrong in ["<a><b/><b/></a>", "<a><d/></a>"] {
            assert_eq!(fields(wrong).unwrap_err().code, Code::InvalidXmlDocument);
        }
    }

    proptest! {
        #[test]
        fn written_text_reads_back(text in "[ -~é]{0,20}") {
            let document = document("a", |out| leaf(out, "b", &text));
            let element = Element::read(&document, "a").unwrap();
            prop_assert_eq!(element.children[0].text(), Ok(text.trim()));
        }

        #[test]
        fn any_text_is_read_without_panic(text in "[<>/&;!a\\[\\]?'\" -]{0,60}") {
            if let Some(element) = parse(text.as_bytes()) {
                prop_assert!(!element.name.is_empty());
            }
        }
    }
}
