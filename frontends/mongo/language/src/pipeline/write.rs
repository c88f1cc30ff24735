//! `$out` and `$merge`: where a pipeline's documents are written to.

use std::sync::Arc;

use bson::{Bson, Document};
use tessera_core::deadline;

use super::environment::{BoxFuture, Environment, Namespace, Source};
use super::fields::{known, required, wrong_type};
use super::stage::Stage;
use super::{Pipeline, StageContext};
use crate::error::{Code, Error, Result};
use crate::expression::path_components as components;
use crate::expression::variables::validate_bound_name;
use crate::expression::{Context, Expression, ParseContext, Variables, fail};

/// Databases that only the server writes to.
const INTERNAL_DATABASES: &[&str] = &["admin", "config", "local"];

/// A collection that is replaced by the documents.
#[derive(Clone, Debug, PartialEq)]
pub struct Out {
    /// The collection.
    pub namespace: Namespace,
    /// The options of a time-series collection, as they are written.
    pub timeseries: Option<Document>,
}

/// `$out`.
pub(super) fn parse_out(argument: &Bson, _: &StageContext<'_>) -> Result<Vec<Stage>> {
    let (namespace, timeseries) = match argument {
        Bson::String(name) => (
            Namespace {
                database: None,
                collection: name.clone(),
            },
            None,
        ),
        Bson::Document(options) => {
            known("$out", options, &["db", "coll", "timeseries"])?;
            let text = |name: &str| match required("$out", options, name)? {
                Bson::String(text) => Ok(text.clone()),
                other => wrong_type("$out", name, other),
            };
            let namespace = Namespace {
                database: Some(text("db")?),
                collection: text("coll")?,
            };
            let timeseries = match options.get("timeseries") {
                None => None,
                Some(Bson::Document(timeseries)) => Some(timeseries.clone()),
                Some(other) => return wrong_type("$out", "timeseries", other),
            };
            (namespace, timeseries)
        }
        _ => return fail(16990, "$out only supports a string or object argument"),
    };
    check_target("$out", &namespace, 17385, 31321)?;
    Ok(vec![Stage::Out(Out {
        namespace,
        timeseries,
    })])
}

fn check_target(stage: &str, target: &Namespace, system: i32, internal: i32) -> Result<()> {
    let name = &target.collection;
    let database = target.database.as_deref();
    let bad_database = database.is_some_and(|name| {
        name.is_empty() || name.contains(['/', '\\', '.', ' ', '"', '$', '\0'])
    });
    if name.is_empty() || name.starts_with('.') || name.contains(['$', '\0']) || bad_database {
        return fail(73, format!("Invalid {stage} target namespace, {name}"));
    }
    if name.starts_with("system.") {
        return fail(
            system,
            format!("Can't {stage} to special collection: {name}"),
        );
    }
    if database.is_some_and(|database| INTERNAL_DATABASES.contains(&database)) {
        return fail(internal, format!("Can't {stage} to internal database"));
    }
    Ok(())
}

/// A collection that the documents are merged into.
#[derive(Clone, Debug, PartialEq)]
pub struct Merge {
    /// The collection.
    pub into: Namespace,
    /// The fields by which documents are the same; none means the identifier, or the shard key.
    pub on: Option<Vec<String>>,
    /// What happens with a document that is there already.
    pub when_matched: WhenMatched,
    /// What happens with a document that is not.
    pub when_not_matched: WhenNotMatched,
    variables: Vec<(String, Expression)>,
    context: Context,
}

/// What happens with a document that is there already.
#[derive(Clone, Debug, PartialEq)]
pub enum WhenMatched {
    /// The new document takes its place.
    Replace,
    /// It stays as it is.
    KeepExisting,
    /// The fields of the new document are laid over it.
    Merge,
    /// The pipeline fails.
    Fail,
    /// It is updated by stages, with the new document as `$$new`.
    Pipeline(Vec<Bson>),
}

/// What happens with a document that is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenNotMatched {
    /// It is inserted.
    Insert,
    /// It is left out.
    Discard,
    /// The pipeline fails.
    Fail,
}

/// What to do for one document.
#[derive(Clone, Debug, PartialEq)]
pub enum MergeAction {
    /// Insert this.
    Insert(Document),
    /// Put this in place of what is there.
    Replace(Document),
    /// Nothing.
    Nothing,
}

