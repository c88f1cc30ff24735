//! Stages whose documents come from the server rather than from a collection.

use std::sync::Arc;

use bson::Document;

use super::environment::{BoxFuture, Environment, Source};
use super::stage::SystemStage;
use crate::error::Result;

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
