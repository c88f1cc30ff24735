//! One budget for many: what is taken comes back, nothing goes beyond, and waits end.

use std::sync::atomic::AtomicBool;

use proptest::prelude::*;

use super::*;

const MIB: usize = 1 << 20;

fn used(budget: &MemoryBudget, purpose: Purpose) -> usize {
    let mut taken = budget.taken();
    taken.find(|it| it.purpose == purpose).unwrap().used
}

#[test]
fn what_is_guaranteed_takes_nothing_and_chunks_are_taken_beyond() {
    let budget = MemoryBudget::new(16 * MIB, 0);
    let mut grant = Grant::new(Purpose::Values, 1_000);
    grant.cover(&budget, 1_000).unwrap();
    assert_eq!(budget.used(), 0);
    grant.cover(&budget, 1_001).unwrap();
    assert_eq!((budget.used(), grant.covered()), (CHUNK - 1_000, CHUNK));
    grant.cover(&budget, CHUNK).unwrap();
    assert_eq!(budget.used(), CHUNK - 1_000);
    grant.shrink(0);
    assert_eq!((budget.used(), grant.covered()), (0, 1_000));
    grant.cover(&budget, 3 * MIB).unwrap();
    drop(grant);
    assert_eq!((budget.used(), used(&budget, Purpose::Values)), (0, 0));
    assert!(budget.peak() >= 3 * MIB - 1_000);
}

#[test]
fn a_refusal_says_what_for_and_takes_nothing() {
    let budget = MemoryBudget::new(16 * MIB, 0);
    let held = budget.grant(Purpose::Transactions, 9 * MIB).unwrap();
    let refused = budget.grant(Purpose::Transactions, 2 * MIB).unwrap_err();
    assert!(refused.is_passing());
    assert!(refused.to_string().contains("transactions"), "{refused}");
    let refused = budget.grant(Purpose::Transactions, 11 * MIB).unwrap_err();
    assert!(!refused.is_passing());
    assert_eq!(budget.used(), 9 * MIB);
    let refusals: u64 = budget.taken().map(|taken| taken.refused).sum();
    assert_eq!(refusals, 2);
    drop(held);
    assert_eq!(budget.used(), 0);
}

/// Sorted cursors that nobody closes kept every body waiting once.
#[test]
fn none_but_what_must_be_takes_all_and_each_leaves_room_for_requests() {
    for purpose in Purpose::ALL {
        let budget = MemoryBudget::new(16 * MIB, 0);
        let mut held = Vec::new();
        while let Ok(grant) = budget.grant(purpose, MIB / 4) {
            held.push(grant);
        }
        let must_be = [Purpose::Connections, Purpose::Catalog].contains(&purpose);
        let is_request = purpose == Purpose::Requests;
        let begins = budget.grant(Purpose::Requests, MIB);
        assert_eq!(begins.is_ok(), !must_be && !is_request, "{purpose:?}");
        let goes_on = budget.grant(Purpose::Transactions, MIB);
        let is_same = purpose == Purpose::Transactions;
        assert_eq!(goes_on.is_ok(), !must_be && !is_same, "{purpose:?}");
        drop((begins, goes_on, held));
        assert_eq!(budget.used(), 0);
    }
}

#[test]
fn a_grant_changes_its_purpose_whole() {
    let budget = MemoryBudget::new(16 * MIB, 0);
    let grant = budget.grant(Purpose::Sorts, MIB).unwrap();
    let grant = grant.become_for(Purpose::Cursors);
    assert_eq!(used(&budget, Purpose::Sorts), 0);
    assert_eq!(used(&budget, Purpose::Cursors), MIB);
    drop(grant);
    assert!(budget.taken().all(|taken| taken.used == 0));
}

#[test]
fn what_is_noted_leaves_less_to_others() {
    let budget = MemoryBudget::new(16 * MIB, 0);
    for bytes in [0, 5, 3 * MIB, MIB, 12 * MIB, 2 * MIB] {
        budget.note(Purpose::Catalog, bytes);
        assert_eq!(
            (budget.used(), used(&budget, Purpose::Catalog)),
            (bytes, bytes)
        );
        let rest = budget.grant(Purpose::Connections, 16 * MIB - bytes);
        assert!(budget.grant(Purpose::Connections, 1).is_err());
        drop(rest.unwrap());
    }
}

#[tokio::test]
async fn who_waits_gets_what_others_give_back() {
    let budget = MemoryBudget::new(16 * MIB, 0);
    let held = budget.grant(Purpose::Requests, 8 * MIB).unwrap();
    let got = Arc::new(AtomicBool::new(false));
    let waiting = tokio::spawn({
        let (budget, got) = (budget.clone(), Arc::clone(&got));
        async move {
            let mut grant = Grant::new(Purpose::Requests, 0);
            let longest = Duration::from_secs(20);
            let outcome = grant.wait_to_cover(&budget, 8 * MIB, longest).await;
            got.store(true, Ordering::SeqCst);
            outcome
        }
    });
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert!(!got.load(Ordering::SeqCst));
    drop(held);
    waiting.await.unwrap().unwrap();
    assert_eq!(budget.used(), 0);
}

#[tokio::test]
async fn a_wait_ends_and_is_none_where_it_would_be_in_vain() {
    let budget = MemoryBudget::new(16 * MIB, 0);
    let _held = budget.grant(Purpose::Requests, 8 * MIB).unwrap();
    let mut grant = Grant::new(Purpose::Requests, 0);
    let began = Instant::now();
    let longest = Duration::from_millis(30);
    let refused = grant.wait_to_cover(&budget, MIB, longest).await;
    assert!(refused.unwrap_err().is_passing());
    assert!(began.elapsed() >= longest);
    let began = Instant::now();
    let refused = grant.wait_to_cover(&budget, 9 * MIB, Duration::MAX).await;
    assert!(!refused.unwrap_err().is_passing());
    assert!(began.elapsed() < Duration::from_secs(10));
}

proptest! {
    #[test]
    fn no_order_of_takings_goes_beyond_or_loses_anything(
        steps in prop::collection::vec((0_usize..9, 0_usize..4, 0_usize..(4 * MIB)), 1..200),
    ) {
        let budget = MemoryBudget::new(16 * MIB, 0);
        let mut grants: Vec<Grant> = Vec::new();
        for (purpose, kind, bytes) in steps {
            match kind {
                0 => {
                    let mut grant = Grant::new(Purpose::ALL[purpose], 1_000);
                    let outcome = grant.cover(&budget, bytes);
                    prop_assert_eq!(outcome.is_ok(), grant.covered() >= bytes);
                    grants.push(grant);
                }
                1 => grants.extend(budget.grant(Purpose::ALL[purpose], bytes)),
                2 => if let Some(grant) = grants.first_mut() {
                    grant.shrink(bytes);
                }
                _ => drop(grants.pop()),
            }
            prop_assert!(budget.used() <= budget.limit());
            let each: usize = budget.taken().map(|taken| taken.used).sum();
            prop_assert_eq!(each, budget.used());
        }
        grants.clear();
        prop_assert_eq!(budget.used(), 0);
    }
}
