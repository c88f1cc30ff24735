//! Who may look and who may change: people on this machine, and whoever has the admin key.
//!
//! A browser on this machine can be sent here by any web site. Such a request names another host,
//! or is not JSON: both are refused, so that no site can read or change anything through it.

use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderMap};
use hyper::{Method, StatusCode};
use subtle::ConstantTimeEq;

use crate::reply::Reply;
use crate::routes::Call;

/// Refuses who may not have what they ask for.
pub(crate) fn check(call: &Call<'_>) -> Result<(), Reply> {
    if call.method == Method::POST && !is_json(call.headers) {
        let message = "the body must be JSON, with content-type: application/json";
        return Err(Reply::error(StatusCode::UNSUPPORTED_MEDIA_TYPE, message));
    }
    if call.is_local && names_this_machine(call.headers) {
        return Ok(());
    }
    match &call.console.admin_key {
        Some(key) if bears(call.headers, key) => Ok(()),
        Some(_) => Err(Reply::error(
            StatusCode::UNAUTHORIZED,
            "from another machine this needs the admin key, as 'Authorization: Bearer KEY'",
        )),
        None => Err(Reply::error(
            StatusCode::FORBIDDEN,
            "this is for localhost only; start the server with --console-admin-key to use it \
             by another name or from another machine",
        )),
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers
        .get(CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok());
    let kind = kind.and_then(|kind| kind.split(';').next());
    kind.is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
}

/// Whether the client knows this server by a name that only means this machine.
fn names_this_machine(headers: &HeaderMap) -> bool {
    let Some(host) = headers.get(HOST).and_then(|host| host.to_str().ok()) else {
        return false;
    };
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let name = name.trim_start_matches('[').trim_end_matches(']');
    let address = name.parse::<std::net::IpAddr>();
    name.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
}

fn bears(headers: &HeaderMap, key: &str) -> bool {
    let given = headers
        .get(AUTHORIZATION)
        .map_or(&[][..], |value| value.as_bytes());
    let Some((scheme, token)) = given.split_at_checked(7) else {
        return false;
    };
    scheme.eq_ignore_ascii_case(b"bearer ") && bool::from(token.ct_eq(key.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_machine_are_trusted() {
        for (host, expected) in [
            ("localhost", true),
            ("LocalHost:8080", true),
            ("127.0.0.1:8080", true),
            ("127.9.9.9", true),
            ("[::1]:8080", true),
            ("[::1]", true),
            ("evil.example:8080", false),
            ("localhost.evil.example", false),
            ("10.0.0.1", false),
            ("", false),
        ] {
            let headers = HeaderMap::from_iter([(HOST, host.parse().unwrap())]);
            assert_eq!(names_this_machine(&headers), expected, "{host}");
        }
        assert!(!names_this_machine(&HeaderMap::new()));
    }

    #[test]
    fn a_key_is_compared_whole() {
        for (given, expected) in [
            ("Bearer secret", true),
            ("bearer secret", true),
            ("Bearer secre", false),
            ("Bearer secrets", false),
            ("Basic secret", false),
            ("", false),
        ] {
            let headers = HeaderMap::from_iter([(AUTHORIZATION, given.parse().unwrap())]);
            assert_eq!(bears(&headers, "secret"), expected, "{given}");
        }
    }
}
