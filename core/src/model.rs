//! The interface by which the core asks a front end about items, whose bodies it cannot read.

use bytes::Bytes;

use crate::definition::{Definition, IndexDefinition};
use crate::error::{Error, Result};
use crate::feed::definition::Images;
use crate::feed::record::ChangeKind;
use crate::feed::showing::{Seen, Shown, in_digits};
use crate::item::Item;
use crate::key::IndexId;
use crate::locator::Locator;

/// A front end's knowledge of its own items. The core asks it when an item is written, when an
/// index is built and when a container is relocated; answers must depend on the arguments alone.
pub trait Model: Send + Sync + 'static {
    /// The entries that `item` has in `indexes`. An index may get none (sparse, partial) or several
    /// (multikey).
    fn index_entries(
        &self,
        definition: &Definition,
        indexes: &[IndexDefinition],
        item: &Item,
    ) -> Result<Vec<IndexEntry>>;

    /// Where `item` lies under `target`, the definition of the storage it is relocated to. An item
    /// that cannot be placed there is [`Error::Rejected`].
    fn relocate(&self, target: &Definition, item: &Item) -> Result<Locator>;

    /// A container's schema without an index that could not be built. A front end whose schema
    /// names no indexes has nothing to do.
    fn without_index(&self, schema: &Bytes, _index: &str) -> Result<Bytes> {
        Ok(schema.clone())
    }

    /// Refuses a definition whose schema it could not read again. Called with the bytes that are
    /// about to be stored, so that every accepted definition stays readable.
    fn check_definition(&self, _definition: &Definition) -> Result<()> {
        Ok(())
    }

    /// The contents of a change feed entry that is neither an insert nor a replace, whose entries
    /// have the whole body: for an update the differences, for a removal what identifies the item.
    fn change(
        &self,
        _definition: &Definition,
        _kind: ChangeKind,
        _old: Option<&Item>,
        new: Option<&Item>,
    ) -> Result<Bytes> {
        Ok(new.map(|new| new.body.clone()).unwrap_or_default())
    }

    /// An item or a change of it in JSON, as users of the API read it, with the schema that the
    /// container had then. None if users do not see it: what a front end keeps beside their items.
    fn show(&self, _schema: &Bytes, seen: &Seen<'_>) -> Result<Option<Shown>> {
        Ok(Some(in_digits(seen)))
    }

    /// Which bodies the entries of the change feed have to carry because a container's schema says
    /// so. One that asks for any has a feed also while nobody follows it.
    fn images(&self, _schema: &Bytes) -> Result<Images> {
        Ok(Images::default())
    }

    /// The most that a physical partition may hold before it is split.
    fn max_partition_bytes(&self) -> i64 {
        50 << 30
    }

    /// The most that a logical partition may hold, if there is a limit.
    fn max_logical_bytes(&self) -> Option<i64> {
        Some(20 << 30)
    }

    /// A partition key in readable form: by default text as it is, other bytes as hexadecimal
    /// digits.
    fn partition_key_text(&self, _definition: &Definition, partition_key: &[u8]) -> String {
        let text = std::str::from_utf8(partition_key).ok();
        match text.filter(|text| !text.chars().any(char::is_control)) {
            Some(text) => text.to_owned(),
            None => hexadecimal(partition_key),
        }
    }

    /// Whether each logical partition of such a container is counted on its own, as its size limit
    /// and the list of the largest ones need.
    fn counts_logical_partitions(&self, _definition: &Definition) -> bool {
        false
    }

    /// The fields that a container's partition key is made of, as [`Self::describe`] names them;
    /// none if it is made of none.
    fn partition_key_fields(&self, _definition: &Definition) -> Vec<String> {
        Vec::new()
    }

    /// Calls `visit` with each scalar of an item and its path, with dots into nested values.
    /// Returns whether users see the item as a record of its own.
    fn describe(
        &self,
        _definition: &Definition,
        _item: &Item,
        _visit: &mut dyn FnMut(&str, ScalarRef<'_>),
    ) -> Result<bool> {
        Ok(true)
    }
}

/// One value of an item that a partition key could be made of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ScalarRef<'a> {
    /// True or false.
    Boolean(bool),
    /// A whole number.
    Integer(i64),
    /// Another number.
    Double(f64),
    /// A text, or another value in readable form.
    Text(&'a str),
}

/// Bytes as digits.
pub fn hexadecimal(bytes: &[u8]) -> String {
    let digits = bytes.iter().map(|byte| format!("{byte:02x}"));
    format!("0x{}", digits.collect::<String>())
}

/// One entry of an item in an index.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct IndexEntry {
    /// Which index.
    pub index: IndexId,
    /// The memcomparable value. See [`bounded_value`] for long ones.
    pub value: Bytes,
    /// Bytes kept in the entry, so that a query may be answered from the index alone.
    pub covered: Bytes,
}

/// Index values longer than this are shortened.
pub const MAX_INDEX_VALUE_BYTES: usize = 1_024;

/// An index value of bounded length. A longer value becomes a prefix of it and its hash: equal
/// values stay equal and order holds up to the prefix, so a reader asks for the bounded value and
/// checks the item.
pub fn bounded_value(value: Bytes) -> Bytes {
    use md5::{Digest, Md5};

    const HASH_BYTES: usize = 16;
    let Some(prefix) = value.get(..MAX_INDEX_VALUE_BYTES - HASH_BYTES) else {
        return value;
    };
    if value.len() <= MAX_INDEX_VALUE_BYTES {
        return value;
    }
    let mut bounded = prefix.to_vec();
    bounded.extend_from_slice(&Md5::digest(&value));
    bounded.into()
}

/// The model of an API without one: no indexes, nothing to relocate.
pub(crate) struct Opaque;

impl Model for Opaque {
    fn index_entries(
        &self,
        _definition: &Definition,
        _indexes: &[IndexDefinition],
        _item: &Item,
    ) -> Result<Vec<IndexEntry>> {
        Ok(Vec::new())
    }

    fn relocate(&self, _target: &Definition, _item: &Item) -> Result<Locator> {
        Err(Error::Internal(
            "no front end of this API is registered, so its items cannot be relocated".into(),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_values_become_prefix_and_hash() {
        let short = Bytes::from(vec![7; MAX_INDEX_VALUE_BYTES]);
        assert_eq!(bounded_value(short.clone()), short);
        let long = Bytes::from(vec![7; MAX_INDEX_VALUE_BYTES + 1]);
        let mut other = long.to_vec();
        *other.last_mut().unwrap() = 8;
        let bounded = bounded_value(long.clone());
        assert_eq!(bounded.len(), MAX_INDEX_VALUE_BYTES);
        assert_eq!(bounded, bounded_value(long));
        assert_ne!(bounded, bounded_value(other.into()));
    }
}
