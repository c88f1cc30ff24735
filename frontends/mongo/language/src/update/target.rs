//! The paths of an update, resolved in one document.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use bson::{Bson, Document};
use tessera_core::deadline::{self, Held};

use super::array_filter::ArrayFilters;
use crate::error::{Code, Error, Result, bad_value};
use crate::path::note_name;

/// How deeply documents may be nested, and so how long a path may be.
pub(super) const MAX_DEPTH: usize = 180;

/// What a resolved path takes, and its place in the tree of the update, beside its names.
const TARGET_BYTES: usize = 256;

/// A field name or a position. Cheap to clone: an update of all elements of an array has a path for
/// each of them, and a name may be as long as a document.
#[derive(Clone, Debug, Eq)]
pub(super) struct Name(Arc<str>);

impl Name {
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Name {
    fn from(name: &str) -> Self {
        Self(name.into())
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0 == other.0
    }
}

impl Ord for Name {
    fn cmp(&self, other: &Self) -> Ordering {
        if Arc::ptr_eq(&self.0, &other.0) {
            return Ordering::Equal;
        }
        note_name(self.as_str());
        self.0.cmp(&other.0)
    }
}

impl PartialOrd for Name {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// One component of a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Step {
    /// A field, or a position in an array.
    Name(Name),
    /// `$`: the position at which the query matched.
    Matched,
    /// `$[]`: every element, or `$[name]`: those that the array filter of that name takes.
    Elements(Option<String>),
}

impl Step {
    fn parse(text: &str) -> Self {
        match text.strip_prefix("$[").and_then(|t| t.strip_suffix(']')) {
            Some("") => Self::Elements(None),
            Some(name) => Self::Elements(Some(name.to_owned())),
            None if text == "$" => Self::Matched,
            None => Self::Name(text.into()),
        }
    }

    /// Whether it stands for several elements of an array.
    pub(super) fn is_elements(&self) -> bool {
        matches!(self, Self::Elements(_))
    }

    /// The position in an array that a name means: digits, and no leading zero.
    pub(super) fn index(name: &str) -> Option<usize> {
        let canonical = name == "0" || !name.starts_with(['0', '+']);
        canonical.then(|| name.parse().ok()).flatten()
    }
}

impl fmt::Display for Step {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => formatter.write_str(name.as_str()),
            Self::Matched => formatter.write_str("$"),
            Self::Elements(name) => write!(formatter, "$[{}]", name.as_deref().unwrap_or("")),
        }
    }
}

/// A path of an update.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) steps: Vec<Step>,
}

impl fmt::Display for Target {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (depth, step) in self.steps.iter().enumerate() {
            if depth > 0 {
                formatter.write_str(".")?;
            }
            write!(formatter, "{step}")?;
        }
        Ok(())
    }
}

impl Target {
    pub(super) fn parse(text: &str) -> Result<Self> {
        if text.split('.').any(str::is_empty) {
            return Err(Error::new(
                Code::EMPTY_FIELD_NAME,
                format!("The update path '{text}' contains an empty field name"),
            ));
        }
        let steps: Vec<Step> = text
            .split('.')
            .take(MAX_DEPTH + 1)
            .map(Step::parse)
            .collect();
        if steps.len() > MAX_DEPTH {
            return Err(too_deep());
        }
        let positional = steps.iter().filter(|step| **step == Step::Matched).count();
        if positional > 1 {
            return Err(bad_value(format!(
                "Too many positional (i.e. '$') elements found in path '{text}'"
            )));
        }
        if !matches!(steps.first(), Some(Step::Name(_))) {
            return Err(bad_value(format!(
                "Cannot have a positional element or an array filter identifier in the first \
                 position in path '{text}'"
            )));
        }
        Ok(Self { steps })
    }

    /// Whether what it stands for depends on the document.
    pub(super) fn is_dynamic(&self) -> bool {
        self.steps.iter().any(|step| !matches!(step, Step::Name(_)))
    }

    /// The names of the array filters that it uses.
    pub(super) fn filters(&self) -> impl Iterator<Item = &str> {
        self.steps.iter().filter_map(|step| match step {
            Step::Elements(name) => name.as_deref(),
            Step::Name(_) | Step::Matched => None,
        })
    }

