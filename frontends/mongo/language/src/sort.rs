//! Sort patterns: the order in which documents are answered.

use std::cmp::Ordering;
use std::collections::HashSet;

use bson::{Bson, Document};
use tessera_core::deadline;

use crate::collation::Collation;
use crate::compare::compare;
use crate::error::{Code, Error, Result, bad_value, failed_to_parse};
use crate::number::Number;
use crate::path::{Path, keys};

/// How many keys a pattern may have.
const MAX_KEYS: usize = 32;

const TOO_MANY_KEYS: Code = Code(13103);
const NOT_A_DIRECTION: Code = Code(15974);
const BAD_DIRECTION: Code = Code(15975);
const NOT_META: Code = Code(17312);
const UNKNOWN_META: Code = Code(31138);
const META_UNAVAILABLE: Code = Code(40218);
const DUPLICATE_KEY: Code = Code(7_472_500);

/// What a sort by `$meta` may name and no document has: all are equal.
const ABSENT_METADATA: &[&str] = &["score", "searchScore", "vectorSearchScore"];

/// What a sort by `$meta` may name only where such a search was made.
const SEARCH_METADATA: &[&str] = &["geoNearDistance", "textScore"];

/// A parsed sort pattern.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct SortPattern {
    /// The paths of all keys that have one.
    paths: Vec<Path>,
    parts: Vec<Part>,
    collation: Collation,
}

/// One key of a pattern.
#[derive(Clone, Debug, PartialEq)]
enum Part {
    Field {
        path: Path,
        descending: bool,
    },
    /// `{$meta: "randVal"}`
    Random,
    /// `{$meta: "searchScore"}` and its like.
    Absent,
}

/// What a document is sorted by: compare two with [`SortPattern::compare_keys`].
#[derive(Clone, Debug, PartialEq)]
pub struct SortKey(Vec<Bson>);

impl SortKey {
    /// The values, one for each key of the pattern.
    pub fn values(&self) -> &[Bson] {
        &self.0
    }
}

impl SortPattern {
    /// Parses a pattern: paths with 1 or -1. The empty pattern leaves the order as it is.
    pub fn parse(pattern: &Document, collation: &Collation) -> Result<Self> {
        let mut sort = Self {
            collation: collation.clone(),
            ..Self::default()
        };
        let mut known = HashSet::new();
        for (name, direction) in pattern {
            deadline::step(1)?;
            let part = match direction {
                Bson::Document(meta) => by_metadata(meta)?,
                direction => {
                    let descending = is_descending(name, direction)?;
                    let path = Path::checked(name)?;
                    if !known.insert(name.as_str()) {
                        let message = format!(
                            "$sort key must not contain duplicate keys (duplicate: '{name}')"
                        );
                        return Err(Error::new(DUPLICATE_KEY, message));
                    }
                    sort.paths.push(path.clone());
                    Part::Field { path, descending }
                }
            };
            sort.parts.push(part);
        }
        if sort.paths.len() > MAX_KEYS {
            return Err(Error::new(TOO_MANY_KEYS, "too many compound keys"));
        }
        Ok(sort)
    }

    /// Whether it says nothing.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// The paths and whether each is descending, if all keys are paths: what an index may serve.
    pub fn fields(&self) -> Option<Vec<(&Path, bool)>> {
        self.parts
            .iter()
            .map(|part| match part {
                Part::Field { path, descending } => Some((path, *descending)),
                Part::Random | Part::Absent => None,
            })
            .collect()
    }

    /// What the document is sorted by: of an array its least element, or its greatest if the key is
    /// descending.
    pub fn key(&self, document: &Document) -> Result<SortKey> {
        let found = keys(document, &self.paths).map_err(|error| {
            if error.code == Code::CANNOT_INDEX_PARALLEL_ARRAYS {
                bad_value("cannot sort with keys that are parallel arrays")
            } else {
                error
            }
        })?;
        let entries = found.entries.into_iter().map(|entry| self.complete(entry));
        let first = entries.min_by(|a, b| self.compare_keys(a, b));
        Ok(first.unwrap_or_else(|| SortKey(vec![Bson::Null; self.parts.len()])))
    }

