//! A write set sorted into the statements that carry it out.

use bytes::Bytes;
use tessera_core::engine::KeyRange;
use tessera_core::key;
use tessera_core::write_set::{Appended, Write, WriteSet};

use super::guard;
use super::snapshot::Seen;
use super::stored_key::{Slot, StoredKey, beyond_all, bound};

/// One statement carries at most this many bytes of values, or one value.
const MAX_STATEMENT_BYTES: usize = 4 << 20;

/// What a commit does, in the form of parameters.
#[derive(Default)]
pub(super) struct Plan<'a> {
    /// The buckets of widely guarded keys: a row of each is locked, which fails if they changed.
    pub(super) guarded: Vec<i32>,
    /// The buckets that are changed, because a widely guarded key is, or a contended one.
    pub(super) turned: Vec<i32>,
    /// Guarded keys that may be there: they are locked, which fails if they changed.
    pub(super) shared: Columns<'a>,
    /// Guarded keys that may be absent: each is inserted, which fails if somebody else did, and
    /// removed again.
    pub(super) claimed: Columns<'a>,
    pub(super) ranges: Vec<Bounds<'a>>,
    /// Values of keys that were absent.
    pub(super) inserts: Vec<Columns<'a>>,
    /// Values of keys that may be there.
    pub(super) puts: Vec<Columns<'a>>,
    pub(super) deletes: Columns<'a>,
    /// Whether all deleted keys are known to have been there.
    pub(super) deletes_are_sure: bool,
    pub(super) tallies: Tallies<'a>,
    pub(super) appends: Vec<Appends<'a>>,
    /// Deleted keys that may be those of appended entries.
    pub(super) log_deletes: Vec<&'a [u8]>,
    /// Deleted ranges that may hold appended entries.
    pub(super) log_ranges: Vec<(&'a [u8], Vec<u8>)>,
}

/// Appended entries as columns.
#[derive(Default)]
pub(super) struct Appends<'a> {
    pub(super) prefixes: Vec<&'a [u8]>,
    pub(super) values: Vec<&'a [u8]>,
    /// The number of the first one within its commit.
    pub(super) first: i64,
    bytes: usize,
}

/// Keys and values as columns.
#[derive(Default)]
pub(super) struct Columns<'a> {
    pub(super) heads: Vec<&'a [u8]>,
    pub(super) marks: Vec<Vec<u8>>,
    pub(super) tails: Vec<Option<&'a [u8]>>,
    pub(super) values: Vec<&'a [u8]>,
    bytes: usize,
}

impl<'a> Columns<'a> {
    pub(super) fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }

    fn push(&mut self, key: &'a Bytes, value: &'a [u8]) {
        let stored = StoredKey::new(key);
        self.heads.push(stored.head);
        self.marks.push(stored.mark);
        self.tails.push(stored.tail);
        self.values.push(value);
        self.bytes += key.len() + value.len();
    }
}

/// A range as heads and tails of its bounds.
pub(super) struct Bounds<'a> {
    pub(super) start: (&'a [u8], &'a [u8]),
    end: Option<(&'a [u8], &'a [u8])>,
    beyond_all: Vec<u8>,
}

impl<'a> Bounds<'a> {
    pub(super) fn new(range: &'a KeyRange) -> Self {
        Self {
            start: bound(&range.start),
            end: range.end.as_deref().map(bound),
            beyond_all: beyond_all(),
        }
    }

    pub(super) fn end(&self) -> (&[u8], &[u8]) {
        self.end.unwrap_or((&self.beyond_all, &[]))
    }
}

/// Additions as columns.
#[derive(Default)]
pub(super) struct Tallies<'a> {
    pub(super) heads: Vec<&'a [u8]>,
    pub(super) marks: Vec<Vec<u8>>,
    pub(super) tails: Vec<Option<&'a [u8]>>,
    pub(super) items: Vec<i64>,
    pub(super) bytes: Vec<i64>,
}

impl<'a> Plan<'a> {
    /// What `writes` come to on the connection of `slot`, after these keys were seen.
    pub(super) fn new(writes: &'a WriteSet, seen: &Seen, slot: Slot) -> Self {
        let mut plan = Self {
            deletes_are_sure: true,
            ranges: writes.range_deletes().iter().map(Bounds::new).collect(),
            ..Self::default()
        };
        for key in writes.guards().keys() {
            let is_present = seen.is_present(key);
            match writes.writes().get(key) {
                None => plan.guard(key, is_present),
                // A delete of what is not there leaves nothing that would refuse another.
                Some(Write::Delete) if is_present != Some(true) => {
                    plan.turned.push(guard::contention(key));
                }
                // Another written key is checked by being written.
                Some(Write::Delete | Write::Put(_)) => {}
            }
        }
        for range in writes.range_deletes() {
            plan.turned.extend(guard::buckets(range));
        }
        for (key, write) in writes.writes() {
            plan.turned.extend(guard::bucket(key));
            let is_present = seen.is_present(key);
            match write {
                Write::Put(value) if is_present == Some(false) => {
                    append(&mut plan.inserts, key, value);
                }
                Write::Put(value) => append(&mut plan.puts, key, value),
                Write::Delete => {
                    plan.deletes_are_sure &= is_present == Some(true);
                    plan.deletes.push(key, &[]);
                }
            }
        }
        for (key, delta) in writes.tallies() {
            let stored = StoredKey::new(key).into_tally(slot);
            plan.tallies.heads.push(stored.head);
            plan.tallies.marks.push(stored.mark);
            plan.tallies.tails.push(stored.tail);
            plan.tallies.items.push(delta.items);
            plan.tallies.bytes.push(delta.bytes);
        }
        plan.note_log(writes);
        plan
    }

