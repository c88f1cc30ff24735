//! Background work: upgrades, reaping, expiry, splits by size, jobs without an owner, and agreement
//! with other servers on the same engine.
//!
//! Each kind has its own loop, so that none waits for another. Every step is a transaction, so
//! stopping may end a loop anywhere.

use std::time::{Duration, Instant};

use tokio::sync::broadcast::error::RecvError;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;

use crate::allotment::Exchange;
use crate::deadline::spawn;
use crate::engine::News;
use crate::error::{Error, Result};
use crate::expiry::Expirer;
use crate::feed::retention::Tender;
use crate::memory_budget::Purpose;
use crate::reaper::Reaper;
use crate::sizing::Sizer;
use crate::store::Store;

/// How often it looks for work when none was announced.
const ROUND: Duration = Duration::from_secs(1);

/// Time without an announcement after which another server takes over the work that one does for
/// all.
const TERM: Duration = Duration::from_secs(10);

/// How often it scans again from the start.
const FULL_LOOK_INTERVAL: Duration = Duration::from_secs(60);

/// How often it looks for new change feeds.
const FEEDS_LOOK: Duration = Duration::from_secs(5);

/// Each step and each pass of tidying is followed by a pause of this many times its duration.
const TIDY_REST: u32 = 5;

/// A container without a request for this many such intervals (an hour) is dropped from the cache.
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
        let task = spawn("background", async move {
            let background = async {
                tokio::join!(
                    report_damage(&store),
                    upgrade(&store),
                    work_for_all(&store),
                    reap(&store),
                    resume_jobs(&store),
                    forget_idle(&store),
                    listen(&store),
                );
            };
            let agreeing = agree(&store, stopping.clone());
            let mut stopped = stopping;
            // Also ends when the handle was dropped. The agreement on budgets ends by itself, to
            // withdraw the demand of this server.
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
            tracing::error!(%error, "a background task failed");
        }
    }
}

/// Waits until the next round is due: when work is announced, or after a second.
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

    /// Also when the lease changes hands.
    async fn next_or(&mut self, led: &mut watch::Receiver<Lead>) {
        tokio::select! {
            () = self.next() => {}
            Ok(()) = led.changed() => {}
        }
    }
}

/// Logs that a round failed; the next one tries again.
fn report(what: &str, done: Result<()>) {
    if let Err(error) = done {
        complain(&error, &format!("{what} failed and will be tried again"));
    }
}

/// Logs the error. An unreachable engine logs that once by itself; this would repeat it with every
/// round.
fn complain(error: &Error, what: &str) {
    if let Error::Unavailable(_) = error {
        tracing::debug!(%error, "{what}");
    } else {
        tracing::warn!(%error, "{what}");
    }
}

/// Work that one of the servers on an engine does for all of them. The lease is checked once a
/// second for all such work.
async fn work_for_all(store: &Store) {
    let (leads, led) = watch::channel(Lead::Unknown);
    tokio::join!(
        lead(store, leads),
        expire(store, led.clone()),
        split_by_size(store, led.clone()),
        tidy(store, led.clone()),
        tend_feeds(store, led),
    );
}

/// Whether this server has the lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lead {
    Unknown,
    Mine,
    AnothersWork,
}

async fn lead(store: &Store, leads: watch::Sender<Lead>) {
    loop {
        let lead = match store.leads("background", TERM).await {
            Ok(true) => Lead::Mine,
            Ok(false) => Lead::AnothersWork,
            Err(error) => {
                complain(&error, "whose work it is cannot be told");
                Lead::Unknown
            }
        };
        // Only changes are announced: each loop has rounds of its own.
        leads.send_if_modified(|known| std::mem::replace(known, lead) != lead);
        tokio::time::sleep(ROUND).await;
    }
}

async fn expire(store: &Store, mut led: watch::Receiver<Lead>) {
    let mut expirer = Expirer::default();
    let mut rounds = Rounds::of(store);
    loop {
        let lead = *led.borrow_and_update();
        if lead == Lead::Mine {
            report("expiry", expirer.remove_expired(store).await.map(|_| ()));
        }
        rounds.next_or(&mut led).await;
    }
}

