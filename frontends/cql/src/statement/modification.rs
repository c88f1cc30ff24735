//! INSERT, UPDATE, DELETE and batches of them.

use super::{Comparator, InValues, QualifiedName, Relation, Term};

/// `USING TTL … AND TIMESTAMP …`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Using {
    pub(crate) time_to_live: Option<Term>,
    pub(crate) timestamp: Option<Term>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Insert {
    pub(crate) table: QualifiedName,
    pub(crate) columns: Vec<String>,
    pub(crate) values: Vec<Term>,
    pub(crate) if_not_exists: bool,
    pub(crate) using: Using,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct InsertJson {
    pub(crate) table: QualifiedName,
    /// A string or a marker.
    pub(crate) json: Term,
    /// Whether columns that the JSON does not name keep their values.
    pub(crate) default_unset: bool,
    pub(crate) if_not_exists: bool,
    pub(crate) using: Using,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Update {
    pub(crate) table: QualifiedName,
    pub(crate) using: Using,
    pub(crate) assignments: Vec<Assignment>,
    pub(crate) relations: Vec<Relation>,
    pub(crate) condition: If,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Delete {
    pub(crate) table: QualifiedName,
    /// None: the whole rows.
    pub(crate) deletions: Vec<Deletion>,
    pub(crate) timestamp: Option<Term>,
    pub(crate) relations: Vec<Relation>,
    pub(crate) condition: If,
}

/// A change of one column.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Assignment {
    pub(crate) column: String,
    pub(crate) operation: Operation,
}

/// How a column changes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Operation {
    Set(Term),
    /// `c = c + value`, `c += value`.
    Add(Term),
    /// `c = c - value`, `c -= value`.
    Subtract(Term),
    /// `c = value + c`.
    Prepend(Term),
    SetElement(Term, Term),
    SetField(String, Term),
}

/// What of a row is deleted.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Deletion {
    Column(String),
    Element(String, Term),
    Field(String, String),
}

/// When a change is made at all.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum If {
    #[default]
    Always,
    Exists,
    All(Vec<Condition>),
}

/// A condition on a row as it was.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Condition {
    Compare {
        place: Place,
        comparator: Comparator,
        value: Term,
    },
    In {
        place: Place,
        values: InValues,
    },
    Contains {
        column: String,
        is_key: bool,
        value: Term,
    },
}

/// A column or a part of one.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Place {
    Column(String),
    Element(String, Term),
    Field(String, String),
}

/// How the statements of a batch belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BatchType {
    Logged,
    Unlogged,
    Counter,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Batch {
    pub(crate) kind: BatchType,
    pub(crate) using: Using,
    /// Inserts, updates and deletes.
    pub(crate) statements: Vec<super::Statement>,
}
