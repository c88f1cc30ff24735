//! From a filter document to its tree.

use bson::{Bson, Document};

use super::operators;
use super::{Comparison, Node, Test};
use crate::error::{Code, Error, Result, bad_value};
use crate::expression::variables::Context;
use crate::path::{MAX_COMPONENTS, Path};
use crate::regex::Regex;

/// How deeply filters may be nested, which is as deep as documents may be.
const MAX_DEPTH: usize = 200;

/// `FieldPath is too long`.
const PATH_TOO_LONG: Code = Code(5_729_100);

/// Where a filter stands, which decides what it may ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The query of a command.
    Query,
    /// A `$match` stage, which sorts nothing by distance and runs no code.
    Match,
    /// `$elemMatch` of a projection, and the query if the projection has the positional `$`.
    Projection,
    /// A collection's validator.
    Validator,
    /// One of an update's `arrayFilters`.
    ArrayFilter,
    /// The filter of a partial index.
    PartialIndex,
}

/// What the parser of one operator is given.
pub(super) struct Operand<'a> {
    pub(super) path: &'a Path,
    pub(super) name: &'a str,
    pub(super) value: &'a Bson,
    /// All operators that the same path is given, this one among them.
    pub(super) siblings: &'a Document,
}

/// What the operators around have decided for those within.
#[derive(Clone, Copy)]
pub(super) struct Parser<'a> {
    pub(super) context: &'a Context,
    pub(super) place: Place,
    /// Within `$elemMatch`: the filter does not see the whole document.
    pub(super) nested: bool,
    depth: usize,
}

pub(super) fn filter(filter: &Document, context: &Context, place: Place) -> Result<Node> {
    Parser {
        context,
        place,
        nested: false,
        depth: 0,
    }
    .document(filter)
}

impl<'a> Parser<'a> {
    /// A parser for what is some levels of documents and arrays further down.
    pub(super) fn deeper(self, levels: usize) -> Result<Self> {
        let depth = self.depth + levels;
        if depth > MAX_DEPTH {
            return Err(Error::new(
                Code::OVERFLOW,
                "the filter is nested too deeply",
            ));
        }
        Ok(Self { depth, ..self })
    }

    pub(super) fn within_elements(self) -> Self {
        Self {
            nested: true,
            ..self
        }
    }

    /// A document of conditions, all of which must hold.
    pub(super) fn document(self, conditions: &Document) -> Result<Node> {
        let parser = self.deeper(1)?;
        let mut nodes = Vec::with_capacity(conditions.len());
        for (name, value) in conditions {
            if name.starts_with('$') {
                nodes.extend(parser.operator(name, value)?);
            } else {
                parser.field(name, value, &mut nodes)?;
            }
        }
        Ok(Node::all(nodes))
    }

    fn operator(self, name: &str, value: &Bson) -> Result<Option<Node>> {
        if let Some(parse) = operators::on_documents(name) {
            return parse(self, name, value);
        }
        let hint = if name == "$not" {
            "If you are trying to negate an entire expression, use $nor."
        } else {
            "If you have a field name that starts with a '$' symbol, consider using $getField or \
             $setField."
        };
        Err(bad_value(format!(
            "unknown top level operator: {name}. {hint}"
        )))
    }

    fn field(self, name: &str, value: &Bson, nodes: &mut Vec<Node>) -> Result<()> {
        let path = Path::parse(name);
        if path.components().len() > MAX_COMPONENTS {
            return Err(Error::new(PATH_TOO_LONG, "FieldPath is too long"));
        }
        match value {
            Bson::Document(operators) if is_operator_document(operators, false) => {
                nodes.extend(self.operators(&path, operators)?);
            }
            Bson::RegularExpression(regex) => {
                nodes.push(Node::field(&path, Test::Regex(Regex::from_bson(regex)?)));
            }
            Bson::Undefined => return Err(bad_value("cannot compare to undefined")),
            value => {
                let value = value.clone();
                nodes.push(Node::field(
                    &path,
                    Test::Compare {
                        op: Comparison::Equal,
                        value,
                    },
                ));
            }
        }
        Ok(())
    }

    /// The operators given to one path.
    pub(super) fn operators(self, path: &Path, given: &Document) -> Result<Vec<Node>> {
        let parser = self.deeper(1)?;
        let mut nodes = Vec::with_capacity(given.len());
        for (name, value) in given {
            let Some(parse) = operators::on_fields(name) else {
                return Err(bad_value(format!("unknown operator: {name}")));
            };
            nodes.extend(parse(
                parser,
                &Operand {
                    path,
                    name,
                    value,
                    siblings: given,
                },
            )?);
        }
        Ok(nodes)
    }
}

/// Whether a document stands for operators rather than for a value: it begins with one, and is not
/// a reference to another document. `partial` takes any field of a reference as a sign of one.
pub fn is_operator_document(document: &Document, partial: bool) -> bool {
    let begins_with_operator = document
        .keys()
        .next()
        .is_some_and(|name| name.starts_with('$'));
    let has = |name| document.contains_key(name);
    let reference = if partial {
        has("$ref") || has("$id") || has("$db")
    } else {
        has("$ref") && has("$id")
    };
    begins_with_operator && !reference
}
