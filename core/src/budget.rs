//! Budgets: how many request units a physical partition still has.
//!
//! A partition has its even share of what was provisioned for the container, each second anew. A
//! request is let in while anything is left, and pays afterwards, when it is known what it cost; so
//! one that costs more than a second's share leaves a debt that the next seconds pay. Containers
//! that share the throughput of their database share these budgets too: `crate::sharing`; and so do
//! servers that share an engine: `crate::allotment`.
//!
//! Two things may be asked for beside that ([`Throttling`]): bursts, in which a partition spends
//! what it left unused before, and patience, with which a request waits for its turn.

use std::time::Duration;

use dashmap::DashMap;
use smallvec::SmallVec;
use tokio::time::Instant;

use crate::allotment::Allotments;
use crate::clock::Clock;
use crate::container::Container;
use crate::error::{Error, Result};
use crate::key::{PartitionId, StorageId};
use crate::partition_map::Partition;
use crate::store::Store;
use crate::throughput::{Charge, Meter};

const SECOND_MS: u64 = 1_000;
/// More budgets than this are looked through for such as nobody uses any more.
const MANY: usize = 10_000;
/// Unused shares of so many seconds are kept for bursts.
const KEPT_SECONDS: u64 = 300;
/// A burst spends at most so much in a second, its share included.
const BURST_MILLI_UNITS: u64 = 3_000_000;

/// A physical partition, or a share of what a database shares.
pub(crate) type Place = (StorageId, PartitionId);

/// What requests are paid from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Budget {
    /// Under which it is kept.
    pub(crate) place: Place,
    /// What it has in a second.
    pub(crate) share: Charge,
}

/// How requests beyond their throughput are treated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Throttling {
    /// Whether a partition may spend what it left unused in the last 300 seconds, up to 3,000
    /// request units in a second.
    pub burst: bool,
    /// How long a request waits for throughput before it is refused.
    pub patience: Duration,
}

/// What the partitions with provisioned throughput have spent.
pub(crate) struct Budgets {
    clock: Clock,
    throttling: Throttling,
    /// What other servers on the same engine want; none if there cannot be any.
    allotments: Option<Allotments>,
    spent: DashMap<Place, Spent>,
}

/// What one partition spent and has not been given back yet.
#[derive(Clone, Copy, Debug)]
struct Spent {
    milli_units: u64,
    /// What it left unused and may still spend in bursts.
    saved: u64,
    /// The second, counted since 1970, up to which its shares are accounted for.
    second: u64,
    /// Its share of one second.
    share: u64,
}

impl Spent {
    /// Gives back the shares of the seconds that have passed, and keeps what they left if `burst`.
    fn refill(&mut self, now_ms: u64, burst: bool) {
        let second = now_ms / SECOND_MS;
        let passed = second.saturating_sub(self.second);
        if passed == 0 {
            return;
        }
        // The second that saw the spending may have been a burst; those after it saw none.
        let beyond = self.milli_units.saturating_sub(self.share);
        let from_savings = beyond.min(self.burst());
        self.saved -= from_savings;
        let owed = self.milli_units - from_savings;
        let given = self.share.saturating_mul(passed);
        self.milli_units = owed.saturating_sub(given);
        if burst {
            let unused = given.saturating_sub(owed);
            let most = self.share.saturating_mul(KEPT_SECONDS);
            self.saved = self.saved.saturating_add(unused).min(most);
        }
        self.second = second;
    }

    /// What may be spent in one second beyond the share.
    fn burst(&self) -> u64 {
        self.saved.min(BURST_MILLI_UNITS.saturating_sub(self.share))
    }

    /// How long until something is left again; none if something is.
    fn wait(&self, now_ms: u64) -> Option<Duration> {
        let allowed = self.share.saturating_add(self.burst());
        let over = self.milli_units.checked_sub(allowed)?;
        let seconds = 1 + over / self.share.max(1);
        let at_ms = self
            .second
            .saturating_add(seconds)
            .saturating_mul(SECOND_MS);
        Some(Duration::from_millis(at_ms.saturating_sub(now_ms)))
    }
}

