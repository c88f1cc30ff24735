//! The entries an index over several paths has for one document: one for each element of an array.

use bson::{Bson, Document};
use tessera_core::deadline::{self, Held};

use super::{Component, Path, note_name};
use crate::error::{Code, Error, Result};
use crate::size::footprint;

/// The entries of one document.
#[derive(Clone, Debug, PartialEq)]
pub struct Keys {
    /// Each entry has one value per path; `None` is a field that is not there, which an index keeps
    /// as null, and an empty array is `Undefined`, which is less than null. May repeat itself.
    pub entries: Vec<Vec<Option<Bson>>>,
    /// Which of the paths went through an array.
    pub multikey: Vec<bool>,
}

/// The entries for `paths`. Code 171 if two paths go through different arrays, because their
/// combinations are not indexed.
pub fn keys(document: &Document, paths: &[Path]) -> Result<Keys> {
    let mut found = Keys {
        entries: Vec::new(),
        multikey: vec![false; paths.len()],
    };
    let slots = paths
        .iter()
        .map(|path| start(document, path.components()))
        .collect();
    expand(slots, &mut found, &mut Size::default())?;
    Ok(found)
}

/// What the entries of one document may take. An entry for each element of an array has a copy of
/// the values at all other paths, and one of these may be as long as the document.
const MAX_BYTES: usize = 256 << 20;

/// What the entries take so far.
#[derive(Default)]
struct Size {
    bytes: usize,
    held: Held,
}

impl Size {
    fn add(&mut self, slots: &[Slot<'_>]) -> Result<()> {
        let bytes: usize = slots.iter().map(Slot::footprint).sum();
        self.bytes += bytes;
        self.held.add(bytes)?;
        if self.bytes > MAX_BYTES {
            return Err(Error::new(
                Code::EXCEEDED_MEMORY_LIMIT,
                format!(
                    "the index keys of one document would take more than {MAX_BYTES} bytes: an \
                     array has many elements, and another indexed value is long"
                ),
            ));
        }
        Ok(())
    }
}

/// How far one path has been followed.
#[derive(Clone, Copy)]
enum Slot<'a> {
    Done(Option<&'a Bson>),
    Empty,
    Array {
        elements: &'a [Bson],
        rest: &'a [Component],
    },
}

impl Slot<'_> {
    fn footprint(&self) -> usize {
        match self {
            Self::Done(Some(value)) => footprint(value),
            _ => size_of::<Bson>(),
        }
    }
}

fn start<'a>(document: &'a Document, path: &'a [Component]) -> Slot<'a> {
    match path.split_first() {
        None => Slot::Done(None),
        Some((step, rest)) => {
            note_name(step.name());
            match document.get(step.name()) {
                None => Slot::Done(None),
                Some(value) => reach(value, rest),
            }
        }
    }
}

fn reach<'a>(mut value: &'a Bson, mut path: &'a [Component]) -> Slot<'a> {
    loop {
        value = match (value, path.split_first()) {
            (Bson::Array(elements), _) => {
                return Slot::Array {
                    elements,
                    rest: path,
                };
            }
            (_, None) => return Slot::Done(Some(value)),
            (Bson::Document(inner), Some((step, rest))) => {
                path = rest;
                match inner.get(step.name()) {
                    None => return Slot::Done(None),
                    Some(inner) => inner,
                }
            }
            (_, Some(_)) => return Slot::Done(None),
        }
    }
}

fn expand(slots: Vec<Slot<'_>>, found: &mut Keys, size: &mut Size) -> Result<()> {
    deadline::step(slots.len())?;
    let Some(shared) = shared_array(&slots)? else {
        size.add(&slots)?;
        found.entries.push(slots.iter().map(finished).collect());
        return Ok(());
    };
    for (slot, multikey) in slots.iter().zip(&mut found.multikey) {
        *multikey |= matches!(slot, Slot::Array { .. });
    }
    let positional = |slot: &Slot<'_>| match slot {
        Slot::Array { rest, .. } => rest
            .first()
            .and_then(Component::index)
            .is_some_and(|index| index < shared.len()),
        _ => true,
    };
    refuse_ambiguous(&slots, shared)?;
    if shared.is_empty() {
        return expand(
            slots.into_iter().map(|slot| enter(slot, None)).collect(),
            found,
            size,
        );
    }
    if slots.iter().all(positional) {
        // Nothing depends on which element it is.
        let only = shared.first();
        return expand(
            slots.into_iter().map(|slot| enter(slot, only)).collect(),
            found,
            size,
        );
    }
    for element in shared {
        expand(
            slots
                .iter()
                .map(|slot| enter(*slot, Some(element)))
                .collect(),
            found,
            size,
        )?;
    }
    Ok(())
}

/// The array all unfinished paths stand before: there may be one only.
fn shared_array<'a>(slots: &[Slot<'a>]) -> Result<Option<&'a [Bson]>> {
    let mut shared: Option<&[Bson]> = None;
    for slot in slots {
        let Slot::Array { elements, .. } = slot else {
            continue;
        };
        match shared {
            None => shared = Some(elements),
            Some(other) if std::ptr::eq(other, *elements) => {}
            Some(_) => {
                let message = "cannot index parallel arrays";
                return Err(Error::new(Code::CANNOT_INDEX_PARALLEL_ARRAYS, message));
            }
        }
    }
    Ok(shared)
}

fn finished(slot: &Slot<'_>) -> Option<Bson> {
    match slot {
        Slot::Done(value) => value.cloned(),
        Slot::Empty | Slot::Array { .. } => Some(Bson::Undefined),
    }
}

