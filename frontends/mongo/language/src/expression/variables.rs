//! Variables: what `$$NAME` stands for, while parsing (which names exist) and while evaluating.

use std::collections::HashSet;
use std::sync::Arc;

use ahash::RandomState;
use bson::{Bson, DateTime, Document, Timestamp};
use indexmap::IndexMap;
use tessera_core::deadline;

use super::{Expression, fail};
use crate::collation::Collation;
use crate::error::{Result, failed_to_parse};

/// Names that always exist and that the document or the language itself gives their values.
const BUILT_IN: &[&str] = &["ROOT", "CURRENT", "REMOVE", "DESCEND", "PRUNE", "KEEP"];

/// Names that always exist and that the server gives their values, once for each command.
const SYSTEM: &[&str] = &[
    "NOW",
    "CLUSTER_TIME",
    "USER_ROLES",
    "SEARCH_META",
    "JS_SCOPE",
    "IS_MR",
];

/// The values of variables. Cheap to clone: a change copies, and what is shared stays.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Variables {
    values: Arc<IndexMap<String, Option<Bson>>>,
}

impl Variables {
    /// The variables that every command has. `cluster_time` is none where there is no such clock.
    pub fn system(now: DateTime, cluster_time: Option<Timestamp>, user_roles: Vec<Bson>) -> Self {
        let mut variables = Self::default();
        variables.set("NOW", Some(Bson::DateTime(now)));
        if let Some(time) = cluster_time {
            variables.set("CLUSTER_TIME", Some(Bson::Timestamp(time)));
        }
        variables.set("USER_ROLES", Some(Bson::Array(user_roles)));
        variables
    }

    /// Gives a variable a value; `None` is "missing".
    pub fn set(&mut self, name: &str, value: Option<Bson>) {
        deadline::note(1);
        Arc::make_mut(&mut self.values).insert(name.to_owned(), value);
    }

    /// The value of a variable: `None` if there is none of that name, `Some(None)` if missing.
    pub fn get(&self, name: &str) -> Option<Option<&Bson>> {
        self.values.get(name).map(Option::as_ref)
    }

    /// These variables and those of a command's `let`, whose values may not depend on a document
    /// but may depend on the variables before them.
    pub fn with_let(&self, definitions: &Document, collation: &Collation) -> Result<Self> {
        let mut context = Context {
            collation: collation.clone(),
            variables: self.clone(),
        };
        for (name, value) in definitions {
            if SYSTEM.contains(&name.as_str()) {
                return fail(4738901, format!("Attempt to set internal constant: {name}"));
            }
            validate_bound_name(name)?;
            let expression = Expression::parse(value, &ParseContext::from(&context))?;
            if expression.reads_document() {
                return fail(4890500, "Command let Expression tried to access a field");
            }
            let value = expression.evaluate(&Document::new(), &context.variables)?;
            context.variables.set(name, value);
        }
        Ok(context.variables)
    }
}

/// What a filter, an expression, a projection or a pipeline is parsed with.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Context {
    /// How strings compare.
    pub collation: Collation,
    /// The variables of the command: system variables and its `let`.
    pub variables: Variables,
}

/// What an expression is parsed with: the context of the command and the names bound around it.
#[derive(Clone, Copy, Debug)]
pub struct ParseContext<'a> {
    context: &'a Context,
    bound: Option<&'a Bound<'a>>,
    depth: usize,
}

/// Names that `$let`, `$map`, `$filter` or `$reduce` binds, and those bound around them.
#[derive(Debug)]
pub(crate) struct Bound<'a> {
    names: &'a [String],
    /// The same to be looked up, if they are many: each use of a variable asks whether it is bound.
    index: Option<HashSet<&'a str, RandomState>>,
    outer: Option<&'a Self>,
}

/// So many names are compared one by one.
const FEW_NAMES: usize = 16;

impl Bound<'_> {
    fn has(&self, name: &str) -> bool {
        match &self.index {
            Some(index) => index.contains(name),
            None => self.names.iter().any(|bound| bound == name),
        }
    }
}

impl<'a> From<&'a Context> for ParseContext<'a> {
    fn from(context: &'a Context) -> Self {
        Self {
            context,
            bound: None,
            depth: 0,
        }
    }
}

impl<'a> ParseContext<'a> {
    pub(crate) fn collation(&self) -> &'a Collation {
        &self.context.collation
    }

    pub(crate) fn variables(&self) -> &'a Variables {
        &self.context.variables
    }

    /// The context one level further down.
    pub(crate) fn deeper(&self, limit: usize) -> Result<Self> {
        if self.depth >= limit {
            return fail(15, "expression is nested too deeply");
        }
        Ok(Self {
            depth: self.depth + 1,
            ..*self
        })
    }

    pub(crate) fn bind<'b>(&self, names: &'b [String]) -> Bound<'b>
    where
        'a: 'b,
    {
        let many = names.len() > FEW_NAMES;
        Bound {
            names,
            index: many.then(|| names.iter().map(String::as_str).collect()),
            outer: self.bound,
        }
    }

    /// The context within which the names are bound.
    pub(crate) fn within<'b>(&self, bound: &'b Bound<'b>) -> ParseContext<'b>
    where
        'a: 'b,
    {
        ParseContext {
            context: self.context,
            bound: Some(bound),
            depth: self.depth,
        }
    }

    /// Whether the name is bound by an expression around this one.
    pub(crate) fn binds(&self, name: &str) -> bool {
        let mut bound = self.bound;
        while let Some(names) = bound {
            if names.has(name) {
                return true;
            }
            bound = names.outer;
        }
        false
    }

    /// Whether `$$name` means anything here.
    pub(crate) fn defines(&self, name: &str) -> bool {
        BUILT_IN.contains(&name)
            || SYSTEM.contains(&name)
            || self.binds(name)
            || self.variables().get(name).is_some()
    }
}

/// Whether the server gives the variable its value.
pub(crate) fn is_system(name: &str) -> bool {
    SYSTEM.contains(&name)
}

/// Refuses names that no variable can have.
pub(crate) fn validate_read_name(name: &str) -> Result<()> {
    validate(name, |first| first.is_ascii_alphabetic())
}

/// Refuses names that an expression may not bind. Capitals are the server's; `CURRENT` alone may
/// be bound, to change what paths without `$$` are relative to.
pub(crate) fn validate_bound_name(name: &str) -> Result<()> {
    if name == "CURRENT" {
        return Ok(());
    }
    validate(name, |first| first.is_ascii_lowercase())
}

fn validate(name: &str, first_allowed: fn(char) -> bool) -> Result<()> {
    let Some(first) = name.chars().next() else {
        return Err(failed_to_parse("empty variable names are not allowed"));
    };
    if first.is_ascii() && !first_allowed(first) {
        return Err(failed_to_parse(format!(
            "'{name}' starts with an invalid character for a user variable name"
        )));
    }
    let allowed = |c: char| !c.is_ascii() || c.is_ascii_alphanumeric() || c == '_';
    match name.chars().find(|c| !allowed(*c)) {
        Some(c) => Err(failed_to_parse(format!(
            "'{name}' contains an invalid character for a variable name: '{c}'"
        ))),
        None => Ok(()),
    }
}
