//! Stages that look at one document at a time: `$match`, `$skip`, `$limit`, `$unwind`, `$count`,
//! `$replaceRoot`, `$redact`, `$sample`, `$documents`.

use bson::{Bson, Document};
use rand::Rng;
use tessera_core::deadline::{self, Held};

use super::StageContext;
use super::environment::{BATCH, BoxFuture, Source};
use super::fields::{count, known, required};
use super::kept::{ENTRY, Kept};
use super::path;
use super::stage::Stage;
use super::step::Step;
use super::transform::Transform;
use crate::compare::type_name;
use crate::error::Result;
use crate::expression::path_components as components;
use crate::expression::{Expression, ParseContext, Variables, fail};
use crate::filter::Filter;
use crate::number::Number;
use crate::size::{document_footprint, footprint};

/// `$match`.
pub(super) fn parse_match(argument: &Bson, at: &StageContext<'_>) -> Result<Vec<Stage>> {
    let Bson::Document(filter) = argument else {
        return fail(15959, "the match filter must be an expression in an object");
    };
    Ok(vec![Stage::Match(Filter::parse_in(
        filter,
        at.context,
        at.place.of_filter(),
    )?)])
}

pub(super) struct Matching(pub(super) Filter);

impl Step for Matching {
    fn take(&mut self, document: Document, output: &mut Vec<Document>) -> Result<()> {
        if self.0.matches(&document)? {
            output.push(document);
        }
        Ok(())
    }
}

/// `$skip`.
pub(super) fn parse_skip(argument: &Bson, _: &StageContext<'_>) -> Result<Vec<Stage>> {
    Ok(vec![Stage::Skip(count("$skip", argument, 5107200)?)])
}

pub(super) struct Skipping(pub(super) u64);

impl Step for Skipping {
    fn take(&mut self, document: Document, output: &mut Vec<Document>) -> Result<()> {
        match self.0.checked_sub(1) {
            Some(left) => self.0 = left,
            None => output.push(document),
        }
        Ok(())
    }
}

/// `$limit`.
pub(super) fn parse_limit(argument: &Bson, _: &StageContext<'_>) -> Result<Vec<Stage>> {
    match count("$limit", argument, 5107201)? {
        0 => fail(15958, "the limit must be positive"),
        limit => Ok(vec![Stage::Limit(limit)]),
    }
}

pub(super) struct Limiting(pub(super) u64);

impl Step for Limiting {
    fn take(&mut self, document: Document, output: &mut Vec<Document>) -> Result<()> {
        if let Some(left) = self.0.checked_sub(1) {
            self.0 = left;
            output.push(document);
        }
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.0 == 0
    }
}

/// `$count`.
pub(super) fn parse_count(argument: &Bson, _: &StageContext<'_>) -> Result<Vec<Stage>> {
    let Bson::String(name) = argument else {
        return fail(40156, "the count field must be a non-empty string");
    };
    match name.as_str() {
        "" => fail(40157, "the count field must be a non-empty string"),
        name if name.starts_with('$') => fail(40158, "the count field cannot be a $-prefixed path"),
        name if name.contains('\0') => fail(40159, "the count field cannot contain a null byte"),
        name if name.contains('.') => fail(40160, "the count field cannot contain '.'"),
        "_id" => fail(9039800, "the count field cannot be '_id'"),
        name => Ok(vec![Stage::Count(name.to_owned())]),
    }
}

pub(super) struct Counting {
    pub(super) name: String,
    pub(super) count: i64,
}

impl Step for Counting {
    fn take(&mut self, _: Document, _: &mut Vec<Document>) -> Result<()> {
        self.count += 1;
        Ok(())
    }

    fn drain(&mut self, output: &mut Vec<Document>) -> Result<()> {
        let count = std::mem::take(&mut self.count);
        if count > 0 {
            let count = i32::try_from(count).map_or(Bson::Int64(count), Bson::Int32);
            let mut document = Document::new();
            document.insert(self.name.clone(), count);
            output.push(document);
        }
        Ok(())
    }
}

/// `$unwind`: one document for each element of an array.
#[derive(Clone, Debug, PartialEq)]
pub struct Unwind {
    path: Vec<String>,
    index: Option<Vec<String>>,
    preserves: bool,
}

