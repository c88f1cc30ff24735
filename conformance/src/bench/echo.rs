//! Bare servers that answer every request with bytes that a real one sent: the least that serving
//! them can cost.
//!
//! A real server's protocol is on a bare socket; HTTP is on hyper, as it is in our own.

use std::io::Write as _;
use std::path::PathBuf;

use bytes::{Buf as _, Bytes, BytesMut};
use clap::{Arg, ArgAction, ArgMatches, value_parser};
use http_body_util::Full;
use hyper::header::HeaderValue;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode, body::Incoming};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::Failure;
use crate::bench::wire::{NAMES, Wire};

/// Status line, date and the content length without its digits, as hyper writes them.
const OK_BYTES: usize = 74;
/// Status line, date and a header of one letter without its value.
const NO_CONTENT_BYTES: usize = 69;
const READ_BYTES: usize = 16 * 1024;

pub(crate) fn arguments() -> Vec<Arg> {
    vec![
        Arg::new("WIRE")
            .required(true)
            .value_parser(NAMES.iter().map(|(name, _)| *name).collect::<Vec<_>>())
            .help("The protocol"),
        Arg::new("FILE")
            .required(true)
            .value_parser(value_parser!(PathBuf))
            .help("The answer"),
        Arg::new("together")
            .long("together")
            .action(ArgAction::SetTrue)
            .help("Answer what came together with one write"),
    ]
}

/// Prints where it listens and serves until it is killed.
pub(crate) fn command(matches: &ArgMatches) -> Result<(), Failure> {
    let name = matches.get_one::<String>("WIRE").ok_or("no protocol")?;
    let wire = NAMES.iter().find(|(known, _)| known == name);
    let (_, wire) = *wire.ok_or("an unknown protocol")?;
    let answer = std::fs::read(matches.get_one::<PathBuf>("FILE").ok_or("no answer")?)?;
    let together = matches.get_flag("together");
    // The runtime of the server.
    tokio::runtime::Runtime::new()?.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        writeln!(std::io::stdout(), "echo {}", listener.local_addr()?)?;
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            match wire {
                Wire::Http => drop(tokio::spawn(hyper(stream, answer.clone()))),
                Wire::Mongo | Wire::Cql => {
                    drop(tokio::spawn(bare(stream, wire, answer.clone(), together)));
                }
            }
        }
    })
}

/// Ends with its connection, whatever that ends with.
async fn bare(
    mut stream: TcpStream,
    wire: Wire,
    mut answer: Vec<u8>,
    together: bool,
) -> Option<()> {
    let mut input = BytesMut::with_capacity(READ_BYTES);
    let mut output = Vec::new();
    loop {
        input.reserve(READ_BYTES);
        if stream.read_buf(&mut input).await.ok()? == 0 {
            return None;
        }
        while let Some(length) = wire.message(&input) {
            wire.address(&mut answer, &input)?;
            match together {
                true => output.extend_from_slice(&answer),
                false => stream.write_all(&answer).await.ok()?,
            }
            input.advance(length);
        }
        if !output.is_empty() {
            stream.write_all(&output).await.ok()?;
            output.clear();
        }
    }
}

async fn hyper(stream: TcpStream, recorded: Vec<u8>) {
    let answer = service_fn(move |_: Request<Incoming>| {
        let answer = http_answer(&recorded);
        async move { answer }
    });
    let served = http1::Builder::new().serve_connection(TokioIo::new(stream), answer);
    // A client that goes away is the usual end.
    let _ended = served.await.is_ok();
}

/// An answer with the status and the length of the recorded one, and as little else as may be.
fn http_answer(recorded: &[u8]) -> hyper::Result<Response<Full<Bytes>>> {
    static FILLING: [u8; 1 << 20] = [b'x'; 1 << 20];
    let filling = |length| Bytes::from_static(FILLING.get(..length).unwrap_or(&FILLING));
    let mut answer = Response::default();
    if recorded.get(9..12) == Some(b"204") {
        // It may not have a body, so that a header makes up its length.
        *answer.status_mut() = StatusCode::NO_CONTENT;
        let length = recorded.len().saturating_sub(NO_CONTENT_BYTES);
        if let Ok(value) = HeaderValue::from_maybe_shared(filling(length)) {
            answer.headers_mut().insert("x", value);
        }
        return Ok(answer);
    }
    let lengths = (1..8).map(|digits| (digits, recorded.len().saturating_sub(OK_BYTES + digits)));
    let body = lengths
        .filter(|(digits, length)| length.to_string().len() == *digits)
        .map(|(_, length)| length)
        .next();
    *answer.body_mut() = Full::new(filling(body.unwrap_or_default()));
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use hyper::body::Body as _;

    use super::http_answer;

    #[test]
    fn an_http_answer_has_the_length_of_the_recorded_one() {
        for length in [200, 1_078, 101_000] {
            let mut recorded = b"HTTP/1.1 200 OK".to_vec();
            recorded.resize(length, b' ');
            let body = http_answer(&recorded)
                .unwrap()
                .body()
                .size_hint()
                .exact()
                .unwrap();
            let digits = body.to_string().len();
            assert_eq!(usize::try_from(body).unwrap() + digits + 74, length);
        }
        let answer = http_answer(b"HTTP/1.1 204 No Content\r\n").unwrap();
        assert_eq!(answer.status(), 204);
    }
}
