//! Statements that were prepared: parsed and planned once, for all connections.
//!
//! An id is a hash of the text, so that every server gives a statement the same one. A statement
//! whose definitions have changed is planned again when it is next used. The statements that were
//! not used for longest are forgotten when their texts take too much room.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use md5::{Digest as _, Md5};
use tessera_core::memory_budget::{Grant, MemoryBudget, Purpose};

use crate::catalog::Catalog;
use crate::error::Result;
use crate::parser::parse;
use crate::plan::{self, Plan};
use crate::statement::{Parsed, Statement};
use crate::wire::ColumnSpec;

/// How a prepared statement is named.
pub(crate) type Id = [u8; 16];

/// A statement that was prepared.
pub(crate) struct Prepared {
    pub(crate) id: Id,
    pub(crate) query: String,
    /// The keyspace of names without one.
    pub(crate) keyspace: Option<Arc<str>>,
    pub(crate) parsed: Arc<Parsed>,
    /// The columns of its rows when it was prepared, which is what clients of versions before 5 go
    /// by.
    first_columns: Option<Arc<[ColumnSpec]>>,
    /// None for statements that are not on rows, which are not planned.
    planned: Option<Mutex<Planned>>,
}

/// A plan, and the catalog that it was made with.
#[derive(Clone)]
struct Planned {
    plan: Arc<Plan>,
    catalog: [u8; 16],
    result_metadata_id: Id,
}

/// A plan that may be run now.
pub(crate) struct Current {
    pub(crate) plan: Arc<Plan>,
    /// Names the columns of its rows. From version 5 clients say which ones they know.
    pub(crate) result_metadata_id: Id,
    /// Whether the columns are those that it was prepared with.
    pub(crate) has_first_columns: bool,
}

impl Prepared {
    /// Parses and plans a statement.
    pub(crate) fn new(query: &str, keyspace: Option<&str>, catalog: &Catalog) -> Result<Self> {
        let parsed = parse(query)?;
        let planned = match is_on_rows(&parsed.statement) {
            true => Some(Planned::new(&parsed, catalog, keyspace)?),
            false => None,
        };
        let keyspace = keyspace.filter(|_| !is_qualified(&parsed.statement));
        let columns = planned.as_ref().map(|planned| &planned.plan.result_columns);
        Ok(Self {
            id: id_of(query, keyspace),
            query: query.to_owned(),
            keyspace: keyspace.map(Into::into),
            parsed: Arc::new(parsed),
            first_columns: columns.cloned().flatten(),
            planned: planned.map(Mutex::new),
        })
    }

    /// The plan that fits the catalog in force; none of a statement that is not planned.
    pub(crate) fn current(&self, catalog: &Catalog) -> Result<Option<Current>> {
        let Some(kept) = &self.planned else {
            return Ok(None);
        };
        let mut planned = lock(kept).clone();
        if planned.catalog != catalog.version {
            planned = Planned::new(&self.parsed, catalog, self.keyspace.as_deref())?;
            *lock(kept) = planned.clone();
        }
        let is_first = match (&planned.plan.result_columns, &self.first_columns) {
            (Some(now), Some(first)) => Arc::ptr_eq(now, first) || now == first,
            (None, None) => true,
            _ => false,
        };
        Ok(Some(Current {
            plan: planned.plan,
            result_metadata_id: planned.result_metadata_id,
            has_first_columns: is_first,
        }))
    }

    /// About how much room it takes.
    fn size(&self) -> usize {
        const EACH: usize = 2_048;
        // The parsed statement and the plan grow with the text.
        EACH + self.query.len() * 8
    }
}

impl Planned {
    fn new(parsed: &Parsed, catalog: &Catalog, keyspace: Option<&str>) -> Result<Self> {
        let plan = plan::prepare(parsed, catalog, keyspace)?;
        Ok(Self {
            result_metadata_id: metadata_id(plan.result_columns.as_deref()),
            catalog: catalog.version,
            plan: Arc::new(plan),
        })
    }
}

fn lock(planned: &Mutex<Planned>) -> MutexGuard<'_, Planned> {
    planned.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a statement reads or writes rows, and so has a plan.
pub(crate) fn is_on_rows(statement: &Statement) -> bool {
    matches!(
        statement,
        Statement::Select(_)
            | Statement::Insert(_)
            | Statement::InsertJson(_)
            | Statement::Update(_)
            | Statement::Delete(_)
            | Statement::Batch(_)
    )
}

/// The id of a statement.
fn id_of(query: &str, keyspace: Option<&str>) -> Id {
    let mut digest = Md5::new();
    if let Some(keyspace) = keyspace {
        digest.update(keyspace.as_bytes());
    }
    digest.update(query.as_bytes());
    digest.finalize().into()
}

/// Whether every table of a statement is named with its keyspace, so that the session's does not
/// matter.
fn is_qualified(statement: &Statement) -> bool {
    match statement {
        Statement::Select(select) => select.table.keyspace.is_some(),
        Statement::Insert(insert) => insert.table.keyspace.is_some(),
        Statement::InsertJson(insert) => insert.table.keyspace.is_some(),
        Statement::Update(update) => update.table.keyspace.is_some(),
        Statement::Delete(delete) => delete.table.keyspace.is_some(),
        Statement::Batch(batch) => batch.statements.iter().all(is_qualified),
        _ => false,
    }
}