    /// Whether one of the two leads to the other, or both are the same.
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        self.steps.iter().zip(&other.steps).all(|(a, b)| a == b)
    }

    /// The paths of names and positions that this one stands for in a document, whose memory is
    /// counted.
    pub(super) fn resolve(
        &self,
        document: &Document,
        (matched, filters): (Option<usize>, &ArrayFilters),
        held: &mut Held,
    ) -> Result<Vec<Self>> {
        let mut resolution = Resolution {
            target: self,
            matched,
            filters,
            taken: Vec::with_capacity(self.steps.len()),
            found: Vec::new(),
            held,
        };
        // The first step is a name.
        let (first, rest) = self
            .steps
            .split_first()
            .ok_or_else(|| bad_value("An empty update path is not valid."))?;
        let first = match first {
            Step::Name(name) => name.clone(),
            other => Name::from(other.to_string().as_str()),
        };
        let value = document.get(first.as_str());
        resolution.enter(first, rest, value)?;
        Ok(resolution.found)
    }
}

/// The error of documents nested beyond [`MAX_DEPTH`].
pub(super) fn too_deep() -> Error {
    Error::new(
        Code::OVERFLOW,
        format!("Document exceeds maximum nesting depth of {MAX_DEPTH}"),
    )
}

struct Resolution<'a> {
    target: &'a Target,
    matched: Option<usize>,
    filters: &'a ArrayFilters,
    taken: Vec<Name>,
    found: Vec<Target>,
    held: &'a mut Held,
}

impl Resolution<'_> {
    /// Goes on below the value that is at `name`, if there is one.
    fn enter(&mut self, name: Name, rest: &[Step], value: Option<&Bson>) -> Result<()> {
        self.taken.push(name);
        match rest.split_first() {
            None => {
                let steps: Vec<_> = self.taken.iter().cloned().map(Step::Name).collect();
                self.held
                    .add(TARGET_BYTES + steps.len() * size_of::<Step>())?;
                self.found.push(Target { steps });
            }
            Some((Step::Name(next), rest)) => {
                note_name(next.as_str());
                self.enter(next.clone(), rest, child(value, next.as_str()))?;
            }
            Some((Step::Matched, rest)) => {
                let next = self.matched_position()?;
                self.enter(Name::from(next.as_str()), rest, child(value, &next))?;
            }
            Some((Step::Elements(filter), rest)) => {
                self.elements(filter.as_deref(), rest, value)?;
            }
        }
        self.taken.pop();
        Ok(())
    }

    /// The path so far, for messages.
    fn taken(&self) -> Target {
        let steps = self.taken.iter().cloned().map(Step::Name).collect();
        Target { steps }
    }

    fn matched_position(&self) -> Result<String> {
        self.matched
            .map(|position| position.to_string())
            .ok_or_else(|| {
                bad_value("The positional operator did not find the match needed from the query.")
            })
    }

    fn elements(
        &mut self,
        filter: Option<&str>,
        rest: &[Step],
        value: Option<&Bson>,
    ) -> Result<()> {
        let elements = match value {
            Some(Bson::Array(elements)) => elements,
            Some(other) => {
                return Err(bad_value(format!(
                    "Cannot apply array updates to non-array element {}: {other}",
                    self.taken()
                )));
            }
            None => {
                return Err(bad_value(format!(
                    "The path '{}' must exist in the document in order to apply array updates to \
                     '{}'.",
                    self.taken(),
                    self.target
                )));
            }
        };
        for (position, element) in elements.iter().enumerate() {
            deadline::step(2)?;
            let taken = match filter {
                Some(name) => self.filters.takes(name, element)?,
                None => true,
            };
            if taken {
                let name = Name::from(position.to_string().as_str());
                self.enter(name, rest, Some(element))?;
            }
        }
        Ok(())
    }
}

