//! From rows of the table to values and pages of entries.

use std::collections::HashMap;

use bytes::Bytes;
use tessera_core::engine::{Page, Scan};
use tessera_core::write_set::Tally;
use tokio_postgres::{Error, Row};

use super::stored_key::join;

/// The value that rows of one key make up: one row, or what each slot added to a tally. `first` is
/// the column in which value, items and bytes begin.
pub(super) fn value(rows: &[Row], first: usize) -> Result<Option<Bytes>, Error> {
    let mut sum: Option<Tally> = None;
    for row in rows {
        match tally(row, first + 1)? {
            Some(added) => sum = Some(sum.unwrap_or_default().plus(added)),
            None => return plain(row, first),
        }
    }
    Ok(sum.map(|sum| Bytes::copy_from_slice(&sum.encode())))
}

/// The values of many keys from rows that begin with the key's position, counted from 1.
pub(super) fn values(rows: &[Row], count: usize) -> Result<Vec<Option<Bytes>>, Error> {
    let mut found = vec![None; count];
    let mut sums: HashMap<usize, Tally> = HashMap::new();
    for row in rows {
        let position: i64 = row.try_get(0)?;
        let place = usize::try_from(position - 1).unwrap_or(usize::MAX);
        match tally(row, 2)? {
            None => {
                let value = plain(row, 1)?;
                if let Some(found) = found.get_mut(place) {
                    *found = value;
                }
            }
            Some(added) => {
                let sum = sums.entry(place).or_default();
                *sum = sum.plus(added);
            }
        }
    }
    for (place, sum) in sums {
        if let Some(found) = found.get_mut(place) {
            *found = Some(Bytes::copy_from_slice(&sum.encode()));
        }
    }
    Ok(found)
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
    let mut entries: Vec<(Bytes, Bytes)> = Vec::with_capacity(rows.len());
    let mut sum: Option<Tally> = None;
    let mut bytes = 0;
    for row in rows {
        let key = join(row.try_get(0)?, row.try_get(2)?);
        let added = tally(row, 4)?;
        let (so_far, is_same_tally) = match (sum, entries.last()) {
            (Some(sum), Some((last, _))) => (sum, added.is_some() && *last == key),
            _ => (Tally::default(), false),
        };
        sum = added.map(|added| {
            if is_same_tally {
                so_far.plus(added)
            } else {
                added
            }
        });
        let value = match sum {
            _ if scan.keys_only => Bytes::new(),
            Some(sum) => Bytes::copy_from_slice(&sum.encode()),
            None => plain(row, 3)?.unwrap_or_default(),
        };
        bytes += key.len() + value.len();
        if is_same_tally {
            entries.pop();
        }
        entries.push((key, value));
    }
    let was_cut = rows.len() >= row_limit(scan) || bytes >= byte_limit(scan);
    let mut has_part_of_tally = false;
    if was_cut && sum.is_some() {
        has_part_of_tally = entries.len() == 1;
        if !has_part_of_tally {
            entries.pop();
        }
    }
    entries.truncate(scan.max_rows.max(1));
    Ok(Draft {
        page: Page {
            entries,
            more: was_cut,
        },
        has_part_of_tally,
    })
}

fn plain(row: &Row, column: usize) -> Result<Option<Bytes>, Error> {
    let value: Option<&[u8]> = row.try_get(column)?;
    Ok(value.map(Bytes::copy_from_slice))
}

fn tally(row: &Row, column: usize) -> Result<Option<Tally>, Error> {
    let items: Option<i64> = row.try_get(column)?;
    let bytes: Option<i64> = row.try_get(column + 1)?;
    Ok(items
        .zip(bytes)
        .map(|(items, bytes)| Tally { items, bytes }))
}
