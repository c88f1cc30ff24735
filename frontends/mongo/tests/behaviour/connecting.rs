//! The first words of a connection, what may follow, and what ends it.

use bson::{Bson, Document, doc};
use tessera_mongo::MongoConfig;

use crate::client::{
    COMPRESSED, EXHAUST_ALLOWED, MESSAGE, MORE_TO_COME, QUERY, Service, message_body, packet,
};

fn query(namespace: &str, document: &Document) -> Vec<u8> {
    let mut body = 0i32.to_le_bytes().to_vec();
    body.extend_from_slice(namespace.as_bytes());
    body.push(0);
    body.extend_from_slice(&0i32.to_le_bytes());
    body.extend_from_slice(&(-1i32).to_le_bytes());
    body.extend(document.to_vec().unwrap());
    packet(1, QUERY, &body)
}

#[tokio::test]
async fn the_old_hello_is_answered_in_its_old_form() {
    let service = Service::plain().await;
    let mut client = service.connect();
    let hello = doc! { "ismaster": 1, "helloOk": true, "compression": ["none"] };
    client.send(&query("admin.$cmd", &hello)).await;
    let reply = client.receive().await.unwrap();
    assert_eq!((reply.op_code, reply.response_to), (1, 1));
    assert_eq!(reply.body[..4], 8i32.to_le_bytes());
    assert_eq!(reply.body[16..20], 1i32.to_le_bytes());
    let reply = Document::from_reader(&reply.body[20..]).unwrap();
    for (field, expected) in doc! {
        "helloOk": true, "ismaster": true, "msg": "isdbgrid", "maxBsonObjectSize": 16_777_216,
        "maxMessageSizeBytes": 48_000_000, "maxWriteBatchSize": 100_000,
        "logicalSessionTimeoutMinutes": 30, "connectionId": 1, "minWireVersion": 0,
        "maxWireVersion": 25, "readOnly": false, "ok": 1.0,
    } {
        assert_eq!(reply.get(&field), Some(&expected), "{field}");
    }
    assert!(!reply.contains_key("compression") && !reply.contains_key("setName"));

    // And nothing but hello.
    client.send(&query("admin.$cmd", &doc! { "ping": 1 })).await;
    let refused = client.receive().await.unwrap();
    let refused = Document::from_reader(&refused.body[20..]).unwrap();
    assert_eq!(refused.get_i32("code").unwrap(), 352);
    client.send(&query("test.people", &doc! {})).await;
    let refused = client.receive().await.unwrap();
    assert_eq!(refused.body[..4], 2i32.to_le_bytes());
    client.ping().await;
}

#[tokio::test]
async fn a_replica_set_of_one_is_played_on_request() {
    let address = "127.0.0.1:27017";
    let service = Service::new(MongoConfig {
        replica_set: Some("rs0".to_owned()),
        address: Some(address.parse().unwrap()),
        ..MongoConfig::default()
    })
    .await;
    let reply = service.connect().must("admin", doc! { "hello": 1 }).await;
    for (field, expected) in doc! {
        "isWritablePrimary": true, "secondary": false, "setName": "rs0", "hosts": [address],
        "me": address, "primary": address,
    } {
        assert_eq!(reply.get(&field), Some(&expected), "{field}");
    }
    assert!(!reply.contains_key("msg"));
    let status = service
        .connect()
        .must("admin", doc! { "replSetGetStatus": 1 })
        .await;
    assert_eq!(status.get_i32("myState").unwrap(), 1);
    let router = Service::plain().await;
    assert_eq!(
        router.connect().code(doc! { "replSetGetStatus": 1 }).await,
        76
    );
}

#[tokio::test]
async fn what_the_client_says_of_itself_is_said_once() {
    let service = Service::plain().await;
    let mut client = service.connect();
    let metadata = doc! { "application": { "name": "tests" }, "driver": { "name": "none" } };
    client
        .must("admin", doc! { "hello": 1, "client": metadata.clone() })
        .await;
    assert_eq!(
        client.code(doc! { "hello": 1, "client": metadata }).await,
        186
    );
    let long = doc! { "application": { "name": "x".repeat(600) } };
    assert_eq!(
        service
            .connect()
            .code(doc! { "hello": 1, "client": long })
            .await,
        185
    );
}

