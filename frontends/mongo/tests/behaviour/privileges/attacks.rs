//! What users with little try to get more: other collections through pipelines and views, other
//! databases through roles, other people's logins.

use bson::{Bson, Document, doc};

use crate::client::{Client, Service};
use crate::login::connect_as;

pub(super) const REFUSED: i32 = 13;

/// A server with two databases, and root.
pub(super) async fn shop() -> (Service, Client) {
    let service = Service::guarded().await;
    let mut root = connect_as(&service, "admin", ("root", "secret")).await;
    for (database, name) in [
        ("shop", "public"),
        ("shop", "secret"),
        ("other", "secret"),
        ("admin", "any"),
    ] {
        let documents: Vec<Document> = (0..20).map(|id| doc! { "_id": id, "x": id }).collect();
        let insert = doc! { "insert": name, "documents": documents };
        root.must(database, insert).await;
    }
    (service, root)
}

/// A user of a database with these privileges and roles.
pub(super) async fn user(
    (service, root): (&Service, &mut Client),
    (name, database): (&str, &str),
    privileges: Vec<Document>,
    roles: Vec<Bson>,
) -> Client {
    let role = format!("of {name}");
    let create = doc! { "createRole": &role, "privileges": privileges, "roles": roles };
    root.must(database, create).await;
    let create = doc! {
        "createUser": name, "pwd": "pw", "roles": [role], "mechanisms": ["SCRAM-SHA-256"],
    };
    root.must(database, create).await;
    connect_as(service, database, (name, "pw")).await
}

pub(super) fn on(database: &str, collection: &str, actions: &[&str]) -> Document {
    let actions: Vec<Bson> = actions.iter().map(|action| Bson::from(*action)).collect();
    doc! { "resource": { "db": database, "collection": collection }, "actions": actions }
}

pub(super) async fn code(client: &mut Client, database: &str, command: Document) -> i32 {
    let reply = client.run(database, command).await;
    reply.get_i32("code").unwrap_or(0)
}

pub(super) async fn refuses(client: &mut Client, database: &str, command: Document) {
    let text = command.to_string();
    assert_eq!(code(client, database, command).await, REFUSED, "{text}");
}

pub(super) fn aggregate(stages: Vec<Document>) -> Document {
    doc! { "aggregate": "public", "pipeline": stages, "cursor": {} }
}

/// Ways to read a collection from a pipeline.
pub(super) fn readers(of: &str) -> Vec<Document> {
    vec![
        doc! { "$unionWith": of },
        doc! { "$unionWith": { "coll": of } },
        doc! { "$unionWith": { "coll": of, "pipeline": [{ "$limit": 1 }] } },
        doc! { "$lookup": { "from": of, "localField": "_id", "foreignField": "_id", "as": "s" } },
        doc! { "$lookup": { "from": of, "pipeline": [{ "$limit": 1 }], "as": "s" } },
        doc! { "$lookup": {
            "from": of, "let": { "x": "$x" }, "as": "s",
            "pipeline": [{ "$match": { "$expr": { "$eq": ["$x", "$$x"] } } }],
        } },
        doc! { "$graphLookup": {
            "from": of, "startWith": "$_id", "connectFromField": "_id", "connectToField": "_id",
            "as": "s",
        } },
    ]
}

/// The same within other stages, which name what may be read.
pub(super) fn nested(stage: &Document) -> Vec<Document> {
    let one = vec![stage.clone()];
    let lookup = doc! { "$lookup": { "from": "public", "pipeline": one.clone(), "as": "l" } };
    let union = doc! { "$unionWith": { "coll": "public", "pipeline": one.clone() } };
    let own = doc! { "$unionWith": { "pipeline": [{ "$documents": [{}] }, stage.clone()] } };
    let deep = doc! { "$lookup": {
        "from": "public", "pipeline": [{ "$facet": { "f": [union.clone()] } }], "as": "d",
    } };
    vec![
        stage.clone(),
        lookup.clone(),
        union,
        own,
        doc! { "$facet": { "f": one, "g": [] } },
        doc! { "$facet": { "f": [lookup.clone()] } },
        doc! { "$unionWith": { "coll": "public", "pipeline": [lookup] } },
        deep,
    ]
}

