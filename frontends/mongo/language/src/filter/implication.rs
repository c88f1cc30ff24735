//! Whether one filter includes another, as far as that can be seen condition by condition.

use std::cmp::Ordering;

use bson::Bson;

use super::matching::Matcher;
use super::{Comparison, Filter, Node, Test};
use crate::collation::Collation;
use crate::compare::{compare, type_order};

/// Partial indexes know comparisons, `$in`, `$exists: true` and `$type`, and `$and` and `$or` of
/// them.
pub(super) fn fits_partial_index(node: &Node) -> bool {
    match node {
        Node::And(nodes) | Node::Or(nodes) => nodes.iter().all(fits_partial_index),
        Node::Field { test, .. } => {
            matches!(
                test,
                Test::Compare { .. } | Test::In(_) | Test::Exists | Test::Type(_)
            )
        }
        _ => false,
    }
}

pub(super) struct Implication<'a> {
    matcher: Matcher<'a>,
    collation: &'a Collation,
}

impl<'a> Implication<'a> {
    pub(super) fn new(filter: &'a Filter) -> Self {
        let collation = &filter.collation;
        Self {
            matcher: Matcher::new(collation, &filter.variables),
            collation,
        }
    }

    pub(super) fn holds(&self, given: &Node, wanted: &Node) -> bool {
        if given == wanted {
            return !matches!(given, Node::Sample(_));
        }
        match (given, wanted) {
            (_, Node::AlwaysTrue) | (Node::AlwaysFalse, _) => true,
            (_, Node::And(all)) => all.iter().all(|wanted| self.holds(given, wanted)),
            (Node::Or(any), _) => any.iter().all(|given| self.holds(given, wanted)),
            (_, Node::Or(any)) if any.iter().any(|wanted| self.holds(given, wanted)) => true,
            (Node::And(all), _) => all.iter().any(|given| self.holds(given, wanted)),
            (
                Node::Field { path: a, test },
                Node::Field {
                    path: b,
                    test: other,
                },
            ) if a == b => self.test_holds(test, other, wanted),
            _ => false,
        }
    }

    fn test_holds(&self, given: &Test, other: &Test, wanted: &Node) -> bool {
        match (given, other) {
            (
                Test::Compare {
                    op: Comparison::Equal,
                    value,
                },
                _,
            ) => self.passes(value, wanted),
            (Test::In(members), _) => {
                members.regexes().is_empty()
                    && members
                        .values()
                        .iter()
                        .all(|value| self.passes(value, wanted))
            }
            (Test::Compare { value, .. }, Test::Exists) => !is_limit(value),
            (
                Test::Compare { op, value },
                Test::Compare {
                    op: other,
                    value: bound,
                },
            ) => self.range_holds((*op, value), (*other, bound)),
            // Nothing else is true of a field that is not there.
            (_, Test::Exists) => true,
            _ => false,
        }
    }

    /// Whether what equals the value meets the condition. A field that is not there equals null.
    fn passes(&self, value: &Bson, wanted: &Node) -> bool {
        let on_missing = matches!(
            wanted,
            Node::Field {
                test: Test::Compare { .. },
                ..
            }
        );
        (*value != Bson::Null || on_missing) && self.matcher.value(wanted, value).unwrap_or(false)
    }

    /// Whether a range lies within another that is open on the same side.
    fn range_holds(&self, given: (Comparison, &Bson), wanted: (Comparison, &Bson)) -> bool {
        let ((op, value), (other, bound)) = (given, wanted);
        if is_limit(value) || is_limit(bound) || type_order(value) != type_order(bound) {
            return false;
        }
        let order = compare(value, bound, self.collation);
        let includes_bound =
            |op| matches!(op, Comparison::LessOrEqual | Comparison::GreaterOrEqual);
        let beyond = match (is_upper(op), is_upper(other)) {
            (Some(true), Some(true)) => Ordering::Less,
            (Some(false), Some(false)) => Ordering::Greater,
            _ => return false,
        };
        order == beyond || (order.is_eq() && (includes_bound(other) || !includes_bound(op)))
    }
}

