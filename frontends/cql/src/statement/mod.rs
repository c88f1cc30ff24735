//! Statements of CQL as values. They own their texts and know no schema.

mod access;
mod definition;
mod modification;
mod name;
mod selection;
mod selector_text;
mod term;

pub(crate) use access::{
    Access, FunctionSignature, ListPermissions, Permission, Resource, RoleOptions,
};
pub(crate) use definition::{
    AlterTable, AlterTableAction, AlterType, AlterTypeAction, ColumnDefinition, CreateAggregate,
    CreateFunction, CreateIndex, CreateKeyspace, CreateTable, CreateType, CreateView, Describe,
    DescribeWhat, Direction, Drop, DropKind, IndexTarget, IndexTargetKind, Mask, PrimaryKey,
    Properties, PropertyValue,
};
pub(crate) use modification::{
    Assignment, Batch, BatchType, Condition, Delete, Deletion, If, Insert, InsertJson, Operation,
    Place, Update, Using,
};
pub(crate) use name::{QualifiedName, is_reserved, is_reserved_type, quoted, quoted_type};
pub(crate) use selection::{
    ColumnTime, Comparator, InValues, OrderBy, Relation, Select, Selection, Selector,
};
pub(crate) use selector_text::function_text;
pub(crate) use term::{Arithmetic, Constant, ConstantKind, Marker, RawType, Term};

/// One statement, and the markers in it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Parsed {
    pub(crate) statement: Statement,
    /// The markers in the order of the text, with their names if they have one.
    pub(crate) markers: Vec<Option<String>>,
}

/// A statement.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Statement {
    Select(Select),
    Insert(Insert),
    InsertJson(InsertJson),
    Update(Update),
    Delete(Delete),
    Batch(Batch),
    Use(String),
    Truncate(QualifiedName),
    CreateKeyspace(CreateKeyspace),
    AlterKeyspace {
        name: String,
        if_exists: bool,
        properties: Properties,
    },
    CreateTable(CreateTable),
    AlterTable(AlterTable),
    CreateType(CreateType),
    AlterType(AlterType),
    CreateIndex(CreateIndex),
    CreateView(CreateView),
    AlterView {
        name: QualifiedName,
        if_exists: bool,
        properties: Properties,
    },
    CreateFunction(CreateFunction),
    CreateAggregate(CreateAggregate),
    CreateTrigger {
        name: String,
        table: QualifiedName,
        class: String,
        if_not_exists: bool,
    },
    Drop(Drop),
    Access(Access),
    Describe(Describe),
}

impl Statement {
    /// What it is called, without any of its names and values.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Select(_) => "SELECT",
            Self::Insert(_) => "INSERT",
            Self::InsertJson(_) => "INSERT JSON",
            Self::Update(_) => "UPDATE",
            Self::Delete(_) => "DELETE",
            Self::Batch(_) => "BATCH",
            Self::Use(_) => "USE",
            Self::Truncate(_) => "TRUNCATE",
            Self::CreateKeyspace(_)
            | Self::CreateTable(_)
            | Self::CreateType(_)
            | Self::CreateIndex(_)
            | Self::CreateView(_)
            | Self::CreateFunction(_)
            | Self::CreateAggregate(_)
            | Self::CreateTrigger { .. } => "CREATE",
            Self::AlterKeyspace { .. }
            | Self::AlterTable(_)
            | Self::AlterType(_)
            | Self::AlterView { .. } => "ALTER",
            Self::Drop(_) => "DROP",
            Self::Access(_) => "roles and permissions",
            Self::Describe(_) => "DESCRIBE",
        }
    }
}
