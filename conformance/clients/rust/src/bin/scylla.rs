//! Walks over the Cassandra front end with the `scylla` driver.
//!
//! ```text
//! cargo run --release --bin scylla -- 127.0.0.1:9042 [--ca FILE] [--user NAME --password WORD]
//! ```

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;

use futures::TryStreamExt as _;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::errors::{DbError, ExecutionError, RequestAttemptError};
use scylla::frame::Compression;
use scylla::response::query_result::QueryResult;
use scylla::statement::Statement;
use scylla::statement::batch::{Batch, BatchType};
use scylla::value::{Counter, CqlDuration, CqlTimestamp};
use tessera_walks::{KEY_TABLES, Options, Report, trust, unique_name};

type Failure = Box<dyn Error>;

#[tokio::main]
async fn main() -> ExitCode {
    tessera_walks::run(walk).await
}

async fn connect(options: &Options, compression: Option<Compression>) -> Result<Session, Failure> {
    let mut builder = SessionBuilder::new()
        .known_node(&options.endpoint)
        .compression(compression);
    if let (Some(user), Some(password)) = (&options.user, &options.password) {
        builder = builder.user(user, password);
    }
    if let Some(certificate) = &options.certificate {
        builder = builder.tls_context(Some(Arc::new(trust(certificate)?)));
    }
    Ok(builder.build().await?)
}

async fn walk(options: Options) -> Result<Report, Failure> {
    let session = connect(&options, None).await?;
    let keyspace = unique_name();
    let replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}";
    let create = format!("CREATE KEYSPACE {keyspace} WITH replication = {replication}");
    session.query_unpaged(create, ()).await?;
    session.use_keyspace(&keyspace, false).await?;
    let mut report = Report::default();
    let walked = async {
        keys(&session, &mut report).await?;
        values(&session, &mut report).await?;
        pages(&session, &mut report).await?;
        changes(&session, &mut report).await?;
        refusals(&session, &mut report).await?;
        compressions(&options, &keyspace, &mut report).await
    };
    let walked = walked.await;
    session
        .query_unpaged(format!("DROP KEYSPACE {keyspace}"), ())
        .await?;
    walked.map(|()| report)
}

/// The first column of every row, as numbers.
fn numbers(result: QueryResult) -> Result<Vec<i32>, Failure> {
    let rows = result.into_rows_result()?;
    let rows: Result<Vec<(i32,)>, _> = rows.rows()?.collect();
    Ok(rows?.into_iter().map(|(number,)| number).collect())
}

/// The three designs of a primary key.
async fn keys(session: &Session, report: &mut Report) -> Result<(), Failure> {
    report.area("keys");
    for create in KEY_TABLES {
        session.query_unpaged(create, ()).await?;
    }
    let insert = session
        .prepare("INSERT INTO single (id, v) VALUES (?, ?)")
        .await?;
    for id in 0..20 {
        session.execute_unpaged(&insert, (id, id * id)).await?;
    }
    let select = session.prepare("SELECT v FROM single WHERE id = ?").await?;
    report.check(
        "a row by its key",
        vec![49],
        numbers(session.execute_unpaged(&select, (7,)).await?),
    );
    report.check(
        "the driver knows where the row is",
        true,
        Ok::<_, Failure>(select.is_token_aware()),
    );
    let insert = session
        .prepare("INSERT INTO compound (p, c, v) VALUES (?, ?, ?)")
        .await?;
    for c in 0..10 {
        session.execute_unpaged(&insert, (1, c, c)).await?;
    }
    let slice = "SELECT c FROM compound WHERE p = 1 AND c > 2 AND c <= 6";
    report.check(
        "a slice in clustering order",
        vec![6, 5, 4, 3],
        numbers(session.query_unpaged(slice, ()).await?),
    );
    let insert = session
        .prepare("INSERT INTO composite (a, b, c) VALUES (?, ?, ?)")
        .await?;
    for c in [3, 1, 2] {
        session.execute_unpaged(&insert, (1, "x", c)).await?;
    }
    let select = session
        .prepare("SELECT c FROM composite WHERE a = ? AND b = ?")
        .await?;
    report.check(
        "a partition by a composite key",
        vec![1, 2, 3],
        numbers(session.execute_unpaged(&select, (1, "x")).await?),
    );
    Ok(())
}