/// `$merge`.
pub(super) fn parse_merge(argument: &Bson, at: &StageContext<'_>) -> Result<Vec<Stage>> {
    const OPTIONS: &[&str] = &["into", "on", "let", "whenMatched", "whenNotMatched"];
    let empty = Document::new();
    let (options, into) = match argument {
        Bson::String(_) => (&empty, argument),
        Bson::Document(options) => {
            known("$merge", options, OPTIONS)?;
            (options, required("$merge", options, "into")?)
        }
        _ => return fail(14, "$merge requires a string or object argument"),
    };
    let into = parse_into(into)?;
    let on = options.get("on").map(parse_on).transpose()?;
    let when_matched = match options.get("whenMatched") {
        None => WhenMatched::Merge,
        Some(value) => parse_when_matched(value)?,
    };
    let when_not_matched = match options.get("whenNotMatched") {
        None => WhenNotMatched::Insert,
        Some(value) => parse_when_not_matched(value)?,
    };
    let unsupported = match (&when_matched, when_not_matched) {
        (WhenMatched::KeepExisting, other) => other != WhenNotMatched::Insert,
        (WhenMatched::Fail, other) => other != WhenNotMatched::Insert,
        _ => false,
    };
    if unsupported {
        return fail(51181, "This combination of $merge modes is not supported");
    }
    check_target("$merge", &into, 31319, 31320)?;
    let variables = parse_merge_let(options.get("let"), &when_matched, at)?;
    let context = at.context.clone();
    let merge = Merge {
        into,
        on,
        when_matched,
        when_not_matched,
        variables,
        context,
    };
    // Parsed now for its errors.
    merge
        .update(&Document::new(), &Variables::default())
        .map(|_| ())?;
    Ok(vec![Stage::Merge(Box::new(merge))])
}

fn parse_into(value: &Bson) -> Result<Namespace> {
    match value {
        Bson::String(name) if name.is_empty() => {
            fail(5786800, "$merge 'into' field cannot be an empty string")
        }
        Bson::String(name) => Ok(Namespace {
            database: None,
            collection: name.clone(),
        }),
        Bson::Document(into) => {
            known("$merge.into", into, &["db", "coll"])?;
            let text = |name: &str| match into.get(name) {
                None | Some(Bson::Null | Bson::Undefined) => Ok(None),
                Some(Bson::String(text)) => Ok(Some(text.clone())),
                Some(other) => wrong_type("$merge.into", name, other),
            };
            match text("coll")?.filter(|name| !name.is_empty()) {
                Some(collection) => Ok(Namespace {
                    database: text("db")?,
                    collection,
                }),
                None => fail(5786801, "$merge 'into' field must specify a 'coll'"),
            }
        }
        _ => fail(
            51178,
            "$merge 'into' field must be either a string or an object",
        ),
    }
}

fn parse_on(value: &Bson) -> Result<Vec<String>> {
    let fields = match value {
        Bson::String(field) => vec![field.clone()],
        Bson::Array(items) => {
            let mut fields = Vec::with_capacity(items.len());
            for item in items {
                match item {
                    Bson::String(field) => fields.push(field.clone()),
                    _ => return fail(51134, "$merge 'on' array elements must be strings"),
                }
            }
            fields
        }
        _ => {
            return fail(
                51186,
                "$merge 'on' field must be a string or an array of strings",
            );
        }
    };
    if fields.is_empty() {
        return fail(
            51187,
            "If explicitly specifying $merge 'on', must include at least one field",
        );
    }
    for (position, field) in fields.iter().enumerate() {
        components(field)?;
        deadline::step(position)?;
        if fields.iter().take(position).any(|earlier| earlier == field) {
            return fail(31465, format!("Found a duplicate field '{field}'"));
        }
    }
    Ok(fields)
}

fn parse_when_matched(value: &Bson) -> Result<WhenMatched> {
    match value {
        Bson::Array(stages) => Ok(WhenMatched::Pipeline(stages.clone())),
        Bson::String(mode) => match mode.as_str() {
            "replace" => Ok(WhenMatched::Replace),
            "keepExisting" => Ok(WhenMatched::KeepExisting),
            "merge" => Ok(WhenMatched::Merge),
            "fail" => Ok(WhenMatched::Fail),
            _ => fail(
                2,
                format!("Enumeration value '{mode}' for whenMatched is not valid"),
            ),
        },
        _ => fail(
            51191,
            "$merge 'whenMatched' field must be either a string or an array",
        ),
    }
}

fn parse_when_not_matched(value: &Bson) -> Result<WhenNotMatched> {
    match value {
        Bson::String(mode) => match mode.as_str() {
            "insert" => Ok(WhenNotMatched::Insert),
            "discard" => Ok(WhenNotMatched::Discard),
            "fail" => Ok(WhenNotMatched::Fail),
            _ => fail(
                2,
                format!("Enumeration value '{mode}' for whenNotMatched is not valid"),
            ),
        },
        other => wrong_type("$merge", "whenNotMatched", other),
    }
}

