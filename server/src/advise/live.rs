//! The report about a container of a server that is asked over HTTP, through its console.

use std::io;
use std::path::Path;
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tessera_advisor::{Printed, Question};
use tessera_core::name::ContainerName;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio_rustls::TlsConnector;

use super::arguments::Server;
use crate::error::Error;

/// The most that is taken of an answer: pictures of very many partitions are long.
const MAX_ANSWER_BYTES: u64 = 64 << 20;

/// A server's address, as its URL says it.
#[derive(Debug, PartialEq, Eq)]
struct Url {
    is_tls: bool,
    host: String,
    port: u16,
}

/// Asks the server and reads its answer. `key` is what its administrators know.
pub(super) fn report(
    (server, key): (&Server, Option<&str>),
    name: &ContainerName,
    question: &Question,
) -> Result<Printed, Error> {
    let url = Url::parse(&server.address).ok_or_else(|| {
        Error::Settings(format!(
            "{:?} is no address of a server; it is like http://127.0.0.1:8080",
            server.address
        ))
    })?;
    let body = serde_json::to_string(question).map_err(|error| Error::Failed(error.to_string()))?;
    let request = request(&url, key, name, &body);
    let runtime =
        Runtime::new().map_err(|error| Error::Failed(format!("cannot start threads: {error}")))?;
    let answer = runtime.block_on(exchange(&url, server.trust.as_deref(), &request));
    let failed = |cause: &str| Error::Failed(format!("{}: {cause}", server.address));
    let answer = answer.map_err(|error| failed(&error.to_string()))?;
    let (status, body) = parts(&answer).ok_or_else(|| failed("it does not answer in HTTP"))?;
    if status != 200 {
        let words = serde_json::from_slice::<serde_json::Value>(body).ok();
        let words = words
            .as_ref()
            .and_then(|words| words.get("error")?.as_str());
        let words = words.unwrap_or("it is not the console of a tessera server");
        return Err(match status {
            400 => Error::Settings(words.to_owned()),
            _ => failed(words),
        });
    }
    serde_json::from_slice(body).map_err(|error| failed(&error.to_string()))
}

impl Url {
    fn parse(text: &str) -> Option<Self> {
        let (scheme, rest) = text.split_once("://")?;
        let (is_tls, default) = match scheme {
            "http" => (false, 80),
            "https" => (true, 443),
            _ => return None,
        };
        let authority = rest.trim_end_matches('/');
        if authority.contains(['/', '@', '?', '#']) {
            return None;
        }
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok()?),
            _ => (authority, default),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        (!host.is_empty()).then(|| Self {
            is_tls,
            host: host.to_owned(),
            port,
        })
    }
}

/// The request. In this version of HTTP an answer comes in one piece and ends with its connection.
fn request(url: &Url, key: Option<&str>, name: &ContainerName, body: &str) -> String {
    let Url { host, port, .. } = url;
    let host = match host.contains(':') {
        true => format!("[{host}]"),
        false => host.clone(),
    };
    let part = |part: &str| {
        let bytes = part.bytes().map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => {
                char::from(byte).to_string()
            }
            _ => format!("%{byte:02X}"),
        });
        bytes.collect::<String>()
    };
    let path = [&name.api, &name.database, &name.container].map(|name| part(name));
    let key = key.map_or_else(String::new, |key| {
        format!("authorization: Bearer {key}\r\n")
    });
    format!(
        "POST /api/containers/{}/advice HTTP/1.0\r\nhost: {host}:{port}\r\n\
         content-type: application/json\r\n{key}content-length: {}\r\n\r\n{body}",
        path.join("/"),
        body.len()
    )
}

async fn exchange(url: &Url, trust: Option<&Path>, request: &str) -> io::Result<Vec<u8>> {
    let stream = TcpStream::connect((url.host.as_str(), url.port)).await?;
    if !url.is_tls {
        return send(stream, request).await;
    }
    let trust = trust.ok_or_else(|| {
        io::Error::other("name the certificate to trust with --live-ca, for https")
    })?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(trust).map_err(io::Error::other)? {
        let certificate = certificate.map_err(io::Error::other)?;
        roots.add(certificate).map_err(io::Error::other)?;
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from(url.host.clone()).map_err(io::Error::other)?;
    let stream = TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await?;
    send(stream, request).await
}

async fn send(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    request: &str,
) -> io::Result<Vec<u8>> {
    stream.write_all(request.as_bytes()).await?;
    stream.flush().await?;
    let mut answer = Vec::new();
    let mut limited = stream.take(MAX_ANSWER_BYTES);
    match limited.read_to_end(&mut answer).await {
        // Not everybody says good-bye at the end of a TLS stream; JSON shows whether it is whole.
        Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => Err(error),
        _ => Ok(answer),
    }
}

/// Status and body of an answer.
fn parts(answer: &[u8]) -> Option<(u16, &[u8])> {
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n")?;
    let (head, body) = answer.split_at_checked(end + 4)?;
    let line = str::from_utf8(head).ok()?.lines().next()?;
    let status = line.strip_prefix("HTTP/1.")?.split(' ').nth(1)?;
    Some((status.parse().ok()?, body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read() {
        for (text, expected) in [
            ("http://127.0.0.1:8080", Some((false, "127.0.0.1", 8080))),
            ("http://localhost:8080/", Some((false, "localhost", 8080))),
            ("https://db.example", Some((true, "db.example", 443))),
            ("http://[::1]:80", Some((false, "::1", 80))),
            ("https://[::1]", Some((true, "::1", 443))),
            ("127.0.0.1:8080", None),
            ("ftp://x", None),
            ("http://", None),
            ("http://x:port", None),
            ("http://x/api", None),
            ("http://ada@x", None),
        ] {
            let url = Url::parse(text);
            let url = url
                .as_ref()
                .map(|it| (it.is_tls, it.host.as_str(), it.port));
            assert_eq!(url, expected, "{text}");
        }
    }

    #[test]
    fn names_cannot_break_out_of_a_request() {
        let url = Url::parse("http://[::1]:8080").unwrap();
        let name = ContainerName::new("mongo", "a b", "x/y\r\n");
        let request = request(&url, Some("secret"), &name, "{}");
        assert_eq!(
            request,
            "POST /api/containers/mongo/a%20b/x%2Fy%0D%0A/advice HTTP/1.0\r\n\
             host: [::1]:8080\r\ncontent-type: application/json\r\n\
             authorization: Bearer secret\r\ncontent-length: 2\r\n\r\n{}"
        );
    }

    #[test]
    fn answers_have_a_status_and_a_body() {
        let answer = b"HTTP/1.0 404 Not Found\r\na: b\r\n\r\n{}";
        assert_eq!(parts(answer), Some((404, &b"{}"[..])));
        for other in [
            &b""[..],
            b"HTTP/1.0 200 OK\r\n",
            b"SSH-2.0\r\n\r\n",
            b"HTTP/1.1 x\r\n\r\n",
        ] {
            assert_eq!(parts(other), None);
        }
    }
}
