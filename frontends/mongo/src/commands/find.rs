//! `find`: a query whose results are read through a cursor.

use std::sync::Arc;

use bson::{Document, doc};
use tessera_mongo_language::error::{Code, Error, bad_value, failed_to_parse};

use crate::access::{Access, Action};
use crate::batch::{Batch, FIRST_BATCH, Turn};
use crate::collection::{Collection, Namespace};
use crate::command::Command;
use crate::commands::asked::CONSTANTS;
use crate::commands::{asked, fast, view};
use crate::cursor::{Cursor, Rows as _, Tail};
use crate::execute::computed;
use crate::execute::query::{Query, natural};
use crate::execute::tailing::Tailing;
use crate::execute::{Execution, FindRows};
use crate::failure::Result;
use crate::fields::{
    ANY, BOOL_OR_NUMBER, DOCUMENT, Field, Fields, NUMBER, STRING_OR_DOCUMENT, optional,
};
use crate::listing;
use crate::oplog;
use crate::reply::Reply;
use crate::request::Request;
use crate::service::Service;
use crate::session::Session;
use crate::sharding::config;
use crate::transaction::Scope;
use crate::write::target::Target;

pub(crate) const COMMANDS: &[Command] = &[Command::new(
    "find",
    "Finds documents.",
    Access::Collection(&[Action::Find]),
    |service, session, request| Box::pin(run(service, session, request)),
)
.in_transactions()
.reads()
.snapshots()
.stable()];

pub(crate) const FIELDS: &[Field] = &[
    optional("filter", DOCUMENT).not_null(),
    optional("sort", DOCUMENT),
    optional("projection", DOCUMENT),
    optional("hint", STRING_OR_DOCUMENT),
    optional("skip", NUMBER),
    optional("limit", NUMBER),
    optional("batchSize", NUMBER),
    optional("ntoreturn", NUMBER).refused(
        5_746_102,
        "the ntoreturn find command parameter is not supported when using OP_MSG: use limit or \
         batchSize",
    ),
    optional("singleBatch", BOOL_OR_NUMBER),
    optional("max", DOCUMENT),
    optional("min", DOCUMENT),
    optional("returnKey", BOOL_OR_NUMBER),
    optional("showRecordId", BOOL_OR_NUMBER),
    optional("tailable", BOOL_OR_NUMBER),
    optional("awaitData", BOOL_OR_NUMBER),
    optional("oplogReplay", BOOL_OR_NUMBER),
    optional("noCursorTimeout", BOOL_OR_NUMBER),
    optional("allowPartialResults", BOOL_OR_NUMBER),
    optional("allowDiskUse", BOOL_OR_NUMBER),
    optional("collation", DOCUMENT),
    optional("let", DOCUMENT),
    optional("options", DOCUMENT),
    optional("term", NUMBER),
    optional("querySettings", DOCUMENT),
    optional("collectionUUID", ANY),
    optional("includeQueryStatsMetrics", BOOL_OR_NUMBER),
    optional("legacyRuntimeConstants", ANY).refused(51_202, CONSTANTS),
    optional("requestResumeToken", BOOL_OR_NUMBER).refused(NOT_SUPPORTED, RESUMING),
    optional("resumeAfter", DOCUMENT).refused(NOT_SUPPORTED, RESUMING),
    optional("startAt", DOCUMENT).refused(NOT_SUPPORTED, RESUMING),
];

const NOT_SUPPORTED: i32 = Code::COMMAND_NOT_SUPPORTED.0;
const RESUMING: &str = "requestResumeToken, resumeAfter and startAt are not supported: go on with \
                        a range of _id and a sort by it";

/// What a `find` asks besides its query.
pub(crate) struct Delivery {
    pub(crate) batch_size: usize,
    pub(crate) single_batch: bool,
    pub(crate) tail: Option<Tail>,
    pub(crate) never_expires: bool,
}

