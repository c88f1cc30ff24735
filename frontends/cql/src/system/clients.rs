//! `system_views.clients`: the connections to this server, as Cassandra 5 shows them.

use super::{Cell, Cells, Row, Source, SystemTable};
use crate::error::Result;
use crate::session::Session;

pub(super) const TABLE: SystemTable = SystemTable {
    name: "clients",
    comment: "currently connected clients",
    columns: "address inet, port int, client_options map<text, text>, connection_stage text, \
              driver_name text, driver_version text, hostname text, keyspace_name text, \
              protocol_version int, request_count bigint, ssl_cipher_suite text, \
              ssl_enabled boolean, ssl_protocol text, username text, \
              PRIMARY KEY (address, port)",
    rows: |source| Box::pin(async { rows(source) }),
};

/// What Cassandra calls those who need not say who they are.
const ANYBODY: &str = "anonymous";

fn rows(source: &Source<'_>) -> Result<Vec<Row>> {
    let sessions = source.service.clients.all();
    Ok(sessions
        .iter()
        .map(|session| row(source, session))
        .collect())
}

fn row(source: &Source<'_>, session: &Session) -> Row {
    let user = match source.service.config.requires_authentication {
        true => session.user(),
        false => Some(ANYBODY.into()),
    };
    let mut cells = Cells::of(source.table)
        .with("address", session.peer.ip())
        .with("port", i32::from(session.peer.port()))
        // Nobody waits here for a name server.
        .with("hostname", session.peer.ip().to_string().as_str())
        .with("connection_stage", session.stage().name())
        .with("request_count", session.requests())
        .with("ssl_enabled", session.is_encrypted);
    if let Some(user) = &user {
        cells = cells.with("username", &**user);
    }
    if let Some(keyspace) = session.keyspace() {
        cells = cells.with("keyspace_name", &*keyspace);
    }
    let Some(started) = session.started() else {
        return cells.row();
    };
    for (column, option) in [
        ("driver_name", "DRIVER_NAME"),
        ("driver_version", "DRIVER_VERSION"),
    ] {
        if let Some(value) = started.option(option) {
            cells = cells.with(column, value);
        }
    }
    let options = started.options.iter().map(|(name, value)| (name, value));
    cells
        .with("protocol_version", i32::from(started.version.number()))
        .with("client_options", Cell::map(options))
        .row()
}
