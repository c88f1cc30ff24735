//! Heat: what requests cost lately, by physical partition and by logical key.
//!
//! Every operation notes its charge here, so this is kept to a few atomic additions and one short
//! lock; all arithmetic waits until somebody asks.

use std::cmp::Reverse;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use super::large_keys::LargestKeys;
use super::top_keys::{Count, TopKeys};
use crate::key::PartitionId;
use crate::partition_map::{Partition, PartitionMap};
use crate::throughput::Charge;

/// Keys are spread over so many locks, each with a sketch of its own.
const SHARDS: usize = 32;
/// Keys are counted for so many seconds, then anew; the counts before are kept as long.
const WINDOW_SECONDS: u64 = 30;
/// Seconds kept of a partition: a minute, and the one that is not over yet.
const SECONDS: usize = 64;
pub(super) const MINUTE: u64 = 60;

/// A second's charges in one number: when, and how much.
const AMOUNT_BITS: u32 = 40;
const AMOUNT_MASK: u64 = (1 << AMOUNT_BITS) - 1;

/// The heat of one container.
#[derive(Debug, Default)]
pub(crate) struct Heat {
    /// None if nobody wants to know.
    keys: Option<Arc<KeyHeat>>,
    /// By the number of the partition.
    partitions: Vec<(PartitionId, Arc<PartitionHeat>)>,
    /// Not heat, but of the same life: what was found to be largest.
    pub(super) largest: Arc<LargestKeys>,
}

impl Heat {
    pub(crate) fn new(partitions: &PartitionMap) -> Self {
        let cold = |partition: &Partition| (partition.id, Arc::default());
        Self::of(Some(Arc::default()), partitions.iter().map(cold))
    }

    /// The heat of the same container after its partitions have changed: those that are still
    /// there keep theirs, and heirs have that of their parents, by the part of the ring that is
    /// theirs now.
    pub(crate) fn follow(&self, before: &PartitionMap, now: &PartitionMap) -> Self {
        if self.keys.is_none() {
            return Self::default();
        }
        let partitions = now
            .iter()
            .map(|partition| match self.partition(partition.id) {
                Some(kept) => (partition.id, Arc::clone(kept)),
                None => (partition.id, Arc::new(self.inherited(before, partition))),
            });
        Self {
            largest: Arc::clone(&self.largest),
            ..Self::of(self.keys.clone(), partitions)
        }
    }

    fn of(
        keys: Option<Arc<KeyHeat>>,
        partitions: impl Iterator<Item = (PartitionId, Arc<PartitionHeat>)>,
    ) -> Self {
        let mut partitions: Vec<_> = partitions.collect();
        partitions.sort_unstable_by_key(|(id, _)| *id);
        Self {
            keys,
            partitions,
            largest: Arc::default(),
        }
    }

    /// What a new partition takes over from those that were where it is.
    fn inherited(&self, before: &PartitionMap, heir: &Partition) -> PartitionHeat {
        let heat = PartitionHeat::default();
        for parent in before.overlapping(heir.first, heir.last) {
            if let Some(parents) = self.partition(parent.id) {
                heat.take_over(parents, Part::of(parent, heir));
            }
        }
        heat
    }

    pub(super) fn partition(&self, id: PartitionId) -> Option<&Arc<PartitionHeat>> {
        let found = self.partitions.binary_search_by_key(&id, |(id, _)| *id);
        let (_, partition) = self.partitions.get(found.ok()?)?;
        Some(partition)
    }

    /// Notes a charge of a partition, and that a request came to it if it is the request's first.
    pub(crate) fn charge(
        &self,
        partition: PartitionId,
        charge: Charge,
        is_first: bool,
        now_ms: u64,
    ) {
        if let Some(partition) = self.partition(partition) {
            partition.requests.fetch_add(u64::from(is_first), Relaxed);
            partition.add(charge.milli_units(), now_ms / 1_000);
        }
    }

    /// Notes a charge of a logical key.
    pub(crate) fn charge_key(&self, token: i64, key: &[u8], charge: Charge, now_ms: u64) {
        if let Some(keys) = &self.keys {
            keys.charge(token, key, charge, now_ms / 1_000);
        }
    }

    /// Notes that a request was refused for want of throughput.
    pub(crate) fn throttled(&self, partition: PartitionId) {
        if let Some(partition) = self.partition(partition) {
            partition.throttled.fetch_add(1, Relaxed);
        }
    }

