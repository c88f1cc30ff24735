//! Values to look others up among, by their bytes: what would take a comparison with each of them
//! takes one look.

use std::collections::HashMap;

use ahash::RandomState;
use bson::Bson;
use tessera_core::deadline;

use crate::collation::Collation;
use crate::compare::equal;
use crate::error::Result;
use crate::key;

/// Fewer are compared one by one, which needs no memory.
const FEW: usize = 16;

/// Values, and where each came first. Equal if they have the same values.
#[derive(Clone, Debug, Default)]
pub(crate) struct Members {
    places: HashMap<Vec<u8>, usize, RandomState>,
    collation: Collation,
    next: usize,
}

impl Members {
    /// No values yet.
    pub(crate) fn new(collation: &Collation) -> Self {
        Self {
            places: HashMap::default(),
            collation: collation.clone(),
            next: 0,
        }
    }

    /// These values.
    pub(crate) fn of(values: &[Bson], collation: &Collation) -> Result<Self> {
        let mut members = Self::new(collation);
        members.places.reserve(values.len());
        for value in values {
            members.insert(value)?;
        }
        Ok(members)
    }

    /// These values, if they are so many that comparing with each would cost more.
    pub(crate) fn of_many(values: &[Bson], collation: &Collation) -> Result<Option<Self>> {
        let many = values.len() > FEW;
        many.then(|| Self::of(values, collation)).transpose()
    }

    /// Adds a value, and says whether it was not there.
    pub(crate) fn insert(&mut self, value: &Bson) -> Result<bool> {
        deadline::step(2)?;
        let place = self.next;
        self.next += 1;
        let before = self.places.len();
        self.places
            .entry(key::encode(value, &self.collation))
            .or_insert(place);
        Ok(self.places.len() > before)
    }

    /// Where the value came first.
    pub(crate) fn place(&self, value: &Bson) -> Result<Option<usize>> {
        deadline::step(1)?;
        let key = key::encode(value, &self.collation);
        Ok(self.places.get(&key).copied())
    }

    /// Whether the value is one of these.
    pub(crate) fn contains(&self, value: &Bson) -> Result<bool> {
        Ok(self.place(value)?.is_some())
    }
}

impl PartialEq for Members {
    fn eq(&self, other: &Self) -> bool {
        self.collation == other.collation
            && self.places.len() == other.places.len()
            && self.places.keys().all(|key| other.places.contains_key(key))
    }
}

/// Appends the values that are not in `set`, and says whether there were any.
pub(crate) fn add_missing(
    set: &mut Vec<Bson>,
    values: &[Bson],
    collation: &Collation,
) -> Result<bool> {
    let before = set.len();
    if set.len() <= FEW && values.len() <= FEW || values.len() <= 1 {
        for value in values {
            if position(set, value, collation)?.is_none() {
                set.push(value.clone());
            }
        }
        return Ok(set.len() > before);
    }
    let mut known = Members::of(set, collation)?;
    for value in values {
        if known.insert(value)? {
            set.push(value.clone());
        }
    }
    Ok(set.len() > before)
}

/// Where a value is among others, by comparing with one after the other.
pub(crate) fn position(
    values: &[Bson],
    sought: &Bson,
    collation: &Collation,
) -> Result<Option<usize>> {
    for (index, value) in values.iter().enumerate() {
        deadline::step(1)?;
        if equal(value, sought, collation) {
            return Ok(Some(index));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use bson::doc;
    use proptest::prelude::*;

    use super::*;
    use crate::key::tests::value;

    fn collations() -> [Collation; 2] {
        let strength = doc! { "locale": "en", "strength": 1 };
        [Collation::default(), Collation::parse(&strength).unwrap()]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]

        #[test]
        fn finds_what_comparisons_find(
            values in prop::collection::vec(value(), 0..24),
            sought in value(),
        ) {
            for collation in collations() {
                let members = Members::of(&values, &collation).unwrap();
                for sought in values.iter().chain([&sought]) {
                    prop_assert_eq!(
                        members.place(sought).unwrap(),
                        position(&values, sought, &collation).unwrap()
                    );
                }
            }
        }

        #[test]
        fn adds_what_comparisons_would_add(
            set in prop::collection::vec(value(), 0..24),
            values in prop::collection::vec(value(), 0..24),
        ) {
            for collation in collations() {
                let mut expected = set.clone();
                for value in &values {
                    if !expected.iter().any(|known| equal(known, value, &collation)) {
                        expected.push(value.clone());
                    }
                }
                let mut found = set.clone();
                let added = add_missing(&mut found, &values, &collation).unwrap();
                prop_assert_eq!(added, found.len() > set.len());
                prop_assert_eq!(format!("{found:?}"), format!("{expected:?}"));
            }
        }
    }
}
