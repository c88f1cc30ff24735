//! The initial document of an upsert, from the equalities of the query.

use std::collections::BTreeMap;

use bson::{Bson, Document};

use crate::{
    error::{Code, Error, Result},
    filter::{Comparison, Filter, Node, Test},
    path::Path,
};

/// The values that the query demands, by their paths.
#[derive(Default)]
struct Equalities<'a> {
    values: BTreeMap<&'a str, (&'a Path, &'a Bson)>,
}

/// The fields that the query compares for equality.
pub(super) fn seed(filter: &Filter) -> Result<Document> {
    let mut equalities = Equalities::default();
    equalities.collect(filter.root(), &mut |_| Ok(true))?;
    equalities.into_document()
}

/// The `_id` that the query compares for equality: all that a replacement takes from it.
pub(super) fn seed_id(filter: &Filter) -> Result<Document> {
    let mut equalities = Equalities::default();
    equalities.collect(filter.root(), &mut |path| {
        if path.as_str().starts_with("_id.") {
            return Err(Error::new(
                Code::NOT_EXACT_VALUE_FIELD,
                format!(
                    "field at '_id' must be exactly specified, field at sub-path '{}' found",
                    path.as_str()
                ),
            ));
        }
        Ok(path.as_str() == "_id")
    })?;
    equalities.into_document()
}

impl<'a> Equalities<'a> {
    fn collect(
        &mut self,
        node: &'a Node,
        wanted: &mut impl FnMut(&Path) -> Result<bool>,
    ) -> Result<()> {
        match node {
            Node::And(nodes) => nodes.iter().try_for_each(|node| self.collect(node, wanted)),
            // A choice of one is none.
            Node::Or(nodes) => match nodes.as_slice() {
                [only] => self.collect(only, wanted),
                _ => Ok(()),
            },
            Node::Field { path, test } => match equality(test) {
                Some(value) if wanted(path)? => self.add(path, value),
                _ => Ok(()),
            },
            _ => Ok(()),
        }
    }

    fn add(&mut self, path: &'a Path, value: &'a Bson) -> Result<()> {
        let text = path.as_str();
        let prefixes = text
            .char_indices()
            .filter(|(_, c)| *c == '.')
            .filter_map(|(dot, _)| text.get(..dot))
            .chain([text]);
        for prefix in prefixes {
            if self.values.contains_key(prefix) {
                return Err(Error::new(
                    Code::NOT_SINGLE_VALUE_FIELD,
                    format!(
                        "cannot infer query fields to set, both paths '{text}' and '{prefix}' are \
                         matched"
                    ),
                ));
            }
        }
        self.values.insert(text, (path, value));
        Ok(())
    }

    fn into_document(self) -> Result<Document> {
        let mut document = Document::new();
        for (path, value) in self.values.into_values() {
            path.set(&mut document, value.clone())?;
        }
        Ok(document)
    }
}

/// The value that a test demands.
fn equality(test: &Test) -> Option<&Bson> {
    match test {
        Test::Compare {
            op: Comparison::Equal,
            value,
        } => Some(value),
        Test::In(members) if members.regexes().is_empty() => match members.values() {
            [only] => Some(only),
            _ => None,
        },
        _ => None,
    }
}
