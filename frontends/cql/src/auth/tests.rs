//! Roles and permissions, over a store in memory.

use crate::auth::User;
use crate::service::CqlConfig;
use crate::testing::Tester;
use crate::wire::{ResultBody, Rows};

const SETUP: &[&str] = &[
    "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    "CREATE TABLE ks.t (k int PRIMARY KEY, v int)",
    "CREATE ROLE bob WITH PASSWORD = 'b' AND LOGIN = true",
    "CREATE ROLE readers",
];

/// A server on which everyone must log in, as the superuser and as another one.
pub(super) async fn testers() -> (Tester, Tester) {
    let root = Tester::with(CqlConfig {
        requires_authentication: true,
        users: vec![User {
            name: "root".to_owned(),
            password: "r".to_owned(),
        }],
        ..CqlConfig::default()
    })
    .await;
    root.session.log_in("root");
    root.ok(SETUP).await;
    let bob = root.another();
    bob.session.log_in("bob");
    (root, bob)
}

pub(super) fn rows(body: ResultBody) -> Rows {
    match body {
        ResultBody::Rows(rows) => rows,
        other => panic!("{other:?}"),
    }
}

const NEEDS: &[(&str, &str)] = &[
    (
        "CREATE KEYSPACE x WITH replication = {'class': 'SimpleStrategy', \
          'replication_factor': 1}",
        "CREATE permission on <all keyspaces>",
    ),
    ("DROP KEYSPACE ks", "DROP permission on <keyspace ks>"),
    (
        "CREATE TABLE ks.x (k int PRIMARY KEY)",
        "CREATE permission on <all tables in ks>",
    ),
    (
        "ALTER TABLE ks.t ADD x int",
        "ALTER permission on <table ks.t>",
    ),
    (
        "CREATE INDEX ON ks.t (v)",
        "ALTER permission on <table ks.t>",
    ),
    ("TRUNCATE ks.t", "MODIFY permission on <table ks.t>"),
    ("SELECT * FROM ks.t", "SELECT permission on <table ks.t>"),
    (
        "SELECT * FROM system_auth.roles",
        "SELECT permission on <table system_auth.roles>",
    ),
    (
        "INSERT INTO ks.t (k) VALUES (1)",
        "MODIFY permission on <table ks.t>",
    ),
    (
        "BEGIN BATCH DELETE FROM ks.t WHERE k = 1 APPLY BATCH",
        "MODIFY permission on <table ks.t>",
    ),
    (
        "GRANT SELECT ON ks.t TO bob",
        "AUTHORIZE permission on <table ks.t>",
    ),
];

#[tokio::test]
async fn what_was_not_granted_is_refused() {
    let (root, bob) = testers().await;
    for (text, needed) in NEEDS {
        let words = format!("User bob has no {needed} or any of its parents");
        assert_eq!(bob.refused(text).await, words, "{text}");
    }
    for text in [
        "CREATE ROLE x",
        "DROP ROLE readers",
        "ALTER ROLE readers WITH LOGIN = true",
        "GRANT readers TO bob",
        "REVOKE readers FROM bob",
    ] {
        let words = "User bob does not have sufficient privileges to perform the requested \
                     operation";
        assert_eq!(bob.refused(text).await, words, "{text}");
    }
    root.ok(&[
        "GRANT ALTER ON KEYSPACE ks TO readers",
        "GRANT readers TO bob",
    ])
    .await;
    bob.ok(&["ALTER TABLE ks.t ADD x int"]).await;
    root.ok(&["REVOKE readers FROM bob"]).await;
    assert!(
        bob.refused("ALTER TABLE ks.t ADD y int")
            .await
            .contains("ALTER")
    );
    // What one makes is one's own.
    root.ok(&["GRANT CREATE ON KEYSPACE ks TO bob"]).await;
    bob.ok(&[
        "CREATE TABLE ks.own (k int PRIMARY KEY)",
        "DROP TABLE ks.own",
    ])
    .await;
    root.ok(&["CREATE TABLE ks.own (k int PRIMARY KEY)"]).await;
    assert!(bob.refused("DROP TABLE ks.own").await.contains("DROP"));
}

#[tokio::test]
async fn mistakes_are_named() {
    let (root, bob) = testers().await;
    for (text, words) in [
        ("CREATE ROLE bob", "bob already exists"),
        ("DROP ROLE nobody", "nobody doesn't exist"),
        (
            "DROP ROLE root",
            "Cannot DROP primary role for current login",
        ),
        (
            "ALTER ROLE nobody WITH LOGIN = true",
            "Role nobody doesn't exist",
        ),
        (
            "GRANT SELECT ON ks.t TO nobody",
            "Role nobody doesn't exist",
        ),
        (
            "GRANT SELECT ON ks.x TO bob",
            "Resource <table ks.x> doesn't exist",
        ),
        ("GRANT bob TO bob", "bob is a member of bob"),
        ("REVOKE readers FROM bob", "bob is not a member of readers"),
        ("LIST ROLES OF nobody", "<role nobody> doesn't exist"),
        (
            "GRANT EXECUTE ON ks.t TO bob",
            "Resource type DataResource does not support any of the requested permissions",
        ),
    ] {
        assert_eq!(root.refused(text).await, words, "{text}");
    }
    assert_eq!(
        bob.refused("ALTER ROLE bob WITH SUPERUSER = true").await,
        "You aren't allowed to alter your own superuser status or that of a role granted to you"
    );
    root.ok(&[
        "CREATE ROLE IF NOT EXISTS bob",
        "DROP ROLE IF EXISTS nobody",
    ])
    .await;
}

