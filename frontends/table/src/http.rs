//! HTTP/1.1 and HTTP/2 on one connection: bytes become a [`Head`] and a bounded body, a `Reply`
//! becomes bytes. No body is kept of a request whose head does not allow it anything.

use std::convert::Infallible;
use std::future::Future;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body as _, Incoming};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, EXPECT, HOST, HeaderMap, HeaderValue};
use hyper::rt::Executor;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use hyper_util::server::conn::auto;
use tessera_core::deadline::{Deadline, Watch, spawn};
use tessera_core::memory_budget::{Grant, MemoryBudget, Purpose};
use tessera_frontend::{
    Activity, Connection, Listener, LoginGate, RequestId, Wanted, guarded, nosql_refusal,
    speaks_nosql,
};
use tracing::{Instrument as _, debug, debug_span, warn};
use uuid::Uuid;

use crate::address::{self, Resource};
use crate::error::{Code, Result};
use crate::handlers::{Admission, Service};
use crate::head::{Head, Query};
use crate::tables::Mode;

/// The largest body that a request may have.
const MAX_BODY_BYTES: usize = 4 << 20;
/// This much of a larger body is still read and discarded: a client does not read the answer before
/// it has sent its request. A connection that sends even more is closed.
const MAX_DISCARDED_BYTES: usize = 64 << 20;
/// The copies of a body in memory: joined from its pieces, parsed, and in stored form.
const BODY_COPIES: usize = 4;
/// Bytes of a body that are covered by the memory guaranteed to its connection.
const GUARANTEED: u32 = 32 << 10;
/// How long a body waits for memory before it is refused.
const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// Head and read-ahead of one request: URLs with long filters and keys included.
const MAX_BUFFER_BYTES: usize = 128 * 1024;
/// The same for HTTP/2, which reads heads apart.
const MAX_HEADER_BYTES: u32 = 128 * 1024;
/// Concurrent requests of one HTTP/2 connection.
const MAX_STREAMS: u32 = 128;
/// How long a request may compute, as in Azure.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The name of this front end's tasks.
const TASKS: &str = "table";

/// State that the requests of a connection share.
struct Peer {
    service: Arc<Service>,
    activity: Activity,
    gate: LoginGate,
    address: IpAddr,
    tls: bool,
    wanted: Arc<dyn Watch>,
    listeners: Arc<[Listener]>,
}

/// Serves one connection until it ends.
pub(crate) async fn serve(service: Arc<Service>, connection: Connection) {
    let Connection {
        stream,
        activity,
        gate,
        peer,
        tls,
        listeners,
        mut shutdown,
        ..
    } = connection;
    let peer = Arc::new(Peer {
        service,
        activity,
        gate,
        address: peer.ip().to_canonical(),
        tls,
        wanted: Arc::new(Wanted(shutdown.clone())),
        listeners,
    });
    let answer = service_fn(move |request| {
        let peer = Arc::clone(&peer);
        async move { Ok::<_, Infallible>(peer.answer(request).await) }
    });
    let mut builder = auto::Builder::new(Streams);
    builder.http1().max_buf_size(MAX_BUFFER_BYTES);
    builder
        .http2()
        .max_header_list_size(MAX_HEADER_BYTES)
        .max_concurrent_streams(MAX_STREAMS);
    let mut http = pin!(builder.serve_connection(TokioIo::new(stream), answer));
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
}

/// Runs each stream of HTTP/2 as a task of its own.
#[derive(Clone, Copy)]
struct Streams;

impl<F> Executor<F> for Streams
where
    F: Future<Output: Send> + Send + 'static,
{
    fn execute(&self, stream: F) {
        spawn(TASKS, stream);
    }
}

