//! Updates and deletions by a query: one document, or all in steps.

use std::collections::HashSet;
use std::sync::Arc;

use bson::{Bson, Document};
use tessera_core::Transaction;
use tessera_core::deadline;
use tessera_core::locator::Locator;
use tessera_mongo_language::error::Code;
use tessera_mongo_language::update::Update;

use crate::data::Data;
use crate::execute::query::Query;
use crate::execute::scanner::Counts;
use crate::execute::{Execution, Row, decode};
use crate::failure::{Failure, Result};
use crate::sharding::check_unmoved;
use crate::write::document::NewDocument;
use crate::write::store;
use crate::write::target::Target;

/// Documents that one transaction changes, of a statement that changes many.
pub(crate) const STEP: u64 = 500;

/// What to do to the documents that a query finds.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) query: Arc<Query>,
    pub(crate) kind: Kind,
    /// All of them, or the first.
    pub(crate) multi: bool,
    pub(crate) bypass_validation: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum Kind {
    Update {
        update: Arc<Update>,
        /// Whether to insert a document if there is none to change.
        upsert: bool,
        /// The document to insert then, if the client brought one.
        supplied: Option<Document>,
    },
    Delete,
}

/// What was done.
#[derive(Clone, Debug, Default)]
pub(crate) struct Changed {
    /// Documents that were found.
    pub(crate) matched: u64,
    /// Documents that are another than before.
    pub(crate) modified: u64,
    /// The `_id` of a document that was inserted.
    pub(crate) upserted: Option<Bson>,
    /// The last document as it was, and as it is.
    pub(crate) before: Option<Document>,
    pub(crate) after: Option<Document>,
    /// The position in an array where the filter matched the last document.
    pub(crate) position: Option<usize>,
    pub(crate) counts: Counts,
}

/// A change of many documents between two of its transactions.
#[derive(Clone)]
pub(crate) struct Progress {
    execution: Execution,
    /// Where documents were put, which the search may meet again.
    written: HashSet<Locator>,
    pub(crate) is_done: bool,
}

impl Change {
    /// Begins the search.
    pub(crate) async fn begin(
        &self,
        transaction: &mut Transaction,
        target: &Target,
    ) -> Result<Progress> {
        let plan = self
            .query
            .plan(transaction, &target.container, &target.collection)
            .await?;
        Ok(Progress {
            execution: Execution::new(Arc::clone(&self.query), plan),
            written: HashSet::new(),
            is_done: false,
        })
    }

    /// Changes the next documents, at most `most`.
    pub(crate) async fn step(
        &self,
        data: &Data,
        transaction: &mut Transaction,
        target: &Target,
        (progress, most): (&mut Progress, u64),
    ) -> Result<Changed> {
        let mut changed = Changed::default();
        let most = if self.multi { most } else { 1 };
        while changed.matched < most {
            let wanted = usize::try_from(most - changed.matched).unwrap_or(1);
            let container = &target.container;
            let found = progress
                .execution
                .next(transaction, container, wanted)
                .await?;
            let Some(row) = found else {
                break;
            };
            self.change_row(data, transaction, target, (progress, &mut changed, row))
                .await?;
            deadline::pause().await;
        }
        progress.is_done = !self.multi || changed.matched < most;
        changed.counts = progress.execution.counts();
        Ok(changed)
    }

    async fn change_row(
        &self,
        data: &Data,
        transaction: &mut Transaction,
        target: &Target,
        (progress, changed, row): (&mut Progress, &mut Changed, Row),
    ) -> Result<()> {
        let (Some(item), position) = (row.item.clone(), row.position) else {
            return Ok(());
        };
        if progress.written.contains(&item.locator) {
            return Ok(());
        }
        let before = row.into_document()?;
        changed.matched += 1;
        changed.position = position;
        match &self.kind {
            Kind::Delete => {
                store::remove(transaction, target, &item).await?;
                changed.modified += 1;
            }
            Kind::Update { update, .. } => {
                let applied = update.apply(before.clone(), position, false)?;
                let (after, manner) = (applied.document, applied.manner);
                if applied.modified {
                    if let (Some(key), false) = (&target.collection.shard_key, target.may_move) {
                        check_unmoved(key, &before, &after)?;
                    }
                    let old = (&item, &before);
                    let new = (&after, &manner, self.bypass_validation);
                    let stored = store::replace(data, transaction, target, old, new).await?;
                    changed.modified += 1;
                    if self.multi {
                        progress.written.insert(stored.locator);
                    }
                }
                changed.after = Some(after);
            }
        }
        changed.before = Some(before);
        Ok(())
    }

    /// Changes the document at `locator`, which is all that the query can find.
    pub(crate) async fn change_one(
        &self,
        data: &Data,
        transaction: &mut Transaction,
        target: &Target,
    ) -> Result<Changed> {
        let mut progress = self.begin(transaction, target).await?;
        let mut changed = self
            .step(data, transaction, target, (&mut progress, 1))
            .await?;
        if changed.matched == 0 {
            self.upsert(data, transaction, target, &mut changed).await?;
        }
        Ok(changed)
    }

    /// Inserts the document that an update makes of nothing, if it is to.
    pub(crate) async fn upsert(
        &self,
        data: &Data,
        transaction: &mut Transaction,
        target: &Target,
        changed: &mut Changed,
    ) -> Result<()> {
        let Kind::Update {
            update,
            upsert: true,
            supplied,
        } = &self.kind
        else {
            return Ok(());
        };
        let mut document = match supplied {
            Some(supplied) => supplied.clone(),
            None => {
                let seed = update.upsert_seed(&self.query.filter)?;
                update.apply(seed, None, true)?.document
            }
        };
        if !document.contains_key("_id") {
            let mut with_id = Document::new();
            with_id.insert("_id", bson::oid::ObjectId::new());
            with_id.extend(document);
            document = with_id;
        }
        let new = NewDocument::updated(&document)?;
        let bypass = self.bypass_validation;
        let item = store::insert(data, transaction, target, &new, bypass).await?;
        changed.upserted = Some(new.id);
        changed.after = Some(decode(&item.body)?);
        Ok(())
    }
}

impl Changed {
    /// Adds what a later step did.
    pub(crate) fn add(&mut self, later: Self) {
        self.matched += later.matched;
        self.modified += later.modified;
        self.upserted = self.upserted.take().or(later.upserted);
        self.counts = later.counts;
    }
}

/// Whether an upsert lost a race for its `_id`, so that what it looked for is there now.
pub(crate) fn lost_race(change: &Change, failure: &Failure) -> bool {
    let upsert = matches!(change.kind, Kind::Update { upsert: true, .. });
    upsert && failure.code() == Code::DUPLICATE_KEY
}