fn child<'a>(value: Option<&'a Bson>, name: &str) -> Option<&'a Bson> {
    match value? {
        Bson::Document(document) => document.get(name),
        Bson::Array(elements) => elements.get(Step::index(name)?),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use bson::{Bson, Document, bson, doc};

    use crate::{
        error::{Code, Result},
        update::{
            Applied,
            tests::{assert_document, parse},
        },
    };

    /// An update of a document whose field `a` is given.
    struct Case {
        before: Bson,
        update: Bson,
        filters: Vec<Document>,
        matched: Option<usize>,
    }

    /// Sets 0 at the path.
    fn set(before: Bson, path: &str) -> Case {
        update(before, bson!({ "$set": { path: 0 } }))
    }

    fn update(before: Bson, update: Bson) -> Case {
        Case {
            before,
            update,
            filters: Vec::new(),
            matched: None,
        }
    }

    impl Case {
        fn matched(self, position: usize) -> Self {
            let matched = Some(position);
            Self { matched, ..self }
        }

        fn filters<const N: usize>(self, filters: [Document; N]) -> Self {
            let filters = filters.to_vec();
            Self { filters, ..self }
        }

        fn run(self) -> Result<Applied> {
            let update = parse(self.update, &self.filters)?;
            update.apply(doc! { "a": self.before }, self.matched, false)
        }

        #[track_caller]
        fn becomes(self, after: Bson) {
            let applied = self.run().unwrap();
            assert_document(&applied, &doc! { "a": after }, "update");
        }

        #[track_caller]
        fn fails(self, code: i32) {
            assert_eq!(self.run().unwrap_err().code, Code(code));
        }
    }

    #[test]
    fn a_dollar_is_where_the_query_matched() {
        set(bson!([1, 2]), "a.$").matched(1).becomes(bson!([1, 0]));
        let nested = set(bson!([{ "b": 1 }]), "a.$.b").matched(0);
        nested.becomes(bson!([{ "b": 0 }]));
        set(bson!([1, 2]), "a.$").fails(2);
        set(bson!(5), "a.$").matched(0).fails(28);
        let both = bson!({ "$set": { "a.$": 1, "a.0": 2 } });
        update(bson!([7, 8]), both.clone()).matched(0).fails(40);
        let apart = update(bson!([7, 8]), both).matched(1);
        apart.becomes(bson!([2, 1]));
    }

    #[test]
    fn brackets_are_all_elements() {
        set(bson!([1, 2]), "a.$[]").becomes(bson!([0, 0]));
        set(bson!([]), "a.$[]").becomes(bson!([]));
        set(bson!([{ "b": 1 }, {}]), "a.$[].b").becomes(bson!([{ "b": 0 }, { "b": 0 }]));
        set(bson!([[1, 2], [3]]), "a.$[].$[]").becomes(bson!([[0, 0], [0]]));
        set(bson!({ "b": [1] }), "a.b.$[]").becomes(bson!({ "b": [0] }));
        set(bson!(5), "a.$[]").fails(2);
        set(Bson::Null, "a.$[]").fails(2);
        set(bson!({}), "a.b.$[]").fails(2);
        set(bson!([1]), "x.$[]").fails(2);
        set(bson!([1]), "a.$[].b").fails(28);
    }

    #[test]
    fn names_in_brackets_are_filters() {
        let x = doc! { "x": { "$gte": 5 } };
        let filtered = set(bson!([1, 5, 9]), "a.$[x]").filters([x.clone()]);
        filtered.becomes(bson!([1, 0, 0]));
        set(bson!([{ "b": 1 }, { "b": 9 }]), "a.$[x].b")
            .filters([doc! { "x.b": { "$gt": 5 } }])
            .becomes(bson!([{ "b": 1 }, { "b": 0 }]));
        set(bson!([{ "b": [1, 9] }, { "b": [2] }]), "a.$[x].b.$[y]")
            .filters([doc! { "x.b": 9 }, doc! { "y": { "$lt": 5 } }])
            .becomes(bson!([{ "b": [0, 9] }, { "b": [2] }]));
        set(bson!([1, 5]), "a.$[x]")
            .filters([doc! { "$or": [{ "x": 1 }, { "x": 2 }] }])
            .becomes(bson!([0, 5]));
        let two = bson!({ "$inc": { "a.$[x]": 1 }, "$mul": { "a.$[y]": 2 } });
        let apart = update(bson!([1, 5]), two.clone()).filters([x.clone(), doc! { "y": 1 }]);
        apart.becomes(bson!([2, 6]));
        let same = update(bson!([1, 5]), two).filters([x.clone(), doc! { "y": 5 }]);
        same.fails(40);
        set(bson!(5), "a.$[x]").filters([x]).fails(2);
    }

    #[test]
    fn wrong_filters_are_refused() {
        let at_x = || set(bson!([1]), "a.$[x]");
        at_x().fails(2);
        at_x().filters([doc! { "y": 1 }]).fails(2);
        at_x().filters([doc! {}]).fails(9);
        at_x().filters([doc! { "x": 1, "y": 1 }]).fails(9);
        at_x().filters([doc! { "x": 1 }, doc! { "x": 2 }]).fails(9);
        at_x()
            .filters([doc! { "$text": { "$search": "x" } }])
            .fails(2);
        set(bson!([1]), "a").filters([doc! { "y": 1 }]).fails(9);
        let number = set(bson!([1]), "a.$[1x]");
        number.filters([doc! { "1x": 1 }]).fails(2);
        let capital = set(bson!([1]), "a.$[X]");
        capital.filters([doc! { "X": 1 }]).fails(2);
    }
}
