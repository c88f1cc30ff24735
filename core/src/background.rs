//! The work that goes on by itself: upgrades, reaping, expiry, splits by size, jobs whose owner is
//! gone, and agreeing with other servers on the same engine.

use std::time::{Duration, Instant};

use tokio::sync::broadcast::error::RecvError;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;

use crate::allotment::Exchange;
use crate::engine::News;
use crate::error::{Error, Result};
use crate::expiry::Expirer;
use crate::reaper::Reaper;
use crate::sizing::Sizer;
use crate::store::Store;

/// How often it looks for work when nobody announced any.
const ROUND: Duration = Duration::from_secs(1);

/// After which time without a word another server does what one does for all.
const TERM: Duration = Duration::from_secs(10);

/// How often it looks at what it has passed already.
const FULL_LOOK_INTERVAL: Duration = Duration::from_secs(60);

/// The background of a store, running until stopped or dropped.
pub struct Background {
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Background {
    /// Starts the background of a store.
    pub fn start(store: Store) -> Self {
        let (stop, stopping) = watch::channel(false);
        let task = tokio::spawn(async move {
            // None holds up another.
            tokio::join!(
                upgrade(&store, stopping.clone()),
                work(&store, stopping.clone()),
                agree(&store, stopping.clone()),
                listen(&store, stopping),
            );
        });
        Self { stop, task }
    }

    /// Finishes the step under way and stops.
    pub async fn stop(self) {
        self.stop.send_replace(true);
        if let Err(error) = self.task.await {
            tracing::error!(%error, "the background ended badly");
        }
    }
}

async fn work(store: &Store, mut stopping: watch::Receiver<bool>) {
    let mut rounds = Rounds::default();
    loop {
        // On an engine that several servers share, one of them does for all what would be the same
        // for each.
        let worked = match store.leads("background", TERM).await {
            Ok(true) => rounds.work(store).await,
            Ok(false) => rounds.follow(store).await,
            Err(error) => Err(error),
        };
        if let Err(error) = worked {
            complain(&error, "background work failed and will be tried again");
        }
        match store.take_over_jobs().await {
            // Beside this loop: a long job must not hold up expiry.
            Ok(jobs) => jobs.into_iter().for_each(|job| {
                tokio::spawn(store.clone().run_resumed(job));
            }),
            Err(error) => complain(&error, "jobs cannot be read"),
        }
        tokio::select! {
            () = store.background_work() => {}
            () = tokio::time::sleep(ROUND) => {}
            // Also ends when the handle was dropped.
            _ = stopping.wait_for(|stop| *stop) => return,
        }
    }
}

/// Says what went wrong. An engine that cannot be reached says so itself, once; this would say it
/// with every round.
fn complain(error: &Error, what: &str) {
    if let Error::Unavailable(_) = error {
        tracing::debug!(%error, "{what}");
    } else {
        tracing::warn!(%error, "{what}");
    }
}

/// Brings containers of earlier versions up to date, once after each start.
async fn upgrade(store: &Store, mut stopping: watch::Receiver<bool>) {
    tokio::select! {
        upgraded = store.upgrade() => {
            if let Err(error) = upgraded {
                tracing::warn!(%error, "older containers stay as they are until the next start");
            }
        }
        // What is begun is a job, which goes on after the next start.
        _ = stopping.wait_for(|stop| *stop) => {}
    }
}

/// Agrees on budgets with the other servers on the engine, if it has any.
async fn agree(store: &Store, mut stopping: watch::Receiver<bool>) {
    if !store.engine().capabilities().shared {
        return;
    }
    let mut exchange = Exchange::default();
    let mut rounds = tokio::time::interval(ROUND);
    rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = rounds.tick() => {}
            _ = stopping.wait_for(|stop| *stop) => break,
        }
        if let Err(error) = exchange.round(store).await {
            tracing::debug!(%error, "no agreement on budgets with other servers this time");
        }
    }
    if let Err(error) = exchange.leave(store).await {
        tracing::debug!(%error, "the other servers will find out that this one left");
    }
}

/// Hears what other servers announce.
async fn listen(store: &Store, mut stopping: watch::Receiver<bool>) {
    let Some(mut news): Option<News> = store.engine().news() else {
        return;
    };
    loop {
        tokio::select! {
            heard = news.recv() => match heard {
                Ok(key) => store.hear(&key),
                Err(RecvError::Lagged(_)) => store.hear(&[]),
                Err(RecvError::Closed) => return,
            },
            _ = stopping.wait_for(|stop| *stop) => return,
        }
    }
}

/// Tells when to look at everything again. The reaper and the expirer remember where they were,
/// because stepping over the tombstones of what they removed gets slower and slower; now and then
/// they look from the start, for what came in behind them.
#[derive(Default)]
pub(crate) struct FullLook {
    last: Option<Instant>,
}

impl FullLook {
    /// Whether it is time; the first time always is.
    pub(crate) fn is_due(&mut self) -> bool {
        let due = self
            .last
            .is_none_or(|last| last.elapsed() >= FULL_LOOK_INTERVAL);
        if due {
            self.last = Some(Instant::now());
        }
        due
    }
}

/// What the background remembers between rounds.
#[derive(Default)]
pub(crate) struct Rounds {
    reaper: Reaper,
    expirer: Expirer,
    sizer: Sizer,
}

impl Rounds {
    /// Removes everything there is to remove now, and splits what is too large.
    pub(crate) async fn work(&mut self, store: &Store) -> Result<()> {
        self.expirer.remove_expired(store).await?;
        self.reaper.reap_all(store).await?;
        self.sizer.split_large(store).await
    }

    /// What is left to do where another server does the rest.
    async fn follow(&mut self, store: &Store) -> Result<()> {
        self.reaper.reap_all(store).await?;
        self.sizer.look_at_own(store).await
    }
}

impl Store {
    /// Does everything there is to do in the background now, for callers that want it done and not
    /// just begun: tests, and tools that close the store right after.
    pub async fn settle(&self) -> Result<()> {
        for job in self.take_over_jobs().await? {
            self.clone().run_resumed(job).await;
        }
        self.upgrade().await?;
        Rounds::default().work(self).await
    }
}
