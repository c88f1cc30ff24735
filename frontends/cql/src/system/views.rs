//! `system_views`: who is connected, and where the load and the data of tables lie, as Cassandra
//! shows such things.

use tessera_core::Error;
use tessera_core::name::ContainerName;

use super::{Cells, Row, Source, SystemTable, clients};
use crate::catalog::{Place, Relation};
use crate::error::Result;

pub(super) const TABLES: &[SystemTable] = &[
    clients::TABLE,
    SystemTable {
        name: "partitions",
        comment: "physical partitions with what they hold and spend",
        columns: "keyspace_name text, table_name text, partition_id bigint, first_token bigint, \
                  last_token bigint, items bigint, bytes bigint, budget double, \
                  request_units_per_second double, normalized_consumption double, \
                  request_units double, requests bigint, throttled bigint, \
                  PRIMARY KEY ((keyspace_name, table_name), partition_id)",
        rows: |source| Box::pin(partitions(source)),
    },
    SystemTable {
        name: "hot_keys",
        comment: "partition keys that cost most lately, the costliest first",
        columns: "keyspace_name text, table_name text, rank int, partition_key text, \
                  partition_id bigint, request_units_per_second double, error double, \
                  share double, PRIMARY KEY ((keyspace_name, table_name), rank)",
        rows: |source| Box::pin(hot_keys(source)),
    },
    SystemTable {
        name: "large_keys",
        comment: "partition keys that hold most, the largest first",
        columns: "keyspace_name text, table_name text, rank int, partition_key text, \
                  partition_id bigint, items bigint, bytes bigint, \
                  PRIMARY KEY ((keyspace_name, table_name), rank)",
        rows: |source| Box::pin(large_keys(source)),
    },
    SystemTable {
        name: "partition_warnings",
        comment: "limits of which 70 % or more are used",
        columns: "keyspace_name text, table_name text, number int, limit_name text, \
                  partition_id bigint, partition_key text, used double, message text, \
                  PRIMARY KEY ((keyspace_name, table_name), number)",
        rows: |source| Box::pin(warnings(source)),
    },
    SystemTable {
        name: "damaged_definitions",
        comment: "definitions that cannot be read, and can only be dropped",
        columns: "keyspace_name text, kind text, name text, reason text, \
                  PRIMARY KEY (keyspace_name, kind, name)",
        rows: |source| Box::pin(damaged_definitions(source)),
    },
];

async fn damaged_definitions(source: &Source<'_>) -> Result<Vec<Row>> {
    let of_roles = source.service.roles.all().await?;
    let mut rows = Vec::new();
    let mut row = |keyspace: &str, kind: &str, name: &str, reason: &str| {
        let row = Cells::of(source.table)
            .with("keyspace_name", keyspace)
            .with("kind", kind)
            .with("name", name)
            .with("reason", reason);
        rows.push(row.row());
    };
    for entry in source.catalog.keyspaces() {
        for (kind, name, reason) in entry.damages() {
            row(&entry.keyspace.name, kind, name, reason);
        }
    }
    for (name, role) in of_roles.iter() {
        if let Some(reason) = &role.damage {
            row("system_auth", "role", name, reason);
        }
    }
    Ok(rows)
}

/// Every table and view with data of its own, and where that is.
fn stored<'a>(source: &'a Source<'_>) -> impl Iterator<Item = (&'a Relation, &'a ContainerName)> {
    let keyspaces = source.catalog.keyspaces();
    let relations = keyspaces
        .filter(|entry| !entry.is_system())
        .flat_map(|entry| entry.relations());
    relations.filter_map(|relation| match &relation.place {
        Place::Stored { name, .. } => Some((&**relation, name)),
        Place::Computed => None,
    })
}

fn cells<'a>(source: &Source<'a>, relation: &Relation) -> Cells<'a> {
    Cells::of(source.table)
        .with("keyspace_name", &relation.table.keyspace)
        .with("table_name", &relation.table.name)
}

/// What was asked of a table, none if it was dropped just now.
fn there<T>(found: tessera_core::Result<T>) -> Result<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(Error::NotFound(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

async fn partitions(source: &Source<'_>) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (relation, name) in stored(source) {
        let Some(insight) = there(source.service.store.insight(name).await)? else {
            continue;
        };
        for partition in &insight.partitions {
            let statistics = &partition.statistics;
            let mut row = cells(source, relation)
                .with("partition_id", i64::from(statistics.partition))
                .with("first_token", statistics.first)
                .with("last_token", statistics.last)
                .with("items", statistics.tally.items)
                .with("bytes", statistics.tally.bytes)
                .with(
                    "request_units_per_second",
                    partition.request_units_per_second,
                )
                .with("request_units", partition.charged.request_units())
                .with("requests", whole(partition.requests))
                .with("throttled", whole(partition.throttled));
            if let Some(budget) = partition.budget {
                row = row.with("budget", budget);
            }
            if let Some(consumption) = partition.normalised_consumption {
                row = row.with("normalized_consumption", consumption);
            }
            rows.push(row.row());
        }
    }
    Ok(rows)
}

async fn hot_keys(source: &Source<'_>) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (relation, name) in stored(source) {
        let Some(insight) = there(source.service.store.insight(name).await)? else {
            continue;
        };
        for (rank, hot) in (1i32..).zip(&insight.hot_keys) {
            let row = cells(source, relation)
                .with("rank", rank)
                .with("partition_key", &hot.key)
                .with("partition_id", i64::from(hot.partition))
                .with("request_units_per_second", hot.request_units_per_second)
                .with("error", hot.error)
                .with("share", hot.share);
            rows.push(row.row());
        }
    }
    Ok(rows)
}

async fn large_keys(source: &Source<'_>) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (relation, name) in stored(source) {
        let Some(large) = there(source.service.store.largest_keys(name).await)? else {
            continue;
        };
        for (rank, large) in (1i32..).zip(&large) {
            let row = cells(source, relation)
                .with("rank", rank)
                .with("partition_key", &large.key)
                .with("partition_id", i64::from(large.partition))
                .with("items", large.tally.items)
                .with("bytes", large.tally.bytes);
            rows.push(row.row());
        }
    }
    Ok(rows)
}

async fn warnings(source: &Source<'_>) -> Result<Vec<Row>> {
    let (store, mut rows) = (&source.service.store, Vec::new());
    for (relation, name) in stored(source) {
        let Some(insight) = there(store.insight(name).await)? else {
            continue;
        };
        let Some(warnings) = there(store.warnings(&insight).await)? else {
            continue;
        };
        for (number, warning) in (1i32..).zip(&warnings) {
            let mut row = cells(source, relation)
                .with("number", number)
                .with("limit_name", warning.limit.name())
                .with("partition_id", i64::from(warning.partition))
                .with("used", warning.used)
                .with("message", &warning.message);
            if let Some(key) = &warning.key {
                row = row.with("partition_key", key);
            }
            rows.push(row.row());
        }
    }
    Ok(rows)
}

fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
