//! Users and roles, and what they may do.

use bson::{Bson, Document, doc};
use tessera_mongo::MongoConfig;

use crate::client::{Client, Service};
use crate::login::{SHA_1, SHA_256, connect_as, log_in};

const ROOT: (&str, &str) = ("root", "secret");

async fn root(service: &Service) -> Client {
    connect_as(service, "admin", ROOT).await
}

fn user(name: &str, roles: Vec<Bson>) -> Document {
    doc! { "createUser": name, "pwd": "pw", "roles": roles }
}

#[tokio::test]
async fn users_are_made_changed_shown_and_dropped() {
    let service = Service::guarded().await;
    let mut root = root(&service).await;
    root.must("shop", user("ada", vec!["read".into()])).await;
    let reply = root.run("shop", user("ada", vec![])).await;
    assert_eq!(reply.get_i32("code").unwrap(), 51_003);
    assert_eq!(
        log_in(&mut service.connect(), SHA_1, "shop", ("ada", "pw")).await,
        Ok(())
    );
    assert_eq!(
        log_in(&mut service.connect(), SHA_256, "shop", ("ada", "pw")).await,
        Ok(())
    );
    assert_eq!(
        log_in(&mut service.connect(), SHA_256, "admin", ("ada", "pw")).await,
        Err(18)
    );

    let change = doc! { "updateUser": "ada", "pwd": "new", "mechanisms": [SHA_256] };
    root.must("shop", change).await;
    assert_eq!(
        log_in(&mut service.connect(), SHA_256, "shop", ("ada", "pw")).await,
        Err(18)
    );
    assert_eq!(
        log_in(&mut service.connect(), SHA_256, "shop", ("ada", "new")).await,
        Ok(())
    );
    assert_eq!(
        log_in(&mut service.connect(), SHA_1, "shop", ("ada", "new")).await,
        Err(18)
    );

    root.must(
        "shop",
        doc! { "grantRolesToUser": "ada", "roles": ["dbAdmin"] },
    )
    .await;
    root.must(
        "shop",
        doc! { "revokeRolesFromUser": "ada", "roles": ["read"] },
    )
    .await;
    let shown = root.must("shop", doc! { "usersInfo": "ada" }).await;
    let [Bson::Document(shown)] = shown.get_array("users").unwrap().as_slice() else {
        panic!("{shown}");
    };
    assert_eq!(shown.get_str("_id").unwrap(), "shop.ada");
    assert_eq!(
        shown.get_array("mechanisms").unwrap(),
        &[Bson::from(SHA_256)]
    );
    let role = Bson::from(doc! { "role": "dbAdmin", "db": "shop" });
    assert_eq!(shown.get_array("roles").unwrap(), &[role]);
    assert!(!shown.contains_key("credentials"));

    let all = root
        .must("admin", doc! { "usersInfo": { "forAllDBs": true } })
        .await;
    assert_eq!(all.get_array("users").unwrap().len(), 2);
    root.must("shop", doc! { "dropUser": "ada" }).await;
    assert_eq!(
        root.run("shop", doc! { "dropUser": "ada" })
            .await
            .get_i32("code")
            .unwrap(),
        11
    );
    let none = root.must("shop", doc! { "usersInfo": 1 }).await;
    assert!(none.get_array("users").unwrap().is_empty());
}

#[tokio::test]
async fn users_outlive_the_process_and_their_passwords_are_kept_nowhere() {
    let service = Service::guarded().await;
    let mut client = root(&service).await;
    client.must("shop", user("ada", vec!["read".into()])).await;
    let shown = client
        .must("shop", doc! { "usersInfo": "ada", "showCredentials": true })
        .await;
    let text = shown.to_string();
    assert!(
        text.contains("storedKey") && !text.contains("\"pw\""),
        "{text}"
    );
    let config = MongoConfig {
        requires_authentication: true,
        ..MongoConfig::default()
    };
    let again = Service::over(service.store.clone(), config);
    assert_eq!(
        log_in(&mut again.connect(), SHA_256, "shop", ("ada", "pw")).await,
        Ok(())
    );
    assert_eq!(
        log_in(&mut again.connect(), SHA_256, "admin", ROOT).await,
        Err(18)
    );
}

