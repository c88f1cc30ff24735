//! A map from keys to values, in key order, that holds few of them most of the time.
//!
//! A write set of one statement has one to ten keys, for which a sorted vector is smaller and
//! faster than a tree; a bulk write has a hundred thousand, for which it would be neither.

use std::collections::BTreeMap;
use std::collections::btree_map;
use std::ops::{Bound, RangeBounds};
use std::slice;

use bytes::Bytes;

/// Beyond this many keys a tree takes over.
const FEW: usize = 16;

/// Values by key, in key order.
#[derive(Clone, Debug)]
pub struct KeyMap<V>(Keys<V>);

#[derive(Clone, Debug)]
enum Keys<V> {
    /// Sorted by key.
    Few(Vec<(Bytes, V)>),
    Many(BTreeMap<Bytes, V>),
}

impl<V> Default for KeyMap<V> {
    fn default() -> Self {
        Self(Keys::Few(Vec::new()))
    }
}

impl<V> KeyMap<V> {
    /// The value under `key`.
    pub fn get(&self, key: &[u8]) -> Option<&V> {
        match &self.0 {
            Keys::Few(few) => {
                let found = find(few, key).ok().and_then(|at| few.get(at));
                found.map(|(_, value)| value)
            }
            Keys::Many(many) => many.get(key),
        }
    }

    /// Whether there is a value under `key`.
    pub fn contains_key(&self, key: &[u8]) -> bool {
        self.get(key).is_some()
    }

    /// How many keys there are.
    pub fn len(&self) -> usize {
        match &self.0 {
            Keys::Few(few) => few.len(),
            Keys::Many(many) => many.len(),
        }
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All keys with their values, in key order.
    pub fn iter(&self) -> Iter<'_, V> {
        match &self.0 {
            Keys::Few(few) => Iter::Few(few.iter()),
            Keys::Many(many) => Iter::Many(many.iter()),
        }
    }

    /// All keys, in order.
    pub fn keys(&self) -> impl Iterator<Item = &Bytes> {
        self.iter().map(|(key, _)| key)
    }

    /// All values, in the order of their keys.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.iter().map(|(_, value)| value)
    }

    /// The keys within `bounds` with their values, in key order.
    pub fn range<'a>(
        &'a self,
        bounds: (Bound<&'a [u8]>, Bound<&'a [u8]>),
    ) -> impl Iterator<Item = (&'a Bytes, &'a V)> {
        let (few, many) = match &self.0 {
            Keys::Few(few) => (Some(few.iter()), None),
            Keys::Many(many) => (None, Some(many.range::<[u8], _>(bounds))),
        };
        let few = few.into_iter().flatten().map(|(key, value)| (key, value));
        few.filter(move |(key, _)| RangeBounds::<[u8]>::contains(&bounds, key.as_ref()))
            .chain(many.into_iter().flatten())
    }

    /// Stores `value` under `key` and answers what was there.
    pub(crate) fn insert(&mut self, key: Bytes, value: V) -> Option<V> {
        match &mut self.0 {
            Keys::Many(many) => return many.insert(key, value),
            Keys::Few(few) => match find(few, &key) {
                Ok(at) => {
                    let (_, held) = few.get_mut(at)?;
                    return Some(std::mem::replace(held, value));
                }
                Err(at) if few.len() < FEW => few.insert(at, (key, value)),
                Err(_) => {
                    let mut many: BTreeMap<_, _> = std::mem::take(few).into_iter().collect();
                    many.insert(key, value);
                    self.0 = Keys::Many(many);
                }
            },
        }
        None
    }

    /// Removes the value under `key`.
    pub(crate) fn remove(&mut self, key: &[u8]) {
        match &mut self.0 {
            Keys::Few(few) => few.retain(|(held, _)| held != key),
            Keys::Many(many) => {
                many.remove(key);
            }
        }
    }

    /// Keeps the keys that `keep` accepts.
    pub(crate) fn retain(&mut self, keep: impl Fn(&Bytes) -> bool) {
        match &mut self.0 {
            Keys::Few(few) => few.retain(|(key, _)| keep(key)),
            Keys::Many(many) => many.retain(|key, _| keep(key)),
        }
    }
}

fn find<V>(few: &[(Bytes, V)], key: &[u8]) -> Result<usize, usize> {
    few.binary_search_by(|(held, _)| held.as_ref().cmp(key))
}

/// Walks a [`KeyMap`] in key order.
#[derive(Debug)]
pub enum Iter<'a, V> {
    /// Over a sorted vector.
    Few(slice::Iter<'a, (Bytes, V)>),
    /// Over a tree.
    Many(btree_map::Iter<'a, Bytes, V>),
}

impl<'a, V> Iterator for Iter<'a, V> {
    type Item = (&'a Bytes, &'a V);

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Self::Few(few) => few.next().map(|(key, value)| (key, value)),
            Self::Many(many) => many.next(),
        }
    }
}

impl<'a, V> IntoIterator for &'a KeyMap<V> {
    type Item = (&'a Bytes, &'a V);
    type IntoIter = Iter<'a, V>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_behaves_as_a_tree_does(steps in vec((0_u8..40, any::<bool>()), 0..80)) {
            let mut tree = BTreeMap::new();
            let mut map = KeyMap::default();
            for (number, (key, keeps)) in steps.into_iter().enumerate() {
                let key = Bytes::from(vec![key]);
                if keeps {
                    assert_eq!(map.insert(key.clone(), number), tree.insert(key, number));
                } else {
                    map.remove(&key);
                    tree.remove(&key);
                }
                assert_eq!(map.len(), tree.len());
            }
            assert!(map.iter().eq(tree.iter()));
            let bounds = (Bound::Excluded(&[7_u8][..]), Bound::Included(&[30_u8][..]));
            assert!(map.range(bounds).eq(tree.range::<[u8], _>(bounds)));
            for key in 0..40 {
                assert_eq!(map.get(&[key]), tree.get(&[key][..]));
            }
            map.retain(|key| key.first() < Some(&20));
            tree.retain(|key, _| key.first() < Some(&20));
            assert!(map.iter().eq(tree.iter()));
        }
    }
}
