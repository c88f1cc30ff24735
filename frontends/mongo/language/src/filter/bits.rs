//! `$bitsAllSet`, `$bitsAnySet`, `$bitsAllClear` and `$bitsAnyClear`.

use std::borrow::Cow;

use bson::spec::BinarySubtype;
use bson::{Binary, Bson};
use tessera_core::deadline;

use super::parse::{Operand, Parser};
use super::{Node, Test};
use crate::error::{Result, bad_value, failed_to_parse};
use crate::number::Number;

/// What must be so of the bits of a mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BitTest {
    /// `$bitsAllSet`
    AllSet,
    /// `$bitsAnySet`
    AnySet,
    /// `$bitsAllClear`
    AllClear,
    /// `$bitsAnyClear`
    AnyClear,
}

impl BitTest {
    /// The operator.
    pub fn name(self) -> &'static str {
        match self {
            Self::AllSet => "$bitsAllSet",
            Self::AnySet => "$bitsAnySet",
            Self::AllClear => "$bitsAllClear",
            Self::AnyClear => "$bitsAnyClear",
        }
    }

    fn named(name: &str) -> Option<Self> {
        [Self::AllSet, Self::AnySet, Self::AllClear, Self::AnyClear]
            .into_iter()
            .find(|test| test.name() == name)
    }

    fn holds(self, mut bits: impl Iterator<Item = bool>) -> bool {
        match self {
            Self::AllSet => bits.all(|set| set),
            Self::AnySet => bits.any(|set| set),
            Self::AllClear => bits.all(|set| !set),
            Self::AnyClear => bits.any(|set| !set),
        }
    }

    /// Whether it is so of this value: an integer of any type, or bytes, the lowest bits first.
    pub(super) fn matches(self, value: &Bson, mask: &Mask) -> bool {
        deadline::note(mask.positions.len() / 8);
        if let Bson::Binary(binary) = value {
            let bytes = stored_bytes(binary);
            return self.holds(
                mask.positions
                    .iter()
                    .map(|position| bit_of_bytes(&bytes, *position)),
            );
        }
        let Some(number) = Number::from_bson(value).and_then(|number| number.as_i64_exact()) else {
            return false;
        };
        // Beyond its 64 bits a number goes on with its sign.
        let bit = |position: &u32| number >> (*position).min(63) & 1 == 1;
        self.holds(mask.positions.iter().map(bit))
    }
}

/// The positions of the bits that are looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mask {
    positions: Vec<u32>,
}

impl Mask {
    fn parse(operator: &str, given: &Bson) -> Result<Self> {
        let positions = match given {
            Bson::Array(positions) => positions.iter().map(position).collect::<Result<_>>()?,
            Bson::Binary(binary) => {
                let bytes = stored_bytes(binary);
                let bits = u32::try_from(bytes.len().saturating_mul(8)).unwrap_or(u32::MAX);
                (0..bits)
                    .filter(|position| bit_of_bytes(&bytes, *position))
                    .collect()
            }
            given => {
                let Some(number) = Number::from_bson(given) else {
                    let message = format!(
                        "{operator} takes an Array, a number, or a BinData but received: {given}"
                    );
                    return Err(bad_value(message));
                };
                let mask = number
                    .as_i64_exact()
                    .filter(|mask| *mask >= 0)
                    .ok_or_else(|| {
                        failed_to_parse(format!("Expected a non-negative integer in: {given}"))
                    })?;
                (0..63)
                    .filter(|position| mask >> position & 1 == 1)
                    .collect()
            }
        };
        Ok(Self { positions })
    }

    /// The positions, counted from the lowest bit.
    pub fn positions(&self) -> &[u32] {
        &self.positions
    }
}

fn position(given: &Bson) -> Result<u32> {
    Number::from_bson(given)
        .and_then(|number| number.as_i64_exact())
        .and_then(|position| i32::try_from(position).ok())
        .and_then(|position| u32::try_from(position).ok())
        .ok_or_else(|| bad_value(format!("Failed to parse bit position. Got {given}")))
}

/// The bytes as they are stored: the old subtype repeats the length before them.
fn stored_bytes(binary: &Binary) -> Cow<'_, [u8]> {
    if binary.subtype != BinarySubtype::BinaryOld {
        return Cow::Borrowed(&binary.bytes);
    }
    let length = u32::try_from(binary.bytes.len()).unwrap_or(u32::MAX);
    let mut bytes = length.to_le_bytes().to_vec();
    bytes.extend_from_slice(&binary.bytes);
    Cow::Owned(bytes)
}

