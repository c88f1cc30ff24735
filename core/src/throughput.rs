//! Request units: what an operation costs.
//!
//! The cost of an operation is computed from what the core counted while doing it, so the same
//! operation on the same data always costs the same. The published points of the service are met: a
//! point read of 1 KB is 1 request unit and of 100 KB is 10, an insert of 1 KB without indexes is
//! 5.5, a replace is twice an insert. Between those points the formulas are Tessera's own.
//!
//! Charges are kept for each physical partition ([`Meter`]), because each has its own budget:
//! `crate::budget` throttles requests when it is used up.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign};

use smallvec::SmallVec;

use crate::key::{PartitionId, StorageId};

/// The most request units per second that one physical partition provides.
pub const PARTITION_MAX_RUS: u32 = 10_000;

/// How many physical partitions this throughput needs.
pub fn partitions_for(provisioned: Option<u32>) -> u32 {
    provisioned.unwrap_or(0).div_ceil(PARTITION_MAX_RUS).max(1)
}

/// Request units, in thousandths: sums are exact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Charge {
    milli_units: u64,
}

impl Charge {
    /// This many thousandths of a request unit.
    pub const fn from_milli_units(milli_units: u64) -> Self {
        Self { milli_units }
    }

    /// Thousandths of a request unit.
    pub const fn milli_units(self) -> u64 {
        self.milli_units
    }

    /// Request units, as the protocols report them.
    #[expect(clippy::cast_precision_loss, reason = "exact below 2^53 thousandths")]
    pub fn request_units(self) -> f64 {
        self.milli_units as f64 / 1_000.0
    }

    fn times(self, count: usize) -> Self {
        Self::from_milli_units(self.milli_units.saturating_mul(count as u64))
    }
}

impl Add for Charge {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self::from_milli_units(self.milli_units.saturating_add(other.milli_units))
    }
}

impl AddAssign for Charge {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sum for Charge {
    fn sum<I: Iterator<Item = Self>>(charges: I) -> Self {
        charges.fold(Self::default(), Self::add)
    }
}

impl fmt::Display for Charge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3} RU", self.request_units())
    }
}

/// The prices.
pub mod price {
    use super::Charge;

    /// Each partition that a query reads.
    pub const QUERIED_PARTITION: Charge = Charge::from_milli_units(2_300);
    /// Each item or index entry that a query examines.
    pub const EXAMINED_ENTRY: Charge = Charge::from_milli_units(20);
    /// Each index entry added or removed.
    pub const INDEX_ENTRY_WRITTEN: Charge = Charge::from_milli_units(250);
    /// Each claim of a unique value taken or released.
    pub const UNIQUE_CLAIM_WRITTEN: Charge = Charge::from_milli_units(100);

    const KIB: u64 = 1_024;
    const POINT_READ_MILLI: u64 = 1_000;
    const INSERT_MILLI: u64 = 5_500;
    const EXAMINED_KIB_MILLI: u64 = 15;
    /// Bytes beyond the first KiB of a point read that cost one more request unit.
    const POINT_READ_STEP: u64 = 11 * KIB;

    /// A point read of an item of `bytes`.
    pub fn point_read(bytes: usize) -> Charge {
        Charge::from_milli_units(scaled(POINT_READ_MILLI, bytes))
    }

    /// Storing an item of `bytes` where there was none, or removing one.
    pub fn insert(bytes: usize) -> Charge {
        Charge::from_milli_units(scaled(INSERT_MILLI, bytes))
    }

    /// Replacing an item: the larger of both, twice.
    pub fn replace(old_bytes: usize, new_bytes: usize) -> Charge {
        insert(old_bytes.max(new_bytes)).times(2)
    }

    /// The bytes that a query examines.
    pub fn examined_bytes(bytes: usize) -> Charge {
        Charge::from_milli_units((bytes as u64).saturating_mul(EXAMINED_KIB_MILLI) / KIB)
    }

    fn scaled(milli_units: u64, bytes: usize) -> u64 {
        let beyond = (bytes as u64).saturating_sub(KIB);
        milli_units.saturating_add(milli_units.saturating_mul(beyond) / POINT_READ_STEP)
    }
}

/// The work in one physical partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Items and index entries examined.
    pub examined: usize,
    /// Bytes of those.
    pub examined_bytes: usize,
    /// Items stored or removed.
    pub written: usize,
    /// Index entries and unique claims added or removed.
    pub index_entries_written: usize,
    /// Its cost.
    pub charge: Charge,
}

/// Counts the work of one transaction, by physical partition. Each method returns the charge it
/// adds.
#[derive(Clone, Debug, Default)]
pub struct Meter {
    /// Most transactions stay in one partition, and then nothing is allocated.
    work: SmallVec<[(StorageId, PartitionId, Work); 1]>,
    /// A storage of a front end's own records, whose work is not charged.
    exempt: Option<StorageId>,
    /// Whether the last count was the first in its partition.
    is_first: bool,
}

