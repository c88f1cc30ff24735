//! Keyspaces and user types as the catalog keeps them.
//!
//! A user type of a keyspace that cannot be read is lost alone, with those that use it: it is kept
//! as it was found until it is dropped. Tables bring their own types and do not depend on it.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use super::resolve::resolve_stored;
use super::stored::{check_kept, damaged, from_bytes, to_bytes};
use super::{Keyspace, Types};
use crate::error::Result;
use crate::parser::parse_type;
use crate::types::{DataType, UserType};

/// A user type: its name and its fields, with their types in the words of CQL.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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

/// A user type that cannot be read.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LostType {
    stored: StoredType,
    /// Why it cannot.
    pub(crate) why: String,
}

impl LostType {
    pub(crate) fn name(&self) -> &str {
        &self.stored.name
    }
}

/// A keyspace with its types, as its bytes hold it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct KeyspaceDefinition {
    pub(crate) keyspace: Keyspace,
    pub(crate) types: Types,
    pub(crate) lost: Vec<LostType>,
}

impl KeyspaceDefinition {
    /// The bytes of it, which are known to be read back as the same.
    pub(crate) fn encode(&self) -> Result<Vec<u8>> {
        let mut sorted = Vec::with_capacity(self.types.len());
        let mut known = HashSet::new();
        for user_type in self.types.values() {
            collect(user_type, &mut sorted, &mut known);
        }
        // Within another type it may be frozen, which is not how it is defined.
        let own = |found: &UserType| store_type(self.types.get(&found.name).unwrap_or(found));
        let lost = self.lost.iter().map(|lost| lost.stored.clone());
        let bytes = to_bytes(&StoredKeyspace {
            replication: self.keyspace.replication.clone(),
            durable_writes: self.keyspace.durable_writes,
            types: sorted.into_iter().map(own).chain(lost).collect(),
        })?;
        let name = &self.keyspace.name;
        check_kept(&format!("keyspace {name}"), &bytes, || {
            let read = Self::decode(name, &bytes)?;
            Ok((&read.keyspace, &read.types) == (&self.keyspace, &self.types))
        })?;
        Ok(bytes)
    }

    /// The keyspace of these bytes.
    pub(crate) fn decode(name: &str, bytes: &[u8]) -> Result<Self> {
        let stored: StoredKeyspace = from_bytes(bytes)?;
        let keyspace = Keyspace {
            name: name.to_owned(),
            replication: stored.replication,
            durable_writes: stored.durable_writes,
        };
        let (mut types, mut lost) = (Types::new(), Vec::new());
        for stored in stored.types {
            match load_type(name, &stored, &types) {
                Ok(user_type) => {
                    types.insert(stored.name, user_type);
                }
                Err(error) => lost.push(LostType {
                    stored,
                    why: error.message,
                }),
            }
        }
        Ok(Self {
            keyspace,
            types,
            lost,
        })
    }
}

/// The user types in these types, each after those that it uses itself.
pub(super) fn store_types<'t>(types: impl Iterator<Item = &'t DataType>) -> Vec<StoredType> {
    let (mut sorted, mut known) = (Vec::new(), HashSet::new());
    for data_type in types {
        collect_in(data_type, &mut sorted, &mut known);
    }
    sorted.into_iter().map(store_type).collect()
}

fn collect<'t>(
    user_type: &'t UserType,
    sorted: &mut Vec<&'t UserType>,
    known: &mut HashSet<&'t str>,
) {
    if !known.insert(&user_type.name) {
        return;
    }
    for (_, data_type) in &user_type.fields {
        collect_in(data_type, sorted, known);
    }
    sorted.push(user_type);
}

fn collect_in<'t>(
    data_type: &'t DataType,
    sorted: &mut Vec<&'t UserType>,
    known: &mut HashSet<&'t str>,
) {
    if let DataType::User { definition, .. } = data_type {
        collect(definition, sorted, known);
    } else {
        for inner in data_type.inner() {
            collect_in(inner, sorted, known);
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
    for stored in stored {
        let user_type = load_type(keyspace, &stored, &types)?;
        types.insert(stored.name, user_type);
    }
    Ok(types)
}

/// The user type that is stored so, in a keyspace with these others.
fn load_type(keyspace: &str, stored: &StoredType, types: &Types) -> Result<UserType> {
    let mut fields = Vec::with_capacity(stored.fields.len());
    for (field, written) in &stored.fields {
        let resolved = parse_type(written).and_then(|raw| resolve_stored(&raw, keyspace, types));
        let resolved = resolved.map_err(|error| damaged(&error.message))?;
        fields.push((field.clone(), resolved));
    }
    Ok(UserType {
        keyspace: keyspace.to_owned(),
        name: stored.name.clone(),
        fields,
    })
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
        let original = KeyspaceDefinition {
            keyspace,
            types,
            lost: Vec::new(),
        };
        let bytes = original.encode().unwrap();
        assert_eq!(KeyspaceDefinition::decode("ks", &bytes), Ok(original));
        for end in 0..bytes.len() {
            assert!(KeyspaceDefinition::decode("ks", &bytes[..end]).is_err());
        }
    }
}
