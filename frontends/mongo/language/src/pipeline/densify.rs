//! `$densify`: documents for the steps of a range that no document has.

use bson::{Bson, DateTime, Document};
use tessera_core::deadline;

use super::environment::BATCH;
use super::fields::{known, required, text, wrong_type};
use super::kept::Kept;
use super::stage::Stage;
use super::step::Step;
use super::{StageContext, path};
use crate::collation::Collation;
use crate::compare::{compare, type_name};
use crate::error::Result;
use crate::expression::date::{Unit, add_to_date};
use crate::expression::fail;
use crate::expression::path_components as components;
use crate::key;
use crate::number::Number;
use crate::size::{document_footprint, footprint};

/// More documents than this are not made.
const MAX_GENERATED: usize = 500_000;

/// Which field has gaps, and what fills them.
#[derive(Clone, Debug, PartialEq)]
pub struct Densify {
    field: Vec<String>,
    partition_by: Vec<Vec<String>>,
    step: Bson,
    unit: Option<Unit>,
    bounds: Bounds,
}

#[derive(Clone, Debug, PartialEq)]
enum Bounds {
    /// From the least value of all to the greatest.
    Full,
    /// The same within each partition.
    Partition,
    /// From the first, up to the second.
    Explicit(Box<(Bson, Bson)>),
}

/// `$densify`.
pub(super) fn parse(argument: &Bson, _: &StageContext<'_>) -> Result<Vec<Stage>> {
    let Bson::Document(options) = argument else {
        return fail(9, "The $densify stage specification must be an object");
    };
    known(
        "$densify",
        options,
        &["field", "partitionByFields", "range"],
    )?;
    let name = text("$densify", options, "field")?;
    let field = components(name)?;
    let partition_by = parse_partition(options.get("partitionByFields"))?;
    for partition in &partition_by {
        if field.starts_with(partition) {
            return fail(
                8993000,
                "partitionByFields cannot include the field that is densified",
            );
        }
        if partition.starts_with(&field) {
            return fail(
                9554500,
                "the field that is densified cannot include a partition field",
            );
        }
    }
    let range = match required("$densify", options, "range")? {
        Bson::Document(range) => range,
        other => return wrong_type("$densify", "range", other),
    };
    known("$densify.range", range, &["step", "bounds", "unit"])?;
    let step = required("$densify.range", range, "step")?.clone();
    let positive = Number::from_bson(&step).filter(|n| n.compare(Number::Int32(0)).is_gt());
    let Some(number) = positive else {
        return fail(
            5733401,
            "The step parameter must be a strictly positive numeric value",
        );
    };
    let unit = match range.get("unit") {
        None => None,
        Some(Bson::String(_)) if number.as_i64_exact().is_none() => {
            return fail(6586400, "The step of a date range must be a whole number");
        }
        Some(Bson::String(unit)) => Some(Unit::parse(unit)?),
        Some(other) => return wrong_type("$densify.range", "unit", other),
    };
    let bounds = parse_bounds(required("$densify.range", range, "bounds")?, &step, unit)?;
    if bounds == Bounds::Partition && partition_by.is_empty() {
        return fail(
            5733408,
            "'partition' bounds need a non-empty array of partitionByFields",
        );
    }
    Ok(vec![Stage::Densify(Box::new(Densify {
        field,
        partition_by,
        step,
        unit,
        bounds,
    }))])
}

fn parse_partition(fields: Option<&Bson>) -> Result<Vec<Vec<String>>> {
    let Some(fields) = fields else {
        return Ok(Vec::new());
    };
    let Bson::Array(fields) = fields else {
        return wrong_type("$densify", "partitionByFields", fields);
    };
    let field = |field: &Bson| match field {
        Bson::String(field) => components(field),
        other => wrong_type("$densify", "partitionByFields", other),
    };
    fields.iter().map(field).collect()
}

