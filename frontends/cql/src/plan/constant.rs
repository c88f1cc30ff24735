//! Constants: what a text stands for, in the type that is wanted or in its own.

use super::expression::{Expression, Typed};
use super::typing::Receiver;
use crate::error::{CqlError, Result};
use crate::functions::{constant_fits, constant_type};
use crate::statement::{Constant, ConstantKind};
use crate::types::{DataType, Native, parse_native, serialize_tuple};

pub(super) fn typed_constant(constant: &Constant, want: Receiver<'_>) -> Result<Expression> {
    let fits = match want.data_type {
        DataType::Native(native) => constant_fits(constant.kind, *native).then_some(*native),
        DataType::Tuple(types) if constant.kind == ConstantKind::String => {
            return tuple_of_text(&constant.text, types, want.data_type).map(Expression::Constant);
        }
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

/// A tuple of texts between colons, where `@` stands for null and a backslash before a colon or an
/// `@` for itself.
fn tuple_of_text(text: &str, types: &[DataType], data_type: &DataType) -> Result<Vec<u8>> {
    let mut parts = vec![(String::new(), false)];
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        let is_escape = character == '\\'
            && characters
                .peek()
                .is_some_and(|next| matches!(next, ':' | '@'));
        let next = if is_escape { characters.next() } else { None };
        match (next, character, parts.last_mut()) {
            (None, ':', _) => parts.push((String::new(), false)),
            (next, character, Some((part, has_escapes))) => {
                part.push(next.unwrap_or(character));
                *has_escapes |= is_escape;
            }
            (_, _, None) => {}
        }
    }
    if parts.len() > types.len() {
        return Err(CqlError::invalid(format!(
            "Invalid tuple literal: too many elements. Type {data_type} expects {} but got {}",
            types.len(),
            parts.len()
        )));
    }
    let values = parts.iter().zip(types).map(|((part, has_escapes), inner)| {
        if part == "@" && !has_escapes {
            return Ok(None);
        }
        match inner {
            DataType::Native(native) => parse_native(*native, part).map(Some),
            DataType::Tuple(types) => tuple_of_text(part, types, inner).map(Some),
            other => Err(CqlError::invalid(format!(
                "A text cannot be a value of type {other} in a tuple"
            ))),
        }
    });
    let values: Result<Vec<Option<Vec<u8>>>> = values.collect();
    Ok(serialize_tuple(&values?))
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
