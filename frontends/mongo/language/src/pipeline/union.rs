//! `$unionWith`: the documents of another collection after those of this one.

use std::sync::Arc;

use bson::{Bson, Document};

use super::environment::{BoxFuture, Environment, Namespace, Source};
use super::fields::{known, wrong_type};
use super::lookup::{collection, has_own_documents};
use super::stage::{Place, Stage};
use super::{Pipeline, StageContext};
use crate::error::Result;
use crate::expression::fail;

/// The collection, if there is one, and what is done with its documents.
#[derive(Clone, Debug, PartialEq)]
pub struct Union {
    /// None if the pipeline has documents of its own.
    pub namespace: Option<Namespace>,
    pub(super) pipeline: Pipeline,
}

/// `$unionWith`.
pub(super) fn parse(argument: &Bson, at: &StageContext<'_>) -> Result<Vec<Stage>> {
    let (name, stages) = match argument {
        Bson::String(name) => (Some(name.as_str()), None),
        Bson::Document(options) => {
            known("$unionWith", options, &["coll", "pipeline"])?;
            let name = match options.get("coll") {
                None => None,
                Some(Bson::String(name)) => Some(name.as_str()),
                Some(other) => return wrong_type("$unionWith", "coll", other),
            };
            let stages = match options.get("pipeline") {
                None => None,
                Some(Bson::Array(stages)) => Some(stages),
                Some(other) => return wrong_type("$unionWith", "pipeline", other),
            };
            (name, stages)
        }
        _ => {
            return fail(
                9,
                "the $unionWith stage specification must be an object or string",
            );
        }
    };
    let stages = stages.map(Vec::as_slice).unwrap_or_default();
    let namespace = match name {
        Some(name) => Some(collection("$unionWith", name)?),
        None if has_own_documents(stages) => None,
        None => {
            let message = "$unionWith stage without explicit collection must have a pipeline \
                           with $documents as first stage";
            return fail(9, message);
        }
    };
    let pipeline = at.inner(stages, Place::Union)?;
    Ok(vec![Stage::UnionWith(Union {
        namespace,
        pipeline,
    })])
}

/// First the one, then the other.
pub(super) struct Uniting {
    pub(super) input: Box<dyn Source>,
    pub(super) union: Option<Union>,
    pub(super) environment: Arc<dyn Environment>,
}

impl Uniting {
    async fn next(&mut self) -> Result<Option<Vec<Document>>> {
        if let Some(batch) = self.input.next_batch().await? {
            return Ok(Some(batch));
        }
        let Some(union) = self.union.take() else {
            return Ok(None);
        };
        let namespace = union.namespace.as_ref();
        self.input = self
            .environment
            .aggregate(namespace, union.pipeline)
            .await?;
        self.input.next_batch().await
    }
}

impl Source for Uniting {
    fn next_batch(&mut self) -> BoxFuture<'_, Result<Option<Vec<Document>>>> {
        Box::pin(self.next())
    }
}