impl Budgets {
    pub(crate) fn new(clock: Clock, throttling: Throttling, is_shared: bool) -> Self {
        Self {
            clock,
            throttling,
            allotments: is_shared.then(Allotments::default),
            spent: DashMap::new(),
        }
    }

    /// Whether a request may wait for throughput.
    pub(crate) fn has_patience(&self) -> bool {
        !self.throttling.patience.is_zero()
    }

    /// Where servers that share the budgets agree on them; none if they are of this server alone.
    pub(crate) fn allotments(&self) -> Option<&Allotments> {
        self.allotments.as_ref()
    }

    /// Lets a request in, or says how long it is until something is left.
    fn admit(&self, place: Place, share: u64) -> std::result::Result<(), Duration> {
        let allotted = |allotments: &Allotments| allotments.of(place, share);
        let share = self.allotments().map_or(share, allotted);
        let now_ms = self.clock.now_ms();
        self.forget_idle(now_ms);
        let mut spent = self.spent.entry(place).or_insert(Spent {
            milli_units: 0,
            saved: 0,
            second: now_ms / SECOND_MS,
            share,
        });
        spent.refill(now_ms, self.throttling.burst);
        spent.share = share;
        spent.wait(now_ms).map_or(Ok(()), |retry_after| {
            if let Some(allotments) = self.allotments() {
                allotments.held_back(place);
            }
            Err(retry_after)
        })
    }

    fn pay(&self, place: Place, milli_units: u64) {
        if let Some(allotments) = self.allotments() {
            allotments.spent(place, milli_units);
        }
        if let Some(mut spent) = self.spent.get_mut(&place) {
            spent.refill(self.clock.now_ms(), self.throttling.burst);
            spent.milli_units = spent.milli_units.saturating_add(milli_units);
        }
    }

    /// Divides what `parents` owe and saved among their heirs, so that a split or merge is neither
    /// a gift nor a loss.
    pub(crate) fn hand_over(
        &self,
        storage: StorageId,
        parents: &[PartitionId],
        heirs: &[PartitionId],
    ) {
        let parents = parents
            .iter()
            .filter_map(|parent| self.spent.remove(&(storage, *parent)));
        let sum = parents.map(|(_, spent)| spent).reduce(|one, other| Spent {
            milli_units: one.milli_units.saturating_add(other.milli_units),
            saved: one.saved.saturating_add(other.saved),
            second: one.second.max(other.second),
            share: one.share.saturating_add(other.share),
        });
        let count = u64::try_from(heirs.len()).unwrap_or(u64::MAX).max(1);
        for (sum, heir) in sum
            .into_iter()
            .flat_map(|sum| heirs.iter().map(move |heir| (sum, heir)))
        {
            let inherited = Spent {
                milli_units: sum.milli_units / count,
                saved: sum.saved / count,
                share: sum.share / count,
                ..sum
            };
            self.spent.insert((storage, *heir), inherited);
        }
    }

    fn forget_idle(&self, now_ms: u64) {
        if self.spent.len() > MANY {
            self.spent.retain(|_, spent| {
                spent.refill(now_ms, self.throttling.burst);
                spent.milli_units > 0
            });
        }
    }
}

/// What one transaction does and owes. It pays when it is dropped, however the transaction ends.
#[derive(Default)]
pub(crate) struct Bill {
    pub(crate) meter: Meter,
    /// Partitions with a budget that let the transaction in, and where that is kept.
    admitted: SmallVec<[(Place, Place); 1]>,
    /// Who keeps those budgets.
    payee: Option<Store>,
}