impl Peer {
    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        if speaks_nosql(
            request
                .headers()
                .get(AUTHORIZATION)
                .map(HeaderValue::as_bytes),
        ) {
            return self.refuse_nosql();
        }
        let (parts, body) = request.into_parts();
        let uri = parts.uri;
        let (head, resource) = self.head(parts.method, &uri, parts.headers);
        let admission = guarded(pin!(self.service.admit(&head, resource, &self.gate))).await;
        let admission = admission.unwrap_or_else(Admission::mistaken);
        let keep = admission.is_granted();
        let mut granted = Grant::new(Purpose::Requests, GUARANTEED);
        let memory = self.service.store.memory();
        let room = keep.then_some((memory, &mut granted));
        let body = read_body(&head.headers, body, room).await;
        // The request has arrived: from here on the client waits.
        let running = self.activity.begin();
        let id = request_uuid(running.id());
        // At this level only: a span costs every request more than looking up its entity does.
        let span = debug_span!("request", id = %running.id());
        let reply = async {
            let operation = admission.operation();
            let answer = self.service.answer(&head, admission, body, id);
            let deadline = Deadline::patient(TIMEOUT, Some(Arc::clone(&self.wanted)));
            let answered = deadline.named(operation).run(guarded(pin!(answer))).await;
            let reply = match answered {
                Some(reply) => reply,
                None => Box::pin(self.service.mistake(&head, id)).await,
            };
            let (Head { method, path, .. }, status) = (&head, reply.status.as_u16());
            debug!(%method, path, status, "answered");
            if reply.status.is_server_error() {
                warn!(id = %running.id(), %method, path, status, "a request failed");
            }
            reply
        };
        let reply = reply.instrument(span).await;
        drop(running);
        reply.into_response()
    }

    /// The answer to a client of Cosmos DB's NoSQL API, which is not supported.
    fn refuse_nosql(&self) -> Response<Full<Bytes>> {
        let mut response = Response::new(Full::from(nosql_refusal(&self.listeners)));
        *response.status_mut() = StatusCode::BAD_REQUEST;
        let json = HeaderValue::from_static("application/json");
        response.headers_mut().insert(CONTENT_TYPE, json);
        response
    }

    /// The head of the request and the addressed resource. If there is no such resource, the head
    /// still has the format for the refusal.
    fn head<'r>(
        &'r self,
        method: Method,
        uri: &'r Uri,
        mut headers: HeaderMap,
    ) -> (Head<'r>, Result<Resource>) {
        // HTTP/2 has the host in the URL. HTTP/1.1 may, and then the header does not count.
        if let Some(authority) = uri.authority()
            && let Ok(host) = HeaderValue::from_str(authority.as_str())
        {
            headers.insert(HOST, host);
        }
        let host = headers.get(HOST).and_then(|host| host.to_str().ok());
        let address = address::locate(host.unwrap_or_default(), uri.path(), |name| {
            self.service.authenticator.account_name(name)
        });
        let query = address::query(uri.query().unwrap_or_default());
        let (account, path_style, resource) = match address {
            Ok(address) => (address.account, address.path_style, Ok(address.resource)),
            Err(refusal) => ("", true, Err(refusal)),
        };
        let (query, resource) = match query {
            Ok(query) => (query, resource),
            Err(refusal) => (Query::default(), Err(refusal)),
        };
        let head = Head {
            method,
            path: uri.path(),
            query,
            headers,
            account,
            path_style,
            speaks_atom: self.service.mode == Mode::Storage,
            tls: self.tls,
            peer: self.address,
        };
        (head, resource)
    }
}

/// Reads a body within the limit. A body that is not needed is read and discarded, if the client
/// sends it anyway.
async fn read_body(
    headers: &HeaderMap,
    mut body: Incoming,
    mut room: Option<(&MemoryBudget, &mut Grant)>,
) -> Result<Bytes> {
    let keep = room.is_some();
    if body.is_end_stream() || (!keep && headers.contains_key(EXPECT)) {
        return Ok(Bytes::new());
    }
    let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    // A client that waits for 100 Continue has not begun to send.
    let bearable = if headers.contains_key(EXPECT) {
        MAX_BODY_BYTES
    } else {
        MAX_DISCARDED_BYTES
    };
    if announced > bearable {
        return Err(Code::RequestBodyTooLarge.into());
    }
    let mut kept = Kept::default();
    let mut received = 0;
    let mut shortage = None;
    while received <= MAX_DISCARDED_BYTES
        && let Some(frame) = body.frame().await
    {
        let frame = frame.map_err(|error| {
            Code::InvalidInput.because(format!("The body could not be read: {error}."))
        })?;
        if let Ok(data) = frame.into_data() {
            received += data.len();
            let wanted = received.max(announced);
            let Some((memory, granted)) = &mut room else {
                continue;
            };
            if wanted > MAX_BODY_BYTES || shortage.is_some() {
                continue;
            }
            match granted
                .wait_to_cover(memory, BODY_COPIES * wanted, LONGEST_WAIT)
                .await
            {
                Ok(()) => kept.add(data),
                Err(refused) => {
                    kept = Kept::default();
                    shortage = Some(refused);
                }
            }
        }
    }
    if received > MAX_BODY_BYTES {
        return Err(Code::RequestBodyTooLarge.into());
    }
    if let Some(refused) = shortage {
        return Err(Code::ServerBusy.because(refused));
    }
    Ok(kept.into_bytes())
}

/// The data of a body: most come in one piece, which is not copied.
#[derive(Default)]
struct Kept {
    first: Bytes,
    joined: BytesMut,
}

impl Kept {
    fn add(&mut self, data: Bytes) {
        if self.first.is_empty() && self.joined.is_empty() {
            self.first = data;
            return;
        }
        if self.joined.is_empty() {
            self.joined.extend_from_slice(&self.first);
        }
        self.joined.extend_from_slice(&data);
    }

    fn into_bytes(self) -> Bytes {
        if self.joined.is_empty() {
            self.first
        } else {
            self.joined.freeze()
        }
    }
}

/// The id that the client sees: the number of the connection and of the request on it, as logs
/// have them, in the form of a GUID.
fn request_uuid(id: RequestId) -> Uuid {
    let (connection, number) = id.numbers();
    Uuid::from_u64_pair(connection, number)
}
