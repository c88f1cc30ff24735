//! The errors of transactions, with the labels that tell drivers what to do after them.

use tessera_core::Error as CoreError;
use tessera_mongo_language::error::Code;

use crate::data::Data;
use crate::failure::{Failure, Result};
use crate::write::retry::{self, Numbered};

/// The label of a failed transaction that may succeed if all of it is run again.
pub(crate) const TRANSIENT: &str = "TransientTransactionError";
/// The label of a commit that may have been applied.
const UNKNOWN_RESULT: &str = "UnknownTransactionCommitResult";

pub(super) fn none_such(number: i64) -> Failure {
    let message =
        format!("Given transaction number {number} does not match any in-progress transactions.");
    Failure::new(Code::NO_SUCH_TRANSACTION, message).labelled(TRANSIENT)
}

pub(super) fn committed(number: i64) -> Failure {
    let message = format!("Transaction with {{ txnNumber: {number} }} has been committed.");
    Failure::new(Code::TRANSACTION_COMMITTED, message)
}

/// What became of a transaction that is not open here: another server, or this one before it was
/// restarted, may have committed it.
pub(super) async fn elsewhere(data: &Data, numbered: Numbered) -> Result<Failure> {
    Ok(match retry::committed(data, numbered).await? {
        true => committed(numbered.number),
        false => none_such(numbered.number),
    })
}

pub(super) fn expired(number: i64) -> Failure {
    let message = format!(
        "Transaction with {{ txnNumber: {number} }} has been aborted: it was open for longer than \
         transactionLifetimeLimitSeconds"
    );
    Failure::new(Code::TRANSACTION_EXCEEDED_LIFETIME_LIMIT_SECONDS, message).labelled(TRANSIENT)
}

pub(super) fn unknown() -> Failure {
    Failure::from(CoreError::OutcomeUnknown).labelled(UNKNOWN_RESULT)
}

pub(super) fn too_old(number: i64, latest: i64) -> Failure {
    let message = format!(
        "Cannot start transaction {number} on session because a newer transaction {latest} has \
         already started."
    );
    Failure::new(Code::TRANSACTION_TOO_OLD, message)
}
