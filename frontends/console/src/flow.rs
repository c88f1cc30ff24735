//! Bodies of answers: texts that are whole, and texts that are made as the client takes them.
//!
//! A flow makes its next part only when the connection asks for one, which it does when the part
//! before went out. So a slow client holds one part, and one that is gone makes nothing.

use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http_body_util::Full;
use hyper::body::{Bytes, Frame, SizeHint};
use tessera_core::deadline::Deadline;
use tessera_core::engine::BoxFuture;
use tessera_frontend::{Request, Shutdown, Wanted, guarded};

use crate::TIMEOUT;
use crate::changes::Reader;

/// The body of an answer.
pub(crate) struct Body(Kind);

enum Kind {
    Whole(Full<Bytes>),
    Flow {
        flow: Box<Flow>,
        #[expect(
            dead_code,
            reason = "the client may stay silent for as long as it lives"
        )]
        request: Request,
    },
}

impl Body {
    pub(crate) fn whole(text: Vec<u8>) -> Self {
        Self(Kind::Whole(Full::new(text.into())))
    }

    pub(crate) fn flow(flow: Box<Flow>, request: Request) -> Self {
        Self(Kind::Flow { flow, request })
    }
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut self.0 {
            Kind::Whole(text) => Pin::new(text).poll_frame(context),
            Kind::Flow { flow, .. } => {
                let part = ready!(flow.poll_part(context));
                Poll::Ready(part.map(|part| Ok(Frame::data(part))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Kind::Whole(text) => text.is_end_stream(),
            Kind::Flow { flow, .. } => matches!(flow.state, State::Over),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Whole(text) => text.size_hint(),
            Kind::Flow { .. } => SizeHint::default(),
        }
    }
}

/// A text in parts.
pub(crate) struct Flow {
    /// A part that is there already.
    first: Option<Bytes>,
    state: State,
    shutdown: Shutdown,
}

type Made = (Box<Reader>, Option<Bytes>);

enum State {
    Waiting(Box<Reader>),
    Making(BoxFuture<'static, Option<Made>>),
    Over,
}

impl Flow {
    /// What a reader makes, behind the part that it made already.
    pub(crate) fn new(first: Option<Bytes>, reader: Box<Reader>, shutdown: Shutdown) -> Self {
        let state = State::Waiting(reader);
        Self {
            first,
            state,
            shutdown,
        }
    }

    fn poll_part(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(first));
        }
        loop {
            match std::mem::replace(&mut self.state, State::Over) {
                State::Over => return Poll::Ready(None),
                State::Waiting(reader) => {
                    self.state = State::Making(Box::pin(make(reader, self.shutdown.clone())));
                }
                State::Making(mut making) => match making.as_mut().poll(context) {
                    Poll::Pending => {
                        self.state = State::Making(making);
                        return Poll::Pending;
                    }
                    Poll::Ready(Some((reader, Some(part)))) => {
                        self.state = State::Waiting(reader);
                        return Poll::Ready(Some(part));
                    }
                    Poll::Ready(_) => return Poll::Ready(None),
                },
            }
        }
    }
}

/// The next part; none also if making it panics, which is logged, or takes far too long.
async fn make(mut reader: Box<Reader>, mut shutdown: Shutdown) -> Option<Made> {
    let wanted = Arc::new(Wanted(shutdown.clone()));
    let deadline = Deadline::patient(TIMEOUT, Some(wanted));
    let part = {
        let next = pin!(reader.next());
        let next = deadline.named("changes").run(guarded(next));
        tokio::select! {
            part = next => part?,
            // Whoever follows goes on at another server, or at this one when it is back.
            () = shutdown.requested() => None,
        }
    };
    Some((reader, part))
}
