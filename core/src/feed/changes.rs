//! The changes of one container as Cosmos DB's change feed gives them.
//!
//! Two modes. *Latest version*: each item that changed, as it is now; nothing of what was
//! between, and nothing of items that are gone. It can begin before the feed was turned on, because
//! it then reads the items themselves. *All versions and deletes*: each change, as far back as the
//! feed goes.
//!
//! A reader follows a range of tokens, which no split or merge affects, and goes on behind a
//! [`ChangesToken`], which is all that there is of it between two pages. A page has whole
//! transactions.

use std::sync::Arc;

use super::changes_token::{ChangesToken, Stage};
use super::control::{Control, Event};
use super::definition::{FeedId, Images};
use super::policy::{FeedScope, FeedWish};
use super::position::Position;
use super::reader::{Change, FeedItem, FeedPage, FeedRequest};
use super::record::ChangeRecord;
use super::registry;
use super::segments::{SegmentTable, Term};
use super::stamp::Stamp;
use super::time;
use crate::error::{Error, Result};
use crate::item::Item;
use crate::locator::RowKind;
use crate::name::ContainerName;
use crate::store::Store;
use crate::throughput::Charge;

/// Which of the changes are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangesMode {
    /// The latest version of each item that changed.
    LatestVersion,
    /// Each change, also removals.
    AllVersions,
}

/// Where a reader begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangesStart {
    /// Latest version: with every item there is. All versions: with the oldest change that is kept.
    Beginning,
    /// With what was changed at this time: milliseconds since 1970.
    At(u64),
    /// With what is changed from now on.
    Now,
}

/// Tokens from the first to the last, both included: a part of a container that can be read on its
/// own.
pub type FeedRange = (i64, i64);

/// The whole container.
pub const WHOLE: FeedRange = (i64::MIN, i64::MAX);

/// Bounds of one page.
#[derive(Clone, Copy, Debug)]
pub struct PageBounds {
    /// At most about so many changes: the transaction that reaches it is the last.
    pub max_changes: usize,
    /// At most about so many bytes of them, likewise.
    pub max_bytes: usize,
}

/// What happened to an item, or how it is.
#[derive(Clone, Debug)]
pub enum Told {
    /// An item as it is now.
    Latest(Box<Item>),
    /// One of all versions.
    Version(Box<ChangeRecord>),
    /// The container changed.
    Container(Arc<Control>),
}

/// One change.
#[derive(Clone, Debug)]
pub struct ToldChange {
    /// What the container was then.
    pub term: Arc<Term>,
    /// What happened.
    pub told: Told,
    /// Where to go on behind it; none within a transaction, which is told as a whole.
    pub token: Option<ChangesToken>,
}

/// One page of changes.
#[derive(Clone, Debug)]
pub struct ChangesPage {
    /// What happened, in order.
    pub changes: Vec<ToldChange>,
    /// Where to go on.
    pub token: ChangesToken,
    /// Whether the next page is there at once.
    pub has_more: bool,
    /// Whether something was committed that is not complete yet.
    pub is_pending: bool,
    /// Whether nothing will ever follow.
    pub is_over: bool,
    /// What it cost.
    pub charge: Charge,
}

impl Store {
    /// Begins to read the changes of a container; turns its feed on if it is not.
    pub async fn begin_changes(
        &self,
        name: &ContainerName,
        mode: ChangesMode,
        start: ChangesStart,
        range: FeedRange,
    ) -> Result<ChangesToken> {
        let after = mode == ChangesMode::AllVersions;
        let wish = FeedWish {
            images: Images {
                before: false,
                after,
            },
            ..FeedWish::default()
        };
        let scope = FeedScope::Container(name.clone());
        let followed = self.follow(&scope, &wish).await?;
        let (feed, now) = (followed.feed, followed.position);
        let items_since = |since_version| Stage::Items {
            since_version,
            behind: None,
            then: now,
        };
        let stage = match (start, mode) {
            (ChangesStart::Now, _) => Stage::changes(now),
            (ChangesStart::Beginning, ChangesMode::LatestVersion) => items_since(0),
            (ChangesStart::Beginning, ChangesMode::AllVersions) => Stage::changes(Position::START),
            (ChangesStart::At(time_ms), mode) => match self.known_at(feed, time_ms).await? {
                Some(after) => Stage::Changes {
                    after: after.min(now),
                    not_before_ms: time_ms,
                },
                // Versions are microseconds.
                None if mode == ChangesMode::LatestVersion => {
                    items_since(time_ms.saturating_mul(1_000))
                }
                None => {
                    return Err(Error::HistoryLost(
                        "the changes of that time were not kept; begin with the oldest ones, \
                         or read the latest versions",
                    ));
                }
            },
        };
        Ok(ChangesToken {
            feed,
            mode,
            range,
            stage,
        })
    }

    /// The ranges in which a container is best read side by side: its physical partitions.
    pub async fn feed_ranges(&self, name: &ContainerName) -> Result<Vec<FeedRange>> {
        let container = self.begin().await?.container(name).await?;
        let partitions = container.partitions.iter();
        Ok(partitions.map(|it| (it.first, it.last)).collect())
    }

