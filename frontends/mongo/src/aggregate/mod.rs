//! Aggregation: pipelines over collections and views. The planner executes the leading stages; the
//! rest runs in the language.

pub(crate) mod environment;
mod merge;
mod out;
pub(crate) mod rules;
pub(crate) mod server_stages;
pub(crate) mod source;
pub(crate) mod system_stages;

use std::collections::VecDeque;
use std::sync::Arc;

use bson::{Bson, Document};
use tessera_core::Transaction;
use tessera_core::deadline::{self, Interruption};
use tessera_core::engine::BoxFuture;
use tessera_core::memory_budget::{Grant, Purpose};
use tessera_mongo_language::error::Result as LanguageResult;
use tessera_mongo_language::expression::Context;
use tessera_mongo_language::pipeline::{self, Documents, Pipeline, Source};
use tessera_mongo_language::size::document_footprint;

use crate::aggregate::environment::{Environment, Handle};
use crate::aggregate::source::CollectionSource;
use crate::batch::{Batch, encode};
use crate::collection::Namespace;
use crate::commands::view;
use crate::cursor::Rows;
use crate::data::Data;
use crate::execute::query::Query;
use crate::failure::Result;
use crate::plan::Hint;
use crate::sharding::config;
use crate::write::target::Target;

/// An aggregation that is asked for.
#[derive(Clone)]
pub(crate) struct Aggregation {
    /// None: the pipeline has a source of its own.
    pub(crate) namespace: Option<Namespace>,
    pub(crate) stages: Vec<Bson>,
    /// The stages as they run, if they are parsed already.
    pub(crate) pipeline: Option<Pipeline>,
    pub(crate) context: Context,
    pub(crate) hint: Hint,
    pub(crate) allow_disk_use: bool,
}

/// The first stages of a pipeline as a query, and how many they are.
pub(crate) struct Leading {
    pub(crate) query: Query,
    pub(crate) stages: usize,
}

impl Aggregation {
    /// Begins to run; its documents come from the answer.
    pub(crate) async fn open(mut self, handle: &Handle) -> Result<Box<dyn Source>> {
        let environment = &handle.0;
        let shared: Arc<dyn pipeline::Environment> = Arc::new(handle.clone());
        let pipeline = match self.pipeline.take() {
            Some(pipeline) => pipeline,
            None => Pipeline::parse(&self.stages, &self.context)?,
        };
        let Some(namespace) = &self.namespace else {
            return Ok(pipeline.run(Box::new(Documents::default()), &shared));
        };
        if pipeline.has_own_source() {
            return Ok(pipeline.run(Box::new(Documents::default()), &shared));
        }
        if let Some(computed) = config::documents(&environment.service, namespace).await? {
            return Ok(pipeline.run(Box::new(Documents::new(computed)), &shared));
        }
        let target = environment.target(namespace).await?;
        let Some(target) = target else {
            return Ok(pipeline.run(Box::new(Documents::default()), &shared));
        };
        if target.collection.view.is_some() {
            let below = self.below_view(environment, &target).await?;
            return Box::pin(below.open(handle)).await;
        }
        let leading = leading(&self)?;
        let rest = pipeline.without_leading(leading.stages);
        let source = CollectionSource::new(environment, target, leading.query).await?;
        Ok(rest.run(Box::new(source), &shared))
    }

    /// The same aggregation on what a view reads.
    pub(crate) async fn below_view(
        self,
        environment: &Environment,
        target: &Target,
    ) -> Result<Self> {
        let resolved = environment
            .with_transaction(async |transaction| {
                view::resolve(&environment.data, transaction, target).await
            })
            .await?;
        let mut stages = resolved.pipeline;
        stages.extend(self.stages);
        let context = Context {
            collation: resolved.collation,
            ..self.context
        };
        Ok(Self {
            namespace: Some(resolved.namespace),
            stages,
            pipeline: None,
            context,
            ..self
        })
    }
}

