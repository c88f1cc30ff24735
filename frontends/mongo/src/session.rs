//! What the server knows of one connection: who is at its other end, and what they said so far.

use std::net::SocketAddr;
use std::time::Duration;

use bson::Document;
use tessera_core::throughput::{Charge, Meter};

/// The state of one connection.
pub(crate) struct Session {
    /// The connection's number in this process.
    pub(crate) connection: u64,
    pub(crate) peer: SocketAddr,
    pub(crate) tls: bool,
    /// What the client said of itself in its first hello.
    pub(crate) client: Option<Document>,
    /// Whether the client said that it backs off when it is told that the server is overloaded.
    pub(crate) understands_overload: bool,
    /// What the command that runs has cost so far.
    charge: Charge,
    /// The command before.
    pub(crate) last: Option<LastCommand>,
}

/// What `getLastRequestStatistics` tells.
#[derive(Clone, Debug)]
pub(crate) struct LastCommand {
    pub(crate) name: String,
    pub(crate) charge: Charge,
    pub(crate) took: Duration,
}

impl Session {
    pub(crate) fn new(connection: u64, peer: SocketAddr, tls: bool) -> Self {
        Self {
            connection,
            peer,
            tls,
            client: None,
            understands_overload: false,
            charge: Charge::default(),
            last: None,
        }
    }

    /// Adds what a transaction of the core took to the running command's charge.
    pub(crate) fn spent(&mut self, meter: &Meter) {
        self.charge += meter.charge();
    }

    /// What the running command has cost, which the next one begins without.
    pub(crate) fn settle(&mut self) -> Charge {
        std::mem::take(&mut self.charge)
    }

    /// The name that the application gave itself.
    pub(crate) fn application(&self) -> Option<&str> {
        let application = self.client.as_ref()?.get_document("application").ok()?;
        application.get_str("name").ok()
    }
}
