//! The console: HTTP for browsers and monitors.
//!
//! [`Console::serve`] runs HTTP/1.1 on one connection; `routes` finds the page; a page takes values
//! and returns a [`reply::Reply`]. The server handles silent and slow clients, through the
//! connection's `Activity`; hyper's own header timer would also end idle connections, so it stays
//! off.

mod access;
mod actions;
mod advice;
mod advisor;
mod assets;
mod changes;
mod changes_query;
mod changes_text;
mod containers;
mod databases;
mod feeds;
mod flow;
mod health;
mod memory;
mod metrics;
mod polls;
mod reply;
mod routes;

use std::convert::Infallible;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use crate::flow::Body;
use crate::reply::Reply;
use crate::routes::Call;
use http_body_util::{BodyExt, Collected, Limited};
use hyper::StatusCode;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tessera_core::Store;
use tessera_core::deadline::{Deadline, Watch};
use tessera_frontend::{
    About, Activity, Connection, FrontEnd, LoginGate, Shutdown, Wanted, guarded,
};
use tokio::sync::Semaphore;
use tracing::{Instrument, debug, info_span};

/// Head and read-ahead of one request.
const MAX_BUFFER_BYTES: usize = 16 * 1024;
/// The largest body.
const MAX_BODY_BYTES: usize = 4 * 1024;
/// How long a request may compute. Advice on a large container reads all of it.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(600);

/// The console front end.
pub struct Console {
    store: Store,
    about: About,
    /// The admin key.
    admin_key: Option<String>,
    surveys: Semaphore,
}

/// State that the requests of a connection share.
struct Peer {
    activity: Activity,
    gate: LoginGate,
    is_local: bool,
    shutdown: Shutdown,
    wanted: Arc<dyn Watch>,
}

impl Console {
    /// A console over `store`, showing `about`. Without an admin key it serves this machine only.
    pub fn new(store: Store, about: About, admin_key: Option<String>) -> Self {
        Self {
            store,
            about,
            admin_key,
            surveys: Semaphore::new(1),
        }
    }

    async fn answer(
        &self,
        peer: &Peer,
        request: hyper::Request<Incoming>,
    ) -> hyper::Response<Body> {
        let running = peer.activity.begin();
        let id = running.id();
        let span = info_span!("request", id = %id);
        let (head, body) = request.into_parts();
        let reply = async {
            let body = Limited::new(body, MAX_BODY_BYTES).collect().await;
            let reply = match body.map(Collected::to_bytes) {
                Err(error) => Reply::error(StatusCode::PAYLOAD_TOO_LARGE, &error.to_string()),
                Ok(body) => {
                    let call = Call {
                        console: self,
                        method: &head.method,
                        path: head.uri.path(),
                        query: head.uri.query().unwrap_or_default(),
                        headers: &head.headers,
                        host: host(&head),
                        body: &body,
                        is_local: peer.is_local,
                        gate: &peer.gate,
                        shutdown: &peer.shutdown,
                        parts: Vec::new(),
                    };
                    let deadline = Deadline::patient(TIMEOUT, Some(Arc::clone(&peer.wanted)));
                    let answer = pin!(routes::answer(call));
                    let answered = deadline.named("request").run(guarded(answer)).await;
                    answered.unwrap_or_else(|| {
                        let message = "internal server error; see the server log";
                        Reply::error(StatusCode::INTERNAL_SERVER_ERROR, message)
                    })
                }
            };
            debug!(
                method = %head.method,
                path = head.uri.path(),
                status = reply.status.as_u16(),
                "answered"
            );
            reply
        };
        reply.instrument(span).await.into_response(running)
    }
}

/// The host that a request names. A host in the address precedes the header.
fn host(head: &hyper::http::request::Parts) -> Option<&str> {
    let in_address = head
        .uri
        .authority()
        .map(hyper::http::uri::Authority::as_str);
    let header = || head.headers.get(hyper::header::HOST)?.to_str().ok();
    in_address.or_else(header)
}

impl FrontEnd for Console {
    fn serve(&self, connection: Connection) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async move {
            let Connection {
                stream,
                activity,
                gate,
                peer,
                mut shutdown,
                ..
            } = connection;
            let peer = Peer {
                activity,
                gate,
                is_local: peer.ip().to_canonical().is_loopback(),
                shutdown: shutdown.clone(),
                wanted: Arc::new(Wanted(shutdown.clone())),
            };
            let service = service_fn(|request| {
                let answer = self.answer(&peer, request);
                async { Ok::<_, Infallible>(answer.await) }
            });
            let mut http = pin!(
                http1::Builder::new()
                    .max_buf_size(MAX_BUFFER_BYTES)
                    .serve_connection(TokioIo::new(stream), service)
            );
            let ended = tokio::select! {
                ended = http.as_mut() => ended,
                () = shutdown.requested() => {
                    http.as_mut().graceful_shutdown();
                    http.await
                }
            };
            if let Err(error) = ended {
                debug!(%error, "connection ended early");
            }
        })
    }
}

#[cfg(test)]
mod tests;
