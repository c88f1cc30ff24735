//! State of one connection: its authenticated users and what the client announced.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bson::Document;
use tessera_core::deadline::Watch;
use tessera_core::memory_budget::{Grant, Purpose};
use tessera_core::throughput::{Charge, Meter};
use tessera_frontend::{LoginGate, Shutdown};

use crate::access::{self, Need};
use crate::auth::login::{Identity, Login};
use crate::failure::Result;
use crate::line::Line;
use crate::operation::{Place, Wanted};
use crate::request::Request;
use crate::service::Service;
use crate::top::Row;
use crate::wire::compression::Compressor;

/// So much of an answer is part of what the connection is guaranteed.
pub(crate) const GUARANTEED_REPLY: u32 = 32 << 10;

/// What a session has of its connection.
pub(crate) struct Link {
    pub(crate) connection: u64,
    pub(crate) peer: SocketAddr,
    pub(crate) shutdown: Shutdown,
    pub(crate) gate: LoginGate,
    /// None where a test talks to the session without a stream.
    pub(crate) line: Option<Arc<Line>>,
}

/// The state of one connection.
pub(crate) struct Session {
    /// The connection's number in this process.
    pub(crate) connection: u64,
    pub(crate) peer: SocketAddr,
    /// What the client said of itself in its first hello.
    pub(crate) client: Option<Document>,
    /// Whether the client said that it backs off when it is told that the server is overloaded.
    pub(crate) understands_overload: bool,
    /// How messages may be compressed.
    pub(crate) compressors: Vec<Compressor>,
    pub(crate) login: Login,
    /// What the running command needs of its user, which each batch of its cursor needs again.
    /// Empty where nobody has to log in.
    pub(crate) needed: Vec<Need>,
    /// Where logins are counted.
    pub(crate) gate: LoginGate,
    /// Where the command that runs is noted.
    pub(crate) place: Arc<Place>,
    pub(crate) shutdown: Shutdown,
    /// Whether the command that runs is still wanted.
    pub(crate) wanted: Arc<dyn Watch>,
    /// Whether the running command wants to answer once more, of a client that allows that.
    pub(crate) more_to_come: bool,
    /// What the answer takes that is being made or sent.
    pub(crate) answer: Grant,
    /// What the command that runs has cost so far.
    charge: Charge,
    /// The command before.
    pub(crate) last: Option<LastCommand>,
    /// Where the collection that was used last is counted.
    pub(crate) last_namespace: Option<Arc<Row>>,
    service: Arc<Service>,
}

/// What `getLastRequestStatistics` tells.
#[derive(Clone, Debug)]
pub(crate) struct LastCommand {
    pub(crate) name: &'static str,
    pub(crate) charge: Charge,
    pub(crate) took: Duration,
}

impl Session {
    pub(crate) fn new(service: &Arc<Service>, link: Link) -> Self {
        let Link {
            connection,
            peer,
            shutdown,
            gate,
            line,
        } = link;
        let place = service.connections.open(connection, peer);
        let wanted = Arc::new(Wanted {
            place: Arc::clone(&place),
            shutdown: shutdown.clone(),
            line,
        });
        Self {
            connection,
            peer,
            client: None,
            understands_overload: false,
            compressors: Vec::new(),
            login: Login::default(),
            needed: Vec::new(),
            gate,
            place,
            shutdown,
            wanted,
            more_to_come: false,
            answer: Grant::new(Purpose::Replies, GUARANTEED_REPLY),
            charge: Charge::default(),
            last: None,
            last_namespace: None,
            service: Arc::clone(service),
        }
    }

    /// Whether the user may, by what is known of them. Everybody may where nobody has to log in.
    pub(crate) fn may(&self, allowed: impl FnOnce(&Identity) -> bool) -> bool {
        if !self.service.config.requires_authentication {
            return true;
        }
        self.login.identity.as_ref().is_some_and(allowed)
    }

    /// Refuses a request whose user may not do all that it turned out to do, and answers what that
    /// needs. Nothing where nobody has to log in.
    pub(crate) fn require(
        &self,
        request: &Request<'_>,
        needs: impl FnOnce(&Identity) -> Vec<Need>,
    ) -> Result<Vec<Need>> {
        if !self.service.config.requires_authentication {
            return Ok(Vec::new());
        }
        let needs = self.login.identity.as_ref().map(needs);
        let needs = needs.ok_or_else(|| access::refused(request))?;
        self.check_needs(request, &needs)?;
        Ok(needs)
    }

    /// Refuses a request whose user may not do all of this.
    pub(crate) fn check_needs(&self, request: &Request<'_>, needs: &[Need]) -> Result<()> {
        match self.may(|user| needs.iter().all(|need| user.may(need))) {
            true => Ok(()),
            false => Err(access::refused(request)),
        }
    }

    /// The name of the user, `user@database`.
    pub(crate) fn user(&self) -> Option<String> {
        let identity = self.login.identity.as_ref();
        identity.map(|identity| identity.name.to_string())
    }

    /// The server that the connection belongs to.
    pub(crate) fn service(&self) -> Arc<Service> {
        Arc::clone(&self.service)
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

impl Drop for Session {
    fn drop(&mut self) {
        self.service.connections.close(self.connection);
    }
}
