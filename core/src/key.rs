//! Every key the engine holds. One ordered byte space, one-byte prefixes, memcomparable parts:
//!
//! | what | key | value |
//! |---|---|---|
//! | catalog entry | `c` · api · database · name | definition; a database's own has no name |
//! | definition version | `v` · storage id | version, owner's name: what each write guards |
//! | item | `i` · storage id · locator | version · expiry · body |
//! | index entry | `x` · storage id · index id · value · locator | what a front end covers |
//! | unique claim | `u` · storage id · index id · value | locator |
//! | expiry entry | `e` · time · storage id · locator | empty |
//! | partition map | `p` · storage id · lower token | partition |
//! | statistics | `n` · storage id · `p` · partition id | tally of a physical partition |
//! | | `n` · storage id · `l` · token · partition key | tally of a logical one, where counted |
//! | change log | `l` · feed · storage · partition · term · stamp | a change: see `feed` |
//! | system | `s` · area · … | format, sequences, jobs, storage ids to reap |

use bytes::Bytes;

use crate::encoding::{encoded_len, put_bytes, put_i64, put_prefix, put_u32, put_u64};
use crate::encoding::{take_bytes, take_u32, take_u64};
use crate::engine::KeyRange;
use crate::locator::Locator;
use crate::name::ContainerName;

const CATALOG: u8 = b'c';
const DEFINITION_VERSION: u8 = b'v';
const ITEM: u8 = b'i';
const INDEX: u8 = b'x';
const CLAIM: u8 = b'u';
const EXPIRY: u8 = b'e';
const PARTITION: u8 = b'p';
const STATISTICS: u8 = b'n';
const SYSTEM: u8 = b's';

/// What every appended key begins with.
pub const LOG: u8 = b'l';

const PHYSICAL: u8 = b'p';
const LOGICAL: u8 = b'l';

/// Number under which a container's data lies. Never reused.
pub type StorageId = u64;

/// Number of an index within its container. 0 is the core's own.
pub type IndexId = u32;

/// Number of a physical partition within its container. Never reused there.
pub type PartitionId = u32;

/// Areas of the system keys.
pub mod system {
    /// The on-disk format version.
    pub const FORMAT: &[u8] = b"format";
    /// Counters from which numbers are handed out.
    pub const SEQUENCE: &[u8] = b"sequence";
    /// Storage ids whose data waits to be deleted.
    pub const REAP: &[u8] = b"reap";
    /// Rebuilds under way.
    pub const JOB: &[u8] = b"job";
    /// Definitions of storages that relocations are filling.
    pub const RELOCATION: &[u8] = b"relocation";
    /// Demands of servers for budgets that several share.
    pub const BUDGET: &[u8] = b"budget";
    /// Leases for work that one server does for all.
    pub const LEASE: &[u8] = b"lease";
    /// Throughput of databases, shared by their containers.
    pub const SHARED_THROUGHPUT: &[u8] = b"shared_throughput";
    /// Misfits: notes of items that do not fit the target of a relocation.
    pub const MISFIT: &[u8] = b"misfit";
    /// The change feeds.
    pub const FEED: &[u8] = b"feed";
    /// The positions up to which the entries of feeds were removed.
    pub const FEED_FLOOR: &[u8] = b"feed_floor";
    /// When a feed was last followed.
    pub const FEED_SEEN: &[u8] = b"feed_seen";
    /// Databases and APIs whose containers all have feeds.
    pub const FEED_POLICY: &[u8] = b"feed_policy";
}

fn key(prefix: u8, build: impl FnOnce(&mut Vec<u8>)) -> Bytes {
    sized_key(prefix, 63, build)
}

/// A key of `length` bytes behind its prefix, in a single allocation.
fn sized_key(prefix: u8, length: usize, build: impl FnOnce(&mut Vec<u8>)) -> Bytes {
    let mut out = Vec::with_capacity(1 + length);
    out.push(prefix);
    build(&mut out);
    out.into()
}

/// The definition of a container, or of a database when the name is empty.
pub fn catalog(name: &ContainerName) -> Bytes {
    key(CATALOG, |out| name.encode_into(out))
}

