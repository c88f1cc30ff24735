//! What expressions give: values of markers, of columns, and what is computed of them.

use std::borrow::Cow;

use tessera_core::clock::Clock;
use tessera_core::deadline;
use tessera_core::hash::murmur3;

use super::keys::partition_key;
use super::line::Line;
use crate::error::{CqlError, Result};
use crate::functions::{cast, from_json, negate, operate};
use crate::plan::{Expression, Typed};
use crate::schema::Table;
use crate::types::{
    DataType, compare, list_elements, map_entries, serialize_list, serialize_map, serialize_tuple,
    serialize_vector, tuple_components, validate,
};
use crate::wire::{ColumnSpec, Value};

/// How many bytes of a value are gone through in a step.
const BYTES_IN_STEP: usize = 16;

/// The value of a marker, checked.
#[derive(Clone, Debug)]
pub(super) enum Given<'a> {
    Null,
    Unset,
    Bytes(Cow<'a, [u8]>),
}

/// What a value is, if it is one.
pub(super) type Evaluated<'a> = Option<Cow<'a, [u8]>>;

/// Where expressions find what they are about.
pub(super) struct Scope<'a> {
    pub(super) table: &'a Table,
    pub(super) given: &'a [Given<'a>],
    pub(super) clock: &'a Clock,
    /// The second at which times to live are judged.
    pub(super) now: i64,
    pub(super) line: Option<&'a Line<'a>>,
    pub(super) aggregates: &'a [Option<Vec<u8>>],
}

/// Checks the values that came with a request. Sets and maps are put in order.
pub(super) fn bind<'a>(
    variables: &[ColumnSpec],
    values: &'a [Value<'a>],
) -> Result<Vec<Given<'a>>> {
    if variables.len() != values.len() {
        return Err(CqlError::invalid(format!(
            "there were {} markers(?) in CQL but {} bound variables",
            variables.len(),
            values.len()
        )));
    }
    let given = |(variable, value): (&ColumnSpec, &'a Value<'a>)| {
        Ok(match value {
            Value::Null => Given::Null,
            Value::Unset => Given::Unset,
            Value::Bytes(bytes) => {
                deadline::step(bytes.len() / BYTES_IN_STEP)?;
                validate(&variable.data_type, bytes)?;
                Given::Bytes(in_order(&variable.data_type, bytes)?)
            }
        })
    };
    variables.iter().zip(values).map(given).collect()
}

/// The value with all its sets and maps sorted.
fn in_order<'a>(data_type: &DataType, bytes: &'a [u8]) -> Result<Cow<'a, [u8]>> {
    let is_unordered =
        |inner: &DataType| matches!(inner, DataType::Set { .. } | DataType::Map { .. });
    if !data_type.any(&is_unordered) {
        return Ok(Cow::Borrowed(bytes));
    }
    Ok(Cow::Owned(match data_type {
        DataType::List { element, .. } => {
            serialize_list(&all_in_order(element, list_elements(bytes, "list")?)?)
        }
        DataType::Set { element, .. } => {
            let mut elements = all_in_order(element, list_elements(bytes, "set")?)?;
            deadline::sort_by(&mut elements, |left, right| compare(element, left, right))?;
            elements.dedup_by(|left, right| compare(element, left, right).is_eq());
            serialize_list(&elements)
        }
        DataType::Map { key, value, .. } => {
            let mut entries = Vec::new();
            for (key_bytes, value_bytes) in map_entries(bytes)? {
                entries.push((in_order(key, key_bytes)?, in_order(value, value_bytes)?));
            }
            deadline::sort_by(&mut entries, |(left, _), (right, _)| {
                compare(key, left, right)
            })?;
            entries.dedup_by(|(left, _), (right, _)| compare(key, left, right).is_eq());
            serialize_map(&entries)
        }
        DataType::Tuple(_) | DataType::User { .. } => {
            let components = tuple_components(bytes, data_type)?.into_iter();
            let sorted: Result<Vec<Option<Cow<'_, [u8]>>>> = components
                .zip(data_type.inner())
                .map(|(component, inner)| component.map(|c| in_order(inner, c)).transpose())
                .collect();
            serialize_tuple(&sorted?)
        }
        DataType::Vector { .. } | DataType::Native(_) => return Ok(Cow::Borrowed(bytes)),
    }))
}

fn all_in_order<'a>(element: &DataType, elements: Vec<&'a [u8]>) -> Result<Vec<Cow<'a, [u8]>>> {
    elements
        .into_iter()
        .map(|bytes| in_order(element, bytes))
        .collect()
}

