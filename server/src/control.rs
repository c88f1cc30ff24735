//! The control socket: how another `tessera` command reaches the server that owns a data folder.
//!
//! One request and one reply for each connection, each a line of UTF-8 of at most
//! [`MAX_LINE_BYTES`]:
//!
//! ```text
//! tessera-control 1 backup /absolute/folder      ok 12.3 MB
//!                                                error what went wrong
//! ```
//!
//! Only the owner of the data folder (and root) may speak. Whoever holds the data's lock owns the
//! socket: it is bound after the data is open, so a file left behind by a killed server is simply
//! replaced.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tessera_core::engine::Engine;
use tessera_frontend::Shutdown;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinSet;
use tracing::{info, warn};

use crate::backup;
use crate::error::Error;

const SOCKET: &str = "control.sock";
const VERSION: &str = "tessera-control 1";
const MAX_LINE_BYTES: u64 = 8 * 1024;

/// The kernel's limit for the path of a socket is 108 bytes on Linux and 104 elsewhere.
const MAX_SOCKET_PATH_BYTES: usize = 100;

/// A client that connects and asks nothing.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// After a failed accept, so that a lasting cause does not take a whole core.
const ACCEPT_RETRY: Duration = Duration::from_secs(1);

/// The server's end.
pub(crate) struct Control {
    listener: UnixListener,
    data: PathBuf,
    owner: u32,
}

impl Control {
    /// Takes the socket in the folder `data`, whose lock the caller holds.
    pub(crate) fn bind(data: &Path) -> io::Result<Self> {
        let socket = data.join(SOCKET);
        match fs::remove_file(&socket) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = Reachable::new(data)?.bind()?;
        fs::set_permissions(&socket, Permissions::from_mode(0o600))?;
        let owner = fs::metadata(&socket)?.uid();
        Ok(Self {
            listener,
            data: data.to_owned(),
            owner,
        })
    }

    /// Answers until the server stops, then lets running requests finish.
    pub(crate) async fn run(self, engine: Arc<dyn Engine>, mut shutdown: Shutdown) {
        let mut requests = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                Some(_ended) = requests.join_next() => continue,
                () = shutdown.requested() => break,
            };
            match accepted {
                Ok((stream, _)) if self.may_speak(&stream) => {
                    requests.spawn(answer(stream, engine.clone(), self.data.clone()));
                }
                Ok(_) => warn!("another user was refused at the control socket"),
                Err(error) => {
                    warn!(%error, "the control socket cannot accept");
                    tokio::time::sleep(ACCEPT_RETRY).await;
                }
            }
        }
        while requests.join_next().await.is_some() {}
        // A socket that stays behind is harmless: the next server replaces it.
        let _removed = fs::remove_file(self.data.join(SOCKET)).is_ok();
    }

    /// The file's mode says the same, but there is a moment between binding and setting it.
    fn may_speak(&self, stream: &UnixStream) -> bool {
        stream
            .peer_cred()
            .is_ok_and(|peer| peer.uid() == self.owner || peer.uid() == 0)
    }
}

async fn answer(mut stream: UnixStream, engine: Arc<dyn Engine>, data: PathBuf) {
    let request = tokio::time::timeout(REQUEST_TIMEOUT, read_line(&mut stream)).await;
    let outcome = match request {
        Ok(Ok(line)) => perform(&line, engine.as_ref(), &data).await,
        Ok(Err(error)) => Err(error.to_string()),
        Err(_elapsed) => Err("no request came".to_owned()),
    };
    let reply = match outcome {
        Ok(text) => format!("ok {text}"),
        Err(text) => format!("error {text}"),
    };
    if let Err(error) = write_line(&mut stream, &reply).await {
        warn!(%error, "a control request was not answered");
    }
}

async fn perform(line: &str, engine: &dyn Engine, data: &Path) -> Result<String, String> {
    let request = line
        .strip_prefix(VERSION)
        .and_then(|rest| rest.strip_prefix(' '));
    let request = request.ok_or_else(|| {
        format!("the running server speaks {VERSION:?} and not this; use the same version for both")
    })?;
    match request.split_once(' ') {
        Some(("backup", target)) => {
            let target = Path::new(target);
            let backup = backup::run(engine, data, target).await;
            match &backup {
                Ok(size) => info!(target = %target.display(), size, "backup made"),
                Err(error) => warn!(target = %target.display(), error, "backup failed"),
            }
            backup
        }
        _ => Err(format!(
            "the running server knows no such request: {request}"
        )),
    }
}

/// Asks the server that owns `data` for a backup into `target`. None: no server runs there.
pub(crate) async fn ask_for_backup(data: &Path, target: &str) -> Result<Option<String>, Error> {
    let failed = |error: io::Error| {
        let advice = match error.kind() {
            io::ErrorKind::PermissionDenied => "; run this as the user who runs the server",
            _ => "",
        };
        let data = data.display();
        Error::Failed(format!(
            "cannot talk to the server on {data}: {error}{advice}"
        ))
    };
    let mut stream = match Reachable::new(data) {
        Ok(socket) => match socket.connect().await {
            Ok(stream) => stream,
            Err(error) if is_nobody(&error) => return Ok(None),
            Err(error) => return Err(failed(error)),
        },
        Err(error) if is_nobody(&error) => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    write_line(&mut stream, &format!("{VERSION} backup {target}"))
        .await
        .map_err(failed)?;
    let reply = read_line(&mut stream).await.map_err(failed)?;
    match reply.split_once(' ') {
        Some(("ok", text)) => Ok(Some(text.to_owned())),
        Some(("error", text)) => Err(Error::Failed(text.to_owned())),
        _ => Err(failed(io::Error::other("it went away before it answered"))),
    }
}

/// No socket, or one that a killed server left behind.
fn is_nobody(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused
    )
}

async fn read_line(stream: &mut UnixStream) -> io::Result<String> {
    let mut line = String::new();
    BufReader::new(stream.take(MAX_LINE_BYTES))
        .read_line(&mut line)
        .await?;
    if line.len() as u64 >= MAX_LINE_BYTES {
        return Err(io::Error::other("the line is too long"));
    }
    Ok(line.trim_end_matches('\n').to_owned())
}

async fn write_line(stream: &mut UnixStream, line: &str) -> io::Result<()> {
    // One line is one message: what an error text brought along must not end it early.
    let line = line.replace('\n', " ") + "\n";
    stream.write_all(line.as_bytes()).await?;
    stream.flush().await
}

/// The socket by a path short enough for the kernel: of a long one, Linux takes a detour through
/// the folder's open file.
struct Reachable {
    path: PathBuf,
    _folder: Option<File>,
}

impl Reachable {
    fn new(data: &Path) -> io::Result<Self> {
        let path = data.join(SOCKET);
        if path.as_os_str().as_bytes().len() <= MAX_SOCKET_PATH_BYTES {
            return Ok(Self {
                path,
                _folder: None,
            });
        }
        let folder = File::open(data)?;
        let path = PathBuf::from(format!("/proc/self/fd/{}/{SOCKET}", folder.as_raw_fd()));
        Ok(Self {
            path,
            _folder: Some(folder),
        })
    }

    fn bind(&self) -> io::Result<UnixListener> {
        UnixListener::bind(&self.path)
    }

    async fn connect(&self) -> io::Result<UnixStream> {
        UnixStream::connect(&self.path).await
    }
}
