//! `explain`: the plan of a command, and statistics of its execution.

use std::sync::Arc;
use std::time::Instant;

use bson::{Bson, Document, RawBsonRef, RawDocument, doc};
use tessera_core::Transaction;
use tessera_mongo_language::error::{Code, Error, bad_value, failed_to_parse, type_mismatch};

use crate::access::{self, Access};
use crate::aggregate;
use crate::auth::login::Identity;
use crate::collection::{Collection, Namespace};
use crate::command::Command;
use crate::commands::{asked, count, find, find_and_modify, update};
use crate::execute::Execution;
use crate::execute::query::Query;
use crate::failure::{Failure, Result};
use crate::fields::{Field, Fields, STRING, optional};
use crate::plan::Plan;
use crate::plan::explain::{Ran, above, number, stages};
use crate::plan::filters;
use crate::reply::Reply;
use crate::request::Request;
use crate::service::Service;
use crate::session::Session;
use crate::sharding;
use crate::write::change::{Change, Kind};
use crate::write::target::Target;

pub(crate) const COMMANDS: &[Command] = &[Command::new(
    "explain",
    "Returns the plan of a command.",
    Access::Judge(may_explain),
    |service, session, request| Box::pin(run(service, session, request)),
)
.reads()
.snapshots()
.stable()];

const FIELDS: &[Field] = &[optional("verbosity", STRING)];
const VERBOSITIES: &[&str] = &["queryPlanner", "executionStats", "allPlansExecution"];

/// Whoever may run a command may have it explained.
fn may_explain(request: &Request<'_>, user: &Identity) -> Result<bool> {
    let RawBsonRef::Document(inner) = request.argument() else {
        return Ok(true);
    };
    let inner = inner_request(request, inner)?;
    match find(inner.name()) {
        Some(command) => access::allows(user, command, &inner),
        None => Ok(true),
    }
}

/// What is shown of a command: the query that it runs, and the stage that it puts above.
struct Explained {
    query: Query,
    top: Option<&'static str>,
}

async fn run(service: &Service, session: &mut Session, request: &Request<'_>) -> Result<Reply> {
    let fields = Fields::of(request, FIELDS)?;
    let verbosity = fields.str("verbosity").unwrap_or("allPlansExecution");
    if !VERBOSITIES.contains(&verbosity) {
        let message = format!(
            "Enumeration value '{verbosity}' for field 'explain.verbosity' is not a valid value."
        );
        return Err(bad_value(message).into());
    }
    let RawBsonRef::Document(inner) = request.argument() else {
        let found = crate::fields::type_name(request.argument().element_type());
        let message = format!(
            "BSON field 'explain.explain' is the wrong type '{found}', expected type 'object'"
        );
        return Err(type_mismatch(message).into());
    };
    let inner_request = inner_request(request, inner)?;
    let inner_request = &inner_request;
    if inner_request.name() == "aggregate" {
        let fields = Fields::of(inner_request, super::aggregate::FIELDS)?;
        return aggregate(service, session, (inner_request, &fields), verbosity).await;
    }
    let namespace = Namespace::new(request.database, inner_request.collection()?)?;
    let mut transaction = service.store.begin().await?;
    let target = Target::find(&service.data, &mut transaction, &namespace).await?;
    let collection = target.as_ref().map(|target| &*target.collection);
    let explained = explained(service, inner_request, collection)?;
    if let Some(target) = target
        .as_ref()
        .filter(|target| target.collection.view.is_some())
    {
        return explain_view(service, session, (inner_request, inner, target), verbosity).await;
    }
    let shown = show(&mut transaction, target.as_ref(), explained, verbosity).await?;
    session.spent(transaction.meter());
    Ok(complete(service, &namespace, inner, shown)?.into())
}

