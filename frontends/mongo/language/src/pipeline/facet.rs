//! `$facet`: several pipelines over the same documents.

use std::sync::Arc;

use bson::{Bson, Document};

use super::environment::{BoxFuture, Documents, Environment, Source, collect};
use super::kept::{ENTRY, Kept};
use super::stage::{Place, Stage};
use super::{Pipeline, StageContext};
use crate::error::Result;
use crate::expression::{fail, validate_field_name};
use crate::nesting;
use crate::size::{document_footprint, document_size};

/// What one document with the results of all pipelines may take.
const MAX_OUTPUT: usize = 100 << 20;

/// `$facet`.
pub(super) fn parse(argument: &Bson, at: &StageContext<'_>) -> Result<Vec<Stage>> {
    let Bson::Document(specification) = argument else {
        return fail(40169, "the $facet specification must be a non-empty object");
    };
    if specification.is_empty() {
        return fail(40169, "the $facet specification must be a non-empty object");
    }
    let mut facets = Vec::with_capacity(specification.len());
    for (name, value) in specification {
        validate_field_name(name)?;
        let Bson::Array(stages) = value else {
            return fail(
                40170,
                format!("arguments to $facet must be arrays, {name} is none"),
            );
        };
        let is_stage = |stage: &Bson| matches!(stage, Bson::Document(stage) if !stage.is_empty());
        if !stages.iter().all(is_stage) {
            return fail(
                40171,
                format!("elements of arrays in $facet must be objects, in {name}"),
            );
        }
        facets.push((name.clone(), at.inner(stages, Place::Facet)?));
    }
    Ok(vec![Stage::Facet(facets)])
}

/// All documents, kept for each of the pipelines.
pub(super) struct Faceting {
    pub(super) input: Box<dyn Source>,
    pub(super) facets: Vec<(String, Pipeline)>,
    pub(super) environment: Arc<dyn Environment>,
    pub(super) kept: Kept,
    pub(super) done: bool,
}

impl Faceting {
    async fn next(&mut self) -> Result<Option<Vec<Document>>> {
        if std::mem::replace(&mut self.done, true) {
            return Ok(None);
        }
        let mut documents = Vec::new();
        let exceeded = || fail(292, "Exceeded memory limit for $facet");
        while let Some(batch) = self.input.next_batch().await? {
            // One of the pipelines has its own.
            let bytes = |document: &Document| 2 * (document_footprint(document) + ENTRY);
            if !self.kept.add(batch.iter().map(bytes).sum()) {
                return exceeded();
            }
            documents.extend(batch);
        }
        let mut answer = Document::new();
        for (name, pipeline) in std::mem::take(&mut self.facets) {
            let source = Box::new(Documents::new(documents.clone()));
            let results = collect(pipeline.run(source, &self.environment)).await?;
            if !self.kept.add(results.iter().map(document_footprint).sum()) {
                return exceeded();
            }
            answer.insert(
                name,
                results.into_iter().map(Bson::Document).collect::<Vec<_>>(),
            );
            if document_size(&answer) > MAX_OUTPUT {
                return fail(4031700, "document constructed by $facet exceeds the limit");
            }
        }
        nesting::check_document(&answer)?;
        Ok(Some(vec![answer]))
    }
}

impl Source for Faceting {
    fn next_batch(&mut self) -> BoxFuture<'_, Result<Option<Vec<Document>>>> {
        Box::pin(self.next())
    }
}