#[tokio::test]
async fn a_pipeline_reads_only_what_its_user_may() {
    let (service, mut root) = shop().await;
    let privileges = vec![on("shop", "public", &["find"])];
    let mut ada = user((&service, &mut root), ("ada", "shop"), privileges, vec![]).await;
    ada.must("shop", aggregate(vec![])).await;
    for (of, allowed) in [("public", true), ("secret", false), ("not there", false)] {
        for stage in readers(of).iter().flat_map(nested) {
            let expected = if allowed { 0 } else { REFUSED };
            let limited = vec![doc! { "$limit": 1 }, stage.clone()];
            let command = aggregate(limited.clone());
            assert_eq!(code(&mut ada, "shop", command).await, expected, "{stage}");
            let explain = doc! { "explain": aggregate(limited) };
            assert_eq!(code(&mut ada, "shop", explain).await, expected, "{stage}");
        }
    }
    let mut reader = {
        let roles = vec![Bson::from(
            doc! { "role": "readAnyDatabase", "db": "admin" },
        )];
        user((&service, &mut root), ("eve", "admin"), vec![], roles).await
    };
    for of in ["system.users", "system.roles"] {
        for stage in readers(of) {
            let mut command = aggregate(vec![stage]);
            command.insert("aggregate", "any");
            refuses(&mut reader, "admin", command).await;
        }
        for command in [
            doc! { "find": of },
            doc! { "count": of },
            doc! { "distinct": of, "key": "credentials" },
            doc! { "aggregate": of, "pipeline": [], "cursor": {} },
            doc! { "explain": { "find": of } },
            doc! { "explain": { "distinct": of, "key": "credentials" } },
            doc! { "explain": { "count": of } },
            doc! { "dataSize": format!("admin.{of}") },
            doc! { "aggregate": 1, "pipeline": [{ "$documents": [] }, { "$unionWith": of }],
            "cursor": {} },
        ] {
            refuses(&mut reader, "admin", command).await;
        }
    }
}

#[tokio::test]
async fn a_pipeline_writes_only_where_its_user_may() {
    let (service, mut root) = shop().await;
    let privileges = vec![
        on("shop", "public", &["find", "insert", "update", "remove"]),
        on("shop", "inserts", &["insert"]),
        on("shop", "updates", &["update"]),
        on("shop", "replaced", &["insert", "remove"]),
    ];
    let mut ada = user((&service, &mut root), ("ada", "shop"), privileges, vec![]).await;
    let merge = |into: &str, matched: &str, not_matched: &str| {
        doc! { "$merge": { "into": into, "whenMatched": matched, "whenNotMatched": not_matched } }
    };
    for (stage, expected) in [
        (doc! { "$out": "public" }, 0),
        (doc! { "$out": "replaced" }, 0),
        (doc! { "$out": "inserts" }, REFUSED),
        (doc! { "$out": "secret" }, REFUSED),
        (
            doc! { "$out": { "db": "other", "coll": "public" } },
            REFUSED,
        ),
        (merge("public", "merge", "insert"), 0),
        (merge("inserts", "fail", "insert"), 0),
        (merge("inserts", "merge", "insert"), REFUSED),
        (merge("inserts", "keepExisting", "insert"), REFUSED),
        (merge("updates", "merge", "discard"), 0),
        (merge("updates", "replace", "insert"), REFUSED),
        (merge("secret", "fail", "insert"), REFUSED),
        (
            doc! { "$merge": { "into": { "db": "other", "coll": "secret" } } },
            REFUSED,
        ),
    ] {
        let found = code(
            &mut ada,
            "shop",
            aggregate(vec![doc! { "$limit": 1 }, stage.clone()]),
        );
        assert_eq!(found.await, expected, "{stage}");
    }
}

/// A document whose fields may be there more than once.
fn repeated(fields: &[(&str, Bson)]) -> Vec<u8> {
    let mut body = Vec::new();
    for (name, value) in fields {
        let one = doc! { *name: value.clone() }.to_vec().unwrap();
        body.extend_from_slice(&one[4..one.len() - 1]);
    }
    framed(body)
}

