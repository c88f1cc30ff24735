//! Accumulators as operators: over the elements of an array, or over several arguments.

use std::borrow::Cow;

use bson::Bson;
use tessera_core::deadline;

use super::percentile::{Method, Percentile, parse_fields};
use super::{Accumulate, collect, extreme, numeric, parse_count};
use crate::error::Result;
use crate::expression::operator::{Form, Operator, positional, take};
use crate::expression::{
    Call, Frame, Node, ParseContext, Value, array, fail, is_nullish, null, own, some,
};

const fn operator(name: &'static str, run: Over) -> Operator {
    Operator::values(name, Form::Any, run)
}

type Over = for<'a> fn(Vec<Value<'a>>, &Frame<'a>) -> Result<Value<'a>>;

pub(in crate::expression) const OPERATORS: &[Operator] = &[
    operator("$avg", |values, _| {
        over(values, numeric::Average::default())
    }),
    Operator::values("$first", Form::Exactly(1), |values, _| {
        let [array] = take(values);
        array::element_at("$first", array, Some(Cow::Owned(Bson::Int32(0))))
    }),
    several("$firstN", |call, frame| {
        let (count, items) = counted(call, frame)?;
        each(items, collect::FirstSome::new(count))
    }),
    Operator::values("$last", Form::Exactly(1), |values, _| {
        let [array] = take(values);
        array::element_at("$last", array, Some(Cow::Owned(Bson::Int32(-1))))
    }),
    several("$lastN", |call, frame| {
        let (count, items) = counted(call, frame)?;
        each(items, collect::LastSome::new(count))
    }),
    operator("$max", |values, frame| {
        over(values, extreme::Extreme::new(true, frame.collation.clone()))
    }),
    several("$maxN", |call, frame| {
        let (count, items) = counted(call, frame)?;
        each(
            items,
            extreme::Extremes::new(true, count, frame.collation.clone()),
        )
    }),
    Operator::lazy("$median", Form::Special(parse_percentile), percentile),
    Operator::values("$mergeObjects", Form::Any, |values, _| {
        over(values, collect::MergeObjects::new(40400))
    }),
    operator("$min", |values, frame| {
        over(
            values,
            extreme::Extreme::new(false, frame.collation.clone()),
        )
    }),
    several("$minN", |call, frame| {
        let (count, items) = counted(call, frame)?;
        each(
            items,
            extreme::Extremes::new(false, count, frame.collation.clone()),
        )
    }),
    Operator::lazy("$percentile", Form::Special(parse_percentile), percentile),
    operator("$stdDevPop", |values, _| {
        over(values, numeric::Deviation::new(false))
    }),
    operator("$stdDevSamp", |values, _| {
        over(values, numeric::Deviation::new(true))
    }),
    operator("$sum", |values, _| over(values, numeric::Sum::default())),
];

const fn several(
    name: &'static str,
    run: for<'a> fn(&'a Call, &Frame<'a>) -> Result<Value<'a>>,
) -> Operator {
    Operator::lazy(name, Form::Special(parse_several), run)
}

/// A single argument that is an array stands for its elements.
fn over<'a>(values: Vec<Value<'a>>, accumulator: impl Accumulate) -> Result<Value<'a>> {
    let mut values: Vec<Option<Bson>> = values.into_iter().map(|value| value.map(own)).collect();
    if let [Some(Bson::Array(items))] = values.as_mut_slice() {
        let items = std::mem::take(items);
        return each(items.into_iter().map(Some), accumulator);
    }
    each(values.into_iter(), accumulator)
}

fn each<'a>(
    values: impl Iterator<Item = Option<Bson>>,
    mut accumulator: impl Accumulate,
) -> Result<Value<'a>> {
    for value in values {
        deadline::step(1)?;
        accumulator.add(value)?;
    }
    some(accumulator.value())
}

fn parse_several(
    operator: &'static Operator,
    argument: &Bson,
    context: &ParseContext<'_>,
) -> Result<Node> {
    let Bson::Document(fields) = argument else {
        return fail(
            5787900,
            format!("{}: specification must be an object", operator.name),
        );
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
    let (Some(count), input) = (fields.get("n"), fields.get("input")) else {
        return fail(5787906, "Missing value for 'n'");
    };
    let Some(input) = input else {
        return fail(5787907, "Missing value for 'input'");
    };
    Ok(operator.call(vec![
        Node::parse(count, context)?,
        Node::parse(input, context)?,
    ]))
}

/// How many are asked for, and the elements.
fn counted<'a>(
    call: &'a Call,
    frame: &Frame<'a>,
) -> Result<(usize, impl Iterator<Item = Option<Bson>> + use<>)> {
    let count = parse_count(call.evaluate_argument(0, frame)?.as_deref())?;
    match call.evaluate_argument(1, frame)?.map(own) {
        Some(Bson::Array(items)) => Ok((count, items.into_iter().map(Some))),
        _ => fail(5788200, "Input must be an array"),
    }
}

/// The arguments are the input and the points; the name says whether values may lie between.
fn parse_percentile(
    operator: &'static Operator,
    argument: &Bson,
    context: &ParseContext<'_>,
) -> Result<Node> {
    let several = operator.name == "$percentile";
    let Bson::Document(fields) = argument else {
        let code = if several { 7436200 } else { 7436201 };
        return fail(
            code,
            format!("{}: specification must be an object", operator.name),
        );
    };
    let (input, points, method) = parse_fields(fields, context, several)?;
    // An array of expressions is several arguments; anything else is an array or a number.
    let input = match input {
        Bson::Array(_) => Node::Array(positional(input, context)?),
        input => Node::parse(input, context)?,
    };
    let points = points.into_iter().map(Bson::Double).collect();
    let names = match method {
        Method::Continuous => vec!["continuous".to_owned()],
        Method::Discrete => Vec::new(),
    };
    let points = Node::Constant(Some(Bson::Array(points)));
    Ok(operator.binding(vec![input, points], names))
}

fn percentile<'a>(call: &'a Call, frame: &Frame<'a>) -> Result<Value<'a>> {
    let several = call.operator.name == "$percentile";
    let points = match call.argument(1) {
        Node::Constant(Some(Bson::Array(points))) => {
            points.iter().filter_map(Bson::as_f64).collect()
        }
        _ => Vec::new(),
    };
    let method = if call.names.is_empty() {
        Method::Discrete
    } else {
        Method::Continuous
    };
    let accumulator = Percentile::new(points, method, several);
    match call.evaluate_argument(0, frame)?.map(own) {
        Some(Bson::Array(items)) => each(items.into_iter().map(Some), accumulator),
        value if is_nullish(value.as_ref()) && !several => null(),
        value => each(std::iter::once(value), accumulator),
    }
}
