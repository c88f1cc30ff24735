//! The form in which the oplog has updates: what changed, in the nesting of the document
//! (`{$v: 2, diff: …}`).
//!
//! | field | means |
//! |---|---|
//! | `d` | fields that are gone, each with `false` |
//! | `u`, `i` | fields with their new values |
//! | `s` and a name | the difference of an embedded document or array |
//! | `a` | that it is one of an array, whose own fields are the three below |
//! | `l` | how long the array is now |
//! | `u` and a number | the new value of an element |
//! | `s` and a number | the difference of an element |

use bson::{Bson, Document, doc};
use tessera_mongo_language::error::{Code, Error, Result};

/// How deep differences are: no deeper than documents.
const MAX_DEPTH: usize = 200;

/// A field of a document, or an element of an array.
#[derive(Clone, Debug, PartialEq)]
enum Part {
    Name(String),
    Element(usize),
}

/// The difference of a document or an array.
#[derive(Debug, Default)]
struct Node {
    removed: Vec<Part>,
    updated: Vec<(Part, Bson)>,
    within: Vec<(Part, Self)>,
    length: Option<Bson>,
}

/// The difference that an event's `updateDescription` tells of.
pub(crate) fn of_description(description: &Document) -> Document {
    let mut root = Node::default();
    let clear = description.get_document("disambiguatedPaths").ok();
    let parts = |path: &str| parts(path, clear.and_then(|clear| clear.get(path)));
    let truncated = description.get_array("truncatedArrays").ok();
    for truncated in truncated.into_iter().flatten() {
        if let Some(truncated) = truncated.as_document()
            && let Ok(path) = truncated.get_str("field")
        {
            let node = parts(path).into_iter().fold(&mut root, Node::child);
            node.length = truncated.get("newSize").cloned();
        }
    }
    let removed = description.get_array("removedFields").ok();
    for path in removed.into_iter().flatten().filter_map(Bson::as_str) {
        if let Some((node, last)) = root.parent(parts(path)) {
            node.removed.push(last);
        }
    }
    let updated = description.get_document("updatedFields").ok();
    for (path, value) in updated.into_iter().flatten() {
        if let Some((node, last)) = root.parent(parts(path)) {
            node.updated.push((last, value.clone()));
        }
    }
    root.document()
}

/// The parts of a path: as they are told where the text alone does not tell. Elsewhere a number
/// within a path is that of an element.
fn parts(path: &str, clear: Option<&Bson>) -> Vec<Part> {
    let Some(Bson::Array(clear)) = clear else {
        let names = path.split('.').enumerate();
        return names.map(|(at, name)| Part::unclear(at, name)).collect();
    };
    let part = |part: &Bson| match part {
        Bson::String(name) => Part::Name(name.clone()),
        Bson::Int32(number) => Part::Element(usize::try_from(*number).unwrap_or(0)),
        other => Part::Name(other.to_string()),
    };
    clear.iter().map(part).collect()
}

impl Part {
    fn unclear(at: usize, name: &str) -> Self {
        match name.parse::<usize>() {
            Ok(number) if at > 0 && number.to_string() == name => Self::Element(number),
            _ => Self::Name(name.to_owned()),
        }
    }
}

impl Node {
    fn child(&mut self, part: Part) -> &mut Self {
        let at = match self.within.iter().position(|(known, _)| *known == part) {
            Some(at) => at,
            None => {
                self.within.push((part, Self::default()));
                self.within.len() - 1
            }
        };
        // It was found or added just now.
        #[expect(clippy::indexing_slicing, reason = "the place was just found")]
        &mut self.within[at].1
    }

    fn parent(&mut self, mut parts: Vec<Part>) -> Option<(&mut Self, Part)> {
        let last = parts.pop()?;
        Some((parts.into_iter().fold(self, Self::child), last))
    }

    fn is_array(&self) -> bool {
        let parts = (self.removed.iter())
            .chain(self.updated.iter().map(|(part, _)| part))
            .chain(self.within.iter().map(|(part, _)| part));
        let mut parts = parts;
        self.length.is_some() || parts.any(|part| matches!(part, Part::Element(_)))
    }

    fn document(self) -> Document {
        if self.is_array() {
            return self.array();
        }
        let mut diff = Document::new();
        let name = |part: Part| match part {
            Part::Name(name) => name,
            Part::Element(number) => number.to_string(),
        };
        if !self.removed.is_empty() {
            let removed = self
                .removed
                .into_iter()
                .map(|part| (name(part), false.into()));
            diff.insert("d", removed.collect::<Document>());
        }
        if !self.updated.is_empty() {
            let updated = self.updated.into_iter();
            let updated: Document = updated.map(|(part, value)| (name(part), value)).collect();
            diff.insert("u", updated);
        }
        for (part, node) in self.within {
            diff.insert(format!("s{}", name(part)), node.document());
        }
        diff
    }

