//! Walks over the MongoDB front end with the Rust driver.
//!
//! ```text
//! cargo run --release --bin mongo -- mongodb://127.0.0.1:27017 [--ca FILE] [--compressors NAMES]
//! ```

use std::process::ExitCode;
use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _};
use mongodb::bson::{Bson, DateTime, Decimal128, Document, doc, oid::ObjectId};
use mongodb::error::{Error, ErrorKind, Result, WriteFailure};
use mongodb::options::{ClientOptions, Compressor, IndexOptions, ReturnDocument, Tls, TlsOptions};
use mongodb::{Client, ClientSession, Collection, Database, IndexModel};
use tessera_walks::{Options, Report, unique_name};

#[tokio::main]
async fn main() -> ExitCode {
    tessera_walks::run(|options| async move { Ok(walk(&options).await?) }).await
}

async fn connect(options: &Options) -> Result<Client> {
    let mut settings = ClientOptions::parse(&options.endpoint).await?;
    settings.server_selection_timeout = Some(Duration::from_secs(5));
    if let Some(certificate) = &options.certificate {
        let tls = TlsOptions::builder()
            .ca_file_path(certificate.clone())
            .build();
        settings.tls = Some(Tls::Enabled(tls));
    }
    let compressor = |name: &String| match name.as_str() {
        "snappy" => Some(Compressor::Snappy),
        "zlib" => Some(Compressor::Zlib { level: None }),
        "zstd" => Some(Compressor::Zstd { level: None }),
        _ => None,
    };
    if !options.compressors.is_empty() {
        settings.compressors = Some(options.compressors.iter().filter_map(compressor).collect());
    }
    Client::with_options(settings)
}

async fn walk(options: &Options) -> Result<Report> {
    let client = connect(options).await?;
    let database = client.database(&unique_name());
    let mut report = Report::default();
    let walked = async {
        documents(&database, &mut report).await?;
        cursors(&database, &mut report).await?;
        indexes(&database, &mut report).await?;
        transactions(&client, &database, &mut report).await?;
        sharding(&client, &database, &mut report).await
    };
    let walked = walked.await;
    database.drop().await?;
    walked.map(|()| report)
}

/// The code of a refusal, whatever it refused.
fn code(error: &Error) -> Option<i32> {
    match &*error.kind {
        ErrorKind::Command(refusal) => Some(refusal.code),
        ErrorKind::Write(WriteFailure::WriteError(refusal)) => Some(refusal.code),
        ErrorKind::InsertMany(many) => many.write_errors.as_ref()?.first().map(|one| one.code),
        _ => None,
    }
}

