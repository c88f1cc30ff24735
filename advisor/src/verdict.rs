//! What the numbers mean: findings about each candidate, and which one to take.

use serde::Serialize;
use tessera_core::throughput::{PARTITION_MAX_RUS, price};

use crate::layout::Layout;
use crate::report::{Candidate, Throttling};
use crate::units::{counted, grouped, percent, rate, size};

/// A key that leaves less of the throughput usable is poor.
const POOR_USABLE: f64 = 0.5;
/// A key that leaves less of it usable wants watching.
const EVEN_USABLE: f64 = 0.8;
/// With more records without a value, the key is poor.
const POOR_MISSING: f64 = 0.1;
/// With fewer keys for each partition, some partitions stay empty or cold after a few splits.
const KEYS_PER_PARTITION: f64 = 20.0;
/// Part of a limit at which it is time to act.
const WARNING: f64 = 0.7;
/// The longest partition key that an API takes.
const MAX_KEY_BYTES: usize = 2_048;
/// Keys with fewer records each are as good as unique.
const UNIQUE: f64 = 1.5;

/// How good a candidate is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Grade {
    /// Nothing speaks against it.
    Good,
    /// It works, with something to watch.
    Watch,
    /// It will not do.
    Poor,
}

impl Grade {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Watch => "to watch",
            Self::Poor => "poor",
        }
    }
}

/// One thing to know of a candidate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    /// The best that a candidate with this finding can be.
    pub(crate) grade: Grade,
    pub(crate) words: String,
}

/// Which candidate to take.
#[derive(Debug, Serialize)]
pub(crate) struct Recommendation {
    pub(crate) key: Option<String>,
    /// One sentence or two each.
    pub(crate) words: Vec<String>,
}

/// What is worth saying of a candidate, the worst first.
pub(crate) fn findings(candidate: &Candidate, records: u64) -> Vec<Finding> {
    let mut findings: Vec<Finding> = [
        few_keys(candidate),
        missing_values(candidate, records),
        large_key(candidate),
        uneven(candidate),
        hot_in_turn(candidate),
        long_values(candidate),
        unique(candidate),
    ]
    .into_iter()
    .flatten()
    .collect();
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.grade));
    findings
}

/// A candidate is as good as its worst finding.
pub(crate) fn grade(findings: &[Finding]) -> Grade {
    let grades = findings.iter().map(|finding| finding.grade);
    grades.max().unwrap_or(Grade::Good)
}

fn finding(grade: Grade, words: String) -> Option<Finding> {
    Some(Finding { grade, words })
}

fn few_keys(candidate: &Candidate) -> Option<Finding> {
    let (keys, partitions) = (candidate.distinct.count, candidate.partitions.len());
    let values = counted(keys, "value", "values");
    if keys < partitions as u64 {
        let words = format!("{values} cannot fill {} physical partitions", partitions);
        return finding(Grade::Poor, words);
    }
    if (keys as f64) < KEYS_PER_PARTITION * partitions as f64 {
        let words = format!("{values} leave little room for more than {partitions} partitions");
        return finding(Grade::Watch, words);
    }
    None
}

fn missing_values(candidate: &Candidate, records: u64) -> Option<Finding> {
    if candidate.missing == 0 {
        return None;
    }
    let share = candidate.missing as f64 / records.max(1) as f64;
    let grade = if share > POOR_MISSING {
        Grade::Poor
    } else {
        Grade::Watch
    };
    let words = format!(
        "{} of the records lack a value; those would share one logical partition or be refused",
        percent(share)
    );
    finding(grade, words)
}

fn large_key(candidate: &Candidate) -> Option<Finding> {
    let (projected, used) = (
        candidate.projection.largest_key_bytes,
        candidate.projection.share_of_limit,
    );
    if used < WARNING {
        return None;
    }
    let grade = if used > 1.0 {
        Grade::Poor
    } else {
        Grade::Watch
    };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "bytes are not negative, and saturate"
    )]
    let projected = size(projected as u64);
    let words = format!(
        "the largest logical partition would reach {projected}, {} of the 20 GB it may hold",
        percent(used)
    );
    finding(grade, words)
}

