//! Measures how long MongoDB's `create` and `drop` of a collection take over the wire, with
//! periodic durability: one connection makes many collections and drops them again.
//!
//! Ends with an error when a mean is over its limit.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use bson::{Document, doc};
use tessera_conformance::{Error, Server};

const COLLECTIONS: usize = 2_000;
const LIMIT: Duration = Duration::from_millis(2);
const MESSAGE: i32 = 2013;
const HEADER_BYTES: usize = 16;
/// What stands between the header and the document: flags, and the kind of the only section.
const FLAG_BYTES: usize = 5;

#[expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "printing is what it is for"
)]
fn main() -> ExitCode {
    let measured = match measure() {
        Ok(measured) => measured,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    let mut code = ExitCode::SUCCESS;
    for (name, mut took) in measured {
        took.sort();
        let mean = took.iter().sum::<Duration>() / u32::try_from(took.len().max(1)).unwrap_or(1);
        let at = |part: usize| {
            took.get(took.len() * part / 100)
                .copied()
                .unwrap_or_default()
        };
        let verdict = if mean <= LIMIT { "" } else { "  OVER" };
        println!(
            "{name:<7} {mean:>8.2?} on average (limit {LIMIT:?}; {COLLECTIONS} collections, median \
             {:.2?}, slowest hundredth {:.2?}){verdict}",
            at(50),
            at(99),
        );
        if mean > LIMIT {
            code = ExitCode::FAILURE;
        }
    }
    code
}

/// What was done, and how long each time took.
type Taken = Vec<(&'static str, Vec<Duration>)>;

fn measure() -> Result<Taken, Box<dyn std::error::Error>> {
    let server = Server::start(&["--durability", "periodic"])?;
    let address = server.address("mongo").ok_or("no listener for MongoDB")?;
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    let mut measured = Vec::new();
    for name in ["create", "drop"] {
        let mut took = Vec::with_capacity(COLLECTIONS);
        for number in 0..COLLECTIONS {
            let command = doc! { name: format!("c{number}"), "$db": "churn" };
            let began = Instant::now();
            run(&mut stream, &command)?;
            took.push(began.elapsed());
        }
        measured.push((name, took));
    }
    server.stop().map_err(|error: Error| error.to_string())?;
    Ok(measured)
}

/// Sends a command and waits for its answer, which must be that it went well.
fn run(stream: &mut TcpStream, command: &Document) -> Result<(), Box<dyn std::error::Error>> {
    let document = command.to_vec()?;
    let length = i32::try_from(HEADER_BYTES + FLAG_BYTES + document.len())?;
    let mut message = Vec::new();
    for number in [length, 1, 0, MESSAGE, 0] {
        message.extend_from_slice(&number.to_le_bytes());
    }
    message.push(0);
    message.extend_from_slice(&document);
    stream.write_all(&message)?;

    let mut header = [0; HEADER_BYTES];
    stream.read_exact(&mut header)?;
    let length = header.first_chunk().copied().map_or(0, i32::from_le_bytes);
    let body = usize::try_from(length)?.saturating_sub(HEADER_BYTES);
    let mut answer = vec![0; body];
    stream.read_exact(&mut answer)?;
    let answer = answer.get(FLAG_BYTES..).unwrap_or_default();
    let answer = Document::from_reader(answer)?;
    match answer.get_f64("ok") {
        Ok(1.0) => Ok(()),
        _ => Err(io::Error::other(answer.to_string()).into()),
    }
}
