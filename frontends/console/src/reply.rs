//! The answer of a page: a status and a text, whole or as it comes, not yet HTTP.

use std::time::Duration;

use hyper::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue,
    REFERRER_POLICY, RETRY_AFTER, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use hyper::{Response, StatusCode};
use serde::Serialize;
use tessera_core::throughput::Charge;
use tessera_frontend::Request;

use crate::flow::{Body, Flow};

const JSON: &str = "application/json";
/// All resources are the server's own, and no page may frame it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
                      connect-src 'self'; img-src 'self' data:; base-uri 'none'; \
                      form-action 'none'; frame-ancestors 'none'";

/// One answer.
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    content_type: &'static str,
    /// Headers of this answer alone.
    headers: Vec<(HeaderName, String)>,
    body: Text,
}

/// The text of an answer.
enum Text {
    Whole(Vec<u8>),
    /// As it comes, for as long as the client takes it.
    Flow(Box<Flow>),
}

/// What a request cost, in request units: the header of Cosmos DB.
const CHARGE: HeaderName = HeaderName::from_static("x-ms-request-charge");

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
            headers: Vec::new(),
            body: Text::Whole(body),
        }
    }

    /// A text of another kind.
    pub(crate) fn text(content_type: &'static str, text: String) -> Self {
        Self {
            status: StatusCode::OK,
            content_type,
            headers: Vec::new(),
            body: Text::Whole(text.into_bytes()),
        }
    }

    /// A text that goes on for as long as there is more of it.
    pub(crate) fn flow(content_type: &'static str, flow: Flow) -> Self {
        Self {
            status: StatusCode::OK,
            content_type,
            headers: Vec::new(),
            body: Text::Flow(Box::new(flow)),
        }
    }

    /// The same answer, with what it cost so far.
    pub(crate) fn charged(mut self, charge: Charge) -> Self {
        let units = format!("{:.2}", charge.request_units());
        self.headers.push((CHARGE, units));
        self
    }

    /// The same answer, with the time after which to ask again, in whole seconds.
    pub(crate) fn with_retry(mut self, after: Duration) -> Self {
        let seconds = after.as_millis().div_ceil(1_000).max(1);
        self.headers.push((RETRY_AFTER, seconds.to_string()));
        self
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
        let mut reply = Self::error(StatusCode::METHOD_NOT_ALLOWED, message);
        reply.headers.push((ALLOW, allow.to_owned()));
        reply
    }

    /// The HTTP form, marked with the request's id so that it can be found in the logs. The request
    /// runs for as long as its answer flows.
    pub(crate) fn into_response(self, request: Request) -> Response<Body> {
        let id = request.id();
        let body = match self.body {
            Text::Whole(text) => Body::whole(text),
            Text::Flow(flow) => Body::flow(flow, request),
        };
        let mut response = Response::new(body);
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
        let id = (HeaderName::from_static("x-request-id"), id.to_string());
        for (name, value) in self.headers.into_iter().chain([id]) {
            if let Ok(value) = HeaderValue::from_str(&value) {
                headers.insert(name, value);
            }
        }
        response
    }
}
