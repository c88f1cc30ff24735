//! How many partitions each table has in each range of tokens, and how large they are, from the
//! core's tallies.

use tessera_core::Error;

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
        for (start, end) in ranges() {
            let first = start.saturating_add(1);
            let held = transaction.estimate_logical(&container, first, end).await?;
            let mean = held.bytes.checked_div(held.items).unwrap_or(0);
            let row = Cells::of(source.table)
                .with("keyspace_name", &relation.table.keyspace)
                .with("table_name", &relation.table.name)
                .with("range_type", "primary")
                .with("range_start", &start.to_string())
                .with("range_end", &end.to_string())
                .with("mean_partition_size", mean)
                .with("partitions_count", held.items);
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
