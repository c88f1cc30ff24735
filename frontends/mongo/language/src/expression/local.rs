//! The values of variables that an expression binds, while what is within it is evaluated.

use std::collections::HashMap;

use ahash::RandomState;

use super::Value;

/// So many variables are compared one by one: that is as fast as a table, and is made faster.
const FEW: usize = 16;

/// Variables bound by `$let`, `$map`, `$filter` or `$reduce`, and those bound around them.
pub(crate) struct Local<'a> {
    bound: Bound<'a>,
    outer: Option<&'a Self>,
}

/// Names with their values. All names of one `$let` lie beside each other: it may have as many as
/// a message has room for, more than the stack has for one within the other.
enum Bound<'a> {
    One(&'a str, Value<'a>),
    Few(Vec<(&'a str, Value<'a>)>),
    Many(HashMap<&'a str, Value<'a>, RandomState>),
}

impl<'a> Local<'a> {
    /// One variable.
    pub(crate) fn one(name: &'a str, value: Value<'a>, outer: Option<&'a Self>) -> Self {
        let bound = Bound::One(name, value);
        Self { bound, outer }
    }

    /// Variables whose names differ.
    pub(crate) fn several(values: Vec<(&'a str, Value<'a>)>, outer: Option<&'a Self>) -> Self {
        let bound = if values.len() <= FEW {
            Bound::Few(values)
        } else {
            Bound::Many(values.into_iter().collect())
        };
        Self { bound, outer }
    }

    /// The value of the innermost variable of that name.
    pub(crate) fn find(&'a self, name: &str) -> Option<&'a Value<'a>> {
        let mut local = Some(self);
        while let Some(locals) = local {
            if let Some(value) = locals.bound.find(name) {
                return Some(value);
            }
            local = locals.outer;
        }
        None
    }
}

impl<'a> Bound<'a> {
    fn find(&self, name: &str) -> Option<&Value<'a>> {
        match self {
            Self::One(bound, value) => (*bound == name).then_some(value),
            Self::Few(values) => {
                let found = values.iter().find(|(bound, _)| *bound == name);
                found.map(|(_, value)| value)
            }
            Self::Many(values) => values.get(name),
        }
    }
}
