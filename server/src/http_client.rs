//! One request over HTTP to the console of a running server.

use std::io;
use std::path::Path;
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// The largest answer: pictures of very many partitions are long.
const MAX_ANSWER_BYTES: u64 = 64 << 20;

/// A server's address from its URL.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Url {
    pub(crate) is_tls: bool,
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl Url {
    pub(crate) fn parse(text: &str) -> Option<Self> {
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

    /// Host and port as the header `host` has them.
    pub(crate) fn authority(&self) -> String {
        let Self { host, port, .. } = self;
        match host.contains(':') {
            true => format!("[{host}]:{port}"),
            false => format!("{host}:{port}"),
        }
    }
}

/// Sends a request in HTTP/1.0, in which an answer comes in one piece and ends with its connection.
/// `trust` is the file with the certificate that a server with TLS must show.
pub(crate) async fn exchange(
    url: &Url,
    trust: Option<&Path>,
    request: &str,
) -> io::Result<Vec<u8>> {
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
        // Not every server closes a TLS stream properly; JSON shows whether the answer is whole.
        Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => Err(error),
        _ => Ok(answer),
    }
}

/// Status and body of an answer.
pub(crate) fn parts(answer: &[u8]) -> Option<(u16, &[u8])> {
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
