//! The report as text.

use std::fmt::{self, Display, Formatter};

use crate::report::{Candidate, KeyShare, PartitionShare, Report, Shares};
use crate::units::{counted, grouped, percent, rate, size};
use crate::verdict::ceiling;

/// With more partitions than this, only the extremes are listed.
const LISTED_PARTITIONS: usize = 16;
/// The longest bar.
const BAR: f64 = 30.0;

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let records = counted(self.records, "record", "records");
        writeln!(f, "{records}, {}, from {}", size(self.bytes), self.source)?;
        writeln!(
            f,
            "{:.2} RU to write one, {:.2} RU to read one, on average and without indexes",
            self.write_request_units, self.read_request_units
        )?;
        let partitions = self.physical_partitions as u64;
        let partitions = counted(partitions, "physical partition", "physical partitions");
        let throughput = grouped(u64::from(self.throughput));
        writeln!(
            f,
            "{partitions}, {throughput} RU/s divided evenly among them"
        )?;
        self.write_rejected(f)?;
        if !self.fields_left_out.is_empty() {
            let fields = self.fields_left_out.join(", ");
            writeln!(f, "not looked at (name them with --key): {fields}")?;
        }
        for candidate in &self.candidates {
            writeln!(f)?;
            candidate.write(f, self)?;
        }
        writeln!(f, "\nRecommendation")?;
        for words in &self.recommendation.words {
            writeln!(f, "  {words}")?;
        }
        Ok(())
    }
}

impl Report {
    fn write_rejected(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let rejected = &self.rejected;
        if rejected.lines == 0 {
            return Ok(());
        }
        let lines = counted(rejected.lines, "line", "lines");
        writeln!(f, "{lines} could not be read and left out:")?;
        for line in &rejected.first {
            writeln!(f, "  line {}: {}", line.line, line.cause)?;
        }
        if rejected.lines > rejected.first.len() as u64 {
            writeln!(f, "  …")?;
        }
        Ok(())
    }
}

impl Candidate {
    fn write(&self, f: &mut Formatter<'_>, report: &Report) -> fmt::Result {
        writeln!(f, "{}", self.title())?;
        row(f, "different values", &self.distinct_words())?;
        let missing = percent(self.missing as f64 / report.records.max(1) as f64);
        row(
            f,
            "missing",
            &format!("{} ({missing})", grouped(self.missing)),
        )?;
        self.write_keys(f)?;
        self.write_throttling(f, report)?;
        let used = percent(self.projection.share_of_limit);
        let grown = match report.growth {
            1.0 => String::new(),
            growth => format!(" after growing {growth} times"),
        };
        row(
            f,
            "size limit",
            &format!("{used} of 20 GB in the largest key{grown}"),
        )?;
        self.write_spread(f)?;
        for finding in &self.findings {
            row(f, "note", &finding.words)?;
        }
        Ok(())
    }

    fn distinct_words(&self) -> String {
        let count = grouped(self.distinct.count);
        let each = match self.records_per_key {
            few if few < 100.0 => format!("{few:.1} records each"),
            many => format!("{} records each", rate(many)),
        };
        if self.distinct.is_exact {
            return format!("{count}, {each}");
        }
        let error = percent(self.distinct.standard_error);
        format!("about {count} (HyperLogLog, standard error {error}), {each}")
    }

    fn write_keys(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Some(hottest) = self.hottest.first() else {
            let most = &self.any_key_at_most;
            let words = format!(
                "none stands out; of records each has {} at most, of bytes {}",
                percent(most.records),
                percent(most.bytes)
            );
            return row(f, "largest, hottest", &words);
        };
        if let Some(largest) = &self.largest {
            let share = bounded(largest, |shares| shares.bytes);
            let words = format!("{}: {}, {share}", largest.key, size(largest.bytes));
            row(f, "largest key", &words)?;
        }
        let words = format!(
            "{}: {} of records, {} of request units",
            hottest.key,
            bounded(hottest, |shares| shares.records),
            bounded(hottest, |shares| shares.request_units)
        );
        row(f, "hottest key", &words)?;
        let others = self.hottest.iter().skip(1).map(|key| {
            let share = bounded(key, |shares| shares.request_units);
            format!("{} {share}", key.key)
        });
        let others: Vec<String> = others.collect();
        if others.is_empty() {
            return Ok(());
        }
        row(f, "then", &others.join("; "))
    }

    fn write_throttling(&self, f: &mut Formatter<'_>, report: &Report) -> fmt::Result {
        let throttling = &self.throttling;
        let writes = throttling.first_at / report.write_request_units.max(f64::MIN_POSITIVE);
        let words = format!(
            "{} RU/s ({} of the throughput), {} writes of such records a second",
            rate(throttling.first_at),
            percent(throttling.usable),
            rate(writes)
        );
        row(f, "first throttled at", &words)?;
        if let Some(at) = throttling.in_file_order_at {
            row(f, "in file order", &format!("{} RU/s", rate(at)))?;
        }
        if let Some(ceiling) = ceiling(self) {
            let words = format!(
                "{} RU/s with any number of partitions, for the hottest key",
                rate(ceiling)
            );
            row(f, "never beyond", &words)?;
        }
        Ok(())
    }

    fn write_spread(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut listed: Vec<&PartitionShare> = self.partitions.iter().collect();
        let is_cut = listed.len() > LISTED_PARTITIONS;
        if is_cut {
            listed.sort_by(|a, b| b.share.request_units.total_cmp(&a.share.request_units));
            let coldest = listed.last().copied();
            listed.truncate(LISTED_PARTITIONS - 1);
            listed.extend(coldest);
        }
        let hottest = self
            .hottest_partition()
            .map_or(0.0, |hottest| hottest.share.request_units);
        for (position, partition) in listed.iter().enumerate() {
            let share = partition.share.request_units;
            let label = match (position, is_cut) {
                (0, false) => "spread",
                (0, true) => "spread, the hottest",
                (position, true) if position + 1 == listed.len() => "the coldest",
                _ => "",
            };
            let words = format!(
                "{:>3} {} {} ({})",
                partition.partition,
                bar(share, hottest),
                percent(share),
                size(partition.bytes)
            );
            row(f, label, &words)?;
        }
        Ok(())
    }
}

fn row(f: &mut Formatter<'_>, label: &str, words: &str) -> fmt::Result {
    writeln!(f, "  {label:<20} {words}")
}

/// A share, with what may have been missed.
fn bounded(key: &KeyShare, of: impl Fn(&Shares) -> f64) -> String {
    let (seen, most) = (of(&key.share), of(&key.at_most));
    if most - seen < 0.000_1 {
        return percent(seen);
    }
    format!("{} to {}", percent(seen), percent(most))
}

fn bar(share: f64, longest: f64) -> String {
    let length = if longest > 0.0 {
        share / longest * BAR
    } else {
        0.0
    };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between 0 and the longest bar"
    )]
    let filled = length.round() as usize;
    "█".repeat(filled)
}
