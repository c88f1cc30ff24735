//! `insert`: new documents, many in one transaction as long as none is refused.

use std::ops::Range;
use std::sync::Arc;

use bson::{Document, RawDocument, Timestamp, doc};
use tessera_core::Transaction;
use tessera_mongo_language::error::Code;

use crate::access::{Access, Action};
use crate::collection::Namespace;
use crate::command::Command;
use crate::commands::statements::{Outcome, StatementIds, check_count, concerns_all, count};
use crate::data::Data;
use crate::failure::{Failure, Result};
use crate::fields::{ANY, ARRAY, BOOL, BOOL_OR_NUMBER, Field, Fields, NUMBER, optional, required};
use crate::reply::Reply;
use crate::request::Request;
use crate::service::Service;
use crate::session::Session;
use crate::sharding::config;
use crate::transaction::Scope;
use crate::write::document::NewDocument;
use crate::write::retry::{Numbered, Record};
use crate::write::store;
use crate::write::target::{Target, create_if_missing};

pub(crate) const COMMANDS: &[Command] = &[Command::new(
    "insert",
    "Inserts documents.",
    Access::Collection(&[Action::Insert]),
    |service, session, request| Box::pin(run(service, session, request)),
)
.in_transactions()
.retryable()
.writes()
.stable()];

const FIELDS: &[Field] = &[
    required("documents", ARRAY),
    optional("ordered", BOOL),
    optional("bypassDocumentValidation", BOOL_OR_NUMBER),
    optional("stmtId", NUMBER),
    optional("stmtIds", ARRAY),
    optional("collectionUUID", ANY),
    optional("bypassEmptyTsReplacement", BOOL_OR_NUMBER),
];

/// Documents of one transaction.
const STEP_DOCUMENTS: usize = 500;
/// Bytes of documents of one transaction, unless the first alone has more.
const STEP_BYTES: usize = 2 * 1024 * 1024;

/// Documents that are being inserted.
pub(crate) struct Insertion {
    pub(crate) namespace: Namespace,
    pub(crate) documents: Vec<NewDocument>,
    /// The number of each document's statement.
    pub(crate) statements: Vec<i32>,
    pub(crate) numbered: Option<Numbered>,
    pub(crate) bypass_validation: bool,
}

async fn run(service: &Service, session: &mut Session, request: &Request<'_>) -> Result<Reply> {
    let namespace = Namespace::new(request.database, request.collection()?)?;
    config::check_write(&namespace)?;
    let fields = Fields::of(request, FIELDS)?;
    let sent = request.documents("documents")?.unwrap_or_default();
    check_count(sent.len())?;
    let ordered = fields.bool("ordered").unwrap_or(true);
    let ids = StatementIds::read(&fields);
    let mut scope = service.data.transactions.scope(service, request).await?;
    let mut outcome = Outcome::default();
    let (documents, positions) = prepare(service, &sent, ordered, &mut outcome)?;
    let insertion = Arc::new(Insertion {
        namespace,
        documents,
        statements: positions.iter().map(|position| ids.at(*position)).collect(),
        numbered: Numbered::of(request),
        bypass_validation: fields.bool("bypassDocumentValidation").unwrap_or(false),
    });
    let mut inserted = 0;
    let mut done = 0;
    while done < insertion.documents.len() {
        let end = step_end(&insertion.documents, done);
        let part = Part {
            insertion: &insertion,
            range: done..end,
        };
        let report = part
            .run(&service.data, session, &mut scope, ordered)
            .await?;
        inserted += report.inserted;
        outcome.retried.extend(report.retried);
        let failed = !report.failures.is_empty();
        for (offset, failure) in report.failures {
            let position = positions.get(offset).copied().unwrap_or_default();
            outcome.fail(position, failure)?;
        }
        if failed && (ordered || scope.is_joined()) {
            break;
        }
        done = end;
    }
    if !outcome.has_failed() {
        scope.succeed();
    }
    Ok(outcome.reply(doc! { "n": count(inserted) }))
}

/// The documents that may be stored, with their positions. A bad one ends an ordered command.
fn prepare(
    service: &Service,
    sent: &[&RawDocument],
    ordered: bool,
    outcome: &mut Outcome,
) -> Result<(Vec<NewDocument>, Vec<usize>)> {
    let now = Timestamp {
        time: u32::try_from(service.store.clock().now_ms() / 1_000).unwrap_or(u32::MAX),
        increment: 1,
    };
    let mut documents = Vec::with_capacity(sent.len());
    let mut positions = Vec::with_capacity(sent.len());
    for (position, document) in sent.iter().enumerate() {
        match NewDocument::insert(document, now) {
            Ok(document) => {
                documents.push(document);
                positions.push(position);
            }
            Err(error) => {
                outcome.fail(position, error.into())?;
                if ordered {
                    break;
                }
            }
        }
    }
    Ok((documents, positions))
}

