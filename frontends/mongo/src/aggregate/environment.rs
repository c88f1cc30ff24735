//! The environment of pipelines: other collections to read, and targets to write to.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tessera_core::Transaction;
use tessera_core::moment::Moment;
use tessera_core::throughput::Meter;
use tessera_mongo_language::error::Result as LanguageResult;
use tessera_mongo_language::pipeline::{
    self, BoxFuture, Documents, Merge, Out, Pipeline, Source, SystemStage,
};

use crate::aggregate::source::CollectionSource;
use crate::aggregate::{Aggregation, leading, merge, out, system_stages};
use crate::collection::Namespace;
use crate::data::Data;
use crate::failure::{Failure, REQUEST_RATE_TOO_LARGE, Result};
use crate::logical::Owner;
use crate::plan::Hint;
use crate::service::Service;
use crate::session::Session;
use crate::sharding::config;
use crate::transaction::Scope;
use crate::write::target::Target;

/// A session's transaction while a pipeline reads in it.
pub(crate) type Shared = Arc<tokio::sync::Mutex<Transaction>>;

/// What a pipeline reads.
#[derive(Clone, Default)]
pub(crate) enum Within {
    /// Each batch as of its own moment.
    #[default]
    Now,
    Moment(Moment),
    Transaction(Shared),
}

impl Within {
    /// What the scope of a command says, which may have lent its transaction.
    pub(crate) fn of(scope: &Scope, lent: Option<Shared>) -> Self {
        match (lent, scope.at()) {
            (Some(lent), _) => Self::Transaction(lent),
            (None, Some(at)) => Self::Moment(at.moment.clone()),
            (None, None) => Self::Now,
        }
    }
}

/// What is around a pipeline.
pub(crate) struct Environment {
    pub(crate) data: Data,
    pub(crate) service: Arc<Service>,
    pub(crate) database: String,
    /// The collection that the command names.
    pub(crate) namespace: Option<Namespace>,
    pub(crate) bypass_validation: bool,
    /// How many documents `$merge` has written.
    merged: AtomicU64,
    /// Who runs it, `user@database`, and whose sessions are theirs.
    pub(crate) user: Option<String>,
    pub(crate) owner: Owner,
    within: Mutex<Within>,
    meters: Mutex<Vec<Meter>>,
}

impl Environment {
    pub(crate) fn new(
        session: &Session,
        (database, namespace): (&str, Option<Namespace>),
        bypass_validation: bool,
        within: Within,
    ) -> Self {
        let service = session.service();
        Self {
            data: service.data.clone(),
            service,
            user: session.user(),
            owner: session.login.owner(),
            database: database.to_owned(),
            namespace,
            bypass_validation,
            merged: AtomicU64::new(0),
            within: Mutex::new(within),
            meters: Mutex::default(),
        }
    }

    /// Notes that `$merge` has written a document.
    pub(super) fn merged(&self) {
        self.merged.fetch_add(1, Ordering::Relaxed);
    }

    /// A failure with what the pipeline has written, which would be done again.
    pub(crate) fn complete(&self, failure: Failure) -> Failure {
        match self.merged.load(Ordering::Relaxed) {
            0 => failure,
            merged => {
                let mut failure = match failure.code() == REQUEST_RATE_TOO_LARGE {
                    true => failure.after_writing(merged),
                    false => failure,
                };
                failure.is_half_done = true;
                failure
            }
        }
    }

    /// Runs something that reads, in the command's transaction or in one of its own.
    pub(crate) async fn with_transaction<T>(
        &self,
        read: impl AsyncFnOnce(&mut Transaction) -> Result<T>,
    ) -> Result<T> {
        let mut transaction = match self.within() {
            Within::Transaction(shared) => return read(&mut *shared.lock().await).await,
            Within::Moment(moment) => self.data.store.read_at(&moment),
            Within::Now => self.data.store.begin().await?,
        };
        let done = read(&mut transaction).await;
        self.note(transaction.meter().clone());
        done
    }

