//! The buffered writes of a transaction, which travel to the engine with the commit.

use bytes::Bytes;

use crate::engine::KeyRange;
use crate::feed::stamp::Stamp;
use crate::key_map::KeyMap;

/// What a transaction will do to one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// Store this value.
    Put(Bytes),
    /// Remove the key, present or not.
    Delete,
}

/// Two counters that many transactions change at once. Additions commute, so they never conflict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Number of items.
    pub items: i64,
    /// Bytes of those items.
    pub bytes: i64,
}

impl Tally {
    /// Length of an encoded tally.
    pub const ENCODED_LEN: usize = 16;

    /// The stored form: both counters, big-endian.
    pub fn encode(self) -> [u8; Self::ENCODED_LEN] {
        let mut encoded = [0; Self::ENCODED_LEN];
        let (items, bytes) = encoded.split_at_mut(8);
        items.copy_from_slice(&self.items.to_be_bytes());
        bytes.copy_from_slice(&self.bytes.to_be_bytes());
        encoded
    }

    /// Reads a stored tally; none if the bytes are not one.
    pub fn decode(encoded: &[u8]) -> Option<Self> {
        let (items, bytes) = encoded.split_first_chunk::<8>()?;
        let bytes: [u8; 8] = bytes.try_into().ok()?;
        Some(Self {
            items: i64::from_be_bytes(*items),
            bytes: i64::from_be_bytes(bytes),
        })
    }

    /// The sum of both, wrapping: a tally must never stop a commit.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            items: self.items.wrapping_add(other.items),
            bytes: self.bytes.wrapping_add(other.bytes),
        }
    }

    /// The difference of both, wrapping.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self {
            items: self.items.wrapping_sub(other.items),
            bytes: self.bytes.wrapping_sub(other.bytes),
        }
    }

    /// Whether both counters are zero.
    pub fn is_zero(self) -> bool {
        self == Self::default()
    }
}

/// An entry whose key the engine completes at the commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Appended {
    /// What stands before the stamp.
    pub prefix: Bytes,
    /// The value.
    pub value: Bytes,
}

impl Appended {
    /// The whole key, once the stamp is known.
    pub fn key(&self, stamp: Stamp) -> Bytes {
        let mut key = Vec::with_capacity(self.prefix.len() + Stamp::ENCODED_LEN);
        key.extend_from_slice(&self.prefix);
        stamp.encode_into(&mut key);
        key.into()
    }

    fn byte_size(&self) -> usize {
        self.prefix.len() + Stamp::ENCODED_LEN + self.value.len()
    }
}

/// All changes of one transaction, and its guards.
///
/// Range deletes apply first, then the writes of single keys, then the tallies; `delete_range`
/// keeps that equal to the order of the calls by dropping the buffered writes it covers. What is
/// appended comes last and is covered by no range delete of the same set.
#[derive(Clone, Debug, Default)]
pub struct WriteSet {
    writes: KeyMap<Write>,
    range_deletes: Vec<KeyRange>,
    guards: KeyMap<()>,
    tallies: KeyMap<Tally>,
    appended: Vec<Appended>,
    announced: Vec<Bytes>,
    sync: bool,
    bytes: usize,
}

impl WriteSet {
    /// Stores `value` under `key`.
    pub fn put(&mut self, key: Bytes, value: Bytes) {
        self.write(key, Write::Put(value));
    }

    /// Removes `key`, also if it holds a tally.
    pub fn delete(&mut self, key: Bytes) {
        self.tallies.remove(&key);
        self.write(key, Write::Delete);
    }

    /// Removes every key in `range`.
    pub fn delete_range(&mut self, range: KeyRange) {
        if range.is_empty() {
            return;
        }
        self.writes.retain(|key| !range.contains(key));
        self.tallies.retain(|key| !range.contains(key));
        self.bytes += range.start.len() + range.end.as_ref().map_or(0, Bytes::len);
        self.range_deletes.push(range);
    }

    /// Refuses the commit if `key`, present or absent, changes between the snapshot and the commit.
    pub fn guard(&mut self, key: Bytes) {
        let bytes = key.len();
        if self.guards.insert(key, ()).is_none() {
            self.bytes += bytes;
        }
    }

    /// Adds to the tally under `key`. Keys that hold tallies are written in no other way, except
    /// that they may be deleted.
    pub fn add(&mut self, key: Bytes, delta: Tally) {
        self.bytes += key.len() + Tally::ENCODED_LEN;
        let sum = self.tallies.get(&key).copied().unwrap_or_default();
        self.tallies.insert(key, sum.plus(delta));
    }

    /// Stores `value` under a new key behind `prefix`, which begins with [`key::LOG`]: the engine
    /// completes it with the stamp of the commit and the number of this entry in it. The key is
    /// unique, so it needs no conflict check; and it is unknown before the commit, so the
    /// transaction does not see the entry either.
    ///
    /// [`key::LOG`]: crate::key::LOG
    pub fn append(&mut self, prefix: Bytes, value: Bytes) {
        let appended = Appended { prefix, value };
        self.bytes += appended.byte_size();
        self.appended.push(appended);
    }

    /// Removes appended entries that are not kept.
    pub(crate) fn retain_appended(&mut self, keep: impl Fn(&Appended) -> bool) {
        self.appended.retain(keep);
    }

