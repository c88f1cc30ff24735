//! Lingering close: the client gets the last answer although it is still sending.
//!
//! Closing a socket with unread bytes resets the connection, and a reset discards what the peer has
//! not read yet: the error that says why the server ends the connection. So the server stops
//! sending and reads on for a moment, until the client has seen that and closes.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tessera_frontend::Stream;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::sync::oneshot;

/// How long a client has to notice that the connection has ended.
const LONGEST: Duration = Duration::from_secs(2);

/// The most that is read meanwhile, in pieces: the largest message that a client may be sending.
const MOST_BYTES: u64 = 64 << 20;
const PIECE: usize = 16 << 10;

/// The stream of a connection, which comes back when the front end drops it before its peer has
/// ended.
pub(crate) struct Lingering<S: Stream + 'static> {
    /// Taken only when this is dropped.
    inner: Option<S>,
    has_peer_ended: bool,
    left: Option<oneshot::Sender<Box<dyn Stream>>>,
}

/// The stream that a front end has left while its peer had not ended.
pub(crate) struct Left(oneshot::Receiver<Box<dyn Stream>>);

impl<S: Stream + 'static> Lingering<S> {
    pub(crate) fn new(inner: S) -> (Self, Left) {
        let (left, receiver) = oneshot::channel();
        let stream = Self {
            inner: Some(inner),
            has_peer_ended: false,
            left: Some(left),
        };
        (stream, Left(receiver))
    }

    fn inner(&mut self) -> io::Result<Pin<&mut S>> {
        let inner = self.inner.as_mut().map(Pin::new);
        inner.ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}

impl<S: Stream + 'static> Drop for Lingering<S> {
    fn drop(&mut self) {
        let inner = self.inner.take().filter(|_| !self.has_peer_ended);
        if let (Some(inner), Some(left)) = (inner, self.left.take()) {
            // The receiver is gone if the connection was cut off.
            drop(left.send(Box::new(inner)));
        }
    }
}

impl Left {
    /// Waits until the peer has ended too. At once where it has, or where the front end still has
    /// the stream.
    pub(crate) async fn linger(mut self) {
        let Ok(mut stream) = self.0.try_recv() else {
            return;
        };
        let reading = async {
            stream.shutdown().await?;
            let mut piece = vec![0; PIECE];
            let mut rest = stream.take(MOST_BYTES);
            while rest.read(&mut piece).await? > 0 {}
            io::Result::Ok(())
        };
        if let Ok(Err(error)) = tokio::time::timeout(LONGEST, reading).await {
            tracing::debug!(%error, "the client has ended the connection");
        }
    }
}

impl<S: Stream + 'static> AsyncRead for Lingering<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let outcome = ready!(self.inner()?.poll_read(cx, buffer));
        if outcome.is_err() || buffer.filled().len() == before && buffer.remaining() > 0 {
            self.has_peer_ended = true;
        }
        Poll::Ready(outcome)
    }
}

impl<S: Stream + 'static> AsyncWrite for Lingering<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.inner()?.poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.inner()?.poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner
            .as_ref()
            .is_some_and(AsyncWrite::is_write_vectored)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.inner()?.poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.inner()?.poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    /// Both ends of a connection.
    async fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap());
        let (client, accepted) = tokio::join!(client, listener.accept());
        (accepted.unwrap().0, client.unwrap())
    }

    #[tokio::test]
    async fn a_client_that_still_sends_reads_the_last_answer() {
        for unread in [1, 100, 10_000, 1_000_000, 20_000_000] {
            let (server, mut client) = pair().await;
            let (mut stream, left) = Lingering::new(server);
            let serving = tokio::spawn(async move {
                stream.read_u8().await.unwrap();
                stream.write_all(b"refused").await.unwrap();
                drop(stream);
                left.linger().await;
            });
            client.write_all(b"r").await.unwrap();
            client.write_all(&vec![0; unread]).await.unwrap();
            let mut answer = String::new();
            client.read_to_string(&mut answer).await.unwrap();
            assert_eq!(answer, "refused", "{unread}");
            drop(client);
            serving.await.unwrap();
        }
    }

    #[tokio::test]
    async fn a_client_that_has_ended_is_not_waited_for() {
        let (server, client) = pair().await;
        let (mut stream, left) = Lingering::new(server);
        drop(client);
        assert_eq!(stream.read(&mut [0]).await.unwrap(), 0);
        drop(stream);
        let began = Instant::now();
        left.linger().await;
        assert!(began.elapsed() < LONGEST / 2);
    }

    #[tokio::test]
    async fn a_client_that_never_ends_is_waited_for_a_moment_only() {
        let (server, client) = pair().await;
        let (stream, left) = Lingering::new(server);
        drop(stream);
        let began = Instant::now();
        left.linger().await;
        assert!(began.elapsed() < LONGEST * 3);
        drop(client);
    }
}
