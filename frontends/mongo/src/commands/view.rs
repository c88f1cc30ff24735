//! Views: the collection that they finally read, and the stages.

use std::sync::Arc;

use bson::{Bson, Document, RawDocument, doc};
use tessera_core::Transaction;
use tessera_mongo_language::collation::Collation;
use tessera_mongo_language::error::Code;
use tessera_mongo_language::path::Path;
use tessera_mongo_language::pipeline::{self, Pipeline};

use crate::access::pipeline::Over;
use crate::access::{self, Action};
use crate::aggregate::environment::{Environment, Handle, Within};
use crate::aggregate::{Aggregation, rules};
use crate::commands::count::Distinct;
use crate::commands::find::{Delivery, as_pipeline};
use crate::commands::{aggregate, asked};

use crate::collection::{Collection, Namespace};
use crate::data::Data;
use crate::failure::{Failure, Result};
use crate::fields::Fields;
use crate::reply::Reply;
use crate::request::Request;
use crate::service::Service;
use crate::session::Session;
use crate::transaction::Scope;
use crate::write::target::Target;

/// How many views may stand on each other.
const MAX_DEPTH: usize = 20;
/// The most bytes of the stages of a view and of all views below it.
const MAX_PIPELINE_BYTES: usize = 16 * 1024 * 1024;

/// What a view reads.
pub(crate) struct Resolved {
    /// The collection at the end of the chain; none if it does not exist.
    pub(crate) target: Option<Target>,
    pub(crate) namespace: Namespace,
    /// The stages of all views on the way, the lowest first.
    pub(crate) pipeline: Vec<Bson>,
    pub(crate) collation: Collation,
}

/// Follows a view down to its collection.
pub(crate) async fn resolve(
    data: &Data,
    transaction: &mut Transaction,
    view: &Target,
) -> Result<Resolved> {
    let mut pipelines = Vec::new();
    let collation = view.collection.collation.clone();
    let mut namespace = view.namespace.clone();
    let mut current = Some(view.clone());
    for _ in 0..=MAX_DEPTH {
        let on = current
            .as_ref()
            .and_then(|target| target.collection.view.as_ref());
        let Some(on) = on else {
            pipelines.reverse();
            return Ok(Resolved {
                target: current,
                namespace,
                pipeline: pipelines.into_iter().flatten().collect(),
                collation,
            });
        };
        pipelines.push(on.pipeline.clone());
        namespace = namespace.sibling(&on.on);
        current = Target::find(data, transaction, &namespace).await?;
    }
    Err(too_deep(&view.namespace))
}

fn too_deep(namespace: &Namespace) -> Failure {
    let message = format!("View depth limit of {MAX_DEPTH} exceeded at {namespace}");
    Failure::new(Code::VIEW_DEPTH_LIMIT_EXCEEDED, message)
}

/// Checks a view before it is made: that it can be read, and that it shows its maker nothing that
/// they may not read without it.
pub(crate) async fn check_new(
    session: &Session,
    request: &Request<'_>,
    namespace: &Namespace,
    view: &Collection,
) -> Result<()> {
    let service = &session.service();
    let Some(definition) = &view.view else {
        return Ok(());
    };
    let size = bson::doc! { "pipeline": definition.pipeline.clone() }
        .to_vec()?
        .len();
    if size > MAX_PIPELINE_BYTES {
        let message = "the view's pipeline is too large";
        return Err(Failure::new(Code::VIEW_PIPELINE_MAX_SIZE_EXCEEDED, message));
    }
    rules::check_view(&definition.pipeline)?;
    let context = asked::context(service, view.collation.clone(), None)?;
    let pipeline = Pipeline::parse(&definition.pipeline, &context)?;
    if pipeline.writes().is_some() {
        let message = "a view's pipeline cannot write";
        return Err(Failure::new(Code::OPTION_NOT_SUPPORTED_ON_VIEW, message));
    }
    let below = namespace.sibling(&definition.on);
    Namespace::new(below.database(), below.collection())?;
    session.require(request, |user| {
        // Who cannot read the view may make it of anything.
        if !user.may_all(
            &[Action::Find],
            namespace.database(),
            namespace.collection(),
        ) {
            return Vec::new();
        }
        let over = Over {
            database: below.database(),
            collection: Some(below.collection()),
            bypasses_validation: false,
        };
        access::pipeline::needs(&pipeline, &over, user)
    })?;
    let mut transaction = service.store.begin().await?;
    let mut current = below;
    for _ in 0..MAX_DEPTH {
        if current == *namespace {
            let message = format!("the view {namespace} would stand on itself");
            return Err(Failure::new(Code::GRAPH_CONTAINS_CYCLE, message));
        }
        let target = Target::find(&service.data, &mut transaction, &current).await?;
        let Some(target) = target else {
            return Ok(());
        };
        let Some(view) = &target.collection.view else {
            return Ok(());
        };
        current = current.sibling(&view.on);
    }
    Err(too_deep(namespace))
}