/// Values that go to the server and come back.
async fn values(session: &Session, report: &mut Report) -> Result<(), Failure> {
    report.area("values");
    let create = "CREATE TABLE values (id int PRIMARY KEY, t text, b blob, d double, l list<int>, \
                  s set<text>, m map<text, bigint>, moment timestamp, span duration, \
                  pair tuple<int, text>)";
    session.query_unpaged(create, ()).await?;
    type Row = (
        String,
        Vec<u8>,
        f64,
        Vec<i32>,
        Vec<String>,
        Vec<(String, i64)>,
        CqlTimestamp,
        CqlDuration,
        (i32, String),
    );
    let row = || -> Row {
        let span = CqlDuration {
            months: 1,
            days: 2,
            nanoseconds: 3,
        };
        (
            "Grüße".to_owned(),
            vec![0, 255],
            1.5,
            vec![3, 1, 2],
            vec!["a".to_owned(), "b".to_owned()],
            vec![("k".to_owned(), i64::MAX)],
            CqlTimestamp(1_700_000_000_123),
            span,
            (1, "one".to_owned()),
        )
    };
    let (t, b, d, l, s, m, moment, span, pair) = row();
    let map: std::collections::BTreeMap<String, i64> = m.into_iter().collect();
    let insert = "INSERT INTO values (id, t, b, d, l, s, m, moment, span, pair) \
                  VALUES (1, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
    session
        .query_unpaged(insert, (t, b, d, l, s, map, moment, span, pair))
        .await?;
    let select = "SELECT t, b, d, l, s, m, moment, span, pair FROM values WHERE id = 1";
    let found = session
        .query_unpaged(select, ())
        .await?
        .into_rows_result()?;
    type Read = (
        String,
        Vec<u8>,
        f64,
        Vec<i32>,
        Vec<String>,
        std::collections::BTreeMap<String, i64>,
        CqlTimestamp,
        CqlDuration,
        (i32, String),
    );
    let found = found.single_row::<Read>();
    report.check(
        "every type comes back as it was",
        row(),
        found.map(|(t, b, d, l, s, m, moment, span, pair)| {
            (t, b, d, l, s, m.into_iter().collect(), moment, span, pair)
        }),
    );
    session
        .query_unpaged("UPDATE values SET t = null, l = [] WHERE id = 1", ())
        .await?;
    let select = "SELECT t, l FROM values WHERE id = 1";
    let found = session
        .query_unpaged(select, ())
        .await?
        .into_rows_result()?;
    report.check(
        "what is set to nothing is null",
        (None, None),
        found.single_row::<(Option<String>, Option<Vec<i32>>)>(),
    );
    Ok(())
}

async fn pages(session: &Session, report: &mut Report) -> Result<(), Failure> {
    report.area("paging");
    session
        .query_unpaged("CREATE TABLE pages (id int PRIMARY KEY)", ())
        .await?;
    let insert = session.prepare("INSERT INTO pages (id) VALUES (?)").await?;
    for id in 0..500 {
        session.execute_unpaged(&insert, (id,)).await?;
    }
    let select = Statement::new("SELECT id FROM pages").with_page_size(33);
    let rows = session
        .query_iter(select, ())
        .await?
        .rows_stream::<(i32,)>()?;
    let mut ids: Vec<i32> = rows.map_ok(|(id,)| id).try_collect().await?;
    ids.sort_unstable();
    report.check(
        "pages hold every row once",
        (0..500).collect(),
        Ok::<_, Failure>(ids),
    );
    let halves = [
        "SELECT id FROM pages WHERE token(id) <= 0",
        "SELECT id FROM pages WHERE token(id) > 0",
    ];
    let mut found = 0;
    for half in halves {
        found += numbers(session.query_unpaged(half, ()).await?)?.len();
    }
    report.check(
        "ranges of tokens hold every row once",
        500,
        Ok::<_, Failure>(found),
    );
    Ok(())
}

