//! Dotted paths: finding and changing what lies within a document.
//!
//! Three readings of a path live here. [`Path::get`], [`Path::set`] and [`Path::unset`] follow it
//! exactly, as updates do. [`visit`] goes through arrays on its way, as filters do. [`keys`] makes
//! the entries of an index over several paths, by which sorting goes as well.

mod multikey;
mod traverse;

use bson::{Bson, Document};
use tessera_core::deadline;

use crate::error::{Code, Error, Result};
use crate::expression::validate_field_name;

pub use multikey::{Keys, keys};
pub use traverse::{LeafArray, See, values_at, visit};

/// How far beyond its end an array grows when one of its elements is set.
const MAX_BACKFILL: usize = 1_500_000;

/// Names of so many bytes count a step for each time as many.
const LONG_NAME: usize = 512;

/// How many components a path may have.
pub(crate) const MAX_COMPONENTS: usize = 200;

const EMPTY_PATH: Code = Code(40352);
const TRAILING_DOT: Code = Code(40353);

/// A dotted path, cut into its components.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Path {
    text: String,
    components: Vec<Component>,
}

/// One step of a path: a field name, which in an array may mean a position.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Component {
    name: String,
    index: Option<usize>,
}

impl Component {
    fn new(name: &str) -> Self {
        let canonical = name == "0" || !name.starts_with('0');
        let digits = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit());
        let index = if canonical && digits {
            name.parse().ok()
        } else {
            None
        };
        Self {
            name: name.to_owned(),
            index,
        }
    }

    /// The field name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The position this name means in an array: digits without a leading zero.
    pub fn index(&self) -> Option<usize> {
        self.index
    }
}

impl Path {
    /// Cuts at the dots. Any text is a path; which names may be written is for updates to say.
    pub fn parse(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            components: text.split('.').map(Component::new).collect(),
        }
    }

    /// Cuts at the dots and refuses what expressions, projections and sort patterns cannot name:
    /// empty names, names with a dollar sign in front, and too many of them.
    pub fn checked(text: &str) -> Result<Self> {
        if text.is_empty() {
            let message = "FieldPath cannot be constructed with empty string";
            return Err(Error::new(EMPTY_PATH, message));
        }
        if text.ends_with('.') {
            return Err(Error::new(
                TRAILING_DOT,
                "FieldPath must not end with a '.'.",
            ));
        }
        let path = Self::parse(text);
        if path.components.len() > MAX_COMPONENTS {
            return Err(Error::new(Code::OVERFLOW, "FieldPath is too long"));
        }
        for component in &path.components {
            validate_field_name(component.name())?;
        }
        Ok(path)
    }

    /// The path of no components, which means the value itself: within `$elemMatch`.
    pub fn itself() -> Self {
        Self::default()
    }

    /// The path as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The steps, in order.
    pub fn components(&self) -> &[Component] {
        &self.components
    }

    /// The value exactly at this path; a position is needed to enter an array.
    pub fn get<'a>(&self, document: &'a Document) -> Option<&'a Bson> {
        let (first, rest) = self.components.split_first()?;
        rest.iter()
            .try_fold(document.get(first.name())?, |value, step| match value {
                Bson::Document(inner) => inner.get(step.name()),
                Bson::Array(elements) => elements.get(step.index?),
                _ => None,
            })
    }

    /// Puts a value exactly at this path, making the documents that lead to it and filling an array
    /// with nulls up to the position. Code 28 if something on the way is no document and no array.
    pub fn set(&self, document: &mut Document, value: Bson) -> Result<()> {
        let Some((first, rest)) = self.components.split_first() else {
            return Ok(());
        };
        let mut holder = document
            .entry(first.name().to_owned())
            .or_insert_with(empty_document);
        let mut name = first.name();
        for step in rest {
            holder = child(holder, name, step)?;
            name = step.name();
        }
        *holder = value;
        Ok(())
    }

    /// Removes what is exactly at this path and gives it back. An element of an array becomes null,
    /// so that the positions of the others stay.
    pub fn unset(&self, document: &mut Document) -> Option<Bson> {
        let (last, between) = self.components.split_last()?;
        let Some((first, steps)) = between.split_first() else {
            return document.remove(last.name());
        };
        let mut holder = document.get_mut(first.name())?;
        for step in steps {
            holder = match holder {
                Bson::Document(inner) => inner.get_mut(step.name())?,
                Bson::Array(elements) => elements.get_mut(step.index?)?,
                _ => return None,
            };
        }
        match holder {
            Bson::Document(inner) => inner.remove(last.name()),
            Bson::Array(elements) => elements
                .get_mut(last.index?)
                .map(|value| std::mem::replace(value, Bson::Null)),
            _ => None,
        }
    }
}

/// Looking a field up goes through its name, which may be as long as a document.
#[inline]
pub(crate) fn note_name(name: &str) {
    if name.len() >= LONG_NAME {
        deadline::note(name.len() / LONG_NAME);
    }
}

fn empty_document() -> Bson {
    Bson::Document(Document::new())
}

