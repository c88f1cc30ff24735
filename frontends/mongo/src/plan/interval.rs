//! Intervals of values: the parts of an index that a condition on a field leaves to read.

use std::cmp::Ordering;
use std::fmt;

use bson::oid::ObjectId;
use bson::spec::BinarySubtype;
use bson::{Bson, DateTime, Document, Timestamp};
use tessera_mongo_language::collation::Collation;
use tessera_mongo_language::compare;

/// All values between two, with or without them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Interval {
    pub(crate) low: Bson,
    pub(crate) with_low: bool,
    pub(crate) high: Bson,
    pub(crate) with_high: bool,
}

/// Disjoint intervals in ascending order.
#[derive(Clone, Debug, PartialEq, Default)]
pub(crate) struct Intervals(pub(crate) Vec<Interval>);

impl Interval {
    pub(crate) fn point(value: Bson) -> Self {
        Self {
            low: value.clone(),
            with_low: true,
            high: value,
            with_high: true,
        }
    }

    pub(crate) fn new(low: Bson, with_low: bool, high: Bson, with_high: bool) -> Self {
        Self {
            low,
            with_low,
            high,
            with_high,
        }
    }

    pub(crate) fn all() -> Self {
        Self::new(Bson::MinKey, true, Bson::MaxKey, true)
    }

    pub(crate) fn is_point(&self, collation: &Collation) -> bool {
        self.with_low && self.with_high && compare::equal(&self.low, &self.high, collation)
    }

    pub(crate) fn is_all(&self) -> bool {
        self.low == Bson::MinKey && self.high == Bson::MaxKey && self.with_low && self.with_high
    }

    fn is_empty(&self, collation: &Collation) -> bool {
        match compare::compare(&self.low, &self.high, collation) {
            Ordering::Less => false,
            Ordering::Equal => !(self.with_low && self.with_high),
            Ordering::Greater => true,
        }
    }

    /// Whether strings lie in it, so that only an index of the same collation may serve it.
    fn has_strings(&self) -> bool {
        fn inside(value: &Bson) -> bool {
            match value {
                Bson::String(_) | Bson::Symbol(_) => true,
                Bson::Document(inner) => inner.values().any(inside),
                Bson::Array(inner) => inner.iter().any(inside),
                _ => false,
            }
        }
        let empty = |value: &Bson| matches!(value, Bson::String(text) if text.is_empty());
        (inside(&self.low) && !empty(&self.low)) || (inside(&self.high) && !empty(&self.high))
    }
}

impl Intervals {
    pub(crate) fn all() -> Self {
        Self(vec![Interval::all()])
    }

    pub(crate) fn none() -> Self {
        Self(Vec::new())
    }

    pub(crate) fn one(interval: Interval) -> Self {
        Self(vec![interval])
    }

    pub(crate) fn is_all(&self) -> bool {
        matches!(self.0.as_slice(), [only] if only.is_all())
    }

    pub(crate) fn are_points(&self, collation: &Collation) -> bool {
        self.0.iter().all(|interval| interval.is_point(collation))
    }

    /// Whether only an index with this collation may serve them.
    pub(crate) fn depend_on_collation(&self) -> bool {
        self.0.iter().any(Interval::has_strings)
    }

    /// What lies in any of both.
    pub(crate) fn union(mut self, other: Self, collation: &Collation) -> Self {
        self.0.extend(other.0);
        let by_low = |a: &Interval, b: &Interval| {
            let order = compare::compare(&a.low, &b.low, collation);
            order.then(b.with_low.cmp(&a.with_low))
        };
        self.0.sort_by(by_low);
        let mut merged: Vec<Interval> = Vec::with_capacity(self.0.len());
        for interval in self.0 {
            match merged.last_mut() {
                Some(last) if touches(last, &interval, collation) => {
                    extend(last, interval, collation)
                }
                _ => merged.push(interval),
            }
        }
        Self(merged)
    }

    /// What lies in both.
    pub(crate) fn intersection(&self, other: &Self, collation: &Collation) -> Self {
        let mut found = Vec::new();
        for a in &self.0 {
            for b in &other.0 {
                let both = meet(a, b, collation);
                if !both.is_empty(collation) {
                    found.push(both);
                }
            }
        }
        Self(found)
    }

    /// What lies in none of them.
    pub(crate) fn complement(&self) -> Self {
        let mut found = Vec::new();
        let (mut low, mut with_low) = (Bson::MinKey, true);
        for interval in &self.0 {
            if !(interval.low == Bson::MinKey && interval.with_low) {
                let (high, with_high) = (interval.low.clone(), !interval.with_low);
                found.push(Interval::new(low, with_low, high, with_high));
            }
            (low, with_low) = (interval.high.clone(), !interval.with_high);
        }
        if low != Bson::MaxKey || with_low {
            found.push(Interval::new(low, with_low, Bson::MaxKey, true));
        }
        Self(found)
    }

