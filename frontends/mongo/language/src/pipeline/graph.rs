//! `$graphLookup`: documents of another collection, and those that they lead to.

use std::collections::HashSet;
use std::sync::Arc;

use bson::{Bson, Document, doc};
use tessera_core::deadline;

use super::environment::{BoxFuture, Environment, Namespace, Source};
use super::kept::Kept;
use super::lookup::{collection, find, one_of};
use super::stage::{Place, Stage};
use super::{StageContext, path};
use crate::error::Result;
use crate::expression::path_components as components;
use crate::expression::{Context, Expression, ParseContext, fail};
use crate::key;
use crate::nesting;
use crate::number::Number;
use crate::path::{Path, keys};

/// Where a search begins and how it goes on.
#[derive(Clone, Debug, PartialEq)]
pub struct GraphLookup {
    /// The collection that is searched.
    pub namespace: Namespace,
    output: Vec<String>,
    start: Expression,
    from: Path,
    to: String,
    depth_field: Option<Vec<String>>,
    max_depth: Option<i64>,
    restriction: Option<Document>,
}

/// `$graphLookup`.
pub(super) fn parse(argument: &Bson, at: &StageContext<'_>) -> Result<Vec<Stage>> {
    let Bson::Document(options) = argument else {
        return fail(9, "the $graphLookup stage specification must be an object");
    };
    let mut parsed = Options::default();
    for (name, value) in options {
        parsed.read(name, value, at)?;
    }
    let (Some(namespace), Some(output), Some(start), Some(from), Some(to)) = (
        parsed.from,
        parsed.output,
        parsed.start,
        parsed.connect_from,
        parsed.connect_to,
    ) else {
        return fail(
            40105,
            "$graphLookup requires 'from', 'as', 'startWith', 'connectFromField', and \
             'connectToField' to be specified.",
        );
    };
    Ok(vec![Stage::GraphLookup(Box::new(GraphLookup {
        namespace,
        output,
        start,
        from: Path::parse(&from),
        to,
        depth_field: parsed.depth_field,
        max_depth: parsed.max_depth,
        restriction: parsed.restriction,
    }))])
}

#[derive(Default)]
struct Options {
    from: Option<Namespace>,
    output: Option<Vec<String>>,
    start: Option<Expression>,
    connect_from: Option<String>,
    connect_to: Option<String>,
    depth_field: Option<Vec<String>>,
    max_depth: Option<i64>,
    restriction: Option<Document>,
}

impl Options {
    fn read(&mut self, name: &str, value: &Bson, at: &StageContext<'_>) -> Result<()> {
        match (name, value) {
            ("startWith", value) => {
                self.start = Some(Expression::parse(value, &ParseContext::from(at.context))?);
            }
            ("maxDepth", value) => self.max_depth = Some(parse_depth(value)?),
            ("restrictSearchWithMatch", Bson::Document(filter)) => {
                let stage = Bson::Document(doc! { "$match": filter.clone() });
                at.inner(&[stage], Place::Lookup)?;
                self.restriction = Some(filter.clone());
            }
            ("restrictSearchWithMatch", _) => {
                return fail(40185, "restrictSearchWithMatch must be an object");
            }
            ("from", Bson::String(name)) => self.from = Some(collection("$graphLookup", name)?),
            ("from", _) => return fail(9, "$graphLookup 'from' field must be a string"),
            ("as" | "connectFromField" | "connectToField" | "depthField", Bson::String(field)) => {
                let parts = components(field)?;
                match name {
                    "as" => self.output = Some(parts),
                    "connectFromField" => self.connect_from = Some(field.clone()),
                    "connectToField" => self.connect_to = Some(field.clone()),
                    _ => self.depth_field = Some(parts),
                }
            }
            ("as" | "connectFromField" | "connectToField" | "depthField", _) => {
                return fail(40103, format!("expected string as argument for {name}"));
            }
            _ => return fail(40104, format!("Unknown argument to $graphLookup: {name}")),
        }
        Ok(())
    }
}

