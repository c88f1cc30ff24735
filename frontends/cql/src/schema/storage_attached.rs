//! Storage-attached indexes: what Cassandra 5 lets them be. They are kept as all indexes are; those
//! on vectors only say by what the nearest are found.

use super::{Column, Index, Table};
use crate::error::{CqlError, Result, refuse};
use crate::statement::IndexTargetKind;
use crate::types::{Analysis, DataType, Native, Similarity};

/// The names of their class, in lower case.
const CLASSES: [&str; 3] = [
    "sai",
    "storageattachedindex",
    "org.apache.cassandra.index.sai.storageattachedindex",
];
const SIMILARITY: &str = "similarity_function";
const OPTIMIZE_FOR: &str = "optimize_for";
/// What the graph of a vector index is made with, which Cassandra lets nobody choose by default.
const GRAPH: [(&str, &str); 2] = [
    ("maximum_node_connections", "Maximum node connections"),
    ("construction_beam_width", "Construction beam width"),
];
const CASE_SENSITIVE: &str = "case_sensitive";
const NORMALIZE: &str = "normalize";
const ASCII: &str = "ascii";
const ANALYSIS: [&str; 3] = [CASE_SENSITIVE, NORMALIZE, ASCII];

impl Index {
    /// Whether it is a storage-attached one.
    pub(crate) fn is_storage_attached(&self) -> bool {
        let class = self.class.as_deref().map(str::to_ascii_lowercase);
        class.is_some_and(|class| CLASSES.contains(&class.as_str()))
    }

    /// What decides how alike the vectors are that it is of.
    pub(crate) fn similarity(&self) -> Similarity {
        let named = self.option(SIMILARITY).and_then(Similarity::named);
        named.unwrap_or_default()
    }

    /// What its options want to be made of texts, if it is anything.
    pub(crate) fn analysis(&self) -> Option<Analysis> {
        let is = |name: &str, usual: bool| {
            let given = self.option(name);
            given.map_or(usual, |given| given.eq_ignore_ascii_case("true"))
        };
        let analysis = Analysis {
            folds_case: !is(CASE_SENSITIVE, true),
            normalizes: is(NORMALIZE, false),
            folds_to_ascii: is(ASCII, false),
        };
        (self.is_storage_attached() && analysis != Analysis::default()).then_some(analysis)
    }

    fn option(&self, name: &str) -> Option<&str> {
        let mut options = self.options.iter();
        let found = options.find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// Refuses a storage-attached index that Cassandra would not make.
pub(super) fn check(index: &Index, column: &Column, table: &Table) -> Result<()> {
    check_names(index)?;
    let is_same = |other: &&Index| {
        other.is_storage_attached() && other.column == index.column && other.kind == index.kind
    };
    if table.indexes.iter().any(|other| is_same(&other)) {
        return refuse(format!(
            "Cannot create more than one storage-attached index on the same column: {}",
            column.name
        ));
    }
    let analysis = index
        .options
        .iter()
        .filter(|(name, _)| ANALYSIS.contains(&name.as_str()));
    let analysis: Vec<String> = analysis
        .map(|(name, value)| format!("'{name}': '{value}'"))
        .collect();
    if column.is_key() && !analysis.is_empty() {
        return refuse(format!(
            "Analysis options are not supported on primary key columns, but found {{{}}}",
            analysis.join(", ")
        ));
    }
    check_vector_options(index, &column.data_type)?;
    check_analysis(index, &column.data_type)?;
    check_type(index, &column.data_type)
}

/// Refuses to change texts that are none, or in a way that is none.
fn check_analysis(index: &Index, data_type: &DataType) -> Result<()> {
    for name in ANALYSIS {
        let Some(value) = index.option(name) else {
            continue;
        };
        let text = [Native::Text, Native::Ascii].map(DataType::Native);
        match indexed_types(index, data_type).as_slice() {
            [one] if text.contains(one) => {}
            [one] => return refuse(format!("CQL type {one} cannot be analyzed.")),
            _ => return refuse(format!("CQL type {data_type} cannot be analyzed.")),
        }
        if value.is_empty() {
            return refuse(format!("Empty value for boolean option '{name}'"));
        }
        if !["true", "false"]
            .iter()
            .any(|it| value.eq_ignore_ascii_case(it))
        {
            return refuse(format!(
                "Illegal value for boolean option '{name}': {value}"
            ));
        }
    }
    Ok(())
}

/// The types of what it is of: of entries, those of keys and of values.
fn indexed_types<'t>(index: &Index, data_type: &'t DataType) -> Vec<&'t DataType> {
    match (index.kind, data_type) {
        (IndexTargetKind::Keys, DataType::Map { key, .. }) => vec![key],
        (IndexTargetKind::Values, DataType::Map { value, .. }) => vec![value],
        (IndexTargetKind::Entries, DataType::Map { key, value, .. }) => vec![key, value],
        (
            IndexTargetKind::Values,
            DataType::List { element, .. } | DataType::Set { element, .. },
        ) => vec![element],
        (_, whole) => vec![whole],
    }
}

