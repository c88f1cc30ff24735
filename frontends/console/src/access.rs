//! Access: clients on this machine, and clients with the admin key.
//!
//! Any web site can make a browser on this machine send requests here. Such a request names another
//! host, is not JSON, or says itself that another site made it: all are refused, so that no site
//! can read or change anything through it, also not by a GET, of which some turn on a change feed.
//! Wrong keys are answered with increasing delays.

use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap};
use hyper::{Method, StatusCode};
use subtle::ConstantTimeEq;
use tessera_frontend::{Guessing, names_this_machine};

use crate::reply::Reply;
use crate::routes::Call;

/// Refuses requests that are not permitted.
pub(crate) async fn check(call: &Call<'_>) -> Result<(), Reply> {
    let has_body = [Method::POST, Method::PUT].contains(call.method);
    if has_body && !is_json(call.headers) {
        let message = "the body must be JSON, with content-type: application/json";
        return Err(Reply::error(StatusCode::UNSUPPORTED_MEDIA_TYPE, message));
    }
    if is_of_another_site(call.headers) {
        let message = "pages of other sites cannot use this";
        return Err(Reply::error(StatusCode::FORBIDDEN, message));
    }
    if call.is_local && call.host.is_some_and(names_this_machine) {
        return Ok(());
    }
    match &call.console.admin_key {
        Some(key) if has_key(call, key).await => Ok(()),
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

/// Whether a browser says that a page of another origin made the request.
fn is_of_another_site(headers: &HeaderMap) -> bool {
    let site = headers.get("sec-fetch-site");
    site.is_some_and(|site| site != "same-origin" && site != "none")
}

/// The name under which failures are counted; there is only one key.
const ADMIN: &str = "admin key";

async fn has_key(call: &Call<'_>, key: &str) -> bool {
    if !call.headers.contains_key(AUTHORIZATION) {
        return false;
    }
    let Some(attempt) = call.gate.admit(Guessing::Password, ADMIN).await else {
        return false;
    };
    let is_right = bears(call.headers, key);
    if is_right {
        attempt.succeeded();
    } else {
        attempt.failed();
    }
    is_right
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