fn parse_depth(value: &Bson) -> Result<i64> {
    let Some(number) = Number::from_bson(value) else {
        return fail(40100, "maxDepth must be numeric");
    };
    match number.as_i64_exact() {
        Some(depth) if depth >= 0 => Ok(depth),
        Some(depth) => fail(
            40101,
            format!("maxDepth requires a nonnegative argument: {depth}"),
        ),
        None if number.compare(Number::Int32(0)).is_lt() => {
            fail(40101, "maxDepth requires a nonnegative argument")
        }
        None => fail(40102, "maxDepth could not be represented as a long long"),
    }
}

/// A search for each document that comes.
pub(super) struct Searching {
    pub(super) input: Box<dyn Source>,
    pub(super) search: Search,
    /// What was reached from the documents of one batch.
    pub(super) kept: Kept,
}

/// What searches.
pub(super) struct Search {
    pub(super) stage: GraphLookup,
    pub(super) context: Context,
    pub(super) environment: Arc<dyn Environment>,
}

impl Search {
    /// Everything that can be reached from a document, each once, the nearest first.
    async fn from(&self, document: &Document, kept: &mut Kept) -> Result<Vec<Bson>> {
        let (collation, variables) = (&self.context.collation, &self.context.variables);
        let start = self.stage.start.evaluate(document, variables)?;
        let mut frontier = match start {
            Some(Bson::Array(items)) => items,
            Some(value) => vec![value],
            None => vec![Bson::Null],
        };
        let mut asked: HashSet<Vec<u8>> = HashSet::new();
        let mut seen: HashSet<Vec<u8>> = HashSet::new();
        let (mut reached, mut depth) = (Vec::new(), 0_i64);
        loop {
            frontier.retain(|value| asked.insert(key::encode(value, collation)));
            if frontier.is_empty() || self.stage.max_depth.is_some_and(|most| depth > most) {
                return Ok(reached);
            }
            let mut filter = one_of(&self.stage.to, std::mem::take(&mut frontier));
            if let Some(restriction) = &self.stage.restriction {
                filter = doc! { "$and": [filter, restriction.clone()] };
            }
            let using = (collation, variables);
            for mut found in find(&self.environment, &self.stage.namespace, filter, using).await? {
                let Some(id) = found.get("_id") else {
                    return fail(40271, "Documents must contain an _id in $graphLookup");
                };
                deadline::step(1)?;
                if !seen.insert(key::encode(id, collation)) {
                    continue;
                }
                frontier.extend(self.leads_to(&found)?);
                if let Some(field) = &self.stage.depth_field {
                    path::set(&mut found, field, Bson::Int64(depth));
                }
                if !kept.add_document(&found, 0) {
                    return fail(292, "$graphLookup reached maximum memory consumption");
                }
                reached.push(Bson::Document(found));
            }
            depth += 1;
            deadline::pause().await;
        }
    }

    fn leads_to(&self, document: &Document) -> Result<impl Iterator<Item = Bson> + use<>> {
        let found = keys(document, std::slice::from_ref(&self.stage.from))?;
        let values = found
            .entries
            .into_iter()
            .filter_map(|entry| entry.into_iter().next());
        // What is missing leads nowhere.
        Ok(values
            .flatten()
            .filter(|value| !matches!(value, Bson::Undefined)))
    }
}

impl Searching {
    async fn next(&mut self) -> Result<Option<Vec<Document>>> {
        let Some(mut batch) = self.input.next_batch().await? else {
            return Ok(None);
        };
        let kept = &mut self.kept;
        kept.clear();
        for document in &mut batch {
            let reached = self.search.from(document, kept).await?;
            path::set(document, &self.search.stage.output, Bson::Array(reached));
            nesting::check_document(document)?;
        }
        Ok(Some(batch))
    }
}

impl Source for Searching {
    fn next_batch(&mut self) -> BoxFuture<'_, Result<Option<Vec<Document>>>> {
        Box::pin(self.next())
    }
}
