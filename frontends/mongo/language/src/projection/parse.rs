//! From a projection document to its tree.

use bson::{Bson, Document};

use super::{Child, Kind, Projection, Slice, Source, Tree, Use};
use crate::error::{Code, Error, Result};
use crate::expression::Expression;
use crate::expression::operator;
use crate::expression::variables::{Context, ParseContext};
use crate::filter::{Filter, Place};
use crate::number::Number;
use crate::path::{Component, Path};

pub(super) fn projection(
    specification: &Document,
    context: &Context,
    place: Use,
    filter: Option<&Document>,
) -> Result<Projection> {
    if specification.is_empty() && matches!(place, Use::Project | Use::AddFields) {
        return fail(
            51272,
            "projection specification must have at least one field",
        );
    }
    let mut parser = Parser {
        context,
        place,
        has_filter: filter.is_some(),
        kind: (place == Use::AddFields).then_some(Kind::Addition),
        seen: Seen::default(),
        sources: Vec::new(),
        slices: Vec::new(),
        positional: None,
    };
    let mut tree = Tree::default();
    for (name, value) in specification {
        parser.seen.id |= name == "_id" || name.starts_with("_id.");
        parser.element(name, value, &[], &mut tree)?;
    }
    parser.finish(tree)
}

fn fail<T>(code: i32, message: impl Into<String>) -> Result<T> {
    Err(Error::new(Code(code), message))
}

/// What has been met so far and decides what the projection is.
#[derive(Default)]
struct Seen {
    id: bool,
    id_included: bool,
    id_excluded: bool,
    slice: bool,
    element_match: bool,
    meta: bool,
}

struct Parser<'a> {
    context: &'a Context,
    place: Use,
    has_filter: bool,
    /// Unknown until something other than `_id` tells.
    kind: Option<Kind>,
    seen: Seen,
    sources: Vec<Source>,
    slices: Vec<Slice>,
    positional: Option<Path>,
}