async fn changes(session: &Session, report: &mut Report) -> Result<(), Failure> {
    report.area("statements");
    let applied = |result: QueryResult| -> Result<bool, Failure> {
        let rows = result.into_rows_result()?;
        let row = rows.first_row::<scylla::value::Row>()?;
        let first = row.columns.into_iter().next().flatten();
        Ok(first
            .and_then(|value| value.as_boolean())
            .unwrap_or_default())
    };
    let again = "INSERT INTO single (id, v) VALUES (7, 0) IF NOT EXISTS";
    report.check(
        "a condition that does not hold",
        false,
        applied(session.query_unpaged(again, ()).await?),
    );
    let change = "UPDATE single SET v = 50 WHERE id = 7 IF v = 49";
    report.check(
        "a condition that holds",
        true,
        applied(session.query_unpaged(change, ()).await?),
    );
    let mut batch = Batch::new(BatchType::Logged);
    batch.append_statement("UPDATE single SET v = ? WHERE id = 1");
    batch.append_statement("DELETE FROM single WHERE id = ?");
    session.batch(&batch, ((100,), (2,))).await?;
    let select = "SELECT v FROM single WHERE id IN (1, 2)";
    report.check(
        "a batch does all of it",
        vec![100],
        numbers(session.query_unpaged(select, ()).await?),
    );
    session
        .query_unpaged("CREATE TABLE counts (id int PRIMARY KEY, n counter)", ())
        .await?;
    for _ in 0..3 {
        session
            .query_unpaged("UPDATE counts SET n = n + 2 WHERE id = 1", ())
            .await?;
    }
    let found = session
        .query_unpaged("SELECT n FROM counts", ())
        .await?
        .into_rows_result()?;
    report.check("a counter", (Counter(6),), found.single_row::<(Counter,)>());
    let older = "INSERT INTO single (id, v) VALUES (1, 0) USING TIMESTAMP 1";
    session.query_unpaged(older, ()).await?;
    let select = "SELECT v FROM single WHERE id = 1";
    report.check(
        "the last write wins",
        vec![100],
        numbers(session.query_unpaged(select, ()).await?),
    );
    Ok(())
}

async fn refusals(session: &Session, report: &mut Report) -> Result<(), Failure> {
    report.area("statements");
    let refusal = |error: &ExecutionError| match error {
        ExecutionError::LastAttemptError(RequestAttemptError::DbError(error, _)) => {
            Some(error.clone())
        }
        _ => None,
    };
    report.refused(
        "no such table",
        |error| refusal(error) == Some(DbError::Invalid),
        session.query_unpaged("SELECT * FROM nowhere", ()).await,
    );
    report.refused(
        "what is no CQL",
        |error| refusal(error) == Some(DbError::SyntaxError),
        session.query_unpaged("SELEC 1", ()).await,
    );
    report.refused(
        "a table that exists",
        |error| matches!(refusal(error), Some(DbError::AlreadyExists { .. })),
        session
            .query_unpaged("CREATE TABLE single (id int PRIMARY KEY)", ())
            .await,
    );
    Ok(())
}

async fn compressions(
    options: &Options,
    keyspace: &str,
    report: &mut Report,
) -> Result<(), Failure> {
    report.area("connection");
    for (name, compression) in [("lz4", Compression::Lz4), ("snappy", Compression::Snappy)] {
        let session = connect(options, Some(compression)).await?;
        let select = format!("SELECT v FROM {keyspace}.single WHERE id = 3");
        report.check(
            &format!("frames compressed with {name}"),
            vec![9],
            numbers(session.query_unpaged(select, ()).await?),
        );
    }
    Ok(())
}
