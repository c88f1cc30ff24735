//! Functions of many rows: `count`, `min`, `max`, `sum`, `avg`.

use num_bigint::BigInt;

use super::number::{Number, divide, is_number};
use crate::error::{CqlError, Result};
use crate::statement::Arithmetic;
use crate::types::{DataType, Decimal, Native, compare};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Count,
    Min,
    Max,
    Sum,
    Average,
}

const NAMES: [(&str, Kind); 5] = [
    ("count", Kind::Count),
    ("min", Kind::Min),
    ("max", Kind::Max),
    ("sum", Kind::Sum),
    ("avg", Kind::Average),
];

/// An aggregate of values of one type.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Aggregate {
    kind: Kind,
    of: DataType,
    pub(crate) result: DataType,
}

/// What an aggregate has seen so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Accumulator {
    count: i64,
    value: Option<Vec<u8>>,
    sum: Option<Number>,
}

/// Whether this name is an aggregate's, and which one for values of this type.
pub(crate) fn resolve_aggregate(name: &str, of: &DataType) -> Option<Result<Aggregate>> {
    let (_, kind) = NAMES.iter().find(|(known, _)| *known == name)?;
    let is_numeric = matches!(of, DataType::Native(native) if is_number(*native));
    let result = match kind {
        Kind::Count => Native::Bigint.into(),
        Kind::Sum | Kind::Average if !is_numeric => {
            return Some(Err(CqlError::invalid(format!(
                "Invalid call to function {name}, none of its type signatures match (known type \
                 signatures: system.{name} : (numeric) -> numeric)"
            ))));
        }
        _ if of.is_counter() => Native::Bigint.into(),
        _ => of.clone(),
    };
    Some(Ok(Aggregate {
        kind: *kind,
        of: of.clone(),
        result,
    }))
}

/// Whether this name is an aggregate's.
pub(crate) fn is_aggregate(name: &str) -> bool {
    NAMES.iter().any(|(known, _)| *known == name)
}

impl Aggregate {
    /// Counts rows.
    pub(crate) fn count_rows() -> Self {
        Self {
            kind: Kind::Count,
            of: Native::Int.into(),
            result: Native::Bigint.into(),
        }
    }

    /// Takes one row's value; nulls do not count.
    pub(crate) fn add(&self, state: &mut Accumulator, value: Option<&[u8]>) -> Result<()> {
        let Some(value) = value else {
            return Ok(());
        };
        state.count += 1;
        match self.kind {
            Kind::Count => {}
            Kind::Min | Kind::Max => {
                let is_better = state.value.as_deref().is_none_or(|best| {
                    let order = compare(&self.of, value, best);
                    if self.kind == Kind::Min {
                        order.is_lt()
                    } else {
                        order.is_gt()
                    }
                });
                if is_better {
                    state.value = Some(value.to_vec());
                }
            }
            Kind::Sum | Kind::Average => {
                let DataType::Native(native) = self.of else {
                    return Ok(());
                };
                let Some(number) = Number::read(native, value) else {
                    state.count -= 1;
                    return Ok(());
                };
                let number = if self.kind == Kind::Sum {
                    number
                } else {
                    widen(native, &number)
                };
                state.sum = Some(match state.sum.take() {
                    None => number,
                    Some(sum) => sum.operate(Arithmetic::Add, &number)?,
                });
            }
        }
        Ok(())
    }

    pub(crate) fn finish(&self, state: &Accumulator) -> Result<Option<Vec<u8>>> {
        let DataType::Native(native) = self.of else {
            return Ok(match self.kind {
                Kind::Count => Some(state.count.to_be_bytes().to_vec()),
                _ => state.value.clone(),
            });
        };
        Ok(match self.kind {
            Kind::Count => Some(state.count.to_be_bytes().to_vec()),
            Kind::Min | Kind::Max => state.value.clone(),
            Kind::Sum => state
                .sum
                .clone()
                .or_else(|| zero(native))
                .map(|sum| sum.write()),
            Kind::Average => average(native, state)?.map(|mean| mean.write()),
        })
    }
}

