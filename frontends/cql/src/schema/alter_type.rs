//! ALTER TYPE: the type that a statement makes of another, and what that means for those that use
//! it.

use tessera_core::deadline;

use super::resolve::check_field;
use super::{Types, resolve_type};
use crate::error::{Result, refuse};
use crate::statement::{AlterTypeAction, quoted};
use crate::types::{DataType, UserType};

/// The altered type; none if nothing changes. `key_users` are the tables with it in their partition
/// keys, whose rows would be lost if it changed.
pub(crate) fn alter_type(
    before: &UserType,
    action: &AlterTypeAction,
    types: &Types,
    key_users: &[String],
) -> Result<Option<UserType>> {
    let type_name = format!("{}.{}", quoted(&before.keyspace), quoted(&before.name));
    let mut after = before.clone();
    match action {
        AlterTypeAction::Alter { .. } => {
            return refuse("Altering field types is no longer supported");
        }
        AlterTypeAction::Add {
            if_not_exists,
            field,
            data_type: raw,
        } => {
            if before.fields.iter().any(|(known, _)| known == field) {
                if *if_not_exists {
                    return Ok(None);
                }
                return refuse(format!(
                    "Cannot add field {field} to type {type_name}: a field with name {field} \
                     already exists"
                ));
            }
            let data_type = resolve_type(raw, &before.keyspace, types)?;
            check_field(&data_type)?;
            if uses(&data_type, &before.name) {
                return refuse(format!(
                    "Cannot add new field {field} of type {raw} to user type {type_name} as it \
                     would create a circular reference"
                ));
            }
            if !key_users.is_empty() {
                return refuse(format!(
                    "Cannot add new field {field} of type {raw} to user type {type_name} as the \
                     type is being used in partition key by the following tables: {}",
                    key_users.join(", ")
                ));
            }
            after.fields.push((field.clone(), data_type));
        }
        AlterTypeAction::Rename { if_exists, pairs } => {
            rename(&mut after, before, *if_exists, pairs)?;
        }
    }
    Ok(Some(after))
}

fn rename(
    after: &mut UserType,
    before: &UserType,
    if_exists: bool,
    pairs: &[(String, String)],
) -> Result<()> {
    let type_name = format!("{}.{}", quoted(&before.keyspace), quoted(&before.name));
    for (from, to) in pairs {
        deadline::step(before.fields.len())?;
        let position = before.fields.iter().position(|(known, _)| known == from);
        match position.and_then(|position| after.fields.get_mut(position)) {
            Some((name, _)) => name.clone_from(to),
            None if if_exists => {}
            None => return refuse(format!("Unkown field {from} in user type {type_name}")),
        }
    }
    for (index, (name, _)) in after.fields.iter().enumerate() {
        deadline::step(index)?;
        let mut earlier = after.fields.iter().take(index);
        if earlier.any(|(other, _)| other == name) {
            return refuse(format!("Duplicate field name {name} in type {type_name}"));
        }
    }
    Ok(())
}

/// Whether a type is this user type, or has it inside.
pub(crate) fn uses(data_type: &DataType, name: &str) -> bool {
    let is_it = |inner: &DataType| match inner {
        DataType::User { definition, .. } => definition.name == name,
        _ => false,
    };
    data_type.any(&is_it)
}

