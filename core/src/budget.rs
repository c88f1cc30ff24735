//! Budgets: how many request units a physical partition still has.
//!
//! A partition has its even share of what was provisioned for the container, each second anew. A
//! request is let in while anything is left, and pays afterwards, when it is known what it cost; so
//! one that costs more than a second's share leaves a debt that the next seconds pay. Servers that
//! share an engine also share the budgets: `crate::allotment`.

use std::time::Duration;

use dashmap::DashMap;
use smallvec::SmallVec;

use crate::allotment::Allotments;
use crate::clock::Clock;
use crate::container::Container;
use crate::error::{Error, Result};
use crate::key::{PartitionId, StorageId};
use crate::store::Store;
use crate::throughput::Meter;

const SECOND_MS: u64 = 1_000;
/// More budgets than this are looked through for such as nobody uses any more.
const MANY: usize = 10_000;

/// A physical partition.
pub(crate) type Place = (StorageId, PartitionId);

/// What the partitions with provisioned throughput have spent.
pub(crate) struct Budgets {
    clock: Clock,
    /// What other servers on the same engine want; none if there cannot be any.
    allotments: Option<Allotments>,
    spent: DashMap<Place, Spent>,
}

/// What one partition spent and has not been given back yet.
#[derive(Clone, Copy, Debug)]
struct Spent {
    milli_units: u64,
    /// The second, counted since 1970, up to which its shares are accounted for.
    second: u64,
    /// Its share of one second.
    share: u64,
}

impl Spent {
    /// Gives back the shares of the seconds that have passed.
    fn refill(&mut self, now_ms: u64) {
        let second = now_ms / SECOND_MS;
        let passed = second.saturating_sub(self.second);
        if passed > 0 {
            self.milli_units = self
                .milli_units
                .saturating_sub(self.share.saturating_mul(passed));
            self.second = second;
        }
    }

    /// How long until something is left again; none if something is.
    fn wait(&self, now_ms: u64) -> Option<Duration> {
        let over = self.milli_units.checked_sub(self.share)?;
        let seconds = 1 + over / self.share.max(1);
        let at_ms = self
            .second
            .saturating_add(seconds)
            .saturating_mul(SECOND_MS);
        Some(Duration::from_millis(at_ms.saturating_sub(now_ms)))
    }
}

impl Budgets {
    pub(crate) fn new(clock: Clock, is_shared: bool) -> Self {
        Self {
            clock,
            allotments: is_shared.then(Allotments::default),
            spent: DashMap::new(),
        }
    }

    /// Where servers that share the budgets agree on them; none if they are of this server alone.
    pub(crate) fn allotments(&self) -> Option<&Allotments> {
        self.allotments.as_ref()
    }

    fn admit(&self, place: Place, share: u64) -> Result<()> {
        let allotted = |allotments: &Allotments| allotments.of(place, share);
        let share = self.allotments().map_or(share, allotted);
        let now_ms = self.clock.now_ms();
        self.forget_idle(now_ms);
        let mut spent = self.spent.entry(place).or_insert(Spent {
            milli_units: 0,
            second: now_ms / SECOND_MS,
            share,
        });
        spent.share = share;
        spent.refill(now_ms);
        match spent.wait(now_ms) {
            None => Ok(()),
            Some(retry_after) => {
                if let Some(allotments) = self.allotments() {
                    allotments.held_back(place);
                }
                Err(Error::Throttled { retry_after })
            }
        }
    }

    fn pay(&self, place: Place, milli_units: u64) {
        if let Some(allotments) = self.allotments() {
            allotments.spent(place, milli_units);
        }
        if let Some(mut spent) = self.spent.get_mut(&place) {
            spent.refill(self.clock.now_ms());
            spent.milli_units = spent.milli_units.saturating_add(milli_units);
        }
    }

    fn forget_idle(&self, now_ms: u64) {
        if self.spent.len() > MANY {
            self.spent.retain(|_, spent| {
                spent.refill(now_ms);
                spent.milli_units > 0
            });
        }
    }
}

/// What one transaction does and owes. It pays when it is dropped, however the transaction ends.
#[derive(Default)]
pub(crate) struct Bill {
    pub(crate) meter: Meter,
    /// Partitions with a budget that let the transaction in.
    admitted: SmallVec<[Place; 1]>,
    /// Who keeps those budgets.
    payee: Option<Store>,
}

impl Bill {
    /// Asks the partition `place` of `container` to be let in, unless it has done so before.
    pub(crate) fn admit(
        &mut self,
        store: &Store,
        container: &Container,
        place: Place,
    ) -> Result<()> {
        let Some(share) = container.share() else {
            return Ok(());
        };
        if self.admitted.contains(&place) {
            return Ok(());
        }
        let admitted = store.budgets().admit(place, share.milli_units());
        if let Err(Error::Throttled { .. }) = admitted {
            container.heat.throttled(place.1);
        }
        admitted?;
        self.admitted.push(place);
        self.payee.get_or_insert_with(|| store.clone());
        Ok(())
    }

    /// What was done, after paying for it.
    pub(crate) fn settle(mut self) -> Meter {
        self.pay();
        std::mem::take(&mut self.meter)
    }

    fn pay(&mut self) {
        let Some(store) = self.payee.take() else {
            return;
        };
        for (storage, partition, work) in self.meter.partitions() {
            let place = (*storage, *partition);
            if self.admitted.contains(&place) {
                store.budgets().pay(place, work.charge.milli_units());
            }
        }
    }
}

impl Drop for Bill {
    fn drop(&mut self) {
        self.pay();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: Place = (1, 0);
    const SHARE: u64 = 400_000;

    fn wait(budgets: &Budgets) -> Option<u128> {
        match budgets.admit(PLACE, SHARE) {
            Ok(()) => None,
            Err(Error::Throttled { retry_after }) => Some(retry_after.as_millis()),
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn a_budget_is_there_again_in_the_next_second() {
        let clock = Clock::manual(10_250);
        let budgets = Budgets::new(clock.clone(), false);
        assert_eq!(wait(&budgets), None);
        budgets.pay(PLACE, SHARE - 1);
        assert_eq!(wait(&budgets), None);
        budgets.pay(PLACE, 1);
        assert_eq!(wait(&budgets), Some(750));
        clock.advance(750);
        assert_eq!(wait(&budgets), None);
    }

    #[test]
    fn a_debt_is_paid_by_the_seconds_that_follow() {
        let clock = Clock::manual(10_000);
        let budgets = Budgets::new(clock.clone(), false);
        assert_eq!(wait(&budgets), None);
        budgets.pay(PLACE, 3 * SHARE + 5);
        assert_eq!(wait(&budgets), Some(3_000));
        clock.advance(2_900);
        assert_eq!(wait(&budgets), Some(100));
        clock.advance(100);
        assert_eq!(wait(&budgets), None);
    }

    #[test]
    fn idle_budgets_are_forgotten_and_others_are_not() {
        let clock = Clock::manual(10_000);
        let budgets = Budgets::new(clock.clone(), false);
        for storage in 0..=MANY as u64 {
            budgets.admit((storage, 0), SHARE).unwrap();
        }
        budgets.pay(PLACE, 5 * SHARE);
        clock.advance(1_000);
        assert!(wait(&budgets).is_some());
        assert_eq!(budgets.spent.len(), 1);
    }
}