fn is_upper(op: Comparison) -> Option<bool> {
    match op {
        Comparison::Equal => None,
        Comparison::Less | Comparison::LessOrEqual => Some(true),
        Comparison::Greater | Comparison::GreaterOrEqual => Some(false),
    }
}

/// Values that compare across types, or with what is not there.
fn is_limit(value: &Bson) -> bool {
    matches!(value, Bson::Null | Bson::MinKey | Bson::MaxKey)
        || matches!(value, Bson::Double(number) if number.is_nan())
        || matches!(value, Bson::Decimal128(_) if is_nan_decimal(value))
}

fn is_nan_decimal(value: &Bson) -> bool {
    crate::number::Number::from_bson(value).is_some_and(|number| number.is_nan())
}

#[cfg(test)]
mod tests {
    use bson::{Bson, Document, doc};

    use super::super::Filter;
    use crate::expression::variables::Context;

    fn parse(filter: &Document) -> Filter {
        Filter::parse(filter, &Context::default()).unwrap()
    }

    #[test]
    fn sees_what_includes_what() {
        for (given, wanted, expected) in [
            (doc! {"a": 5}, doc! {"a": {"$gt": 3}}, true),
            (doc! {"a": 2}, doc! {"a": {"$gt": 3}}, false),
            (doc! {"a": "x"}, doc! {"a": {"$gt": 3}}, false),
            (doc! {"a": 5, "b": 1}, doc! {"a": {"$gt": 3}}, true),
            (doc! {"b": 5}, doc! {"a": {"$gt": 3}}, false),
            (doc! {"a": {"$gt": 5}}, doc! {"a": {"$gt": 3}}, true),
            (doc! {"a": {"$gte": 3}}, doc! {"a": {"$gt": 3}}, false),
            (doc! {"a": {"$gt": 3}}, doc! {"a": {"$gte": 3}}, true),
            (doc! {"a": {"$lt": 3}}, doc! {"a": {"$lte": 3}}, true),
            (doc! {"a": {"$lt": 3}}, doc! {"a": {"$gt": 1}}, false),
            (doc! {"a": {"$gt": "x"}}, doc! {"a": {"$gt": 3}}, false),
            (doc! {"a": {"$in": [4, 5]}}, doc! {"a": {"$gt": 3}}, true),
            (doc! {"a": {"$in": [2, 5]}}, doc! {"a": {"$gt": 3}}, false),
            (doc! {"a": 5}, doc! {"a": {"$exists": true}}, true),
            (doc! {"a": Bson::Null}, doc! {"a": {"$exists": true}}, false),
            (
                doc! {"a": {"$gte": Bson::Null}},
                doc! {"a": {"$exists": true}},
                false,
            ),
            (
                doc! {"a": {"$regex": "x"}},
                doc! {"a": {"$exists": true}},
                true,
            ),
            (doc! {"a": 5}, doc! {"a": {"$type": "int"}}, true),
            (doc! {"a": 5}, doc! {"$or": [{"a": 5}, {"b": 1}]}, true),
            (doc! {"$or": [{"a": 5}, {"b": 1}]}, doc! {"a": 5}, false),
            (doc! {"a": 5, "b": 1}, doc! {"a": 5, "b": {"$lt": 3}}, true),
            (doc! {}, doc! {"a": 5}, false),
            (doc! {"a": 5}, doc! {}, true),
        ] {
            assert_eq!(
                parse(&given).implies(&parse(&wanted)),
                expected,
                "{given} in {wanted}"
            );
        }
    }

    #[test]
    fn knows_what_partial_indexes_know() {
        for (filter, expected) in [
            (doc! {"a": 1, "b": {"$gt": 1}}, true),
            (
                doc! {"$or": [{"a": {"$exists": true}}, {"b": {"$type": "int"}}]},
                true,
            ),
            (doc! {"a": {"$ne": 1}}, false),
            (doc! {"a": {"$exists": false}}, false),
            (doc! {"$expr": true}, false),
            (doc! {"a": {"$regex": "x"}}, false),
        ] {
            assert_eq!(parse(&filter).fits_partial_index(), expected, "{filter}");
        }
    }
}
