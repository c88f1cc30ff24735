//! `$lookup`: documents of another collection, within those of this one.

use std::sync::Arc;

use bson::{Bson, Document, doc};
use tessera_core::deadline;

use super::environment::{BoxFuture, Environment, Namespace, Source, collect};
use super::fields::{known, text, wrong_type};
use super::kept::Kept;
use super::stage::{Place, Stage};
use super::{Pipeline, StageContext, Touch, path};
use crate::error::Result;
use crate::expression::path_components as components;
use crate::expression::variables::validate_bound_name;
use crate::expression::{Context, Expression, ParseContext, Variables, fail};
use crate::nesting;
use crate::path::{Path, keys};
use crate::size::{document_size, footprint};

/// What the documents looked up for one document may take.
const MAX_MATCHED: usize = 100 << 20;

/// What is looked up, and where it goes.
#[derive(Clone, Debug, PartialEq)]
pub struct Lookup {
    /// None if the pipeline has documents of its own.
    pub namespace: Option<Namespace>,
    output: Vec<String>,
    /// A path here and a path there that have a value in common.
    fields: Option<(Path, String)>,
    variables: Vec<(String, Expression)>,
    stages: Vec<Bson>,
    /// What the stages touch.
    touches: Vec<Touch>,
    /// Depth and place for parsing the stages again, with other variables.
    depth: usize,
}

/// A collection of the command's database.
pub(super) fn collection(stage: &str, name: &str) -> Result<Namespace> {
    if name.is_empty() || name.contains('\0') || name.starts_with('.') {
        return fail(73, format!("invalid {stage} namespace: {name}"));
    }
    Ok(Namespace {
        database: None,
        collection: name.to_owned(),
    })
}

/// Whether the stages begin with documents that are written out.
pub(super) fn has_own_documents(stages: &[Bson]) -> bool {
    let first = stages.first().and_then(Bson::as_document);
    first.is_some_and(|stage| stage.contains_key("$documents"))
}

const OPTIONS: &[&str] = &[
    "from",
    "as",
    "localField",
    "foreignField",
    "let",
    "pipeline",
];

/// `$lookup`.
pub(super) fn parse(argument: &Bson, at: &StageContext<'_>) -> Result<Vec<Stage>> {
    let Bson::Document(options) = argument else {
        return fail(9, "the $lookup specification must be an Object");
    };
    // Null means that an option is not given.
    let mut given = options.clone();
    for name in OPTIONS {
        if given.get(name) == Some(&Bson::Null) {
            given.remove(name);
        }
    }
    let options = &given;
    let stages = match options.get("pipeline") {
        None => None,
        Some(Bson::Array(stages)) => Some(stages.clone()),
        Some(other) => return wrong_type("$lookup", "pipeline", other),
    };
    let namespace = parse_from(options.get("from"), stages.as_deref())?;
    known("$lookup", options, OPTIONS)?;
    let output = components(text("$lookup", options, "as")?)?;
    let fields = parse_fields(options, stages.is_some())?;
    let variables = parse_let(options, at)?;
    if stages.is_none() && options.contains_key("let") {
        return fail(
            9,
            "$lookup with a 'let' argument must also specify 'pipeline'",
        );
    }
    let stages = stages.unwrap_or_default();
    // Parsed now for its errors, and for what it touches; the values of variables are known only
    // for each document.
    let mut context = at.context.clone();
    for (name, _) in &variables {
        context.variables.set(name, None);
    }
    let inner = at.inner_with(&stages, Place::Lookup, &context)?;
    Ok(vec![Stage::Lookup(Lookup {
        namespace,
        output,
        fields,
        variables,
        touches: inner.touches(),
        stages,
        depth: at.depth,
    })])
}

fn parse_from(from: Option<&Bson>, stages: Option<&[Bson]>) -> Result<Option<Namespace>> {
    match from {
        Some(Bson::String(name)) => collection("$lookup", name).map(Some),
        Some(Bson::Document(_)) => fail(
            9,
            "$lookup with syntax {from: {db:<>, coll:<>},..} is not supported here",
        ),
        Some(_) => fail(9, "$lookup 'from' field must be a string"),
        None => match stages {
            None => fail(9, "must specify 'pipeline' when 'from' is empty"),
            Some(stages) if has_own_documents(stages) => Ok(None),
            Some(_) => fail(
                9,
                "$lookup stage without explicit collection must have a pipeline with \
                 $documents as first stage",
            ),
        },
    }
}

fn parse_fields(options: &Document, has_pipeline: bool) -> Result<Option<(Path, String)>> {
    let field = |name: &str| match options.get(name) {
        None => Ok(""),
        Some(Bson::String(field)) => Ok(field.as_str()),
        Some(other) => wrong_type("$lookup", name, other),
    };
    let (local, foreign) = (field("localField")?, field("foreignField")?);
    match (local, foreign) {
        ("", "") if has_pipeline => Ok(None),
        ("", _) | (_, "") => fail(
            9,
            "$lookup requires both or neither of 'localField' and 'foreignField'",
        ),
        (local, foreign) => {
            components(local)?;
            components(foreign)?;
            Ok(Some((Path::parse(local), foreign.to_owned())))
        }
    }
}

