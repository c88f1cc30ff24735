//! A bare hyper server that answers every request with the same bytes: the least that a server on
//! hyper can cost.

use std::convert::Infallible;
use std::io::Write as _;

use bytes::Bytes;
use http_body_util::Full;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, body::Incoming};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

use crate::Failure;

/// Status line, content length and date, as hyper writes them before a body of four digits.
const HEAD_BYTES: usize = 78;

/// Prints where it listens and serves until it is killed. Each answer has so many bytes.
pub(crate) fn run(answer_bytes: usize) -> Result<(), Failure> {
    let body = Bytes::from(vec![b'x'; answer_bytes.saturating_sub(HEAD_BYTES)]);
    // As many threads as the server has.
    tokio::runtime::Runtime::new()?.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        writeln!(std::io::stdout(), "echo {}", listener.local_addr()?)?;
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            let body = body.clone();
            let answer = service_fn(move |_: Request<Incoming>| {
                let body = body.clone();
                async move { Ok::<_, Infallible>(Response::new(Full::new(body))) }
            });
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), answer));
        }
    })
}
