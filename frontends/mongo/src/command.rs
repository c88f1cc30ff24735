//! One row of the table of commands: the name of a command, its privileges, and where it is
//! allowed.

use tessera_core::engine::BoxFuture;

use crate::access::Access;
use crate::failure::Result;
use crate::reply::Reply;
use crate::request::Request;
use crate::service::Service;
use crate::session::Session;

/// Runs a command. Written in a row as `|service, session, request| Box::pin(f(service, …))`.
pub(crate) type Handler =
    for<'a> fn(&'a Service, &'a mut Session, &'a Request<'a>) -> BoxFuture<'a, Result<Reply>>;

/// One command.
pub(crate) struct Command {
    pub(crate) name: &'static str,
    /// Other names that it answers to.
    pub(crate) aliases: &'static [&'static str],
    /// One sentence for `listCommands`.
    pub(crate) help: &'static str,
    pub(crate) run: Handler,
    pub(crate) access: Access,
    /// Whether it only works on the database `admin`.
    pub(crate) admin_only: bool,
    /// Whether it may be part of a transaction of several statements.
    pub(crate) in_transactions: bool,
    /// Whether a client may number it, to send it again without doing it twice.
    pub(crate) retryable: bool,
    /// Whether a read concern other than `local` means something to it.
    pub(crate) takes_read_concern: bool,
    /// Whether it may read one moment outside of transactions.
    pub(crate) takes_snapshot: bool,
    /// Whether a write concern means something to it.
    pub(crate) takes_write_concern: bool,
    /// Whether version 1 of the stable API has it.
    pub(crate) stable: bool,
}

impl Command {
    /// A command that anywhere is allowed and nowhere special. The methods below say what else it
    /// is.
    pub(crate) const fn new(
        name: &'static str,
        help: &'static str,
        access: Access,
        run: Handler,
    ) -> Self {
        Self {
            name,
            aliases: &[],
            help,
            run,
            access,
            admin_only: false,
            in_transactions: false,
            retryable: false,
            takes_read_concern: false,
            takes_snapshot: false,
            takes_write_concern: false,
            stable: false,
        }
    }

    /// Answers to other names as well.
    pub(crate) const fn also(mut self, aliases: &'static [&'static str]) -> Self {
        self.aliases = aliases;
        self
    }

    /// Works on the database `admin` alone.
    pub(crate) const fn admin_only(mut self) -> Self {
        self.admin_only = true;
        self
    }

    /// May be part of a transaction.
    pub(crate) const fn in_transactions(mut self) -> Self {
        self.in_transactions = true;
        self
    }

    /// May be numbered and sent again.
    pub(crate) const fn retryable(mut self) -> Self {
        self.retryable = true;
        self
    }

    /// Takes every read concern.
    pub(crate) const fn reads(mut self) -> Self {
        self.takes_read_concern = true;
        self
    }

    /// Takes the read concern `snapshot` outside of transactions too.
    pub(crate) const fn snapshots(mut self) -> Self {
        self.takes_snapshot = true;
        self
    }

    /// Takes a write concern.
    pub(crate) const fn writes(mut self) -> Self {
        self.takes_write_concern = true;
        self
    }

    /// Belongs to version 1 of the stable API.
    pub(crate) const fn stable(mut self) -> Self {
        self.stable = true;
        self
    }
}
