//! Types as statements write them become types as a schema holds them.

use std::collections::HashSet;

use super::{Types, type_limits};
use crate::error::{CqlError, Result, refuse};
use crate::statement::{CreateType, QualifiedName, RawType};
use crate::types::{DataType, Native, UserType};

/// The type that is meant, in a statement on this keyspace with these user types.
pub(crate) fn resolve_type(raw: &RawType, keyspace: &str, types: &Types) -> Result<DataType> {
    type_limits::check_raw(raw, types, &type_limits::NEW)?;
    resolve(raw, keyspace, types)
}

/// The type that was written down for a definition that is kept.
pub(super) fn resolve_stored(raw: &RawType, keyspace: &str, types: &Types) -> Result<DataType> {
    type_limits::check_raw(raw, types, &type_limits::STORED)?;
    resolve(raw, keyspace, types)
}

fn resolve(raw: &RawType, keyspace: &str, types: &Types) -> Result<DataType> {
    let resolve = |inner: &RawType| resolve(inner, keyspace, types);
    match raw {
        RawType::Native(native) => Ok(DataType::Native(*native)),
        RawType::List(element) => {
            let element = Box::new(element_type(raw, resolve(element)?)?);
            Ok(DataType::List {
                element,
                frozen: false,
            })
        }
        RawType::Set(element) => {
            let element = element_type(raw, resolve(element)?)?;
            if element == DataType::Native(Native::Duration) {
                return refuse(format!("Durations are not allowed inside sets: {raw}"));
            }
            Ok(DataType::Set {
                element: Box::new(element),
                frozen: false,
            })
        }
        RawType::Map(key, value) => {
            let key = element_type(raw, resolve(key)?)?;
            if key == DataType::Native(Native::Duration) {
                return refuse(format!("Durations are not allowed as map keys: {raw}"));
            }
            let value = Box::new(element_type(raw, resolve(value)?)?);
            Ok(DataType::Map {
                key: Box::new(key),
                value,
                frozen: false,
            })
        }
        RawType::Tuple(raw_types) => {
            let mut inner = Vec::with_capacity(raw_types.len());
            for raw in raw_types {
                let data_type = resolve(raw)?;
                if data_type.is_counter() {
                    return refuse("Counters are not allowed inside tuples");
                }
                inner.push(data_type.freeze());
            }
            Ok(DataType::Tuple(inner))
        }
        RawType::Vector(element, dimension) => {
            let element = Box::new(resolve(element)?.freeze());
            match u32::try_from(*dimension) {
                Ok(dimension @ 1..=0x7fff_ffff) => Ok(DataType::Vector { element, dimension }),
                _ => refuse(format!(
                    "vectors may only have positive dimensions; given {dimension}"
                )),
            }
        }
        RawType::User(name) => resolve_user_type(name, keyspace, types),
        RawType::Frozen(inner) => freeze(inner, keyspace, types),
        RawType::Custom(class) => resolve_class(class),
    }
}

fn resolve_user_type(name: &QualifiedName, keyspace: &str, types: &Types) -> Result<DataType> {
    if let Some(other) = name.keyspace.as_deref().filter(|other| *other != keyspace) {
        return refuse(format!(
            "Statement on keyspace {keyspace} cannot refer to a user type in keyspace \
             {other}; user types can only be used in the keyspace they are defined in"
        ));
    }
    let Some(definition) = types.get(&name.name) else {
        return refuse(format!("Unknown type {keyspace}.{}", name.name));
    };
    let definition = Box::new(definition.clone());
    Ok(DataType::User {
        definition,
        frozen: false,
    })
}

/// Freezing goes before the rules for what is inside: everything there is frozen then.
fn freeze(inner: &RawType, keyspace: &str, types: &Types) -> Result<DataType> {
    let frozen = |raw: &RawType| match raw {
        RawType::Native(_) | RawType::Frozen(_) | RawType::Custom(_) => Box::new(raw.clone()),
        other => Box::new(RawType::Frozen(Box::new(other.clone()))),
    };
    let duration = RawType::Native(Native::Duration);
    let raw = match inner {
        RawType::Set(element) if **element == duration => {
            return refuse(format!(
                "Durations are not allowed inside sets: frozen<{inner}>"
            ));
        }
        RawType::Map(key, _) if **key == duration => {
            return refuse(format!(
                "Durations are not allowed as map keys: frozen<{inner}>"
            ));
        }
        RawType::Native(native) => {
            return Err(CqlError::syntax(format!(
                "frozen<> is only allowed on collections, tuples, and user-defined types (got {})",
                native.name()
            )));
        }
        RawType::List(element) => RawType::List(frozen(element)),
        RawType::Set(element) => RawType::Set(frozen(element)),
        RawType::Map(key, value) => RawType::Map(frozen(key), frozen(value)),
        other => other.clone(),
    };
    Ok(resolve(&raw, keyspace, types)?.freeze())
}