#[tokio::test]
async fn granting_twice_is_warned_of() {
    let (root, _) = testers().await;
    assert!(
        root.ok(&["GRANT SELECT ON ks.t TO bob"])
            .await
            .warnings
            .is_empty()
    );
    let again = root.ok(&["GRANT SELECT ON ks.t TO bob"]).await;
    assert_eq!(
        again.warnings,
        ["Role 'bob' was already granted SELECT on <table ks.t>"]
    );
    let not = root.ok(&["REVOKE MODIFY ON ks.t FROM bob"]).await;
    assert_eq!(
        not.warnings,
        ["Role 'bob' was not granted MODIFY on <table ks.t>"]
    );
}

#[tokio::test]
async fn roles_and_permissions_are_listed() {
    let (root, bob) = testers().await;
    assert_eq!(rows(root.ok(&["LIST ROLES"]).await.body).len(), 3);
    assert_eq!(rows(root.ok(&["LIST USERS"]).await.body).len(), 2);
    assert_eq!(rows(bob.ok(&["LIST ROLES"]).await.body).len(), 1);
    root.ok(&[
        "GRANT SELECT ON ks.t TO bob",
        "GRANT MODIFY ON KEYSPACE ks TO bob",
    ])
    .await;
    let list = root.ok(&["LIST ALL PERMISSIONS OF bob"]).await;
    assert_eq!(rows(list.body).len(), 2);
    let list = root.ok(&["LIST SELECT ON ks.t OF bob"]).await;
    assert_eq!(rows(list.body).len(), 1);
    let none = root.ok(&["LIST ALL PERMISSIONS OF readers"]).await;
    assert_eq!(none.body, ResultBody::Void);
    let stored = crate::system::rows(&root.service, "system_auth", "role_permissions").await;
    assert!(stored.unwrap().len() >= 2);
}

#[tokio::test]
async fn a_dropped_keyspace_leaves_no_permissions_behind() {
    let (root, _) = testers().await;
    let with = "WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";
    root.ok(&[
        &format!("CREATE KEYSPACE gone {with}"),
        "CREATE TABLE gone.t (k int PRIMARY KEY)",
        "GRANT SELECT ON gone.t TO bob",
        "GRANT EXECUTE ON ALL FUNCTIONS IN KEYSPACE gone TO bob",
        "DROP KEYSPACE gone",
    ])
    .await;
    let roles = root.service.roles.all().await.unwrap();
    let mut resources = roles.values().flat_map(|role| role.permissions.keys());
    assert_eq!(resources.find(|resource| resource.contains("gone")), None);
}

/// Of what was granted, made or allowed before, nothing outlives its end on an open connection.
#[tokio::test]
async fn open_sessions_lose_what_is_taken_away() {
    let (root, bob) = testers().await;
    let is_allowed = async || bob.run("SELECT * FROM ks.t").await.is_ok();
    for (give, take) in [
        (
            "GRANT SELECT ON ks.t TO bob",
            "REVOKE SELECT ON ks.t FROM bob",
        ),
        (
            "GRANT SELECT ON KEYSPACE ks TO bob",
            "REVOKE ALL ON KEYSPACE ks FROM bob",
        ),
        ("GRANT readers TO bob", "REVOKE readers FROM bob"),
        (
            "ALTER ROLE bob WITH SUPERUSER = true",
            "ALTER ROLE bob WITH SUPERUSER = false",
        ),
        ("GRANT readers TO bob", "DROP ROLE readers"),
        ("GRANT SELECT ON ks.t TO bob", "DROP ROLE bob"),
    ] {
        if root.run("LIST ROLES OF readers").await.is_ok() {
            root.ok(&["GRANT SELECT ON ks.t TO readers"]).await;
        }
        assert!(!is_allowed().await, "before {give}");
        root.ok(&[give]).await;
        assert!(is_allowed().await, "{give}");
        root.ok(&[take]).await;
        assert!(!is_allowed().await, "{take}");
    }
    // One that is gone is nobody, also for what everybody may do.
    for text in [
        "SELECT * FROM system.local",
        "USE ks",
        "DESCRIBE KEYSPACES",
        "LIST ROLES",
    ] {
        assert_eq!(
            bob.refused(text).await,
            "bob is not permitted to log in",
            "{text}"
        );
    }
    root.ok(&["CREATE ROLE bob WITH LOGIN = true"]).await;
    bob.ok(&["USE ks"]).await;
    root.ok(&["ALTER ROLE bob WITH LOGIN = false"]).await;
    assert_eq!(
        bob.refused("USE ks").await,
        "bob is not permitted to log in"
    );
}

