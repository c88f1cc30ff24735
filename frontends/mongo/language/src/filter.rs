//! Query filters: parsed once, matched against each document.
//!
//! [`parse`](Filter::parse) turns a filter document into a tree of [`Node`]s: logic over [`Test`]s of
//! the values at a path. The tree is open to the planner, which takes equalities and ranges from it.
//! Operators are rows of the tables in `operators`; each family has a file, which holds how its
//! operators are parsed and what they accept.

mod arrays;
mod bits;
mod comparison;
mod elements;
mod evaluation;
mod logical;
mod matching;
mod normalize;
mod operators;
mod parse;
mod schema;
mod serialize;
mod unsupported;

use bson::{Bson, Document};

use crate::collation::Collation;
use crate::error::Result;
use crate::expression::Expression;
use crate::expression::variables::{Context, Variables};
use crate::path::Path;
use crate::regex::Regex;

pub use bits::{BitTest, Mask};
pub use comparison::{Comparison, Members};
pub use elements::TypeSet;
pub use parse::{Place, is_operator_document};
pub use schema::Schema;

/// A parsed filter, with the collation it compares strings by and the variables it was given.
#[derive(Clone, Debug, PartialEq)]
pub struct Filter {
    root: Node,
    collation: Collation,
    variables: Variables,
}

/// A condition on a document.
#[derive(Clone, Debug, PartialEq)]
pub enum Node {
    /// All must hold; none is always true.
    And(Vec<Self>),
    /// At least one must hold.
    Or(Vec<Self>),
    /// None may hold.
    Nor(Vec<Self>),
    /// Must not hold.
    Not(Box<Self>),
    /// Some value at the path must pass the test.
    Field {
        /// Where; [`Path::itself`] in the conditions of [`Test::Element`].
        path: Path,
        /// What.
        test: Test,
    },
    /// `$expr`: must be true as expressions see it.
    Expression(Box<Computed>),
    /// `$jsonSchema`.
    Schema(Box<Schema>),
    /// `$sampleRate`: holds for this share of the documents, at random.
    Sample(f64),
    /// `$alwaysTrue`.
    AlwaysTrue,
    /// `$alwaysFalse`, and `$all` of nothing.
    AlwaysFalse,
}

/// A condition on one value. Elements of an array are tried before the array itself.
#[derive(Clone, Debug, PartialEq)]
pub enum Test {
    /// `$eq`, `$lt`, `$lte`, `$gt`, `$gte`: within one type, but for null, MinKey and MaxKey.
    Compare {
        /// How.
        op: Comparison,
        /// With what.
        value: Bson,
    },
    /// `$in`.
    In(Members),
    /// `$regex`, or a regular expression as the value.
    Regex(Regex),
    /// `$exists: true`; its contrary is a [`Node::Not`].
    Exists,
    /// `$type`.
    Type(TypeSet),
    /// `$size`: an array of that many elements.
    Size(usize),
    /// `$elemMatch` with conditions on fields: an array one of whose documents meets them.
    Document(Box<Node>),
    /// `$elemMatch` with operators: an array one of whose elements passes all of them.
    Element(Vec<Node>),
    /// `$mod`.
    Modulo {
        /// Never 0.
        divisor: i64,
        /// What must be left.
        remainder: i64,
    },
    /// `$bitsAllSet` and its kin.
    Bits {
        /// Which.
        test: BitTest,
        /// Of these bits.
        mask: Mask,
    },
}

/// A parsed `$expr` and what it was parsed from.
#[derive(Clone, Debug, PartialEq)]
pub struct Computed {
    /// As it was written.
    pub source: Bson,
    /// What is evaluated.
    pub expression: Expression,
}

impl Filter {
    /// Parses the filter of a query.
    pub fn parse(filter: &Document, context: &Context) -> Result<Self> {
        Self::parse_in(filter, context, Place::Query)
    }

    /// Parses a filter where not everything that queries may ask is allowed.
    pub fn parse_in(filter: &Document, context: &Context, place: Place) -> Result<Self> {
        let root = parse::filter(filter, context, place)?;
        let root = normalize::normalize(root, &context.collation);
        Ok(Self {
            root,
            collation: context.collation.clone(),
            variables: context.variables.clone(),
        })
    }

    /// Whether the document meets the filter.
    pub fn matches(&self, document: &Document) -> Result<bool> {
        Ok(self.matches_with_position(document)?.is_some())
    }

    /// Whether the document meets the filter, and if so the position in an array by which it did,
    /// which is what the positional operator `$` of updates and projections means.
    pub fn matches_with_position(&self, document: &Document) -> Result<Option<Option<usize>>> {
        matching::Matcher::new(&self.collation, &self.variables).run(&self.root, document)
    }

    /// Whether a value by itself meets the filter, as an element of an array that `$pull` looks at
    /// when its condition is made of operators. Fields are not looked up: the tests see the value.
    pub fn matches_value(&self, value: &Bson) -> Result<bool> {
        matching::Matcher::new(&self.collation, &self.variables).value(&self.root, value)
    }

    /// The tree.
    pub fn root(&self) -> &Node {
        &self.root
    }

    /// How strings compare.
    pub fn collation(&self) -> &Collation {
        &self.collation
    }

    /// The variables that `$expr` sees.
    pub fn variables(&self) -> &Variables {
        &self.variables
    }

    /// Whether every document meets it.
    pub fn is_empty(&self) -> bool {
        matches!(&self.root, Node::And(nodes) if nodes.is_empty())
    }

    /// The filter written in one way for all filters that mean the same tree, as explain shows it.
    pub fn to_document(&self) -> Document {
        self.root.to_document()
    }
}

/// Whether the operator of that name is given to a value, rather than standing for itself.
pub(crate) fn is_operator_on_values(name: &str) -> bool {
    operators::on_fields(name).is_some()
}

impl Node {
    /// A test of the values at a path.
    pub fn field(path: &Path, test: Test) -> Self {
        Self::Field {
            path: path.clone(),
            test,
        }
    }

    /// The conditions that must all hold: those of a conjunction, or this one.
    pub fn conjuncts(&self) -> &[Self] {
        match self {
            Self::And(nodes) => nodes,
            other => std::slice::from_ref(other),
        }
    }

    fn negated(self) -> Self {
        Self::Not(Box::new(self))
    }

    fn all(mut nodes: Vec<Self>) -> Self {
        match (nodes.len(), nodes.pop()) {
            (1, Some(only)) => only,
            (_, last) => {
                nodes.extend(last);
                Self::And(nodes)
            }
        }
    }

    /// See [`Filter::to_document`].
    pub fn to_document(&self) -> Document {
        serialize::document(self)
    }
}
