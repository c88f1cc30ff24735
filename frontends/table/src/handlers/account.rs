//! Operations on the account: properties, statistics, CORS; and on access policies, which answer
//! XML too.

use hyper::header::{
    ACCESS_CONTROL_REQUEST_HEADERS, ACCESS_CONTROL_REQUEST_METHOD, HeaderMap, ORIGIN,
};
use hyper::{Method, StatusCode};

use super::{Call, Service};
use crate::auth::Action;
use crate::error::{Code, Result};
use crate::head::Head;
use crate::model::API;
use crate::reply::Reply;
use crate::service::{self, ServiceProperties, Update, acl, stats};
use crate::tables;

/// `GET /?restype=service&comp=properties`.
pub(super) async fn get_properties(call: &Call<'_>) -> Result<Reply> {
    call.allow(Action::GetProperties)?;
    let properties = properties(call.service, call.head.account).await?;
    Ok(Reply::xml(StatusCode::OK, properties.write_xml()))
}

/// `PUT /?restype=service&comp=properties`.
pub(super) async fn set_properties(call: &Call<'_>) -> Result<Reply> {
    call.allow(Action::SetProperties)?;
    let update = Update::read_xml(&call.body)?;
    let (store, account) = (&call.service.store, call.head.account);
    let altered = store.alter_database(API, account, move |record| {
        // Unreadable properties are repaired by setting them.
        let mut properties = ServiceProperties::read(record.as_deref()).unwrap_or_default();
        properties.apply(update.clone());
        properties.write()
    });
    altered.await?;
    Ok(Reply::empty(StatusCode::ACCEPTED))
}

/// `GET /?restype=service&comp=stats`.
pub(super) fn get_stats(call: &Call<'_>) -> Result<Reply> {
    call.allow(Action::GetStats)?;
    if !call.head.is_secondary() {
        let why = "statistics are asked of the account's secondary endpoint";
        return Err(Code::InvalidQueryParameterValue.because(why));
    }
    let body = stats::write_xml(std::time::SystemTime::now());
    Ok(Reply::xml(StatusCode::OK, body))
}

/// `GET /table?comp=acl`.
pub(super) async fn get_acl(call: &Call<'_>, table: &str) -> Result<Reply> {
    call.allow(Action::GetAcl)?;
    let container = tables::container(call.service.mode, call.head.account, table)?;
    let record = tables::find(&call.service.store, &container).await?;
    Ok(Reply::xml(StatusCode::OK, acl::write_xml(&record.policies)))
}

/// `PUT /table?comp=acl`.
pub(super) async fn set_acl(call: &Call<'_>, table: &str) -> Result<Reply> {
    call.allow(Action::SetAcl)?;
    let policies = acl::read_xml(&call.body)?;
    let container = tables::container(call.service.mode, call.head.account, table)?;
    tables::set_policies(&call.service.store, &container, policies).await?;
    Ok(Reply::empty(StatusCode::NO_CONTENT))
}

/// `OPTIONS` on any resource: whether a page in a browser may send its request.
pub(super) async fn preflight(service: &Service, head: &Head<'_>) -> Result<Reply> {
    let properties = properties(service, head.account).await?;
    let allowed = service::preflight(
        &properties.cors,
        head.header(&ORIGIN),
        head.header(&ACCESS_CONTROL_REQUEST_METHOD),
        head.header(&ACCESS_CONTROL_REQUEST_HEADERS),
    )?;
    let mut reply = Reply::empty(StatusCode::OK);
    reply.headers.extend(allowed);
    Ok(reply)
}

/// Adds the CORS headers for pages of other origins.
pub(super) async fn add_cors_headers(service: &Service, head: &Head<'_>, headers: &mut HeaderMap) {
    if !head.headers.contains_key(ORIGIN) || head.method == Method::OPTIONS {
        return;
    }
    // An answer must not fail because of these: without them the browser just does not show it.
    if let Ok(properties) = Box::pin(properties(service, head.account)).await {
        let (origin, method) = (head.header(&ORIGIN), head.method.as_str());
        service::actual(&properties.cors, origin, method, headers);
    }
}

/// Whether the account's rules let pages of this origin make such requests.
pub(super) async fn permits(service: &Service, head: &Head<'_>, origin: &str) -> Result<bool> {
    let properties = properties(service, head.account).await?;
    let method = head.method.as_str();
    Ok(service::permits(&properties.cors, origin, method))
}

async fn properties(service: &Service, account: &str) -> Result<ServiceProperties> {
    let record = service.store.database(API, account).await?;
    Ok(ServiceProperties::read(record.as_deref())?)
}