/// The command within, sent to the same database.
fn inner_request<'a>(request: &Request<'a>, inner: &'a RawDocument) -> Result<Request<'a>> {
    if inner.is_empty() {
        let message = "Explain failed due to unknown command: ";
        return Err(Error::new(Code::COMMAND_NOT_FOUND, message).into());
    }
    let mut inner = Request::parse(inner, Vec::new(), Some(request.database))?;
    if inner.database != request.database {
        let message = "Mismatched $db in explain command";
        return Err(Error::new(Code::INVALID_NAMESPACE, message).into());
    }
    inner.generic.owner = request.generic.owner;
    Ok(inner)
}

fn explained(
    service: &Service,
    request: &Request<'_>,
    collection: Option<&Collection>,
) -> Result<Explained> {
    let (query, top) = match request.name() {
        "find" => {
            let fields = Fields::of(request, find::FIELDS)?;
            (find::query(service, &fields, collection)?, None)
        }
        "count" => {
            let fields = Fields::of(request, count::COUNT)?;
            (
                count::count_query(service, &fields, collection)?,
                Some("COUNT"),
            )
        }
        "distinct" => {
            let fields = Fields::of(request, count::DISTINCT)?;
            (count::distinct_query(service, &fields, collection)?, None)
        }
        "update" | "delete" => {
            let change = update::only_statement(service, request, collection)?;
            (one_query(&change), Some(top_of(&change)))
        }
        "findAndModify" | "findandmodify" => {
            let fields = Fields::of(request, find_and_modify::FIELDS)?;
            let change = find_and_modify::read(service, &fields, collection)?.change;
            (one_query(&change), Some(top_of(&change)))
        }
        name => {
            let message = format!("Explain failed due to unknown command: {name}");
            return Err(Failure::new(Code::COMMAND_NOT_FOUND, message));
        }
    };
    Ok(Explained { query, top })
}

fn one_query(change: &Change) -> Query {
    let mut query = (*change.query).clone();
    if !change.multi {
        query.limit = Some(1);
    }
    query
}

fn top_of(change: &Change) -> &'static str {
    match change.kind {
        Kind::Update { .. } => "UPDATE",
        Kind::Delete => "DELETE",
    }
}

/// The parts of the answer that depend on the plan.
async fn show(
    transaction: &mut Transaction,
    target: Option<&Target>,
    explained: Explained,
    verbosity: &str,
) -> Result<Document> {
    let Explained { query, top } = explained;
    let mut query_shown = query.clone();
    if top.is_some_and(|top| top != "COUNT") {
        // A change of one document ends with the first without a stage that says so.
        query_shown.limit = None;
    }
    let (plan, partitions) = match target {
        Some(target) => {
            let plan = query
                .plan(transaction, &target.container, &target.collection)
                .await?;
            (plan, target.container.partitions.iter().count())
        }
        None => (Plan::of(crate::plan::Access::Nothing, true), 0),
    };
    let runs = verbosity != "queryPlanner";
    let ran = match target {
        Some(target) if runs => {
            let ran = run_plan(transaction, target, (&query, &plan), u64::MAX).await?;
            Some(ran)
        }
        None if runs => Some(Ran {
            returned: 0,
            counts: Default::default(),
            millis: 0,
        }),
        _ => None,
    };
    let tree = |ran: Option<Ran>| {
        let tree = stages(&plan, &query_shown, ran);
        match top {
            Some(top) => above(top, Document::new(), tree, ran),
            None => tree,
        }
    };
    let mut planner = planner(&plan, &query_shown, tree(None));
    let filtered =
        target.is_some_and(|target| target.collection.index_filters.of(&query).is_some());
    planner.insert("indexFilterSet", filtered);
    let mut shown = doc! { "queryPlanner": planner };
    if let Some(target) = target.filter(|target| target.collection.shard_key.is_some()) {
        let touched = partitions_of(target, &plan, partitions);
        if let Ok(planner) = shown.get_document_mut("queryPlanner") {
            sharding::explain_shards(planner, &touched);
        }
        shown.insert("partitions", touched);
    }
    if let Some(ran) = ran {
        let mut stats = execution_stats(ran, tree(Some(ran)));
        if verbosity == "allPlansExecution" {
            let trials = match target {
                Some(target) => trials(transaction, target, (&query, &plan)).await?,
                None => Vec::new(),
            };
            stats.insert("allPlansExecution", trials);
        }
        shown.insert("executionStats", stats);
    }
    Ok(shown)
}

