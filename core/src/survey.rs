//! A survey: every item of a container, read page by page without charges.
//!
//! Each page is read at its own snapshot, so a survey blocks nothing and no snapshot grows old. An
//! item that changes meanwhile is seen once, before or after the change.

use std::sync::Arc;

use crate::container::Container;
use crate::engine::Scan;
use crate::error::{Error, Result};
use crate::item::Item;
use crate::key;
use crate::locator::RowKind;
use crate::model::ScalarRef;
use crate::name::ContainerName;
use crate::store::Store;
use crate::walk;

/// A reading of one container, page by page.
pub struct Survey {
    store: Store,
    container: Arc<Container>,
    next: Option<Scan>,
}

impl Store {
    /// Begins to read all items of a container.
    pub async fn survey(&self, name: &ContainerName) -> Result<Survey> {
        let container = self.begin().await?.container(name).await?;
        let next = Some(Scan::new(key::items(container.storage())).in_passing());
        Ok(Survey {
            store: self.clone(),
            container,
            next,
        })
    }
}

impl Survey {
    /// The container, as it was when the reading began.
    pub fn container(&self) -> &Container {
        &self.container
    }

    /// The next items in the order of their tokens, which may be none; no page after the last one.
    pub async fn next(&mut self) -> Result<Option<Vec<Item>>> {
        let Some(scan) = self.next.take() else {
            return Ok(None);
        };
        let mut transaction = self.store.begin().await?;
        let now = transaction.container(&self.container.name).await?;
        if now.storage() != self.container.storage() {
            return Err(Error::Unavailable(format!(
                "container '{}' was moved while it was read; begin again",
                self.container.name
            )));
        }
        let page = transaction.scan_keys(&scan).await?;
        if let (true, Some((last, _))) = (page.more, page.entries.last()) {
            self.next = Some(scan.after(last));
        }
        let mut items = Vec::with_capacity(page.entries.len());
        for (key, value) in page.entries {
            // An unreadable item is skipped.
            let Some(item) = walk::readable_item(&key, value) else {
                continue;
            };
            if item.locator.kind == RowKind::Row && !item.is_expired(transaction.now_ms()) {
                items.push(item);
            }
        }
        Ok(Some(items))
    }
}

impl Container {
    /// The fields that its partition key is made of, if it is made of fields.
    pub fn key_fields(&self) -> Vec<String> {
        self.model.partition_key_fields(&self.definition)
    }

    /// Calls a visitor with each scalar of an item and its path. Returns whether users see the item
    /// as a record of its own.
    pub fn describe(
        &self,
        item: &Item,
        visit: &mut dyn FnMut(&str, ScalarRef<'_>),
    ) -> Result<bool> {
        self.model.describe(&self.definition, item, visit)
    }
}
