//! Terms: what stands where a value is expected.

use std::fmt;

use super::{QualifiedName, quoted};
use crate::types::Native;

/// A marker for a value that comes with the request: its place among all markers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Marker(pub(crate) usize);

/// What a constant looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConstantKind {
    String,
    Integer,
    Float,
    Boolean,
    Duration,
    Uuid,
    Hex,
}

/// A constant as it is written; strings without their quotes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Constant {
    pub(crate) kind: ConstantKind,
    pub(crate) text: String,
}

/// An operator between numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

impl Arithmetic {
    pub(crate) fn symbol(self) -> char {
        match self {
            Self::Add => '+',
            Self::Subtract => '-',
            Self::Multiply => '*',
            Self::Divide => '/',
            Self::Remainder => '%',
        }
    }
}

/// What stands where a value is expected.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Term {
    Null,
    Constant(Constant),
    Marker(Marker),
    List(Vec<Self>),
    /// Braces without colons; empty braces may be a map, too.
    Set(Vec<Self>),
    Map(Vec<(Self, Self)>),
    /// Braces with names before the colons.
    UserType(Vec<(String, Self)>),
    Tuple(Vec<Self>),
    Function {
        name: QualifiedName,
        arguments: Vec<Self>,
    },
    Operation {
        operator: Arithmetic,
        left: Box<Self>,
        right: Box<Self>,
    },
    Negation(Box<Self>),
    /// `(type) term`.
    TypeHint(RawType, Box<Self>),
    /// `CAST(term AS type)`.
    Cast(Box<Self>, Native),
}

/// The term as Cassandra's messages write it.
impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("NULL"),
            Self::Constant(constant) => write!(f, "{constant}"),
            Self::Marker(_) => f.write_str("?"),
            Self::List(terms) => write!(f, "[{}]", joined(terms)),
            Self::Set(terms) => write!(f, "{{{}}}", joined(terms)),
            Self::Map(entries) => {
                let entries: Vec<String> = entries
                    .iter()
                    .map(|(key, value)| format!("{key}: {value}"))
                    .collect();
                write!(f, "{{{}}}", entries.join(", "))
            }
            Self::UserType(fields) => {
                let fields: Vec<String> = fields
                    .iter()
                    .map(|(name, value)| format!("{}: {value}", quoted(name)))
                    .collect();
                write!(f, "{{{}}}", fields.join(", "))
            }
            Self::Tuple(terms) => write!(f, "({})", joined(terms)),
            Self::Function { name, arguments } => {
                let keyspace = name
                    .keyspace
                    .as_ref()
                    .map_or(String::new(), |k| format!("{k}."));
                write!(f, "{keyspace}{}({})", name.name, joined(arguments))
            }
            Self::Operation {
                operator,
                left,
                right,
            } => {
                write!(f, "{left} {} {right}", operator.symbol())
            }
            // Without a space two signs begin a comment, and a sign is a part of a number.
            Self::Negation(term) => {
                let term = term.to_string();
                let space = if term.starts_with(|c: char| c == '-' || c.is_ascii_digit()) {
                    " "
                } else {
                    ""
                };
                write!(f, "-{space}{term}")
            }
            Self::TypeHint(data_type, term) => write!(f, "({data_type}){term}"),
            Self::Cast(term, native) => write!(f, "CAST({term} AS {})", native.name()),
        }
    }
}

fn joined(terms: &[Term]) -> String {
    terms
        .iter()
        .map(Term::to_string)
        .collect::<Vec<_>>()
        .join(", ")
}

impl fmt::Display for Constant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            ConstantKind::String => write!(f, "'{}'", self.text.replace('\'', "''")),
            _ => f.write_str(&self.text),
        }
    }
}

/// A type as it is written: user types are names that a schema may know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RawType {
    Native(Native),
    List(Box<Self>),
    Set(Box<Self>),
    Map(Box<Self>, Box<Self>),
    Tuple(Vec<Self>),
    Vector(Box<Self>, i64),
    User(QualifiedName),
    Frozen(Box<Self>),
    /// The name of a class of Cassandra, in quotes.
    Custom(String),
}

impl fmt::Display for RawType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Native(native) => f.write_str(native.name()),
            Self::List(element) => write!(f, "list<{element}>"),
            Self::Set(element) => write!(f, "set<{element}>"),
            Self::Map(key, value) => write!(f, "map<{key}, {value}>"),
            Self::Tuple(types) => {
                let types: Vec<String> = types.iter().map(Self::to_string).collect();
                write!(f, "tuple<{}>", types.join(", "))
            }
            Self::Vector(element, dimension) => write!(f, "vector<{element}, {dimension}>"),
            Self::User(name) => write!(f, "{name}"),
            Self::Frozen(inner) => write!(f, "frozen<{inner}>"),
            Self::Custom(class) => write!(f, "'{}'", class.replace('\'', "''")),
        }
    }
}
