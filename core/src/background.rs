//! The work that goes on by itself: upgrades, reaping, expiry, splits by size, jobs whose owner is
//! gone, and agreeing with other servers on the same engine.
//!
//! Each kind has a loop of its own, so that none waits for another. Stopping ends them where they
//! are: every step is a transaction, and one that was not committed has not happened.

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

/// After so many such intervals without a request a container is forgotten: an hour.
const IDLE_ROUNDS: u8 = 60;

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
            let background = async {
                tokio::join!(
                    report_damage(&store),
                    upgrade(&store),
                    expire(&store),
                    reap(&store),
                    split_by_size(&store),
                    resume_jobs(&store),
                    forget_idle(&store),
                    listen(&store),
                );
            };
            let agreeing = agree(&store, stopping.clone());
            let mut stopped = stopping;
            // Also ends when the handle was dropped. Agreeing ends by itself, to tell the others.
            let working = async {
                tokio::select! {
                    () = background => {}
                    _ = stopped.wait_for(|stop| *stop) => {}
                }
            };
            tokio::join!(working, agreeing);
        });
        Self { stop, task }
    }

    /// Ends the loops and waits until they have ended.
    pub async fn stop(self) {
        self.stop.send_replace(true);
        if let Err(error) = self.task.await {
            tracing::error!(%error, "the background ended badly");
        }
    }
}

/// Tells when the next round is due: when somebody announces work, or after a second.
struct Rounds {
    announced: watch::Receiver<()>,
}

impl Rounds {
    fn of(store: &Store) -> Self {
        let announced = store.background_work();
        Self { announced }
    }

    async fn next(&mut self) {
        // Work announced during a round makes the next one begin at once.
        tokio::time::timeout(ROUND, self.announced.changed())
            .await
            .ok();
    }
}

/// Says that a round failed; the next one tries again.
fn report(what: &str, done: Result<()>) {
    if let Err(error) = done {
        complain(&error, &format!("{what} failed and will be tried again"));
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

/// Whether this server does what would be the same for each of those that share the engine.
async fn leads(store: &Store) -> Result<bool> {
    store.leads("background", TERM).await
}

async fn expire(store: &Store) {
    let mut expirer = Expirer::default();
    let mut rounds = Rounds::of(store);
    loop {
        let done = match leads(store).await {
            Ok(true) => expirer.remove_expired(store).await.map(|_| ()),
            Ok(false) => Ok(()),
            Err(error) => Err(error),
        };
        report("expiry", done);
        rounds.next().await;
    }
}

async fn reap(store: &Store) {
    let mut reaper = Reaper::default();
    let mut rounds = Rounds::of(store);
    loop {
        report("reaping", reaper.reap_all(store).await);
        rounds.next().await;
    }
}

async fn split_by_size(store: &Store) {
    let mut sizer = Sizer::default();
    let mut rounds = Rounds::of(store);
    loop {
        let done = match leads(store).await {
            Ok(true) => sizer.split_large(store).await,
            Ok(false) => sizer.look_at_own(store).await,
            Err(error) => Err(error),
        };
        report("splitting by size", done);
        rounds.next().await;
    }
}

async fn resume_jobs(store: &Store) {
    let mut rounds = Rounds::of(store);
    loop {
        match store.take_over_jobs().await {
            // Beside this loop: a long job must not hold up another.
            Ok(jobs) => jobs.into_iter().for_each(|job| {
                tokio::spawn(store.clone().run_resumed(job));
            }),
            Err(error) => complain(&error, "jobs cannot be read"),
        }
        rounds.next().await;
    }
}

/// Says which containers cannot be read, once after each start.
async fn report_damage(store: &Store) {
    if let Err(error) = store.report_damage().await {
        tracing::warn!(%error, "the definitions could not be looked through");
    }
}

/// Lets go of the definitions and the heat of containers that nobody uses.
async fn forget_idle(store: &Store) {
    loop {
        tokio::time::sleep(FULL_LOOK_INTERVAL).await;
        store.catalog().forget_idle(IDLE_ROUNDS);
    }
}

/// Brings containers of earlier versions up to date, once after each start. What is begun is a job,
/// which goes on after the next start.
async fn upgrade(store: &Store) {
    let upgraded = async {
        store.adopt_all_orphans().await?;
        store.upgrade().await
    };
    if let Err(error) = upgraded.await {
        tracing::warn!(%error, "older containers stay as they are until the next start");
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
async fn listen(store: &Store) {
    let Some(mut news): Option<News> = store.engine().news() else {
        return;
    };
    loop {
        match news.recv().await {
            Ok(key) => store.hear(&key),
            Err(RecvError::Lagged(_)) => store.hear(&[]),
            Err(RecvError::Closed) => return,
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

impl Store {
    /// Does everything there is to do in the background now, for callers that want it done and not
    /// just begun: tests, and tools that close the store right after.
    pub async fn settle(&self) -> Result<()> {
        for job in self.take_over_jobs().await? {
            self.clone().run_resumed(job).await;
        }
        self.adopt_all_orphans().await?;
        self.upgrade().await?;
        Expirer::default().remove_expired(self).await?;
        Reaper::default().reap_all(self).await?;
        Sizer::default().split_large(self).await
    }
}
