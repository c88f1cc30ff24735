//! Time, cancellation and threads of operations that compute for as long as they may.

use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

/// Computes until it is told to end, or for so long.
fn compute(most: Duration) -> Result<(), Interruption> {
    let began = Instant::now();
    while began.elapsed() < most {
        step(100)?;
    }
    Ok(())
}

struct Flag(AtomicBool);

impl Watch for Flag {
    fn interruption(&self, _: bool) -> Option<Interruption> {
        let is_set = self.0.load(Ordering::Relaxed);
        is_set.then_some(Interruption::Cancelled)
    }
}

#[tokio::test]
async fn time_ends_a_computation_and_every_step_after_it() {
    let deadline = Deadline::new(Some(Duration::from_millis(20)), None);
    let operation = async {
        let began = Instant::now();
        let outcome = compute(Duration::from_secs(10));
        (outcome, step(1), began.elapsed())
    };
    let (outcome, later, took) = deadline.run(operation).await;
    assert_eq!(outcome, Err(Interruption::TimeLimit));
    assert_eq!(later, Err(Interruption::TimeLimit));
    assert!(took < Duration::from_secs(1), "{took:?}");
    // It was that operation's time, not this thread's.
    assert_eq!(step(usize::MAX), Ok(()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_ends_a_computation() {
    let flag = Arc::new(Flag(AtomicBool::new(false)));
    let watch: Arc<dyn Watch> = Arc::clone(&flag) as Arc<dyn Watch>;
    let running = tokio::spawn(async move {
        let deadline = Deadline::new(None, Some(watch));
        deadline
            .run(async { compute(Duration::from_secs(20)) })
            .await
    });
    tokio::time::sleep(Duration::from_millis(30)).await;
    flag.0.store(true, Ordering::Relaxed);
    let outcome = tokio::time::timeout(Duration::from_secs(5), running).await;
    assert_eq!(outcome.unwrap().unwrap(), Err(Interruption::Cancelled));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn computations_leave_the_workers_to_others() {
    let computing = |_| {
        tokio::spawn(async {
            let deadline = Deadline::new(Some(Duration::from_millis(800)), None);
            deadline
                .run(async { compute(Duration::from_secs(20)) })
                .await
        })
    };
    let computing: Vec<_> = (0..6).map(computing).collect();
    let mut longest = Duration::ZERO;
    for _ in 0..60 {
        let began = Instant::now();
        tokio::spawn(async { tokio::task::yield_now().await })
            .await
            .unwrap();
        longest = longest.max(began.elapsed());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // Without giving workers away, nothing else runs for 800 milliseconds.
    assert!(longest < Duration::from_millis(400), "{longest:?}");
    for computing in computing {
        assert_eq!(computing.await.unwrap(), Err(Interruption::TimeLimit));
    }
}

#[tokio::test]
async fn a_pause_lets_others_have_their_turn_only_after_long_work() {
    let deadline = Deadline::new(None, None);
    let turns = |polls: usize| async move {
        let mut pausing = pin!(async {
            pause().await;
            compute(Duration::from_millis(5)).unwrap();
            pause().await;
            pause().await;
        });
        let mut seen = 0;
        poll_fn(|context| {
            seen += 1;
            pausing.as_mut().poll(context)
        })
        .await;
        assert_eq!(seen, polls);
    };
    deadline.run(turns(2)).await;
}

#[test]
fn what_is_held_is_bounded_and_given_back() {
    for _ in 0..3 {
        let mut held = Held::new();
        held.add(MEMORY_LIMIT / 2).unwrap();
        let mut more = Held::new();
        assert_eq!(more.add(MEMORY_LIMIT), Err(Interruption::Memory));
        drop(more);
        held.add(MEMORY_LIMIT / 2).unwrap();
    }
}
