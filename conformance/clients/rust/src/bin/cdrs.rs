//! Walks over the Cassandra front end with the `cdrs-tokio` driver.
//!
//! ```text
//! cargo run --release --bin cdrs -- 127.0.0.1:9042 [--ca FILE] [--user NAME --password WORD]
//! ```

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;

use cdrs_tokio::authenticators::{
    NoneAuthenticatorProvider, SaslAuthenticatorProvider, StaticPasswordAuthenticatorProvider,
};
use cdrs_tokio::cluster::session::{
    RustlsSessionBuilder, Session, SessionBuilder as _, TcpSessionBuilder,
};
use cdrs_tokio::cluster::{ConnectionManager, NodeRustlsConfigBuilder, NodeTcpConfigBuilder};
use cdrs_tokio::compression::Compression;
use cdrs_tokio::frame::Envelope;
use cdrs_tokio::load_balancing::{LoadBalancingStrategy, RoundRobinLoadBalancingStrategy};
use cdrs_tokio::query::BatchQueryBuilder;
use cdrs_tokio::query_values;
use cdrs_tokio::transport::CdrsTransport;
use cdrs_tokio::types::ByIndex as _;
use tessera_walks::{KEY_TABLES, Options, Report, trust, unique_name};

type Failure = Box<dyn Error>;

#[tokio::main]
async fn main() -> ExitCode {
    tessera_walks::run(walk).await
}

fn login(options: &Options) -> Arc<dyn SaslAuthenticatorProvider + Send + Sync> {
    match (&options.user, &options.password) {
        (Some(user), Some(password)) => {
            Arc::new(StaticPasswordAuthenticatorProvider::new(user, password))
        }
        _ => Arc::new(NoneAuthenticatorProvider),
    }
}

async fn walk(options: Options) -> Result<Report, Failure> {
    let mut report = Report::default();
    for (setting, compression) in [
        ("without compression", Compression::None),
        ("with lz4", Compression::Lz4),
    ] {
        report.setting(setting);
        if let Some(certificate) = &options.certificate {
            let name = "127.0.0.1".try_into()?;
            let config = NodeRustlsConfigBuilder::new(name, Arc::new(trust(certificate)?))
                .with_contact_point(options.endpoint.as_str().into())
                .with_authenticator_provider(login(&options))
                .build()
                .await?;
            let builder = RustlsSessionBuilder::new(RoundRobinLoadBalancingStrategy::new(), config);
            let session = builder.with_compression(compression).build().await?;
            walk_session(&session, &mut report).await?;
        } else {
            let config = NodeTcpConfigBuilder::new()
                .with_contact_point(options.endpoint.as_str().into())
                .with_authenticator_provider(login(&options))
                .build()
                .await?;
            let builder = TcpSessionBuilder::new(RoundRobinLoadBalancingStrategy::new(), config);
            let session = builder.with_compression(compression).build().await?;
            walk_session(&session, &mut report).await?;
        }
    }
    Ok(report)
}

async fn walk_session<T, C, B>(
    session: &Session<T, C, B>,
    report: &mut Report,
) -> Result<(), Failure>
where
    T: CdrsTransport + 'static,
    C: ConnectionManager<T> + Send + Sync + 'static,
    B: LoadBalancingStrategy<T, C> + Send + Sync + 'static,
{
    let keyspace = unique_name();
    let replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}";
    let create = format!("CREATE KEYSPACE {keyspace} WITH replication = {replication}");
    session.query(create).await?;
    session.query(format!("USE {keyspace}")).await?;
    let walked = walk_keyspace(session, report).await;
    session.query(format!("DROP KEYSPACE {keyspace}")).await?;
    walked
}

/// The first column of every row, as numbers.
fn numbers(answer: Envelope) -> Result<Vec<i32>, Failure> {
    let rows = answer.response_body()?.into_rows().unwrap_or_default();
    let numbers = rows.iter().map(|row| Ok(row.r_by_index(0)?));
    numbers.collect()
}

async fn walk_keyspace<T, C, B>(
    session: &Session<T, C, B>,
    report: &mut Report,
) -> Result<(), Failure>
where
    T: CdrsTransport + 'static,
    C: ConnectionManager<T> + Send + Sync + 'static,
    B: LoadBalancingStrategy<T, C> + Send + Sync + 'static,
{
    report.area("keys");
    for create in KEY_TABLES {
        session.query(create).await?;
    }
    let insert = session
        .prepare("INSERT INTO single (id, v) VALUES (?, ?)")
        .await?;
    for id in 0..20 {
        session
            .exec_with_values(&insert, query_values!(id, id * id))
            .await?;
    }
    let select = session.prepare("SELECT v FROM single WHERE id = ?").await?;
    let found = session.exec_with_values(&select, query_values!(7)).await?;
    report.check("a row by its key", vec![49], numbers(found));

    let insert = "INSERT INTO compound (p, c, v) VALUES (?, ?, ?)";
    for c in 0..10 {
        session
            .query_with_values(insert, query_values!(1, c, c))
            .await?;
    }
    let slice = "SELECT c FROM compound WHERE p = 1 AND c > 2 AND c <= 6";
    report.check(
        "a slice in clustering order",
        vec![6, 5, 4, 3],
        numbers(session.query(slice).await?),
    );

    let insert = "INSERT INTO composite (a, b, c) VALUES (?, ?, ?)";
    for c in [3, 1, 2] {
        session
            .query_with_values(insert, query_values!(1, "x", c))
            .await?;
    }
    let select = "SELECT c FROM composite WHERE a = 1 AND b = 'x'";
    report.check(
        "a partition by a composite key",
        vec![1, 2, 3],
        numbers(session.query(select).await?),
    );

    report.area("paging");
    let mut pager = session.paged(3);
    let mut pager = pager.query("SELECT id FROM single");
    let mut ids: Vec<i32> = Vec::new();
    loop {
        for row in pager.next().await? {
            ids.push(row.r_by_index(0)?);
        }
        if !pager.has_more() {
            break;
        }
    }
    ids.sort_unstable();
    report.check(
        "pages hold every row once",
        (0..20).collect(),
        Ok::<_, Failure>(ids),
    );

    report.area("statements");
    let batch = BatchQueryBuilder::new()
        .add_query(
            "UPDATE single SET v = ? WHERE id = ?",
            query_values!(100, 1),
        )
        .add_query("DELETE FROM single WHERE id = ?", query_values!(2))
        .build()?;
    session.batch(batch).await?;
    let select = "SELECT v FROM single WHERE id IN (1, 2)";
    report.check(
        "a batch does all of it",
        vec![100],
        numbers(session.query(select).await?),
    );

    report.refused(
        "no such table",
        |error| error.to_string().contains("nowhere"),
        session.query("SELECT * FROM nowhere").await,
    );
    report.refused(
        "what is no CQL",
        |error| error.to_string().contains("line 1"),
        session.query("SELEC 1").await,
    );
    Ok(())
}
