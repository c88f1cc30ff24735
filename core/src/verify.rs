//! Verification: whether indexes, unique claims, expiry marks and statistics agree with the items.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::container::Container;
use crate::engine::Scan;
use crate::error::{Error, Result};
use crate::item::Item;
use crate::key::{self, PartitionId};
use crate::locator::Locator;
use crate::name::ContainerName;
use crate::store::Store;
use crate::transaction::Transaction;
use crate::walk::{self, Walk};
use crate::write_set::Tally;
use crate::writing::{index_entries, is_unique, tally_of};

impl Store {
    /// Reads all of a container at one moment and lists every disagreement, one sentence each. An
    /// empty list means that it is sound.
    pub async fn verify(&self, name: &ContainerName) -> Result<Vec<String>> {
        let mut transaction = self.begin().await?;
        let container = transaction.container(name).await?;
        let mut check = Check {
            transaction: &transaction,
            container: &container,
            faults: Vec::new(),
            tallies: BTreeMap::new(),
        };
        check.items().await?;
        check.tallies().await?;
        for index in &container.definition.indexes {
            check.index_entries(index.id).await?;
            check.claims(index.id).await?;
        }
        Ok(check.faults)
    }
}

struct Check<'a> {
    transaction: &'a Transaction,
    container: &'a Container,
    faults: Vec<String>,
    tallies: BTreeMap<PartitionId, Tally>,
}

impl Check<'_> {
    /// Every item has its index entries, claims and expiry mark.
    async fn items(&mut self) -> Result<()> {
        let storage = self.container.storage();
        let mut walk = Walk::new(
            self.transaction,
            Scan::new(key::items(storage)).in_passing(),
        );
        while let Some(entries) = walk.next().await? {
            for (key, value) in entries {
                let item = match walk::item(&key, value) {
                    Ok(item) => item,
                    Err(error) => {
                        self.faults.push(error.to_string());
                        continue;
                    }
                };
                let partition = self.container.partitions.locate(item.locator.token).id;
                let tally = self.tallies.entry(partition).or_default();
                *tally = tally.plus(tally_of(Some(&item)));
                self.item(&item).await?;
            }
        }
        Ok(())
    }

    async fn item(&mut self, item: &Item) -> Result<()> {
        let (storage, locator) = (self.container.storage(), &item.locator);
        if let Some(at_ms) = item.expires_at_ms {
            self.expect(
                &key::expiry(at_ms, storage, locator),
                None,
                "expiry mark",
                item,
            )
            .await?;
            if item.is_expired(self.transaction.now_ms) {
                return Ok(());
            }
        }
        for entry in index_entries(self.container, Some(item))? {
            let index = self.container.definition.index_by_id(entry.index);
            if index.is_none_or(|index| index.state != crate::definition::IndexState::Ready) {
                continue;
            }
            let key = key::index_entry(storage, entry.index, &entry.value, locator);
            self.expect(&key, Some(&entry.covered), "index entry", item)
                .await?;
            if is_unique(self.container, &entry) {
                let claim = key::claim(storage, entry.index, &entry.value);
                self.expect(&claim, Some(&locator.encode()), "unique claim", item)
                    .await?;
            }
        }
        Ok(())
    }

    async fn expect(
        &mut self,
        key: &[u8],
        value: Option<&Bytes>,
        what: &str,
        item: &Item,
    ) -> Result<()> {
        match self.transaction.get(key).await? {
            None => self
                .faults
                .push(format!("the {what} of {:?} is missing", item.locator)),
            Some(found) if value.is_some_and(|value| *value != found) => {
                self.faults.push(format!(
                    "the {what} of {:?} has another value",
                    item.locator
                ));
            }
            Some(_) => {}
        }
        Ok(())
    }

    async fn tallies(&mut self) -> Result<()> {
        for row in self.transaction.statistics(self.container).await? {
            let counted = self
                .tallies
                .get(&row.partition)
                .copied()
                .unwrap_or_default();
            if counted != row.tally {
                self.faults.push(format!(
                    "partition {} holds {counted:?} and its statistics say {:?}",
                    row.partition, row.tally
                ));
            }
        }
        Ok(())
    }

    /// Every index entry belongs to an item that has it.
    async fn index_entries(&mut self, index: key::IndexId) -> Result<()> {
        let range = key::index(self.container.storage(), index);
        let mut walk = Walk::new(self.transaction, Scan::new(range).in_passing());
        while let Some(page) = walk.next().await? {
            for (key, _) in page {
                match key::parse_index_entry(&key) {
                    Some((_, value, locator)) => self.owner(index, &value, &locator).await?,
                    None => self
                        .faults
                        .push(format!("an entry of index {index} is damaged")),
                }
            }
        }
        Ok(())
    }

    /// Every claim belongs to an item that has its value.
    async fn claims(&mut self, index: key::IndexId) -> Result<()> {
        let range = key::claims(self.container.storage(), index);
        let prefix = range.start.len();
        let mut walk = Walk::new(self.transaction, Scan::new(range).in_passing());
        while let Some(page) = walk.next().await? {
            for (key, holder) in page {
                match Locator::decode(&holder) {
                    Some(locator) => self.owner(index, &key.slice(prefix..), &locator).await?,
                    None => self
                        .faults
                        .push(format!("a claim of index {index} is damaged")),
                }
            }
        }
        Ok(())
    }

    async fn owner(&mut self, index: key::IndexId, value: &Bytes, locator: &Locator) -> Result<()> {
        let item = match self.transaction.stored(self.container, locator).await {
            // Reported already, as an item.
            Err(Error::Corrupt(_)) => return Ok(()),
            item => item?,
        };
        let entries = index_entries(self.container, item.as_ref())?;
        if !entries
            .iter()
            .any(|entry| entry.index == index && entry.value == *value)
        {
            self.faults.push(format!(
                "index {index} has a value of {locator:?} that it has not"
            ));
        }
        Ok(())
    }
}
