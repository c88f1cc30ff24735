//! Heat: the recent charges by physical partition and by logical key.
//!
//! Every operation adds its charge here, so an addition is a few atomic operations and one short
//! lock; all further arithmetic is done when the heat is read. Seconds are those of the steady
//! clock.
//!
//! Partitions have a counter for each second, keys have not: they are counted in windows. So the
//! keys give their part of all charges, counted in the same windows, and that part of the
//! partitions' present rate is the present rate of a key.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use smallvec::SmallVec;

use super::large_keys::LargestKeys;
use super::top_keys::{Count, TopKeys};
use crate::key::PartitionId;
use crate::partition_map::{Partition, PartitionMap};
use crate::throughput::Charge;

/// Keys are spread over this many locks, each with a sketch of its own.
const SHARDS: usize = 32;
/// Keys are counted in windows of this many seconds, and the window before is kept. The present
/// rate is taken over the same time.
const WINDOW_SECONDS: u64 = super::RATE_SECONDS;
/// The memory of the sketches of a container's keys, and of the seconds of a partition.
const KEYS_BYTES: usize = 36 << 10;
const PARTITION_BYTES: usize = 640;
/// Seconds kept of a partition: a minute, and the one that is not over yet.
const SECONDS: usize = 64;
pub(super) const MINUTE: u64 = 60;

/// A second's charges in one number: when, and how much.
const AMOUNT_BITS: u32 = 40;
const AMOUNT_MASK: u64 = (1 << AMOUNT_BITS) - 1;

/// The heat of one container.
#[derive(Debug, Default)]
pub(crate) struct Heat {
    /// None if insight is off.
    keys: Option<Arc<KeyHeat>>,
    /// By the number of the partition.
    partitions: Vec<(PartitionId, Arc<PartitionHeat>)>,
    /// The largest keys: not heat, but kept as long.
    pub(super) largest: Arc<LargestKeys>,
}

impl Heat {
    /// About how much memory it takes.
    pub(crate) fn footprint(&self) -> usize {
        let keys = self.keys.as_ref();
        let has_keys = keys.is_some_and(|keys| keys.shards.get().is_some());
        usize::from(has_keys) * KEYS_BYTES + self.partitions.len() * PARTITION_BYTES
    }

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

    /// What a new partition takes over from those that had its range.
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

    /// Records a charge of a partition, and a request if it is the request's first.
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

    /// Records a charge of a logical key.
    pub(crate) fn charge_key(&self, token: i64, key: &[u8], charge: Charge, now_ms: u64) {
        if let Some(keys) = &self.keys {
            keys.charge(token, key, charge, now_ms / 1_000);
        }
    }

    /// Records that a request was throttled.
    pub(crate) fn throttled(&self, partition: PartitionId) {
        if let Some(partition) = self.partition(partition) {
            partition.throttled.fetch_add(1, Relaxed);
        }
    }

    /// The approximate size of a partition, if it is known.
    pub(crate) fn bytes(&self, partition: PartitionId) -> Option<i64> {
        self.partition(partition)?.bytes()
    }

    /// Records the size of a partition, unless it is known already. Returns the known size.
    pub(crate) fn begin_bytes(&self, partition: PartitionId, bytes: i64) -> i64 {
        let Some(partition) = self.partition(partition) else {
            return bytes;
        };
        let noted = &partition.bytes;
        let before = noted.compare_exchange(UNKNOWN, bytes, Relaxed, Relaxed);
        before.map_or_else(|known| known, |_| bytes)
    }

    /// Records the size that a partition was found to have.
    pub(crate) fn note_bytes(&self, partition: PartitionId, bytes: i64) {
        if let Some(partition) = self.partition(partition) {
            partition.bytes.store(bytes, Relaxed);
        }
    }

    /// Adds the growth of a write to the size, if that is known.
    pub(crate) fn add_bytes(&self, partition: PartitionId, delta: i64) {
        if let Some(partition) = self.partition(partition)
            && partition.bytes().is_some()
        {
            partition.bytes.fetch_add(delta, Relaxed);
        }
    }

    /// The part of all recent charges of each key, as far as keys are counted.
    pub(super) fn key_shares(&self, second: u64) -> Vec<KeyShare> {
        let Some(keys) = &self.keys else {
            return Vec::new();
        };
        let partitions = self.partitions.iter();
        let all: u64 = partitions
            .map(|(_, partition)| {
                let in_second = |second| partition.in_second(second).milli_units();
                Weighted::of(second, in_second).sum()
            })
            .sum();
        keys.shares(second, all)
    }
}

