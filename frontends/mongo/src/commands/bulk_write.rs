//! `bulkWrite`: insertions, updates and deletions in several collections by one command.

use std::sync::Arc;

use bson::{Bson, Document, RawBsonRef, RawDocument, Timestamp, doc};
use tessera_mongo_language::error::{Code, Error, bad_value, failed_to_parse};

use crate::access::{Access, Action, Need};
use crate::collection::{Collection, Namespace};
use crate::command::Command;
use crate::commands::asked;
use crate::commands::changing::{Changes, Changing};
use crate::commands::insert::{Insertion, Offsets, Part, time_to_fill_in};
use crate::commands::statements::{
    StatementIds, check_count, concerns_all, count, counting, statement_error,
};
use crate::commands::update::{delete_change, update_change};
use crate::failure::{Failure, Result};
use crate::fields::{
    ANY, ARRAY, BOOL, BOOL_OR_NUMBER, DOCUMENT, Field, Fields, NUMBER, STRING, optional, required,
};
use crate::listing;
use crate::reply::Reply;
use crate::request::Request;
use crate::service::Service;
use crate::session::Session;
use crate::sharding::config;
use crate::transaction::Scope;
use crate::write::document::NewDocument;
use crate::write::retry::Numbered;
use crate::write::throttle::Throttle;

pub(crate) const COMMANDS: &[Command] = &[Command::new(
    "bulkWrite",
    "Inserts, changes and removes documents of several collections.",
    Access::Decide(needs),
    |service, session, request| Box::pin(run(service, session, request)),
)
.admin_only()
.in_transactions()
.retryable()
.writes()
.stable()];

const FIELDS: &[Field] = &[
    required("ops", ARRAY),
    required("nsInfo", ARRAY),
    optional("errorsOnly", BOOL),
    optional("ordered", BOOL),
    optional("bypassDocumentValidation", BOOL_OR_NUMBER),
    optional("let", DOCUMENT),
    optional("cursor", DOCUMENT),
    optional("stmtId", NUMBER),
    optional("stmtIds", ARRAY),
    optional("bypassEmptyTsReplacement", BOOL_OR_NUMBER),
];

const NAMESPACE: &[Field] = &[
    required("ns", STRING),
    optional("collectionUUID", ANY),
    optional("isTimeseriesNamespace", BOOL_OR_NUMBER).refused(
        5_916_400,
        "'isTimeseriesNamespace' parameter can only be set when the request is sent on \
         'system.buckets' namespace",
    ),
];

const INSERT: &[Field] = &[required("insert", NUMBER), required("document", DOCUMENT)];

const UPDATE: &[Field] = &[
    required("update", NUMBER),
    required("filter", DOCUMENT),
    required("updateMods", ANY),
    optional("multi", BOOL),
    optional("upsert", BOOL),
    optional("upsertSupplied", BOOL_OR_NUMBER).refused(
        Code::COMMAND_NOT_SUPPORTED.0,
        "upsertSupplied is not supported: say $setOnInsert",
    ),
    optional("arrayFilters", ARRAY),
    optional("hint", ANY),
    optional("collation", DOCUMENT),
    optional("constants", DOCUMENT),
    optional("sort", DOCUMENT),
    optional("sampleId", ANY),
];

const DELETE: &[Field] = &[
    required("delete", NUMBER),
    required("filter", DOCUMENT),
    optional("multi", BOOL),
    optional("hint", ANY),
    optional("collation", DOCUMENT),
    optional("sampleId", ANY),
];

/// What each operation needs on its collection.
fn needs(request: &Request<'_>) -> Result<Vec<Need>> {
    let namespaces = named(request)?;
    let bypasses = request.is_on("bypassDocumentValidation");
    let mut needs: Vec<Need> = Vec::new();
    for operation in request.documents("ops")?.unwrap_or_default() {
        let (kind, fields) = read(operation)?;
        let actions: &[Action] = match kind {
            "insert" => &[Action::Insert],
            "update" if fields.bool("upsert").unwrap_or(false) => &[Action::Update, Action::Insert],
            "update" => &[Action::Update],
            _ => &[Action::Remove],
        };
        let place = fields.get(kind).and_then(crate::fields::exact);
        let place = place.and_then(|place| usize::try_from(place).ok());
        let Some(namespace) = place.and_then(|place| namespaces.get(place)) else {
            // It is refused for that.
            continue;
        };
        let (database, collection) = (namespace.database(), namespace.collection());
        let bypass = bypasses.then_some(&Action::BypassDocumentValidation);
        for action in actions.iter().chain(bypass) {
            let need = Need::on_collection(*action, database, collection);
            if !needs.contains(&need) {
                needs.push(need);
            }
        }
    }
    Ok(needs)
}