/// All catalog entries of one API, or of one of its databases.
pub fn catalog_range(api: &str, database: Option<&str>) -> KeyRange {
    KeyRange::prefix(key(CATALOG, |out| {
        put_bytes(out, api.as_bytes());
        if let Some(database) = database {
            put_bytes(out, database.as_bytes());
        }
    }))
}

/// All catalog entries there are.
pub fn catalog_all() -> KeyRange {
    KeyRange::prefix(key(CATALOG, |_| {}))
}

/// The name in a catalog key.
pub fn parse_catalog(key: &[u8]) -> Option<ContainerName> {
    let mut input = strip(key, CATALOG)?;
    ContainerName::decode(&mut input)
}

/// The key that changes with each change of a container's definition or partition map.
pub fn definition_version(storage: StorageId) -> Bytes {
    sized_key(DEFINITION_VERSION, 8, |out| put_u64(out, storage))
}

/// All keys that change with definitions.
pub fn definition_versions() -> KeyRange {
    KeyRange::prefix(key(DEFINITION_VERSION, |_| {}))
}

/// Whether this is the key of a definition's version, which all writes of a container guard.
pub fn is_definition_version(key: &[u8]) -> bool {
    key.first() == Some(&DEFINITION_VERSION)
}

/// The storage id in the key of a definition's version.
pub fn parse_definition_version(key: &[u8]) -> Option<StorageId> {
    take_u64(&mut strip(key, DEFINITION_VERSION)?)
}

/// One item.
pub fn item(storage: StorageId, locator: &Locator) -> Bytes {
    sized_key(ITEM, 8 + locator.encoded_len(), |out| {
        put_u64(out, storage);
        locator.encode_into(out);
    })
}

/// All items of a container.
pub fn items(storage: StorageId) -> KeyRange {
    KeyRange::prefix(key(ITEM, |out| put_u64(out, storage)))
}

/// The first key of the items at or after `token`.
fn items_from(storage: StorageId, token: i64) -> Bytes {
    key(ITEM, |out| {
        put_u64(out, storage);
        put_i64(out, token);
    })
}

/// The items whose token lies from `first` to `last`, both included.
pub fn items_between(storage: StorageId, first: i64, last: i64) -> KeyRange {
    KeyRange {
        start: items_from(storage, first),
        end: match last.checked_add(1) {
            Some(after) => Some(items_from(storage, after)),
            None => items(storage).end,
        },
    }
}

/// All items, header included, of one logical partition.
pub fn logical_partition(storage: StorageId, token: i64, partition_key: &[u8]) -> KeyRange {
    KeyRange::prefix(key(ITEM, |out| {
        put_u64(out, storage);
        put_i64(out, token);
        put_bytes(out, partition_key);
    }))
}

/// The locator in an item key.
pub fn parse_item(key: &Bytes) -> Option<Locator> {
    let mut input = strip(key, ITEM)?;
    take_u64(&mut input)?;
    Locator::decode(&key.slice_ref(input))
}

/// One entry of an index.
pub fn index_entry(storage: StorageId, index: IndexId, value: &[u8], locator: &Locator) -> Bytes {
    let length = 12 + encoded_len(value) + locator.encoded_len();
    sized_key(INDEX, length, |out| {
        put_u64(out, storage);
        put_u32(out, index);
        put_bytes(out, value);
        locator.encode_into(out);
    })
}

/// All entries of one index.
pub fn index(storage: StorageId, index: IndexId) -> KeyRange {
    KeyRange::prefix(key(INDEX, |out| {
        put_u64(out, storage);
        put_u32(out, index);
    }))
}

/// The first key of the entries whose value is at or after `value`.
pub fn index_from(storage: StorageId, index: IndexId, value: &[u8]) -> Bytes {
    key(INDEX, |out| {
        put_u64(out, storage);
        put_u32(out, index);
        put_prefix(out, value);
    })
}

/// All entries of one value of an index.
pub fn index_value(storage: StorageId, index: IndexId, value: &[u8]) -> KeyRange {
    KeyRange::prefix(key(INDEX, |out| {
        put_u64(out, storage);
        put_u32(out, index);
        put_bytes(out, value);
    }))
}

