//! What was measured: rows of each server, ratios between them with their limits; as text and JSON.

use std::io::Write as _;

use hdrhistogram::Histogram;
use serde_json::{Value, json};

use crate::Failure;
use crate::bench::machine::Machine;

/// One workload on one server.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    pub(crate) subject: &'static str,
    pub(crate) per_second: f64,
    /// At 50, 99 and 99.9 percent.
    pub(crate) latencies_ms: [f64; 3],
    /// Time of the server's processors for each request: seconds for a million of them.
    pub(crate) processor_us: f64,
    pub(crate) memory_mb: f64,
}

impl Measured {
    /// The latencies that are shown.
    pub(crate) fn percentiles_ms(latencies_ns: &Histogram<u64>) -> [f64; 3] {
        [0.5, 0.99, 0.999].map(|quantile| milliseconds(latencies_ns.value_at_quantile(quantile)))
    }

    /// What several rounds of one server come to: the median of each figure, which neither a lucky
    /// round nor a disturbed one changes.
    pub(crate) fn typical(rounds: &[Self]) -> Option<Self> {
        let of = |figure: &dyn Fn(&Self) -> f64| median(rounds.iter().map(figure));
        Some(Self {
            subject: rounds.first()?.subject,
            per_second: of(&|round| round.per_second),
            latencies_ms: [0, 1, 2].map(|place| of(&|round| round.latency_ms(place))),
            processor_us: of(&|round| round.processor_us),
            memory_mb: of(&|round| round.memory_mb),
        })
    }

    fn latency_ms(&self, place: usize) -> f64 {
        self.latencies_ms.get(place).copied().unwrap_or(f64::NAN)
    }
}

/// The middle one, the higher of two.
pub(crate) fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

#[expect(clippy::cast_precision_loss, reason = "shown with few digits")]
fn milliseconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1_000_000.0
}

/// A ratio with as many digits as say something. Beyond a hundred it says that the two cannot be
/// compared: of the slower one a round sees a few requests, and another run would see others.
pub(crate) fn shown(ratio: f64) -> String {
    match ratio {
        0.0 => "0".to_owned(),
        _ if ratio >= 100.0 => "over 100".to_owned(),
        _ if ratio <= 0.01 => "under 0.01".to_owned(),
        _ if ratio < 0.1 => format!("{ratio:.3}"),
        _ => format!("{ratio:.2}"),
    }
}

/// What a ratio must be.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Limit {
    AtLeast(f64),
    AtMost(f64),
}

impl Limit {
    fn met(self, ratio: f64) -> bool {
        match self {
            Self::AtLeast(limit) => ratio >= limit,
            Self::AtMost(limit) => ratio <= limit,
        }
    }

    fn text(self) -> String {
        match self {
            Self::AtLeast(limit) => format!("at least {limit}"),
            Self::AtMost(limit) => format!("at most {limit}"),
        }
    }
}

/// One value beside another.
#[derive(Clone, Debug)]
pub(crate) struct Figure {
    pub(crate) name: &'static str,
    pub(crate) value: String,
    pub(crate) beside: String,
    pub(crate) ratio: f64,
    /// None: it is only shown.
    pub(crate) limit: Option<Limit>,
}

impl Figure {
    fn met(&self) -> bool {
        self.limit.is_none_or(|limit| limit.met(self.ratio))
    }
}

/// One workload.
#[derive(Clone, Debug)]
pub(crate) struct Section {
    pub(crate) suite: &'static str,
    pub(crate) name: String,
    pub(crate) measured: Vec<Measured>,
    pub(crate) figures: Vec<Figure>,
}

impl Section {
    pub(crate) fn print(&self) -> Result<(), Failure> {
        let mut out = std::io::stdout().lock();
        writeln!(out, "{}: {}", self.suite, self.name)?;
        for row in &self.measured {
            let [half, most, all] = row.latencies_ms;
            writeln!(
                out,
                "  {:<13} {:>9.0}/s  p50 {half:>7.3} ms  p99 {most:>7.3} ms  p99.9 {all:>7.3} ms  \
                 {:>6.1} s CPU per million  {:>6.1} MB",
                row.subject, row.per_second, row.processor_us, row.memory_mb
            )?;
        }
        for figure in &self.figures {
            let limit = figure.limit.map_or("no limit".to_owned(), Limit::text);
            let verdict = if figure.met() { "" } else { "  MISSED" };
            writeln!(
                out,
                "  {:<22} {:<18} beside {:<28} ratio {:>6} ({limit}){verdict}",
                figure.name,
                figure.value,
                figure.beside,
                shown(figure.ratio)
            )?;
        }
        Ok(())
    }

