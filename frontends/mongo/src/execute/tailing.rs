//! Waiting at the end of a capped collection: its change feed wakes the cursor, whichever server
//! wrote.

use std::time::{Duration, Instant};

use tessera_core::feed::policy::{FeedScope, FeedWish};
use tessera_core::feed::waking::FeedAlarm;
use tessera_core::name::ContainerName;

use crate::data::Data;

/// How long it is taken for granted that the feed is on: it is turned off when nobody follows it.
const REFRESH: Duration = Duration::from_secs(30);

/// A cursor at the end of what there is.
pub(crate) struct Tailing {
    /// Whether its replies wait for something to come.
    waits: bool,
    heard: Option<Heard>,
}

struct Heard {
    alarm: FeedAlarm,
    since: Instant,
}

impl Tailing {
    pub(crate) fn new(waits: bool) -> Self {
        let heard = None;
        Self { waits, heard }
    }

    /// Listens to the feed of the collection, which is turned on if need be. To be called before
    /// reading, so that nothing that comes in between is missed.
    pub(crate) async fn listen(&mut self, data: &Data, name: &ContainerName) {
        let is_recent = |heard: &Heard| heard.since.elapsed() < REFRESH;
        if !self.waits || self.heard.as_ref().is_some_and(is_recent) {
            return;
        }
        let scope = FeedScope::Container(name.clone());
        let followed = data.store.follow(&scope, &FeedWish::default()).await;
        // Where there can be no feed, such as on a full disk, whoever waits looks by himself; what
        // else is wrong is found by reading.
        self.heard = followed.ok().map(|followed| Heard {
            alarm: data.store.feed_alarm(followed.feed),
            since: Instant::now(),
        });
    }

    /// What tells of new documents, if anything does.
    pub(crate) fn alarm(&mut self) -> Option<&mut FeedAlarm> {
        self.heard.as_mut().map(|heard| &mut heard.alarm)
    }
}
