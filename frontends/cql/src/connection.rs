//! One connection: envelopes in, envelopes out. The only file that touches the socket.
//!
//! Requests run at the same time and are answered as they end. One that needs not wait, as most do,
//! is answered at once; one that must becomes a task of its own. When too many run, or the client
//! does not read, nothing more is read from it.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tessera_core::deadline::{Deadline, measured};
use tessera_core::memory_budget::{Grant, MemoryBudget, OutOfMemory, Purpose};
use tessera_frontend::{
    Activity, Connection, Gone, Listener, Shutdown, Stream, http_refusal, speaks_http,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::broadcast;
use tokio::task::JoinSet;
use tracing::debug;

use crate::dispatch::{self, Reply};
use crate::error::{CqlError, ErrorKind};
use crate::granted::Granted;
use crate::service::Service;
use crate::session::Session;
use crate::wire::{
    Compression, Envelope, Event, Inbound, Opcode, Outbound, Refusal, Response, ResultBody,
    Version, WireError,
};

/// Room for some small requests, which is how much is asked for at a time.
const READ_BYTES: usize = 32 * 1024;
/// The longest body of a request.
pub(crate) const BODY_LIMIT: usize = 16 * 1024 * 1024;
/// So many requests of one connection run at a time.
const RUNNING_LIMIT: usize = 1_024;
/// More than this is sent before anything else is done.
const OUTPUT_LIMIT: usize = 1 << 20;
/// So much room is kept for the next replies.
const KEPT_OUTPUT: usize = 64 << 10;
/// Requests up to this length are part of what the connection is guaranteed.
const GUARANTEED: u32 = 32 << 10;
/// What a request takes that runs, beside its body.
const RUNNING_BYTES: usize = 4 << 10;
/// The longest body before the login.
const LOGIN_BODY_LIMIT: usize = 16 << 10;
/// How long a request waits for memory that others have, before it is refused.
const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// Events belong to no stream.
const EVENT_STREAM: i16 = -1;
/// For how long a request may compute. Cassandra gives one 12 seconds in all.
const PATIENCE: Duration = Duration::from_secs(60);

/// Serves one connection until it ends.
pub(crate) async fn serve(service: Arc<Service>, connection: Connection) {
    let Connection {
        stream,
        activity,
        gate,
        peer,
        shutdown,
        tls,
        listeners,
        ..
    } = connection;
    let session = Arc::new(Session::new(peer, tls, gate));
    let _listed = service.clients.list(&session);
    let mut served = Served {
        events: service.events.listen(),
        service: Arc::clone(&service),
        session,
        stream,
        activity,
        gone: Gone::new(shutdown.clone()),
        listeners,
        shutdown,
        inbound: Inbound::new(LOGIN_BODY_LIMIT),
        outbound: None,
        output: Vec::new(),
        compression: None,
        running: JoinSet::new(),
        is_ready: false,
        memory: Memory::new(service.store.memory().clone()),
    };
    let ended = served.run().await;
    debug!(why = ended.0, "connection ends");
}

/// Why a connection ends.
struct Ended(&'static str);

/// A request that has ended, and its stream.
/// How much of what all that run have is its own.
type Answered = (i16, Reply, usize);
type TaskEnd = Result<Answered, tokio::task::JoinError>;

struct Served {
    service: Arc<Service>,
    session: Arc<Session>,
    stream: Box<dyn Stream>,
    activity: Activity,
    listeners: Arc<[Listener]>,
    shutdown: Shutdown,
    events: broadcast::Receiver<Event>,
    inbound: Inbound,
    /// None until the client has spoken, and its version is known.
    outbound: Option<Outbound>,
    /// What goes before everything in `outbound`.
    output: Vec<u8>,
    compression: Option<Compression>,
    running: JoinSet<Answered>,
    /// What computes for this connection ends with it.
    gone: Gone,
    /// Whether its client need not log in any more.
    is_ready: bool,
    memory: Memory,
}

/// What a connection has of the server's memory.
struct Memory {
    budget: MemoryBudget,
    /// For the request that is arriving.
    arriving: Grant,
    /// For those that run, and how many bytes these have.
    running: Grant,
    running_bytes: usize,
    /// For replies that are not sent yet.
    replies: Vec<Granted>,
}

impl Memory {
    fn new(budget: MemoryBudget) -> Self {
        let grant = || Grant::new(Purpose::Requests, GUARANTEED);
        Self {
            budget,
            arriving: grant(),
            running: grant(),
            running_bytes: 0,
            replies: Vec::new(),
        }
    }
}

/// What a connection waited for.
enum Next {
    Read,
    /// There is memory for the next request, or none.
    Room(Result<(), OutOfMemory>),
    Answered(Option<TaskEnd>),
    Event(Result<Event, broadcast::error::RecvError>),
    Shutdown,
}

impl Served {
    async fn run(&mut self) -> Ended {
        loop {
            if let Err(ended) = self.take_requests().await {
                // What went wrong may be said; if it cannot be sent, there is no one to tell.
                let _told = self.send().await.is_ok();
                return ended;
            }
            if let Err(ended) = self.send().await {
                return ended;
            }
            let next = match self.wait().await {
                Ok(next) => next,
                Err(ended) => return ended,
            };
            match next {
                Next::Read | Next::Room(Ok(())) => {}
                Next::Room(Err(refused)) => {
                    let refusal = self.inbound.refuse_next(refused.into());
                    if let Err(ended) = self.refuse(&refusal) {
                        let _told = self.send().await.is_ok();
                        return ended;
                    }
                }
                Next::Answered(answered) => {
                    if let Err(ended) = self.push_answered(answered) {
                        return ended;
                    }
                }
                Next::Event(event) => self.push_event(event),
                Next::Shutdown => return self.finish().await,
            }
        }
    }

    /// Waits for something to do.
    async fn wait(&mut self) -> Result<Next, Ended> {
        let may_read = self.running.len() < RUNNING_LIMIT;
        let wanted = self.inbound.wanted();
        let has_room = wanted <= self.memory.arriving.covered();
        let buffer = self.inbound.buffer();
        if has_room {
            // All at once: what grows is there twice while it moves.
            let missing = wanted.saturating_sub(buffer.len());
            buffer.reserve(missing.max(READ_BYTES));
        }
        let Memory {
            budget, arriving, ..
        } = &mut self.memory;
        tokio::select! {
            covered = arriving.wait_to_cover(budget, wanted, LONGEST_WAIT), if !has_room => {
                Ok(Next::Room(covered))
            }
            read = self.stream.read_buf(buffer), if may_read && has_room => match read {
                Ok(0) => Err(Ended("the client closed it")),
                Ok(_) => Ok(Next::Read),
                Err(_) => Err(Ended("it was lost or timed out")),
            },
            answered = self.running.join_next(), if !self.running.is_empty() => {
                Ok(Next::Answered(answered))
            }
            event = self.events.recv() => Ok(Next::Event(event)),
            () = self.shutdown.requested() => Ok(Next::Shutdown),
        }
    }

    /// Begins every request that has arrived, as far as may be.
    async fn take_requests(&mut self) -> Result<(), Ended> {
        while self.running.len() < RUNNING_LIMIT {
            match self.inbound.next() {
                Ok(None) => return Ok(()),
                Ok(Some(envelope)) => self.begin(envelope).await?,
                Err(refusal) => self.refuse(&refusal)?,
            }
            if self.pending_output() > OUTPUT_LIMIT {
                self.send().await?;
            }
        }
        Ok(())
    }

    /// Answers a request at once, or lets it run.
    async fn begin(&mut self, envelope: Envelope) -> Result<(), Ended> {
        let (header, stream) = (envelope.header, envelope.header.stream);
        let running = self.activity.begin();
        self.session.count_request();
        if header.opcode == Opcode::Startup {
            return self.start(&envelope);
        }
        let (service, session) = (Arc::clone(&self.service), Arc::clone(&self.session));
        let compression = self.compression;
        let deadline = Deadline::patient(PATIENCE, Some(self.gone.watch()));
        let deadline = deadline.named(header.opcode.name());
        let mut granted = self.granted_for(&envelope);
        let own = RUNNING_BYTES + envelope.body.len().min(GUARANTEED as usize);
        let mut request = Box::pin(async move {
            let _running = running;
            if envelope.is_large() {
                // The connection goes on beside it, and notices when its client is gone.
                tokio::task::yield_now().await;
            }
            let expanded = envelope.expanded_length(compression);
            let total = envelope.body.len().saturating_add(expanded);
            let covered = match expanded {
                0 => Ok(()),
                _ => {
                    let memory = service.store.memory();
                    granted.wait_to_cover(memory, total, LONGEST_WAIT).await
                }
            };
            let body = covered.map_err(WireError::from);
            let reply = match body.and_then(|()| envelope.plain_body(compression, BODY_LIMIT)) {
                Ok(body) => {
                    let answer = pin!(dispatch::answer(&service, &session, header, &body));
                    guarded(pin!(deadline.run(answer))).await
                }
                Err(error) => CqlError::from(error).into(),
            };
            (stream, reply, own)
        });
        let polled = poll_once(request.as_mut()).await;
        self.limit_bodies();
        match polled {
            Poll::Ready((stream, reply, _)) => self.push(stream, &reply),
            Poll::Pending => {
                let memory = &mut self.memory;
                let bytes = memory.running_bytes + own;
                if memory.running.cover(&memory.budget, bytes).is_err() {
                    // One after the other takes no more than one.
                    let (stream, reply, _) = request.await;
                    self.push(stream, &reply);
                    return Ok(());
                }
                memory.running_bytes = bytes;
                self.running.spawn(measured("cql", request));
            }
        }
        Ok(())
    }

    /// What a request has of what was granted while it arrived.
    fn granted_for(&mut self, envelope: &Envelope) -> Grant {
        let next = Grant::new(Purpose::Requests, GUARANTEED);
        match envelope.body.len() > GUARANTEED as usize {
            true => std::mem::replace(&mut self.memory.arriving, next),
            false => next,
        }
    }

    /// Nobody has much to say before the login.
    fn limit_bodies(&mut self) {
        if !self.is_ready && self.session.is_ready() {
            self.is_ready = true;
            self.inbound.limit_bodies(BODY_LIMIT);
        }
    }

    /// STARTUP is answered before anything after it is read: it says how that is read.
    fn start(&mut self, envelope: &Envelope) -> Result<(), Ended> {
        let header = envelope.header;
        let started = match envelope.plain_body(None, BODY_LIMIT) {
            Ok(body) => dispatch::start(&self.service, &self.session, header, &body),
            Err(error) => Err(error.into()),
        };
        self.limit_bodies();
        match started {
            Err(error) => self.push(header.stream, &error.into()),
            Ok((startup, response)) => {
                self.push(header.stream, &response.into());
                self.compression = startup.compression;
                if header.version.is_framed() {
                    self.inbound.expect_segments(startup.compression);
                }
                self.outbound().start(startup.compression);
            }
        }
        Ok(())
    }

    /// Says what is wrong with bytes that are no request.
    fn refuse(&mut self, refusal: &Refusal) -> Result<(), Ended> {
        let version = self.inbound.version();
        if version.is_none() && speaks_http(self.inbound.buffer()) {
            self.output
                .extend(http_refusal("Cassandra", &self.listeners));
            return Err(Ended("the client speaks HTTP"));
        }
        if self.outbound.is_some() && version.is_some() {
            let error = CqlError::from(refusal.error.clone());
            self.push(refusal.stream, &error.into());
        } else {
            self.output.extend(refusal.encode(version));
        }
        if refusal.ends_connection {
            return Err(Ended("a message could not be read"));
        }
        Ok(())
    }

    /// Answers what has ended, and what else has: both leave in the same write.
    fn push_answered(&mut self, answered: Option<TaskEnd>) -> Result<(), Ended> {
        let mut next = answered;
        while let Some(answered) = next {
            match answered {
                Ok((stream, reply, own)) => {
                    self.limit_bodies();
                    self.memory.running_bytes -= own;
                    self.push(stream, &reply);
                }
                // Its stream is lost with it, so that its client would wait for ever.
                Err(error) => {
                    tracing::error!(cause = %error, "a request failed");
                    return Err(Ended("a request failed"));
                }
            }
            next = self.running.try_join_next();
        }
        Ok(())
    }

    fn push_event(&mut self, event: Result<Event, broadcast::error::RecvError>) {
        if let Ok(event) = event
            && self.session.hears_schema()
        {
            self.push(EVENT_STREAM, &Response::Event(event).into());
        }
    }

    fn push(&mut self, stream: i16, reply: &Reply) {
        self.outbound().push(stream, &reply.response, &reply.extras);
        if let Response::Result(ResultBody::Rows(rows)) = &reply.response
            && rows.granted.is_some()
        {
            self.memory.replies.push(rows.granted.clone());
        }
    }

    fn outbound(&mut self) -> &mut Outbound {
        let version = self.inbound.version().unwrap_or(Version::CURRENT);
        self.outbound.get_or_insert_with(|| Outbound::new(version))
    }

    fn pending_output(&self) -> usize {
        let pending = self.outbound.as_ref().map_or(0, Outbound::len);
        self.output.len() + pending
    }

    /// Sends what is ready.
    async fn send(&mut self) -> Result<(), Ended> {
        if let Some(outbound) = &mut self.outbound {
            self.output.append(&mut outbound.take());
        }
        if self.output.is_empty() {
            return Ok(());
        }
        let sent = async {
            self.stream.write_all(&self.output).await?;
            self.stream.flush().await
        };
        sent.await.map_err(|_| Ended("a reply could not be sent"))?;
        self.output.clear();
        self.output.shrink_to(KEPT_OUTPUT);
        self.memory.replies.clear();
        if self.running.is_empty() {
            self.memory.running.shrink(0);
        }
        Ok(())
    }

    /// Lets what runs end, and answers it.
    async fn finish(&mut self) -> Ended {
        while let Some(answered) = self.running.join_next().await {
            let pushed = self.push_answered(Some(answered));
            if let Err(ended) = self.send().await.and(pushed) {
                return ended;
            }
        }
        Ended("the server is stopping")
    }
}

/// The reply to a request, also if it panics: a mistake of ours costs one reply, not all that its
/// connection waits for.
async fn guarded(request: Pin<&mut impl Future<Output = Reply>>) -> Reply {
    let answered = tessera_frontend::guarded(request).await;
    answered.unwrap_or_else(|| {
        let words = "Internal server error; see the server log";
        CqlError::new(ErrorKind::Server, words).into()
    })
}

/// Lets a request go as far as it can without waiting.
async fn poll_once<F: Future + ?Sized>(mut future: Pin<&mut F>) -> Poll<F::Output> {
    poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_request_that_panics_is_answered() {
        let panics = pin!(async {
            tokio::task::yield_now().await;
            panic!("as a mistake would")
        });
        let Response::Error(error) = guarded(panics).await.response else {
            panic!("no error");
        };
        assert_eq!(error.kind, ErrorKind::Server);
        let answered = guarded(pin!(async { Response::Ready.into() })).await;
        assert_eq!(answered.response, Response::Ready);
    }
}
