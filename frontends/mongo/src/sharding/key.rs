//! Shard keys: the allowed patterns, and their requirements on indexes.

use bson::{Bson, Document, doc};
use tessera_mongo_language::collation::Collation;
use tessera_mongo_language::compare;
use tessera_mongo_language::error::{Code, Error, Result, bad_value};

use crate::collection::ShardKey;
use crate::index::IndexSpec;

/// The most fields that a shard key has.
const MAX_FIELDS: usize = 32;

/// A shard key as a command asks for it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AskedKey {
    /// The pattern under which documents are placed: every field is hashed.
    pub(crate) key: Document,
    /// The pattern as it was given.
    pattern: Document,
    /// Whether a field was given as a range.
    pub(crate) is_range: bool,
}

impl AskedKey {
    /// Reads a key pattern.
    pub(crate) fn parse(pattern: &Document) -> Result<Self> {
        if pattern.is_empty() {
            return Err(bad_value(
                "the shard key pattern must contain at least one field",
            ));
        }
        if pattern.len() > MAX_FIELDS {
            let count = pattern.len();
            return Err(bad_value(format!(
                "the shard key pattern has {count} fields, and {MAX_FIELDS} are allowed"
            )));
        }
        let mut key = Document::new();
        let mut is_range = false;
        for (path, kind) in pattern {
            check_path(path)?;
            match kind {
                Bson::String(kind) if kind == "hashed" => {}
                Bson::Int32(1) | Bson::Int64(1) => is_range = true,
                Bson::Double(number) if (number - 1.0).abs() < f64::EPSILON => is_range = true,
                other => {
                    return Err(bad_value(format!(
                        "Field {path} can only be 1 or 'hashed', and is {other}"
                    )));
                }
            }
            key.insert(path.clone(), "hashed");
        }
        Ok(Self {
            key,
            pattern: pattern.clone(),
            is_range,
        })
    }

    /// The index that keeps a key unique which was asked to be: only one that is not hashed can.
    pub(crate) fn unique_index(&self) -> Result<Document> {
        if self
            .pattern
            .values()
            .any(|kind| matches!(kind, Bson::String(_)))
        {
            return Err(bad_value("hashed shard keys cannot be declared unique."));
        }
        let name = IndexSpec::default_name(&self.pattern);
        Ok(doc! { "key": self.pattern.clone(), "name": name, "unique": true })
    }

    /// What a client should know of a key that is not placed as it may think.
    pub(crate) fn note(&self) -> Option<String> {
        self.is_range.then(|| {
            format!(
                "documents are placed by the hash of their shard key, also where a range was \
                 asked for: the key is {}",
                self.key
            )
        })
    }

    /// Whether this key is `other` with further fields behind.
    pub(crate) fn extends(&self, other: &Document) -> bool {
        let paths = self.key.keys().take(other.len());
        self.key.len() >= other.len() && paths.eq(other.keys())
    }
}

fn check_path(path: &str) -> Result<()> {
    if path.split('.').any(str::is_empty) {
        return Err(bad_value(format!("Field {path} contains empty parts")));
    }
    if path.split('.').any(|part| part.starts_with('$')) {
        let message = format!("Field {path} contains parts that start with '$'");
        return Err(bad_value(message));
    }
    Ok(())
}

/// Refuses a unique index that could hold two documents of different places as one value: it must
/// contain the whole shard key. The index on `_id` is unique for each value of the shard key alone.
pub(crate) fn check_unique_index(index: &Document, shard_key: &Document, code: Code) -> Result<()> {
    let contained = shard_key.keys().all(|path| index.contains_key(path));
    if contained || index.keys().eq(["_id"]) {
        return Ok(());
    }
    let message = format!(
        "cannot create unique index over {index} with shard key pattern {shard_key}: it must \
         contain all fields of the shard key"
    );
    Err(Error::new(code, message))
}

/// Refuses a change of a document's shard key.
pub(crate) fn check_unmoved(key: &ShardKey, before: &Document, after: &Document) -> Result<()> {
    for path in &key.paths {
        let (old, new) = (at(before, path), at(after, path));
        let same = match (old, new) {
            (Some(old), Some(new)) => compare::equal(old, new, &Collation::default()),
            (old, new) => old.is_none() && new.is_none(),
        };
        if !same {
            return Err(Error::new(
                Code::IMMUTABLE_FIELD,
                format!(
                    "the update would change the shard key field '{path}': that takes a \
                     transaction, or a single update with retryWrites"
                ),
            ));
        }
    }
    Ok(())
}