    /// As explain shows them; backwards, if the index is read so.
    pub(crate) fn shown(&self, descending: bool) -> Vec<Bson> {
        let show = |interval: &Interval| Bson::String(shown(interval, descending));
        if descending {
            self.0.iter().rev().map(show).collect()
        } else {
            self.0.iter().map(show).collect()
        }
    }
}

fn touches(a: &Interval, b: &Interval, collation: &Collation) -> bool {
    match compare::compare(&b.low, &a.high, collation) {
        Ordering::Less => true,
        Ordering::Equal => a.with_high || b.with_low,
        Ordering::Greater => false,
    }
}

fn extend(a: &mut Interval, b: Interval, collation: &Collation) {
    match compare::compare(&b.high, &a.high, collation) {
        Ordering::Greater => (a.high, a.with_high) = (b.high, b.with_high),
        Ordering::Equal => a.with_high |= b.with_high,
        Ordering::Less => {}
    }
}

fn meet(a: &Interval, b: &Interval, collation: &Collation) -> Interval {
    let (low, with_low) = match compare::compare(&a.low, &b.low, collation) {
        Ordering::Greater => (&a.low, a.with_low),
        Ordering::Less => (&b.low, b.with_low),
        Ordering::Equal => (&a.low, a.with_low && b.with_low),
    };
    let (high, with_high) = match compare::compare(&a.high, &b.high, collation) {
        Ordering::Less => (&a.high, a.with_high),
        Ordering::Greater => (&b.high, b.with_high),
        Ordering::Equal => (&a.high, a.with_high && b.with_high),
    };
    Interval::new(low.clone(), with_low, high.clone(), with_high)
}

/// The values that compare with `value` at all: all of its type, from the first to the last. None
/// if an index cannot tell them, as of arrays, which are indexed by their elements.
pub(crate) fn bracket(value: &Bson) -> Option<Interval> {
    let interval = match value {
        Bson::Int32(_) | Bson::Int64(_) | Bson::Double(_) | Bson::Decimal128(_) => Interval::new(
            Bson::Double(f64::NEG_INFINITY),
            true,
            Bson::Double(f64::INFINITY),
            true,
        ),
        Bson::String(_) | Bson::Symbol(_) => {
            let end = Bson::Document(Document::new());
            Interval::new(Bson::String(String::new()), true, end, false)
        }
        Bson::Document(_) => {
            let low = Bson::Document(Document::new());
            Interval::new(low, true, Bson::Array(Vec::new()), false)
        }
        Bson::Binary(_) => {
            let low = bson::Binary {
                subtype: BinarySubtype::Generic,
                bytes: Vec::new(),
            };
            let end = Bson::ObjectId(ObjectId::from_bytes([0; 12]));
            Interval::new(Bson::Binary(low), true, end, false)
        }
        Bson::ObjectId(_) => Interval::new(
            Bson::ObjectId(ObjectId::from_bytes([0; 12])),
            true,
            Bson::ObjectId(ObjectId::from_bytes([0xff; 12])),
            true,
        ),
        Bson::Boolean(_) => Interval::new(Bson::Boolean(false), true, Bson::Boolean(true), true),
        Bson::DateTime(_) => Interval::new(
            Bson::DateTime(DateTime::from_millis(i64::MIN)),
            true,
            Bson::DateTime(DateTime::from_millis(i64::MAX)),
            true,
        ),
        Bson::Timestamp(_) => Interval::new(
            Bson::Timestamp(Timestamp {
                time: 0,
                increment: 0,
            }),
            true,
            Bson::Timestamp(Timestamp {
                time: u32::MAX,
                increment: u32::MAX,
            }),
            true,
        ),
        Bson::Null | Bson::Undefined => Interval::point(Bson::Null),
        Bson::MinKey | Bson::MaxKey => Interval::all(),
        _ => return None,
    };
    Some(interval)
}

fn shown(interval: &Interval, descending: bool) -> String {
    let low = Shown(&interval.low);
    let high = Shown(&interval.high);
    if descending {
        let open = if interval.with_high { '[' } else { '(' };
        let close = if interval.with_low { ']' } else { ')' };
        format!("{open}{high}, {low}{close}")
    } else {
        let open = if interval.with_low { '[' } else { '(' };
        let close = if interval.with_high { ']' } else { ')' };
        format!("{open}{low}, {high}{close}")
    }
}