fn parse_bounds(value: &Bson, step: &Bson, unit: Option<Unit>) -> Result<Bounds> {
    let bounds = match value {
        Bson::String(name) if name == "full" => return Ok(Bounds::Full),
        Bson::String(name) if name == "partition" => return Ok(Bounds::Partition),
        Bson::String(_) => {
            return fail(
                5946802,
                "Bounds string must either be 'full' or 'partition'",
            );
        }
        Bson::Array(bounds) => bounds,
        _ => {
            return fail(
                5733404,
                "The bounds must be 'full', 'partition', or an array",
            );
        }
    };
    let [low, high] = bounds.as_slice() else {
        return fail(5733403, "A bounding array must have exactly two elements");
    };
    if compare(low, high, &Collation::default()).is_gt() {
        return fail(5733402, "A bounding array must be ascending");
    }
    match (low, high) {
        (Bson::DateTime(_), Bson::DateTime(_)) if unit.is_none() => {
            fail(5733410, "A bounding array of dates must specify a unit")
        }
        (Bson::DateTime(_), Bson::DateTime(_)) => {
            Ok(Bounds::Explicit(Box::new((low.clone(), high.clone()))))
        }
        (Bson::DateTime(_), _) => fail(5733405, "The bounds must be both dates or both numbers"),
        (low, high) if Number::from_bson(low).is_some() => {
            if unit.is_some() {
                return fail(5733409, "Numeric bounds may not have unit parameter");
            }
            if Number::from_bson(high).is_none() {
                return fail(5733406, "The bounds must be both dates or both numbers");
            }
            if type_name(low) != type_name(high) || type_name(low) != type_name(step) {
                return fail(
                    5876900,
                    "Upper bound, lower bound, and step must have one type",
                );
            }
            Ok(Bounds::Explicit(Box::new((low.clone(), high.clone()))))
        }
        _ => fail(5946800, "Explicit bounds must be numeric or dates"),
    }
}

/// Documents until all are there.
pub(super) struct Densifying {
    stage: Densify,
    kept: Kept,
    rows: Vec<(Vec<u8>, Bson, Document)>,
    generated: usize,
    finished: Option<std::vec::IntoIter<Document>>,
}

impl Densifying {
    pub(super) fn new(stage: Densify, memory_limit: usize) -> Self {
        let (rows, finished) = (Vec::new(), None);
        Self {
            stage,
            kept: Kept::new(memory_limit),
            rows,
            generated: 0,
            finished,
        }
    }

    fn next(&self, value: &Bson) -> Result<Bson> {
        let step = Number::from_bson(&self.stage.step).unwrap_or(Number::Int32(1));
        match (value, self.stage.unit) {
            (Bson::DateTime(date), Some(unit)) => {
                let amount = step.as_i64_exact().unwrap_or(1);
                let next = add_to_date(date.timestamp_millis(), unit, amount)?;
                Ok(Bson::DateTime(DateTime::from_millis(next)))
            }
            (value, _) => {
                let number = Number::from_bson(value).unwrap_or(Number::Int32(0));
                Ok(number.add(step).into_bson())
            }
        }
    }

    fn finish(&mut self) -> Result<Vec<Document>> {
        let simple = Collation::default();
        let mut rows = std::mem::take(&mut self.rows);
        deadline::sort_by(&mut rows, |(a, x, _), (b, y, _)| {
            a.cmp(b).then_with(|| compare(x, y, &simple))
        })?;
        let values = rows
            .iter()
            .map(|(_, value, _)| value)
            .filter(|value| **value != Bson::Null);
        let least = values
            .clone()
            .min_by(|a, b| compare(a, b, &simple))
            .cloned();
        let greatest = values.max_by(|a, b| compare(a, b, &simple)).cloned();
        let mut finished = Vec::with_capacity(rows.len());
        let mut rest = rows.as_slice();
        while let Some((partition, ..)) = rest.first() {
            let end = rest
                .iter()
                .take_while(|(other, ..)| other == partition)
                .count();
            let (rows, later) = rest.split_at(end);
            let full = least.clone().zip(greatest.clone());
            self.fill(rows, full, &mut finished)?;
            rest = later;
        }
        Ok(finished)
    }

