//! Insight: where the data and the load of a container lie, and which keys are hot.
//!
//! Sizes come from the tallies that writes keep; charges from [`heat`], which each operation
//! touches as it is charged. Nothing here is stored: a restart begins with cool partitions.

pub(crate) mod heat;
mod large_keys;
mod top_keys;
mod warnings;

use self::heat::{Heat, MINUTE};
pub use self::warnings::{Limit, Warning};
use crate::container::Container;
use crate::definition::Definition;
use crate::error::{Error, Result};
use crate::key::PartitionId;
use crate::limits::ContainerLimits;
use crate::name::ContainerName;
use crate::partition_map::PartitionMap;
use crate::provisioning::Throughput;
use crate::statistics::PartitionStatistics;
use crate::store::Store;
use crate::throughput::Charge;
use crate::write_set::Tally;

/// Keys in each list.
pub const LISTED_KEYS: usize = 10;
/// The present rate is the mean over this many seconds.
const RATE_SECONDS: u64 = 10;

/// The insight into one container.
#[derive(Clone, Debug)]
pub struct Insight {
    /// Its name.
    pub name: ContainerName,
    /// Its own provisioned throughput.
    pub throughput: Option<Throughput>,
    /// The provisioned throughput of its database, if it shares that.
    pub shared: Option<Throughput>,
    /// The most that one of its physical partitions may hold before it is split.
    pub max_partition_bytes: i64,
    /// The most that one of its logical partitions may hold.
    pub max_logical_bytes: Option<i64>,
    /// Its physical partitions, by first token.
    pub partitions: Vec<PartitionInsight>,
    /// The keys that cost most in the last seconds, the costliest first.
    pub hot_keys: Vec<HotKey>,
    /// Why its definition cannot be read, if it cannot: then nothing but a drop is possible.
    pub damage: Option<String>,
}

impl Insight {
    /// The insight into a container of which only the name is known.
    fn of_damaged(name: &ContainerName, limits: ContainerLimits, damage: String) -> Self {
        Self {
            name: name.clone(),
            throughput: None,
            shared: None,
            max_partition_bytes: limits.physical_bytes,
            max_logical_bytes: limits.logical_bytes,
            partitions: Vec::new(),
            hot_keys: Vec::new(),
            damage: Some(damage),
        }
    }
}

/// The insight into one physical partition.
#[derive(Clone, Copy, Debug)]
pub struct PartitionInsight {
    /// Its range, items and bytes.
    pub statistics: PartitionStatistics,
    /// Request units per second that it may spend; none without provisioned throughput.
    pub budget: Option<f64>,
    /// Request units per second that it spent lately.
    pub request_units_per_second: f64,
    /// The largest part of its budget that it spent in one second of the last minute: 1 is all.
    pub normalised_consumption: Option<f64>,
    /// All that it was charged since the server started.
    pub charged: Charge,
    /// Requests since the server started: one for each transaction that did something here.
    pub requests: u64,
    /// Requests that were throttled since the server started.
    pub throttled: u64,
}

/// A logical key with the cost of its requests.
#[derive(Clone, Debug, PartialEq)]
pub struct HotKey {
    /// The key as people write it.
    pub key: String,
    /// The physical partition it lies in.
    pub partition: PartitionId,
    /// Request units per second, over the same time as those of partitions.
    pub request_units_per_second: f64,
    /// By how much that may be too high.
    pub error: f64,
    /// Its part of all that the container was charged lately.
    pub share: f64,
}

/// A logical partition with its size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LargeKey {
    /// The key as people write it.
    pub key: String,
    /// The physical partition it lies in.
    pub partition: PartitionId,
    /// Its items and bytes.
    pub tally: Tally,
}

