//! `$setWindowFields`: computes values over the neighbours of each document.

mod bounds;
mod compute;
mod function;

use bson::{Bson, Document};
use tessera_core::deadline;

use self::function::Function;
use super::environment::BATCH;
use super::fields::known;
use super::kept::{ENTRY, Kept};
use super::sort::Sort;
use super::stage::Stage;
use super::step::Step;
use super::{StageContext, path};
use crate::collation::Collation;
use crate::error::Result;
use crate::expression::path_components as components;
use crate::expression::{Expression, ParseContext, Variables, fail};
use crate::key;
use crate::size::{document_footprint, footprint};

/// Partitions, their order, and what is computed within them.
#[derive(Clone, Debug, PartialEq)]
pub struct SetWindowFields {
    partition_by: Option<Expression>,
    sort: Option<Sort>,
    outputs: Vec<(Vec<String>, Function)>,
}

/// `$setWindowFields`.
pub(super) fn parse(argument: &Bson, at: &StageContext<'_>) -> Result<Vec<Stage>> {
    let Bson::Document(options) = argument else {
        return fail(
            9,
            "the $setWindowFields stage specification must be an object",
        );
    };
    known(
        "$setWindowFields",
        options,
        &["partitionBy", "sortBy", "output"],
    )?;
    let context = ParseContext::from(at.context);
    let partition_by = options
        .get("partitionBy")
        .map(|by| Expression::parse(by, &context))
        .transpose()?;
    if let Some(Some(Some(Bson::Array(_)))) = partition_by.as_ref().map(Expression::as_constant) {
        return fail(
            14,
            "An expression used to partition cannot evaluate to an array",
        );
    }
    let sort = match options.get("sortBy") {
        None => None,
        Some(Bson::Document(pattern)) => Some(Sort::parse(pattern)?),
        Some(other) => return super::fields::wrong_type("$setWindowFields", "sortBy", other),
    };
    let output = match super::fields::required("$setWindowFields", options, "output")? {
        Bson::Document(output) => output,
        other => return super::fields::wrong_type("$setWindowFields", "output", other),
    };
    let mut outputs: Vec<(Vec<String>, Function)> = Vec::with_capacity(output.len());
    for (name, value) in output {
        let path = components(name)?;
        deadline::step(outputs.len())?;
        let conflicts = |other: &Vec<String>| other.starts_with(&path) || path.starts_with(other);
        if outputs.iter().any(|(other, _)| conflicts(other)) {
            return fail(
                6307900,
                "'output' specification contains two conflicting paths",
            );
        }
        outputs.push((
            path,
            Function::parse(name, value, sort.as_ref(), at.context)?,
        ));
    }
    Ok(vec![Stage::SetWindowFields(Box::new(SetWindowFields {
        partition_by,
        sort,
        outputs,
    }))])
}

impl SetWindowFields {
    /// A stage made by another one.
    pub(super) fn new(
        partition_by: Option<Expression>,
        sort: Option<Sort>,
        outputs: &Document,
        at: &StageContext<'_>,
    ) -> Result<Self> {
        let mut functions = Vec::with_capacity(outputs.len());
        for (name, value) in outputs {
            let function = Function::parse(name, value, sort.as_ref(), at.context)?;
            functions.push((components(name)?, function));
        }
        Ok(Self {
            partition_by,
            sort,
            outputs: functions,
        })
    }
}

fn exceeded<T>() -> Result<T> {
    fail(292, "Exceeded memory limit in $setWindowFields")
}

/// One document and where it belongs.
struct Row {
    partition: Vec<u8>,
    order: Vec<u8>,
    document: Document,
}

/// Documents until all are there.
pub(super) struct Windowing {
    stage: SetWindowFields,
    variables: Variables,
    collation: Collation,
    kept: Kept,
    rows: Vec<Row>,
    finished: Option<std::vec::IntoIter<Document>>,
}

impl Windowing {
    pub(super) fn new(
        stage: SetWindowFields,
        variables: Variables,
        collation: Collation,
        memory_limit: usize,
    ) -> Self {
        let (rows, finished) = (Vec::new(), None);
        Self {
            stage,
            variables,
            collation,
            kept: Kept::new(memory_limit),
            rows,
            finished,
        }
    }

    fn finish(&mut self) -> Result<Vec<Document>> {
        let mut rows = std::mem::take(&mut self.rows);
        if self.stage.partition_by.is_some() || self.stage.sort.is_some() {
            deadline::sort_by(&mut rows, |a, b| {
                (&a.partition, &a.order).cmp(&(&b.partition, &b.order))
            })?;
        }
        let mut finished = Vec::with_capacity(rows.len());
        let mut rest = rows.as_slice();
        while let Some(first) = rest.first() {
            let end = rest
                .iter()
                .take_while(|row| row.partition == first.partition)
                .count();
            let (partition, later) = rest.split_at(end);
            finished.extend(self.partition(partition)?);
            rest = later;
        }
        Ok(finished)
    }

    fn partition(&mut self, rows: &[Row]) -> Result<Vec<Document>> {
        let documents: Vec<&Document> = rows.iter().map(|row| &row.document).collect();
        let orders: Vec<&[u8]> = rows.iter().map(|row| row.order.as_slice()).collect();
        let sort_field = self
            .stage
            .sort
            .as_ref()
            .and_then(|sort| sort.pattern.keys().next());
        let partition = function::Partition {
            documents: &documents,
            orders: &orders,
            sort_field: sort_field.map(String::as_str),
            variables: &self.variables,
        };
        let mut changed: Vec<Document> = documents.iter().map(|row| (*row).clone()).collect();
        for (path, function) in &self.stage.outputs {
            let values = function.values(&partition)?;
            if !self.kept.add(values.iter().map(footprint).sum()) {
                return exceeded();
            }
            for (document, value) in changed.iter_mut().zip(values) {
                path::set(document, path, value);
            }
        }
        Ok(changed)
    }
}

impl Step for Windowing {
    fn take(&mut self, document: Document, _: &mut Vec<Document>) -> Result<()> {
        let partition = match &self.stage.partition_by {
            None => Vec::new(),
            Some(by) => match by.evaluate(&document, &self.variables)? {
                Some(Bson::Array(_)) => {
                    return fail(
                        14,
                        "An expression used to partition cannot evaluate to an array",
                    );
                }
                value => key::encode(&value.unwrap_or(Bson::Null), &self.collation),
            },
        };
        let order = match &self.stage.sort {
            None => Vec::new(),
            Some(sort) => sort.order.key(&document, &self.collation)?,
        };
        // Each document is there again, changed, before the first is passed on.
        let beside = document_footprint(&document) + partition.len() + order.len() + ENTRY;
        if !self.kept.add_document(&document, beside) {
            return exceeded();
        }
        self.rows.push(Row {
            partition,
            order,
            document,
        });
        Ok(())
    }

    fn drain(&mut self, output: &mut Vec<Document>) -> Result<()> {
        let mut finished = match self.finished.take() {
            Some(finished) => finished,
            None => self.finish()?.into_iter(),
        };
        output.extend(finished.by_ref().take(BATCH));
        self.finished = Some(finished);
        Ok(())
    }
}
