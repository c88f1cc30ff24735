//! The table of pages. Adding a page is one file, its `mod` line and its row here.

use hyper::{Method, StatusCode};
use tessera_core::engine::BoxFuture;

use crate::reply::Reply;
use crate::{Console, health};

/// One page.
pub(crate) struct Route {
    pub(crate) path: &'static str,
    pub(crate) run: for<'a> fn(&'a Console) -> BoxFuture<'a, Reply>,
}

/// Every page there is.
const ROUTES: &[Route] = &[health::ROUTE];

/// Pages are only read so far; HEAD is answered as GET, and hyper leaves the body out.
const ALLOWED: &str = "GET, HEAD";

/// Finds the page and runs it.
pub(crate) async fn answer(console: &Console, method: &Method, path: &str) -> Reply {
    let Some(route) = ROUTES.iter().find(|route| route.path == path) else {
        let known: Vec<&str> = ROUTES.iter().map(|route| route.path).collect();
        let message = format!("there is no such page; there is {}", known.join(", "));
        return Reply::error(StatusCode::NOT_FOUND, &message);
    };
    if method != Method::GET && method != Method::HEAD {
        let message = format!("{path} takes {ALLOWED}");
        return Reply::not_allowed(ALLOWED, &message);
    }
    (route.run)(console).await
}