/// The index, value and locator in an index key.
pub fn parse_index_entry(key: &Bytes) -> Option<(IndexId, Bytes, Locator)> {
    let mut input = strip(key, INDEX)?;
    take_u64(&mut input)?;
    let index = take_u32(&mut input)?;
    let value = take_bytes(&mut input)?.into_owned();
    let locator = Locator::decode(&key.slice_ref(input))?;
    Some((index, value.into(), locator))
}

/// The claim of one value of a unique index.
pub fn claim(storage: StorageId, index: IndexId, value: &[u8]) -> Bytes {
    key(CLAIM, |out| {
        put_u64(out, storage);
        put_u32(out, index);
        out.extend_from_slice(value);
    })
}

/// All claims of one index.
pub fn claims(storage: StorageId, index: IndexId) -> KeyRange {
    KeyRange::prefix(claim(storage, index, &[]))
}

/// The mark that an item expires at `at_ms`.
pub fn expiry(at_ms: u64, storage: StorageId, locator: &Locator) -> Bytes {
    key(EXPIRY, |out| {
        put_u64(out, at_ms);
        put_u64(out, storage);
        locator.encode_into(out);
    })
}

/// All expiry marks from `from_ms` up to and including `to_ms`.
pub fn expiries(from_ms: u64, to_ms: u64) -> KeyRange {
    let at = |ms: u64| key(EXPIRY, |out| put_u64(out, ms));
    KeyRange::new(at(from_ms), at(to_ms.saturating_add(1)))
}

/// The time, storage id and locator in an expiry key.
pub fn parse_expiry(key: &Bytes) -> Option<(u64, StorageId, Locator)> {
    let mut input = strip(key, EXPIRY)?;
    let at_ms = take_u64(&mut input)?;
    let storage = take_u64(&mut input)?;
    Some((at_ms, storage, Locator::decode(&key.slice_ref(input))?))
}

/// The physical partition that begins at `first_token`.
pub fn partition(storage: StorageId, first_token: i64) -> Bytes {
    key(PARTITION, |out| {
        put_u64(out, storage);
        put_i64(out, first_token);
    })
}

/// All physical partitions of a container.
pub fn partitions(storage: StorageId) -> KeyRange {
    KeyRange::prefix(key(PARTITION, |out| put_u64(out, storage)))
}

/// All physical partitions there are.
pub fn all_partitions() -> KeyRange {
    KeyRange::prefix(key(PARTITION, |_| {}))
}

/// The storage id in a partition key.
pub fn parse_partition_storage(key: &[u8]) -> Option<StorageId> {
    take_u64(&mut strip(key, PARTITION)?)
}

/// The first token in a partition key.
pub fn parse_partition(key: &[u8]) -> Option<i64> {
    let mut input = strip(key, PARTITION)?;
    take_u64(&mut input)?;
    let token = crate::encoding::take_i64(&mut input)?;
    input.is_empty().then_some(token)
}

/// Whether this is the key of a tally. A tally of zero is equal to none, so an engine may drop it.
pub fn is_tally(key: &[u8]) -> bool {
    key.first() == Some(&STATISTICS)
}

/// All tallies there are.
pub fn tallies() -> KeyRange {
    KeyRange::prefix(key(STATISTICS, |_| {}))
}

/// The tally of a physical partition.
pub fn physical_tally(storage: StorageId, partition: PartitionId) -> Bytes {
    sized_key(STATISTICS, 13, |out| {
        put_u64(out, storage);
        out.push(PHYSICAL);
        put_u32(out, partition);
    })
}

/// The tally of a logical partition.
pub fn logical_tally(storage: StorageId, token: i64, partition_key: &[u8]) -> Bytes {
    sized_key(STATISTICS, 17 + encoded_len(partition_key), |out| {
        put_u64(out, storage);
        out.push(LOGICAL);
        put_i64(out, token);
        put_bytes(out, partition_key);
    })
}

/// The tallies of all logical partitions.
pub fn logical_tallies(storage: StorageId) -> KeyRange {
    KeyRange::prefix(key(STATISTICS, |out| {
        put_u64(out, storage);
        out.push(LOGICAL);
    }))
}

/// The tallies of the logical partitions from one token to another, both included.
pub fn logical_tallies_between(storage: StorageId, first: i64, last: i64) -> KeyRange {
    let from = |token| {
        key(STATISTICS, |out| {
            put_u64(out, storage);
            out.push(LOGICAL);
            put_i64(out, token);
        })
    };
    let all = logical_tallies(storage);
    KeyRange {
        start: from(first),
        end: last.checked_add(1).map(from).or(all.end),
    }
}

