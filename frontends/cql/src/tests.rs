//! Connections over the protocol, without a socket.

use crate::auth::User;
use crate::error::ErrorKind;
use crate::service::CqlConfig;
use crate::testing::{Client, Tester, query};
use crate::wire::{
    Batch, BatchKind, BatchQuery, Consistency, Event, Parameters, Prepare, QueryOrId, Request,
    Response, ResultBody, Version,
};

const KEYSPACE: &str =
    "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";
const VERSIONS: [(Version, Option<&str>); 7] = [
    (Version::V3, None),
    (Version::V3, Some("lz4")),
    (Version::V4, None),
    (Version::V4, Some("snappy")),
    (Version::V4, Some("lz4")),
    (Version::V5, None),
    (Version::V5, Some("lz4")),
];

fn error(response: Response) -> (ErrorKind, String) {
    match response {
        Response::Error(error) => (error.kind, error.message),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn every_version_and_compression_is_spoken() {
    for (version, compression) in VERSIONS {
        let tester = Tester::new().await;
        let mut client = Client::started(&tester.service, version, compression).await;
        let created = client.query(KEYSPACE).await;
        let is_change = matches!(created, Response::Result(ResultBody::SchemaChange(_)));
        assert!(is_change, "{version:?} {compression:?} {created:?}");
        let used = client.query("USE ks").await;
        assert_eq!(
            used,
            Response::Result(ResultBody::SetKeyspace("ks".to_owned()))
        );
        let Response::Result(ResultBody::Rows(rows)) = client.query("DESCRIBE SCHEMA").await else {
            panic!("no rows");
        };
        assert_eq!(rows.len(), 1);
        let Response::Supported(options) = client.ask(Request::Options).await else {
            panic!("not supported");
        };
        let names: Vec<&str> = options.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["PROTOCOL_VERSIONS", "COMPRESSION", "CQL_VERSION"]);
    }
}

#[tokio::test]
async fn nothing_goes_before_startup() {
    let tester = Tester::new().await;
    let mut client = Client::new(&tester.service, Version::V4);
    let (kind, words) = error(client.query("USE ks").await);
    assert_eq!(kind, ErrorKind::Protocol);
    assert_eq!(
        words,
        "Unexpected message QUERY, expecting STARTUP or OPTIONS"
    );
    assert!(matches!(
        client.ask(Request::Options).await,
        Response::Supported(_)
    ));
    let (_, words) = error(client.start(Some("zstd")).await);
    assert_eq!(words, "Unknown compression algorithm: zstd");
    assert_eq!(client.start(None).await, Response::Ready);
}

#[tokio::test]
async fn who_must_log_in_must() {
    let tester = Tester::with(CqlConfig {
        requires_authentication: true,
        users: vec![User {
            name: "ada".to_owned(),
            password: "secret".to_owned(),
        }],
        ..CqlConfig::default()
    })
    .await;
    for version in [Version::V3, Version::V4, Version::V5] {
        let mut client = Client::started(&tester.service, version, Some("lz4")).await;
        let (_, words) = error(client.query("USE system").await);
        assert_eq!(words, "Unexpected message QUERY, expecting SASL_RESPONSE");
        let wrong = client
            .ask(Request::AuthResponse(Some(b"\0ada\0wrong")))
            .await;
        let (kind, words) = error(wrong);
        assert_eq!(kind, ErrorKind::BadCredentials);
        assert_eq!(words, "Provided username ada and/or password are incorrect");
        let right = client
            .ask(Request::AuthResponse(Some(b"\0ada\0secret")))
            .await;
        assert_eq!(right, Response::AuthSuccess(None));
        let used = client.query("USE system").await;
        assert!(matches!(used, Response::Result(_)), "{used:?}");
    }
}

#[tokio::test]
async fn clients_that_register_hear_of_changes() {
    let tester = Tester::new().await;
    let mut listener = Client::started(&tester.service, Version::V5, None).await;
    let kinds = vec!["SCHEMA_CHANGE", "STATUS_CHANGE"];
    assert_eq!(
        listener.ask(Request::Register(kinds)).await,
        Response::Ready
    );
    let mut other = Client::started(&tester.service, Version::V4, None).await;
    other.query(KEYSPACE).await;
    let event = listener.next().await.unwrap();
    assert_eq!(event.stream, -1);
    assert!(
        matches!(event.response, Response::Event(Event::Schema(_))),
        "{event:?}"
    );
}

/// Some drivers take a payload for the answer itself, and close the connection.
#[tokio::test]
async fn only_who_names_its_driver_hears_of_charges() {
    let tester = Tester::new().await;
    for (driver, hears) in [(None, false), (Some(("DRIVER_NAME", "x")), true)] {
        let mut client = Client::new(&tester.service, Version::V4);
        let mut options = vec![("CQL_VERSION", "3.0.0")];
        options.extend(driver);
        assert_eq!(client.ask(Request::Startup(options)).await, Response::Ready);
        client.query(KEYSPACE).await;
        client.query("CREATE TABLE ks.t (id int PRIMARY KEY)").await;
        let insert = query("INSERT INTO ks.t (id) VALUES (1)");
        client.send(1, insert, false).await;
        let payload = client.next().await.unwrap().extras.payload;
        let names: Vec<&str> = payload.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names == ["RequestCharge"], hears, "{names:?}");
    }
}

