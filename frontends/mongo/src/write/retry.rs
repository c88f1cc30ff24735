//! Writes that a client may send again: what each statement of a session's latest numbered command
//! did, stored by the same transaction that did it. A statement that was done is not done twice;
//! its first answer is given again, also after a restart.

use std::collections::BTreeMap;
use std::sync::Arc;

use bson::{Bson, Document, doc};
use tessera_core::container::Container;
use tessera_core::definition::NewContainer;
use tessera_core::item::{Item, NewItem};
use tessera_core::locator::Locator;
use tessera_core::name::ContainerName;
use tessera_core::{Error as CoreError, Transaction};
use tessera_mongo_language::error::{Code, Error};

use crate::data::Data;
use crate::execute::decode;
use crate::failure::Result;
use crate::logical::SessionId;
use crate::request::Request;

/// The API under which the server keeps what no client sees.
const SYSTEM_API: &str = "mongo-system";
/// How long a record is kept at least.
const KEPT_MS: u64 = 30 * 60 * 1_000;
/// Records expire at multiples of this, so that a busy session does not write its mark each time.
const EXPIRY_STEP_MS: u64 = 30 * 60 * 1_000;

/// A numbered command of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Numbered {
    session: SessionId,
    number: i64,
}

impl Numbered {
    /// The number of a command that may be sent again; none if it has none.
    pub(crate) fn of(request: &Request<'_>) -> Option<Self> {
        if !request.is_retryable_write() {
            return None;
        }
        Some(Self {
            session: request.generic.session?,
            number: request.generic.transaction_number?,
        })
    }
}

/// What is known of a numbered command.
pub(crate) struct Record {
    numbered: Numbered,
    container: Arc<Container>,
    stored: Option<Item>,
    /// The answers of its statements.
    done: BTreeMap<i32, Document>,
}

impl Record {
    /// Reads what a transaction knows of a numbered command. [`Code::TRANSACTION_TOO_OLD`] if its
    /// session has begun a later one.
    pub(crate) async fn load(
        data: &Data,
        transaction: &mut Transaction,
        numbered: Numbered,
    ) -> Result<Self> {
        let container = container(data, transaction).await?;
        let stored = transaction
            .read(&container, &locator(numbered.session))
            .await?;
        let mut done = BTreeMap::new();
        if let Some(item) = &stored {
            let record = decode(&item.body)?;
            let number = record.get_i64("n").unwrap_or(i64::MIN);
            if number > numbered.number {
                return Err(too_old(numbered.number, number).into());
            }
            if number == numbered.number {
                done = statements(&record);
            }
        }
        Ok(Self {
            numbered,
            container,
            stored,
            done,
        })
    }

    /// The answer that a statement got, if it was done.
    pub(crate) fn answer(&self, statement: i32) -> Option<&Document> {
        self.done.get(&statement)
    }

    /// Notes the answer of a statement that was done just now.
    pub(crate) fn note(&mut self, statement: i32, answer: Document) {
        self.done.insert(statement, answer);
    }

    /// Stores the record with what its transaction did.
    pub(crate) async fn save(self, transaction: &mut Transaction) -> Result<()> {
        let statements = self.done.into_iter().map(|(statement, answer)| {
            Bson::Array(vec![Bson::Int32(statement), Bson::Document(answer)])
        });
        let record = doc! { "n": self.numbered.number, "s": statements.collect::<Vec<_>>() };
        let body = crate::batch::encode(&record)?;
        let expiry = (transaction.now_ms() + KEPT_MS).next_multiple_of(EXPIRY_STEP_MS);
        let new = NewItem::new(locator(self.numbered.session), body).expiring_at(expiry);
        match &self.stored {
            Some(old) => transaction.replace(&self.container, old, new).await?,
            None => transaction.upsert(&self.container, new).await?,
        };
        Ok(())
    }
}

fn statements(record: &Document) -> BTreeMap<i32, Document> {
    let all = record.get_array("s").ok().into_iter().flatten();
    let one = |entry: &Bson| match entry.as_array()?.as_slice() {
        [Bson::Int32(statement), Bson::Document(answer)] => Some((*statement, answer.clone())),
        _ => None,
    };
    all.filter_map(one).collect()
}

fn locator(session: SessionId) -> Locator {
    Locator::murmur3(session.0.to_vec(), Vec::new())
}

fn name() -> ContainerName {
    ContainerName::new(SYSTEM_API, "sessions", "writes")
}

/// Where records are kept; made when the first is.
async fn container(data: &Data, transaction: &mut Transaction) -> Result<Arc<Container>> {
    match transaction.container(&name()).await {
        Err(CoreError::NotFound(_)) => {}
        found => return Ok(found?),
    }
    match data
        .store
        .create_container(&name(), &NewContainer::default())
        .await
    {
        // The transaction is older than the container: it begins anew and finds it.
        Ok(_) | Err(CoreError::AlreadyExists(_)) => Err(CoreError::Conflict.into()),
        Err(error) => Err(error.into()),
    }
}

fn too_old(number: i64, latest: i64) -> Error {
    let message = format!(
        "Retryable write with txnNumber {number} is prohibited on session because a newer \
         retryable write with txnNumber {latest} has already started on this session."
    );
    Error::new(Code::TRANSACTION_TOO_OLD, message)
}
