//! Budgets: how many request units a physical partition still has.
//!
//! A partition has an even share of the container's provisioned throughput, anew each second. A
//! request is admitted while anything is left and pays afterwards, when its cost is known, so one
//! that costs more than a second's share leaves a debt. A debt refuses requests for at most
//! [`REFUSED_SECONDS`]: the rest is in arrears and paid in instalments, of half of each second's
//! share and of what a second leaves unused, so that small requests are still served. All of it is
//! paid in the end. While the arrears are large ([`ARREARS_SECONDS`]), further debts are paid at
//! once; otherwise a partition could spend more than its throughput without bound. Lowering the
//! throughput of a container does not enlarge its debts: they keep their part of a second.
//!
//! Seconds are those of [`Clock::steady_ms`]: a wall clock that is set gives and takes nothing.
//! Containers that share the throughput of their database share these budgets too:
//! `crate::sharing`; and so do servers that share an engine: `crate::allotment`.
//!
//! Two settings change that ([`Throttling`]): bursts, in which a partition spends what it left
//! unused before, and patience, for which a request waits for throughput instead of being refused.

use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use dashmap::{DashMap, Entry};
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
/// From this many budgets on, unused ones are removed.
const MANY: usize = 10_000;
/// Unused shares of this many seconds are kept for bursts.
const KEPT_SECONDS: u64 = 300;
/// A debt makes a partition refuse everything for at most this many seconds, the one in which it
/// arose included.
const REFUSED_SECONDS: u64 = 2;
/// Shares of this many seconds may be in arrears before further debts are paid at once.
const ARREARS_SECONDS: u64 = 10;
/// The most that a burst spends in a second, its share included.
const BURST_MILLI_UNITS: u64 = 3_000_000;

/// A physical partition, or a share of what a database shares.
pub(crate) type Place = (StorageId, PartitionId);

/// The budget that requests are paid from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Budget {
    /// The key of the budget.
    pub(crate) place: Place,
    /// Its share of a second.
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

/// Why a partition has no throughput left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shortage {
    /// The partition's share of a second.
    pub share: Charge,
    /// The cost of the request that it is still paying off; none if only this second's share is
    /// used up.
    pub request: Option<Charge>,
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let share = self.share.request_units();
        match self.request.map(Charge::request_units) {
            None => write!(
                f,
                "the partition's {share:.0} RU/s for this second are used up"
            ),
            Some(request) => write!(
                f,
                "the partition has {share:.0} RU/s and is paying off a request of {request:.0} RU"
            ),
        }
    }
}

/// A request that is not admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Refusal {
    retry_after: Duration,
    shortage: Shortage,
}

/// What the partitions with provisioned throughput have spent.
pub(crate) struct Budgets {
    clock: Clock,
    throttling: Throttling,
    /// The demands of other servers on the same engine; none if there cannot be any.
    allotments: Option<Allotments>,
    spent: DashMap<Place, Spent>,
    /// The number of budgets: counting them in the map would lock all its shards.
    known: AtomicUsize,
    /// The second in which idle ones were last removed.
    swept: AtomicU64,
}

/// What one partition spent and has not paid back yet, in thousandths of request units.
#[derive(Clone, Copy, Debug)]
struct Spent {
    /// Spent of the current second and of later ones.
    milli_units: u64,
    /// The arrears, which it pays in instalments.
    arrears: u64,
    /// The cost of the latest request above a second's share.
    costly: u64,
    /// Unused throughput that it may still spend in bursts.
    saved: u64,
    /// The second up to which its shares are accounted for.
    second: u64,
    /// What this server may grant of it in one second.
    share: u64,
    /// Its provisioned share of one second.
    provisioned: u64,
}

impl Spent {
    fn new(second: u64, share: u64, provisioned: u64) -> Self {
        Self {
            milli_units: 0,
            arrears: 0,
            costly: 0,
            saved: 0,
            second,
            share,
            provisioned,
        }
    }

    /// Gives back the shares of the seconds that have passed, and keeps what they left if `burst`.
    fn refill(&mut self, now_ms: u64, burst: bool) {
        let second = now_ms / SECOND_MS;
        let passed = second.saturating_sub(self.second);
        if passed == 0 {
            return;
        }
        self.second = second;
        // The second that saw the spending may have been a burst; those after it saw none.
        let beyond = self.milli_units.saturating_sub(self.share);
        let from_savings = beyond.min(self.burst());
        self.saved -= from_savings;
        let owed = self.milli_units - from_savings;
        let given = self.share.saturating_mul(passed);
        self.milli_units = owed.saturating_sub(given);
        let unused = given.saturating_sub(owed);
        let unused = unused - self.pay_arrears(unused);
        if burst {
            let most = self.share.saturating_mul(KEPT_SECONDS);
            self.saved = self.saved.saturating_add(unused).min(most);
        }
        let left = self.share.saturating_sub(self.milli_units);
        self.milli_units += self.pay_arrears(left / 2);
    }

