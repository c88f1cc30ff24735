//! What an update changed, in the form in which change streams describe it.

use bson::{Bson, Document, doc};
use tessera_core::deadline;

use super::target::Step;
use crate::{
    compare::identical,
    error::Result,
    size::{document_size, value_size},
};

/// What MongoDB's log adds to a difference. A difference that is no smaller than the document,
/// with this, is logged as a replacement.
const LOG_OVERHEAD: usize = 15;

/// The bytes of an empty BSON document.
const EMPTY_SIZE: usize = 5;

/// How an update went about it, which decides how change streams describe it.
#[derive(Clone, Debug, PartialEq)]
pub enum Manner {
    /// By operators, at these paths. An element that was appended to an array has a path of its
    /// own.
    Paths(Vec<String>),
    /// By a document in place of the old one.
    Replacement,
    /// By a pipeline, which gives the new document as a whole.
    Computed,
}

/// The fields of a document that an update changed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Difference<'a> {
    updated: Vec<(String, &'a Bson)>,
    removed: Vec<String>,
    truncated: Vec<(String, usize)>,
    /// Paths that do not tell by themselves where a field name ends, or whether a number is one.
    ambiguous: Vec<(String, Bson)>,
}

impl<'a> Difference<'a> {
    /// What changed between two states of a document; none where change streams show a
    /// replacement.
    pub fn of(manner: &Manner, before: &'a Document, after: &'a Document) -> Result<Option<Self>> {
        match manner {
            Manner::Replacement => Ok(None),
            Manner::Paths(paths) => Self::at(paths, before, after).map(Some),
            Manner::Computed => Self::between(before, after),
        }
    }

    fn at(paths: &[String], before: &'a Document, after: &'a Document) -> Result<Self> {
        let mut difference = Self::default();
        for path in paths {
            deadline::step(1)?;
            difference.follow(path, before, after);
        }
        Ok(difference)
    }

    /// Notes what changed at a path: the whole of what was created on the way, or what is there.
    fn follow(&mut self, path: &str, before: &'a Document, after: &'a Document) {
        let mut walked = PathBuilder::default();
        let mut names = path.split('.').peekable();
        let Some(first) = names.next() else { return };
        walked.push(Part::Name(first));
        let (mut old, mut new) = (before.get(first), after.get(first));
        loop {
            match (old, new, names.next()) {
                (_, None, _) => return self.remove(&walked),
                (None, Some(value), _) => return self.create(&walked, value),
                (Some(_), Some(value), None) => return self.update(&walked, value),
                (Some(within_old), Some(within_new), Some(name)) => {
                    walked.push(Part::of(within_new, name));
                    (old, new) = (child(within_old, name), child(within_new, name));
                }
            }
        }
    }

    /// The smallest difference by MongoDB's rules; none if the new document is smaller.
    fn between(before: &'a Document, after: &'a Document) -> Result<Option<Self>> {
        let mut comparison = Comparison::default();
        let size = comparison.documents(before, after)?;
        let whole = document_size(after);
        Ok(size
            .filter(|size| size + LOG_OVERHEAD < whole)
            .map(|_| comparison.difference))
    }

    /// The field `updateDescription` of an event, as streams that show expanded events have it.
    pub fn description(self) -> Document {
        let updated = self.updated.into_iter();
        let updated: Document = updated.map(|(path, value)| (path, value.clone())).collect();
        let truncated: Vec<Bson> = (self.truncated.into_iter())
            .map(|(field, size)| {
                let size = i32::try_from(size).unwrap_or(i32::MAX);
                Bson::Document(doc! { "field": field, "newSize": size })
            })
            .collect();
        doc! {
            "updatedFields": updated,
            "removedFields": self.removed,
            "truncatedArrays": truncated,
            "disambiguatedPaths": self.ambiguous.into_iter().collect::<Document>(),
        }
    }

    /// Notes a new value, once: the paths below it that an update names come one after the other.
    fn create(&mut self, path: &PathBuilder<'_>, value: &'a Bson) {
        let last = self.updated.last();
        if last.is_none_or(|(known, _)| *known != path.text()) {
            self.update(path, value);
        }
    }

    fn update(&mut self, path: &PathBuilder<'_>, value: &'a Bson) {
        let text = path.text();
        self.clarify(path, &text);
        self.updated.push((text, value));
    }

    fn remove(&mut self, path: &PathBuilder<'_>) {
        let text = path.text();
        self.clarify(path, &text);
        self.removed.push(text);
    }

    fn truncate(&mut self, path: &PathBuilder<'_>, size: usize) {
        let text = path.text();
        self.clarify(path, &text);
        self.truncated.push((text, size));
    }

