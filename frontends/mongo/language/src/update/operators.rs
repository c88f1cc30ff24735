//! Updates by operators: `{$set: {…}, $inc: {…}}`.

use std::{borrow::Cow, collections::BTreeSet, sync::Arc};

use bson::{Bson, Document};
use tessera_core::deadline::Held;

use super::{
    application::Application,
    array_filter::ArrayFilters,
    fields::Put,
    immutable,
    modifier::{self, Modifier},
    target::{Step, Target},
    touched::Touched,
    tree::{Node, Tree},
};
use crate::{
    compare::type_name,
    error::{Code, Error, Result, bad_value, failed_to_parse},
    expression::variables::Context,
    size::take_field,
};

/// The operator that concerns two fields.
const RENAME: &str = "$rename";

/// A new name of `$rename` with a null character in it.
const NULL_IN_NAME: Code = Code(9_867_600);

/// The operators of an update, parsed.
#[derive(Clone, Debug)]
pub(super) struct Operators {
    operations: Vec<Operation>,
    filters: ArrayFilters,
    /// The operations of an update whose paths are the same for all documents.
    tree: Option<Tree>,
}

#[derive(Clone, Debug)]
struct Operation {
    target: Target,
    action: Action,
}

#[derive(Clone, Debug)]
enum Action {
    Modify(Arc<dyn Modifier>),
    /// Takes what is at this path.
    RenameFrom(Target),
}

impl Operators {
    pub(super) fn parse(
        update: &Document,
        filters: ArrayFilters,
        context: &Context,
    ) -> Result<Self> {
        let mut operations = Vec::new();
        // Conflicts are found even if the paths are not the final ones.
        let mut tree = Tree::default();
        for (name, operand) in update {
            for (path, value) in fields_of(name, operand)? {
                let operation = Operation::parse(name, path, value, context)?;
                check_identifiers(&operation.target, &filters)?;
                operation.add_to(&mut tree)?;
                operations.push(operation);
            }
        }
        check_all_used(&operations, &filters)?;
        let constant = !operations.iter().any(Operation::is_dynamic);
        Ok(Self {
            operations,
            filters,
            tree: constant.then_some(tree),
        })
    }

    /// Changes the document, and gives the paths at which something changed.
    pub(super) fn apply(
        &self,
        document: &mut Document,
        matched: Option<usize>,
        is_insert: bool,
    ) -> Result<Touched> {
        let mut touched = Touched::default();
        let mut held = Held::new();
        let tree = match &self.tree {
            Some(tree) => Cow::Borrowed(tree),
            None => {
                let mut tree = Tree::default();
                for operation in self.resolve(document, matched, (&mut touched, &mut held))? {
                    operation.add_to(&mut tree)?;
                }
                Cow::Owned(tree)
            }
        };
        Application::run(&tree, document, is_insert, touched)
    }

    /// The operations as they are for one document. What `$rename` moves is taken out of it.
    fn resolve(
        &self,
        document: &mut Document,
        matched: Option<usize>,
        (touched, held): (&mut Touched, &mut Held),
    ) -> Result<Vec<Operation>> {
        let mut resolved = Vec::with_capacity(self.operations.len());
        for operation in &self.operations {
            match &operation.action {
                Action::Modify(modifier) => {
                    let places = (matched, &self.filters);
                    for target in operation.target.resolve(document, places, held)? {
                        let action = Action::Modify(Arc::clone(modifier));
                        resolved.push(Operation { target, action });
                    }
                }
                Action::RenameFrom(from) => {
                    check_destination(&operation.target, from, document)?;
                    let has_id = document.contains_key("_id");
                    if let Some(value) = take(from, document)? {
                        if has_id && starts_with_id(&operation.target) {
                            return Err(immutable(&operation.target.to_string()));
                        }
                        touched.note(&from.to_string());
                        resolved.push(Operation {
                            target: operation.target.clone(),
                            action: Action::Modify(Arc::new(Put { value })),
                        });
                    }
                }
            }
        }
        Ok(resolved)
    }
}

impl Operation {
    fn parse(operator: &str, path: &str, value: &Bson, context: &Context) -> Result<Self> {
        if operator == RENAME {
            return Self::rename(path, value);
        }
        let target = Target::parse(path)?;
        let action = Action::Modify(modifier::named(operator)?(value, context)?);
        Ok(Self { target, action })
    }

