//! Arithmetic, signs and casts.

use super::expression::{Expression, Typed};
use super::typing::{Planner, Receiver};
use crate::error::{CqlError, Result};
use crate::functions::{check_cast, constant_fits, is_number, operation_types};
use crate::statement::{Arithmetic, ConstantKind, Selector};
use crate::types::{DataType, Native};

impl Planner<'_> {
    pub(super) fn cast(&mut self, inner: &Selector, native: Native) -> Result<Typed> {
        if matches!(inner, Selector::Marker(_)) {
            let mut name = native.name().to_owned();
            name.get_mut(..1).map(str::make_ascii_uppercase);
            return Err(CqlError::invalid(format!(
                "Ambiguous call to function system.castAs{name}: use type casts to disambiguate"
            )));
        }
        let inner = self.typed(inner, None)?;
        check_cast(&inner.data_type, native)?;
        let DataType::Native(from) = inner.data_type else {
            return Ok(inner);
        };
        if from == native {
            return Ok(inner);
        }
        let expression = Expression::Cast(Box::new(inner.expression), from, native);
        Ok(Typed::new(expression, native))
    }

    pub(super) fn negation(
        &mut self,
        inner: &Selector,
        want: Option<Receiver<'_>>,
    ) -> Result<Typed> {
        let inner_want = want.filter(|_| matches!(inner, Selector::Marker(_)));
        let inner = self.typed(inner, inner_want)?;
        match inner.data_type {
            DataType::Native(native) if is_number(native) || native == Native::Duration => {
                let expression = Expression::Negation(Box::new(inner.expression), native);
                Ok(Typed::new(expression, native))
            }
            other => Err(CqlError::invalid(format!(
                "the '-' operation is not supported on {other}"
            ))),
        }
    }

    pub(super) fn operation(
        &mut self,
        operator: Arithmetic,
        left: &Selector,
        right: &Selector,
        want: Option<Receiver<'_>>,
    ) -> Result<Typed> {
        let sides = (left, right);
        let is_open = |side: &Selector| matches!(side, Selector::Marker(_) | Selector::Null);
        // A marker is what the other side is, or what is wanted.
        let (left, right) = match (is_open(left), is_open(right)) {
            (false, false) => {
                let (left_want, right_want) = constants_want(sides, want);
                (self.typed(left, left_want)?, self.typed(right, right_want)?)
            }
            (true, true) => (self.typed(left, want)?, self.typed(right, want)?),
            (true, false) => {
                let known = self.typed(right, None)?;
                let open = open_type((left, right), operator, &known.data_type, want)?;
                let (name, data_type) = ("arg0(_)", &open);
                (self.typed(left, Some(Receiver { name, data_type }))?, known)
            }
            (false, true) => {
                let known = self.typed(left, None)?;
                let open = open_type((left, right), operator, &known.data_type, want)?;
                let (name, data_type) = ("arg1(_)", &open);
                let right = self.typed(right, Some(Receiver { name, data_type }))?;
                (known, right)
            }
        };
        let types = operation_types(operator, &left.data_type, &right.data_type);
        let Some((left_type, right_type, result)) = types else {
            return Err(CqlError::invalid(format!(
                "the '{}' operation is not supported between {} and {}",
                operator.symbol(),
                sides.0,
                sides.1
            )));
        };
        let (DataType::Native(left_native), DataType::Native(right_native)) =
            (left_type, right_type)
        else {
            return Ok(left);
        };
        let left = Box::new((left.expression, left_native));
        let right = Box::new((right.expression, right_native));
        Ok(Typed::new(
            Expression::Operation(operator, left, right),
            result,
        ))
    }
}

/// What the constants of an operation are for: a number of the type that is wanted, if both are
/// such, or the time to which a duration is added.
fn constants_want<'w>(
    sides: (&Selector, &Selector),
    want: Option<Receiver<'w>>,
) -> (Option<Receiver<'w>>, Option<Receiver<'w>>) {
    let native = want.and_then(|want| match want.data_type {
        DataType::Native(native) => Some(*native),
        _ => None,
    });
    let (Selector::Constant(left), Selector::Constant(right), Some(native)) =
        (sides.0, sides.1, native)
    else {
        return (None, None);
    };
    let is_time = matches!(native, Native::Timestamp | Native::Date);
    if is_time && right.kind == ConstantKind::Duration {
        return (want, None);
    }
    let fits = |kind| is_number(native) && constant_fits(kind, native);
    match fits(left.kind) && fits(right.kind) {
        true => (want, want),
        false => (None, None),
    }
}

/// The type of a marker in an operation, where the other side is of this type.
fn open_type(
    (left, right): (&Selector, &Selector),
    operator: Arithmetic,
    known: &DataType,
    want: Option<Receiver<'_>>,
) -> Result<DataType> {
    use Native::{Date, Duration, Timestamp, Tinyint};
    let wanted = want.map(|want| want.data_type);
    let is_constant = |side: &Selector| matches!(side, Selector::Constant(_));
    match (known, wanted) {
        // Of times only durations are taken.
        (DataType::Native(Timestamp | Date), _) => Ok(Duration.into()),
        (DataType::Native(Duration), Some(time)) => Ok(time.clone()),
        // A constant may be many types, and only one sum of them is so short.
        (_, Some(DataType::Native(Tinyint))) => Ok(Tinyint.into()),
        _ if is_constant(left) || is_constant(right) => Err(CqlError::invalid(format!(
            "Ambiguous '{}' operation with args {} and {}: use type hint to disambiguate, example \
             '(int) ?'",
            operator.symbol(),
            left,
            right
        ))),
        _ => Ok(known.clone()),
    }
}