    fn note_log(&mut self, writes: &'a WriteSet) {
        for (number, appended) in (0..).zip(writes.appended()) {
            self.append(number, appended);
        }
        let deleted = self.deletes.heads.iter().copied();
        self.log_deletes = deleted.filter(|key| key::is_log(key)).collect();
        let log = key::log();
        let (start, end) = (log.start, log.end.unwrap_or_default());
        for range in writes.range_deletes() {
            let until = range.end.as_ref().map_or(&end, |it| it.min(&end));
            if *until > start && range.start < end {
                self.log_ranges.push((&range.start, until.to_vec()));
            }
        }
    }

    fn append(&mut self, number: i64, appended: &'a Appended) {
        let bytes = appended.prefix.len() + appended.value.len();
        let has_room = |last: &&mut Appends<'_>| last.bytes + bytes <= MAX_STATEMENT_BYTES;
        if self.appends.last_mut().filter(has_room).is_none() {
            let first = number;
            self.appends.push(Appends {
                first,
                ..Appends::default()
            });
        }
        if let Some(last) = self.appends.last_mut() {
            last.prefixes.push(&appended.prefix);
            last.values.push(&appended.value);
            last.bytes += bytes;
        }
    }

    fn guard(&mut self, key: &'a Bytes, is_present: Option<bool>) {
        if let Some(bucket) = guard::bucket(key) {
            return self.guarded.push(bucket);
        }
        if is_present != Some(false) {
            self.shared.push(key, &[]);
        }
        if is_present != Some(true) {
            self.claimed.push(key, &[]);
        }
    }
}

fn append<'a>(statements: &mut Vec<Columns<'a>>, key: &'a Bytes, value: &'a [u8]) {
    match statements.last_mut() {
        Some(last) if last.bytes + value.len() <= MAX_STATEMENT_BYTES => last.push(key, value),
        _ => {
            let mut columns = Columns::default();
            columns.push(key, value);
            statements.push(columns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_spread_over_statements_of_bounded_size() {
        let mut writes = WriteSet::default();
        for number in 0..10_u8 {
            writes.put(vec![number].into(), vec![0; 1 << 20].into());
        }
        let seen = Seen::default();
        let plan = Plan::new(&writes, &seen, Slot(0));
        let sizes: Vec<usize> = plan.puts.iter().map(|put| put.heads.len()).collect();
        assert_eq!(sizes, [3, 3, 3, 1]);
        assert!(plan.inserts.is_empty());
    }

    #[test]
    fn a_guard_on_a_written_key_needs_no_statement() {
        let mut writes = WriteSet::default();
        writes.put(Bytes::from_static(b"a"), Bytes::new());
        writes.guard(Bytes::from_static(b"a"));
        writes.guard(Bytes::from_static(b"b"));
        let seen = Seen::default();
        let plan = Plan::new(&writes, &seen, Slot(0));
        assert_eq!(plan.shared.heads, [b"b"]);
        assert_eq!(plan.claimed.heads, [b"b"]);
        assert_eq!(plan.turned, Vec::<i32>::new());
    }

    #[test]
    fn a_guarded_delete_of_what_may_be_absent_leaves_a_trace() {
        let key = Bytes::from_static(b"a");
        let mut writes = WriteSet::default();
        writes.guard(key.clone());
        writes.delete(key.clone());
        let plan = Plan::new(&writes, &Seen::default(), Slot(0));
        assert_eq!(plan.turned, [guard::contention(&key)]);
        assert!(plan.claimed.is_empty() && plan.shared.is_empty());
    }

    #[test]
    fn a_widely_guarded_key_is_its_bucket() {
        let key = key::definition_version(9);
        let bucket = guard::bucket(&key).unwrap();
        let mut guarding = WriteSet::default();
        guarding.guard(key.clone());
        let plan = Plan::new(&guarding, &Seen::default(), Slot(0));
        assert_eq!((plan.guarded, plan.turned), (vec![bucket], vec![]));
        assert!(plan.claimed.is_empty() && plan.shared.is_empty());
        guarding.put(key, Bytes::new());
        let plan = Plan::new(&guarding, &Seen::default(), Slot(0));
        assert_eq!((plan.guarded, plan.turned), (vec![], vec![bucket]));
    }
}
