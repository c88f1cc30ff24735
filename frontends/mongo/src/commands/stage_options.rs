//! Repeated options of stages: refused before they become a document, which would keep only one.

use std::collections::HashSet;

use bson::{RawArray, RawBsonRef, RawDocument};

use crate::failure::Result;
use crate::fields;
use crate::wire::document::elements;

/// Stages whose argument is a document of options, rather than of fields or of values.
const WITH_OPTIONS: &[&str] = &[
    "$bucket",
    "$bucketAuto",
    "$changeStream",
    "$collStats",
    "$currentOp",
    "$densify",
    "$facet",
    "$fill",
    "$geoNear",
    "$graphLookup",
    "$listClusterCatalog",
    "$listLocalSessions",
    "$listSessions",
    "$lookup",
    "$merge",
    "$out",
    "$planCacheStats",
    "$replaceRoot",
    "$sample",
    "$setWindowFields",
    "$unionWith",
    "$unwind",
];

/// Refuses stages, those of pipelines within them included, that say something twice.
pub(super) fn check(stages: &RawArray) -> Result<()> {
    for stage in stages {
        if let RawBsonRef::Document(stage) = stage? {
            check_stage(stage)?;
        }
    }
    Ok(())
}

fn check_stage(stage: &RawDocument) -> Result<()> {
    check_once("pipeline", stage)?;
    for (name, argument) in elements(stage) {
        let RawBsonRef::Document(options) = argument else {
            continue;
        };
        if !WITH_OPTIONS.contains(&name) {
            continue;
        }
        check_once(name, options)?;
        for (option, value) in elements(options) {
            match value {
                RawBsonRef::Array(inner) if name == "$facet" || option == "pipeline" => {
                    check(inner)?;
                }
                RawBsonRef::Document(inner) if option == "into" => {
                    check_once(&format!("{name}.{option}"), inner)?;
                }
                _ => {}
            }
        }
    }
    Ok(())
}

fn check_once(path: &str, document: &RawDocument) -> Result<()> {
    let mut seen = HashSet::new();
    for (name, _) in elements(document) {
        if !seen.insert(name) {
            return Err(fields::duplicate(path, name).into());
        }
    }
    Ok(())
}