    fn clarify(&mut self, path: &PathBuilder<'_>, text: &str) {
        if path.is_ambiguous() {
            self.ambiguous.push((text.to_owned(), path.parts()));
        }
    }
}

/// How much of a difference has been noted.
#[derive(Clone, Copy)]
struct Mark([usize; 4]);

/// Two documents compared, field by field.
#[derive(Default)]
struct Comparison<'a> {
    path: PathBuilder<'a>,
    difference: Difference<'a>,
}

impl<'a> Comparison<'a> {
    /// Notes the difference and gives its size in MongoDB's log; none, and nothing noted, if the
    /// new document is no larger.
    fn documents(&mut self, before: &'a Document, after: &'a Document) -> Result<Option<usize>> {
        let (mark, limit) = (self.mark(), document_size(after));
        let mut size = LogSize::default();
        let (mut old, mut new) = (before.iter().peekable(), after.iter().peekable());
        while let (Some((old_name, old_value)), Some((name, value))) = (old.peek(), new.peek()) {
            deadline::step(1)?;
            if old_name == name {
                if !identical(old_value, value) {
                    self.path.push(Part::Name(name));
                    self.changed(old_value, value, &mut size)?;
                    self.path.pop();
                }
                new.next();
            } else if !after.contains_key(*old_name) {
                self.removed(old_name, &mut size);
            }
            // A field that comes later in the new document is set again there.
            old.next();
            if size.total > limit {
                return Ok(self.kept(mark, false, size.total));
            }
        }
        for (name, value) in new {
            self.path.push(Part::Name(name));
            size.add(Section::Inserted, name.len(), value_size(value));
            self.difference.update(&self.path, value);
            self.path.pop();
        }
        for (name, _) in old {
            self.removed(name, &mut size);
        }
        Ok(self.kept(mark, size.total < limit, size.total))
    }

    fn arrays(&mut self, before: &'a [Bson], after: &'a [Bson]) -> Result<Option<usize>> {
        let (mark, limit) = (self.mark(), array_size(after));
        let mut size = LogSize::array();
        for (index, value) in after.iter().enumerate() {
            deadline::step(1)?;
            let old = before.get(index);
            if old.is_some_and(|old| identical(old, value)) {
                continue;
            }
            self.path.push(Part::Index(index));
            match old {
                Some(old) => self.changed(old, value, &mut size)?,
                None => {
                    size.add(Section::Element, digits(index), value_size(value));
                    self.difference.update(&self.path, value);
                }
            }
            self.path.pop();
            if size.total > limit {
                return Ok(self.kept(mark, false, size.total));
            }
        }
        if before.len() > after.len() {
            size.total += 7;
            self.difference.truncate(&self.path, after.len());
        }
        Ok(self.kept(mark, size.total <= limit, size.total))
    }

    /// A value in place of another: what changed within it, if that is less.
    fn changed(&mut self, old: &'a Bson, new: &'a Bson, size: &mut LogSize) -> Result<()> {
        let within = match (old, new) {
            (Bson::Document(old), Bson::Document(new)) => self.documents(old, new)?,
            (Bson::Array(old), Bson::Array(new)) => self.arrays(old, new)?,
            _ => None,
        };
        let name = self.path.last_length();
        match within {
            Some(inner) => size.add(Section::Within, name, inner),
            None => {
                size.add(Section::Updated, name, value_size(new));
                self.difference.update(&self.path, new);
            }
        }
        Ok(())
    }

    fn removed(&mut self, name: &'a str, size: &mut LogSize) {
        self.path.push(Part::Name(name));
        size.add(Section::Removed, name.len(), 1);
        self.difference.remove(&self.path);
        self.path.pop();
    }

    fn mark(&self) -> Mark {
        let noted = &self.difference;
        Mark([
            noted.updated.len(),
            noted.removed.len(),
            noted.truncated.len(),
            noted.ambiguous.len(),
        ])
    }

    fn kept(&mut self, mark: Mark, keep: bool, size: usize) -> Option<usize> {
        if keep {
            return Some(size);
        }
        let Mark([updated, removed, truncated, ambiguous]) = mark;
        let noted = &mut self.difference;
        noted.updated.truncate(updated);
        noted.removed.truncate(removed);
        noted.truncated.truncate(truncated);
        noted.ambiguous.truncate(ambiguous);
        None
    }
}

/// A part of a difference in MongoDB's log.
#[derive(Clone, Copy)]
enum Section {
    Removed,
    Updated,
    Inserted,
    /// A field of its own, named by a letter and the field.
    Within,
    /// An element of an array, named likewise.
    Element,
}

