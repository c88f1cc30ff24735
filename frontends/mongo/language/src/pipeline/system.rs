//! Stages whose documents come from the server rather than from a collection.

use std::sync::Arc;

use bson::{Bson, Document};

use super::environment::{BoxFuture, Environment, Source};
use super::stage::Stage;
use crate::error::Result;

/// Declares the stages that the server answers, with their names.
macro_rules! asked {
    ($($(#[$doc:meta])* $asked:ident $name:literal,)*) => {
        /// What a stage asks of the server.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Asked {
            $($(#[$doc])* $asked,)*
        }

        impl Asked {
            /// The stage's name, with its dollar sign.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$asked => $name,)*
                }
            }
        }
    };
}

asked! {
    /// What changes in a collection, a database, or all of them.
    ChangeStream "$changeStream",
    /// That large events of a change stream come in fragments.
    ChangeStreamSplit "$changeStreamSplitLargeEvent",
    /// How large a collection is.
    CollStats "$collStats",
    /// The commands that run.
    CurrentOp "$currentOp",
    /// The documents that lie near a place.
    GeoNear "$geoNear",
    /// How often indexes are used.
    IndexStats "$indexStats",
    /// The definitions of collections.
    ListCatalog "$listCatalog",
    /// The definitions of collections, and where they lie.
    ListClusterCatalog "$listClusterCatalog",
    /// The sessions that this server knows.
    ListLocalSessions "$listLocalSessions",
    /// The queries that were sampled.
    ListSampledQueries "$listSampledQueries",
    /// The search indexes of a collection.
    ListSearchIndexes "$listSearchIndexes",
    /// The sessions that all servers know.
    ListSessions "$listSessions",
    /// The plans that are kept for a collection.
    PlanCacheStats "$planCacheStats",
    /// The settings that queries were given.
    QuerySettings "$querySettings",
    /// What was counted of queries.
    QueryStats "$queryStats",
    /// The documents that a search finds.
    Search "$search",
    /// What is known of a search.
    SearchMeta "$searchMeta",
    /// How documents are spread over shards.
    ShardedDataDistribution "$shardedDataDistribution",
    /// The documents that are like a vector.
    VectorSearch "$vectorSearch",
}

/// A stage that the server answers: what it asks and what it was given.
#[derive(Clone, Debug, PartialEq)]
pub struct SystemStage {
    /// What is asked.
    pub asked: Asked,
    /// As it was written.
    pub argument: Bson,
}

/// A stage that the server answers.
pub(super) fn parse(asked: Asked, argument: &Bson) -> Result<Vec<Stage>> {
    let argument = argument.clone();
    Ok(vec![Stage::System(SystemStage { asked, argument })])
}

/// What the server answers for a stage, asked for when it is needed.
pub(super) struct Asking {
    stage: SystemStage,
    environment: Arc<dyn Environment>,
    answer: Option<Box<dyn Source>>,
}

impl Asking {
    pub(super) fn new(stage: SystemStage, environment: Arc<dyn Environment>) -> Self {
        Self {
            stage,
            environment,
            answer: None,
        }
    }

    async fn next(&mut self) -> Result<Option<Vec<Document>>> {
        let answer = match &mut self.answer {
            Some(answer) => answer,
            None => self
                .answer
                .insert(self.environment.system(&self.stage).await?),
        };
        answer.next_batch().await
    }
}

impl Source for Asking {
    fn next_batch(&mut self) -> BoxFuture<'_, Result<Option<Vec<Document>>>> {
        Box::pin(self.next())
    }
}