#[tokio::test]
async fn connections_are_listed_while_they_last() {
    let tester = Tester::new().await;
    tester.ok(&[KEYSPACE]).await;
    let mut client = Client::new(&tester.service, Version::V4);
    let options = vec![
        ("CQL_VERSION", "3.0.0"),
        ("DRIVER_NAME", "a driver"),
        ("DRIVER_VERSION", "1.2"),
    ];
    assert_eq!(client.ask(Request::Startup(options)).await, Response::Ready);
    client.query("USE ks").await;
    let asked = "SELECT JSON * FROM system_views.clients WHERE address = '127.0.0.1' AND port = 1";
    let listed = async || {
        let ResultBody::Rows(rows) = tester.ok(&[asked]).await.body else {
            panic!("no rows");
        };
        let cells = rows.cells().into_iter().flatten();
        let texts: Vec<String> = cells.map(|it| String::from_utf8(it).unwrap()).collect();
        texts.join("; ")
    };
    assert_eq!(
        listed().await,
        r#"{"address": "127.0.0.1", "port": 1, "client_options": {"CQL_VERSION": "3.0.0", "#
            .to_owned()
            + r#""DRIVER_NAME": "a driver", "DRIVER_VERSION": "1.2"}, "#
            + r#""connection_stage": "ready", "driver_name": "a driver", "#
            + r#""driver_version": "1.2", "hostname": "127.0.0.1", "keyspace_name": "ks", "#
            + r#""protocol_version": 4, "request_count": 2, "ssl_cipher_suite": null, "#
            + r#""ssl_enabled": false, "ssl_protocol": null, "username": "anonymous"}"#
    );
    drop(client);
    let gone = async {
        while !listed().await.is_empty() {
            tokio::task::yield_now().await;
        }
    };
    let gone = tokio::time::timeout(std::time::Duration::from_secs(10), gone);
    gone.await.unwrap();
}

#[tokio::test]
async fn streams_are_answered_by_their_numbers() {
    let tester = Tester::new().await;
    let mut client = Client::started(&tester.service, Version::V4, None).await;
    for stream in 0..200 {
        client
            .send(stream, query("DESCRIBE KEYSPACES"), false)
            .await;
    }
    let mut streams = Vec::new();
    for _ in 0..200 {
        streams.push(client.next().await.unwrap().stream);
    }
    streams.sort_unstable();
    assert_eq!(streams, (0..200).collect::<Vec<i16>>());
}

#[tokio::test]
async fn bad_bytes_cost_one_connection() {
    let tester = Tester::new().await;
    let mut good = Client::started(&tester.service, Version::V4, None).await;
    for bytes in [
        &[0x42, 0, 0, 5, 5, 0, 0, 0, 0][..],
        &[4, 0, 0, 1, 0x63, 0, 0, 0, 0],
        &[4, 0, 0, 1, 7, 0xff, 0xff, 0xff, 0xff],
        &[0x84, 0, 0, 1, 7, 0, 0, 0, 0],
    ] {
        let mut bad = Client::new(&tester.service, Version::V4);
        bad.send_bytes(bytes).await;
        let mut answer = bad.next().await.expect("an error");
        let (kind, _) = error(std::mem::replace(&mut answer.response, Response::Ready));
        assert_eq!(kind, ErrorKind::Protocol, "{bytes:?}");
        assert!(bad.next().await.is_none(), "{bytes:?}");
    }
    // A body that is no request costs that request only.
    good.send_bytes(&[4, 0, 0, 9, 7, 0, 0, 0, 2, 0, 0]).await;
    let answer = good.next().await.unwrap();
    assert_eq!(
        (answer.stream, error(answer.response).0),
        (9, ErrorKind::Protocol)
    );
    assert!(matches!(
        good.query("USE system").await,
        Response::Result(_)
    ));
}

