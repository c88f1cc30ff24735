//! Accumulators: what `$group` and its relatives make of many values, and operators that do the
//! same with the elements of one array.

mod collect;
pub(super) mod expression;
mod extreme;
mod numeric;
mod percentile;

use bson::{Bson, Document};

use super::order::Order;
use super::{Context, Expression, ParseContext, Variables, fail};
use crate::collation::Collation;
use crate::error::Result;
use crate::number::Number;

/// What one group may take for one accumulator.
pub(crate) const MAX_BYTES: usize = 400 << 20;

/// Values that become one.
pub(crate) trait Accumulate: Send + Sync {
    /// Takes the next value; `None` is "missing".
    fn add(&mut self, value: Option<Bson>) -> Result<()>;

    /// The result so far.
    fn value(&self) -> Bson;

    /// Forgets the values that were taken first, and says whether it can: what cannot begins anew.
    fn remove_first(&mut self, values: &[Option<Bson>]) -> Result<bool> {
        Ok(values.is_empty())
    }

    /// About how many bytes are kept.
    fn size(&self) -> usize {
        64
    }
}

/// A parsed accumulator: which one it is, and what it takes from each document.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Accumulator {
    kind: Kind,
    argument: Expression,
    /// How many values are kept, where that is asked for.
    count: Option<Expression>,
    collation: Collation,
}

#[derive(Clone, Debug, PartialEq)]
enum Kind {
    Sum,
    Average,
    Deviation {
        sample: bool,
    },
    Extreme {
        greatest: bool,
    },
    Extremes {
        greatest: bool,
    },
    First,
    Last,
    FirstSome,
    LastSome,
    Push,
    AddToSet,
    MergeObjects,
    ConcatArrays,
    SetUnion,
    Best {
        order: Order,
        last: bool,
        several: bool,
    },
    Percentile {
        points: Vec<f64>,
        method: percentile::Method,
        several: bool,
    },
}