fn framed(mut body: Vec<u8>) -> Vec<u8> {
    body.push(0);
    let length = i32::try_from(body.len() + 4).unwrap().to_le_bytes();
    [&length[..], &body].concat()
}

/// A field that holds bytes which are a document, or an array, already.
fn field(kind: u8, name: &str, value: &[u8]) -> Vec<u8> {
    [&[kind], name.as_bytes(), &[0], value].concat()
}

#[tokio::test]
async fn a_field_that_is_sent_twice_means_the_same_to_the_check() {
    let (service, mut root) = shop().await;
    let roles = vec![Bson::from("readWrite")];
    let mut ada = user((&service, &mut root), ("ada", "shop"), vec![], roles).await;
    let names = |pairs: &[(&str, &str)]| {
        let pairs: Vec<(&str, Bson)> = pairs.iter().map(|(k, v)| (*k, Bson::from(*v))).collect();
        repeated(&pairs)
    };
    let into = |value: Vec<u8>| ("$merge", framed(field(3, "into", &value)));
    for (stage, argument) in [
        into(names(&[
            ("db", "shop"),
            ("coll", "public"),
            ("db", "other"),
            ("coll", "secret"),
        ])),
        into(names(&[
            ("db", "shop"),
            ("db", "other"),
            ("coll", "public"),
        ])),
        into(names(&[
            ("db", "other"),
            ("db", "shop"),
            ("coll", "public"),
        ])),
        into(names(&[
            ("coll", "public"),
            ("coll", "secret"),
            ("db", "other"),
        ])),
        ("$merge", names(&[("into", "public"), ("into", "planted")])),
        (
            "$out",
            names(&[
                ("db", "shop"),
                ("coll", "o"),
                ("db", "other"),
                ("coll", "secret"),
            ]),
        ),
        (
            "$unionWith",
            names(&[("coll", "public"), ("coll", "secret")]),
        ),
    ] {
        let stage = framed(field(3, stage, &argument));
        let pipeline = framed(field(3, "0", &stage));
        let mut body = Vec::new();
        let head = doc! { "aggregate": "public" }.to_vec().unwrap();
        body.extend_from_slice(&head[4..head.len() - 1]);
        body.extend(field(4, "pipeline", &pipeline));
        let tail = doc! { "cursor": {}, "$db": "shop" }.to_vec().unwrap();
        body.extend_from_slice(&tail[4..tail.len() - 1]);
        let reply = ada.run_bytes(&framed(body)).await;
        let found = reply.get_i32("code").unwrap_or(0);
        assert!([REFUSED, 40_413].contains(&found), "{reply}");
    }
    let left = root.must("other", doc! { "count": "secret" }).await;
    assert_eq!(left.get_i32("n").unwrap(), 20);
    let names = root
        .must("other", doc! { "listCollections": 1, "nameOnly": true })
        .await;
    let names = names.get_document("cursor").unwrap();
    assert_eq!(names.get_array("firstBatch").unwrap().len(), 1);
}

