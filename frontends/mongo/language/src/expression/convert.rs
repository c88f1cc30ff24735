//! Conversions: `$convert` and its short forms, `$type` and `$isNumber`.

use bson::oid::ObjectId;
use bson::spec::BinarySubtype;
use bson::{Binary, Bson, DateTime};
use dec::Rounding;
use tessera_core::deadline;

use super::binary::{Format, from_number, from_text, parse_subtype, to_number, to_text};
use super::date::format::iso;
use super::date::{as_date, parse_date};
use super::operator::{Form, Named, Operator, optional, positional, required, take};
use super::string::shortest_double;
use super::{Call, Frame, Node, ParseContext, Value, fail, is_nullish, is_truthy, null, some};
use crate::compare::type_name;
use crate::error::{Code, Error, Result};
use crate::number::{Decimal, Number};
use crate::size::text_steps;

const CONVERT: Named = Named {
    fields: &[
        required("input", 9),
        required("to", 9),
        optional("onError"),
        optional("onNull"),
        optional("format"),
        optional("byteOrder"),
    ],
    not_object: 9,
    unknown: 9,
};

pub(super) const CONVERSION_FAILURE: Code = Code(241);

pub(super) const OPERATORS: &[Operator] = &[
    Operator::lazy("$convert", Form::Named(&CONVERT), convert),
    Operator::values("$isNumber", Form::Exactly(1), |values, _| {
        let [value] = take(values);
        some(
            value
                .as_deref()
                .is_some_and(|value| Number::from_bson(value).is_some()),
        )
    }),
    short("$toBool", |values, _| to(values, Type::Bool)),
    short("$toDate", |values, _| to(values, Type::Date)),
    short("$toDecimal", |values, _| to(values, Type::Decimal)),
    short("$toDouble", |values, _| to(values, Type::Double)),
    short("$toInt", |values, _| to(values, Type::Int)),
    short("$toLong", |values, _| to(values, Type::Long)),
    short("$toObjectId", |values, _| to(values, Type::ObjectId)),
    short("$toString", |values, _| to(values, Type::String)),
    short("$toUUID", |values, _| {
        to(values, Type::Binary(BinarySubtype::Uuid))
    }),
    Operator::values("$type", Form::Exactly(1), |values, _| {
        let [value] = take(values);
        some(value.as_deref().map_or("missing", type_name))
    }),
];

const fn short(
    name: &'static str,
    run: for<'a> fn(Vec<Value<'a>>, &Frame<'a>) -> Result<Value<'a>>,
) -> Operator {
    Operator::values(name, Form::Special(parse_short), run)
}

/// The types that something can be converted to.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Type {
    Double,
    String,
    ObjectId,
    Bool,
    Date,
    Int,
    Long,
    Decimal,
    Binary(BinarySubtype),
    /// A type that BSON has and that nothing is converted to, unless it is of it.
    Other(&'static str),
}

/// The names and numbers of BSON's types.
const TYPES: &[(&str, i32, Type)] = &[
    ("double", 1, Type::Double),
    ("string", 2, Type::String),
    ("object", 3, Type::Other("object")),
    ("array", 4, Type::Other("array")),
    ("binData", 5, Type::Binary(BinarySubtype::Generic)),
    ("undefined", 6, Type::Other("undefined")),
    ("objectId", 7, Type::ObjectId),
    ("bool", 8, Type::Bool),
    ("date", 9, Type::Date),
    ("null", 10, Type::Other("null")),
    ("regex", 11, Type::Other("regex")),
    ("dbPointer", 12, Type::Other("dbPointer")),
    ("javascript", 13, Type::Other("javascript")),
    ("symbol", 14, Type::Other("symbol")),
    (
        "javascriptWithScope",
        15,
        Type::Other("javascriptWithScope"),
    ),
    ("int", 16, Type::Int),
    ("timestamp", 17, Type::Other("timestamp")),
    ("long", 18, Type::Long),
    ("decimal", 19, Type::Decimal),
    ("minKey", -1, Type::Other("minKey")),
    ("maxKey", 127, Type::Other("maxKey")),
    ("missing", 0, Type::Other("missing")),
];

