//! What happened to a container as a whole, and which segments hold its changes from then on.
//!
//! A segment is a physical partition during one *term*: as long as the container has the same name,
//! schema and images. All entries of a segment mean the same, so nothing has to be looked up as of
//! a moment in the past. Whatever changes that, or the partitions, closes segments and opens
//! others, in one entry of the same commit.

use serde::{Deserialize, Serialize};

use crate::catalog::Draft;
use crate::container::Container;
use crate::definition::{Definition, IndexState, UnknownFields};
use crate::error::{Error, Result};
use crate::key::{PartitionId, StorageId};
use crate::name::ContainerName;

use super::definition::{FeedDefinition, FeedId};

/// Names one segment of a feed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SegmentId {
    /// The storage of its items.
    pub storage: StorageId,
    /// Their physical partition.
    pub partition: PartitionId,
    /// The term.
    pub term: u32,
}

/// A segment that begins, and which tokens it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opening {
    /// Which.
    pub segment: SegmentId,
    /// The first token of its items.
    pub first: i64,
    /// The last one, included.
    pub last: i64,
}

/// What happened to a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// The feed of a container that was there begins.
    Begun,
    /// The container was created.
    Created,
    /// Its schema, its images or the state of its indexes changed.
    Altered,
    /// Only its physical partitions changed.
    Repartitioned,
    /// It has another name.
    Renamed,
    /// All its items are gone.
    Truncated,
    /// Its items are placed anew.
    Relocated,
    /// The container was dropped.
    Dropped,
    /// The feed ends, the container stays.
    Ended,
    /// The database of a scope was dropped.
    DatabaseDropped,
}

impl Event {
    /// Whether nothing of the feed follows.
    pub fn is_end(self) -> bool {
        matches!(self, Self::Dropped | Self::Ended)
    }
}

/// A change of a container, as it lies in the feed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Control {
    /// What happened.
    pub event: Event,
    /// When: milliseconds since 1970.
    pub wall_ms: u64,
    /// The container's name from then on, or its last one.
    pub name: ContainerName,
    /// The name before, if it was another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renamed_from: Option<ContainerName>,
    /// The schema of the container whose name it took, which was dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaced: Option<Vec<u8>>,
    /// The front end's schema from then on.
    #[serde(default)]
    pub schema: Vec<u8>,
    /// Indexes that are in the schema, and are still being built.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub building: Vec<String>,
    /// Segments that get no more entries.
    #[serde(default)]
    pub closes: Vec<SegmentId>,
    /// Segments that get entries from then on.
    #[serde(default)]
    pub opens: Vec<Opening>,
    #[serde(flatten)]
    unknown: UnknownFields,
}

impl Control {
    /// An event without segments.
    pub(crate) fn new(event: Event, wall_ms: u64, name: &ContainerName) -> Self {
        Self {
            event,
            wall_ms,
            name: name.clone(),
            renamed_from: None,
            replaced: None,
            schema: Vec::new(),
            building: Vec::new(),
            closes: Vec::new(),
            opens: Vec::new(),
            unknown: UnknownFields::default(),
        }
    }

    pub(crate) fn encode(&self) -> Result<bytes::Bytes> {
        let json = serde_json::to_vec(self).map_err(|error| Error::Internal(error.to_string()))?;
        Ok(json.into())
    }

    pub(crate) fn decode(stored: &[u8]) -> Result<Self> {
        let damaged = |error| Error::Corrupt(format!("a change of a container: {error}"));
        serde_json::from_slice(stored).map_err(damaged)
    }
}

/// The segments of a container, or of what it will be.
fn segments(draft: &Draft, feed: &FeedDefinition) -> Vec<Opening> {
    let partitions = draft.partitions.iter();
    let opening = partitions.map(|partition| Opening {
        segment: SegmentId {
            storage: draft.definition.storage,
            partition: partition.id,
            term: feed.term,
        },
        first: partition.first,
        last: partition.last,
    });
    opening.collect()
}

