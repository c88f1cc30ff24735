//! One change of an item, as it lies in the feed.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::error::{Error, Result};
use crate::locator::Locator;

/// The layout that this code writes.
const LAYOUT: u8 = 1;

const HAS_LOCATOR: u8 = 1;
const HAS_BEFORE: u8 = 1 << 1;
const HAS_AFTER: u8 = 1 << 2;
const HAS_NOTE: u8 = 1 << 3;
const KNOWN: u8 = HAS_LOCATOR | HAS_BEFORE | HAS_AFTER | HAS_NOTE;

/// What happened to an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChangeKind {
    /// It came where there was none.
    Insert,
    /// It took the place of the one before.
    Replace,
    /// A part of it was changed; the payload says which.
    Update,
    /// It was removed.
    Delete,
    /// Its time was over.
    Expire,
    /// An operation on many items of one logical partition; the payload says which.
    Operation,
}

impl ChangeKind {
    const ALL: [Self; 6] = [
        Self::Insert,
        Self::Replace,
        Self::Update,
        Self::Delete,
        Self::Expire,
        Self::Operation,
    ];

    fn byte(self) -> u8 {
        match self {
            Self::Insert => 1,
            Self::Replace => 2,
            Self::Update => 3,
            Self::Delete => 4,
            Self::Expire => 5,
            Self::Operation => 6,
        }
    }

    fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.byte() == byte)
    }
}

/// Whose statement a change belongs to. Each entry has its own: a commit may hold statements of
/// many clients.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Annotation {
    /// The session, in the front end's bytes.
    pub session: Bytes,
    /// The number of the transaction within the session; none of a single statement.
    pub transaction: Option<u64>,
    /// The number of the statement.
    pub statement: u32,
}

/// One change of an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeRecord {
    /// What happened.
    pub kind: ChangeKind,
    /// When, by the clock of the server that wrote it: milliseconds since 1970.
    pub wall_ms: u64,
    /// The version of the item: the new one, or the last one of what is gone.
    pub version: u64,
    /// Where the item is, or was. Of an operation, the logical partition.
    pub locator: Locator,
    /// Of inserts and replaces the body; else what [`Model::change`] or the front end made of it.
    ///
    /// [`Model::change`]: crate::model::Model::change
    pub payload: Bytes,
    /// The body before, where the feed keeps it.
    pub before: Option<Bytes>,
    /// The body after, where the feed keeps it and the payload is not that.
    pub after: Option<Bytes>,
    /// Whose it is, if its front end said so.
    pub note: Option<Annotation>,
}

impl ChangeRecord {
    /// The body after the change, where the feed has it.
    pub fn body_after(&self) -> Option<&Bytes> {
        match self.kind {
            ChangeKind::Insert | ChangeKind::Replace => Some(&self.payload),
            _ => self.after.as_ref(),
        }
    }

    /// The stored form.
    pub fn encode(&self) -> Bytes {
        let parts = [
            Some(&self.payload),
            self.before.as_ref(),
            self.after.as_ref(),
        ];
        let bytes: usize = parts.iter().flatten().map(|part| part.len()).sum();
        let mut out = BytesMut::with_capacity(64 + bytes + self.locator.encoded_len());
        let flag = |is_set: bool, flag| if is_set { flag } else { 0 };
        out.put_u8(LAYOUT);
        out.put_u8(self.kind.byte());
        out.put_u8(
            HAS_LOCATOR
                | flag(self.before.is_some(), HAS_BEFORE)
                | flag(self.after.is_some(), HAS_AFTER)
                | flag(self.note.is_some(), HAS_NOTE),
        );
        out.put_u64(self.wall_ms);
        out.put_u64(self.version);
        put_part(&mut out, &self.locator.encode());
        for part in parts.into_iter().flatten() {
            put_part(&mut out, part);
        }
        if let Some(note) = &self.note {
            put_part(&mut out, &note.session);
            out.put_u8(u8::from(note.transaction.is_some()));
            out.put_u64(note.transaction.unwrap_or(0));
            out.put_u32(note.statement);
        }
        out.freeze()
    }

    /// Reads the stored form. The parts are slices of it, so whoever keeps one for long copies it.
    pub fn decode(encoded: &Bytes) -> Result<Self> {
        let damaged = || Error::Corrupt("an entry of the change feed cannot be read".to_owned());
        decode(encoded.clone()).ok_or_else(damaged)
    }
}