    /// Pays at most this much of the arrears and returns what was paid.
    fn pay_arrears(&mut self, most: u64) -> u64 {
        let paid = self.arrears.min(most);
        self.arrears -= paid;
        paid
    }

    /// Sets the share. What was spent of a larger share becomes the same fraction of a smaller one.
    fn set_share(&mut self, share: u64, provisioned: u64) {
        self.share = share;
        if provisioned < self.provisioned {
            for amount in [&mut self.milli_units, &mut self.arrears, &mut self.saved] {
                let scaled = u128::from(*amount) * u128::from(provisioned);
                let scaled = scaled / u128::from(self.provisioned);
                *amount = u64::try_from(scaled).unwrap_or(u64::MAX);
            }
        }
        self.provisioned = provisioned;
    }

    /// Records the cost of a request.
    fn spend(&mut self, milli_units: u64) {
        if milli_units > self.share {
            self.costly = milli_units;
        }
        self.milli_units = self.milli_units.saturating_add(milli_units);
        let most = self.share.saturating_mul(REFUSED_SECONDS);
        let most = most.saturating_add(self.burst());
        let beyond = self.milli_units.saturating_sub(most);
        if beyond == 0 {
            return;
        }
        let room = match self.arrears {
            0 => u64::MAX,
            arrears => {
                let limit = self.share.saturating_mul(ARREARS_SECONDS);
                limit.saturating_sub(arrears)
            }
        };
        let deferred = beyond.min(room);
        self.milli_units -= deferred;
        self.arrears = self.arrears.saturating_add(deferred);
    }

    /// The most that may be spent in one second beyond the share.
    fn burst(&self) -> u64 {
        self.saved.min(BURST_MILLI_UNITS.saturating_sub(self.share))
    }

    /// Why and for how long nothing is left; none if something is.
    fn refusal(&self, now_ms: u64) -> Option<Refusal> {
        let allowed = self.share.saturating_add(self.burst());
        let over = self.milli_units.checked_sub(allowed)?;
        let seconds = 1 + over / self.share.max(1);
        let at_ms = self
            .second
            .saturating_add(seconds)
            .saturating_mul(SECOND_MS);
        let has_debts = seconds > 1 || self.arrears > 0;
        Some(Refusal {
            retry_after: Duration::from_millis(at_ms.saturating_sub(now_ms)),
            shortage: Shortage {
                share: Charge::from_milli_units(self.share),
                request: (has_debts && self.costly > 0)
                    .then(|| Charge::from_milli_units(self.costly)),
            },
        })
    }

    fn is_settled(&self) -> bool {
        self.milli_units == 0 && self.arrears == 0
    }
}

impl Budgets {
    pub(crate) fn new(clock: Clock, throttling: Throttling, is_shared: bool) -> Self {
        Self {
            clock,
            throttling,
            allotments: is_shared.then(Allotments::default),
            spent: DashMap::new(),
            known: AtomicUsize::new(0),
            swept: AtomicU64::new(0),
        }
    }

    /// The agreement of the servers that share the budgets; none if only this server uses them.
    pub(crate) fn allotments(&self) -> Option<&Allotments> {
        self.allotments.as_ref()
    }

    /// Admits a request, or returns the time until something is left.
    fn admit(&self, place: Place, provisioned: u64) -> std::result::Result<(), Refusal> {
        let allotted = |allotments: &Allotments| allotments.of(place, provisioned);
        let share = self.allotments().map_or(provisioned, allotted);
        let now_ms = self.clock.steady_ms();
        if self.known.load(Relaxed) > MANY {
            self.forget_idle(now_ms);
        }
        let mut spent = match self.spent.entry(place) {
            Entry::Occupied(known) => known.into_ref(),
            Entry::Vacant(vacant) => {
                self.known.fetch_add(1, Relaxed);
                vacant.insert(Spent::new(now_ms / SECOND_MS, share, provisioned))
            }
        };
        spent.refill(now_ms, self.throttling.burst);
        if (spent.share, spent.provisioned) != (share, provisioned) {
            spent.set_share(share, provisioned);
        }
        spent.refusal(now_ms).map_or(Ok(()), |refusal| {
            if let Some(allotments) = self.allotments() {
                allotments.held_back(place);
            }
            Err(refusal)
        })
    }

