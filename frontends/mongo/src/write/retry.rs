//! Retryable writes: the result of each statement of a session's latest numbered command, stored by
//! the transaction that executed it. A retried statement is not executed twice; its first result is
//! returned, also after a restart.

use std::collections::BTreeMap;
use std::sync::Arc;

use bson::{Bson, Document, RawBsonRef, RawDocument, doc};
use tessera_core::container::Container;
use tessera_core::definition::NewContainer;
use tessera_core::item::{Item, NewItem};
use tessera_core::locator::Locator;
use tessera_core::name::ContainerName;
use tessera_core::{Error as CoreError, Transaction};
use tessera_mongo_language::error::{Code, Error};

use crate::data::Data;
use crate::execute::{damaged, decode};
use crate::failure::{Failure, Result};
use crate::logical::SessionKey;
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
    pub(crate) session: SessionKey,
    pub(crate) number: i64,
}

impl Numbered {
    /// The number of a command that may be sent again; none if it has none.
    pub(crate) fn of(request: &Request<'_>) -> Option<Self> {
        if !request.is_retryable_write() {
            return None;
        }
        Some(Self {
            session: request.session()?,
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
    /// How the transaction of this number ended, if it was one.
    ended: Option<Ended>,
}

/// How a transaction of several statements ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    Committed,
    Aborted,
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
        let (mut done, mut ended) = (BTreeMap::new(), None);
        if let Some(item) = &stored {
            let number = number_of(&item.body)?;
            if number > numbered.number {
                return Err(too_old(numbered.number, number).into());
            }
            // Mostly it is of the command before, of which nothing more is asked.
            if number == numbered.number {
                let record = decode(&item.body)?;
                done = statements(&record);
                let committed = record.get_bool("c").ok();
                ended = committed.map(|yes| {
                    if yes {
                        Ended::Committed
                    } else {
                        Ended::Aborted
                    }
                });
            }
        }
        Ok(Self {
            numbered,
            container,
            stored,
            done,
            ended,
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
        let mut record = doc! { "n": self.numbered.number, "s": statements.collect::<Vec<_>>() };
        if let Some(ended) = self.ended {
            record.insert("c", ended == Ended::Committed);
        }
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

/// Makes sure that records can be kept: a transaction must be younger than where they are.
pub(crate) async fn prepare(data: &Data) -> Result<()> {
    let mut transaction = data.store.begin().await?;
    match container(data, &mut transaction).await {
        Err(failure) if failure.code() != Code::WRITE_CONFLICT => Err(failure),
        _ => Ok(()),
    }
}

/// Lets a transaction record its own commit.
pub(crate) async fn record_commit(
    data: &Data,
    transaction: &mut Transaction,
    numbered: Numbered,
) -> Result<()> {
    let mut record = Record::load(data, transaction, numbered).await?;
    if record.ended.is_some() {
        return Err(CoreError::Conflict.into());
    }
    record.ended = Some(Ended::Committed);
    record.save(transaction).await
}

/// Whether a transaction is known to be committed.
pub(crate) async fn committed(data: &Data, numbered: Numbered) -> Result<bool> {
    prepare(data).await?;
    let mut transaction = data.store.begin().await?;
    let record = Record::load(data, &mut transaction, numbered).await?;
    Ok(record.ended == Some(Ended::Committed))
}

/// Finds out whether a transaction was committed, for good: one that was not gets a record that its
/// commit, should it still be under way, conflicts with.
pub(crate) async fn fence(data: &Data, numbered: Numbered) -> Result<bool> {
    let handle = data.clone();
    let outcome = data.store.run(&[], move |transaction| {
        let data = handle.clone();
        Box::pin(async move {
            let mut record = Record::load(&data, transaction, numbered).await?;
            if record.ended.is_none() {
                record.ended = Some(Ended::Aborted);
                record.save(transaction).await?;
                return Ok::<_, Failure>(false);
            }
            Ok(record.ended == Some(Ended::Committed))
        })
    });
    Ok(outcome.await?.value)
}

/// Waits until everything that was answered before is on disk: what is written after it, and must
/// be there, is so no sooner.
pub(crate) async fn flush(data: &Data) -> Result<()> {
    let handle = data.clone();
    let written = data.store.run(&[], move |transaction| {
        let data = handle.clone();
        Box::pin(async move {
            transaction.demand_sync();
            let container = container(&data, transaction).await?;
            // No session has a name of this length.
            let place = Locator::murmur3(b"flushed".to_vec(), Vec::new());
            let body = crate::batch::encode(&Document::new())?;
            let mark = NewItem::new(place, body).expiring_at(transaction.now_ms() + KEPT_MS);
            transaction.upsert(&container, mark).await?;
            Ok::<_, Failure>(())
        })
    });
    written.await.map(|_| ())
}

/// The number of the command that a record is of.
fn number_of(record: &[u8]) -> Result<i64> {
    let record = RawDocument::from_bytes(record).map_err(|_| damaged())?;
    match record.get("n").map_err(|_| damaged())? {
        Some(RawBsonRef::Int64(number)) => Ok(number),
        _ => Ok(i64::MIN),
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

fn locator(session: SessionKey) -> Locator {
    Locator::murmur3(session.to_bytes(), Vec::new())
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