/// What `holder`, which lies under `name`, has at this step: made empty if it was not there.
fn child<'a>(holder: &'a mut Bson, name: &str, step: &Component) -> Result<&'a mut Bson> {
    let viable = match holder {
        Bson::Document(_) => true,
        Bson::Array(_) => step.index.is_some(),
        _ => false,
    };
    if !viable {
        let step = step.name();
        let message = format!("Cannot create field '{step}' in element {{{name}: {holder}}}");
        return Err(Error::new(Code::PATH_NOT_VIABLE, message));
    }
    match (holder, step.index) {
        (Bson::Document(inner), _) => Ok(inner
            .entry(step.name().to_owned())
            .or_insert_with(empty_document)),
        (Bson::Array(elements), Some(index)) => element(elements, index),
        _ => Err(Error::new(
            Code::PATH_NOT_VIABLE,
            "the path leads through a scalar",
        )),
    }
}

fn element(elements: &mut Vec<Bson>, index: usize) -> Result<&mut Bson> {
    if index >= elements.len() {
        if index - elements.len() > MAX_BACKFILL {
            let message = format!("can't backfill more than {MAX_BACKFILL} elements");
            return Err(Error::new(Code::CANNOT_BACKFILL_ARRAY, message));
        }
        elements.resize(index, Bson::Null);
        elements.push(empty_document());
    }
    elements
        .get_mut(index)
        .ok_or_else(|| Error::new(Code::PATH_NOT_VIABLE, "no such element"))
}

#[cfg(test)]
mod tests {
    use bson::{Bson, bson, doc};

    use super::Path;
    use crate::error::Code;

    #[test]
    fn gets_exactly() {
        let document = doc! {"a": {"b": [1, {"c": 2}], "0": 3}};
        for (path, expected) in [
            ("a.b.0", Some(bson!(1))),
            ("a.b.1.c", Some(bson!(2))),
            ("a.0", Some(bson!(3))),
            ("a.b.c", None),
            ("a.b.01", None),
            ("a.b.2", None),
            ("a.b.0.c", None),
            ("x", None),
        ] {
            assert_eq!(
                Path::parse(path).get(&document),
                expected.as_ref(),
                "{path}"
            );
        }
    }

    #[test]
    fn refuses_what_is_no_field_path() {
        let long = vec!["a"; 201].join(".");
        for (path, code) in [
            ("", 40352),
            ("a.", 40353),
            (".a", 15998),
            ("a..b", 15998),
            ("$a", 16410),
            ("a.$b", 16410),
            (&long, 15),
        ] {
            assert_eq!(Path::checked(path).unwrap_err().code.0, code, "{path:.10}");
        }
        assert_eq!(Path::checked("a.0.b").unwrap(), Path::parse("a.0.b"));
    }

    #[test]
    fn sets_making_what_leads_there() {
        for (path, before, after) in [
            ("a", doc! {}, doc! {"a": 9}),
            ("a.b.c", doc! {}, doc! {"a": {"b": {"c": 9}}}),
            ("a.1", doc! {"a": [1, 2]}, doc! {"a": [1, 9]}),
            (
                "a.3",
                doc! {"a": [1]},
                doc! {"a": [1, Bson::Null, Bson::Null, 9]},
            ),
            ("a.1.b", doc! {"a": [1]}, doc! {"a": [1, {"b": 9}]}),
            ("a.0", doc! {"a": {}}, doc! {"a": {"0": 9}}),
        ] {
            let mut document = before.clone();
            Path::parse(path).set(&mut document, bson!(9)).unwrap();
            assert_eq!(document, after, "{path} in {before}");
        }
    }

    #[test]
    fn refuses_paths_that_are_not_viable() {
        for (path, before, code) in [
            ("a.b", doc! {"a": 1}, Code::PATH_NOT_VIABLE),
            ("a.b", doc! {"a": [1]}, Code::PATH_NOT_VIABLE),
            (
                "a.b.c",
                doc! {"a": {"b": Bson::Null}},
                Code::PATH_NOT_VIABLE,
            ),
            ("a.1500002", doc! {"a": [1]}, Code::CANNOT_BACKFILL_ARRAY),
        ] {
            let mut document = before.clone();
            let error = Path::parse(path).set(&mut document, bson!(9)).unwrap_err();
            assert_eq!(error.code, code, "{path} in {before}");
            assert_eq!(document, before);
        }
    }

    #[test]
    fn unsets_leaving_positions() {
        for (path, before, after) in [
            ("a", doc! {"a": 1, "b": 2}, doc! {"b": 2}),
            ("a.b", doc! {"a": {"b": 1, "c": 2}}, doc! {"a": {"c": 2}}),
            ("a.0", doc! {"a": [1, 2]}, doc! {"a": [Bson::Null, 2]}),
            ("a.0.b", doc! {"a": [{"b": 1}]}, doc! {"a": [{}]}),
            ("a.b", doc! {"a": 1}, doc! {"a": 1}),
        ] {
            let mut document = before.clone();
            let removed = Path::parse(path).unset(&mut document);
            assert_eq!(removed.is_some(), before != after, "{path} in {before}");
            assert_eq!(document, after);
        }
    }
}
