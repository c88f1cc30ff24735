//! Writing the feed: one entry for each change of an item, and one for each of a container, in the
//! commit that makes the change.
//!
//! Entries are appended to the write set, so savepoints, convoys and retries drop them with the
//! changes that they tell of.

use bytes::Bytes;

use super::control::{Control, Event, of_change};
use super::definition::{FeedDefinition, FeedId};
use super::keys;
use super::record::{Annotation, ChangeKind, ChangeRecord};
use super::registry;
use crate::catalog::Draft;
use crate::container::Container;
use crate::error::Result;
use crate::item::Item;
use crate::locator::Locator;
use crate::name::ContainerName;
use crate::store::Store;
use crate::transaction::Transaction;

/// What the next change of an item is, where the core cannot know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeHint {
    /// A replacing write changes parts of the item. These bytes say which; the model is asked if
    /// there are none.
    Update(Option<Bytes>),
    /// A removal is one of an item whose time was over.
    Expire,
    /// It is not a change of its own: an eviction, or part of an operation that is told of as one.
    Silent,
}

/// What a transaction knows of the feeds that it writes to.
#[derive(Default)]
pub(crate) struct FeedNotes {
    annotation: Option<Annotation>,
    hint: Option<ChangeHint>,
    /// The feeds with entries, and the scopes that follow each. Never fewer than there are: what is
    /// undone stays here.
    touched: Vec<(FeedId, Vec<FeedId>)>,
    /// A container that this transaction drops, and its schema.
    dropped: Option<(ContainerName, Bytes)>,
}

impl FeedNotes {
    /// Ends a statement: what it said is not true of the next one.
    pub(crate) fn end_statement(&mut self) {
        (self.annotation, self.hint) = (None, None);
    }

    fn touch(&mut self, feed: &FeedDefinition) {
        if !self.touched.iter().any(|(known, _)| *known == feed.number) {
            self.touched.push((feed.number, feed.scopes.clone()));
        }
    }
}

impl Transaction {
    /// Says whose statement the following changes belong to, until it is said anew.
    pub fn annotate(&mut self, annotation: Option<Annotation>) {
        if annotation.is_some() || self.feed.is_some() {
            self.feed_notes().annotation = annotation;
        }
    }

    /// Says what the next change of an item is. To be said only of a container that has a feed.
    pub fn hint_change(&mut self, hint: ChangeHint) {
        self.feed_notes().hint = Some(hint);
    }

    /// Notes an operation on many items of one logical partition, whose own changes are hinted to
    /// be silent.
    pub fn note_operation(&mut self, container: &Container, place: Locator, payload: Bytes) {
        let Some(feed) = &container.definition.feed else {
            return;
        };
        let version = self.store.clock().next_version(0);
        let record = self.record(ChangeKind::Operation, version, place);
        self.append_record(container, feed, &ChangeRecord { payload, ..record });
    }

    /// Notes a change of an item. Called by the one function that changes items.
    pub(crate) fn note_change(
        &mut self,
        container: &Container,
        feed: &FeedDefinition,
        old: Option<&Item>,
        new: Option<&Item>,
    ) -> Result<()> {
        let hint = self.feed_notes().hint.take();
        if hint == Some(ChangeHint::Silent) {
            return Ok(());
        }
        // An item that takes the place of one that nobody could see any more is new.
        let expired = old.filter(|old| old.is_expired(self.now_ms));
        if let Some(expired) = expired {
            self.note_one(container, feed, ChangeKind::Expire, (Some(expired), None))?;
            return match new {
                Some(_) => self.note_one(container, feed, ChangeKind::Insert, (None, new)),
                None => Ok(()),
            };
        }
        match (old, new) {
            (None, None) => Ok(()),
            (None, Some(_)) => self.note_one(container, feed, ChangeKind::Insert, (None, new)),
            (Some(_), None) => {
                let kind = match hint {
                    Some(ChangeHint::Expire) => ChangeKind::Expire,
                    _ => ChangeKind::Delete,
                };
                self.note_one(container, feed, kind, (old, None))
            }
            (Some(_), Some(_)) => match hint {
                Some(ChangeHint::Update(Some(payload))) => {
                    let update = (ChangeKind::Update, payload);
                    self.note_with(container, feed, update, (old, new));
                    Ok(())
                }
                Some(ChangeHint::Update(None)) => {
                    self.note_one(container, feed, ChangeKind::Update, (old, new))
                }
                _ => self.note_one(container, feed, ChangeKind::Replace, (old, new)),
            },
        }
    }

