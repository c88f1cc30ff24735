//! Paths of expressions: `$a.b`, `$$name.a`, and which field names they may have.

use std::borrow::Cow;

use bson::{Bson, Document};
use tessera_core::deadline;

use super::variables::{is_system, validate_read_name};
use super::{Frame, Node, ParseContext, Value, fail, own, some};
use crate::error::Result;
use crate::path::note_name;
use crate::size::copy_document;

/// A path may be as deep as a document.
const MAX_COMPONENTS: usize = 200;

/// Names starting with a dollar sign that documents may have: the fields of a reference.
const REFERENCE_FIELDS: &[&str] = &["$id", "$ref", "$db"];

/// A variable and the fields below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldPath {
    start: Start,
    fields: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Start {
    /// The document itself, without a look at the variables.
    Root,
    Variable(String),
}

impl FieldPath {
    /// Parses `$a.b` or `$$name.a`; what stands for the same value always becomes a constant.
    pub(crate) fn parse(text: &str, context: &ParseContext<'_>) -> Result<Node> {
        if let Some(rest) = text.strip_prefix("$$") {
            let (name, path) = match rest.split_once('.') {
                Some((name, path)) => (name, Some(path)),
                None => (rest, None),
            };
            validate_read_name(name)?;
            if path == Some("") {
                return fail(40353, "FieldPath must not end with a '.'.");
            }
            let fields = path.map_or(Ok(Vec::new()), components)?;
            if !context.defines(name) {
                return fail(17276, format!("Use of undefined variable: {name}"));
            }
            if is_system(name) && !context.binds(name) && context.variables().get(name).is_none() {
                unavailable(name)?;
            }
            return Ok(Self::of_variable(name, fields, context));
        }
        match text.strip_prefix('$') {
            Some("") => fail(16872, "'$' by itself is not a valid FieldPath"),
            Some(path) => Ok(Self::of_variable("CURRENT", components(path)?, context)),
            None => fail(16873, format!("FieldPath '{text}' doesn't start with $")),
        }
    }

    fn of_variable(name: &str, fields: Vec<String>, context: &ParseContext<'_>) -> Node {
        let start = match name {
            "ROOT" => Start::Root,
            "CURRENT" if !context.binds("CURRENT") => Start::Root,
            "REMOVE" => return Node::Constant(None),
            "DESCEND" | "PRUNE" | "KEEP" => {
                let sentinel = fields.is_empty().then(|| Bson::String(name.to_lowercase()));
                return Node::Constant(sentinel);
            }
            _ => Start::Variable(name.to_owned()),
        };
        Node::Path(Self { start, fields })
    }

    /// The dotted path below the document, if it is one.
    pub(crate) fn within_root(&self) -> Option<String> {
        (self.start == Start::Root && !self.fields.is_empty()).then(|| self.fields.join("."))
    }

    /// Whether the value is of the document rather than of the command.
    pub(crate) fn reads_document(&self) -> bool {
        self.start == Start::Root
    }

    pub(crate) fn evaluate<'a>(&'a self, frame: &Frame<'a>) -> Result<Value<'a>> {
        let name = match &self.start {
            Start::Root if self.fields.is_empty() => return some(copy_document(frame.root)),
            Start::Root => return Ok(within(frame.root, &self.fields)),
            Start::Variable(name) => name,
        };
        let value = match frame.local(name) {
            Some(value) => value.as_deref(),
            None => match frame.variables.get(name) {
                Some(value) => value,
                None => return Ok(None),
            },
        };
        match value {
            Some(value) if self.fields.is_empty() => Ok(Some(Cow::Borrowed(value))),
            Some(value) => Ok(below(value, &self.fields)),
            None => Ok(None),
        }
    }
}

/// System variables that this server, or this command, has no value for.
fn unavailable(name: &str) -> Result<()> {
    if name == "CLUSTER_TIME" {
        return fail(
            10071200,
            "$$CLUSTER_TIME is not available: there is no cluster clock",
        );
    }
    if name != "SEARCH_META" {
        return fail(
            51144,
            format!("Builtin variable '$${name}' is not available"),
        );
    }
    Ok(())
}

/// Follows fields into a value; an array stands for each of its documents.
fn below<'a>(value: &'a Bson, fields: &[String]) -> Value<'a> {
    match value {
        Bson::Document(document) => within(document, fields),
        Bson::Array(items) => {
            deadline::note(items.len());
            let documents = items.iter().filter_map(Bson::as_document);
            let values = documents.filter_map(|document| within(document, fields));
            Some(Cow::Owned(Bson::Array(values.map(own).collect())))
        }
        _ => None,
    }
}

fn within<'a>(document: &'a Document, fields: &[String]) -> Value<'a> {
    let (field, rest) = fields.split_first()?;
    note_name(field);
    let value = document.get(field)?;
    if rest.is_empty() {
        Some(Cow::Borrowed(value))
    } else {
        below(value, rest)
    }
}

/// The components of a dotted path.
pub(crate) fn components(path: &str) -> Result<Vec<String>> {
    if path.is_empty() {
        return fail(40352, "FieldPath cannot be constructed with empty string");
    }
    if path.ends_with('.') {
        return fail(40353, "FieldPath must not end with a '.'.");
    }
    let components: Vec<String> = path.split('.').map(str::to_owned).collect();
    if components.len() > MAX_COMPONENTS {
        return fail(15, "FieldPath is too long");
    }
    components
        .iter()
        .try_for_each(|component| validate_field_name(component))?;
    Ok(components)
}

/// Refuses what no field of a path or of an object expression can be named.
pub fn validate_field_name(name: &str) -> Result<()> {
    if name.is_empty() {
        return fail(15998, "FieldPath field names may not be empty strings.");
    }
    if name.starts_with('$') && !REFERENCE_FIELDS.contains(&name) {
        return fail(
            16410,
            format!("FieldPath field names may not start with '$', given '{name}'."),
        );
    }
    if name.contains('\0') {
        return fail(16411, "FieldPath field names may not contain '\\0'.");
    }
    if name.contains('.') {
        return fail(
            16412,
            format!("FieldPath field names may not contain '.', given '{name}'."),
        );
    }
    Ok(())
}
