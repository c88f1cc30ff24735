//! Cursors, sessions and transactions: they are their owners' alone, and show them no more than
//! their roles allow by now.

use bson::spec::BinarySubtype;
use bson::{Binary, Bson, Document, doc};

use super::attacks::{REFUSED, aggregate, code, nested, on, readers, refuses, shop, user};

fn session(number: u8) -> Document {
    let id = Bson::Binary(Binary {
        subtype: BinarySubtype::Uuid,
        bytes: vec![number; 16],
    });
    doc! { "id": id }
}

#[tokio::test]
async fn cursors_and_sessions_are_their_owners() {
    let (service, mut root) = shop().await;
    let roles = vec![Bson::from("readWrite")];
    let mut ada = user((&service, &mut root), ("ada", "shop"), vec![], roles).await;
    let mut stranger = service.connect();
    let lsid = session(7);
    for with_session in [false, true] {
        let mut find = doc! { "find": "public", "batchSize": 2 };
        if with_session {
            find.insert("lsid", lsid.clone());
        }
        let opened = root.must("shop", find).await;
        let id = opened
            .get_document("cursor")
            .unwrap()
            .get_i64("id")
            .unwrap();
        let mut more = doc! { "getMore": id, "collection": "public", "batchSize": 2 };
        if with_session {
            more.insert("lsid", lsid.clone());
        }
        let mut elsewhere = more.clone();
        elsewhere.insert("collection", "secret");
        refuses(&mut ada, "shop", more.clone()).await;
        refuses(&mut ada, "shop", elsewhere).await;
        for name in ["public", "secret"] {
            let kill = doc! { "killCursors": name, "cursors": [id] };
            refuses(&mut ada, "shop", kill).await;
        }
        for client in [&mut ada, &mut stranger] {
            client
                .must("admin", doc! { "endSessions": [lsid.clone()] })
                .await;
        }
        ada.must("admin", doc! { "killSessions": [lsid.clone()] })
            .await;
        ada.must("admin", doc! { "killSessions": [] }).await;
        root.must("shop", more).await;
    }
}

/// Commands that leave a cursor open, with what else than the first collection they read.
fn openers() -> Vec<(Document, &'static str)> {
    let cursor = doc! { "batchSize": 2 };
    let over = |stages: Vec<Document>, of: &'static str| {
        let command = doc! { "aggregate": "public", "pipeline": stages, "cursor": cursor.clone() };
        (command, of)
    };
    let mut all = vec![
        (doc! { "find": "public", "batchSize": 2 }, "public"),
        (
            doc! { "find": "public", "sort": { "x": -1 }, "batchSize": 2 },
            "public",
        ),
        (
            doc! { "find": "public", "filter": { "x": { "$gt": 1 } }, "batchSize": 2 },
            "public",
        ),
        (doc! { "find": "view", "batchSize": 2 }, "view"),
        over(vec![], "public"),
        over(vec![doc! { "$changeStream": {} }], "public"),
    ];
    let readers = readers("secret")
        .into_iter()
        .flat_map(|stage| nested(&stage));
    all.extend(readers.map(|stage| over(vec![stage, doc! { "$limit": 30 }], "secret")));
    all
}

/// MongoDB checks the privileges of the first command for every batch.
#[tokio::test]
async fn a_cursor_reads_no_further_than_its_user_may_by_now() {
    let (service, mut root) = shop().await;
    root.must(
        "shop",
        doc! { "create": "view", "viewOn": "public", "pipeline": [] },
    )
    .await;
    let names = ["public", "secret", "view"];
    let privileges = names.map(|name| on("shop", name, &["find", "changeStream"]));
    let mut ada = user(
        (&service, &mut root),
        ("ada", "shop"),
        privileges.to_vec(),
        vec![],
    )
    .await;
    let mut refused = 0;
    for (command, of) in openers() {
        let opened = ada.must("shop", command.clone()).await;
        let id = opened
            .get_document("cursor")
            .unwrap()
            .get_i64("id")
            .unwrap();
        if id == 0 {
            // Everything is in one document.
            continue;
        }
        let name = command.get_str("find").unwrap_or("public");
        let more = doc! { "getMore": id, "collection": name, "batchSize": 1 };
        let waits = command.to_string().contains("$changeStream");
        let more = match waits {
            true => {
                let mut more = more;
                more.insert("maxTimeMS", 1);
                more
            }
            false => more,
        };
        ada.must("shop", more.clone()).await;
        let revoke = doc! {
            "revokePrivilegesFromRole": "of ada", "privileges": [on("shop", of, &["find"])],
        };
        root.must("shop", revoke).await;
        refuses(&mut ada, "shop", more.clone()).await;
        refused += 1;
        let grant = doc! {
            "grantPrivilegesToRole": "of ada", "privileges": [on("shop", of, &["find"])],
        };
        root.must("shop", grant).await;
        ada.must("shop", more.clone()).await;
        // And none that is revoked from the user as a whole.
        let roles = doc! { "revokeRolesFromUser": "ada", "roles": ["of ada"] };
        root.must("shop", roles).await;
        refuses(&mut ada, "shop", more).await;
        let roles = doc! { "grantRolesToUser": "ada", "roles": ["of ada"] };
        root.must("shop", roles).await;
    }
    assert!(refused > 20, "{refused}");
}