#[tokio::test]
async fn traces_are_kept() {
    let tester = Tester::new().await;
    let mut client = Client::started(&tester.service, Version::V4, None).await;
    client.send(1, query("DESCRIBE KEYSPACES"), true).await;
    let answer = client.next().await.unwrap();
    let id = answer.extras.tracing.unwrap();
    let traces = tester.service.traces.all();
    assert_eq!(traces[0].id, id);
    assert_eq!(traces[0].steps[0].activity, "Parsing DESCRIBE KEYSPACES");
    let rows = crate::system::rows(&tester.service, "system_traces", "sessions");
    assert_eq!(rows.await.unwrap()[0][0].as_deref(), Some(&id[..]));
}

#[tokio::test]
async fn mistakes_are_told_with_their_codes() {
    let tester = Tester::new().await;
    tester.ok(&[KEYSPACE]).await;
    let mut client = Client::started(&tester.service, Version::V5, None).await;
    for (text, expected) in [
        ("SELEC", ErrorKind::Syntax),
        ("USE nope", ErrorKind::Invalid),
        (
            KEYSPACE,
            ErrorKind::AlreadyExists {
                keyspace: "ks".to_owned(),
                table: String::new(),
            },
        ),
        (
            "CREATE KEYSPACE k WITH replication = {'class': 'X'}",
            ErrorKind::Configuration,
        ),
    ] {
        assert_eq!(error(client.query(text).await).0, expected, "{text}");
    }
    let prepare = Prepare {
        query: "SELECT * FROM ks.nope",
        keyspace: None,
    };
    assert_eq!(
        error(client.ask(Request::Prepare(prepare)).await).0,
        ErrorKind::Invalid
    );
    let batch = Batch {
        kind: BatchKind::Logged,
        queries: vec![BatchQuery {
            query: QueryOrId::Id(b"0123456789abcdef"),
            values: Vec::new(),
        }],
        parameters: Parameters::new(Consistency::One),
    };
    let (kind, _) = error(client.ask(Request::Batch(batch)).await);
    let id = b"0123456789abcdef".to_vec();
    assert_eq!(kind, ErrorKind::Unprepared { id });
}

#[tokio::test]
async fn partitions_and_hot_keys_are_shown_in_virtual_tables() {
    let tester = Tester::new().await;
    tester
        .ok(&[
            KEYSPACE,
            "CREATE TABLE ks.t (k int, c int, v text, PRIMARY KEY (k, c)) \
             WITH cosmosdb_provisioned_throughput = 20000",
        ])
        .await;
    for row in 0..30 {
        let insert = |k| format!("INSERT INTO ks.t (k, c, v) VALUES ({k}, {row}, 'x')");
        tester.ok(&[&insert(7), &insert(row)]).await;
    }
    let rows = async |table| {
        crate::system::rows(&tester.service, "system_views", table)
            .await
            .unwrap()
    };
    let partitions = rows("partitions").await;
    assert_eq!(partitions.len(), 2);
    for table in ["hot_keys", "large_keys"] {
        let keys = rows(table).await;
        let relation = tester.service.catalog().await.unwrap();
        let relation = relation
            .find("system_views")
            .unwrap()
            .relation(table)
            .unwrap();
        let mut columns = relation.table.columns.iter();
        let key = columns.position(|it| it.name == "partition_key").unwrap();
        assert_eq!(
            keys[0][key].as_deref(),
            Some(b"k = 7".as_slice()),
            "{table}"
        );
    }
    let cells = async |statement: &str| {
        let ResultBody::Rows(rows) = tester.ok(&[statement]).await.body else {
            panic!("no rows");
        };
        rows.cells()
    };
    let counts = "SELECT sum(partitions_count), max(mean_partition_size) FROM \
                  system.size_estimates WHERE keyspace_name = 'ks'";
    let largest = "SELECT max(bytes) FROM system_views.large_keys WHERE keyspace_name = 'ks' AND \
                   table_name = 't'";
    let number =
        |cell: &Option<Vec<u8>>| i64::from_be_bytes(cell.as_deref().unwrap().try_into().unwrap());
    let (estimated, largest) = (cells(counts).await, cells(largest).await);
    assert_eq!(number(&estimated[0]), 30, "of 60 rows");
    let (mean, largest) = (number(&estimated[1]), number(&largest[0]));
    assert!(mean > largest / 30 && mean <= largest, "{mean} {largest}");
    let none = "SELECT message FROM system_views.partition_warnings WHERE keyspace_name = 'ks' \
                AND table_name = 't'";
    assert_eq!(cells(none).await, []);
}