    /// The appended entries, in the order of the calls.
    pub fn appended(&self) -> &[Appended] {
        &self.appended
    }

    /// Makes this commit durable before it is answered, whatever the engine's durability setting.
    /// Of an otherwise empty set this asks whether the engine still takes writes.
    pub fn demand_sync(&mut self) {
        self.sync = true;
    }

    /// Tells other servers on the same engine, after the commit, that `key` changed.
    pub fn announce(&mut self, key: Bytes) {
        self.announced.push(key);
    }

    /// The keys announced to other servers.
    pub fn announced(&self) -> &[Bytes] {
        &self.announced
    }

    /// Whether the writer demands a sync.
    pub fn sync_demanded(&self) -> bool {
        self.sync
    }

    /// What this set does to `key`, if anything: the overlay for reading one's own writes.
    pub fn effect(&self, key: &[u8]) -> Option<&Write> {
        self.writes.get(key).or_else(|| {
            let deleted = self.range_deletes.iter().any(|range| range.contains(key));
            deleted.then_some(&Write::Delete)
        })
    }

    /// Writes of single keys, in key order.
    pub fn writes(&self) -> &KeyMap<Write> {
        &self.writes
    }

    /// Ranges deleted, in the order of the calls.
    pub fn range_deletes(&self) -> &[KeyRange] {
        &self.range_deletes
    }

    /// Keys that must not have changed.
    pub fn guards(&self) -> &KeyMap<()> {
        &self.guards
    }

    /// Additions to tallies, one sum for each key.
    pub fn tallies(&self) -> &KeyMap<Tally> {
        &self.tallies
    }

    /// Roughly the bytes this set takes.
    pub fn byte_size(&self) -> usize {
        self.bytes
    }

    /// Whether a commit of this set would change nothing. Guards alone change nothing.
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
            && self.range_deletes.is_empty()
            && self.tallies.is_empty()
            && self.appended.is_empty()
    }

    fn write(&mut self, key: Bytes, write: Write) {
        let value_bytes = |write: &Write| match write {
            Write::Put(value) => value.len(),
            Write::Delete => 0,
        };
        let key_bytes = key.len();
        self.bytes += value_bytes(&write);
        match self.writes.insert(key, write) {
            Some(replaced) => self.bytes = self.bytes.saturating_sub(value_bytes(&replaced)),
            None => self.bytes += key_bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &'static str) -> Bytes {
        Bytes::from_static(text.as_bytes())
    }

    #[test]
    fn a_range_delete_covers_earlier_writes_and_not_later_ones() {
        let mut set = WriteSet::default();
        set.put(key("b"), key("old"));
        set.delete_range(KeyRange::new(key("a"), key("c")));
        assert_eq!(set.effect(b"b"), Some(&Write::Delete));
        set.put(key("b"), key("new"));
        assert_eq!(set.effect(b"b"), Some(&Write::Put(key("new"))));
        assert_eq!(set.effect(b"a"), Some(&Write::Delete));
        assert_eq!(set.effect(b"c"), None);
    }

    #[test]
    fn tallies_of_one_key_are_summed() {
        let mut set = WriteSet::default();
        set.add(
            key("n"),
            Tally {
                items: 1,
                bytes: 100,
            },
        );
        set.add(
            key("n"),
            Tally {
                items: -1,
                bytes: -40,
            },
        );
        assert_eq!(
            set.tallies().get(&key("n")),
            Some(&Tally {
                items: 0,
                bytes: 60
            })
        );
    }

    #[test]
    fn a_delete_takes_earlier_additions_with_it_and_not_later_ones() {
        let one = Tally { items: 1, bytes: 1 };
        let mut set = WriteSet::default();
        set.add(key("n"), one);
        set.delete(key("n"));
        assert_eq!(set.tallies().get(&key("n")), None);
        set.add(key("n"), one);
        assert_eq!(set.tallies().get(&key("n")), Some(&one));
        set.delete_range(KeyRange::new(key("m"), key("o")));
        assert_eq!(set.tallies().get(&key("n")), None);
    }

    #[test]
    fn a_tally_reads_back_and_rejects_other_lengths() {
        let tally = Tally {
            items: -3,
            bytes: i64::MAX,
        };
        assert_eq!(Tally::decode(&tally.encode()), Some(tally));
        assert_eq!(Tally::decode(&[0; 15]), None);
        assert_eq!(Tally::decode(&[0; 17]), None);
    }

    #[test]
    fn what_is_appended_counts_and_stays_whatever_is_deleted() {
        let mut set = WriteSet::default();
        set.append(key("l1"), key("one"));
        assert_eq!(set.byte_size(), 2 + Stamp::ENCODED_LEN + 3);
        assert!(!set.is_empty());
        set.append(key("l1"), key("two"));
        set.delete_range(KeyRange::all());
        let values: Vec<_> = set.appended().iter().map(|it| it.value.as_ref()).collect();
        assert_eq!(values, [b"one", b"two"]);
        assert_eq!(set.effect(b"l1"), Some(&Write::Delete));
    }

    #[test]
    fn size_follows_replaced_values() {
        let mut set = WriteSet::default();
        set.put(key("k"), key("12345"));
        set.put(key("k"), key("1"));
        assert_eq!(set.byte_size(), 2);
    }
}
