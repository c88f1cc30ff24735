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

#[cfg(test)]
mod tests {
    use bson::{Bson, Decimal128, Regex, cstr, doc};

    use super::super::testing::{check, refuse};

    fn regex(options: &str) -> Bson {
        let options = options.try_into().unwrap();
        Bson::RegularExpression(Regex {
            pattern: cstr!("^ab").into(),
            options,
        })
    }

    #[test]
    fn divides() {
        check([
            (doc! {"a": {"$mod": [4, 0]}}, doc! {"a": 8}, true),
            (doc! {"a": {"$mod": [4, 1]}}, doc! {"a": 5.9}, true),
            (doc! {"a": {"$mod": [4.9, 1.9]}}, doc! {"a": 5}, true),
            (doc! {"a": {"$mod": [4, -1]}}, doc! {"a": -5}, true),
            (doc! {"a": {"$mod": [-4, 1]}}, doc! {"a": 5}, true),
            (doc! {"a": {"$mod": [4, 0]}}, doc! {"a": "8"}, false),
            (
                doc! {"a": {"$mod": [4, 0]}},
                doc! {"a": f64::INFINITY},
                false,
            ),
            (doc! {"a": {"$mod": [4, 0]}}, doc! {"a": 1e30}, false),
            (doc! {"a": {"$mod": [4, 0]}}, doc! {"a": [3, 8]}, true),
            (doc! {"a": {"$mod": [-1, 0]}}, doc! {"a": i64::MIN}, true),
            (
                doc! {"a": {"$mod": [4, 1]}},
                doc! {"a": "5.7".parse::<Decimal128>().unwrap()},
                true,
            ),
        ]);
        refuse([
            (doc! {"a": {"$mod": []}}, 2),
            (doc! {"a": {"$mod": [4]}}, 2),
            (doc! {"a": {"$mod": [4, 0, 1]}}, 2),
            (doc! {"a": {"$mod": 4}}, 2),
            (doc! {"a": {"$mod": ["4", 0]}}, 2),
            (doc! {"a": {"$mod": [4, Bson::Null]}}, 2),
            (doc! {"a": {"$mod": [0.5, 0]}}, 2),
            (doc! {"a": {"$mod": [f64::NAN, 0]}}, 2),
            (doc! {"a": {"$mod": [4, 1e19]}}, 2),
        ]);
    }

    #[test]
    fn matches_patterns() {
        check([
            (doc! {"a": regex("")}, doc! {"a": "abc"}, true),
            (doc! {"a": regex("i")}, doc! {"a": "ABC"}, true),
            (doc! {"a": regex("i")}, doc! {"a": regex("i")}, true),
            (doc! {"a": regex("i")}, doc! {"a": regex("")}, false),
            (
                doc! {"a": {"$regex": "^ab"}},
                doc! {"a": ["x", "abc"]},
                true,
            ),
            (
                doc! {"a": {"$regex": regex(""), "$options": "i"}},
                doc! {"a": "ABC"},
                true,
            ),
            (
                doc! {"a": {"$options": "i", "$regex": "^AB"}},
                doc! {"a": "abc"},
                true,
            ),
            (doc! {"a": {"$regex": "^ab"}}, doc! {"a": 1}, false),
            (doc! {"a": {"$regex": "^ab"}}, doc! {}, false),
            (
                doc! {"a": {"$regex": "^ab"}},
                doc! {"a": Bson::Symbol("abc".into())},
                true,
            ),
        ]);
        refuse([
            (doc! {"a": {"$regex": 1}}, 2),
            (doc! {"a": {"$regex": ["a"]}}, 2),
            (doc! {"a": {"$regex": "a", "$options": 1}}, 2),
            (doc! {"a": {"$regex": "a", "$options": Bson::Null}}, 2),
            (doc! {"a": {"$options": "i"}}, 2),
            (doc! {"a": {"$regex": "a\0b"}}, 2),
            (doc! {"a": {"$regex": "[a"}}, 51091),
            (doc! {"a": {"$regex": "a", "$options": "g"}}, 51108),
            (doc! {"a": {"$options": "m", "$regex": regex("i")}}, 51074),
            (doc! {"a": {"$regex": regex("i"), "$options": "m"}}, 51075),
        ]);
    }

    #[test]
    fn evaluates_expressions_and_constants() {
        check([
            (
                doc! {"$expr": {"$gt": ["$a", "$b"]}},
                doc! {"a": 2, "b": 1},
                true,
            ),
            (doc! {"$expr": "$a"}, doc! {"a": 0}, false),
            (doc! {"$expr": "$a"}, doc! {}, false),
            (doc! {"$expr": "$a"}, doc! {"a": []}, true),
            (doc! {"$alwaysTrue": 1}, doc! {}, true),
            (doc! {"$alwaysFalse": 1.0}, doc! {}, false),
            (doc! {"$comment": "anything", "a": 1}, doc! {"a": 1}, true),
            (doc! {"$sampleRate": 1}, doc! {}, true),
            (doc! {"$sampleRate": 0.0}, doc! {}, false),
        ]);
        refuse([
            (doc! {"$expr": {"$nosuch": 1}}, 168),
            (doc! {"$alwaysTrue": 2}, 9),
            (doc! {"$alwaysFalse": "1"}, 9),
            (doc! {"$sampleRate": "0.5"}, 2),
            (doc! {"$sampleRate": 1.5}, 2),
            (doc! {"$sampleRate": f64::NAN}, 2),
        ]);
    }
}