#[tokio::test]
async fn a_view_shows_its_maker_nothing_new() {
    let (service, mut root) = shop().await;
    let privileges = vec![
        on("shop", "public", &["find"]),
        on(
            "shop",
            "v",
            &["find", "createCollection", "collMod", "dropCollection"],
        ),
        on("shop", "blind", &["createCollection"]),
    ];
    let mut ada = user((&service, &mut root), ("ada", "shop"), privileges, vec![]).await;
    let view = |name: &str, of: &str, pipeline: Vec<Document>| {
        doc! { "create": name, "viewOn": of, "pipeline": pipeline }
    };
    refuses(&mut ada, "shop", view("v", "secret", vec![])).await;
    for stage in readers("secret").iter().flat_map(nested) {
        refuses(&mut ada, "shop", view("v", "public", vec![stage])).await;
    }
    ada.must("shop", view("v", "public", vec![doc! { "$match": {} }]))
        .await;
    for stage in readers("secret") {
        let change = doc! { "collMod": "v", "viewOn": "public", "pipeline": [stage] };
        refuses(&mut ada, "shop", change).await;
    }
    let change = doc! { "collMod": "v", "viewOn": "secret", "pipeline": [] };
    refuses(&mut ada, "shop", change).await;
    let half = doc! { "collMod": "v", "viewOn": "secret" };
    assert_eq!(code(&mut ada, "shop", half).await, 72);
    ada.must("shop", doc! { "find": "v" }).await;
    // Who cannot read a view may make it of anything.
    ada.must("shop", view("blind", "secret", vec![])).await;
    refuses(&mut ada, "shop", doc! { "find": "blind" }).await;

    // To read a view it suffices to be allowed that.
    root.must("shop", view("window", "secret", readers("secret")))
        .await;
    let privileges = vec![on("shop", "window", &["find"])];
    let mut bob = user((&service, &mut root), ("bob", "shop"), privileges, vec![]).await;
    for command in [
        doc! { "find": "window" },
        doc! { "count": "window" },
        doc! { "distinct": "window", "key": "x" },
        doc! { "aggregate": "window", "pipeline": [], "cursor": {} },
        doc! { "aggregate": "window", "pipeline": [{ "$unionWith": "window" }], "cursor": {} },
        doc! { "explain": { "find": "window" } },
    ] {
        bob.must("shop", command).await;
    }
    refuses(&mut bob, "shop", doc! { "find": "secret" }).await;
}

#[tokio::test]
async fn the_users_of_one_database_stay_in_it() {
    let (service, mut root) = shop().await;
    let roles = vec![Bson::from("userAdmin")];
    let mut ua = user((&service, &mut root), ("ua", "shop"), vec![], roles).await;
    let resources = [
        doc! { "anyResource": true },
        doc! { "cluster": true },
        doc! { "db": "other", "collection": "" },
        doc! { "db": "other", "collection": "secret" },
        doc! { "db": "", "collection": "" },
        doc! { "db": "", "collection": "secret" },
        doc! { "db": "admin", "collection": "system.users" },
    ];
    let own = on("shop", "public", &["find"]);
    ua.must(
        "shop",
        doc! { "createRole": "mine", "privileges": [own.clone()], "roles": [] },
    )
    .await;
    for resource in resources {
        let privilege = doc! { "resource": resource, "actions": ["find"] };
        for privileges in [
            vec![privilege.clone()],
            vec![own.clone(), privilege.clone()],
        ] {
            for command in [
                doc! { "createRole": "god", "privileges": privileges.clone(), "roles": [] },
                doc! { "updateRole": "mine", "privileges": privileges.clone() },
                doc! { "grantPrivilegesToRole": "mine", "privileges": privileges.clone() },
                doc! { "revokePrivilegesFromRole": "mine", "privileges": privileges },
            ] {
                refuses(&mut ua, "shop", command).await;
            }
        }
    }
    let foreign = Bson::from(doc! { "role": "read", "db": "other" });
    let top = Bson::from(doc! { "role": "root", "db": "admin" });
    for role in [foreign, top] {
        for command in [
            doc! { "createRole": "god", "privileges": [], "roles": [role.clone()] },
            doc! { "grantRolesToRole": "mine", "roles": ["read", role.clone()] },
            doc! { "grantRolesToUser": "ua", "roles": [role.clone()] },
            doc! { "createUser": "evil", "pwd": "x", "roles": [role.clone()] },
            doc! { "updateUser": "ua", "roles": [role] },
        ] {
            refuses(&mut ua, "shop", command).await;
        }
    }
    for command in [
        doc! { "usersInfo": { "forAllDBs": true }, "showCredentials": true },
        doc! { "usersInfo": { "user": "root", "db": "admin" }, "showCredentials": true },
        doc! { "usersInfo": [{ "user": "ua", "db": "shop" }, { "user": "x", "db": "other" }] },
        doc! { "rolesInfo": [{ "role": "read", "db": "other" }] },
    ] {
        refuses(&mut ua, "shop", command).await;
    }
    ua.must("shop", doc! { "usersInfo": 1 }).await;
    ua.must("shop", doc! { "rolesInfo": "mine" }).await;
}

