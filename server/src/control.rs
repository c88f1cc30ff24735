//! The control socket: how another `tessera` command reaches the server that owns a data folder.
//!
//! One request and one reply for each connection, each a line of UTF-8 of at most
//! [`MAX_LINE_BYTES`]:
//!
//! ```text
//! tessera-control 1 backup /absolute/folder      ok 12.3 MB
//! tessera-control 1 advise {"container": …}      ok {"report": …}
//!                                                error what went wrong
//! ```
//!
//! The answer to `advise` may be longer: [`MAX_ADVICE_BYTES`].
//!
//! Only the owner of the data folder (and root) may connect. The holder of the data's lock owns the
//! socket: it is bound after the data is open, so a file left behind by a killed server is simply
//! replaced.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tessera_advisor::{Printed, Question};
use tessera_core::Store;
use tessera_core::name::ContainerName;
use tessera_frontend::Shutdown;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinSet;
use tracing::{info, warn};

use crate::error::Error;
use crate::{advise, backup};

const SOCKET: &str = "control.sock";
const VERSION: &str = "tessera-control 1";
const MAX_LINE_BYTES: u64 = 8 * 1024;
/// Pictures of very many partitions are long.
const MAX_ADVICE_BYTES: u64 = 64 << 20;

/// The kernel's limit for the path of a socket is 108 bytes on Linux and 104 elsewhere.
const MAX_SOCKET_PATH_BYTES: usize = 100;

/// The time limit of a client that connects and sends nothing.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// The pause after a failed accept, so that a lasting cause does not take a whole core.
const ACCEPT_RETRY: Duration = Duration::from_secs(1);

/// A question about a container's partition key.
#[derive(Serialize, Deserialize)]
pub(crate) struct Advice {
    pub(crate) container: ContainerName,
    pub(crate) question: Question,
}

/// The server's end.
pub(crate) struct Control {
    listener: UnixListener,
    data: PathBuf,
    owner: u32,
}

impl Control {
    /// Binds the socket in the folder `data`, whose lock the caller holds.
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
    pub(crate) async fn run(self, store: Store, mut shutdown: Shutdown) {
        let mut requests = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                Some(_ended) = requests.join_next() => continue,
                () = shutdown.requested() => break,
            };
            match accepted {
                Ok((stream, _)) if self.may_speak(&stream) => {
                    requests.spawn(answer(stream, store.clone(), self.data.clone()));
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

async fn answer(mut stream: UnixStream, store: Store, data: PathBuf) {
    let request = read_line(&mut stream, MAX_LINE_BYTES);
    let request = tokio::time::timeout(REQUEST_TIMEOUT, request).await;
    let outcome = match request {
        Ok(Ok(line)) => perform(&line, &store, &data).await,
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

async fn perform(line: &str, store: &Store, data: &Path) -> Result<String, String> {
    let request = line
        .strip_prefix(VERSION)
        .and_then(|rest| rest.strip_prefix(' '));
    let request = request.ok_or_else(|| {
        format!("the running server speaks {VERSION:?} and not this; use the same version for both")
    })?;
    match request.split_once(' ') {
        Some(("backup", target)) => {
            let target = Path::new(target);
            let backup = backup::run(store.engine().as_ref(), data, target).await;
            match &backup {
                Ok(size) => info!(target = %target.display(), size, "backup made"),
                Err(error) => warn!(target = %target.display(), error, "backup failed"),
            }
            backup
        }
        Some(("advise", asked)) => advised(store, asked).await,
        _ => Err(format!(
            "the running server knows no such request: {request}"
        )),
    }
}

async fn advised(store: &Store, asked: &str) -> Result<String, String> {
    let asked: Advice = serde_json::from_str(asked).map_err(|error| error.to_string())?;
    let printed = advise::answer(store, &asked.container, &asked.question).await;
    let printed = printed.map_err(|error| error.to_string())?;
    serde_json::to_string(&printed).map_err(|error| error.to_string())
}

/// Asks the server that owns `data` for a backup into `target`. None: no server runs there.
pub(crate) async fn ask_for_backup(data: &Path, target: &str) -> Result<Option<String>, Error> {
    ask(data, &format!("backup {target}"), MAX_LINE_BYTES).await
}

/// Asks the server that owns `data` about a container. None: no server runs there.
pub(crate) async fn ask_for_advice(data: &Path, asked: &Advice) -> Result<Option<Printed>, Error> {
    let failed = |error: serde_json::Error| Error::Failed(error.to_string());
    let request = serde_json::to_string(asked).map_err(failed)?;
    let reply = ask(data, &format!("advise {request}"), MAX_ADVICE_BYTES).await?;
    let printed = reply.map(|reply| serde_json::from_str(&reply));
    printed.transpose().map_err(failed)
}

async fn ask(data: &Path, request: &str, max_bytes: u64) -> Result<Option<String>, Error> {
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
    write_line(&mut stream, &format!("{VERSION} {request}"))
        .await
        .map_err(failed)?;
    let reply = read_line(&mut stream, max_bytes).await.map_err(failed)?;
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

async fn read_line(stream: &mut UnixStream, max_bytes: u64) -> io::Result<String> {
    let mut line = String::new();
    BufReader::new(stream.take(max_bytes))
        .read_line(&mut line)
        .await?;
    if line.len() as u64 >= max_bytes {
        return Err(io::Error::other("the line is too long"));
    }
    Ok(line.trim_end_matches('\n').to_owned())
}

async fn write_line(stream: &mut UnixStream, line: &str) -> io::Result<()> {
    // One line is one message: line breaks in an error text must not end it early.
    let line = line.replace('\n', " ") + "\n";
    stream.write_all(line.as_bytes()).await?;
    stream.flush().await
}

/// The socket by a path short enough for the kernel: for a long one, Linux accepts a path through
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
