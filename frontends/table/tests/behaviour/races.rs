//! Several clients at the same entities at once.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;

use crate::ask::{Ask, ask, batch, create_table, entity, put, query};
use crate::service::Service;

const ROWS: usize = 8;
const ROUNDS: usize = 60;

async fn service() -> Service {
    let service = Service::storage().await;
    service.must(create_table("table")).await;
    service
}

/// Gives all rows of a partition the same number.
fn number_all(number: usize) -> Ask {
    let change = |row: usize| put("table", ("p", &row.to_string()), &json!({ "n": number }));
    batch(&(0..ROWS).map(change).collect::<Vec<_>>())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_sees_half_a_batch() {
    let service = service().await;
    service.must(number_all(0)).await;
    let done = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (0..2)
        .map(|_| {
            let (service, done) = (service.clone(), Arc::clone(&done));
            tokio::spawn(async move {
                let mut seen = BTreeSet::new();
                while !done.load(Ordering::Relaxed) {
                    let page = query("table", "PartitionKey eq 'p'", "");
                    let entities = service.must(page).await.entities();
                    let numbers: BTreeSet<_> = entities
                        .iter()
                        .map(|entity| entity["n"].as_u64().unwrap())
                        .collect();
                    assert_eq!((entities.len(), numbers.len()), (ROWS, 1), "{entities:?}");
                    seen.extend(numbers);
                }
                seen.len()
            })
        })
        .collect();
    let writers: Vec<_> = (1..=2)
        .map(|writer| {
            let service = service.clone();
            tokio::spawn(async move {
                for round in 0..ROUNDS {
                    service.must(number_all(writer + 2 * round)).await;
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    done.store(true, Ordering::Relaxed);
    for reader in readers {
        assert!(reader.await.unwrap() > 1, "read while it was written");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_batches_that_insert_the_same_entity_one_leaves_nothing() {
    let service = service().await;
    for round in 0..ROUNDS {
        let partition = format!("p{round}");
        let insert = |row: &str| {
            ask("POST", "/table")
                .sending(json!({ "PartitionKey": partition, "RowKey": row }).to_string())
        };
        let batches = ["left", "right"].map(|own| batch(&[insert(own), insert("both")]));
        let [left, right] = batches.map(|batch| service.ask(batch));
        let (left, right) = tokio::join!(left, right);
        let refused = [left, right].map(|answer| answer.body.contains("1:The specified entity"));
        let kept = match refused {
            [true, false] => "right",
            [false, true] => "left",
            _ => panic!("round {round}: refused {refused:?}"),
        };
        let rest = service.must(query(
            "table",
            &format!("PartitionKey eq '{partition}'"),
            "",
        ));
        let rows: Vec<_> = rest.await.keys().into_iter().map(|(_, row)| row).collect();
        assert_eq!(rows, ["both", kept]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_updates_with_the_same_etag_one_is_refused() {
    let service = service().await;
    let path = entity("table", ("p", "r"));
    let stored = service.must(put("table", ("p", "r"), &json!({}))).await;
    let mut etag = stored.header("etag").to_owned();
    for round in 0..ROUNDS {
        let update = |method: &str, number: usize| {
            let update = ask(method, &*path).with("if-match", &*etag);
            service.ask(update.sending(json!({ "n": number }).to_string()))
        };
        let (one, two) = tokio::join!(update("PUT", 2 * round), update("MERGE", 2 * round + 1));
        let (winner, number, loser) = match (one.status, two.status) {
            (204, 412) => (one, 2 * round, two),
            (412, 204) => (two, 2 * round + 1, one),
            both => panic!("round {round}: {both:?}"),
        };
        assert_eq!(loser.code(), "UpdateConditionNotSatisfied");
        let now = service.must(ask("GET", &*path)).await;
        assert_eq!(now.json()["n"], number);
        assert_eq!(now.header("etag"), winner.header("etag"));
        assert_ne!(winner.header("etag"), etag);
        winner.header("etag").clone_into(&mut etag);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_who_create_the_same_table_one_does() {
    let service = service().await;
    let asked: Vec<_> = (0..8)
        .map(|_| {
            let service = service.clone();
            tokio::spawn(async move { service.ask(create_table("same")).await.status })
        })
        .collect();
    let mut statuses = Vec::new();
    for asked in asked {
        statuses.push(asked.await.unwrap());
    }
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 409, 409, 409, 409, 409, 409, 409]);
}

#[tokio::test]
async fn two_partial_updates_of_the_properties_both_count() {
    const TARGET: &str = "/?restype=service&comp=properties";
    let service = Service::hesitant().await;
    let set = |part: String| {
        let mut set = ask("PUT", TARGET);
        set.body = format!("<StorageServiceProperties>{part}</StorageServiceProperties>");
        service.must(set)
    };
    let days = |days: usize| {
        format!("<RetentionPolicy><Enabled>true</Enabled><Days>{days}</Days></RetentionPolicy>")
    };
    for round in 1..=ROUNDS {
        let logging = format!(
            "<Logging><Version>1.0</Version><Delete>false</Delete><Read>false</Read>\
             <Write>false</Write>{}</Logging>",
            days(round)
        );
        let metrics = format!(
            "<MinuteMetrics><Version>1.0</Version><Enabled>true</Enabled>\
             <IncludeAPIs>false</IncludeAPIs>{}</MinuteMetrics>",
            days(ROUNDS + round)
        );
        tokio::join!(set(logging), set(metrics));
        let now = service.must(ask("GET", TARGET)).await.body;
        for expected in [days(round), days(ROUNDS + round)] {
            assert!(
                now.contains(&expected),
                "round {round}: {expected} in {now}"
            );
        }
    }
}

#[tokio::test]
async fn setting_policies_does_not_bring_back_the_name_of_a_deleted_table() {
    let service = Service::hesitant().await;
    let done = Arc::new(AtomicBool::new(false));
    let setting = {
        let (service, done) = (service.clone(), Arc::clone(&done));
        tokio::spawn(async move {
            while !done.load(Ordering::Relaxed) {
                // Refused while there is no table.
                service.ask(ask("PUT", "/same?comp=acl")).await;
            }
        })
    };
    for round in 0..ROUNDS {
        let name = if round % 2 == 0 { "same" } else { "SAME" };
        service.must(create_table(name)).await;
        for _ in 0..round {
            tokio::task::yield_now().await;
        }
        let found = service.must(ask("GET", "/Tables('same')")).await;
        assert_eq!(found.json()["TableName"], name, "round {round}");
        service.must(ask("DELETE", "/Tables('same')")).await;
    }
    done.store(true, Ordering::Relaxed);
    setting.await.unwrap();
}