/// `$unwind`.
pub(super) fn parse_unwind(argument: &Bson, _: &StageContext<'_>) -> Result<Vec<Stage>> {
    let (mut path, mut index, mut preserves) = (None, None, false);
    match argument {
        Bson::String(text) => path = Some(text.as_str()),
        Bson::Document(options) => {
            for (name, value) in options {
                match (name.as_str(), value) {
                    ("path", Bson::String(text)) => path = Some(text),
                    ("path", _) => return fail(28808, "expected a string as the path for $unwind"),
                    ("preserveNullAndEmptyArrays", Bson::Boolean(value)) => preserves = *value,
                    ("preserveNullAndEmptyArrays", _) => {
                        return fail(28809, "expected a boolean for preserveNullAndEmptyArrays");
                    }
                    ("includeArrayIndex", Bson::String(text)) if !text.is_empty() => {
                        index = Some(text.as_str());
                    }
                    ("includeArrayIndex", _) => {
                        return fail(28810, "expected a non-empty string for includeArrayIndex");
                    }
                    _ => return fail(28811, format!("unrecognized option to $unwind: {name}")),
                }
            }
        }
        _ => return fail(15981, "expected either a string or an object for $unwind"),
    }
    let Some(path) = path.filter(|path| !path.is_empty()) else {
        return fail(28812, "no path specified to $unwind stage");
    };
    let Some(path) = path.strip_prefix('$') else {
        return fail(
            28818,
            format!("path option to $unwind should be prefixed with a '$': {path}"),
        );
    };
    if index.is_some_and(|index| index.starts_with('$')) {
        return fail(28822, "includeArrayIndex should not be prefixed with a '$'");
    }
    let index = index.map(components).transpose()?;
    Ok(vec![Stage::Unwind(Unwind {
        path: components(path)?,
        index,
        preserves,
    })])
}

/// How many bytes of a document are copied in a step.
const BYTES_COPIED_IN_STEP: usize = 64;

impl Step for Unwind {
    fn take(&mut self, mut document: Document, output: &mut Vec<Document>) -> Result<()> {
        let mut emit = |mut document: Document, index: Bson| {
            if let Some(path) = &self.index {
                path::set(&mut document, path, index);
            }
            output.push(document);
        };
        match path::get(&document, &self.path) {
            Some(Bson::Array(items)) if items.is_empty() => {
                if self.preserves {
                    path::remove(&mut document, &self.path);
                    emit(document, Bson::Null);
                }
            }
            Some(Bson::Array(items)) => {
                let items = items.clone();
                path::set(&mut document, &self.path, Bson::Null);
                let mut held = Held::new();
                let each = document_footprint(&document) + ENTRY;
                for (index, item) in (0..).zip(items) {
                    deadline::step(1 + each / BYTES_COPIED_IN_STEP)?;
                    held.add(each + footprint(&item))?;
                    let mut copy = document.clone();
                    path::set(&mut copy, &self.path, item);
                    emit(copy, Bson::Int64(index));
                }
            }
            None | Some(Bson::Null | Bson::Undefined) if !self.preserves => {}
            _ => emit(document, Bson::Null),
        }
        Ok(())
    }
}

/// `$replaceRoot`.
pub(super) fn parse_replace_root(argument: &Bson, at: &StageContext<'_>) -> Result<Vec<Stage>> {
    let Bson::Document(options) = argument else {
        let found = type_name(argument);
        return fail(
            40229,
            format!("expected an object for $replaceRoot stage, got {found}"),
        );
    };
    known("$replaceRoot", options, &["newRoot"])?;
    parse_replace_with(required("$replaceRoot", options, "newRoot")?, at)
}

/// `$replaceWith`.
pub(super) fn parse_replace_with(argument: &Bson, at: &StageContext<'_>) -> Result<Vec<Stage>> {
    let expression = Expression::parse(argument, &ParseContext::from(at.context))?;
    Ok(vec![Stage::ReplaceRoot(expression)])
}

/// What the expression gives in place of the document.
pub(super) fn replace_root(
    expression: &Expression,
    document: &Document,
    variables: &Variables,
) -> Result<Document> {
    match expression.evaluate(document, variables)? {
        Some(Bson::Document(root)) => Ok(root),
        other => {
            let found = other.as_ref().map_or("missing", type_name);
            fail(
                40228,
                format!("'newRoot' expression must evaluate to an object, got {found}"),
            )
        }
    }
}

/// A stage that makes one document of one.
pub(super) struct Changing {
    pub(super) change: Change,
    pub(super) variables: Variables,
}

pub(super) enum Change {
    Fields(Transform),
    Root(Expression),
}

impl Step for Changing {
    fn take(&mut self, document: Document, output: &mut Vec<Document>) -> Result<()> {
        output.push(match &self.change {
            Change::Fields(transform) => transform.apply(document, &self.variables)?,
            Change::Root(expression) => replace_root(expression, &document, &self.variables)?,
        });
        Ok(())
    }
}

/// `$redact`.
pub(super) fn parse_redact(argument: &Bson, at: &StageContext<'_>) -> Result<Vec<Stage>> {
    let expression = Expression::parse_relative(argument, &ParseContext::from(at.context))?;
    Ok(vec![Stage::Redact(expression)])
}

pub(super) struct Redacting {
    pub(super) expression: Expression,
    pub(super) variables: Variables,
}

