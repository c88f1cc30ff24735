//! What an update operator does to one field.

use std::{fmt, sync::Arc};

use bson::Bson;

use super::{arithmetic, array, fields, push};
use crate::{
    error::{Result, failed_to_parse},
    expression::variables::Context,
};

/// What became of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// It is as it was.
    None,
    /// It is another.
    Changed,
    /// It is an array that has more elements, from this position on.
    Appended(usize),
    /// It is to be removed from what holds it.
    Removed,
}

/// Where a value lies. Put together only when it is shown, as it may be long.
#[derive(Clone, Copy, Debug)]
pub(super) struct At<'a>(pub(super) &'a [&'a str]);

impl fmt::Display for At<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (depth, name) in self.0.iter().enumerate() {
            if depth > 0 {
                formatter.write_str(".")?;
            }
            formatter.write_str(name)?;
        }
        Ok(())
    }
}

/// One operator with its operand, ready for use on any field.
pub(super) trait Modifier: fmt::Debug + Send + Sync {
    /// Changes a value that is there. `place` is for messages.
    fn change(&self, value: &mut Bson, place: At<'_>) -> Result<Change>;

    /// The value of a field that is not there; none if it stays so.
    fn create(&self) -> Result<Option<Bson>>;

    /// Whether it leaves documents alone that were there before the update.
    fn only_on_insert(&self) -> bool {
        false
    }

    /// Whether a path that leads through a scalar is an error, even if nothing is created there.
    fn needs_viable_path(&self) -> bool {
        true
    }
}

/// How an operator reads its operand for one field.
pub(super) type Parse = fn(&Bson, &Context) -> Result<Arc<dyn Modifier>>;

/// The operators but `$rename`, which concerns two fields.
const OPERATORS: &[(&str, Parse)] = &[
    ("$addToSet", array::add_to_set),
    ("$bit", arithmetic::bit),
    ("$currentDate", fields::current_date),
    ("$inc", arithmetic::increment),
    ("$max", arithmetic::maximum),
    ("$min", arithmetic::minimum),
    ("$mul", arithmetic::multiply),
    ("$pop", array::pop),
    ("$pull", array::pull),
    ("$pullAll", array::pull_all),
    ("$push", push::push),
    ("$set", fields::set),
    ("$setOnInsert", fields::set_on_insert),
    ("$unset", fields::unset),
];

/// The operator of that name.
pub(super) fn named(name: &str) -> Result<Parse> {
    OPERATORS
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, parse)| *parse)
        .ok_or_else(|| {
            failed_to_parse(format!(
                "Unknown modifier: {name}. Expected a valid update modifier or pipeline-style \
                 update specified as an array"
            ))
        })
}