/// What the planner may answer of a pipeline: its filters, then its order, then its limits.
pub(crate) fn leading(aggregation: &Aggregation) -> LanguageResult<Leading> {
    let mut filters = Vec::new();
    let (mut sort, mut skip, mut limit) = (None, 0, None);
    let mut stages = 0;
    for stage in &aggregation.stages {
        let Bson::Document(stage) = stage else {
            break;
        };
        let Some((name, argument)) = stage.iter().next() else {
            break;
        };
        let unlimited = limit.is_none() && skip == 0;
        match (name.as_str(), argument) {
            ("$match", Bson::Document(filter)) if sort.is_none() && unlimited => {
                filters.push(Bson::Document(filter.clone()));
            }
            ("$sort", Bson::Document(order)) if sort.is_none() && unlimited && is_plain(order) => {
                sort = Some(order.clone());
            }
            ("$skip", count) if unlimited => match whole(count) {
                Some(count) => skip = count,
                None => break,
            },
            ("$limit", count) if limit.is_none() => match whole(count).filter(|count| *count > 0) {
                Some(count) => limit = Some(count),
                None => break,
            },
            _ => break,
        }
        stages += 1;
    }
    let filter = match filters.as_slice() {
        [] => Document::new(),
        [Bson::Document(only)] => only.clone(),
        _ => bson::doc! { "$and": filters },
    };
    let mut query = Query::by_filter(filter, aggregation.context.clone())?;
    query.hint = aggregation.hint.clone();
    query.skip = skip;
    query.limit = limit;
    query.allow_disk_use = aggregation.allow_disk_use;
    let query = query.sorted(sort.unwrap_or_default())?;
    Ok(Leading { query, stages })
}

/// Whether an order is by fields alone, so that an index may give it.
fn is_plain(order: &Document) -> bool {
    let direction = |value: &Bson| matches!(whole(value), Some(1)) || is_minus_one(value);
    !order.is_empty()
        && order
            .iter()
            .all(|(path, value)| !path.starts_with('$') && direction(value))
}

fn is_minus_one(value: &Bson) -> bool {
    match value {
        Bson::Int32(number) => *number == -1,
        Bson::Int64(number) => *number == -1,
        Bson::Double(number) => *number == -1.0,
        _ => false,
    }
}

fn whole(value: &Bson) -> Option<u64> {
    match value {
        Bson::Int32(number) => u64::try_from(*number).ok(),
        Bson::Int64(number) => u64::try_from(*number).ok(),
        #[expect(clippy::cast_possible_truncation, reason = "whole and in range")]
        #[expect(clippy::cast_sign_loss, reason = "not negative")]
        Bson::Double(number) if number.fract() == 0.0 && (0.0..9e15).contains(number) => {
            Some(*number as u64)
        }
        _ => None,
    }
}

/// The answers of a pipeline, batch by batch.
pub(crate) struct PipelineRows {
    source: Box<dyn Source>,
    environment: Arc<Environment>,
    ready: VecDeque<Document>,
    is_complete: bool,
    /// What `ready` takes if it has all.
    kept: Grant,
}

impl PipelineRows {
    pub(crate) fn new(source: Box<dyn Source>, environment: Arc<Environment>) -> Self {
        Self {
            source,
            environment,
            ready: VecDeque::new(),
            is_complete: false,
            kept: Grant::new(Purpose::Cursors, 0),
        }
    }

    /// Adds the next documents to a batch; answers whether there are no more.
    pub(crate) async fn take(&mut self, batch: &mut Batch, max: usize) -> Result<bool> {
        while batch.len() < max {
            let Some(document) = self.ready.front() else {
                if self.is_complete {
                    break;
                }
                match self.source.next_batch().await? {
                    Some(documents) => self.ready.extend(documents),
                    None => self.is_complete = true,
                }
                continue;
            };
            let encoded = encode(document)?;
            if !batch.has_room(encoded.len())? {
                return Ok(false);
            }
            batch.push_raw(&encoded);
            self.ready.pop_front();
        }
        Ok(self.is_complete && self.ready.is_empty())
    }

    /// Reads everything into memory, for pipelines whose transaction ends with the command.
    pub(crate) async fn read_all(&mut self) -> Result<()> {
        let mut bytes = 0;
        while let Some(documents) = self.source.next_batch().await? {
            bytes += documents.iter().map(document_footprint).sum::<usize>();
            deadline::cover(&mut self.kept, bytes).map_err(Interruption::Memory)?;
            self.ready.extend(documents);
        }
        self.is_complete = true;
        Ok(())
    }
}

impl Rows for PipelineRows {
    fn fill<'a>(
        &'a mut self,
        _data: &'a Data,
        _transaction: &'a mut Transaction,
        batch: &'a mut Batch,
        max: usize,
    ) -> BoxFuture<'a, Result<bool>> {
        Box::pin(async move {
            let done = self.take(batch, max).await;
            self.environment.forget_meters();
            done
        })
    }
}
