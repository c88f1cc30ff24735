//! Advice on a container's partition key from the load of the last seconds, as text.
//!
//! `tessera advise` compares possible keys by the data alone; this judges the present key by its
//! requests.

use serde::Serialize;
use tessera_core::insight::Insight;
use tessera_core::throughput::PARTITION_MAX_RUS;

/// Below this many request units per second there is no advice.
const ENOUGH_LOAD: f64 = 10.0;
/// A partition may have this many times its even part before the load counts as uneven.
const EVEN: f64 = 1.5;
/// From this part of all load on a single key is the reason.
const HOT_KEY: f64 = 0.2;

/// How well the key spreads the load.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct Advice {
    verdict: Verdict,
    /// Request units per second of such load at which a partition would first be throttled.
    first_throttled_at: Option<f64>,
    /// The most request units per second of such load with any number of partitions, which the
    /// hottest key limits.
    never_beyond: Option<f64>,
    words: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    Unknown,
    Good,
    Uneven,
    HotKey,
}

impl Advice {
    /// Judges the load of the last seconds.
    pub(crate) fn of(insight: &Insight) -> Self {
        let rates = || {
            insight
                .partitions
                .iter()
                .map(|it| it.request_units_per_second)
        };
        let load: f64 = rates().sum();
        if load < ENOUGH_LOAD {
            return Self {
                verdict: Verdict::Unknown,
                first_throttled_at: None,
                never_beyond: None,
                words: "Too little load in the last seconds to say anything.".to_owned(),
            };
        }
        let partitions = rates().map(|_| 1.0).sum::<f64>();
        let hottest = rates().fold(0.0, f64::max) / load;
        let key = insight.hot_keys.first();
        let share = key.map_or(0.0, |key| key.share);
        let most = f64::from(PARTITION_MAX_RUS);
        let budgets = insight.partitions.iter().filter_map(|it| it.budget);
        let budget = budgets.reduce(f64::min).unwrap_or(most);
        let verdict = if share >= HOT_KEY {
            Verdict::HotKey
        } else if hottest > EVEN / partitions {
            Verdict::Uneven
        } else {
            Verdict::Good
        };
        let key = key.map_or("", |key| key.key.as_str());
        let words = match verdict {
            Verdict::HotKey => format!(
                "The key '{key}' has {:.0} % of the load, and one key is always in one partition: \
                 choose a partition key with more values, or add something to this one.",
                share * 100.0
            ),
            Verdict::Uneven => format!(
                "The hottest of {partitions} partitions has {:.0} % of the load, with no single \
                 key to blame: split it, or choose a key with more values.",
                hottest * 100.0
            ),
            Verdict::Good | Verdict::Unknown => "The load is spread evenly.".to_owned(),
        };
        Self {
            verdict,
            first_throttled_at: Some(budget / hottest),
            never_beyond: (share > 0.0).then(|| most / share),
            words,
        }
    }
}

#[cfg(test)]
mod tests {
    use tessera_core::insight::{HotKey, PartitionInsight};
    use tessera_core::name::ContainerName;
    use tessera_core::statistics::PartitionStatistics;
    use tessera_core::throughput::Charge;
    use tessera_core::write_set::Tally;

    use super::*;

    /// A container whose partitions spend these request units, and whose hottest key has this
    /// share.
    fn insight(rates: &[f64], share: f64) -> Insight {
        let partition = |(number, rate): (u32, &f64)| PartitionInsight {
            statistics: PartitionStatistics {
                partition: number,
                first: 0,
                last: 0,
                tally: Tally::default(),
            },
            budget: Some(1_000.0),
            request_units_per_second: *rate,
            normalised_consumption: None,
            charged: Charge::default(),
            requests: 0,
            throttled: 0,
        };
        Insight {
            name: ContainerName::new("a", "d", "c"),
            throughput: None,
            shared: None,
            max_partition_bytes: 0,
            max_logical_bytes: None,
            partitions: (0..).zip(rates).map(partition).collect(),
            hot_keys: vec![HotKey {
                key: "k".to_owned(),
                partition: 0,
                request_units_per_second: 0.0,
                error: 0.0,
                share,
            }],
            damage: None,
        }
    }

    #[test]
    fn load_is_judged_by_partitions_and_keys() {
        for (rates, share, verdict, at) in [
            (&[1.0, 2.0][..], 0.9, Verdict::Unknown, None),
            (&[100.0, 100.0], 0.1, Verdict::Good, Some(2_000.0)),
            (&[300.0, 100.0], 0.1, Verdict::Good, Some(4_000.0 / 3.0)),
            (
                &[300.0, 50.0, 50.0],
                0.1,
                Verdict::Uneven,
                Some(4_000.0 / 3.0),
            ),
            (
                &[300.0, 50.0, 50.0],
                0.5,
                Verdict::HotKey,
                Some(4_000.0 / 3.0),
            ),
        ] {
            let advice = Advice::of(&insight(rates, share));
            assert_eq!(advice.verdict, verdict, "{rates:?}");
            let near = |(a, b): (f64, f64)| (a - b).abs() < 0.001;
            assert_eq!(
                advice.first_throttled_at.is_some(),
                at.is_some(),
                "{rates:?}"
            );
            assert!(
                advice.first_throttled_at.zip(at).is_none_or(near),
                "{advice:?}"
            );
        }
        let advice = Advice::of(&insight(&[300.0, 100.0], 0.5));
        assert_eq!(advice.never_beyond, Some(20_000.0));
        assert!(advice.words.contains("'k' has 50 %"), "{}", advice.words);
    }
}