#[tokio::test]
async fn roles_are_enforced_and_take_effect_at_once() {
    let service = Service::guarded().await;
    let mut root = root(&service).await;
    root.must("admin", user("watcher", vec!["clusterMonitor".into()]))
        .await;
    let mut watcher = connect_as(&service, "admin", ("watcher", "pw")).await;
    watcher.must("admin", doc! { "serverStatus": 1 }).await;
    assert_eq!(watcher.code(doc! { "killOp": 1, "op": 1 }).await, 13);
    assert_eq!(watcher.code(user("eve", vec!["root".into()])).await, 13);

    root.must(
        "admin",
        doc! { "grantRolesToUser": "watcher", "roles": ["hostManager"] },
    )
    .await;
    watcher.must("admin", doc! { "killOp": 1, "op": 1 }).await;
    root.must("admin", doc! { "updateUser": "watcher", "roles": [] })
        .await;
    assert_eq!(watcher.code(doc! { "serverStatus": 1 }).await, 13);
    root.must("admin", doc! { "dropUser": "watcher" }).await;
    assert_eq!(watcher.code(doc! { "startSession": 1 }).await, 13);
}

#[tokio::test]
async fn roles_of_ones_own_hold_privileges_and_other_roles() {
    let service = Service::guarded().await;
    let mut root = root(&service).await;
    let cluster = |action: &str| doc! { "resource": { "cluster": true }, "actions": [action] };
    root.must(
        "admin",
        doc! {
            "createRole": "killer", "privileges": [cluster("killop")], "roles": [],
        },
    )
    .await;
    let again = doc! { "createRole": "killer", "privileges": [], "roles": [] };
    assert_eq!(root.code(again).await, 51_002);
    root.must(
        "admin",
        doc! {
            "createRole": "keeper", "privileges": [], "roles": ["killer"],
        },
    )
    .await;
    root.must("admin", user("bob", vec!["keeper".into()])).await;
    let mut bob = connect_as(&service, "admin", ("bob", "pw")).await;
    bob.must("admin", doc! { "killOp": 1, "op": 1 }).await;
    assert_eq!(bob.code(doc! { "hostInfo": 1 }).await, 13);

    let grant = doc! { "grantPrivilegesToRole": "killer", "privileges": [cluster("hostInfo")] };
    root.must("admin", grant).await;
    bob.must("admin", doc! { "hostInfo": 1 }).await;
    let revoke = doc! { "revokePrivilegesFromRole": "killer", "privileges": [cluster("hostInfo")] };
    root.must("admin", revoke).await;
    assert_eq!(bob.code(doc! { "hostInfo": 1 }).await, 13);

    let cycle = doc! { "grantRolesToRole": "killer", "roles": ["keeper"] };
    assert_eq!(root.code(cycle).await, 49);
    let unknown = doc! { "grantRolesToRole": "killer", "roles": ["nothing"] };
    assert_eq!(root.code(unknown).await, 31);
    let shown = root
        .must(
            "admin",
            doc! { "rolesInfo": "keeper", "showPrivileges": true },
        )
        .await;
    let [Bson::Document(shown)] = shown.get_array("roles").unwrap().as_slice() else {
        panic!("{shown}");
    };
    assert!(!shown.get_bool("isBuiltin").unwrap());
    assert_eq!(
        shown.get_array("inheritedPrivileges").unwrap(),
        &[cluster("killop").into()]
    );

    root.must("admin", doc! { "dropRole": "killer" }).await;
    assert_eq!(bob.code(doc! { "killOp": 1, "op": 1 }).await, 13);
    assert_eq!(root.code(doc! { "dropRole": "read" }).await, 49);
    assert_eq!(root.code(doc! { "dropRole": "killer" }).await, 31);
    let dropped = root
        .must("admin", doc! { "dropAllRolesFromDatabase": 1 })
        .await;
    assert_eq!(dropped.get_i64("n").unwrap(), 1);
}

