//! `$fill`: values for fields that are null, made by windows and by `$addFields`.

use bson::{Bson, Document, doc};

use super::StageContext;
use super::fields::{known, required, wrong_type};
use super::sort::Sort;
use super::stage::Stage;
use super::transform;
use super::window::SetWindowFields;
use crate::error::Result;
use crate::expression::path_components as components;
use crate::expression::{Expression, ParseContext, fail};

/// `$fill`.
pub(super) fn parse(argument: &Bson, at: &StageContext<'_>) -> Result<Vec<Stage>> {
    let Bson::Document(options) = argument else {
        return fail(9, "The $fill stage specification must be an object");
    };
    known(
        "$fill",
        options,
        &["partitionBy", "partitionByFields", "sortBy", "output"],
    )?;
    let sort = match options.get("sortBy") {
        None => None,
        Some(Bson::Document(pattern)) => Some(Sort::parse(pattern)?),
        Some(other) => return wrong_type("$fill", "sortBy", other),
    };
    let output = match required("$fill", options, "output")? {
        Bson::Document(output) if output.is_empty() => {
            return fail(
                6050203,
                "The output field in '$fill' must have at least one element",
            );
        }
        Bson::Document(output) => output,
        other => return wrong_type("$fill", "output", other),
    };
    let (mut windows, mut values) = (Document::new(), Document::new());
    for (field, specification) in output {
        components(field)?;
        match parse_output(field, specification)? {
            Filling::Window(window) => windows.insert(field.clone(), window),
            Filling::Value(value) => values.insert(field.clone(), value),
        };
    }
    let partition_by = parse_partition(options, at)?;
    let mut stages = Vec::new();
    if !windows.is_empty() {
        let window = SetWindowFields::new(partition_by, sort, &windows, at)?;
        stages.push(Stage::SetWindowFields(Box::new(window)));
    }
    if !values.is_empty() {
        stages.extend(transform::parse_add_fields(&Bson::Document(values), at)?);
    }
    Ok(stages)
}

enum Filling {
    Window(Document),
    Value(Document),
}

fn parse_output(field: &str, specification: &Bson) -> Result<Filling> {
    let Bson::Document(specification) = specification else {
        return fail(
            6050200,
            "Each fill output specification must be an object with one field",
        );
    };
    known("$fill.output", specification, &["method", "value"])?;
    let path = format!("${field}");
    match (specification.get("method"), specification.get("value")) {
        (Some(_), Some(_)) => fail(6050201, "Only one of 'method' and 'value' may be specified"),
        (Some(Bson::String(method)), None) => match method.as_str() {
            "locf" => Ok(Filling::Window(doc! { "$locf": path })),
            "linear" => Ok(Filling::Window(doc! { "$linearFill": path })),
            _ => fail(6050202, "Method must be either locf or linear"),
        },
        (Some(other), None) => wrong_type("$fill.output", "method", other),
        (None, Some(value)) => Ok(Filling::Value(doc! { "$ifNull": [path, value.clone()] })),
        (None, None) => fail(
            6050200,
            "Each fill output specification must have one field",
        ),
    }
}

fn parse_partition(options: &Document, at: &StageContext<'_>) -> Result<Option<Expression>> {
    let by = match (options.get("partitionBy"), options.get("partitionByFields")) {
        (None, None) => return Ok(None),
        (Some(_), Some(_)) => {
            return fail(
                6050204,
                "Only one of 'partitionBy' and 'partitionByFields' is allowed",
            );
        }
        (Some(by @ (Bson::String(_) | Bson::Document(_))), None) => by.clone(),
        (Some(other), None) => return wrong_type("$fill", "partitionBy", other),
        (None, Some(Bson::Array(fields))) => {
            let mut by = Document::new();
            for (position, field) in fields.iter().enumerate() {
                let Bson::String(field) = field else {
                    return wrong_type("$fill", "partitionByFields", field);
                };
                components(field)?;
                by.insert(format!("f{position}"), format!("${field}"));
            }
            Bson::Document(by)
        }
        (None, Some(other)) => return wrong_type("$fill", "partitionByFields", other),
    };
    Expression::parse(&by, &ParseContext::from(at.context)).map(Some)
}
