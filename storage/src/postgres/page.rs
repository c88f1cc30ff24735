//! From rows of the table to values and pages of entries.

use bytes::Bytes;
use tessera_core::engine::{Page, Scan};
use tessera_core::write_set::Tally;
use tokio_postgres::{Error, Row};

use super::stored_key::join;

/// The value that rows of one key make up. Value, items and bytes are the columns from `first` on.
pub(super) fn value(rows: &[Row], first: usize) -> Result<Option<Bytes>, Error> {
    let mut found = None;
    for row in rows {
        found = merged(found, row, first)?;
    }
    Ok(found.map(Stored::into_bytes))
}

/// The values of many keys from rows that begin with the key's position, counted from 1.
pub(super) fn values(rows: &[Row], count: usize) -> Result<Vec<Option<Bytes>>, Error> {
    let mut found: Vec<Option<Stored>> = vec![None; count];
    for row in rows {
        let position: i64 = row.try_get(0)?;
        let place = usize::try_from(position - 1).unwrap_or(usize::MAX);
        if let Some(found) = found.get_mut(place) {
            *found = merged(found.take(), row, 1)?;
        }
    }
    Ok(found
        .into_iter()
        .map(|found| found.map(Stored::into_bytes))
        .collect())
}

/// What a key holds: a value, or the sum of what was added.
#[derive(Clone)]
enum Stored {
    Plain(Bytes),
    Sum(Tally),
}

impl Stored {
    fn into_bytes(self) -> Bytes {
        match self {
            Self::Plain(value) => value,
            Self::Sum(sum) => Bytes::copy_from_slice(&sum.encode()),
        }
    }

    fn into_tally(self) -> Tally {
        match self {
            Self::Plain(value) => Tally::decode(&value).unwrap_or_default(),
            Self::Sum(sum) => sum,
        }
    }
}

/// With one more row of the same key. A tally that came with a copy is a value to which is added.
fn merged(known: Option<Stored>, row: &Row, first: usize) -> Result<Option<Stored>, Error> {
    let items: Option<i64> = row.try_get(first + 1)?;
    let bytes: Option<i64> = row.try_get(first + 2)?;
    let value: Option<&[u8]> = row.try_get(first)?;
    let new = match items.zip(bytes) {
        Some((items, bytes)) => Some(Stored::Sum(Tally { items, bytes })),
        None => value.map(|value| Stored::Plain(Bytes::copy_from_slice(value))),
    };
    Ok(match (known, new) {
        (Some(known), Some(new)) => Some(Stored::Sum(known.into_tally().plus(new.into_tally()))),
        (known, new) => known.or(new),
    })
}

/// A page as far as its rows tell.
pub(super) struct Draft {
    pub(super) page: Page,
    /// The only entry is a tally of which rows may be missing.
    pub(super) has_part_of_tally: bool,
}

/// How many rows a scan asks for: one more than entries, to tell whether there is more.
pub(super) fn row_limit(scan: &Scan) -> usize {
    scan.max_rows.max(1).saturating_add(1)
}

/// How many bytes a scan asks for. The first row always comes.
pub(super) fn byte_limit(scan: &Scan) -> usize {
    scan.max_bytes.max(1)
}

/// Whether a row belongs to a key that is longer than its head.
pub(super) fn is_long(row: &Row) -> Result<bool, Error> {
    Ok(row.try_get::<_, Option<&[u8]>>(2)?.is_some())
}

/// Makes a page of the rows of a scan: key, mark, tail, value, items, bytes.
pub(super) fn draft(rows: &[Row], scan: &Scan) -> Result<Draft, Error> {
    let mut found: Vec<(Bytes, Option<Stored>)> = Vec::with_capacity(rows.len());
    let mut bytes = 0;
    for row in rows {
        let key = join(row.try_get(0)?, row.try_get(2)?);
        let value: Option<&[u8]> = row.try_get(3)?;
        bytes += key.len() + value.map_or(0, <[u8]>::len);
        match found.last_mut() {
            Some((last, stored)) if *last == key => *stored = merged(stored.take(), row, 3)?,
            _ => found.push((key, merged(None, row, 3)?)),
        }
    }
    let was_cut = rows.len() >= row_limit(scan) || bytes >= byte_limit(scan);
    let is_in_parts = was_cut && !scan.keys_only && rows.last().map_or(Ok(false), may_be_tally)?;
    let has_part_of_tally = is_in_parts && found.len() == 1;
    if is_in_parts && !has_part_of_tally {
        found.pop();
    }
    found.truncate(scan.max_rows.max(1));
    let value = |stored: Option<Stored>| match stored {
        Some(stored) if !scan.keys_only => stored.into_bytes(),
        _ => Bytes::new(),
    };
    let entries = found
        .into_iter()
        .map(|(key, stored)| (key, value(stored)))
        .collect();
    Ok(Draft {
        page: Page {
            entries,
            more: was_cut,
        },
        has_part_of_tally,
    })
}

/// Whether the key of this row may have other rows.
fn may_be_tally(row: &Row) -> Result<bool, Error> {
    let items: Option<i64> = row.try_get(4)?;
    let value: Option<&[u8]> = row.try_get(3)?;
    Ok(items.is_some() || value.is_some_and(|value| value.len() == Tally::ENCODED_LEN))
}