#[tokio::test]
async fn who_wants_no_reply_gets_none() {
    let service = Service::plain().await;
    let mut client = service.connect();
    let quiet = doc! { "endSessions": [], "writeConcern": { "w": 0 }, "$db": "admin" };
    client.send_message(MORE_TO_COME, &quiet).await;
    let unknown = doc! { "noSuchCommand": 1, "$db": "admin" };
    client.send_message(MORE_TO_COME, &unknown).await;
    client.ping().await;
}

#[tokio::test]
async fn checksums_are_verified_and_answered_with_checksums() {
    let service = Service::plain().await;
    let mut client = service.connect();
    let mut sent = packet(
        1,
        MESSAGE,
        &message_body(1, &doc! { "ping": 1, "$db": "admin" }),
    );
    let length = i32::try_from(sent.len() + 4).unwrap();
    sent[..4].copy_from_slice(&length.to_le_bytes());
    let mut wrong = sent.clone();
    sent.extend_from_slice(&crc32c::crc32c(&sent).to_le_bytes());
    client.send(&sent).await;
    let reply = client.receive().await.unwrap();
    assert_eq!(reply.body[..4], 1u32.to_le_bytes());

    wrong.extend_from_slice(&[1, 2, 3, 4]);
    client.send(&wrong).await;
    let refused = client.receive().await.unwrap().message().1;
    assert_eq!(refused.get_i32("code").unwrap(), 17);
    assert!(client.receive().await.is_none(), "the connection ends");
}

#[tokio::test]
async fn compression_is_agreed_on_and_used_in_turn() {
    let service = Service::plain().await;
    let ping = message_body(
        0,
        &doc! { "ping": 1, "comment": "x".repeat(100), "$db": "admin" },
    );
    let compress = |id: u8, data: &[u8]| -> Vec<u8> {
        match id {
            1 => snap::raw::Encoder::new().compress_vec(data).unwrap(),
            2 => {
                use std::io::Write as _;
                let level = flate2::Compression::fast();
                let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), level);
                zlib.write_all(data).unwrap();
                zlib.finish().unwrap()
            }
            _ => {
                let mut out = vec![0; 1_000];
                let length = zstd_safe::compress(out.as_mut_slice(), data, 1).unwrap();
                out.truncate(length);
                out
            }
        }
    };
    for (name, id) in [("snappy", 1u8), ("zlib", 2), ("zstd", 3)] {
        let mut sent = MESSAGE.to_le_bytes().to_vec();
        sent.extend_from_slice(&i32::try_from(ping.len()).unwrap().to_le_bytes());
        sent.push(id);
        sent.extend(compress(id, &ping));
        let sent = packet(7, COMPRESSED, &sent);

        let mut client = service.connect();
        let offer = doc! { "hello": 1, "compression": ["none", name, "rot13"] };
        let reply = client.must("admin", offer).await;
        assert_eq!(reply.get_array("compression").unwrap(), &[Bson::from(name)]);
        client.send(&sent).await;
        let reply = client.receive().await.unwrap();
        assert_eq!(
            (reply.op_code, reply.response_to),
            (COMPRESSED, 7),
            "{name}"
        );
        assert_eq!(reply.body[8], id);

        // Who agreed on nothing may not compress.
        let mut client = service.connect();
        client.send(&sent).await;
        let refused = client.receive().await.unwrap().message().1;
        assert_eq!(refused.get_i32("code").unwrap(), 17);
        assert!(client.receive().await.is_none());
    }
}

