//! The documents of a collection as a pipeline's source.

use std::sync::Arc;

use bson::Document;
use tessera_core::deadline;
use tessera_mongo_language::error::Result as LanguageResult;
use tessera_mongo_language::pipeline::{BoxFuture, Source};

use crate::aggregate::environment::Environment;
use crate::execute::Execution;
use crate::execute::query::Query;
use crate::failure::{Failure, Result};
use crate::write::target::Target;

/// Documents of one batch.
const BATCH: usize = 128;
/// More bytes than these do not come at once.
const BATCH_BYTES: usize = 1 << 20;

/// What a query finds, batch by batch, each read at its own moment unless a transaction says
/// otherwise.
pub(crate) struct CollectionSource {
    environment: Arc<Environment>,
    target: Target,
    execution: Execution,
}

impl CollectionSource {
    pub(crate) async fn new(
        environment: &Arc<Environment>,
        target: Target,
        query: Query,
    ) -> Result<Self> {
        let query = Arc::new(query);
        let plan = environment
            .with_transaction(async |transaction| {
                query
                    .plan(transaction, &target.container, &target.collection)
                    .await
            })
            .await?;
        Ok(Self {
            environment: Arc::clone(environment),
            target,
            execution: Execution::new(query, plan),
        })
    }

    async fn read(&mut self) -> Result<Option<Vec<Document>>> {
        if self.execution.is_done() {
            return Ok(None);
        }
        let (execution, target) = (&mut self.execution, &self.target);
        let batch = self
            .environment
            .with_transaction(async |transaction| {
                let container = transaction.container(&target.namespace.container).await?;
                let mut batch = Vec::new();
                let mut bytes = 0;
                while batch.len() < BATCH && bytes < BATCH_BYTES {
                    let wanted = BATCH - batch.len();
                    match execution.next(transaction, &container, wanted).await? {
                        Some(row) => {
                            bytes += row.footprint();
                            batch.push(execution.finish_document(row)?);
                        }
                        None => break,
                    }
                    deadline::pause().await;
                }
                Ok(batch)
            })
            .await?;
        Ok((!batch.is_empty()).then_some(batch))
    }
}

impl Source for CollectionSource {
    fn next_batch(&mut self) -> BoxFuture<'_, LanguageResult<Option<Vec<Document>>>> {
        Box::pin(async move { self.read().await.map_err(Failure::into_error) })
    }
}
