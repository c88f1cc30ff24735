//! The report: everything that the text, the JSON and the picture show.

use serde::Serialize;
use tessera_core::throughput::{Charge, PARTITION_MAX_RUS};

use super::frequent::Counter;
use super::layout::Layout;
use super::profile::Profile;
use super::records::Rejected;
use super::spread::throttles_at;
use super::tally::{Tally, share};
use super::units::GB;
use super::verdict::{self, Finding, Grade, Recommendation};

/// The most that one logical partition may hold.
pub(super) const LOGICAL_PARTITION_BYTES: u64 = 20 * GB;

/// How many of the hottest keys are named.
const NAMED_KEYS: usize = 5;

/// What was found out.
#[derive(Serialize)]
pub(super) struct Report {
    pub(super) source: String,
    pub(super) records: u64,
    pub(super) bytes: u64,
    pub(super) rejected: Rejected,
    /// What writing a record costs on average, without indexes.
    pub(super) write_request_units: f64,
    /// What reading a record by its key costs on average.
    pub(super) read_request_units: f64,
    pub(super) physical_partitions: usize,
    pub(super) throughput: u32,
    pub(super) growth: f64,
    pub(super) candidates: Vec<Candidate>,
    /// Fields that could be keys too, and were too many.
    pub(super) fields_left_out: Vec<String>,
    pub(super) recommendation: Recommendation,
}

/// What was found out about one candidate.
#[derive(Serialize)]
pub(super) struct Candidate {
    pub(super) key: String,
    pub(super) grade: Grade,
    pub(super) missing: u64,
    pub(super) distinct: Distinct,
    pub(super) records_per_key: f64,
    pub(super) longest_key_bytes: usize,
    /// By bytes. None if no key stands out.
    pub(super) largest: Option<KeyShare>,
    /// By request units, the first ones.
    pub(super) hottest: Vec<KeyShare>,
    /// No key has more than this.
    pub(super) any_key_at_most: Shares,
    pub(super) partitions: Vec<PartitionShare>,
    pub(super) throttling: Throttling,
    pub(super) projection: Projection,
    pub(super) findings: Vec<Finding>,
}

/// How many different keys there are.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Distinct {
    pub(super) count: u64,
    pub(super) is_exact: bool,
    pub(super) standard_error: f64,
}

/// Shares of the whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Shares {
    pub(super) records: f64,
    pub(super) bytes: f64,
    pub(super) request_units: f64,
}

impl Shares {
    fn of(part: Tally, whole: Tally) -> Self {
        let units = |tally: Tally| tally.charge.milli_units();
        Self {
            records: share(part.records, whole.records).min(1.0),
            bytes: share(part.bytes, whole.bytes).min(1.0),
            request_units: share(units(part), units(whole)).min(1.0),
        }
    }
}

/// One logical partition. What is said of it was seen; `at_most` adds what may have been missed.
#[derive(Clone, Debug, Serialize)]
pub(super) struct KeyShare {
    pub(super) key: String,
    /// The physical partition that holds it.
    pub(super) partition: usize,
    pub(super) records: u64,
    pub(super) bytes: u64,
    pub(super) share: Shares,
    pub(super) at_most: Shares,
}

/// One physical partition.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct PartitionShare {
    pub(super) partition: u32,
    pub(super) records: u64,
    pub(super) bytes: u64,
    pub(super) share: Shares,
}

/// Where throughput ends.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Throttling {
    /// Total RU/s at which the hottest partition is throttled.
    pub(super) first_at: f64,
    /// That as a share of the throughput.
    pub(super) usable: f64,
    /// The same if records arrive in the order of the file.
    pub(super) in_file_order_at: Option<f64>,
    pub(super) in_file_order_usable: Option<f64>,
    /// No throughput leads beyond this, because the hottest key cannot be divided.
    pub(super) never_beyond: Option<f64>,
}

/// The largest logical partition after growth.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Projection {
    pub(super) largest_key_bytes: f64,
    pub(super) share_of_limit: f64,
}

/// What a report is made of besides its candidates.
pub(super) struct Totals {
    pub(super) source: String,
    pub(super) written: Tally,
    pub(super) read: Charge,
    pub(super) rejected: Rejected,
    pub(super) fields_left_out: Vec<String>,
}