/// The part of all charges of one key.
#[derive(Clone, Debug)]
pub(super) struct KeyShare {
    pub(super) token: i64,
    pub(super) key: SmallVec<[u8; 32]>,
    pub(super) share: f64,
    /// By how much that may be too high.
    pub(super) error: f64,
}

/// The current window and the one before, which is weighted by the part of the current one that is
/// still to come: so both together count as one window.
struct Weighted {
    current: u64,
    previous: u64,
    /// Seconds of the current window, this one included.
    elapsed: u64,
}

impl Weighted {
    /// Sums over the seconds of both windows.
    fn of(second: u64, in_second: impl Fn(u64) -> u64) -> Self {
        let began = second - second % WINDOW_SECONDS;
        Self {
            current: (began..=second).map(&in_second).sum(),
            previous: (began.saturating_sub(WINDOW_SECONDS)..began)
                .map(&in_second)
                .sum(),
            elapsed: second - began + 1,
        }
    }

    fn sum(&self) -> u64 {
        let left = WINDOW_SECONDS - self.elapsed;
        let before = u128::from(self.previous) * u128::from(left) / u128::from(WINDOW_SECONDS);
        let before = u64::try_from(before).unwrap_or(u64::MAX);
        self.current.saturating_add(before)
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

/// A size that was not looked up yet.
const UNKNOWN: i64 = i64::MIN;

/// The heat of one physical partition.
#[derive(Debug)]
pub(super) struct PartitionHeat {
    /// Its approximate size.
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
    /// Adds the heat of a partition that this one replaces, in proportion.
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
            if before > 0 && is_later(then, stamp(second)) {
                self.earlier.fetch_add(amount, Relaxed);
                return;
            }
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

/// The bits of a second's number that are kept with its amount.
const STAMP_MASK: u64 = u64::MAX >> AMOUNT_BITS;

fn stamp(second: u64) -> u64 {
    second & STAMP_MASK
}

/// The most seconds between the start of a transaction and its last charge.
const LATEST: u64 = 3_600;

/// Whether `one` is a little after `other`; stamps begin anew after half a year.
fn is_later(one: u64, other: u64) -> bool {
    let ahead = one.wrapping_sub(other) & STAMP_MASK;
    (1..=LATEST).contains(&ahead)
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

/// The counts of the current window and of the one before.
#[derive(Debug, Default)]
struct Windows {
    /// The number of the current window.
    window: u64,
    current: TopKeys,
    previous: TopKeys,
}

impl Windows {
    fn roll(&mut self, second: u64) {
        let window = second / WINDOW_SECONDS;
        if window <= self.window {
            return;
        }
        std::mem::swap(&mut self.current, &mut self.previous);
        self.current.clear();
        if window > self.window + 1 {
            self.previous.clear();
        }
        self.window = window;
    }

    /// Each key with its weight over both windows, and by how much that may be too high.
    fn sums(&self, second: u64) -> impl Iterator<Item = (&Count, u64, u64)> {
        let elapsed = second % WINDOW_SECONDS + 1;
        let sum = move |current, previous| {
            let both = Weighted {
                current,
                previous,
                elapsed,
            };
            both.sum()
        };
        let current = self.current.counts().iter().map(move |count| {
            let before = self.previous.find(count);
            let (weight, error) = before.map_or((0, 0), |before| (before.weight, before.error));
            let weight = sum(count.weight, weight);
            (count, weight, sum(count.error, error))
        });
        let previous = self.previous.counts().iter();
        let gone = previous.filter(|count| self.current.find(count).is_none());
        let gone = gone.map(move |count| (count, sum(0, count.weight), sum(0, count.error)));
        current.chain(gone).filter(|(_, weight, _)| *weight > 0)
    }
}

impl KeyHeat {
    fn charge(&self, token: i64, key: &[u8], charge: Charge, second: u64) {
        let shard = usize::try_from(token.unsigned_abs() % SHARDS as u64).unwrap_or(0);
        if let Some(shard) = self.shards.get_or_init(Box::default).get(shard) {
            let mut windows = lock(shard);
            windows.roll(second);
            windows.current.add(token, key, charge.milli_units());
        }
    }

    /// The part that each key has of `all`, the largest first.
    #[expect(clippy::cast_precision_loss, reason = "parts of request units")]
    fn shares(&self, second: u64, all: u64) -> Vec<KeyShare> {
        let mut shares = Vec::new();
        let mut of_keys = 0_u64;
        let shards = self.shards.get().into_iter();
        for shard in shards.flat_map(|shards| shards.iter()) {
            let mut windows = lock(shard);
            windows.roll(second);
            shares.extend(windows.sums(second).map(|(count, weight, error)| {
                of_keys = of_keys.saturating_add(weight);
                KeyShare {
                    token: count.token,
                    key: count.key.clone(),
                    share: weight as f64,
                    error: error as f64,
                }
            }));
        }
        // The parts of keys never exceed the whole, even where the heat of old partitions was not
        // handed on.
        let all = all.max(of_keys).max(1) as f64;
        for key in &mut shares {
            key.share /= all;
            key.error /= all;
        }
        shares.sort_unstable_by(|one, other| other.share.total_cmp(&one.share));
        shares
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
        assert_eq!(heat.key_shares(5).len(), 1);
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

    fn shares(heat: &Heat, second: u64) -> Vec<(String, f64)> {
        let shares = heat.key_shares(second).into_iter();
        let text = |key: &[u8]| String::from_utf8_lossy(key).into_owned();
        shares.map(|it| (text(&it.key), it.share)).collect()
    }

    #[test]
    fn hot_keys_cool_down() {
        let heat = Heat::new(&map(&[0]));
        for (token, key, second) in [(7, b"old", 12_000), (8, b"new", 25_000)] {
            heat.charge(0, units(9), true, second);
            heat.charge_key(token, key, units(9), second);
        }
        let names = |second| -> Vec<String> {
            let shares = shares(&heat, second).into_iter();
            shares.map(|(key, _)| key).collect()
        };
        assert_eq!(names(25), ["new", "old"]);
        assert_eq!(names(29), ["new"]);
        assert_eq!(names(38), ["new"]);
        assert_eq!(names(40), Vec::<String>::new());
        assert_eq!(names(400), Vec::<String>::new());
    }

    #[test]
    fn shares_of_keys_are_of_all_charges_wherever_a_window_stands() {
        let heat = Heat::new(&map(&[0, 1]));
        // Two keys, and queries that are of no key: 5 + 3 + 2 in each second. Idle in between.
        for second in (1_000..1_030).chain(1_045..1_060) {
            let ms = second * 1_000;
            for (partition, key, charge) in [(0, "five", 5), (1, "three", 3)] {
                heat.charge(partition, units(charge), true, ms);
                heat.charge_key(i64::from(partition), key.as_bytes(), units(charge), ms);
            }
            heat.charge(1, units(2), true, ms);
            let shown = shares(&heat, second);
            let expected = [("five", 0.5), ("three", 0.3)];
            assert_eq!(shown.len(), expected.len());
            for ((shown, share), (key, expected)) in shown.into_iter().zip(expected) {
                assert_eq!(shown, key, "{second}");
                assert!((share - expected).abs() < 0.001, "{second} {key}: {share}");
            }
        }
    }

    #[test]
    fn what_comes_late_takes_no_later_second_away() {
        let heat = Heat::new(&map(&[0]));
        let partition = heat.partition(0).unwrap();
        // One transaction records its charge for the second in which it began, 70 seconds ago.
        heat.charge(0, units(4), true, 174_000);
        heat.charge(0, units(3), true, 110_000);
        assert_eq!(partition.in_second(174), units(4));
        assert_eq!(partition.total(), units(7));
        for (one, other, expected) in [
            (5, 4, true),
            (4, 5, false),
            (4, 4, false),
            (2, STAMP_MASK, true),
            (STAMP_MASK, 2, false),
            (LATEST, 0, true),
            (LATEST + 1, 0, false),
        ] {
            assert_eq!(is_later(one, other), expected, "{one} {other}");
        }
    }

    /// Stamps begin anew every half year: wherever the clock stands, and however long nothing came.
    #[test]
    fn charges_are_counted_whenever_they_come() {
        let half_year = STAMP_MASK + 1;
        for part in 0..64 {
            let heat = Heat::new(&map(&[0]));
            let partition = heat.partition(0).unwrap();
            let first = 106 * half_year + part * half_year / 64 + 1;
            for (count, idle) in (1..).zip([0, 1, 59, 3_600, half_year / 2, half_year * 3 / 4]) {
                let second = first + idle;
                heat.charge(0, units(5), true, second * 1_000);
                assert_eq!(partition.in_second(second), units(5), "{part} {idle}");
                assert_eq!(partition.total(), units(5 * count), "{part} {idle}");
            }
        }
    }
}