    fn array(self) -> Document {
        let mut diff = doc! { "a": true };
        if let Some(length) = self.length {
            diff.insert("l", length);
        }
        let number = |part: Part| match part {
            Part::Name(name) => name,
            Part::Element(number) => number.to_string(),
        };
        for part in self.removed {
            // An element that is gone leaves a null.
            diff.insert(format!("u{}", number(part)), Bson::Null);
        }
        for (part, value) in self.updated {
            diff.insert(format!("u{}", number(part)), value);
        }
        for (part, node) in self.within {
            diff.insert(format!("s{}", number(part)), node.document());
        }
        diff
    }
}

/// Changes a document as a difference says. What does not fit the document is left out: it was
/// changed later, so another entry brings it where it is to be.
pub(crate) fn apply(document: &mut Document, diff: &Document) -> Result<()> {
    apply_at(document, diff, 0)
}

fn apply_at(document: &mut Document, diff: &Document, depth: usize) -> Result<()> {
    check_depth(depth)?;
    for (key, change) in diff {
        match (key.as_str(), change) {
            ("d", Bson::Document(removed)) => {
                for name in removed.keys() {
                    document.remove(name);
                }
            }
            ("u" | "i", Bson::Document(updated)) => {
                for (name, value) in updated {
                    document.insert(name.clone(), value.clone());
                }
            }
            (key, Bson::Document(change)) if key.len() > 1 && key.starts_with('s') => {
                let name = key.get(1..).unwrap_or_default();
                if let Some(value) = document.get_mut(name) {
                    apply_within(value, change, depth + 1)?;
                }
            }
            _ => return Err(malformed(key)),
        }
    }
    Ok(())
}

fn apply_within(value: &mut Bson, change: &Document, depth: usize) -> Result<()> {
    match (value, change.get_bool("a").unwrap_or(false)) {
        (Bson::Array(elements), true) => apply_to_array(elements, change, depth),
        (Bson::Document(document), false) => apply_at(document, change, depth),
        _ => Ok(()),
    }
}

fn apply_to_array(elements: &mut Vec<Bson>, diff: &Document, depth: usize) -> Result<()> {
    check_depth(depth)?;
    for (key, change) in diff {
        match (key.as_str(), change) {
            ("a", _) => continue,
            ("l", length) => {
                let length = length.as_i32().map(i64::from).or(length.as_i64());
                let length = length.and_then(|length| usize::try_from(length).ok());
                let length = length.ok_or_else(|| malformed(key))?;
                check_index(length, elements.len())?;
                elements.resize(length, Bson::Null);
                continue;
            }
            _ => {}
        }
        let (kind, number) = key.split_at_checked(1).ok_or_else(|| malformed(key))?;
        let number: usize = number.parse().map_err(|_| malformed(key))?;
        match (kind, change) {
            ("u", value) => {
                check_index(number, elements.len())?;
                if number >= elements.len() {
                    elements.resize(number + 1, Bson::Null);
                }
                if let Some(place) = elements.get_mut(number) {
                    *place = value.clone();
                }
            }
            ("s", Bson::Document(change)) => {
                if let Some(element) = elements.get_mut(number) {
                    apply_within(element, change, depth + 1)?;
                }
            }
            _ => return Err(malformed(key)),
        }
    }
    Ok(())
}

fn check_depth(depth: usize) -> Result<()> {
    if depth > MAX_DEPTH {
        let message = format!("a difference of an oplog entry is more than {MAX_DEPTH} deep");
        return Err(Error::new(Code::BAD_VALUE, message));
    }
    Ok(())
}

/// An entry must not make an array much longer at once.
fn check_index(number: usize, length: usize) -> Result<()> {
    const MAX_STEP: usize = 1_500_000;
    if number > length.saturating_add(MAX_STEP) {
        let message = format!("an oplog entry sets element {number} of an array of {length}");
        return Err(Error::new(Code::BAD_VALUE, message));
    }
    Ok(())
}

fn malformed(key: &str) -> Error {
    let message = format!("the difference of an oplog entry has '{key}', which means nothing");
    Error::new(Code(4_770_508), message)
}

#[cfg(test)]
mod tests {
    use tessera_mongo_language::update::{Difference, Manner};

