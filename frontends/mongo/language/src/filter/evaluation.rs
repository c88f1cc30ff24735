//! `$mod`, `$regex`, `$expr`, `$sampleRate`, `$comment`, `$alwaysTrue` and `$alwaysFalse`.

use bson::Bson;
use dec::Rounding;

use super::parse::{Operand, Parser, Place};
use super::{Computed, Node, Test};
use crate::error::{Code, Error, Result, bad_value, failed_to_parse};
use crate::expression::Expression;
use crate::expression::variables::ParseContext;
use crate::number::Number;
use crate::regex::Regex;

/// Options were given by `$options` and then again with the pattern.
const OPTIONS_BEFORE_PATTERN: Code = Code(51074);
/// Options were given with the pattern and then again by `$options`.
const OPTIONS_AFTER_PATTERN: Code = Code(51075);

pub(super) fn modulo(_: Parser<'_>, operand: &Operand<'_>) -> Result<Option<Node>> {
    let Bson::Array(parts) = operand.value else {
        return Err(bad_value("malformed mod, needs to be an array"));
    };
    let (divisor, remainder) = match parts.as_slice() {
        [divisor, remainder] => (divisor, remainder),
        [] | [_] => return Err(bad_value("malformed mod, not enough elements")),
        _ => return Err(bad_value("malformed mod, too many elements")),
    };
    let integer = |name, given| {
        let Some(number) = Number::from_bson(given) else {
            return Err(bad_value(format!("malformed mod, {name} not a number")));
        };
        truncated(number)
            .ok_or_else(|| bad_value(format!("malformed mod, {name} value is invalid: {given}")))
    };
    let (divisor, remainder) = (
        integer("divisor", divisor)?,
        integer("remainder", remainder)?,
    );
    if divisor == 0 {
        return Err(bad_value("divisor cannot be 0"));
    }
    Ok(Some(Node::field(
        operand.path,
        Test::Modulo { divisor, remainder },
    )))
}

/// Whether a value, cut to an integer, leaves the remainder.
pub(super) fn modulo_matches(value: Option<&Bson>, divisor: i64, remainder: i64) -> bool {
    let number = value.and_then(Number::from_bson).and_then(truncated);
    number.is_some_and(|number| number.checked_rem(divisor).unwrap_or(0) == remainder)
}

/// The integer that is left without the fraction.
fn truncated(number: Number) -> Option<i64> {
    match number {
        Number::Double(value) => Number::Double(value.trunc()).as_i64_exact(),
        Number::Decimal(value) => value.round_to_integer(Rounding::Down).to_i64_exact(),
        whole => whole.as_i64_exact(),
    }
}

pub(super) fn regex(_: Parser<'_>, operand: &Operand<'_>) -> Result<Option<Node>> {
    let mut pattern = "";
    let mut options = "";
    for (name, value) in operand.siblings {
        match (name.as_str(), value) {
            ("$regex", Bson::String(text)) => pattern = text,
            ("$regex", Bson::RegularExpression(regex)) => {
                pattern = regex.pattern.as_str();
                let own = regex.options.as_str();
                if !own.is_empty() && !options.is_empty() {
                    return Err(options_twice(OPTIONS_BEFORE_PATTERN));
                }
                options = if own.is_empty() { options } else { own };
            }
            ("$regex", _) => return Err(bad_value("$regex has to be a string")),
            ("$options", Bson::String(_)) if !options.is_empty() => {
                return Err(options_twice(OPTIONS_AFTER_PATTERN));
            }
            ("$options", Bson::String(text)) => options = text,
            ("$options", _) => return Err(bad_value("$options has to be a string")),
            _ => {}
        }
    }
    Ok(Some(Node::field(
        operand.path,
        Test::Regex(Regex::new(pattern, options)?),
    )))
}

fn options_twice(code: Code) -> Error {
    Error::new(code, "options set in both $regex and $options")
}

/// `$regex` reads them.
pub(super) fn regex_options(_: Parser<'_>, operand: &Operand<'_>) -> Result<Option<Node>> {
    if operand.siblings.contains_key("$regex") {
        return Ok(None);
    }
    Err(bad_value("$options needs a $regex"))
}

/// Strings by the pattern, regular expressions if they are this very one.
pub(super) fn regex_matches(regex: &Regex, value: Option<&Bson>) -> Result<bool> {
    match value {
        Some(Bson::String(text) | Bson::Symbol(text)) => regex.is_match(text),
        Some(Bson::RegularExpression(other)) => Ok(regex.is(other)),
        _ => Ok(false),
    }
}

pub(super) fn expression(parser: Parser<'_>, _: &str, value: &Bson) -> Result<Option<Node>> {
    if parser.nested {
        return Err(bad_value(
            "$expr can only be applied to the top-level document",
        ));
    }
    if matches!(parser.place, Place::ArrayFilter | Place::Projection) {
        let message = "$expr is not allowed in this context";
        return Err(Error::new(Code::QUERY_FEATURE_NOT_ALLOWED, message));
    }
    let expression = Expression::parse(value, &ParseContext::from(parser.context))?;
    Ok(Some(Node::Expression(Box::new(Computed {
        source: value.clone(),
        expression,
    }))))
}

pub(super) fn sample(parser: Parser<'_>, name: &str, value: &Bson) -> Result<Option<Node>> {
    if parser.nested {
        return Err(bad_value(format!(
            "{name} can only be applied to the top-level document"
        )));
    }
    let Some(number) = Number::from_bson(value) else {
        return Err(bad_value(format!(
            "argument to {name} must be a numeric type"
        )));
    };
    let share = number.to_f64();
    if !(0.0..=1.0).contains(&share) {
        return Err(bad_value(format!(
            "numeric argument to {name} must be in [0, 1]"
        )));
    }
    Ok(Some(Node::Sample(share)))
}

pub(super) fn comment(_: Parser<'_>, _: &str, _: &Bson) -> Result<Option<Node>> {
    Ok(None)
}

pub(super) fn always(_: Parser<'_>, name: &str, value: &Bson) -> Result<Option<Node>> {
    if Number::from_bson(value).and_then(|number| number.as_i64_exact()) != Some(1) {
        return Err(failed_to_parse(format!(
            "{name} must be an integer value of 1"
        )));
    }
    Ok(Some(if name == "$alwaysTrue" {
        Node::AlwaysTrue
    } else {
        Node::AlwaysFalse
    }))
}
