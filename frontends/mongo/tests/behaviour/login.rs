//! Logging in, from the client's side.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bson::spec::BinarySubtype;
use bson::{Binary, Bson, Document, doc};
use hmac::{Hmac, KeyInit as _, Mac as _};
use md5::{Digest as _, Md5};
use sha1::Sha1;
use sha2::Sha256;

use crate::client::{Client, Service};

pub(crate) const SHA_1: &str = "SCRAM-SHA-1";
pub(crate) const SHA_256: &str = "SCRAM-SHA-256";

fn mac(mechanism: &str, key: &[u8], data: &[u8]) -> Vec<u8> {
    if mechanism == SHA_1 {
        let mut mac = Hmac::<Sha1>::new_from_slice(key).unwrap();
        mac.update(data);
        return mac.finalize().into_bytes().to_vec();
    }
    let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
    mac.update(data);
    mac.finalize().into_bytes().to_vec()
}

fn hash(mechanism: &str, data: &[u8]) -> Vec<u8> {
    match mechanism {
        SHA_1 => Sha1::digest(data).to_vec(),
        _ => Sha256::digest(data).to_vec(),
    }
}

fn salted(mechanism: &str, (user, password): (&str, &str), salt: &[u8], rounds: u32) -> Vec<u8> {
    if mechanism == SHA_1 {
        let digest = Md5::digest(format!("{user}:mongo:{password}"));
        let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut out = vec![0; 20];
        pbkdf2::pbkdf2::<Hmac<Sha1>>(hex.as_bytes(), salt, rounds, &mut out).unwrap();
        return out;
    }
    let mut out = vec![0; 32];
    pbkdf2::pbkdf2::<Hmac<Sha256>>(password.as_bytes(), salt, rounds, &mut out).unwrap();
    out
}

fn binary(text: &str) -> Bson {
    Bson::Binary(Binary {
        subtype: BinarySubtype::Generic,
        bytes: text.as_bytes().to_vec(),
    })
}

fn payload(reply: &Document) -> String {
    match reply.get("payload") {
        Some(Bson::Binary(binary)) => String::from_utf8(binary.bytes.clone()).unwrap(),
        other => panic!("{other:?}"),
    }
}

pub(crate) const NONCE: &str = "fyko+d2lbbFgONRv9qkxdawL";

pub(crate) fn first(user: &str) -> String {
    format!("n,,n={user},r={NONCE}")
}

pub(crate) fn start(mechanism: &str, user: &str) -> Document {
    doc! {
        "saslStart": 1, "mechanism": mechanism, "payload": binary(&first(user)),
        "options": { "skipEmptyExchange": true },
    }
}

/// The client's last message, and what the server must answer.
fn proof(mechanism: &str, who: (&str, &str), server_first: &str) -> (String, String) {
    let part = |key: &str| {
        let part = server_first
            .split(',')
            .find_map(|part| part.strip_prefix(key));
        part.unwrap().to_owned()
    };
    let (nonce, rounds) = (part("r="), part("i=").parse().unwrap());
    assert!(nonce.starts_with(NONCE) && nonce.len() > NONCE.len());
    let salt = STANDARD.decode(part("s=")).unwrap();
    let salted = salted(mechanism, who, &salt, rounds);
    let client_key = mac(mechanism, &salted, b"Client Key");
    let without_proof = format!("c=biws,r={nonce}");
    let bare = first(who.0).split_off(3);
    let said = format!("{bare},{server_first},{without_proof}");
    let signature = mac(mechanism, &hash(mechanism, &client_key), said.as_bytes());
    let proof: Vec<u8> = client_key
        .iter()
        .zip(&signature)
        .map(|(a, b)| a ^ b)
        .collect();
    let server = mac(
        mechanism,
        &mac(mechanism, &salted, b"Server Key"),
        said.as_bytes(),
    );
    let proof = format!("{without_proof},p={}", STANDARD.encode(proof));
    (proof, format!("v={}", STANDARD.encode(server)))
}

/// Logs in; the code of the failure if that fails.
pub(crate) async fn log_in(
    client: &mut Client,
    mechanism: &str,
    database: &str,
    who: (&str, &str),
) -> Result<(), i32> {
    let code = |reply: &Document| reply.get_i32("code").ok();
    let reply = client.run(database, start(mechanism, who.0)).await;
    if let Some(code) = code(&reply) {
        return Err(code);
    }
    assert!(!reply.get_bool("done").unwrap());
    let (proof, expected) = proof(mechanism, who, &payload(&reply));
    let go_on = doc! { "saslContinue": 1, "conversationId": 1, "payload": binary(&proof) };
    let reply = client.run(database, go_on).await;
    if let Some(code) = code(&reply) {
        return Err(code);
    }
    assert!(reply.get_bool("done").unwrap());
    assert_eq!(
        payload(&reply),
        expected,
        "the server knows the password too"
    );
    Ok(())
}

/// A connection of someone who is logged in.
pub(crate) async fn connect_as(service: &Service, database: &str, who: (&str, &str)) -> Client {
    let mut client = service.connect();
    log_in(&mut client, SHA_256, database, who).await.unwrap();
    client
}

#[tokio::test]
async fn nobody_does_anything_before_they_log_in() {
    let service = Service::guarded().await;
    for mechanism in [SHA_1, SHA_256] {
        let mut client = service.connect();
        client.ping().await;
        client.must("admin", doc! { "hello": 1 }).await;
        assert_eq!(client.code(doc! { "getCmdLineOpts": 1 }).await, 13);
        let logged_in = log_in(&mut client, mechanism, "admin", ("root", "secret")).await;
        assert_eq!(logged_in, Ok(()));
        client.must("admin", doc! { "getCmdLineOpts": 1 }).await;
        let status = client.must("admin", doc! { "connectionStatus": 1 }).await;
        let users = status
            .get_document("authInfo")
            .unwrap()
            .get_array("authenticatedUsers");
        assert_eq!(
            users.unwrap(),
            &[Bson::from(doc! { "user": "root", "db": "admin" })]
        );
        client.must("admin", doc! { "logout": 1 }).await;
        assert_eq!(client.code(doc! { "getCmdLineOpts": 1 }).await, 13);
    }
}