#[tokio::test]
async fn a_user_changes_of_themselves_what_their_roles_say_and_of_others_nothing() {
    let (service, mut root) = shop().await;
    let mut nobody = user((&service, &mut root), ("nobody", "shop"), vec![], vec![]).await;
    let own = vec![on(
        "shop",
        "",
        &["changeOwnPassword", "changeOwnCustomData"],
    )];
    let mut own = user((&service, &mut root), ("own", "shop"), own, vec![]).await;
    for (field, value) in [
        ("pwd", Bson::from("new")),
        ("mechanisms", Bson::from(vec![Bson::from("SCRAM-SHA-256")])),
        ("digestPassword", Bson::from(true)),
        ("customData", Bson::from(doc! {})),
        ("roles", Bson::Array(vec![])),
        ("authenticationRestrictions", Bson::Array(vec![])),
    ] {
        for name in ["nobody", "own"] {
            let change = doc! { "updateUser": name, field: value.clone() };
            refuses(&mut nobody, "shop", change).await;
        }
        for (database, name) in [("admin", "root"), ("shop", "nobody"), ("admin", "own")] {
            let change = doc! { "updateUser": name, field: value.clone() };
            refuses(&mut own, database, change).await;
        }
        let change = doc! { "updateUser": "own", field: value };
        let allowed = !["roles", "authenticationRestrictions"].contains(&field);
        let found = code(&mut own, "shop", change).await;
        assert_eq!(found == REFUSED, !allowed, "{field}");
    }
    own.must("shop", doc! { "usersInfo": "own" }).await;
}

#[tokio::test]
async fn lists_show_what_their_reader_may_touch() {
    let (service, mut root) = shop().await;
    let privileges = vec![on("shop", "public", &["find"])];
    let mut ada = user((&service, &mut root), ("ada", "shop"), privileges, vec![]).await;
    let mut nobody = user((&service, &mut root), ("nobody", "shop"), vec![], vec![]).await;
    let list = doc! { "listDatabases": 1, "nameOnly": true };
    for (client, expected) in [(&mut ada, vec!["shop"]), (&mut nobody, vec![])] {
        let shown = client.must("admin", list.clone()).await;
        let names = shown.get_array("databases").unwrap().iter();
        let names: Vec<&str> = names
            .map(|shown| shown.as_document().unwrap().get_str("name").unwrap())
            .collect();
        assert_eq!(names, expected);
    }
    let all = doc! { "listDatabases": 1, "authorizedDatabases": false };
    refuses(&mut ada, "admin", all).await;
    for refused in [
        doc! { "listCollections": 1 },
        doc! { "listCollections": 1, "nameOnly": true },
        doc! { "listCollections": 1, "authorizedCollections": true },
    ] {
        refuses(&mut ada, "shop", refused).await;
    }
    let modest = doc! { "listCollections": 1, "nameOnly": true, "authorizedCollections": true };
    let shown = ada.must("shop", modest.clone()).await;
    let shown = shown.get_document("cursor").unwrap();
    assert_eq!(shown.get_array("firstBatch").unwrap().len(), 1);
    refuses(&mut ada, "other", modest.clone()).await;
    refuses(&mut nobody, "shop", modest).await;
}

#[tokio::test]
async fn an_explained_command_is_of_the_database_that_is_checked() {
    let (service, mut root) = shop().await;
    let privileges = vec![on("other", "secret", &["find"])];
    let mut ada = user((&service, &mut root), ("ada", "admin"), privileges, vec![]).await;
    for (inner, outer) in [
        (
            vec![("find", "secret"), ("$db", "shop"), ("$db", "other")],
            "shop",
        ),
        (
            vec![("find", "secret"), ("$db", "other"), ("$db", "shop")],
            "shop",
        ),
        (vec![("find", "secret"), ("$db", "other")], "shop"),
        (vec![("find", "secret"), ("$db", "shop")], "other"),
        (
            vec![("count", "secret"), ("$db", "shop"), ("$db", "other")],
            "shop",
        ),
    ] {
        let fields: Vec<(&str, Bson)> = inner.iter().map(|(k, v)| (*k, Bson::from(*v))).collect();
        let mut body = field(3, "explain", &repeated(&fields));
        let tail = doc! { "$db": outer }.to_vec().unwrap();
        body.extend_from_slice(&tail[4..tail.len() - 1]);
        let reply = ada.run_bytes(&framed(body)).await;
        let found = reply.get_i32("code").unwrap_or(0);
        assert!([REFUSED, 73].contains(&found), "{inner:?}: {reply}");
    }
    ada.must(
        "other",
        doc! { "explain": { "find": "secret", "$db": "other" } },
    )
    .await;
}

