//! `system_traces`: what happened while a request ran, for clients that asked.

use tessera_core::engine::BoxFuture;

use super::{Cell, Cells, Row, Source, SystemTable};
use crate::error::Result;

pub(super) const TABLES: &[SystemTable] = &[
    SystemTable {
        name: "sessions",
        comment: "tracing sessions",
        columns: "session_id uuid PRIMARY KEY, command text, client inet, coordinator inet, \
                  coordinator_port int, duration int, parameters map<text, text>, request text, \
                  started_at timestamp",
        rows: sessions,
    },
    SystemTable {
        name: "events",
        comment: "tracing events",
        columns: "session_id uuid, event_id timeuuid, activity text, source inet, \
                  source_port int, source_elapsed int, thread text, \
                  PRIMARY KEY (session_id, event_id)",
        rows: events,
    },
];

fn sessions<'a>(source: &'a Source<'a>) -> BoxFuture<'a, Result<Vec<Row>>> {
    let address = source.service.address;
    Box::pin(async move {
        let traces = source.service.traces.all();
        let rows = traces.iter().map(|trace| {
            let started = i64::try_from(trace.started_ms).unwrap_or(i64::MAX);
            let parameters = trace.parameters.iter().map(|(name, value)| (name, value));
            Cells::of(source.table)
                .with("session_id", trace.id)
                .with("command", "QUERY")
                .with("client", trace.client.ip())
                .with("coordinator", address.ip())
                .with("coordinator_port", i32::from(address.port()))
                .with("duration", trace.duration_us)
                .with("parameters", Cell::map(parameters))
                .with("request", trace.request)
                .with("started_at", started)
                .row()
        });
        Ok(rows.collect())
    })
}

fn events<'a>(source: &'a Source<'a>) -> BoxFuture<'a, Result<Vec<Row>>> {
    let address = source.service.address;
    Box::pin(async move {
        let mut rows = Vec::new();
        for trace in source.service.traces.all() {
            rows.extend(trace.steps.iter().map(|step| {
                Cells::of(source.table)
                    .with("session_id", trace.id)
                    .with("event_id", step.id)
                    .with("activity", &step.activity)
                    .with("source", address.ip())
                    .with("source_port", i32::from(address.port()))
                    .with("source_elapsed", step.elapsed_us)
                    .with("thread", "tessera")
                    .row()
            }));
        }
        Ok(rows)
    })
}
