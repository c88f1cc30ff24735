//! The answer to a request before it becomes HTTP: status, headers, body; and refusals in the three
//! forms that clients read.

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, SERVER};
use hyper::{HeaderMap, Response, StatusCode};
use quick_xml::escape::escape;
use serde::Serialize;
use tessera_core::memory_budget::Grant;
use tessera_core::throughput::Charge;
use uuid::Uuid;

use crate::entity::DateTime;
use crate::error::ServiceError;
use crate::header_names;
use crate::tables::Mode;

/// The version of the service's protocol in answers. Older ones have the same answers, except for
/// Atom.
const SERVICE_VERSION: HeaderValue = HeaderValue::from_static("2026-06-06");

const JSON_ERROR: HeaderValue =
    HeaderValue::from_static("application/json;odata=minimalmetadata;streaming=true;charset=utf-8");
const XML: HeaderValue = HeaderValue::from_static("application/xml");

/// One answer.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// The cost of the answer.
    pub(crate) charge: Charge,
}

/// Room for what stands around a refusal's own words.
const MESSAGE_BYTES: usize = 128;

/// The bytes of a body, and their memory.
struct HeldBody {
    bytes: Bytes,
    _granted: Grant,
}

impl AsRef<[u8]> for HeldBody {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Reply {
    /// An answer without a body.
    pub(crate) fn empty(status: StatusCode) -> Self {
        Self {
            status,
            // Room for all headers of an answer: growing would insert them again.
            headers: HeaderMap::with_capacity(12),
            body: Bytes::new(),
            charge: Charge::default(),
        }
    }

    /// An answer with a body.
    pub(crate) fn new(status: StatusCode, content_type: HeaderValue, body: Vec<u8>) -> Self {
        let mut reply = Self::empty(status);
        reply.headers.insert(CONTENT_TYPE, content_type);
        reply.body = body.into();
        reply
    }

    /// The same answer, whose body keeps this memory until it is sent.
    #[must_use]
    pub(crate) fn holding(mut self, granted: Grant) -> Self {
        if granted.is_taken() {
            let bytes = std::mem::take(&mut self.body);
            self.body = Bytes::from_owner(HeldBody {
                bytes,
                _granted: granted,
            });
        }
        self
    }

    /// An answer in XML.
    pub(crate) fn xml(status: StatusCode, body: Vec<u8>) -> Self {
        Self::new(status, XML, body)
    }

    /// The same answer with one header more. A value that HTTP cannot carry is left out.
    #[must_use]
    pub(crate) fn with(mut self, name: &HeaderName, value: &str) -> Self {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.insert(name, value);
        }
        self
    }

    /// The same answer with its cost.
    #[must_use]
    pub(crate) fn costing(self, charge: Charge) -> Self {
        Self { charge, ..self }
    }

    /// A refusal.
    pub(crate) fn refusal(error: &ServiceError, form: ErrorForm, id: Uuid, now: DateTime) -> Self {
        let message = full_message(error, id, now);
        let code = error.code.name();
        let (content_type, body) = match form {
            ErrorForm::Json => (JSON_ERROR, json_error(code, &message)),
            ErrorForm::Atom => (XML, atom_error(code, &message)),
            ErrorForm::Xml => (XML, xml_error(code, &message)),
        };
        let mut reply = Self::new(error.status(), content_type, body).costing(error.charge);
        let headers = &mut reply.headers;
        headers.insert(&header_names::ERROR_CODE, HeaderValue::from_static(code));
        if let Some(wait) = error.retry_after_ms {
            headers.insert(&header_names::RETRY_AFTER_MS, wait.into());
            headers.insert(RETRY_AFTER, wait.div_ceil(1_000).into());
        }
        reply
    }

    /// Adds the headers of every answer.
    pub(crate) fn stamp(&mut self, mode: Mode, id: Uuid, client_request_id: Option<&HeaderValue>) {
        let headers = &mut self.headers;
        headers.insert(&header_names::VERSION, SERVICE_VERSION);
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        headers.insert(SERVER, HeaderValue::from_static("Tessera-Table"));
        headers.insert(
            &header_names::CONTENT_TYPE_OPTIONS,
            HeaderValue::from_static("nosniff"),
        );
        if let Ok(id) = HeaderValue::from_str(id.hyphenated().encode_lower(&mut [0; 36])) {
            headers.insert(&header_names::REQUEST_ID, id);
        }
        if mode == Mode::Cosmos {
            let units = format!("{:.2}", self.charge.request_units());
            if let Ok(units) = HeaderValue::from_str(&units) {
                headers.insert(&header_names::REQUEST_CHARGE, units);
            }
        }
        if let Some(id) = client_request_id {
            headers.insert(&header_names::CLIENT_REQUEST_ID, id.clone());
        }
    }