    fn within(&self) -> Within {
        let within = self.within.lock();
        within.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Lets go of the command's transaction, because everything in it is read.
    pub(crate) fn release(&self) {
        let mut within = self.within.lock().unwrap_or_else(PoisonError::into_inner);
        *within = Within::Now;
    }

    pub(crate) async fn target(&self, namespace: &Namespace) -> Result<Option<Target>> {
        let data = &self.data;
        self.with_transaction(async |transaction| Target::find(data, transaction, namespace).await)
            .await
    }

    /// Notes what was read beside the transactions that are begun here.
    pub(crate) fn note(&self, meter: Meter) {
        let mut meters = self.meters.lock().unwrap_or_else(PoisonError::into_inner);
        meters.push(meter);
    }

    /// Adds what was read so far to the charge of the running command.
    pub(crate) fn settle(&self, session: &mut Session) {
        let mut meters = self.meters.lock().unwrap_or_else(PoisonError::into_inner);
        for meter in meters.drain(..) {
            session.spent(&meter);
        }
    }

    /// Forgets what was read between two commands of a cursor.
    pub(crate) fn forget_meters(&self) {
        self.meters
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
    }

    /// The full name of a collection that a stage names.
    pub(crate) fn resolve(&self, namespace: &pipeline::Namespace) -> Namespace {
        let database = namespace.database.as_deref().unwrap_or(&self.database);
        Namespace::unchecked(database, &namespace.collection)
    }
}

/// An environment that stages may hold on to.
#[derive(Clone)]
pub(crate) struct Handle(pub(crate) Arc<Environment>);

impl pipeline::Environment for Handle {
    fn aggregate<'a>(
        &'a self,
        namespace: Option<&'a pipeline::Namespace>,
        pipeline: Pipeline,
    ) -> BoxFuture<'a, LanguageResult<Box<dyn Source>>> {
        Box::pin(async move {
            let read = self.read(namespace, pipeline);
            read.await.map_err(Failure::into_error)
        })
    }

    fn system<'a>(
        &'a self,
        stage: &'a SystemStage,
    ) -> BoxFuture<'a, LanguageResult<Box<dyn Source>>> {
        Box::pin(async move {
            let documents = system_stages::answer(&self.0, stage).await;
            let documents = documents.map_err(Failure::into_error)?;
            Ok(Box::new(Documents::new(documents)) as Box<dyn Source>)
        })
    }

    fn out<'a>(
        &'a self,
        target: &'a Out,
        documents: Box<dyn Source>,
    ) -> BoxFuture<'a, LanguageResult<()>> {
        Box::pin(async move {
            let written = out::replace(&self.0, target, documents).await;
            written.map_err(Failure::into_error)
        })
    }

    fn merge<'a>(
        &'a self,
        merge: &'a Merge,
        documents: Vec<bson::Document>,
    ) -> BoxFuture<'a, LanguageResult<()>> {
        Box::pin(async move {
            let merged = merge::merge(&self.0, merge, documents).await;
            merged.map_err(Failure::into_error)
        })
    }
}

impl Handle {
    /// Runs a pipeline within a stage over another collection.
    async fn read(
        &self,
        namespace: Option<&pipeline::Namespace>,
        pipeline: Pipeline,
    ) -> Result<Box<dyn Source>> {
        let shared: Arc<dyn pipeline::Environment> = Arc::new(self.clone());
        let empty = || Box::new(Documents::default());
        let Some(namespace) = namespace else {
            return Ok(pipeline.run(empty(), &shared));
        };
        let namespace = self.0.resolve(namespace);
        if let Some(computed) = config::documents(&self.0.service, &namespace).await? {
            return Ok(pipeline.run(Box::new(Documents::new(computed)), &shared));
        }
        let Some(target) = self.0.target(&namespace).await? else {
            return Ok(pipeline.run(empty(), &shared));
        };
        let aggregation = Aggregation {
            namespace: Some(namespace),
            stages: Vec::new(),
            pipeline: None,
            context: pipeline.context().clone(),
            hint: Hint::None,
            allow_disk_use: true,
        };
        if target.collection.view.is_some() {
            let below = aggregation.below_view(&self.0, &target).await?;
            let source = Box::pin(below.open(self)).await?;
            return Ok(pipeline.run(source, &shared));
        }
        // A filter at the start is given to the planner; it stays in the pipeline as well.
        let mut query = leading(&aggregation)?.query;
        if let Some(pipeline::Stage::Match(filter)) = pipeline.stages().first() {
            query = query.with_filter(filter.clone());
        }
        let source = CollectionSource::new(&self.0, target, query).await?;
        Ok(pipeline.run(Box::new(source), &shared))
    }
}
