//! Requests and times for the tests of this folder.

use std::time::{Duration, SystemTime};

use hyper::HeaderMap;
use hyper::header::HeaderName;
use percent_encoding::percent_decode_str;

use crate::entity::DateTime;
use crate::head::{Head, Query};

/// A moment in ISO 8601.
pub(super) fn at(text: &str) -> SystemTime {
    let ticks = u64::try_from(DateTime::parse(text).unwrap().ticks).unwrap();
    SystemTime::UNIX_EPOCH + Duration::from_micros(ticks / 10)
}

/// A request such as `GET /account/path?query` or, with the account in the host,
/// `GET account.host/path?query`.
pub(super) fn head(line: &str, headers: &[(&str, &str)]) -> Head<'static> {
    // For as long as the tests run, which is what a request needs that borrows from it.
    let line: &'static str = Box::leak(line.to_owned().into_boxed_str());
    let (method, target) = line.split_once(' ').unwrap();
    let (host, target) = target.split_at(target.find('/').unwrap());
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let in_path = path.split('/').nth(1).unwrap();
    let in_host = host.split('.').next().unwrap();
    let decode = |text: &'static str| percent_decode_str(text).decode_utf8().unwrap();
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let pairs = pairs.map(|pair| {
        let (name, value) = pair.split_once('=').unwrap();
        (decode(name), decode(value))
    });
    let headers = headers
        .iter()
        .map(|(name, value)| (name.parse::<HeaderName>().unwrap(), value.parse().unwrap()));
    Head {
        method: method.parse().unwrap(),
        path,
        query: Query(pairs.collect()),
        headers: headers.collect::<HeaderMap>(),
        account: if host.is_empty() { in_path } else { in_host },
        path_style: host.is_empty(),
        speaks_atom: true,
        tls: false,
        peer: [127, 0, 0, 1].into(),
    }
}
