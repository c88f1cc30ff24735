//! A cheap HTTP/1.1 client: it shares the machine with the server that it measures.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::Failure;
use crate::template::{Key, Template};

pub(crate) const CONNECTIONS: usize = 16;

/// One answer, as it lies in the connection's buffer.
#[derive(Debug)]
pub(crate) struct Answer<'a> {
    pub(crate) status: u16,
    pub(crate) head: &'a [u8],
    /// As sent: in chunks, if it was.
    pub(crate) body: &'a [u8],
}

impl Answer<'_> {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.split(|byte| *byte == b'\n');
        lines.find_map(|line| header_value(line, name))
    }
}

/// A connection that is kept.
pub(crate) struct Connection {
    stream: TcpStream,
    received: Vec<u8>,
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> Result<Self, Failure> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let received = Vec::with_capacity(64 * 1024);
        Ok(Self { stream, received })
    }

    /// Sends one request and waits for its answer, which must be what the request expects.
    pub(crate) async fn exchange(
        &mut self,
        request: &mut Template,
        key: Key,
    ) -> Result<Answer<'_>, Failure> {
        self.stream.write_all(request.fill(key)).await?;
        self.received.clear();
        let (status, head) = loop {
            if self.stream.read_buf(&mut self.received).await? == 0 {
                return Err("the server closed a connection".into());
            }
            if let Some(found) = complete(&self.received) {
                break found;
            }
        };
        let (head, body) = self.received.split_at_checked(head).unwrap_or_default();
        let answer = Answer { status, head, body };
        if (request.expected)(&answer) {
            Ok(answer)
        } else {
            let text = String::from_utf8_lossy(&self.received);
            Err(format!("unexpected answer: {text}").into())
        }
    }
}

/// The status and the length of the head, if all of an answer is there.
fn complete(received: &[u8]) -> Option<(u16, usize)> {
    let (mut head, mut body, mut chunked) = (0, 0, false);
    for line in received.split_inclusive(|byte| *byte == b'\n') {
        head += line.len();
        if line == b"\r\n" {
            let rest = received.get(head..)?;
            let done = match chunked {
                true => rest.ends_with(b"0\r\n\r\n"),
                false => rest.len() >= body,
            };
            let status = std::str::from_utf8(received.get(9..12)?).ok()?;
            return done.then_some((status.parse().ok()?, head));
        }
        if let Some(length) = header_value(line, "content-length") {
            body = length.parse().ok()?;
        }
        chunked |= header_value(line, "transfer-encoding") == Some("chunked");
    }
    None
}

fn header_value<'a>(line: &'a [u8], name: &str) -> Option<&'a str> {
    let (found, value) = line.split_at_checked(name.len())?;
    let value = value.strip_prefix(b":")?;
    let same = found.eq_ignore_ascii_case(name.as_bytes());
    same.then(|| std::str::from_utf8(value).ok())?
        .map(str::trim)
}

/// The key of the next request; none when it is enough.
pub(crate) type Keys = dyn Fn() -> Option<Key> + Send + Sync;

/// What a load amounted to.
pub(crate) struct Done {
    pub(crate) requests: u32,
    pub(crate) took: Duration,
}

impl Done {
    pub(crate) fn per_second(&self) -> f64 {
        f64::from(self.requests) / self.took.as_secs_f64()
    }
}

/// Sends requests over all connections at once, each waiting for its answers.
pub(crate) async fn load(
    address: SocketAddr,
    request: &Template,
    keys: Arc<Keys>,
) -> Result<Done, Failure> {
    let mut connections = Vec::new();
    for _ in 0..CONNECTIONS {
        connections.push(Connection::open(address).await?);
    }
    let start = Instant::now();
    let mut running = JoinSet::new();
    for mut connection in connections {
        let (mut request, keys) = (request.clone(), Arc::clone(&keys));
        running.spawn(async move {
            let mut requests = 0;
            while let Some(key) = keys() {
                connection.exchange(&mut request, key).await?;
                requests += 1;
            }
            Ok::<u32, Failure>(requests)
        });
    }
    let mut requests = 0;
    while let Some(ended) = running.join_next().await {
        requests += ended??;
    }
    let took = start.elapsed();
    Ok(Done { requests, took })
}
