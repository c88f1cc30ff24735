//! Expressions: terms and selectors, typed.

use crate::functions::Function;
use crate::statement::{Arithmetic, ColumnTime};
use crate::types::{DataType, Native};

/// What gives a value when a plan runs.
#[derive(Clone, Debug)]
pub(crate) enum Expression {
    Null,
    Constant(Vec<u8>),
    /// The value that came for this marker.
    Marker(usize),
    /// The column at this place of the table.
    Column(usize),
    ColumnTime {
        what: ColumnTime,
        column: usize,
        part: Option<Box<Part>>,
    },
    Function(Box<Function>, Vec<Self>),
    FromJson(Box<Self>, DataType),
    Operation(Arithmetic, Box<(Self, Native)>, Box<(Self, Native)>),
    Negation(Box<Self>, Native),
    Cast(Box<Self>, Native, Native),
    /// The token of a partition key of these components.
    Token(Vec<Self>),
    List(Vec<Self>),
    /// With the type of its elements.
    Set(Vec<Self>, DataType),
    /// With the type of its keys.
    Map(Vec<(Self, Self)>, DataType),
    /// A tuple or a user type.
    Tuple(Vec<Self>),
    /// With the type of its elements.
    Vector(Vec<Self>, DataType),
    /// A field of a user type, and its place in that.
    Field(Box<Typed>, usize),
    Element(Box<Typed>, Box<Self>),
    Slice(Box<Typed>, Option<Box<Self>>, Option<Box<Self>>),
    /// The result of an aggregate, by its number in the plan.
    Aggregate(usize),
}

/// Of which part of a column the time is asked.
#[derive(Clone, Debug)]
pub(crate) enum Part {
    Element(Expression),
    Field(usize),
    Slice(Option<Expression>, Option<Expression>),
}

/// An expression and the type of its value.
#[derive(Clone, Debug)]
pub(crate) struct Typed {
    pub(crate) expression: Expression,
    pub(crate) data_type: DataType,
}

impl Typed {
    pub(crate) fn new(expression: Expression, data_type: impl Into<DataType>) -> Self {
        let data_type = data_type.into();
        Self {
            expression,
            data_type,
        }
    }
}

impl Expression {
    /// Visits this and all expressions inside.
    pub(crate) fn walk(&self, visit: &mut dyn FnMut(&Self)) {
        visit(self);
        match self {
            Self::Null
            | Self::Constant(_)
            | Self::Marker(_)
            | Self::Column(_)
            | Self::ColumnTime { .. }
            | Self::Aggregate(_) => {}
            Self::Function(_, inner)
            | Self::Token(inner)
            | Self::List(inner)
            | Self::Set(inner, _)
            | Self::Tuple(inner)
            | Self::Vector(inner, _) => inner.iter().for_each(|inner| inner.walk(visit)),
            Self::FromJson(inner, _) | Self::Negation(inner, _) | Self::Cast(inner, _, _) => {
                inner.walk(visit);
            }
            Self::Operation(_, left, right) => {
                left.0.walk(visit);
                right.0.walk(visit);
            }
            Self::Map(entries, _) => {
                for (key, value) in entries {
                    key.walk(visit);
                    value.walk(visit);
                }
            }
            Self::Field(inner, _) => inner.expression.walk(visit),
            Self::Element(inner, key) => {
                inner.expression.walk(visit);
                key.walk(visit);
            }
            Self::Slice(inner, from, to) => {
                inner.expression.walk(visit);
                for bound in [from, to].into_iter().flatten() {
                    bound.walk(visit);
                }
            }
        }
    }
}
