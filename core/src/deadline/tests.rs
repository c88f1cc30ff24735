//! Time, cancellation and threads of operations that compute for as long as they may.

use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::memory_budget::Purpose;

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

/// What counts no steps keeps its own thread and one turn, and neither tasks nor computations.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_counts_no_steps_holds_up_nobody_else() {
    let is_over = Arc::new(AtomicBool::new(false));
    let stuck = |_| {
        let is_over = Arc::clone(&is_over);
        tokio::spawn(Deadline::new(None, None).run(async move {
            // It is long, which is noticed, and then it is never looked at again.
            step(1_000_000).unwrap();
            while !is_over.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        }))
    };
    let stuck: Vec<_> = (0..2).map(stuck).collect();
    tokio::time::sleep(Duration::from_millis(100)).await;
    let began = Instant::now();
    let deadline = Deadline::new(Some(Duration::from_secs(10)), None);
    let computing = deadline.run(async { compute(Duration::from_millis(50)) });
    let computed = tokio::spawn(computing).await.unwrap();
    let took = began.elapsed();
    is_over.store(true, Ordering::Relaxed);
    assert_eq!(computed, Ok(()));
    assert!(took < Duration::from_secs(5), "{took:?}");
    for stuck in stuck {
        stuck.await.unwrap();
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

#[tokio::test]
async fn what_is_held_is_bounded_and_given_back() {
    const MIB: usize = 1 << 20;
    let budget = MemoryBudget::new(16 * MIB, 0);
    for _ in 0..3 {
        let deadline = Deadline::new(None, None).within(budget.clone());
        deadline
            .run(async {
                let mut held = Held::new();
                held.add(6 * MIB).unwrap();
                let mut more = Held::new();
                assert!(matches!(more.add(9 * MIB), Err(Interruption::Memory(_))));
                drop(more);
                assert!(matches!(step(1), Err(Interruption::Memory(_))));
                held.add(6 * MIB).unwrap();
                assert!(budget.used() >= 12 * MIB - 20_000);
            })
            .await;
        assert_eq!(budget.used(), 0);
    }
}

#[tokio::test]
async fn what_is_kept_lasts_as_long_as_the_operation_and_the_answer_longer() {
    const MIB: usize = 1 << 20;
    let budget = MemoryBudget::new(16 * MIB, 0);
    let deadline = Deadline::new(None, None).within(budget.clone());
    let operation = async {
        keep(3 * MIB).unwrap();
        Held::new().add(MIB).unwrap();
        let mut answer = Grant::new(Purpose::Replies, 0);
        cover(&mut answer, MIB).unwrap();
        tokio::task::yield_now().await;
        assert!((4 * MIB..5 * MIB).contains(&budget.used()), "{budget:?}");
        leave_to_answer(answer);
    };
    let ((), answer) = deadline.run_for_answer(operation).await;
    assert!(answer.as_ref().unwrap().covered() >= MIB);
    assert!(budget.used() < 2 * MIB, "{budget:?}");
    drop(answer);
    assert_eq!(budget.used(), 0);
}
