//! Bare servers that answer every request with bytes that a real one sent: the least that serving
//! them can cost.
//!
//! A real server's protocol is on a bare socket; HTTP is on hyper, as it is in our own.

use std::convert::Infallible;
use std::io::Write as _;
use std::path::PathBuf;

use bytes::{Buf as _, Bytes, BytesMut};
use clap::{Arg, ArgAction, ArgMatches, value_parser};
use http_body_util::Full;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, body::Incoming};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::Failure;
use crate::bench::wire::{NAMES, Wire};

/// Status line, content length and date, as hyper writes them before a body of four digits.
const HTTP_HEAD_BYTES: usize = 78;
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
                Wire::Http => drop(tokio::spawn(hyper(stream, answer.len()))),
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

async fn hyper(stream: TcpStream, answer_bytes: usize) {
    let body = Bytes::from(vec![b'x'; answer_bytes.saturating_sub(HTTP_HEAD_BYTES)]);
    let answer = service_fn(move |_: Request<Incoming>| {
        let body = body.clone();
        async move { Ok::<_, Infallible>(Response::new(Full::new(body))) }
    });
    let served = http1::Builder::new().serve_connection(TokioIo::new(stream), answer);
    // A client that goes away is the usual end.
    let _ended = served.await.is_ok();
}
