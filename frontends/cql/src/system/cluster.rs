//! `system`: the node, which is the whole cluster, and how much data there is in each range.

use tessera_core::engine::BoxFuture;

use super::{Cell, Cells, Row, Source, SystemTable, empty, estimates};
use crate::auth::without_password;
use crate::error::Result;
use crate::schema::DATA_CENTER;
use crate::wire::Version;

/// The version of Cassandra that we are like. The shell warns of any other one.
pub(crate) const RELEASE_VERSION: &str = "5.0.0";
/// The version of the language.
pub(crate) const CQL_VERSION: &str = "3.4.7";
pub(crate) const PARTITIONER: &str = "org.apache.cassandra.dht.Murmur3Partitioner";
pub(crate) const RACK: &str = "rack1";

pub(super) const TABLES: &[SystemTable] = &[
    SystemTable {
        name: "local",
        comment: "information about the local node",
        columns: "key text PRIMARY KEY, bootstrapped text, broadcast_address inet, \
                  broadcast_port int, cluster_name text, cql_version text, data_center text, \
                  gossip_generation int, host_id uuid, listen_address inet, listen_port int, \
                  native_protocol_version text, partitioner text, rack text, \
                  release_version text, rpc_address inet, rpc_port int, schema_version uuid, \
                  tokens set<text>, truncated_at map<uuid, blob>",
        rows: local,
    },
    empty(
        "peers",
        "information about known peers in the cluster",
        "peer inet PRIMARY KEY, data_center text, host_id uuid, preferred_ip inet, rack text, \
         release_version text, rpc_address inet, schema_version uuid, tokens set<text>",
    ),
    empty(
        "peers_v2",
        "information about known peers in the cluster",
        "peer inet, peer_port int, data_center text, host_id uuid, preferred_ip inet, \
         preferred_port int, rack text, release_version text, native_address inet, \
         native_port int, schema_version uuid, tokens set<text>, PRIMARY KEY (peer, peer_port)",
    ),
    SystemTable {
        name: "size_estimates",
        comment: "per-table primary range size estimates",
        columns: "keyspace_name text, table_name text, range_start text, range_end text, \
                  mean_partition_size bigint, partitions_count bigint, \
                  PRIMARY KEY (keyspace_name, table_name, range_start, range_end)",
        rows: |source| Box::pin(estimates::rows(source)),
    },
    SystemTable {
        name: "table_estimates",
        comment: "per-table range size estimates",
        columns: "keyspace_name text, table_name text, range_type text, range_start text, \
                  range_end text, mean_partition_size bigint, partitions_count bigint, \
                  PRIMARY KEY (keyspace_name, table_name, range_type, range_start, range_end)",
        rows: |source| Box::pin(estimates::rows(source)),
    },
    SystemTable {
        name: "built_views",
        comment: "built views",
        columns: "keyspace_name text, view_name text, status_replicated boolean, \
                  PRIMARY KEY (keyspace_name, view_name)",
        rows: built_views,
    },
    SystemTable {
        name: "IndexInfo",
        comment: "built column indexes",
        columns: "table_name text, index_name text, value blob, \
                  PRIMARY KEY (table_name, index_name)",
        rows: built_indexes,
    },
    SystemTable {
        name: "prepared_statements",
        comment: "prepared statements",
        columns: "prepared_id blob PRIMARY KEY, logged_keyspace text, query_string text",
        rows: prepared_statements,
    },
    empty(
        "view_builds_in_progress",
        "views builds current progress",
        "keyspace_name text, view_name text, start_token text, end_token text, last_token text, \
         keys_built bigint, PRIMARY KEY (keyspace_name, view_name, start_token, end_token)",
    ),
    empty(
        "available_ranges_v2",
        "available keyspace/ranges during bootstrap/replace that are ready to be served",
        "keyspace_name text PRIMARY KEY, full_ranges set<blob>, transient_ranges set<blob>",
    ),
    empty(
        "compaction_history",
        "week-long compaction history",
        "id timeuuid PRIMARY KEY, bytes_in bigint, bytes_out bigint, columnfamily_name text, \
         compacted_at timestamp, keyspace_name text, rows_merged map<int, bigint>, \
         compaction_properties frozen<map<text, text>>",
    ),
];

