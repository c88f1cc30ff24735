//! Notifies systemd (`Type=notify`) when the server is ready, reloads and stops.
//!
//! One datagram to the socket that `NOTIFY_SOCKET` names, where it is set; see sd_notify(3).

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use rustix::time::{ClockId, clock_gettime};
use tracing::warn;

const VARIABLE: &str = "NOTIFY_SOCKET";

/// All front ends listen.
pub(crate) fn ready() {
    tell("READY=1\nSTATUS=serving");
}

/// The certificate and the log level are read again; `ready` says when that is done.
pub(crate) fn reloading() {
    let now = clock_gettime(ClockId::Monotonic);
    let micros = now.tv_sec * 1_000_000 + now.tv_nsec / 1_000;
    tell(&format!("RELOADING=1\nMONOTONIC_USEC={micros}"));
}

/// The server was told to stop.
pub(crate) fn stopping() {
    tell("STOPPING=1\nSTATUS=stopping");
}

fn tell(state: &str) {
    let Some(socket) = std::env::var_os(VARIABLE) else {
        return;
    };
    if let Err(error) = send(&socket, state) {
        warn!(%error, "cannot tell {VARIABLE} that {}", state.replace('\n', ", "));
    }
}

fn send(socket: &OsStr, state: &str) -> io::Result<()> {
    let address = match socket.as_bytes().strip_prefix(b"@") {
        // An abstract socket.
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(socket)?,
    };
    UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_of_sockets_hear_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let name = format!("tessera-test-{}", std::process::id());
        let hidden = SocketAddr::from_abstract_name(name.as_bytes()).unwrap();
        for (listener, socket) in [
            (UnixDatagram::bind(&path).unwrap(), path.into()),
            (
                UnixDatagram::bind_addr(&hidden).unwrap(),
                format!("@{name}").into(),
            ),
        ] {
            let socket: std::ffi::OsString = socket;
            send(&socket, "READY=1").unwrap();
            let mut bytes = [0; 16];
            let length = listener.recv(&mut bytes).unwrap();
            assert_eq!(&bytes[..length], b"READY=1");
        }
        assert!(send(OsStr::new("/nowhere/notify"), "READY=1").is_err());
    }
}