fn parse_let(options: &Document, at: &StageContext<'_>) -> Result<Vec<(String, Expression)>> {
    let definitions = match options.get("let") {
        None => return Ok(Vec::new()),
        Some(Bson::Document(definitions)) => definitions,
        Some(other) => return wrong_type("$lookup", "let", other),
    };
    let mut variables = Vec::with_capacity(definitions.len());
    for (name, value) in definitions {
        validate_bound_name(name)?;
        let expression = Expression::parse(value, &ParseContext::from(at.context))?;
        variables.push((name.clone(), expression));
    }
    Ok(variables)
}

impl Lookup {
    /// What the pipeline within touches.
    pub(super) fn touches(&self) -> &[Touch] {
        &self.touches
    }

    /// Whether the answer is the same for each document.
    fn is_constant(&self) -> bool {
        self.fields.is_none() && self.variables.is_empty()
    }

    /// The pipeline for one document.
    fn pipeline(&self, document: &Document, context: &Context) -> Result<Pipeline> {
        let mut inner = context.clone();
        for (name, expression) in &self.variables {
            let value = expression.evaluate(document, &context.variables)?;
            inner.variables.set(name, value);
        }
        let at = StageContext {
            context: &inner,
            place: Place::Lookup,
            depth: self.depth,
            in_facet: false,
        };
        let mut stages = self.stages.clone();
        if let Some((local, foreign)) = &self.fields {
            let place = usize::from(has_own_documents(&stages));
            stages.insert(
                place,
                Bson::Document(doc! { "$match": joins(document, local, foreign)? }),
            );
        }
        at.inner(&stages, Place::Lookup)
    }
}

/// The filter of documents that have one of the values at a path: null if it has none, and each
/// element of an array.
pub(super) fn joins(document: &Document, local: &Path, foreign: &str) -> Result<Document> {
    let found = keys(document, std::slice::from_ref(local))?;
    let mut values = Vec::new();
    for entry in found.entries {
        // An empty array, too, is null.
        let value = entry.into_iter().next().flatten();
        values.push(
            value
                .filter(|value| *value != Bson::Undefined)
                .unwrap_or(Bson::Null),
        );
    }
    Ok(one_of(foreign, values))
}

/// The filter of documents that have one of the values; patterns are values too.
pub(super) fn one_of(path: &str, values: Vec<Bson>) -> Document {
    if !values
        .iter()
        .any(|value| matches!(value, Bson::RegularExpression(_)))
    {
        return doc! { path: { "$in": values } };
    }
    let equals: Vec<Document> = values
        .into_iter()
        .map(|value| doc! { path: { "$eq": value } })
        .collect();
    doc! { "$or": equals }
}

/// A lookup under way.
pub(super) struct LookingUp {
    pub(super) input: Box<dyn Source>,
    pub(super) lookup: Lookup,
    pub(super) context: Context,
    pub(super) environment: Arc<dyn Environment>,
    /// The answer that is the same for each document.
    pub(super) cached: Option<Vec<Bson>>,
    /// What was found for the documents of one batch.
    pub(super) kept: Kept,
}

impl LookingUp {
    async fn matches(&mut self, document: &Document) -> Result<Vec<Bson>> {
        if let Some(cached) = &self.cached {
            return Ok(cached.clone());
        }
        let pipeline = self.lookup.pipeline(document, &self.context)?;
        let namespace = self.lookup.namespace.as_ref();
        let mut source = self.environment.aggregate(namespace, pipeline).await?;
        let (mut matches, mut size) = (Vec::new(), 0);
        while let Some(batch) = source.next_batch().await? {
            size += batch.iter().map(document_size).sum::<usize>();
            if size > MAX_MATCHED {
                return fail(
                    4568,
                    "Total size of documents matching $lookup exceeds the limit",
                );
            }
            matches.extend(batch.into_iter().map(Bson::Document));
        }
        if self.lookup.is_constant() {
            self.cached = Some(matches.clone());
        }
        Ok(matches)
    }

    async fn next(&mut self) -> Result<Option<Vec<Document>>> {
        let Some(mut batch) = self.input.next_batch().await? else {
            return Ok(None);
        };
        self.kept.clear();
        for document in &mut batch {
            let matches = self.matches(document).await?;
            if !self.kept.add(matches.iter().map(footprint).sum()) {
                return fail(292, "Exceeded memory limit for $lookup");
            }
            // What is the same for each document may be large.
            deadline::step(matches.len())?;
            deadline::pause().await;
            path::set(document, &self.lookup.output, Bson::Array(matches));
            nesting::check_document(document)?;
        }
        Ok(Some(batch))
    }
}

impl Source for LookingUp {
    fn next_batch(&mut self) -> BoxFuture<'_, Result<Option<Vec<Document>>>> {
        Box::pin(self.next())
    }
}

/// All documents of a collection that a filter lets through, for stages that ask again and again.
pub(super) async fn find(
    environment: &Arc<dyn Environment>,
    namespace: &Namespace,
    filter: Document,
    (collation, variables): (&crate::collation::Collation, &Variables),
) -> Result<Vec<Document>> {
    let context = Context {
        collation: collation.clone(),
        variables: variables.clone(),
    };
    let stages = [Bson::Document(doc! { "$match": filter })];
    let pipeline = Pipeline::parse(&stages, &context)?;
    collect(environment.aggregate(Some(namespace), pipeline).await?).await
}
