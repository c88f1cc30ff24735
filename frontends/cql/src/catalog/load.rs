//! Reads the catalog from the core.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use md5::{Digest as _, Md5};
use tessera_core::Store;

use super::{Catalog, KeyspaceEntry, Place, Relation, container_name};
use crate::API;
use crate::error::Result;
use crate::schema::{self, decode_keyspace};
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
        let (keyspace, types) = match known {
            Some(known) if known.stored.as_ref() == Some(&stored) => {
                (known.keyspace.clone(), known.types.clone())
            }
            _ => decode_keyspace(&name, &stored)?,
        };
        let relations = load_relations(store, &name, known.map(Arc::as_ref), &mut digest).await?;
        let entry = KeyspaceEntry {
            keyspace,
            types,
            relations,
            stored: Some(stored),
        };
        keyspaces.insert(name, Arc::new(entry));
    }
    let mut version: [u8; 16] = digest.finalize().into();
    mark_as_hash(&mut version);
    Ok(Catalog { keyspaces, version })
}

async fn load_relations(
    store: &Store,
    keyspace: &str,
    before: Option<&KeyspaceEntry>,
    digest: &mut Md5,
) -> Result<BTreeMap<String, Arc<Relation>>> {
    let mut relations = BTreeMap::new();
    let mut from = String::new();
    loop {
        let page = store
            .describe_containers(API, keyspace, &from, PAGE)
            .await?;
        let is_last = page.len() < PAGE;
        for (name, definition) in page {
            let name = name.container;
            from = format!("{name}\0");
            // A table whose definition cannot be read is missing alone.
            let Ok(definition) = definition else {
                continue;
            };
            let schema = definition.schema;
            add(digest, &name, &schema);
            let known = before.and_then(|before| before.relation(&name));
            let relation = match known {
                Some(known) if is_of(known, &schema) => Arc::clone(known),
                _ => Arc::new(decode(keyspace, &name, schema)?),
            };
            relations.insert(name, relation);
        }
        if is_last {
            return Ok(relations);
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