fn bit_of_bytes(bytes: &[u8], position: u32) -> bool {
    let byte = usize::try_from(position / 8)
        .ok()
        .and_then(|index| bytes.get(index));
    byte.is_some_and(|byte| byte >> (position % 8) & 1 == 1)
}

pub(super) fn parse(_: Parser<'_>, operand: &Operand<'_>) -> Result<Option<Node>> {
    let name = operand.name;
    let test =
        BitTest::named(name).ok_or_else(|| bad_value(format!("unknown operator: {name}")))?;
    let mask = Mask::parse(name, operand.value)?;
    Ok(Some(Node::field(operand.path, Test::Bits { test, mask })))
}

#[cfg(test)]
mod tests {
    use bson::spec::BinarySubtype;
    use bson::{Binary, Bson, doc};

    use super::super::testing::{check, refuse};

    fn binary(bytes: &[u8], subtype: BinarySubtype) -> Bson {
        Bson::Binary(Binary {
            subtype,
            bytes: bytes.to_vec(),
        })
    }

    #[test]
    fn tests_bits_of_numbers_and_bytes() {
        let generic = BinarySubtype::Generic;
        check([
            (doc! {"a": {"$bitsAllSet": 35}}, doc! {"a": 255}, true),
            (doc! {"a": {"$bitsAllSet": 35}}, doc! {"a": 34}, false),
            (doc! {"a": {"$bitsAllSet": [1, 5]}}, doc! {"a": 54.0}, true),
            (doc! {"a": {"$bitsAllSet": [200]}}, doc! {"a": -5}, true),
            (doc! {"a": {"$bitsAllSet": [200]}}, doc! {"a": 5}, false),
            (doc! {"a": {"$bitsAllSet": []}}, doc! {"a": 0}, true),
            (doc! {"a": {"$bitsAnySet": []}}, doc! {"a": 255}, false),
            (doc! {"a": {"$bitsAnySet": [0, 7]}}, doc! {"a": 128}, true),
            (doc! {"a": {"$bitsAllClear": [0, 2]}}, doc! {"a": 2}, true),
            (doc! {"a": {"$bitsAnyClear": 3}}, doc! {"a": 1}, true),
            (doc! {"a": {"$bitsAnyClear": 3}}, doc! {"a": 3}, false),
            (
                doc! {"a": {"$bitsAnySet": binary(&[0, 0x20], generic)}},
                doc! {"a": 8192},
                true,
            ),
            (
                doc! {"a": {"$bitsAllSet": [9]}},
                doc! {"a": binary(&[0, 2], generic)},
                true,
            ),
            (
                doc! {"a": {"$bitsAllClear": [99]}},
                doc! {"a": binary(&[255], generic)},
                true,
            ),
            // The old subtype is stored with its length in front.
            (
                doc! {"a": {"$bitsAllSet": 1}},
                doc! {"a": binary(&[6], BinarySubtype::BinaryOld)},
                true,
            ),
            (doc! {"a": {"$bitsAllSet": 1}}, doc! {"a": [2, 1]}, true),
        ]);
    }

    #[test]
    fn passes_over_what_has_no_bits() {
        let none = [
            Bson::String("1".into()),
            Bson::Boolean(true),
            Bson::Null,
            Bson::Double(1.5),
            Bson::Double(f64::NAN),
            Bson::Double(1e30),
        ];
        for value in none {
            for operator in [
                "$bitsAllSet",
                "$bitsAllClear",
                "$bitsAnySet",
                "$bitsAnyClear",
            ] {
                check([(doc! {"a": {operator: 1}}, doc! {"a": value.clone()}, false)]);
            }
        }
    }

    #[test]
    fn refuses_bad_masks() {
        for (mask, code) in [
            (Bson::Int32(-1), 9),
            (Bson::Double(1.5), 9),
            (Bson::Double(9.3e18), 9),
            (Bson::Double(f64::NAN), 9),
            (Bson::String("x".into()), 2),
            (Bson::Boolean(true), 2),
            (Bson::Null, 2),
            (Bson::Array(vec![Bson::Int32(-1)]), 2),
            (Bson::Array(vec![Bson::Double(1.5)]), 2),
            (Bson::Array(vec![Bson::Int64(1 << 31)]), 2),
            (Bson::Array(vec![Bson::Null]), 2),
        ] {
            refuse([(doc! {"a": {"$bitsAllSet": mask}}, code)]);
        }
    }
}
