//! The plan of a filter: the pieces of the key order to read.
//!
//! The conditions on PartitionKey and RowKey are a set of pairs of keys; conditions on other
//! properties are not known before the entities are read, so they count as everything, negated or
//! not. Pieces hold every entity that can match. Within one partition they are exact; over a range
//! of partitions rows cannot be skipped and are left to the filter.

use std::ops::Bound;

use super::expression::{Comparator, Comparison, Expression};
use super::key_set::{self, Cut, Interval, Line, Plane, Side};
use crate::entity::Value;

/// The precision of a plan: the most intervals of row keys and of partition keys.
const LIMIT: usize = 1_000;

/// One piece to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    Point {
        partition_key: String,
        row_key: String,
    },
    /// Some rows of one partition.
    Rows { partition_key: String, rows: Bounds },
    /// All rows of some partitions.
    Partitions(Bounds),
}

/// A range of keys, which is not empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub(crate) from: Bound<String>,
    pub(crate) to: Bound<String>,
}

/// A part of the key order, both ends included: what a shared access signature allows, or where
/// a continuation goes on. An end without a row key is the whole partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeyRange<'k> {
    pub(crate) from: Option<(&'k str, Option<&'k str>)>,
    pub(crate) to: Option<(&'k str, Option<&'k str>)>,
}

/// The pieces to read for a filter, or without one: sorted by PartitionKey and RowKey, not
/// overlapping, and wholly inside every one of the ranges.
pub(crate) fn plan(filter: Option<&Expression>, ranges: &[KeyRange<'_>]) -> Vec<Piece> {
    let wanted = filter.map_or_else(everything, |filter| keys(filter, false));
    let allowed = ranges.iter().fold(everything(), |allowed, range| {
        key_set::intersection(&allowed, &range.keys(), usize::MAX)
    });
    let mut pieces = Vec::new();
    // One by one: widened rows must not reach from one part of what is allowed into another.
    for part in allowed {
        let inside = key_set::intersection(&wanted, &vec![part], usize::MAX);
        append_pieces(&mut pieces, inside);
    }
    pieces
}

impl<'k> KeyRange<'k> {
    fn keys(&self) -> Plane<'k> {
        let mut allowed = everything();
        for (end, comparators) in [
            (
                self.from,
                [Comparator::GreaterThan, Comparator::GreaterOrEqual],
            ),
            (self.to, [Comparator::LessThan, Comparator::LessOrEqual]),
        ] {
            let Some((partition_key, row_key)) = end else {
                continue;
            };
            let [beyond, beyond_or_at] = comparators;
            let side = row_key.map_or_else(
                || key_set::partitions(&key_set::compared(beyond_or_at, partition_key)),
                |row_key| {
                    let others = key_set::partitions(&key_set::compared(beyond, partition_key));
                    let rows = key_set::rows(key_set::compared(beyond_or_at, row_key));
                    let own = key_set::compared(Comparator::Equal, partition_key);
                    let own = key_set::intersection(&key_set::partitions(&own), &rows, usize::MAX);
                    key_set::union(&others, &own, usize::MAX)
                },
            );
            allowed = key_set::intersection(&allowed, &side, usize::MAX);
        }
        allowed
    }
}

/// The keys with which an entity can meet the expression or, if negated, can fail it. Negation
/// goes down to the comparisons, where it is exact; above there are only unions and
/// intersections, under which a superset stays one.
fn keys(expression: &Expression, negated: bool) -> Plane<'_> {
    match expression {
        Expression::Constant(constant) => all_or_nothing(*constant != negated),
        // A key is a string and never true.
        Expression::Property(name) if is_key(name) => all_or_nothing(negated),
        Expression::Property(_) => everything(),
        Expression::Comparison(comparison) => compared_keys(comparison, negated),
        Expression::And(parts) | Expression::Or(parts) => {
            let parts = parts.iter().map(|part| keys(part, negated)).collect();
            if matches!(expression, Expression::And(_)) != negated {
                combined(parts, key_set::intersection)
            } else {
                combined(parts, key_set::union)
            }
        }
        Expression::Not(inner) => keys(inner, !negated),
    }
}

