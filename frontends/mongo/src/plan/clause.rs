//! The conditions of a filter on single paths, as far as an index can use them.

use std::collections::BTreeMap;

use bson::Bson;
use tessera_mongo_language::collation::Collation;
use tessera_mongo_language::compare;

use crate::plan::interval::{Interval, Intervals};

/// A filter in the eyes of the planner. What it cannot use is `Other`; the filter itself is asked
/// for each document anyway.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Clause {
    And(Vec<Self>),
    Or(Vec<Self>),
    Path(PathClause),
    Never,
    Other,
}

/// A condition on one path.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PathClause {
    pub(crate) path: String,
    /// Where the values of all documents lie that fulfil it.
    pub(crate) intervals: Intervals,
    /// Whether it is fulfilled only by documents that have the field.
    pub(crate) present: bool,
}

impl PathClause {
    /// A condition that holds for values within intervals.
    pub(crate) fn within(path: &str, intervals: Intervals, collation: &Collation) -> Self {
        let present = !holds(&intervals, &Bson::Null, collation);
        Self {
            path: path.to_owned(),
            intervals,
            present,
        }
    }
}

/// Whether a value lies in one of the intervals.
pub(crate) fn holds(intervals: &Intervals, value: &Bson, collation: &Collation) -> bool {
    let point = Intervals::one(Interval::point(value.clone()));
    !intervals.intersection(&point, collation).0.is_empty()
}

/// The conditions that all answers fulfil, by path.
#[derive(Clone, Debug, Default)]
pub(crate) struct Conditions<'a> {
    by_path: BTreeMap<&'a str, Vec<&'a PathClause>>,
    /// Alternatives of which one must hold.
    pub(crate) alternatives: Vec<&'a [Clause]>,
    pub(crate) never: bool,
}

impl<'a> Conditions<'a> {
    pub(crate) fn of(clause: &'a Clause) -> Self {
        let mut conditions = Self::default();
        conditions.take(clause);
        conditions
    }

    fn take(&mut self, clause: &'a Clause) {
        match clause {
            Clause::And(clauses) => clauses.iter().for_each(|clause| self.take(clause)),
            Clause::Or(clauses) => self.alternatives.push(clauses),
            Clause::Path(clause) => self.by_path.entry(&clause.path).or_default().push(clause),
            Clause::Never => self.never = true,
            Clause::Other => {}
        }
    }

    pub(crate) fn paths(&self) -> impl Iterator<Item = &'a str> + '_ {
        self.by_path.keys().copied()
    }

    pub(crate) fn mentions(&self, path: &str) -> bool {
        self.by_path.contains_key(path)
    }

    /// Whether all answers have the field.
    pub(crate) fn requires(&self, path: &str) -> bool {
        let clauses = self.by_path.get(path);
        clauses.is_some_and(|clauses| clauses.iter().any(|clause| clause.present))
    }

    /// Where the values at a path lie. If the path may lead to several values (`multikey`), each
    /// condition may be met by another of them, and only one condition bounds the search.
    pub(crate) fn intervals(&self, path: &str, multikey: bool, collation: &Collation) -> Intervals {
        let Some(clauses) = self.by_path.get(path) else {
            return Intervals::all();
        };
        if multikey {
            let points = |clause: &&&PathClause| clause.intervals.are_points(collation);
            let bounded = |clause: &&&PathClause| !clause.intervals.is_all();
            let best = clauses
                .iter()
                .find(points)
                .or_else(|| clauses.iter().find(bounded));
            return best.map_or_else(Intervals::all, |clause| clause.intervals.clone());
        }
        clauses.iter().fold(Intervals::all(), |found, clause| {
            found.intersection(&clause.intervals, collation)
        })
    }

    /// The one value that all answers have at a path.
    pub(crate) fn equality(&self, path: &str, collation: &Collation) -> Option<Bson> {
        let intervals = self.intervals(path, false, collation);
        match intervals.0.as_slice() {
            [only] if only.is_point(collation) => Some(only.low.clone()),
            _ => None,
        }
    }

