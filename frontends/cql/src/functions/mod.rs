//! The functions of CQL: one table, and a file per family.
//!
//! Finding one needs names and types only; what it does is a plain function of its arguments and,
//! for those that ask for it, the clock.

mod aggregate;
mod blob;
mod cast;
mod collection;
mod json;
mod json_value;
mod mask;
mod math;
mod number;
mod operation;
mod time;
mod vector;

use std::borrow::Cow;

use tessera_core::clock::Clock;

use crate::error::{CqlError, Result};
use crate::statement::{Constant, ConstantKind};
use crate::types::{DataType, Native};

pub(crate) use aggregate::{Accumulator, Aggregate, is_aggregate, resolve_aggregate};
pub(crate) use cast::{cast, check_cast};
pub(crate) use json::{from_json, json_columns};
pub(crate) use number::is_number;
pub(crate) use operation::{negate, operate, operation_types};

/// What a function gets: its arguments in their types.
pub(crate) struct Call<'a> {
    /// The name that it was called by.
    pub(crate) name: &'a str,
    pub(crate) arguments: &'a [Option<Cow<'a, [u8]>>],
    pub(crate) types: &'a [DataType],
    pub(crate) result: &'a DataType,
    pub(crate) clock: &'a Clock,
}

pub(crate) type Evaluate = fn(&Call<'_>) -> Result<Option<Vec<u8>>>;

/// A function that was found, for arguments of certain types.
#[derive(Clone, Debug)]
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) parameters: Vec<DataType>,
    pub(crate) result: DataType,
    /// Whether it is called if an argument is null; the others are null then.
    takes_null: bool,
    evaluate: Evaluate,
}

/// A row of the table.
struct Row {
    name: &'static str,
    /// The name that it had before Cassandra 5.
    legacy: &'static str,
    overloads: &'static [(&'static [Pattern], Returns)],
    takes_null: bool,
    evaluate: Evaluate,
}

/// What a parameter takes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Pattern {
    Native(Native),
    Number,
    Map,
    Collection,
    /// A list or a set of numbers.
    Numbers,
    Vector,
    Any,
    /// Whatever the first argument is.
    First,
}

/// What comes back.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Returns {
    Native(Native),
    /// What the first argument is.
    First,
    /// The elements of the first argument.
    Element,
    KeySet,
    ValueList,
}

/// What is known of an argument before it is typed.
#[derive(Clone, Debug)]
pub(crate) enum Argument<'a> {
    Typed(DataType),
    Constant(&'a Constant),
    /// A list as it is written, and its type if it can be told. It may be a vector, too.
    List(Option<DataType>, Vec<Self>),
    /// A marker, null, or another literal of several values.
    Unknown,
}

const TABLES: &[&[Row]] = &[
    collection::ROWS,
    json::ROWS,
    mask::ROWS,
    math::ROWS,
    time::ROWS,
    vector::ROWS,
];