/// Events that come after the role is gone are not shown to who waits for them.
#[tokio::test]
async fn a_change_stream_that_waits_shows_nothing_once_its_role_is_revoked() {
    let (service, mut root) = shop().await;
    let privileges = vec![on("shop", "public", &["find", "changeStream"])];
    let mut ada = user((&service, &mut root), ("ada", "shop"), privileges, vec![]).await;
    for action in ["find", "changeStream"] {
        let opened = ada
            .must("shop", aggregate(vec![doc! { "$changeStream": {} }]))
            .await;
        let id = opened
            .get_document("cursor")
            .unwrap()
            .get_i64("id")
            .unwrap();
        let more = doc! { "getMore": id, "collection": "public", "maxTimeMS": 20_000 };
        let waiting = tokio::spawn(async move {
            let reply = ada.run("shop", more).await;
            (ada, reply)
        });
        let revoke = doc! {
            "revokePrivilegesFromRole": "of ada", "privileges": [on("shop", "public", &[action])],
        };
        root.must("shop", revoke).await;
        let insert = doc! { "insert": "public", "documents": [{ "_id": action }] };
        root.must("shop", insert).await;
        let reply;
        (ada, reply) = waiting.await.unwrap();
        assert_eq!(reply.get_i32("code").unwrap_or(0), REFUSED, "{reply}");
        let grant = doc! {
            "grantPrivilegesToRole": "of ada", "privileges": [on("shop", "public", &[action])],
        };
        root.must("shop", grant).await;
    }
}

#[tokio::test]
async fn nobody_ends_the_transaction_of_another() {
    let (service, mut root) = shop().await;
    let roles = vec![Bson::from("readWrite")];
    let mut ada = user((&service, &mut root), ("ada", "shop"), vec![], roles).await;
    let mut stranger = service.connect();
    let lsid = session(7);
    let within = |mut command: Document| {
        command.extend(doc! { "lsid": lsid.clone(), "txnNumber": 1i64, "autocommit": false });
        command
    };
    let mut first = within(doc! { "insert": "public", "documents": [{ "_id": "t" }] });
    first.insert("startTransaction", true);
    root.must("shop", first).await;
    for end in ["commitTransaction", "abortTransaction"] {
        assert_eq!(
            code(&mut ada, "admin", within(doc! { end: 1 })).await,
            251,
            "{end}"
        );
    }
    let read = within(doc! { "find": "public" });
    assert_eq!(code(&mut ada, "shop", read).await, 251);
    for client in [&mut ada, &mut stranger] {
        client
            .must("admin", doc! { "endSessions": [lsid.clone()] })
            .await;
    }
    // A numbered write of the same session is another's, and ends nothing.
    let numbered = doc! {
        "insert": "public", "documents": [{ "_id": "n" }], "lsid": lsid.clone(), "txnNumber": 9i64,
    };
    ada.must("shop", numbered.clone()).await;
    root.must("admin", within(doc! { "commitTransaction": 1 }))
        .await;
    let mut again = numbered;
    again.insert("documents", vec![doc! { "_id": "m" }]);
    root.must("shop", again).await;
    let count = doc! { "count": "public", "query": { "_id": { "$in": ["t", "n", "m"] } } };
    let count = root.must("shop", count).await;
    assert_eq!(count.get_i32("n").unwrap(), 3);
}

#[tokio::test]
async fn nobody_fills_the_sessions_before_they_log_in() {
    let (service, mut root) = shop().await;
    let mut stranger = service.connect();
    for number in 0..50 {
        let ping = doc! { "ping": 1, "lsid": session(number) };
        stranger.must("admin", ping).await;
    }
    let status = root.must("admin", doc! { "serverStatus": 1 }).await;
    let sessions = status.get_document("logicalSessionRecordCache").unwrap();
    assert_eq!(sessions.get_i32("activeSessionsCount").unwrap(), 0);
}
