//! The keys of the feed: all are appended, so each ends with its stamp.
//!
//! | what | prefix | value |
//! |---|---|---|
//! | change of an item | `l` · feed · storage · partition · term | a record |
//! | change of a container | `l` · feed · 0 · 0 · 0 | a control |
//! | directory of a scope | `l` · scope · 0 · 1 · 0 | numbers of the feeds that a commit wrote to |
//! | clock mark | `l` · 0 · 0 · 0 · 0 | milliseconds since 1970 |
//!
//! Storages are numbered from 1.

use bytes::Bytes;

use super::control::SegmentId;
use super::definition::FeedId;
use super::stamp::Stamp;
use crate::encoding::{put_u32, put_u64, take_u32, take_u64};
use crate::engine::KeyRange;
use crate::key::{LOG, PartitionId, StorageId};

const PREFIX_LEN: usize = 1 + 8 + 8 + 4 + 4;

/// Where the changes of the items of one segment lie.
pub(crate) fn segment(
    feed: FeedId,
    storage: StorageId,
    partition: PartitionId,
    term: u32,
) -> Bytes {
    let mut out = Vec::with_capacity(PREFIX_LEN);
    out.push(LOG);
    put_u64(&mut out, feed);
    put_u64(&mut out, storage);
    put_u32(&mut out, partition);
    put_u32(&mut out, term);
    out.into()
}

/// The same, by its name.
pub(crate) fn of(feed: FeedId, segment: SegmentId) -> Bytes {
    self::segment(feed, segment.storage, segment.partition, segment.term)
}

/// Where the changes of a container itself lie.
pub(crate) fn control(feed: FeedId) -> Bytes {
    segment(feed, 0, 0, 0)
}

/// Where it lies which feeds of a scope were written to.
pub(crate) fn directory(scope: FeedId) -> Bytes {
    segment(scope, 0, 1, 0)
}

/// Where the clock marks lie.
pub(crate) fn clock() -> Bytes {
    segment(0, 0, 0, 0)
}

/// Everything of one feed.
pub(crate) fn all_of(feed: FeedId) -> KeyRange {
    let mut prefix = vec![LOG];
    put_u64(&mut prefix, feed);
    KeyRange::prefix(prefix)
}

/// The entries behind a stamp, up to and including another one.
pub(crate) fn between(prefix: &Bytes, after: Stamp, through: Stamp) -> KeyRange {
    let behind = |stamp: Stamp| {
        let mut key = prefix.to_vec();
        stamp.encode_into(&mut key);
        key.push(0);
        Bytes::from(key)
    };
    KeyRange::new(behind(after), behind(through))
}

/// The segment in a key of the feed.
pub(crate) fn parse(key: &[u8]) -> Option<(FeedId, SegmentId, Stamp)> {
    let (prefix, stamp) = Stamp::split(key)?;
    let mut input = prefix.strip_prefix(&[LOG])?;
    let feed = take_u64(&mut input)?;
    let segment = SegmentId {
        storage: take_u64(&mut input)?,
        partition: take_u32(&mut input)?,
        term: take_u32(&mut input)?,
    };
    input.is_empty().then_some((feed, segment, stamp))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_read_back_and_ranges_end_where_they_should() {
        let at = |version| Stamp::end_of(3, version);
        let key = |prefix: &Bytes, stamp: Stamp| [&prefix[..], &stamp.encode()].concat();
        let prefix = segment(7, 8, 9, 10);
        let id = SegmentId {
            storage: 8,
            partition: 9,
            term: 10,
        };
        assert_eq!(parse(&key(&prefix, at(1))), Some((7, id, at(1))));
        assert_eq!(of(7, id), prefix);
        assert_eq!(parse(&prefix), None);
        let range = between(&prefix, at(1), at(3));
        for (version, is_inside) in [(1, false), (2, true), (3, true), (4, false)] {
            assert_eq!(
                range.contains(&key(&prefix, at(version))),
                is_inside,
                "{version}"
            );
        }
        assert!(all_of(7).contains(&key(&control(7), at(0))));
        assert!(all_of(7).contains(&key(&prefix, at(0))));
        assert!(!all_of(7).contains(&key(&control(8), at(0))));
        assert!(!range.contains(&key(&segment(7, 8, 9, 11), at(2))));
    }
}
