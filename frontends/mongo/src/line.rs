//! The bytes of one connection. Packets are read and replies sent by the connection; while a
//! command runs, it may look whether its client is still there.

use std::future::{Future as _, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use bytes::{Buf as _, Bytes, BytesMut};
use tessera_frontend::Stream;
use tokio::io::{AsyncReadExt as _, AsyncWrite as _};

use crate::wire::header::{HEADER_BYTES, Header};

/// Room for a small request, and the longest one that needs no grant of memory.
pub(crate) const READ_BYTES: usize = 16 * 1024;
/// So much is read ahead to see whether a client is still there.
const AHEAD_BYTES: usize = 64 * 1024;

/// Why a connection ends.
#[derive(Debug)]
pub(crate) struct Ended(pub(crate) &'static str);

/// What came of a packet.
pub(crate) enum Arrived {
    Whole(Header, Bytes),
    /// It waits for room.
    Large(Header),
}

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

    /// Reads one packet, header included. What came behind it stays here. Of one that is larger
    /// than `most` nothing but the header is read.
    pub(crate) async fn packet(&self, most: usize) -> Result<Arrived, Ended> {
        poll_fn(|context| self.lock().poll_packet(context, most)).await
    }

    /// Takes a packet off the wire that is not kept.
    pub(crate) async fn skip(&self, header: Header) -> Result<(), Ended> {
        let mut left = header.length;
        poll_fn(|context| self.lock().poll_skip(context, &mut left)).await
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

    /// Whether what came and was not taken begins as a request of HTTP does.
    pub(crate) fn speaks_http(&self) -> bool {
        tessera_frontend::speaks_http(&self.lock().input)
    }

    /// Whether the client is gone, as far as is known without waiting. Reads a little ahead.
    pub(crate) fn is_closed(&self) -> bool {
        let mut ends = self.lock();
        // Nobody waits for the bytes: the next packet is asked for again.
        let mut context = Context::from_waker(Waker::noop());
        while ends.ended.is_none() && ends.input.len() < AHEAD_BYTES {
            if ends.poll_read(&mut context, READ_BYTES).is_pending() {
                break;
            }
        }
        ends.ended.is_some()
    }
}

impl Ends {
    fn poll_packet(
        &mut self,
        context: &mut Context<'_>,
        most: usize,
    ) -> Poll<Result<Arrived, Ended>> {
        loop {
            let mut room = READ_BYTES;
            if let Some(header) = self.input.first_chunk::<HEADER_BYTES>() {
                let Some(header) = Header::parse(header) else {
                    return Poll::Ready(Err(Ended("a message has an impossible length")));
                };
                if header.length > most {
                    return Poll::Ready(Ok(Arrived::Large(header)));
                }
                if self.input.len() >= header.length {
                    let packet = self.take(header.length);
                    return Poll::Ready(Ok(Arrived::Whole(header, packet)));
                }
                // All at once: what grows is there twice while it moves.
                room = header.length - self.input.len();
            }
            if let Some(why) = self.ended {
                return Poll::Ready(Err(Ended(why)));
            }
            ready!(self.poll_read(context, room));
        }
    }

    /// Takes a packet that has arrived.
    fn take(&mut self, length: usize) -> Bytes {
        let packet = self.input.split_to(length).freeze();
        if length > READ_BYTES {
            // What is read next would be kept where the large packet was.
            let mut next = BytesMut::with_capacity(self.input.len().max(READ_BYTES));
            next.extend_from_slice(&self.input);
            self.input = next;
        }
        packet
    }

    fn poll_skip(
        &mut self,
        context: &mut Context<'_>,
        left: &mut usize,
    ) -> Poll<Result<(), Ended>> {
        loop {
            let here = self.input.len().min(*left);
            self.input.advance(here);
            *left -= here;
            if *left == 0 {
                return Poll::Ready(Ok(()));
            }
            if let Some(why) = self.ended {
                return Poll::Ready(Err(Ended(why)));
            }
            ready!(self.poll_read(context, READ_BYTES));
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
