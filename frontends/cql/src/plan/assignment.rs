//! How columns change: SET of an UPDATE, and what a DELETE names.

use super::modify::How;
use super::restriction::receiver;
use super::selection::field_of;
use super::typing::{Planner, Receiver};
use crate::error::{Result, refuse};
use crate::schema::Column;
use crate::statement::{Deletion, Operation, Term};
use crate::types::{DataType, Native};

pub(super) fn assignment_of(
    planner: &mut Planner<'_>,
    column: &Column,
    operation: &Operation,
) -> Result<How> {
    let (name, data_type) = (&column.name, &column.data_type);
    if data_type.is_counter() && !matches!(operation, Operation::Add(_) | Operation::Subtract(_)) {
        return refuse(format!(
            "Cannot set the value of counter column {name} (counters can only be \
             incremented/decremented, not set)"
        ));
    }
    match operation {
        Operation::Set(term) => Ok(How::Set(planner.term(term, receiver(column))?)),
        Operation::Add(term) | Operation::Subtract(term) => {
            let is_add = matches!(operation, Operation::Add(_));
            add_or_subtract(planner, column, term, is_add)
        }
        Operation::Prepend(term) => prepend(planner, column, term),
        Operation::SetElement(key, value) => set_element(planner, column, key, value),
        Operation::SetField(field, value) => set_field(planner, column, field, value),
    }
}

fn prepend(planner: &mut Planner<'_>, column: &Column, term: &Term) -> Result<How> {
    let (name, data_type) = (&column.name, &column.data_type);
    let is_multi = data_type.is_multi_cell();
    match data_type {
        DataType::List { .. } if is_multi => {
            Ok(How::Prepend(planner.term(term, receiver(column))?))
        }
        DataType::List { .. } => refuse(format!(
            "Invalid operation ({name} = {term} - {name}) for frozen list column {name}"
        )),
        DataType::Set { .. } | DataType::Map { .. } if is_multi => {
            Ok(How::Append(planner.term(term, receiver(column))?))
        }
        _ => refuse(format!(
            "Invalid operation ({name} = {term} + {name}) for non list column {name}"
        )),
    }
}

fn set_element(
    planner: &mut Planner<'_>,
    column: &Column,
    key: &Term,
    value: &Term,
) -> Result<How> {
    let (name, data_type) = (&column.name, &column.data_type);
    let is_multi = data_type.is_multi_cell();
    let shown = || format!("{name}[{key}] = {value}");
    let (key_name, key_type, value_type) = match data_type {
        _ if data_type.is_collection() && !is_multi => {
            return refuse(format!(
                "Invalid operation ({}) for frozen collection column {name}",
                shown()
            ));
        }
        DataType::List { element, .. } => (
            format!("idx({name})"),
            &DataType::Native(Native::Int),
            element,
        ),
        DataType::Map { key, value, .. } => (format!("key({name})"), &**key, value),
        DataType::Set { .. } => {
            return refuse(format!(
                "Invalid operation ({}) for set column {name}",
                shown()
            ));
        }
        _ => {
            return refuse(format!(
                "Invalid operation ({}) for non collection column {name}",
                shown()
            ));
        }
    };
    let receiver = Receiver {
        name: &key_name,
        data_type: key_type,
    };
    let key = planner.term(key, receiver)?;
    let receiver = Receiver {
        name: &format!("value({name})"),
        data_type: value_type,
    };
    Ok(How::SetElement(key, planner.term(value, receiver)?))
}

fn set_field(planner: &mut Planner<'_>, column: &Column, field: &str, value: &Term) -> Result<How> {
    let (name, data_type) = (&column.name, &column.data_type);
    let shown = || format!("{name}.{field} = {value}");
    match data_type {
        DataType::User { frozen: true, .. } => refuse(format!(
            "Invalid operation ({}) for frozen UDT column {name}",
            shown()
        )),
        DataType::User { definition, .. } => {
            let Ok((place, data_type)) = field_of((name, data_type), field) else {
                return refuse(format!(
                    "UDT column {name} does not have a field named {field}"
                ));
            };
            let name = &format!("{}.{field}", definition.name);
            let data_type = &data_type;
            let value = planner.term(value, Receiver { name, data_type })?;
            Ok(How::SetField(place, value))
        }
        _ => refuse(format!(
            "Invalid operation ({}) for non-UDT column {name}",
            shown()
        )),
    }
}

fn add_or_subtract(
    planner: &mut Planner<'_>,
    column: &Column,
    term: &Term,
    is_add: bool,
) -> Result<How> {
    let (name, data_type) = (&column.name, &column.data_type);
    let symbol = if is_add { '+' } else { '-' };
    if data_type.is_counter() {
        let data_type = &DataType::Native(Native::Bigint);
        let value = planner.term(term, Receiver { name, data_type })?;
        return Ok(How::Increment(value, is_add));
    }
    if data_type.is_collection() && !data_type.is_multi_cell() {
        return refuse(format!(
            "Invalid operation ({name} = {name} {symbol} {term}) for frozen collection column \
             {name}"
        ));
    }
    match data_type {
        DataType::Map { key, .. } if !is_add => {
            let data_type = &DataType::set((**key).clone());
            Ok(How::Remove(
                planner.term(term, Receiver { name, data_type })?,
            ))
        }
        DataType::List { .. } | DataType::Set { .. } | DataType::Map { .. } => {
            let value = planner.term(term, receiver(column))?;
            Ok(if is_add {
                How::Append(value)
            } else {
                How::Remove(value)
            })
        }
        other => {
            let what = match other {
                DataType::Tuple(_) => "tuple",
                _ => "non counter",
            };
            refuse(format!(
                "Invalid operation ({name} = {name} {symbol} {term}) for {what} column {name}"
            ))
        }
    }
}

pub(super) fn deletion_of(
    planner: &mut Planner<'_>,
    column: &Column,
    deletion: &Deletion,
) -> Result<How> {
    let (name, data_type) = (&column.name, &column.data_type);
    match deletion {
        Deletion::Column(_) => Ok(How::Delete),
        Deletion::Element(_, key) => {
            if !data_type.is_collection() {
                return refuse(format!(
                    "Invalid deletion operation for non collection column {name}"
                ));
            }
            if !data_type.is_multi_cell() {
                return refuse(format!(
                    "Invalid deletion operation for frozen collection column {name}"
                ));
            }
            let int = DataType::Native(Native::Int);
            let (key_name, data_type) = match data_type {
                DataType::Map { key, .. } => (format!("key({name})"), &**key),
                DataType::Set { element, .. } => (format!("value({name})"), &**element),
                _ => (format!("idx({name})"), &int),
            };
            let name = &key_name;
            Ok(How::DeleteElement(
                planner.term(key, Receiver { name, data_type })?,
            ))
        }
        Deletion::Field(_, field) => match data_type {
            DataType::User { frozen: false, .. } => match field_of((name, data_type), field) {
                Ok((place, _)) => Ok(How::DeleteField(place)),
                Err(_) => refuse(format!(
                    "UDT column {name} does not have a field named {field}"
                )),
            },
            DataType::User { .. } => refuse(format!(
                "Frozen UDT column {name} does not support field deletions"
            )),
            _ => refuse(format!(
                "Invalid field deletion operation for non-UDT column {name}"
            )),
        },
    }
}