    use super::*;

    /// The difference of two documents, applied to the first.
    fn through(before: &Document, after: &Document) -> (Document, Document) {
        let difference = Difference::of(&Manner::Computed, before, after).unwrap();
        let diff = of_description(&difference.unwrap().description());
        let mut changed = before.clone();
        apply(&mut changed, &diff).unwrap();
        (diff, changed)
    }

    /// So large that a difference is worth it.
    fn long(document: Document) -> Document {
        let mut long = doc! { "pad": "x".repeat(1_000) };
        long.extend(document);
        long
    }

    #[test]
    fn a_difference_applied_to_the_old_document_makes_the_new_one() {
        for (before, after) in [
            (doc! { "a": 1 }, doc! { "a": 2 }),
            (doc! { "a": 1 }, doc! { "b": 2 }),
            (doc! { "a": { "b": 1, "c": 2 } }, doc! { "a": { "b": 2 } }),
            (doc! { "a": [1, 2, 3] }, doc! { "a": [1, 5, 3] }),
            (doc! { "a": [1, 2, 3] }, doc! { "a": [1] }),
            (doc! { "a": [1] }, doc! { "a": [1, 2, 3] }),
            (
                doc! { "a": [{ "x": 1, "y": 2 }, 7] },
                doc! { "a": [{ "x": 2, "y": 2 }, 7] },
            ),
            (
                doc! { "a": { "0": 1, "z": 1 } },
                doc! { "a": { "0": 2, "z": 1 } },
            ),
            (doc! { "a.b": 1 }, doc! { "a.b": 2 }),
            (
                doc! { "a": { "b.c": { "d": 1, "e": 1 } } },
                doc! { "a": { "b.c": { "d": 2, "e": 1 } } },
            ),
        ] {
            let (before, after) = (long(before), long(after));
            let (diff, changed) = through(&before, &after);
            let sorted = |document: &Document| {
                let mut fields: Vec<_> = document.clone().into_iter().collect();
                fields.sort_by(|(a, _), (b, _)| a.cmp(b));
                fields
            };
            assert_eq!(sorted(&changed), sorted(&after), "{diff}");
        }
    }

    #[test]
    fn differences_have_the_form_that_others_read() {
        let text = "x".repeat(100);
        let before = long(doc! {
            "a": 1, "n": { "pad": &text, "b": 1, "c": 1 }, "l": [&text, &text, 3],
        });
        let after = long(doc! {
            "a": 2, "n": { "pad": &text, "c": 1, "d": 1 }, "l": [&text, 7],
        });
        let (diff, _) = through(&before, &after);
        assert_eq!(diff.get_document("u").unwrap(), &doc! { "a": 2 }, "{diff}");
        assert_eq!(
            diff.get_document("sn").unwrap(),
            &doc! { "d": { "b": false }, "u": { "d": 1 } }
        );
        assert_eq!(
            diff.get_document("sl").unwrap(),
            &doc! { "a": true, "l": 2, "u1": 7 }
        );
    }

    #[test]
    fn what_does_not_fit_is_left_out_and_what_means_nothing_refused() {
        let apply_to = |mut document: Document, diff: Document| {
            let applied = apply(&mut document, &diff);
            applied.map(|()| document).map_err(|error| error.code.0)
        };
        let same = doc! { "a": 1 };
        for diff in [
            doc! { "sa": { "u": { "b": 1 } } },
            doc! { "sa": { "a": true, "u0": 1 } },
            doc! { "sb": { "u": { "b": 1 } } },
            doc! { "d": { "x": false } },
        ] {
            assert_eq!(apply_to(same.clone(), diff), Ok(same.clone()));
        }
        for diff in [
            doc! { "x": 1 },
            doc! { "u": 1 },
            doc! { "s": { "u": {} } },
            doc! { "sa": 1 },
            doc! { "": {} },
        ] {
            assert_eq!(
                apply_to(same.clone(), diff.clone()),
                Err(4_770_508),
                "{diff}"
            );
        }
        let array = || doc! { "a": [1, 2] };
        for diff in [
            doc! { "a": true, "ux": 1 },
            doc! { "a": true, "l": "x" },
            doc! { "a": true, "é": 1 },
            doc! { "a": true, "s0": 1 },
        ] {
            assert_eq!(apply_to(array(), doc! { "sa": diff }), Err(4_770_508));
        }
        let far = doc! { "sa": { "a": true, "u99999999": 1 } };
        assert_eq!(apply_to(array(), far), Err(2));
    }
}
