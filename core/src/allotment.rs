//! Budgets that several servers share: how much of a partition's share this one may grant.
//!
//! Every second each server publishes its demand for each partition with provisioned throughput
//! through the engine: what it spent there, or more than the whole share where it had to throttle
//! requests. A server that wants less than an even part gets what it wants, and the others divide
//! the rest evenly. Together they grant one share, at the latest a second after a change. A server
//! counts as silent when its published demand has not changed for a while by the steady clock of
//! the server that reads it, so wall clocks that differ or are set have no effect. The embedded
//! engines have a single server and do none of this.

use std::collections::HashMap;

use bytes::Bytes;
use dashmap::DashMap;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::budget::Place;
use crate::engine::Scan;
use crate::error::{Error, Result};
use crate::key::{self, PartitionId, StorageId, system};
use crate::store::Store;
use crate::walk::Walk;

/// How long a silent server is still counted.
const COUNTED_MS: u64 = 5_000;
/// The demand of a server that has been silent for this long is removed.
const KEPT_MS: u64 = 60_000;
/// A demand larger than any share.
const EVERYTHING: u64 = u64::MAX;

/// The demand of each server for the budgets, as far as this one knows.
#[derive(Default)]
pub(crate) struct Allotments {
    places: DashMap<Place, Demand>,
}

/// The demands for one budget, in thousandths of request units.
#[derive(Default)]
struct Demand {
    /// What this server spent since it last published its demand.
    spent: u64,
    /// Whether it has throttled requests since then.
    held_back: bool,
    /// The demands of the other servers for a second, smallest first.
    others: SmallVec<[u64; 2]>,
}

impl Allotments {
    /// How much of a budget of `share` this server may grant in a second.
    pub(crate) fn of(&self, place: Place, share: u64) -> u64 {
        let demand = self.places.get(&place);
        demand.map_or(share, |demand| part(share, &demand.others))
    }

    pub(crate) fn spent(&self, place: Place, milli_units: u64) {
        let mut demand = self.places.entry(place).or_default();
        demand.spent = demand.spent.saturating_add(milli_units);
    }

    pub(crate) fn held_back(&self, place: Place) {
        self.places.entry(place).or_default().held_back = true;
    }

    /// The demand of this server, `passed_ms` after the last one.
    fn tell(&self, passed_ms: u64) -> Vec<(StorageId, PartitionId, u64)> {
        let mut wanted = Vec::new();
        self.places.retain(|(storage, partition), demand| {
            let wants = match std::mem::take(&mut demand.held_back) {
                true => EVERYTHING,
                false => demand.spent.saturating_mul(1_000) / passed_ms.max(1),
            };
            demand.spent = 0;
            if wants > 0 {
                wanted.push((*storage, *partition, wants));
            }
            wants > 0 || !demand.others.is_empty()
        });
        wanted
    }

    /// Records the demands of the other servers.
    fn hear(&self, mut others: HashMap<Place, SmallVec<[u64; 2]>>) {
        for mut demand in self.places.iter_mut() {
            demand.others = others.remove(demand.key()).unwrap_or_default();
            demand.others.sort_unstable();
        }
        for (place, mut wants) in others {
            wants.sort_unstable();
            self.places.entry(place).or_default().others = wants;
        }
    }
}

/// The part of `share` for a server with unlimited demand, beside others with these demands.
fn part(share: u64, others: &[u64]) -> u64 {
    let (mut left, mut takers) = (share, others.len() as u64 + 1);
    for wants in others {
        if *wants > left / takers {
            break;
        }
        left -= wants;
        takers -= 1;
    }
    left / takers
}

/// The published demand of one server.
#[derive(Serialize, Deserialize)]
struct Told {
    /// By its own steady clock. Others only compare it with the last one they read.
    at_ms: u64,
    wants: Vec<(StorageId, PartitionId, u64)>,
}

/// The exchange of demands between one server and the others.
#[derive(Default)]
pub(crate) struct Exchange {
    told_at_ms: u64,
    /// Whether a demand of this server is stored.
    is_told: bool,
    /// When each of the others last published something new, by key.
    heard: HashMap<Bytes, Heard>,
}

/// The latest demand of another server.
#[derive(Clone, Copy)]
struct Heard {
    /// By its clock; none if it cannot be read, as from another release.
    told_at_ms: Option<u64>,
    /// By the clock of this server.
    at_ms: u64,
}

