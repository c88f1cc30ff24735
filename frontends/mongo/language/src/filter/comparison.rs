//! `$eq`, `$ne`, `$gt`, `$gte`, `$lt`, `$lte`, `$in` and `$nin`.

use std::cmp::Ordering;

use bson::Bson;

use super::parse::{Operand, Parser, is_operator_document};
use super::{Node, Test};
use crate::collation::Collation;
use crate::compare::{compare as order, type_order};
use crate::error::{Result, bad_value};
use crate::number::Number;
use crate::path::Path;
use crate::regex::Regex;

/// How a value compares with another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `$eq`
    Equal,
    /// `$lt`
    Less,
    /// `$lte`
    LessOrEqual,
    /// `$gt`
    Greater,
    /// `$gte`
    GreaterOrEqual,
}

impl Comparison {
    const NAMES: [(&'static str, Self); 5] = [
        ("$eq", Self::Equal),
        ("$lt", Self::Less),
        ("$lte", Self::LessOrEqual),
        ("$gt", Self::Greater),
        ("$gte", Self::GreaterOrEqual),
    ];

    /// The operator.
    pub fn name(self) -> &'static str {
        match self {
            Self::Equal => "$eq",
            Self::Less => "$lt",
            Self::LessOrEqual => "$lte",
            Self::Greater => "$gt",
            Self::GreaterOrEqual => "$gte",
        }
    }

    fn named(name: &str) -> Option<Self> {
        Self::NAMES
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, comparison)| *comparison)
    }

    fn accepts(self, ordering: Ordering) -> bool {
        match self {
            Self::Equal => ordering.is_eq(),
            Self::Less => ordering.is_lt(),
            Self::LessOrEqual => ordering.is_le(),
            Self::Greater => ordering.is_gt(),
            Self::GreaterOrEqual => ordering.is_ge(),
        }
    }

    /// Whether `value` stands so to `other`; no value is a field that is not there.
    pub(super) fn holds(self, value: Option<&Bson>, other: &Bson, collation: &Collation) -> bool {
        match value {
            Some(value) if type_order(value) == type_order(other) => {
                if self != Self::Equal && (is_nan(value) || is_nan(other)) {
                    return self.accepts(Ordering::Equal) && is_nan(value) && is_nan(other);
                }
                self.accepts(order(value, other, collation))
            }
            _ => self.holds_across_types(value, other),
        }
    }

    /// Everything is between MinKey and MaxKey, and what is not there is like null.
    fn holds_across_types(self, value: Option<&Bson>, other: &Bson) -> bool {
        match other {
            Bson::Null => value.is_none() && self.accepts(Ordering::Equal),
            Bson::MaxKey => self.accepts(Ordering::Less),
            Bson::MinKey => self.accepts(Ordering::Greater),
            _ => false,
        }
    }
}

fn is_nan(value: &Bson) -> bool {
    match value {
        Bson::Double(number) => number.is_nan(),
        Bson::Decimal128(_) => Number::from_bson(value).is_some_and(|number| number.is_nan()),
        _ => false,
    }
}

/// The values of `$in`.
#[derive(Clone, Debug, PartialEq)]
pub struct Members {
    values: Vec<Bson>,
    regexes: Vec<Regex>,
}

impl Members {
    fn parse(given: &[Bson], collation: &Collation) -> Result<Self> {
        let (mut values, mut regexes) = (Vec::with_capacity(given.len()), Vec::new());
        for value in given {
            match value {
                Bson::Document(document) if is_operator_document(document, false) => {
                    return Err(bad_value("cannot nest $ under $in"));
                }
                Bson::Undefined => {
                    return Err(bad_value("InMatchExpression equality cannot be undefined"));
                }
                Bson::RegularExpression(regex) => {
                    regexes.push(Regex::from_bson(regex)?);
                }
                value => values.push(value.clone()),
            }
        }
        Ok(Self::new(values, regexes, collation))
    }

