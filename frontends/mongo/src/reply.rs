//! What a command answers: a document, or one that is encoded already. The dispatcher completes it
//! with `ok` and the cluster's time; failures are made here as well.

use bson::{Bson, Document, RawDocumentBuf, doc};

use crate::failure::Failure;

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

    /// The document as bytes.
    pub(crate) fn encode(self) -> Result<RawDocumentBuf, Failure> {
        match self {
            Self::Document(document) => Ok(RawDocumentBuf::try_from(&document)?),
            Self::Raw(document) => Ok(document),
        }
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
    let Failure {
        error,
        labels,
        fields,
        ..
    } = failure;
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

#[cfg(test)]
mod tests {
    use tessera_mongo_language::error::Code;

    use super::*;

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
