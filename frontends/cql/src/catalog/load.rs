//! Reads the catalog from the core.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use md5::{Digest as _, Md5};
use tessera_core::Store;

use super::{Catalog, DamagedRelation, KeyspaceEntry, Place, Relation, container_name};
use crate::API;
use crate::error::Result;
use crate::schema::{self, Keyspace, KeyspaceDefinition, Types};
use crate::system;

/// How many containers are read at a time.
const PAGE: usize = 1_000;

/// Everything that is defined now. What has not changed since `before` is taken from there.
pub(super) async fn load(store: &Store, before: Option<&Catalog>) -> Result<Catalog> {
    let mut keyspaces: BTreeMap<String, Arc<KeyspaceEntry>> = system::keyspaces();
    let mut digest = Md5::new();
    for name in store.list_databases(API).await? {
        // Dropped just now, if it is not there.
        let Some(stored) = store.database(API, &name).await? else {
            continue;
        };
        add(&mut digest, &name, &stored);
        let known = before.and_then(|before| before.find(&name));
        let read = match known {
            Some(known) if known.stored.as_ref() == Some(&stored) => known.without_relations(),
            _ => read_keyspace(&name, stored, known.map(Arc::as_ref)),
        };
        let (relations, damaged) =
            load_relations(store, &name, known.map(Arc::as_ref), &mut digest).await?;
        let entry = KeyspaceEntry {
            relations,
            damaged,
            ..read
        };
        keyspaces.insert(name, Arc::new(entry));
    }
    let mut version: [u8; 16] = digest.finalize().into();
    mark_as_hash(&mut version);
    Ok(Catalog { keyspaces, version })
}

/// The keyspace of these bytes, in which nothing is yet. What cannot be read of it is said in the
/// log once, and is missing.
fn read_keyspace(name: &str, stored: Bytes, before: Option<&KeyspaceEntry>) -> KeyspaceEntry {
    let (definition, damage) = match KeyspaceDefinition::decode(name, &stored) {
        Ok(definition) => (definition, None),
        Err(error) => {
            let cause = error.message;
            tracing::error!(keyspace = name, cause, "a keyspace cannot be altered");
            let keyspace = Keyspace {
                name: name.to_owned(),
                replication: Vec::new(),
                durable_writes: true,
            };
            let empty = KeyspaceDefinition {
                keyspace,
                types: Types::new(),
                lost: Vec::new(),
            };
            (empty, Some(cause))
        }
    };
    let told = before.map_or(&[][..], |before| &before.lost_types);
    for lost in definition.lost.iter().filter(|lost| !told.contains(lost)) {
        let (user_type, cause) = (lost.name(), &lost.why);
        tracing::error!(
            keyspace = name,
            user_type,
            cause,
            "a type cannot be used until it is dropped and made again"
        );
    }
    KeyspaceEntry {
        keyspace: definition.keyspace,
        types: definition.types,
        lost_types: definition.lost,
        damage,
        relations: BTreeMap::new(),
        damaged: BTreeMap::new(),
        stored: Some(stored),
    }
}

/// What is in a keyspace: what can be read, and what cannot.
type Loaded = (
    BTreeMap<String, Arc<Relation>>,
    BTreeMap<String, Arc<DamagedRelation>>,
);

async fn load_relations(
    store: &Store,
    keyspace: &str,
    before: Option<&KeyspaceEntry>,
    digest: &mut Md5,
) -> Result<Loaded> {
    let (mut relations, mut damaged) = (BTreeMap::new(), BTreeMap::new());
    let mut from = String::new();
    loop {
        let page = store
            .describe_containers(API, keyspace, &from, PAGE)
            .await?;
        let is_last = page.len() < PAGE;
        for (name, definition) in page {
            let name = name.container;
            from = format!("{name}\0");
            let read = definition.map_err(|error| error.to_string());
            // Without bytes, if the core cannot read it either.
            let schema = read.as_ref().map(|it| it.schema.clone());
            let schema = schema.unwrap_or_default();
            add(digest, &name, &schema);
            let known = before.and_then(|before| before.relation(&name));
            if let Some(known) = known.filter(|known| is_of(known, &schema)) {
                relations.insert(name, Arc::clone(known));
                continue;
            }
            let known = before.and_then(|before| before.damaged(&name));
            if let Some(known) = known.filter(|known| known.schema == schema) {
                damaged.insert(name, Arc::clone(known));
                continue;
            }
            let decoded = read.and_then(|_| {
                let decoded = decode(keyspace, &name, schema.clone());
                decoded.map_err(|error| error.message)
            });
            match decoded {
                Ok(relation) => {
                    relations.insert(name, Arc::new(relation));
                }
                Err(why) => {
                    tracing::error!(
                        keyspace,
                        table = name,
                        cause = why,
                        "a table cannot be used until it is dropped and made again"
                    );
                    damaged.insert(name, Arc::new(DamagedRelation { schema, why }));
                }
            }
        }
        if is_last {
            return Ok((relations, damaged));
        }
    }
}

fn is_of(relation: &Relation, bytes: &Bytes) -> bool {
    matches!(&relation.place, Place::Stored { schema, .. } if schema == bytes)
}

fn decode(keyspace: &str, name: &str, schema: Bytes) -> Result<Relation> {
    let (table, view, views) = match schema::Relation::decode(&schema)? {
        schema::Relation::Table(table, views) => (table, None, views),
        schema::Relation::View(view) => (view.table.clone(), Some(Arc::new(view)), Vec::new()),
    };
    let name = container_name(keyspace, name);
    Ok(Relation {
        table: Arc::new(table),
        place: Place::Stored { name, schema },
        view,
        views,
    })
}

fn add(digest: &mut Md5, name: &str, bytes: &[u8]) {
    digest.update(name.as_bytes());
    digest.update([0]);
    digest.update((bytes.len() as u64).to_be_bytes());
    digest.update(bytes);
}

/// Gives a hash the bits that tell UUIDs made of hashes from others.
pub(crate) fn mark_as_hash(uuid: &mut [u8; 16]) {
    let [_, _, _, _, _, _, version, _, variant, ..] = uuid;
    *version = (*version & 0x0f) | 0x30;
    *variant = (*variant & 0x3f) | 0x80;
}
