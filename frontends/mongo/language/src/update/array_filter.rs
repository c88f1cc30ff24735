//! `arrayFilters`: which elements `$[name]` stands for.

use bson::{Bson, Document};
use indexmap::IndexMap;

use crate::{
    error::{Result, bad_value, failed_to_parse},
    expression::variables::Context,
    filter::{Filter, Node, Place},
};

/// The filters of an update, by the names that its paths call them.
#[derive(Clone, Debug, Default)]
pub(super) struct ArrayFilters {
    filters: IndexMap<String, Filter>,
}

impl ArrayFilters {
    pub(super) fn parse(given: &[Document], context: &Context) -> Result<Self> {
        let mut filters = IndexMap::new();
        for document in given {
            let filter = Filter::parse_in(document, context, Place::ArrayFilter)?;
            let name = identifier(filter.root())?.ok_or_else(|| {
                failed_to_parse(
                    "Cannot use an expression without a top-level field name in arrayFilters",
                )
            })?;
            check_identifier(&name)?;
            if filters.insert(name.clone(), filter).is_some() {
                return Err(failed_to_parse(format!(
                    "Found multiple array filters with the same top-level field name {name}"
                )));
            }
        }
        Ok(Self { filters })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.filters.is_empty()
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.filters.keys().map(String::as_str)
    }

    pub(super) fn contains(&self, name: &str) -> bool {
        self.filters.contains_key(name)
    }

    /// Whether the filter of that name takes the element.
    pub(super) fn takes(&self, name: &str, element: &Bson) -> Result<bool> {
        let Some(filter) = self.filters.get(name) else {
            return Ok(false);
        };
        // The filter speaks of the element by its name.
        filter.matches(&Document::from_iter([(name.to_owned(), element.clone())]))
    }
}

/// The one name with which all paths of a filter begin; none if it has no path.
fn identifier(node: &Node) -> Result<Option<String>> {
    match node {
        Node::And(nodes) | Node::Or(nodes) | Node::Nor(nodes) => {
            let mut found: Option<String> = None;
            for node in nodes {
                found = match (found, identifier(node)?) {
                    (Some(one), Some(other)) if one != other => {
                        return Err(failed_to_parse(format!(
                            "Expected a single top-level field name, found '{one}' and '{other}'"
                        )));
                    }
                    (found, other) => found.or(other),
                };
            }
            Ok(found)
        }
        Node::Not(node) => identifier(node),
        Node::Field { path, .. } => Ok(path
            .components()
            .first()
            .map(|component| component.name().to_owned())),
        _ => Ok(None),
    }
}

fn check_identifier(name: &str) -> Result<()> {
    let starts_well = name.starts_with(|first: char| first.is_ascii_lowercase());
    if starts_well && name.chars().all(|c| c.is_ascii_alphanumeric()) {
        return Ok(());
    }
    Err(bad_value(format!(
        "The top-level field name must be an alphanumeric string beginning with a lowercase \
         letter, found '{name}'"
    )))
}
