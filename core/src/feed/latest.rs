//! The latest versions of items: read from the items themselves, and then of those that the feed
//! says were changed.
//!
//! An entry of the feed is told as the item is now, and only if it is the item's last one: of those
//! before, and of items that are gone, nothing is left to tell. So no entry needs to carry a body,
//! and each version is told once. While the items themselves are read, one that changes may be told
//! twice, once as found and once when its entry comes.

use std::collections::HashMap;
use std::sync::Arc;

use super::changes::{ChangesPage, PageBounds, Told, ToldChange, ends_of_commits, is_over};
use super::changes_token::{ChangesToken, Stage};
use super::control::{Event, building};
use super::reader::{Change, FeedItem, FeedPage};
use super::record::{ChangeKind, ChangeRecord};
use super::registry;
use super::segments::{Placed, SegmentTable, Term};
use crate::container::Container;
use crate::continuation::Continuation;
use crate::engine::Settled;
use crate::error::{Error, Result};
use crate::item::Item;
use crate::locator::{Locator, RowKind};
use crate::ranges::token_of;
use crate::reading::{PageRequest, Span};
use crate::store::Store;
use crate::throughput::Charge;
use crate::transaction::Transaction;

/// How many items are looked up at once, in whole transactions.
const LOOK_UP: usize = 64;

/// By how much the clocks of servers may differ.
const CLOCK_SKEW_US: u64 = 60 * 1_000_000;

impl Store {
    /// A page of the items there are.
    pub(super) async fn read_items(
        &self,
        token: &ChangesToken,
        bounds: PageBounds,
    ) -> Result<ChangesPage> {
        let Stage::Items {
            since_version,
            behind,
            then,
        } = &token.stage
        else {
            return Err(Error::Internal("no items are to be read".into()));
        };
        let mut transaction = self.begin().await?;
        let container = current(&mut transaction, token).await?;
        let begun = container.map(|container| {
            let continuation = rest(&container, token, behind.as_ref());
            (container, continuation)
        });
        let Some((container, Some(continuation))) = begun else {
            return Ok(nothing(token.at(*then, 0)));
        };
        let request = PageRequest {
            max_items: bounds.max_changes,
            max_bytes: bounds.max_bytes,
            continuation,
            ..PageRequest::default()
        };
        let (first, last) = token.range;
        let span = Span::Tokens(first, last);
        let found = transaction.scan(&container, &span, &request).await?;
        let term = term_of(&container);
        let is_asked =
            |item: &Item| item.locator.kind == RowKind::Row && item.version >= *since_version;
        let behind = |key| ChangesToken {
            stage: Stage::Items {
                since_version: *since_version,
                behind: Some((container.storage(), key)),
                then: *then,
            },
            ..token.clone()
        };
        let items = found.items.into_iter().filter(is_asked);
        let changes = items.map(|item| ToldChange {
            term: Arc::clone(&term),
            token: Some(behind(container.item_key(&item.locator))),
            told: Told::Latest(Box::new(item)),
        });
        Ok(ChangesPage {
            changes: changes.collect(),
            token: match found.continuation {
                Some(continuation) => behind(continuation.last_key),
                None => token.at(*then, 0),
            },
            has_more: true,
            is_pending: false,
            is_over: false,
            charge: transaction.bill.meter.charge(),
        })
    }

    /// What a page of the feed says of the items as they are now.
    pub(super) async fn latest_versions(
        &self,
        token: &ChangesToken,
        page: FeedPage,
        not_before_ms: u64,
        bounds: PageBounds,
    ) -> Result<ChangesPage> {
        let mut transaction = self.begin().await?;
        let settled = transaction.snapshot.settled().await?;
        if let Some(again) = moved_since(&transaction, token, &page, settled).await? {
            return Ok(nothing(again));
        }
        let container = current(&mut transaction, token).await?;
        let mut told = Telling {
            token,
            changes: Vec::new(),
            bytes: 0,
            lasts: lasts(&page.items),
            at: 0,
        };
        let ends = ends_of_commits(&page.items);
        let mut begins = 0;
        let mut cut = None;
        for end in 0..page.items.len() {
            let is_full = end + 1 - begins >= LOOK_UP || end + 1 == page.items.len();
            if !is_full || ends.get(end) != Some(&true) {
                continue;
            }
            let commits = page.items.get(begins..=end).unwrap_or_default();
            let ends = ends.get(begins..=end).unwrap_or_default();
            told.tell(&mut transaction, container.as_deref(), commits, ends)
                .await?;
            begins = end + 1;
            if told.bytes >= bounds.max_bytes && begins < page.items.len() {
                cut = commits.last().map(|last| last.position);
                break;
            }
        }
        let charge = page.meter.charge() + transaction.bill.meter.charge();
        let changes = told.changes;
        Ok(ChangesPage {
            is_over: is_over(&changes),
            changes,
            token: token.at(cut.unwrap_or(page.position), not_before_ms),
            has_more: page.has_more || cut.is_some(),
            is_pending: page.is_pending,
            charge,
        })
    }
}

/// The changes of a page as they are told.
struct Telling<'a> {
    token: &'a ChangesToken,
    changes: Vec<ToldChange>,
    bytes: usize,
    /// The last entry of each item in the page.
    lasts: HashMap<Locator, usize>,
    at: usize,
}