/// The function that is meant by a call.
pub(crate) fn resolve(name: &str, arguments: &[Argument<'_>]) -> Result<Function> {
    if let Some(function) = blob::find(name) {
        return one_overload(function, arguments);
    }
    let mut rows = TABLES.iter().flat_map(|rows| rows.iter());
    let Some(row) = rows.find(|row| row.name == name || row.legacy == name) else {
        return Err(CqlError::invalid(format!("Unknown function '{name}'")));
    };
    let of_overload = |(patterns, returns): &(&'static [Pattern], Returns)| {
        let parameters = parameters(patterns, arguments)?;
        let result = result(*returns, &parameters)?;
        let rank: usize = parameters
            .iter()
            .zip(arguments)
            .map(|(parameter, argument)| usize::from(!is_exact(argument, parameter)))
            .sum();
        let function = Function {
            name: name.to_owned(),
            parameters,
            result,
            takes_null: row.takes_null,
            evaluate: row.evaluate,
        };
        Some((rank, function))
    };
    let mut matches: Vec<(usize, Function)> =
        row.overloads.iter().filter_map(of_overload).collect();
    matches.sort_by_key(|(rank, _)| *rank);
    let is_open = arguments
        .iter()
        .any(|argument| matches!(argument, Argument::Unknown));
    if is_open && matches.len() > 1 {
        return Err(ambiguous(row, name));
    }
    let mut matches = matches.into_iter();
    matches
        .next()
        .map(|(_, function)| function)
        .ok_or_else(|| no_match(row, name, arguments))
}

fn signatures(row: &Row, name: &str) -> String {
    let signature = |(patterns, returns): &(&[Pattern], Returns)| {
        let parameters: Vec<String> = patterns.iter().map(|p| p.to_string()).collect();
        format!("system.{name} : ({}) -> {returns}", parameters.join(", "))
    };
    let known: Vec<String> = row.overloads.iter().map(signature).collect();
    known.join(", ")
}

fn ambiguous(row: &Row, name: &str) -> CqlError {
    CqlError::invalid(format!(
        "Ambiguous call to function {name} (can be matched by following signatures: {}): use type \
         casts to disambiguate",
        signatures(row, name)
    ))
}

fn no_match(row: &Row, name: &str, arguments: &[Argument<'_>]) -> CqlError {
    if let [(patterns, _)] = row.overloads
        && patterns.len() != arguments.len()
    {
        let (required, provided) = (patterns.len(), arguments.len());
        return CqlError::invalid(format!(
            "Invalid number of arguments in call to function {name}: {required} required but \
             {provided} provided"
        ));
    }
    if let [(patterns, _)] = row.overloads {
        let wrong = patterns.iter().zip(arguments).enumerate();
        for (place, (pattern, argument)) in wrong {
            if let Pattern::Native(native) = pattern
                && !accepts(argument, &DataType::Native(*native))
            {
                return wrong_argument(name, place, native.name());
            }
        }
    }
    CqlError::invalid(format!(
        "Invalid call to function {name}, none of its type signatures match (known type \
         signatures: {})",
        signatures(row, name)
    ))
}

fn wrong_argument(name: &str, place: usize, expected: &str) -> CqlError {
    CqlError::invalid(format!(
        "Type error: the argument cannot be passed as argument {place} of function system.{name} \
         of type {expected}"
    ))
}

impl std::fmt::Display for Pattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Native(native) => native.name(),
            Self::Number => "numeric",
            Self::Map => "map",
            Self::Collection => "collection",
            Self::Numbers => "numeric_set_or_list",
            Self::Vector => "vector<float, n>",
            Self::Any => "any",
            Self::First => "same",
        })
    }
}

impl std::fmt::Display for Returns {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Native(native) => native.name(),
            Self::First => "same",
            Self::Element => "element",
            Self::KeySet => "set",
            Self::ValueList => "list",
        })
    }
}