impl Parser<'_> {
    fn finish(mut self, mut tree: Tree) -> Result<Projection> {
        let kind = self.kind.unwrap_or_else(|| self.default_kind());
        if kind == Kind::Inclusion && !self.seen.id && self.place != Use::Wildcard {
            tree.children.insert("_id".to_owned(), Child::Keep);
        }
        if kind == Kind::Exclusion && self.seen.id_included {
            tree.children.shift_remove("_id");
        }
        mark_computing(&mut tree);
        Ok(Projection {
            kind,
            tree,
            sources: std::mem::take(&mut self.sources),
            slices: std::mem::take(&mut self.slices),
            positional: self.positional,
            variables: self.context.variables.clone(),
        })
    }

    /// What a projection is that names no field plainly but perhaps `_id`.
    fn default_kind(&self) -> Kind {
        let seen = &self.seen;
        let inclusion = if seen.slice {
            seen.id_included
        } else if seen.element_match {
            true
        } else if seen.meta {
            self.place != Use::Find || (seen.id_included && !seen.id_excluded)
        } else {
            seen.id_included
        };
        if inclusion {
            Kind::Inclusion
        } else {
            Kind::Exclusion
        }
    }

    /// One field of the projection, below `parent`, which `tree` is the tree of.
    fn element(
        &mut self,
        name: &str,
        value: &Bson,
        parent: &[Component],
        tree: &mut Tree,
    ) -> Result<()> {
        let positional = name.ends_with(".$");
        if positional && self.place != Use::Find {
            return fail(
                31324,
                "Cannot use positional projection in aggregation projection",
            );
        }
        if name.contains(".$.") {
            let message = "As of 4.4, it's illegal to specify positional operator in the middle of \
                           a path. It may only be used at the end, for example: a.b.$";
            return fail(31394, message);
        }
        match value {
            Bson::Document(inner) if !inner.is_empty() || self.place != Use::AddFields => {
                if positional {
                    let message =
                        "positional projection cannot be used with an expression or sub object";
                    return fail(31271, message);
                }
                self.document(name, inner, parent, tree)
            }
            value => match flag(value).filter(|_| self.place != Use::AddFields) {
                Some(true) if positional => self.positional(name, parent, tree),
                Some(true) => self.inclusion(name, parent, tree),
                Some(false) if positional => {
                    fail(31395, "positional projection cannot be used with exclusion")
                }
                Some(false) => self.exclusion(name, parent, tree),
                None if positional => {
                    fail(31308, "positional projection cannot be used with a literal")
                }
                None => self.literal(name, value, tree),
            },
        }
    }

    fn inclusion(&mut self, name: &str, parent: &[Component], tree: &mut Tree) -> Result<()> {
        add(tree, &Path::checked(name)?, Child::Keep)?;
        if name == "_id" && parent.is_empty() {
            self.seen.id_included = true;
            return Ok(());
        }
        self.include(name)
    }

    fn include(&mut self, name: &str) -> Result<()> {
        if self.kind == Some(Kind::Exclusion) {
            let message = format!("Cannot do inclusion on field {name} in exclusion projection");
            return fail(31253, message);
        }
        self.kind = Some(Kind::Inclusion);
        Ok(())
    }

    fn exclusion(&mut self, name: &str, parent: &[Component], tree: &mut Tree) -> Result<()> {
        add(tree, &Path::checked(name)?, Child::Drop)?;
        if name == "_id" && parent.is_empty() {
            self.seen.id_excluded = true;
            return Ok(());
        }
        if self.kind == Some(Kind::Inclusion) {
            let message = format!("Cannot do exclusion on field {name} in inclusion projection");
            return fail(31254, message);
        }
        self.kind = Some(Kind::Exclusion);
        Ok(())
    }

    fn positional(&mut self, name: &str, parent: &[Component], tree: &mut Tree) -> Result<()> {
        self.allow_computing()?;
        if self.positional.is_some() {
            return fail(
                31276,
                "Cannot specify more than one positional projection per query.",
            );
        }
        if self.seen.element_match {
            return fail(31256, "Cannot specify positional operator and $elemMatch.");
        }
        if !self.has_filter {
            return fail(
                51050,
                "Projections with a positional operator require a matcher",
            );
        }
        if name == ".$" {
            return fail(5_392_900, format!("Projection on field {name} is invalid"));
        }
        let path = Path::checked(name.strip_suffix(".$").unwrap_or(name))?;
        add(tree, &path, Child::Keep)?;
        self.positional = Some(full_path(parent, &path));
        self.include(name)
    }

    fn literal(&mut self, name: &str, value: &Bson, tree: &mut Tree) -> Result<()> {
        self.allow_computing()?;
        let expression = Expression::parse(value, &ParseContext::from(self.context))?;
        self.compute(&Path::checked(name)?, Source::Expression(expression), tree)?;
        match self.kind {
            Some(Kind::Exclusion) => {
                let message =
                    format!("Cannot use an expression {name}: {value} in an exclusion projection");
                fail(31310, message)
            }
            Some(Kind::Addition) => Ok(()),
            _ => {
                self.kind = Some(Kind::Inclusion);
                Ok(())
            }
        }
    }

    /// A document is an expression, if it has one operator, or names fields within the field.
    fn document(
        &mut self,
        name: &str,
        inner: &Document,
        parent: &[Component],
        tree: &mut Tree,
    ) -> Result<()> {
        let path = match inner.iter().next() {
            None => return fail(51270, format!("Invalid empty sub-projection: {name}")),
            Some((operator, argument)) => {
                let path = Path::checked(name)?;
                if inner.len() == 1 && operator.starts_with('$') {
                    let site = Site {
                        path: &path,
                        parent,
                        operator,
                        argument,
                        whole: inner,
                    };
                    if self.operator(&site, tree)? {
                        return Ok(());
                    }
                    let field = operator.strip_suffix(".$").unwrap_or(operator);
                    if Path::checked(field).is_err() {
                        return fail(31325, format!("Unknown expression {operator}"));
                    }
                }
                path
            }
        };
        let below = [parent, path.components()].concat();
        let tree = subtree(tree, path.components(), &path)?;
        for (name, value) in inner {
            self.element(name, value, &below, tree)?;
        }
        Ok(())
    }

    /// Whether it was one.
    fn operator(&mut self, site: &Site<'_>, tree: &mut Tree) -> Result<bool> {
        match (site.operator, self.place) {
            ("$slice", Use::Find) => {
                if self.slice(site, tree)? {
                    return Ok(true);
                }
                self.expression(site, tree)
            }
            ("$elemMatch", Use::Find) => self.element_match(site, tree).map(|()| true),
            ("$elemMatch", _) => {
                let message = "Cannot use $elemMatch in this context";
                Err(Error::new(Code::INVALID_PIPELINE_OPERATOR, message))
            }
            _ => self.expression(site, tree),
        }
    }

    fn expression(&mut self, site: &Site<'_>, tree: &mut Tree) -> Result<bool> {
        if operator::find(site.operator).is_none() {
            return Ok(false);
        }
        self.allow_computing()?;
        let meta = site.operator == "$meta";
        if self.kind == Some(Kind::Exclusion) && !meta {
            let message = "Cannot use expression other than $meta in exclusion projection";
            return fail(31252, message);
        }
        if !meta && self.kind.is_none() {
            self.kind = Some(Kind::Inclusion);
        }
        let whole = Bson::Document(site.whole.clone());
        let expression = Expression::parse(&whole, &ParseContext::from(self.context))?;
        self.compute(site.path, Source::Expression(expression), tree)?;
        self.seen.meta |= meta;
        Ok(true)
    }

    /// Whether it is the `$slice` of `find`; the expression of that name may be meant instead.
    fn slice(&mut self, site: &Site<'_>, tree: &mut Tree) -> Result<bool> {
        let integer = |value: &Bson| Number::from_bson(value).map(to_i32_saturating);
        let (skip, limit) = match site.argument {
            Bson::Array(parts) => match parts.as_slice() {
                [skip, limit] => match (integer(skip), integer(limit)) {
                    (Some(skip), Some(limit)) if limit > 0 => (Some(skip), limit),
                    _ => return Ok(false),
                },
                _ => return Ok(false),
            },
            value => match integer(value) {
                Some(limit) => (None, limit),
                None => return Ok(false),
            },
        };
        if add(tree, site.path, Child::Keep).is_err() {
            return Ok(false);
        }
        self.slices.push(Slice {
            path: full_path(site.parent, site.path),
            skip,
            limit,
        });
        self.seen.slice = true;
        Ok(true)
    }

    fn element_match(&mut self, site: &Site<'_>, tree: &mut Tree) -> Result<()> {
        let Bson::Document(_) = site.argument else {
            return fail(31274, "elemMatch: Invalid argument, object required");
        };
        if self.positional.is_some() {
            return fail(31255, "Cannot specify positional operator and $elemMatch.");
        }
        if site.path.components().len() > 1 || !site.parent.is_empty() {
            return fail(31275, "Cannot use $elemMatch projection on a nested field.");
        }
        let name = site.path.as_str().to_owned();
        let filter = bson::doc! {name.as_str(): site.whole.clone()};
        let filter = Box::new(Filter::parse_in(&filter, self.context, Place::Projection)?);
        self.compute(site.path, Source::Element(name, filter), tree)?;
        self.seen.element_match = true;
        Ok(())
    }

    fn compute(&mut self, path: &Path, source: Source, tree: &mut Tree) -> Result<()> {
        add(tree, path, Child::Compute(self.sources.len()))?;
        self.sources.push(source);
        Ok(())
    }

    fn allow_computing(&self) -> Result<()> {
        if self.place == Use::Wildcard {
            return fail(
                51271,
                "Bad projection specification: it may not compute fields",
            );
        }
        Ok(())
    }
}

