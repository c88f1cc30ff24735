//! The bytes of one connection. Packets are read and replies sent by the connection; while a
//! command runs, it may look whether its client is still there.

use std::future::{Future as _, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use bytes::{Bytes, BytesMut};
use tessera_frontend::Stream;
use tokio::io::{AsyncReadExt as _, AsyncWrite as _};

use crate::wire::header::{HEADER_BYTES, Header};

/// Room for a small request, and how much more is asked for at a time: a header alone, which may
/// announce the longest message, must not cost memory.
const READ_BYTES: usize = 16 * 1024;
const READ_STEP_BYTES: usize = 1 << 20;

/// Why a connection ends.
#[derive(Debug)]
pub(crate) struct Ended(pub(crate) &'static str);

/// A connection's stream, with what was read from it and not taken yet.
pub(crate) struct Line(Mutex<Ends>);

struct Ends {
    stream: Box<dyn Stream>,
    input: BytesMut,
    ended: Option<&'static str>,
}

impl Line {
    pub(crate) fn new(stream: Box<dyn Stream>) -> Self {
        Self(Mutex::new(Ends {
            stream,
            input: BytesMut::with_capacity(READ_BYTES),
            ended: None,
        }))
    }

    fn lock(&self) -> MutexGuard<'_, Ends> {
        // Every change under the lock is complete on its own.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads one packet, header included. What came behind it stays here.
    pub(crate) async fn packet(&self) -> Result<(Header, Bytes), Ended> {
        poll_fn(|context| self.lock().poll_packet(context)).await
    }

    /// Sends all of these bytes.
    pub(crate) async fn send(&self, bytes: &[u8]) -> io::Result<()> {
        let mut rest = bytes;
        poll_fn(|context| {
            let mut ends = self.lock();
            while !rest.is_empty() {
                let sent = ready!(Pin::new(&mut ends.stream).poll_write(context, rest))?;
                rest = rest.get(sent..).unwrap_or_default();
                if sent == 0 {
                    return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
                }
            }
            Pin::new(&mut ends.stream).poll_flush(context)
        })
        .await
    }

    /// Whether the client is gone, as far as is known without waiting. Reads a little ahead.
    pub(crate) fn is_closed(&self) -> bool {
        let mut ends = self.lock();
        // Nobody waits for the bytes: the next packet is asked for again.
        let mut context = Context::from_waker(Waker::noop());
        while ends.ended.is_none() && ends.input.len() < READ_STEP_BYTES {
            if ends.poll_read(&mut context, READ_BYTES).is_pending() {
                break;
            }
        }
        ends.ended.is_some()
    }
}

impl Ends {
    fn poll_packet(&mut self, context: &mut Context<'_>) -> Poll<Result<(Header, Bytes), Ended>> {
        loop {
            let mut room = READ_BYTES;
            if let Some(header) = self.input.first_chunk::<HEADER_BYTES>() {
                let Some(header) = Header::parse(header) else {
                    return Poll::Ready(Err(Ended("a message has an impossible length")));
                };
                if self.input.len() >= header.length {
                    let packet = self.input.split_to(header.length).freeze();
                    return Poll::Ready(Ok((header, packet)));
                }
                room = (header.length - self.input.len()).min(READ_STEP_BYTES);
            }
            if let Some(why) = self.ended {
                return Poll::Ready(Err(Ended(why)));
            }
            ready!(self.poll_read(context, room));
        }
    }

    /// Reads some bytes, or notes why no more will come.
    fn poll_read(&mut self, context: &mut Context<'_>, room: usize) -> Poll<()> {
        self.input.reserve(room);
        let reading = pin!(self.stream.read_buf(&mut self.input));
        match ready!(reading.poll(context)) {
            Ok(0) => self.ended = Some("the client closed it"),
            Ok(_) => {}
            Err(_) => self.ended = Some("it was lost or timed out"),
        }
        Poll::Ready(())
    }
}