/// What all operations did.
#[derive(Default)]
struct Totals {
    errors: i32,
    inserted: u64,
    matched: u64,
    modified: u64,
    upserted: u64,
    deleted: u64,
    retried: Vec<i32>,
    /// Why the first operation was refused that had no throughput.
    throttled: Option<Failure>,
}

/// A command under way.
struct Bulk<'a> {
    service: &'a Service,
    namespaces: Vec<Namespace>,
    definitions: Option<&'a RawDocument>,
    bypass_validation: bool,
    /// What takes the place of empty timestamps.
    now: Timestamp,
    numbered: Option<Numbered>,
}

async fn run(service: &Service, session: &mut Session, request: &Request<'_>) -> Result<Reply> {
    let fields = Fields::of(request, FIELDS)?;
    let operations = request.documents("ops")?.unwrap_or_default();
    check_count(operations.len())?;
    let namespaces = namespaces(request)?;
    check_operations(&operations, namespaces.len())?;
    let bulk = Bulk {
        service,
        namespaces,
        definitions: fields.document("let"),
        bypass_validation: fields.bool("bypassDocumentValidation").unwrap_or(false),
        now: time_to_fill_in(service, &fields),
        numbered: Numbered::of(request),
    };
    let ordered = fields.bool("ordered").unwrap_or(true);
    let errors_only = fields.bool("errorsOnly").unwrap_or(false);
    let size = listing::batch_size(fields.document("cursor"))?;
    let ids = StatementIds::read(&fields);
    let mut scope = service.data.transactions.scope(service, request).await?;
    let mut throttle = Throttle::of(session, request);
    let mut totals = Totals::default();
    let mut results = Vec::new();
    for (position, operation) in operations.iter().enumerate() {
        let work = Operation {
            document: operation,
            statement: ids.at(position),
        };
        let done = bulk
            .operation(session, &mut scope, &mut throttle, work)
            .await;
        let index = i32::try_from(position).unwrap_or(i32::MAX);
        let (shown, failure) = match done {
            Ok(mut done) => {
                totals.add(&done, ids.at(position));
                (done.shown(index), done.take_stopped())
            }
            Err(failure) => (doc! { "ok": 1.0, "idx": index, "n": 0 }, Some(failure)),
        };
        match failure {
            None if errors_only => {}
            None => results.push(shown),
            Some(failure) if concerns_all(&failure, &scope) => return Err(failure),
            Some(failure) => {
                results.push(totals.fail(shown, failure));
                if ordered || scope.is_joined() {
                    break;
                }
            }
        }
    }
    if totals.errors == 0 {
        scope.succeed();
    }
    totals.check(&throttle)?;
    let namespace = "admin.$cmd.bulkWrite";
    let reply = listing::reply(&service.data, request, (namespace, results), size)?;
    let mut reply = Document::try_from(reply.encode()?.as_ref())?;
    reply.extend(totals.shown());
    Ok(reply.into())
}

/// The collections that may be written to.
fn namespaces(request: &Request<'_>) -> Result<Vec<Namespace>> {
    let named = named(request)?;
    for namespace in &named {
        config::check_write(namespace)?;
    }
    Ok(named)
}

/// The collections that operations name by number.
fn named(request: &Request<'_>) -> Result<Vec<Namespace>> {
    let sent = request.documents("nsInfo")?.unwrap_or_default();
    if sent.is_empty() {
        return Err(bad_value("nsInfo must name at least one namespace").into());
    }
    let mut found: Vec<Namespace> = Vec::with_capacity(sent.len());
    for namespace in sent {
        let fields = Fields::of_document("bulkWrite.nsInfo", namespace, NAMESPACE)?;
        found.push(Namespace::parse(fields.str("ns").unwrap_or_default())?);
    }
    Ok(found)
}

