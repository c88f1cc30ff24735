//! The keys that a span covers, and the token with which a page of them begins.

use std::ops::Bound;

use bytes::Bytes;

use crate::container::Container;
use crate::encoding::take_i64;
use crate::engine::{KeyRange, prefix_successor};
use crate::key;
use crate::locator::RowKind;
use crate::reading::{IndexSpan, PageRequest, Span};

/// Prefix byte and storage id, which stand before the token in an item key.
const BEFORE_TOKEN: usize = 9;

/// The token in an item key, if the key goes that far.
pub(crate) fn token_of(key: &[u8]) -> Option<i64> {
    take_i64(&mut key.get(BEFORE_TOKEN..)?)
}

/// The token where a page of items begins: its partition must admit the request. Further partitions
/// that the page reaches are charged without admission.
pub(crate) fn first_token(range: &KeyRange, page: &PageRequest) -> Option<i64> {
    match &page.continuation {
        Some(continuation) => token_of(&continuation.last_key),
        None if page.reverse => range.end.as_deref().and_then(last_token_before),
        None => token_of(&range.start).or(Some(i64::MIN)),
    }
}

/// The last token of which an item may lie before `end`, if `end` goes as far as a token.
pub(crate) fn last_token_before(end: &[u8]) -> Option<i64> {
    let token = token_of(end)?;
    let ends_with_token = end.len() == BEFORE_TOKEN + size_of::<i64>();
    Some(if ends_with_token {
        token.saturating_sub(1)
    } else {
        token
    })
}

/// The keys of the items of a span.
pub(crate) fn item_range(container: &Container, span: &Span) -> KeyRange {
    let storage = container.storage();
    match span {
        Span::All => key::items(storage),
        Span::Tokens(first, last) => key::items_between(storage, *first, *last),
        Span::Partition {
            token,
            partition_key,
        } => key::logical_partition(storage, *token, partition_key),
        Span::Rows {
            token,
            partition_key,
            from,
            to,
        } => {
            let partition = key::logical_partition(storage, *token, partition_key);
            row_range(&partition, from, to)
        }
    }
}

fn row_range(partition: &KeyRange, from: &Bound<Bytes>, to: &Bound<Bytes>) -> KeyRange {
    let row = |row_key: &[u8], excluded: bool| {
        let mut key = partition.start.to_vec();
        key.push(RowKind::Row.byte());
        key.extend_from_slice(row_key);
        if excluded {
            // No key lies between a key and the same key with a zero behind.
            key.push(0);
        }
        Bytes::from(key)
    };
    KeyRange {
        start: match from {
            Bound::Included(row_key) => row(row_key, false),
            Bound::Excluded(row_key) => row(row_key, true),
            Bound::Unbounded => row(&[], false),
        },
        end: match to {
            Bound::Included(row_key) => Some(row(row_key, true)),
            Bound::Excluded(row_key) => Some(row(row_key, false)),
            Bound::Unbounded => partition.end.clone(),
        },
    }
}

/// The keys of the entries of an index that a span covers.
pub(crate) fn index_range(container: &Container, span: &IndexSpan) -> KeyRange {
    let (storage, index) = (container.storage(), span.index);
    let whole = key::index(storage, index);
    let at = |value: &[u8]| key::index_from(storage, index, value);
    let behind = |value: &[u8]| prefix_successor(&key::index_value(storage, index, value).start);
    KeyRange {
        start: match &span.from {
            Bound::Included(value) => at(value),
            Bound::Excluded(value) => behind(value).unwrap_or_else(|| whole.start.clone()),
            Bound::Unbounded => whole.start.clone(),
        },
        end: match &span.to {
            Bound::Included(value) => behind(value),
            Bound::Excluded(value) => Some(at(value)),
            Bound::Unbounded => whole.end,
        },
    }
}