async fn documents(database: &Database, report: &mut Report) -> Result<()> {
    report.area("documents");
    let all: Collection<Document> = database.collection("documents");
    let inserted = all.insert_one(doc! { "_id": 1, "n": 1 }).await;
    report.check(
        "insert_one: the id that was given",
        Bson::Int32(1),
        inserted.map(|it| it.inserted_id),
    );
    report.refused(
        "insert_one: the same id again",
        |error| code(error) == Some(11_000),
        all.insert_one(doc! { "_id": 1 }).await,
    );
    let every_type = doc! {
        "_id": "all", "double": 1.5, "text": "Grüße", "document": { "a": { "b": 1 } },
        "list": [1, "2", [3]], "id": ObjectId::from_bytes([7; 12]), "true": true,
        "date": DateTime::from_millis(1_700_000_000_123), "null": null,
        "long": 9_007_199_254_740_993_i64, "least": Bson::MinKey, "most": Bson::MaxKey,
        "decimal": "1.10".parse::<Decimal128>().expect("a decimal"),
    };
    all.insert_one(&every_type).await?;
    report.check(
        "every type comes back as it was",
        Some(every_type),
        all.find_one(doc! { "_id": "all" }).await,
    );
    let many = all
        .insert_many([doc! { "_id": 2 }, doc! { "_id": 1 }, doc! { "_id": 3 }])
        .ordered(false);
    report.refused(
        "insert_many in no order: the one that is there",
        |error| code(error) == Some(11_000),
        many.await,
    );
    report.check(
        "insert_many in no order goes on after an error",
        4,
        all.count_documents(doc! {}).await,
    );
    let change = doc! { "$inc": { "n": 1 }, "$push": { "list": { "$each": [1, 2] } } };
    let updated = all.update_one(doc! { "_id": 1 }, change).await;
    report.check(
        "update_one",
        (1, 1),
        updated.map(|it| (it.matched_count, it.modified_count)),
    );
    let upserted = all
        .update_one(doc! { "_id": 9 }, doc! { "$set": { "n": 9 } })
        .upsert(true);
    report.check(
        "update_one that inserts",
        Some(Bson::Int32(9)),
        upserted.await.map(|it| it.upserted_id),
    );
    let after = all
        .find_one_and_update(doc! { "_id": 1 }, doc! { "$mul": { "n": 5 } })
        .return_document(ReturnDocument::After);
    report.check(
        "find_one_and_update: after",
        Some(doc! { "_id": 1, "n": 10, "list": [1, 2] }),
        after.await,
    );
    report.check(
        "delete_many",
        3,
        all.delete_many(doc! { "_id": { "$in": [2, 3, 9] } })
            .await
            .map(|it| it.deleted_count),
    );
    report.refused(
        "an operator that does not exist",
        |error| code(error) == Some(2),
        all.find_one(doc! { "n": { "$nope": 1 } }).await,
    );
    Ok(())
}

async fn cursors(database: &Database, report: &mut Report) -> Result<()> {
    report.area("cursors");
    let all: Collection<Document> = database.collection("cursors");
    all.insert_many((0..250).map(|n| doc! { "_id": n, "even": n % 2 == 0 }))
        .await?;
    let ids = |documents: Vec<Document>| -> Vec<i32> {
        documents
            .iter()
            .filter_map(|it| it.get_i32("_id").ok())
            .collect()
    };
    let sorted = all
        .find(doc! { "even": true })
        .sort(doc! { "_id": -1 })
        .batch_size(7)
        .await?;
    report.check(
        "find in batches, sorted backwards",
        (0..250).rev().filter(|n| n % 2 == 0).collect(),
        sorted.try_collect().await.map(ids),
    );
    let few = all
        .find(doc! {})
        .sort(doc! { "_id": 1 })
        .skip(10)
        .limit(3)
        .await?;
    report.check(
        "skip and limit",
        vec![10, 11, 12],
        few.try_collect().await.map(ids),
    );
    let mut dropped = all.find(doc! {}).batch_size(2).await?;
    report.check(
        "the first of a cursor that is not read to its end",
        true,
        dropped
            .next()
            .await
            .unwrap_or(Ok(Document::new()))
            .map(|it| !it.is_empty()),
    );
    drop(dropped);
    let groups = all
        .aggregate([
            doc! { "$match": { "_id": { "$lt": 10 } } },
            doc! { "$group": { "_id": "$even", "sum": { "$sum": "$_id" } } },
            doc! { "$sort": { "_id": 1 } },
        ])
        .await?;
    report.check(
        "aggregate",
        vec![
            doc! { "_id": false, "sum": 25 },
            doc! { "_id": true, "sum": 20 },
        ],
        groups.try_collect().await,
    );
    report.check(
        "distinct",
        vec![Bson::Boolean(false), Bson::Boolean(true)],
        all.distinct("even", doc! {}).await,
    );
    Ok(())
}