    fn rename(from: &str, to: &Bson) -> Result<Self> {
        let from = Target::parse(from)?;
        let Bson::String(to) = to else {
            return Err(bad_value(format!(
                "The 'to' field for $rename must be a string: {}: {to}",
                from
            )));
        };
        if to.contains('\0') {
            return Err(Error::new(
                NULL_IN_NAME,
                "The 'to' field for $rename cannot contain an embedded null byte",
            ));
        }
        let to = Target::parse(to)?;
        if from.overlaps(&to) {
            return Err(bad_value(format!(
                "The source and target field for $rename must differ and must not be on the same \
                 path: {}: {}",
                from, to
            )));
        }
        if from.is_dynamic() || to.is_dynamic() {
            return Err(bad_value(format!(
                "The source and destination fields for $rename may not be dynamic: {}: {}",
                from, to
            )));
        }
        Ok(Self {
            target: to,
            action: Action::RenameFrom(from),
        })
    }

    fn add_to(&self, tree: &mut Tree) -> Result<()> {
        match &self.action {
            Action::Modify(modifier) => tree.insert(&self.target, Node::Leaf(Arc::clone(modifier))),
            Action::RenameFrom(from) => {
                tree.insert(from, Node::Reserved)?;
                tree.insert(&self.target, Node::Reserved)
            }
        }
    }

    fn is_dynamic(&self) -> bool {
        self.target.is_dynamic() || matches!(self.action, Action::RenameFrom(_))
    }
}

fn fields_of<'a>(name: &str, operand: &'a Bson) -> Result<&'a Document> {
    // An unknown operator is reported before its operand.
    if name != RENAME {
        modifier::named(name)?;
    }
    operand.as_document().ok_or_else(|| {
        failed_to_parse(format!(
            "Modifiers operate on fields but we found type {} instead. For example: {{$mod: \
             {{<field>: ...}}}} not {{{name}: {operand}}}",
            type_name(operand)
        ))
    })
}

/// Every `$[name]` must have its filter.
fn check_identifiers(target: &Target, filters: &ArrayFilters) -> Result<()> {
    match target.filters().find(|name| !filters.contains(name)) {
        Some(name) => Err(bad_value(format!(
            "No array filter found for identifier '{name}' in path '{}'",
            target
        ))),
        None => Ok(()),
    }
}

fn check_all_used(operations: &[Operation], filters: &ArrayFilters) -> Result<()> {
    let used: BTreeSet<&str> = operations
        .iter()
        .flat_map(|operation| operation.target.filters())
        .collect();
    match filters.names().find(|name| !used.contains(name)) {
        Some(unused) => Err(failed_to_parse(format!(
            "The array filter for identifier '{unused}' was not used in the update"
        ))),
        None => Ok(()),
    }
}

/// Takes a field out of a document; it may not lie in an array.
fn take(from: &Target, document: &mut Document) -> Result<Option<Bson>> {
    let Some((last, parents)) = from.steps.split_last() else {
        return Ok(None);
    };
    let mut holder = Holder::Document(document);
    let mut within_array = false;
    for parent in parents {
        holder = match holder.child(&parent.to_string(), from)? {
            None => return Ok(None),
            Some(Bson::Document(inner)) => Holder::Document(inner),
            Some(Bson::Array(elements)) => {
                within_array = true;
                Holder::Array(elements)
            }
            Some(_) => return Err(not_viable(from)),
        };
    }
    match (holder, within_array) {
        (Holder::Document(document), false) => Ok(take_field(document, &last.to_string())),
        (holder, _) => match holder.child(&last.to_string(), from)? {
            Some(_) => Err(in_array("source", from)),
            None => Ok(None),
        },
    }
}

/// What a path leads through.
enum Holder<'a> {
    Document(&'a mut Document),
    Array(&'a mut Vec<Bson>),
}

impl<'a> Holder<'a> {
    fn child(self, name: &str, path: &Target) -> Result<Option<&'a mut Bson>> {
        match self {
            Self::Document(document) => Ok(document.get_mut(name)),
            Self::Array(elements) => {
                let position = Step::index(name).ok_or_else(|| not_viable(path))?;
                Ok(elements.get_mut(position))
            }
        }
    }
}

fn not_viable(path: &Target) -> Error {
    Error::new(
        Code::PATH_NOT_VIABLE,
        format!("Cannot follow the path '{}' through a value", path),
    )
}

