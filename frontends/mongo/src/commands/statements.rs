//! Common parts of commands with several write statements: their number, their errors, and
//! statements that were executed before.

use bson::{Bson, Document, RawBsonRef, doc};
use tessera_mongo_language::error::{Code, Error};

use crate::failure::{Failure, Result};
use crate::fields::{Fields, whole};
use crate::reply::Reply;
use crate::transaction::Scope;
use crate::write::throttle::Throttle;

/// The most statements of one command.
pub(crate) const MAX_STATEMENTS: usize = 100_000;
/// The most bytes of errors in one reply.
const MAX_ERROR_BYTES: usize = 1024 * 1024;

/// Refuses commands without statements, and with too many.
pub(crate) fn check_count(count: usize) -> Result<()> {
    if count == 0 || count > MAX_STATEMENTS {
        return Err(Error::new(
            Code::INVALID_LENGTH,
            format!(
                "Write batch sizes must be between 1 and {MAX_STATEMENTS}. Got {count} operations."
            ),
        )
        .into());
    }
    Ok(())
}

/// The numbers by which a client knows the statements of a numbered command.
pub(crate) struct StatementIds {
    first: i32,
    all: Vec<i32>,
}

impl StatementIds {
    pub(crate) fn read(fields: &Fields<'_>) -> Self {
        let number = |value: RawBsonRef<'_>| i32::try_from(whole(value)?).ok();
        let first = fields.get("stmtId").and_then(number).unwrap_or(0);
        let all = fields
            .array("stmtIds")
            .map(|ids| ids.into_iter().filter_map(|id| number(id.ok()?)).collect());
        Self {
            first,
            all: all.unwrap_or_default(),
        }
    }

    /// The number of a command's only statement.
    pub(crate) fn read_one(fields: &Fields<'_>) -> i32 {
        let id = fields.integer("stmtId").unwrap_or(0);
        i32::try_from(id).unwrap_or(0)
    }

    /// The number of the statement at this position.
    pub(crate) fn at(&self, position: usize) -> i32 {
        let counted = i32::try_from(position).unwrap_or(i32::MAX);
        self.all
            .get(position)
            .copied()
            .unwrap_or(self.first.saturating_add(counted))
    }
}

/// What becomes of the statements of a command.
#[derive(Default)]
pub(crate) struct Outcome {
    errors: Vec<Bson>,
    error_bytes: usize,
    /// Why the first statement was refused that had no throughput.
    throttled: Option<Failure>,
    /// Numbers of the statements that had been done before.
    pub(crate) retried: Vec<i32>,
}

impl Outcome {
    /// Notes the error of a statement. Errors that concern the command as a whole are returned.
    pub(crate) fn fail(&mut self, position: usize, failure: Failure, scope: &Scope) -> Result<()> {
        if concerns_all(&failure, scope) {
            return Err(failure);
        }
        if failure.is_throttled() && self.throttled.is_none() {
            self.throttled = Some(failure.clone());
        }
        let mut error = statement_error(&failure);
        if self.error_bytes > MAX_ERROR_BYTES {
            error.insert("errmsg", "");
        }
        self.error_bytes += failure.error.message.len() + 64;
        let mut entry = doc! { "index": i32::try_from(position).unwrap_or(i32::MAX) };
        entry.extend(error);
        self.errors.push(Bson::Document(entry));
        Ok(())
    }

    pub(crate) fn has_failed(&self) -> bool {
        !self.errors.is_empty()
    }

    /// Completes the reply of a command that was to do what `reply` counts in `n`; or its failure,
    /// if it is to be sent again for want of throughput.
    pub(crate) fn reply(mut self, throttle: &Throttle, mut reply: Document) -> Result<Reply> {
        if let Some(failure) = self.throttled.take() {
            let is_done = reply.get("n").is_some_and(|n| *n != Bson::Int32(0));
            if !is_done {
                return Err(failure);
            }
            if throttle.resends() {
                return Err(counting(failure, reply));
            }
        }
        if !self.errors.is_empty() {
            reply.insert("writeErrors", self.errors);
        }
        if !self.retried.is_empty() {
            reply.insert("retriedStmtIds", self.retried);
        }
        Ok(Reply::Document(reply))
    }
}

/// The failure of a command that the client sends again, with what it has done so far.
pub(crate) fn counting(mut failure: Failure, counts: Document) -> Failure {
    failure.fields.extend(counts);
    failure
}

/// How a statement's error is shown.
pub(crate) fn statement_error(failure: &Failure) -> Document {
    let mut error = doc! {
        "code": failure.code().0,
        "errmsg": failure.error.message.clone(),
    };
    if let Some(details) = &failure.error.details {
        error.insert("errInfo", details.clone());
    }
    error.extend(failure.fields.clone());
    error
}

/// Whether an error is not of one statement alone: the client is to try the whole command again, or
/// not at all.
pub(crate) fn concerns_all(failure: &Failure, scope: &Scope) -> bool {
    const ALL: &[Code] = &[
        Code::WRITE_CONFLICT,
        Code::NETWORK_TIMEOUT,
        Code::SHUTDOWN_IN_PROGRESS,
        Code::OUT_OF_DISK_SPACE,
        Code::INTERNAL_ERROR,
        Code::TRANSACTION_TOO_OLD,
        Code::NO_SUCH_TRANSACTION,
        Code::OPERATION_NOT_SUPPORTED_IN_TRANSACTION,
        Code::MAX_TIME_MS_EXPIRED,
    ];
    match failure.is_throttled() {
        // Statements of a transaction are done together or not at all.
        true => scope.is_joined(),
        false => ALL.contains(&failure.code()),
    }
}

/// A number of a reply.
pub(crate) fn count(number: u64) -> Bson {
    i32::try_from(number).map_or_else(
        |_| Bson::Int64(i64::try_from(number).unwrap_or(i64::MAX)),
        Bson::Int32,
    )
}