/// Evenly spaced, so that those who split their work by them split it evenly.
const TOKENS: i64 = 16;

/// The tokens that divide the ring, in order.
pub(crate) fn tokens() -> impl Iterator<Item = i64> {
    const STEP: i64 = i64::MAX / (TOKENS / 2);
    (0..TOKENS).map(|number| (number - TOKENS / 2) * STEP + STEP / 2)
}

fn local<'a>(source: &'a Source<'a>) -> BoxFuture<'a, Result<Vec<Row>>> {
    Box::pin(async move {
        let service = source.service;
        let (ip, port) = (service.address.ip(), i32::from(service.address.port()));
        let mut tokens: Vec<String> = tokens().map(|token| token.to_string()).collect();
        tokens.sort();
        let row = Cells::of(source.table)
            .with("key", "local")
            .with("bootstrapped", "COMPLETED")
            .with("broadcast_address", ip)
            .with("broadcast_port", 7000)
            .with("cluster_name", &service.config.cluster_name)
            .with("cql_version", CQL_VERSION)
            .with("data_center", DATA_CENTER)
            .with("gossip_generation", service.generation)
            .with("host_id", service.host_id)
            .with("listen_address", ip)
            .with("listen_port", 7000)
            .with(
                "native_protocol_version",
                &Version::CURRENT.number().to_string(),
            )
            .with("partitioner", PARTITIONER)
            .with("rack", RACK)
            .with("release_version", RELEASE_VERSION)
            .with("rpc_address", ip)
            .with("rpc_port", port)
            .with("schema_version", source.catalog.version)
            .with("tokens", Cell::list(&tokens))
            .row();
        Ok(vec![row])
    })
}

/// Views are complete once they can be seen.
fn built_views<'a>(source: &'a Source<'a>) -> BoxFuture<'a, Result<Vec<Row>>> {
    Box::pin(async move {
        let views = source.catalog.keyspaces().flat_map(|entry| entry.views());
        let rows = views.map(|view| {
            Cells::of(source.table)
                .with("keyspace_name", &view.table.keyspace)
                .with("view_name", &view.table.name)
                .with("status_replicated", true)
                .row()
        });
        Ok(rows.collect())
    })
}

fn prepared_statements<'a>(source: &'a Source<'a>) -> BoxFuture<'a, Result<Vec<Row>>> {
    Box::pin(async move {
        let prepared = source.service.prepared.all();
        let rows = prepared.iter().map(|prepared| {
            let cells = Cells::of(source.table)
                .with("prepared_id", &prepared.id[..])
                .with("query_string", &*without_password(&prepared.query));
            match &prepared.keyspace {
                Some(keyspace) => cells.with("logged_keyspace", &**keyspace).row(),
                None => cells.row(),
            }
        });
        Ok(rows.collect())
    })
}

fn built_indexes<'a>(source: &'a Source<'a>) -> BoxFuture<'a, Result<Vec<Row>>> {
    Box::pin(async move {
        let mut rows = Vec::new();
        for relation in source.catalog.keyspaces().flat_map(|entry| entry.tables()) {
            for index in &relation.table.indexes {
                let row = Cells::of(source.table)
                    // This column has the name of the keyspace, for reasons of history.
                    .with("table_name", &relation.table.keyspace)
                    .with("index_name", &index.name);
                rows.push(row.row());
            }
        }
        Ok(rows)
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn tokens_divide_the_ring_evenly() {
        let tokens: Vec<i64> = super::tokens().collect();
        assert_eq!(tokens.len(), 16);
        let steps: Vec<i64> = tokens.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(steps.iter().all(|step| *step == steps[0]));
        let around = i128::from(tokens[0]) - i128::from(tokens[15]) + (1i128 << 64);
        assert!((around - i128::from(steps[0])).abs() < 32);
    }
}