impl Report {
    pub(super) fn new(totals: Totals, layout: &Layout, profiles: &[(String, Profile)]) -> Self {
        let candidates = profiles.iter().map(|(key, profile)| {
            let mut candidate = Candidate::new(key.clone(), profile, layout);
            candidate.findings = verdict::findings(&candidate, totals.written.records);
            candidate.grade = verdict::grade(&candidate.findings);
            candidate
        });
        let candidates: Vec<Candidate> = candidates.collect();
        let records = totals.written.records;
        let average = |charge: Charge| charge.request_units() / records.max(1) as f64;
        Self {
            source: totals.source,
            records,
            bytes: totals.written.bytes,
            rejected: totals.rejected,
            write_request_units: average(totals.written.charge),
            read_request_units: average(totals.read),
            physical_partitions: layout.count(),
            throughput: layout.throughput,
            growth: layout.growth,
            recommendation: verdict::recommend(&candidates, layout),
            candidates,
            fields_left_out: totals.fields_left_out,
        }
    }
}

impl Candidate {
    fn new(key: String, profile: &Profile, layout: &Layout) -> Self {
        let key_share = |counter: &Counter| KeyShare {
            key: counter.name.to_string(),
            partition: profile.spread.partition_of(counter.token),
            records: counter.tally.records,
            bytes: counter.tally.bytes,
            share: Shares::of(counter.tally, profile.total),
            at_most: Shares::of(counter.most(), profile.total),
        };
        // A key of which more may have been missed than seen is no better than any other.
        let stands_out = |counter: &&Counter| counter.tally.charge > counter.missed;
        let top = profile
            .frequent
            .top(NAMED_KEYS, |tally| tally.charge.milli_units());
        let hottest: Vec<_> = top.into_iter().filter(stands_out).map(key_share).collect();
        let largest = profile.frequent.top(1, |tally| tally.bytes);
        let largest = largest.into_iter().find(stands_out).map(key_share);
        let any_key = profile.frequent.most_of_any();
        let distinct = profile.distinct();
        let hottest_share = hottest.first().map_or(0.0, |key| key.share.request_units);
        let largest_bytes = any_key.bytes.min(profile.total.bytes) as f64 * layout.growth;
        Self {
            key,
            grade: Grade::Good,
            missing: profile.missing,
            records_per_key: profile.total.records as f64 / distinct.count.max(1) as f64,
            distinct,
            longest_key_bytes: profile.longest_key,
            largest,
            hottest,
            any_key_at_most: Shares::of(any_key, profile.total),
            partitions: partitions(profile),
            throttling: throttling(profile, layout, hottest_share),
            projection: Projection {
                largest_key_bytes: largest_bytes,
                share_of_limit: largest_bytes / LOGICAL_PARTITION_BYTES as f64,
            },
            findings: Vec::new(),
        }
    }

    /// The hottest physical partition.
    pub(super) fn hottest_partition(&self) -> Option<&PartitionShare> {
        let by_units = |a: &&PartitionShare, b: &&PartitionShare| {
            a.share.request_units.total_cmp(&b.share.request_units)
        };
        self.partitions.iter().max_by(by_units)
    }
}

fn partitions(profile: &Profile) -> Vec<PartitionShare> {
    let partitions = profile.spread.partitions().into_iter();
    let share = |(partition, tally): (u32, Tally)| PartitionShare {
        partition,
        records: tally.records,
        bytes: tally.bytes,
        share: Shares::of(tally, profile.total),
    };
    partitions.map(share).collect()
}

fn throttling(profile: &Profile, layout: &Layout, hottest_key: f64) -> Throttling {
    let throughput = f64::from(layout.throughput);
    let at = |share| throttles_at(layout.partition_budget(), share);
    let first_at = at(profile.spread.hottest_share());
    let in_file_order_at = profile.spread.hottest_share_nearby().map(at);
    let never_beyond = throttles_at(f64::from(PARTITION_MAX_RUS), hottest_key);
    Throttling {
        first_at,
        usable: first_at / throughput,
        in_file_order_at,
        in_file_order_usable: in_file_order_at.map(|at| at / throughput),
        never_beyond: Some(never_beyond).filter(|rate| rate.is_finite()),
    }
}