/// The aggregation that reads a view through further stages.
fn through(
    service: &Service,
    (target, fields): (&Target, &Fields<'_>),
    stages: Vec<Document>,
    definitions: Option<&RawDocument>,
) -> Result<Aggregation> {
    let own = &target.collection;
    let collation = asked::collation(fields.document("collation"), Some(own))?;
    if collation != own.collation {
        let message = "Cannot override a view's default collation";
        return Err(Failure::new(Code::OPTION_NOT_SUPPORTED_ON_VIEW, message));
    }
    Ok(Aggregation {
        namespace: Some(target.namespace.clone()),
        stages: stages.into_iter().map(Bson::Document).collect(),
        pipeline: None,
        context: asked::context(service, collation, definitions)?,
        hint: asked::hint(fields.get("hint"))?,
        allow_disk_use: true,
    })
}

/// A `find` on a view.
pub(crate) async fn find(
    service: &Service,
    session: &mut Session,
    request: &Request<'_>,
    (target, fields): (&Target, &Fields<'_>),
) -> Result<Reply> {
    const REFUSED: &[&str] = &["min", "max", "returnKey", "showRecordId", "tailable"];
    for name in REFUSED {
        if fields
            .get(name)
            .is_some_and(|value| crate::fields::truth(value) != Some(false))
        {
            let message = format!("Option not supported on views: {name}");
            return Err(Failure::new(Code::INVALID_PIPELINE_OPERATOR, message));
        }
    }
    let stages = as_pipeline(fields)?;
    let aggregation = through(service, (target, fields), stages, fields.document("let"))?;
    let delivery = Delivery::read(fields)?;
    let shown = target.namespace.to_string();
    let size = if delivery.single_batch {
        usize::MAX
    } else {
        delivery.batch_size
    };
    aggregate::open(session, request, (aggregation, false), (size, &shown)).await
}

/// All documents that a view gives through further stages.
async fn collect(
    session: &mut Session,
    request: &Request<'_>,
    scope: &mut Scope,
    aggregation: Aggregation,
) -> Result<Vec<Document>> {
    let service = session.service();
    let lent = scope.lend(&service.data).await?;
    let at = (request.database, aggregation.namespace.clone());
    let within = Within::of(scope, lent.clone());
    let environment = Arc::new(Environment::new(session, at, false, within));
    let handle = Handle(Arc::clone(&environment));
    let found = async { Ok(pipeline::collect(aggregation.open(&handle).await?).await?) };
    let found = found.await;
    environment.settle(session);
    if let Some(lent) = lent {
        environment.release();
        scope.take_back(lent)?;
    }
    found
}

/// A `count` on a view.
pub(crate) async fn count(
    service: &Service,
    session: &mut Session,
    request: &Request<'_>,
    (target, fields): (&Target, &Fields<'_>),
) -> Result<Reply> {
    let mut stages = Vec::new();
    let filter = asked::query(fields, "query")?;
    if !filter.is_empty() {
        stages.push(doc! { "$match": filter });
    }
    let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    if let Some(skip) = asked::not_negative(fields, "skip")?.filter(|skip| *skip > 0) {
        stages.push(doc! { "$skip": number(skip) });
    }
    let limit = fields.integer("limit").unwrap_or(0).unsigned_abs();
    if limit > 0 {
        stages.push(doc! { "$limit": number(limit) });
    }
    stages.push(doc! { "$count": "n" });
    let aggregation = through(service, (target, fields), stages, None)?;
    let found = collect(session, request, &mut Scope::Alone, aggregation).await?;
    let n = found.first().and_then(|found| found.get("n").cloned());
    Ok(doc! { "n": n.unwrap_or(Bson::Int32(0)) }.into())
}

/// A `distinct` on a view.
pub(crate) async fn distinct(
    session: &mut Session,
    request: &Request<'_>,
    scope: &mut Scope,
    (target, fields): (&Target, &Fields<'_>),
) -> Result<Vec<Bson>> {
    let mut stages = Vec::new();
    let filter = asked::query(fields, "query")?;
    if !filter.is_empty() {
        stages.push(doc! { "$match": filter });
    }
    let aggregation = through(&session.service(), (target, fields), stages, None)?;
    let mut distinct = Distinct::new(aggregation.context.collation.clone());
    let path = Path::parse(fields.str("key").unwrap_or_default());
    for document in collect(session, request, scope, aggregation).await? {
        distinct.take(&document, &path)?;
    }
    Ok(distinct.into_values())
}
