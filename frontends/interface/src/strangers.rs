//! Clients at the wrong port: HTTP on a port without it, and Cosmos DB's NoSQL API, which is not
//! supported. The answer lists the APIs and their addresses.

use crate::Listener;

/// The beginnings of HTTP requests.
const METHODS: [&[u8]; 8] = [
    b"GET ",
    b"HEAD ",
    b"POST ",
    b"PUT ",
    b"PATCH ",
    b"DELETE ",
    b"OPTIONS ",
    b"CONNECT ",
];

/// The beginning of the header `authorization` of the NoSQL API, `type=master&ver=1.0&sig=…`,
/// URL-encoded. No other API signs like this.
const SIGNATURES: [&[u8]; 2] = [b"type%3d", b"type="];

/// Whether the first bytes of a connection are a request of HTTP.
pub fn speaks_http(bytes: &[u8]) -> bool {
    METHODS.iter().any(|method| bytes.starts_with(method))
}

/// Whether a request with this header `authorization` is one of Cosmos DB's NoSQL API.
pub fn speaks_nosql(authorization: Option<&[u8]>) -> bool {
    let Some(text) = authorization else {
        return false;
    };
    SIGNATURES.iter().any(|signature| {
        let start = text.get(..signature.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(signature))
    })
}

/// The answer to a client of the NoSQL API, with status 400, in the form that its SDKs show.
pub fn nosql_refusal(listeners: &[Listener]) -> String {
    refusal("", listeners)
}

/// The whole answer to HTTP on a port of `protocol`. The words are MongoDB's, which users search
/// for; SDKs of the NoSQL API show this status and form.
pub fn http_refusal(protocol: &str, listeners: &[Listener]) -> Vec<u8> {
    let about = format!(
        "It looks like you are trying to access {protocol} over HTTP on the native driver port. "
    );
    let body = refusal(&about, listeners);
    let head = format!(
        "HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n",
        body.len()
    );
    (head + &body).into_bytes()
}

/// Names of front ends and addresses need no escapes in JSON.
fn refusal(about: &str, listeners: &[Listener]) -> String {
    let offers = listeners.iter().map(|listener| {
        let tls = if listener.tls { " (TLS)" } else { "" };
        format!("{} at {}{tls}", listener.name, listener.address)
    });
    let offers = offers.collect::<Vec<_>>().join(", ");
    format!(
        "{{\"code\":\"BadRequest\",\"message\":\"{about}Tessera has no NoSQL (SQL) API yet; it \
         offers {offers}\"}}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn http_is_told_from_the_protocols() {
        for request in ["GET / HTTP/1.1\r\n", "POST /dbs", "OPTIONS *"] {
            assert!(speaks_http(request.as_bytes()), "{request}");
        }
        let hello = [0x3a, 0, 0, 0, 1, 0, 0, 0];
        let startup = [5, 0, 0, 0, 1];
        for bytes in [&hello[..], &startup, b"", b"GE", b"GETTING", b"get / http"] {
            assert!(!speaks_http(bytes), "{bytes:?}");
        }
    }

    #[test]
    fn signatures_of_the_nosql_api_are_told_from_others() {
        for signature in [
            // azure-cosmos of Python and of JavaScript, and older ones.
            "type%3Dmaster%26ver%3D1.0%26sig%3DhOD%2BMG13BZoEFCrFJgHDNJTcKFY1PEl%2BWUsYxw%3D",
            "type%3daad%26ver%3d1.0%26sig%3deyJ0",
            "type=resource&ver=1&sig=abc",
        ] {
            assert!(speaks_nosql(Some(signature.as_bytes())), "{signature}");
        }
        for other in [
            "SharedKey devstoreaccount1:abc=",
            "SharedKeyLite devstoreaccount1:abc=",
            "Bearer type=master",
            "Basic dHlwZT0=",
            "type",
            "",
        ] {
            assert!(!speaks_nosql(Some(other.as_bytes())), "{other}");
        }
        assert!(!speaks_nosql(None));
    }

    #[test]
    fn a_refusal_names_what_is_offered() {
        let listeners = [
            Listener {
                name: "mongo",
                address: "127.0.0.1:27017".parse().unwrap(),
                tls: false,
            },
            Listener {
                name: "table",
                address: "[::1]:10002".parse().unwrap(),
                tls: true,
            },
        ];
        assert_eq!(
            nosql_refusal(&listeners),
            "{\"code\":\"BadRequest\",\"message\":\"Tessera has no NoSQL (SQL) API yet; it offers \
             mongo at 127.0.0.1:27017, table at [::1]:10002 (TLS)\"}\n"
        );
        let answer = String::from_utf8(http_refusal("MongoDB", &listeners)).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(
            head.contains(&format!("content-length: {}", body.len())),
            "{head}"
        );
        assert!(body.contains("access MongoDB over HTTP on the native driver port. Tessera"));
    }
}
