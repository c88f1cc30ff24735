//! Change streams: the change feed of collections, databases and the cluster as MongoDB's clients
//! follow it.
//!
//! [`options`] reads what is asked for, [`open`] finds the feed, [`stream`] reads it page by page
//! and runs the rest of the pipeline over the [`event`]s. A [`token`] is a position of the feed,
//! good on every server and after a restart. What an update changed is described where it happens
//! ([`payload`]), because afterwards nobody knows. Over HTTP the same changes are [`shown`] as
//! extended JSON.

mod event;
pub(crate) mod expanded;
mod images;
pub(crate) mod key;
mod lookup;
pub(crate) mod open;
mod options;
pub(crate) mod payload;
pub(crate) mod shown;
mod split;
mod stream;
mod token;

pub(crate) use event::transaction_of;
pub(crate) use stream::resumable;