/// Whether a path leads to the `_id`, or into it.
fn starts_with_id(target: &Target) -> bool {
    matches!(target.steps.first(), Some(Step::Name(name)) if name.as_str() == "_id")
}

/// Refuses a destination in an array, if there is something to rename.
fn check_destination(to: &Target, from: &Target, document: &Document) -> Result<()> {
    let source = crate::path::Path::parse(&from.to_string());
    if source.get(document).is_none() {
        return Ok(());
    }
    let mut holder = document;
    for step in &to.steps {
        match holder.get(step.to_string()) {
            Some(Bson::Document(inner)) => holder = inner,
            Some(Bson::Array(_)) if Some(step) != to.steps.last() => {
                return Err(in_array("destination", to));
            }
            _ => return Ok(()),
        }
    }
    Ok(())
}

fn in_array(which: &str, target: &Target) -> Error {
    bad_value(format!(
        "The {which} field cannot be an array element: '{}'",
        target
    ))
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use crate::update::tests::{check, refused};

    #[test]
    fn renames_move_fields() {
        check([
            (
                doc! { "a": 1, "x": 0 },
                doc! { "$rename": { "a": "b" } },
                doc! { "x": 0, "b": 1 },
            ),
            (
                doc! { "a": 1, "b": 2 },
                doc! { "$rename": { "a": "b" } },
                doc! { "b": 1 },
            ),
            (
                doc! { "a": 1 },
                doc! { "$rename": { "a": "b.c" } },
                doc! { "b": { "c": 1 } },
            ),
            (
                doc! { "a": { "b": 1 } },
                doc! { "$rename": { "a.b": "c" } },
                doc! { "a": {}, "c": 1 },
            ),
            (
                doc! { "a": 1 },
                doc! { "$rename": { "x": "y" } },
                doc! { "a": 1 },
            ),
            (
                doc! { "a": [1] },
                doc! { "$rename": { "a.5": "y" } },
                doc! { "a": [1] },
            ),
        ]);
    }

    #[test]
    fn renames_of_elements_and_on_one_path_are_refused() {
        refused([
            (doc! { "a": 1 }, doc! { "$rename": { "a": "a" } }, 2),
            (doc! { "a": 1 }, doc! { "$rename": { "a": "a.b" } }, 2),
            (doc! { "a": 1 }, doc! { "$rename": { "a": 5 } }, 2),
            (doc! { "a": 1 }, doc! { "$rename": { "a": "b.$" } }, 2),
            (doc! { "a": [1] }, doc! { "$rename": { "a.0": "x" } }, 2),
            (
                doc! { "a": [{ "b": 1 }] },
                doc! { "$rename": { "a.0.b": "x" } },
                2,
            ),
            (
                doc! { "a": 1, "b": [1] },
                doc! { "$rename": { "a": "b.0" } },
                2,
            ),
            (doc! { "a": 1 }, doc! { "$rename": { "a.b": "c" } }, 28),
            (
                doc! { "a": 1, "b": 2 },
                doc! { "$rename": { "a": "b.x" } },
                28,
            ),
        ]);
    }

    #[test]
    fn renames_that_conflict_or_have_no_name_are_refused() {
        refused([
            (
                doc! { "a": 1, "b": 2 },
                doc! { "$rename": { "a": "b", "b": "c" } },
                40,
            ),
            (
                doc! { "a": 1 },
                doc! { "$rename": { "a": "b", "c": "b" } },
                40,
            ),
            (
                doc! { "a": 1 },
                doc! { "$rename": { "a": "b" }, "$set": { "a": 1 } },
                40,
            ),
            (
                doc! { "a": 1 },
                doc! { "$rename": { "a": "b" }, "$set": { "b": 1 } },
                40,
            ),
            (doc! { "a": 1 }, doc! { "$rename": { "a": "$b" } }, 52),
            (doc! { "a": 1 }, doc! { "$rename": { "a": "" } }, 56),
            (
                doc! { "_id": 1, "a": 1 },
                doc! { "$rename": { "_id": "b" } },
                66,
            ),
            (
                doc! { "_id": 1, "a": 1 },
                doc! { "$rename": { "a": "_id" } },
                66,
            ),
            (
                doc! { "a": 1 },
                doc! { "$rename": { "a": "b\0" } },
                9_867_600,
            ),
        ]);
    }
}