/// An operator where it stands.
struct Site<'a> {
    path: &'a Path,
    parent: &'a [Component],
    operator: &'a str,
    argument: &'a Bson,
    whole: &'a Document,
}

/// What numbers and booleans mean: that the field is wanted, or not.
fn flag(value: &Bson) -> Option<bool> {
    match value {
        Bson::Boolean(value) => Some(*value),
        value => Number::from_bson(value).map(|number| !number.is_zero()),
    }
}

fn to_i32_saturating(number: Number) -> i64 {
    number
        .to_i64_saturating()
        .clamp(i64::from(i32::MIN), i64::from(i32::MAX))
}

fn full_path(parent: &[Component], path: &Path) -> Path {
    let names = parent.iter().chain(path.components()).map(Component::name);
    Path::parse(&names.collect::<Vec<_>>().join("."))
}

fn add(tree: &mut Tree, path: &Path, child: Child) -> Result<()> {
    let Some((last, between)) = path.components().split_last() else {
        return Ok(());
    };
    let tree = subtree(tree, between, path)?;
    if tree.children.contains_key(last.name()) {
        return fail(31250, format!("Path collision at {}", path.as_str()));
    }
    tree.children.insert(last.name().to_owned(), child);
    Ok(())
}

/// The tree of the field that the steps lead to, made if it is not there.
fn subtree<'t>(mut tree: &'t mut Tree, steps: &[Component], path: &Path) -> Result<&'t mut Tree> {
    for step in steps {
        let child = tree.children.entry(step.name().to_owned());
        let Child::Tree(inner) = child.or_insert_with(|| Child::Tree(Tree::default())) else {
            let path = path.as_str();
            return fail(
                31249,
                format!("Path collision at {path} remaining portion {path}"),
            );
        };
        tree = inner;
    }
    Ok(tree)
}

fn mark_computing(tree: &mut Tree) -> bool {
    let mut computes = false;
    for child in tree.children.values_mut() {
        computes |= match child {
            Child::Tree(inner) => mark_computing(inner),
            Child::Compute(_) => true,
            Child::Keep | Child::Drop => false,
        };
    }
    tree.computes = computes;
    computes
}