    /// The values of the paths, with a number for each random key between them.
    fn complete(&self, entry: Vec<Option<Bson>>) -> SortKey {
        let mut values = entry.into_iter();
        let value = |part: &Part| match part {
            Part::Field { .. } => values.next().flatten().unwrap_or(Bson::Null),
            Part::Random => Bson::Double(rand::random()),
            Part::Absent => Bson::Null,
        };
        SortKey(self.parts.iter().map(value).collect())
    }

    /// The order of two documents by their keys.
    pub fn compare_keys(&self, a: &SortKey, b: &SortKey) -> Ordering {
        let values = a.0.iter().zip(&b.0);
        let mut orders = self
            .parts
            .iter()
            .zip(values)
            .map(|(part, (a, b))| match part {
                Part::Field {
                    descending: true, ..
                } => compare(b, a, &self.collation),
                _ => compare(a, b, &self.collation),
            });
        orders
            .find(|order| order.is_ne())
            .unwrap_or(Ordering::Equal)
    }

    /// The order of two documents. To sort many, take the [`key`](Self::key) of each once.
    pub fn compare(&self, a: &Document, b: &Document) -> Result<Ordering> {
        Ok(self.compare_keys(&self.key(a)?, &self.key(b)?))
    }

    /// Sorts; what is equal stays in the order it was in.
    pub fn sort(&self, documents: Vec<Document>) -> Result<Vec<Document>> {
        if self.is_empty() {
            return Ok(documents);
        }
        let mut keyed = documents
            .into_iter()
            .map(|document| Ok((self.key(&document)?, document)))
            .collect::<Result<Vec<_>>>()?;
        deadline::sort_by(&mut keyed, |(a, _), (b, _)| self.compare_keys(a, b))?;
        Ok(keyed.into_iter().map(|(_, document)| document).collect())
    }

    /// The pattern written again.
    pub fn to_document(&self) -> Document {
        let mut pattern = Document::new();
        for (number, part) in self.parts.iter().enumerate() {
            match part {
                Part::Field { path, descending } => {
                    pattern.insert(path.as_str(), if *descending { -1 } else { 1 });
                }
                Part::Random | Part::Absent => {
                    pattern.insert(format!("$computed{number}"), -1);
                }
            }
        }
        pattern
    }
}

fn is_descending(name: &str, direction: &Bson) -> Result<bool> {
    let Some(number) = Number::from_bson(direction) else {
        let message = format!("Illegal key in $sort specification: {name}: {direction}");
        return Err(Error::new(NOT_A_DIRECTION, message));
    };
    match number.to_i64_saturating() {
        1 => Ok(false),
        -1 => Ok(true),
        _ => {
            let message = "$sort key ordering must be 1 (for ascending) or -1 (for descending)";
            Err(Error::new(BAD_DIRECTION, message))
        }
    }
}

