//! The table of pages. Adding a page is one file, its `mod` line and its rows here.

use hyper::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use hyper::{Method, StatusCode};
use percent_encoding::percent_decode_str;
use tessera_core::engine::BoxFuture;
use tessera_frontend::{LoginGate, Shutdown, nosql_refusal, speaks_nosql};

use crate::reply::Reply;
use crate::{
    Console, access, actions, advisor, assets, changes, containers, databases, feeds, health,
    memory, metrics, polls,
};

/// One page or action.
pub(crate) struct Route {
    pub(crate) method: Method,
    /// Parts in braces match any text.
    pub(crate) path: &'static str,
    /// Whether it is available without the admin key, also to other machines.
    pub(crate) is_public: bool,
    pub(crate) run: for<'a> fn(&'a Call<'a>) -> BoxFuture<'a, Reply>,
}

/// A request for a page.
pub(crate) struct Call<'a> {
    pub(crate) console: &'a Console,
    pub(crate) method: &'a Method,
    pub(crate) path: &'a str,
    /// What follows the question mark.
    pub(crate) query: &'a str,
    pub(crate) headers: &'a HeaderMap,
    /// The host name that the client used.
    pub(crate) host: Option<&'a str>,
    pub(crate) body: &'a [u8],
    /// Whether the request comes from this machine.
    pub(crate) is_local: bool,
    pub(crate) gate: &'a LoginGate,
    pub(crate) shutdown: &'a Shutdown,
    /// The values of the parts in braces, decoded.
    pub(crate) parts: Vec<String>,
}

/// All pages.
const ROUTES: &[&[Route]] = &[
    assets::ROUTES,
    health::ROUTES,
    containers::ROUTES,
    actions::ROUTES,
    changes::ROUTES,
    feeds::ROUTES,
    advisor::ROUTES,
    databases::ROUTES,
    memory::ROUTES,
    metrics::ROUTES,
    polls::ROUTES,
];

/// Finds the page and runs it.
pub(crate) async fn answer(mut call: Call<'_>) -> Reply {
    let authorization = call.headers.get(AUTHORIZATION);
    if speaks_nosql(authorization.map(HeaderValue::as_bytes)) {
        let refusal = nosql_refusal(&call.console.about.listeners);
        return Reply::refusal_in_json(StatusCode::BAD_REQUEST, refusal);
    }
    let here: Vec<(&Route, Vec<String>)> = ROUTES
        .iter()
        .flat_map(|routes| routes.iter())
        .filter_map(|route| Some((route, matched(route.path, call.path)?)))
        .collect();
    if here.is_empty() {
        return no_such_page();
    }
    // HEAD is answered as GET, and hyper leaves the body out.
    let method = match call.method {
        &Method::HEAD => &Method::GET,
        method => method,
    };
    let allowed = here.iter().map(|(route, _)| route.method.as_str());
    let allowed = allowed
        .collect::<Vec<_>>()
        .join(", ")
        .replace("GET", "GET, HEAD");
    let Some((route, parts)) = here.into_iter().find(|(route, _)| route.method == *method) else {
        let message = format!("{} takes {allowed}", call.path);
        return Reply::not_allowed(&allowed, &message);
    };
    call.parts = parts;
    if !route.is_public
        && let Err(refusal) = access::check(&call).await
    {
        return refusal;
    }
    (route.run)(&call).await
}

fn no_such_page() -> Reply {
    let routes = ROUTES.iter().flat_map(|routes| routes.iter());
    let mut known: Vec<&str> = routes.map(|route| route.path).collect();
    known.dedup();
    let message = format!("there is no such page; there is {}", known.join(", "));
    Reply::error(StatusCode::NOT_FOUND, &message)
}

/// The values of the parts in braces of `pattern`, if the path matches it.
fn matched(pattern: &str, path: &str) -> Option<Vec<String>> {
    let (mut expected, mut given) = (pattern.split('/'), path.split('/'));
    let mut parts = Vec::new();
    loop {
        match (expected.next(), given.next()) {
            (None, None) => return Some(parts),
            (Some(expected), Some(given)) if expected.starts_with('{') => {
                let decoded = percent_decode_str(given).decode_utf8().ok()?;
                parts.push(decoded.into_owned());
            }
            (Some(expected), Some(given)) if expected == given => {}
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_matched_part_by_part() {
        let check = |pattern, path, expected: Option<&[&str]>| {
            let parts = matched(pattern, path);
            let parts = parts.as_deref();
            let expected = expected.map(|parts| parts.iter().map(ToString::to_string).collect());
            assert_eq!(parts.map(<[String]>::to_vec), expected, "{path}");
        };
        check("/a/{}/c", "/a/b/c", Some(&["b"]));
        check("/a/{}/{}", "/a/b%2Fb/c%20c", Some(&["b/b", "c c"]));
        check("/a/{}", "/a/b/c", None);
        check("/a/{}", "/a", None);
        check("/a", "/a/", None);
        check("/a/{}", "/a/%ff", None);
    }
}
