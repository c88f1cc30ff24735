//! Keyspaces and user types as the catalog keeps them.

use serde::{Deserialize, Serialize};

use super::resolve::resolve_type;
use super::stored::{damaged, from_bytes, to_bytes};
use super::{Keyspace, Types};
use crate::error::Result;
use crate::parser::parse_type;
use crate::types::{DataType, UserType};

/// A user type: its name and its fields, with their types in the words of CQL.
#[derive(Serialize, Deserialize)]
pub(super) struct StoredType {
    name: String,
    fields: Vec<(String, String)>,
}

#[derive(Serialize, Deserialize)]
struct StoredKeyspace {
    replication: Vec<(String, String)>,
    durable_writes: bool,
    #[serde(default)]
    types: Vec<StoredType>,
}

/// The bytes of a keyspace and its types.
pub(crate) fn encode_keyspace(keyspace: &Keyspace, types: &Types) -> Result<Vec<u8>> {
    let mut sorted = Vec::with_capacity(types.len());
    for user_type in types.values() {
        collect(user_type, &mut sorted);
    }
    to_bytes(&StoredKeyspace {
        replication: keyspace.replication.clone(),
        durable_writes: keyspace.durable_writes,
        types: sorted.into_iter().map(store_type).collect(),
    })
}

/// The keyspace of these bytes.
pub(crate) fn decode_keyspace(name: &str, bytes: &[u8]) -> Result<(Keyspace, Types)> {
    let stored: StoredKeyspace = from_bytes(bytes)?;
    let types = load_types(name, stored.types)?;
    let keyspace = Keyspace {
        name: name.to_owned(),
        replication: stored.replication,
        durable_writes: stored.durable_writes,
    };
    Ok((keyspace, types))
}

/// The user types in these types, each after those that it uses itself.
pub(super) fn store_types<'t>(types: impl Iterator<Item = &'t DataType>) -> Vec<StoredType> {
    let mut sorted = Vec::new();
    for data_type in types {
        collect_in(data_type, &mut sorted);
    }
    sorted.into_iter().map(store_type).collect()
}

fn collect<'t>(user_type: &'t UserType, sorted: &mut Vec<&'t UserType>) {
    if sorted.iter().any(|known| known.name == user_type.name) {
        return;
    }
    for (_, data_type) in &user_type.fields {
        collect_in(data_type, sorted);
    }
    sorted.push(user_type);
}

fn collect_in<'t>(data_type: &'t DataType, sorted: &mut Vec<&'t UserType>) {
    if let DataType::User { definition, .. } = data_type {
        collect(definition, sorted);
    } else {
        for inner in data_type.inner() {
            collect_in(inner, sorted);
        }
    }
}

fn store_type(user_type: &UserType) -> StoredType {
    let fields = user_type.fields.iter();
    StoredType {
        name: user_type.name.clone(),
        fields: fields
            .map(|(name, data_type)| (name.clone(), data_type.to_string()))
            .collect(),
    }
}

pub(super) fn load_types(keyspace: &str, stored: Vec<StoredType>) -> Result<Types> {
    let mut types = Types::new();
    for StoredType { name, fields } in stored {
        let mut loaded = Vec::with_capacity(fields.len());
        for (field, written) in fields {
            let resolved =
                parse_type(&written).and_then(|raw| resolve_type(&raw, keyspace, &types));
            loaded.push((field, resolved.map_err(|error| damaged(&error.message))?));
        }
        let user_type = UserType {
            keyspace: keyspace.to_owned(),
            name: name.clone(),
            fields: loaded,
        };
        types.insert(name, user_type);
    }
    Ok(types)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::testing::types;

    #[test]
    fn keyspaces_come_back() {
        // A type whose name stands before that of the one it uses.
        let types = types(&["CREATE TYPE a (x frozen<u>, y list<frozen<u>>)"]).unwrap();
        let keyspace = Keyspace {
            name: "ks".to_owned(),
            replication: vec![("class".to_owned(), "SimpleStrategy".to_owned())],
            durable_writes: false,
        };
        let bytes = encode_keyspace(&keyspace, &types).unwrap();
        assert_eq!(decode_keyspace("ks", &bytes), Ok((keyspace, types)));
        for end in 0..bytes.len() {
            assert!(decode_keyspace("ks", &bytes[..end]).is_err());
        }
    }
}