/// Exactly one argument, with a code of its own for other counts.
fn parse_short(
    operator: &'static Operator,
    argument: &Bson,
    context: &ParseContext<'_>,
) -> Result<Node> {
    let arguments = positional(argument, context)?;
    match arguments.len() {
        1 => Ok(operator.call(arguments)),
        count => fail(
            50723,
            format!("{} requires a single argument, got {count}", operator.name),
        ),
    }
}

fn to<'a>(values: Vec<Value<'a>>, target: Type) -> Result<Value<'a>> {
    let [value] = take(values);
    let format = match target {
        Type::Binary(_) => Some(Format::Uuid),
        _ => Some(Format::Auto),
    };
    match value.as_deref() {
        None | Some(Bson::Null | Bson::Undefined) => null(),
        Some(value) => some(convert_to(value, target, format, false)?),
    }
}

fn convert<'a>(call: &'a Call, frame: &Frame<'a>) -> Result<Value<'a>> {
    let target = call.evaluate_argument(1, frame)?;
    let input = call.evaluate_argument(0, frame)?;
    let format = call.evaluate_argument(4, frame)?;
    let byte_order = call.evaluate_argument(5, frame)?;
    let target = parse_target(target.as_deref())?;
    if is_nullish(input.as_deref()) {
        return if call.argument(3).is_absent() {
            null()
        } else {
            call.evaluate_argument(3, frame)
        };
    }
    let (Some((kind, subtype)), Some(input)) = (target, input.as_deref()) else {
        return null();
    };
    let format = Format::from_value(format.as_deref())?;
    let big_endian = match byte_order.as_deref() {
        None | Some(Bson::Null | Bson::Undefined) => false,
        Some(Bson::String(order)) if order == "big" => true,
        Some(Bson::String(order)) if order == "little" => false,
        Some(Bson::String(order)) => {
            return fail(
                9130002,
                format!("Invalid 'byteOrder' argument for $convert: {order}"),
            );
        }
        Some(_) => return fail(9130001, "$convert requires that 'byteOrder' be a string"),
    };
    let converted = match kind {
        Type::Binary(_) if is_binary_source(input) => parse_subtype(&subtype)
            .and_then(|subtype| convert_to(input, Type::Binary(subtype), format, big_endian)),
        kind => convert_to(input, kind, format, big_endian),
    };
    match converted {
        Ok(value) => some(value),
        Err(error) if is_conversion_failure(&error) && !call.argument(2).is_absent() => {
            call.evaluate_argument(2, frame)
        }
        Err(error) => Err(error),
    }
}

/// What `onError` is for: that includes dates that have no text.
fn is_conversion_failure(error: &Error) -> bool {
    error.code == CONVERSION_FAILURE || error.code == Code(18537)
}

fn is_binary_source(value: &Bson) -> bool {
    matches!(
        value,
        Bson::String(_) | Bson::Binary(_) | Bson::Int32(_) | Bson::Int64(_) | Bson::Double(_)
    )
}

/// The type to convert to, and the subtype of binary data; none for null.
fn parse_target(value: Option<&Bson>) -> Result<Option<(Type, Bson)>> {
    let generic = Bson::Int32(0);
    let (kind, subtype) = match value {
        None | Some(Bson::Null | Bson::Undefined) => return Ok(None),
        Some(Bson::Document(target)) => (
            target.get("type"),
            target.get("subtype").cloned().unwrap_or(generic),
        ),
        other => (other, generic),
    };
    let found = match kind {
        Some(Bson::String(name)) => match TYPES.iter().find(|(known, ..)| known == name) {
            Some((.., kind)) => *kind,
            None => return fail(2, format!("Unknown type name alias: {name}")),
        },
        Some(number) if Number::from_bson(number).is_some() => {
            let code = Number::from_bson(number).and_then(Number::as_i32_exact);
            match TYPES.iter().find(|(_, known, _)| Some(*known) == code) {
                Some((.., kind)) => *kind,
                None => return fail(9, format!("In $convert, 'to' is not a BSON type: {number}")),
            }
        }
        _ => return fail(9, "$convert's 'to' argument must be a string or number"),
    };
    Ok(Some((found, subtype)))
}