    fn json(&self) -> Value {
        let measured = self.measured.iter().map(|row| {
            let [half, most, all] = row.latencies_ms;
            json!({
                "subject": row.subject,
                "per_second": row.per_second,
                "p50_ms": half,
                "p99_ms": most,
                "p99_9_ms": all,
                "cpu_seconds_per_million": row.processor_us,
                "memory_mb": row.memory_mb,
            })
        });
        let figures = self.figures.iter().map(|figure| {
            json!({
                "name": figure.name,
                "value": figure.value,
                "beside": figure.beside,
                "ratio": figure.ratio,
                "limit": figure.limit.map(Limit::text),
                "met": figure.met(),
            })
        });
        json!({
            "suite": self.suite,
            "workload": self.name,
            "measured": measured.collect::<Value>(),
            "figures": figures.collect::<Value>(),
        })
    }
}

/// Everything that a run measured.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) sections: Vec<Section>,
    /// What another program measured and found beyond its limits.
    pub(crate) missed_elsewhere: bool,
}

impl Report {
    /// Prints a section and keeps it.
    pub(crate) fn add(&mut self, section: Section) -> Result<(), Failure> {
        section.print()?;
        self.sections.push(section);
        Ok(())
    }

    /// How many figures miss their limits.
    pub(crate) fn missed(&self) -> usize {
        let figures = self.sections.iter().flat_map(|section| &section.figures);
        let own = figures.filter(|figure| !figure.met()).count();
        own + usize::from(self.missed_elsewhere)
    }

    pub(crate) fn json(&self, machine: &Machine) -> Value {
        let sections = self.sections.iter().map(Section::json);
        json!({
            "machine": machine.json(),
            "workloads": sections.collect::<Value>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(ratio: f64, limit: Option<Limit>) -> Figure {
        Figure {
            name: "throughput",
            value: "1/s".to_owned(),
            beside: "2/s".to_owned(),
            ratio,
            limit,
        }
    }

    #[test]
    fn a_limit_is_met_on_its_own_side_only() {
        for (ratio, limit, met) in [
            (0.5, Some(Limit::AtLeast(0.5)), true),
            (0.49, Some(Limit::AtLeast(0.5)), false),
            (2.5, Some(Limit::AtMost(2.5)), true),
            (2.51, Some(Limit::AtMost(2.5)), false),
            (f64::NAN, Some(Limit::AtMost(2.5)), false),
            (f64::NAN, None, true),
        ] {
            assert_eq!(figure(ratio, limit).met(), met, "{ratio} {limit:?}");
        }
    }

    #[test]
    fn ratios_are_shown_as_far_as_they_say_something() {
        for (ratio, expected) in [
            (0.0, "0"),
            (0.001, "under 0.01"),
            (0.0456, "0.046"),
            (0.784, "0.78"),
            (99.5, "99.50"),
            (2_229.0, "over 100"),
            (f64::NAN, "NaN"),
        ] {
            assert_eq!(shown(ratio), expected);
        }
    }

    #[test]
    fn typical_is_the_middle_of_each_figure() {
        let round = |per_second, processor_us| Measured {
            subject: "tessera",
            per_second,
            latencies_ms: [per_second; 3],
            processor_us,
            memory_mb: 1.0,
        };
        let rounds = [round(10.0, 5.0), round(2.0, 4.0), round(9.0, 90.0)];
        let typical = Measured::typical(&rounds).unwrap();
        assert_eq!((typical.per_second, typical.processor_us), (9.0, 5.0));
        assert_eq!(typical.latencies_ms, [9.0; 3]);
        assert!(Measured::typical(&[]).is_none());
    }
}
