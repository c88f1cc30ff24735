//! Aggregation expressions: parsed once, evaluated for each document.
//!
//! [`Expression::parse`] turns a BSON value into a tree of [`Node`]s: constants, paths, objects,
//! arrays and calls. A call names a row of the one table of operators ([`operator::find`]), which
//! is put together from one table per family. Calls whose arguments are constants are evaluated
//! while parsing, so that their errors show even when no document is read.

pub(crate) mod accumulator;
mod arithmetic;
mod arrange;
mod array;
mod binary;
mod binding;
mod boolean;
mod comparison;
mod conditional;
mod convert;
pub(crate) mod date;
mod decimal;
mod decimal_trigonometry;
mod local;
mod misc;
mod object;
pub mod operator;
pub mod order;
mod path;
mod pattern;
mod set;
mod string;
mod substring;
mod trigonometry;
mod value;
pub mod variables;

use std::borrow::Cow;
use std::sync::Arc;

use bson::{Bson, Document};
use tessera_core::deadline::{self, Held};

use crate::collation::Collation;
use crate::error::Result;
use crate::members::Members;
use crate::nesting::is_shallow;
use crate::size::{copy_document, steps_to_copy};

pub(crate) use path::components as path_components;
pub use path::{FieldPath, validate_field_name};
pub(crate) use value::{
    count_owned, fail, is_nullish, is_truthy, kept, kept_or_null, null, or_null, own, some,
};
pub use variables::{Context, ParseContext, Variables};

use local::Local;
use operator::{Fold, Operator, Run, RunValues};

/// What a part of an expression evaluates to; `None` is "missing", which is not null.
pub(crate) type Value<'a> = Option<Cow<'a, Bson>>;

/// Expressions nested deeper than BSON itself may nest are refused.
const MAX_DEPTH: usize = 200;

/// Steps of a call, which is some hundred nanoseconds and rarely more than a few thousand.
const CALL_STEPS: usize = 4;

/// A text of this many bytes is too long.
const MAX_TEXT: usize = 16 << 20;

/// A parsed expression, together with the collation by which it compares strings.
#[derive(Clone, Debug, PartialEq)]
pub struct Expression {
    node: Node,
    collation: Collation,
}

impl Expression {
    /// Parses an operand: a path, an object of expressions, a call, or a constant.
    pub fn parse(value: &Bson, context: &ParseContext<'_>) -> Result<Self> {
        let collation = context.collation();
        let node = Node::parse(value, context)?.fold(collation)?;
        Ok(Self {
            node,
            collation: collation.clone(),
        })
    }

    /// Parses an expression whose paths are relative to something within the document, while
    /// `$$ROOT` is all of it.
    pub(crate) fn parse_relative(value: &Bson, context: &ParseContext<'_>) -> Result<Self> {
        let names = ["CURRENT".to_owned()];
        Self::parse(value, &context.within(&context.bind(&names)))
    }

    /// The value of an expression parsed by [`Self::parse_relative`].
    pub(crate) fn evaluate_relative(
        &self,
        root: &Document,
        current: &Document,
        variables: &Variables,
    ) -> Result<Option<Bson>> {
        let value = Some(Cow::Owned(Bson::Document(copy_document(current))));
        let local = Local::one("CURRENT", value, None);
        let collation = &self.collation;
        let frame = Frame {
            root,
            variables,
            collation,
            locals: Some(&local),
        };
        shallow(self.node.evaluate(&frame)?)
    }

    /// An expression that is the value itself, whatever it looks like.
    pub fn constant(value: Bson) -> Self {
        Self {
            node: Node::Constant(Some(value)),
            collation: Collation::default(),
        }
    }

    /// The value for one document; `None` is "missing".
    pub fn evaluate(&self, root: &Document, variables: &Variables) -> Result<Option<Bson>> {
        let frame = Frame {
            root,
            variables,
            collation: &self.collation,
            locals: None,
        };
        shallow(self.node.evaluate(&frame)?)
    }

    /// Whether the value counts as true.
    pub fn is_true(&self, root: &Document, variables: &Variables) -> Result<bool> {
        let frame = Frame {
            root,
            variables,
            collation: &self.collation,
            locals: None,
        };
        Ok(self
            .node
            .evaluate(&frame)?
            .as_deref()
            .is_some_and(is_truthy))
    }

    /// The value, if it is the same for every document.
    pub fn as_constant(&self) -> Option<Option<&Bson>> {
        match &self.node {
            Node::Constant(value) => Some(value.as_ref()),
            _ => None,
        }
    }

    /// The dotted path, if the expression is nothing but a path into the document.
    pub fn as_field_path(&self) -> Option<String> {
        match &self.node {
            Node::Path(path) => path.within_root(),
            _ => None,
        }
    }

