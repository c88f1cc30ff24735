//! `$project`, `$addFields` and `$unset`: which fields stay, and which are computed.

use bson::{Bson, Document};
use indexmap::IndexMap;

use super::StageContext;
use super::stage::Stage;
use crate::compare::type_name;
use crate::error::Result;
use crate::expression::operator;
use crate::expression::path_components as components;
use crate::expression::{Expression, ParseContext, Variables, fail};
use crate::number::Number;
use crate::size::take_field;

/// What happens with fields that nothing is said about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rest {
    /// They go, as in a projection that names what stays.
    Dropped,
    /// They stay, as in one that names what goes, and in `$addFields`.
    Kept,
}

/// A change of documents by a tree of fields.
#[derive(Clone, Debug, PartialEq)]
pub struct Transform {
    rest: Rest,
    tree: Tree,
}

/// What happens with the fields of one level, in the order in which they are written.
#[derive(Clone, Debug, Default, PartialEq)]
struct Tree {
    fields: IndexMap<String, Field>,
    /// Whether anything here or below is computed.
    computes: bool,
}

#[derive(Clone, Debug, PartialEq)]
enum Field {
    /// Stays or goes, which is the opposite of what the rest does.
    Named,
    Computed(Box<Expression>),
    Below(Tree),
}

impl Transform {
    /// The changed document.
    pub fn apply(&self, mut document: Document, variables: &Variables) -> Result<Document> {
        if !self.tree.computes {
            self.tree.project(&mut document, self.rest);
            return Ok(document);
        }
        // Expressions see the document as it was.
        let mut output = document.clone();
        self.tree.project(&mut output, self.rest);
        self.tree
            .compute(&document, &mut output, self.rest, variables)?;
        Ok(output)
    }

    /// The paths that stay, if nothing is computed and nothing else stays.
    pub fn kept_paths(&self) -> Option<Vec<String>> {
        if self.rest == Rest::Kept || self.tree.computes {
            return None;
        }
        let mut paths = Vec::new();
        self.tree.paths("", &mut paths);
        Some(paths)
    }

    fn parse_project(specification: &Document, context: &ParseContext<'_>) -> Result<Self> {
        if specification.is_empty() {
            return fail(
                51272,
                "projection specification must have at least one field",
            );
        }
        let mut parser = Parser {
            context,
            rest: None,
            names_id: false,
            tree: Tree::default(),
        };
        for (name, value) in specification {
            parser.field("", name, value)?;
        }
        // Excluding nothing but the identifier is an exclusion.
        let rest = parser.rest.unwrap_or(if parser.names_id {
            Rest::Kept
        } else {
            Rest::Dropped
        });
        let mut tree = parser.tree;
        match (rest, specification.get("_id").and_then(flag)) {
            (Rest::Dropped, Some(false)) | (Rest::Kept, Some(true)) => {
                tree.fields.shift_remove("_id");
            }
            (Rest::Dropped, None) if !tree.fields.contains_key("_id") => {
                tree.fields.insert("_id".to_owned(), Field::Named);
            }
            _ => {}
        }
        Ok(Self { rest, tree })
    }

    fn parse_add(specification: &Document, context: &ParseContext<'_>) -> Result<Self> {
        let mut tree = Tree::default();
        for (name, value) in specification {
            add_field(&mut tree, name, value, context)?;
        }
        Ok(Self {
            rest: Rest::Kept,
            tree,
        })
    }
}

/// `$project`.
pub(super) fn parse_project(argument: &Bson, at: &StageContext<'_>) -> Result<Vec<Stage>> {
    let Bson::Document(specification) = argument else {
        return fail(15969, "$project specification must be an object");
    };
    let context = ParseContext::from(at.context);
    Ok(vec![Stage::Project(Transform::parse_project(
        specification,
        &context,
    )?)])
}

/// `$addFields` and `$set`.
pub(super) fn parse_add_fields(argument: &Bson, at: &StageContext<'_>) -> Result<Vec<Stage>> {
    let Bson::Document(specification) = argument else {
        let found = type_name(argument);
        return fail(
            40272,
            format!("specification stage must be an object, got {found}"),
        );
    };
    if specification.is_empty() {
        return fail(40177, "a specification of fields must have at least one");
    }
    let context = ParseContext::from(at.context);
    Ok(vec![Stage::AddFields(Transform::parse_add(
        specification,
        &context,
    )?)])
}