fn at<'a>(document: &'a Document, path: &str) -> Option<&'a Bson> {
    let (first, rest) = match path.split_once('.') {
        Some((first, rest)) => (first, Some(rest)),
        None => (path, None),
    };
    match (document.get(first)?, rest) {
        (value, None) => Some(value),
        (Bson::Document(inner), Some(rest)) => at(inner, rest),
        (_, Some(_)) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_hashed_whatever_they_say() {
        for (pattern, key, is_range) in [
            (doc! { "a": "hashed" }, doc! { "a": "hashed" }, false),
            (
                doc! { "a": "hashed", "b.c": "hashed" },
                doc! { "a": "hashed", "b.c": "hashed" },
                false,
            ),
            (doc! { "_id": 1 }, doc! { "_id": "hashed" }, true),
            (doc! { "a": 1i64 }, doc! { "a": "hashed" }, true),
            (
                doc! { "a": 1.0, "b": "hashed" },
                doc! { "a": "hashed", "b": "hashed" },
                true,
            ),
        ] {
            let asked = AskedKey::parse(&pattern).unwrap();
            assert_eq!((&asked.key, asked.is_range), (&key, is_range), "{pattern}");
            assert_eq!(asked.note().is_some(), is_range);
        }
    }

    #[test]
    fn other_patterns_are_refused() {
        let many: Document = (0..33).map(|n| (format!("f{n}"), Bson::Int32(1))).collect();
        for pattern in [
            doc! {},
            doc! { "a": -1 },
            doc! { "a": 2 },
            doc! { "a": "text" },
            doc! { "a": { "b": 1 } },
            doc! { "": 1 },
            doc! { "a..b": 1 },
            doc! { "a.": "hashed" },
            doc! { "$a": "hashed" },
            doc! { "a.$b": 1 },
            many,
        ] {
            let refused = AskedKey::parse(&pattern).unwrap_err();
            assert_eq!(refused.code, Code::BAD_VALUE, "{pattern}");
        }
    }

    #[test]
    fn only_ranges_can_be_unique() {
        for (pattern, expected) in [
            (doc! { "a": 1, "b": 1 }, Some("a_1_b_1")),
            (doc! { "a": "hashed" }, None),
            (doc! { "a": 1, "b": "hashed" }, None),
        ] {
            let index = AskedKey::parse(&pattern).unwrap().unique_index();
            let name = index
                .as_ref()
                .ok()
                .and_then(|index| index.get_str("name").ok());
            assert_eq!(name, expected, "{pattern}");
        }
    }

    #[test]
    fn a_refined_key_begins_with_the_old_one() {
        let asked = AskedKey::parse(&doc! { "a": 1, "b": 1 }).unwrap();
        assert!(asked.extends(&doc! { "a": "hashed" }));
        assert!(asked.extends(&asked.key));
        assert!(!asked.extends(&doc! { "b": "hashed" }));
        assert!(!asked.extends(&doc! { "a": "hashed", "b": "hashed", "c": "hashed" }));
    }

    #[test]
    fn a_shard_key_stays_what_it_is() {
        let key = ShardKey::new(doc! { "a.b": "hashed", "c": "hashed" });
        let before = doc! { "a": { "b": 1 }, "c": "x", "d": 1 };
        for (after, allowed) in [
            (doc! { "a": { "b": 1 }, "c": "x", "d": 2 }, true),
            (doc! { "a": { "b": 1.0 }, "c": "x" }, true),
            (doc! { "a": { "b": 2 }, "c": "x" }, false),
            (doc! { "a": 1, "c": "x" }, false),
            (doc! { "a": { "b": 1 } }, false),
        ] {
            let checked = check_unmoved(&key, &before, &after);
            assert_eq!(checked.is_ok(), allowed, "{after}");
            assert!(checked.is_ok() || checked.unwrap_err().code == Code(66));
        }
    }

    #[test]
    fn unique_indexes_contain_the_shard_key() {
        let shard_key = doc! { "a": "hashed", "b": "hashed" };
        for (index, allowed) in [
            (doc! { "a": 1, "b": 1 }, true),
            (doc! { "c": 1, "b": -1, "a": 1 }, true),
            (doc! { "_id": 1 }, true),
            (doc! { "a": 1 }, false),
            (doc! { "_id": 1, "c": 1 }, false),
        ] {
            let checked = check_unique_index(&index, &shard_key, Code::CANNOT_CREATE_INDEX);
            assert_eq!(checked.is_ok(), allowed, "{index}");
        }
    }
}
