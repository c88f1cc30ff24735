//! Fills a view with the rows that its base table had before.

use std::sync::Arc;

use bytes::Bytes;
use tessera_core::Store;
use tessera_core::continuation::Continuation;
use tessera_core::reading::{PageRequest, Span};

use super::keys::RECORD_KEY;
use super::reader::{damaged, deletion_of, record_of};
use super::views::Views;
use super::write::open;
use crate::catalog::Relation;
use crate::failure::Failure;
use crate::plan::FollowingView;
use crate::row::{Deletion, PartitionRecord, StoredRow};

/// Rows that are copied in one transaction.
const STEP: usize = 200;

/// Fills a view of this table. Both are in the catalog already, so that writers maintain the view
/// while it is being filled.
pub(crate) async fn build_view(
    store: &Store,
    base: &Arc<Relation>,
    view: FollowingView,
) -> Result<(), Failure> {
    let view = Arc::new([view]);
    let mut after: Option<Continuation> = None;
    loop {
        let done = store
            .run(&[], |transaction| {
                let (base, view, after) = (Arc::clone(base), Arc::clone(&view), after.clone());
                Box::pin(async move {
                    let container = open(transaction, &base).await?;
                    let request = PageRequest {
                        max_items: STEP,
                        continuation: after,
                        ..PageRequest::default()
                    };
                    let page = transaction.scan(&container, &Span::All, &request).await?;
                    let now_ms = transaction.now_ms();
                    let views = Views {
                        base: &base.table,
                        views: &*view,
                        now: i64::try_from(now_ms / 1_000).unwrap_or(i64::MAX),
                    };
                    let mut key = Bytes::new();
                    let mut record = PartitionRecord::default();
                    for item in &page.items {
                        let locator = &item.locator;
                        if locator.partition_key != key {
                            key = locator.partition_key.clone();
                            let mut place = locator.clone();
                            place.row_key = Bytes::from_static(RECORD_KEY);
                            let found = transaction.read(&container, &place).await?;
                            record = found
                                .as_ref()
                                .map(record_of)
                                .transpose()?
                                .unwrap_or_default();
                        }
                        if locator.row_key == RECORD_KEY {
                            continue;
                        }
                        // Who changes the row meanwhile changes the view, too.
                        transaction.guard(&container, locator).await?;
                        let stored = StoredRow::decode(&item.body).ok_or_else(damaged)?;
                        let clustering = locator.row_key.get(1..).unwrap_or_default();
                        let above = deletion_of(&record, clustering);
                        views
                            .follow(
                                transaction,
                                &key,
                                (None, Deletion::NONE),
                                (Some(&stored), above),
                            )
                            .await?;
                    }
                    Ok::<_, Failure>(page.continuation)
                })
            })
            .await?;
        match done.value {
            None => return Ok(()),
            next => after = next,
        }
    }
}