/// The same type, with this definition wherever the user type of its name is used.
pub(crate) fn with_type(data_type: &DataType, changed: &UserType) -> DataType {
    let inner = |data_type: &DataType| Box::new(with_type(data_type, changed));
    match data_type {
        DataType::Native(native) => DataType::Native(*native),
        DataType::List { element, frozen } => DataType::List {
            element: inner(element),
            frozen: *frozen,
        },
        DataType::Set { element, frozen } => DataType::Set {
            element: inner(element),
            frozen: *frozen,
        },
        DataType::Map { key, value, frozen } => DataType::Map {
            key: inner(key),
            value: inner(value),
            frozen: *frozen,
        },
        DataType::Tuple(types) => {
            let types = types.iter().map(|data_type| with_type(data_type, changed));
            DataType::Tuple(types.collect())
        }
        DataType::Vector { element, dimension } => DataType::Vector {
            element: inner(element),
            dimension: *dimension,
        },
        DataType::User { definition, frozen } => {
            let definition = if definition.name == changed.name {
                changed.clone()
            } else {
                fields_with_type(definition, changed)
            };
            let thawed = DataType::User {
                definition: Box::new(definition),
                frozen: false,
            };
            if *frozen { thawed.freeze() } else { thawed }
        }
    }
}

/// The same user type, with this definition wherever its fields use it.
pub(crate) fn fields_with_type(user_type: &UserType, changed: &UserType) -> UserType {
    let fields = user_type.fields.iter();
    UserType {
        fields: fields
            .map(|(name, data_type)| (name.clone(), with_type(data_type, changed)))
            .collect(),
        ..user_type.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parser::parse;
    use crate::schema::testing::{table, types};
    use crate::statement::Statement;

    fn altered(text: &str, key_users: &[String]) -> Result<Option<UserType>> {
        let types = types(&["CREATE TYPE w (x frozen<u>)"]).unwrap();
        let Statement::AlterType(alter) = parse(text)?.statement else {
            panic!("{text}")
        };
        alter_type(&types["u"], &alter.action, &types, key_users)
    }

    #[test]
    fn fields_are_added_and_renamed() {
        let fields = |text: &str| {
            let fields = altered(text, &[]).unwrap().unwrap().fields;
            let fields: Vec<String> = fields.iter().map(|(n, t)| format!("{n} {t}")).collect();
            fields.join(", ")
        };
        assert_eq!(
            fields("ALTER TYPE u ADD c list<int>"),
            "a int, B text, c list<int>"
        );
        assert_eq!(
            fields("ALTER TYPE u RENAME a TO x AND \"B\" TO a"),
            "x int, a text"
        );
        assert_eq!(
            fields("ALTER TYPE u RENAME IF EXISTS z TO y"),
            "a int, B text"
        );
        assert_eq!(
            altered("ALTER TYPE u ADD IF NOT EXISTS a int", &[]),
            Ok(None)
        );
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for (text, words) in [
            (
                "ALTER TYPE u ADD a int",
                "Cannot add field a to type ks.u: a field with name a already exists",
            ),
            (
                "ALTER TYPE u ADD c frozen<w>",
                "Cannot add new field c of type frozen<w> to user type ks.u as it would create a \
                 circular reference",
            ),
            (
                "ALTER TYPE u ADD c int",
                "Cannot add new field c of type int to user type ks.u as the type is being used in \
                 partition key by the following tables: ks.t",
            ),
            (
                "ALTER TYPE u ADD c counter",
                "A user type cannot contain counters",
            ),
            (
                "ALTER TYPE u RENAME z TO y",
                "Unkown field z in user type ks.u",
            ),
            (
                "ALTER TYPE u RENAME a TO \"B\"",
                "Duplicate field name B in type ks.u",
            ),
            (
                "ALTER TYPE u ALTER a TYPE text",
                "Altering field types is no longer supported",
            ),
        ] {
            let users = ["ks.t".to_owned()];
            assert_eq!(altered(text, &users).unwrap_err().message, words, "{text}");
        }
    }

    #[test]
    fn columns_follow_their_types() {
        let changed = altered("ALTER TYPE u ADD c list<int>", &[])
            .unwrap()
            .unwrap();
        let table = table("CREATE TABLE t (k int PRIMARY KEY, v map<int, frozen<u>>)").unwrap();
        let column = with_type(&table.columns[1].data_type, &changed);
        let DataType::Map { value, .. } = column else {
            panic!()
        };
        assert_eq!(value.inner()[2].to_string(), "frozen<list<int>>");
    }
}
