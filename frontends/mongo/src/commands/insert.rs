//! `insert`: new documents, many in one transaction as long as none is refused.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use bson::{Document, RawDocument, Timestamp, doc};
use tessera_core::Transaction;
use tessera_mongo_language::error::Code;

use crate::access::{Access, Action, writing};
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
use crate::write::throttle::Throttle;

pub(crate) const COMMANDS: &[Command] = &[Command::new(
    "insert",
    "Inserts documents.",
    Access::Decide(|request| writing::needs(request, &[Action::Insert])),
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
    let now = time_to_fill_in(service, &fields);
    let (documents, positions) = prepare(now, &sent, ordered, |position, failure| {
        outcome.fail(position, failure, &scope)
    })?;
    let insertion = Arc::new(Insertion {
        namespace,
        documents,
        statements: positions.iter().map(|position| ids.at(*position)).collect(),
        numbered: Numbered::of(request),
        bypass_validation: fields.bool("bypassDocumentValidation").unwrap_or(false),
    });
    let mut throttle = Throttle::of(session, request);
    let mut inserted = 0;
    let mut done = 0;
    while done < insertion.documents.len() {
        let end = step_end(&insertion.documents, done);
        let part = Part {
            insertion: &insertion,
            offsets: Offsets::All(done..end),
            ordered,
        };
        let report = part
            .run_on(&service.data, session, &mut scope, &mut throttle)
            .await?;
        inserted += report.inserted;
        outcome.retried.extend(report.retried);
        let failed = !report.failures.is_empty();
        for (offset, failure) in report.failures {
            let position = positions.get(offset).copied().unwrap_or_default();
            outcome.fail(position, failure, &scope)?;
        }
        if failed && (ordered || scope.is_joined()) {
            break;
        }
        done = end;
    }
    if !outcome.has_failed() {
        scope.succeed();
    }
    outcome.reply(&throttle, doc! { "n": count(inserted) })
}

/// What takes the place of empty timestamps: now, or what they are if they are to stay.
pub(crate) fn time_to_fill_in(service: &Service, fields: &Fields<'_>) -> Timestamp {
    if fields.bool("bypassEmptyTsReplacement") == Some(true) {
        return Timestamp {
            time: 0,
            increment: 0,
        };
    }
    Timestamp {
        time: u32::try_from(service.store.clock().now_ms() / 1_000).unwrap_or(u32::MAX),
        increment: 1,
    }
}

/// The documents that may be stored, with their positions. A bad one ends an ordered command.
fn prepare(
    now: Timestamp,
    sent: &[&RawDocument],
    ordered: bool,
    mut refuse: impl FnMut(usize, Failure) -> Result<()>,
) -> Result<(Vec<NewDocument>, Vec<usize>)> {
    let mut documents = Vec::with_capacity(sent.len());
    let mut positions = Vec::with_capacity(sent.len());
    for (position, document) in sent.iter().enumerate() {
        match NewDocument::insert(document, now) {
            Ok(document) => {
                documents.push(document);
                positions.push(position);
            }
            Err(error) => {
                refuse(position, error.into())?;
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

/// Which documents of an insertion.
#[derive(Clone)]
pub(crate) enum Offsets {
    All(Range<usize>),
    Some(Arc<[usize]>),
}

impl Offsets {
    fn len(&self) -> usize {
        match self {
            Self::All(range) => range.len(),
            Self::Some(offsets) => offsets.len(),
        }
    }

    fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.len()).filter_map(|index| match self {
            Self::All(range) => Some(range.start + index),
            Self::Some(offsets) => offsets.get(index).copied(),
        })
    }

    /// Each by itself.
    fn singly(&self) -> impl Iterator<Item = Self> + '_ {
        self.iter().map(|offset| Self::All(offset..offset + 1))
    }
}

/// Those documents of an insertion that one transaction takes.
pub(crate) struct Part<'a> {
    pub(crate) insertion: &'a Arc<Insertion>,
    pub(crate) offsets: Offsets,
    /// Whether what is refused ends it.
    pub(crate) ordered: bool,
}

impl Part<'_> {
    /// Inserts all; those that are refused for want of throughput later, if that is soon.
    pub(crate) async fn run_on(
        &self,
        data: &Data,
        session: &mut Session,
        scope: &mut Scope,
        throttle: &mut Throttle,
    ) -> Result<Report> {
        let mut report = self.run(data, session, scope).await?;
        loop {
            if report.inserted > 0 && !scope.is_joined() {
                throttle.begin();
            }
            let refused = report.throttled();
            let Some(failure) = refused.filter(|_| !scope.is_joined()).cloned() else {
                return Ok(report);
            };
            if !throttle.wait(&failure).await {
                return Ok(report);
            }
            let rest = Part {
                insertion: self.insertion,
                offsets: self.without(&mut report),
                ordered: self.ordered,
            };
            report.add(rest.run(data, session, scope).await?);
        }
    }

    /// What is to be tried again of those that were refused for want of throughput: of documents in
    /// order also all that come after, which were not tried.
    fn without(&self, report: &mut Report) -> Offsets {
        let throttled = |(_, failure): &mut (usize, Failure)| failure.is_throttled();
        let refused = report.failures.extract_if(.., throttled);
        let mut offsets: Vec<usize> = refused.map(|(offset, _)| offset).collect();
        if let (true, Some(first)) = (self.ordered, offsets.first().copied()) {
            offsets = self.offsets.iter().filter(|it| *it >= first).collect();
        }
        Offsets::Some(offsets.into())
    }

    /// Inserts all in one transaction; if one is refused, each by itself. Where throughput is
    /// missing and the order does not matter, those of each physical partition are one transaction.
    pub(crate) async fn run(
        &self,
        data: &Data,
        session: &mut Session,
        scope: &mut Scope,
    ) -> Result<Report> {
        let first = self.attempt(data, session, scope, &self.offsets).await;
        let failure = match first {
            Ok(report) => return Ok(report),
            Err(failure) if concerns_all(&failure, scope) => return Err(failure),
            Err(failure) => failure,
        };
        let mut report = Report::default();
        // Of a transaction that is over it does not matter which document it was.
        if self.offsets.len() == 1 || scope.is_joined() {
            report.refuse(&self.offsets, &failure);
            return Ok(report);
        }
        let mut parts: VecDeque<Offsets> = match failure.is_throttled() && !self.ordered {
            true => self.by_partition(data, scope).await?.into(),
            false => self.offsets.singly().collect(),
        };
        while let Some(part) = parts.pop_front() {
            match self.attempt(data, session, scope, &part).await {
                Ok(done) => report.add(done),
                Err(failure) if concerns_all(&failure, scope) => return Err(failure),
                Err(failure) if part.len() > 1 && !failure.is_throttled() => {
                    parts.extend(part.singly());
                }
                Err(failure) => {
                    report.refuse(&part, &failure);
                    if self.ordered {
                        break;
                    }
                }
            }
        }
        Ok(report)
    }

    /// Its documents by the physical partition that they go to: each has throughput or has none.
    async fn by_partition(&self, data: &Data, scope: &mut Scope) -> Result<Vec<Offsets>> {
        let mut reader = scope.reader(data).await?;
        let namespace = &self.insertion.namespace;
        let Some(target) = Target::for_write(data, &mut reader, namespace).await? else {
            return Ok(vec![self.offsets.clone()]);
        };
        let mut partitions: BTreeMap<Option<u32>, Vec<usize>> = BTreeMap::new();
        for offset in self.offsets.iter() {
            let Some(document) = self.insertion.documents.get(offset) else {
                continue;
            };
            let body = RawDocument::from_bytes(&document.body)?;
            // One that has no place is refused when its turn comes.
            let locator = target.collection.locate(&document.id, body, 0).ok();
            let partition = locator.map(|it| target.container.partitions.locate(it.token).id);
            partitions.entry(partition).or_default().push(offset);
        }
        let groups = partitions.into_values();
        Ok(groups.map(|group| Offsets::Some(group.into())).collect())
    }

    async fn attempt(
        &self,
        data: &Data,
        session: &mut Session,
        scope: &mut Scope,
        offsets: &Offsets,
    ) -> Result<Report> {
        loop {
            let (insertion, handle) = (Arc::clone(self.insertion), data.clone());
            let offsets = offsets.clone();
            let written = scope.write(data, session, &[], move |transaction| {
                let (insertion, data) = (Arc::clone(&insertion), handle.clone());
                let offsets = offsets.clone();
                Box::pin(async move { insertion.insert(&data, transaction, &offsets).await })
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

impl Report {
    fn add(&mut self, other: Self) {
        self.inserted += other.inserted;
        self.retried.extend(other.retried);
        self.failures.extend(other.failures);
    }

    fn refuse(&mut self, offsets: &Offsets, failure: &Failure) {
        let refused = offsets.iter().map(|offset| (offset, failure.clone()));
        self.failures.extend(refused);
    }

    /// Why the first document was refused that had no throughput.
    fn throttled(&self) -> Option<&Failure> {
        let mut failures = self.failures.iter().map(|(_, failure)| failure);
        failures.find(|failure| failure.is_throttled())
    }
}

impl Insertion {
    async fn insert(
        &self,
        data: &Data,
        transaction: &mut Transaction,
        offsets: &Offsets,
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
        for offset in offsets.iter() {
            let (Some(document), Some(statement)) =
                (self.documents.get(offset), self.statements.get(offset))
            else {
                continue;
            };
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
            && report.retried.len() < offsets.len()
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