/// `$unset`.
pub(super) fn parse_unset(argument: &Bson, at: &StageContext<'_>) -> Result<Vec<Stage>> {
    let names = match argument {
        Bson::String(name) => vec![name.as_str()],
        Bson::Array(names) if names.is_empty() => {
            return fail(31119, "$unset specification must have at least one field");
        }
        Bson::Array(names) => {
            let name = |name: &'_ Bson| match name {
                Bson::String(_) => Ok(()),
                _ => fail(
                    31120,
                    "$unset specification must contain only string values",
                ),
            };
            names.iter().try_for_each(name)?;
            names.iter().filter_map(Bson::as_str).collect()
        }
        _ => return fail(31002, "$unset specification must be a string or an array"),
    };
    if names.iter().any(|name| name.contains('\0')) {
        return fail(
            9527900,
            "$unset field names cannot contain embedded null bytes",
        );
    }
    names
        .iter()
        .try_for_each(|name| components(name).map(|_| ()))?;
    let mut specification = Document::new();
    for name in names {
        if specification.insert(name, false).is_some() {
            return fail(31250, format!("Path collision at {name}"));
        }
    }
    let context = ParseContext::from(at.context);
    Ok(vec![Stage::Project(Transform::parse_project(
        &specification,
        &context,
    )?)])
}

struct Parser<'a> {
    context: &'a ParseContext<'a>,
    rest: Option<Rest>,
    /// Whether the identifier alone is excluded.
    names_id: bool,
    tree: Tree,
}

impl Parser<'_> {
    fn field(&mut self, parent: &str, name: &str, value: &Bson) -> Result<()> {
        if name.ends_with(".$") {
            return fail(
                31324,
                "Cannot use positional projection in aggregation projection",
            );
        }
        let path = if parent.is_empty() {
            name.to_owned()
        } else {
            format!("{parent}.{name}")
        };
        match value {
            Bson::Document(inner) => self.object(&path, inner),
            value => match flag(value) {
                Some(stays) => {
                    components(&path)?;
                    self.mode(&path, if stays { Rest::Dropped } else { Rest::Kept })?;
                    insert(&mut self.tree, &path, Field::Named)
                }
                None => self.computed(&path, value),
            },
        }
    }

    fn object(&mut self, path: &str, inner: &Document) -> Result<()> {
        let Some(first) = inner.keys().next() else {
            return fail(51270, format!("Invalid empty sub-projection: {path}"));
        };
        if first.starts_with('$') && inner.len() == 1 {
            if first == "$elemMatch" {
                return fail(168, "Cannot use $elemMatch in this context");
            }
            if operator::find(first).is_none() {
                return fail(31325, format!("Unrecognized expression '{first}'"));
            }
            if self.rest == Some(Rest::Kept) && first != "$meta" {
                let message = "Cannot use expression other than $meta in exclusion projection";
                return fail(31252, message);
            }
            let rest = self.rest;
            if first == "$meta" {
                // Which may stand in either kind of projection.
                self.rest = None;
            }
            self.computed(path, &Bson::Document(inner.clone()))?;
            if first == "$meta" {
                self.rest = rest;
            }
            return Ok(());
        }
        components(path)?;
        for (name, value) in inner {
            if name.contains('.') {
                components(name)?;
            }
            self.field(path, name, value)?;
        }
        Ok(())
    }

    fn computed(&mut self, path: &str, value: &Bson) -> Result<()> {
        components(path)?;
        if self.rest == Some(Rest::Kept) {
            return fail(
                31310,
                format!("Cannot use an expression {path} in an exclusion projection"),
            );
        }
        self.rest = Some(Rest::Dropped);
        let expression = Box::new(Expression::parse(value, self.context)?);
        insert(&mut self.tree, path, Field::Computed(expression))
    }

    /// All fields but the identifier must say the same.
    fn mode(&mut self, path: &str, rest: Rest) -> Result<()> {
        if path == "_id" {
            self.names_id |= rest == Rest::Kept;
            return Ok(());
        }
        match (self.rest, rest) {
            (Some(Rest::Kept), Rest::Dropped) => fail(
                31253,
                format!("Cannot do inclusion on field {path} in exclusion projection"),
            ),
            (Some(Rest::Dropped), Rest::Kept) => fail(
                31254,
                format!("Cannot do exclusion on field {path} in inclusion projection"),
            ),
            _ => {
                self.rest = Some(rest);
                Ok(())
            }
        }
    }
}

/// Numbers and booleans say whether a field stays.
fn flag(value: &Bson) -> Option<bool> {
    match value {
        Bson::Boolean(stays) => Some(*stays),
        value => Number::from_bson(value).map(|number| !number.is_zero()),
    }
}

