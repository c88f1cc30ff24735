//! Sets of keys in the plane of PartitionKey and RowKey, and how they are joined.
//!
//! A [`Line`] is a set of keys: intervals. A [`Plane`] is a set of pairs of keys: intervals of
//! partition keys, each with its line of row keys. Both are segments in order, and two sets are
//! joined by one sweep over the places where either changes.

use super::expression::Comparator;

/// A place between two neighbouring keys, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Cut<'k> {
    Key(&'k str, Side),
    /// After every key.
    End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Side {
    Before,
    After,
}

impl<'k> Cut<'k> {
    /// Before every key: the empty text is the least.
    pub(super) const START: Cut<'static> = Cut::Key("", Side::Before);

    pub(super) fn before(key: &'k str) -> Self {
        Self::Key(key, Side::Before)
    }

    pub(super) fn after(key: &'k str) -> Self {
        Self::Key(key, Side::After)
    }
}

/// The keys between two cuts; `from` is less than `to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Interval<'k> {
    pub(super) from: Cut<'k>,
    pub(super) to: Cut<'k>,
}

impl<'k> Interval<'k> {
    pub(super) const ALL: Interval<'static> = Interval {
        from: Cut::START,
        to: Cut::End,
    };

    /// The one key that it holds, if it was made of one.
    pub(super) fn single(self) -> Option<&'k str> {
        match (self.from, self.to) {
            (Cut::Key(from, Side::Before), Cut::Key(to, Side::After)) if from == to => Some(from),
            _ => None,
        }
    }
}

/// An interval and what belongs to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Segment<'k, V> {
    pub(super) over: Interval<'k>,
    pub(super) value: V,
}

/// A set of keys: sorted, disjoint, no two intervals touch.
pub(super) type Line<'k> = Vec<Segment<'k, ()>>;

/// A set of pairs of keys: sorted and disjoint by partition key, and touching segments differ in
/// their row keys, of which each has some.
pub(super) type Plane<'k> = Vec<Segment<'k, Line<'k>>>;

/// Every key.
pub(super) fn whole_line<'k>() -> Line<'k> {
    line([(Cut::START, Cut::End)])
}

/// The keys between pairs of cuts, which are in order; a pair with nothing between is left out.
pub(super) fn line<'k>(pairs: impl IntoIterator<Item = (Cut<'k>, Cut<'k>)>) -> Line<'k> {
    let mut line = Vec::new();
    for (from, to) in pairs {
        if from < to {
            push(&mut line, Interval { from, to }, ());
        }
    }
    line
}

/// The keys that compare with one key in this way.
pub(super) fn compared(comparator: Comparator, key: &str) -> Line<'_> {
    let (before, after) = (Cut::before(key), Cut::after(key));
    match comparator {
        Comparator::Equal => line([(before, after)]),
        Comparator::NotEqual => line([(Cut::START, before), (after, Cut::End)]),
        Comparator::GreaterThan => line([(after, Cut::End)]),
        Comparator::GreaterOrEqual => line([(before, Cut::End)]),
        Comparator::LessThan => line([(Cut::START, before)]),
        Comparator::LessOrEqual => line([(Cut::START, after)]),
    }
}

/// All rows of some partitions.
pub(super) fn partitions<'k>(line: &Line<'k>) -> Plane<'k> {
    let mut plane = Vec::new();
    for segment in line {
        push(&mut plane, segment.over, whole_line());
    }
    plane
}

/// Some rows of all partitions.
pub(super) fn rows(line: Line<'_>) -> Plane<'_> {
    let mut plane = Vec::new();
    if !line.is_empty() {
        push(&mut plane, Interval::ALL, line);
    }
    plane
}

/// The pairs that are in either plane.
pub(super) fn union<'k>(left: &Plane<'k>, right: &Plane<'k>, limit: usize) -> Plane<'k> {
    join(left, right, limit, |left, right| {
        sweep(left, right, |left, right| left.or(right).copied())
    })
}

/// The pairs that are in both planes.
pub(super) fn intersection<'k>(left: &Plane<'k>, right: &Plane<'k>, limit: usize) -> Plane<'k> {
    join(left, right, limit, |left, right| {
        sweep(left, right, |left, right| left.and(right).copied())
    })
}

/// Adds a segment after the others. It becomes one with the last if they touch and are alike.
pub(super) fn push<'k, V: PartialEq>(
    segments: &mut Vec<Segment<'k, V>>,
    over: Interval<'k>,
    value: V,
) {
    match segments.last_mut() {
        Some(last) if last.over.to == over.from && last.value == value => last.over.to = over.to,
        _ => segments.push(Segment { over, value }),
    }
}

/// Joins planes by how their rows are joined, exactly up to `limit` intervals of rows. What comes
/// after is covered by one interval for each partition, and if partitions are too many by one
/// interval of them: still a superset.
fn join<'k>(
    left: &Plane<'k>,
    right: &Plane<'k>,
    limit: usize,
    join_rows: impl Fn(&Line<'k>, &Line<'k>) -> Line<'k>,
) -> Plane<'k> {
    let none = Line::new();
    let mut intervals = 0;
    let plane = sweep(left, right, |left, right| {
        let (left, right) = (left.unwrap_or(&none), right.unwrap_or(&none));
        let mut rows = if intervals < limit {
            join_rows(left, right)
        } else {
            join_rows(&cover(left), &cover(right))
        };
        intervals += rows.len();
        if intervals > limit {
            rows = cover(&rows);
        }
        (!rows.is_empty()).then_some(rows)
    });
    if plane.len() <= limit {
        return plane;
    }
    let mut covering = Vec::new();
    for segment in cover(&plane) {
        push(&mut covering, segment.over, whole_line());
    }
    covering
}

