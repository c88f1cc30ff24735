//! What a page answers: a status and JSON, not yet HTTP.

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};
use serde::Serialize;
use tessera_frontend::RequestId;

/// One answer.
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    /// For 405: the methods that would have been right.
    allow: Option<&'static str>,
    body: Vec<u8>,
}

#[derive(Serialize)]
struct Failure<'a> {
    error: &'a str,
}

impl Reply {
    /// `value` as JSON.
    pub(crate) fn json(status: StatusCode, value: &impl Serialize) -> Self {
        match serde_json::to_vec(value) {
            Ok(mut body) => {
                // So that a shell prompt does not end up behind the answer.
                body.push(b'\n');
                Self {
                    status,
                    allow: None,
                    body,
                }
            }
            Err(error) => {
                tracing::error!(%error, "an answer could not be written as JSON");
                let body = b"{\"error\":\"internal error\"}\n".to_vec();
                Self {
                    status: StatusCode::INTERNAL_SERVER_ERROR,
                    allow: None,
                    body,
                }
            }
        }
    }

    /// A failure in one sentence.
    pub(crate) fn error(status: StatusCode, message: &str) -> Self {
        Self::json(status, &Failure { error: message })
    }

    /// A failure that names the methods which would have been right.
    pub(crate) fn not_allowed(allow: &'static str, message: &str) -> Self {
        Self {
            allow: Some(allow),
            ..Self::error(StatusCode::METHOD_NOT_ALLOWED, message)
        }
    }

    /// The HTTP form, marked with the request's id so that it can be found in the logs.
    pub(crate) fn into_response(self, id: RequestId) -> Response<Full<Bytes>> {
        let mut response = Response::new(Full::new(Bytes::from(self.body)));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(allow) = self.allow {
            headers.insert(ALLOW, HeaderValue::from_static(allow));
        }
        if let Ok(id) = HeaderValue::from_str(&id.to_string()) {
            headers.insert("x-request-id", id);
        }
        response
    }
}