fn parse_merge_let(
    value: Option<&Bson>,
    when_matched: &WhenMatched,
    at: &StageContext<'_>,
) -> Result<Vec<(String, Expression)>> {
    let context = ParseContext::from(at.context);
    let root = Expression::parse(&Bson::from("$$ROOT"), &context)?;
    let mut variables = vec![("new".to_owned(), root)];
    let definitions = match value {
        None => return Ok(variables),
        Some(Bson::Document(definitions)) => definitions,
        Some(other) => return wrong_type("$merge", "let", other),
    };
    if !matches!(when_matched, WhenMatched::Pipeline(_)) {
        return fail(
            51199,
            "Cannot use 'let' variables with this 'whenMatched' mode",
        );
    }
    for (name, value) in definitions {
        if name == "new" {
            if *value != Bson::from("$$ROOT") {
                return fail(
                    51273,
                    "'let' may not define a value for the reserved 'new' variable",
                );
            }
            continue;
        }
        validate_bound_name(name)?;
        variables.push((name.clone(), Expression::parse(value, &context)?));
    }
    Ok(variables)
}

impl Merge {
    /// The fields by which documents are the same.
    pub fn on_fields(&self) -> Vec<&str> {
        match &self.on {
            Some(fields) => fields.iter().map(String::as_str).collect(),
            None => vec!["_id"],
        }
    }

    /// What to do for a document, given what is there that has the same fields.
    pub fn decide(&self, new: Document, existing: Option<Document>) -> Result<MergeAction> {
        let Some(mut existing) = existing else {
            return match self.when_not_matched {
                WhenNotMatched::Insert => Ok(MergeAction::Insert(new)),
                WhenNotMatched::Discard => Ok(MergeAction::Nothing),
                WhenNotMatched::Fail => Err(Error::new(
                    Code(13113),
                    "$merge could not find a matching document in the target collection",
                )),
            };
        };
        match &self.when_matched {
            WhenMatched::KeepExisting => Ok(MergeAction::Nothing),
            WhenMatched::Replace => {
                let mut new = new;
                if let (false, Some(id)) = (new.contains_key("_id"), existing.remove("_id")) {
                    let mut replaced = Document::new();
                    replaced.insert("_id", id);
                    replaced.extend(new);
                    new = replaced;
                }
                Ok(MergeAction::Replace(new))
            }
            WhenMatched::Merge => {
                existing.extend(new);
                Ok(MergeAction::Replace(existing))
            }
            WhenMatched::Fail => fail(
                11000,
                "E11000 duplicate key error: $merge found a matching document",
            ),
            WhenMatched::Pipeline(_) => {
                let mut variables = self.context.variables.clone();
                for (name, expression) in &self.variables {
                    let value = expression.evaluate(&new, &self.context.variables)?;
                    variables.set(name, value);
                }
                match self.update(&new, &variables)? {
                    Some(update) => Ok(MergeAction::Replace(update.update(existing, &variables)?)),
                    None => Ok(MergeAction::Nothing),
                }
            }
        }
    }

    /// The update of what is there already, if that is how documents are merged.
    fn update(&self, _: &Document, variables: &Variables) -> Result<Option<Pipeline>> {
        let WhenMatched::Pipeline(stages) = &self.when_matched else {
            return Ok(None);
        };
        let mut context = self.context.clone();
        for (name, _) in &self.variables {
            let value = variables.get(name).flatten().cloned();
            context.variables.set(name, value);
        }
        Pipeline::parse_update(stages, &context).map(Some)
    }
}

/// A pipeline's end: all documents are written, and none is answered.
pub(super) struct Writing {
    pub(super) input: Option<Box<dyn Source>>,
    pub(super) target: Target,
    pub(super) environment: Arc<dyn Environment>,
}

pub(super) enum Target {
    Out(Out),
    Merge(Box<Merge>),
}

impl Writing {
    async fn next(&mut self) -> Result<Option<Vec<Document>>> {
        let Some(mut input) = self.input.take() else {
            return Ok(None);
        };
        match &self.target {
            Target::Out(out) => self.environment.out(out, input).await?,
            Target::Merge(merge) => {
                while let Some(batch) = input.next_batch().await? {
                    self.environment.merge(merge, batch).await?;
                }
            }
        }
        Ok(None)
    }
}

impl Source for Writing {
    fn next_batch(&mut self) -> BoxFuture<'_, Result<Option<Vec<Document>>>> {
        Box::pin(self.next())
    }
}
