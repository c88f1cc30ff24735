//! `update` and `delete`: statements that change the documents that a query finds.

use std::sync::Arc;

use bson::{Bson, Document, RawBsonRef, RawDocument, doc};
use tessera_mongo_language::error::{Code, Error, failed_to_parse};
use tessera_mongo_language::update::Update;

use crate::access::{Access, Action, Need, writing};
use crate::collection::{Collection, Namespace};
use crate::command::Command;
use crate::commands::asked::{self, CONSTANTS};
use crate::commands::changing::{Changes, Changing};
use crate::commands::repeats;
use crate::commands::statements::{Outcome, StatementIds, check_count, count};
use crate::execute::query::Query;
use crate::failure::{Failure, Result};
use crate::fields::{
    ANY, ARRAY, BOOL, BOOL_OR_NUMBER, DOCUMENT, Field, Fields, NUMBER, optional, required,
};
use crate::reply::Reply;
use crate::request::Request;
use crate::service::Service;
use crate::session::Session;
use crate::sharding::config;
use crate::write::change::{Change, Kind};
use crate::write::retry::Numbered;
use crate::write::throttle::Throttle;

pub(crate) const COMMANDS: &[Command] = &[
    Command::new(
        "update",
        "Changes documents.",
        Access::Decide(needs_to_update),
        |service, session, request| Box::pin(update(service, session, request)),
    )
    .in_transactions()
    .retryable()
    .writes()
    .stable(),
    Command::new(
        "delete",
        "Removes documents.",
        Access::Collection(&[Action::Remove]),
        |service, session, request| Box::pin(delete(service, session, request)),
    )
    .in_transactions()
    .retryable()
    .writes()
    .stable(),
];

const TIME_SERIES: &str = "'isTimeseriesNamespace' parameter can only be set when the request is \
                           sent on 'system.buckets' namespace";

const UPDATE: &[Field] = &[
    required("updates", ARRAY),
    optional("ordered", BOOL),
    optional("bypassDocumentValidation", BOOL_OR_NUMBER),
    optional("let", DOCUMENT),
    optional("stmtId", NUMBER),
    optional("stmtIds", ARRAY),
    optional("collectionUUID", ANY),
    optional("isTimeseriesNamespace", BOOL).refused(5_916_400, TIME_SERIES),
    optional("legacyRuntimeConstants", ANY).refused(51_195, CONSTANTS),
    optional("bypassEmptyTsReplacement", BOOL_OR_NUMBER),
];

const DELETE: &[Field] = &[
    required("deletes", ARRAY),
    optional("ordered", BOOL),
    optional("let", DOCUMENT),
    optional("stmtId", NUMBER),
    optional("stmtIds", ARRAY),
    optional("collectionUUID", ANY),
    optional("isTimeseriesNamespace", BOOL).refused(5_916_400, TIME_SERIES),
    optional("legacyRuntimeConstants", ANY).refused(51_195, CONSTANTS),
];

const UPDATE_STATEMENT: &[Field] = &[
    required("q", DOCUMENT),
    required("u", ANY),
    optional("c", DOCUMENT),
    optional("multi", BOOL_OR_NUMBER),
    optional("upsert", BOOL_OR_NUMBER),
    optional("upsertSupplied", BOOL_OR_NUMBER).refused(
        Code::COMMAND_NOT_SUPPORTED.0,
        "upsertSupplied is not supported: say $setOnInsert",
    ),
    optional("collation", DOCUMENT),
    optional("arrayFilters", ARRAY),
    optional("hint", ANY),
    optional("sort", DOCUMENT),
    optional("sampleId", ANY),
    optional("allowShardKeyUpdatesWithoutFullShardKeyInQuery", BOOL),
];

const DELETE_STATEMENT: &[Field] = &[
    required("q", DOCUMENT),
    required("limit", NUMBER),
    optional("collation", DOCUMENT),
    optional("hint", ANY),
    optional("sampleId", ANY),
];

/// An update that may insert needs that right as well.
fn needs_to_update(request: &Request<'_>) -> Result<Vec<Need>> {
    let sent = request.documents("updates")?.unwrap_or_default();
    match sent.iter().any(|statement| writing::upserts(statement)) {
        true => writing::needs(request, &[Action::Update, Action::Insert]),
        false => writing::needs(request, &[Action::Update]),
    }
}

async fn update(service: &Service, session: &mut Session, request: &Request<'_>) -> Result<Reply> {
    let namespace = Namespace::new(request.database, request.collection()?)?;
    config::prepare_update(service, &namespace).await?;
    let fields = Fields::of(request, UPDATE)?;
    let sent = request.documents("updates")?.unwrap_or_default();
    check_count(sent.len())?;
    let parse = |statement: &RawDocument, collection: Option<&Collection>| {
        let statement = Fields::of_document("update.updates", statement, UPDATE_STATEMENT)?;
        let bypass = fields.bool("bypassDocumentValidation").unwrap_or(false);
        update_statement(
            service,
            &statement,
            (fields.document("let"), bypass),
            collection,
        )
    };
    let mut throttle = Throttle::of(session, request);
    let statements = Statements {
        request,
        namespace: &namespace,
        fields: &fields,
        sent: &sent,
    };
    let done = statements.run(service, session, &mut throttle, parse);
    let (changed, outcome) = done.await?;
    let mut reply = doc! { "n": count(changed.n), "nModified": count(changed.modified) };
    if !changed.upserted.is_empty() {
        reply.insert("upserted", changed.upserted);
    }
    outcome.reply(&throttle, reply)
}

