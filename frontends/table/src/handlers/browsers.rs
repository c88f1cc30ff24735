//! Requests of browsers to an account with a public key.
//!
//! Any web site can use that key, and make browsers on this machine send requests here. So such an
//! account is served only under a host name of this machine, which DNS rebinding cannot use; and
//! pages of other origins can change nothing, unless a CORS rule of the account allows it.

use hyper::Method;
use hyper::header::{HeaderName, ORIGIN};
use tessera_frontend::names_this_machine;

use super::{Service, account};
use crate::error::{Code, Result};
use crate::head::Head;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Refuses requests that a page of another origin may have sent.
pub(super) async fn check(service: &Service, head: &Head<'_>) -> Result<()> {
    if !names_this_machine(head.host()) {
        return Err(Code::AuthorizationFailure.because(
            "The key of this account is known to everybody, so it is for localhost only: the Host \
             header must be localhost or a loopback address. The setting table-accounts gives an \
             account a key of its own.",
        ));
    }
    let only_reads = [Method::GET, Method::HEAD, Method::OPTIONS].contains(&head.method);
    if only_reads || !is_from_elsewhere(head) {
        return Ok(());
    }
    let is_permitted = match head.header(&ORIGIN) {
        Some(origin) => Box::pin(account::permits(service, head, origin)).await?,
        None => false,
    };
    if is_permitted {
        return Ok(());
    }
    Err(Code::AuthorizationFailure.because(
        "The request comes from a page of another origin, which no CORS rule of the account lets \
         change anything.",
    ))
}

/// Whether a page of another origin made the request; clients other than browsers send no origin.
fn is_from_elsewhere(head: &Head<'_>) -> bool {
    if head.headers.contains_key(SEC_FETCH_SITE) {
        let site = head.header(&SEC_FETCH_SITE);
        return !matches!(site, Some("same-origin" | "none"));
    }
    if !head.headers.contains_key(ORIGIN) {
        return false;
    }
    let origin = head
        .header(&ORIGIN)
        .and_then(|origin| origin.split_once("://"));
    !origin.is_some_and(|(_, authority)| authority.eq_ignore_ascii_case(head.host()))
}