/// Refuses operations that cannot be understood before any is done.
fn check_operations(operations: &[&RawDocument], namespaces: usize) -> Result<()> {
    for operation in operations {
        let (kind, fields) = read(operation)?;
        let index = fields.get(kind).and_then(crate::fields::exact);
        let known = index.and_then(|index| usize::try_from(index).ok());
        if known.is_none_or(|index| index >= namespaces) {
            let message = format!("BulkWrite ops entry has an invalid namespace index {index:?}");
            return Err(bad_value(message).into());
        }
        if kind != "insert" {
            // Their errors are of the command, not of the operation.
            asked::hint(fields.get("hint"))?;
        }
        if kind == "update"
            && let Some(update) = fields.get("updateMods")
            && !matches!(update, RawBsonRef::Document(_) | RawBsonRef::Array(_))
        {
            let message = "Update argument must be either an object or an array";
            return Err(failed_to_parse(message).into());
        }
    }
    Ok(())
}

/// The kind of an operation and its fields: the first field tells.
fn read<'a>(operation: &'a RawDocument) -> Result<(&'static str, Fields<'a>)> {
    let first = operation.iter_elements().next().transpose()?;
    let name = first.map_or("", |element| element.key().as_str());
    let (kind, table) = match name {
        "insert" => ("insert", INSERT),
        "update" => ("update", UPDATE),
        "delete" => ("delete", DELETE),
        _ => {
            let message = format!("BSON field 'bulkWrite.ops.{name}' is an unknown field.");
            return Err(Error::new(Code::IDL_UNKNOWN_FIELD, message).into());
        }
    };
    let fields = Fields::of_document("bulkWrite.ops", operation, table)?;
    Ok((kind, fields))
}

/// One operation, with the number by which the client knows it.
struct Operation<'a> {
    document: &'a RawDocument,
    statement: i32,
}

/// What one operation did.
enum Done {
    Inserted { retried: bool },
    Updated(Changes),
    Deleted(Changes),
}

impl Bulk<'_> {
    async fn operation(
        &self,
        session: &mut Session,
        scope: &mut Scope,
        throttle: &mut Throttle,
        operation: Operation<'_>,
    ) -> Result<Done> {
        let statement = operation.statement;
        let (kind, fields) = read(operation.document)?;
        let index = fields
            .integer(kind)
            .and_then(|index| usize::try_from(index).ok());
        let namespace = index.and_then(|index| self.namespaces.get(index)).cloned();
        let namespace = namespace.ok_or_else(|| bad_value("no such namespace"))?;
        if kind == "insert" {
            let insertion = self.insertion(namespace, &fields, statement)?;
            return self.insert(session, scope, throttle, &insertion).await;
        }
        let data = &self.service.data;
        let collection = Changing::collection(data, scope, &namespace).await?;
        let change = self.change(kind, &fields, collection.as_deref())?;
        if change.multi && self.numbered.is_some() {
            let message = "Cannot use (or request) retryable writes with multi=true";
            return Err(Failure::new(Code::INVALID_OPTIONS, message));
        }
        let changing = Changing {
            namespace,
            change: Arc::new(change),
            numbered: self.numbered.map(|numbered| (numbered, statement)),
            keeps_images: false,
        };
        let changes = changing.run(data, session, scope, throttle).await?;
        Ok(match kind {
            "update" => Done::Updated(changes),
            _ => Done::Deleted(changes),
        })
    }

    fn change(
        &self,
        kind: &str,
        fields: &Fields<'_>,
        collection: Option<&Collection>,
    ) -> Result<crate::write::change::Change> {
        let flag = |name| fields.bool(name).unwrap_or(false);
        if kind == "update" {
            let names = ("filter", "updateMods", "constants");
            let with = (self.definitions, self.bypass_validation);
            return update_change(self.service, (fields, names), with, collection);
        }
        let (definitions, multi) = (self.definitions, flag("multi"));
        delete_change(
            self.service,
            (fields, "filter"),
            (definitions, multi),
            collection,
        )
    }

    fn insertion(
        &self,
        namespace: Namespace,
        fields: &Fields<'_>,
        statement: i32,
    ) -> Result<Arc<Insertion>> {
        let Some(RawBsonRef::Document(document)) = fields.get("document") else {
            return Err(bad_value("an insertion needs a document").into());
        };
        Ok(Arc::new(Insertion {
            namespace,
            documents: vec![NewDocument::insert(document, self.now)?],
            statements: vec![statement],
            numbered: self.numbered,
            bypass_validation: self.bypass_validation,
        }))
    }

    async fn insert(
        &self,
        session: &mut Session,
        scope: &mut Scope,
        throttle: &mut Throttle,
        insertion: &Arc<Insertion>,
    ) -> Result<Done> {
        let part = Part {
            insertion,
            offsets: Offsets::All(0..1),
            ordered: true,
        };
        let data = &self.service.data;
        let mut report = part.run_on(data, session, scope, throttle).await?;
        match report.failures.pop() {
            Some((_, failure)) => Err(failure),
            None => Ok(Done::Inserted {
                retried: !report.retried.is_empty(),
            }),
        }
    }
}