fn by_metadata(meta: &Document) -> Result<Part> {
    let Some(given) = meta.get("$meta") else {
        let message = "Cannot sort by an expression other than $meta";
        return Err(Error::new(NOT_META, message));
    };
    if meta.len() > 1 {
        return Err(failed_to_parse(
            "Cannot have additional keys in a $meta sort specification",
        ));
    }
    match given {
        Bson::String(name) if name == "randVal" => Ok(Part::Random),
        Bson::String(name) if ABSENT_METADATA.contains(&name.as_str()) => Ok(Part::Absent),
        Bson::String(name) if SEARCH_METADATA.contains(&name.as_str()) => {
            let message = format!("query requires {name} metadata, but it is not available");
            Err(Error::new(META_UNAVAILABLE, message))
        }
        given => Err(Error::new(
            UNKNOWN_META,
            format!("Illegal $meta sort: {given}"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use bson::{Bson, Document, doc};

    use super::SortPattern;
    use crate::collation::Collation;

    fn sorted(pattern: Document, documents: Vec<Document>) -> Vec<i32> {
        let numbered = documents
            .into_iter()
            .zip(1..)
            .map(|(mut document, number)| {
                document.insert("n", number);
                document
            });
        let pattern = SortPattern::parse(&pattern, &Collation::default()).unwrap();
        let sorted = pattern.sort(numbered.collect()).unwrap();
        sorted
            .iter()
            .map(|document| document.get_i32("n").unwrap())
            .collect()
    }

    #[test]
    fn orders_documents() {
        let mixed = || {
            vec![
                doc! {"a": "x"},
                doc! {"a": 2},
                doc! {},
                doc! {"a": []},
                doc! {"a": 1.5},
            ]
        };
        let arrays = || vec![doc! {"a": [2, 9]}, doc! {"a": 3}, doc! {"a": [1, 4]}];
        for (pattern, documents, expected) in [
            (doc! {"a": 1}, mixed(), vec![4, 3, 5, 2, 1]),
            (doc! {"a": -1}, mixed(), vec![1, 2, 5, 3, 4]),
            (doc! {"a": 1}, arrays(), vec![3, 1, 2]),
            (doc! {"a": -1}, arrays(), vec![1, 3, 2]),
            (doc! {}, arrays(), vec![1, 2, 3]),
            (
                doc! {"s": {"$meta": "searchScore"}, "a": 1, "r": {"$meta": "randVal"}},
                arrays(),
                vec![3, 1, 2],
            ),
            (
                doc! {"a": 1, "b": -1},
                vec![doc! {"a": 1, "b": 1}, doc! {"a": 1, "b": 2}, doc! {"a": 0}],
                vec![3, 2, 1],
            ),
            (
                doc! {"a.b": 1},
                vec![
                    doc! {"a": {"b": 2}},
                    doc! {"a": [{"b": 3}, {"b": 1}]},
                    doc! {"a": 0},
                ],
                vec![3, 2, 1],
            ),
            // The pairs of one array's elements compare as pairs.
            (
                doc! {"a.b": 1, "a.c": 1},
                vec![
                    doc! {"a": [{"b": 1, "c": 9}, {"b": 2, "c": 0}]},
                    doc! {"a": {"b": 1, "c": 5}},
                ],
                vec![2, 1],
            ),
        ] {
            assert_eq!(sorted(pattern.clone(), documents), expected, "{pattern}");
        }
    }

    #[test]
    fn refuses_bad_patterns() {
        let many: Document = (0..33).map(|n| (format!("a{n}"), Bson::Int32(1))).collect();
        for (pattern, code) in [
            (doc! {"a": 0}, 15975),
            (doc! {"a": 2}, 15975),
            (doc! {"a": f64::NAN}, 15975),
            (doc! {"a": "asc"}, 15974),
            (doc! {"a": true}, 15974),
            (doc! {"a": {"$foo": 1}}, 17312),
            (doc! {"a": {"$meta": "randVal", "b": 1}}, 9),
            (doc! {"a": {"$meta": "indexKey"}}, 31138),
            (doc! {"a": {"$meta": 1}}, 31138),
            (doc! {"a": {"$meta": "textScore"}}, 40218),
            (doc! {"": 1}, 40352),
            (doc! {"$a": 1}, 16410),
            (many, 13103),
        ] {
            let error = SortPattern::parse(&pattern, &Collation::default()).unwrap_err();
            assert_eq!(error.code.0, code, "{pattern}");
        }
    }

    #[test]
    fn refuses_parallel_arrays() {
        let pattern = SortPattern::parse(&doc! {"a": 1, "b": 1}, &Collation::default()).unwrap();
        let error = pattern.key(&doc! {"a": [1], "b": [2]}).unwrap_err();
        assert_eq!(error.code.0, 2);
    }

    #[test]
    fn compares_by_collation() {
        let collation = Collation::parse(&doc! {"locale": "en", "strength": 2}).unwrap();
        let pattern = SortPattern::parse(&doc! {"a": 1}, &collation).unwrap();
        let order = pattern.compare(&doc! {"a": "b"}, &doc! {"a": "B"}).unwrap();
        assert!(order.is_eq());
        let order = pattern.compare(&doc! {"a": "a"}, &doc! {"a": "B"}).unwrap();
        assert!(order.is_lt());
    }
}