    fn pay(&self, place: Place, milli_units: u64) {
        if let Some(allotments) = self.allotments() {
            allotments.spent(place, milli_units);
        }
        if let Some(mut spent) = self.spent.get_mut(&place) {
            spent.refill(self.clock.steady_ms(), self.throttling.burst);
            spent.spend(milli_units);
        }
    }

    /// Divides the debts and savings of `parents` among their heirs, so that a split or merge
    /// changes neither.
    pub(crate) fn hand_over(
        &self,
        storage: StorageId,
        parents: &[PartitionId],
        heirs: &[PartitionId],
    ) {
        let now_ms = self.clock.steady_ms();
        let parents = parents.iter().filter_map(|parent| {
            let (_, mut spent) = self.spent.remove(&(storage, *parent))?;
            self.known.fetch_sub(1, Relaxed);
            spent.refill(now_ms, self.throttling.burst);
            Some(spent)
        });
        let sum = parents.reduce(|one, other| Spent {
            milli_units: one.milli_units.saturating_add(other.milli_units),
            arrears: one.arrears.saturating_add(other.arrears),
            costly: one.costly.max(other.costly),
            saved: one.saved.saturating_add(other.saved),
            second: one.second.max(other.second),
            share: one.share.saturating_add(other.share),
            provisioned: one.provisioned.saturating_add(other.provisioned),
        });
        let count = u64::try_from(heirs.len()).unwrap_or(u64::MAX).max(1);
        for (sum, heir) in sum
            .into_iter()
            .flat_map(|sum| heirs.iter().map(move |heir| (sum, heir)))
        {
            let inherited = Spent {
                milli_units: sum.milli_units / count,
                arrears: sum.arrears / count,
                saved: sum.saved / count,
                share: sum.share / count,
                provisioned: sum.provisioned / count,
                ..sum
            };
            if self.spent.insert((storage, *heir), inherited).is_none() {
                self.known.fetch_add(1, Relaxed);
            }
        }
    }

    /// Removes unused budgets, at most once in a second.
    #[cold]
    fn forget_idle(&self, now_ms: u64) {
        let second = now_ms / SECOND_MS;
        if self.swept.swap(second, Relaxed) == second {
            return;
        }
        self.spent.retain(|_, spent| {
            spent.refill(now_ms, self.throttling.burst);
            let is_idle = spent.is_settled();
            if is_idle {
                self.known.fetch_sub(1, Relaxed);
            }
            !is_idle
        });
    }
}

/// Where a request waits for throughput.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waits {
    /// Where it asks for throughput.
    Here,
    /// After it has released its latches: it is refused, and [`Bill::take_turn`] says when to try
    /// again.
    Elsewhere,
}

/// A request that waits for throughput.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    /// When it may be admitted.
    pub(crate) at: Instant,
    /// When its patience ends.
    until: Instant,
}

/// The work and the debt of one transaction. It is paid when this is dropped, however the
/// transaction ends.
#[derive(Default)]
pub(crate) struct Bill {
    pub(crate) meter: Meter,
    /// Partitions with a budget that admitted the transaction, with the keys of their budgets.
    admitted: SmallVec<[(Place, Place); 1]>,
    /// The owner of those budgets.
    payee: Option<Store>,
    /// When its patience ends, if it has waited or does.
    until: Option<Instant>,
    /// When to try again, of one that does not wait where it asks.
    turn: Option<Turn>,
}

impl Bill {
    /// Asks a physical partition of `container` for admission, unless it was admitted before. Waits
    /// for its turn within the patience of the store, which counts for the transaction as a whole.
    pub(crate) async fn admit(
        &mut self,
        store: &Store,
        container: &Container,
        partition: &Partition,
        waits: Waits,
    ) -> Result<()> {
        let Some(budget) = container.budget(partition) else {
            return Ok(());
        };
        let place = (container.storage(), partition.id);
        if self.admitted.iter().any(|(admitted, _)| *admitted == place) {
            return Ok(());
        }
        let budgets = store.budgets();
        while let Err(refusal) = budgets.admit(budget.place, budget.share.milli_units()) {
            let waited = self.until.is_some();
            match (self.turn(refusal, budgets.throttling.patience), waits) {
                (Some(turn), Waits::Here) => {
                    self.until = Some(turn.until);
                    tokio::time::sleep_until(turn.at).await;
                    continue;
                }
                (Some(turn), Waits::Elsewhere) => self.turn = Some(turn),
                (None, _) => container.heat.throttled(partition.id),
            }
            return Err(Error::Throttled {
                retry_after: refusal.retry_after,
                waited,
                shortage: Box::new(refusal.shortage),
            });
        }
        self.admitted.push((place, budget.place));
        self.payee.get_or_insert_with(|| store.clone());
        Ok(())
    }

