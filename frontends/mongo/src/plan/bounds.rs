//! From intervals of values to ranges of an index's bytes.

use bytes::Bytes;
use tessera_core::encoding::invert;
use tessera_core::engine::prefix_successor;
use tessera_core::model::MAX_INDEX_VALUE_BYTES;
use tessera_mongo_language::collation::Collation;
use tessera_mongo_language::key;

use crate::index::keys::{self, VALUE};
use crate::index::{IndexSpec, Order};
use crate::plan::interval::{Interval, Intervals};

/// The most ranges that one plan reads; with more, fewer fields are bounded.
const MAX_RANGES: usize = 2_000;
/// What is left of longer index values, before their hash.
const KEPT_BYTES: usize = MAX_INDEX_VALUE_BYTES - 16;

/// Bytes from one string on and before another. No end: to the end of the index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ByteRange {
    pub(crate) from: Bytes,
    pub(crate) to: Option<Bytes>,
}

/// What bounds one field of a key.
#[derive(Clone, Debug)]
pub(crate) struct FieldBound {
    pub(crate) path: String,
    pub(crate) order: Order,
    pub(crate) collation: Collation,
    pub(crate) intervals: Intervals,
}

/// The ranges of an index that hold the given intervals of its fields, in ascending order, and how
/// many fields they bound. Fields behind the first that is not a point are not bounded.
pub(crate) fn ranges(bounds: &[FieldBound]) -> (Vec<ByteRange>, usize) {
    let mut prefixes = vec![vec![VALUE]];
    let mut used = 0;
    for bound in bounds {
        let intervals = &bound.intervals;
        let count = prefixes.len().saturating_mul(intervals.0.len());
        if intervals.is_all() || count > MAX_RANGES {
            break;
        }
        used += 1;
        let points = intervals.are_points(&bound.collation);
        if !points && bound.order != Order::Hashed {
            let mut found = Vec::with_capacity(count);
            for prefix in &prefixes {
                for interval in &intervals.0 {
                    found.push(range(prefix, interval, bound.order, &bound.collation));
                }
            }
            return (sorted(found), used);
        }
        let extended = prefixes.iter().flat_map(|prefix| {
            intervals.0.iter().map(|interval| {
                let mut extended = prefix.clone();
                keys::put_field(&mut extended, &interval.low, bound.order, &bound.collation);
                extended
            })
        });
        prefixes = extended.collect();
    }
    let found = prefixes.iter().map(|prefix| starting_with(prefix));
    (sorted(found.collect()), used)
}

/// The ranges of encoded values that hold intervals, for keys of a single ascending field.
pub(crate) fn plain_ranges(intervals: &Intervals, collation: &Collation) -> Vec<ByteRange> {
    let found = intervals.0.iter().map(|interval| {
        let low = key::encode(&interval.low, collation);
        let high = key::encode(&interval.high, collation);
        between(&low, interval.with_low, &high, interval.with_high)
    });
    sorted(found.collect())
}

/// The range between the keys `min` and `max` of an index, as `min()` and `max()` name them.
pub(crate) fn between_keys(
    spec: &IndexSpec,
    min: Option<&bson::Document>,
    max: Option<&bson::Document>,
) -> ByteRange {
    let encoded = |key: &bson::Document| {
        let mut out = vec![VALUE];
        for (field, value) in spec.fields.iter().zip(key.values()) {
            keys::put_field(&mut out, value, field.order, &spec.collation);
        }
        clipped(&out)
    };
    let whole = starting_with(&[VALUE]);
    ByteRange {
        from: min.map_or(whole.from, encoded),
        to: max.map(encoded).or(whole.to),
    }
}

/// The same range of row keys, which have no mark before them.
pub(crate) fn without_mark(range: &ByteRange) -> ByteRange {
    let bare = |bytes: &Bytes| {
        let is_marked = bytes.first() == Some(&VALUE);
        if is_marked {
            Some(bytes.slice(1..))
        } else {
            None
        }
    };
    ByteRange {
        from: bare(&range.from).unwrap_or_default(),
        to: range.to.as_ref().and_then(bare),
    }
}

fn range(prefix: &[u8], interval: &Interval, order: Order, collation: &Collation) -> ByteRange {
    let encoded = |value| {
        let mut encoded = key::encode(value, collation);
        if order.is_descending() {
            invert(&mut encoded);
        }
        [prefix, &encoded].concat()
    };
    let (low, high) = (encoded(&interval.low), encoded(&interval.high));
    if order.is_descending() {
        between(&high, interval.with_high, &low, interval.with_low)
    } else {
        between(&low, interval.with_low, &high, interval.with_high)
    }
}