/// The path goes on in `element`, or at the position it names itself. An array within the array is
/// one value if the path ends there, and is not gone through otherwise.
fn enter<'a>(slot: Slot<'a>, element: Option<&'a Bson>) -> Slot<'a> {
    let Slot::Array { elements, rest } = slot else {
        return slot;
    };
    let Some((step, after)) = rest.split_first() else {
        return element.map_or(Slot::Empty, |element| Slot::Done(Some(element)));
    };
    if let Some(value) = step.index().and_then(|index| elements.get(index)) {
        return reach(value, after);
    }
    match element {
        Some(Bson::Document(inner)) => start(inner, rest),
        _ => Slot::Done(None),
    }
}

/// A number that is both a position in the array and a field of an element names two things.
fn refuse_ambiguous(slots: &[Slot<'_>], elements: &[Bson]) -> Result<()> {
    for slot in slots {
        let Slot::Array { rest, .. } = slot else {
            continue;
        };
        let Some(step) = rest.first() else { continue };
        if step.index().is_none_or(|index| index >= elements.len()) {
            continue;
        }
        let named = |element: &Bson| match element {
            Bson::Document(inner) => inner.contains_key(step.name()),
            _ => false,
        };
        if elements.iter().any(named) {
            let name = step.name();
            let message = format!("Ambiguous field name found in array: {name}");
            return Err(Error::new(Code(16746), message));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use bson::{Bson, Document, bson, doc};

    use super::keys;
    use crate::path::Path;

    fn entries(document: &Document, paths: &[&str]) -> Vec<Vec<Option<Bson>>> {
        let paths: Vec<_> = paths.iter().map(|path| Path::parse(path)).collect();
        keys(document, &paths).unwrap().entries
    }

    #[test]
    fn makes_one_entry_for_each_element() {
        let some = |value: Bson| Some(value);
        type Entries = Vec<Vec<Option<Bson>>>;
        let cases: [(Document, &[&str], Entries); 11] = [
            (doc! {"a": 1}, &["a", "b"], vec![vec![some(bson!(1)), None]]),
            (
                doc! {"a": [1, 2]},
                &["a"],
                vec![vec![some(bson!(1))], vec![some(bson!(2))]],
            ),
            (doc! {"a": []}, &["a"], vec![vec![some(Bson::Undefined)]]),
            (doc! {"a": []}, &["a.b"], vec![vec![None]]),
            (
                doc! {"a": [[1, 2]]},
                &["a"],
                vec![vec![some(bson!([1, 2]))]],
            ),
            (
                doc! {"a": [1, {"b": 2}]},
                &["a.b"],
                vec![vec![None], vec![some(bson!(2))]],
            ),
            (doc! {"a": [7, 8]}, &["a.1"], vec![vec![some(bson!(8))]]),
            (
                doc! {"a": [{"b": 3}]},
                &["a.0.b"],
                vec![vec![some(bson!(3))]],
            ),
            (
                doc! {"a": [{"b": 1, "c": 2}, {"b": 3}], "d": 9},
                &["a.b", "a.c", "d"],
                vec![
                    vec![some(bson!(1)), some(bson!(2)), some(bson!(9))],
                    vec![some(bson!(3)), None, some(bson!(9))],
                ],
            ),
            (
                doc! {"a": [{"b": [1, 2]}]},
                &["a.b"],
                vec![vec![some(bson!(1))], vec![some(bson!(2))]],
            ),
            (doc! {"a": 1}, &["a.b"], vec![vec![None]]),
        ];
        for (document, paths, expected) in cases {
            assert_eq!(entries(&document, paths), expected, "{paths:?} {document}");
        }
    }

    #[test]
    fn says_which_paths_went_through_arrays() {
        let paths = [Path::parse("a"), Path::parse("b")];
        let found = keys(&doc! {"a": 1, "b": [1]}, &paths).unwrap();
        assert_eq!(found.multikey, [false, true]);
    }

    #[test]
    fn refuses_what_cannot_be_indexed() {
        for (document, paths, code) in [
            (doc! {"a": [1], "b": [2]}, ["a", "b"], 171),
            (doc! {"a": [{"b": [1], "c": [2]}]}, ["a.b", "a.c"], 171),
            (doc! {"a": [{"0": 1}]}, ["a.0", "x"], 16746),
        ] {
            let paths = paths.map(Path::parse);
            assert_eq!(
                keys(&document, &paths).unwrap_err().code.0,
                code,
                "{document}"
            );
        }
    }

    #[test]
    fn what_an_array_multiplies_is_bounded() {
        let long = "x".repeat(1_000_000);
        for value in [
            Bson::from(long.clone()),
            bson!({ "x": 1, "y": &long }),
            bson!({ &long: 1 }),
            Bson::from(bson::Binary {
                subtype: bson::spec::BinarySubtype::Generic,
                bytes: long.clone().into_bytes(),
            }),
            Bson::JavaScriptCode(long.clone()),
            Bson::Symbol(long),
        ] {
            let document = doc! { "a": vec![1; 100_000], "s": value };
            for paths in [
                ["a", "s"],
                ["s", "a"],
                ["a.b", "s"],
                ["a.0.b", "s"],
                ["a.", "s"],
            ] {
                let parsed = paths.map(Path::parse);
                let found = keys(&document, &parsed).map(|keys| keys.entries.len());
                match found {
                    Ok(count) => assert_eq!((paths, count), (["a.0.b", "s"], 1)),
                    Err(error) => assert_eq!(error.code.0, 146, "{paths:?}"),
                }
            }
            assert_eq!(entries(&document, &["a"]).len(), 100_000);
            assert_eq!(entries(&document, &["s"]).len(), 1);
        }
    }
}
