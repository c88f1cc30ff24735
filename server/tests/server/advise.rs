//! `tessera advise` over files and over a stored container.

use std::collections::HashMap;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;

use bytes::Bytes;
use serde_json::Value;
use tempfile::TempDir;
use tessera_core::Store;
use tessera_core::definition::NewContainer;
use tessera_core::item::NewItem;
use tessera_core::locator::Locator;
use tessera_core::name::ContainerName;
use tessera_core::provisioning::Throughput;
use tessera_core::store::StoreOptions;
use tessera_storage::{Durability, EngineConfig};

use crate::support::{Server, outcome, tessera};

/// Twelve hundred documents: even tenants, a hot country, a unique id, a nested field.
fn documents() -> String {
    let document = |number: u32| {
        let tenant = number % 300;
        let country = if !number.is_multiple_of(4) {
            "DE"
        } else {
            ["FR", "PL"][number as usize / 4 % 2]
        };
        format!(
            "{{\"id\":{number},\"tenant\":\"t{tenant}\",\"country\":\"{country}\",\
             \"at\":{{\"shop\":\"s{}\"}},\"tags\":[1]}}\n",
            number % 100
        )
    };
    (0..1_200).map(document).collect()
}

fn folder_with(name: &str, content: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join(name), content).unwrap();
    folder
}

/// Runs `tessera advise` in the folder: exit code, output, errors.
fn advise(folder: &Path, arguments: &[&str]) -> (i32, String, String) {
    outcome(tessera(&["advise"]).args(arguments).current_dir(folder))
}

fn advise_json(folder: &Path, arguments: &[&str]) -> Value {
    let (code, printed, errors) = advise(folder, &[arguments, &["--format", "json"]].concat());
    assert_eq!((code, errors.as_str()), (0, ""));
    serde_json::from_str(&printed).unwrap()
}

fn assert_holds(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no {part:?} in:\n{text}");
    }
}

#[test]
fn documents_are_reported_on_in_words_and_in_a_picture() {
    let folder = folder_with("orders.ndjson", &documents());
    let keys = ["--key", "tenant", "--key", "country", "--key", "at.shop,id"];
    let file = ["orders.ndjson", "--svg", "spread.svg", "--partitions", "4"];
    let (code, printed, errors) = advise(folder.path(), &[&keys[..], &file].concat());
    assert_eq!((code, errors.as_str()), (0, ""));
    assert_holds(
        &printed,
        &[
            "1,200 records, ",
            "5.50 RU to write one, 1.00 RU to read one",
            "4 physical partitions, 40,000 RU/s divided evenly among them",
            "tenant — good",
            "300, 4.0 records each",
            "country — poor",
            "\"DE\": 75.0 % of records, 75.0 % of request units",
            "\"FR\" 12.5 %; \"PL\" 12.5 %",
            "never beyond         13,333 RU/s",
            "3 values cannot fill 4 physical partitions",
            "at.shop,id — good",
            "1,200, 1.0 records each",
            "Take tenant: it has 300 values",
            "The spread is drawn in spread.svg",
        ],
    );
    let svg = fs::read_to_string(folder.path().join("spread.svg")).unwrap();
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
    assert_holds(
        &svg,
        &[
            "prefers-color-scheme: dark",
            "the hottest key &quot;DE&quot;: 75.0 %",
        ],
    );
    assert_eq!(svg.matches("<rect class=\"bar").count(), 3 * 4);
    assert!(!svg.contains("href"), "needs something else");
}

#[test]
fn the_same_is_there_as_json() {
    let folder = folder_with("orders.ndjson", &documents());
    let key = ["orders.ndjson", "--key", "country", "--throughput", "25000"];
    let report = advise_json(folder.path(), &key);
    assert_eq!(report["records"], 1_200);
    assert_eq!(report["physical_partitions"], 3);
    assert_eq!(report["recommendation"]["key"], Value::Null);
    let country = &report["candidates"][0];
    assert_eq!(country["distinct"]["count"], 3);
    assert_eq!(country["distinct"]["is_exact"], true);
    assert_eq!(country["hottest"][0]["key"], "\"DE\"");
    assert_eq!(country["hottest"][0]["records"], 900);
    let partitions = country["partitions"].as_array().unwrap();
    let shares = partitions
        .iter()
        .map(|one| one["share"]["records"].as_f64().unwrap());
    let hottest = shares.fold(0.0, f64::max);
    let expected = 25_000.0 / 3.0 / hottest;
    let first_at = country["throttling"]["first_at"].as_f64().unwrap();
    assert!((first_at - expected).abs() < 1.0, "{first_at} {expected}");
}