    /// The HTTP form.
    pub(crate) fn into_response(self) -> Response<Full<Bytes>> {
        let mut response = Response::new(Full::new(self.body));
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers;
        response
    }
}

/// The form in which a client reads refusals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ErrorForm {
    /// Operations on tables and entities.
    Json,
    /// The same for clients that ask for Atom.
    Atom,
    /// Operations whose own answers are XML: properties, statistics, access policies.
    Xml,
}

#[derive(Serialize)]
struct JsonError<'a> {
    #[serde(rename = "odata.error")]
    error: JsonErrorBody<'a>,
}

#[derive(Serialize)]
struct JsonErrorBody<'a> {
    code: &'a str,
    message: JsonErrorMessage<'a>,
}

#[derive(Serialize)]
struct JsonErrorMessage<'a> {
    lang: &'static str,
    value: &'a str,
}

/// The message of a refusal, with the request and the details of the case. Whoever asks for what is
/// not there gets one, so it is put together without formatting.
fn full_message(error: &ServiceError, id: Uuid, now: DateTime) -> String {
    let (message, detail) = (&error.message, &error.detail);
    let mut full = String::with_capacity(message.len() + detail.len() + MESSAGE_BYTES);
    if let Some(operation) = error.operation {
        full.push_str(&operation.to_string());
        full.push(':');
    }
    full.push_str(message);
    full.push_str("\nRequestId:");
    full.push_str(id.hyphenated().encode_lower(&mut [0; 36]));
    full.push_str("\nTime:");
    now.push_to(&mut full);
    if !detail.is_empty() {
        full.push('\n');
        full.push_str(detail);
    }
    full
}

fn json_error(code: &str, message: &str) -> Vec<u8> {
    let error = JsonError {
        error: JsonErrorBody {
            code,
            message: JsonErrorMessage {
                lang: "en-US",
                value: message,
            },
        },
    };
    let mut body = Vec::with_capacity(message.len() + MESSAGE_BYTES);
    match serde_json::to_writer(&mut body, &error) {
        Ok(()) => body,
        // Texts alone can always be written.
        Err(_) => Vec::new(),
    }
}

fn atom_error(code: &str, message: &str) -> Vec<u8> {
    format!(
        "<?xml version=\"1.0\" encoding=\"utf-8\" standalone=\"yes\"?>\
         <error xmlns=\"http://schemas.microsoft.com/ado/2007/08/dataservices/metadata\">\
         <code>{code}</code><message xml:lang=\"en-US\">{}</message></error>",
        escape(message)
    )
    .into_bytes()
}

fn xml_error(code: &str, message: &str) -> Vec<u8> {
    format!(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?><Error><Code>{code}</Code><Message>{}</Message>\
         </Error>",
        escape(message)
    )
    .into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;

    fn refusal(error: &ServiceError, form: ErrorForm) -> (Reply, String) {
        let reply = Reply::refusal(error, form, Uuid::nil(), DateTime::from_version(0));
        let body = String::from_utf8(reply.body.to_vec()).unwrap();
        (reply, body)
    }

    #[test]
    fn refusals_have_the_same_content_in_all_forms() {
        let mut error = Code::InvalidInput.because("a < \"b\"");
        error.operation = Some(3);
        let start = "3:One of the request inputs is not valid.\
                     \nRequestId:00000000-0000-0000-0000-000000000000\
                     \nTime:1970-01-01T00:00:00.0000000Z\n";
        let (json, body) = refusal(&error, ErrorForm::Json);
        let parsed: serde_json::Value = serde_json::from_str(&body).unwrap();
        let error_body = &parsed["odata.error"];
        assert_eq!(error_body["code"], "InvalidInput");
        let value = &error_body["message"]["value"];
        assert_eq!(*value, format!("{start}a < \"b\""));
        assert_eq!(json.headers["x-ms-error-code"], "InvalidInput");
        for form in [ErrorForm::Atom, ErrorForm::Xml] {
            let (_, body) = refusal(&error, form);
            assert!(
                body.contains(&format!("{start}a &lt; &quot;b&quot;<")),
                "{body}"
            );
        }
    }

    #[test]
    fn a_throttled_client_is_told_when_to_come_back() {
        let mut error = ServiceError::from(Code::TooManyRequests);
        error.retry_after_ms = Some(1_250);
        let (reply, _) = refusal(&error, ErrorForm::Json);
        assert_eq!(reply.status, StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(reply.headers["x-ms-retry-after-ms"], "1250");
        assert_eq!(reply.headers["retry-after"], "2");
    }
}
