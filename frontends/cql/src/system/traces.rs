//! `system_traces`: what happened while a request ran, for clients that asked.

use super::{SystemTable, empty};

pub(super) const TABLES: &[SystemTable] = &[
    empty(
        "sessions",
        "tracing sessions",
        "session_id uuid PRIMARY KEY, command text, client inet, coordinator inet, \
         coordinator_port int, duration int, parameters map<text, text>, request text, \
         started_at timestamp",
    ),
    empty(
        "events",
        "tracing events",
        "session_id uuid, event_id timeuuid, activity text, source inet, source_port int, \
         source_elapsed int, thread text, PRIMARY KEY (session_id, event_id)",
    ),
];