#[test]
fn fields_are_tried_if_no_key_is_named() {
    let folder = folder_with("orders.ndjson", &documents());
    let report = advise_json(folder.path(), &["orders.ndjson"]);
    let candidates = report["candidates"].as_array().unwrap();
    let keys: Vec<_> = candidates
        .iter()
        .map(|one| one["key"].as_str().unwrap())
        .collect();
    assert_eq!(keys, ["id", "tenant", "country"]);
    assert_eq!(report["recommendation"]["key"], "tenant");
}

#[test]
fn tables_of_values_are_read_too_also_from_standard_input() {
    let rows = (0..900).map(|n| format!("{n},\"tenant, {}\",{}\n", n % 300, n % 2));
    let table = format!("\u{feff}id,tenant,flag\n{}", rows.collect::<String>());
    let folder = folder_with("rows.csv", &table);
    let from_file = advise_json(folder.path(), &["rows.csv", "--key", "tenant,flag"]);
    let candidate = &from_file["candidates"][0];
    assert_eq!(
        (&from_file["records"], &candidate["distinct"]["count"]),
        (&900.into(), &300.into())
    );
    assert_eq!(candidate["hottest"][0]["key"], "\"tenant, 0\", \"0\"");

    let mut child = tessera(&["advise", "-", "--key", "tenant,flag", "--format", "json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(table.as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    let from_input: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(from_input["candidates"], from_file["candidates"]);
    assert_eq!(from_input["source"], "standard input");
}

#[test]
fn lines_that_cannot_be_read_are_named_and_left_out() {
    let mut content = documents();
    content.insert_str(0, "{\"id\":\n\n[1,2]\n");
    content.push_str("{\"tenant\":\"t\n");
    let folder = folder_with("orders.ndjson", &content);
    let (code, printed, _) = advise(folder.path(), &["orders.ndjson", "--key", "tenant"]);
    assert_eq!(code, 0);
    assert_holds(
        &printed,
        &[
            "1,200 records, ",
            "3 lines could not be read",
            "  line 1: ",
            "  line 3: ",
            "  line 1204: ",
        ],
    );
}

#[test]
fn what_cannot_be_answered_is_refused_in_one_line() {
    let folder = folder_with("orders.ndjson", &documents());
    let path = folder.path();
    fs::write(path.join("empty.ndjson"), "\n \n").unwrap();
    fs::write(path.join("array.json"), "[{\"a\":1},{\"a\":2}]\n").unwrap();
    fs::write(path.join("rows.csv"), "a,b\n1,2\n").unwrap();
    for (arguments, code, part) in [
        (&["missing.ndjson"][..], 1, "cannot read missing.ndjson"),
        (&["empty.ndjson"], 1, "empty.ndjson holds no records"),
        (&["array.json"], 1, "one JSON document on each line"),
        (
            &["array.json", "--key", "a"],
            1,
            "no record could be read from the 1 line of",
        ),
        (
            &["orders.ndjson", "--key", "tennant"],
            1,
            "fields with values are id, tenant, country",
        ),
        (&["rows.csv", "--key", "c"], 1, "its columns are a, b"),
        (&["orders.ndjson", "--key", "a,,b"], 2, "empty field name"),
        (
            &[
                "orders.ndjson",
                "--partitions",
                "1",
                "--throughput",
                "30000",
            ],
            2,
            "need 3",
        ),
        (
            &["orders.ndjson", "--svg", "no/such/folder.svg"],
            1,
            "cannot write no/such",
        ),
        (&["--container", "people"], 2, "API/DATABASE/NAME"),
        (&["--container", "table/a/people"], 1, "holds no data"),
    ] {
        let (actual, printed, errors) = advise(path, arguments);
        assert_eq!(
            (actual, printed.as_str()),
            (code, ""),
            "{arguments:?}: {errors}"
        );
        assert_eq!(errors.lines().count(), 1, "{errors}");
        assert_holds(&errors, &[part]);
    }
    // The other candidates are reported on all the same.
    let keys = ["orders.ndjson", "--key", "tenant", "--key", "nowhere"];
    let (code, printed, errors) = advise(path, &keys);
    assert_eq!(code, 1);
    assert_holds(&printed, &["tenant — good"]);
    assert_holds(&errors, &["nowhere"]);
    assert_eq!(advise(path, &[]).0, 2);
    assert_eq!(advise(path, &["orders.ndjson", "--partitions", "0"]).0, 2);
    assert_eq!(advise(path, &["orders.ndjson", "--growth", "-1"]).0, 2);
}

/// A container of 60 items, 40 of them in one logical partition, that may be read at 400 RU/s.
async fn seed(data: &Path) {
    let config = EngineConfig::Rocks {
        path: data.to_owned(),
        durability: Durability::Group,
        memory_bytes: 32 << 20,
    };
    let engine = tessera_storage::open(&config).unwrap();
    let options = StoreOptions {
        models: HashMap::new(),
        ..StoreOptions::default()
    };
    let store = Store::open(engine.clone(), options).await.unwrap();
    let name = ContainerName::new("test", "account", "people");
    let new = NewContainer {
        throughput: Some(Throughput::Manual(20_000)),
        ..NewContainer::default()
    };
    let mut transaction = store.begin().await.unwrap();
    transaction.create_container(&name, &new).await.unwrap();
    transaction.commit().await.unwrap();
    let mut transaction = store.begin().await.unwrap();
    let container = transaction.container(&name).await.unwrap();
    for number in 0..60u8 {
        let city = if number < 40 {
            "berlin".to_owned()
        } else {
            format!("city{number}")
        };
        let locator = Locator::murmur3(city.into_bytes(), vec![number]);
        let item = NewItem::new(locator, Bytes::from(vec![b'x'; 900]));
        transaction.upsert(&container, item).await.unwrap();
    }
    transaction.commit().await.unwrap();
    engine.close().await.unwrap();
}

#[test]
fn a_stored_container_is_reported_on_under_its_own_key() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("tessera-data");
    tokio::runtime::Runtime::new()
        .unwrap()
        .block_on(seed(&data));
    let report = advise_json(folder.path(), &["--container", "test/account/people"]);
    assert_eq!(
        (&report["records"], &report["physical_partitions"]),
        (&60.into(), &2.into())
    );
    assert_eq!(report["throughput"], 20_000);
    let candidate = &report["candidates"][0];
    assert_eq!(candidate["distinct"]["count"], 21);
    assert_eq!(candidate["hottest"][0]["key"], "berlin");
    assert_eq!(candidate["hottest"][0]["records"], 40);

    let (code, _, errors) = advise(folder.path(), &["--container", "test/account/nobody"]);
    assert_eq!(code, 1);
    assert_holds(&errors, &["test:account.nobody"]);

    // The server that has the data open is asked, and says the same.
    let server = Server::start_in(folder, &[]);
    let container = ["--container", "test/account/people"];
    let live = advise_json(server.folder.path(), &container);
    assert_eq!(live, report);
    let url = format!("http://{}", server.address);
    let elsewhere = tempfile::tempdir().unwrap();
    let over_http = [&container[..], &["--live", &url]].concat();
    assert_eq!(advise_json(elsewhere.path(), &over_http), report);
}

#[test]
fn a_running_server_compares_the_keys_of_its_containers() {
    let server = Server::start(&["--tls-self-signed"]);
    let url = format!("https://localhost:{}", server.address.port());
    let certificate = server.folder.path().join("tessera-data/tls/cert.pem");
    let certificate = certificate.to_str().unwrap();
    let live = ["--container", "table/devstoreaccount1/none", "--live", &url];
    for (more, code, part) in [
        (
            &["--live-ca", certificate][..],
            1,
            "table:devstoreaccount1.none",
        ),
        (
            &["--live-ca", certificate, "--growth", "-1"],
            2,
            "growth is a factor",
        ),
        (&[], 1, "--live-ca"),
    ] {
        let (actual, _, errors) = advise(server.folder.path(), &[&live[..], more].concat());
        assert_eq!(actual, code, "{errors}");
        assert_eq!(errors.lines().count(), 1, "{errors}");
        assert_holds(&errors, &[part]);
    }
    let nowhere = ["--container", "a/b/c", "--live"];
    for (url, code) in [("http://127.0.0.1:1", 1), ("127.0.0.1", 2)] {
        let (actual, _, errors) = advise(server.folder.path(), &[&nowhere[..], &[url]].concat());
        assert_eq!(actual, code, "{errors}");
    }
}