    /// One partition: its documents and those between them.
    fn fill(
        &mut self,
        rows: &[(Vec<u8>, Bson, Document)],
        full: Option<(Bson, Bson)>,
        output: &mut Vec<Document>,
    ) -> Result<()> {
        let simple = Collation::default();
        let mut values = rows
            .iter()
            .map(|(_, value, _)| value)
            .filter(|v| **v != Bson::Null);
        let own = values
            .next()
            .cloned()
            .zip(rows.last().map(|(_, value, _)| value.clone()));
        // The end of explicit bounds is not part of them.
        let (range, includes_end) = match &self.stage.bounds {
            Bounds::Full => (full, true),
            Bounds::Partition => (own, true),
            Bounds::Explicit(range) => (Some((**range).clone()), false),
        };
        let (mut next, end) = match range {
            Some((low, high)) => (Some(low), high),
            None => (None, Bson::Null),
        };
        let is_within = |value: &Bson| {
            let order = compare(value, &end, &simple);
            order.is_lt() || includes_end && order.is_eq()
        };
        let Some((_, _, first)) = rows.first() else {
            return Ok(());
        };
        for (_, value, document) in rows {
            while let Some(missing) = &next
                && *value != Bson::Null
                && is_within(missing)
                && compare(missing, value, &simple).is_lt()
            {
                output.push(self.generate(first, missing.clone())?);
                next = Some(self.next(missing)?);
            }
            if let Some(missing) = &next
                && compare(missing, value, &simple).is_eq()
            {
                next = Some(self.next(missing)?);
            }
            output.push(document.clone());
        }
        while let Some(missing) = &next
            && is_within(missing)
        {
            output.push(self.generate(first, missing.clone())?);
            next = Some(self.next(missing)?);
        }
        Ok(())
    }

    fn generate(&mut self, like: &Document, value: Bson) -> Result<Document> {
        deadline::step(4)?;
        self.generated += 1;
        if self.generated > MAX_GENERATED {
            return fail(5897900, "$densify generated more documents than the limit");
        }
        let mut document = Document::new();
        for field in &self.stage.partition_by {
            if let Some(value) = path::get(like, field) {
                path::set(&mut document, field, value.clone());
            }
        }
        path::set(&mut document, &self.stage.field, value);
        if !self.kept.add_document(&document, 0) {
            return fail(292, "Exceeded memory limit for $densify");
        }
        Ok(document)
    }
}

impl Step for Densifying {
    fn take(&mut self, document: Document, _: &mut Vec<Document>) -> Result<()> {
        let value = path::get(&document, &self.stage.field)
            .cloned()
            .unwrap_or(Bson::Null);
        match (&value, self.stage.unit) {
            (Bson::Null | Bson::Undefined, _) => {}
            (Bson::DateTime(_), Some(_)) => {}
            (Bson::DateTime(_), None) => {
                return fail(6053600, "$densify of dates requires a 'unit' in its range");
            }
            (value, unit) if Number::from_bson(value).is_none() || unit.is_some() => {
                return fail(
                    5733201,
                    "$densify's field must be numeric, or a date with a unit",
                );
            }
            _ => {}
        }
        let mut partition = Vec::new();
        for field in &self.stage.partition_by {
            let value = path::get(&document, field).unwrap_or(&Bson::Null);
            partition.extend(key::encode(value, &Collation::default()));
        }
        // All rows are there again in what is made of them.
        let again = document_footprint(&document);
        if !self
            .kept
            .add_document(&document, again + footprint(&value) + partition.len())
        {
            return fail(292, "Exceeded memory limit for $densify");
        }
        self.rows.push((partition, value, document));
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