    /// About how much a partition holds, if that is known.
    pub(crate) fn bytes(&self, partition: PartitionId) -> Option<i64> {
        self.partition(partition)?.bytes()
    }

    /// Notes what a partition holds, unless that is known already. Answers what is known.
    pub(crate) fn begin_bytes(&self, partition: PartitionId, bytes: i64) -> i64 {
        let Some(partition) = self.partition(partition) else {
            return bytes;
        };
        let noted = &partition.bytes;
        let before = noted.compare_exchange(UNKNOWN, bytes, Relaxed, Relaxed);
        before.map_or_else(|known| known, |_| bytes)
    }

    /// Notes what a partition was found to hold.
    pub(crate) fn note_bytes(&self, partition: PartitionId, bytes: i64) {
        if let Some(partition) = self.partition(partition) {
            partition.bytes.store(bytes, Relaxed);
        }
    }

    /// Notes what a write adds, if it is known what was there.
    pub(crate) fn add_bytes(&self, partition: PartitionId, delta: i64) {
        if let Some(partition) = self.partition(partition)
            && partition.bytes().is_some()
        {
            partition.bytes.fetch_add(delta, Relaxed);
        }
    }

    /// The counts of keys in the last seconds, and how many seconds those are.
    pub(super) fn key_counts(&self, second: u64) -> (Vec<Count>, u64) {
        match &self.keys {
            Some(keys) => keys.counts(second),
            None => (Vec::new(), 1),
        }
    }
}

/// A part of a partition's tokens.
#[derive(Clone, Copy)]
struct Part {
    of: u128,
    tokens: u128,
}

impl Part {
    /// The part of `parent` that `heir` has.
    fn of(parent: &Partition, heir: &Partition) -> Self {
        let tokens = |first: i64, last: i64| u128::from(last.abs_diff(first)) + 1;
        Self {
            of: tokens(parent.first, parent.last),
            tokens: tokens(parent.first.max(heir.first), parent.last.min(heir.last)),
        }
    }

    fn apply(self, amount: u64) -> u64 {
        let part = u128::from(amount) * self.tokens / self.of;
        u64::try_from(part).unwrap_or(u64::MAX)
    }
}

/// What nobody has looked up yet.
const UNKNOWN: i64 = i64::MIN;

/// The heat of one physical partition.
#[derive(Debug)]
pub(super) struct PartitionHeat {
    /// About what it holds.
    bytes: AtomicI64,
    /// Charges by second, made when the first one comes: most containers are idle.
    seconds: OnceLock<Box<[AtomicU64; SECONDS]>>,
    /// Charges of the seconds before.
    earlier: AtomicU64,
    requests: AtomicU64,
    throttled: AtomicU64,
}

impl Default for PartitionHeat {
    fn default() -> Self {
        Self {
            bytes: AtomicI64::new(UNKNOWN),
            seconds: OnceLock::new(),
            earlier: AtomicU64::new(0),
            requests: AtomicU64::new(0),
            throttled: AtomicU64::new(0),
        }
    }
}

impl PartitionHeat {
    /// Adds the heat of a partition that this one takes the place of, as far as it does.
    fn take_over(&self, parent: &Self, part: Part) {
        for slot in parent
            .seconds
            .get()
            .into_iter()
            .flat_map(|seconds| seconds.iter())
        {
            let (second, amount) = unpack(slot.load(Relaxed));
            if amount > 0 {
                self.add(part.apply(amount), second);
            }
        }
        for (own, parents) in [
            (&self.earlier, &parent.earlier),
            (&self.requests, &parent.requests),
            (&self.throttled, &parent.throttled),
        ] {
            own.fetch_add(part.apply(parents.load(Relaxed)), Relaxed);
        }
    }

    fn bytes(&self) -> Option<i64> {
        let bytes = self.bytes.load(Relaxed);
        (bytes != UNKNOWN).then_some(bytes)
    }

    fn add(&self, amount: u64, second: u64) {
        let seconds = self
            .seconds
            .get_or_init(|| Box::new([const { AtomicU64::new(0) }; SECONDS]));
        let Some(slot) = seconds.get(slot_of(second)) else {
            return;
        };
        let mut seen = slot.load(Relaxed);
        loop {
            let (then, before) = unpack(seen);
            let (next, over) = match then == stamp(second) {
                true => (before.saturating_add(amount), 0),
                false => (amount, before),
            };
            match slot.compare_exchange_weak(seen, pack(second, next), Relaxed, Relaxed) {
                Ok(_) if over == 0 => return,
                Ok(_) => {
                    self.earlier.fetch_add(over, Relaxed);
                    return;
                }
                Err(now) => seen = now,
            }
        }
    }

