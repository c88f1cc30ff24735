//! The locator: token, partition key and row key, which together find one item in a container.

use bytes::Bytes;

use crate::encoding::{encoded_len, put_bytes, put_i64, take_bytes, take_i64};
use crate::hash::murmur3;

/// What kind of item lies at a locator. Headers sort before the rows of their logical partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RowKind {
    /// One for each logical partition: what belongs to the partition as a whole.
    Header,
    /// An ordinary item.
    Row,
}

impl RowKind {
    pub(crate) const fn byte(self) -> u8 {
        match self {
            Self::Header => 0,
            Self::Row => 1,
        }
    }

    fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            0 => Some(Self::Header),
            1 => Some(Self::Row),
            _ => None,
        }
    }
}

/// The place of one item. The order of locators is the order of items in a container: by token,
/// then partition key, then headers before rows, then row key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Locator {
    /// Position on the ring, hashed from the partition key.
    pub token: i64,
    /// The partition key, serialized by the front end.
    pub partition_key: Bytes,
    /// Header or row.
    pub kind: RowKind,
    /// Unique within the logical partition; its bytes sort as the front end's row keys do.
    pub row_key: Bytes,
}

impl Locator {
    /// A row at a token that the front end computed.
    pub fn row(token: i64, partition_key: impl Into<Bytes>, row_key: impl Into<Bytes>) -> Self {
        Self {
            token,
            partition_key: partition_key.into(),
            kind: RowKind::Row,
            row_key: row_key.into(),
        }
    }

    /// A row placed by Cassandra's Murmur3 token.
    pub fn murmur3(partition_key: impl Into<Bytes>, row_key: impl Into<Bytes>) -> Self {
        let partition_key = partition_key.into();
        Self::row(murmur3::token(&partition_key), partition_key, row_key)
    }

    /// The header of a logical partition.
    pub fn header(token: i64, partition_key: impl Into<Bytes>) -> Self {
        Self {
            token,
            partition_key: partition_key.into(),
            kind: RowKind::Header,
            row_key: Bytes::new(),
        }
    }

    /// Bytes of the keys alone, as statistics and limits count them.
    pub fn key_bytes(&self) -> usize {
        self.partition_key.len() + self.row_key.len()
    }

    /// Appends the memcomparable form. The row key stands last and bare: a locator ends its key.
    pub fn encode_into(&self, out: &mut Vec<u8>) {
        put_i64(out, self.token);
        put_bytes(out, &self.partition_key);
        out.push(self.kind.byte());
        out.extend_from_slice(&self.row_key);
    }

    /// Length of the memcomparable form.
    pub(crate) fn encoded_len(&self) -> usize {
        const TOKEN_AND_KIND: usize = 8 + 1;
        TOKEN_AND_KIND + encoded_len(&self.partition_key) + self.row_key.len()
    }

    /// The memcomparable form.
    pub fn encode(&self) -> Bytes {
        let mut out = Vec::with_capacity(self.encoded_len());
        self.encode_into(&mut out);
        out.into()
    }

    /// Reads a locator that fills `encoded` to its end, sharing its bytes where it can.
    pub fn decode(encoded: &Bytes) -> Option<Self> {
        let mut input = encoded.as_ref();
        let token = take_i64(&mut input)?;
        let partition_key = match take_bytes(&mut input)? {
            std::borrow::Cow::Borrowed(bytes) => encoded.slice_ref(bytes),
            std::borrow::Cow::Owned(bytes) => bytes.into(),
        };
        let (kind, row_key) = input.split_first()?;
        Some(Self {
            token,
            partition_key,
            kind: RowKind::from_byte(*kind)?,
            row_key: encoded.slice_ref(row_key),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn locators() -> impl Strategy<Value = Locator> {
        let bytes = || prop::collection::vec(prop::sample::select(vec![0u8, 1, 0xff]), 0..4);
        (-2i64..2, bytes(), any::<bool>(), bytes()).prop_map(|(token, partition, row, key)| {
            if row {
                Locator::row(token, partition, key)
            } else {
                Locator::header(token, partition)
            }
        })
    }

    proptest! {
        #[test]
        fn encoded_locators_sort_as_locators(a in locators(), b in locators()) {
            prop_assert_eq!(a.encode().cmp(&b.encode()), a.cmp(&b));
            prop_assert_eq!(a.encode().len(), a.encoded_len());
        }

        #[test]
        fn locators_read_back(locator in locators()) {
            prop_assert_eq!(Locator::decode(&locator.encode()), Some(locator));
        }
    }

    #[test]
    fn every_truncation_before_the_row_key_is_rejected() {
        let encoded = Locator::row(7, &b"pk"[..], &b""[..]).encode();
        for length in 0..encoded.len() {
            assert_eq!(Locator::decode(&encoded.slice(..length)), None, "{length}");
        }
    }
}
