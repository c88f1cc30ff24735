//! `system_distributed`: what nodes tell each other of repairs, of which there are none here, and
//! of views, which are built once they can be seen.

use tessera_core::engine::BoxFuture;

use super::{Cells, Row, Source, SystemTable, empty};
use crate::error::Result;

pub(super) const TABLES: &[SystemTable] = &[
    SystemTable {
        name: "view_build_status",
        comment: "Materialized View build status",
        columns: "keyspace_name text, view_name text, host_id uuid, status text, \
                  PRIMARY KEY ((keyspace_name, view_name), host_id)",
        rows: view_build_status,
    },
    empty(
        "repair_history",
        "Repair history",
        "keyspace_name text, columnfamily_name text, id timeuuid, parent_id timeuuid, \
         range_begin text, range_end text, coordinator inet, coordinator_port int, \
         participants set<inet>, participants_v2 set<text>, exception_message text, \
         exception_stacktrace text, status text, started_at timestamp, finished_at timestamp, \
         PRIMARY KEY ((keyspace_name, columnfamily_name), id)",
    ),
    empty(
        "parent_repair_history",
        "Repair history",
        "parent_id timeuuid PRIMARY KEY, keyspace_name text, columnfamily_names set<text>, \
         started_at timestamp, finished_at timestamp, exception_message text, \
         exception_stacktrace text, requested_ranges set<text>, successful_ranges set<text>, \
         options map<text, text>",
    ),
    empty(
        "partition_denylist",
        "Partition keys which have been denied access",
        "ks_name text, table_name text, key blob, PRIMARY KEY ((ks_name, table_name), key)",
    ),
];

fn view_build_status<'a>(source: &'a Source<'a>) -> BoxFuture<'a, Result<Vec<Row>>> {
    Box::pin(async move {
        let views = source.catalog.keyspaces().flat_map(|entry| entry.views());
        let rows = views.map(|view| {
            Cells::of(source.table)
                .with("keyspace_name", &view.table.keyspace)
                .with("view_name", &view.table.name)
                .with("host_id", source.service.host_id)
                .with("status", "SUCCESS")
                .row()
        });
        Ok(rows.collect())
    })
}
