//! The page for browsers: three files that are compiled into the program.

use hyper::Method;

use crate::reply::Reply;
use crate::routes::Route;

pub(crate) const ROUTES: &[Route] = &[
    Route {
        method: Method::GET,
        path: "/",
        is_public: true,
        run: |_| Box::pin(async { file("text/html; charset=utf-8", PAGE) }),
    },
    Route {
        method: Method::GET,
        path: "/console.js",
        is_public: true,
        run: |_| Box::pin(async { file("text/javascript; charset=utf-8", SCRIPT) }),
    },
    Route {
        method: Method::GET,
        path: "/console.css",
        is_public: true,
        run: |_| Box::pin(async { file("text/css; charset=utf-8", STYLE) }),
    },
];

const PAGE: &str = include_str!("../assets/console.html");
const SCRIPT: &str = include_str!("../assets/console.js");
const STYLE: &str = include_str!("../assets/console.css");

fn file(content_type: &'static str, text: &'static str) -> Reply {
    Reply::text(content_type, text.to_owned())
}