/// What a change of the catalog comes to in the feed that it concerns; none if in no feed. A draft
/// that begins another term is given its number here.
pub(crate) fn of_change(
    existing: Option<&Container>,
    draft: Option<&mut Draft>,
    wall_ms: u64,
) -> Option<(FeedDefinition, Control)> {
    let before = existing.map(Draft::of);
    let old = before
        .as_ref()
        .and_then(|it| Some((it, it.definition.feed.as_ref()?)));
    let Some(draft) = draft else {
        let (before, feed) = old?;
        let mut control = Control::new(Event::Dropped, wall_ms, &before.name);
        control.closes = segments(before, feed).iter().map(|it| it.segment).collect();
        return Some((feed.clone(), control));
    };
    let event = event(before.as_ref(), draft)?;
    if let (Some((_, old)), Some(feed)) = (old, &mut draft.definition.feed)
        && matches!(event, Event::Renamed | Event::Altered)
    {
        feed.term = old.term + 1;
    }
    let mut control = Control::new(event, wall_ms, &draft.name);
    let open = old.map_or_else(Vec::new, |(before, feed)| segments(before, feed));
    let wanted = match &draft.definition.feed {
        Some(feed) => segments(draft, feed),
        None => Vec::new(),
    };
    let closed = open.iter().filter(|it| !wanted.contains(it));
    control.closes = closed.map(|it| it.segment).collect();
    control.opens = wanted.into_iter().filter(|it| !open.contains(it)).collect();
    control.schema = draft.definition.schema.to_vec();
    control.building = building(&draft.definition);
    let renamed = before.as_ref().filter(|before| before.name != draft.name);
    control.renamed_from = renamed.map(|before| before.name.clone());
    let was = old.map(|(_, feed)| feed);
    let mut feed = draft.definition.feed.as_ref().or(was)?.clone();
    // Also to those who followed it where it was before.
    let left = was.map_or(&[][..], |was| was.scopes.as_slice());
    let gone: Vec<FeedId> = left
        .iter()
        .filter(|it| !feed.scopes.contains(it))
        .copied()
        .collect();
    feed.scopes.extend(gone);
    Some((feed, control))
}

/// The indexes that cannot be used yet.
pub(crate) fn building(definition: &Definition) -> Vec<String> {
    let indexes = definition.indexes.iter();
    let building = indexes.filter(|index| index.state != IndexState::Ready);
    building.map(|index| index.name.clone()).collect()
}

/// What a change is called; none if it does not concern a feed.
fn event(before: Option<&Draft>, after: &Draft) -> Option<Event> {
    let feed = after.definition.feed.as_ref();
    let Some(before) = before else {
        return feed.map(|_| Event::Created);
    };
    let (old, new) = (&before.definition, &after.definition);
    let (Some(was), Some(is)) = (&old.feed, feed) else {
        return match (&old.feed, feed) {
            (None, Some(_)) => Some(Event::Begun),
            (Some(_), None) => Some(Event::Ended),
            _ => None,
        };
    };
    if old.storage != new.storage {
        let target = before.target.as_ref().map(|(target, _)| target.storage);
        return Some(match target == Some(new.storage) {
            true => Event::Relocated,
            false => Event::Truncated,
        });
    }
    if before.name != after.name {
        return Some(Event::Renamed);
    }
    let is_same = old.schema == new.schema && was.recorded() == is.recorded();
    if !is_same || building(old) != building(new) {
        return Some(Event::Altered);
    }
    let shape = |draft: &Draft| -> Vec<(PartitionId, i64)> {
        let parts = draft.partitions.iter();
        parts
            .map(|partition| (partition.id, partition.first))
            .collect()
    };
    (shape(before) != shape(after)).then_some(Event::Repartitioned)
}

/// The numbers in a directory entry.
pub(crate) fn decode_directory(mut value: &[u8]) -> Option<Vec<FeedId>> {
    let mut feeds = Vec::with_capacity(value.len() / 8);
    while !value.is_empty() {
        feeds.push(crate::encoding::take_u64(&mut value)?);
    }
    Some(feeds)
}
