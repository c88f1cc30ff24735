//! The database as a whole: what it is, whether it will do, and our tables in it.

use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Error};
use tracing::{info, warn};

use super::Flavour;
use super::address::{Address, chain};
use super::connection::connect;
use super::guard;
use super::log;
use super::statements::SCHEMA;
use super::tls::Tls;

/// The version of the tables: [`SCHEMA`] is the first, [`upgrade`] makes later ones of it.
const SCHEMA_VERSION: i64 = 3;

/// Held while tables are made.
const LOCK: &str = "SELECT pg_advisory_xact_lock(1413829460)";

/// Divides the one table of version 1. Tallies, the partition map and the system's own keys (`n` to
/// `s`) change again and again and are few; beside cold data they would be cleaned up only when a
/// part of all rows has changed.
const DIVIDE_DATA: &str = "
ALTER TABLE tessera_entry RENAME TO tessera_cold;
ALTER INDEX tessera_entry_pkey RENAME TO tessera_cold_pkey;
CREATE TABLE tessera_data (LIKE tessera_cold, PRIMARY KEY (key, mark)) PARTITION BY RANGE (key);
CREATE TABLE tessera_hot PARTITION OF tessera_data FOR VALUES FROM ('n') TO ('t');
ALTER TABLE tessera_hot SET (fillfactor = 50);
WITH moved AS (DELETE FROM tessera_cold WHERE key >= 'n' AND key < 't' RETURNING *)
    INSERT INTO tessera_hot SELECT * FROM moved;
ALTER TABLE tessera_data ATTACH PARTITION tessera_cold DEFAULT;";

/// What changes often leaves its old rows in the same pages, which are cleaned up soon.
const EAGER_CLEANING: &str = "
ALTER TABLE tessera_hot SET (autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE tessera_guard SET (fillfactor = 40, autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE tessera_connection SET (fillfactor = 40, autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_cost_delay = 0);";

/// Forgets connections of the past. Only one that can commit no more may be: its server may be
/// about to ask how its last commit ended, and a row that is not there cannot tell. Connections
/// are used for some hours at most, so those that can still commit after a day are dead, and are
/// fenced; another day later nobody asks. A row that is locked belongs to one that is alive.
const FORGET_CONNECTIONS: &str = "
DELETE FROM tessera_connection WHERE id IN (
    SELECT id FROM tessera_connection
    WHERE fenced AND opened < now() - interval '2 days' FOR UPDATE SKIP LOCKED);
UPDATE tessera_connection SET fenced = true WHERE id IN (
    SELECT id FROM tessera_connection
    WHERE NOT fenced AND opened < now() - interval '1 day' FOR UPDATE SKIP LOCKED)";

/// The first PostgreSQL that sorts what is sorted in part already, which scans rely on.
const OLDEST: i32 = 130_000;

/// Why a database cannot be used. Nothing in it was changed.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// No connection.
    #[error("cannot connect to {address}: {cause}")]
    Unreachable {
        /// Which database, without user and password.
        address: String,
        /// What the network or the database said.
        cause: String,
    },
    /// The tables are those of a newer release.
    #[error(
        "{address} holds data of version {found}, this program knows versions up to {known}: use a \
         newer release",
        known = SCHEMA_VERSION
    )]
    Newer {
        /// Which database.
        address: String,
        /// The version of its tables.
        found: i64,
    },
    /// It is something that cannot keep the engine's promises.
    #[error("{address} cannot be used: {reason}")]
    Unsuitable {
        /// Which database.
        address: String,
        /// What it lacks.
        reason: String,
    },
    /// The user may not do what is needed.
    #[error(
        "the database user may not use {address}: {cause}; grant CREATE on the schema for the \
         first start, or SELECT, INSERT, UPDATE and DELETE on the tables tessera_*"
    )]
    NoRights {
        /// Which database.
        address: String,
        /// What the database said.
        cause: String,
    },
}

/// What is known of a database that will do.
pub(super) struct Database {
    pub(super) flavour: Flavour,
    /// Larger than every version that was answered before.
    pub(super) version: u64,
    /// The server's name and version, for people.
    pub(super) product: String,
}

/// Looks at the database, and makes the tables if there are none.
pub(super) async fn prepare(address: &Address, tls: &Tls) -> Result<Database, ConnectError> {
    let unreachable = |error: Error| ConnectError::Unreachable {
        address: address.to_string(),
        cause: chain(&error),
    };
    let patience = address.answer_timeout();
    let connected = tokio::time::timeout(patience, connect(address, tls)).await;
    let connected = connected.map_err(|_elapsed| ConnectError::Unreachable {
        address: address.to_string(),
        cause: format!("no answer within {patience:?}"),
    })?;
    let (client, _task) = connected.map_err(unreachable)?;
    let (flavour, product) = recognise(&client, address).await?;
    let failed = |error: Error| match error.code() {
        Some(&SqlState::INSUFFICIENT_PRIVILEGE | &SqlState::INVALID_SCHEMA_NAME) => {
            ConnectError::NoRights {
                address: address.to_string(),
                cause: chain(&error),
            }
        }
        _ => unreachable(error),
    };
    if !has_tables(&client).await.map_err(failed)? {
        create(&client, flavour).await.map_err(failed)?;
    }
    let mut found = schema_version(&client).await.map_err(failed)?;
    if found < SCHEMA_VERSION {
        upgrade(&client, flavour).await.map_err(failed)?;
        found = schema_version(&client).await.map_err(failed)?;
    }
    if found > SCHEMA_VERSION {
        return Err(ConnectError::Newer {
            address: address.to_string(),
            found,
        });
    }
    let forget = client.batch_execute(FORGET_CONNECTIONS);
    forget.await.map_err(failed)?;
    Ok(Database {
        flavour,
        version: first_version(&client, flavour).await.map_err(failed)?,
        product,
    })
}