/// The shortest single interval that holds all of them; none of none.
fn cover<'k, V>(segments: &[Segment<'k, V>]) -> Line<'k> {
    let (Some(first), Some(last)) = (segments.first(), segments.last()) else {
        return Line::new();
    };
    line([(first.over.from, last.over.to)])
}

/// Sweeps over two lists of segments from cut to cut and joins the rows between.
fn sweep<'k, V: PartialEq>(
    left: &[Segment<'k, V>],
    right: &[Segment<'k, V>],
    mut value: impl FnMut(Option<&V>, Option<&V>) -> Option<V>,
) -> Vec<Segment<'k, V>> {
    let (mut left, mut right) = (left.iter().peekable(), right.iter().peekable());
    let mut joined = Vec::with_capacity(left.len() + right.len());
    let mut from = Cut::START;
    loop {
        while left.next_if(|segment| segment.over.to <= from).is_some() {}
        while right.next_if(|segment| segment.over.to <= from).is_some() {}
        let ahead = [left.peek(), right.peek()];
        let Some(to) = ahead
            .iter()
            .flatten()
            .map(|segment| next_cut(segment, from))
            .min()
        else {
            return joined;
        };
        let [left, right] = ahead.map(|segment| {
            let segment = segment.filter(|segment| segment.over.from <= from)?;
            Some(&segment.value)
        });
        if let Some(value) = value(left, right) {
            push(&mut joined, Interval { from, to }, value);
        }
        from = to;
    }
}

fn next_cut<'k, V>(segment: &Segment<'k, V>, after: Cut<'k>) -> Cut<'k> {
    if segment.over.from > after {
        segment.over.from
    } else {
        segment.over.to
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;

    #[test]
    fn cuts_are_in_the_order_of_keys() {
        let cuts = [
            Cut::START,
            Cut::after(""),
            Cut::before("a"),
            Cut::after("a"),
            Cut::before("a\0"),
            Cut::before("aa"),
            Cut::after("b"),
            Cut::before("ü"),
            Cut::End,
        ];
        assert!(cuts.is_sorted_by(|left, right| left < right));
    }

    #[test]
    fn nothing_is_less_than_the_empty_key() {
        assert_eq!(compared(Comparator::LessThan, ""), Line::new());
        assert_eq!(compared(Comparator::GreaterOrEqual, ""), whole_line());
        assert_eq!(compared(Comparator::NotEqual, "").len(), 1);
    }

    #[test]
    fn intervals_that_touch_become_one() {
        let below = partitions(&compared(Comparator::LessThan, "a"));
        let at = partitions(&compared(Comparator::Equal, "a"));
        let above = partitions(&compared(Comparator::GreaterThan, "a"));
        let most = union(&below, &above, 10);
        assert_eq!(most.len(), 2);
        assert_eq!(union(&most, &at, 10), rows(whole_line()));
        assert_eq!(intersection(&below, &at, 10), Plane::new());
    }

    #[test]
    fn beyond_the_limit_a_plane_is_covered() {
        let mut left = partitions(&compared(Comparator::Equal, "a"));
        for key in ["c", "e"] {
            let right = partitions(&compared(Comparator::Equal, key));
            left = union(&left, &right, 2);
        }
        let covering = line([(Cut::before("a"), Cut::after("e"))]);
        assert_eq!(left, partitions(&covering));

        let two = line([
            (Cut::before("1"), Cut::after("1")),
            (Cut::before("3"), Cut::after("3")),
        ]);
        let both = partitions(&line([
            (Cut::before("a"), Cut::after("a")),
            (Cut::before("c"), Cut::after("c")),
        ]));
        let plane = intersection(&both, &rows(two.clone()), 3);
        let covering = line([(Cut::before("1"), Cut::after("3"))]);
        let values: Vec<&Line<'_>> = plane.iter().map(|segment| &segment.value).collect();
        assert_eq!(values, [&two, &covering]);
    }

    fn planes() -> impl Strategy<Value = Plane<'static>> {
        let words = select(vec!["eq", "ne", "gt", "ge", "lt", "le"]);
        let half = (any::<bool>(), words, select(vec!["", "a", "b", "c", "d"]));
        let half = half.prop_map(|(of_rows, word, key)| {
            let line = compared(Comparator::from_word(word).unwrap(), key);
            if of_rows {
                rows(line)
            } else {
                partitions(&line)
            }
        });
        half.prop_recursive(4, 16, 2, |inner| {
            (any::<bool>(), inner.clone(), inner).prop_map(|(both, left, right)| {
                let join = if both { intersection } else { union };
                join(&left, &right, usize::MAX)
            })
        })
    }

    proptest! {
        #[test]
        fn a_limit_only_adds(left in planes(), right in planes(), limit in 0..6_usize) {
            for join in [union, intersection] {
                let exact = join(&left, &right, usize::MAX);
                let limited = join(&left, &right, limit);
                prop_assert_eq!(&intersection(&exact, &limited, usize::MAX), &exact);
                let intervals: usize = limited.iter().map(|segment| segment.value.len()).sum();
                prop_assert!(intervals <= 2 * limit.max(1), "{} of {}", intervals, limit);
            }
        }
    }
}
