//! `+ - * / %`: between numbers, between texts, and of times with durations.

use super::number::{Number, result_type};
use super::time::add_duration;
use crate::error::{CqlError, ErrorKind, Result};
use crate::statement::Arithmetic;
use crate::types::{DataType, Duration, Native};

/// The types in which both sides are taken, and that of the result; none if they do not fit.
pub(crate) fn operation_types(
    operator: Arithmetic,
    left: &DataType,
    right: &DataType,
) -> Option<(DataType, DataType, DataType)> {
    let (DataType::Native(left_native), DataType::Native(right_native)) = (left, right) else {
        return None;
    };
    let is_sum = matches!(operator, Arithmetic::Add | Arithmetic::Subtract);
    match (left_native, right_native) {
        (Native::Timestamp | Native::Date, Native::Duration) if is_sum => {
            Some((left.clone(), right.clone(), left.clone()))
        }
        (Native::Text | Native::Ascii, Native::Text | Native::Ascii)
            if operator == Arithmetic::Add =>
        {
            let result = if left_native == right_native {
                left.clone()
            } else {
                Native::Text.into()
            };
            Some((left.clone(), right.clone(), result))
        }
        _ => {
            let result = result_type(*left_native, *right_native)?;
            Some((left.clone(), right.clone(), result.into()))
        }
    }
}

/// One side of an operation: its type and its value.
type Side<'a> = (Native, &'a [u8]);

/// The result of an operator, of two values that are not null.
pub(crate) fn operate(
    operator: Arithmetic,
    left: Side<'_>,
    right: Side<'_>,
) -> Result<Option<Vec<u8>>> {
    computed(operator, left, right).map_err(|error| {
        let (left, right) = (left.0.name(), right.0.name());
        let kind = ErrorKind::FunctionFailure {
            keyspace: "system".to_owned(),
            function: operator.symbol().to_string(),
            argument_types: vec![left.to_owned(), right.to_owned()],
        };
        let (symbol, why) = (operator.symbol(), error.message);
        CqlError::new(
            kind,
            format!("the operation '{left} {symbol} {right}' failed: {why}"),
        )
    })
}

fn computed(operator: Arithmetic, left: Side<'_>, right: Side<'_>) -> Result<Option<Vec<u8>>> {
    let ((left_type, left), (right_type, right)) = (left, right);
    if matches!(left_type, Native::Text | Native::Ascii) {
        return Ok(Some([left, right].concat()));
    }
    if left.is_empty() || right.is_empty() {
        return Ok(None);
    }
    if right_type == Native::Duration {
        let duration = Duration::decode(right)?;
        let sign = if operator == Arithmetic::Subtract {
            -1
        } else {
            1
        };
        return add_duration(left_type, left, duration, sign).map(Some);
    }
    let result = result_type(left_type, right_type);
    let side = |native, bytes| {
        let number = Number::read(native, bytes)?;
        // What is no number cannot become a decimal, and says so when it is counted with.
        Some(number.convert(result?).unwrap_or(number))
    };
    match (side(left_type, left), side(right_type, right)) {
        (Some(left), Some(right)) => Ok(Some(left.operate(operator, &right)?.write())),
        _ => Ok(None),
    }
}

/// The negative of a number or a duration.
pub(crate) fn negate(native: Native, value: &[u8]) -> Result<Option<Vec<u8>>> {
    if native == Native::Duration {
        let Duration {
            months,
            days,
            nanoseconds,
        } = Duration::decode(value)?;
        let negative = Duration {
            months: months.wrapping_neg(),
            days: days.wrapping_neg(),
            nanoseconds: nanoseconds.wrapping_neg(),
        };
        return Ok(Some(negative.encode()));
    }
    Ok(Number::read(native, value).map(|number| number.negate().write()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{parse_native, to_literal};

    fn result(operator: Arithmetic, left: (Native, &str), right: (Native, &str)) -> String {
        let types = operation_types(operator, &left.0.into(), &right.0.into());
        let Some((_, _, data_type)) = types else {
            return "unsupported".to_owned();
        };
        let bytes = |(native, text)| parse_native(native, text).unwrap();
        let (left_bytes, right_bytes) = (bytes(left), bytes(right));
        match operate(operator, (left.0, &left_bytes), (right.0, &right_bytes)) {
            Ok(Some(value)) => to_literal(&data_type, &value).unwrap(),
            Ok(None) => "null".to_owned(),
            Err(error) => error.message,
        }
    }

    #[test]
    fn operators_take_what_fits_together() {
        use Arithmetic::{Add, Divide, Multiply, Subtract};
        for (operator, left, right, expected) in [
            (Add, (Native::Tinyint, "1"), (Native::Int, "2"), "3"),
            (Divide, (Native::Int, "3"), (Native::Float, "2"), "1.5"),
            (Add, (Native::Text, "a"), (Native::Ascii, "b"), "'ab'"),
            (Add, (Native::Int, ""), (Native::Int, "1"), "null"),
            (
                Subtract,
                (Native::Date, "2024-03-31"),
                (Native::Duration, "1mo"),
                "'2024-02-29'",
            ),
            (
                Add,
                (Native::Timestamp, "2024-01-01T00:00:00Z"),
                (Native::Duration, "1d2h"),
                "'2024-01-02T02:00:00.000Z'",
            ),
            (
                Divide,
                (Native::Int, "1"),
                (Native::Int, "0"),
                "the operation 'int / int' failed: / by zero",
            ),
            (
                Multiply,
                (Native::Text, "a"),
                (Native::Int, "1"),
                "unsupported",
            ),
            (
                Add,
                (Native::Decimal, "1"),
                (Native::Double, "NaN"),
                "the operation 'decimal + double' failed: A NaN cannot be converted into a decimal",
            ),
        ] {
            assert_eq!(result(operator, left, right), expected);
        }
        let minus = negate(Native::Int, &5i32.to_be_bytes()).unwrap();
        assert_eq!(minus, Some((-5i32).to_be_bytes().to_vec()));
    }
}