#[tokio::test]
async fn the_first_user_is_made_from_the_same_machine() {
    let service = Service::new(MongoConfig {
        requires_authentication: true,
        ..MongoConfig::default()
    })
    .await;
    let first = user("ada", vec!["root".into()]);
    let mut far = service.connect_from("192.0.2.1:5000");
    assert_eq!(far.code(first.clone()).await, 13);
    let mut near = service.connect();
    assert_eq!(near.code(doc! { "hostInfo": 1 }).await, 13);
    near.must("admin", first).await;
    assert_eq!(near.code(user("bob", vec![])).await, 13, "only the first");
    connect_as(&service, "admin", ("ada", "pw"))
        .await
        .must("admin", doc! { "hostInfo": 1 })
        .await;
}

#[tokio::test]
async fn malformed_users_are_refused() {
    let service = Service::plain().await;
    let mut client = service.connect();
    for (command, code) in [
        (doc! { "createUser": "a", "pwd": "x" }, 40414),
        (doc! { "createUser": "a", "roles": [] }, 2),
        (doc! { "createUser": "", "pwd": "x", "roles": [] }, 2),
        (doc! { "createUser": 1, "pwd": "x", "roles": [] }, 14),
        (doc! { "createUser": "a", "pwd": "", "roles": [] }, 2),
        (
            doc! { "createUser": "a", "pwd": "x", "roles": ["flying"] },
            31,
        ),
        (
            doc! { "createUser": "a", "pwd": "x", "roles": [], "other": 1 },
            40415,
        ),
        (
            doc! { "createUser": "a", "pwd": "x", "roles": [], "mechanisms": ["PLAIN"] },
            2,
        ),
        (doc! { "updateUser": "a", "pwd": "x" }, 11),
        (doc! { "updateUser": "a" }, 2),
        (
            doc! { "createRole": "a", "privileges": [], "roles": [], "x": 1 },
            40415,
        ),
        (doc! { "createRole": "a", "roles": [] }, 40414),
    ] {
        assert_eq!(client.code(command.clone()).await, code, "{command}");
    }
}

#[tokio::test]
async fn users_of_the_settings_stay() {
    let service = Service::guarded().await;
    let mut root = root(&service).await;
    assert_eq!(root.code(doc! { "dropUser": "root" }).await, 20);
    assert_eq!(
        root.code(doc! { "updateUser": "root", "pwd": "x" }).await,
        20
    );
    root.must("admin", user("ada", vec![])).await;
    let dropped = root
        .must("admin", doc! { "dropAllUsersFromDatabase": 1 })
        .await;
    assert_eq!(dropped.get_i64("n").unwrap(), 1);
}

#[tokio::test]
async fn users_log_in_from_where_they_and_their_roles_may() {
    let service = Service::guarded().await;
    let mut root = root(&service).await;
    let from = |range: &str| vec![Bson::from(doc! { "clientSource": [range] })];
    let role = doc! {
        "createRole": "inside", "privileges": [], "roles": [],
        "authenticationRestrictions": from("10.0.0.0/8"),
    };
    root.must("admin", role).await;
    for (name, roles, restrictions) in [
        ("here", vec![], from("127.0.0.1")),
        ("there", vec![], from("10.0.0.0/8")),
        ("by role", vec![Bson::from("inside")], vec![]),
        ("both", vec![Bson::from("inside")], from("127.0.0.1")),
        ("anywhere", vec![], vec![]),
    ] {
        let mut create = user(name, roles);
        create.insert("authenticationRestrictions", restrictions);
        root.must("admin", create).await;
    }
    for (name, near, far) in [
        ("here", true, false),
        ("there", false, true),
        ("by role", false, true),
        ("both", false, false),
        ("anywhere", true, true),
    ] {
        for (address, expected) in [("127.0.0.1:5", near), ("10.1.2.3:5", far)] {
            let mut client = service.connect_from(address);
            let found = log_in(&mut client, SHA_256, "admin", (name, "pw")).await;
            let expected = if expected { Ok(()) } else { Err(18) };
            assert_eq!(found, expected, "{name} {address}");
        }
    }
    let mut anywhere = connect_as(&service, "admin", ("anywhere", "pw")).await;
    let narrow =
        doc! { "updateUser": "anywhere", "authenticationRestrictions": from("10.0.0.0/8") };
    root.must("admin", narrow).await;
    assert_eq!(anywhere.code(doc! { "startSession": 1 }).await, 13);
    let wrong = doc! { "updateUser": "here", "authenticationRestrictions": from("everywhere") };
    assert_eq!(root.code(wrong).await, 2);
}
