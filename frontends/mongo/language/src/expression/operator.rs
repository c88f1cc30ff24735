//! The table of operators: the name of each, its arguments, and its function.

use bson::Bson;

use super::{Call, Frame, Node, ParseContext, Value, fail};
use crate::collation::Collation;
use crate::error::Result;

/// One operator of expressions.
#[derive(Debug)]
pub struct Operator {
    /// With its dollar sign.
    pub name: &'static str,
    pub(crate) form: Form,
    pub(crate) run: Run,
    pub(crate) fold: Fold,
}

/// Which arguments an operator takes, and how they are written.
#[derive(Debug)]
pub(crate) enum Form {
    /// So many, in an array; a single one may stand alone.
    Exactly(usize),
    /// At least and at most so many.
    Between(usize, usize),
    /// Any number.
    Any,
    /// An object of named arguments, in the order in which the operator wants them.
    Named(&'static Named),
    /// Something of its own.
    Special(fn(&'static Operator, &Bson, &ParseContext<'_>) -> Result<Node>),
}

/// Named arguments and the errors of getting them wrong.
#[derive(Debug)]
pub(crate) struct Named {
    pub(crate) fields: &'static [Field],
    /// The argument is no object.
    pub(crate) not_object: i32,
    /// A field that the operator does not know.
    pub(crate) unknown: i32,
}

#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    /// The error of leaving it out, if it may not be.
    pub(crate) missing: Option<i32>,
}

pub(crate) const fn required(name: &'static str, missing: i32) -> Field {
    Field {
        name,
        missing: Some(missing),
    }
}

pub(crate) const fn optional(name: &'static str) -> Field {
    Field {
        name,
        missing: None,
    }
}

/// What an operator makes of the values of its arguments.
pub(crate) type RunValues = for<'a> fn(Vec<Value<'a>>, &Frame<'a>) -> Result<Value<'a>>;

/// How an operator gets its answer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Run {
    /// From the values of all its arguments.
    Values(RunValues),
    /// By evaluating those arguments that it needs, when it needs them.
    Lazy(for<'a> fn(&'a Call, &Frame<'a>) -> Result<Value<'a>>),
}

/// When a call is evaluated ahead of time.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fold {
    /// If its arguments are constants.
    Constants,
    /// Never: equal arguments give different answers.
    Never,
    /// As the operator itself decides.
    Own(fn(Call, &Collation) -> Result<Node>),
}

impl Operator {
    /// An operator over the values of its arguments.
    pub(crate) const fn values(name: &'static str, form: Form, run: RunValues) -> Self {
        Self {
            name,
            form,
            run: Run::Values(run),
            fold: Fold::Constants,
        }
    }

    /// An operator that evaluates its arguments itself.
    pub(crate) const fn lazy(
        name: &'static str,
        form: Form,
        run: for<'a> fn(&'a Call, &Frame<'a>) -> Result<Value<'a>>,
    ) -> Self {
        Self {
            name,
            form,
            run: Run::Lazy(run),
            fold: Fold::Constants,
        }
    }

    /// The same operator, never evaluated ahead of time.
    pub(crate) const fn never_folded(self) -> Self {
        Self {
            fold: Fold::Never,
            ..self
        }
    }

    pub(crate) fn parse(
        &'static self,
        argument: &Bson,
        context: &ParseContext<'_>,
    ) -> Result<Node> {
        let arguments = match self.form {
            Form::Exactly(count) => {
                let arguments = positional(argument, context)?;
                if arguments.len() != count {
                    return fail(
                        16020,
                        format!(
                            "Expression {} takes exactly {count} arguments. {} were passed in.",
                            self.name,
                            arguments.len()
                        ),
                    );
                }
                arguments
            }
            Form::Between(least, most) => {
                let arguments = positional(argument, context)?;
                if arguments.len() < least || arguments.len() > most {
                    return fail(
                        28667,
                        format!(
                            "Expression {} takes at least {least} arguments, and at most {most}, \
                             but {} were passed in.",
                            self.name,
                            arguments.len()
                        ),
                    );
                }
                arguments
            }
            Form::Any => positional(argument, context)?,
            Form::Named(named) => self.named(named, argument, context)?,
            Form::Special(parse) => return parse(self, argument, context),
        };
        Ok(self.call(arguments))
    }

    pub(crate) fn call(&'static self, arguments: Vec<Node>) -> Node {
        self.binding(arguments, Vec::new())
    }

    /// A call that binds variables.
    pub(crate) fn binding(&'static self, arguments: Vec<Node>, names: Vec<String>) -> Node {
        Node::Call(Box::new(Call {
            operator: self,
            arguments,
            names,
            members: None,
        }))
    }

    pub(crate) fn named(
        &self,
        named: &Named,
        argument: &Bson,
        context: &ParseContext<'_>,
    ) -> Result<Vec<Node>> {
        let fields = self.fields(named, argument)?;
        let parse = |field: Option<&Bson>| {
            field.map_or(Ok(Node::Absent), |value| Node::parse(value, context))
        };
        fields.into_iter().map(parse).collect()
    }

    /// The named arguments as they are written, each in its place.
    pub(crate) fn fields<'b>(
        &self,
        named: &Named,
        argument: &'b Bson,
    ) -> Result<Vec<Option<&'b Bson>>> {
        let Bson::Document(document) = argument else {
            return fail(named.not_object, format!("{} takes an object", self.name));
        };
        for name in document.keys() {
            if !named.fields.iter().any(|field| field.name == name) {
                return fail(
                    named.unknown,
                    format!("Unrecognized argument to {}: {name}", self.name),
                );
            }
        }
        let take = |field: &Field| match (document.get(field.name), field.missing) {
            (None, Some(code)) => fail(
                code,
                format!("Missing '{}' parameter to {}", field.name, self.name),
            ),
            (value, _) => Ok(value),
        };
        named.fields.iter().map(take).collect()
    }
}

/// Arguments in an array; what is no array is a single argument.
pub(crate) fn positional(argument: &Bson, context: &ParseContext<'_>) -> Result<Vec<Node>> {
    match argument {
        Bson::Array(items) => items
            .iter()
            .map(|item| Node::parse(item, context))
            .collect(),
        single => Ok(vec![Node::parse(single, context)?]),
    }
}

/// Exactly so many values; the form of the operator has counted them.
pub(crate) fn take<'a, const N: usize>(values: Vec<Value<'a>>) -> [Value<'a>; N] {
    let mut values = values.into_iter();
    std::array::from_fn(|_| values.next().flatten())
}

const FAMILIES: &[&[Operator]] = &[
    super::accumulator::expression::OPERATORS,
    super::arithmetic::OPERATORS,
    super::array::OPERATORS,
    super::binding::OPERATORS,
    super::boolean::OPERATORS,
    super::comparison::OPERATORS,
    super::conditional::OPERATORS,
    super::convert::OPERATORS,
    super::misc::OPERATORS,
    super::object::OPERATORS,
    super::pattern::OPERATORS,
    super::set::OPERATORS,
    super::string::OPERATORS,
    super::trigonometry::OPERATORS,
];

/// The operator of a name with its dollar sign.
pub fn find(name: &str) -> Option<&'static Operator> {
    operators().find(|operator| operator.name == name)
}

/// Every operator.
pub fn operators() -> impl Iterator<Item = &'static Operator> {
    let families = FAMILIES.iter().copied().chain(super::date::FAMILIES);
    families.flatten()
}
