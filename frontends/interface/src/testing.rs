//! A connection without a server, for the tests of front ends.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::{Activity, Connection, LoginGate, Shutdown, Stream, Timeouts};

const TIMEOUTS: Timeouts = Timeouts {
    idle: None,
    stalled: Duration::from_secs(10),
};

/// A gate at which nobody has failed yet.
pub fn gate() -> LoginGate {
    gate_of(Activity::new(1, TIMEOUTS))
}

fn gate_of(activity: Activity) -> LoginGate {
    LoginGate::new(Arc::default(), "test", Ipv4Addr::LOCALHOST.into(), activity)
}

/// The process's first connection, from this machine and without TLS; its peer may stay silent.
/// It ends when `stopping` turns true or its sender goes.
pub fn connection(stream: impl Stream + 'static, stopping: watch::Receiver<bool>) -> Connection {
    let activity = Activity::new(1, TIMEOUTS);
    let peer = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
    Connection {
        stream: Box::new(stream),
        gate: gate_of(activity.clone()),
        activity,
        peer,
        id: 1,
        tls: false,
        shutdown: Shutdown::new(stopping),
    }
}