fn convert_to(
    value: &Bson,
    target: Type,
    format: Option<Format>,
    big_endian: bool,
) -> Result<Bson> {
    // A text is read, and repeated in the message if it cannot be.
    deadline::step(text_steps(value))?;
    match target {
        Type::Bool => to_bool(value),
        Type::Int => {
            to_integer(value, big_endian, 4).and_then(|number| match i32::try_from(number) {
                Ok(number) => Ok(Bson::Int32(number)),
                Err(_) => overflow(value),
            })
        }
        Type::Long => to_integer(value, big_endian, 8).map(Bson::Int64),
        Type::Double => to_double(value, big_endian),
        Type::Decimal => to_decimal(value),
        Type::String => to_string(value, format),
        Type::Date => to_date(value),
        Type::ObjectId => match value {
            Bson::ObjectId(_) => Ok(value.clone()),
            Bson::String(text) => match ObjectId::parse_str(text) {
                Ok(id) => Ok(Bson::ObjectId(id)),
                Err(_) => failure(format!("Failed to parse objectId '{text}' in $convert")),
            },
            _ => unsupported(value, "objectId"),
        },
        Type::Binary(subtype) => to_binary(value, subtype, format, big_endian),
        Type::Other(name) => unsupported(value, name),
    }
}

pub(super) fn failure<T>(message: impl Into<String>) -> Result<T> {
    fail(CONVERSION_FAILURE.0, message)
}

fn unsupported<T>(value: &Bson, target: &str) -> Result<T> {
    let found = type_name(value);
    failure(format!(
        "Unsupported conversion from {found} to {target} in $convert"
    ))
}

fn overflow<T>(value: &Bson) -> Result<T> {
    failure(format!(
        "Conversion would overflow target type in $convert: {value}"
    ))
}

fn to_bool(value: &Bson) -> Result<Bson> {
    Ok(Bson::Boolean(is_truthy(value)))
}

/// An integer, truncated; binary data may have up to so many bytes.
fn to_integer(value: &Bson, big_endian: bool, most: usize) -> Result<i64> {
    match value {
        Bson::Int32(value) => Ok(i64::from(*value)),
        Bson::Int64(value) => Ok(*value),
        Bson::Boolean(value) => Ok(i64::from(*value)),
        Bson::Double(double) => match Number::Double(double.trunc()).as_i64_exact() {
            Some(whole) => Ok(whole),
            None => overflow(value),
        },
        Bson::Decimal128(decimal) => {
            let whole = Decimal::from_bson(*decimal).round_to_integer(Rounding::Down);
            match whole.to_i64_exact() {
                Some(whole) => Ok(whole),
                None => overflow(value),
            }
        }
        Bson::DateTime(date) if most == 8 => Ok(date.timestamp_millis()),
        Bson::String(text) => parse_integer(text),
        Bson::Binary(binary) => to_number(binary, big_endian, most),
        _ => unsupported(value, if most == 8 { "long" } else { "int" }),
    }
}

fn parse_integer(text: &str) -> Result<i64> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if !digits.is_empty()
        && digits.bytes().all(|digit| digit.is_ascii_digit())
        && let Ok(number) = text.parse()
    {
        return Ok(number);
    }
    failure(format!("Failed to parse number '{text}' in $convert"))
}

fn to_double(value: &Bson, big_endian: bool) -> Result<Bson> {
    let double = match value {
        Bson::Boolean(value) => f64::from(u8::from(*value)),
        Bson::DateTime(date) => Number::Int64(date.timestamp_millis()).to_f64(),
        Bson::String(text) => parse_double(text)?,
        Bson::Binary(binary) => super::binary::to_double(binary, big_endian)?,
        value => match Number::from_bson(value) {
            Some(Number::Decimal(decimal)) => {
                let double = decimal.to_f64();
                let lost = double == 0.0 && !decimal.is_zero() || double.is_subnormal();
                if lost || double.is_infinite() && !decimal.is_infinite() {
                    return overflow(value);
                }
                double
            }
            Some(number) => number.to_f64(),
            None => return unsupported(value, "double"),
        },
    };
    Ok(Bson::Double(double))
}