/// Runs a plan until it has so many answers.
async fn run_plan(
    transaction: &mut Transaction,
    target: &Target,
    (query, plan): (&Query, &Plan),
    most: u64,
) -> Result<Ran> {
    let began = Instant::now();
    let mut execution = Execution::new(Arc::new(query.clone()), plan.clone());
    let mut returned = 0;
    while returned < most {
        let next = execution.next(transaction, &target.container, 1_000);
        let Some(row) = next.await? else {
            break;
        };
        execution.finish_document(row)?;
        returned += 1;
    }
    Ok(Ran {
        returned,
        counts: execution.counts(),
        millis: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
    })
}

/// What each of several possible plans does for the first answers. One alone is not tried.
async fn trials(
    transaction: &mut Transaction,
    target: &Target,
    (query, plan): (&Query, &Plan),
) -> Result<Vec<Bson>> {
    const MOST: u64 = 101;
    if plan.rejected.is_empty() {
        return Ok(Vec::new());
    }
    let mut shown = Vec::new();
    for tried in std::iter::once(plan).chain(&plan.rejected) {
        let ran = run_plan(transaction, target, (query, tried), MOST).await?;
        let mut stats = execution_stats(ran, stages(tried, query, Some(ran)));
        stats.remove("executionSuccess");
        shown.push(Bson::Document(stats));
    }
    Ok(shown)
}

/// Which physical partitions a plan touches.
fn partitions_of(target: &Target, plan: &Plan, all: usize) -> Document {
    use crate::plan::Access;
    use tessera_core::reading::Span;

    let token = match &plan.access {
        Access::Point(point) => Some(point.locator.token),
        Access::Scan(scan) => match scan.span {
            Span::Partition { token, .. } => Some(token),
            _ => None,
        },
        _ => None,
    };
    let map = &target.container.partitions;
    let touched: Vec<Bson> = match token {
        Some(token) => vec![Bson::Int64(i64::from(map.locate(token).id))],
        None => map
            .iter()
            .map(|partition| Bson::Int64(i64::from(partition.id)))
            .collect(),
    };
    let total = i32::try_from(all).unwrap_or(i32::MAX);
    doc! { "touched": touched, "total": total }
}

fn planner(plan: &Plan, query: &Query, tree: Document) -> Document {
    let rejected = plan.rejected.iter();
    let rejected = rejected.map(|rejected| Bson::Document(stages(rejected, query, None)));
    let hash = format!("{:08X}", filters::shape(query) & 0xffff_ffff);
    let mut planner = doc! {
        "parsedQuery": query.filter.to_document(),
        "indexFilterSet": false,
        "queryHash": hash.clone(),
        "planCacheShapeHash": hash.clone(),
        "planCacheKey": hash,
        "optimizationTimeMillis": 0,
        "maxIndexedOrSolutionsReached": false,
        "maxIndexedAndSolutionsReached": false,
        "maxScansToExplodeReached": false,
        "prunedSimilarIndexes": false,
        "winningPlan": tree,
        "rejectedPlans": rejected.collect::<Vec<_>>(),
    };
    if !query.collation().is_simple() {
        planner.insert("collation", query.collation().to_document());
    }
    planner
}

fn execution_stats(ran: Ran, tree: Document) -> Document {
    doc! {
        "executionSuccess": true,
        "nReturned": number(ran.returned),
        "executionTimeMillis": number(ran.millis),
        "totalKeysExamined": number(ran.counts.keys),
        "totalDocsExamined": number(ran.counts.documents),
        "executionStages": tree,
    }
}

