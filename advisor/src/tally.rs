//! What a key or a partition holds: records, bytes, request units.

use tessera_core::throughput::{Charge, price};

/// Counts of some records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) records: u64,
    pub(crate) bytes: u64,
    /// What writing each of them once costs. Reading costs in proportion.
    pub(crate) charge: Charge,
}

impl Tally {
    /// One record of `bytes`.
    pub(crate) fn of_record(bytes: usize) -> Self {
        Self {
            records: 1,
            bytes: bytes as u64,
            charge: price::insert(bytes),
        }
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.records += other.records;
        self.bytes += other.bytes;
        self.charge += other.charge;
    }

    /// The larger of both, each count by itself.
    pub(crate) fn max(self, other: Self) -> Self {
        Self {
            records: self.records.max(other.records),
            bytes: self.bytes.max(other.bytes),
            charge: self.charge.max(other.charge),
        }
    }

    /// The most that records of this charge together can be.
    pub(crate) fn at_most(charge: Charge) -> Self {
        let cheapest = price::insert(0).milli_units().max(1);
        Self {
            records: charge.milli_units() / cheapest,
            bytes: charge.milli_units().saturating_mul(BYTES_PER_THOUSAND) / 1_000,
            charge,
        }
    }
}

/// No record has more bytes than this for each request unit that writing it costs.
const BYTES_PER_THOUSAND: u64 = 2_048;

/// What part of `whole` this is; none of nothing.
pub(crate) fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        return 0.0;
    }
    part as f64 / whole as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_record_is_more_than_its_charge_allows() {
        for bytes in (0..20_000).chain((20_000..3_000_000).step_by(997)) {
            let record = Tally::of_record(bytes);
            let most = Tally::at_most(record.charge);
            assert!(most.bytes >= record.bytes && most.records >= 1, "{bytes}");
        }
    }

    #[test]
    fn shares_are_of_one() {
        assert_eq!(share(1, 4), 0.25);
        assert_eq!(share(0, 0), 0.0);
    }
}
