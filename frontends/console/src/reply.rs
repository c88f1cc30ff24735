//! The answer of a page: a status and a text, not yet HTTP.

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue, REFERRER_POLICY,
    WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use hyper::{Response, StatusCode};
use serde::Serialize;
use tessera_frontend::RequestId;

const JSON: &str = "application/json";
/// All resources are the server's own, and no page may frame it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
                      connect-src 'self'; img-src 'self' data:; base-uri 'none'; \
                      form-action 'none'; frame-ancestors 'none'";

/// One answer.
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    content_type: &'static str,
    /// For 405: the methods that would have been right.
    allow: Option<String>,
    body: Vec<u8>,
}

#[derive(Serialize)]
struct Failure<'a> {
    error: &'a str,
}

impl Reply {
    /// `value` as JSON.
    pub(crate) fn json(status: StatusCode, value: &impl Serialize) -> Self {
        let (status, body) = match serde_json::to_vec(value) {
            Ok(mut body) => {
                // So that a shell prompt begins on a line of its own.
                body.push(b'\n');
                (status, body)
            }
            Err(error) => {
                tracing::error!(%error, "an answer could not be written as JSON");
                let body = b"{\"error\":\"internal error\"}\n".to_vec();
                (StatusCode::INTERNAL_SERVER_ERROR, body)
            }
        };
        Self {
            status,
            content_type: JSON,
            allow: None,
            body,
        }
    }

    /// A text of another kind.
    pub(crate) fn text(content_type: &'static str, text: String) -> Self {
        Self {
            status: StatusCode::OK,
            content_type,
            allow: None,
            body: text.into_bytes(),
        }
    }

    /// A failure whose JSON is written already.
    pub(crate) fn refusal_in_json(status: StatusCode, json: String) -> Self {
        Self {
            status,
            ..Self::text(JSON, json)
        }
    }

    /// A failure in one sentence.
    pub(crate) fn error(status: StatusCode, message: &str) -> Self {
        Self::json(status, &Failure { error: message })
    }

    /// A failure that names the methods which would have been right.
    pub(crate) fn not_allowed(allow: &str, message: &str) -> Self {
        Self {
            allow: Some(allow.to_owned()),
            ..Self::error(StatusCode::METHOD_NOT_ALLOWED, message)
        }
    }

    /// The HTTP form, marked with the request's id so that it can be found in the logs.
    pub(crate) fn into_response(self, id: RequestId) -> Response<Full<Bytes>> {
        let mut response = Response::new(Full::new(Bytes::from(self.body)));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        for (name, value) in [
            (CONTENT_TYPE, self.content_type),
            (CACHE_CONTROL, "no-store"),
            (CONTENT_SECURITY_POLICY, POLICY),
            (REFERRER_POLICY, "no-referrer"),
            (X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (X_FRAME_OPTIONS, "DENY"),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(allow) = self
            .allow
            .and_then(|allow| HeaderValue::from_str(&allow).ok())
        {
            headers.insert(ALLOW, allow);
        }
        if let Ok(id) = HeaderValue::from_str(&id.to_string()) {
            headers.insert("x-request-id", id);
        }
        response
    }
}