/// Puts a field into the tree; none may be above or below another.
fn insert(tree: &mut Tree, path: &str, field: Field) -> Result<()> {
    tree.computes |= matches!(field, Field::Computed(_));
    match path.split_once('.') {
        None => match tree.fields.contains_key(path) {
            true => fail(31250, format!("Path collision at {path}")),
            false => {
                tree.fields.insert(path.to_owned(), field);
                Ok(())
            }
        },
        Some((first, rest)) => {
            let below = tree.fields.entry(first.to_owned());
            match below.or_insert_with(|| Field::Below(Tree::default())) {
                Field::Below(below) => insert(below, rest, field),
                _ => fail(
                    31249,
                    format!("Path collision at {path} remaining portion {rest}"),
                ),
            }
        }
    }
}

/// A field of `$addFields`: objects without operators are fields below.
fn add_field(tree: &mut Tree, path: &str, value: &Bson, context: &ParseContext<'_>) -> Result<()> {
    components(path)?;
    match value {
        Bson::Document(inner)
            if inner
                .keys()
                .next()
                .is_some_and(|name| !name.starts_with('$')) =>
        {
            for (name, value) in inner {
                if name.starts_with('$') {
                    return fail(
                        40182,
                        "cannot mix expressions and fields in a specification",
                    );
                }
                if name.contains('.') {
                    return fail(40183, format!("cannot use dotted field name '{name}' here"));
                }
                add_field(tree, &format!("{path}.{name}"), value, context)?;
            }
            Ok(())
        }
        Bson::Document(inner) if inner.len() > 1 => fail(
            40181,
            "an expression specification must contain exactly one field",
        ),
        value => {
            let expression = Box::new(Expression::parse(value, context)?);
            match insert(tree, path, Field::Computed(expression)) {
                Err(_) => fail(
                    40176,
                    format!("specification contains two conflicting paths: {path}"),
                ),
                Ok(()) => Ok(()),
            }
        }
    }
}

impl Tree {
    fn paths(&self, parent: &str, paths: &mut Vec<String>) {
        for (name, field) in &self.fields {
            let path = if parent.is_empty() {
                name.clone()
            } else {
                format!("{parent}.{name}")
            };
            match field {
                Field::Below(below) => below.paths(&path, paths),
                _ => paths.push(path),
            }
        }
    }

    /// Removes what does not stay; computes nothing yet.
    fn project(&self, document: &mut Document, rest: Rest) {
        let whole = std::mem::take(document);
        for (name, mut value) in whole {
            let stays = match self.fields.get(&name) {
                None => rest == Rest::Kept,
                Some(Field::Named) => rest == Rest::Dropped,
                // Replaced where it is, if the rest stays; else it comes after what stays.
                Some(Field::Computed(_)) => rest == Rest::Kept,
                Some(Field::Below(below)) => below.project_value(&mut value, rest),
            };
            if stays {
                document.insert(name, value);
            }
        }
    }

    /// The same for a value; false if it goes altogether.
    fn project_value(&self, value: &mut Bson, rest: Rest) -> bool {
        match value {
            Bson::Document(document) => self.project(document, rest),
            Bson::Array(items) => items.retain_mut(|item| self.project_value(item, rest)),
            // Something is computed in its place.
            _ => return rest == Rest::Kept || self.computes,
        }
        true
    }

    fn compute(
        &self,
        root: &Document,
        output: &mut Document,
        rest: Rest,
        variables: &Variables,
    ) -> Result<()> {
        for (name, field) in &self.fields {
            let value = match field {
                Field::Computed(expression) => expression.evaluate(root, variables)?,
                Field::Below(below) if below.computes => {
                    let current = output.get_mut(name).map(std::mem::take);
                    below.compute_value(root, current, rest, variables)?
                }
                _ => continue,
            };
            match value {
                Some(value) => output.insert(name.clone(), value),
                None => take_field(output, name),
            };
        }
        Ok(())
    }

    /// The value with what is computed below it: each element of an array has it.
    fn compute_value(
        &self,
        root: &Document,
        value: Option<Bson>,
        rest: Rest,
        variables: &Variables,
    ) -> Result<Option<Bson>> {
        match value {
            Some(Bson::Array(items)) => {
                let mut changed = Vec::with_capacity(items.len());
                for item in items {
                    changed.extend(self.compute_value(root, Some(item), rest, variables)?);
                }
                Ok(Some(Bson::Array(changed)))
            }
            value => {
                let mut document = match value {
                    Some(Bson::Document(document)) => document,
                    // What is no document becomes one.
                    _ => Document::new(),
                };
                self.compute(root, &mut document, rest, variables)?;
                Ok(Some(Bson::Document(document)))
            }
        }
    }
}