/// A value as bounds and duplicate keys show it.
pub(crate) struct Shown<'a>(pub(crate) &'a Bson);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Bson::MinKey => write!(f, "MinKey"),
            Bson::MaxKey => write!(f, "MaxKey"),
            Bson::Null => write!(f, "null"),
            Bson::Undefined => write!(f, "undefined"),
            Bson::Double(number) if number.is_infinite() => {
                write!(f, "{}inf.0", if *number < 0.0 { "-" } else { "" })
            }
            Bson::Double(number) if number.is_nan() => write!(f, "nan.0"),
            Bson::Double(number) if number.fract() == 0.0 && number.abs() < 1e15 => {
                write!(f, "{number:.1}")
            }
            Bson::Double(number) => write!(f, "{number}"),
            Bson::String(text) => write!(f, "{text:?}"),
            Bson::ObjectId(id) => write!(f, "ObjectId('{id}')"),
            Bson::DateTime(date) => write!(f, "new Date({})", date.timestamp_millis()),
            Bson::Timestamp(t) => write!(f, "Timestamp({}, {})", t.time, t.increment),
            Bson::Decimal128(number) => write!(f, "{number}"),
            Bson::RegularExpression(regex) => {
                write!(f, "/{}/{}", regex.pattern.as_str(), regex.options.as_str())
            }
            Bson::Array(values) => {
                f.write_str("[ ")?;
                for (position, value) in values.iter().enumerate() {
                    let comma = if position > 0 { ", " } else { "" };
                    write!(f, "{comma}{}", Shown(value))?;
                }
                f.write_str(" ]")
            }
            Bson::Document(document) => write!(f, "{}", ShownDocument(document)),
            Bson::Binary(binary) => {
                write!(f, "BinData({}, ", u8::from(binary.subtype))?;
                binary
                    .bytes
                    .iter()
                    .try_for_each(|byte| write!(f, "{byte:02X}"))?;
                f.write_str(")")
            }
            other => write!(f, "{other}"),
        }
    }
}

/// A document as bounds and duplicate keys show it.
pub(crate) struct ShownDocument<'a>(pub(crate) &'a Document);

impl fmt::Display for ShownDocument<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("{}");
        }
        f.write_str("{ ")?;
        for (position, (name, value)) in self.0.iter().enumerate() {
            let comma = if position > 0 { ", " } else { "" };
            write!(f, "{comma}{name}: {}", Shown(value))?;
        }
        f.write_str(" }")
    }
}

#[cfg(test)]
mod tests {
    use bson::{bson, doc};

    use super::*;

    fn between(low: i32, with_low: bool, high: i32, with_high: bool) -> Interval {
        Interval::new(Bson::Int32(low), with_low, Bson::Int32(high), with_high)
    }

    fn shown_all(intervals: &Intervals) -> String {
        let shown = intervals.shown(false);
        let texts = shown.iter().map(|text| text.as_str().unwrap().to_owned());
        texts.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn unions_merge_what_touches() {
        let simple = Collation::default();
        let a = Intervals(vec![between(1, true, 3, false), between(5, true, 5, true)]);
        let b = Intervals(vec![between(3, true, 4, true)]);
        assert_eq!(shown_all(&a.union(b, &simple)), "[1, 4] [5, 5]");
    }

    #[test]
    fn intersections_keep_what_is_in_both() {
        let simple = Collation::default();
        let a = Intervals(vec![between(1, true, 5, true)]);
        let b = Intervals(vec![between(0, true, 2, false), between(5, true, 9, true)]);
        assert_eq!(shown_all(&a.intersection(&b, &simple)), "[1, 2) [5, 5]");
        let outside = Intervals(vec![between(6, true, 7, true)]);
        assert_eq!(a.intersection(&outside, &simple), Intervals::none());
    }

    #[test]
    fn complements_leave_the_rest() {
        let point = Intervals::one(Interval::point(bson!(5)));
        assert_eq!(shown_all(&point.complement()), "[MinKey, 5) (5, MaxKey]");
        assert_eq!(
            shown_all(&Intervals::none().complement()),
            "[MinKey, MaxKey]"
        );
        assert_eq!(Intervals::all().complement(), Intervals::none());
    }

    #[test]
    fn brackets_hold_one_type() {
        for (value, expected) in [
            (bson!(1), "[-inf.0, inf.0]"),
            (bson!("a"), "[\"\", {})"),
            (bson!(true), "[false, true]"),
            (bson!({ "a": 1 }), "[{}, [  ])"),
            (Bson::Null, "[null, null]"),
        ] {
            let interval = bracket(&value).unwrap();
            assert_eq!(shown(&interval, false), expected);
        }
        assert_eq!(bracket(&bson!([1])), None);
    }

    #[test]
    fn values_are_shown_as_the_shell_writes_them() {
        let document = doc! { "a": 1.0, "b": "x\"y", "c": [1, Bson::Null] };
        let expected = "{ a: 1.0, b: \"x\\\"y\", c: [ 1, null ] }";
        assert_eq!(ShownDocument(&document).to_string(), expected);
    }
}