fn zero(native: Native) -> Option<Number> {
    Number::Int(0).convert(native)
}

/// Means are computed without overflow: of integers exactly, of reals in double width.
fn widen(native: Native, number: &Number) -> Number {
    let wide = match native {
        Native::Float | Native::Double => Native::Double,
        Native::Decimal => Native::Decimal,
        _ => Native::Varint,
    };
    number.convert(wide).unwrap_or_else(|| number.clone())
}

fn average(native: Native, state: &Accumulator) -> Result<Option<Number>> {
    let Some(sum) = &state.sum else {
        return Ok(zero(native));
    };
    let count = Decimal {
        unscaled: BigInt::from(state.count),
        scale: 0,
    };
    let mean = match sum {
        Number::Decimal(sum) => Number::Decimal(divide(sum, &count, i64::from(sum.scale))?),
        sum => {
            let count = Number::Decimal(count).convert(match sum {
                Number::Double(_) => Native::Double,
                _ => Native::Varint,
            });
            match count {
                Some(count) => sum.operate(Arithmetic::Divide, &count)?,
                None => return Ok(None),
            }
        }
    };
    Ok(mean.convert(native))
}

/// The sum of these numbers of one type; zero of none.
pub(super) fn sum(native: Native, numbers: &[Number]) -> Result<Option<Number>> {
    let mut sum = zero(native);
    for number in numbers {
        sum = sum
            .map(|sum| sum.operate(Arithmetic::Add, number))
            .transpose()?;
    }
    Ok(sum)
}

/// The mean of these numbers of one type; zero of none.
pub(super) fn mean(native: Native, numbers: &[Number]) -> Result<Option<Number>> {
    let mut state = Accumulator::default();
    for number in numbers {
        let number = widen(native, number);
        state.count += 1;
        state.sum = Some(match state.sum.take() {
            None => number,
            Some(sum) => sum.operate(Arithmetic::Add, &number)?,
        });
    }
    average(native, &state)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{parse_native, to_literal};

    fn aggregated(name: &str, native: Native, values: &[&str]) -> String {
        let aggregate = match resolve_aggregate(name, &native.into()).unwrap() {
            Ok(aggregate) => aggregate,
            Err(error) => return error.message,
        };
        let mut state = Accumulator::default();
        for text in values {
            let value = (*text != "null").then(|| parse_native(native, text).unwrap());
            aggregate.add(&mut state, value.as_deref()).unwrap();
        }
        let result = aggregate.finish(&state).unwrap();
        result.map_or("null".to_owned(), |bytes| {
            to_literal(&aggregate.result, &bytes).unwrap()
        })
    }

    #[test]
    fn rows_are_aggregated_in_the_type_of_the_column() {
        for (name, native, values, expected) in [
            ("count", Native::Text, &["a", "null", "b"][..], "2"),
            ("min", Native::Text, &["b", "a", "null"], "'a'"),
            ("max", Native::Varint, &["3", "12", "-4"], "12"),
            ("max", Native::Int, &[], "null"),
            ("sum", Native::Int, &["1", "null", "2"], "3"),
            ("sum", Native::Tinyint, &["127", "1"], "-128"),
            ("sum", Native::Bigint, &[], "0"),
            ("avg", Native::Int, &["1", "2"], "1"),
            ("avg", Native::Tinyint, &["127", "127"], "127"),
            ("avg", Native::Double, &["1", "2"], "1.5"),
            ("avg", Native::Decimal, &["1.00", "2.01"], "1.51"),
            ("avg", Native::Int, &[], "0"),
        ] {
            assert_eq!(
                aggregated(name, native, values),
                expected,
                "{name} {values:?}"
            );
        }
        assert!(aggregated("sum", Native::Text, &[]).starts_with("Invalid call"));
        assert!(resolve_aggregate("abs", &Native::Int.into()).is_none());
    }
}