impl Telling<'_> {
    /// Tells some whole commits.
    async fn tell(
        &mut self,
        transaction: &mut Transaction,
        container: Option<&Container>,
        commits: &[FeedItem],
        ends: &[bool],
    ) -> Result<()> {
        let mut asked = Vec::new();
        for (place, item) in (self.at..).zip(commits) {
            if let Some(record) = remaining(item)
                && self.lasts.get(&record.locator) == Some(&place)
            {
                asked.push(record.locator.clone());
            }
        }
        let found = match container {
            Some(container) => transaction.read_many(container, &asked).await?,
            None => Vec::new(),
        };
        let found = found.into_iter().flatten();
        let mut found: HashMap<Locator, Item> =
            found.map(|item| (item.locator.clone(), item)).collect();
        let term = container.map(term_of);
        for ((place, item), is_end) in (self.at..).zip(commits).zip(ends) {
            let told = match &item.change {
                Change::Container(control) => Some(Told::Container(Arc::clone(control))),
                Change::Item(record) if self.lasts.get(&record.locator) == Some(&place) => found
                    .remove(&record.locator)
                    .filter(|found| found.version == record.version)
                    .map(|found| Told::Latest(Box::new(found))),
                Change::Item(_) => None,
            };
            if let Some(told) = told {
                self.push(item, told, term.as_ref());
            }
            if let (true, Some(last)) = (*is_end, self.changes.last_mut()) {
                // Also if the last entry of the commit itself is not told.
                last.token = Some(self.token.at(item.position, 0));
            }
        }
        self.at += commits.len();
        Ok(())
    }

    fn push(&mut self, item: &FeedItem, told: Told, now: Option<&Arc<Term>>) {
        // A body of now is read by the schema of now.
        let term = match (&told, now) {
            (Told::Latest(found), Some(now)) => {
                self.bytes += found.counted_bytes();
                Arc::clone(now)
            }
            _ => Arc::clone(&item.term),
        };
        self.changes.push(ToldChange {
            term,
            told,
            token: None,
        });
    }
}

/// The record of an item that may still be there.
fn remaining(item: &FeedItem) -> Option<&ChangeRecord> {
    let Change::Item(record) = &item.change else {
        return None;
    };
    let stays = matches!(
        record.kind,
        ChangeKind::Insert | ChangeKind::Replace | ChangeKind::Update
    );
    (stays && record.locator.kind == RowKind::Row).then_some(&**record)
}

/// Where in a page each item has its last entry.
fn lasts(items: &[FeedItem]) -> HashMap<Locator, usize> {
    let places = items.iter().enumerate();
    let records = places.filter_map(|(place, item)| match &item.change {
        Change::Item(record) => Some((record.locator.clone(), place)),
        Change::Container(_) => None,
    });
    records.collect()
}

/// A container that was placed anew since a page has its items elsewhere: then those that were
/// changed are found among all, and their changes go on behind that.
async fn moved_since(
    transaction: &Transaction,
    token: &ChangesToken,
    page: &FeedPage,
    settled: Settled,
) -> Result<Option<ChangesToken>> {
    let table = SegmentTable::read(transaction, token.feed, settled.through).await?;
    let is_move = |event: &&Placed| {
        event.control.event == Event::Relocated && event.position.stamp <= settled.through
    };
    let Some(last) = table.events.iter().rev().find(is_move) else {
        return Ok(None);
    };
    let last = last.position;
    let before = page.items.iter().filter(|item| item.position < last);
    let versions = before.filter_map(|item| remaining(item).map(|record| record.version));
    Ok(versions.min().map(|version| ChangesToken {
        stage: Stage::Items {
            since_version: version.saturating_sub(CLOCK_SKEW_US),
            behind: None,
            then: last,
        },
        ..token.clone()
    }))
}

/// The container whose changes are read, unless it is gone or its feed is another one.
async fn current(
    transaction: &mut Transaction,
    token: &ChangesToken,
) -> Result<Option<Arc<Container>>> {
    let entry = registry::entry(transaction, token.feed).await?;
    let lost = || Error::HistoryLost("this feed is not there any more");
    let name = entry.ok_or_else(lost)?.name;
    let container = match transaction.container(&name).await {
        Ok(container) => container,
        Err(Error::NotFound(_)) => return Ok(None),
        Err(error) => return Err(error),
    };
    let feed = container.definition.feed.as_ref();
    let is_same = feed.is_some_and(|feed| feed.number == token.feed);
    Ok(is_same.then_some(container))
}

/// Where in a container a reader of items goes on; none at its end. A storage that took the place
/// of the one before is read from its beginning.
fn rest(
    container: &Container,
    token: &ChangesToken,
    behind: Option<&(u64, bytes::Bytes)>,
) -> Option<Option<Continuation>> {
    let Some((_, key)) = behind.filter(|(storage, _)| *storage == container.storage()) else {
        return Some(None);
    };
    let reached = token_of(key)?;
    let (first, last) = token.range;
    if reached < first {
        return Some(None);
    }
    (reached <= last).then(|| {
        Some(Continuation {
            storage: container.storage(),
            reverse: false,
            last_key: key.clone(),
        })
    })
}

fn term_of(container: &Container) -> Arc<Term> {
    Arc::new(Term {
        name: container.name.clone(),
        schema: container.definition.schema.clone(),
        building: building(&container.definition),
    })
}

/// A page that only goes on elsewhere.
fn nothing(token: ChangesToken) -> ChangesPage {
    ChangesPage {
        changes: Vec::new(),
        token,
        has_more: true,
        is_pending: false,
        is_over: false,
        charge: Charge::default(),
    }
}
