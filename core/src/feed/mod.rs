//! The change feed: what was changed, in the order in which it was committed, for whoever follows.
//!
//! It is written by the one function through which every item changes ([`writing`]), not taken from
//! an engine's log, which knows physical keys and neither old values nor reasons. Entries are
//! appended ([`crate::write_set::WriteSet::append`]): the engine completes their keys with
//! [`stamp`]s, whose order is that of the feed. Per item it is the order of its changes, and of two
//! commits of which one was answered before the other began, the earlier stands first.
//!
//! A container's feed lies in segments, one for each physical partition and term ([`control`],
//! [`segments`]); what closes some opens others in the same commit, so one [`position`] leads
//! through any number of splits. [`reader`] merges them, [`changes`] shows those of a container as
//! Cosmos DB does. Feeds are turned on by whoever follows
//! first, or by a definition ([`policy`]), and let go of what is old ([`retention`]). While none is
//! on, all of it costs one branch for each change.
//!
//! **Why `settled`.** On PostgreSQL the version in a stamp is the number of the transaction, taken
//! inside the commit. Commits become visible in another order than that of their numbers, so a
//! reader stops below the smallest number that is still under way in this database.
//!
//! **Why terms.** There a rename takes its number and then waits for a writer with a larger one. A
//! partition alone would hold entries from before and after it that cannot be told apart. A term
//! ends with whatever changes the meaning of entries; its last entry is known as soon as the
//! closing is visible, and the event stands behind it ([`position::Position::displaced`]).
//!
//! **Why epochs end.** A data folder, a copy and a database know the ends of their past epochs
//! ([`crate::engine::Engine::past_epochs`]). So a position from before a backup or a failover goes
//! on if all before it is there, and only one of the discarded part hears that history is lost.

pub mod changes;
pub mod changes_token;
pub mod control;
pub mod definition;
pub(crate) mod keys;
mod latest;
pub mod policy;
pub mod position;
pub mod reader;
pub mod record;
pub mod registry;
pub mod retention;
pub mod segments;
pub mod showing;
pub mod stamp;
pub mod status;
pub mod time;
pub mod waking;
mod whole;
pub mod writing;
