//! The report: everything that the text, the JSON and the picture show.

use serde::{Deserialize, Serialize};
use tessera_core::throughput::{Charge, PARTITION_MAX_RUS};

use crate::frequent::Counter;
use crate::layout::Layout;
use crate::picture;
use crate::profile::Profile;
use crate::spread::throttles_at;
use crate::tally::{Tally, share};
use crate::units::GB;
use crate::verdict::{self, Finding, Grade, Recommendation};

/// The most that one logical partition may hold.
pub(crate) const LOGICAL_PARTITION_BYTES: u64 = 20 * GB;

/// What the key of a container is called if it is not made of fields.
pub(crate) const NAMELESS: &str = "its partition key";

/// How many of the hottest keys are named.
const NAMED_KEYS: usize = 5;

/// How many lines that could not be read are named.
const NAMED_LINES: usize = 5;

/// Lines that could not be read.
#[derive(Debug, Default, Serialize)]
pub struct Rejected {
    pub(crate) lines: u64,
    /// The first of them.
    pub(crate) first: Vec<RejectedLine>,
}

/// One line that could not be read.
#[derive(Debug, Serialize)]
pub struct RejectedLine {
    /// Its number.
    pub line: u64,
    /// What is wrong with it.
    pub cause: String,
}

impl Rejected {
    /// Counts a line, and names it if it is among the first.
    pub fn add(&mut self, line: u64, cause: String) {
        self.lines += 1;
        if self.first.len() < NAMED_LINES {
            self.first.push(RejectedLine { line, cause });
        }
    }

    /// How many there are.
    pub fn lines(&self) -> u64 {
        self.lines
    }

    /// The first of them.
    pub fn first(&self) -> &[RejectedLine] {
        &self.first
    }
}

/// A report in all its forms, as it is sent from a server.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Printed {
    /// All figures.
    pub report: serde_json::Value,
    /// The same in words.
    pub text: String,
    /// The spread as a picture.
    pub svg: String,
    /// What to say of keys that no record has.
    pub absent: Option<String>,
}

/// What was found out.
#[derive(Serialize)]
pub struct Report {
    pub(crate) source: String,
    pub(crate) records: u64,
    pub(crate) bytes: u64,
    pub(crate) rejected: Rejected,
    /// What writing a record costs on average, without indexes.
    pub(crate) write_request_units: f64,
    /// What reading a record by its key costs on average.
    pub(crate) read_request_units: f64,
    pub(crate) physical_partitions: usize,
    pub(crate) throughput: u32,
    pub(crate) growth: f64,
    pub(crate) candidates: Vec<Candidate>,
    /// Fields that could be keys too, and were too many.
    pub(crate) fields_left_out: Vec<String>,
    pub(crate) recommendation: Recommendation,
    #[serde(skip)]
    absent: Option<String>,
}

/// What was found out about one candidate.
#[derive(Serialize)]
pub(crate) struct Candidate {
    pub(crate) key: String,
    /// Whether it is the key that the container has.
    pub(crate) is_current: bool,
    pub(crate) grade: Grade,
    pub(crate) missing: u64,
    pub(crate) distinct: Distinct,
    pub(crate) records_per_key: f64,
    pub(crate) longest_key_bytes: usize,
    /// By bytes. None if no key stands out.
    pub(crate) largest: Option<KeyShare>,
    /// By request units, the first ones.
    pub(crate) hottest: Vec<KeyShare>,
    /// No key has more than this.
    pub(crate) any_key_at_most: Shares,
    pub(crate) partitions: Vec<PartitionShare>,
    pub(crate) throttling: Throttling,
    pub(crate) projection: Projection,
    pub(crate) findings: Vec<Finding>,
}

/// How many different keys there are.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Distinct {
    pub(crate) count: u64,
    pub(crate) is_exact: bool,
    pub(crate) standard_error: f64,
}

/// Shares of the whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Shares {
    pub(crate) records: f64,
    pub(crate) bytes: f64,
    pub(crate) request_units: f64,
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
pub(crate) struct KeyShare {
    pub(crate) key: String,
    /// The physical partition that holds it.
    pub(crate) partition: usize,
    pub(crate) records: u64,
    pub(crate) bytes: u64,
    pub(crate) share: Shares,
    pub(crate) at_most: Shares,
}

/// One physical partition.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct PartitionShare {
    pub(crate) partition: u32,
    pub(crate) records: u64,
    pub(crate) bytes: u64,
    pub(crate) share: Shares,
}

/// Where throughput ends.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Throttling {
    /// Total RU/s at which the hottest partition is throttled.
    pub(crate) first_at: f64,
    /// That as a share of the throughput.
    pub(crate) usable: f64,
    /// The same if records arrive in the order of the file.
    pub(crate) in_file_order_at: Option<f64>,
    pub(crate) in_file_order_usable: Option<f64>,
    /// No throughput leads beyond this, because the hottest key cannot be divided.
    pub(crate) never_beyond: Option<f64>,
}

/// The largest logical partition after growth.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Projection {
    pub(crate) largest_key_bytes: f64,
    pub(crate) share_of_limit: f64,
}

/// What a report is made of besides its candidates.
pub(crate) struct Totals {
    pub(crate) source: String,
    pub(crate) written: Tally,
    pub(crate) read: Charge,
    pub(crate) rejected: Rejected,
    pub(crate) fields_left_out: Vec<String>,
    /// What to say of keys that no record has.
    pub(crate) absent: Option<String>,
}

/// What one candidate did, and what it is called.
pub(crate) struct Named {
    pub(crate) key: String,
    pub(crate) is_current: bool,
    pub(crate) profile: Profile,
}

impl Report {
    pub(crate) fn new(totals: Totals, layout: &Layout, profiles: &[Named]) -> Self {
        let candidates = profiles.iter().map(|named| {
            let mut candidate = Candidate::new(named, layout);
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
            absent: totals.absent,
        }
    }

    /// All forms of it.
    pub fn print(&self) -> Result<Printed, serde_json::Error> {
        Ok(Printed {
            report: serde_json::to_value(self)?,
            text: self.to_string(),
            svg: picture::svg(self),
            absent: self.absent.clone(),
        })
    }
}

impl Candidate {
    fn new(named: &Named, layout: &Layout) -> Self {
        let profile = &named.profile;
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
            key: named.key.clone(),
            is_current: named.is_current,
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

    /// What it is called where all are listed.
    pub(crate) fn title(&self) -> String {
        let current = match self.is_current && self.key != NAMELESS {
            true => ", the key it has",
            false => "",
        };
        format!("{}{current} — {}", self.key, self.grade.word())
    }

    /// The hottest physical partition.
    pub(crate) fn hottest_partition(&self) -> Option<&PartitionShare> {
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
    let in_file_order_at = profile.hottest_share_nearby().map(at);
    let never_beyond = throttles_at(f64::from(PARTITION_MAX_RUS), hottest_key);
    Throttling {
        first_at,
        usable: first_at / throughput,
        in_file_order_at,
        in_file_order_usable: in_file_order_at.map(|at| at / throughput),
        never_beyond: Some(never_beyond).filter(|rate| rate.is_finite()),
    }
}
