//! Throughput shared by a database: the containers without their own spend it together.
//!
//! The database has as many shares as physical partitions would be needed for its throughput, each
//! an equal part of it and of the ring. Requests to one part of the ring are paid from one share,
//! whichever container they go to; so every container has at least that many partitions. Each
//! container's definition repeats the throughput of its database, so that no request looks it up.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::budget::Budget;
use crate::definition::Definition;
use crate::encoding::{flip_sign, put_bytes, take_bytes};
use crate::engine::{KeyRange, Scan};
use crate::error::{Error, Result};
use crate::key::{self, StorageId, system};
use crate::name::ContainerName;
use crate::partition_map::{Partition, middle};
use crate::provisioning::Throughput;
use crate::store::Store;
use crate::throughput::{Charge, partitions_for};
use crate::transaction::Transaction;
use crate::walk::Walk;

/// The most containers that share the throughput of a database, as in Cosmos DB.
pub(crate) const MAX_SHARED_CONTAINERS: usize = 25;

/// The shared throughput of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedThroughput {
    /// The number of its budgets, taken from the sequence of storage ids.
    pub(crate) pool: StorageId,
    /// The throughput of all together.
    pub throughput: Throughput,
}

impl SharedThroughput {
    /// The budget that pays the requests of a physical partition: the share of its middle.
    pub(crate) fn budget(&self, partition: &Partition) -> Budget {
        let units = self.throughput.units();
        let shares = partitions_for(Some(units));
        let position = u128::from(flip_sign(middle(partition.first, partition.last)));
        let share = (position * u128::from(shares)) >> u64::BITS;
        Budget {
            place: (self.pool, u32::try_from(share).unwrap_or(0)),
            share: Charge::from_milli_units(u64::from(units) * 1_000 / u64::from(shares)),
        }
    }
}