/// The bytes that a difference takes in MongoDB's log.
struct LogSize {
    total: usize,
    begun: [bool; 3],
    is_array: bool,
}

impl Default for LogSize {
    fn default() -> Self {
        Self {
            total: EMPTY_SIZE,
            begun: [false; 3],
            is_array: false,
        }
    }
}

impl LogSize {
    fn array() -> Self {
        // The mark that says that this is an array.
        Self {
            total: EMPTY_SIZE + 4,
            begun: [false; 3],
            is_array: true,
        }
    }

    fn add(&mut self, section: Section, name: usize, value: usize) {
        let letter = match section {
            _ if self.is_array => 1,
            Section::Within | Section::Element => 1,
            Section::Removed | Section::Updated | Section::Inserted => 0,
        };
        let begun = match section {
            Section::Removed => self.begun.first_mut(),
            Section::Updated => self.begun.get_mut(1),
            Section::Inserted => self.begun.get_mut(2),
            Section::Within | Section::Element => None,
        };
        if let (Some(begun), false) = (begun, self.is_array)
            && !std::mem::replace(begun, true)
        {
            self.total += 3 + EMPTY_SIZE;
        }
        self.total += 2 + letter + name + value;
    }
}

/// One component of a path.
#[derive(Clone, Copy, Debug)]
enum Part<'a> {
    Name(&'a str),
    Index(usize),
}

impl<'a> Part<'a> {
    /// What a name means within a value.
    fn of(holder: &Bson, name: &'a str) -> Self {
        match (holder, Step::index(name)) {
            (Bson::Array(_), Some(index)) => Self::Index(index),
            _ => Self::Name(name),
        }
    }
}

/// A path of which the kinds of its components are known.
#[derive(Clone, Debug, Default)]
struct PathBuilder<'a> {
    parts: Vec<Part<'a>>,
}

impl<'a> PathBuilder<'a> {
    fn push(&mut self, part: Part<'a>) {
        self.parts.push(part);
    }

    fn pop(&mut self) {
        self.parts.pop();
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for (at, part) in self.parts.iter().enumerate() {
            if at > 0 {
                text.push('.');
            }
            match part {
                Part::Name(name) => text.push_str(name),
                Part::Index(index) => text.push_str(&index.to_string()),
            }
        }
        text
    }

    fn last_length(&self) -> usize {
        match self.parts.last() {
            Some(Part::Name(name)) => name.len(),
            Some(Part::Index(index)) => digits(*index),
            None => 0,
        }
    }

    /// Whether a field's name has a dot, or is a number that may be taken for a position.
    fn is_ambiguous(&self) -> bool {
        self.parts
            .iter()
            .enumerate()
            .any(|(depth, part)| match part {
                // A document is no array, so a number at the top is a name.
                Part::Name(name) => {
                    name.contains('.') || (depth > 0 && Step::index(name).is_some())
                }
                Part::Index(_) => false,
            })
    }

    fn parts(&self) -> Bson {
        let part = |part: &Part<'_>| match part {
            Part::Name(name) => Bson::String((*name).to_owned()),
            Part::Index(index) => Bson::Int32(i32::try_from(*index).unwrap_or(i32::MAX)),
        };
        Bson::Array(self.parts.iter().map(part).collect())
    }
}

fn child<'a>(value: &'a Bson, name: &str) -> Option<&'a Bson> {
    match value {
        Bson::Document(document) => document.get(name),
        Bson::Array(elements) => elements.get(Step::index(name)?),
        _ => None,
    }
}

fn digits(number: usize) -> usize {
    number.checked_ilog10().map_or(1, |log| log as usize + 1)
}

fn array_size(elements: &[Bson]) -> usize {
    let sizes = elements.iter().enumerate();
    let sizes = sizes.map(|(index, value)| 2 + digits(index) + value_size(value));
    EMPTY_SIZE + sizes.sum::<usize>()
}

#[cfg(test)]
mod tests {
    use bson::{Bson, Document, bson, doc};
    use proptest::prelude::*;

    use super::{Difference, Manner};
    use crate::update::tests::parse;

    fn description(before: &Document, update: Bson) -> Option<Document> {
        let update = parse(update, &[]).unwrap();
        let applied = update.apply(before.clone(), None, false).unwrap();
        let difference = Difference::of(&applied.manner, before, &applied.document).unwrap();
        difference.map(Difference::description)
    }

