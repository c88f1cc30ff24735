//! The statements of the rules, by a role that may do everything in another keyspace where the same
//! names are: as text, prepared by others in theirs, and in batches with statements of its own.

use super::{Rule, root_and_eve, rules};
use crate::error::ErrorKind;
use crate::parser::parse;
use crate::statement::Statement;
use crate::testing::{Client, Tester};
use crate::wire::{
    Batch, BatchKind, BatchQuery, Consistency, Execute, Parameters, Prepare, Query, QueryOrId,
    Request, Response, ResultBody, Version,
};

fn parameters() -> Parameters<'static> {
    Parameters::new(Consistency::One)
}

async fn logged_in(tester: &Tester, token: &[u8]) -> Client {
    let mut client = Client::started(&tester.service, Version::V5, None).await;
    let response = client.ask(Request::AuthResponse(Some(token))).await;
    assert!(matches!(response, Response::AuthSuccess(_)), "{response:?}");
    client
}

fn batch<'a>(queries: &[QueryOrId<'a>]) -> Request<'a> {
    let query = |query: &QueryOrId<'a>| BatchQuery {
        query: *query,
        values: Vec::new(),
    };
    Request::Batch(Batch {
        kind: BatchKind::Logged,
        queries: queries.iter().map(query).collect(),
        parameters: parameters(),
    })
}

fn execute(id: &[u8]) -> Request<'_> {
    Request::Execute(Execute {
        id,
        result_metadata_id: Some(&[]),
        parameters: parameters(),
    })
}

fn is_change(text: &str) -> bool {
    matches!(
        parse(text).unwrap().statement,
        Statement::Insert(_)
            | Statement::InsertJson(_)
            | Statement::Update(_)
            | Statement::Delete(_)
    )
}

async fn id_of(client: &mut Client, query: &str) -> Vec<u8> {
    let prepare = Prepare {
        query,
        keyspace: None,
    };
    match client.ask(Request::Prepare(prepare)).await {
        Response::Result(ResultBody::Prepared(prepared)) => prepared.id,
        other => panic!("{query}: {other:?}"),
    }
}

fn assert_refused(response: &Response, what: &str) {
    let Response::Error(error) = response else {
        panic!("{what}: {response:?}");
    };
    assert_eq!(error.kind, ErrorKind::Unauthorized, "{what}: {error:?}");
}

#[tokio::test]
async fn no_way_leads_around_a_refusal() {
    let (root, _) = root_and_eve().await;
    root.ok(&[
        "GRANT ALL ON KEYSPACE other TO eve",
        "GRANT ALL ON ALL FUNCTIONS IN KEYSPACE other TO eve",
    ])
    .await;
    let mut theirs = logged_in(&root, b"\0root\0r").await;
    let mut own = logged_in(&root, b"\0eve\0e").await;
    theirs.query("USE ks").await;
    own.query("USE other").await;
    let mine = "INSERT INTO t (k, v) VALUES (5, 5)";
    let mine_by_id = id_of(&mut own, mine).await;
    for (text, rule) in rules() {
        if matches!(&rule, Rule::Grants(needed) if needed.is_empty()) {
            continue;
        }
        let short = text.replace("ks.", "");
        let by_keyspace = Query {
            query: &short,
            parameters: Parameters {
                keyspace: Some("ks"),
                ..parameters()
            },
        };
        let prepare = |query, keyspace| Request::Prepare(Prepare { query, keyspace });
        let id = id_of(&mut theirs, &short).await;
        let mut ways = vec![
            (own.query(text).await, "QUERY"),
            (own.ask(Request::Query(by_keyspace)).await, "QUERY there"),
            (own.ask(prepare(text, None)).await, "PREPARE"),
            (own.ask(prepare(&short, Some("ks"))).await, "PREPARE there"),
            (own.ask(execute(&id)).await, "EXECUTE"),
        ];
        if is_change(text) {
            let theirs = [QueryOrId::Id(&id), QueryOrId::Query(text)];
            for theirs in theirs {
                let alone = batch(&[theirs]);
                ways.push((own.ask(alone).await, "BATCH"));
                for mine in [QueryOrId::Query(mine), QueryOrId::Id(&mine_by_id)] {
                    let mixed = batch(&[mine, theirs]);
                    ways.push((own.ask(mixed).await, "BATCH after"));
                    let mixed = batch(&[theirs, mine]);
                    ways.push((own.ask(mixed).await, "BATCH before"));
                }
            }
        }
        for (response, way) in ways {
            assert_refused(&response, &format!("{way} {text}"));
        }
    }
    // Nothing was done, not even the own half of a batch.
    for (text, rows) in [
        (
            "SELECT * FROM ks.t WHERE k = 1 AND v = 2 ALLOW FILTERING",
            1,
        ),
        ("SELECT * FROM ks.t", 1),
        ("SELECT * FROM other.t", 0),
    ] {
        match root.ok(&[text]).await.body {
            ResultBody::Rows(found) => assert_eq!(found.len(), rows, "{text}"),
            other => panic!("{other:?}"),
        }
    }
    let done = own.ask(batch(&[QueryOrId::Id(&mine_by_id)])).await;
    assert_eq!(done, Response::Result(ResultBody::Void));
}

/// A view is made of a table of its own keyspace, whatever the session's is.
#[tokio::test]
async fn a_view_shows_no_other_keyspace() {
    let (root, eve) = root_and_eve().await;
    root.ok(&["GRANT ALL ON KEYSPACE other TO eve"]).await;
    eve.ok(&["USE other"]).await;
    let rest = "WHERE k IS NOT NULL AND v IS NOT NULL PRIMARY KEY (v, k)";
    for (view, table) in [("ks.x", "t"), ("ks.x", "ks.t"), ("ks.x", "other.t")] {
        let text = format!("CREATE MATERIALIZED VIEW {view} AS SELECT * FROM {table} {rest}");
        let words = eve.refused(&text).await;
        assert_eq!(
            words, "User eve has no ALTER permission on <table ks.t> or any of its parents",
            "{text}"
        );
    }
    let words = eve.refused("SELECT * FROM ks.mv").await;
    assert!(
        words.contains("SELECT permission on <table ks.t>"),
        "{words}"
    );
    // What was granted on the view alone is not enough to read its table.
    root.ok(&["GRANT ALL ON ks.mv TO eve"]).await;
    eve.refused("SELECT * FROM ks.mv").await;
    root.ok(&["GRANT SELECT ON ks.t TO eve"]).await;
    eve.ok(&["SELECT * FROM ks.mv"]).await;
}