    /// When a refused request may try again, if its patience lasts that long.
    fn turn(&self, refusal: Refusal, patience: Duration) -> Option<Turn> {
        if patience.is_zero() {
            return None;
        }
        let now = Instant::now();
        let turn = Turn {
            at: now + refusal.retry_after,
            until: self.until.unwrap_or(now + patience),
        };
        (turn.at <= turn.until).then_some(turn)
    }

    /// When to try again, if it was refused and shall not wait where it asked.
    pub(crate) fn take_turn(&mut self) -> Option<Turn> {
        self.turn.take()
    }

    /// Continues with the rest of the patience of a request that has waited.
    pub(crate) fn has_waited(&mut self, turn: Turn) {
        self.until = Some(turn.until);
    }

    /// The work done, after paying for it.
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
        refused.map(|refusal| refusal.retry_after.as_millis())
    }

    fn words(budgets: &Budgets, share: u64) -> String {
        let refused = budgets.admit(PLACE, share).unwrap_err();
        refused.shortage.to_string()
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
        budgets.pay(PLACE, 2 * SHARE);
        assert_eq!(wait(&budgets), Some(2_000));
        clock.advance(1_900);
        assert_eq!(wait(&budgets), Some(100));
        clock.advance(100);
        assert_eq!(wait(&budgets), None);
    }

    /// Asks for `costs` in turn, every tenth of a second. Returns what was granted and the longest
    /// time without a grant, in milliseconds.
    fn saturate(budgets: &Budgets, clock: &Clock, costs: &[u64], seconds: u64) -> (u64, u64) {
        let (mut granted, mut refused, mut longest) = (0, 0, 0);
        let mut costs = costs.iter().cycle();
        for _ in 0..seconds * 10 {
            refused += 100;
            while budgets.admit(PLACE, SHARE).is_ok() {
                let cost = costs.next().unwrap();
                budgets.pay(PLACE, *cost);
                granted += cost;
                refused = 0;
            }
            longest = longest.max(refused);
            clock.advance(100);
        }
        (granted, longest)
    }

    #[test]
    fn one_large_request_is_paid_off_beside_small_ones() {
        for seconds in [3, 5, 10, 25, 100, 1_000] {
            let clock = Clock::manual(10_000);
            let budgets = budgets(&clock, false);
            assert_eq!(wait(&budgets), None);
            budgets.pay(PLACE, seconds * SHARE);
            let words = words(&budgets, SHARE);
            let large = seconds * SHARE / 1_000;
            assert_eq!(
                words,
                format!("the partition has 400 RU/s and is paying off a request of {large} RU")
            );
            // Until it is paid, and a while longer, small ones take what is granted.
            let duration = 2 * seconds + 20;
            let (granted, longest) = saturate(&budgets, &clock, &[1_000], duration);
            assert!(longest <= 2_000, "{seconds}: {longest}");
            let all = (granted + seconds * SHARE) as f64 / (duration * SHARE) as f64;
            assert!((0.98..1.02).contains(&all), "{seconds}: {all}");
        }
    }

    #[test]
    fn large_requests_that_keep_coming_get_no_more_than_there_is() {
        for costs in [
            &[SHARE / 2][..],
            &[3 * SHARE],
            &[7 * SHARE],
            &[40 * SHARE],
            &[20 * SHARE, 1_000, 1_000],
            &[1_000, 1_000, 1_000, 5 * SHARE],
        ] {
            let clock = Clock::manual(10_000);
            let budgets = budgets(&clock, false);
            let (granted, _) = saturate(&budgets, &clock, costs, 20_000);
            let all = granted as f64 / (20_000 * SHARE) as f64;
            assert!((0.999..1.005).contains(&all), "{costs:?}: {all}");
        }
    }

    #[test]
    fn unused_seconds_pay_arrears_whole() {
        let clock = Clock::manual(10_000);
        let budgets = budgets(&clock, true);
        assert_eq!(wait(&budgets), None);
        budgets.pay(PLACE, 12 * SHARE);
        clock.advance(12_000);
        let spent = |budgets: &Budgets| {
            assert_eq!(wait(budgets), None);
            *budgets.spent.get(&PLACE).unwrap()
        };
        assert!(spent(&budgets).is_settled());
        assert_eq!(spent(&budgets).saved, 0, "nothing was left over");
        clock.advance(3_000);
        assert_eq!(spent(&budgets).saved, 3 * SHARE);
    }

    #[test]
    fn lower_throughput_takes_nothing_from_the_seconds_that_follow() {
        for lowered in [SHARE, 2 * SHARE, 9 * SHARE, 25 * SHARE - 1, 100, 1] {
            let clock = Clock::manual(10_000);
            let budgets = budgets(&clock, false);
            budgets.admit(PLACE, 25 * SHARE).unwrap();
            budgets.pay(PLACE, 13 * SHARE);
            // 52 % of a second are used, of whichever there is.
            assert!(budgets.admit(PLACE, lowered).is_ok(), "{lowered}");
            budgets.pay(PLACE, lowered);
            let refused = budgets.admit(PLACE, lowered).unwrap_err();
            assert!(refused.retry_after.as_millis() <= 2_000, "{refused:?}");
            clock.advance(2_000);
            budgets.admit(PLACE, lowered).unwrap();
        }
        // Raised, it is paid off sooner.
        let clock = Clock::manual(10_000);
        let budgets = budgets(&clock, false);
        budgets.admit(PLACE, SHARE).unwrap();
        budgets.pay(PLACE, 30 * SHARE);
        assert!(budgets.admit(PLACE, 25 * SHARE).is_ok());
    }

    #[test]
    fn a_wall_clock_that_is_set_gives_and_takes_nothing() {
        const HOUR: i64 = 3_600_000;
        for step in [HOUR, -HOUR, 24 * HOUR, -24 * HOUR, 1, -1, -1_000_000 * HOUR] {
            let clock = Clock::manual(1_700_000_000_250);
            let budgets = budgets(&clock, true);
            assert_eq!(wait(&budgets), None);
            budgets.pay(PLACE, SHARE);
            assert_eq!(wait(&budgets), Some(750), "{step}");
            clock.set_wall(clock.now_ms().saturating_add_signed(step));
            assert_eq!(wait(&budgets), Some(750), "{step}");
            clock.advance(750);
            for _ in 0..5 {
                assert_eq!(wait(&budgets), None, "{step}");
                budgets.pay(PLACE, SHARE);
                assert_eq!(wait(&budgets), Some(1_000), "{step}");
                clock.set_wall(clock.now_ms().saturating_add_signed(step));
                clock.advance(1_000);
            }
        }
    }

    #[test]
    fn refusals_say_why() {
        let clock = Clock::manual(10_000);
        let budgets = budgets(&clock, false);
        for _ in 0..4 {
            assert_eq!(wait(&budgets), None);
            budgets.pay(PLACE, SHARE / 4);
        }
        assert_eq!(
            words(&budgets, SHARE),
            "the partition's 400 RU/s for this second are used up"
        );
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
        assert_eq!(budgets.known.load(Relaxed), 1);
        // The count stays right while budgets are added and removed.
        budgets.hand_over(1, &[0], &[5, 6, 7]);
        budgets.hand_over(1, &[5, 6], &[8]);
        assert_eq!(budgets.known.load(Relaxed), budgets.spent.len());
        // They are scanned once in a second however many are in use.
        for storage in 0..=2 * MANY as u64 {
            assert!(budgets.admit((storage, 0), SHARE).is_ok() || storage == 1);
            budgets.pay((storage, 0), SHARE);
        }
        assert!(budgets.spent.len() > 2 * MANY);
        assert_eq!(budgets.swept.load(Relaxed), 11);
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
        assert_eq!(wait(&budgets), Some(2_000));
        clock.advance(2_000);
        assert_eq!(wait(&budgets), None);
        assert!(budgets.spent.get(&PLACE).unwrap().arrears > 0);
        clock.advance(5_000);
        assert_eq!(wait(&budgets), None);
        assert!(budgets.spent.get(&PLACE).unwrap().is_settled());
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
                .map(|spent| spent.milli_units + spent.arrears)
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