async fn run(service: &Service, session: &mut Session, request: &Request<'_>) -> Result<Reply> {
    let collection = request.argument().as_str().unwrap_or_default();
    if oplog::find::is_asked(service, request.database, collection) {
        let fields = Fields::of(request, FIELDS)?;
        let asked = (query(service, &fields, None)?, Delivery::read(&fields)?);
        return Box::pin(oplog::find::answer(session, request, asked)).await;
    }
    if !config::has_computed(request.database)
        && let Some(reply) = fast::find(service, session, request).await?
    {
        return Ok(reply);
    }
    // Apart, so that a look-up by `_id` does not carry the room that any other query needs.
    Box::pin(find(service, session, request)).await
}

async fn find(service: &Service, session: &mut Session, request: &Request<'_>) -> Result<Reply> {
    if config::has_computed(request.database)
        && let Some(reply) = find_computed(service, request).await?
    {
        return Ok(reply);
    }
    let namespace = Namespace::new(request.database, request.collection()?)?;
    let fields = Fields::of(request, FIELDS)?;
    let delivery = Delivery::read(&fields)?;
    let mut scope = service.reading_scope(request).await?;
    let mut reader = scope.reader(&service.data).await?;
    let target = Target::find(&service.data, &mut reader, &namespace).await?;
    let Some(target) = target else {
        // The query is checked all the same.
        query(service, &fields, None)?;
        drop(reader);
        scope.succeed();
        return Ok(Batch::new(Turn::First)
            .read_at(scope.at())
            .reply(0, &namespace.to_string())?
            .into());
    };
    if target.collection.view.is_some() {
        drop(reader);
        scope.succeed();
        return view::find(service, session, request, (&target, &fields)).await;
    }
    let query = Arc::new(query(service, &fields, Some(&target.collection))?);
    if delivery.tail.is_some() {
        check_tailable(&query, &target.collection)?;
    }
    let plan = query
        .plan(&mut reader, &target.container, &target.collection)
        .await?;
    let mut rows = FindRows {
        namespace: namespace.clone(),
        execution: Execution::new(query, plan),
        held_back: None,
        tailing: delivery.tail.map(|tail| Tailing::new(tail.waits)),
    };
    let mut batch = Batch::new(Turn::First);
    let done = rows
        .fill(&service.data, &mut reader, &mut batch, delivery.batch_size)
        .await?;
    session.spent(reader.meter());
    drop(reader);
    scope.succeed();
    // A cursor that waits for more must have seen something to wait behind.
    let stays = match delivery.tail {
        Some(_) => rows.execution.last().is_some() || (!done && delivery.batch_size == 0),
        None => !done,
    };
    let id = if stays && !delivery.single_batch {
        let cursor = cursor((request, session, &scope), &namespace, delivery, rows);
        service.data.cursors.keep(cursor, request)?
    } else {
        0
    };
    let batch = batch.read_at(scope.at());
    Ok(batch.reply(id, &namespace.to_string())?.into())
}