#[tokio::test]
async fn wrong_passwords_and_unknown_users_look_the_same() {
    let service = Service::guarded().await;
    for mechanism in [SHA_1, SHA_256] {
        let mut shapes = Vec::new();
        for who in [("root", "wrong"), ("nobody", "secret")] {
            let mut client = service.connect();
            let mechanisms = doc! { "hello": 1, "saslSupportedMechs": format!("admin.{}", who.0) };
            let hello = client.must("admin", mechanisms).await;
            let reply = client.must("admin", start(mechanism, who.0)).await;
            let text = payload(&reply);
            let salt = text.split(',').nth(1).unwrap().to_owned();
            let again = client.must("admin", start(mechanism, who.0)).await;
            assert!(payload(&again).contains(&salt), "the same salt each time");
            shapes.push((hello.get("saslSupportedMechs").cloned(), text.len()));
            let failed = log_in(&mut client, mechanism, "admin", who).await;
            assert_eq!(failed, Err(18));
            assert_eq!(client.code(doc! { "getCmdLineOpts": 1 }).await, 13);
        }
        assert_eq!(shapes[0], shapes[1]);
    }
}

#[tokio::test]
async fn a_login_may_begin_with_the_hello() {
    let service = Service::guarded().await;
    let mut client = service.connect();
    let mut login = start(SHA_256, "root");
    login.insert("db", "admin");
    let hello = doc! { "hello": 1, "speculativeAuthenticate": login };
    let hello = client.must("admin", hello).await;
    let reply = hello.get_document("speculativeAuthenticate").unwrap();
    let (proof, _) = proof(SHA_256, ("root", "secret"), &payload(reply));
    let go_on = doc! { "saslContinue": 1, "conversationId": 1, "payload": binary(&proof) };
    assert!(client.must("admin", go_on).await.get_bool("done").unwrap());
    client.must("admin", doc! { "getCmdLineOpts": 1 }).await;

    let unknown = doc! { "saslStart": 1, "mechanism": "PLAIN", "payload": binary("x"), "db": "a" };
    let hello = doc! { "hello": 1, "speculativeAuthenticate": unknown };
    let hello = service.connect().must("admin", hello).await;
    assert!(!hello.contains_key("speculativeAuthenticate"));
}

#[tokio::test]
async fn a_client_may_want_the_last_empty_exchange() {
    let service = Service::guarded().await;
    let mut client = service.connect();
    let mut begin = start(SHA_256, "root");
    begin.remove("options");
    let reply = client.must("admin", begin).await;
    let (proof, expected) = proof(SHA_256, ("root", "secret"), &payload(&reply));
    let go_on = doc! { "saslContinue": 1, "conversationId": 1, "payload": binary(&proof) };
    let reply = client.must("admin", go_on).await;
    assert_eq!(
        (reply.get_bool("done").unwrap(), payload(&reply)),
        (false, expected)
    );
    assert_eq!(
        client.code(doc! { "getCmdLineOpts": 1 }).await,
        13,
        "not yet"
    );
    let empty = doc! { "saslContinue": 1, "conversationId": 1, "payload": binary("") };
    assert!(
        client
            .must("admin", empty.clone())
            .await
            .get_bool("done")
            .unwrap()
    );
    client.must("admin", doc! { "getCmdLineOpts": 1 }).await;
    assert_eq!(
        client.code(empty).await,
        17,
        "there is no conversation any more"
    );
}

#[tokio::test]
async fn other_mechanisms_are_not_offered() {
    let service = Service::guarded().await;
    let mut client = service.connect();
    assert_eq!(client.code(start("PLAIN", "root")).await, 334);
    assert_eq!(
        client
            .code(doc! { "authenticate": 1, "mechanism": "MONGODB-X509" })
            .await,
        334
    );
    let malformed = doc! { "saslStart": 1, "mechanism": SHA_256, "payload": binary("nonsense") };
    assert_eq!(client.code(malformed).await, 18);
}

#[tokio::test]
async fn guesses_are_held_up_and_others_hardly() {
    let service = Service::guarded().await;
    let wrong = ("root", "wrong");
    for (guess, mechanism) in [SHA_1, SHA_256].into_iter().cycle().take(12).enumerate() {
        // Each on a connection of its own, and each second one after a hello.
        let mut client = service.connect_from(&format!("10.0.0.1:{}", 5_000 + guess));
        let failed = log_in(&mut client, mechanism, "admin", wrong).await;
        assert_eq!(failed, Err(18), "guess {guess}");
    }
    let began = std::time::Instant::now();
    let mut client = service.connect_from("10.0.0.1:6000");
    assert_eq!(log_in(&mut client, SHA_256, "admin", wrong).await, Err(18));
    let held_up = began.elapsed();
    assert!(held_up.as_millis() >= 400, "{held_up:?}");
    let began = std::time::Instant::now();
    let mut owner = service.connect_from("10.0.0.2:5000");
    let right = ("root", "secret");
    assert_eq!(log_in(&mut owner, SHA_256, "admin", right).await, Ok(()));
    let bound = std::time::Duration::from_secs(2) + held_up;
    assert!(began.elapsed() < bound, "{:?}", began.elapsed());
}