fn compared_keys(comparison: &Comparison, negated: bool) -> Plane<'_> {
    if !is_key(&comparison.property) {
        return everything();
    }
    let Value::String(constant) = &comparison.constant else {
        return all_or_nothing(negated);
    };
    let comparator = if negated {
        comparison.comparator.negated()
    } else {
        comparison.comparator
    };
    let line = key_set::compared(comparator, constant);
    if comparison.property == "PartitionKey" {
        key_set::partitions(&line)
    } else {
        key_set::rows(line)
    }
}

/// Joins neighbours, then what came of them, and so on: a long chain costs little more than its
/// length.
fn combined<'k>(
    mut planes: Vec<Plane<'k>>,
    join: fn(&Plane<'k>, &Plane<'k>, usize) -> Plane<'k>,
) -> Plane<'k> {
    while planes.len() > 1 {
        let mut joined = Vec::with_capacity(planes.len().div_ceil(2));
        let mut rest = planes.into_iter();
        while let Some(left) = rest.next() {
            joined.push(match rest.next() {
                Some(right) => join(&left, &right, LIMIT),
                None => left,
            });
        }
        planes = joined;
    }
    planes.pop().unwrap_or_else(everything)
}

fn append_pieces(pieces: &mut Vec<Piece>, plane: Plane<'_>) {
    let mut widened = Plane::new();
    for segment in plane {
        let exact = segment.over.single().is_some();
        let rows = if exact {
            segment.value
        } else {
            key_set::whole_line()
        };
        key_set::push(&mut widened, segment.over, rows);
    }
    for segment in widened {
        match segment.over.single() {
            Some(partition_key) => append_rows(pieces, partition_key, segment.value),
            None => pieces.push(Piece::Partitions(segment.over.into())),
        }
    }
}

fn append_rows(pieces: &mut Vec<Piece>, partition_key: &str, rows: Line<'_>) {
    for segment in rows {
        let partition_key = partition_key.to_owned();
        pieces.push(match segment.over.single() {
            Some(row_key) => Piece::Point {
                partition_key,
                row_key: row_key.to_owned(),
            },
            None => Piece::Rows {
                partition_key,
                rows: segment.over.into(),
            },
        });
    }
}

impl From<Interval<'_>> for Bounds {
    fn from(interval: Interval<'_>) -> Self {
        let from = match interval.from {
            Cut::START | Cut::End => Bound::Unbounded,
            Cut::Key(key, Side::Before) => Bound::Included(key.to_owned()),
            Cut::Key(key, Side::After) => Bound::Excluded(key.to_owned()),
        };
        let to = match interval.to {
            Cut::Key(key, Side::Before) => Bound::Excluded(key.to_owned()),
            Cut::Key(key, Side::After) => Bound::Included(key.to_owned()),
            Cut::End => Bound::Unbounded,
        };
        Self { from, to }
    }
}

fn is_key(name: &str) -> bool {
    matches!(name, "PartitionKey" | "RowKey")
}

fn all_or_nothing<'k>(all: bool) -> Plane<'k> {
    if all { everything() } else { Plane::new() }
}

