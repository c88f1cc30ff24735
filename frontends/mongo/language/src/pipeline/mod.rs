//! Aggregation pipelines: stages parsed once, run over a stream of documents.
//!
//! [`Pipeline::parse`] turns an array of stages into a list of [`Stage`]s by one table of names
//! (`stage::find`). The stages can be looked at, so that a planner may answer the first ones from
//! an index and leave the rest to [`Pipeline::run`], which wraps a [`Source`] of documents by one
//! source per stage. What needs another collection, or the server, goes through an [`Environment`].

mod bucket;
mod densify;
pub mod environment;
mod facet;
mod fields;
mod fill;
mod graph;
mod group;
mod kept;
mod lookup;
mod path;
mod sort;
pub mod stage;
mod step;
mod streaming;
mod system;
mod touch;
mod transform;
mod union;
mod window;
mod write;

use std::sync::Arc;

use bson::{Bson, Document};

use crate::error::Result;
use crate::expression::{Context, Variables, fail};

pub use bucket::BucketAuto;
pub use densify::Densify;
pub use environment::{BoxFuture, Documents, Environment, Namespace, Source, collect};
pub use graph::GraphLookup;
pub use group::Group;
pub use lookup::Lookup;
pub use sort::Sort;
pub use stage::{Place, Stage};
pub use streaming::Unwind;
pub use system::{Asked, SystemStage};
pub use touch::Touch;
pub use transform::Transform;
pub use union::Union;
pub use window::SetWindowFields;
pub use write::{Merge, MergeAction, Out, WhenMatched, WhenNotMatched};

/// A pipeline may have this many stages.
const MAX_STAGES: usize = 1000;

/// Pipelines may be within each other this deep.
const MAX_DEPTH: usize = 20;

/// Stages, one after the other.
#[derive(Clone, Debug, PartialEq)]
pub struct Pipeline {
    stages: Vec<Stage>,
    context: Context,
}

/// What stages are parsed with: the command's context, and where the pipeline is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StageContext<'a> {
    pub(crate) context: &'a Context,
    pub(crate) place: Place,
    depth: usize,
    /// Whether a `$facet` is around it, however far.
    in_facet: bool,
}

impl StageContext<'_> {
    /// Parses a pipeline within a stage of this one.
    pub(crate) fn inner(&self, stages: &[Bson], place: Place) -> Result<Pipeline> {
        self.inner_with(stages, place, self.context)
    }

    /// The same with other variables.
    pub(crate) fn inner_with(
        &self,
        stages: &[Bson],
        place: Place,
        context: &Context,
    ) -> Result<Pipeline> {
        if self.depth >= MAX_DEPTH {
            return fail(232, "Maximum number of nested sub-pipelines exceeded");
        }
        let in_facet = self.in_facet || place == Place::Facet;
        Pipeline::parse_at(
            stages,
            &StageContext {
                context,
                place,
                depth: self.depth + 1,
                in_facet,
            },
        )
    }
}

impl Pipeline {
    /// Parses the stages of an aggregation.
    pub fn parse(stages: &[Bson], context: &Context) -> Result<Self> {
        Self::parse_at(
            stages,
            &StageContext {
                context,
                place: Place::Command,
                depth: 0,
                in_facet: false,
            },
        )
    }

    /// Parses the stages of an update, of which only a few are allowed.
    pub fn parse_update(stages: &[Bson], context: &Context) -> Result<Self> {
        Self::parse_at(
            stages,
            &StageContext {
                context,
                place: Place::Update,
                depth: 0,
                in_facet: false,
            },
        )
    }

    fn parse_at(stages: &[Bson], at: &StageContext<'_>) -> Result<Self> {
        if stages.len() > MAX_STAGES {
            return fail(
                7749501,
                format!("Pipeline length must be no longer than {MAX_STAGES}"),
            );
        }
        let mut parsed = Vec::with_capacity(stages.len());
        for (position, stage) in stages.iter().enumerate() {
            let (row, argument) = stage::read(stage)?;
            row.check(position, position + 1 == stages.len(), at)?;
            parsed.extend((row.parse)(argument, at)?);
        }
        Ok(Self {
            stages: parsed,
            context: at.context.clone(),
        })
    }

    /// The stages, in their order.
    pub fn stages(&self) -> &[Stage] {
        &self.stages
    }

    /// How strings compare, and the variables.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// Whether the documents come from the first stage rather than from a collection.
    pub fn has_own_source(&self) -> bool {
        matches!(
            self.stages.first(),
            Some(Stage::Documents(_) | Stage::System(_))
        )
    }

    /// The pipeline without its first so many stages, which something else has done.
    #[must_use]
    pub fn without_leading(mut self, count: usize) -> Self {
        self.stages.drain(..count.min(self.stages.len()));
        self
    }

    /// The pipeline without its last so many stages.
    #[must_use]
    pub fn without_trailing(mut self, count: usize) -> Self {
        self.stages
            .truncate(self.stages.len().saturating_sub(count));
        self
    }

    /// The stage at the end that writes, if there is one.
    pub fn writes(&self) -> Option<&Stage> {
        self.stages
            .last()
            .filter(|stage| matches!(stage, Stage::Out(_) | Stage::Merge(_)))
    }

    /// Runs the stages over documents. A pipeline with a source of its own leaves the given one
    /// alone.
    pub fn run(
        self,
        source: Box<dyn Source>,
        environment: &Arc<dyn Environment>,
    ) -> Box<dyn Source> {
        let mut source = source;
        let variables = &self.context.variables;
        for (position, stage) in self.stages.iter().enumerate() {
            let limit = self.limit_after(position);
            let runtime = Runtime {
                environment,
                variables,
                context: &self.context,
                limit,
            };
            source = stage.start(source, &runtime);
        }
        source
    }

    /// How many documents a sort has to keep, if later stages take only so many.
    fn limit_after(&self, position: usize) -> Option<usize> {
        let mut skipped: usize = 0;
        for stage in self.stages.iter().skip(position + 1) {
            match stage {
                Stage::Skip(count) => {
                    skipped = skipped.checked_add(usize::try_from(*count).ok()?)?;
                }
                Stage::Limit(count) => return skipped.checked_add(usize::try_from(*count).ok()?),
                _ => return None,
            }
        }
        None
    }

    /// Applies the stages of an update to one document.
    pub fn update(&self, mut document: Document, variables: &Variables) -> Result<Document> {
        for stage in &self.stages {
            document = stage.apply(document, variables)?;
        }
        Ok(document)
    }
}

/// What stages run with.
pub(crate) struct Runtime<'a> {
    pub(crate) environment: &'a Arc<dyn Environment>,
    pub(crate) variables: &'a Variables,
    pub(crate) context: &'a Context,
    pub(crate) limit: Option<usize>,
}

#[cfg(test)]
mod tests;
