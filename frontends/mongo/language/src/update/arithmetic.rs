//! `$inc`, `$mul`, `$min`, `$max` and `$bit`.

use std::{cmp::Ordering, sync::Arc};

use bson::Bson;

use super::modifier::{At, Change, Modifier};
use crate::{
    collation::Collation,
    compare::{compare, type_name},
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
    fn change(&self, value: &mut Bson, place: At<'_>) -> Result<Change> {
        let name = self.name;
        let current = Number::from_bson(value).ok_or_else(|| {
            type_mismatch(format!(
                "Cannot apply {name} to a value of non-numeric type: the field '{place}' is of \
                 non-numeric type {}",
                type_name(value)
            ))
        })?;
        let result = (self.operation)(current, self.by).ok_or_else(|| {
            bad_value(format!(
                "Failed to apply {name} operations to current value ({value}) of '{place}'"
            ))
        })?;
        Ok(replace(value, current, result))
    }

    fn create(&self) -> Result<Option<Bson>> {
        Ok(Some(self.of_nothing.into_bson()))
    }
}

/// Puts a number in the place of another, unless it is the same in the same type. So −0 stays where
/// 0 is added to it.
fn replace(value: &mut Bson, old: Number, new: Number) -> Change {
    let same_type = std::mem::discriminant(&old) == std::mem::discriminant(&new);
    if same_type && !new.is_nan() && old.compare(new).is_eq() {
        return Change::None;
    }
    *value = new.into_bson();
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
    fn change(&self, value: &mut Bson, _: At<'_>) -> Result<Change> {
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
    fn of(&self, start: Number) -> Number {
        self.steps
            .iter()
            .fold(start, |value, (operation, operand)| {
                let result = operation(value.to_i64_saturating(), operand.to_i64_saturating());
                match (value, operand, i32::try_from(result)) {
                    (Number::Int32(_), Number::Int32(_), Ok(result)) => Number::Int32(result),
                    _ => Number::Int64(result),
                }
            })
    }
}

impl Modifier for Bits {
    fn change(&self, value: &mut Bson, place: At<'_>) -> Result<Change> {
        let current = integer(value).ok_or_else(|| {
            bad_value(format!(
                "Cannot apply $bit to a value of non-integral type: the field '{place}' is of \
                 non-integer type {}",
                type_name(value)
            ))
        })?;
        Ok(replace(value, current, self.of(current)))
    }

    fn create(&self) -> Result<Option<Bson>> {
        Ok(Some(self.of(Number::Int32(0)).into_bson()))
    }
}

/// The number, if it is of one of the two integer types.
fn integer(value: &Bson) -> Option<Number> {
    Number::from_bson(value).filter(|number| matches!(number, Number::Int32(_) | Number::Int64(_)))
}

#[cfg(test)]
mod tests {
    use bson::{Bson, bson};

    use crate::update::tests::{MISSING, check_field, refuse_field};

    fn decimal(text: &str) -> Bson {
        Bson::Decimal128(text.parse().unwrap())
    }

    #[test]
    fn results_keep_the_wider_type() {
        let large = 2_147_483_648_i64;
        let sums = [
            (bson!(1), bson!(2), bson!(3)),
            (bson!(1), bson!(2_i64), bson!(3_i64)),
            (bson!(1), bson!(0), bson!(1)),
            (bson!(1), bson!(0.0), bson!(1.0)),
            (bson!(-0.0), bson!(0.0), bson!(-0.0)),
            (decimal("-0"), bson!(0), decimal("-0")),
            (bson!(i32::MAX), bson!(1), bson!(large)),
            (bson!(1), decimal("0.5"), decimal("1.5")),
            (MISSING, bson!(5), bson!(5)),
        ];
        check_field("$inc", sums);
        let products = [
            (bson!(3), bson!(2), bson!(6)),
            (bson!(3), bson!(0.5), bson!(1.5)),
            (decimal("5.0"), decimal("1.00"), decimal("5.0")),
            (MISSING, bson!(5), bson!(0)),
            (MISSING, bson!(5_i64), bson!(0_i64)),
            (MISSING, bson!(5.0), bson!(0.0)),
            (MISSING, decimal("5.5"), decimal("0.0")),
        ];
        check_field("$mul", products);
        let no_sums = [
            (bson!(i64::MAX), bson!(1), 2),
            (bson!("x"), bson!(1), 14),
            (MISSING, bson!("x"), 14),
        ];
        refuse_field("$inc", no_sums);
        let no_products = [
            (bson!(i64::MIN), bson!(-1), 2),
            (Bson::Null, bson!(1), 14),
            (MISSING, bson!([1]), 14),
        ];
        refuse_field("$mul", no_products);
    }

    #[test]
    fn bounds_compare_across_types() {
        let lower = [
            (bson!(5), bson!(3), bson!(3)),
            (bson!(5), bson!(5.0), bson!(5)),
            (bson!(5), Bson::Null, Bson::Null),
        ];
        check_field("$min", lower);
        let upper = [
            (bson!(5), bson!(3), bson!(5)),
            (bson!(5), bson!("x"), bson!("x")),
            (bson!(5), bson!(f64::NAN), bson!(5)),
            (MISSING, Bson::Null, Bson::Null),
        ];
        check_field("$max", upper);
    }

    #[test]
    fn bits_are_those_of_integers() {
        let rows = [
            (bson!(13), bson!({ "and": 10 }), bson!(8)),
            (bson!(1), bson!({ "or": 4_i64 }), bson!(5_i64)),
            (bson!(-1), bson!({ "xor": 1 }), bson!(-2)),
            (bson!(1), bson!({ "or": 6, "and": 3 }), bson!(3)),
            (bson!(1), bson!({ "or": 1 }), bson!(1)),
            (MISSING, bson!({ "or": 3 }), bson!(3)),
        ];
        check_field("$bit", rows);
        let refused = [
            (MISSING, bson!(1), 2),
            (MISSING, bson!({}), 2),
            (MISSING, bson!({ "not": 1 }), 2),
            (MISSING, bson!({ "and": 1.0 }), 2),
            (bson!(1.0), bson!({ "and": 1 }), 2),
            (bson!([1]), bson!({ "and": 1 }), 2),
        ];
        refuse_field("$bit", refused);
    }
}