    /// The container whose changes a token reads, by its name now or its last one.
    pub async fn container_of_changes(&self, token: &ChangesToken) -> Result<ContainerName> {
        let transaction = self.begin().await?;
        let entry = registry::entry(&transaction, token.feed).await?;
        let gone = || Error::HistoryLost("this feed is not there any more");
        Ok(entry.ok_or_else(gone)?.name)
    }

    /// The next page of changes. [`Error::HistoryLost`] if what follows the token is not kept any
    /// more.
    pub async fn read_changes(
        &self,
        token: &ChangesToken,
        bounds: PageBounds,
    ) -> Result<ChangesPage> {
        // Looked up before: what ends meanwhile is not read yet.
        let transaction = self.begin().await?;
        let entry = registry::entry(&transaction, token.feed).await?;
        drop(transaction);
        let is_ended = entry.is_some_and(|entry| entry.ended_ms.is_some());
        let mut page = match &token.stage {
            Stage::Items { .. } => self.read_items(token, bounds).await?,
            Stage::Changes {
                after,
                not_before_ms,
            } => {
                let request = FeedRequest {
                    after: *after,
                    max_entries: bounds.max_changes,
                    max_bytes: bounds.max_bytes,
                    tokens: token.range,
                };
                let mut page = self.read_feed_whole(token.feed, &request).await?;
                let not_before_ms = leave_out_early(&mut page, *not_before_ms);
                match token.mode {
                    ChangesMode::AllVersions => all_versions(token, page, not_before_ms),
                    ChangesMode::LatestVersion => {
                        self.latest_versions(token, page, not_before_ms, bounds)
                            .await?
                    }
                }
            }
        };
        page.is_over |= is_ended && !page.has_more && !page.is_pending;
        Ok(page)
    }

    /// Behind which position all changes since a time are, if the feed has all of them.
    async fn known_at(&self, feed: FeedId, time_ms: u64) -> Result<Option<Position>> {
        let transaction = self.begin().await?;
        let settled = transaction.snapshot.settled().await?;
        let floor = registry::floor(&transaction, feed).await?;
        let table = SegmentTable::read(&transaction, feed, settled.through).await?;
        // What was committed behind the last mark of an earlier time.
        let mark = time::mark_at(&transaction, time_ms.saturating_sub(1)).await?;
        let position = mark.map_or(Position::START, |mark| Position::at(mark.stamp));
        let begun = match table.events.first() {
            // Before there was a container, nothing happened to it.
            Some(begun) if begun.control.event == Event::Created => Some(Position::START),
            Some(begun) => (begun.control.wall_ms <= time_ms).then_some(begun.position),
            None => None,
        };
        let is_kept = floor == Stamp::START || position.stamp >= floor;
        Ok(begun.filter(|_| is_kept).map(|begun| position.max(begun)))
    }
}

/// Leaves out what was changed before a time, up to the first change that was not. Answers from
/// which time on the next page is told: clocks of servers differ, so only the beginning is.
fn leave_out_early(page: &mut FeedPage, not_before_ms: u64) -> u64 {
    if not_before_ms == 0 {
        return 0;
    }
    let is_late = |item: &FeedItem| wall_ms(item) >= not_before_ms;
    match page.items.iter().position(is_late) {
        Some(first) => {
            page.items.drain(..first);
            0
        }
        None => {
            page.items.clear();
            not_before_ms
        }
    }
}

fn wall_ms(item: &FeedItem) -> u64 {
    match &item.change {
        Change::Item(record) => record.wall_ms,
        Change::Container(control) => control.wall_ms,
    }
}

fn all_versions(token: &ChangesToken, page: FeedPage, not_before_ms: u64) -> ChangesPage {
    let ends = ends_of_commits(&page.items);
    let mut changes: Vec<ToldChange> = Vec::with_capacity(page.items.len());
    for (item, is_end) in page.items.into_iter().zip(ends) {
        let told = match item.change {
            Change::Item(record) if record.locator.kind != RowKind::Row => None,
            Change::Item(record) => Some(Told::Version(record)),
            Change::Container(control) => Some(Told::Container(control)),
        };
        changes.extend(told.map(|told| ToldChange {
            term: item.term,
            told,
            token: None,
        }));
        if let (true, Some(last)) = (is_end, changes.last_mut()) {
            last.token = Some(token.at(item.position, 0));
        }
    }
    ChangesPage {
        is_over: is_over(&changes),
        changes,
        token: token.at(page.position, not_before_ms),
        has_more: page.has_more,
        is_pending: page.is_pending,
        charge: page.meter.charge(),
    }
}

/// Which entries are the last of their commits.
pub(super) fn ends_of_commits(items: &[FeedItem]) -> Vec<bool> {
    let commit = |item: &FeedItem| item.position.stamp.end_of_commit();
    let next = items.iter().skip(1).map(Some).chain([None]);
    let pairs = items.iter().zip(next);
    pairs
        .map(|(item, next)| next.is_none_or(|next| commit(next) != commit(item)))
        .collect()
}

/// Whether the container or its feed ended.
pub(super) fn is_over(changes: &[ToldChange]) -> bool {
    changes.last().is_some_and(
        |last| matches!(&last.told, Told::Container(control) if control.event.is_end()),
    )
}