/// Where the documents of the next transaction end.
fn step_end(documents: &[NewDocument], start: usize) -> usize {
    let mut bytes = 0;
    let mut end = start;
    for document in documents.iter().skip(start).take(STEP_DOCUMENTS) {
        bytes += document.body.len();
        if end > start && bytes > STEP_BYTES {
            break;
        }
        end += 1;
    }
    end
}

/// What became of some documents.
#[derive(Default)]
pub(crate) struct Report {
    pub(crate) inserted: u64,
    pub(crate) retried: Vec<i32>,
    /// Offsets and errors of those that were refused.
    pub(crate) failures: Vec<(usize, Failure)>,
}

/// Those documents of an insertion that one transaction takes.
pub(crate) struct Part<'a> {
    pub(crate) insertion: &'a Arc<Insertion>,
    pub(crate) range: Range<usize>,
}

impl Part<'_> {
    /// Inserts all in one transaction; if one is refused, each by itself.
    pub(crate) async fn run(
        &self,
        data: &Data,
        session: &mut Session,
        scope: &mut Scope,
        ordered: bool,
    ) -> Result<Report> {
        let mut report = Report::default();
        match self.attempt(data, session, scope, self.range.clone()).await {
            Ok(part) => return Ok(part),
            Err(failure) if concerns_all(failure.code()) => return Err(failure),
            // Of a transaction that is over it does not matter which document it was.
            Err(failure) if self.range.len() == 1 || scope.is_joined() => {
                report.failures.push((self.range.start, failure));
                return Ok(report);
            }
            Err(_) => {}
        }
        for offset in self.range.clone() {
            match self.attempt(data, session, scope, offset..offset + 1).await {
                Ok(part) => {
                    report.inserted += part.inserted;
                    report.retried.extend(part.retried);
                }
                Err(failure) if concerns_all(failure.code()) => return Err(failure),
                Err(failure) => {
                    report.failures.push((offset, failure));
                    if ordered {
                        break;
                    }
                }
            }
        }
        Ok(report)
    }

    async fn attempt(
        &self,
        data: &Data,
        session: &mut Session,
        scope: &mut Scope,
        range: Range<usize>,
    ) -> Result<Report> {
        loop {
            let (insertion, handle) = (Arc::clone(self.insertion), data.clone());
            let range = range.clone();
            let written = scope.write(data, session, &[], move |transaction| {
                let (insertion, data) = (Arc::clone(&insertion), handle.clone());
                let range = range.clone();
                Box::pin(async move { insertion.insert(&data, transaction, range).await })
            });
            match written.await {
                Err(failure) if failure.code() == Code::NAMESPACE_NOT_FOUND => {
                    create_if_missing(data, scope, &self.insertion.namespace).await?;
                }
                written => return written,
            }
        }
    }
}

impl Insertion {
    async fn insert(
        &self,
        data: &Data,
        transaction: &mut Transaction,
        range: Range<usize>,
    ) -> Result<Report> {
        let target = Target::for_write(data, transaction, &self.namespace).await?;
        let Some(target) = target else {
            return Err(missing(&self.namespace));
        };
        let mut record = match self.numbered {
            Some(numbered) => Some(Record::load(data, transaction, numbered).await?),
            None => None,
        };
        let mut report = Report::default();
        let wanted = range.len();
        let documents = self.documents.iter().zip(&self.statements);
        for (document, statement) in documents.skip(range.start).take(wanted) {
            report.inserted += 1;
            if record
                .as_ref()
                .is_some_and(|record| record.answer(*statement).is_some())
            {
                report.retried.push(*statement);
                continue;
            }
            store::insert(data, transaction, &target, document, self.bypass_validation).await?;
            if let Some(record) = &mut record {
                record.note(*statement, Document::new());
            }
        }
        if let Some(record) = record
            && report.retried.len() < wanted
        {
            record.save(transaction).await?;
        }
        Ok(report)
    }
}

/// The error that makes the collection be created.
pub(crate) fn missing(namespace: &Namespace) -> Failure {
    Failure::new(
        Code::NAMESPACE_NOT_FOUND,
        format!("ns not found {namespace}"),
    )
}