    /// The charges of each of the `count` seconds before `second`, the latest first.
    pub(super) fn seconds_before(&self, second: u64, count: u64) -> impl Iterator<Item = Charge> {
        (1..=count.min(second)).map(move |back| self.in_second(second - back))
    }

    fn in_second(&self, second: u64) -> Charge {
        let slot = self
            .seconds
            .get()
            .and_then(|seconds| seconds.get(slot_of(second)));
        let amount = match slot.map(|slot| unpack(slot.load(Relaxed))) {
            Some((then, amount)) if then == stamp(second) => amount,
            _ => 0,
        };
        Charge::from_milli_units(amount)
    }

    /// All charges there were.
    pub(super) fn total(&self) -> Charge {
        let kept = self
            .seconds
            .get()
            .into_iter()
            .flat_map(|seconds| seconds.iter());
        let kept: u64 = kept.map(|slot| unpack(slot.load(Relaxed)).1).sum();
        Charge::from_milli_units(self.earlier.load(Relaxed).saturating_add(kept))
    }

    pub(super) fn requests(&self) -> u64 {
        self.requests.load(Relaxed)
    }

    pub(super) fn refused(&self) -> u64 {
        self.throttled.load(Relaxed)
    }
}

fn slot_of(second: u64) -> usize {
    usize::try_from(second % SECONDS as u64).unwrap_or(0)
}

/// As much of a second's number as is kept with its amount.
fn stamp(second: u64) -> u64 {
    second & (u64::MAX >> AMOUNT_BITS)
}

fn pack(second: u64, amount: u64) -> u64 {
    stamp(second) << AMOUNT_BITS | amount.min(AMOUNT_MASK)
}

fn unpack(packed: u64) -> (u64, u64) {
    (packed >> AMOUNT_BITS, packed & AMOUNT_MASK)
}

/// The heat of logical keys.
#[derive(Debug, Default)]
pub(super) struct KeyHeat {
    /// Made when the first key comes: most containers are idle.
    shards: OnceLock<Box<[Mutex<Windows>; SHARDS]>>,
}

/// What was counted in the window that runs, and in the one before.
#[derive(Debug, Default)]
struct Windows {
    /// The number of the window that runs.
    window: u64,
    current: Window,
    previous: Window,
}

#[derive(Debug, Default)]
struct Window {
    /// The second of its first charge.
    began: u64,
    keys: TopKeys,
}

impl Windows {
    fn roll(&mut self, second: u64) {
        let window = second / WINDOW_SECONDS;
        if window <= self.window {
            return;
        }
        std::mem::swap(&mut self.current, &mut self.previous);
        self.current.keys.clear();
        if window > self.window + 1 {
            self.previous.keys.clear();
        }
        self.window = window;
    }
}

impl KeyHeat {
    fn charge(&self, token: i64, key: &[u8], charge: Charge, second: u64) {
        let shard = usize::try_from(token.unsigned_abs() % SHARDS as u64).unwrap_or(0);
        if let Some(shard) = self.shards.get_or_init(Box::default).get(shard) {
            let mut windows = lock(shard);
            windows.roll(second);
            let current = &mut windows.current;
            if current.keys.counts().is_empty() {
                current.began = second;
            }
            current.keys.add(token, key, charge.milli_units());
        }
    }

    /// The counts of the last seconds, and how many seconds those are.
    fn counts(&self, second: u64) -> (Vec<Count>, u64) {
        let mut sums = Vec::new();
        let mut began = second;
        for shard in self
            .shards
            .get()
            .into_iter()
            .flat_map(|shards| shards.iter())
        {
            let mut windows = lock(shard);
            windows.roll(second);
            for window in [&windows.current, &windows.previous] {
                if !window.keys.counts().is_empty() {
                    began = began.min(window.began);
                }
            }
            let mut both: Vec<Count> = windows.current.keys.counts().to_vec();
            for count in windows.previous.keys.counts() {
                let same =
                    |other: &&mut Count| other.token == count.token && other.key == count.key;
                match both.iter_mut().find(same) {
                    Some(sum) => {
                        sum.weight += count.weight;
                        sum.error += count.error;
                    }
                    None => both.push(count.clone()),
                }
            }
            sums.append(&mut both);
        }
        sums.sort_unstable_by_key(|count| Reverse(count.weight));
        (sums, second - began + 1)
    }
}

