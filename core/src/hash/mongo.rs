//! MongoDB's hashed value of a field, as its hashed indexes and hashed shard keys compute it.
//!
//! The first eight bytes, little-endian, of an MD5 over the seed, the canonical type of the element
//! and a normalized form of its value. Numbers of all types hash as the 64-bit integer they
//! truncate to, so that 1, 1.0 and 1.9 meet. This module knows the rules, not BSON: the front end
//! walks its own values and calls one method for each, in document order.

use md5::{Digest, Md5};

/// Canonical type of every number.
const NUMBER: i32 = 10;
/// Canonical type of strings and symbols.
const STRING: i32 = 15;
/// Canonical type of null and of a missing field.
const NULL: i32 = 5;
/// Canonical type of embedded documents.
const OBJECT: i32 = 20;
/// Canonical type of arrays.
const ARRAY: i32 = 25;
/// Canonical type of the element that ends a document.
const END_OF_OBJECT: i32 = 0;

/// Feeds one value to the hash.
pub struct ValueHasher {
    digest: Md5,
}

impl ValueHasher {
    /// Starts a hash. The seed is 0 for a key of one field; further hashed fields chain on the hash
    /// of the field before, truncated to 32 bits.
    pub fn new(seed: i32) -> Self {
        let mut digest = Md5::new();
        digest.update(seed.to_le_bytes());
        Self { digest }
    }

    /// A number that fits an integer, or was truncated to one by [`truncate`].
    ///
    /// In this method and the next ones `name` is that of a field inside a document, or the
    /// position inside an array; the hashed field itself has none.
    pub fn number(&mut self, name: Option<&str>, value: i64) {
        self.element(name, NUMBER, &value.to_le_bytes());
    }

    /// A string or symbol.
    pub fn string(&mut self, name: Option<&str>, value: &str) {
        // BSON limits a document to 16 MiB, so the length with its terminator always fits.
        let length = i32::try_from(value.len() + 1).unwrap_or(i32::MAX);
        self.begin(name, STRING);
        self.digest.update(length.to_le_bytes());
        self.digest.update(value.as_bytes());
        self.digest.update([0]);
    }

    /// Null, or a hashed field that is missing.
    pub fn null(&mut self, name: Option<&str>) {
        self.begin(name, NULL);
    }

    /// Any value whose hashed form is its BSON bytes: object ids, dates, binary data, MinKey and so
    /// on. `canonical_type` is MongoDB's sort class of the type.
    pub fn element(&mut self, name: Option<&str>, canonical_type: i32, value: &[u8]) {
        self.begin(name, canonical_type);
        self.digest.update(value);
    }

    /// Begins an embedded document: its fields follow, then [`Self::end`].
    pub fn begin_document(&mut self, name: Option<&str>) {
        self.begin(name, OBJECT);
    }

    /// Begins an array: its elements follow, named by their positions, then [`Self::end`].
    pub fn begin_array(&mut self, name: Option<&str>) {
        self.begin(name, ARRAY);
    }

    /// Ends a document or an array.
    pub fn end(&mut self) {
        self.begin(None, END_OF_OBJECT);
    }

    /// The hashed value.
    pub fn finish(self) -> i64 {
        let hash = self.digest.finalize();
        hash.first_chunk()
            .map_or(0, |bytes| i64::from_le_bytes(*bytes))
    }

    /// The prefix of each value: its canonical type, then its name with a terminator.
    fn begin(&mut self, name: Option<&str>, canonical_type: i32) {
        self.digest.update(canonical_type.to_le_bytes());
        if let Some(name) = name {
            self.digest.update(name.as_bytes());
            self.digest.update([0]);
        }
    }
}

/// A double as its hash sees it: truncated towards zero; NaN is 0 and what lies outside saturates,
/// except that 2^63 itself becomes −2^63, as the conversion on MongoDB's reference platform does.
pub fn truncate(value: f64) -> i64 {
    const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;
    if value == TWO_TO_63 {
        return i64::MIN;
    }
    #[expect(
        clippy::cast_possible_truncation,
        reason = "saturates, and turns NaN into 0, as wanted"
    )]
    let truncated = value as i64;
    truncated
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(feed: impl FnOnce(&mut ValueHasher), expected: i64) {
        check_seeded(0, feed, expected);
    }

    fn check_seeded(seed: i32, feed: impl FnOnce(&mut ValueHasher), expected: i64) {
        let mut hasher = ValueHasher::new(seed);
        feed(&mut hasher);
        assert_eq!(hasher.finish(), expected);
    }

    fn strings(hasher: &mut ValueHasher, values: [&str; 3]) {
        hasher.begin_array(None);
        for (position, value) in values.into_iter().enumerate() {
            hasher.string(Some(&position.to_string()), value);
        }
        hasher.end();
    }

    #[test]
    fn scalars_hash_as_in_mongodb() {
        check(|hasher| hasher.number(None, 42), -944302157085130861);
        check(|hasher| hasher.number(None, 0), 4854801880128277513);
        check(|hasher| hasher.number(None, 1), 5902408780260971510);
        check(|hasher| hasher.number(None, i64::MAX), 921523596458303250);
        check(|hasher| hasher.number(None, i64::MIN), 4532067210535695462);
        check(|hasher| hasher.null(None), 2338878944348059895);
        check(|hasher| hasher.string(None, "abc"), 8478485326885698097);
        check(|hasher| hasher.string(None, ""), 2049396243249673340);
        check(|hasher| hasher.element(None, -1, &[]), 7961148599568647290);
        check(|hasher| hasher.element(None, 127, &[]), 5504842513779440750);
        check_seeded(40513, |hasher| hasher.number(None, 42), 4302929669663179197);
    }

    #[test]
    fn documents_and_arrays_hash_as_in_mongodb() {
        check(
            |hasher| {
                hasher.begin_document(None);
                hasher.string(Some("a"), "abc");
                hasher.number(Some("b"), 123);
                hasher.end();
            },
            4771603801758380216,
        );
        check(
            |hasher| {
                hasher.begin_document(None);
                hasher.end();
            },
            7980500913326740417,
        );
        check(
            |hasher| strings(hasher, ["bar", "baz", "qux"]),
            -2938911267422831539,
        );
        let seeds = ["sunflower", "sesame", "mustard"];
        check_seeded(40513, |hasher| strings(hasher, seeds), -9222615859251096151);
    }

    #[test]
    fn doubles_hash_as_the_integer_they_truncate_to() {
        for (double, expected) in [
            (1.9, 1),
            (-1.9, -1),
            (f64::NAN, 0),
            (f64::INFINITY, i64::MAX),
            (f64::NEG_INFINITY, i64::MIN),
            (9_223_372_036_854_775_808.0, i64::MIN),
            (9_223_372_036_854_777_856.0, i64::MAX),
        ] {
            assert_eq!(truncate(double), expected, "{double}");
        }
    }
}