#[tokio::test]
async fn options_are_applied_or_refused() {
    let (root, bob) = testers().await;
    for (option, words) in [
        (
            "OPTIONS = {'a': 'b'}",
            "org.apache.cassandra.auth.CassandraRoleManager doesn't support OPTIONS",
        ),
        (
            "ACCESS TO DATACENTERS {'dc2'}",
            "Invalid value(s) for DATACENTERS '[dc2]',All values must be valid datacenters",
        ),
        (
            "ACCESS TO DATACENTERS {'datacenter1', 'dc2'}",
            "Invalid value(s) for DATACENTERS '[datacenter1, dc2]',All values must be valid \
             datacenters",
        ),
        (
            "ACCESS FROM CIDRS {'office'}",
            "Invalid CIDR group(s): [office]. Available CIDR Groups are: []",
        ),
    ] {
        for text in ["CREATE ROLE x WITH", "ALTER ROLE bob WITH"] {
            let text = format!("{text} {option}");
            assert_eq!(root.refused(&text).await, words, "{text}");
        }
    }
    root.ok(&[
        "ALTER ROLE bob WITH ACCESS TO ALL DATACENTERS AND ACCESS FROM ALL CIDRS",
        "ALTER ROLE bob WITH ACCESS TO DATACENTERS {'datacenter1'}",
    ])
    .await;
    bob.ok(&["USE ks"]).await;
    // As another server of the same store may have been told.
    let elsewhere = root.service.roles.change("bob", |role| {
        let mut role = role.unwrap();
        role.datacenters = ["dc2".to_owned()].into();
        Ok((Some(role), ()))
    });
    elsewhere.await.unwrap();
    for text in ["USE ks", "SELECT * FROM system.local", "LIST ROLES"] {
        let words = "You do not have access to this datacenter (datacenter1)";
        assert_eq!(bob.refused(text).await, words, "{text}");
    }
    for text in [
        "GRANT SELECT ON ALL MBEANS TO bob",
        "GRANT EXECUTE ON MBEAN 'x' TO bob",
        "REVOKE EXECUTE ON MBEAN 'x' FROM bob",
        "GRANT EXECUTE ON FUNCTION ks.f() TO bob",
    ] {
        let words = root.refused(text).await;
        assert!(words.ends_with("doesn't exist"), "{text}: {words}");
    }
}

#[tokio::test]
async fn a_dropped_role_takes_no_other_permissions_with_it() {
    let (root, _) = testers().await;
    root.ok(&[
        "CREATE ROLE a",
        "CREATE ROLE 'a/b'",
        "GRANT ALTER ON ROLE a TO bob",
        "GRANT ALTER ON ROLE 'a/b' TO bob",
        "DROP ROLE a",
    ])
    .await;
    let roles = root.service.roles.all().await.unwrap();
    let left: Vec<&String> = roles["bob"].permissions.keys().collect();
    assert_eq!(left, ["roles/a/b"]);
}

#[tokio::test]
async fn roles_see_what_is_theirs() {
    let (root, bob) = testers().await;
    root.ok(&["GRANT SELECT ON ks.t TO readers", "CREATE ROLE other"])
        .await;
    for (text, words) in [
        (
            "LIST ALL PERMISSIONS",
            "You are not authorized to view everyone's permissions",
        ),
        (
            "LIST ALL PERMISSIONS OF readers",
            "You are not authorized to view readers's permissions",
        ),
        (
            "LIST SELECT ON ks.t OF root",
            "You are not authorized to view root's permissions",
        ),
        (
            "LIST ROLES OF root",
            "You are not authorized to view roles granted to root ",
        ),
    ] {
        assert_eq!(bob.refused(text).await, words, "{text}");
    }
    let columns = |body: ResultBody| {
        let rows = rows(body);
        let names = rows
            .metadata
            .columns
            .iter()
            .map(|column| column.name.clone());
        names.collect::<Vec<String>>()
    };
    let listed = root.ok(&["LIST ROLES"]).await;
    assert_eq!(
        columns(listed.body),
        ["role", "super", "login", "options", "datacenters"]
    );
    root.ok(&["GRANT readers TO bob"]).await;
    bob.ok(&["LIST ALL PERMISSIONS OF readers", "LIST ROLES OF readers"])
        .await;
    root.ok(&["GRANT DESCRIBE ON ALL ROLES TO bob"]).await;
    bob.ok(&["LIST ALL PERMISSIONS", "LIST ROLES OF root"])
        .await;
    assert_eq!(rows(bob.ok(&["LIST ROLES"]).await.body).len(), 4);
}
