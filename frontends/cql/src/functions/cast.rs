//! CAST: values of one native type as those of another.

use std::borrow::Cow;

use super::number::{Number, is_number};
use super::time::timeuuid_millis;
use crate::error::{CqlError, Result};
use crate::types::{DataType, Native, native_text};

const MILLIS_PER_DAY: i64 = 86_400_000;
const DATE_EPOCH: i64 = 1 << 31;

/// Refuses casts that there are none of.
pub(crate) fn check_cast(from: &DataType, to: Native) -> Result<()> {
    use Native::{Ascii, Boolean, Counter, Date, Inet, Text, Time, Timestamp, Timeuuid, Uuid};
    let is_possible = match from {
        DataType::Native(from) if *from == to => true,
        DataType::Native(from) => match (*from, to) {
            (from, Ascii | Text) if is_number(from) => true,
            (from, to) if is_number(from) && is_number(to) => to != Counter,
            (Ascii | Boolean | Inet | Date | Time | Timestamp | Timeuuid | Uuid, Ascii | Text)
            | (Timeuuid, Timestamp | Date)
            | (Timestamp, Date)
            | (Date, Timestamp) => *from != Ascii || to == Text,
            _ => false,
        },
        _ => false,
    };
    if is_possible {
        return Ok(());
    }
    Err(CqlError::invalid(format!(
        "{from} cannot be cast to {}",
        to.name()
    )))
}

/// A value of one type as another; null if there is none that fits.
pub(crate) fn cast(from: Native, to: Native, value: Cow<'_, [u8]>) -> Result<Option<Vec<u8>>> {
    if from == to {
        return Ok(Some(value.into_owned()));
    }
    if value.is_empty() && from != Native::Ascii {
        return Ok(None);
    }
    let damaged = || CqlError::invalid("the value cannot be read");
    Ok(match (from, to) {
        (Native::Timestamp, Native::Ascii | Native::Text) => Some(native_text(from, &value).into()),
        (_, Native::Ascii | Native::Text) => Some(native_text(from, &value).into()),
        (Native::Timeuuid, Native::Timestamp | Native::Date) => {
            let id: [u8; 16] = value.as_ref().try_into().map_err(|_| damaged())?;
            Some(of_millis(timeuuid_millis(id), to))
        }
        (Native::Timestamp, Native::Date) => {
            let millis: [u8; 8] = value.as_ref().try_into().map_err(|_| damaged())?;
            Some(of_millis(i64::from_be_bytes(millis), to))
        }
        (Native::Date, Native::Timestamp) => {
            let day: [u8; 4] = value.as_ref().try_into().map_err(|_| damaged())?;
            let day = i64::from(u32::from_be_bytes(day)) - DATE_EPOCH;
            Some(of_millis(day * MILLIS_PER_DAY, to))
        }
        _ => {
            let number = Number::read(from, &value).ok_or_else(damaged)?;
            number.convert(to).map(|number| number.write())
        }
    })
}

fn of_millis(millis: i64, to: Native) -> Vec<u8> {
    if to == Native::Timestamp {
        return millis.to_be_bytes().to_vec();
    }
    let day = millis.div_euclid(MILLIS_PER_DAY).saturating_add(DATE_EPOCH);
    let day = u32::try_from(day).unwrap_or(if day < 0 { 0 } else { u32::MAX });
    day.to_be_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{parse_native, to_literal};

    #[test]
    fn values_are_cast() {
        for (from, text, to, expected) in [
            (Native::Int, "5", Native::Text, "'5'"),
            (Native::Double, "1.5", Native::Int, "1"),
            (Native::Int, "300", Native::Tinyint, "44"),
            (Native::Decimal, "1.50", Native::Text, "'1.50'"),
            (Native::Boolean, "true", Native::Ascii, "'true'"),
            (
                Native::Timestamp,
                "2015-05-21 11:03:02+00",
                Native::Date,
                "'2015-05-21'",
            ),
            (
                Native::Date,
                "2015-05-21",
                Native::Timestamp,
                "'2015-05-21T00:00:00.000Z'",
            ),
            (Native::Float, "5.25", Native::Decimal, "5.25"),
            (Native::Text, "a", Native::Text, "'a'"),
        ] {
            check_cast(&from.into(), to).unwrap();
            let value = parse_native(from, text).unwrap();
            let result = cast(from, to, value.into()).unwrap().unwrap();
            assert_eq!(to_literal(&to.into(), &result).unwrap(), expected);
        }
        for (from, to) in [
            (Native::Text, Native::Int),
            (Native::Boolean, Native::Int),
            (Native::Blob, Native::Text),
        ] {
            let error = check_cast(&from.into(), to).unwrap_err();
            let words = format!("{} cannot be cast to {}", from.name(), to.name());
            assert_eq!(error.message, words);
        }
    }
}