type Parse = fn(&Bson, &ParseContext<'_>) -> Result<Accumulator>;

/// The names of accumulators, and how each is parsed.
const ACCUMULATORS: &[(&str, Parse)] = &[
    ("$addToSet", |spec, context| {
        unary(Kind::AddToSet, spec, context)
    }),
    ("$avg", |spec, context| unary(Kind::Average, spec, context)),
    ("$bottom", |spec, context| {
        extreme::parse_best(spec, context, true, false)
    }),
    ("$bottomN", |spec, context| {
        extreme::parse_best(spec, context, true, true)
    }),
    ("$concatArrays", |spec, context| {
        unary(Kind::ConcatArrays, spec, context)
    }),
    ("$count", |spec, _| count(spec)),
    ("$first", |spec, context| unary(Kind::First, spec, context)),
    ("$firstN", |spec, context| {
        several(Kind::FirstSome, spec, context)
    }),
    ("$last", |spec, context| unary(Kind::Last, spec, context)),
    ("$lastN", |spec, context| {
        several(Kind::LastSome, spec, context)
    }),
    ("$max", |spec, context| {
        unary(Kind::Extreme { greatest: true }, spec, context)
    }),
    ("$maxN", |spec, context| {
        several(Kind::Extremes { greatest: true }, spec, context)
    }),
    ("$median", |spec, context| {
        percentile::parse(spec, context, false)
    }),
    ("$mergeObjects", |spec, context| {
        unary(Kind::MergeObjects, spec, context)
    }),
    ("$min", |spec, context| {
        unary(Kind::Extreme { greatest: false }, spec, context)
    }),
    ("$minN", |spec, context| {
        several(Kind::Extremes { greatest: false }, spec, context)
    }),
    ("$percentile", |spec, context| {
        percentile::parse(spec, context, true)
    }),
    ("$push", |spec, context| unary(Kind::Push, spec, context)),
    ("$setUnion", |spec, context| {
        unary(Kind::SetUnion, spec, context)
    }),
    ("$stdDevPop", |spec, context| {
        unary(Kind::Deviation { sample: false }, spec, context)
    }),
    ("$stdDevSamp", |spec, context| {
        unary(Kind::Deviation { sample: true }, spec, context)
    }),
    ("$sum", |spec, context| unary(Kind::Sum, spec, context)),
    ("$top", |spec, context| {
        extreme::parse_best(spec, context, false, false)
    }),
    ("$topN", |spec, context| {
        extreme::parse_best(spec, context, false, true)
    }),
];

fn unary(kind: Kind, argument: &Bson, context: &ParseContext<'_>) -> Result<Accumulator> {
    let argument = Expression::parse(argument, context)?;
    let collation = context.collation().clone();
    Ok(Accumulator {
        kind,
        argument,
        count: None,
        collation,
    })
}

/// `{ $count: {} }` is the sum of ones.
fn count(argument: &Bson) -> Result<Accumulator> {
    if !matches!(argument, Bson::Document(argument) if argument.is_empty()) {
        return fail(14, "$count takes no arguments, i.e. $count:{}");
    }
    let argument = Expression::constant(Bson::Int32(1));
    Ok(Accumulator {
        kind: Kind::Sum,
        argument,
        count: None,
        collation: Collation::default(),
    })
}

/// An object of `n` and `input`.
fn several(kind: Kind, argument: &Bson, context: &ParseContext<'_>) -> Result<Accumulator> {
    let (count, argument) = parse_several(argument, context)?;
    let collation = context.collation().clone();
    Ok(Accumulator {
        kind,
        argument,
        count: Some(count),
        collation,
    })
}

/// `n` and `input`.
fn parse_several(argument: &Bson, context: &ParseContext<'_>) -> Result<(Expression, Expression)> {
    let Bson::Document(fields) = argument else {
        return fail(5787900, "specification must be an object");
    };
    if let Some(name) = fields
        .keys()
        .find(|name| !matches!(name.as_str(), "n" | "input"))
    {
        return fail(
            5787901,
            format!("Unknown argument for 'n' operator: {name}"),
        );
    }
    let Some(count) = fields.get("n") else {
        return fail(5787906, "Missing value for 'n'");
    };
    let Some(input) = fields.get("input") else {
        return fail(5787907, "Missing value for 'input'");
    };
    Ok((
        Expression::parse(count, context)?,
        Expression::parse(input, context)?,
    ))
}

/// How many values to keep, as an argument says it.
pub(super) fn parse_count(value: Option<&Bson>) -> Result<usize> {
    let Some(number) = value.and_then(Number::from_bson) else {
        return fail(5787902, "Value for 'n' must be of integral type");
    };
    let Some(count) = number.as_i64_exact() else {
        return fail(5787903, "Value for 'n' must be of integral type");
    };
    match usize::try_from(count) {
        Ok(count) if count > 0 => Ok(count),
        _ => fail(
            5787908,
            format!("'n' must be greater than 0, found {count}"),
        ),
    }
}

impl Accumulator {
    /// Parses `{ $operator: argument }`, the value of a field of `$group`.
    pub(crate) fn parse(field: &str, value: &Bson, context: &Context) -> Result<Self> {
        let operator = match value {
            Bson::Document(operator) => operator.iter().next().map(|first| (operator, first)),
            _ => None,
        };
        let Some((operator, (name, argument))) =
            operator.filter(|(_, (name, _))| name.starts_with('$'))
        else {
            return fail(
                40234,
                format!("The field '{field}' must be an accumulator object"),
            );
        };
        if field.contains('.') {
            return fail(
                40235,
                format!("The field name '{field}' cannot contain '.'"),
            );
        }
        if field.starts_with('$') {
            return fail(
                40236,
                format!("The field name '{field}' cannot be an operator name"),
            );
        }
        if operator.len() != 1 {
            return fail(
                40238,
                format!("The field '{field}' must specify one accumulator"),
            );
        }
        if matches!(argument, Bson::Array(_)) {
            return fail(40237, format!("The {name} accumulator is a unary operator"));
        }
        Self::parse_named(name, argument, &ParseContext::from(context))
    }

    /// Parses an accumulator by its name, as `$group` and windows share it.
    pub(crate) fn parse_named(
        name: &str,
        argument: &Bson,
        context: &ParseContext<'_>,
    ) -> Result<Self> {
        match ACCUMULATORS.iter().find(|(known, _)| *known == name) {
            Some((_, parse)) => parse(argument, context),
            None => fail(15952, format!("unknown group operator '{name}'")),
        }
    }

    /// Begins a group. The count may depend on what identifies the group.
    pub(crate) fn start(
        &self,
        group: &Document,
        variables: &Variables,
    ) -> Result<Box<dyn Accumulate>> {
        let count = match &self.count {
            Some(count) => match parse_count(count.evaluate(group, variables)?.as_ref()) {
                Ok(count) => count,
                Err(error) => return fail(7548606, error.message),
            },
            None => 1,
        };
        let collation = self.collation.clone();
        Ok(match &self.kind {
            Kind::Sum => Box::new(numeric::Sum::default()),
            Kind::Average => Box::new(numeric::Average::default()),
            Kind::Deviation { sample } => Box::new(numeric::Deviation::new(*sample)),
            Kind::Extreme { greatest } => Box::new(extreme::Extreme::new(*greatest, collation)),
            Kind::Extremes { greatest } => {
                Box::new(extreme::Extremes::new(*greatest, count, collation))
            }
            Kind::First => Box::new(collect::First::default()),
            Kind::Last => Box::new(collect::Last::default()),
            Kind::FirstSome => Box::new(collect::FirstSome::new(count)),
            Kind::LastSome => Box::new(collect::LastSome::new(count)),
            Kind::Push => Box::new(collect::Push::default()),
            Kind::AddToSet => Box::new(collect::AddToSet::new(collation, false)),
            Kind::SetUnion => Box::new(collect::AddToSet::new(collation, true)),
            Kind::MergeObjects => Box::new(collect::MergeObjects::new(5911200)),
            Kind::ConcatArrays => Box::new(collect::ConcatArrays::default()),
            Kind::Best { last, several, .. } => {
                Box::new(extreme::Best::new(*last, *several, count))
            }
            Kind::Percentile {
                points,
                method,
                several,
            } => Box::new(percentile::Percentile::new(
                points.clone(),
                *method,
                *several,
            )),
        })
    }

    /// What the accumulator takes from a document.
    pub(crate) fn argument(
        &self,
        document: &Document,
        variables: &Variables,
    ) -> Result<Option<Bson>> {
        let value = self.argument.evaluate(document, variables)?;
        match &self.kind {
            Kind::Best { order, .. } => {
                let key = order.key(document, &self.collation)?;
                Ok(Some(extreme::Best::entry(key, value)))
            }
            _ => Ok(value),
        }
    }
}

#[cfg(test)]
mod tests;