    /// Whether every answer fulfils `other` as well, which then is the filter of a partial index.
    pub(crate) fn imply(&self, other: &Clause, collation: &Collation) -> bool {
        match other {
            Clause::And(clauses) => clauses.iter().all(|clause| self.imply(clause, collation)),
            Clause::Or(clauses) => clauses.iter().any(|clause| self.imply(clause, collation)),
            Clause::Path(wanted) => {
                let Some(clauses) = self.by_path.get(wanted.path.as_str()) else {
                    return false;
                };
                clauses.iter().any(|clause| {
                    let outside = wanted.intervals.complement();
                    let within = clause
                        .intervals
                        .intersection(&outside, collation)
                        .0
                        .is_empty();
                    within && (clause.present || !wanted.present)
                })
            }
            Clause::Never | Clause::Other => false,
        }
    }
}

/// The interval of one value, as a condition of equality has it: an array is indexed by its
/// elements.
pub(crate) fn equal_to(value: &Bson, collation: &Collation) -> Intervals {
    let point = |value: &Bson| Intervals::one(Interval::point(value.clone()));
    match value {
        Bson::Array(elements) => {
            let first = elements.first().unwrap_or(&Bson::Undefined);
            point(first).union(point(value), collation)
        }
        Bson::Undefined => point(&Bson::Null),
        value => point(value),
    }
}

/// The interval of an order comparison.
pub(crate) fn compared(
    value: &Bson,
    low: bool,
    inclusive: bool,
    collation: &Collation,
) -> Intervals {
    let Some(bracket) = super::interval::bracket(value) else {
        return Intervals::all();
    };
    let is_nan = matches!(value, Bson::Double(number) if number.is_nan());
    if is_nan {
        let point = Intervals::one(Interval::point(value.clone()));
        return if inclusive { point } else { Intervals::none() };
    }
    let interval = if low {
        Interval::new(value.clone(), inclusive, bracket.high, bracket.with_high)
    } else {
        Interval::new(bracket.low, bracket.with_low, value.clone(), inclusive)
    };
    let empty = match compare::compare(&interval.low, &interval.high, collation) {
        std::cmp::Ordering::Less => false,
        std::cmp::Ordering::Equal => !(interval.with_low && interval.with_high),
        std::cmp::Ordering::Greater => true,
    };
    if empty {
        Intervals::none()
    } else {
        Intervals::one(interval)
    }
}

#[cfg(test)]
mod tests {
    use bson::bson;

    use super::*;

    fn path(path: &str, intervals: Intervals) -> Clause {
        Clause::Path(PathClause::within(path, intervals, &Collation::default()))
    }

    fn more_than(value: i32) -> Intervals {
        compared(&bson!(value), true, false, &Collation::default())
    }

    fn less_than(value: i32) -> Intervals {
        compared(&bson!(value), false, false, &Collation::default())
    }

    #[test]
    fn conditions_on_one_path_meet_unless_it_has_several_values() {
        let simple = Collation::default();
        let clause = Clause::And(vec![path("a", more_than(3)), path("a", less_than(7))]);
        let conditions = Conditions::of(&clause);
        let shown = |intervals: Intervals| intervals.shown(false)[0].as_str().unwrap().to_owned();
        assert_eq!(shown(conditions.intervals("a", false, &simple)), "(3, 7)");
        assert_eq!(
            shown(conditions.intervals("a", true, &simple)),
            "(3, inf.0]"
        );
        assert!(conditions.intervals("b", false, &simple).is_all());
    }

    #[test]
    fn a_narrower_condition_implies_a_wider_one() {
        let simple = Collation::default();
        let asked = path("a", more_than(5));
        let conditions = Conditions::of(&asked);
        for (filter, implied) in [
            (path("a", more_than(3)), true),
            (path("a", more_than(6)), false),
            (path("b", more_than(3)), false),
            (
                Clause::Or(vec![path("b", more_than(3)), path("a", more_than(5))]),
                true,
            ),
            (Clause::Other, false),
        ] {
            assert_eq!(conditions.imply(&filter, &simple), implied, "{filter:?}");
        }
    }
}