impl Redacting {
    /// What is left of a document; none if it is pruned.
    fn redact(&self, root: &Document, document: Document) -> Result<Option<Document>> {
        let decision = self
            .expression
            .evaluate_relative(root, &document, &self.variables)?;
        match decision.as_ref().and_then(Bson::as_str) {
            Some("keep") => Ok(Some(document)),
            Some("prune") => Ok(None),
            Some("descend") => {
                let mut left = Document::new();
                for (name, value) in document {
                    if let Some(value) = self.descend(root, value)? {
                        left.insert(name, value);
                    }
                }
                Ok(Some(left))
            }
            _ => fail(
                17053,
                "$redact's expression should not return anything aside from the variables \
                 $$KEEP, $$DESCEND, and $$PRUNE",
            ),
        }
    }

    fn descend(&self, root: &Document, value: Bson) -> Result<Option<Bson>> {
        match value {
            Bson::Document(document) => Ok(self.redact(root, document)?.map(Bson::Document)),
            Bson::Array(items) => {
                let mut left = Vec::with_capacity(items.len());
                for item in items {
                    left.extend(self.descend(root, item)?);
                }
                Ok(Some(Bson::Array(left)))
            }
            value => Ok(Some(value)),
        }
    }
}

impl Step for Redacting {
    fn take(&mut self, document: Document, output: &mut Vec<Document>) -> Result<()> {
        let root = document.clone();
        output.extend(self.redact(&root, document)?);
        Ok(())
    }
}

/// `$sample`.
pub(super) fn parse_sample(argument: &Bson, _: &StageContext<'_>) -> Result<Vec<Stage>> {
    let Bson::Document(options) = argument else {
        return fail(28745, "the $sample stage specification must be an object");
    };
    let mut size = None;
    for (name, value) in options {
        if name != "size" {
            return fail(28748, format!("unrecognized option to $sample: {name}"));
        }
        match Number::from_bson(value) {
            Some(number) => size = Some(number.to_i64_saturating()),
            None => return fail(28746, "size argument to $sample must be a number"),
        }
    }
    match size.map(usize::try_from) {
        None => fail(28749, "$sample stage must specify a size"),
        Some(Ok(size)) if size > 0 => Ok(vec![Stage::Sample(size)]),
        Some(_) => fail(28747, "size argument to $sample must be a positive integer"),
    }
}

/// Keeps so many documents, each of those seen with the same chance.
pub(super) struct Sampling {
    pub(super) size: usize,
    pub(super) seen: usize,
    pub(super) kept: Vec<Document>,
    pub(super) memory: Kept,
}

impl Step for Sampling {
    fn take(&mut self, document: Document, _: &mut Vec<Document>) -> Result<()> {
        self.seen += 1;
        if self.kept.len() < self.size {
            if !self.memory.add_document(&document, 0) {
                return fail(292, "Exceeded memory limit for $sample");
            }
            // The order is by chance as well.
            let place = rand::rng().random_range(0..=self.kept.len());
            self.kept.push(document);
            let last = self.kept.len() - 1;
            self.kept.swap(place, last);
        } else if let Some(kept) = self.kept.get_mut(rand::rng().random_range(0..self.seen)) {
            *kept = document;
        }
        Ok(())
    }

    fn drain(&mut self, output: &mut Vec<Document>) -> Result<()> {
        let count = self.kept.len().min(BATCH);
        output.extend(self.kept.drain(..count));
        Ok(())
    }
}

/// `$documents`.
pub(super) fn parse_documents(argument: &Bson, at: &StageContext<'_>) -> Result<Vec<Stage>> {
    let expression = Expression::parse(argument, &ParseContext::from(at.context))?;
    let stage = Stage::Documents(expression);
    // What can be known now is said now.
    if let Stage::Documents(expression) = &stage
        && expression.as_constant().is_some()
    {
        evaluate_documents(expression, &at.context.variables)?;
    }
    Ok(vec![stage])
}

fn evaluate_documents(expression: &Expression, variables: &Variables) -> Result<Vec<Document>> {
    let Some(Bson::Array(items)) = expression.evaluate(&Document::new(), variables)? else {
        return fail(
            5858203,
            "an array is expected from the expression of $documents",
        );
    };
    let document = |item| match item {
        Bson::Document(document) => Ok(document),
        other => fail(
            40228,
            format!("$documents takes objects, not {}", type_name(&other)),
        ),
    };
    items.into_iter().map(document).collect()
}

/// The documents that a stage itself has; evaluated when they are asked for.
pub(super) struct OwnDocuments {
    pub(super) expression: Option<(Expression, Variables)>,
    pub(super) documents: std::vec::IntoIter<Document>,
}

impl OwnDocuments {
    fn next(&mut self) -> Result<Option<Vec<Document>>> {
        if let Some((expression, variables)) = self.expression.take() {
            self.documents = evaluate_documents(&expression, &variables)?.into_iter();
        }
        let batch: Vec<Document> = self.documents.by_ref().take(BATCH).collect();
        Ok((!batch.is_empty()).then_some(batch))
    }
}

impl Source for OwnDocuments {
    fn next_batch(&mut self) -> BoxFuture<'_, Result<Option<Vec<Document>>>> {
        let batch = self.next();
        Box::pin(std::future::ready(batch))
    }
}
