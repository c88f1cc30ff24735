//! `$inc`, `$mul`, `$min`, `$max` and `$bit`.

use std::{cmp::Ordering, sync::Arc};

use bson::Bson;

use super::modifier::{Change, Modifier};
use crate::{
    collation::Collation,
    compare::{compare, identical, type_name},
    error::{Result, bad_value, type_mismatch},
    expression::variables::Context,
    number::Number,
};

pub(super) fn increment(operand: &Bson, _: &Context) -> Result<Arc<dyn Modifier>> {
    let by = numeric(operand, "increment")?;
    Ok(Arc::new(Arithmetic {
        name: "$inc",
        by,
        of_nothing: by,
        operation: Number::checked_add,
    }))
}

pub(super) fn multiply(operand: &Bson, _: &Context) -> Result<Arc<dyn Modifier>> {
    let by = numeric(operand, "multiply")?;
    Ok(Arc::new(Arithmetic {
        name: "$mul",
        by,
        // Zero, in the type of the operand.
        of_nothing: by.multiply(Number::Int32(0)),
        operation: Number::checked_multiply,
    }))
}

fn numeric(operand: &Bson, verb: &str) -> Result<Number> {
    Number::from_bson(operand).ok_or_else(|| {
        type_mismatch(format!(
            "Cannot {verb} with non-numeric argument: {operand}"
        ))
    })
}

#[derive(Debug)]
struct Arithmetic {
    name: &'static str,
    by: Number,
    of_nothing: Number,
    operation: fn(Number, Number) -> Option<Number>,
}

impl Modifier for Arithmetic {
    fn change(&self, value: &mut Bson, path: &str) -> Result<Change> {
        let name = self.name;
        let current = Number::from_bson(value).ok_or_else(|| {
            type_mismatch(format!(
                "Cannot apply {name} to a value of non-numeric type: the field '{path}' is of \
                 non-numeric type {}",
                type_name(value)
            ))
        })?;
        let result = (self.operation)(current, self.by).ok_or_else(|| {
            bad_value(format!(
                "Failed to apply {name} operations to current value ({value}) of '{path}'"
            ))
        })?;
        Ok(replace(value, result.into_bson()))
    }

    fn create(&self) -> Result<Option<Bson>> {
        Ok(Some(self.of_nothing.into_bson()))
    }
}

/// Puts a value there unless it is the same.
fn replace(value: &mut Bson, new: Bson) -> Change {
    if identical(value, &new) {
        return Change::None;
    }
    *value = new;
    Change::Changed
}

pub(super) fn minimum(operand: &Bson, context: &Context) -> Result<Arc<dyn Modifier>> {
    Ok(bound(operand, context, Ordering::Less))
}

pub(super) fn maximum(operand: &Bson, context: &Context) -> Result<Arc<dyn Modifier>> {
    Ok(bound(operand, context, Ordering::Greater))
}

fn bound(operand: &Bson, context: &Context, replaces: Ordering) -> Arc<dyn Modifier> {
    Arc::new(Bound {
        value: operand.clone(),
        replaces,
        collation: context.collation.clone(),
    })
}

/// Replaces values that it is below, or above.
#[derive(Debug)]
struct Bound {
    value: Bson,
    replaces: Ordering,
    collation: Collation,
}

impl Modifier for Bound {
    fn change(&self, value: &mut Bson, _: &str) -> Result<Change> {
        if compare(&self.value, value, &self.collation) != self.replaces {
            return Ok(Change::None);
        }
        value.clone_from(&self.value);
        Ok(Change::Changed)
    }

    fn create(&self) -> Result<Option<Bson>> {
        Ok(Some(self.value.clone()))
    }
}

pub(super) fn bit(operand: &Bson, _: &Context) -> Result<Arc<dyn Modifier>> {
    let Bson::Document(operations) = operand else {
        return Err(bad_value(format!(
            "The $bit modifier is not compatible with a {}. You must pass in an embedded document: \
             {{$bit: {{field: {{and/or/xor: #}}}}}}",
            type_name(operand)
        )));
    };
    if operations.is_empty() {
        return Err(bad_value(
            "You must pass in at least one bitwise operation. The format is: \
             {$bit: {field: {and/or/xor: #}}}",
        ));
    }
    let steps = operations.iter().map(|(name, value)| bit_step(name, value));
    Ok(Arc::new(Bits {
        steps: steps.collect::<Result<_>>()?,
    }))
}

fn bit_step(name: &str, value: &Bson) -> Result<(BitOperation, Number)> {
    let operation: BitOperation = match name {
        "and" => |a, b| a & b,
        "or" => |a, b| a | b,
        "xor" => |a, b| a ^ b,
        _ => {
            return Err(bad_value(format!(
                "The $bit modifier only supports 'and', 'or', and 'xor', not '{name}'"
            )));
        }
    };
    let operand = integer(value).ok_or_else(|| {
        bad_value(format!(
            "The $bit modifier field must be an Integer(32/64 bit); a '{}' is not supported here",
            type_name(value)
        ))
    })?;
    Ok((operation, operand))
}

type BitOperation = fn(i64, i64) -> i64;

/// Operations in the order in which they were given.
#[derive(Debug)]
struct Bits {
    steps: Vec<(BitOperation, Number)>,
}

impl Bits {
    fn of(&self, start: Number) -> Bson {
        let result = self.steps.iter().fold(start, |value, (operation, operand)| {
            let result = operation(value.to_i64_saturating(), operand.to_i64_saturating());
            match (value, operand, i32::try_from(result)) {
                (Number::Int32(_), Number::Int32(_), Ok(result)) => Number::Int32(result),
                _ => Number::Int64(result),
            }
        });
        result.into_bson()
    }
}

impl Modifier for Bits {
    fn change(&self, value: &mut Bson, path: &str) -> Result<Change> {
        let current = integer(value).ok_or_else(|| {
            bad_value(format!(
                "Cannot apply $bit to a value of non-integral type: the field '{path}' is of \
                 non-integer type {}",
                type_name(value)
            ))
        })?;
        Ok(replace(value, self.of(current)))
    }

    fn create(&self) -> Result<Option<Bson>> {
        Ok(Some(self.of(Number::Int32(0))))
    }
}

/// The number, if it is of one of the two integer types.
fn integer(value: &Bson) -> Option<Number> {
    Number::from_bson(value).filter(|number| matches!(number, Number::Int32(_) | Number::Int64(_)))
}

#[cfg(test)]
mod tests {
}