impl Done {
    /// What kept it from doing all of it.
    fn take_stopped(&mut self) -> Option<Failure> {
        match self {
            Self::Inserted { .. } => None,
            Self::Updated(changes) | Self::Deleted(changes) => changes.stopped.take(),
        }
    }

    fn shown(&self, index: i32) -> Document {
        let mut shown = doc! { "ok": 1.0, "idx": index };
        match self {
            Self::Inserted { .. } => {
                shown.insert("n", 1);
            }
            Self::Deleted(changes) => {
                shown.insert("n", count(changes.matched));
            }
            Self::Updated(changes) => {
                let upserted = u64::from(changes.upserted.is_some());
                shown.insert("n", count(changes.matched + upserted));
                shown.insert("nModified", count(changes.modified));
                if let Some(id) = &changes.upserted {
                    shown.insert("upserted", doc! { "_id": id.clone() });
                }
            }
        }
        shown
    }
}

impl Totals {
    fn add(&mut self, done: &Done, statement: i32) {
        let retried = match done {
            Done::Inserted { retried } => {
                self.inserted += 1;
                *retried
            }
            Done::Updated(changes) => {
                self.matched += changes.matched;
                self.modified += changes.modified;
                self.upserted += u64::from(changes.upserted.is_some());
                changes.retried
            }
            Done::Deleted(changes) => {
                self.deleted += changes.matched;
                changes.retried
            }
        };
        if retried {
            self.retried.push(statement);
        }
    }

    /// Notes the error of an operation that did what is shown of it. Answers what is to be shown.
    fn fail(&mut self, mut shown: Document, failure: Failure) -> Document {
        self.errors += 1;
        shown.insert("ok", 0.0);
        shown.extend(statement_error(&failure));
        if failure.is_throttled() && self.throttled.is_none() {
            self.throttled = Some(failure);
        }
        shown
    }

    /// The failure of a command that is to be sent again for want of throughput.
    fn check(&mut self, throttle: &Throttle) -> Result<()> {
        let Some(failure) = self.throttled.take() else {
            return Ok(());
        };
        let written = self.inserted + self.matched + self.upserted + self.deleted;
        match written {
            0 => Err(failure),
            _ if throttle.resends() => Err(counting(failure, self.counts())),
            _ => Ok(()),
        }
    }

    fn counts(&self) -> Document {
        doc! {
            "nErrors": self.errors,
            "nInserted": count(self.inserted),
            "nMatched": count(self.matched),
            "nModified": count(self.modified),
            "nUpserted": count(self.upserted),
            "nDeleted": count(self.deleted),
        }
    }

    fn shown(self) -> Document {
        let mut shown = self.counts();
        if !self.retried.is_empty() {
            let retried = self.retried.into_iter().map(Bson::Int32);
            shown.insert("retriedStmtIds", retried.collect::<Vec<_>>());
        }
        shown
    }
}