/// Refuses options that there are none of.
fn check_names(index: &Index) -> Result<()> {
    let is_known = |name: &str| {
        [SIMILARITY, OPTIMIZE_FOR].contains(&name)
            || ANALYSIS.contains(&name)
            || GRAPH.iter().any(|(known, _)| *known == name)
    };
    let names = index.options.iter().map(|(name, _)| name.as_str());
    let unknown: Vec<&str> = names.filter(|name| !is_known(name)).collect();
    if unknown.is_empty() {
        return Ok(());
    }
    Err(CqlError::configuration(format!(
        "Properties specified [{}] are not understood by StorageAttachedIndex",
        unknown.join(", ")
    )))
}

fn check_vector_options(index: &Index, data_type: &DataType) -> Result<()> {
    let option = |name| index.option(name);
    let graph = GRAPH.iter().find(|(name, _)| option(name).is_some());
    let (similarity, purpose) = (option(SIMILARITY), option(OPTIMIZE_FOR));
    if graph.is_none() && similarity.is_none() && purpose.is_none() {
        return Ok(());
    }
    if !matches!(data_type, DataType::Vector { .. }) {
        return refuse(format!("CQL type {data_type} cannot have vector options"));
    }
    if let Some((_, words)) = graph {
        return refuse(format!(
            "{words} cannot be set without enabling SAI_VECTOR_ALLOW_CUSTOM_PARAMETERS"
        ));
    }
    if let Some(name) = similarity.filter(|name| Similarity::named(name).is_none()) {
        return refuse(format!(
            "Similarity function {} was not recognized for index null. Valid values are: {}",
            name.to_uppercase(),
            Similarity::NAMES
        ));
    }
    let purpose = purpose.map(str::to_uppercase);
    match purpose.as_deref() {
        None | Some("LATENCY" | "RECALL") => Ok(()),
        Some(other) => refuse(format!(
            "optimize_for '{other}' was not recognized for index null. Valid values are: LATENCY, \
             RECALL"
        )),
    }
}

/// Refuses values that such an index cannot be of.
fn check_type(index: &Index, data_type: &DataType) -> Result<()> {
    if let DataType::Vector { element, dimension } = data_type {
        if **element != DataType::Native(Native::Float) {
            return refuse(
                "SAI ANN indexes are only allowed on vector columns with float elements",
            );
        }
        if *dimension == 1 && index.similarity() == Similarity::Cosine {
            return refuse("Cosine similarity is not supported for single-dimension vectors");
        }
        return Ok(());
    }
    let parts = indexed_types(index, data_type);
    let blob = DataType::Native(Native::Blob);
    match parts.contains(&&blob) {
        true => refuse("Unsupported type: blob"),
        false => Ok(()),
    }
}