async fn delete(service: &Service, session: &mut Session, request: &Request<'_>) -> Result<Reply> {
    let namespace = Namespace::new(request.database, request.collection()?)?;
    config::check_write(&namespace)?;
    let fields = Fields::of(request, DELETE)?;
    let sent = request.documents("deletes")?.unwrap_or_default();
    check_count(sent.len())?;
    let parse = |statement: &RawDocument, collection: Option<&Collection>| {
        let statement = Fields::of_document("delete.deletes", statement, DELETE_STATEMENT)?;
        delete_statement(service, &statement, fields.document("let"), collection)
    };
    let mut throttle = Throttle::of(session, request);
    let statements = Statements {
        request,
        namespace: &namespace,
        fields: &fields,
        sent: &sent,
    };
    let done = statements.run(service, session, &mut throttle, parse);
    let (changed, outcome) = done.await?;
    outcome.reply(&throttle, doc! { "n": count(changed.n) })
}

/// What all statements of a command did.
#[derive(Default)]
struct Total {
    n: u64,
    modified: u64,
    upserted: Vec<Bson>,
}

/// The statements of a command.
struct Statements<'a> {
    request: &'a Request<'a>,
    namespace: &'a Namespace,
    fields: &'a Fields<'a>,
    sent: &'a [&'a RawDocument],
}

impl Statements<'_> {
    /// Runs them one by one.
    async fn run(
        &self,
        service: &Service,
        session: &mut Session,
        throttle: &mut Throttle,
        parse: impl Fn(&RawDocument, Option<&Collection>) -> Result<Change> + Sync,
    ) -> Result<(Total, Outcome)> {
        let ordered = self.fields.bool("ordered").unwrap_or(true);
        let ids = StatementIds::read(self.fields);
        let numbered = Numbered::of(self.request);
        let transactions = &service.data.transactions;
        let mut scope = transactions.scope(service, self.request).await?;
        let mut total = Total::default();
        let mut outcome = Outcome::default();
        let collection = Changing::collection(&service.data, &mut scope, self.namespace).await?;
        // Statements that cannot be read fail the command before anything is done.
        let changes = self
            .sent
            .iter()
            .map(|statement| parse(statement, collection.as_deref()));
        let changes: Vec<Result<Change>> = changes.collect();
        for (position, change) in changes.into_iter().enumerate() {
            let result = match change {
                Err(failure) if is_malformed(failure.code()) => return Err(failure),
                Err(failure) => Err(failure),
                Ok(change) if change.multi && numbered.is_some() => {
                    let message = "Cannot use (or request) retryable writes with multi=true";
                    return Err(Failure::new(Code::INVALID_OPTIONS, message));
                }
                Ok(change) => {
                    let changing = Changing {
                        namespace: self.namespace.clone(),
                        change: Arc::new(change),
                        numbered: numbered.map(|numbered| (numbered, ids.at(position))),
                        keeps_images: false,
                    };
                    changing
                        .run(&service.data, session, &mut scope, throttle)
                        .await
                }
            };
            let failure = match result {
                Ok(mut done) => {
                    let stopped = done.stopped.take();
                    total.add(position, done, (&ids, &mut outcome));
                    stopped
                }
                Err(failure) => Some(failure),
            };
            if let Some(failure) = failure {
                outcome.fail(position, failure, &scope)?;
                if ordered || scope.is_joined() {
                    break;
                }
            }
        }
        if !outcome.has_failed() {
            scope.succeed();
        }
        Ok((total, outcome))
    }
}

/// Whether the command as a whole cannot be understood.
fn is_malformed(code: Code) -> bool {
    const MALFORMED: &[Code] = &[
        Code::IDL_UNKNOWN_FIELD,
        Code::IDL_FAILED_TO_PARSE,
        Code::IDL_DUPLICATE_FIELD,
        Code::TYPE_MISMATCH,
    ];
    MALFORMED.contains(&code)
}

impl Total {
    fn add(
        &mut self,
        position: usize,
        done: Changes,
        (ids, outcome): (&StatementIds, &mut Outcome),
    ) {
        self.n += done.matched;
        self.modified += done.modified;
        if let Some(id) = done.upserted {
            self.n += 1;
            let index = i32::try_from(position).unwrap_or(i32::MAX);
            self.upserted
                .push(Bson::Document(doc! { "index": index, "_id": id }));
        }
        if done.retried {
            outcome.retried.push(ids.at(position));
        }
    }
}

/// The change that a statement of `update` asks for.
pub(crate) fn update_statement(
    service: &Service,
    statement: &Fields<'_>,
    with: (Option<&RawDocument>, bool),
    collection: Option<&Collection>,
) -> Result<Change> {
    update_change(service, (statement, ("q", "u", "c")), with, collection)
}