impl Store {
    /// Sets or removes the throughput that the containers of a database share. Containers with
    /// their own keep that; the others get the physical partitions that the shares need.
    pub async fn provision_database(
        &self,
        api: &str,
        database: &str,
        throughput: Option<Throughput>,
    ) -> Result<()> {
        let pool = self.take_storage_id().await?;
        let key = record_key(api, database);
        let all = ContainerName::new(api, database, "");
        self.run(&[], move |transaction| {
            let (key, all) = (key.clone(), all.clone());
            Box::pin(async move {
                let before = stored(transaction, &key).await?;
                if throughput.is_some() && before.is_none() {
                    check_room(transaction, &all).await?;
                }
                let pool = before.map_or(pool, |before| before.pool);
                match throughput.map(|throughput| SharedThroughput { pool, throughput }) {
                    Some(shared) => transaction.writes.put(key, encode(shared)?),
                    None => transaction.writes.delete(key),
                }
                Ok::<_, Error>(())
            })
        })
        .await?;
        for name in self.list_containers(api, Some(database)).await? {
            match self.share(&name).await {
                // It was dropped meanwhile, or cannot be read: then it spends nothing.
                Ok(()) | Err(Error::NotFound(_) | Error::Corrupt(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The throughput that a database shares among its containers.
    pub async fn database_throughput(
        &self,
        api: &str,
        database: &str,
    ) -> Result<Option<Throughput>> {
        let transaction = self.begin().await?;
        let shared = stored(&transaction, &record_key(api, database)).await?;
        Ok(shared.map(|shared| shared.throughput))
    }

    /// All databases with shared throughput: API, name, throughput.
    pub async fn database_throughputs(&self) -> Result<Vec<(String, String, Throughput)>> {
        let transaction = self.begin().await?;
        let range = KeyRange::prefix(key::system_key(system::SHARED_THROUGHPUT, &[]));
        let mut walk = Walk::new(&transaction, Scan::new(range));
        let mut found = Vec::new();
        while let Some(page) = walk.next().await? {
            for (key, record) in page {
                let unreadable = || Error::Corrupt("a database's name cannot be read".into());
                let (api, database) = parse_record_key(&key).ok_or_else(unreadable)?;
                found.push((api, database, decode(&record)?.throughput));
            }
        }
        Ok(found)
    }

    /// Writes the present throughput of a database to the definition of a container.
    async fn share(&self, name: &ContainerName) -> Result<()> {
        let altered = self.alter(name, |transaction, mut draft| {
            Box::pin(async move {
                draft.definition.shared = shared_in(transaction, &draft.name).await?;
                Ok(draft)
            })
        });
        altered.await?;
        self.split_for_throughput(name).await
    }
}

/// The shared throughput of a container's database. The commit depends on it, because a container
/// created during a change would miss it.
pub(crate) async fn shared_in(
    transaction: &mut Transaction,
    name: &ContainerName,
) -> Result<Option<SharedThroughput>> {
    let key = record_key(&name.api, &name.database);
    let shared = stored(transaction, &key).await?;
    transaction.writes.guard(key);
    Ok(shared)
}

/// Refuses one more container that shares the throughput of its database, if there are too many.
/// Two concurrent creations conflict, so that only one of them gets the last place.
pub(crate) async fn join(
    transaction: &mut Transaction,
    name: &ContainerName,
    shared: SharedThroughput,
) -> Result<()> {
    check_room(transaction, name).await?;
    let key = record_key(&name.api, &name.database);
    transaction.writes.put(key, encode(shared)?);
    Ok(())
}

async fn check_room(transaction: &Transaction, name: &ContainerName) -> Result<()> {
    let limit = transaction.store.catalog().max_shared_containers();
    let range = key::catalog_range(&name.api, Some(&name.database));
    let mut walk = Walk::new(transaction, Scan::new(range));
    let mut sharing = usize::from(!name.container.is_empty());
    while let Some(page) = walk.next().await? {
        for (key, value) in page {
            let other = key::parse_catalog(&key);
            let other = other.filter(|other| !other.container.is_empty() && other != name);
            let shares = || Definition::decode(&value).is_ok_and(|it| it.provisioned.is_none());
            if other.is_some() && shares() {
                sharing += 1;
            }
        }
    }
    if sharing <= limit {
        return Ok(());
    }
    Err(Error::Rejected(format!(
        "at most {limit} containers can share the throughput of database '{}'; give throughput of \
         their own to the others",
        name.database
    )))
}

/// Removes the shared throughput of a database, with the database.
pub(crate) fn forget(transaction: &mut Transaction, api: &str, database: &str) {
    transaction.writes.delete(record_key(api, database));
}

async fn stored(transaction: &Transaction, key: &[u8]) -> Result<Option<SharedThroughput>> {
    let record = transaction.get(key).await?;
    record.map(|record| decode(&record)).transpose()
}

fn decode(record: &[u8]) -> Result<SharedThroughput> {
    serde_json::from_slice(record)
        .map_err(|error| Error::Corrupt(format!("the throughput that a database shares: {error}")))
}

fn encode(shared: SharedThroughput) -> Result<Bytes> {
    let record = serde_json::to_vec(&shared).map_err(|error| Error::Internal(error.to_string()))?;
    Ok(record.into())
}

fn record_key(api: &str, database: &str) -> Bytes {
    let mut name = Vec::new();
    put_bytes(&mut name, api.as_bytes());
    put_bytes(&mut name, database.as_bytes());
    key::system_key(system::SHARED_THROUGHPUT, &name)
}

fn parse_record_key(key: &[u8]) -> Option<(String, String)> {
    let mut rest = key.strip_prefix(key::system_key(system::SHARED_THROUGHPUT, &[]).as_ref())?;
    let mut part = || String::from_utf8(take_bytes(&mut rest)?.into_owned()).ok();
    Some((part()?, part()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::partition_map::PartitionMap;

    #[test]
    fn partitions_of_one_part_of_the_ring_are_paid_from_one_share() {
        let shared = SharedThroughput {
            pool: 9,
            throughput: Throughput::Manual(30_000),
        };
        let shares = |map: &PartitionMap| -> Vec<u32> {
            map.iter().map(|it| shared.budget(it).place.1).collect()
        };
        assert_eq!(shares(&PartitionMap::equal(3)), [0, 1, 2]);
        assert_eq!(shares(&PartitionMap::equal(6)), [0, 0, 1, 1, 2, 2]);
        // As a container is divided that had one partition before: in halves, then one of them.
        let mut halved = PartitionMap::equal(2);
        halved.begin_split(1, middle(0, i64::MAX), (2, 3)).unwrap();
        halved.finish(&[1]).unwrap();
        assert_eq!(shares(&halved), [0, 1, 2]);
        let budget = shared.budget(halved.locate(0));
        assert_eq!(budget.share, Charge::from_milli_units(10_000_000));
        assert_eq!(budget.place.0, 9);
    }
}
