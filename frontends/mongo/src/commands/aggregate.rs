//! `aggregate`: documents through a pipeline.

use std::sync::Arc;

use bson::RawBsonRef;
use tessera_mongo_language::error::{Code, Error, bad_value, failed_to_parse};
use tessera_mongo_language::pipeline::Pipeline;

use crate::access::pipeline::Over;
use crate::access::{self, Access, Action, Need};
use crate::aggregate::environment::{Environment, Handle, Within};
use crate::aggregate::{Aggregation, PipelineRows, rules};
use crate::batch::{Batch, FIRST_BATCH, Turn};
use crate::change_stream;
use crate::collection::Namespace;
use crate::command::Command;
use crate::commands::asked::CONSTANTS;
use crate::commands::create::check_uuid;
use crate::commands::{asked, explain};
use crate::cursor::Cursor;
use crate::failure::{Failure, Result};
use crate::fields::{
    ANY, ARRAY, BOOL, BOOL_OR_NUMBER, DOCUMENT, Field, Fields, optional, required,
};
use crate::listing;
use crate::reply::Reply;
use crate::request::Request;
use crate::service::Service;
use crate::session::Session;
use crate::write::target::Target;

pub(crate) const COMMANDS: &[Command] = &[
    Command::new(
        "aggregate",
        "Runs an aggregation pipeline.",
        Access::Parsed,
        |service, session, request| Box::pin(run(service, session, request)),
    )
    .in_transactions()
    .reads()
    .snapshots()
    .writes()
    .stable(),
    Command::new(
        "mapReduce",
        "Not supported: use aggregate.",
        Access::Collection(&[Action::Find]),
        |_, _, _| {
            Box::pin(async {
                let message = "mapReduce is not supported: use an aggregation pipeline";
                Err(Failure::new(Code::COMMAND_NOT_SUPPORTED, message))
            })
        },
    )
    .also(&["mapreduce"]),
];

pub(crate) const FIELDS: &[Field] = &[
    required("pipeline", ARRAY).not_null(),
    optional("cursor", DOCUMENT).not_null(),
    optional("explain", BOOL).not_null(),
    optional("allowDiskUse", BOOL).not_null(),
    optional("bypassDocumentValidation", BOOL_OR_NUMBER),
    optional("collation", DOCUMENT),
    optional("hint", ANY),
    optional("let", DOCUMENT),
    optional("collectionUUID", ANY),
    optional("isMapReduceCommand", BOOL_OR_NUMBER),
    optional("fromMongos", BOOL_OR_NUMBER).refused(51_089, OF_ROUTERS),
    optional("fromRouter", BOOL_OR_NUMBER).refused(51_089, OF_ROUTERS),
    optional("needsMerge", BOOL_OR_NUMBER).refused(51_089, OF_ROUTERS),
    optional("exchange", DOCUMENT).refused(51_028, "Cannot specify exchange option to a router"),
    optional("runtimeConstants", DOCUMENT).refused(51_143, CONSTANTS),
    optional("legacyRuntimeConstants", DOCUMENT).refused(51_143, CONSTANTS),
    optional("querySettings", DOCUMENT),
    optional("includeQueryStatsMetrics", BOOL_OR_NUMBER),
    optional("passthroughToShard", DOCUMENT).refused(NOT_SUPPORTED, OF_SHARDS),
    optional("resumeToken", ANY).refused(NOT_SUPPORTED, OF_SHARDS),
    optional("requestReshardingResumeToken", BOOL_OR_NUMBER).refused(NOT_SUPPORTED, OF_SHARDS),
];

/// What only routers say to shards.
const OF_ROUTERS: &str = "Internal parameter(s) [needsMerge, fromMongos, fromRouter] cannot be \
                          set to 'true' when sent to a router";
const OF_SHARDS: &str = "passthroughToShard and tokens to resume from are not supported: they are \
                         for what servers of a cluster ask of each other";
const NOT_SUPPORTED: i32 = Code::COMMAND_NOT_SUPPORTED.0;

async fn run(service: &Service, session: &mut Session, request: &Request<'_>) -> Result<Reply> {
    let fields = Fields::of(request, FIELDS)?;
    let size = listing::batch_size(fields.document("cursor"))?.unwrap_or(FIRST_BATCH);
    if fields.bool("explain").unwrap_or(false) {
        if request.generic.write_concern.is_some() {
            let message = "Aggregate command cannot specify both 'explain' and 'writeConcern'";
            return Err(failed_to_parse(message).into());
        }
        return explain::aggregate(service, session, (request, &fields), "queryPlanner").await;
    }
    if fields.get("cursor").is_none() {
        let message =
            "The 'cursor' option is required, except for aggregate with the explain argument";
        return Err(failed_to_parse(message).into());
    }
    let (aggregation, needs) = read(session, request, &fields).await?;
    session.needed = needs;
    let shown = match &aggregation.namespace {
        Some(namespace) => namespace.to_string(),
        None => format!("{}.$cmd.aggregate", request.database),
    };
    let bypass = fields.bool("bypassDocumentValidation").unwrap_or(false);
    open(session, request, (aggregation, bypass), (size, &shown)).await
}

