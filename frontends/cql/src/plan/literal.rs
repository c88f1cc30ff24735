//! Lists, sets, maps, tuples, vectors and user types that are written out.

use super::expression::{Expression, Typed};
use super::typing::{Planner, Receiver, cannot_infer};
use crate::error::{CqlError, Result};
use crate::functions::constant_fits;
use crate::statement::Selector;
use crate::types::{DataType, UserType};

impl Planner<'_> {
    pub(super) fn literal(&mut self, what: &Selector, want: Option<Receiver<'_>>) -> Result<Typed> {
        let Some(want) = want else {
            return self.literal_alone(what);
        };
        let expression = match (what, want.data_type) {
            (Selector::List(inner), DataType::List { element, .. }) => {
                Expression::List(self.elements(inner, want, element)?)
            }
            (Selector::List(inner), DataType::Vector { element, dimension }) => {
                let count = inner.len();
                if u32::try_from(count) != Ok(*dimension) {
                    return Err(CqlError::invalid(format!(
                        "Invalid vector literal for {} of type {}; expected {dimension} elements, \
                         but given {count}",
                        want.name, want.data_type
                    )));
                }
                Expression::Vector(self.elements(inner, want, element)?, (**element).clone())
            }
            (Selector::Set(inner), DataType::Set { element, .. }) => {
                Expression::Set(self.elements(inner, want, element)?, (**element).clone())
            }
            (Selector::Set(inner), DataType::Map { key, .. }) if inner.is_empty() => {
                Expression::Map(Vec::new(), (**key).clone())
            }
            (Selector::MapOrUserType(entries), DataType::Map { key, value, .. }) => {
                self.map(entries, want, key, value)?
            }
            (Selector::MapOrUserType(entries), DataType::User { definition, .. }) => {
                self.user_type(entries, want, definition)?
            }
            (Selector::Set(inner), DataType::User { definition, .. }) if inner.is_empty() => {
                Expression::Tuple(vec![Expression::Null; definition.fields.len()])
            }
            (Selector::Tuple(inner), DataType::Tuple(types)) => self.tuple(inner, want, types)?,
            _ => {
                let kind = match what {
                    Selector::List(_) => "list",
                    Selector::Set(_) => "set",
                    Selector::Tuple(_) => "tuple",
                    _ if is_of_names(what) => "user type",
                    _ => "map",
                };
                return Err(CqlError::invalid(format!(
                    "Invalid {kind} literal for {} of type {}",
                    want.name, want.data_type
                )));
            }
        };
        Ok(Typed::new(expression, want.data_type.clone()))
    }

    fn elements(
        &mut self,
        inner: &[Selector],
        want: Receiver<'_>,
        element: &DataType,
    ) -> Result<Vec<Expression>> {
        let name = &format!("value({})", want.name);
        let data_type = element;
        inner
            .iter()
            .map(|inner| {
                check_part(inner, want, ("value", element))?;
                Ok(self
                    .typed(inner, Some(Receiver { name, data_type }))?
                    .expression)
            })
            .collect()
    }

    fn map(
        &mut self,
        entries: &[(Selector, Selector)],
        want: Receiver<'_>,
        key: &DataType,
        value: &DataType,
    ) -> Result<Expression> {
        let (key_name, value_name) = (
            format!("key({})", want.name),
            format!("value({})", want.name),
        );
        let mut typed = Vec::with_capacity(entries.len());
        for (key_selector, value_selector) in entries {
            let receiver = Receiver {
                name: &key_name,
                data_type: key,
            };
            check_part(key_selector, want, ("key", key))?;
            check_part(value_selector, want, ("value", value))?;
            let key = self.typed(key_selector, Some(receiver))?.expression;
            let receiver = Receiver {
                name: &value_name,
                data_type: value,
            };
            typed.push((key, self.typed(value_selector, Some(receiver))?.expression));
        }
        Ok(Expression::Map(typed, key.clone()))
    }

    fn user_type(
        &mut self,
        entries: &[(Selector, Selector)],
        want: Receiver<'_>,
        definition: &UserType,
    ) -> Result<Expression> {
        let mut fields = vec![Expression::Null; definition.fields.len()];
        for (name, value) in entries {
            let Selector::Column(name) = name else {
                return Err(CqlError::invalid(format!(
                    "Invalid map literal for {} of type {}",
                    want.name, want.data_type
                )));
            };
            let place = definition
                .fields
                .iter()
                .position(|(field, _)| field == name);
            let found = place.and_then(|place| {
                let (_, data_type) = definition.fields.get(place)?;
                Some((fields.get_mut(place)?, data_type))
            });
            let Some((field, data_type)) = found else {
                return Err(CqlError::invalid(format!(
                    "Unknown field '{name}' in value of user defined type {}",
                    definition.name
                )));
            };
            if !may_be(value, data_type) {
                return Err(CqlError::invalid(format!(
                    "Invalid user type literal for {}: field {name} is not of type {data_type}",
                    want.name
                )));
            }
            let name = &format!("{}.{name}", want.name);
            *field = self
                .typed(value, Some(Receiver { name, data_type }))?
                .expression;
        }
        Ok(Expression::Tuple(fields))
    }

    fn tuple(
        &mut self,
        inner: &[Selector],
        want: Receiver<'_>,
        types: &[DataType],
    ) -> Result<Expression> {
        if inner.len() > types.len() {
            return Err(CqlError::invalid(format!(
                "Invalid tuple literal for {}: too many elements. Type {} expects {} but got {}",
                want.name,
                want.data_type,
                types.len(),
                inner.len()
            )));
        }
        let mut components = Vec::with_capacity(inner.len());
        for (index, (selector, data_type)) in inner.iter().zip(types).enumerate() {
            if !may_be(selector, data_type) {
                return Err(CqlError::invalid(format!(
                    "Invalid tuple literal for {}: component {index} is not of type {data_type}",
                    want.name
                )));
            }
            let name = &format!("{}[{index}]", want.name);
            components.push(
                self.typed(selector, Some(Receiver { name, data_type }))?
                    .expression,
            );
        }
        Ok(Expression::Tuple(components))
    }

    /// What is written out where nothing tells the type: its parts do.
    fn literal_alone(&mut self, what: &Selector) -> Result<Typed> {
        fn first_type<'s>(
            planner: &mut Planner<'_>,
            what: &Selector,
            mut parts: impl Iterator<Item = &'s Selector>,
        ) -> Result<DataType> {
            let first = parts.find_map(|part| planner.typed(part, None).ok());
            first.map_or_else(|| cannot_infer(what), |typed| Ok(typed.data_type.freeze()))
        }
        let data_type = match what {
            Selector::List(inner) => DataType::list(first_type(self, what, inner.iter())?).freeze(),
            Selector::Set(inner) => DataType::set(first_type(self, what, inner.iter())?).freeze(),
            Selector::MapOrUserType(entries) => {
                let key = first_type(self, what, entries.iter().map(|(key, _)| key))?;
                let value = first_type(self, what, entries.iter().map(|(_, value)| value))?;
                DataType::map(key, value).freeze()
            }
            Selector::Tuple(inner) => {
                let types: Result<Vec<DataType>> = inner
                    .iter()
                    .map(|inner| Ok(self.typed(inner, None)?.data_type.freeze()))
                    .collect();
                DataType::Tuple(types?)
            }
            _ => return self.typed(what, None),
        };
        let name = &what.to_string();
        let data_type = &data_type;
        self.literal(what, Some(Receiver { name, data_type }))
    }
}

/// Whether a part of a literal may be of a type, as far as its form tells.
fn may_be(part: &Selector, data_type: &DataType) -> bool {
    match (part, data_type) {
        (Selector::Constant(constant), DataType::Native(native)) => {
            constant_fits(constant.kind, *native)
        }
        (Selector::Constant(_), other) => matches!(other, DataType::Tuple(_)),
        (Selector::Tuple(inner), DataType::Tuple(types)) => inner.len() <= types.len(),
        _ => true,
    }
}

/// Refuses what cannot be in a collection.
fn check_part(part: &Selector, want: Receiver<'_>, (what, of): (&str, &DataType)) -> Result<()> {
    if may_be(part, of) {
        return Ok(());
    }
    let kind = match want.data_type {
        DataType::Map { .. } => "map",
        DataType::Set { .. } => "set",
        DataType::Vector { .. } => "vector",
        _ => "list",
    };
    Err(CqlError::invalid(format!(
        "Invalid {kind} literal for {}: {what} {part} is not of type {of}",
        want.name
    )))
}

fn is_of_names(what: &Selector) -> bool {
    match what {
        Selector::MapOrUserType(entries) => entries
            .iter()
            .all(|(name, _)| matches!(name, Selector::Column(_))),
        _ => false,
    }
}
