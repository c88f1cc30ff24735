//! Statements that define keyspaces and what is in them, and DESCRIBE, which prints that.

use super::{FunctionSignature, QualifiedName, RawType, Relation, Selection, Term};

/// `WITH name = value AND …`, in the order of the text.
pub(crate) type Properties = Vec<(String, PropertyValue)>;

/// The value of a property.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PropertyValue {
    Text(String),
    Map(Vec<(String, String)>),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CreateKeyspace {
    pub(crate) name: String,
    pub(crate) if_not_exists: bool,
    pub(crate) properties: Properties,
}

/// Whether a clustering column is kept in its own order or in the opposite one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Ascending,
    Descending,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CreateTable {
    pub(crate) name: QualifiedName,
    pub(crate) if_not_exists: bool,
    pub(crate) columns: Vec<ColumnDefinition>,
    /// Each PRIMARY KEY that the text has; one is right.
    pub(crate) primary_keys: Vec<PrimaryKey>,
    pub(crate) clustering_order: Vec<(String, Direction)>,
    pub(crate) is_compact: bool,
    pub(crate) properties: Properties,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ColumnDefinition {
    pub(crate) name: String,
    pub(crate) data_type: RawType,
    pub(crate) is_static: bool,
    pub(crate) mask: Option<Mask>,
}

/// `MASKED WITH function(…)`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Mask {
    pub(crate) function: QualifiedName,
    pub(crate) arguments: Vec<Term>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PrimaryKey {
    pub(crate) partition: Vec<String>,
    pub(crate) clustering: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AlterTable {
    pub(crate) name: QualifiedName,
    pub(crate) if_exists: bool,
    pub(crate) action: AlterTableAction,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum AlterTableAction {
    Add {
        if_not_exists: bool,
        columns: Vec<ColumnDefinition>,
    },
    Drop {
        if_exists: bool,
        columns: Vec<String>,
        timestamp: Option<i64>,
    },
    Rename {
        if_exists: bool,
        pairs: Vec<(String, String)>,
    },
    AlterType {
        column: String,
        data_type: RawType,
    },
    /// No mask: the one it has is dropped.
    AlterMask {
        if_exists: bool,
        column: String,
        mask: Option<Mask>,
    },
    DropCompactStorage,
    With(Properties),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CreateType {
    pub(crate) name: QualifiedName,
    pub(crate) if_not_exists: bool,
    pub(crate) fields: Vec<(String, RawType)>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AlterType {
    pub(crate) name: QualifiedName,
    pub(crate) if_exists: bool,
    pub(crate) action: AlterTypeAction,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum AlterTypeAction {
    Add {
        if_not_exists: bool,
        field: String,
        data_type: RawType,
    },
    Rename {
        if_exists: bool,
        pairs: Vec<(String, String)>,
    },
    Alter {
        field: String,
        data_type: RawType,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CreateIndex {
    pub(crate) name: Option<String>,
    pub(crate) is_custom: bool,
    pub(crate) if_not_exists: bool,
    pub(crate) table: QualifiedName,
    pub(crate) targets: Vec<IndexTarget>,
    pub(crate) class: Option<String>,
    pub(crate) properties: Properties,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IndexTarget {
    pub(crate) column: String,
    pub(crate) kind: IndexTargetKind,
}

/// Which part of a column is indexed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IndexTargetKind {
    Simple,
    Values,
    Keys,
    Entries,
    Full,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CreateView {
    pub(crate) name: QualifiedName,
    pub(crate) if_not_exists: bool,
    pub(crate) selection: Selection,
    pub(crate) table: QualifiedName,
    pub(crate) relations: Vec<Relation>,
    pub(crate) primary_key: PrimaryKey,
    pub(crate) clustering_order: Vec<(String, Direction)>,
    pub(crate) is_compact: bool,
    pub(crate) properties: Properties,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CreateFunction {
    pub(crate) name: QualifiedName,
    pub(crate) or_replace: bool,
    pub(crate) if_not_exists: bool,
    pub(crate) arguments: Vec<(String, RawType)>,
    pub(crate) is_called_on_null: bool,
    pub(crate) returns: RawType,
    pub(crate) language: String,
    pub(crate) body: String,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CreateAggregate {
    pub(crate) name: QualifiedName,
    pub(crate) or_replace: bool,
    pub(crate) if_not_exists: bool,
    pub(crate) arguments: Vec<RawType>,
    pub(crate) state_function: String,
    pub(crate) state_type: RawType,
    pub(crate) final_function: Option<String>,
    pub(crate) initial: Option<Term>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Drop {
    pub(crate) if_exists: bool,
    pub(crate) kind: DropKind,
}

/// What is dropped.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum DropKind {
    Keyspace(String),
    Table(QualifiedName),
    Type(QualifiedName),
    Index(QualifiedName),
    View(QualifiedName),
    Trigger(String, QualifiedName),
    Function(FunctionSignature),
    Aggregate(FunctionSignature),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Describe {
    pub(crate) what: DescribeWhat,
    pub(crate) with_internals: bool,
}

/// What is described.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum DescribeWhat {
    Cluster,
    Schema {
        is_full: bool,
    },
    Keyspaces,
    Keyspace {
        name: Option<String>,
        only: bool,
    },
    Tables,
    Table(QualifiedName),
    Index(QualifiedName),
    View(QualifiedName),
    Types,
    Type(QualifiedName),
    Functions,
    Function(QualifiedName),
    Aggregates,
    Aggregate(QualifiedName),
    /// Whatever has this name.
    Any(QualifiedName),
}
