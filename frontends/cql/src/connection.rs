//! One connection: envelopes in, envelopes out. The only file that touches the socket.
//!
//! Requests run at the same time and are answered as they end. One that needs not wait, as most do,
//! is answered at once; one that must becomes a task of its own. When too many run, or the client
//! does not read, nothing more is read from it.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

use tessera_frontend::{Activity, Connection, Shutdown, Stream};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::broadcast;
use tokio::task::JoinSet;
use tracing::debug;

use crate::dispatch::{self, Reply};
use crate::error::{CqlError, ErrorKind};
use crate::service::Service;
use crate::session::Session;
use crate::wire::{
    Compression, Envelope, Event, Inbound, Opcode, Outbound, Refusal, Response, Version,
};

/// Room for some small requests, which is how much is asked for at a time.
const READ_BYTES: usize = 32 * 1024;
/// The longest body of a request.
pub(crate) const BODY_LIMIT: usize = 16 * 1024 * 1024;
/// So many requests of one connection run at a time.
const RUNNING_LIMIT: usize = 1_024;
/// More than this is sent before anything else is done.
const OUTPUT_LIMIT: usize = 1 << 20;
/// Events belong to no stream.
const EVENT_STREAM: i16 = -1;

/// Serves one connection until it ends.
pub(crate) async fn serve(service: Arc<Service>, connection: Connection) {
    let Connection {
        stream,
        activity,
        gate,
        peer,
        shutdown,
        tls,
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
        shutdown,
        inbound: Inbound::new(BODY_LIMIT),
        outbound: None,
        output: Vec::new(),
        compression: None,
        running: JoinSet::new(),
    };
    let ended = served.run().await;
    debug!(why = ended.0, "connection ends");
}

/// Why a connection ends.
struct Ended(&'static str);

/// A request that has ended, and its stream.
type Answered = (i16, Reply);
type TaskEnd = Result<Answered, tokio::task::JoinError>;

struct Served {
    service: Arc<Service>,
    session: Arc<Session>,
    stream: Box<dyn Stream>,
    activity: Activity,
    shutdown: Shutdown,
    events: broadcast::Receiver<Event>,
    inbound: Inbound,
    /// None until the client has spoken, and its version is known.
    outbound: Option<Outbound>,
    /// What goes before everything in `outbound`.
    output: Vec<u8>,
    compression: Option<Compression>,
    running: JoinSet<Answered>,
}

/// What a connection waited for.
enum Next {
    Read,
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
                Next::Read => {}
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
        let buffer = self.inbound.buffer();
        buffer.reserve(READ_BYTES);
        tokio::select! {
            read = self.stream.read_buf(buffer), if may_read => match read {
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
        let mut request = Box::pin(async move {
            let _running = running;
            let reply = match envelope.plain_body(compression, BODY_LIMIT) {
                Ok(body) => {
                    guarded(pin!(dispatch::answer(&service, &session, header, &body))).await
                }
                Err(error) => CqlError::from(error).into(),
            };
            (stream, reply)
        });
        match poll_once(request.as_mut()).await {
            Poll::Ready((stream, reply)) => self.push(stream, &reply),
            Poll::Pending => {
                self.running.spawn(request);
            }
        }
        Ok(())
    }

    /// STARTUP is answered before anything after it is read: it says how that is read.
    fn start(&mut self, envelope: &Envelope) -> Result<(), Ended> {
        let header = envelope.header;
        let started = match envelope.plain_body(None, BODY_LIMIT) {
            Ok(body) => dispatch::start(&self.service, &self.session, header, &body),
            Err(error) => Err(error.into()),
        };
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
                Ok((stream, reply)) => self.push(stream, &reply),
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
        self.output.shrink_to(OUTPUT_LIMIT);
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
        let words = "The server made a mistake; its log says more";
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
