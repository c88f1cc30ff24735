//! `$set`, `$setOnInsert`, `$unset` and `$currentDate`.

use std::sync::Arc;

use bson::{Bson, DateTime, Timestamp};

use super::modifier::{At, Change, Modifier};
use crate::{
    compare::{identical, type_name},
    error::{Result, bad_value},
    expression::variables::Context,
};

pub(super) fn set(operand: &Bson, _: &Context) -> Result<Arc<dyn Modifier>> {
    Ok(Arc::new(Set {
        value: operand.clone(),
        only_on_insert: false,
    }))
}

pub(super) fn set_on_insert(operand: &Bson, _: &Context) -> Result<Arc<dyn Modifier>> {
    Ok(Arc::new(Set {
        value: operand.clone(),
        only_on_insert: true,
    }))
}

pub(super) fn unset(_: &Bson, _: &Context) -> Result<Arc<dyn Modifier>> {
    Ok(Arc::new(Unset))
}

pub(super) fn current_date(operand: &Bson, context: &Context) -> Result<Arc<dyn Modifier>> {
    let value = if wants_timestamp(operand)? {
        Bson::Timestamp(current_timestamp(context))
    } else {
        Bson::DateTime(now(context))
    };
    Ok(Arc::new(Put { value }))
}

/// Whether the operand of `$currentDate` asks for a timestamp rather than a date.
fn wants_timestamp(operand: &Bson) -> Result<bool> {
    match operand {
        Bson::Boolean(_) => Ok(false),
        Bson::Document(options) => {
            if let Some(other) = options.keys().find(|name| *name != "$type") {
                let message = format!("Unrecognized $currentDate option: {other}");
                return Err(bad_value(message));
            }
            match options.get("$type") {
                Some(Bson::String(name)) if name == "date" => Ok(false),
                Some(Bson::String(name)) if name == "timestamp" => Ok(true),
                _ => Err(bad_value(
                    "The '$type' string field is required to be 'date' or 'timestamp': \
                     {$currentDate: {field : {$type: 'date'}}}",
                )),
            }
        }
        other => Err(bad_value(format!(
            "{} is not valid type for $currentDate. Please use a boolean ('true') or a $type \
             expression ({{$type: 'timestamp/date'}}).",
            type_name(other)
        ))),
    }
}

/// The time of the command, as `$$NOW` has it.
fn now(context: &Context) -> DateTime {
    match context.variables.get("NOW") {
        Some(Some(Bson::DateTime(now))) => *now,
        _ => DateTime::now(),
    }
}

/// The logical time of the command, or one made of its time where there is no such clock.
pub(super) fn current_timestamp(context: &Context) -> Timestamp {
    match context.variables.get("CLUSTER_TIME") {
        Some(Some(Bson::Timestamp(time))) => *time,
        _ => Timestamp {
            time: u32::try_from(now(context).timestamp_millis() / 1000).unwrap_or(0),
            increment: 1,
        },
    }
}

#[derive(Debug)]
struct Set {
    value: Bson,
    only_on_insert: bool,
}

impl Modifier for Set {
    fn change(&self, value: &mut Bson, _: At<'_>) -> Result<Change> {
        if identical(value, &self.value) {
            return Ok(Change::None);
        }
        value.clone_from(&self.value);
        Ok(Change::Changed)
    }

    fn create(&self) -> Result<Option<Bson>> {
        Ok(Some(self.value.clone()))
    }

    fn only_on_insert(&self) -> bool {
        self.only_on_insert
    }
}

/// Puts a value there, and counts as a change even if the same was there: what `$currentDate` and
/// `$rename` do.
#[derive(Debug)]
pub(super) struct Put {
    pub(super) value: Bson,
}

impl Modifier for Put {
    fn change(&self, value: &mut Bson, _: At<'_>) -> Result<Change> {
        value.clone_from(&self.value);
        Ok(Change::Changed)
    }

    fn create(&self) -> Result<Option<Bson>> {
        Ok(Some(self.value.clone()))
    }
}

#[derive(Debug)]
struct Unset;