/// Has the engine clean up behind the writers in small steps, for a small part of the time.
async fn tidy(store: &Store, led: watch::Receiver<Lead>) {
    let mut took = Duration::ZERO;
    loop {
        let mut rest = ROUND;
        let lead = *led.borrow();
        if lead == Lead::Mine {
            let began = Instant::now();
            match store.engine().tidy().await {
                Ok(true) => {
                    rest = began.elapsed() * TIDY_REST;
                    took += began.elapsed();
                }
                Ok(false) => rest = FULL_LOOK_INTERVAL.max(std::mem::take(&mut took) * TIDY_REST),
                Err(error) => complain(&error.into(), "tidying up failed and will be tried again"),
            }
        }
        tokio::time::sleep(rest).await;
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

async fn split_by_size(store: &Store, mut led: watch::Receiver<Lead>) {
    let mut sizer = Sizer::default();
    let mut rounds = Rounds::of(store);
    loop {
        let lead = *led.borrow_and_update();
        let done = match lead {
            Lead::Mine => sizer.split_large(store).await,
            Lead::AnothersWork => sizer.look_at_own(store).await,
            Lead::Unknown => Ok(()),
        };
        report("splitting by size", done);
        rounds.next_or(&mut led).await;
    }
}

async fn resume_jobs(store: &Store) {
    let mut rounds = Rounds::of(store);
    loop {
        match store.take_over_jobs().await {
            // In a task of its own: a long job must not delay another.
            Ok(jobs) => jobs.into_iter().for_each(|job| {
                spawn("job", store.clone().run_resumed(job));
            }),
            Err(error) => complain(&error, "jobs cannot be read"),
        }
        rounds.next().await;
    }
}

/// Logs which containers cannot be read, once after each start.
async fn report_damage(store: &Store) {
    if let Err(error) = store.report_damage().await {
        tracing::warn!(%error, "the definitions could not be looked through");
    }
}

/// Drops the cached definitions and the heat of idle containers.
async fn forget_idle(store: &Store) {
    loop {
        tokio::time::sleep(FULL_LOOK_INTERVAL).await;
        // Under memory pressure those without a request in this interval go at once.
        let memory = store.memory();
        let is_much = store.catalog().footprint() > memory.limit() / 4;
        store
            .catalog()
            .forget_idle(if is_much { 1 } else { IDLE_ROUNDS });
        memory.note(Purpose::Catalog, store.catalog().footprint());
    }
}

/// Brings containers of earlier versions up to date, once after each start. Jobs that it begins
/// continue after the next start.
async fn upgrade(store: &Store) {
    let upgraded = async {
        store.adopt_all_orphans().await?;
        store.upgrade().await
    };
    if let Err(error) = upgraded.await {
        tracing::warn!(%error, "older containers stay as they are until the next start");
    }
}

/// Maintains the change feeds, often while there are any.
async fn tend_feeds(store: &Store, led: watch::Receiver<Lead>) {
    let mut tender = Tender::default();
    if let Err(error) = store.turn_on_all_feeds().await {
        complain(
            &error,
            "the change feeds of containers from before could not be turned on",
        );
    }
    loop {
        let lead = *led.borrow();
        let tended = match lead {
            Lead::Mine => tender.tend(store).await,
            Lead::Unknown | Lead::AnothersWork => Ok(false),
        };
        let pause = if matches!(tended, Ok(true)) {
            ROUND
        } else {
            FEEDS_LOOK
        };
        report("tending change feeds", tended.map(drop));
        tokio::time::sleep(pause).await;
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

/// Reads the announcements of other servers.
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

/// Decides when to scan from the start again. The reaper and the expirer remember their position,
/// because stepping over the tombstones of what they removed gets slower and slower; now and then
/// they start over, for entries written behind that position.
#[derive(Default)]
pub(crate) struct FullLook {
    last: Option<Instant>,
}

impl FullLook {
    /// Whether it is time; always true the first time.
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
    /// Runs all pending background work to its end, for callers that need it done and not just
    /// begun: tests, and tools that close the store right after.
    pub async fn settle(&self) -> Result<()> {
        for job in self.take_over_jobs().await? {
            self.clone().run_resumed(job).await;
        }
        self.adopt_all_orphans().await?;
        self.upgrade().await?;
        Expirer::default().remove_expired(self).await?;
        Reaper::default().reap_all(self).await?;
        while self.engine().tidy().await? {}
        Sizer::default().split_large(self).await
    }
}