    /// The call this expression is, for the planner of `$expr`: operator and arguments.
    pub fn as_call(&self) -> Option<(&'static str, Vec<Self>)> {
        let Node::Call(call) = &self.node else {
            return None;
        };
        let argument = |node: &Node| Self {
            node: node.clone(),
            collation: self.collation.clone(),
        };
        Some((
            call.operator.name,
            call.arguments.iter().map(argument).collect(),
        ))
    }

    /// Whether the value depends on the document at all.
    pub fn reads_document(&self) -> bool {
        self.node.reads_document()
    }
}

/// One part of an expression.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Node {
    /// A named argument that was not given.
    Absent,
    /// The same for every document; `None` is "missing", as `$$REMOVE` is.
    Constant(Option<Bson>),
    Path(FieldPath),
    Object(Vec<(String, Self)>),
    Array(Vec<Self>),
    Call(Box<Call>),
}

/// An operator with its arguments.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) operator: &'static Operator,
    pub(crate) arguments: Vec<Node>,
    /// The variables that the call binds for its last argument.
    pub(crate) names: Vec<String>,
    /// The elements of a long constant array, for calls that look for values in it.
    pub(crate) members: Option<Arc<Members>>,
}

impl PartialEq for Call {
    fn eq(&self, other: &Self) -> bool {
        self.operator.name == other.operator.name
            && self.arguments == other.arguments
            && self.names == other.names
    }
}

impl Call {
    /// The argument at a position; the operator's form has counted them.
    pub(crate) fn argument(&self, index: usize) -> &Node {
        self.arguments.get(index).unwrap_or(&Node::Absent)
    }

    pub(crate) fn evaluate_argument<'a>(
        &'a self,
        index: usize,
        frame: &Frame<'a>,
    ) -> Result<Value<'a>> {
        self.argument(index).evaluate(frame)
    }

    fn run_with_values<'a>(&'a self, run: RunValues, frame: &Frame<'a>) -> Result<Value<'a>> {
        let mut held = Held::new();
        let mut values = Vec::with_capacity(self.arguments.len());
        for argument in &self.arguments {
            let value = argument.evaluate(frame)?;
            count_owned(&value, &mut held)?;
            // Operators copy and walk what they are given.
            deadline::step(value.as_deref().map_or(0, steps_to_copy))?;
            values.push(value);
        }
        run(values, frame)
    }

    /// The name of a variable that the call binds.
    pub(crate) fn name(&self, index: usize) -> &str {
        self.names.get(index).map_or("", String::as_str)
    }
}

/// What an evaluation sees: the document, the variables of the command, and those bound around it.
#[derive(Clone, Copy)]
pub(crate) struct Frame<'a> {
    pub(crate) root: &'a Document,
    pub(crate) variables: &'a Variables,
    pub(crate) collation: &'a Collation,
    pub(crate) locals: Option<&'a Local<'a>>,
}

impl<'a> Frame<'a> {
    /// The frame within which one more variable is bound.
    pub(crate) fn with<'b>(&self, local: &'b Local<'b>) -> Frame<'b>
    where
        'a: 'b,
    {
        Frame {
            locals: Some(local),
            ..*self
        }
    }

    pub(crate) fn local(&self, name: &str) -> Option<&'a Value<'a>> {
        self.locals.and_then(|locals| locals.find(name))
    }
}

impl Node {
    pub(crate) fn parse(value: &Bson, context: &ParseContext<'_>) -> Result<Self> {
        match value {
            Bson::String(text) if text.starts_with('$') => FieldPath::parse(text, context),
            Bson::Document(document) => Self::parse_document(document, context),
            Bson::Array(items) => {
                let context = context.deeper(MAX_DEPTH)?;
                let parse = |item| Self::parse(item, &context);
                Ok(Self::Array(items.iter().map(parse).collect::<Result<_>>()?))
            }
            Bson::String(text) if text.len() >= MAX_TEXT => {
                fail(16493, "Tried to create a string longer than 16MB")
            }
            _ => Ok(Self::Constant(Some(value.clone()))),
        }
    }

    fn parse_document(document: &Document, context: &ParseContext<'_>) -> Result<Self> {
        let Some((first, argument)) = document.iter().next() else {
            return Ok(Self::Constant(Some(Bson::Document(Document::new()))));
        };
        let context = &context.deeper(MAX_DEPTH)?;
        if !first.starts_with('$') {
            return Self::parse_object(document, context);
        }
        if document.len() != 1 {
            return fail(
                15983,
                "an object representing an expression must have exactly one field",
            );
        }
        let Some(operator) = operator::find(first) else {
            return fail(168, format!("Unrecognized expression '{first}'"));
        };
        operator.parse(argument, context)
    }