impl Meter {
    /// One item asked for by its locator; `bytes` is 0 if it was not there, which costs as a small
    /// read.
    pub(crate) fn point_read(&mut self, place: (StorageId, PartitionId), bytes: usize) -> Charge {
        let work = self.of(place);
        work.examined += 1;
        work.examined_bytes += bytes;
        let charge = price::point_read(bytes);
        work.charge += charge;
        charge
    }

    /// A query that reads this partition.
    pub(crate) fn queried(&mut self, place: (StorageId, PartitionId)) -> Charge {
        self.of(place).charge += price::QUERIED_PARTITION;
        price::QUERIED_PARTITION
    }

    /// One entry that a query examined.
    pub(crate) fn examined(&mut self, place: (StorageId, PartitionId), bytes: usize) -> Charge {
        let work = self.of(place);
        work.examined += 1;
        work.examined_bytes += bytes;
        let charge = price::EXAMINED_ENTRY + price::examined_bytes(bytes);
        work.charge += charge;
        charge
    }

    /// One item stored, replaced or removed.
    pub(crate) fn written(&mut self, place: (StorageId, PartitionId), charge: Charge) {
        let work = self.of(place);
        work.written += 1;
        work.charge += charge;
    }

    /// Index entries and claims that went with an item.
    pub(crate) fn indexed(
        &mut self,
        place: (StorageId, PartitionId),
        entries: usize,
        claims: usize,
    ) -> Charge {
        let work = self.of(place);
        work.index_entries_written += entries + claims;
        let charge =
            price::INDEX_ENTRY_WRITTEN.times(entries) + price::UNIQUE_CLAIM_WRITTEN.times(claims);
        work.charge += charge;
        charge
    }

    /// Adds the work of another transaction of the same request.
    pub(crate) fn absorb(&mut self, other: &Self) {
        for (storage, partition, work) in &other.work {
            let own = self.of((*storage, *partition));
            own.examined += work.examined;
            own.examined_bytes += work.examined_bytes;
            own.written += work.written;
            own.index_entries_written += work.index_entries_written;
            own.charge += work.charge;
        }
    }

    /// Does not charge work in this storage.
    pub(crate) fn exempt(&mut self, storage: StorageId) {
        self.exempt = Some(storage);
    }

    /// Whether the last count was the first of its transaction in that partition.
    pub(crate) fn is_first(&self) -> bool {
        self.is_first
    }

    /// The work in each physical partition.
    pub fn partitions(&self) -> &[(StorageId, PartitionId, Work)] {
        &self.work
    }

    /// The cost of all work.
    pub fn charge(&self) -> Charge {
        let charged = self.work.iter().filter(|(it, ..)| Some(*it) != self.exempt);
        charged.map(|(_, _, work)| work.charge).sum()
    }

    /// How many items and index entries were examined.
    pub fn examined_entries(&self) -> usize {
        self.work.iter().map(|(_, _, work)| work.examined).sum()
    }

    fn of(&mut self, (storage, partition): (StorageId, PartitionId)) -> &mut Work {
        let known = self
            .work
            .iter()
            .position(|(s, p, _)| (*s, *p) == (storage, partition));
        self.is_first = known.is_none();
        let position = known.unwrap_or_else(|| {
            self.work.push((storage, partition, Work::default()));
            self.work.len() - 1
        });
        #[expect(clippy::indexing_slicing, reason = "found or pushed just above")]
        let work = &mut self.work[position].2;
        work
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_prices_are_met() {
        let check = |charge: Charge, expected: f64| assert_eq!(charge.request_units(), expected);
        check(price::point_read(1_024), 1.0);
        check(price::point_read(10), 1.0);
        check(price::point_read(100 * 1_024), 10.0);
        check(price::insert(1_024), 5.5);
        check(price::replace(1_024, 1_024), 11.0);
    }

    #[test]
    fn a_meter_keeps_partitions_apart() {
        let mut meter = Meter::default();
        meter.point_read((1, 0), 100);
        meter.point_read((1, 1), 100);
        meter.indexed((1, 1), 2, 1);
        let charges: Vec<u64> = meter
            .partitions()
            .iter()
            .map(|(_, _, work)| work.charge.milli_units())
            .collect();
        assert_eq!(charges, [1_000, 1_600]);
        assert_eq!(meter.charge().milli_units(), 2_600);
    }

    #[test]
    fn what_a_front_end_keeps_for_itself_costs_nobody_anything() {
        let mut meter = Meter::default();
        meter.point_read((1, 0), 100);
        assert!(meter.is_first());
        meter.exempt(2);
        meter.point_read((2, 0), 100);
        meter.point_read((1, 0), 100);
        assert!(!meter.is_first());
        assert_eq!(meter.charge().milli_units(), 2_000);
    }
}