    fn note_one(
        &mut self,
        container: &Container,
        feed: &FeedDefinition,
        kind: ChangeKind,
        (old, new): (Option<&Item>, Option<&Item>),
    ) -> Result<()> {
        let payload = match (kind, new) {
            (ChangeKind::Insert | ChangeKind::Replace, Some(new)) => new.body.clone(),
            _ => container
                .model
                .change(&container.definition, kind, old, new)?,
        };
        self.note_with(container, feed, (kind, payload), (old, new));
        Ok(())
    }

    fn note_with(
        &mut self,
        container: &Container,
        feed: &FeedDefinition,
        (kind, payload): (ChangeKind, Bytes),
        (old, new): (Option<&Item>, Option<&Item>),
    ) {
        let Some(item) = new.or(old) else {
            return;
        };
        let body = |item: Option<&Item>| item.map(|item| item.body.clone());
        let mut record = self.record(kind, item.version, item.locator.clone());
        let images = feed.recorded();
        record.payload = payload;
        record.before = body(old).filter(|_| images.before);
        record.after = match kind {
            // The payload is just that.
            ChangeKind::Insert | ChangeKind::Replace => None,
            _ => body(new).filter(|_| images.after),
        };
        self.append_record(container, feed, &record);
    }

    fn record(&self, kind: ChangeKind, version: u64, locator: Locator) -> ChangeRecord {
        let notes = self.feed.as_deref();
        ChangeRecord {
            kind,
            wall_ms: self.now_ms,
            version,
            locator,
            payload: Bytes::new(),
            before: None,
            after: None,
            note: notes.and_then(|notes| notes.annotation.clone()),
        }
    }

    fn append_record(
        &mut self,
        container: &Container,
        feed: &FeedDefinition,
        record: &ChangeRecord,
    ) {
        let partition = container.partitions.locate(record.locator.token).id;
        let prefix = keys::segment(feed.number, container.storage(), partition, feed.term);
        self.feed_notes().touch(feed);
        self.writes.append(prefix, record.encode());
    }

    /// Notes a change of the catalog, if it concerns a feed.
    pub(crate) fn note_definition(
        &mut self,
        existing: Option<&Container>,
        draft: Option<&mut Draft>,
    ) -> Result<()> {
        if let (Some(existing), None) = (existing, &draft) {
            let schema = existing.definition.schema.clone();
            self.feed_notes().dropped = Some((existing.name.clone(), schema));
        }
        let Some((feed, mut control)) = of_change(existing, draft, self.now_ms) else {
            return Ok(());
        };
        let dropped = self.feed_notes().dropped.as_ref();
        let replaced = dropped.filter(|(name, _)| *name == control.name);
        if control.event == Event::Renamed {
            control.replaced = replaced.map(|(_, schema)| schema.to_vec());
        }
        if control.event == Event::Created {
            // Created and changed in one transaction: only what it ends as counts.
            let prefix = keys::control(feed.number);
            self.writes
                .retain_appended(|appended| appended.prefix != prefix);
        }
        registry::note(self, &feed, &control)?;
        self.append_control(&feed, &control)
    }

    pub(crate) fn append_control(
        &mut self,
        feed: &FeedDefinition,
        control: &Control,
    ) -> Result<()> {
        self.feed_notes().touch(feed);
        self.writes
            .append(keys::control(feed.number), control.encode()?);
        Ok(())
    }

    fn feed_notes(&mut self) -> &mut FeedNotes {
        self.feed.get_or_insert_default()
    }

    /// Tells the scopes of the feeds that have entries, and answers what to wake after the commit.
    pub(crate) fn finish_feed(&mut self) -> Option<Box<Wakes>> {
        let notes = self.feed.take()?;
        if self.writes.appended().is_empty() {
            return None;
        }
        let mut wakes: Vec<FeedId> = notes.touched.iter().map(|(feed, _)| *feed).collect();
        let mut directory: Vec<(FeedId, Vec<u8>)> = Vec::new();
        for (feed, scopes) in &notes.touched {
            for scope in scopes {
                let number = feed.to_be_bytes();
                match directory.iter_mut().find(|(known, _)| known == scope) {
                    Some((_, feeds)) => feeds.extend_from_slice(&number),
                    None => directory.push((*scope, number.to_vec())),
                }
            }
        }
        for (scope, feeds) in directory {
            self.writes.append(keys::directory(scope), feeds.into());
            wakes.push(scope);
        }
        let store = self.store.clone();
        Some(Box::new(Wakes {
            store,
            feeds: wakes,
        }))
    }
}

/// Who is to be told after a commit.
pub(crate) struct Wakes {
    store: Store,
    feeds: Vec<FeedId>,
}

impl Wakes {
    pub(crate) fn tell(self) {
        self.store.feeds().wake(&self.feeds);
        self.store.engine().hint_log();
    }
}