/// The cursor over what a first batch has left.
fn cursor(
    (request, session, scope): (&Request<'_>, &Session, &Scope),
    namespace: &Namespace,
    delivery: Delivery,
    rows: FindRows,
) -> Cursor {
    let number = request.generic.transaction_number;
    Cursor {
        namespace: namespace.to_string(),
        rows: Box::new(rows),
        owner: request.generic.owner,
        needs: session.needed.clone(),
        session: request.session(),
        transaction: number.filter(|_| request.in_transaction()),
        never_expires: delivery.never_expires,
        tail: delivery.tail,
        at: scope.at().cloned(),
    }
}

/// The answer of a collection that is computed; none of any other.
async fn find_computed(service: &Service, request: &Request<'_>) -> Result<Option<Reply>> {
    let namespace = Namespace::new(request.database, request.collection()?)?;
    let fields = Fields::of(request, FIELDS)?;
    let delivery = Delivery::read(&fields)?;
    let Some(documents) = config::documents(service, &namespace).await? else {
        return Ok(None);
    };
    let found = computed::answer(&query(service, &fields, None)?, documents)?;
    let size = if delivery.single_batch {
        None
    } else {
        Some(delivery.batch_size)
    };
    let namespace = namespace.to_string();
    let reply = listing::reply(&service.data, request, (&namespace, found), size)?;
    Ok(Some(reply))
}

impl Delivery {
    pub(crate) fn read(fields: &Fields<'_>) -> Result<Self> {
        let flag = |name| fields.bool(name).unwrap_or(false);
        let batch_size = asked::not_negative(fields, "batchSize")?;
        let (tailable, waits) = (flag("tailable"), flag("awaitData"));
        if waits && !tailable {
            let message = "Cannot set 'awaitData' without also setting 'tailable'";
            return Err(failed_to_parse(message).into());
        }
        let single_batch = flag("singleBatch");
        if tailable && single_batch {
            let message = "cannot use tailable option with the 'singleBatch' option";
            return Err(bad_value(message).into());
        }
        Ok(Self {
            batch_size: batch_size.map_or(FIRST_BATCH, |size| {
                usize::try_from(size).unwrap_or(usize::MAX)
            }),
            single_batch,
            tail: tailable.then_some(Tail { waits, ends: false }),
            never_expires: flag("noCursorTimeout"),
        })
    }
}

/// The query of a `find`.
pub(crate) fn query(
    service: &Service,
    fields: &Fields<'_>,
    collection: Option<&Collection>,
) -> Result<Query> {
    let flag = |name| fields.bool(name).unwrap_or(false);
    let collation = asked::collation(fields.document("collation"), collection)?;
    let context = asked::context(service, collation, fields.document("let"))?;
    let mut query = Query::by_filter(asked::query(fields, "filter")?, context)?;
    query.hint = asked::hint(fields.get("hint"))?;
    query.skip = asked::not_negative(fields, "skip")?.unwrap_or(0);
    query.limit = asked::not_negative(fields, "limit")?.filter(|limit| *limit > 0);
    query.min = asked::optional_document(fields, "min")?.filter(|key| !key.is_empty());
    query.max = asked::optional_document(fields, "max")?.filter(|key| !key.is_empty());
    query.return_key = flag("returnKey");
    query.show_record_id = flag("showRecordId");
    query.allow_disk_use = fields.bool("allowDiskUse").unwrap_or(true);
    let query = query.sorted(asked::order(fields, "sort")?)?;
    Ok(query.projected(asked::projection(fields, "projection")?)?)
}

fn check_tailable(query: &Query, collection: &Collection) -> std::result::Result<(), Error> {
    if collection.capped.is_none() {
        return Err(bad_value(
            "error processing query: tailable cursor requested on non capped collection",
        ));
    }
    if query.sort.is_some() || natural(&query.sort_document)? == Some(true) {
        return Err(bad_value(
            "cannot use tailable option with a sort other than {$natural: 1}",
        ));
    }
    Ok(())
}

/// The filter and the options of a `find` as a pipeline, for what reads views.
pub(crate) fn as_pipeline(fields: &Fields<'_>) -> Result<Vec<Document>> {
    let mut pipeline = Vec::new();
    let filter = asked::query(fields, "filter")?;
    if !filter.is_empty() {
        pipeline.push(doc! { "$match": filter });
    }
    let sort = asked::order(fields, "sort")?;
    if !sort.is_empty() {
        pipeline.push(doc! { "$sort": sort });
    }
    let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    if let Some(skip) = asked::not_negative(fields, "skip")?.filter(|skip| *skip > 0) {
        pipeline.push(doc! { "$skip": number(skip) });
    }
    if let Some(limit) = asked::not_negative(fields, "limit")?.filter(|limit| *limit > 0) {
        pipeline.push(doc! { "$limit": number(limit) });
    }
    let projection = asked::projection(fields, "projection")?;
    if !projection.is_empty() {
        pipeline.push(doc! { "$project": projection });
    }
    Ok(pipeline)
}