fn uneven(candidate: &Candidate) -> Option<Finding> {
    let usable = candidate.throttling.usable;
    if usable >= EVEN_USABLE {
        return None;
    }
    let grade = if usable < POOR_USABLE {
        Grade::Poor
    } else {
        Grade::Watch
    };
    let hottest = candidate.hottest_partition()?;
    let mut words = format!(
        "partition {} gets {} of the request units, so only {} of the throughput can be used",
        hottest.partition,
        percent(hottest.share.request_units),
        percent(usable)
    );
    if let Some(key) = candidate.hottest.first()
        && key.share.request_units > 0.5 * hottest.share.request_units
    {
        let part = percent(key.share.request_units);
        words += &format!(
            "; the one key {} has {part}, and a key cannot be divided",
            key.key
        );
    }
    finding(grade, words)
}

fn hot_in_turn(candidate: &Candidate) -> Option<Finding> {
    let Throttling {
        usable,
        in_file_order_usable: Some(in_order),
        in_file_order_at: Some(at),
        ..
    } = candidate.throttling
    else {
        return None;
    };
    // What is uneven anyway is not the order's fault.
    if in_order >= EVEN_USABLE * usable.min(1.0) {
        return None;
    }
    let words = format!(
        "records that stand together in the file fall on the same partitions: if they arrive in \
         that order, writing throttles at {} RU/s",
        rate(at)
    );
    finding(Grade::Watch, words)
}

fn long_values(candidate: &Candidate) -> Option<Finding> {
    let longest = candidate.longest_key_bytes;
    if longest <= MAX_KEY_BYTES {
        return None;
    }
    let words = format!(
        "the longest value has {} bytes, and a partition key may have {}",
        grouped(longest as u64),
        grouped(MAX_KEY_BYTES as u64)
    );
    finding(Grade::Poor, words)
}

fn unique(candidate: &Candidate) -> Option<Finding> {
    if !is_unique(candidate) {
        return None;
    }
    let partitions = candidate.partitions.len();
    let fan_out = price::QUERIED_PARTITION.request_units() * partitions as f64;
    let words = format!(
        "about one record for each value: a query that does not name it asks all {partitions} \
         partitions, {fan_out:.1} RU before it finds anything, and no two records share a \
         transaction"
    );
    finding(Grade::Good, words)
}

fn is_unique(candidate: &Candidate) -> bool {
    candidate.records_per_key < UNIQUE
}

/// Says which candidate to take, why, and what to watch.
pub(crate) fn recommend(candidates: &[Candidate], layout: &Layout) -> Recommendation {
    let mut ranked: Vec<&Candidate> = candidates.iter().collect();
    // Among equals, keys that keep related records together come first.
    ranked.sort_by(|a, b| {
        let usable = |candidate: &Candidate| candidate.throttling.usable;
        let rank = |candidate: &Candidate| (candidate.grade, is_unique(candidate));
        rank(a).cmp(&rank(b)).then(usable(b).total_cmp(&usable(a)))
    });
    let Some((best, others)) = ranked.split_first() else {
        return Recommendation {
            key: None,
            words: Vec::new(),
        };
    };
    let mut words = vec![why(best, layout, candidates.len())];
    words.extend(best.findings.iter().map(|finding| {
        let label = if best.grade == Grade::Poor {
            "Against it"
        } else {
            "Watch"
        };
        format!("{label}: {}.", finding.words)
    }));
    if best.grade == Grade::Poor {
        words.extend(combination(best, others));
    }
    words.extend(others.iter().map(|other| why_not(other, best)));
    words.push(
        "This is what the data says. Your queries decide too: the best key is one that most of \
         them name."
            .to_owned(),
    );
    Recommendation {
        key: (best.grade != Grade::Poor).then(|| best.key.clone()),
        words,
    }
}

