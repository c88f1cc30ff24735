//! Refusals are written in the form that the client reads, whoever refuses.

use crate::answer::Answer;
use crate::ask::{Ask, ask, create_table};
use crate::service::Service;

fn refused() -> [(Ask, u16, &'static str); 6] {
    [
        (ask("GET", "/missing()"), 404, "TableNotFound"),
        (
            ask("GET", "/table()").signed_by("one", "AAAA"),
            403,
            "AuthenticationFailed",
        ),
        (
            ask("GET", "/table()").signed_by("nobody", "AAAA"),
            404,
            "ResourceNotFound",
        ),
        (ask("BREW", "/table"), 405, "UnsupportedHttpVerb"),
        (ask("GET", "/table("), 400, "InvalidInput"),
        (ask("GET", "/table()?$filter=%ff"), 400, "InvalidUri"),
    ]
}

async fn service() -> Service {
    let service = Service::storage().await;
    service.must(create_table("table")).await;
    service
}

async fn check(service: &Service, ask: Ask, expected: (u16, &str)) -> Answer {
    let asked = format!("{} {}", ask.method, ask.target);
    let answer = service
        .ask(ask.with("x-ms-client-request-id", "mine"))
        .await;
    assert_eq!((answer.status, answer.code()), expected, "{asked}");
    assert_eq!(answer.header("x-ms-client-request-id"), "mine", "{asked}");
    for name in ["x-ms-request-id", "x-ms-version", "date"] {
        assert_ne!(answer.header(name), "", "{asked}: {name}");
    }
    answer
}

#[tokio::test]
async fn json_for_clients_of_json() {
    let service = service().await;
    for (ask, status, code) in refused() {
        let answer = check(&service, ask, (status, code)).await;
        assert!(
            answer
                .header("content-type")
                .starts_with("application/json")
        );
        assert_eq!(answer.json()["odata.error"]["code"], code);
    }
}

#[tokio::test]
async fn atom_for_clients_of_atom() {
    let service = service().await;
    for (mut ask, status, code) in refused() {
        ask.headers.clear();
        let ask = ask
            .with("accept", "application/atom+xml")
            .with("x-ms-version", "2013-08-15");
        let answer = check(&service, ask, (status, code)).await;
        assert_eq!(answer.header("content-type"), "application/xml");
        let expected = format!("<code>{code}</code>");
        assert!(answer.body.contains(&expected), "{answer:?}");
    }
}

#[tokio::test]
async fn xml_for_operations_that_answer_xml() {
    let service = service().await;
    let properties = "/?restype=service&comp=properties";
    let ask = ask("GET", properties).signed_by("one", "AAAA");
    let answer = check(&service, ask, (403, "AuthenticationFailed")).await;
    assert_eq!(answer.header("content-type"), "application/xml");
    assert!(answer.body.contains("<Code>AuthenticationFailed</Code>"));
}

#[tokio::test]
async fn a_refused_body_is_told_where_it_is_wrong() {
    let service = service().await;
    for (body, words) in [
        ("{\"Par", "the body is no entity in JSON: EOF while parsing"),
        (
            "[1]",
            "the body is no entity in JSON: invalid type: sequence",
        ),
        ("{\"RowKey\":5}", "RowKey is not a text"),
        (
            "{\"RowKey\":\"r\"}",
            "an entity needs a PartitionKey and a RowKey",
        ),
        ("{\"a\":1,\"a\":2}", "it is 'a'"),
        ("{\"a\":{\"b\":1}}", "'a' is an array or an object"),
        ("{\"a\":2147483648}", "the number 'a' is beyond Edm.Int32"),
        (
            "{\"a\":\"x\",\"a@odata.type\":\"Edm.Guid\"}",
            "the value of 'a' is no Edm.Guid",
        ),
        (
            "{\"a\":\"x\",\"a@odata.type\":\"Edm.Decimal\"}",
            "the type of 'a' is none of EDM",
        ),
        (
            "{\"PartitionKey\":\"p\",\"RowKey\":\"r\",\"a-b\":1}",
            "'a-b' is not letters, digits and underscores",
        ),
        (
            "{\"PartitionKey\":\"p\",\"RowKey\":\"a\\u0001b\"}",
            "value 'a\\\\u{1}b' is out of range",
        ),
    ] {
        let refused = service.ask(ask("POST", "/table").sending(body)).await;
        assert_eq!(refused.status, 400, "{body}");
        assert!(refused.body.contains(words), "{body}: {}", refused.body);
    }
}