/// What every explanation has.
fn complete(
    service: &Service,
    namespace: &Namespace,
    command: &RawDocument,
    shown: Document,
) -> Result<Document> {
    let mut reply = doc! { "explainVersion": "1" };
    for (name, value) in shown {
        match (name.as_str(), value) {
            ("queryPlanner", Bson::Document(planner)) => {
                let mut with_name = doc! { "namespace": namespace.to_string() };
                with_name.extend(planner);
                reply.insert(name, with_name);
            }
            (_, value) => {
                reply.insert(name, value);
            }
        }
    }
    let mut command = asked::owned(command)?;
    command
        .entry("$db")
        .or_insert_with(|| namespace.database().into());
    reply.insert("command", command);
    reply.insert(
        "serverInfo",
        doc! {
            "host": "localhost",
            "port": service.config.address.map_or(27017, |address| i32::from(address.port())),
            "version": "8.0.0",
            "gitVersion": format!("tessera-{}", service.config.version),
        },
    );
    reply.insert(
        "serverParameters",
        doc! {
            "internalQueryFacetBufferSizeBytes": 104_857_600,
            "internalQueryMaxBlockingSortMemoryUsageBytes": 104_857_600,
        },
    );
    Ok(reply)
}

/// An aggregation: its first stages as a query, the others as they stand.
pub(crate) async fn aggregate(
    service: &Service,
    session: &mut Session,
    (request, fields): (&Request<'_>, &Fields<'_>),
    verbosity: &str,
) -> Result<Reply> {
    let (mut aggregation, _) = super::aggregate::read(session, request, fields).await?;
    let Some(namespace) = aggregation.namespace.clone() else {
        let message = "explain of a pipeline needs a collection";
        return Err(failed_to_parse(message).into());
    };
    let mut transaction = service.store.begin().await?;
    let mut target = Target::find(&service.data, &mut transaction, &namespace).await?;
    if let Some(view) = target
        .clone()
        .filter(|target| target.collection.view.is_some())
    {
        let resolved = super::view::resolve(&service.data, &mut transaction, &view).await?;
        let mut stages = resolved.pipeline;
        stages.append(&mut aggregation.stages);
        aggregation.stages = stages;
        aggregation.namespace = Some(resolved.namespace);
        target = resolved.target;
    }
    let leading = aggregate::leading(&aggregation)?;
    let rest: Vec<Bson> = aggregation
        .stages
        .iter()
        .skip(leading.stages)
        .cloned()
        .collect();
    let explained = Explained {
        query: leading.query,
        top: None,
    };
    let shown = show(&mut transaction, target.as_ref(), explained, verbosity).await?;
    session.spent(transaction.meter());
    let shown = if rest.is_empty() {
        shown
    } else {
        let mut cursor = doc! { "$cursor": shown };
        if verbosity != "queryPlanner" {
            cursor.insert("nReturned", 0i64);
            cursor.insert("executionTimeMillisEstimate", 0i64);
        }
        let mut all = vec![Bson::Document(cursor)];
        all.extend(rest);
        doc! { "stages": all }
    };
    Ok(complete(service, &namespace, request.body, shown)?.into())
}

/// A query on a view is an aggregation on what the view reads.
async fn explain_view(
    service: &Service,
    session: &mut Session,
    (request, inner, view): (&Request<'_>, &RawDocument, &Target),
    verbosity: &str,
) -> Result<Reply> {
    let mut transaction = service.store.begin().await?;
    let resolved = super::view::resolve(&service.data, &mut transaction, view).await?;
    let mut stages = resolved.pipeline;
    if request.name() == "find" {
        let fields = Fields::of(request, find::FIELDS)?;
        stages.extend(find::as_pipeline(&fields)?.into_iter().map(Bson::Document));
    }
    let aggregation = aggregate::Aggregation {
        namespace: Some(resolved.namespace.clone()),
        stages,
        pipeline: None,
        context: asked::context(service, resolved.collation, None)?,
        hint: crate::plan::Hint::None,
        allow_disk_use: true,
    };
    let leading = aggregate::leading(&aggregation)?;
    let explained = Explained {
        query: leading.query,
        top: None,
    };
    let target = resolved.target.as_ref();
    let shown = show(&mut transaction, target, explained, verbosity).await?;
    session.spent(transaction.meter());
    Ok(complete(service, &view.namespace, inner, shown)?.into())
}
