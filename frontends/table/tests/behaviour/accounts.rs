//! Accounts: in the path or in the host, each with its own keys and tables.

use crate::ask::{ACCOUNT, KEYS, ask, create_table};
use crate::service::{OTHER_ACCOUNT, Service};

#[tokio::test]
async fn path_and_host_name_the_same_account() {
    let service = Service::storage().await;
    service.must(create_table("inpath")).await;
    service.must(create_table("inhost").in_host()).await;
    for tables in [ask("GET", "/Tables"), ask("GET", "/Tables").in_host()] {
        let tables = service.must(tables).await.entities();
        let names: Vec<_> = tables.iter().map(|table| &table["TableName"]).collect();
        assert_eq!(names, ["inhost", "inpath"]);
    }
}

#[tokio::test]
async fn links_are_written_in_the_style_of_the_request() {
    let service = Service::storage().await;
    let in_path = service.must(create_table("inpath")).await;
    let in_host = service.must(create_table("inhost").in_host()).await;
    assert_eq!(
        in_path.header("location"),
        "http://127.0.0.1/one/Tables('inpath')"
    );
    assert_eq!(
        in_host.header("location"),
        "http://one.localhost/Tables('inhost')"
    );
}

#[tokio::test]
async fn either_key_signs_and_that_of_another_account_does_not() {
    let service = Service::storage().await;
    let (other, other_key) = OTHER_ACCOUNT;
    let [first, second] = KEYS;
    for (account, key, status) in [
        (ACCOUNT, first, 200),
        (ACCOUNT, second, 200),
        (ACCOUNT, other_key, 403),
        (other, other_key, 200),
        (other, first, 403),
        ("three", first, 404),
    ] {
        for ask in [ask("GET", "/Tables"), ask("GET", "/Tables").in_host()] {
            let answer = service.ask(ask.signed_by(account, key)).await;
            assert_eq!(answer.status, status, "{account} {key}: {answer:?}");
        }
    }
}

#[tokio::test]
async fn an_account_sees_its_own_tables_only() {
    let service = Service::storage().await;
    let (other, other_key) = OTHER_ACCOUNT;
    service.fill("mine", 1, 1).await;
    let others = service.must(ask("GET", "/Tables").signed_by(other, other_key));
    assert!(others.await.entities().is_empty());
    let theirs = service.ask(ask("GET", "/mine()").signed_by(other, other_key));
    assert_eq!(theirs.await.code(), "TableNotFound");
    let same_name = create_table("mine").signed_by(other, other_key);
    assert_eq!(service.must(same_name).await.status, 201);
    let theirs = service.must(ask("GET", "/mine()").signed_by(other, other_key));
    assert!(theirs.await.entities().is_empty());
    assert_eq!(
        service.must(ask("GET", "/mine()")).await.entities().len(),
        1
    );
}
