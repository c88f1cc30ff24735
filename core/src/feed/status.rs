//! How feeds fare: how far they reach back, what they take, who follows them and how far behind.

use super::definition::{FeedId, Images};
use super::keys;
use super::position::Position;
use super::registry::{self, FeedEntry};
use super::segments::SegmentTable;
use super::stamp::Stamp;
use super::time;
use super::waking::FeedConsumer;
use crate::engine::{Scan, Settled};
use crate::error::{Error, Result};
use crate::name::ContainerName;
use crate::store::Store;
use crate::transaction::Transaction;

/// One feed.
#[derive(Clone, Debug)]
pub struct FeedStatus {
    /// Its number.
    pub feed: FeedId,
    /// The container, or its last name. Without a container the scope that is followed as a whole.
    pub name: ContainerName,
    /// Whether changes are added to it.
    pub is_on: bool,
    /// Whether it stays on though nobody follows.
    pub is_kept: bool,
    /// Which bodies its entries carry.
    pub images: Images,
    /// For how long changes are kept.
    pub retention_ms: u64,
    /// For how long they are kept by what was said of this feed; as all feeds are, if none.
    pub own_retention_ms: Option<u64>,
    /// Since when it has all changes: milliseconds since 1970.
    pub since_ms: Option<u64>,
    /// Roughly what it takes.
    pub bytes: u64,
    /// When somebody followed it last, on any server.
    pub followed_ms: Option<u64>,
    /// Who follows it on this server.
    pub consumers: Vec<ConsumerStatus>,
}

/// Somebody who follows a feed on this server.
#[derive(Clone, Debug)]
pub struct ConsumerStatus {
    /// How it reads, in the words of its front end.
    pub manner: &'static str,
    /// Since when: milliseconds since 1970.
    pub since_ms: u64,
    /// For how long the first change that it has not read has been waiting; 0 if there is none.
    pub lag_ms: u64,
}

/// How far commits can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SettledStatus {
    /// Whether commits were answered that no reader is told yet.
    pub is_behind: bool,
    /// How old the newest commit is that can be told, if later ones cannot be.
    pub lag_ms: u64,
}

impl Store {
    /// All feeds there are.
    pub async fn feed_statuses(&self) -> Result<Vec<FeedStatus>> {
        let transaction = self.begin().await?;
        let feeds = registry::entries(&transaction).await?;
        drop(transaction);
        let consumers = self.feeds().consumers();
        let mut statuses = Vec::with_capacity(feeds.len());
        for (feed, entry) in feeds {
            statuses.push(self.status(feed, entry, &consumers).await?);
        }
        statuses.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(statuses)
    }

    /// One feed; none if nothing of it is left.
    pub async fn feed_status(&self, feed: FeedId) -> Result<Option<FeedStatus>> {
        let transaction = self.begin().await?;
        let entry = registry::entry(&transaction, feed).await?;
        drop(transaction);
        let consumers = self.feeds().consumers();
        match entry {
            Some(entry) => self.status(feed, entry, &consumers).await.map(Some),
            None => Ok(None),
        }
    }

    /// How far commits can be told now.
    pub async fn settled_status(&self) -> Result<SettledStatus> {
        let transaction = self.begin().await?;
        let settled = transaction.snapshot.settled().await?;
        let is_behind = settled.through < settled.newest;
        let lag_ms = match is_behind {
            true => {
                let told = time::last_mark(&transaction, settled.through).await?;
                told.map_or(0, |told| transaction.now_ms.saturating_sub(told.wall_ms))
            }
            false => 0,
        };
        Ok(SettledStatus { is_behind, lag_ms })
    }

    async fn status(
        &self,
        feed: FeedId,
        entry: FeedEntry,
        consumers: &[FeedConsumer],
    ) -> Result<FeedStatus> {
        let bytes = self.engine().approximate_size(&keys::all_of(feed)).await?;
        let mut transaction = self.begin().await?;
        let settled = transaction.snapshot.settled().await?;
        let definition = match transaction.container(&entry.name).await {
            Ok(container) => container.definition.feed.clone(),
            Err(Error::NotFound(_) | Error::Corrupt(_)) => None,
            Err(error) => return Err(error),
        };
        let definition = definition.filter(|feed_now| feed_now.number == feed);
        let table = SegmentTable::read(&transaction, feed, settled.through).await?;
        let floor = registry::floor(&transaction, feed).await?;
        let begun_ms = table.events.first().map(|begun| begun.control.wall_ms);
        let since_ms = match floor == Stamp::START {
            true => begun_ms,
            false => time::last_mark(&transaction, floor)
                .await?
                .map(|mark| mark.wall_ms),
        };
        let followed_ms = registry::seen_ms(&transaction, feed).await?;
        let mut followers = Vec::new();
        for consumer in consumers.iter().filter(|consumer| consumer.feed == feed) {
            let place = (feed, table.as_ref());
            let lag_ms = self.lag(&transaction, place, consumer, settled).await?;
            followers.push(ConsumerStatus {
                manner: consumer.manner,
                since_ms: consumer.since_ms,
                lag_ms,
            });
        }
        Ok(FeedStatus {
            feed,
            is_on: entry.ended_ms.is_none(),
            is_kept: definition.as_ref().is_some_and(|feed| feed.is_kept),
            images: definition.map_or_else(Images::default, |feed| feed.images),
            retention_ms: self.retention_ms(Some(&entry)),
            own_retention_ms: entry.retention_ms,
            since_ms,
            bytes,
            followed_ms,
            consumers: followers,
            name: entry.name,
        })
    }

    /// For how long the first change behind a consumer's position has been there.
    async fn lag(
        &self,
        transaction: &Transaction,
        (feed, table): (FeedId, &SegmentTable),
        consumer: &FeedConsumer,
        settled: Settled,
    ) -> Result<u64> {
        let after = consumer.position.unwrap_or(Position::START).stamp;
        let through = settled.through;
        let mut prefixes = vec![keys::directory(feed)];
        let open = table.segments.iter().filter(|it| it.goes_beyond(after));
        prefixes.extend(open.map(|segment| keys::of(feed, segment.id)));
        let mut first: Option<Stamp> = None;
        for prefix in prefixes {
            if after >= through {
                break;
            }
            let mut scan = Scan::new(keys::between(&prefix, after, through));
            (scan.keys_only, scan.max_rows) = (true, 1);
            let page = transaction.scan_keys(&scan).await?;
            let found = page.entries.first().and_then(|(key, _)| keys::parse(key));
            let found = found.map(|(_, _, stamp)| stamp);
            first = [first, found].into_iter().flatten().min();
        }
        let Some(first) = first else {
            return Ok(0);
        };
        let clock = self.feed_clock(first, first).await?;
        let time_ms = clock.time_of(first).seconds * 1_000;
        Ok(transaction.now_ms.saturating_sub(time_ms))
    }
}