/// What may be inside a collection. Tuples and vectors are frozen anyway.
fn element_type(collection: &RawType, element: DataType) -> Result<DataType> {
    if element.is_counter() {
        return refuse(format!(
            "Counters are not allowed inside collections: {collection}"
        ));
    }
    if element.is_multi_cell() {
        let what = if element.is_collection() {
            "collections"
        } else {
            "UDTs"
        };
        return refuse(format!(
            "Non-frozen {what} are not allowed inside collections: {collection}"
        ));
    }
    Ok(element)
}

/// The classes of native types, in quotes.
fn resolve_class(class: &str) -> Result<DataType> {
    let full = if class.contains('.') {
        class.to_owned()
    } else {
        format!("org.apache.cassandra.db.marshal.{class}")
    };
    let natives = Native::ALL.iter().map(|native| DataType::Native(*native));
    natives
        .into_iter()
        .find(|native| native.class_name() == full)
        .ok_or_else(|| {
            CqlError::syntax(format!(
                "Error setting type {class}: Unable to find abstract-type class '{full}'"
            ))
        })
}

/// The user type that a statement defines.
pub(crate) fn create_type(create: &CreateType, keyspace: &str, types: &Types) -> Result<UserType> {
    let name = create.name.name.clone();
    let mut fields: Vec<(String, DataType)> = Vec::with_capacity(create.fields.len());
    let mut names = HashSet::with_capacity(create.fields.len());
    for (field, raw) in &create.fields {
        if !names.insert(field) {
            return refuse(format!("Duplicate field name '{field}' in type '{name}'"));
        }
        let data_type = resolve_type(raw, keyspace, types)?;
        check_field(&data_type)?;
        fields.push((field.clone(), data_type));
    }
    let made = UserType {
        keyspace: keyspace.to_owned(),
        name,
        fields,
    };
    type_limits::check_user_type(&made)?;
    Ok(made)
}

pub(super) fn check_field(data_type: &DataType) -> Result<()> {
    if data_type.is_counter() {
        return refuse("A user type cannot contain counters");
    }
    if matches!(data_type, DataType::User { frozen: false, .. }) {
        return refuse("A user type cannot contain non-frozen UDTs");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parser::parse_type;
    use crate::schema::testing::{keyspace_types, types};

    fn resolved(text: &str) -> Result<DataType> {
        resolve_type(&parse_type(text)?, "ks", &keyspace_types())
    }

    #[test]
    fn types_are_resolved() {
        for (text, written) in [
            ("int", "int"),
            ("list<int>", "list<int>"),
            ("frozen<list<list<int>>>", "frozen<list<frozen<list<int>>>>"),
            ("map<text, frozen<set<int>>>", "map<text, frozen<set<int>>>"),
            (
                "tuple<int, list<int>>",
                "frozen<tuple<int, frozen<list<int>>>>",
            ),
            ("list<tuple<int, int>>", "list<frozen<tuple<int, int>>>"),
            ("u", "u"),
            ("frozen<u>", "frozen<u>"),
            ("ks.u", "u"),
            ("list<frozen<u>>", "list<frozen<u>>"),
            ("vector<float, 3>", "vector<float, 3>"),
            ("'Int32Type'", "int"),
        ] {
            assert_eq!(resolved(text).unwrap().to_string(), written);
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for (text, words) in [
            ("x", "Unknown type ks.x"),
            (
                "other.u",
                "Statement on keyspace ks cannot refer to a user type in keyspace other; \
                 user types can only be used in the keyspace they are defined in",
            ),
            (
                "list<list<int>>",
                "Non-frozen collections are not allowed inside collections: list<list<int>>",
            ),
            (
                "set<u>",
                "Non-frozen UDTs are not allowed inside collections: set<u>",
            ),
            (
                "list<counter>",
                "Counters are not allowed inside collections: list<counter>",
            ),
            (
                "set<duration>",
                "Durations are not allowed inside sets: set<duration>",
            ),
            (
                "map<duration, int>",
                "Durations are not allowed as map keys: map<duration, int>",
            ),
            ("tuple<counter>", "Counters are not allowed inside tuples"),
            (
                "frozen<int>",
                "frozen<> is only allowed on collections, tuples, and user-defined types (got int)",
            ),
            (
                "vector<int, 0>",
                "vectors may only have positive dimensions; given 0",
            ),
        ] {
            assert_eq!(resolved(text).unwrap_err().message, words);
        }
    }

    #[test]
    fn user_types_are_checked() {
        for (text, words) in [
            (
                "CREATE TYPE v (a int, a text)",
                "Duplicate field name 'a' in type 'v'",
            ),
            (
                "CREATE TYPE v (a counter)",
                "A user type cannot contain counters",
            ),
            (
                "CREATE TYPE v (a u)",
                "A user type cannot contain non-frozen UDTs",
            ),
        ] {
            assert_eq!(types(&[text]).unwrap_err().message, words);
        }
        assert!(types(&["CREATE TYPE v (a frozen<u>, b list<int>)"]).is_ok());
    }
}