fn why(best: &Candidate, layout: &Layout, candidates: usize) -> String {
    let values = counted(best.distinct.count, "value", "values");
    let about = if best.distinct.is_exact { "" } else { "about " };
    let at = rate(best.throttling.first_at.min(f64::from(layout.throughput)));
    let provisioned = grouped(u64::from(layout.throughput));
    let measured = format!(
        "it has {about}{values} and throttles first at {at} of {provisioned} RU/s; no key has more \
         than {} of the request units",
        percent(best.any_key_at_most.request_units)
    );
    match (best.grade, candidates) {
        (Grade::Poor, 1) => format!("{} is not a good key: {measured}.", best.key),
        (Grade::Poor, _) => format!(
            "None of these is a good key. {} is the least bad: {measured}.",
            best.key
        ),
        (Grade::Watch, 1) => format!("{} will do: {measured}.", best.key),
        (Grade::Good, 1) => format!("{} is a good key: {measured}.", best.key),
        (Grade::Good | Grade::Watch, _) if best.is_current => {
            format!("Keep {}: {measured}.", best.key)
        }
        (Grade::Good | Grade::Watch, _) => format!("Take {}: {measured}.", best.key),
    }
}

/// A second field divides keys that are too hot or too large.
fn combination(best: &Candidate, others: &[&Candidate]) -> Option<String> {
    let is_field = |candidate: &Candidate| !candidate.key.contains([',', ' ']);
    let finest = others.iter().filter(|other| is_field(other));
    let finest = finest.max_by_key(|other| other.distinct.count)?;
    if finest.distinct.count <= best.distinct.count || !is_field(best) {
        return None;
    }
    Some(format!(
        "Try it together with a field that divides its keys: {},{}",
        best.key, finest.key
    ))
}

fn why_not(other: &Candidate, best: &Candidate) -> String {
    let reason = other.findings.first().map(|finding| finding.words.clone());
    let reason = reason.unwrap_or_else(|| {
        let (usable, better) = (other.throttling.usable, best.throttling.usable);
        let compared = if usable < better {
            "less even"
        } else {
            "as even"
        };
        format!(
            "{compared}, with {} of the throughput usable",
            percent(usable.min(1.0))
        )
    });
    format!("{} ({}): {reason}.", other.key, other.grade.word())
}

/// Beyond this many RU/s more partitions do not help, if that is near enough to matter.
pub(crate) fn ceiling(candidate: &Candidate) -> Option<f64> {
    let far = 1_000.0 * f64::from(PARTITION_MAX_RUS);
    candidate.throttling.never_beyond.filter(|rate| *rate < far)
}

#[cfg(test)]
mod tests {
    use tessera_core::hash::murmur3;

    use super::*;
    use crate::key::Key;
    use crate::layout::Wish;
    use crate::profile::{Arrival, Profile};
    use crate::report::{Named, Rejected, Report, Totals};
    use crate::tally::Tally;

    /// The key of a record as text; none is a missing value.
    type KeyOf<'a> = &'a dyn Fn(u64) -> Option<String>;