/// An update whose filter, change and constants have these names.
pub(crate) fn update_change(
    service: &Service,
    (statement, (filter, update, constants)): (&Fields<'_>, (&str, &str, &str)),
    (definitions, bypass_validation): (Option<&RawDocument>, bool),
    collection: Option<&Collection>,
) -> Result<Change> {
    let flag = |name| statement.bool(name).unwrap_or(false);
    let (multi, upsert) = (flag("multi"), flag("upsert"));
    let collation = asked::collation(statement.document("collation"), collection)?;
    let mut context = asked::context(service, collation, definitions)?;
    let update = statement.get(update).unwrap_or(RawBsonRef::Null);
    let is_pipeline = matches!(update, RawBsonRef::Array(_));
    let mut query = Query::by_filter(asked::query(statement, filter)?, context.clone())?;
    query.hint = asked::hint(statement.get("hint"))?;
    query.needs_position = true;
    if let Some(sort) = statement.document("sort") {
        if multi {
            let message = "Cannot specify sort with multi=true";
            return Err(failed_to_parse(message).into());
        }
        query = query.sorted(repeats::order(sort)?)?;
    }
    if let Some(constants) = statement.document(constants) {
        if !is_pipeline {
            let message = "Constant values may only be specified for pipeline updates";
            return Err(Error::new(Code(51_198), message).into());
        }
        for (name, value) in asked::owned(constants)? {
            context.variables.set(&name, Some(value));
        }
    }
    let filters = array_filters(statement)?;
    let update = Update::parse(&repeats::update(update)?, &filters, &context)?;
    if multi && update.is_replacement() {
        let message = "multi update is not supported for replacement-style update";
        return Err(failed_to_parse(message).into());
    }
    Ok(Change {
        query: Arc::new(query),
        kind: Kind::Update {
            update: Arc::new(update),
            upsert,
            supplied: None,
        },
        multi,
        bypass_validation,
    })
}

/// The change that a statement of `delete` asks for.
pub(crate) fn delete_statement(
    service: &Service,
    statement: &Fields<'_>,
    definitions: Option<&RawDocument>,
    collection: Option<&Collection>,
) -> Result<Change> {
    let limit = statement.get("limit").and_then(crate::fields::exact);
    let multi = match limit {
        Some(0) => true,
        Some(1) => false,
        _ => {
            let message = "The limit field in delete objects must be 0 or 1.";
            return Err(failed_to_parse(message).into());
        }
    };
    delete_change(service, (statement, "q"), (definitions, multi), collection)
}

/// A deletion whose filter has this name.
pub(crate) fn delete_change(
    service: &Service,
    (statement, filter): (&Fields<'_>, &str),
    (definitions, multi): (Option<&RawDocument>, bool),
    collection: Option<&Collection>,
) -> Result<Change> {
    let collation = asked::collation(statement.document("collation"), collection)?;
    let context = asked::context(service, collation, definitions)?;
    let mut query = Query::by_filter(asked::query(statement, filter)?, context)?;
    query.hint = asked::hint(statement.get("hint"))?;
    Ok(Change {
        query: Arc::new(query),
        kind: Kind::Delete,
        multi,
        bypass_validation: true,
    })
}

/// The change of a command that has one statement, for explain.
pub(crate) fn only_statement(
    service: &Service,
    request: &Request<'_>,
    collection: Option<&Collection>,
) -> Result<Change> {
    let (table, name) = match request.name() {
        "update" => (UPDATE, "updates"),
        _ => (DELETE, "deletes"),
    };
    let fields = Fields::of(request, table)?;
    let sent = request.documents(name)?.unwrap_or_default();
    let [statement] = sent.as_slice() else {
        let message = "explained write batches must be of size 1";
        return Err(Error::new(Code::INVALID_LENGTH, message).into());
    };
    let definitions = fields.document("let");
    if name == "updates" {
        let statement = Fields::of_document("update.updates", statement, UPDATE_STATEMENT)?;
        update_statement(service, &statement, (definitions, false), collection)
    } else {
        let statement = Fields::of_document("delete.deletes", statement, DELETE_STATEMENT)?;
        delete_statement(service, &statement, definitions, collection)
    }
}

/// The `arrayFilters` of a statement.
pub(crate) fn array_filters(statement: &Fields<'_>) -> Result<Vec<Document>> {
    let Some(filters) = statement.array("arrayFilters") else {
        return Ok(Vec::new());
    };
    let mut found = Vec::new();
    for (position, filter) in filters.into_iter().enumerate() {
        match filter? {
            RawBsonRef::Document(filter) => found.push(repeats::query(filter)?),
            other => {
                let path = format!("arrayFilters.{position}");
                let expected = &[bson::spec::ElementType::EmbeddedDocument];
                let found = other.element_type();
                return Err(
                    crate::fields::wrong_type("update.updates", &path, found, expected).into(),
                );
            }
        }
    }
    Ok(found)
}
