//! TLS with a certificate and key of the user, or self-signed ones.

use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio_rustls::TlsAcceptor;

use crate::error::Error;
use crate::front_ends::Trust;
use crate::settings::Config;

/// The server's certificate.
pub(crate) struct Tls {
    config: ServerConfig,
    current: Arc<Current>,
    /// The files of certificate and key, for a reload; none if they are not kept.
    files: Option<(PathBuf, PathBuf)>,
    pub(crate) trust: Trust,
    /// SHA-256 of the certificate, as `openssl x509 -fingerprint -sha256` prints it.
    pub(crate) fingerprint: String,
}

/// The certificate for new connections.
#[derive(Debug)]
struct Current(ArcSwap<CertifiedKey>);

impl ResolvesServerCert for Current {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.load_full())
    }
}

impl Tls {
    /// The user's certificate in `config`, if any.
    pub(crate) fn given(config: &Config) -> Result<Option<Self>, Error> {
        match (&config.tls_cert, &config.tls_key) {
            (Some(cert), Some(key)) => Self::from_files(cert, key, Trust::Given).map(Some),
            _ => Ok(None),
        }
    }

    /// The self-signed certificate of this data folder, created on first use and kept, so that
    /// clients can go on trusting it after a restart. Without a folder it lasts as long as the
    /// process.
    pub(crate) fn self_signed(data: Option<&Path>) -> Result<Self, Error> {
        let Some(data) = data else {
            let pair = generate().map_err(cannot_generate)?;
            let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes());
            let cert = CertificateDer::from_pem_slice(pair.cert.as_bytes());
            let (key, cert) = key
                .and_then(|key| Ok((key, cert?)))
                .map_err(cannot_generate)?;
            let key = certified(vec![cert], key).map_err(cannot_generate)?;
            return Self::new(key, Trust::Unkept, None).map_err(cannot_generate);
        };
        let folder = data.join("tls");
        let (cert, key) = (folder.join("cert.pem"), folder.join("key.pem"));
        if !cert.exists() {
            let pair = generate().map_err(cannot_generate)?;
            pair.keep(&folder, &cert, &key).map_err(|error| {
                let folder = folder.display();
                Error::Failed(format!(
                    "cannot keep a TLS certificate in {folder}: {error}"
                ))
            })?;
        }
        Self::from_files(&cert, &key, Trust::Own(cert.clone()))
    }

    /// The acceptor of TLS connections, with `protocols` for ALPN.
    pub(crate) fn acceptor(&self, protocols: &[&[u8]]) -> TlsAcceptor {
        let mut config = self.config.clone();
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        TlsAcceptor::from(Arc::new(config))
    }

    /// Reloads certificate and key for new connections; returns the fingerprint.
    pub(crate) fn reload(&self) -> Result<String, Error> {
        let Some((cert, key)) = &self.files else {
            return Ok(self.fingerprint.clone());
        };
        let key = read(cert, key, &self.trust)?;
        let fingerprint = fingerprint_of(&key);
        self.current.0.store(Arc::new(key));
        Ok(fingerprint)
    }

    fn from_files(cert: &Path, key: &Path, trust: Trust) -> Result<Self, Error> {
        let certified = read(cert, key, &trust)?;
        let files = Some((cert.to_owned(), key.to_owned()));
        Self::new(certified, trust, files).map_err(|error| {
            let cert = cert.display();
            Error::Failed(format!("cannot serve TLS with {cert}: {error}"))
        })
    }

    fn new(
        key: CertifiedKey,
        trust: Trust,
        files: Option<(PathBuf, PathBuf)>,
    ) -> Result<Self, rustls::Error> {
        let fingerprint = fingerprint_of(&key);
        let current = Arc::new(Current(ArcSwap::from_pointee(key)));
        let resolver: Arc<dyn ResolvesServerCert> = Arc::clone(&current) as _;
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(resolver);
        Ok(Self {
            config,
            current,
            files,
            trust,
            fingerprint,
        })
    }
}

/// Reads a certificate and its key, or returns an error that names the file.
fn read(cert: &Path, key: &Path, trust: &Trust) -> Result<CertifiedKey, Error> {
    let advice = match trust {
        Trust::Own(_) => "delete both files to have new ones made",
        Trust::Plain | Trust::Given | Trust::Unkept => "check tls-cert and tls-key",
    };
    let unusable = |path: &Path, cause: String| {
        Error::Failed(format!(
            "cannot serve TLS with {}: {cause}; {advice}",
            path.display()
        ))
    };
    let certs = CertificateDer::pem_file_iter(cert)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .and_then(|certs| {
            if certs.is_empty() {
                Err(pem::Error::NoItemsFound)
            } else {
                Ok(certs)
            }
        })
        .map_err(|error| unusable(cert, pem_problem("certificate", &error)))?;
    let private = PrivateKeyDer::from_pem_file(key)
        .map_err(|error| unusable(key, pem_problem("private key", &error)))?;
    certified(certs, private).map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => {
            let cause = format!("it is not the key of the certificate {}", cert.display());
            unusable(key, cause)
        }
        error => unusable(cert, error.to_string()),
    })
}

fn certified(
    certs: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<CertifiedKey, rustls::Error> {
    CertifiedKey::from_der(certs, key, &ring::default_provider())
}

fn fingerprint_of(key: &CertifiedKey) -> String {
    key.cert
        .first()
        .map(|cert| fingerprint(cert))
        .unwrap_or_default()
}

fn pem_problem(what: &str, error: &pem::Error) -> String {
    match error {
        pem::Error::Io(error) => error.to_string(),
        pem::Error::NoItemsFound => format!("it holds no {what} in PEM form"),
        _ => "it is not valid PEM".to_owned(),
    }
}

fn cannot_generate(error: impl std::fmt::Display) -> Error {
    Error::Failed(format!("cannot make a self-signed certificate: {error}"))
}

/// A new certificate and its key, as PEM.
struct Pair {
    cert: String,
    key: String,
}

fn generate() -> Result<Pair, rcgen::Error> {
    let names = ["localhost", "127.0.0.1", "::1"].map(str::to_owned);
    let mut params = rcgen::CertificateParams::new(names)?;
    params.distinguished_name = rcgen::DistinguishedName::new();
    params
        .distinguished_name
        .push(rcgen::DnType::CommonName, "Tessera (self-signed)");
    let key = rcgen::KeyPair::generate()?;
    let cert = params.self_signed(&key)?;
    Ok(Pair {
        cert: cert.pem(),
        key: key.serialize_pem(),
    })
}

impl Pair {
    /// Writes the key first and the certificate last: if there is a certificate, its key is
    /// complete.
    fn keep(&self, folder: &Path, cert: &Path, key: &Path) -> io::Result<()> {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)?;
        write_whole(key, &self.key)?;
        write_whole(cert, &self.cert)
    }
}

/// Writes a file atomically that only the owner can read.
fn write_whole(path: &Path, text: &str) -> io::Result<()> {
    let partial: PathBuf = path.with_extension("partial");
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&partial)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&partial, path)
}

fn fingerprint(cert: &CertificateDer<'_>) -> String {
    // The provider that speaks TLS also has SHA-256; no other library is needed for it.
    let rustls::SupportedCipherSuite::Tls13(suite) = ring::cipher_suite::TLS13_AES_128_GCM_SHA256
    else {
        return String::new();
    };
    let mut text = String::new();
    for byte in suite.common.hash_provider.hash(cert).as_ref() {
        let separator = if text.is_empty() { "" } else { ":" };
        // Writing to a String cannot fail.
        let _written = write!(text, "{separator}{byte:02X}").is_ok();
    }
    text
}