    fn report(growth: f64, candidates: &[(&str, KeyOf<'_>)]) -> Report {
        const RECORDS: u64 = 40_000;
        let wish = Wish::new(Some(4), None, Some(growth)).unwrap();
        let layout = Layout::of(wish).unwrap();
        let mut written = Tally::default();
        (0..RECORDS).for_each(|_| written.add(Tally::of_record(1_000)));
        let profiles: Vec<_> = candidates
            .iter()
            .map(|(name, key_of)| {
                let mut profile = Profile::new(&layout.partitions, Arrival::InOrder);
                for record in 0..RECORDS {
                    let text = key_of(record);
                    let bytes = text.as_deref().unwrap_or("").as_bytes();
                    let mut key = Key::stored(murmur3::token(bytes), bytes);
                    key.is_whole = text.is_some();
                    let name = || text.clone().unwrap_or_default().into();
                    profile.add(key, Tally::of_record(1_000), name);
                }
                Named {
                    key: (*name).to_owned(),
                    is_current: false,
                    profile,
                }
            })
            .collect();
        let totals = Totals {
            source: "test".to_owned(),
            written,
            read: written.charge,
            rejected: Rejected::default(),
            fields_left_out: Vec::new(),
            absent: None,
        };
        Report::new(totals, &layout, &profiles)
    }

    fn check(growth: f64, key_of: KeyOf<'_>, grade: Grade, part: &str) {
        let report = report(growth, &[("key", key_of)]);
        let candidate = &report.candidates[0];
        let words: Vec<_> = candidate
            .findings
            .iter()
            .map(|f| f.words.as_str())
            .collect();
        assert_eq!(candidate.grade, grade, "{words:?}");
        assert!(words.join("\n").contains(part), "{words:?}");
    }

    fn tenant(record: u64) -> Option<String> {
        Some(format!("tenant-{}", record % 1_000))
    }

    #[test]
    fn findings_follow_from_the_numbers() {
        let id = |record: u64| Some(record.to_string());
        check(1.0, &tenant, Grade::Good, "");
        check(1.0, &id, Grade::Good, "asks all 4 partitions, 9.2 RU");
        check(
            1.0,
            &|record| Some((record % 3).to_string()),
            Grade::Poor,
            "cannot fill 4",
        );
        check(
            1.0,
            &|record| Some((record % 60).to_string()),
            Grade::Watch,
            "little room",
        );
        check(
            1.0,
            &|r| tenant(r).filter(|_| r % 50 > 0),
            Grade::Watch,
            "2.0 % of the records lack",
        );
        check(
            1.0,
            &|r| tenant(r).filter(|_| r % 4 > 0),
            Grade::Poor,
            "25.0 % of the records lack",
        );
        let hot = |record: u64| match record % 2 {
            0 => Some("hot".to_owned()),
            _ => tenant(record),
        };
        check(1.0, &hot, Grade::Poor, "the one key hot has 50.0 %");
        check(
            1.0,
            &|r| Some(format!("{:03000}", r % 1_000)),
            Grade::Poor,
            "3,000 bytes",
        );
    }

    #[test]
    fn keys_that_take_turns_are_told() {
        let day = |record: u64| Some((record / 8_000).to_string());
        let report = report(1.0, &[("day", &day)]);
        let candidate = &report.candidates[0];
        assert_eq!(candidate.throttling.in_file_order_at, Some(10_000.0));
        let mut findings = candidate.findings.iter();
        let part = "that order, writing throttles at 10,000 RU/s";
        assert!(findings.any(|finding| finding.words.ends_with(part)));
    }

    #[test]
    fn a_date_that_is_even_over_a_year_is_told_too() {
        for days in [30, 100, 300, 1_000] {
            let day = |record: u64| Some(format!("day {}", record * days / 40_000));
            let part = "fall on the same partitions: if they arrive in that order";
            let report = report(1.0, &[("day", &day), ("tenant", &tenant)]);
            let told = |candidate: &Candidate| {
                let mut findings = candidate.findings.iter();
                findings.any(|finding| finding.words.contains(part))
            };
            let told: Vec<bool> = report.candidates.iter().map(told).collect();
            assert_eq!(told, [true, false], "{days}");
        }
    }

    #[test]
    fn growth_brings_the_limit_of_a_logical_partition_near() {
        // 40 records of 1,000 bytes for each tenant.
        let limit = 20.0 * 1_073_741_824.0 / 40_000.0;
        check(0.6 * limit, &tenant, Grade::Good, "");
        check(0.75 * limit, &tenant, Grade::Watch, "75.0 % of the 20 GB");
        check(1.5 * limit, &tenant, Grade::Poor, "would reach 30.0 GB");
    }

    #[test]
    fn the_best_candidate_is_recommended() {
        let id = |record: u64| Some(record.to_string());
        let kind = |record: u64| Some((record % 3).to_string());
        let advice = report(1.0, &[("kind", &kind), ("id", &id), ("tenant", &tenant)]);
        assert_eq!(advice.recommendation.key.as_deref(), Some("tenant"));
        let words = advice.recommendation.words.join("\n");
        assert!(
            words.starts_with("Take tenant: it has 1,000 values"),
            "{words}"
        );
        assert!(
            words.contains("kind (poor): 3 values cannot fill"),
            "{words}"
        );

        let advice = report(1.0, &[("kind", &kind), ("id", &id)]);
        assert_eq!(advice.recommendation.key.as_deref(), Some("id"));

        let half = |record: u64| Some((record % 2).to_string());
        let advice = report(1.0, &[("half", &half), ("kind", &kind)]);
        assert_eq!(advice.recommendation.key, None);
        let words = advice.recommendation.words.join("\n");
        assert!(words.starts_with("None of these is a good key."), "{words}");
    }
}