    fn parse_object(document: &Document, context: &ParseContext<'_>) -> Result<Self> {
        let mut fields = Vec::with_capacity(document.len());
        for (name, value) in document {
            validate_field_name(name)?;
            fields.push((name.clone(), Self::parse(value, context)?));
        }
        Ok(Self::Object(fields))
    }

    /// Evaluates now what is the same for every document.
    pub(crate) fn fold(self, collation: &Collation) -> Result<Self> {
        let folded = match self {
            Self::Absent | Self::Constant(_) | Self::Path(_) => return Ok(self),
            Self::Array(items) => Self::Array(fold_all(items, collation)?),
            Self::Object(fields) => {
                let fold = |(name, node): (String, Self)| Ok((name, node.fold(collation)?));
                Self::Object(fields.into_iter().map(fold).collect::<Result<_>>()?)
            }
            Self::Call(mut call) => {
                if let Fold::Own(fold) = call.operator.fold {
                    return fold(*call, collation);
                }
                call.arguments = fold_all(call.arguments, collation)?;
                Self::Call(call)
            }
        };
        folded.folded_if_constant(collation)
    }

    /// The value, if it is the same for every document.
    pub(crate) fn folded_if_constant(self, collation: &Collation) -> Result<Self> {
        if !self.is_foldable() {
            return Ok(self);
        }
        let (root, variables) = (Document::new(), Variables::default());
        let frame = Frame {
            root: &root,
            variables: &variables,
            collation,
            locals: None,
        };
        let value = self.evaluate(&frame)?.map(own);
        Ok(Self::Constant(value))
    }

    fn is_foldable(&self) -> bool {
        match self {
            Self::Absent | Self::Constant(_) | Self::Path(_) => false,
            Self::Array(items) => items.iter().all(Self::is_constant),
            Self::Object(fields) => fields.iter().all(|(_, node)| node.is_constant()),
            Self::Call(call) => {
                !matches!(call.operator.fold, Fold::Never)
                    && call.arguments.iter().all(Self::is_constant)
            }
        }
    }

    pub(crate) fn is_constant(&self) -> bool {
        matches!(self, Self::Constant(_) | Self::Absent)
    }

    pub(crate) fn is_absent(&self) -> bool {
        matches!(self, Self::Absent)
    }

    fn reads_document(&self) -> bool {
        match self {
            Self::Absent | Self::Constant(_) => false,
            Self::Path(path) => path.reads_document(),
            Self::Object(fields) => fields.iter().any(|(_, node)| node.reads_document()),
            Self::Array(items) => items.iter().any(Self::reads_document),
            Self::Call(call) => call.arguments.iter().any(Self::reads_document),
        }
    }

    pub(crate) fn evaluate<'a>(&'a self, frame: &Frame<'a>) -> Result<Value<'a>> {
        match self {
            Self::Absent => Ok(None),
            Self::Constant(value) => Ok(value.as_ref().map(Cow::Borrowed)),
            Self::Path(path) => path.evaluate(frame),
            Self::Object(fields) => {
                deadline::step(fields.len())?;
                let mut held = Held::new();
                let mut document = Document::new();
                for (name, node) in fields {
                    if let Some(value) = node.evaluate(frame)? {
                        document.insert(name.clone(), kept(value, &mut held)?);
                    }
                }
                some(document)
            }
            Self::Array(items) => {
                deadline::step(items.len())?;
                let mut held = Held::new();
                let mut values = Vec::with_capacity(items.len());
                for item in items {
                    values.push(kept_or_null(item.evaluate(frame)?, &mut held)?);
                }
                some(values)
            }
            Self::Call(call) => {
                deadline::step(CALL_STEPS)?;
                limited(match call.operator.run {
                    Run::Values(run) => call.run_with_values(run, frame),
                    Run::Lazy(run) => run(call, frame),
                }?)
            }
        }
    }
}

/// A value of its own that nests no deeper than others can go through it.
fn shallow(value: Value<'_>) -> Result<Option<Bson>> {
    if value.as_deref().is_some_and(|value| !is_shallow(value)) {
        return fail(15, "the value of an expression is nested too deeply");
    }
    Ok(value.map(own))
}

/// Refuses a text that no document has room for.
fn limited(value: Value<'_>) -> Result<Value<'_>> {
    match value.as_deref() {
        Some(Bson::String(text)) if text.len() >= MAX_TEXT => {
            fail(16493, "Tried to create a string longer than 16MB")
        }
        _ => Ok(value),
    }
}

fn fold_all(nodes: Vec<Node>, collation: &Collation) -> Result<Vec<Node>> {
    nodes.into_iter().map(|node| node.fold(collation)).collect()
}

#[cfg(test)]
mod late_tests;
#[cfg(test)]
mod tests;