fn lock(shard: &Mutex<Windows>) -> MutexGuard<'_, Windows> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn units(units: u64) -> Charge {
        Charge::from_milli_units(units * 1_000)
    }

    #[test]
    fn charges_are_kept_by_second_and_never_lost() {
        let heat = Heat::new(&map(&[4, 9]));
        for (ms, charge) in [(10_000, 1), (10_999, 2), (11_000, 5), (80_000, 7)] {
            heat.charge(9, units(charge), true, ms);
        }
        heat.charge(5, units(100), true, 10_000);
        let partition = heat.partition(9).unwrap();
        let seconds: Vec<Charge> = partition.seconds_before(12, 3).collect();
        assert_eq!(seconds, [units(5), units(3), units(0)]);
        assert_eq!(partition.total(), units(15));
        assert_eq!(partition.requests(), 4);
        // The second 10 shares its place with 74, and gives way to it.
        heat.charge(9, units(1), false, 74_000);
        assert_eq!(partition.in_second(10), units(0));
        assert_eq!(partition.total(), units(16));
        assert_eq!(partition.requests(), 4);
        assert_eq!(heat.partition(4).unwrap().total(), units(0));
    }

    #[test]
    fn partitions_that_stay_keep_their_heat() {
        let before = map(&[0, 1]);
        let heat = Heat::new(&before);
        heat.charge(1, units(3), true, 5_000);
        heat.throttled(1);
        heat.charge_key(7, b"k", units(3), 5_000);
        heat.note_bytes(1, 70);
        let heat = heat.follow(&before, &map(&[2, 1]));
        assert!(heat.partition(0).is_none());
        assert_eq!(heat.partition(1).unwrap().total(), units(3));
        assert_eq!(heat.partition(1).unwrap().refused(), 1);
        assert_eq!(heat.partition(2).unwrap().requests(), 0);
        assert_eq!(heat.key_counts(5).0.len(), 1);
        heat.add_bytes(1, 5);
        assert_eq!((heat.bytes(1), heat.bytes(2)), (Some(75), None));
    }

    #[test]
    fn heirs_have_the_heat_of_their_parents() {
        let before = map(&[0]);
        let heat = Heat::new(&before);
        heat.charge(0, units(8), true, 70_000);
        heat.charge(0, units(2), true, 80_000);
        heat.throttled(0);
        heat.throttled(0);
        let halves = map(&[1, 2]);
        let split = heat.follow(&before, &halves);
        for id in [1, 2] {
            let heir = split.partition(id).unwrap();
            assert_eq!(heir.total(), units(5), "{id}");
            assert_eq!(heir.in_second(80), units(1), "{id}");
            assert_eq!((heir.requests(), heir.refused()), (1, 1), "{id}");
        }
        let merged = split.follow(&halves, &map(&[3]));
        let heir = merged.partition(3).unwrap();
        assert_eq!((heir.total(), heir.in_second(70)), (units(10), units(8)));
    }

    /// Equally wide partitions with these numbers.
    fn map(ids: &[PartitionId]) -> PartitionMap {
        let equal = PartitionMap::equal(u32::try_from(ids.len()).unwrap());
        let records = equal.records().zip(ids).map(|((first, mut record), id)| {
            record.id = *id;
            (first, record)
        });
        PartitionMap::from_records(records.collect()).unwrap()
    }

    #[test]
    fn hot_keys_cool_down() {
        let heat = Heat::new(&map(&[0]));
        heat.charge_key(7, b"old", units(9), 20_000);
        heat.charge_key(8, b"new", units(5), 40_000);
        let names = |second| -> Vec<Vec<u8>> {
            let (counts, _) = heat.key_counts(second);
            counts.iter().map(|count| count.key.to_vec()).collect()
        };
        assert_eq!(names(59), [b"old".to_vec(), b"new".to_vec()]);
        assert_eq!(names(60), [b"new".to_vec()]);
        assert_eq!(names(120), Vec::<Vec<u8>>::new());
    }

    #[test]
    fn rates_of_keys_are_over_the_time_since_they_came() {
        let heat = Heat::new(&map(&[0]));
        heat.charge_key(7, b"k", units(9), 65_000);
        assert_eq!(heat.key_counts(65).1, 1);
        assert_eq!(heat.key_counts(74).1, 10);
        heat.charge_key(7, b"k", units(9), 91_000);
        assert_eq!(heat.key_counts(92).1, 28);
        // The window in which the first charge came is over and forgotten.
        assert_eq!(heat.key_counts(122).1, 32);
    }
}
