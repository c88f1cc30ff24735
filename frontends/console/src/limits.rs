//! What comes near a limit, in words.

use serde::Serialize;
use tessera_core::insight::{Insight, LargeKey};

/// From this part of a limit on there is a warning.
const WARN_FROM: f64 = 0.7;
const GIB: f64 = 1_073_741_824.0;

/// Something to look after.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct Warning {
    /// The physical partition it is about.
    partition: u32,
    message: String,
}

/// Whether a container holds enough in one place for a logical partition that is near its limit.
pub(crate) fn may_hold_large_key(insight: &Insight) -> bool {
    let Some(limit) = insight.max_logical_bytes.map(gib) else {
        return false;
    };
    let mut sizes = insight
        .partitions
        .iter()
        .map(|it| gib(it.statistics.tally.bytes));
    sizes.any(|size| size >= WARN_FROM * limit)
}

/// All that is near a limit in a container.
pub(crate) fn warnings(insight: &Insight, large_keys: &[LargeKey]) -> Vec<Warning> {
    let physical = gib(insight.max_partition_bytes);
    let mut warnings = Vec::new();
    for partition in &insight.partitions {
        let id = partition.statistics.partition;
        let mut warn = |message| {
            warnings.push(Warning {
                partition: id,
                message,
            })
        };
        if let Some(used) = partition
            .normalised_consumption
            .filter(|used| *used >= WARN_FROM)
        {
            warn(format!(
                "partition {id} spent {:.0} % of its request units in a second of the last minute",
                used * 100.0
            ));
        }
        let size = gib(partition.statistics.tally.bytes);
        if size >= WARN_FROM * physical {
            warn(format!(
                "partition {id} holds {size:.1} of at most {physical} GiB: split it"
            ));
        }
    }
    let Some(limit) = insight.max_logical_bytes.map(gib) else {
        return warnings;
    };
    for large in large_keys {
        let size = gib(large.tally.bytes);
        if size >= WARN_FROM * limit {
            warnings.push(Warning {
                partition: large.partition,
                message: format!(
                    "the partition key '{}' holds {size:.1} of at most {limit} GiB: \
                     choose a key with more values",
                    large.key
                ),
            });
        }
    }
    warnings
}

#[expect(clippy::cast_precision_loss, reason = "shown with one decimal")]
fn gib(bytes: i64) -> f64 {
    bytes as f64 / GIB
}
