//! Views: which collection they read in the end, and through which stages.

use bson::Bson;
use tessera_core::Transaction;
use tessera_mongo_language::collation::Collation;
use tessera_mongo_language::error::{Code, Error};

use crate::collection::{Collection, Namespace};
use crate::data::Data;
use crate::failure::{Failure, Result};
use crate::fields::Fields;
use crate::reply::Reply;
use crate::request::Request;
use crate::service::Service;
use crate::session::Session;
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

/// Checks a view before it is made.
pub(crate) async fn check_new(
    service: &Service,
    namespace: &Namespace,
    view: &Collection,
) -> Result<()> {
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
    let below = namespace.sibling(&definition.on);
    Namespace::new(below.database(), below.collection())?;
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

/// A `find` on a view.
pub(crate) async fn find(
    _service: &Service,
    _session: &mut Session,
    _request: &Request<'_>,
    (_target, _fields): (&Target, &Fields<'_>),
) -> Result<Reply> {
    Err(Error::new(Code::COMMAND_NOT_SUPPORTED_ON_VIEW, "views").into())
}

/// A `count` on a view.
pub(crate) async fn count(
    _service: &Service,
    _session: &mut Session,
    _request: &Request<'_>,
    (_target, _fields): (&Target, &Fields<'_>),
) -> Result<Reply> {
    Err(Error::new(Code::COMMAND_NOT_SUPPORTED_ON_VIEW, "views").into())
}

/// A `distinct` on a view.
pub(crate) async fn distinct(
    _service: &Service,
    _session: &mut Session,
    _request: &Request<'_>,
    (_target, _fields): (&Target, &Fields<'_>),
) -> Result<Reply> {
    Err(Error::new(Code::COMMAND_NOT_SUPPORTED_ON_VIEW, "views").into())
}