impl Store {
    /// The insight into a container at this moment, damaged ones included.
    pub async fn insight(&self, name: &ContainerName) -> Result<Insight> {
        let mut transaction = self.begin().await?;
        let container = match transaction.container(name).await {
            Err(Error::Corrupt(damage)) => {
                let limits = self.catalog().limits(&name.api);
                return Ok(Insight::of_damaged(name, limits, damage));
            }
            container => container?,
        };
        let second = self.clock().steady_ms() / 1_000;
        let statistics = transaction.statistics(&container).await?;
        let partitions: Vec<PartitionInsight> = statistics
            .into_iter()
            .map(|statistics| PartitionInsight::of(&container, statistics, second))
            .collect();
        let hot_keys = hot_keys(&container, &partitions, second);
        Ok(Insight {
            name: name.clone(),
            throughput: Throughput::of(&container.definition),
            shared: shared_throughput(&container.definition),
            max_partition_bytes: container.limits.physical_bytes,
            max_logical_bytes: container.limits.logical_bytes,
            partitions,
            hot_keys,
            damage: self.damage(name, &container.definition),
        })
    }

    /// The largest logical partitions of a container, the largest first; none where they are not
    /// counted. Where looking at the tallies of all of them takes long, they may be some seconds
    /// old.
    pub async fn largest_keys(&self, name: &ContainerName) -> Result<Vec<LargeKey>> {
        let mut transaction = self.begin().await?;
        let container = match transaction.container(name).await {
            // A damaged container: see `insight`.
            Err(Error::Corrupt(_)) => return Ok(Vec::new()),
            container => container?,
        };
        if !container.definition.counts_logical_partitions {
            return Ok(Vec::new());
        }
        container.heat.largest.of(&transaction, &container).await
    }
}

/// The share that a container has in its database's throughput: none if it has its own.
fn shared_throughput(definition: &Definition) -> Option<Throughput> {
    let shared = definition.shared.map(|shared| shared.throughput);
    shared.filter(|_| Throughput::of(definition).is_none())
}

impl PartitionInsight {
    fn of(container: &Container, statistics: PartitionStatistics, second: u64) -> Self {
        let partition = container.partitions.get(statistics.partition);
        let budget = partition.and_then(|partition| container.budget(partition));
        let budget = budget.map(|budget| budget.share.request_units());
        let mut insight = Self {
            statistics,
            budget,
            request_units_per_second: 0.0,
            normalised_consumption: budget.map(|_| 0.0),
            charged: Charge::default(),
            requests: 0,
            throttled: 0,
        };
        let Some(heat) = container.heat.partition(statistics.partition) else {
            return insight;
        };
        let recent: Charge = heat.seconds_before(second, RATE_SECONDS).sum();
        insight.request_units_per_second = recent.request_units() / RATE_SECONDS as f64;
        insight.normalised_consumption = budget.map(|budget| {
            let most = heat
                .seconds_before(second, MINUTE)
                .max()
                .unwrap_or_default();
            most.request_units() / budget
        });
        insight.charged = heat.total();
        insight.requests = heat.requests();
        insight.throttled = heat.refused();
        insight
    }
}

fn hot_keys(container: &Container, partitions: &[PartitionInsight], second: u64) -> Vec<HotKey> {
    let rates = partitions.iter().map(|it| it.request_units_per_second);
    let rate: f64 = rates.sum();
    let shares = container.heat.key_shares(second).into_iter();
    let key = |it: heat::KeyShare| HotKey {
        key: container.key_text(&it.key),
        partition: container.partitions.locate(it.token).id,
        request_units_per_second: it.share * rate,
        error: it.error * rate,
        share: it.share,
    };
    shares.take(LISTED_KEYS).map(key).collect()
}

/// The heat that a container begins with: that of the same storage before, if it is known. None if
/// insight is off.
pub(crate) fn inherit(
    before: Option<&Container>,
    partitions: &PartitionMap,
    is_wanted: bool,
) -> Heat {
    match before {
        Some(before) => before.heat.follow(&before.partitions, partitions),
        None if is_wanted => Heat::new(partitions),
        None => Heat::default(),
    }
}
