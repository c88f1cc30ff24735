//! What pipelines need of the world: documents, other collections, and places to write to.

use std::future::Future;
use std::pin::Pin;

use bson::Document;
use tessera_core::deadline;

use super::Pipeline;
use super::kept::Passing;
use super::system::SystemStage;
use super::write::{Merge, Out};
use crate::error::Result;

/// A future that can be kept and sent between threads.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What one blocking stage may keep in memory, unless the environment says otherwise.
pub const DEFAULT_MEMORY_LIMIT: usize = 100 << 20;

/// Documents, a batch at a time.
pub trait Source: Send {
    /// The next documents; none at the end. A batch is never empty.
    fn next_batch(&mut self) -> BoxFuture<'_, Result<Option<Vec<Document>>>>;
}

/// A collection, of the command's database unless it names another.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Namespace {
    /// The database, if it is not the command's own.
    pub database: Option<String>,
    /// The collection.
    pub collection: String,
}

/// What is outside of a pipeline.
pub trait Environment: Send + Sync {
    /// Runs a pipeline over a collection. Without a collection the pipeline has a source of its
    /// own.
    fn aggregate<'a>(
        &'a self,
        namespace: Option<&'a Namespace>,
        pipeline: Pipeline,
    ) -> BoxFuture<'a, Result<Box<dyn Source>>>;

    /// What a stage answers that only the server knows.
    fn system<'a>(&'a self, stage: &'a SystemStage) -> BoxFuture<'a, Result<Box<dyn Source>>>;

    /// Makes all documents the content of a collection, or changes nothing.
    fn out<'a>(&'a self, target: &'a Out, documents: Box<dyn Source>) -> BoxFuture<'a, Result<()>>;

    /// Merges documents into a collection, as [`Merge::decide`] says for each.
    fn merge<'a>(&'a self, merge: &'a Merge, documents: Vec<Document>)
    -> BoxFuture<'a, Result<()>>;

    /// What one blocking stage may keep in memory.
    fn memory_limit(&self) -> usize {
        DEFAULT_MEMORY_LIMIT
    }
}

/// Documents that are in memory already.
#[derive(Debug, Default)]
pub struct Documents {
    documents: std::vec::IntoIter<Document>,
}

/// How many documents a batch from memory has.
pub(crate) const BATCH: usize = 128;

impl Documents {
    /// A source of these documents.
    pub fn new(documents: Vec<Document>) -> Self {
        Self {
            documents: documents.into_iter(),
        }
    }
}

impl Source for Documents {
    fn next_batch(&mut self) -> BoxFuture<'_, Result<Option<Vec<Document>>>> {
        let batch: Vec<Document> = self.documents.by_ref().take(BATCH).collect();
        Box::pin(std::future::ready(Ok((!batch.is_empty()).then_some(batch))))
    }
}

/// All documents of a source.
pub async fn collect(mut source: Box<dyn Source>) -> Result<Vec<Document>> {
    let mut all = Vec::new();
    // Who collects counts what it keeps of it.
    let mut collecting = Passing::new();
    while let Some(batch) = source.next_batch().await? {
        collecting.add(&batch)?;
        all.extend(batch);
        deadline::pause().await;
    }
    Ok(all)
}
