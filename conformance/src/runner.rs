//! Runs walks over servers, several at a time, and reports each case as it ends.

use std::collections::{BTreeMap, VecDeque};
use std::num::NonZero;
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use crate::Error;
use crate::cases::Case;
use crate::suites::{Database, Place, Walk};

/// Clients and servers wait for one another, and for what must happen after some time.
const WALKS_PER_PROCESSOR: usize = 2;

/// What happens during a run.
#[derive(Debug)]
pub(crate) enum Event<'a> {
    Heard(&'a Walk, &'a Case),
    Ended(&'a Walk, &'a Walked),
}

/// What came of one walk.
#[derive(Debug)]
pub struct Walked {
    /// Which one.
    pub walk: Walk,
    /// In the order in which they were tried.
    pub cases: Vec<Case>,
    /// How long it took, without what was installed for it.
    pub time: Duration,
    /// What our server printed, if something failed.
    pub server: String,
}

impl Walked {
    /// The cases that failed.
    pub fn failed(&self) -> impl Iterator<Item = &Case> {
        self.cases.iter().filter(|case| !case.passed)
    }

    /// Cases with the same area and name as another, which nothing may be said about.
    pub(crate) fn repeated(&self) -> Vec<&Case> {
        let mut times: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        let mut repeated = Vec::new();
        for case in &self.cases {
            let times = times.entry((&case.area, &case.name)).or_default();
            *times += 1;
            // Each once.
            if *times == 2 {
                repeated.push(case);
            }
        }
        repeated
    }
}

/// Walks, over our server or over the target, and answers in the order of the walks.
pub(crate) fn run(
    walks: &[Walk],
    target: Option<&str>,
    tell: &(dyn Fn(Event<'_>) + Sync),
) -> Vec<Walked> {
    let database = Database::default();
    let waiting: Mutex<VecDeque<(usize, Walk)>> =
        Mutex::new(walks.iter().copied().enumerate().collect());
    let done = Mutex::new(BTreeMap::new());
    let work = || {
        while let Some((number, walk)) = take(&waiting) {
            // What keeps one walk from its beginning is no reason to lose the others.
            let result = one(&walk, target, &database, tell).unwrap_or_else(|error| {
                let case = Case::broken_off(error.to_string());
                tell(Event::Heard(&walk, &case));
                Walked {
                    walk,
                    cases: vec![case],
                    time: Duration::ZERO,
                    server: String::new(),
                }
            });
            tell(Event::Ended(&walk, &result));
            locked(&done).insert(number, result);
        }
    };
    // Walks over a server of somebody else might see one another.
    let workers = match target {
        Some(_) => 1,
        None => thread::available_parallelism().map_or(1, NonZero::get) * WALKS_PER_PROCESSOR,
    };
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(work);
        }
    });
    let done = done.into_inner();
    let done = done.unwrap_or_else(|poisoned| poisoned.into_inner());
    done.into_values().collect()
}

fn take(waiting: &Mutex<VecDeque<(usize, Walk)>>) -> Option<(usize, Walk)> {
    locked(waiting).pop_front()
}

/// What a worker that panicked left behind is whole: every change is one step.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn one(
    walk: &Walk,
    target: Option<&str>,
    database: &Database,
    tell: &(dyn Fn(Event<'_>) + Sync),
) -> Result<Walked, Error> {
    let (client, place) = match target {
        Some(target) => (walk.walker.client()?, Place::target(walk.suite, target)),
        None => (walk.client()?, Place::start(walk, database)?),
    };
    let began = Instant::now();
    let heard = |case: &Case| tell(Event::Heard(walk, case));
    let walked = client.with(&place.options).cases(&place.endpoint, heard)?;
    let mut result = Walked {
        walk: *walk,
        cases: walked.cases,
        time: began.elapsed(),
        server: place.printed(),
    };
    // A server that does not end well fails the walk over it, and the others go on.
    if let Err(error) = place.stop() {
        let case = Case::broken_off(error.to_string());
        tell(Event::Heard(walk, &case));
        result.cases.push(case);
    }
    if result.failed().next().is_none() {
        result.server.clear();
    }
    Ok(result)
}
