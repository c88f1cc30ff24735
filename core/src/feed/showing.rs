//! Items and their changes as the users of an API read them: JSON, which their front end writes.

use std::fmt::Write as _;

use bytes::Bytes;

use super::record::{ChangeKind, ChangeRecord};
use super::segments::Term;
use crate::item::Item;
use crate::locator::Locator;
use crate::model::hexadecimal;
use crate::store::Store;

/// An item or a change of it, as it is stored.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// What happened. An item that is just there is seen as if it had been put there.
    pub kind: ChangeKind,
    /// Where it is or was.
    pub locator: &'a Locator,
    /// Its version.
    pub version: u64,
    /// The time as of which it is seen: milliseconds since 1970.
    pub wall_ms: u64,
    /// What [`Model::change`](crate::model::Model::change) or the front end said of the change,
    /// where there is no body.
    pub payload: Option<&'a Bytes>,
    /// The body before.
    pub before: Option<&'a Bytes>,
    /// The body after.
    pub after: Option<&'a Bytes>,
}

/// The texts of a change: each a value of JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// What names the item: an object of its key fields.
    pub key: String,
    /// The item after the change; none if users see none any more, or its body is not known.
    pub item: Option<String>,
    /// The item before it, where the feed keeps that.
    pub before: Option<String>,
    /// Of an update, what it changed, where the front end keeps that.
    pub update: Option<String>,
}

impl<'a> Seen<'a> {
    /// A change.
    pub fn change(record: &'a ChangeRecord) -> Self {
        let is_body = matches!(record.kind, ChangeKind::Insert | ChangeKind::Replace);
        Self {
            kind: record.kind,
            locator: &record.locator,
            version: record.version,
            wall_ms: record.wall_ms,
            payload: Some(&record.payload).filter(|_| !is_body),
            before: record.before.as_ref(),
            after: record.body_after(),
        }
    }

    /// An item as it is.
    pub fn item(item: &'a Item, now_ms: u64) -> Self {
        Self {
            kind: ChangeKind::Replace,
            locator: &item.locator,
            version: item.version,
            wall_ms: now_ms,
            payload: None,
            before: None,
            after: Some(&item.body),
        }
    }
}

impl Store {
    /// A change as users of its API read it; none if it is of something that they do not see.
    pub fn show_change(&self, term: &Term, seen: &Seen<'_>) -> crate::Result<Option<Shown>> {
        let model = self.catalog().model(&term.name.api);
        model.show(&term.schema, seen)
    }
}

/// How an API without texts of its own shows them: bytes as digits.
pub(crate) fn in_digits(seen: &Seen<'_>) -> Shown {
    let text = |bytes: &Bytes| format!("\"{}\"", hexadecimal(bytes));
    let mut key = String::new();
    // Writing into a text cannot fail.
    let _infallible = write!(
        key,
        "{{\"partition_key\":{},\"row_key\":{}}}",
        text(&seen.locator.partition_key),
        text(&seen.locator.row_key)
    );
    Shown {
        key,
        item: seen.after.map(text),
        before: seen.before.map(text),
        update: seen.payload.filter(|it| !it.is_empty()).map(text),
    }
}