impl<'a> Scope<'a> {
    /// Whether an expression is a marker for which nothing was given.
    pub(super) fn is_unset(&self, expression: &Expression) -> bool {
        match expression {
            Expression::Marker(index) => matches!(self.given.get(*index), Some(Given::Unset)),
            _ => false,
        }
    }

    /// Whether null was given for a marker.
    pub(super) fn is_null(&self, marker: usize) -> bool {
        matches!(self.given.get(marker), Some(Given::Null) | None)
    }

    /// The value of an expression; none if it is null.
    pub(super) fn evaluate(&self, expression: &'a Expression) -> Result<Evaluated<'a>> {
        deadline::step(1)?;
        match expression {
            Expression::Null => Ok(None),
            Expression::Constant(bytes) => Ok(Some(Cow::Borrowed(bytes))),
            Expression::Marker(index) => match self.given.get(*index) {
                Some(Given::Bytes(bytes)) => Ok(Some(Cow::Borrowed(bytes))),
                Some(Given::Unset) => Err(CqlError::invalid("Invalid unset value")),
                Some(Given::Null) | None => Ok(None),
            },
            Expression::Column(place) => {
                let value = self.line.and_then(|line| line.values.get(*place));
                Ok(value.and_then(|value| value.as_deref().map(Cow::Borrowed)))
            }
            Expression::Aggregate(index) => {
                let value = self.aggregates.get(*index);
                Ok(value.and_then(|value| value.as_deref().map(Cow::Borrowed)))
            }
            Expression::ColumnTime { what, column, part } => {
                self.column_time(*what, *column, part.as_deref())
            }
            Expression::Function(function, arguments) => {
                let values = self.all(arguments)?;
                let bytes = values
                    .iter()
                    .flatten()
                    .map(|value| value.len())
                    .sum::<usize>();
                deadline::step(bytes / BYTES_IN_STEP)?;
                Ok(function.evaluate(&values, self.clock)?.map(Cow::Owned))
            }
            Expression::FromJson(text, data_type) => {
                let Some(text) = self.evaluate(text)? else {
                    return Ok(None);
                };
                let text = str::from_utf8(&text)
                    .map_err(|_| CqlError::invalid("String didn't validate."))?;
                Ok(from_json(data_type, text)?.map(Cow::Owned))
            }
            Expression::Operation(operator, left, right) => {
                let (left_value, right_value) = (self.evaluate(&left.0)?, self.evaluate(&right.0)?);
                let (Some(left_value), Some(right_value)) = (left_value, right_value) else {
                    return Ok(None);
                };
                let result = operate(*operator, (left.1, &left_value), (right.1, &right_value))?;
                Ok(result.map(Cow::Owned))
            }
            Expression::Negation(inner, native) => match self.evaluate(inner)? {
                Some(value) => Ok(negate(*native, &value)?.map(Cow::Owned)),
                None => Ok(None),
            },
            Expression::Cast(inner, from, to) => match self.evaluate(inner)? {
                Some(value) => {
                    deadline::step(value.len() / BYTES_IN_STEP)?;
                    Ok(cast(*from, *to, value)?.map(Cow::Owned))
                }
                None => Ok(None),
            },
            Expression::Token(components) => self.token(components),
            _ => self.composed(expression),
        }
    }

    fn all(&self, expressions: &'a [Expression]) -> Result<Vec<Evaluated<'a>>> {
        expressions
            .iter()
            .map(|inner| self.evaluate(inner))
            .collect()
    }

    fn token(&self, components: &'a [Expression]) -> Result<Evaluated<'a>> {
        let values: Option<Vec<Cow<'a, [u8]>>> = self.all(components)?.into_iter().collect();
        let Some(values) = values else {
            return Ok(None);
        };
        let token = murmur3::token(&partition_key(&values));
        Ok(Some(Cow::Owned(token.to_be_bytes().to_vec())))
    }

    /// Values that are made of values, and parts of such.
    fn composed(&self, expression: &'a Expression) -> Result<Evaluated<'a>> {
        Ok(Some(Cow::Owned(match expression {
            Expression::List(inner) => serialize_list(&self.elements(inner)?),
            Expression::Set(inner, element) => {
                let mut elements = self.elements(inner)?;
                deadline::sort_by(&mut elements, |left, right| compare(element, left, right))?;
                elements.dedup_by(|left, right| compare(element, left, right).is_eq());
                serialize_list(&elements)
            }
            Expression::Map(entries, key) => {
                let pairs = entries
                    .iter()
                    .map(|(key, value)| Ok((self.element(key)?, self.element(value)?)));
                let mut pairs = pairs.collect::<Result<Vec<_>>>()?;
                // Of equal keys the last one counts, which is the first one from behind.
                pairs.reverse();
                deadline::sort_by(&mut pairs, |(left, _), (right, _)| {
                    compare(key, left, right)
                })?;
                pairs.dedup_by(|(left, _), (right, _)| compare(key, left, right).is_eq());
                serialize_map(&pairs)
            }
            Expression::Tuple(inner) => {
                if let Some(unset) = inner.iter().position(|inner| self.is_unset(inner)) {
                    return Err(CqlError::invalid(format!(
                        "Invalid unset value for tuple field number {unset}"
                    )));
                }
                serialize_tuple(&self.all(inner)?)
            }
            Expression::Vector(inner, element) => {
                let parts = inner.iter().map(|inner| self.part_of(inner, "vectors"));
                serialize_vector(element, &parts.collect::<Result<Vec<_>>>()?)
            }
            Expression::Field(of, place) => return self.field(of, *place),
            Expression::Element(of, key) => return self.element_of(of, key),
            Expression::Slice(of, from, to) => {
                return self.slice(of, from.as_deref(), to.as_deref());
            }
            _ => return Ok(None),
        })))
    }

    fn elements(&self, inner: &'a [Expression]) -> Result<Vec<Cow<'a, [u8]>>> {
        inner.iter().map(|inner| self.element(inner)).collect()
    }

    fn element(&self, inner: &'a Expression) -> Result<Cow<'a, [u8]>> {
        self.part_of(inner, "collections")
    }

    fn part_of(&self, inner: &'a Expression, of: &str) -> Result<Cow<'a, [u8]>> {
        if self.is_unset(inner) {
            return Err(CqlError::invalid(format!(
                "unset value is not supported inside {of}"
            )));
        }
        let none = || CqlError::invalid(format!("null is not supported inside {of}"));
        self.evaluate(inner)?.ok_or_else(none)
    }

    fn field(&self, of: &'a Typed, place: usize) -> Result<Evaluated<'a>> {
        let Some(whole) = self.evaluate(&of.expression)? else {
            return Ok(None);
        };
        let components = tuple_components(&whole, &of.data_type)?;
        let field = components.get(place).copied().flatten();
        Ok(field.map(|field| Cow::Owned(field.to_vec())))
    }

    fn element_of(&self, of: &'a Typed, key: &'a Expression) -> Result<Evaluated<'a>> {
        let (Some(whole), Some(wanted)) = (self.evaluate(&of.expression)?, self.evaluate(key)?)
        else {
            return Ok(None);
        };
        let found = match &of.data_type {
            DataType::Map { key, .. } => map_entries(&whole)?
                .into_iter()
                .find(|(bytes, _)| compare(key, bytes, &wanted).is_eq())
                .map(|(_, value)| value.to_vec()),
            DataType::Set { element, .. } => list_elements(&whole, "set")?
                .into_iter()
                .find(|bytes| compare(element, bytes, &wanted).is_eq())
                .map(<[u8]>::to_vec),
            _ => None,
        };
        Ok(found.map(Cow::Owned))
    }

    fn slice(
        &self,
        of: &'a Typed,
        from: Option<&'a Expression>,
        to: Option<&'a Expression>,
    ) -> Result<Evaluated<'a>> {
        let Some(whole) = self.evaluate(&of.expression)? else {
            return Ok(None);
        };
        let bound = |bound: Option<&'a Expression>| match bound {
            Some(bound) => self.evaluate(bound),
            None => Ok(None),
        };
        let (from, to) = (bound(from)?, bound(to)?);
        let is_inside = |key: &DataType, bytes: &[u8]| {
            from.as_ref()
                .is_none_or(|from| compare(key, bytes, from).is_ge())
                && to.as_ref().is_none_or(|to| compare(key, bytes, to).is_le())
        };
        let (slice, is_empty) = match &of.data_type {
            DataType::Map { key, .. } => {
                let mut entries = map_entries(&whole)?;
                entries.retain(|(bytes, _)| is_inside(key, bytes));
                (serialize_map(&entries), entries.is_empty())
            }
            DataType::Set { element, .. } => {
                let mut elements = list_elements(&whole, "set")?;
                elements.retain(|bytes| is_inside(element, bytes));
                (serialize_list(&elements), elements.is_empty())
            }
            _ => return Ok(None),
        };
        // What is stored element by element is not there without any.
        Ok((!is_empty || !of.data_type.is_multi_cell()).then_some(Cow::Owned(slice)))
    }
}
