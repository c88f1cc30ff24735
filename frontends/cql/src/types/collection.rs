//! Values made of values: how lists, sets, maps, tuples and vectors are put together and apart.

use tessera_core::deadline;

use super::{DataType, vint};
use crate::error::{CqlError, Result};

/// How many elements are found in a step.
const ELEMENTS_IN_STEP: usize = 16;

/// Appends one element: its length and its bytes, or null.
pub(crate) fn put_element(out: &mut Vec<u8>, element: Option<&[u8]>) {
    match element {
        None => out.extend_from_slice(&(-1i32).to_be_bytes()),
        Some(bytes) => {
            let length = i32::try_from(bytes.len()).unwrap_or(i32::MAX);
            out.extend_from_slice(&length.to_be_bytes());
            out.extend_from_slice(bytes);
        }
    }
}

/// A list or a set of these elements, which a set wants sorted.
pub(crate) fn serialize_list<T: AsRef<[u8]>>(elements: &[T]) -> Vec<u8> {
    let mut out = i32::try_from(elements.len())
        .unwrap_or(i32::MAX)
        .to_be_bytes()
        .to_vec();
    for element in elements {
        put_element(&mut out, Some(element.as_ref()));
    }
    out
}

/// A map of these entries, sorted by key.
pub(crate) fn serialize_map<K: AsRef<[u8]>, V: AsRef<[u8]>>(entries: &[(K, V)]) -> Vec<u8> {
    let mut out = i32::try_from(entries.len())
        .unwrap_or(i32::MAX)
        .to_be_bytes()
        .to_vec();
    for (key, value) in entries {
        put_element(&mut out, Some(key.as_ref()));
        put_element(&mut out, Some(value.as_ref()));
    }
    out
}

/// A tuple or a user type of these components.
pub(crate) fn serialize_tuple<T: AsRef<[u8]>>(components: &[Option<T>]) -> Vec<u8> {
    let mut out = Vec::new();
    for component in components {
        put_element(&mut out, component.as_ref().map(AsRef::as_ref));
    }
    out
}

/// A vector of these elements, which are of this type.
pub(crate) fn serialize_vector<T: AsRef<[u8]>>(element: &DataType, elements: &[T]) -> Vec<u8> {
    let mut out = Vec::new();
    for bytes in elements {
        let bytes = bytes.as_ref();
        if element.fixed_length().is_none() {
            vint::put_unsigned(&mut out, bytes.len() as u64);
        }
        out.extend_from_slice(bytes);
    }
    out
}

/// The elements of a list or a set. `what` is the name of the type in messages.
pub(crate) fn list_elements<'a>(bytes: &'a [u8], what: &str) -> Result<Vec<&'a [u8]>> {
    let mut input = bytes;
    let short = || CqlError::invalid(format!("Not enough bytes to read a {what}"));
    let count = take_count(&mut input, 4).ok_or_else(short)?;
    deadline::note(count / ELEMENTS_IN_STEP);
    let mut elements = Vec::with_capacity(count);
    for _ in 0..count {
        elements.push(
            take_element(&mut input)
                .ok_or_else(short)?
                .ok_or_else(null_read)?,
        );
    }
    nothing_left(input, what)?;
    Ok(elements)
}

/// The entries of a map.
pub(crate) fn map_entries(bytes: &[u8]) -> Result<Vec<(&[u8], &[u8])>> {
    let mut input = bytes;
    let short = || CqlError::invalid("Not enough bytes to read a map");
    let count = take_count(&mut input, 8).ok_or_else(short)?;
    deadline::note(count / ELEMENTS_IN_STEP);
    let mut entries = Vec::with_capacity(count);
    for _ in 0..count {
        let key = take_element(&mut input)
            .ok_or_else(short)?
            .ok_or_else(null_read)?;
        let value = take_element(&mut input)
            .ok_or_else(short)?
            .ok_or_else(null_read)?;
        entries.push((key, value));
    }
    nothing_left(input, "map")?;
    Ok(entries)
}

/// The components of a tuple or a user type. There may be fewer than the type has.
pub(crate) fn tuple_components<'a>(
    bytes: &'a [u8],
    data_type: &DataType,
) -> Result<Vec<Option<&'a [u8]>>> {
    let expected = data_type.inner().len();
    let mut input = bytes;
    let mut components = Vec::with_capacity(expected);
    while !input.is_empty() && components.len() < expected {
        let index = components.len();
        components.push(take_element(&mut input).ok_or_else(|| {
            CqlError::invalid(format!("Not enough bytes to read {index}th component"))
        })?);
    }
    if input.is_empty() {
        return Ok(components);
    }
    let values = if expected == 1 { "value" } else { "values" };
    Err(CqlError::invalid(format!(
        "Expected {expected} {values} for {data_type} column, but got more"
    )))
}

/// The elements of a vector, whose type this is.
pub(crate) fn vector_elements<'a>(bytes: &'a [u8], data_type: &DataType) -> Result<Vec<&'a [u8]>> {
    let DataType::Vector { element, dimension } = data_type else {
        return Ok(Vec::new());
    };
    if bytes.is_empty() {
        return Err(CqlError::invalid("Invalid empty vector value"));
    }
    let mut input = bytes;
    let mut elements = Vec::new();
    for _ in 0..*dimension {
        let length = match element.fixed_length() {
            Some(length) => Some(length),
            None => vint::take_unsigned(&mut input).and_then(|length| length.try_into().ok()),
        };
        let parts = length.and_then(|length| input.split_at_checked(length));
        let (taken, rest) = parts
            .ok_or_else(|| CqlError::invalid(format!("Not enough bytes to read a {data_type}")))?;
        elements.push(taken);
        input = rest;
    }
    match input.len() {
        0 => Ok(elements),
        left => Err(CqlError::invalid(format!(
            "Unexpected {left} extraneous bytes after {data_type} value"
        ))),
    }
}

/// A count of elements of which each takes at least so many bytes.
fn take_count(input: &mut &[u8], smallest: usize) -> Option<usize> {
    let (count, rest) = input.split_first_chunk()?;
    let count = usize::try_from(i32::from_be_bytes(*count)).ok()?;
    *input = rest;
    (count.checked_mul(smallest)? <= rest.len()).then_some(count)
}

/// The next element; none if there is not enough left. Inside: null, or its bytes.
fn take_element<'a>(input: &mut &'a [u8]) -> Option<Option<&'a [u8]>> {
    let (length, rest) = input.split_first_chunk()?;
    let Ok(length) = usize::try_from(i32::from_be_bytes(*length)) else {
        *input = rest;
        return Some(None);
    };
    let (element, rest) = rest.split_at_checked(length)?;
    *input = rest;
    Some(Some(element))
}

fn null_read() -> CqlError {
    CqlError::invalid("Null value read when not allowed")
}

fn nothing_left(input: &[u8], what: &str) -> Result<()> {
    if input.is_empty() {
        return Ok(());
    }
    Err(CqlError::invalid(format!(
        "Unexpected extraneous bytes after {what} value"
    )))
}