fn everything<'k>() -> Plane<'k> {
    key_set::rows(key_set::whole_line())
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;
    use std::ops::RangeBounds;
    use std::time::{Duration, Instant};

    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;
    use crate::filter::{Properties, matches, parse};

    /// A plan as text: `a/1` a point, `a/[1,3)` rows, `[a,b)` partitions.
    fn show(pieces: &[Piece]) -> String {
        let mut text = Vec::new();
        for piece in pieces {
            text.push(match piece {
                Piece::Point {
                    partition_key,
                    row_key,
                } => format!("{partition_key}/{row_key}"),
                Piece::Rows {
                    partition_key,
                    rows,
                } => format!("{partition_key}/{}", show_bounds(rows)),
                Piece::Partitions(bounds) => show_bounds(bounds),
            });
        }
        text.join(" ")
    }

    fn show_bounds(bounds: &Bounds) -> String {
        let mut text = String::new();
        match &bounds.from {
            Bound::Unbounded => text.push('('),
            Bound::Included(key) => write!(text, "[{key}").unwrap(),
            Bound::Excluded(key) => write!(text, "({key}").unwrap(),
        }
        match &bounds.to {
            Bound::Unbounded => text.push_str(",)"),
            Bound::Included(key) => write!(text, ",{key}]").unwrap(),
            Bound::Excluded(key) => write!(text, ",{key})").unwrap(),
        }
        text
    }

    /// `P` and `R` stand for PartitionKey and RowKey.
    fn expression(filter: &str) -> Option<Expression> {
        let words = filter
            .split(' ')
            .map(|word| match word.trim_start_matches('(') {
                "P" => word.replace('P', "PartitionKey"),
                "R" => word.replace('R', "RowKey"),
                _ => word.to_owned(),
            });
        parse(&words.collect::<Vec<_>>().join(" ")).unwrap()
    }

    fn check(filter: &str, expected: &str) {
        let pieces = plan(expression(filter).as_ref(), &[]);
        assert_eq!(show(&pieces), expected, "{filter}");
    }

    #[test]
    fn reads_no_more_than_the_filter_needs() {
        for (filter, expected) in [
            ("", "(,)"),
            ("true", "(,)"),
            ("false", ""),
            ("P eq 'a' and R eq '1'", "a/1"),
            ("'a' eq P and '1' lt R", "a/(1,)"),
            ("P eq 'a' and (R eq '5' or R eq '1')", "a/1 a/5"),
            ("P eq 'a' and R eq '1' and n gt 5", "a/1"),
            ("P eq 'a' and (R eq '1' or n gt 5)", "a/(,)"),
            ("P eq 'a' and R ge '1' and R lt '2'", "a/[1,2)"),
            ("P eq 'a' and R ne '1'", "a/(,1) a/(1,)"),
            ("P eq 'a' and not (R eq '1' or R gt '5')", "a/(,1) a/(1,5]"),
            ("P eq 'c' or P eq 'a'", "a/(,) c/(,)"),
            (
                "P eq 'a' and R eq '1' or P eq 'a' and R eq '2' or P eq 'b'",
                "a/1 a/2 b/(,)",
            ),
            ("P ge 'a' and P lt 'b'", "[a,b)"),
            ("P ge 'a' and P lt 'b' and R eq '1'", "[a,b)"),
            ("P ge 'a' and P le 'a' and R eq '1'", "a/1"),
            ("P ne 'a'", "(,a) (a,)"),
            ("not (P lt 'b')", "[b,)"),
            ("P gt 'b' or P lt 'a'", "(,a) (b,)"),
            ("R eq '1'", "(,)"),
            ("n eq 1", "(,)"),
            ("not (n eq 1)", "(,)"),
            ("P eq 'a' or n eq 1", "(,)"),
            ("R eq '1' or P eq 'a'", "(,)"),
            (
                "(R eq '1' and P ge 'a') or (P eq 'a' and R eq '2')",
                "a/1 a/2 (a,)",
            ),
            ("P eq 'a' and P eq 'b'", ""),
            ("P eq 'a' and R lt ''", ""),
            ("P eq '' and R eq ''", "/"),
            ("P eq 5", ""),
            ("P ne 5", ""),
            ("not (P eq 5)", "(,)"),
            ("P", ""),
            ("(P eq 'a' and not P)", "a/(,)"),
            ("not (P ne 'a' or n eq 1)", "a/(,)"),
        ] {
            check(filter, expected);
        }
    }

    #[test]
    fn ranges_are_kept_exactly() {
        let range = KeyRange {
            from: Some(("b", Some("3"))),
            to: Some(("d", Some("5"))),
        };
        let one = KeyRange {
            from: Some(("b", Some("3"))),
            to: Some(("b", Some("5"))),
        };
        let whole = KeyRange {
            from: Some(("b", None)),
            to: Some(("d", None)),
        };
        let from = KeyRange {
            from: Some(("b", Some("3"))),
            to: None,
        };
        let turned = KeyRange {
            from: Some(("d", None)),
            to: Some(("b", None)),
        };
        for (filter, ranges, expected) in [
            ("", &[range][..], "b/[3,) (b,d) d/(,5]"),
            ("", &[whole], "[b,d]"),
            ("", &[one], "b/[3,5]"),
            ("", &[from], "b/[3,) (b,)"),
            ("", &[turned], ""),
            ("", &[from, whole], "b/[3,) (b,d]"),
            ("P eq 'b'", &[range], "b/[3,)"),
            ("P eq 'b' and R eq '1'", &[range], ""),
            ("P eq 'c' and R eq '1'", &[range], "c/1"),
            ("R eq '4'", &[range], "b/4 (b,d) d/4"),
            ("R eq '1'", &[range], "(b,d) d/1"),
            ("R eq '4'", &[one], "b/4"),
        ] {
            let pieces = plan(expression(filter).as_ref(), ranges);
            assert_eq!(show(&pieces), expected, "{filter} in {ranges:?}");
        }
    }

    #[test]
    fn long_chains_cost_little_and_stay_bounded() {
        let chain = |count: usize, word: &str| {
            let parts: Vec<String> = (0..count).map(|key| format!("{word} '{key:04}'")).collect();
            parts.join(" or ")
        };
        let started = Instant::now();
        let count = |filter: &str| plan(expression(filter).as_ref(), &[]).len();
        assert_eq!(count(&chain(1_000, "P eq")), 1_000);
        assert!(count(&chain(1_200, "P eq")) < LIMIT);
        assert_eq!(
            count(&format!("P eq 'a' and ({})", chain(1_000, "R eq"))),
            1_000
        );
        assert!(count(&format!("P eq 'a' and ({})", chain(1_200, "R eq"))) < LIMIT);
        let product = format!("({}) and ({})", chain(600, "P eq"), chain(600, "R eq"));
        assert!(count(&product) <= 2 * LIMIT);
        assert!(started.elapsed() < Duration::from_secs(5));
    }

    /// Literals are of these, and between any two of them lies a key of the grid.
    const LITERALS: [&str; 4] = ["", "a", "b", "c"];
    const GRID: [&str; 8] = ["", "A", "a", "aa", "b", "bb", "c", "cc"];

    struct Entity {
        keys: [&'static str; 2],
        other: Option<i32>,
    }

    impl Properties for Entity {
        fn get(&self, name: &str) -> Option<Value<'_>> {
            let [partition_key, row_key] = self.keys;
            match name {
                "PartitionKey" => Some(Value::String(partition_key.into())),
                "RowKey" => Some(Value::String(row_key.into())),
                _ => self.other.map(Value::Int32),
            }
        }
    }

    fn grid() -> impl Iterator<Item = [&'static str; 2]> {
        GRID.into_iter()
            .flat_map(|partition_key| GRID.map(|row_key| [partition_key, row_key]))
    }

    impl Bounds {
        fn holds(&self, key: &str) -> bool {
            let from = self.from.as_ref().map(String::as_str);
            let to = self.to.as_ref().map(String::as_str);
            RangeBounds::<str>::contains(&(from, to), key)
        }
    }

    impl Piece {
        fn holds(&self, keys: [&str; 2]) -> bool {
            match self {
                Self::Point {
                    partition_key,
                    row_key,
                } => keys == [partition_key, row_key],
                Self::Rows {
                    partition_key,
                    rows,
                } => keys[0] == partition_key && rows.holds(keys[1]),
                Self::Partitions(bounds) => bounds.holds(keys[0]),
            }
        }
    }

    impl KeyRange<'_> {
        fn holds(&self, [partition_key, row_key]: [&str; 2]) -> bool {
            let from = self.from.is_none_or(|(partition, row)| {
                (partition_key, row_key) >= (partition, row.unwrap_or(""))
            });
            let to = self.to.is_none_or(|(partition, row)| {
                row.map_or(partition_key <= partition, |row| {
                    (partition_key, row_key) <= (partition, row)
                })
            });
            from && to
        }
    }

    fn expressions(properties: &'static [&'static str]) -> impl Strategy<Value = Expression> {
        let words = select(vec!["eq", "ne", "gt", "ge", "lt", "le"]);
        let constant = prop_oneof![
            8 => select(&LITERALS[..]).prop_map(|text| Value::String(text.into())),
            1 => Just(Value::Int32(1)),
        ];
        let comparison =
            (select(properties), words, constant).prop_map(|(property, word, constant)| {
                Expression::Comparison(Comparison {
                    property: property.to_owned(),
                    comparator: Comparator::from_word(word).unwrap(),
                    constant,
                })
            });
        let leaf = prop_oneof![
            12 => comparison,
            1 => any::<bool>().prop_map(Expression::Constant),
            1 => select(properties).prop_map(|name| Expression::Property(name.to_owned())),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            let parts = proptest::collection::vec(inner.clone(), 2..4);
            prop_oneof![
                3 => parts.clone().prop_map(Expression::all),
                3 => parts.prop_map(Expression::any),
                1 => inner.prop_map(|inner| Expression::Not(Box::new(inner))),
            ]
        })
    }

    fn ranges() -> impl Strategy<Value = KeyRange<'static>> {
        let end = || {
            let row = proptest::option::of(select(&LITERALS[..]));
            proptest::option::of((select(&LITERALS[..]), row))
        };
        (end(), end()).prop_map(|(from, to)| KeyRange { from, to })
    }

    proptest! {
        #[test]
        fn every_match_is_read_and_nothing_outside_the_range(
            expression in expressions(&["PartitionKey", "RowKey", "n"]),
            range in ranges(),
        ) {
            let pieces = plan(Some(&expression), &[range]);
            for keys in grid() {
                let read = pieces.iter().any(|piece| piece.holds(keys));
                let can_match = [None, Some(0), Some(1), Some(2)]
                    .into_iter()
                    .any(|other| matches(&expression, &Entity { keys, other }));
                prop_assert!(read || !can_match || !range.holds(keys), "{:?}", keys);
                prop_assert!(!read || range.holds(keys), "{:?}", keys);
            }
        }

        #[test]
        fn keys_alone_are_followed_exactly(
            expression in expressions(&["PartitionKey", "RowKey"]),
            range in ranges(),
        ) {
            let meets = |keys: [&'static str; 2]| {
                range.holds(keys) && matches(&expression, &Entity { keys, other: None })
            };
            for piece in plan(Some(&expression), &[range]) {
                for keys in grid().filter(|keys| piece.holds(*keys)) {
                    if matches!(piece, Piece::Partitions(_)) {
                        let some_row = GRID.into_iter().any(|row_key| meets([keys[0], row_key]));
                        prop_assert!(some_row, "{:?}", keys);
                    } else {
                        prop_assert!(meets(keys), "{:?}", keys);
                    }
                }
            }
        }

        #[test]
        fn pieces_are_sorted_and_disjoint(
            expression in expressions(&["PartitionKey", "RowKey", "n"]),
            range in ranges(),
        ) {
            let pieces = plan(Some(&expression), &[range]);
            let mut last = 0;
            for keys in grid() {
                let mut holding = (0..pieces.len()).filter(|index| pieces[*index].holds(keys));
                if let Some(index) = holding.next() {
                    prop_assert!(last <= index, "{:?}", keys);
                    last = index;
                }
                prop_assert_eq!(holding.next(), None, "{:?}", keys);
            }
        }
    }
}
