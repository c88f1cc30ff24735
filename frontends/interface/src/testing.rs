//! A connection without a server, for the tests of front ends, and the interface of their fuzzer.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::{Activity, Connection, Listener, LoginGate, Shutdown, Stream, Timeouts};

/// A decoder or parser for the fuzzer: it must not panic on any bytes, and what it accepts must
/// survive being written and read again.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, and that of its corpus.
    pub name: &'static str,
    /// Reads an input and checks the result.
    pub run: fn(&[u8]),
}

const TIMEOUTS: Timeouts = Timeouts {
    idle: None,
    stalled: Duration::from_secs(10),
};

/// A gate without failed logins.
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
        listeners: Arc::new([Listener {
            name: "test",
            address: peer,
            tls: false,
        }]),
        shutdown: Shutdown::new(stopping),
    }
}