async fn indexes(database: &Database, report: &mut Report) -> Result<()> {
    report.area("indexes");
    let all: Collection<Document> = database.collection("indexes");
    let unique = IndexOptions::builder().unique(true).build();
    let model = IndexModel::builder()
        .keys(doc! { "email": 1 })
        .options(unique)
        .build();
    report.check(
        "create_index",
        "email_1".to_owned(),
        all.create_index(model).await.map(|it| it.index_name),
    );
    all.insert_one(doc! { "_id": 1, "email": "a@b" }).await?;
    report.refused(
        "a value that must be unique",
        |error| code(error) == Some(11_000),
        all.insert_one(doc! { "_id": 2, "email": "a@b" }).await,
    );
    report.check(
        "list_index_names",
        vec!["_id_".to_owned(), "email_1".to_owned()],
        all.list_index_names().await,
    );
    let plan = database
        .run_command(doc! {
            "explain": { "find": "indexes", "filter": { "email": "a@b" } },
            "verbosity": "executionStats",
        })
        .await;
    report.check(
        "explain: one key for one document",
        Some(1),
        plan.map(|it| {
            let stats = it.get_document("executionStats").ok()?;
            stats.get("totalKeysExamined")?.as_i32()
        }),
    );
    Ok(())
}

async fn transfer(accounts: &Collection<Document>, session: &mut ClientSession) -> Result<()> {
    for (id, change) in [("a", -3), ("b", 3)] {
        let change = doc! { "$inc": { "n": change } };
        accounts
            .update_one(doc! { "_id": id }, change)
            .session(&mut *session)
            .await?;
    }
    Ok(())
}

async fn transactions(client: &Client, database: &Database, report: &mut Report) -> Result<()> {
    report.area("transactions");
    let accounts: Collection<Document> = database.collection("accounts");
    let opened = [doc! { "_id": "a", "n": 10 }, doc! { "_id": "b", "n": 0 }];
    accounts.insert_many(opened).await?;
    let balances = || async {
        let found = accounts.find(doc! {}).sort(doc! { "_id": 1 }).await?;
        let found: Vec<Document> = found.try_collect().await?;
        Ok::<_, Error>(
            found
                .iter()
                .filter_map(|it| it.get_i32("n").ok())
                .collect::<Vec<_>>(),
        )
    };
    let mut session = client.start_session().await?;
    session.start_transaction().await?;
    transfer(&accounts, &mut session).await?;
    report.check(
        "nobody sees an open transaction",
        vec![10, 0],
        balances().await,
    );
    session.commit_transaction().await?;
    report.check("commit", vec![7, 3], balances().await);
    report.check("commit again", (), session.commit_transaction().await);
    session.start_transaction().await?;
    transfer(&accounts, &mut session).await?;
    session.abort_transaction().await?;
    report.check("abort", vec![7, 3], balances().await);

    let mut other = client.start_session().await?;
    session.start_transaction().await?;
    other.start_transaction().await?;
    transfer(&accounts, &mut session).await?;
    report.refused(
        "the second writer is told at once",
        |error: &Error| {
            code(error) == Some(112) && error.contains_label("TransientTransactionError")
        },
        transfer(&accounts, &mut other).await,
    );
    session.commit_transaction().await?;
    other.abort_transaction().await.ok();
    report.check("the first writer's is done", vec![4, 6], balances().await);
    Ok(())
}

async fn sharding(client: &Client, database: &Database, report: &mut Report) -> Result<()> {
    report.area("sharding");
    let namespace = format!("{}.people", database.name());
    let answer = client
        .database("admin")
        .run_command(doc! { "shardCollection": &namespace, "key": { "city": "hashed" } })
        .await;
    report.check(
        "shardCollection",
        Some(namespace),
        answer.map(|it| it.get_str("collectionsharded").ok().map(str::to_owned)),
    );
    let people: Collection<Document> = database.collection("people");
    let all = (0..40).map(|n| doc! { "_id": n, "city": format!("c{}", n % 4) });
    people.insert_many(all).await?;
    report.check(
        "documents of one shard key",
        10,
        people.count_documents(doc! { "city": "c1" }).await,
    );
    report.refused(
        "a document without the shard key in a list",
        |error| code(error) == Some(61),
        people.insert_one(doc! { "_id": 41, "city": [1] }).await,
    );
    Ok(())
}
