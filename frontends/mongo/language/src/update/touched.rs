//! The paths at which an update changed something, for those who follow the changes.

use std::fmt::Display;
use std::ops::Range;

use super::difference::Manner;

/// So many bytes of paths are noted. One path stands for each changed element of an array, and each
/// has all names that lead to it; what takes more is described by comparing the documents.
const MAX_BYTES: usize = 16 << 20;

/// What a path takes beside its text.
const PATH_BYTES: usize = 40;

/// Paths, as long as they are not too many.
#[derive(Debug, Default)]
pub(super) struct Touched {
    paths: Vec<String>,
    bytes: usize,
    is_cut: bool,
}

impl Touched {
    /// Notes a path.
    pub(super) fn note(&mut self, path: &impl Display) {
        if !self.is_cut {
            self.add(path.to_string());
        }
    }

    /// Notes these elements of the array at a path.
    pub(super) fn note_elements(&mut self, path: &impl Display, elements: Range<usize>) {
        if self.is_cut {
            return;
        }
        let path = path.to_string();
        for element in elements {
            if !self.add(format!("{path}.{element}")) {
                return;
            }
        }
    }

    fn add(&mut self, path: String) -> bool {
        self.bytes += path.len() + PATH_BYTES;
        self.is_cut = self.bytes > MAX_BYTES;
        if self.is_cut {
            self.paths = Vec::new();
        } else {
            self.paths.push(path);
        }
        !self.is_cut
    }

    /// Whether nothing changed.
    pub(super) fn is_empty(&self) -> bool {
        self.paths.is_empty() && !self.is_cut
    }

    /// How the changes are described.
    pub(super) fn manner(self) -> Manner {
        if self.is_cut {
            return Manner::Computed;
        }
        Manner::Paths(self.paths)
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use bson::{Bson, Document, bson, doc};

    use crate::update::{Manner, tests::parse};

    /// Updates that change each of some elements below a field of this name.
    fn of_elements(name: &str) -> Vec<(Bson, Vec<Document>)> {
        let all = |path: &str| format!("{name}.{path}");
        vec![
            (bson!({ "$inc": { all("$[]"): 1 } }), vec![]),
            (bson!({ "$set": { all("$[]"): 5 } }), vec![]),
            (bson!({ "$mul": { all("$[]"): 3 } }), vec![]),
            (bson!({ "$bit": { all("$[]"): { "or": 8 } } }), vec![]),
            (bson!({ "$unset": { all("$[]"): 1 } }), vec![]),
            (bson!({ "$max": { all("$[x]"): 9 } }), vec![doc! { "x": 1 }]),
            (
                bson!({ "$set": { all("$[x]"): [] } }),
                vec![doc! { "x": { "$gt": 0 } }],
            ),
            (bson!({ "$currentDate": { all("$[]"): true } }), vec![]),
            (
                bson!({ "$push": { name: { "$each": vec![1; 20_000] } } }),
                vec![],
            ),
            (
                bson!({ "$addToSet": { name: { "$each": (10..20_000).collect::<Vec<i32>>() } } }),
                vec![],
            ),
        ]
    }

    #[test]
    fn paths_are_noted_until_they_are_too_long() {
        for (name, is_long) in [("n".to_owned(), false), ("n".repeat(1_000_000), true)] {
            for (update, filters) in of_elements(&name) {
                let shown: String = update.to_string().chars().take(30).collect();
                let began = Instant::now();
                let parsed = parse(update, &filters).unwrap();
                let before = doc! { "_id": 1, &name: vec![1; 20_000] };
                let applied = parsed.apply(before, None, false).unwrap();
                assert!(applied.modified, "{shown}");
                match applied.manner {
                    Manner::Paths(paths) => {
                        assert!(!is_long, "{shown}");
                        assert!(paths.len() >= 19_990, "{shown}");
                        assert!(paths.iter().all(|path| path.starts_with("n.")), "{shown}");
                    }
                    manner => {
                        assert!(is_long, "{shown}");
                        assert_eq!(manner, Manner::Computed, "{shown}");
                    }
                }
                assert!(began.elapsed() < Duration::from_secs(10), "{shown}");
            }
        }
    }
}
