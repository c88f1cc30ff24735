//! Authorization: the actions that commands need, and the roles that allow them.

mod action;
mod check;
pub(crate) mod pipeline;
pub(crate) mod privilege;
pub(crate) mod role;
pub(crate) mod writing;

pub(crate) use action::Action;
pub(crate) use check::{allows, check, refused};

use crate::auth::login::Identity;
use crate::failure::Result;
use crate::request::Request;

/// What a command needs of who sends it.
#[derive(Clone, Copy)]
pub(crate) enum Access {
    /// Nothing: it works before anyone has said who they are.
    Anyone,
    /// That they have said who they are.
    Authenticated,
    /// These actions on the collection that the command names.
    Collection(&'static [Action]),
    /// These actions on the database it is sent to.
    Database(&'static [Action]),
    /// These actions on the cluster.
    Cluster(&'static [Action]),
    /// What the command's fields say.
    Decide(fn(&Request<'_>) -> Result<Vec<Need>>),
    /// What the command's fields say to this user, of several ways to be allowed it.
    Judge(fn(&Request<'_>, &Identity) -> Result<bool>),
    /// What the command turns out to touch once it is parsed: its handler calls
    /// [`Session::require`](crate::session::Session::require) before it touches it.
    Parsed,
}

/// One action on one resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Need {
    pub(crate) action: Action,
    pub(crate) on: Resource,
}

/// What an action is done to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Resource {
    Cluster,
    /// All databases but `local` and `config`.
    AnyDatabase,
    Database(String),
    Collection(String, String),
}

impl Need {
    /// `action` on a collection.
    pub(crate) fn on_collection(action: Action, database: &str, collection: &str) -> Self {
        Self {
            action,
            on: Resource::Collection(database.to_owned(), collection.to_owned()),
        }
    }

    /// `action` on a database as a whole.
    pub(crate) fn on_database(action: Action, database: &str) -> Self {
        Self {
            action,
            on: Resource::Database(database.to_owned()),
        }
    }

    /// `action` on all databases.
    pub(crate) fn on_any_database(action: Action) -> Self {
        Self {
            action,
            on: Resource::AnyDatabase,
        }
    }

    /// `action` on the cluster.
    pub(crate) fn on_cluster(action: Action) -> Self {
        Self {
            action,
            on: Resource::Cluster,
        }
    }
}
