//! The database as a whole: what it is, whether it will do, and our tables in it.

use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Error};
use tracing::warn;

use super::Flavour;
use super::address::{Address, chain};
use super::connection::connect;
use super::statements::SCHEMA;
use super::tls::Tls;

/// The version of [`SCHEMA`].
const SCHEMA_VERSION: i64 = 1;

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
    let client = connect(address, tls).await.map_err(unreachable)?;
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
    let row = client.query_one("SELECT max(version) FROM tessera_schema", &[]);
    let found: i64 = row.await.and_then(|row| row.try_get(0)).map_err(failed)?;
    if found > SCHEMA_VERSION {
        return Err(ConnectError::Newer {
            address: address.to_string(),
            found,
        });
    }
    // A connection older than this is dead, or is told so with its next commit.
    let forget = "DELETE FROM tessera_connection WHERE opened < now() - interval '1 day'";
    client.batch_execute(forget).await.map_err(failed)?;
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

/// Makes the tables, unless another server does so at the same moment.
async fn create(client: &Client, flavour: Flavour) -> Result<(), Error> {
    client.batch_execute("BEGIN").await?;
    if flavour == Flavour::Postgres {
        let lock = "SELECT pg_advisory_xact_lock(1413829460)";
        client.batch_execute(lock).await?;
        if has_tables(client).await? {
            return client.batch_execute("ROLLBACK").await;
        }
    }
    client.batch_execute(SCHEMA).await?;
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
