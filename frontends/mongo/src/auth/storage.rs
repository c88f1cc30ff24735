//! Storage of users and roles: two ordinary collections of `admin`, keyed by `_id`.

use bson::{Bson, Document, doc};
use bytes::Bytes;
use tessera_core::definition::NewContainer;
use tessera_core::encoding::take_bytes;
use tessera_core::item::NewItem;
use tessera_core::locator::Locator;
use tessera_core::name::ContainerName;
use tessera_core::reading::{PageRequest, Span};
use tessera_core::{Error, Store, Transaction};
use tessera_mongo_language::collation::Collation;
use tessera_mongo_language::key;

use crate::API;
use crate::failure::{Failure, Result};

/// What is stored of a user or a role: its document, or why it is none.
pub(super) type Stored = bson::error::Result<Document>;

/// How often a change is tried while others change the same.
const ATTEMPTS: usize = 100;

/// A collection of users or roles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kept {
    Users,
    Roles,
}

impl Kept {
    fn container(self) -> ContainerName {
        let name = match self {
            Self::Users => "system.users",
            Self::Roles => "system.roles",
        };
        ContainerName::new(API, "admin", name)
    }

    /// The document of this `_id`, or why it is none.
    pub(super) async fn get(self, store: &Store, id: &str) -> Result<Option<Stored>> {
        let mut transaction = store.begin().await?;
        let Some(container) = there(transaction.container(&self.container()).await)? else {
            return Ok(None);
        };
        let item = transaction.read(&container, &locator(id)).await?;
        Ok(item.map(|item| Document::from_reader(item.body.as_ref())))
    }

    /// All documents, each with its `_id`.
    pub(super) async fn all(self, store: &Store) -> Result<Vec<(String, Stored)>> {
        let mut transaction = store.begin().await?;
        let Some(container) = there(transaction.container(&self.container()).await)? else {
            return Ok(Vec::new());
        };
        let mut documents = Vec::new();
        let mut page = PageRequest::default();
        loop {
            let found = transaction.scan(&container, &Span::All, &page).await?;
            for item in found.items {
                let document = Document::from_reader(item.body.as_ref());
                documents.push((id_at(&item.locator), document));
            }
            page.continuation = found.continuation;
            if page.continuation.is_none() {
                return Ok(documents);
            }
        }
    }

    /// Changes the document of this `_id`, or makes or removes it: `change` gets what is there and
    /// answers what shall be, and something for the caller.
    pub(super) async fn change<T, C>(self, store: &Store, id: &str, change: C) -> Result<T>
    where
        C: Fn(Option<Stored>) -> Result<(Option<Document>, T)> + Send + Sync,
        T: Send,
    {
        let name = self.container();
        self.create(store).await?;
        for _ in 0..ATTEMPTS {
            let mut transaction = store.begin().await?;
            let value = replace(&mut transaction, &name, &locator(id), &change).await?;
            match transaction.commit().await {
                Ok(_) => return Ok(value),
                // Someone else changed the same user just now.
                Err(Error::Conflict) => tokio::task::yield_now().await,
                Err(error) => return Err(error.into()),
            }
        }
        Err(Error::Conflict.into())
    }

    async fn create(self, store: &Store) -> Result<()> {
        let name = self.container();
        let there = there(store.begin().await?.container(&name).await)?;
        if there.is_some() {
            return Ok(());
        }
        let schema = doc! { "uuid": bson::Uuid::new(), "options": {}, "indexes": [] };
        let new = NewContainer {
            schema: schema.to_vec()?.into(),
            ..NewContainer::default()
        };
        match store.create_container(&name, &new).await {
            Ok(_) | Err(Error::AlreadyExists(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

async fn replace<T, C>(
    transaction: &mut Transaction,
    name: &ContainerName,
    place: &Locator,
    change: &C,
) -> Result<T>
where
    C: Fn(Option<Stored>) -> Result<(Option<Document>, T)> + Send + Sync,
{
    let container = transaction.container(name).await?;
    let old = transaction.read(&container, place).await?;
    let document = old
        .as_ref()
        .map(|old| Document::from_reader(old.body.as_ref()));
    let (new, value) = change(document)?;
    match (old, new) {
        (None, None) => {}
        (Some(old), None) => transaction.remove(&container, &old).await?,
        (_, Some(new)) => {
            let item = NewItem {
                locator: place.clone(),
                body: new.to_vec()?.into(),
                expires_at_ms: None,
            };
            transaction.upsert(&container, item).await?;
        }
    }
    Ok(value)
}

/// Where collections that are not sharded keep the document of this `_id`.
pub(super) fn locator(id: &str) -> Locator {
    const UNSHARDED_TOKEN: i64 = 0;
    let row_key = key::encode(&Bson::from(id), &Collation::default());
    Locator::row(UNSHARDED_TOKEN, Bytes::new(), row_key)
}

/// The `_id` of what lies there: after a byte for the type, its text.
fn id_at(place: &Locator) -> String {
    let mut rest = place.row_key.get(1..).unwrap_or_default();
    let text = take_bytes(&mut rest).unwrap_or_default();
    String::from_utf8_lossy(&text).into_owned()
}

/// A container that may be missing.
fn there<T>(found: tessera_core::Result<T>) -> std::result::Result<Option<T>, Failure> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(Error::NotFound(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