fn one_overload(function: Function, arguments: &[Argument<'_>]) -> Result<Function> {
    let name = &function.name;
    let (required, provided) = (function.parameters.len(), arguments.len());
    if required != provided {
        return Err(CqlError::invalid(format!(
            "Invalid number of arguments in call to function {name}: {required} required but \
             {provided} provided"
        )));
    }
    let wrong = function
        .parameters
        .iter()
        .zip(arguments)
        .find(|(parameter, argument)| !accepts(argument, parameter));
    match wrong {
        None => Ok(function),
        Some((parameter, _)) => Err(wrong_argument(name, 0, &parameter.to_string())),
    }
}

fn parameters(patterns: &[Pattern], arguments: &[Argument<'_>]) -> Option<Vec<DataType>> {
    if patterns.len() != arguments.len() {
        return None;
    }
    let mut types: Vec<DataType> = Vec::with_capacity(patterns.len());
    for (pattern, argument) in patterns.iter().zip(arguments) {
        let data_type = match pattern {
            Pattern::First => types.first()?.clone(),
            Pattern::Native(native) => DataType::Native(*native),
            Pattern::Vector => vector_type(argument, arguments)?,
            _ => own_type(argument)?,
        };
        if !fits(*pattern, &data_type) || !accepts(argument, &data_type) {
            return None;
        }
        types.push(data_type);
    }
    Some(types)
}

/// The type of a vector that may be written out, or be told only by the others.
fn vector_type(argument: &Argument<'_>, all: &[Argument<'_>]) -> Option<DataType> {
    match argument {
        Argument::List(_, elements) => Some(DataType::Vector {
            element: Box::new(DataType::Native(Native::Float)),
            dimension: u32::try_from(elements.len()).ok()?,
        }),
        Argument::Unknown => all.iter().find_map(|other| match other {
            Argument::Typed(other @ DataType::Vector { .. }) => Some(other.clone()),
            _ => None,
        }),
        other => own_type(other),
    }
}

fn fits(pattern: Pattern, data_type: &DataType) -> bool {
    match (pattern, data_type) {
        (Pattern::Number, DataType::Native(native)) => is_number(*native),
        (Pattern::Map, DataType::Map { .. })
        | (Pattern::Vector, DataType::Vector { .. })
        | (Pattern::Any | Pattern::First, _) => true,
        (Pattern::Collection, other) => other.is_collection(),
        (Pattern::Numbers, DataType::List { element, .. } | DataType::Set { element, .. }) => {
            matches!(&**element, DataType::Native(native) if is_number(*native))
        }
        (Pattern::Native(native), DataType::Native(other)) => native == *other,
        _ => false,
    }
}

fn result(returns: Returns, parameters: &[DataType]) -> Option<DataType> {
    let first = parameters.first();
    Some(match (returns, first) {
        (Returns::Native(native), _) => DataType::Native(native),
        (Returns::First, Some(first)) => first.clone(),
        (Returns::Element, Some(first)) => (*first.inner().first()?).clone(),
        (Returns::KeySet, Some(DataType::Map { key, .. })) => DataType::set((**key).clone()),
        (Returns::ValueList, Some(DataType::Map { value, .. })) => {
            DataType::list((**value).clone())
        }
        _ => return None,
    })
}

/// The type that an argument has by itself.
fn own_type(argument: &Argument<'_>) -> Option<DataType> {
    match argument {
        Argument::Typed(data_type) => Some(data_type.clone()),
        Argument::Constant(constant) => Some(DataType::Native(constant_type(constant))),
        Argument::List(data_type, _) => data_type.clone(),
        Argument::Unknown => None,
    }
}

fn is_exact(argument: &Argument<'_>, parameter: &DataType) -> bool {
    own_type(argument).is_some_and(|own| own.freeze() == parameter.freeze())
}

fn accepts(argument: &Argument<'_>, parameter: &DataType) -> bool {
    match argument {
        Argument::Typed(data_type) => is_assignable(data_type, parameter),
        Argument::Constant(constant) => match parameter {
            DataType::Native(native) => constant_fits(constant.kind, *native),
            _ => false,
        },
        Argument::List(own, elements) => match parameter {
            DataType::Vector { element, dimension } => {
                usize::try_from(*dimension) == Ok(elements.len())
                    && elements.iter().all(|each| accepts(each, element))
            }
            _ => own.as_ref().is_none_or(|own| is_assignable(own, parameter)),
        },
        Argument::Unknown => true,
    }
}

/// The type of a constant that nothing else tells.
pub(crate) fn constant_type(constant: &Constant) -> Native {
    match constant.kind {
        ConstantKind::String => Native::Text,
        ConstantKind::Integer if constant.text.parse::<i32>().is_ok() => Native::Int,
        ConstantKind::Integer if constant.text.parse::<i64>().is_ok() => Native::Bigint,
        ConstantKind::Integer => Native::Varint,
        ConstantKind::Float => Native::Double,
        ConstantKind::Boolean => Native::Boolean,
        ConstantKind::Duration => Native::Duration,
        ConstantKind::Uuid => Native::Uuid,
        ConstantKind::Hex => Native::Blob,
    }
}

/// Whether a constant of this look may stand for a value of this type.
pub(crate) fn constant_fits(kind: ConstantKind, native: Native) -> bool {
    use Native::{
        Ascii, Bigint, Blob, Boolean, Counter, Date, Decimal, Double, Duration, Float, Inet, Int,
        Smallint, Text, Time, Timestamp, Timeuuid, Tinyint, Uuid, Varint,
    };
    match kind {
        ConstantKind::String => matches!(native, Ascii | Text | Inet | Timestamp | Date | Time),
        ConstantKind::Integer => matches!(
            native,
            Bigint
                | Counter
                | Date
                | Decimal
                | Double
                | Duration
                | Float
                | Int
                | Smallint
                | Time
                | Timestamp
                | Tinyint
                | Varint
        ),
        ConstantKind::Float => matches!(native, Decimal | Double | Float),
        ConstantKind::Boolean => native == Boolean,
        ConstantKind::Duration => native == Duration,
        ConstantKind::Uuid => matches!(native, Uuid | Timeuuid),
        ConstantKind::Hex => native == Blob,
    }
}

/// Whether values of one type are values of the other, too.
pub(crate) fn is_assignable(from: &DataType, to: &DataType) -> bool {
    use Native::{
        Ascii, Bigint, Blob, Int, Smallint, Text, Timestamp, Timeuuid, Tinyint, Uuid, Varint,
    };
    match (from, to) {
        (DataType::Native(from), DataType::Native(to)) => {
            from == to
                || matches!(
                    (from, to),
                    (Ascii, Text)
                        | (Timeuuid, Uuid)
                        | (_, Blob)
                        | (Bigint, Timestamp)
                        | (Timestamp, Bigint)
                        | (Tinyint | Smallint | Int | Bigint, Varint)
                )
        }
        _ => from.freeze() == to.freeze(),
    }
}

impl Function {
    pub(crate) fn evaluate(
        &self,
        arguments: &[Option<Cow<'_, [u8]>>],
        clock: &Clock,
    ) -> Result<Option<Vec<u8>>> {
        if !self.takes_null && arguments.iter().any(Option::is_none) {
            return Ok(None);
        }
        (self.evaluate)(&Call {
            name: &self.name,
            arguments,
            types: &self.parameters,
            result: &self.result,
            clock,
        })
    }
}

impl Call<'_> {
    /// The bytes of an argument; none if it is null or no value at all.
    fn bytes(&self, index: usize) -> Option<&[u8]> {
        let bytes = self.arguments.get(index)?.as_deref()?;
        (!bytes.is_empty()).then_some(bytes)
    }

    fn fixed<const N: usize>(&self, index: usize) -> Option<[u8; N]> {
        self.bytes(index)?.try_into().ok()
    }

    fn native(&self, index: usize) -> Option<Native> {
        match self.types.get(index)? {
            DataType::Native(native) => Some(*native),
            _ => None,
        }
    }
}

/// Tests of functions: a call in text, and what it gives in text.
#[cfg(test)]
mod testing {
    use super::*;
    use crate::types::{parse_native, to_literal};

    /// The result of a function of values in text; `null` for null.
    pub(super) fn called(name: &str, arguments: &[(DataType, &str)]) -> String {
        let typed: Vec<Argument<'_>> = arguments
            .iter()
            .map(|(data_type, _)| Argument::Typed(data_type.clone()))
            .collect();
        let function = match resolve(name, &typed) {
            Ok(function) => function,
            Err(error) => return error.message,
        };
        let values: Vec<Option<Cow<'_, [u8]>>> = arguments
            .iter()
            .map(|(data_type, text)| value(data_type, text).map(Cow::Owned))
            .collect();
        let clock = Clock::manual(1_700_000_000_000);
        match function.evaluate(&values, &clock) {
            Ok(None) => "null".to_owned(),
            Ok(Some(bytes)) => to_literal(&function.result, &bytes).unwrap(),
            Err(error) => error.message,
        }
    }

    pub(super) fn value(data_type: &DataType, text: &str) -> Option<Vec<u8>> {
        match data_type {
            _ if text == "null" => None,
            DataType::Native(native) => Some(parse_native(*native, text).unwrap()),
            _ => from_json(data_type, text).unwrap(),
        }
    }
}
