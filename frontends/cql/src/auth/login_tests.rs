//! Logins and passwords, over a store in memory.

use super::log_in;
use super::tests::{rows, testers};
use crate::testing::{Client, query};
use crate::wire::{Prepare, Request, Response, Rows, Version};

#[tokio::test]
async fn passwords_are_asked_for() {
    let (root, _) = testers().await;
    let words = async |token: &[u8]| match log_in(&root.service, Some(token)).await {
        Ok(name) => name,
        Err(error) => error.message,
    };
    assert_eq!(words(b"\0root\0r").await, "root");
    assert_eq!(words(b"\0bob\0b").await, "bob");
    assert_eq!(
        words(b"\0bob\0x").await,
        "Provided username bob and/or password are incorrect"
    );
    root.ok(&["ALTER ROLE bob WITH PASSWORD = 'c'"]).await;
    assert_eq!(words(b"\0bob\0c").await, "bob");
    root.ok(&["ALTER ROLE bob WITH LOGIN = false"]).await;
    assert_eq!(words(b"\0bob\0c").await, "bob is not permitted to log in");
    root.ok(&["DROP ROLE bob"]).await;
    assert!(
        words(b"\0bob\0c")
            .await
            .starts_with("Provided username bob")
    );
}

#[tokio::test]
async fn hashes_that_cassandra_made_log_in() {
    let (root, _) = testers().await;
    let hashed = "$2a$08$TesseraTesseraTesserau/3UMNvFL7aFYFjKVaE4O8Uqk7C1OmgK";
    let create = format!("CREATE ROLE eve WITH HASHED PASSWORD = '{hashed}' AND LOGIN = true");
    root.ok(&[&create]).await;
    let alter = format!("ALTER ROLE bob WITH HASHED PASSWORD = '{hashed}'");
    root.ok(&[&alter]).await;
    for name in ["eve", "bob"] {
        let right = format!("\0{name}\0cassandra");
        let right = log_in(&root.service, Some(right.as_bytes())).await;
        assert_eq!(right, Ok(name.to_owned()));
        let wrong = format!("\0{name}\0b");
        let wrong = log_in(&root.service, Some(wrong.as_bytes())).await;
        assert!(wrong.is_err());
    }
    for (text, words) in [
        (
            "CREATE ROLE x WITH HASHED PASSWORD = 'secret'",
            "Invalid hashed password value. Please use jBcrypt.",
        ),
        (
            "ALTER ROLE bob WITH HASHED PASSWORD = 'secret' AND PASSWORD = 'x'",
            "Options 'password' and 'hashed password' are mutually exclusive",
        ),
    ] {
        assert_eq!(root.refused(text).await, words, "{text}");
    }
}

/// Hashes as older versions made them, of PBKDF2 with fewer rounds.
#[tokio::test]
async fn weak_hashes_are_replaced_at_the_next_login() {
    let (root, _) = testers().await;
    let hash_of = async |name: &str| {
        let roles = root.service.roles.all().await.unwrap();
        roles[name].password.clone().unwrap()
    };
    for (name, password, hashed) in OLD_HASHES {
        let create =
            format!("CREATE ROLE {name} WITH HASHED PASSWORD = '{hashed}' AND LOGIN = true");
        root.ok(&[&create]).await;
        let wrong = format!("\0{name}\0{password}x");
        assert!(log_in(&root.service, Some(wrong.as_bytes())).await.is_err());
        assert_eq!(hash_of(name).await, *hashed);
        let right = format!("\0{name}\0{password}");
        for _ in 0..2 {
            let logged_in = log_in(&root.service, Some(right.as_bytes())).await;
            assert_eq!(logged_in, Ok((*name).to_owned()));
            assert!(hash_of(name).await.starts_with("$2a$"), "{name}");
        }
        assert!(log_in(&root.service, Some(wrong.as_bytes())).await.is_err());
    }
}

#[tokio::test]
async fn passwords_are_shown_to_nobody() {
    let (root, _) = testers().await;
    let mut client = Client::started(&root.service, Version::V4, None).await;
    let response = client.ask(Request::AuthResponse(Some(b"\0root\0r"))).await;
    assert_eq!(response, Response::AuthSuccess(None));
    for text in [
        "CREATE ROLE x WITH PASSWORD = 'hidden' AND LOGIN = true",
        "alter user x with password 'hidden'",
        "ALTER ROLE x WITH LOGIN = true AND PASSWORD = 'hidden'",
        "CREATE ROLE y WITH PASSWORD = 'hidden' AND nothing",
    ] {
        client.send(1, query(text), true).await;
        client.next().await.unwrap();
        let prepare = Prepare {
            query: text,
            keyspace: None,
        };
        client.send(1, Request::Prepare(prepare), true).await;
        client.next().await.unwrap();
    }
    let contains = |rows: &Rows, text: &str| {
        let bytes = format!("{:?}", text.as_bytes());
        format!("{rows:?}").contains(bytes.trim_matches(['[', ']']))
    };
    for table in [
        "system.prepared_statements",
        "system_traces.sessions",
        "system_traces.events",
    ] {
        let read = rows(root.ok(&[&format!("SELECT * FROM {table}")]).await.body);
        assert!(contains(&read, "*******"), "{table}: {read:?}");
        assert!(!contains(&read, "hidden"), "{table}");
    }
}

/// What the settings say of a role cannot be said otherwise, and is kept nowhere else.
#[tokio::test]
async fn roles_of_the_settings_stay_there() {
    let (root, _) = testers().await;
    root.ok(&["CREATE ROLE chief WITH SUPERUSER = true AND LOGIN = true"])
        .await;
    let chief = root.another();
    chief.session.log_in("chief");
    for text in [
        "ALTER ROLE root WITH PASSWORD = 'x'",
        "ALTER ROLE root WITH LOGIN = false",
        "ALTER ROLE root WITH SUPERUSER = false",
        "DROP ROLE root",
        "DROP USER IF EXISTS root",
    ] {
        let words = chief.refused(text).await;
        assert!(
            words.ends_with("the server's setting cql-users names it"),
            "{words}"
        );
    }
    // Root has made tables, so something is stored of it.
    let mut config = root.service.config.clone();
    config.users.clear();
    let later = crate::service::Service::new(root.service.store.clone(), config);
    let roles = later.roles.all().await.unwrap();
    let left = &roles["root"];
    assert!(!left.permissions.is_empty());
    assert!(!left.is_superuser && !left.can_login && left.password.is_none());
    assert!(log_in(&later, Some(b"\0root\0r")).await.is_err());
}

const OLD_HASHES: &[(&str, &str, &str)] = &[
    (
        "old1",
        "secret",
        "pbkdf2-sha256$500$00000000000000000000000000000000$\
         c280add702ca62807bf341be246f80f9ad1bbcd79bced3141abd3b13a90cdef1",
    ),
    (
        "old2",
        "p",
        "pbkdf2-sha256$500$01010101010101010101010101010101$\
         4748fca3952f545473db31bd8cba4f3b80982b762213b61201f7fc2a4499a045",
    ),
    (
        "old3",
        "a much longer password of several words",
        "pbkdf2-sha256$500$02020202020202020202020202020202$\
         5641e73cc62ba3590eb3453e942bd96c979b12247302b2618539139f3775c45c",
    ),
    (
        "old4",
        "ümläut",
        "pbkdf2-sha256$500$03030303030303030303030303030303$\
         7bc98b9beefd4248c9a62a2f7332234c8fe0e7efb3e914c310eb6eb8616d0ecd",
    ),
];
