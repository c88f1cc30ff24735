//! Stages that need nothing but the documents before them.

use bson::Document;
use tessera_core::deadline;

use super::environment::{BoxFuture, Source};
use super::kept::Passing;
use crate::error::Result;

/// A stage in the midst of its work.
pub(crate) trait Step: Send {
    /// Takes a document, and gives what it gives for it.
    fn take(&mut self, document: Document, output: &mut Vec<Document>) -> Result<()>;

    /// Whether no later document makes a difference.
    fn is_done(&self) -> bool {
        false
    }

    /// Called after the last document until it gives nothing more: a part of what was held back.
    fn drain(&mut self, _output: &mut Vec<Document>) -> Result<()> {
        Ok(())
    }
}

/// Steps of a document that goes through a stage, whatever else is done with it.
const DOCUMENT_STEPS: usize = 4;

/// A stage and where its documents come from.
pub(crate) struct Running<S> {
    input: Box<dyn Source>,
    step: S,
    /// What was read and not taken yet.
    waiting: std::vec::IntoIter<Document>,
    passing: Passing,
    ended: bool,
}

impl<S: Step + 'static> Running<S> {
    /// The stage over its input, as a source.
    pub(crate) fn over(input: Box<dyn Source>, step: S) -> Box<dyn Source> {
        Box::new(Self {
            input,
            step,
            waiting: Vec::new().into_iter(),
            passing: Passing::new(),
            ended: false,
        })
    }

    async fn next(&mut self) -> Result<Option<Vec<Document>>> {
        let mut output = Vec::new();
        self.passing.begin();
        while !self.ended {
            self.take_waiting(&mut output).await?;
            if !output.is_empty() {
                return Ok(Some(output));
            }
            let batch = if self.step.is_done() {
                None
            } else {
                self.input.next_batch().await?
            };
            match batch {
                Some(documents) => self.waiting = documents.into_iter(),
                None => self.ended = true,
            }
        }
        deadline::step(DOCUMENT_STEPS)?;
        self.step.drain(&mut output)?;
        deadline::pause().await;
        self.passing.add(&output)?;
        Ok((!output.is_empty()).then_some(output))
    }

    /// Takes what was read, until there is enough for the next stage.
    async fn take_waiting(&mut self, output: &mut Vec<Document>) -> Result<()> {
        for document in self.waiting.by_ref() {
            if self.step.is_done() {
                continue;
            }
            deadline::step(DOCUMENT_STEPS)?;
            let before = output.len();
            self.step.take(document, output)?;
            // Stages that work on what is in memory wait for nothing else.
            deadline::pause().await;
            if self.passing.add(output.get(before..).unwrap_or_default())? {
                break;
            }
        }
        Ok(())
    }
}

impl<S: Step + 'static> Source for Running<S> {
    fn next_batch(&mut self) -> BoxFuture<'_, Result<Option<Vec<Document>>>> {
        Box::pin(self.next())
    }
}