impl Bill {
    /// Asks a physical partition of `container` to be let in, unless it has done so before. Waits
    /// for its turn as long as the store has patience.
    pub(crate) async fn admit(
        &mut self,
        store: &Store,
        container: &Container,
        partition: &Partition,
    ) -> Result<()> {
        let Some(budget) = container.budget(partition) else {
            return Ok(());
        };
        let place = (container.storage(), partition.id);
        if self.admitted.iter().any(|(admitted, _)| *admitted == place) {
            return Ok(());
        }
        let budgets = store.budgets();
        let (mut deadline, mut waited) = (None, false);
        while let Err(retry_after) = budgets.admit(budget.place, budget.share.milli_units()) {
            let patience = budgets.throttling.patience;
            let deadline = *deadline.get_or_insert_with(|| Instant::now() + patience);
            if Instant::now() + retry_after > deadline {
                container.heat.throttled(partition.id);
                return Err(Error::Throttled {
                    retry_after,
                    waited,
                });
            }
            tokio::time::sleep(retry_after).await;
            waited = true;
        }
        self.admitted.push((place, budget.place));
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
            let mut admitted = self.admitted.iter();
            if let Some((_, budget)) = admitted.find(|(it, _)| *it == (*storage, *partition)) {
                store.budgets().pay(*budget, work.charge.milli_units());
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

    fn budgets(clock: &Clock, burst: bool) -> Budgets {
        let throttling = Throttling {
            burst,
            ..Throttling::default()
        };
        Budgets::new(clock.clone(), throttling, false)
    }

    fn wait(budgets: &Budgets) -> Option<u128> {
        let refused = budgets.admit(PLACE, SHARE).err();
        refused.map(|retry_after| retry_after.as_millis())
    }

    #[test]
    fn a_budget_is_there_again_in_the_next_second() {
        let clock = Clock::manual(10_250);
        let budgets = budgets(&clock, false);
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
        let budgets = budgets(&clock, false);
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
        let budgets = budgets(&clock, false);
        for storage in 0..=MANY as u64 {
            budgets.admit((storage, 0), SHARE).unwrap();
        }
        budgets.pay(PLACE, 5 * SHARE);
        clock.advance(1_000);
        assert!(wait(&budgets).is_some());
        assert_eq!(budgets.spent.len(), 1);
    }

    #[test]
    fn a_burst_spends_what_was_left_unused() {
        let clock = Clock::manual(10_000);
        let budgets = budgets(&clock, true);
        assert_eq!(wait(&budgets), None);
        // 400 RU/s unused for ten minutes: five of them are kept, 120,000 RU.
        clock.advance(600_000);
        // Of 3,000 RU spent in a second 2,600 come from there, which is enough for 46 seconds.
        for second in 0..46 {
            assert_eq!(wait(&budgets), None, "{second}");
            budgets.pay(PLACE, BURST_MILLI_UNITS);
            assert_eq!(wait(&budgets), Some(1_000), "{second}");
            clock.advance(1_000);
        }
        // The next one finds 400 RU of them left, and its debt is paid by the seconds that follow.
        assert_eq!(wait(&budgets), None);
        budgets.pay(PLACE, BURST_MILLI_UNITS);
        assert_eq!(wait(&budgets), Some(6_000));
        clock.advance(6_000);
        assert_eq!(wait(&budgets), None);
    }

    #[test]
    fn a_share_above_a_burst_is_spent_as_without() {
        let clock = Clock::manual(10_000);
        let budgets = budgets(&clock, true);
        let share = 2 * BURST_MILLI_UNITS;
        budgets.admit(PLACE, share).unwrap();
        clock.advance(60_000);
        budgets.admit(PLACE, share).unwrap();
        budgets.pay(PLACE, share);
        assert!(budgets.admit(PLACE, share).is_err());
    }

    #[test]
    fn heirs_take_debts_over() {
        let clock = Clock::manual(10_000);
        let budgets = budgets(&clock, false);
        let debt = |partition| {
            budgets
                .spent
                .get(&(1, partition))
                .map(|spent| spent.milli_units)
        };
        budgets.admit(PLACE, SHARE).unwrap();
        budgets.pay(PLACE, 5 * SHARE);
        budgets.hand_over(1, &[0], &[1, 2]);
        assert_eq!(
            (debt(0), debt(1), debt(2)),
            (None, Some(5 * SHARE / 2), Some(5 * SHARE / 2))
        );
        budgets.hand_over(1, &[1, 2], &[3]);
        assert_eq!(debt(3), Some(5 * SHARE));
        budgets.hand_over(1, &[7], &[8, 9]);
        assert_eq!(debt(8), None, "one that nobody asked owes nothing");
    }
}