/// Token and partition key of the tally of a logical partition.
pub fn parse_logical_tally(key: &[u8]) -> Option<(i64, Vec<u8>)> {
    let mut input = strip(key, STATISTICS)?;
    take_u64(&mut input)?;
    input = input.strip_prefix(&[LOGICAL])?;
    let token = crate::encoding::take_i64(&mut input)?;
    Some((token, take_bytes(&mut input)?.into()))
}

/// Whether a key may be an appended one.
pub fn is_log(key: &[u8]) -> bool {
    key.first() == Some(&LOG)
}

/// The range of all appended keys.
pub fn log() -> KeyRange {
    KeyRange::prefix(vec![LOG])
}

/// A key of the system area.
pub fn system_key(area: &[u8], rest: &[u8]) -> Bytes {
    key(SYSTEM, |out| {
        put_bytes(out, area);
        out.extend_from_slice(rest);
    })
}

/// All keys of one system area.
pub fn system_range(area: &[u8]) -> KeyRange {
    KeyRange::prefix(system_key(area, &[]))
}

/// The part of a system key after the area.
pub fn parse_system(key: &[u8]) -> Option<&[u8]> {
    let mut input = strip(key, SYSTEM)?;
    take_bytes(&mut input)?;
    Some(input)
}

/// Every range in which a container's own data lies; its catalog entry, its version and the expiry
/// marks, which are ordered by time, lie elsewhere.
pub fn all_of_storage(storage: StorageId) -> [KeyRange; 5] {
    [ITEM, INDEX, CLAIM, PARTITION, STATISTICS]
        .map(|prefix| KeyRange::prefix(key(prefix, |out| put_u64(out, storage))))
}

fn strip(key: &[u8], prefix: u8) -> Option<&[u8]> {
    let (first, rest) = key.split_first()?;
    (*first == prefix).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_read_back() {
        let locator = Locator::row(-5, &b"p\0k"[..], &b"row"[..]);
        assert_eq!(parse_item(&item(9, &locator)), Some(locator.clone()));
        assert_eq!(
            parse_index_entry(&index_entry(9, 3, b"\0v", &locator)),
            Some((3, Bytes::from_static(b"\0v"), locator.clone()))
        );
        assert_eq!(
            parse_expiry(&expiry(77, 9, &locator)),
            Some((77, 9, locator))
        );
        assert_eq!(parse_partition(&partition(9, i64::MIN)), Some(i64::MIN));
        assert_eq!(
            parse_system(&system_key(system::JOB, b"rest")),
            Some(&b"rest"[..])
        );
        let name = ContainerName::new("mongo", "shop", "orders");
        assert_eq!(parse_catalog(&catalog(&name)), Some(name));
    }

    #[test]
    fn ranges_hold_what_they_name_and_nothing_else() {
        let near = Locator::row(1, &b"k"[..], &b"r"[..]);
        let far = Locator::row(1, &b"kk"[..], &b"r"[..]);
        let range = logical_partition(4, 1, b"k");
        assert!(range.contains(&item(4, &near)));
        assert!(
            !range.contains(&item(4, &far)),
            "a longer partition key is another partition"
        );
        assert!(!range.contains(&item(5, &near)));
        assert!(index_value(4, 1, b"v").contains(&index_entry(4, 1, b"v", &near)));
        assert!(!index_value(4, 1, b"v").contains(&index_entry(4, 1, b"vv", &near)));
        assert!(expiries(0, 10).contains(&expiry(10, 1, &near)));
        assert!(!expiries(0, 10).contains(&expiry(11, 1, &near)));
        assert!(!expiries(5, 10).contains(&expiry(4, 1, &near)));
    }

    #[test]
    fn damaged_keys_are_rejected() {
        let locator = Locator::row(1, &b"k"[..], &b""[..]);
        let whole = index_entry(4, 1, b"v", &locator);
        for length in 0..whole.len() {
            assert_eq!(parse_index_entry(&whole.slice(..length)), None, "{length}");
        }
        assert_eq!(parse_item(&whole), None, "another prefix");
    }
}