impl Modifier for Unset {
    fn change(&self, _: &mut Bson, _: At<'_>) -> Result<Change> {
        Ok(Change::Removed)
    }

    fn create(&self) -> Result<Option<Bson>> {
        Ok(None)
    }

    fn needs_viable_path(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use bson::{Bson, DateTime, Timestamp, doc};

    use crate::update::tests::{check, refused};

    #[test]
    fn sets_and_unsets_fields() {
        check([
            (
                doc! { "a": 1 },
                doc! { "$set": { "a": 2 } },
                doc! { "a": 2 },
            ),
            (
                doc! { "a": 1 },
                doc! { "$set": { "a": 1 } },
                doc! { "a": 1 },
            ),
            (
                doc! { "a": 1 },
                doc! { "$set": { "a": 1.0 } },
                doc! { "a": 1.0 },
            ),
            (
                doc! {},
                doc! { "$set": { "a.b.c": 1 } },
                doc! { "a": { "b": { "c": 1 } } },
            ),
            (
                doc! { "a": {} },
                doc! { "$set": { "a.$b": 1 } },
                doc! { "a": { "$b": 1 } },
            ),
            (doc! { "a": 1 }, doc! { "$set": {} }, doc! { "a": 1 }),
            (
                doc! { "a": [0, 1] },
                doc! { "$set": { "a.4": 9 } },
                doc! { "a": [0, 1, null, null, 9] },
            ),
            (
                doc! { "a": [0] },
                doc! { "$set": { "a.1.b": 9 } },
                doc! { "a": [0, { "b": 9 }] },
            ),
            (
                doc! { "a": {} },
                doc! { "$set": { "a.0": 9 } },
                doc! { "a": { "0": 9 } },
            ),
        ]);
    }

    #[test]
    fn unsets_fields_and_empties_elements() {
        check([
            (
                doc! { "a": 1, "b": 2 },
                doc! { "$unset": { "a": "" } },
                doc! { "b": 2 },
            ),
            (
                doc! { "a": [1, 2] },
                doc! { "$unset": { "a.0": 1 } },
                doc! { "a": [null, 2] },
            ),
            (
                doc! { "a": [1, 2] },
                doc! { "$unset": { "a.5": 1 } },
                doc! { "a": [1, 2] },
            ),
            (
                doc! { "a": [{ "b": 1 }] },
                doc! { "$unset": { "a.b": 1 } },
                doc! { "a": [{ "b": 1 }] },
            ),
            (
                doc! { "a": "x" },
                doc! { "$unset": { "a.b.c": 1 } },
                doc! { "a": "x" },
            ),
            (
                doc! { "a": { "b": 1 } },
                doc! { "$unset": { "a.b": 1 } },
                doc! { "a": {} },
            ),
        ]);
    }

    #[test]
    fn dates_are_those_of_the_command() {
        let date = Bson::DateTime(DateTime::from_millis(5000));
        let time = Bson::Timestamp(Timestamp {
            time: 5,
            increment: 7,
        });
        check([
            (
                doc! {},
                doc! { "$currentDate": { "a": true } },
                doc! { "a": date.clone() },
            ),
            (
                doc! { "a": 1 },
                doc! { "$currentDate": { "a": false } },
                doc! { "a": date.clone() },
            ),
            (
                doc! {},
                doc! { "$currentDate": { "a": { "$type": "date" } } },
                doc! { "a": date },
            ),
            (
                doc! {},
                doc! { "$currentDate": { "a": { "$type": "timestamp" } } },
                doc! { "a": time },
            ),
        ]);
        refused([
            (doc! {}, doc! { "$currentDate": { "a": 1 } }, 2),
            (
                doc! {},
                doc! { "$currentDate": { "a": { "$type": "Date" } } },
                2,
            ),
            (doc! {}, doc! { "$currentDate": { "a": { "$type": 9 } } }, 2),
            (
                doc! {},
                doc! { "$currentDate": { "a": { "$type": "date", "x": 1 } } },
                2,
            ),
        ]);
    }
}