fn parse_double(text: &str) -> Result<f64> {
    let unsigned = text.trim_start_matches(['+', '-']);
    let lower = unsigned.to_ascii_lowercase();
    let special = ["nan", "inf", "infinity"].contains(&lower.as_str());
    let plain = lower
        .bytes()
        .all(|c| c.is_ascii_digit() || b".e+-".contains(&c));
    let parsed = match lower.strip_prefix("0x") {
        Some(_) if text.starts_with("0x") => None,
        Some(digits) => {
            let sign = if text.starts_with('-') { -1.0 } else { 1.0 };
            parse_hexadecimal(digits).map(|value| value * sign)
        }
        None => text.parse::<f64>().ok().filter(|_| special || plain),
    };
    match parsed {
        Some(double) if special => Ok(double),
        Some(double) if double.is_finite() && (double != 0.0 || !has_digits(&lower)) => Ok(double),
        _ => failure(format!("Failed to parse number '{text}' in $convert")),
    }
}

/// `1.8p1`: digits of base 16, and a power of two.
fn parse_hexadecimal(text: &str) -> Option<f64> {
    let (mantissa, power) = text.split_once('p').unwrap_or((text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let mut value = 0.0;
    for digit in whole.chars() {
        value = value * 16.0 + f64::from(digit.to_digit(16)?);
    }
    let mut weight = 1.0;
    for digit in fraction.chars() {
        weight /= 16.0;
        value += f64::from(digit.to_digit(16)?) * weight;
    }
    Some(value * f64::from(power.parse::<i32>().ok()?).exp2())
}

/// Whether a number's digits are not all zero.
fn has_digits(text: &str) -> bool {
    let mantissa = text.split(['e', 'E']).next().unwrap_or_default();
    mantissa.contains(|c: char| ('1'..='9').contains(&c))
}

fn to_decimal(value: &Bson) -> Result<Bson> {
    let decimal = match value {
        Bson::Boolean(value) => Decimal::from(i64::from(*value)),
        Bson::DateTime(date) => Decimal::from(date.timestamp_millis()),
        Bson::String(text) => match Decimal::parse(text) {
            Some(decimal) if !(decimal.is_zero() && has_digits(text)) => decimal,
            _ => return failure(format!("Failed to parse number '{text}' in $convert")),
        },
        value => match Number::from_bson(value) {
            Some(number) => number.to_decimal(),
            None => return unsupported(value, "decimal"),
        },
    };
    Ok(Bson::Decimal128(decimal.to_bson()))
}

fn to_string(value: &Bson, format: Option<Format>) -> Result<Bson> {
    Ok(Bson::String(match value {
        Bson::String(text) => text.clone(),
        Bson::Boolean(value) => value.to_string(),
        Bson::Int32(value) => value.to_string(),
        Bson::Int64(value) => value.to_string(),
        Bson::Double(value) => shortest_double(*value),
        Bson::Decimal128(value) => Decimal::from_bson(*value).to_string(),
        Bson::ObjectId(value) => value.to_hex(),
        Bson::DateTime(date) => iso(date.timestamp_millis())?,
        Bson::Binary(binary) => to_text(binary, format)?,
        value => return unsupported(value, "string"),
    }))
}

fn to_date(value: &Bson) -> Result<Bson> {
    let millis = match value {
        Bson::String(text) => parse_date(text)?,
        Bson::Int64(_) | Bson::Double(_) | Bson::Decimal128(_) => to_integer(value, false, 8)?,
        value => match as_date(value) {
            Some(millis) => millis,
            None => return unsupported(value, "date"),
        },
    };
    Ok(Bson::DateTime(DateTime::from_millis(millis)))
}

fn to_binary(
    value: &Bson,
    subtype: BinarySubtype,
    format: Option<Format>,
    big_endian: bool,
) -> Result<Bson> {
    let bytes = match value {
        Bson::String(text) => from_text(text, subtype, format)?,
        Bson::Binary(binary) if binary.subtype == subtype => binary.bytes.clone(),
        Bson::Binary(_) => {
            return failure("Conversions between different BinData subtypes are not supported");
        }
        value => match from_number(value, big_endian) {
            Some(bytes) => bytes,
            None => return unsupported(value, "binData"),
        },
    };
    Ok(Bson::Binary(Binary { subtype, bytes }))
}

#[cfg(test)]
mod tests {
    use bson::{Bson, DateTime, bson, oid::ObjectId};

    use crate::expression::tests::{fails, gives};

    fn decimal(text: &str) -> Bson {
        Bson::Decimal128(text.parse().unwrap())
    }

    fn date(millis: i64) -> Bson {
        Bson::DateTime(DateTime::from_millis(millis))
    }

    #[test]
    fn converts() {
        gives([
            (bson!({ "$toInt": "12" }), bson!(12)),
            (bson!({ "$toInt": 1.9 }), bson!(1)),
            (bson!({ "$toInt": decimal("-1.9") }), bson!(-1)),
            (bson!({ "$toInt": true }), bson!(1)),
            (bson!({ "$toLong": date(5) }), bson!(5_i64)),
            (bson!({ "$toDouble": "1.5e3" }), bson!(1500.0)),
            (bson!({ "$toDouble": decimal("0.1") }), bson!(0.1)),
            (bson!({ "$toDecimal": "0.10" }), decimal("0.10")),
            (bson!({ "$toDecimal": 1 }), decimal("1")),
            (bson!({ "$toDouble": "+0x1.8p1" }), bson!(3.0)),
            (bson!({ "$toBool": "" }), bson!(true)),
            (bson!({ "$toBool": Bson::MinKey }), bson!(true)),
            (bson!({ "$toBool": 0.0 }), bson!(false)),
            (bson!({ "$toString": 1.5 }), bson!("1.5")),
            (bson!({ "$toString": 1e300 }), bson!("1e+300")),
            (
                bson!({ "$toString": date(0) }),
                bson!("1970-01-01T00:00:00.000Z"),
            ),
            (bson!({ "$toDate": "1970-01-01" }), date(0)),
            (bson!({ "$toDate": 5_i64 }), date(5)),
            (
                bson!({ "$toObjectId": "000000000000000000000001" }),
                Bson::ObjectId(ObjectId::parse_str("000000000000000000000001").unwrap()),
            ),
            (bson!({ "$toInt": null }), bson!(null)),
            (
                bson!({ "$convert": { "input": "x", "to": "int", "onError": -1 } }),
                bson!(-1),
            ),
            (
                bson!({ "$convert": { "input": null, "to": "int", "onNull": -2 } }),
                bson!(-2),
            ),
            (
                bson!({ "$convert": { "input": 1, "to": null } }),
                bson!(null),
            ),
            (bson!({ "$convert": { "input": 1, "to": 2 } }), bson!("1")),
            (
                bson!({ "$convert": { "input": 1, "to": { "type": "bool" } } }),
                bson!(true),
            ),
            (bson!({ "$type": "$none" }), bson!("missing")),
            (bson!({ "$type": "$list" }), bson!("array")),
            (bson!({ "$isNumber": "$b" }), bson!(true)),
            (bson!({ "$isNumber": "$s" }), bson!(false)),
        ]);
    }

    #[test]
    fn refuses_what_cannot_be_converted() {
        fails([
            (bson!({ "$toInt": "1.5" }), 241),
            (bson!({ "$toInt": "0x1" }), 241),
            (bson!({ "$toInt": 3e9 }), 241),
            (bson!({ "$toLong": f64::NAN }), 241),
            (bson!({ "$toInt": [[1]] }), 241),
            (bson!({ "$toDouble": "x" }), 241),
            (bson!({ "$toDouble": "0x1" }), 241),
            (bson!({ "$toDouble": "1e-400" }), 241),
            (bson!({ "$toDouble": decimal("1E400") }), 241),
            (bson!({ "$toDate": 5 }), 241),
            (bson!({ "$toObjectId": "x" }), 241),
            (bson!({ "$toInt": [1, 2] }), 50723),
            (bson!({ "$convert": 1 }), 9),
            (bson!({ "$convert": { "x": 1 } }), 9),
            (bson!({ "$convert": { "input": 1 } }), 9),
            (bson!({ "$convert": { "input": 1, "to": "none" } }), 2),
            (bson!({ "$convert": { "input": 1, "to": 200 } }), 9),
            (bson!({ "$convert": { "input": 1, "to": true } }), 9),
            (bson!({ "$convert": { "input": 1, "to": "array" } }), 241),
            (bson!({ "$type": [] }), 16020),
        ]);
    }
}