    /// Each row: the document, the update, what is updated, and what is removed.
    fn check(rows: impl IntoIterator<Item = (Document, Bson, Document, Vec<&'static str>)>) {
        for (before, update, updated, removed) in rows {
            let label = format!("{update} on {before}");
            let shown = description(&before, update).expect(&label);
            assert_eq!(
                shown.get_document("updatedFields").unwrap(),
                &updated,
                "{label}"
            );
            let names: Vec<Bson> = removed.into_iter().map(Bson::from).collect();
            assert_eq!(shown.get_array("removedFields").unwrap(), &names, "{label}");
        }
    }

    #[test]
    fn operators_tell_their_paths() {
        check([
            (
                doc! { "a": { "x": 1, "y": 1 } },
                bson!({ "$set": { "a": { "x": 1, "y": 2 } } }),
                doc! { "a": { "x": 1, "y": 2 } },
                vec![],
            ),
            (
                doc! { "a": { "x": 1 } },
                bson!({ "$set": { "a.y.z": 1, "a.y.w": 2 }, "$unset": { "a.x": 1 } }),
                doc! { "a.y": { "w": 2, "z": 1 } },
                vec!["a.x"],
            ),
            (
                doc! { "a": [1, 2] },
                bson!({ "$push": { "a": { "$each": [3, 4] } } }),
                doc! { "a.2": 3, "a.3": 4 },
                vec![],
            ),
            (
                doc! { "a": [1, 2] },
                bson!({ "$addToSet": { "a": { "$each": [2, 4] } } }),
                doc! { "a.2": 4 },
                vec![],
            ),
            (
                doc! { "a": [1, 2] },
                bson!({ "$push": { "a": { "$each": [3], "$slice": -2 } } }),
                doc! { "a": [2, 3] },
                vec![],
            ),
            (
                doc! { "a": [1, 2] },
                bson!({ "$pop": { "a": 1 } }),
                doc! { "a": [1] },
                vec![],
            ),
            (
                doc! { "b": 1 },
                bson!({ "$push": { "a": 1 } }),
                doc! { "a": [1] },
                vec![],
            ),
            (
                doc! { "a": [1, 2] },
                bson!({ "$unset": { "a.0": 1 } }),
                doc! { "a.0": null },
                vec![],
            ),
            (
                doc! { "a": [1, 2] },
                bson!({ "$set": { "a.$[]": 5 } }),
                doc! { "a.0": 5, "a.1": 5 },
                vec![],
            ),
            (
                doc! { "a": 1 },
                bson!({ "$rename": { "a": "b" } }),
                doc! { "b": 1 },
                vec!["a"],
            ),
            (
                doc! { "a": 1, "b": 1 },
                bson!({ "$inc": { "a": 1 }, "$set": { "b": 1 } }),
                doc! { "a": 2 },
                vec![],
            ),
        ]);
    }

    #[test]
    fn pipelines_tell_the_smallest_difference() {
        let filler = "a text that makes the document longer than any difference here";
        let before = doc! { "_id": 1, "f": filler, "a": { "x": 1, "y": [1, 2, 3], "z": filler } };
        let set = |stage: Bson| Bson::Array(vec![bson!({ "$set": stage })]);
        check([
            (
                before.clone(),
                set(bson!({ "a.x": 2 })),
                doc! { "a.x": 2 },
                vec![],
            ),
            (
                before.clone(),
                set(bson!({ "a.x": "$$REMOVE" })),
                doc! {},
                vec!["a.x"],
            ),
            (
                before.clone(),
                set(bson!({ "b": 2, "f": 1 })),
                doc! { "f": 1, "b": 2 },
                vec![],
            ),
            (
                before,
                set(bson!({ "a.y": [1, 5] })),
                doc! { "a.y": [1, 5] },
                vec![],
            ),
        ]);
        let long = doc! { "_id": 1, "f": filler, "a": [1, filler, 3] };
        let shown = description(&long, set(bson!({ "a": { "$slice": ["$a", 2] } }))).unwrap();
        let cut = bson!([{ "field": "a", "newSize": 2 }]);
        assert_eq!(shown.get("truncatedArrays"), Some(&cut));
        assert_eq!(shown.get("updatedFields"), Some(&bson!({})));
    }

    #[test]
    fn a_difference_that_is_no_smaller_is_a_replacement() {
        let set = bson!([{ "$set": { "a": 2 } }]);
        assert_eq!(description(&doc! { "_id": 1, "a": 1 }, set), None);
        assert_eq!(
            description(&doc! { "_id": 1, "a": 1 }, bson!({ "b": 1 })),
            None
        );
    }

    #[test]
    fn paths_that_may_be_misread_are_explained() {
        let rows = [
            (doc! { "a": { "1": 1 } }, "a.1", bson!(["a", "1"])),
            (doc! { "a": [{ "1": 1 }] }, "a.0.1", bson!(["a", 0, "1"])),
            (
                doc! { "a": [{ "b": { "0": 1 } }] },
                "a.0.b.0",
                bson!(["a", 0, "b", "0"]),
            ),
        ];
        for (before, path, parts) in rows {
            let shown = description(&before, bson!({ "$set": { path: 2 } })).unwrap();
            let paths = shown.get_document("disambiguatedPaths").unwrap();
            assert_eq!(paths, &doc! { path: parts });
        }
        for (before, path) in [
            (doc! { "a": [1] }, "a.0"),
            (doc! { "0": { "b": 1 } }, "0.b"),
        ] {
            let shown = description(&before, bson!({ "$set": { path: 2 } })).unwrap();
            assert_eq!(shown.get_document("disambiguatedPaths").unwrap(), &doc! {});
        }
    }

    fn value() -> impl Strategy<Value = Bson> {
        let leaf = prop_oneof![
            (0..4i32).prop_map(Bson::Int32),
            "[ab]{0,20}".prop_map(Bson::String),
            Just(Bson::Null)
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Bson::Array),
                prop::collection::btree_map("[a-d]", inner, 0..4)
                    .prop_map(|fields| Bson::Document(fields.into_iter().collect())),
            ]
        })
    }

    fn document() -> impl Strategy<Value = Document> {
        prop::collection::btree_map("[a-f]", value(), 0..6)
            .prop_map(|fields| fields.into_iter().collect())
    }

    /// Puts a difference into the document that it was made of.
    fn replay(mut document: Document, shown: &Document) -> Document {
        for name in shown.get_array("removedFields").unwrap() {
            change(&mut document, name.as_str().unwrap(), None);
        }
        for cut in shown.get_array("truncatedArrays").unwrap() {
            let cut = cut.as_document().unwrap();
            let size = usize::try_from(cut.get_i32("newSize").unwrap()).unwrap();
            let array = at(&mut document, cut.get_str("field").unwrap());
            let Bson::Array(elements) = array else {
                panic!("{array} is no array");
            };
            elements.truncate(size);
        }
        for (path, value) in shown.get_document("updatedFields").unwrap() {
            change(&mut document, path, Some(value.clone()));
        }
        document
    }

    fn at<'a>(document: &'a mut Document, path: &str) -> &'a mut Bson {
        let mut names = path.split('.');
        let first = document.get_mut(names.next().unwrap()).unwrap();
        names.fold(first, |holder, name| match holder {
            Bson::Document(inner) => inner.get_mut(name).unwrap(),
            Bson::Array(elements) => elements.get_mut(name.parse::<usize>().unwrap()).unwrap(),
            other => panic!("{other} holds nothing"),
        })
    }

    fn change(document: &mut Document, path: &str, value: Option<Bson>) {
        let Some((parent, name)) = path.rsplit_once('.') else {
            match value {
                Some(value) => document.insert(path, value),
                None => document.remove(path),
            };
            return;
        };
        match (at(document, parent), value) {
            (Bson::Document(inner), Some(value)) => {
                inner.insert(name, value);
            }
            (Bson::Document(inner), None) => {
                inner.remove(name);
            }
            (Bson::Array(elements), Some(value)) => {
                let index: usize = name.parse().unwrap();
                if index == elements.len() {
                    elements.push(value);
                } else {
                    elements[index] = value;
                }
            }
            (other, _) => panic!("{other} cannot be changed at {path}"),
        }
    }

    proptest! {
        #[test]
        fn a_difference_makes_the_new_document_of_the_old(
            before in document(),
            after in document(),
        ) {
            // Behind so much that is the same any difference is smaller than the document.
            let same = doc! { "same": "x".repeat(100_000) };
            let behind = |document: Document| same.clone().into_iter().chain(document).collect();
            let (before, after): (Document, Document) = (behind(before), behind(after));
            let difference = Difference::of(&Manner::Computed, &before, &after).unwrap();
            let description = difference.expect("a difference").description();
            let made = replay(before.clone(), &description);
            prop_assert_eq!(normal(Bson::Document(made)), normal(Bson::Document(after)));
        }
    }

    /// The same value with the fields of its documents in order.
    fn normal(value: Bson) -> Bson {
        match value {
            Bson::Document(document) => {
                let mut fields: Vec<(String, Bson)> = document.into_iter().collect();
                fields.sort_by(|a, b| a.0.cmp(&b.0));
                let fields = fields
                    .into_iter()
                    .map(|(name, value)| (name, normal(value)));
                Bson::Document(fields.collect())
            }
            Bson::Array(elements) => Bson::Array(elements.into_iter().map(normal).collect()),
            value => value,
        }
    }
}
