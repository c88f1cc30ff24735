//! `commitTransaction` and `abortTransaction`: the ends of a transaction of several statements.

use crate::access::Access;
use crate::command::Command;
use crate::failure::Result;
use crate::fields::{ANY, DOCUMENT, Field, Fields, optional};
use crate::reply::Reply;
use crate::request::Request;
use crate::service::Service;
use crate::session::Session;

pub(crate) const COMMANDS: &[Command] = &[
    Command::new(
        "commitTransaction",
        "Commits a multi-statement transaction.",
        Access::Authenticated,
        |service, session, request| Box::pin(commit(service, session, request)),
    )
    .admin_only()
    .in_transactions()
    .writes()
    .stable(),
    Command::new(
        "abortTransaction",
        "Aborts a multi-statement transaction.",
        Access::Authenticated,
        |service, _, request| Box::pin(abort(service, request)),
    )
    .admin_only()
    .in_transactions()
    .writes()
    .stable(),
];

/// Routers hand out a token with which any of them can finish a commit; here every commit can be
/// asked for again without one.
const FIELDS: &[Field] = &[
    optional("recoveryToken", DOCUMENT),
    optional("commitTimestamp", ANY),
    optional("durableTimestamp", ANY),
];

async fn commit(service: &Service, session: &mut Session, request: &Request<'_>) -> Result<Reply> {
    Fields::of(request, FIELDS)?;
    let transactions = &service.data.transactions;
    transactions.commit(&service.data, session, request).await?;
    Ok(Reply::ok())
}

async fn abort(service: &Service, request: &Request<'_>) -> Result<Reply> {
    Fields::of(request, FIELDS)?;
    let transactions = &service.data.transactions;
    transactions.abort(&service.data, request).await?;
    Ok(Reply::ok())
}