fn between(low: &[u8], with_low: bool, high: &[u8], with_high: bool) -> ByteRange {
    let whole_low = low.len() <= KEPT_BYTES;
    let whole_high = high.len() <= KEPT_BYTES;
    let from = if with_low || !whole_low {
        clipped(low)
    } else {
        prefix_successor(low).unwrap_or_else(|| clipped(low))
    };
    let to = if with_high || !whole_high {
        prefix_successor(&clipped(high))
    } else {
        Some(clipped(high))
    };
    ByteRange { from, to }
}

fn starting_with(prefix: &[u8]) -> ByteRange {
    let from = clipped(prefix);
    let to = prefix_successor(&from);
    ByteRange { from, to }
}

/// Longer values are stored cut off and hashed: what is left of them bounds more than was asked,
/// and the document tells.
fn clipped(bytes: &[u8]) -> Bytes {
    Bytes::copy_from_slice(bytes.get(..KEPT_BYTES).unwrap_or(bytes))
}

/// In ascending order, those that overlap made one.
fn sorted(mut ranges: Vec<ByteRange>) -> Vec<ByteRange> {
    ranges.sort_by(|a, b| a.from.cmp(&b.from));
    let mut merged: Vec<ByteRange> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match merged.last_mut() {
            Some(last) if last.to.as_ref().is_none_or(|end| *end >= range.from) => {
                let reaches_further = match (&last.to, &range.to) {
                    (None, _) => false,
                    (Some(_), None) => true,
                    (Some(end), Some(other)) => other > end,
                };
                if reaches_further {
                    last.to = range.to;
                }
            }
            _ => merged.push(range),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use bson::{Bson, Document, doc};

    use super::*;

    fn bounds(spec: &IndexSpec, intervals: &[Intervals]) -> Vec<FieldBound> {
        let fields = spec.fields.iter().zip(intervals);
        let bounds = fields.map(|(field, intervals)| FieldBound {
            path: field.path.clone(),
            order: field.order,
            collation: Collation::default(),
            intervals: intervals.clone(),
        });
        bounds.collect()
    }

    fn spec(key: Document) -> IndexSpec {
        IndexSpec::parse(&doc! { "key": key, "name": "n" }, &Collation::default()).unwrap()
    }

    fn holds(ranges: &[ByteRange], spec: &IndexSpec, document: &Document) -> bool {
        let keys = keys::of(spec, document).unwrap();
        keys.entries.iter().any(|(value, _)| {
            ranges.iter().any(|range| {
                *value >= range.from && range.to.as_ref().is_none_or(|end| value < end)
            })
        })
    }

    #[test]
    fn ranges_hold_what_their_intervals_hold() {
        let point = |value: i32| Intervals::one(Interval::point(Bson::Int32(value)));
        let open = Intervals::one(Interval::new(Bson::Int32(3), false, Bson::Int32(7), true));
        for key in [
            doc! { "a": 1, "b": 1 },
            doc! { "a": -1, "b": -1 },
            doc! { "a": 1, "b": -1 },
        ] {
            let spec = spec(key.clone());
            let (found, used) = ranges(&bounds(&spec, &[point(1), open.clone()]));
            assert_eq!((found.len(), used), (1, 2));
            for (b, inside) in [(3, false), (4, true), (7, true), (8, false)] {
                let document = doc! { "a": 1, "b": b };
                assert_eq!(holds(&found, &spec, &document), inside, "{key} {b}");
            }
            assert!(!holds(&found, &spec, &doc! { "a": 2, "b": 5 }), "{key}");
        }
    }

    #[test]
    fn points_multiply_and_ranges_end_the_bounds() {
        let spec = spec(doc! { "a": 1, "b": 1, "c": 1 });
        let point = |value: i32| Interval::point(Bson::Int32(value));
        let two = Intervals(vec![point(1), point(2)]);
        let (found, used) = ranges(&bounds(
            &spec,
            &[two.clone(), two.clone(), Intervals::all()],
        ));
        assert_eq!((found.len(), used), (4, 2));
        let (_, used) = ranges(&bounds(&spec, &[Intervals::all(), two.clone(), two]));
        assert_eq!(used, 0);
    }

    #[test]
    fn long_values_are_found_all_the_same() {
        let spec = spec(doc! { "a": 1 });
        let long = "x".repeat(3_000);
        let exact = Intervals::one(Interval::point(Bson::String(long.clone())));
        let (found, _) = ranges(&bounds(&spec, &[exact]));
        assert!(holds(&found, &spec, &doc! { "a": long }));
    }
}
