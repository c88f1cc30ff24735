//! A connection without a server, for the tests of front ends.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tokio::sync::watch;

use crate::{Activity, Connection, Shutdown, Stream, Timeouts};

/// The process's first connection, from this machine and without TLS; its peer may stay silent.
/// It ends when `stopping` turns true or its sender goes.
pub fn connection(stream: impl Stream + 'static, stopping: watch::Receiver<bool>) -> Connection {
    let timeouts = Timeouts {
        idle: None,
        stalled: Duration::from_secs(10),
    };
    Connection {
        stream: Box::new(stream),
        activity: Activity::new(1, timeouts),
        peer: SocketAddr::from((Ipv4Addr::LOCALHOST, 1)),
        id: 1,
        tls: false,
        shutdown: Shutdown::new(stopping),
    }
}
