//! Any order of the same writes and deletes ends in the same rows.

use proptest::prelude::*;

use super::{Cell, Content, Deletion, KeyRange, Liveness, Partition, Ranges, Row};

/// The clock of all writes here, in seconds; times to live end around it.
const NOW: i64 = 1000;

fn timestamp() -> impl Strategy<Value = i64> {
    0..6i64
}

fn cell() -> impl Strategy<Value = Cell> {
    let value = || prop::collection::vec(0u8..3, 0..2);
    prop_oneof![
        (timestamp(), value()).prop_map(|(timestamp, value)| Cell::live(timestamp, value)),
        (timestamp(), value(), 1..5i32, NOW - 3..NOW)
            .prop_map(|(timestamp, value, life, at)| Cell::expiring(timestamp, value, life, at)),
        (timestamp(), NOW - 3..NOW).prop_map(|(timestamp, at)| Cell::deleted(timestamp, at)),
    ]
}

fn deletion() -> impl Strategy<Value = Deletion> {
    (timestamp(), NOW - 3..NOW).prop_map(|(timestamp, at)| Deletion { timestamp, at })
}

/// A column 0 with one cell, and a column 1 that is a collection.
fn row() -> impl Strategy<Value = Row> {
    let liveness = (timestamp(), prop::option::of(NOW - 2..NOW + 2))
        .prop_map(|(timestamp, ends)| Liveness { timestamp, ends });
    prop_oneof![
        cell().prop_map(|cell| Row::default().with(0, Content::Simple(cell))),
        (0..3u8, cell())
            .prop_map(|(path, cell)| { Row::default().with(1, Content::element([path], cell)) }),
        deletion().prop_map(|deletion| {
            let cells = std::collections::BTreeMap::new();
            Row::default().with(1, Content::Complex { deletion, cells })
        }),
        deletion().prop_map(|deletion| Row {
            deletion,
            ..Row::default()
        }),
        liveness.prop_map(|liveness| Row {
            liveness: Some(liveness),
            ..Row::default()
        }),
    ]
}

fn write() -> impl Strategy<Value = Partition> {
    let range = (0..4u8, prop::option::of(0..5u8), deletion());
    prop_oneof![
        6 => (0..4u8, row()).prop_map(|(key, row)| Partition::row([key], row)),
        1 => row().prop_map(|statics| Partition { statics, ..Partition::default() }),
        2 => range.prop_map(|(start, end, deletion)| {
            let range = KeyRange { start: vec![start], end: end.map(|end| vec![end]) };
            Partition { ranges: Ranges::of(range, deletion), ..Partition::default() }
        }),
        1 => deletion().prop_map(|deletion| Partition { deletion, ..Partition::default() }),
    ]
}

fn writes_and_an_order() -> impl Strategy<Value = (Vec<Partition>, Vec<Partition>)> {
    prop::collection::vec(write(), 0..14)
        .prop_flat_map(|writes| (Just(writes.clone()), Just(writes).prop_shuffle()))
}

fn all(writes: impl IntoIterator<Item = Partition>) -> Partition {
    writes
        .into_iter()
        .fold(Partition::default(), Partition::merge)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_order_ends_in_the_same_rows((writes, shuffled) in writes_and_an_order()) {
        let (one, other) = (all(writes), all(shuffled));
        prop_assert_eq!(&one, &other);
        for now in NOW - 3..NOW + 5 {
            prop_assert_eq!(one.visible(now), other.visible(now));
            prop_assert_eq!(one.visible_statics(now), other.visible_statics(now));
        }
    }

    /// Writes that arrive twice, or in groups, change nothing.
    #[test]
    fn repeated_and_grouped_writes_change_nothing(
        (writes, shuffled) in writes_and_an_order(),
        cut: prop::sample::Index,
    ) {
        let whole = all(writes.clone());
        let cut = cut.index(writes.len() + 1);
        let (first, second) = (all(writes[..cut].to_vec()), all(writes[cut..].to_vec()));
        prop_assert_eq!(&first.clone().merge(second.clone()), &whole);
        prop_assert_eq!(&second.merge(first), &whole);
        prop_assert_eq!(&all(writes.into_iter().chain(shuffled)), &whole);
    }

    /// What is visible is what a slow reader finds who keeps every write and looks at all of them.
    #[test]
    fn merged_writes_show_what_all_writes_show((writes, _) in writes_and_an_order()) {
        let merged = all(writes.clone());
        for key in 0..4u8 {
            let deleted = writes
                .iter()
                .map(|write| {
                    let row = write.rows.get(&[key][..]).map_or(Deletion::NONE, |row| row.deletion);
                    row.max(write.deletion).max(write.ranges.deletion(&[key]))
                })
                .max()
                .unwrap_or_default();
            let cells = writes.iter().filter_map(|write| {
                match write.rows.get(&[key][..])?.columns.get(0)? {
                    Content::Simple(cell) => Some(cell.clone()),
                    Content::Complex { .. } => None,
                }
            });
            let newest = cells.reduce(Cell::merge);
            let expected = newest.as_ref().and_then(|cell| cell.visible(deleted, NOW));
            let visible = merged.visible(NOW);
            let row = visible.iter().find(|(found, _)| *found == [key]);
            let found = row.and_then(|(_, values)| values.get(&0)).map(|values| values[0].1);
            prop_assert_eq!(found, expected);
        }
    }
}
