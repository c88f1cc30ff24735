//! Change feeds as clients of the console read them. The store knows no API here, so items are
//! shown as digits: `0x78` is `x`.

use tokio::io::{AsyncBufReadExt, BufReader, DuplexStream, split};
use tokio::task::JoinHandle;

use super::*;

const CHANGES: &str = "/api/containers/table/account/a%20b/changes";
const FEED: &str = "/api/containers/table/account/a%20b/feed";

fn name() -> ContainerName {
    ContainerName::new("table", "account", "a b")
}

async fn put(store: &Store, key: &str, body: impl Into<hyper::body::Bytes>) {
    let mut transaction = store.begin().await.unwrap();
    let container = transaction.container(&name()).await.unwrap();
    let item = NewItem::new(Locator::murmur3(key.to_owned(), "1"), body);
    transaction.upsert(&container, item).await.unwrap();
    transaction.commit().await.unwrap();
}

async fn delete(store: &Store, key: &str) {
    let mut transaction = store.begin().await.unwrap();
    let container = transaction.container(&name()).await.unwrap();
    let locator = Locator::murmur3(key.to_owned(), "1");
    transaction.delete(&container, &locator).await.unwrap();
    transaction.commit().await.unwrap();
}

async fn get(console: &Console, query: &str) -> String {
    let request =
        format!("GET {CHANGES}?{query} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    exchange(console, &request).await
}

/// The lines of an answer, without what HTTP puts between them.
fn lines(answer: &str) -> Vec<serde_json::Value> {
    let lines = answer.lines().filter(|line| line.starts_with('{'));
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn token(lines: &[serde_json::Value]) -> String {
    lines.last().unwrap()["token"].as_str().unwrap().to_owned()
}

fn operations(lines: &[serde_json::Value]) -> Vec<String> {
    let named = lines.iter().filter_map(|line| {
        let item = line["item"].as_str().unwrap_or("-");
        Some(format!("{} {item}", line["operation"].as_str()?))
    });
    named.collect()
}

#[tokio::test]
async fn changes_are_read_from_token_to_token() {
    let console = filled().await;
    let store = console.store.clone();
    let answer = get(&console, "from=beginning").await;
    for part in [
        "HTTP/1.1 200 OK",
        "content-type: application/x-ndjson",
        "x-ms-request-charge: ",
        r#"{"operation":"upsert","key":{"partition_key":"0x616461","row_key":"0x31"},"#,
        r#""item":"0x78","version":""#,
        r#""has_more":false,"request_charge":"#,
    ] {
        assert!(answer.contains(part), "{part} is not in {answer}");
    }
    let latest = token(&lines(&answer));
    let all = token(&lines(&get(&console, "mode=all").await));
    for body in ["1", "2", "3"] {
        put(&store, "ada", body).await;
    }
    put(&store, "bob", "4").await;
    delete(&store, "bob").await;
    let latest = lines(&get(&console, &format!("after={latest}")).await);
    assert_eq!(operations(&latest), ["upsert 0x33"]);
    let found = lines(&get(&console, &format!("after={all}")).await);
    assert_eq!(
        operations(&found),
        [
            "replace 0x31",
            "replace 0x32",
            "replace 0x33",
            "insert 0x34",
            "delete -"
        ]
    );
    assert!(found.iter().all(|line| line["token"].is_string()));
    // From the middle, with a limit.
    let middle = found[1]["token"].as_str().unwrap();
    let some = lines(&get(&console, &format!("after={middle}&limit=2")).await);
    assert_eq!(operations(&some), ["replace 0x33", "insert 0x34"]);
    assert_eq!(some.last().unwrap()["has_more"], true);
    let rest = lines(&get(&console, &format!("after={}", token(&some))).await);
    assert_eq!(operations(&rest), ["delete -"]);
    store.drop_container(&name()).await.unwrap();
    let end = lines(&get(&console, &format!("after={}&follow=true", token(&rest))).await);
    assert_eq!(operations(&end), ["dropped -"]);
    assert_eq!(end[0]["container"]["container"], "a b");
}

#[tokio::test]
async fn what_cannot_be_read_is_refused_before_the_answer_begins() {
    let console = filled().await;
    let store = console.store.clone();
    let other = ContainerName::new("table", "account", "other");
    let new = NewContainer::default();
    store.create_container(&other, &new).await.unwrap();
    let strange = exchange(
        &console,
        "GET /api/containers/table/account/other/changes HTTP/1.1\r\nhost: localhost\r\n\
         connection: close\r\n\r\n",
    )
    .await;
    let strange = token(&lines(&strange));
    let own = token(&lines(&get(&console, "feed-range=0..100").await));
    for (query, expected) in [
        (
            "mode=some",
            &["HTTP/1.1 400 ", "mode=some is not a mode"][..],
        ),
        ("after=x", &["HTTP/1.1 400 ", "not valid"]),
        ("after=AAAAAAAA", &["HTTP/1.1 400 ", "not valid"]),
        (
            &format!("after={strange}"),
            &[
                "HTTP/1.1 400 ",
                "of container 'table:account.other', not of",
            ],
        ),
        (
            &format!("after={own}&feed-range=0..101"),
            &["HTTP/1.1 400 ", "the token reads the range 0..100"],
        ),
        (&format!("after={own}&feed-range=5..7"), &["200 OK"]),
        (
            "mode=all&from=2001-01-01T00:00:00Z",
            &["HTTP/1.1 410 ", "were not kept"],
        ),
    ] {
        let answer = get(&console, query).await;
        for part in expected {
            assert!(answer.contains(part), "{part} is not in {answer}");
        }
    }
    let nowhere = "GET /api/containers/table/account/nowhere/changes";
    check(&console, nowhere, &["HTTP/1.1 404 ", "does not exist"]).await;
    let evil = "host: evil.example";
    check_with(&console, &format!("GET {CHANGES}"), evil, "", &["403"]).await;
}

/// A client that follows.
struct Follower {
    lines: BufReader<tokio::io::ReadHalf<DuplexStream>>,
    stop: watch::Sender<bool>,
    served: JoinHandle<()>,
}

impl Follower {
    async fn new(console: &Arc<Console>, query: &str, headers: &str, buffer: usize) -> Self {
        let (client, server) = duplex(buffer);
        let (stop, stopping) = watch::channel(false);
        let connection = connection(server, stopping);
        let console = Arc::clone(console);
        let served = tokio::spawn(async move { console.serve(connection).await });
        let (read, mut write) = split(client);
        let request = format!("GET {CHANGES}?{query} HTTP/1.1\r\nhost: localhost\r\n{headers}\r\n");
        write.write_all(request.as_bytes()).await.unwrap();
        Self {
            lines: BufReader::new(read),
            stop,
            served,
        }
    }

    /// The next line that begins so.
    async fn line(&mut self, beginning: &str) -> String {
        loop {
            let mut line = String::new();
            let read = self.lines.read_line(&mut line);
            let read = tokio::time::timeout(Duration::from_secs(20), read).await;
            assert!(
                read.unwrap().unwrap() > 0,
                "no line begins with {beginning}"
            );
            if line.starts_with(beginning) {
                return line.trim_end().to_owned();
            }
        }
    }
}

#[tokio::test]
async fn a_browser_hears_of_changes_as_they_come_and_comes_back() {
    let console = Arc::new(filled().await);
    let store = console.store.clone();
    let accept = "accept: text/event-stream\r\n";
    let mut browser = Follower::new(&console, "mode=all&heartbeat=1s", accept, 1 << 16).await;
    assert_eq!(
        browser.line("content-type").await,
        "content-type: text/event-stream"
    );
    // Nothing happens: the token is told with the next heartbeat.
    assert!(browser.line(": ").await.ends_with(" request units"));
    let quiet = browser.line("id: ").await;
    put(&store, "ada", "1").await;
    let event = browser.line("data: ").await;
    assert!(event.contains(r#""operation":"replace""#), "{event}");
    assert!(!event.contains("token"), "{event}");
    let id = browser.line("id: ").await;
    assert_ne!(id, quiet);
    let feeds = exchange(
        &console,
        "GET /api/feeds HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n",
    )
    .await;
    assert!(
        feeds.contains(r#""consumers":[{"manner":"HTTP""#),
        "{feeds}"
    );
    drop(browser);
    put(&store, "ada", "2").await;
    put(&store, "ada", "3").await;
    let back = format!("{accept}last-event-{id}\r\n");
    let mut browser = Follower::new(&console, "mode=all", &back, 1 << 16).await;
    for body in ["0x32", "0x33"] {
        let event = browser.line("data: ").await;
        assert!(event.contains(body), "{event}");
    }
    // A server that stops ends the answer.
    browser.stop.send_replace(true);
    let ended = tokio::time::timeout(Duration::from_secs(20), browser.served).await;
    ended.unwrap().unwrap();
}

#[tokio::test]
async fn a_client_that_reads_nothing_holds_one_part() {
    let console = Arc::new(filled().await);
    let store = console.store.clone();
    let free = "POST /api/containers/table/account/a%20b/throughput";
    check_with(&console, free, JSON, r#"{"unlimited":true}"#, &["200 OK"]).await;
    let start = token(&lines(&get(&console, "mode=all").await));
    let large = vec![b'x'; 64 << 10];
    for number in 0..200 {
        put(&store, &number.to_string(), large.clone()).await;
    }
    let query = format!("after={start}&follow=true&limit=200");
    let mut slow = Follower::new(&console, &query, "", 1 << 10).await;
    slow.line("content-type").await;
    // Until it has made what it makes without a reader.
    let mut before = usize::MAX;
    let held = loop {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let held = store.memory().used();
        if held == before {
            break held;
        }
        before = held;
    };
    // Twelve megabytes are stored, and digits are twice as long.
    assert!(held > 0 && held < 4 << 20, "{held} bytes are held");
    let mut count = 0;
    while count < 200 {
        let line = slow.line("{\"operation\"").await;
        assert!(line.len() > 128 << 10);
        count += 1;
    }
    assert!(slow.line("{\"token\"").await.contains("has_more"));
}

#[tokio::test]
async fn feeds_are_turned_on_shown_and_turned_off() {
    let console = filled().await;
    let show = format!("GET {FEED}");
    let ranges = r#""ranges":["-9223372036854775808..9223372036854775807"]"#;
    check(&console, &show, &["200 OK", r#"{"feed":null,"#, ranges]).await;
    let list = "GET /api/feeds";
    check(&console, list, &[r#""feeds":[]"#, r#""is_behind":false"#]).await;
    let turn_on = format!("PUT {FEED}");
    let wanted = r#"{"retention":"7d","before":true}"#;
    let state =
        r#""is_on":true,"is_kept":true,"before":true,"after":false,"retention_seconds":604800.0"#;
    check_with(&console, &turn_on, JSON, wanted, &["200 OK", state]).await;
    // What is not said stays.
    let state = r#""is_kept":false,"before":true,"after":true,"retention_seconds":604800.0"#;
    let wanted = r#"{"keep":false,"after":true}"#;
    check_with(&console, &turn_on, JSON, wanted, &["200 OK", state]).await;
    let begun = token(&lines(&get(&console, "mode=all").await));
    put(&console.store, "ada", "y").await;
    let answer = get(&console, &format!("after={begun}")).await;
    assert!(
        answer.contains(r#""item":"0x79","before":"0x78""#),
        "{answer}"
    );
    for (body, expected) in [
        (r#"{"retention":"7"}"#, "a time such as"),
        (r#"{"retention":"0s"}"#, "a time such as"),
        (r#"{"retention":"99999999999999999999d"}"#, "a time such as"),
        (r#"{"kept":true}"#, "unknown field"),
        ("[]", "the body must be like"),
    ] {
        check_with(&console, &turn_on, JSON, body, &["400", expected]).await;
    }
    check(&console, &turn_on, &["415"]).await;
    let labels = r#"{api="table",database="account",container="a b",feed=""#;
    for metric in [
        "tessera_feed_bytes",
        "tessera_feed_retention_seconds",
        "tessera_feed_reaches_back_seconds",
        "tessera_feed_consumers",
    ] {
        check(&console, "GET /metrics", &[&format!("{metric}{labels}")]).await;
    }
    check(
        &console,
        "GET /metrics",
        &["tessera_feed_unsettled_seconds 0"],
    )
    .await;
    let off = format!("DELETE {FEED}");
    check(&console, &off, &["200 OK", r#"{"feed":null,"#]).await;
    check(&console, list, &[r#""is_on":false"#]).await;
    let end = get(&console, &format!("after={begun}&follow=true")).await;
    assert!(end.contains(r#"{"operation":"ended""#), "{end}");
    let nowhere = "GET /api/containers/table/account/nowhere/feed";
    check(&console, nowhere, &["404", "does not exist"]).await;
}
