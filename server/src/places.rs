//! The open connections of one front end, and which of them gives way when there are too many.
//!
//! An idle connection gives way to a new one: if all places are taken, the one that has been idle
//! for longest is asked to end, as when the server stops; unauthenticated ones go first.
//! Connections with a request that runs or arrives are left alone. So connections that are opened
//! and left idle cannot keep others out.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tessera_frontend::{Activity, Shutdown};
use tokio::sync::watch;

/// A connection with traffic this recently is not idle: clients pause between two requests.
const MIN_IDLE: Duration = Duration::from_secs(1);
/// After a search without an idle connection, the next search waits for this time.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// The connections of one front end.
#[derive(Default)]
pub(crate) struct Places(Mutex<State>);

#[derive(Default)]
struct State {
    taken: HashMap<u64, Taken>,
    stopping: bool,
    /// The time of the last search without an idle connection.
    fruitless: Option<Instant>,
}

struct Taken {
    activity: Activity,
    /// True once it was asked to end.
    end: watch::Sender<bool>,
}

/// One connection's place, given back when this is dropped.
pub(crate) struct Place {
    id: u64,
    places: Arc<Places>,
    pub(crate) shutdown: Shutdown,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.lock().taken.remove(&self.id);
    }
}

impl Places {
    /// A place for the connection `id`.
    pub(crate) fn take(self: &Arc<Self>, id: u64, activity: Activity) -> Place {
        let mut state = self.lock();
        let (end, ended) = watch::channel(state.stopping);
        state.taken.insert(id, Taken { activity, end });
        drop(state);
        Place {
            id,
            places: Arc::clone(self),
            shutdown: Shutdown::new(ended),
        }
    }

    /// Asks one idle connection to end. False if there is none.
    pub(crate) fn make_room(&self) -> bool {
        let mut state = self.lock();
        let now = Instant::now();
        let looked = |at: Instant| now.duration_since(at) < LOOK_AGAIN;
        if state.fruitless.is_some_and(looked) {
            return false;
        }
        let idle = |taken: &Taken| {
            let since = taken.activity.idle_since()?;
            let counts = !*taken.end.borrow() && now.duration_since(since) >= MIN_IDLE;
            counts.then_some((taken.activity.is_identified(), since))
        };
        let longest = state
            .taken
            .values()
            .filter_map(|taken| Some((idle(taken)?, taken)))
            .min_by_key(|(idle, _)| *idle);
        if let Some((_, taken)) = longest {
            taken.end.send_replace(true);
            return true;
        }
        state.fruitless = Some(now);
        false
    }

    /// Asks all connections to end, later ones included.
    pub(crate) fn stop(&self) {
        let mut state = self.lock();
        state.stopping = true;
        for taken in state.taken.values() {
            taken.end.send_replace(true);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Every change under the lock is complete on its own.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use tessera_frontend::Timeouts;

    use super::*;

    fn activity(id: u64) -> Activity {
        let timeouts = Timeouts {
            idle: None,
            stalled: MIN_IDLE,
        };
        Activity::new(id, timeouts)
    }

    #[test]
    fn the_longest_idle_gives_way_and_nobody_who_is_busy() {
        let places = Arc::new(Places::default());
        let activities: Vec<Activity> = (0..5).map(activity).collect();
        let pause = || std::thread::sleep(Duration::from_millis(2));
        let taken: Vec<Place> = (0..)
            .zip(&activities)
            .map(|(id, activity)| {
                pause();
                places.take(id, activity.clone())
            })
            .collect();
        let asked = || -> Vec<bool> {
            let mut asked = taken.iter();
            asked
                .by_ref()
                .map(|place| place.shutdown.is_requested())
                .collect()
        };
        // The oldest is known, the next runs a request, the next is within one.
        activities[0].identify();
        let running = activities[1].begin();
        activities[2].received(5);
        assert!(!places.make_room(), "they have only just come");
        std::thread::sleep(MIN_IDLE + LOOK_AGAIN);
        assert!(places.make_room());
        assert_eq!(asked(), [false, false, false, true, false]);
        assert!(places.make_room());
        assert_eq!(asked(), [false, false, false, true, true]);
        assert!(places.make_room());
        assert_eq!(asked(), [true, false, false, true, true]);
        assert!(!places.make_room());
        drop(running);
        assert!(!places.make_room(), "it was busy until now");
    }

    #[test]
    fn who_comes_while_all_stop_is_told_too() {
        let places = Arc::new(Places::default());
        let early = places.take(1, activity(1));
        assert!(!early.shutdown.is_requested());
        places.stop();
        assert!(early.shutdown.is_requested());
        assert!(places.take(2, activity(2)).shutdown.is_requested());
        drop(early);
        assert!(places.lock().taken.is_empty());
    }
}