#[tokio::test]
async fn malformed_bytes_end_their_own_connection_only() {
    let service = Service::plain().await;
    let mut other = service.connect();
    other.ping().await;
    let ping = doc! { "ping": 1, "$db": "admin" };
    let mut broken_document = message_body(0, &ping);
    *broken_document.last_mut().unwrap() = 1;
    let mut no_string = message_body(0, &doc! { "ping": "x", "$db": "admin" });
    no_string[15] = 0xff;
    for bytes in [
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec(),
        vec![0; 16],
        packet(1, 2002, &[]),
        packet(1, 9999, b"whatever"),
        packet(1, MESSAGE, &[]),
        packet(1, MESSAGE, &[0, 0, 0, 0]),
        packet(1, MESSAGE, &[4, 0, 0, 0]),
        packet(1, MESSAGE, &broken_document),
        packet(1, MESSAGE, &no_string),
        packet(1, COMPRESSED, &[0; 20]),
        packet(1, QUERY, &[0; 4]),
        packet(1, 2005, &[0; 20]),
        48_000_001i32.to_le_bytes().repeat(4),
    ] {
        let mut client = service.connect();
        client.send(&bytes).await;
        // Perhaps an error, then the end.
        if client.receive().await.is_some() {
            assert!(client.receive().await.is_none(), "{bytes:?}");
        }
        client.served.await.unwrap();
        other.ping().await;
    }
}

#[tokio::test]
async fn a_packet_may_come_in_pieces_and_several_at_once() {
    let service = Service::plain().await;
    let mut client = service.connect();
    let ping = packet(
        5,
        MESSAGE,
        &message_body(0, &doc! { "ping": 1, "$db": "admin" }),
    );
    for byte in &ping {
        client.send(std::slice::from_ref(byte)).await;
        tokio::task::yield_now().await;
    }
    assert_eq!(client.receive().await.unwrap().response_to, 5);
    client.send(&ping.repeat(3)).await;
    for _ in 0..3 {
        assert_eq!(client.receive().await.unwrap().response_to, 5);
    }
}

#[tokio::test]
async fn a_monitor_is_told_again_and_again() {
    let service = Service::plain().await;
    let mut client = service.connect();
    let hello = client.must("admin", doc! { "hello": 1 }).await;
    let version = hello.get_document("topologyVersion").unwrap();
    let stream = doc! {
        "hello": 1, "topologyVersion": version.clone(), "maxAwaitTimeMS": 20, "$db": "admin",
    };
    let mut responds_to = client.send_message(EXHAUST_ALLOWED, &stream).await;
    for _ in 0..3 {
        let reply = client.receive().await.unwrap();
        let (flags, document) = reply.message();
        assert_eq!((flags, reply.response_to), (MORE_TO_COME, responds_to));
        assert_eq!(document.get_document("topologyVersion").unwrap(), version);
        responds_to = reply.request_id;
    }
    service.stop();
    while client.receive().await.is_some() {}

    // Without leave to go on there is one answer, after the wait.
    let service = Service::plain().await;
    let mut client = service.connect();
    let reply = client.run(
        "admin",
        doc! {
            "hello": 1, "topologyVersion": version.clone(), "maxAwaitTimeMS": 20,
        },
    );
    assert_eq!(reply.await.get_f64("ok").unwrap(), 1.0);
    assert_eq!(
        client.code(doc! { "hello": 1, "maxAwaitTimeMS": 20 }).await,
        31_368
    );
    client.ping().await;
}

#[tokio::test]
async fn a_stopping_server_finishes_what_runs() {
    let service = Service::for_tests().await;
    let mut client = service.connect();
    let block = doc! { "failCommands": ["ping"], "blockConnection": true, "blockTimeMS": 100 };
    let fail_point = doc! {
        "configureFailPoint": "failCommand", "mode": "alwaysOn", "data": block,
    };
    client.must("admin", fail_point).await;
    let id = client
        .send_message(0, &doc! { "ping": 1, "$db": "admin" })
        .await;
    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    service.stop();
    let reply = client.receive().await.unwrap();
    assert_eq!(reply.response_to, id);
    assert!(client.receive().await.is_none());
    client.served.await.unwrap();
}

#[tokio::test]
async fn replies_carry_the_time_of_the_cluster() {
    let service = Service::plain().await;
    let mut client = service.connect();
    for command in [doc! { "ping": 1 }, doc! { "noSuchCommand": 1 }] {
        let reply = client.run("admin", command).await;
        let time = reply.get_timestamp("operationTime").unwrap();
        let gossip = reply.get_document("$clusterTime").unwrap();
        assert_eq!(gossip.get_timestamp("clusterTime").unwrap(), time);
        assert!(time.time > 1_700_000_000);
    }
}