/// Tells what answers on the other side, and refuses what cannot hold a snapshot.
async fn recognise(client: &Client, address: &Address) -> Result<(Flavour, String), ConnectError> {
    let unsuitable = |reason: String| ConnectError::Unsuitable {
        address: address.to_string(),
        reason,
    };
    let unreadable = |error: Error| unsuitable(chain(&error));
    let row = client.query_one("SELECT version()", &[]).await;
    let version: String = row.and_then(|row| row.try_get(0)).map_err(unreadable)?;
    let product = version.split(" on ").next().unwrap_or_default().to_owned();
    if version.contains("CockroachDB") {
        return Ok((Flavour::Cockroach, product));
    }
    if version.contains("-YB-") {
        return Ok((Flavour::Yugabyte, product));
    }
    let others = ["Greenplum", "Redshift", "Apache Cloudberry"];
    if let Some(other) = others.iter().find(|other| version.contains(**other)) {
        return Err(unsuitable(format!("{other} is not supported")));
    }
    let query = "SELECT current_setting('server_version_num')::int,
        EXISTS (SELECT 1 FROM pg_extension WHERE extname = 'citus'),
        current_setting('fsync') = 'off' OR current_setting('synchronous_commit') = 'off'";
    let row = client.query_one(query, &[]).await.map_err(unreadable)?;
    let number: i32 = row.try_get(0).map_err(unreadable)?;
    if number < OLDEST {
        return Err(unsuitable(format!(
            "it is {product}, and PostgreSQL 13 or newer is needed"
        )));
    }
    if row.try_get(1).map_err(unreadable)? {
        return Err(unsuitable(
            "it has the Citus extension, whose snapshots hold only within one shard: a read over \
             several could see half of a transaction; use a database without it"
                .to_owned(),
        ));
    }
    if row.try_get(2).map_err(unreadable)? {
        warn!("{address} has fsync or synchronous_commit off: a crash there may lose commits");
    }
    Ok((Flavour::Postgres, product))
}

/// Asks the table of tables: `to_regclass` may answer from a cache of the session, which does not
/// know what another server made while this one waited for the lock.
async fn has_tables(client: &Client) -> Result<bool, Error> {
    let query = "SELECT EXISTS (SELECT 1 FROM pg_class
        WHERE relname = 'tessera_schema' AND pg_table_is_visible(oid))";
    client.query_one(query, &[]).await?.try_get(0)
}

async fn schema_version(client: &Client) -> Result<i64, Error> {
    let query = "SELECT max(version) FROM tessera_schema";
    client.query_one(query, &[]).await?.try_get(0)
}

/// Makes tables of an earlier version those of this one, unless another server does so at the same
/// moment. Servers of an earlier release that still run on them would miss what the new ones look
/// at; the table is named anew, so that they find none and answer errors instead.
async fn upgrade(client: &Client, flavour: Flavour) -> Result<(), Error> {
    client.batch_execute("BEGIN").await?;
    if flavour == Flavour::Postgres {
        client.batch_execute(LOCK).await?;
    }
    if schema_version(client).await? >= SCHEMA_VERSION {
        return client.batch_execute("ROLLBACK").await;
    }
    if schema_version(client).await? < 2 {
        client.batch_execute(&second_version(flavour)).await?;
    }
    client.batch_execute(&third_version(flavour)).await?;
    client.batch_execute("COMMIT").await?;
    info!(
        "the tables are now of version {SCHEMA_VERSION}: older releases cannot use them any more"
    );
    Ok(())
}

/// What makes tables of version 2 of those of version 1.
fn second_version(flavour: Flavour) -> String {
    let (data, settings) = match flavour {
        Flavour::Postgres => (DIVIDE_DATA, EAGER_CLEANING),
        Flavour::Cockroach | Flavour::Yugabyte => {
            ("ALTER TABLE tessera_entry RENAME TO tessera_data;", "")
        }
    };
    let (guards, rows) = (guard::TABLE, guard::rows());
    format!("{data} {guards} {settings} {rows} INSERT INTO tessera_schema VALUES (2);")
}

/// What makes tables of version 3 of those of version 2: a table for the change log. A server of an
/// earlier release would write without noting it there; it finds its guards no more, and cannot.
fn third_version(flavour: Flavour) -> String {
    let tables = match flavour {
        Flavour::Postgres => log::TABLES,
        Flavour::Cockroach | Flavour::Yugabyte => "",
    };
    format!(
        "{tables} ALTER TABLE tessera_guard RENAME TO tessera_guards;
            INSERT INTO tessera_schema VALUES (3);"
    )
}

/// Makes the tables, unless another server does so at the same moment.
async fn create(client: &Client, flavour: Flavour) -> Result<(), Error> {
    client.batch_execute("BEGIN").await?;
    if flavour == Flavour::Postgres {
        client.batch_execute(LOCK).await?;
        if has_tables(client).await? {
            return client.batch_execute("ROLLBACK").await;
        }
    }
    client.batch_execute(SCHEMA).await?;
    client.batch_execute(&second_version(flavour)).await?;
    client.batch_execute(&third_version(flavour)).await?;
    client.batch_execute("COMMIT").await
}

/// Every commit of the engine takes a transaction number or a microsecond, so this is beyond all
/// versions that an earlier server can have counted up to.
async fn first_version(client: &Client, flavour: Flavour) -> Result<u64, Error> {
    let query = match flavour {
        Flavour::Postgres => "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint",
        Flavour::Cockroach | Flavour::Yugabyte => {
            "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
        }
    };
    let version: i64 = client.query_one(query, &[]).await?.try_get(0)?;
    Ok(version.unsigned_abs())
}
