//! An HTTP/1.1 client of one request per connection, enough for health checks. TLS is curl's work.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::Error;

const TIMEOUT: Duration = Duration::from_secs(5);

/// What the server answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// Status line and headers, as sent.
    pub head: String,
    /// Everything after the empty line, as sent.
    pub body: String,
}

/// Sends `GET path` on a connection of its own and reads until the server closes it.
pub fn get(address: SocketAddr, path: &str) -> Result<Response, Error> {
    let received = exchange(address, path).map_err(Error::io(format!("GET {address}{path}")))?;
    parse(&received).ok_or(Error::NotHttp(received))
}

/// Sends `GET path` over TLS to a server with this certificate.
pub fn get_tls(address: SocketAddr, path: &str, certificate: &Path) -> Result<Response, Error> {
    let url = format!("https://{address}{path}");
    let answer = Command::new("curl")
        .args(["--silent", "--show-error", "--include", "--http1.1"])
        .args(["--max-time", &TIMEOUT.as_secs().to_string(), "--cacert"])
        .arg(certificate)
        .arg(&url)
        .output()
        .map_err(Error::io(format!("running curl {url}")))?;
    let received = String::from_utf8_lossy(&answer.stdout);
    parse(&received).ok_or_else(|| {
        Error::NotHttp(received.into_owned() + &String::from_utf8_lossy(&answer.stderr))
    })
}

fn exchange(address: SocketAddr, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut received = Vec::new();
    stream.read_to_end(&mut received)?;
    Ok(String::from_utf8_lossy(&received).into_owned())
}

fn parse(received: &str) -> Option<Response> {
    let (head, body) = received.split_once("\r\n\r\n")?;
    let status = head
        .strip_prefix("HTTP/1.1 ")?
        .split(' ')
        .next()?
        .parse()
        .ok()?;
    Some(Response {
        status,
        head: head.to_owned(),
        body: body.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn splits_status_head_and_body() {
        let response = parse("HTTP/1.1 404 Not Found\r\na: b\r\n\r\nnothing\r\n\r\nhere").unwrap();
        assert_eq!(response.status, 404);
        assert_eq!(response.head, "HTTP/1.1 404 Not Found\r\na: b");
        assert_eq!(response.body, "nothing\r\n\r\nhere");
    }

    #[test]
    fn rejects_what_is_not_http() {
        for received in [
            "",
            "HTTP/1.1 200 OK\r\n",
            "SSH-2.0-x\r\n\r\n",
            "HTTP/1.1 OK\r\n\r\n",
        ] {
            assert_eq!(parse(received), None, "{received:?}");
        }
    }
}
