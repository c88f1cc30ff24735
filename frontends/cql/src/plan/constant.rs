//! Constants: what a text stands for, in the type that is wanted or in its own.

use super::expression::{Expression, Typed};
use super::typing::Receiver;
use crate::error::{CqlError, Result};
use crate::functions::{constant_fits, constant_type};
use crate::statement::{Constant, ConstantKind};
use crate::types::{DataType, Native, parse_native};

pub(super) fn typed_constant(constant: &Constant, want: Receiver<'_>) -> Result<Expression> {
    let fits = match want.data_type {
        DataType::Native(native) => constant_fits(constant.kind, *native).then_some(*native),
        _ => None,
    };
    let Some(native) = fits else {
        let kind = match constant.kind {
            ConstantKind::String => "STRING",
            ConstantKind::Integer => "INTEGER",
            ConstantKind::Float => "FLOAT",
            ConstantKind::Boolean => "BOOLEAN",
            ConstantKind::Duration => "DURATION",
            ConstantKind::Uuid => "UUID",
            ConstantKind::Hex => "HEX",
        };
        return Err(CqlError::invalid(format!(
            "Invalid {kind} constant ({}) for \"{}\" of type {}",
            constant.text,
            want.name.trim_matches('"'),
            want.data_type
        )));
    };
    parse_constant(constant, native).map(Expression::Constant)
}

pub(super) fn untyped_constant(constant: &Constant) -> Result<Typed> {
    let native = constant_type(constant);
    let value = parse_constant(constant, native)?;
    Ok(Typed::new(Expression::Constant(value), native))
}

fn parse_constant(constant: &Constant, native: Native) -> Result<Vec<u8>> {
    let text = constant.text.as_str();
    let text = if constant.kind == ConstantKind::Hex {
        text.get(2..).unwrap_or_default()
    } else {
        text
    };
    parse_native(native, text)
}
