//! How much data each table has in each range of tokens, from the core's tallies.

use tessera_core::Error;
use tessera_core::statistics::PartitionStatistics;

use super::{Cells, Row, Source, cluster};
use crate::catalog::Place;
use crate::error::Result;

pub(super) async fn rows(source: &Source<'_>) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    let stored = source
        .catalog
        .keyspaces()
        .filter(|entry| !entry.is_system());
    for relation in stored.flat_map(|entry| entry.relations()) {
        let Place::Stored { name, .. } = &relation.place else {
            continue;
        };
        let mut transaction = source.service.store.begin().await?;
        let container = match transaction.container(name).await {
            Ok(container) => container,
            // Dropped just now.
            Err(Error::NotFound(_)) => continue,
            Err(error) => return Err(error.into()),
        };
        let statistics = transaction.statistics(&container).await?;
        for (start, end) in ranges() {
            let (items, bytes) = estimate(&statistics, start, end);
            let mean = bytes.checked_div(items).unwrap_or(0);
            let row = Cells::of(source.table)
                .with("keyspace_name", &relation.table.keyspace)
                .with("table_name", &relation.table.name)
                .with("range_type", "primary")
                .with("range_start", &start.to_string())
                .with("range_end", &end.to_string())
                .with("mean_partition_size", mean)
                .with("partitions_count", items);
            rows.push(row.row());
        }
    }
    Ok(rows)
}

/// The ranges between the tokens of the ring: after the start, up to the end. The one that crosses
/// the end of the ring is given in two parts.
fn ranges() -> Vec<(i64, i64)> {
    let mut ends: Vec<i64> = cluster::tokens().collect();
    ends.insert(0, i64::MIN);
    ends.push(i64::MAX);
    ends.iter()
        .zip(ends.iter().skip(1))
        .map(|(start, end)| (*start, *end))
        .collect()
}

/// Items and bytes in a range, if each physical partition's are spread evenly over its own.
fn estimate(statistics: &[PartitionStatistics], start: i64, end: i64) -> (i64, i64) {
    let (mut items, mut bytes) = (0i128, 0i128);
    for partition in statistics {
        let first = i128::from(partition.first).max(i128::from(start) + 1);
        let last = i128::from(partition.last).min(i128::from(end));
        let shared = (last - first + 1).max(0);
        let whole = i128::from(partition.last) - i128::from(partition.first) + 1;
        let share = |number: i64| (i128::from(number) * shared + whole / 2) / whole.max(1);
        items += share(partition.tally.items);
        bytes += share(partition.tally.bytes);
    }
    let bounded = |number: i128| i64::try_from(number).unwrap_or(i64::MAX);
    (bounded(items), bounded(bytes))
}
