//! SELECT, and the relations of every WHERE.

use super::{Arithmetic, Constant, Marker, QualifiedName, RawType, Term};
use crate::types::Native;

/// `SELECT … FROM … WHERE …`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Select {
    pub(crate) is_json: bool,
    pub(crate) is_distinct: bool,
    pub(crate) selection: Selection,
    pub(crate) table: QualifiedName,
    pub(crate) relations: Vec<Relation>,
    pub(crate) group_by: Vec<Selector>,
    pub(crate) order_by: Vec<OrderBy>,
    pub(crate) per_partition_limit: Option<Term>,
    pub(crate) limit: Option<Term>,
    pub(crate) allow_filtering: bool,
}

/// What is selected.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Selection {
    All,
    /// Each with its alias.
    Some(Vec<(Selector, Option<String>)>),
}

/// What a column of the result is made of.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Selector {
    Column(String),
    Null,
    Constant(Constant),
    Marker(Marker),
    CountRows,
    ColumnTime {
        what: ColumnTime,
        /// A column, or a part of one.
        of: Box<Self>,
    },
    Cast(Box<Self>, Native),
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
    Field(Box<Self>, String),
    Element(Box<Self>, Term),
    Slice(Box<Self>, Option<Term>, Option<Term>),
    TypeHint(RawType, Box<Self>),
    /// One selector in parentheses is itself.
    Tuple(Vec<Self>),
    List(Vec<Self>),
    Set(Vec<Self>),
    /// Names before the colons may be columns, or fields of a user type.
    MapOrUserType(Vec<(Self, Self)>),
}

/// What is asked of a cell besides its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ColumnTime {
    WriteTime,
    MaxWriteTime,
    TimeToLive,
}

/// How rows are ordered.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OrderBy {
    pub(crate) column: String,
    /// The vector that the nearest are asked of.
    pub(crate) near: Option<Term>,
    pub(crate) is_descending: bool,
}

/// How a column and a term compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Comparator {
    pub(crate) fn symbol(self) -> &'static str {
        match self {
            Self::Equal => "=",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
        }
    }
}

/// The values after IN: a marker for all of them, or one by one.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum InValues {
    Marker(Marker),
    Terms(Vec<Term>),
}

/// One relation of a WHERE.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Relation {
    Compare {
        column: String,
        comparator: Comparator,
        value: Term,
    },
    /// `column[key] = value`.
    CompareElement {
        column: String,
        key: Term,
        comparator: Comparator,
        value: Term,
    },
    In {
        column: String,
        values: InValues,
    },
    Contains {
        column: String,
        is_key: bool,
        value: Term,
    },
    Like {
        column: String,
        pattern: Term,
    },
    IsNotNull(String),
    Token {
        columns: Vec<String>,
        comparator: Comparator,
        value: Term,
    },
    /// `(a, b) > (1, 2)`; the value is a tuple or a marker.
    CompareTuple {
        columns: Vec<String>,
        comparator: Comparator,
        value: Term,
    },
    InTuples {
        columns: Vec<String>,
        values: InValues,
    },
    /// `expr(index, term)`.
    IndexExpression {
        index: String,
        value: Term,
    },
}
