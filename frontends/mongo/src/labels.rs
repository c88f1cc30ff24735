//! Error labels, by which drivers decide whether to retry.

use std::time::Duration;

use tessera_core::memory_budget::OutOfMemory;
use tessera_mongo_language::error::Code;

use crate::failure::{Failure, REQUEST_RATE_TOO_LARGE};
use crate::request::Request;

const RETRYABLE_WRITE: &str = "RetryableWriteError";
const TRANSIENT_TRANSACTION: &str = "TransientTransactionError";
const OVERLOADED: &str = "SystemOverloadedError";
const RETRYABLE: &str = "RetryableError";

/// Codes after which the same write may succeed on another attempt.
const RETRYABLE_CODES: &[i32] = &[
    6, 7, 89, 91, 134, 189, 262, 317, 358, 384, 402, 406, 407, 412, 453, 462, 471, 485, 488, 506,
    512, 515, 516, 521, 9001, 10107, 11600, 11602, 13435, 13436,
];

/// Codes after which a whole transaction may succeed on another attempt.
const TRANSIENT_CODES: &[i32] = &[24, 112, 239, 246, 250, 251, 267];

/// Codes of a server that has too much to do.
const OVERLOAD_CODES: &[i32] = &[433, 449, 450, 462, 473, 489, 512, 521];

/// Whether a numbered write that failed so may be sent again.
pub(crate) fn is_retryable(code: Code) -> bool {
    RETRYABLE_CODES.contains(&code.0)
}

/// Adds the labels that follow from a failure's code and from what was asked.
pub(crate) fn add(
    mut failure: Failure,
    request: &Request<'_>,
    understands_overload: bool,
) -> Failure {
    let code = failure.code();
    let ends_transaction = matches!(request.name(), "commitTransaction" | "abortTransaction");
    if is_retryable(code) && (request.is_retryable_write() || ends_transaction) {
        failure = failure.labelled(RETRYABLE_WRITE);
    }
    // What may be sent again must be, where a commit may have been applied already.
    let may_be_done = ends_transaction && is_retryable(code);
    let transient = TRANSIENT_CODES.contains(&code.0) || is_retryable(code);
    if request.in_transaction() && transient && !may_be_done {
        failure = failure.labelled(TRANSIENT_TRANSACTION);
    }
    let overloaded = code == REQUEST_RATE_TOO_LARGE || OVERLOAD_CODES.contains(&code.0);
    if overloaded && understands_overload {
        failure = failure.labelled(OVERLOADED);
        // Drivers send again whatever has this label, also what is not numbered.
        if !failure.is_half_done {
            failure = failure.labelled(RETRYABLE);
        }
        if let Some(wait) = failure.retry_after {
            failure = failure.with("baseBackoffMS", backoff(wait));
        }
    }
    failure
}

/// The failure of a request that there is no memory for: it may come again where others have it.
pub(crate) fn of_shortage(refused: &OutOfMemory, understands_overload: bool) -> Failure {
    if !refused.is_passing() {
        return Failure::new(Code::EXCEEDED_MEMORY_LIMIT, refused.to_string());
    }
    let failure = Failure::new(Code::ADMISSION_QUEUE_OVERFLOW, refused.to_string());
    match understands_overload {
        true => failure.labelled(OVERLOADED).labelled(RETRYABLE),
        false => failure,
    }
}

fn backoff(wait: Duration) -> i32 {
    i32::try_from(wait.as_millis()).unwrap_or(i32::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use bson::{RawDocumentBuf, rawdoc};

    use super::*;

    fn check(body: &RawDocumentBuf, code: i32, understands: bool, expected: &[&str]) {
        let request = Request::parse(body, Vec::new(), None).unwrap();
        let failure = add(Failure::new(Code(code), ""), &request, understands);
        assert_eq!(failure.labels, expected, "{code} {body:?}");
    }

    #[test]
    fn labels_follow_from_the_code_and_the_request() {
        let plain = rawdoc! { "insert": "c", "$db": "d" };
        let numbered = rawdoc! { "insert": "c", "$db": "d", "txnNumber": 1i64 };
        let part = rawdoc! { "insert": "c", "$db": "d", "txnNumber": 1i64, "autocommit": false };
        let commit = rawdoc! {
            "commitTransaction": 1, "$db": "admin", "txnNumber": 1i64, "autocommit": false,
        };
        check(&plain, 91, true, &[]);
        check(&numbered, 91, true, &[RETRYABLE_WRITE]);
        check(&numbered, 11000, true, &[]);
        check(&part, 112, true, &[TRANSIENT_TRANSACTION]);
        check(&part, 251, true, &[TRANSIENT_TRANSACTION]);
        check(&part, 91, true, &[TRANSIENT_TRANSACTION]);
        check(&part, 11000, true, &[]);
        check(&commit, 91, true, &[RETRYABLE_WRITE]);
        check(&commit, 251, true, &[TRANSIENT_TRANSACTION]);
        check(&plain, 16500, true, &[OVERLOADED, RETRYABLE]);
        check(&plain, 16500, false, &[]);
    }

    #[test]
    fn throttled_requests_say_how_long_to_back_off() {
        let body = rawdoc! { "find": "c", "$db": "d" };
        let request = Request::parse(&body, Vec::new(), None).unwrap();
        let retry_after = Duration::from_millis(250);
        let failure = Failure::from(tessera_core::Error::Throttled {
            retry_after,
            waited: false,
            shortage: Box::default(),
        });
        let mut half_done = failure.clone();
        half_done.is_half_done = true;
        assert_eq!(add(half_done, &request, true).labels, [OVERLOADED]);
        let failure = add(failure, &request, true);
        assert_eq!(failure.fields.get_i32("baseBackoffMS").unwrap(), 250);
    }
}