    pub(super) fn new(mut values: Vec<Bson>, regexes: Vec<Regex>, collation: &Collation) -> Self {
        values.sort_by(|a, b| order(a, b, collation));
        values.dedup_by(|a, b| order(a, b, collation).is_eq());
        Self { values, regexes }
    }

    /// The values without the regular expressions, ascending, each once.
    pub fn values(&self) -> &[Bson] {
        &self.values
    }

    /// The regular expressions.
    pub fn regexes(&self) -> &[Regex] {
        &self.regexes
    }

    fn find(&self, value: &Bson, collation: &Collation) -> bool {
        self.values
            .binary_search_by(|member| order(member, value, collation))
            .is_ok()
    }

    pub(super) fn contains(&self, value: Option<&Bson>, collation: &Collation) -> Result<bool> {
        let Some(value) = value else {
            return Ok(self.find(&Bson::Null, collation));
        };
        if self.find(value, collation) {
            return Ok(true);
        }
        for regex in &self.regexes {
            if super::evaluation::regex_matches(regex, Some(value))? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

pub(super) fn compare(_: Parser<'_>, operand: &Operand<'_>) -> Result<Option<Node>> {
    let name = operand.name;
    let op =
        Comparison::named(name).ok_or_else(|| bad_value(format!("unknown operator: {name}")))?;
    if matches!(operand.value, Bson::RegularExpression(_)) && op != Comparison::Equal {
        let path = operand.path.as_str();
        let message =
            format!("Can't have RegEx as arg to non-equality predicate over field '{path}'.");
        return Err(bad_value(message));
    }
    comparison(operand.path, op, operand.value).map(Some)
}

fn comparison(path: &Path, op: Comparison, value: &Bson) -> Result<Node> {
    if *value == Bson::Undefined {
        return Err(bad_value("cannot compare to undefined"));
    }
    Ok(Node::field(
        path,
        Test::Compare {
            op,
            value: value.clone(),
        },
    ))
}

pub(super) fn not_equal(_: Parser<'_>, operand: &Operand<'_>) -> Result<Option<Node>> {
    if matches!(operand.value, Bson::RegularExpression(_)) {
        return Err(bad_value("Can't have regex as arg to $ne."));
    }
    let equal = comparison(operand.path, Comparison::Equal, operand.value)?;
    Ok(Some(equal.negated()))
}

/// `$ref`, `$id` and `$db` are fields although they look like operators.
pub(super) fn reference(_: Parser<'_>, name: &str, value: &Bson) -> Result<Option<Node>> {
    comparison(&Path::parse(name), Comparison::Equal, value).map(Some)
}

pub(super) fn any_of(parser: Parser<'_>, operand: &Operand<'_>) -> Result<Option<Node>> {
    let Bson::Array(given) = operand.value else {
        return Err(bad_value(format!("{} needs an array", operand.name)));
    };
    let members = Members::parse(given, &parser.context.collation)?;
    Ok(Some(Node::field(operand.path, Test::In(members))))
}

pub(super) fn none_of(parser: Parser<'_>, operand: &Operand<'_>) -> Result<Option<Node>> {
    Ok(any_of(parser, operand)?.map(Node::negated))
}

#[cfg(test)]
mod tests {
    use bson::{Bson, DateTime, Decimal128, Regex, Timestamp, cstr, doc};

    use super::super::testing::{check, refuse};

    fn decimal(text: &str) -> Bson {
        Bson::Decimal128(text.parse::<Decimal128>().unwrap())
    }

    fn regex() -> Bson {
        Bson::RegularExpression(Regex {
            pattern: cstr!("^a").into(),
            options: cstr!("").into(),
        })
    }

    #[test]
    fn compares_numbers_of_all_types() {
        check([
            (doc! {"a": 1}, doc! {"a": 1.0}, true),
            (doc! {"a": 1}, doc! {"a": 1_i64}, true),
            (doc! {"a": 1}, doc! {"a": decimal("1.00")}, true),
            (doc! {"a": 1}, doc! {"a": true}, false),
            (doc! {"a": 0}, doc! {"a": -0.0}, true),
            (doc! {"a": decimal("-0")}, doc! {"a": 0}, true),
            (
                doc! {"a": 9_007_199_254_740_993_i64},
                doc! {"a": 9_007_199_254_740_992.0},
                false,
            ),
            (doc! {"a": {"$gt": 1.5}}, doc! {"a": 2_i64}, true),
            (doc! {"a": {"$lt": decimal("0.1")}}, doc! {"a": 0.1}, false),
            (doc! {"a": {"$gte": i64::MAX}}, doc! {"a": 9.3e18}, true),
        ]);
    }

    #[test]
    fn takes_nan_as_equal_to_itself_alone() {
        let nan = f64::NAN;
        check([
            (doc! {"a": nan}, doc! {"a": nan}, true),
            (doc! {"a": nan}, doc! {"a": decimal("NaN")}, true),
            (doc! {"a": {"$lte": nan}}, doc! {"a": nan}, true),
            (doc! {"a": {"$lt": nan}}, doc! {"a": nan}, false),
            (doc! {"a": {"$gte": nan}}, doc! {"a": 1}, false),
            (doc! {"a": {"$lt": 1}}, doc! {"a": nan}, false),
            (doc! {"a": {"$gt": nan}}, doc! {"a": f64::INFINITY}, false),
            (doc! {"a": {"$ne": nan}}, doc! {"a": 1}, true),
            (doc! {"a": {"$in": [nan]}}, doc! {"a": nan}, true),
        ]);
    }

    #[test]
    fn compares_within_one_type() {
        let date = |millis| Bson::DateTime(DateTime::from_millis(millis));
        check([
            (doc! {"a": {"$gt": 1}}, doc! {"a": "x"}, false),
            (doc! {"a": {"$lt": "x"}}, doc! {"a": 1}, false),
            (doc! {"a": {"$gt": "a"}}, doc! {"a": "b"}, true),
            (
                doc! {"a": {"$gt": "a"}},
                doc! {"a": Bson::Symbol("b".into())},
                true,
            ),
            (doc! {"a": {"$lt": true}}, doc! {"a": false}, true),
            (doc! {"a": {"$gt": false}}, doc! {"a": 1}, false),
            (doc! {"a": {"$gt": date(1)}}, doc! {"a": date(2)}, true),
            (
                doc! {"a": {"$gt": date(1)}},
                doc! {"a": Timestamp { time: 9, increment: 0 }},
                false,
            ),
            (doc! {"a": {"$gt": {"b": 1}}}, doc! {"a": {"b": 2}}, true),
            (doc! {"a": {"$gt": {}}}, doc! {"a": 1}, false),
        ]);
    }

    #[test]
    fn takes_what_is_missing_as_null() {
        check([
            (doc! {"a": null}, doc! {"b": 1}, true),
            (doc! {"a": null}, doc! {"a": null}, true),
            (doc! {"a": null}, doc! {"a": Bson::Undefined}, false),
            (doc! {"a": null}, doc! {"a": [1, null]}, true),
            (doc! {"a": null}, doc! {"a": []}, false),
            (doc! {"a.b": null}, doc! {"a": [1, 2]}, false),
            (doc! {"a.b": null}, doc! {"a": [{"b": 1}, {}]}, true),
            (doc! {"a.b": null}, doc! {"a": 1}, true),
            (doc! {"a": {"$gte": null}}, doc! {}, true),
            (doc! {"a": {"$gt": null}}, doc! {}, false),
            (doc! {"a": {"$lt": null}}, doc! {"a": null}, false),
            (doc! {"a": {"$ne": null}}, doc! {}, false),
            (doc! {"a": {"$in": [1, null]}}, doc! {}, true),
            (doc! {"a": {"$nin": [1, null]}}, doc! {}, false),
            (doc! {"a": {"$nin": [1]}}, doc! {}, true),
        ]);
    }

    #[test]
    fn lets_min_and_max_keys_compare_with_everything() {
        check([
            (doc! {"a": {"$gt": Bson::MinKey}}, doc! {"a": "x"}, true),
            (doc! {"a": {"$gte": Bson::MinKey}}, doc! {}, true),
            (doc! {"a": {"$lt": Bson::MaxKey}}, doc! {"a": 1}, true),
            (doc! {"a": {"$gt": Bson::MaxKey}}, doc! {"a": 1}, false),
            (
                doc! {"a": {"$lte": Bson::MaxKey}},
                doc! {"a": Bson::MaxKey},
                true,
            ),
            (
                doc! {"a": {"$lt": Bson::MinKey}},
                doc! {"a": Bson::MinKey},
                false,
            ),
            (doc! {"a": Bson::MinKey}, doc! {"a": 1}, false),
        ]);
    }

    #[test]
    fn looks_into_arrays() {
        check([
            (doc! {"a": 2}, doc! {"a": [1, 2]}, true),
            (doc! {"a": [1, 2]}, doc! {"a": [1, 2]}, true),
            (doc! {"a": [1, 2]}, doc! {"a": [[1, 2], 3]}, true),
            (doc! {"a": [2, 1]}, doc! {"a": [1, 2]}, false),
            (doc! {"a": 1}, doc! {"a": [[1]]}, false),
            (doc! {"a": {"$gt": 5, "$lt": 3}}, doc! {"a": [1, 9]}, true),
            (doc! {"a": {"$ne": 1}}, doc! {"a": [1, 2]}, false),
            (doc! {"a": {"$gt": [1]}}, doc! {"a": [2]}, true),
            (doc! {"a": {"$nin": [3]}}, doc! {"a": [1, 3]}, false),
            (doc! {"a.b": 1}, doc! {"a": [{"b": [0, 1]}]}, true),
            (doc! {"a.0": 1}, doc! {"a": [1, 2]}, true),
            (doc! {"a.0": 1}, doc! {"a": [[1]]}, false),
            (doc! {"a.0.b": 1}, doc! {"a": [{"b": 1}]}, true),
            (doc! {"a.0": 1}, doc! {"a": {"0": 1}}, true),
        ]);
    }

    #[test]
    fn takes_patterns_within_in_but_not_within_eq() {
        check([
            (doc! {"a": {"$in": [regex(), 5]}}, doc! {"a": "abc"}, true),
            (doc! {"a": {"$in": [regex()]}}, doc! {"a": regex()}, true),
            (
                doc! {"a": {"$nin": [regex()]}},
                doc! {"a": ["b", "ab"]},
                false,
            ),
            (doc! {"a": {"$eq": regex()}}, doc! {"a": "abc"}, false),
            (doc! {"a": {"$eq": regex()}}, doc! {"a": regex()}, true),
            (doc! {"a": {"$in": []}}, doc! {"a": 1}, false),
            (doc! {"a": {"$nin": []}}, doc! {}, true),
        ]);
    }

    #[test]
    fn refuses_bad_operands() {
        refuse([
            (doc! {"a": {"$ne": regex()}}, 2),
            (doc! {"a": {"$gt": regex()}}, 2),
            (doc! {"a": {"$in": 1}}, 2),
            (doc! {"a": {"$nin": {}}}, 2),
            (doc! {"a": {"$in": [{"$gt": 1}]}}, 2),
            (doc! {"a": Bson::Undefined}, 2),
            (doc! {"a": {"$gte": Bson::Undefined}}, 2),
            (doc! {"a": {"$in": [Bson::Undefined]}}, 2),
        ]);
    }
}