#[tokio::test]
async fn what_tells_of_the_server_stands_within_no_other_stage() {
    let (service, mut root) = shop().await;
    let roles = vec![Bson::from("dbAdmin"), Bson::from("read")];
    let mut ada = user((&service, &mut root), ("ada", "shop"), vec![], roles).await;
    for (name, argument) in [
        ("$currentOp", doc! { "allUsers": true }),
        ("$currentOp", doc! {}),
        ("$listSessions", doc! { "allUsers": true }),
        ("$listLocalSessions", doc! { "allUsers": true }),
        ("$listClusterCatalog", doc! {}),
        ("$queryStats", doc! {}),
        ("$querySettings", doc! {}),
        ("$shardedDataDistribution", doc! {}),
    ] {
        let stage = doc! { name: argument };
        for outer in nested(&stage).into_iter().skip(1) {
            for command in [
                aggregate(vec![outer.clone()]),
                doc! { "create": "w", "viewOn": "public", "pipeline": [outer.clone()] },
            ] {
                let found = code(&mut root, "shop", command.clone()).await;
                assert!(found != 0, "{command}");
                assert!(code(&mut ada, "shop", command).await != 0);
            }
        }
    }
}

#[tokio::test]
async fn secrets_are_shown_to_nobody_who_does_not_keep_users() {
    let (service, mut root) = shop().await;
    let roles = vec![Bson::from("read")];
    let mut ada = user((&service, &mut root), ("ada", "shop"), vec![], roles).await;
    let own = ada.must("shop", doc! { "usersInfo": "ada" }).await;
    assert!(!own.to_string().contains("storedKey"));
    let with = doc! { "usersInfo": "ada", "showCredentials": true };
    refuses(&mut ada, "shop", with).await;

    let create = doc! {
        "createUser": "bob", "pwd": "hunter2", "roles": [], "customData": { "a": 1 },
    };
    let mut other = connect_as(&service, "admin", ("root", "secret")).await;
    let working = tokio::spawn(async move { other.must("shop", create).await });
    let mut seen = String::new();
    while !working.is_finished() {
        let shown = root
            .must("admin", doc! { "currentOp": 1, "$all": true })
            .await;
        seen.push_str(&shown.to_string());
        tokio::task::yield_now().await;
    }
    working.await.unwrap();
    assert!(!seen.contains("hunter2"));
}

#[tokio::test]
async fn a_role_reaches_no_further_than_its_database() {
    let (_service, mut root) = shop().await;
    let foreign = on("other", "", &["find"]);
    root.must(
        "shop",
        doc! { "createRole": "r", "privileges": [], "roles": [] },
    )
    .await;
    for command in [
        doc! { "createRole": "s", "privileges": [foreign.clone()], "roles": [] },
        doc! { "createRole": "s", "privileges": [], "roles": [{ "role": "read", "db": "other" }] },
        doc! { "updateRole": "r", "privileges": [foreign.clone()] },
        doc! { "updateRole": "r", "roles": [{ "role": "root", "db": "admin" }] },
        doc! { "grantPrivilegesToRole": "r", "privileges": [foreign.clone()] },
        doc! { "grantPrivilegesToRole": "r", "privileges": [{ "resource": { "cluster": true },
        "actions": ["killop"] }] },
        doc! { "grantRolesToRole": "r", "roles": [{ "role": "read", "db": "other" }] },
    ] {
        assert_eq!(
            code(&mut root, "shop", command.clone()).await,
            49,
            "{command}"
        );
    }
    root.must(
        "admin",
        doc! { "createRole": "s", "privileges": [foreign], "roles": [] },
    )
    .await;
}
