//! A server with little memory: what takes much is refused, pages are shorter, all comes back.

use crate::error::ErrorKind;
use crate::service::CqlConfig;
use crate::testing::{Client, Tester, query};
use crate::wire::{Consistency, Opcode, Parameters, Response, ResultBody, Version};

const MIB: usize = 1 << 20;

/// A table of rows of a fifth of a MiB.
async fn filled(rows: usize) -> Tester {
    let tester = Tester::within(16 * MIB, CqlConfig::default()).await;
    let tester = tester
        .in_keyspace(&["CREATE TABLE t (k int, c int, v text, PRIMARY KEY (k, c))"])
        .await;
    let value = "x".repeat(MIB / 5);
    for row in 0..rows {
        let insert = format!("INSERT INTO t (k, c, v) VALUES (1, {row}, '{value}')");
        tester.ok(&[&insert]).await;
    }
    tester
}

#[tokio::test]
async fn results_without_pages_are_refused_and_pages_are_shorter() {
    let tester = filled(40).await;
    let memory = tester.service.store.memory().clone();
    for select in [
        "SELECT * FROM t",
        "SELECT v FROM t",
        "SELECT v, v FROM t WHERE k = 1",
        "SELECT v, c FROM t WHERE k = 1 AND c > 3",
        "SELECT JSON v FROM t",
        "SELECT * FROM t WHERE k IN (1, 2)",
        "SELECT * FROM t WHERE k = 1 ORDER BY c DESC",
        "SELECT * FROM t WHERE k IN (1, 2) ORDER BY c",
        "SELECT v FROM t WHERE c > 0 ALLOW FILTERING",
        "SELECT v FROM t GROUP BY k, c",
    ] {
        let error = tester.run(select).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Overloaded, "{select}: {error:?}");
        assert!(memory.peak() <= memory.limit());
        assert_eq!(memory.used(), 0, "{select}: {memory:?}");
    }
    let mut parameters = Parameters::new(Consistency::One);
    parameters.page_size = Some(1_000);
    let (mut rows, mut pages) = (0, 0);
    let mut state: Option<Vec<u8>> = None;
    loop {
        let mut parameters = parameters.clone();
        parameters.paging_state = state.as_deref();
        let given = tester
            .run_with("SELECT * FROM t", &parameters)
            .await
            .unwrap();
        let ResultBody::Rows(page) = given.body else {
            panic!("no rows");
        };
        (rows, pages) = (rows + page.len(), pages + 1);
        match page.metadata.paging_state {
            Some(next) => state = Some(next.to_vec()),
            None => break,
        }
    }
    assert_eq!(rows, 40);
    assert!(pages > 1, "{pages}");
    assert_eq!(memory.used(), 0);
}

#[tokio::test]
async fn before_the_login_no_large_body_is_read() {
    let config = CqlConfig {
        requires_authentication: true,
        ..CqlConfig::default()
    };
    let tester = Tester::within(16 * MIB, config).await;
    let memory = tester.service.store.memory();
    for version in [Version::V3, Version::V4] {
        for length in [16_385_usize, 20_000, 100_000, MIB, 4 * MIB, 16 * MIB] {
            let mut client = Client::started(&tester.service, version, None).await;
            let length = i32::try_from(length).unwrap();
            let number = match version {
                Version::V3 => 3,
                _ => 4,
            };
            let mut header = vec![number, 0, 0, 7, Opcode::AuthResponse as u8];
            header.extend(length.to_be_bytes());
            client.send_bytes(&header).await;
            let refused = client.next().await.unwrap();
            assert_eq!(refused.stream, 7);
            assert!(matches!(refused.response, Response::Error(_)), "{length}");
        }
    }
    assert_eq!(memory.peak(), 0, "{memory:?}");
}

#[tokio::test]
async fn large_requests_are_refused_where_there_is_no_memory_and_the_next_is_answered() {
    let tester = Tester::within(8 * MIB, CqlConfig::default()).await;
    let memory = tester.service.store.memory();
    for megabytes in [5, 6, 7, 9, 11, 13, 15] {
        let mut client = Client::started(&tester.service, Version::V4, None).await;
        let text = format!("SELECT '{}' FROM system.local", "x".repeat(megabytes * MIB));
        let Response::Error(error) = client.query(&text).await else {
            panic!("{megabytes} are not refused");
        };
        assert_eq!(error.kind, ErrorKind::Overloaded, "{megabytes}: {error:?}");
        let next = client.ask(query("SELECT key FROM system.local")).await;
        assert!(matches!(next, Response::Result(_)), "{next:?}");
        drop(client);
        assert!(memory.peak() <= memory.limit());
    }
}
