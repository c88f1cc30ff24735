//! The reply to a command: a document, or an encoded one. The dispatcher completes it with `ok` and
//! the cluster time; error replies are made here as well.

use bson::{Bson, Document, RawDocumentBuf, doc};
use tessera_mongo_language::error::Code;

use crate::command::Command;
use crate::concern::Acknowledgement;
use crate::fail_point::Effect;
use crate::failure::{Failure, Parts, Result};
use crate::labels;
use crate::request::Request;
use crate::service::Service;
use crate::sharding;

/// The largest reply: clients take messages of 48,000,000 bytes, and a larger one ends their
/// connection.
const MAX_BYTES: usize = 47_900_000;

/// The answer of a command that succeeded, without `ok`.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    Document(Document),
    /// For hot paths: the bytes go out as they are.
    Raw(RawDocumentBuf),
}

impl Reply {
    /// Nothing but `ok`.
    pub(crate) fn ok() -> Self {
        Self::Document(Document::new())
    }

    /// With one more field.
    pub(crate) fn with(self, field: &str, value: impl Into<Bson>) -> Result<Self> {
        let mut document = match self {
            Self::Document(document) => document,
            Self::Raw(document) => Document::try_from(&*document)?,
        };
        document.insert(field, value);
        Ok(Self::Document(document))
    }

    /// The document as bytes. One that no client would take is a failure.
    pub(crate) fn encode(self) -> Result<RawDocumentBuf> {
        let encoded = match self {
            Self::Document(document) => RawDocumentBuf::try_from(&document)?,
            Self::Raw(document) => document,
        };
        let size = encoded.as_bytes().len();
        if size > MAX_BYTES {
            let message = format!(
                "The reply would have {size} bytes, of which clients take at most {MAX_BYTES}: ask \
                 for less at once"
            );
            return Err(Failure::new(Code::BSON_OBJECT_TOO_LARGE, message));
        }
        Ok(encoded)
    }
}

impl From<Document> for Reply {
    fn from(document: Document) -> Self {
        Self::Document(document)
    }
}

impl From<RawDocumentBuf> for Reply {
    fn from(document: RawDocumentBuf) -> Self {
        Self::Raw(document)
    }
}

/// The reply of a command that failed, whole.
pub(crate) fn of_failure(failure: &Failure) -> Document {
    let Parts {
        error,
        labels,
        fields,
        ..
    } = &**failure;
    let mut reply = doc! {
        "ok": 0.0,
        "errmsg": &error.message,
        "code": error.code.0,
        "codeName": error.code.name().as_ref(),
    };
    if let Some(details) = &error.details {
        reply.insert("errInfo", details.clone());
    }
    for (name, value) in fields {
        reply.insert(name, value.clone());
    }
    if !labels.is_empty() {
        let labels: Vec<Bson> = labels.iter().map(|label| Bson::from(*label)).collect();
        reply.insert("errorLabels", labels);
    }
    reply
}

/// A failure as bytes; none if it cannot be written as such.
pub(crate) fn encode_failure(failure: &Failure) -> Option<RawDocumentBuf> {
    RawDocumentBuf::try_from(&of_failure(failure)).ok()
}

/// The failure of a query of the old form.
pub(crate) fn encode_query_failure(failure: &Failure) -> Option<RawDocumentBuf> {
    let mut reply = of_failure(failure);
    reply.insert("$err", &failure.error.message);
    RawDocumentBuf::try_from(&reply).ok()
}

/// Commands of several statements, each of which may fail by itself.
const STATEMENTS: &[&str] = &["insert", "update", "delete"];

/// Says that a write concern cannot be met: there is one copy of the data, and nobody named it.
pub(crate) fn with_concern(
    reply: Reply,
    command: &Command,
    request: &Request<'_>,
) -> Result<Reply> {
    let concern = request.generic.write_concern.as_ref();
    let Some(concern) = concern.filter(|_| command.takes_write_concern) else {
        return Ok(reply);
    };
    let (code, message) = match &concern.w {
        // Who asks for no acknowledgement is told nothing of how single statements went.
        Acknowledgement::Members(0) if STATEMENTS.contains(&command.name) => {
            return Ok(Reply::ok());
        }
        Acknowledgement::Members(members) if *members > 1 => (
            Code::UNSATISFIABLE_WRITE_CONCERN,
            "Not enough data-bearing nodes".to_owned(),
        ),
        Acknowledgement::Named(name) => (
            Code::UNKNOWN_REPL_WRITE_CONCERN,
            format!("No write concern mode named '{name}' found in replica set configuration"),
        ),
        _ => return Ok(reply),
    };
    let error = doc! { "code": code.0, "codeName": code.name().as_ref(), "errmsg": message };
    reply.with("writeConcernError", error)
}

/// Adds the token that routers give to the statements of a transaction, with which another router
/// could finish its commit.
pub(crate) fn with_recovery(
    reply: Reply,
    service: &Service,
    (command, request): (&Command, &Request<'_>),
) -> Result<Reply> {
    let ends = ["commitTransaction", "abortTransaction"].contains(&command.name);
    if ends || !request.in_transaction() || service.config.replica_set.is_some() {
        return Ok(reply);
    }
    let shard = sharding::shard_name(sharding::FIRST_SHARD);
    reply.with("recoveryToken", doc! { "recoveryShardId": shard })
}

/// Adds what a test wants to see in the reply of a command that was done.
pub(crate) fn with_effect(
    reply: Reply,
    request: &Request<'_>,
    effect: Option<&Effect>,
) -> Result<Reply> {
    let Some(error) = effect.and_then(|effect| effect.write_concern_error.clone()) else {
        return Ok(reply);
    };
    let code = Code(error.get_i32("code").unwrap_or_default());
    let reply = reply.with("writeConcernError", error)?;
    match effect.and_then(|effect| effect.labels.clone()) {
        Some(labels) => reply.with("errorLabels", labels),
        None if labels::is_retryable(code) && request.is_retryable_write() => {
            reply.with("errorLabels", vec!["RetryableWriteError"])
        }
        None => Ok(reply),
    }
}

#[cfg(test)]
mod tests {
    use tessera_mongo_language::error::Code;

    use super::*;

    #[test]
    fn no_reply_is_larger_than_clients_take() {
        let of = |bytes: usize| Reply::from(doc! { "x": "y".repeat(bytes) });
        assert!(of(17 << 20).encode().is_ok());
        for bytes in [MAX_BYTES, 48_000_000, 70_000_000] {
            let refused = of(bytes).encode().unwrap_err();
            assert_eq!(refused.code(), Code::BSON_OBJECT_TOO_LARGE);
        }
    }

    #[test]
    fn a_failure_carries_code_name_fields_and_labels() {
        let failure = Failure::new(Code::DUPLICATE_KEY, "E11000 …")
            .with("keyPattern", doc! { "a": 1 })
            .labelled("RetryableWriteError");
        assert_eq!(
            of_failure(&failure),
            doc! {
                "ok": 0.0,
                "errmsg": "E11000 …",
                "code": 11000,
                "codeName": "DuplicateKey",
                "keyPattern": { "a": 1 },
                "errorLabels": ["RetryableWriteError"],
            }
        );
    }
}
