//! Sorting that can be interrupted.

use std::cmp::Ordering;

use super::{Interruption, step};

/// So many are sorted at once.
const RUN: usize = 4_096;

/// Sorts; what is equal stays in the order it was in. An interruption leaves nothing of use.
pub fn sort_by<T>(
    items: &mut Vec<T>,
    mut compare: impl FnMut(&T, &T) -> Ordering,
) -> Result<(), Interruption> {
    if items.len() <= RUN {
        items.sort_by(compare);
        return step(1);
    }
    let mut rest = std::mem::take(items).into_iter();
    let mut runs = Vec::with_capacity(rest.len() / RUN + 1);
    while rest.len() > 0 {
        let mut run: Vec<T> = rest.by_ref().take(RUN).collect();
        step(run.len())?;
        run.sort_by(&mut compare);
        runs.push(run);
    }
    while runs.len() > 1 {
        let mut merged = Vec::with_capacity(runs.len().div_ceil(2));
        let mut pairs = runs.into_iter();
        while let Some(left) = pairs.next() {
            merged.push(match pairs.next() {
                Some(right) => merge(left, right, &mut compare)?,
                None => left,
            });
        }
        runs = merged;
    }
    *items = runs.pop().unwrap_or_default();
    Ok(())
}

fn merge<T>(
    left: Vec<T>,
    right: Vec<T>,
    mut compare: impl FnMut(&T, &T) -> Ordering,
) -> Result<Vec<T>, Interruption> {
    let mut merged = Vec::with_capacity(left.len() + right.len());
    let (mut left, mut right) = (left.into_iter().peekable(), right.into_iter().peekable());
    while let (Some(a), Some(b)) = (left.peek(), right.peek()) {
        step(1)?;
        let next = if compare(a, b).is_gt() {
            right.next()
        } else {
            left.next()
        };
        merged.extend(next);
    }
    merged.extend(left);
    merged.extend(right);
    Ok(merged)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn sorts_as_the_standard_library_does(
            keys in prop::collection::vec(0_u8..50, 0..(RUN * 3)),
        ) {
            let mut items: Vec<(u8, usize)> = keys.into_iter().zip(0..).collect();
            let mut expected = items.clone();
            expected.sort_by_key(|(key, _)| *key);
            sort_by(&mut items, |(a, _), (b, _)| a.cmp(b)).unwrap();
            prop_assert_eq!(items, expected);
        }
    }
}