fn decode(mut input: Bytes) -> Option<ChangeRecord> {
    if input.try_get_u8().ok()? != LAYOUT {
        return None;
    }
    let kind = ChangeKind::from_byte(input.try_get_u8().ok()?)?;
    let flags = input.try_get_u8().ok()?;
    let has = |flag: u8| flags & flag != 0;
    if flags & !KNOWN != 0 || !has(HAS_LOCATOR) {
        return None;
    }
    let wall_ms = input.try_get_u64().ok()?;
    let version = input.try_get_u64().ok()?;
    let locator = Locator::decode(&take_part(&mut input)?)?;
    let payload = take_part(&mut input)?;
    let mut part = |flag| match has(flag) {
        true => take_part(&mut input).map(Some),
        false => Some(None),
    };
    let (before, after) = (part(HAS_BEFORE)?, part(HAS_AFTER)?);
    let note = match has(HAS_NOTE) {
        true => Some(take_note(&mut input)?),
        false => None,
    };
    input.is_empty().then_some(ChangeRecord {
        kind,
        wall_ms,
        version,
        locator,
        payload,
        before,
        after,
        note,
    })
}

fn take_note(input: &mut Bytes) -> Option<Annotation> {
    let session = take_part(input)?;
    let has_transaction = match input.try_get_u8().ok()? {
        0 => false,
        1 => true,
        _ => return None,
    };
    let transaction = input.try_get_u64().ok()?;
    Some(Annotation {
        session,
        transaction: has_transaction.then_some(transaction),
        statement: input.try_get_u32().ok()?,
    })
}

fn put_part(out: &mut BytesMut, part: &[u8]) {
    // What is longer is refused by every engine.
    out.put_u32(u32::try_from(part.len()).unwrap_or(u32::MAX));
    out.put_slice(part);
}

fn take_part(input: &mut Bytes) -> Option<Bytes> {
    let length = usize::try_from(input.try_get_u32().ok()?).ok()?;
    (length <= input.len()).then(|| input.split_to(length))
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::option;
    use proptest::prelude::*;

    use super::*;

    fn bytes() -> impl Strategy<Value = Bytes> {
        vec(any::<u8>(), 0..20).prop_map(Bytes::from)
    }

    prop_compose! {
        fn notes()(
            session in bytes(),
            transaction in option::of(any::<u64>()),
            statement: u32,
        ) -> Annotation {
            Annotation { session, transaction, statement }
        }
    }

    prop_compose! {
        fn records()(
            kind in prop::sample::select(&ChangeKind::ALL[..]),
            (wall_ms, version, token) in any::<(u64, u64, i64)>(),
            (partition_key, row_key, is_header) in (bytes(), bytes(), any::<bool>()),
            payload in bytes(),
            before in option::of(bytes()),
            after in option::of(bytes()),
            note in option::of(notes()),
        ) -> ChangeRecord {
            let locator = match is_header {
                true => Locator::header(token, partition_key),
                false => Locator::row(token, partition_key, row_key),
            };
            ChangeRecord { kind, wall_ms, version, locator, payload, before, after, note }
        }
    }

    proptest! {
        #[test]
        fn records_read_back(record in records()) {
            let encoded = record.encode();
            prop_assert_eq!(ChangeRecord::decode(&encoded).unwrap(), record);
        }

        #[test]
        fn cut_off_records_and_those_with_something_behind_are_refused(record in records()) {
            let encoded = record.encode();
            for length in 0..encoded.len() {
                prop_assert!(ChangeRecord::decode(&encoded.slice(..length)).is_err());
            }
            let longer = Bytes::from([&encoded[..], b"x"].concat());
            prop_assert!(ChangeRecord::decode(&longer).is_err());
        }

        #[test]
        fn damaged_records_are_refused_or_read_as_others(
            record in records(),
            place: prop::sample::Index,
            byte: u8,
        ) {
            let mut encoded = record.encode().to_vec();
            let place = place.index(encoded.len());
            encoded[place] = byte;
            // Whatever it reads, it is written the same way again.
            if let Ok(read) = ChangeRecord::decode(&encoded.into()) {
                prop_assert_eq!(ChangeRecord::decode(&read.encode()).unwrap(), read);
            }
        }

        #[test]
        fn any_bytes_are_refused_or_read(bytes in vec(any::<u8>(), 0..200)) {
            let mut bytes = bytes;
            for layout in [None, Some(LAYOUT)] {
                if let (Some(layout), Some(first)) = (layout, bytes.first_mut()) {
                    *first = layout;
                }
                let _is_read = ChangeRecord::decode(&bytes.clone().into()).is_ok();
            }
        }
    }
}