/// Names columns: the same ones have the same name everywhere.
fn metadata_id(columns: Option<&[ColumnSpec]>) -> Id {
    let mut digest = Md5::new();
    for column in columns.unwrap_or_default() {
        digest.update(column.name.as_bytes());
        digest.update([0]);
        digest.update(column.data_type.to_string().as_bytes());
        digest.update([0, 0]);
    }
    digest.finalize().into()
}

/// The statements that are kept.
pub(crate) struct PreparedStatements {
    kept: Mutex<Kept>,
    limit: usize,
    memory: MemoryBudget,
}

struct Kept {
    grant: Grant,
    by_id: HashMap<Id, (Arc<Prepared>, u64)>,
    bytes: usize,
    /// Counts uses, to tell which were longest ago.
    clock: u64,
}

impl PreparedStatements {
    /// None yet, of which all take at most so many bytes, and a sixteenth of this memory.
    pub(crate) fn new(limit: usize, memory: MemoryBudget) -> Self {
        Self {
            kept: Mutex::new(Kept {
                grant: Grant::new(Purpose::Plans, 0),
                by_id: HashMap::new(),
                bytes: 0,
                clock: 0,
            }),
            limit: limit.min(memory.limit() / 16),
            memory,
        }
    }

    /// Keeps a statement, and forgets others if there is no room.
    pub(crate) fn keep(&self, prepared: Prepared) -> Arc<Prepared> {
        let prepared = Arc::new(prepared);
        let mut kept = self.kept();
        kept.clock += 1;
        let entry = (Arc::clone(&prepared), kept.clock);
        kept.bytes += prepared.size();
        if let Some((before, _)) = kept.by_id.insert(prepared.id, entry) {
            kept.bytes -= before.size();
        }
        if kept.bytes > self.limit {
            kept.shrink(self.limit, prepared.id);
        }
        let bytes = kept.bytes;
        if kept.grant.cover(&self.memory, bytes).is_err() {
            kept.shrink(bytes / 2, prepared.id);
        }
        let bytes = kept.bytes;
        kept.grant.shrink(bytes);
        prepared
    }

    /// The statement of this id.
    pub(crate) fn find(&self, id: &[u8]) -> Option<Arc<Prepared>> {
        let id: Id = id.try_into().ok()?;
        let mut kept = self.kept();
        kept.clock += 1;
        let now = kept.clock;
        let (prepared, used) = kept.by_id.get_mut(&id)?;
        *used = now;
        Some(Arc::clone(prepared))
    }

    /// Forgets a statement that can no longer be planned.
    pub(crate) fn forget(&self, id: &Id) {
        let mut kept = self.kept();
        if let Some((prepared, _)) = kept.by_id.remove(id) {
            kept.bytes -= prepared.size();
        }
    }

    /// All statements.
    pub(crate) fn all(&self) -> Vec<Arc<Prepared>> {
        let kept = self.kept();
        let all = kept.by_id.values();
        all.map(|(prepared, _)| Arc::clone(prepared)).collect()
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    /// Forgets the older half at once, so that it happens rarely.
    fn shrink(&mut self, limit: usize, newest: Id) {
        let mut by_use: Vec<(u64, Id)> = self
            .by_id
            .iter()
            .map(|(id, (_, used))| (*used, *id))
            .collect();
        by_use.sort_unstable();
        for (_, id) in by_use {
            if self.bytes <= limit / 2 || id == newest {
                break;
            }
            if let Some((prepared, _)) = self.by_id.remove(&id) {
                self.bytes -= prepared.size();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prepared(number: usize) -> Prepared {
        let query = format!("BEGIN BATCH APPLY BATCH;{}", ";".repeat(number));
        Prepared::new(&query, None, &Catalog::empty()).unwrap()
    }

    #[test]
    fn ids_are_those_of_cassandra() {
        let hex = |id: Id| format!("{:032x}", u128::from_be_bytes(id));
        assert_eq!(hex(id_of("a", None)), "0cc175b9c0f1b6a831c399e269772661");
        assert_eq!(id_of("b", Some("a")), id_of("ab", None));
        assert_eq!(hex(metadata_id(None)), "d41d8cd98f00b204e9800998ecf8427e");
    }

    #[test]
    fn what_was_not_used_for_longest_is_forgotten() {
        let size = prepared(0).size();
        let statements = PreparedStatements::new(size * 10, MemoryBudget::unlimited());
        let ids: Vec<Id> = (0..9).map(|n| statements.keep(prepared(n)).id).collect();
        assert!(statements.find(&ids[0]).is_some());
        let last = statements.keep(prepared(30));
        assert!(statements.find(&last.id).is_some());
        assert!(statements.find(&ids[0]).is_some());
        assert!(statements.find(&ids[1]).is_none());
        assert!(statements.kept().bytes <= size * 10);
        statements.forget(&last.id);
        assert!(statements.find(&last.id).is_none());
        assert!(statements.find(b"short").is_none());
    }
}