/// Runs an aggregation and answers its first batch.
pub(crate) async fn open(
    session: &mut Session,
    request: &Request<'_>,
    (aggregation, bypass): (Aggregation, bool),
    (size, shown): (usize, &str),
) -> Result<Reply> {
    if let Some(argument) = change_stream::open::asked(&aggregation).cloned() {
        let asked = (aggregation, argument);
        return change_stream::open::open(session, request, asked, (size, shown)).await;
    }
    let service = session.service();
    let data = service.data.clone();
    let parsed = aggregation.pipeline.as_ref();
    let writes = parsed.is_some_and(|pipeline| pipeline.writes().is_some());
    let mut scope = service.reading_scope(request).await?;
    if writes && scope.is_joined() {
        let message = "a pipeline in a transaction cannot write";
        return Err(Failure::new(
            Code::OPERATION_NOT_SUPPORTED_IN_TRANSACTION,
            message,
        ));
    }
    let lent = scope.lend(&data).await?;
    let namespace = aggregation.namespace.clone();
    let at = (request.database, namespace);
    let within = Within::of(&scope, lent.clone());
    let environment = Environment::new(session, at, bypass, within);
    let environment = Arc::new(environment);
    let handle = Handle(Arc::clone(&environment));
    let mut batch = Batch::new(Turn::First);
    let opened = async {
        let source = aggregation.open(&handle).await?;
        let mut rows = PipelineRows::new(source, Arc::clone(&environment));
        if writes || lent.is_some() {
            rows.read_all().await?;
        }
        let done = rows.take(&mut batch, size).await?;
        Ok::<_, Failure>((rows, done))
    };
    let opened = opened.await;
    let opened = opened.map_err(|failure| environment.complete(failure));
    environment.settle(session);
    if let Some(lent) = lent {
        environment.release();
        scope.take_back(lent)?;
    }
    let (rows, done) = opened?;
    scope.succeed();
    let id = if done {
        0
    } else {
        data.cursors.keep(
            Cursor {
                namespace: shown.to_owned(),
                rows: Box::new(rows),
                owner: request.generic.owner,
                needs: session.needed.clone(),
                session: request.session(),
                transaction: request
                    .generic
                    .transaction_number
                    .filter(|_| request.in_transaction()),
                never_expires: false,
                tail: None,
                at: scope.at().cloned(),
            },
            request,
        )?
    };
    let batch = batch.read_at(scope.at());
    Ok(batch.reply(id, shown)?.into())
}

/// The aggregation that a command asks for, which the user may run, and what it needs of them.
pub(crate) async fn read(
    session: &Session,
    request: &Request<'_>,
    fields: &Fields<'_>,
) -> Result<(Aggregation, Vec<Need>)> {
    let service = &session.service();
    let namespace = match request.argument() {
        RawBsonRef::String(_) => Some(Namespace::new(request.database, request.collection()?)?),
        number if crate::fields::float(number).is_some() => {
            if crate::fields::float(number) != Some(1.0) {
                let message = "Invalid command format: the 'aggregate' field must specify a \
                               collection name or 1";
                return Err(bad_value(message).into());
            }
            None
        }
        other => {
            let found = crate::fields::type_name(other.element_type());
            let message = format!("collection name has invalid type {found}");
            return Err(Error::new(Code::INVALID_NAMESPACE, message).into());
        }
    };
    let stages = asked::stages(fields.array("pipeline"))?;
    rules::check(request, fields, (namespace.as_ref(), &stages))?;
    let own = match &namespace {
        None => None,
        Some(namespace) => {
            let mut transaction = service.store.begin().await?;
            Target::find(&service.data, &mut transaction, namespace).await?
        }
    };
    let collection = own.as_ref().map(|target| &*target.collection);
    let collation = asked::collation(fields.document("collation"), collection)?;
    let context = asked::context(service, collation.clone(), fields.document("let"))?;
    let pipeline = Pipeline::parse(&stages, &context)?;
    let needs = session.require(request, |user| {
        let over = Over {
            database: request.database,
            collection: namespace.as_ref().map(Namespace::collection),
            bypasses_validation: fields.bool("bypassDocumentValidation").unwrap_or(false),
        };
        access::pipeline::needs(&pipeline, &over, user)
    })?;
    if let Some(namespace) = &namespace {
        check_uuid(namespace, fields.get("collectionUUID"), own.as_ref())?;
    }
    if let Some(own) = collection.filter(|own| own.view.is_some())
        && own.collation != collation
    {
        let message = "Cannot override a view's default collation";
        return Err(Error::new(Code::OPTION_NOT_SUPPORTED_ON_VIEW, message).into());
    }
    let aggregation = Aggregation {
        namespace,
        stages,
        pipeline: Some(pipeline),
        context,
        hint: asked::hint(fields.get("hint"))?,
        allow_disk_use: fields.bool("allowDiskUse").unwrap_or(true),
    };
    Ok((aggregation, needs))
}
