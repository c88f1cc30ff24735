//! Snapshot reads outside of transactions: the snapshots that clients may still read, each under
//! the cluster time at which it was taken.
//!
//! A read without `atClusterTime` reads the present, and its reply has the time under which the
//! same snapshot can be read again. Other times can be read only if nothing was written since,
//! because then they equal the present. A snapshot pins old versions in the engine, and on some
//! engines a connection: so there are few, kept for minutes.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use bson::Timestamp;
use tessera_core::moment::Moment;
use tessera_mongo_language::error::Code;
use tokio::time::Instant;

use crate::failure::{Failure, Result};
use crate::service::Service;

/// How long a moment can be asked for, as long as MongoDB keeps its history.
const WINDOW: Duration = Duration::from_secs(5 * 60);
/// How many moments are kept; the oldest makes room.
const MAX_KEPT: usize = 256;
/// The same where each of them takes a connection to a database that servers share.
const MAX_KEPT_SHARED: usize = 4;

/// A moment, and the cluster time by which clients know it.
#[derive(Clone)]
pub(crate) struct At {
    pub(crate) time: Timestamp,
    pub(crate) moment: Moment,
}

/// The moments that can be asked for, from the oldest to the latest.
#[derive(Default)]
pub(crate) struct Snapshots {
    kept: Arc<Mutex<VecDeque<(At, Instant)>>>,
}

impl Snapshots {
    /// The moment to read: of a time, or of now.
    pub(crate) async fn at(&self, service: &Service, asked: Option<Timestamp>) -> Result<At> {
        let (clock, cluster) = (service.store.clock(), &service.cluster_time);
        let shared = service.store.engine().capabilities().shared;
        let now = match (asked, shared) {
            // What another server writes does not move our time.
            (None, true) => cluster.advance(clock),
            _ => cluster.now(clock),
        };
        let time = asked.unwrap_or(now);
        if let Some(kept) = self.find(time) {
            return Ok(kept);
        }
        if time > now {
            return Err(in_the_future(time, now));
        }
        if asked.is_some() && (shared || time < cluster.written()) {
            return Err(too_old(time));
        }
        let moment = service.store.keep_moment().await?;
        Ok(self.keep(At { time, moment }, shared))
    }

    fn find(&self, time: Timestamp) -> Option<At> {
        let kept = lock(&self.kept);
        let found = kept.iter().rev().find(|(at, _)| at.time == time);
        found.map(|(at, _)| at.clone())
    }

    /// Keeps a moment, unless somebody was quicker.
    fn keep(&self, at: At, shared: bool) -> At {
        let mut kept = lock(&self.kept);
        let place = kept.partition_point(|(other, _)| other.time < at.time);
        if let Some((same, _)) = kept.get(place).filter(|(other, _)| other.time == at.time) {
            return same.clone();
        }
        let until = Instant::now() + WINDOW;
        kept.insert(place, (at.clone(), until));
        let most = if shared { MAX_KEPT_SHARED } else { MAX_KEPT };
        if kept.len() > most {
            kept.pop_front();
        }
        tokio::spawn(forget(Arc::downgrade(&self.kept), until));
        at
    }
}

/// Lets go of what is kept for too long.
async fn forget(kept: Weak<Mutex<VecDeque<(At, Instant)>>>, until: Instant) {
    tokio::time::sleep_until(until).await;
    if let Some(kept) = kept.upgrade() {
        lock(&kept).retain(|(_, other)| *other > until);
    }
}

fn lock<T>(kept: &Mutex<T>) -> MutexGuard<'_, T> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

fn in_the_future(time: Timestamp, now: Timestamp) -> Failure {
    let message = format!(
        "readConcern atClusterTime value must not be greater than the current clusterTime. \
         Requested clusterTime: {time}; current clusterTime: {now}"
    );
    Failure::new(Code::INVALID_OPTIONS, message)
}

fn too_old(time: Timestamp) -> Failure {
    let message = format!("Read timestamp {time} is older than the oldest available timestamp.");
    Failure::new(Code::SNAPSHOT_TOO_OLD, message)
}
