//! Warnings of limits that are nearly reached, as text.

use super::{Insight, LargeKey};
use crate::error::Result;
use crate::key::PartitionId;
use crate::store::Store;

/// The part of a limit from which on there is a warning.
const WARN_FROM: f64 = 0.7;

/// One warning.
#[derive(Clone, Debug, PartialEq)]
pub struct Warning {
    /// Which limit is near.
    pub limit: Limit,
    /// The physical partition it is about.
    pub partition: PartitionId,
    /// The logical partition it is about, if it is about one.
    pub key: Option<String>,
    /// How much of the limit is used: 1 is all.
    pub used: f64,
    /// The same as text, with the remedy.
    pub message: String,
}

/// The limits that are watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The request units of a second.
    Throughput,
    /// The size of a physical partition.
    PhysicalPartition,
    /// The size of a logical partition.
    LogicalPartition,
}

impl Limit {
    /// Its name in programs' views.
    pub fn name(self) -> &'static str {
        match self {
            Self::Throughput => "throughput",
            Self::PhysicalPartition => "physical_partition",
            Self::LogicalPartition => "logical_partition",
        }
    }
}

impl Store {
    /// All warnings of a container.
    pub async fn warnings(&self, insight: &Insight) -> Result<Vec<Warning>> {
        // Keys near their limit are looked for only where one could be.
        let large_keys = match insight.may_hold_large_key() {
            true => self.largest_keys(&insight.name).await?,
            false => Vec::new(),
        };
        Ok(insight.warnings(&large_keys))
    }
}

impl Insight {
    /// All warnings, those of its largest keys included.
    pub fn warnings(&self, large_keys: &[LargeKey]) -> Vec<Warning> {
        let partitions = self.partitions.iter();
        let throughput = partitions.clone().filter_map(|partition| {
            let id = partition.statistics.partition;
            let used = partition.normalised_consumption?;
            let percent = used * 100.0;
            let message = format!(
                "partition {id} spent {percent:.0} % of its request units in a second of the \
                 last minute"
            );
            Warning::from(Limit::Throughput, id, used, || message)
        });
        let physical = partitions.filter_map(|partition| {
            let (id, bytes) = (
                partition.statistics.partition,
                partition.statistics.tally.bytes,
            );
            let (limit, most) = (Limit::PhysicalPartition, self.max_partition_bytes);
            Warning::from(limit, id, part(bytes, most), || {
                let (held, most) = (size(bytes), size(most));
                format!("partition {id} holds {held} of at most {most}: split it")
            })
        });
        let logical = large_keys.iter().filter_map(|large| {
            let (bytes, most) = (large.tally.bytes, self.max_logical_bytes?);
            let limit = Limit::LogicalPartition;
            let warning = Warning::from(limit, large.partition, part(bytes, most), || {
                let (key, held, most) = (&large.key, size(bytes), size(most));
                format!(
                    "the partition key '{key}' holds {held} of at most {most}: choose a key \
                     with more values"
                )
            });
            let key = Some(large.key.clone());
            warning.map(|warning| Warning { key, ..warning })
        });
        throughput.chain(physical).chain(logical).collect()
    }

    /// Whether one place holds enough for a logical partition that is near its limit.
    fn may_hold_large_key(&self) -> bool {
        let mut sizes = self.partitions.iter().map(|it| it.statistics.tally.bytes);
        self.max_logical_bytes
            .is_some_and(|most| sizes.any(|bytes| part(bytes, most) >= WARN_FROM))
    }
}

impl Warning {
    /// A warning, if the part that is used calls for one.
    fn from(
        limit: Limit,
        partition: PartitionId,
        used: f64,
        message: impl FnOnce() -> String,
    ) -> Option<Self> {
        (used >= WARN_FROM).then(|| Self {
            limit,
            partition,
            key: None,
            used,
            message: message(),
        })
    }
}

#[expect(clippy::cast_precision_loss, reason = "shown as a percentage")]
fn part(bytes: i64, most: i64) -> f64 {
    bytes as f64 / most.max(1) as f64
}

/// A number of bytes in the largest suitable unit.
#[expect(clippy::cast_precision_loss, reason = "shown with one decimal")]
fn size(bytes: i64) -> String {
    let (mut value, mut unit) = (bytes as f64, "B");
    for larger in ["KiB", "MiB", "GiB", "TiB"] {
        if value < 1_024.0 {
            break;
        }
        (value, unit) = (value / 1_024.0, larger);
    }
    let shown = format!("{value:.1}");
    format!("{} {unit}", shown.strip_suffix(".0").unwrap_or(&shown))
}

#[cfg(test)]
mod tests {
    use super::super::PartitionInsight;
    use super::*;
    use crate::name::ContainerName;
    use crate::statistics::PartitionStatistics;
    use crate::throughput::Charge;
    use crate::write_set::Tally;

    const GIB: i64 = 1 << 30;

    fn insight(bytes: i64, consumption: Option<f64>) -> Insight {
        let partition = PartitionInsight {
            statistics: PartitionStatistics {
                partition: 3,
                first: 0,
                last: 9,
                tally: Tally { items: 1, bytes },
            },
            budget: consumption.map(|_| 400.0),
            request_units_per_second: 0.0,
            normalised_consumption: consumption,
            charged: Charge::default(),
            requests: 0,
            throttled: 0,
        };
        Insight {
            name: ContainerName::new("a", "d", "c"),
            throughput: None,
            shared: None,
            max_partition_bytes: 50 * GIB,
            max_logical_bytes: Some(20 * GIB),
            partitions: vec![partition],
            hot_keys: Vec::new(),
            damage: None,
        }
    }

    #[test]
    fn there_are_warnings_from_70_percent_of_each_limit_on() {
        let found = |bytes, consumption, key_bytes| {
            let large = LargeKey {
                key: "k".into(),
                partition: 3,
                tally: Tally {
                    items: 1,
                    bytes: key_bytes,
                },
            };
            let warnings = insight(bytes, consumption).warnings(&[large]);
            let named = warnings
                .iter()
                .map(|it| (it.limit.name(), it.message.as_str()));
            named
                .map(|(name, message)| format!("{name}: {message}"))
                .collect::<Vec<_>>()
        };
        assert_eq!(found(34 * GIB, Some(0.69), 13 * GIB), Vec::<String>::new());
        assert_eq!(
            found(40 * GIB, Some(0.7), 0),
            [
                "throughput: partition 3 spent 70 % of its request units in a second of the last \
                 minute",
                "physical_partition: partition 3 holds 40 GiB of at most 50 GiB: split it",
            ]
        );
        assert_eq!(
            found(0, None, 15 * GIB + GIB / 2),
            [
                "logical_partition: the partition key 'k' holds 15.5 GiB of at most 20 GiB: choose \
                 a key with more values"
            ]
        );
    }

    #[test]
    fn keys_are_looked_at_only_where_one_may_be_large() {
        assert!(insight(14 * GIB, None).may_hold_large_key());
        assert!(!insight(13 * GIB, None).may_hold_large_key());
        let boundless = Insight {
            max_logical_bytes: None,
            ..insight(99 * GIB, None)
        };
        assert!(!boundless.may_hold_large_key());
    }

    #[test]
    fn sizes_are_shown_in_their_own_unit() {
        for (bytes, shown) in [
            (0, "0 B"),
            (1_023, "1023 B"),
            (102_400, "100 KiB"),
            (1_600_000, "1.5 MiB"),
            (50 * GIB, "50 GiB"),
        ] {
            assert_eq!(size(bytes), shown);
        }
    }
}