impl Exchange {
    /// Publishes and reads the demands once.
    pub(crate) async fn round(&mut self, store: &Store) -> Result<()> {
        let Some(allotments) = store.budgets().allotments() else {
            return Ok(());
        };
        let now_ms = store.clock().steady_ms();
        let wants = allotments.tell(now_ms.saturating_sub(self.told_at_ms));
        self.told_at_ms = now_ms;
        let mut transaction = store.begin().await?;
        let mut others: HashMap<Place, SmallVec<[u64; 2]>> = HashMap::new();
        let mut forgotten = Vec::new();
        let own = own_key(store);
        let mut walk = Walk::new(&transaction, Scan::new(key::system_range(system::BUDGET)));
        while let Some(page) = walk.next().await? {
            for (key, value) in page {
                let told: Option<Told> = serde_json::from_slice(&value).ok();
                if key == own {
                    continue;
                }
                let told_at_ms = told.as_ref().map(|told| told.at_ms);
                let silent_ms = self.silent_ms(&key, told_at_ms, now_ms);
                if silent_ms > KEPT_MS {
                    forgotten.push(key);
                } else if let Some(told) = told.filter(|_| silent_ms <= COUNTED_MS) {
                    for (storage, partition, wants) in told.wants {
                        others.entry((storage, partition)).or_default().push(wants);
                    }
                }
            }
        }
        allotments.hear(others);
        // A server without an entry has left, or was removed by another server.
        self.heard
            .retain(|_, heard| now_ms.saturating_sub(heard.at_ms) <= 2 * KEPT_MS);
        for key in forgotten {
            transaction.writes.delete(key);
        }
        if !wants.is_empty() {
            let told = Told {
                at_ms: now_ms,
                wants,
            };
            let value =
                serde_json::to_vec(&told).map_err(|error| Error::Internal(error.to_string()))?;
            transaction.writes.put(own, value.into());
            self.is_told = true;
        } else if std::mem::take(&mut self.is_told) {
            transaction.writes.delete(own);
        }
        match transaction.commit().await {
            // Two servers removed the same third one.
            Ok(_) | Err(Error::Conflict) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// How long a server has published nothing new, as far as this one knows.
    fn silent_ms(&mut self, key: &Bytes, told_at_ms: Option<u64>, now_ms: u64) -> u64 {
        let new = Heard {
            told_at_ms,
            at_ms: now_ms,
        };
        let heard = self.heard.entry(key.clone()).or_insert(new);
        if heard.told_at_ms != told_at_ms {
            *heard = new;
        }
        now_ms.saturating_sub(heard.at_ms)
    }

    /// Withdraws the demand of this server.
    pub(crate) async fn leave(self, store: &Store) -> Result<()> {
        if self.is_told {
            let mut transaction = store.begin().await?;
            transaction.writes.delete(own_key(store));
            transaction.commit().await?;
        }
        Ok(())
    }
}

fn own_key(store: &Store) -> Bytes {
    key::system_key(system::BUDGET, &store.instance().to_be_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_wants_less_than_an_even_part_leaves_the_rest_to_the_others() {
        for (others, expected) in [
            (&[][..], 900),
            (&[EVERYTHING], 450),
            (&[100], 800),
            (&[450], 450),
            (&[500], 450),
            (&[100, EVERYTHING], 400),
            (&[100, 200], 600),
            (&[EVERYTHING, EVERYTHING], 300),
            (&[0, 0], 900),
        ] {
            assert_eq!(part(900, others), expected, "{others:?}");
        }
        assert_eq!(part(0, &[EVERYTHING]), 0);
    }

    #[test]
    fn what_is_told_is_a_rate_and_told_once() {
        let allotments = Allotments::default();
        allotments.spent((1, 0), 300);
        allotments.spent((1, 0), 200);
        allotments.held_back((1, 1));
        let mut told = allotments.tell(2_000);
        told.sort_unstable();
        assert_eq!(told, [(1, 0, 250), (1, 1, EVERYTHING)]);
        assert_eq!(allotments.tell(1_000), []);
        assert!(allotments.places.is_empty());
    }

    #[test]
    fn silence_is_measured_by_who_listens() {
        let mut exchange = Exchange::default();
        let (one, other) = (Bytes::from_static(b"1"), Bytes::from_static(b"2"));
        // Their clocks may differ by an hour or a day: a changed demand counts.
        for (round, skew) in [0, 3_600_000, 86_400_000, u64::MAX / 2]
            .into_iter()
            .enumerate()
        {
            let now_ms = 1_000_000 + 1_000 * round as u64;
            assert_eq!(exchange.silent_ms(&one, Some(skew), now_ms), 0);
            assert_eq!(
                exchange.silent_ms(&other, None, now_ms),
                1_000 * round as u64,
                "nothing new"
            );
        }
        assert_eq!(
            exchange.silent_ms(&one, Some(u64::MAX / 2), 1_009_000),
            6_000
        );
        assert_eq!(exchange.silent_ms(&one, Some(5), 1_009_000), 0);
    }

    #[test]
    fn what_others_want_counts_until_they_want_nothing() {
        let allotments = Allotments::default();
        assert_eq!(allotments.of((1, 0), 1_000), 1_000);
        allotments.hear(HashMap::from([((1, 0), SmallVec::from_slice(&[300]))]));
        assert_eq!(allotments.of((1, 0), 1_000), 700);
        assert_eq!(allotments.of((1, 1), 1_000), 1_000);
        assert_eq!(allotments.tell(1_000), []);
        assert_eq!(allotments.of((1, 0), 1_000), 700);
        allotments.hear(HashMap::new());
        assert_eq!(allotments.of((1, 0), 1_000), 1_000);
    }
}
