//! CREATE INDEX: the index that a statement defines on a table, or why it cannot be.

use super::{Column, ColumnKind, Index, Table, storage_attached};
use crate::error::{CqlError, Result, refuse};
use crate::statement::{CreateIndex, IndexTarget, IndexTargetKind, PropertyValue};
use crate::types::{DataType, Native};

/// The names of the class that Cassandra 5 makes no indexes of by default.
const SASI: [&str; 2] = ["SASIIndex", "org.apache.cassandra.index.sasi.SASIIndex"];

/// The index; none if it is there already, and may be. `taken` tells whether the keyspace has an
/// index of this name.
pub(crate) fn create_index(
    create: &CreateIndex,
    table: &Table,
    taken: &dyn Fn(&str) -> bool,
) -> Result<Option<Index>> {
    if create.is_custom && create.class.is_none() {
        return refuse("Must specify index implementation via USING");
    }
    if let Some(name) = create.name.as_deref().filter(|name| taken(name)) {
        if create.if_not_exists {
            return Ok(None);
        }
        return refuse(format!("Index '{name}' already exists"));
    }
    if table.is_counter() {
        return refuse("Secondary indexes on counter tables aren't supported");
    }
    let target = only_target(create)?;
    let Some(column) = table.column(&target.column) else {
        return refuse(format!(
            "Undefined column name {} in table {}",
            target.column,
            table.full_name()
        ));
    };
    check_durations(&column.data_type)?;
    let is_only_key = column.kind == ColumnKind::PartitionKey && table.partition_key().count() == 1;
    if is_only_key {
        let column = &column.name;
        return refuse(format!(
            "Cannot create secondary index on the only partition key column {column}"
        ));
    }
    let kind = target_kind(target, column)?;
    let name = match &create.name {
        Some(name) => name.clone(),
        None => free_name(table, &column.name, taken),
    };
    let mut index = Index {
        name,
        column: column.name.clone(),
        kind,
        class: create
            .class
            .clone()
            .filter(|class| class != "legacy_local_table"),
        options: options(create)?,
        is_analyzed: false,
    };
    index.is_analyzed = index.analysis().is_some();
    check_class(&index)?;
    if let Some(other) = table.indexes.iter().find(|other| is_same(other, &index)) {
        if create.if_not_exists {
            return Ok(None);
        }
        let (name, other) = (&index.name, &other.name);
        return refuse(format!(
            "Index {name} is a duplicate of existing index {other}"
        ));
    }
    if index.is_storage_attached() {
        storage_attached::check(&index, column, table)?;
    }
    Ok(Some(index))
}

/// The one part of a table that the index is of.
fn only_target(create: &CreateIndex) -> Result<&IndexTarget> {
    match create.targets.as_slice() {
        [target] => Ok(target),
        [] => refuse("Only CUSTOM indexes can be created without specifying a target column"),
        targets if create.class.is_some() => {
            let columns: Vec<&str> = targets.iter().map(|it| it.column.as_str()).collect();
            let columns = columns.join(", ");
            refuse(format!(
                "A storage-attached index cannot be created over multiple columns: {columns}"
            ))
        }
        _ => refuse("Only CUSTOM indexes support multiple columns"),
    }
}

/// Refuses classes that there are none of.
fn check_class(index: &Index) -> Result<()> {
    let Some(class) = &index.class else {
        return Ok(());
    };
    if index.is_storage_attached() {
        return Ok(());
    }
    if SASI.contains(&class.as_str()) {
        return refuse(
            "SASI indexes are disabled. This server has no setting that enables them; a \
             storage-attached index ('sai') is of more use",
        );
    }
    Err(CqlError::configuration(format!(
        "Unable to find custom indexer class '{class}'"
    )))
}

/// Whether two indexes differ in nothing but their names. Those of different classes may be of one
/// column.
fn is_same(left: &Index, right: &Index) -> bool {
    let options = |index: &Index| {
        let mut options = index.options.clone();
        options.sort();
        options
    };
    left.column == right.column
        && left.kind == right.kind
        && left.class == right.class
        && options(left) == options(right)
}

pub(crate) fn check_durations(data_type: &DataType) -> Result<()> {
    if !data_type.any(&|inner| *inner == DataType::Native(Native::Duration)) {
        return Ok(());
    }
    let on = "Secondary indexes are not supported on";
    refuse(match data_type {
        DataType::Tuple(_) => format!("{on} tuples containing durations"),
        DataType::User { .. } => format!("{on} UDTs containing durations"),
        DataType::Native(_) => format!("{on} duration columns"),
        _ => format!("{on} collections containing durations"),
    })
}

/// Which part of the column is indexed: of a collection without a word, its values.
fn target_kind(target: &IndexTarget, column: &Column) -> Result<IndexTargetKind> {
    let name = &column.name;
    let word = match target.kind {
        IndexTargetKind::Simple | IndexTargetKind::Values => "values",
        IndexTargetKind::Keys => "keys",
        IndexTargetKind::Entries => "entries",
        IndexTargetKind::Full => "full",
    };
    let is_simple = target.kind == IndexTargetKind::Simple;
    let data_type = &column.data_type;
    let is_frozen_collection = data_type.is_collection() && !data_type.is_multi_cell();
    if is_frozen_collection && target.kind != IndexTargetKind::Full {
        let written = crate::statement::quoted(name);
        return refuse(format!(
            "Cannot create {word}() index on frozen column {name}. Frozen collections are \
             immutable and must be fully indexed by using the 'full({written})' modifier"
        ));
    }
    if target.kind == IndexTargetKind::Full && !is_frozen_collection {
        return refuse("full() indexes can only be created on frozen collections");
    }
    if !data_type.is_collection() && !is_simple {
        return refuse(format!(
            "Cannot create {word}() index on {name}. Non-collection columns only support simple \
             indexes"
        ));
    }
    let needs_map = matches!(
        target.kind,
        IndexTargetKind::Keys | IndexTargetKind::Entries
    );
    if needs_map && !matches!(data_type, DataType::Map { .. }) {
        return refuse(format!(
            "Cannot create index on {word} of column {name} with non-map type"
        ));
    }
    if matches!(data_type, DataType::User { frozen: false, .. }) {
        return refuse(format!(
            "Cannot create index on non-frozen UDT column {name}"
        ));
    }
    let is_values = is_simple && data_type.is_collection();
    Ok(if is_values {
        IndexTargetKind::Values
    } else {
        target.kind
    })
}

/// `table_column_idx`, with a number if that is taken.
fn free_name(table: &Table, column: &str, taken: &dyn Fn(&str) -> bool) -> String {
    let is_word = |c: &char| c.is_ascii_alphanumeric() || *c == '_';
    let column: String = column.chars().filter(is_word).collect();
    let base = format!("{}_{column}_idx", table.name);
    if !taken(&base) {
        return base;
    }
    let numbered = (1..u32::MAX).map(|number| format!("{base}_{number}"));
    numbered
        .into_iter()
        .find(|name| !taken(name))
        .unwrap_or(base)
}

fn options(create: &CreateIndex) -> Result<Vec<(String, String)>> {
    let mut options = Vec::new();
    for (name, value) in &create.properties {
        match value {
            PropertyValue::Map(map) if name == "options" => options.extend(map.iter().cloned()),
            _ => return Err(CqlError::syntax(format!("Unknown property '{name}'"))),
        }
    }
    if !options.is_empty() && create.class.is_none() {
        return refuse("Cannot specify options for a non-CUSTOM index");
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parser::parse;
    use crate::schema::testing::table;
    use crate::statement::Statement;

    fn index(text: &str) -> Result<Index> {
        let table = table(
            "CREATE TABLE t (p int, c int, \"V x\" int, l list<int>, m map<int, int>, \
             f frozen<list<int>>, d duration, n u, s set<text>, PRIMARY KEY (p, c))",
        )?;
        let Statement::CreateIndex(create) = parse(text)?.statement else {
            panic!("{text}")
        };
        let taken = |name: &str| name == "taken" || name == "t_c_idx";
        Ok(create_index(&create, &table, &taken)?.unwrap())
    }

    #[test]
    fn indexes_have_names_and_targets() {
        for (text, name, target) in [
            ("CREATE INDEX i ON t (c)", "i", "c"),
            ("CREATE INDEX ON t (c)", "t_c_idx_1", "c"),
            ("CREATE INDEX ON t (\"V x\")", "t_Vx_idx", "\"V x\""),
            ("CREATE INDEX ON t (l)", "t_l_idx", "values(l)"),
            ("CREATE INDEX ON t (keys(m))", "t_m_idx", "keys(m)"),
            ("CREATE INDEX ON t (entries(m))", "t_m_idx", "entries(m)"),
            ("CREATE INDEX ON t (full(f))", "t_f_idx", "full(f)"),
            (
                "CREATE CUSTOM INDEX ON t (s) USING 'sai'",
                "t_s_idx",
                "values(s)",
            ),
        ] {
            let index = index(text).unwrap();
            assert_eq!(
                (index.name.as_str(), index.target().as_str()),
                (name, target)
            );
        }
    }

    #[test]
    fn indexes_of_different_classes_may_be_of_one_column() {
        let mut table =
            table("CREATE TABLE t (p int PRIMARY KEY, v int, m map<int, int>)").unwrap();
        for (text, words) in [
            ("CREATE INDEX a ON t (v)", ""),
            (
                "CREATE CUSTOM INDEX b ON t (v) USING 'StorageAttachedIndex'",
                "",
            ),
            (
                "CREATE INDEX c ON t (v)",
                "Index c is a duplicate of existing index a",
            ),
            (
                "CREATE INDEX c ON t (v) USING 'legacy_local_table'",
                "Index c is a duplicate of existing index a",
            ),
            (
                "CREATE CUSTOM INDEX c ON t (v) USING 'StorageAttachedIndex'",
                "Index c is a duplicate of existing index b",
            ),
            (
                "CREATE INDEX c ON t (v) USING 'sai'",
                "Cannot create more than one storage-attached index on the same column: v",
            ),
            ("CREATE CUSTOM INDEX d ON t (keys(m)) USING 'sai'", ""),
            ("CREATE CUSTOM INDEX e ON t (values(m)) USING 'sai'", ""),
            (
                "CREATE CUSTOM INDEX f ON t (v) USING 'Other'",
                "Unable to find custom indexer class 'Other'",
            ),
            (
                "CREATE CUSTOM INDEX f ON t (v) USING 'org.apache.cassandra.index.sasi.SASIIndex'",
                "SASI indexes are disabled. This server has no setting that enables them; a \
                 storage-attached index ('sai') is of more use",
            ),
        ] {
            let Statement::CreateIndex(create) = parse(text).unwrap().statement else {
                panic!("{text}")
            };
            match create_index(&create, &table, &|_| false) {
                Ok(index) => table.indexes.extend(index),
                Err(error) => assert_eq!(error.message, words, "{text}"),
            }
            assert!(!table.indexes.iter().any(|it| it.name == "c"), "{text}");
        }
        let names: Vec<&str> = table.indexes.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["a", "b", "d", "e"]);
    }

    #[test]
    fn storage_attached_indexes_have_their_options() {
        let table = table(
            "CREATE TABLE t (p int PRIMARY KEY, v int, b blob, e vector<float, 2>, \
             i vector<int, 2>, o vector<float, 1>)",
        );
        let table = table.unwrap();
        let with = |column: &str, options: &str| {
            let text = format!(
                "CREATE CUSTOM INDEX ON t ({column}) USING 'sai' WITH OPTIONS = {{{options}}}"
            );
            let Statement::CreateIndex(create) = parse(&text).unwrap().statement else {
                panic!("{text}")
            };
            match create_index(&create, &table, &|_| false) {
                Ok(index) => format!("{:?}", index.unwrap().similarity()),
                Err(error) => error.message,
            }
        };
        for (column, options, expected) in [
            ("e", "'similarity_function': 'euclidean'", "Euclidean"),
            ("e", "'optimize_for': 'recall'", "Cosine"),
            (
                "v",
                "'case_sensitive': 'false'",
                "CQL type int cannot be analyzed.",
            ),
            (
                "e",
                "'similarity_function': 'x'",
                "Similarity function X was not recognized for index null. Valid values are: \
                 EUCLIDEAN, DOT_PRODUCT, COSINE",
            ),
            (
                "v",
                "'similarity_function': 'cosine'",
                "CQL type int cannot have vector options",
            ),
            (
                "e",
                "'construction_beam_width': '9'",
                "Construction beam width cannot be set without enabling \
                 SAI_VECTOR_ALLOW_CUSTOM_PARAMETERS",
            ),
            (
                "v",
                "'x': '1'",
                "Properties specified [x] are not understood by StorageAttachedIndex",
            ),
            (
                "i",
                "'similarity_function': 'cosine'",
                "SAI ANN indexes are only allowed on vector columns with float elements",
            ),
            (
                "o",
                "'similarity_function': 'cosine'",
                "Cosine similarity is not supported for single-dimension vectors",
            ),
            ("b", "'ascii': 'true'", "CQL type blob cannot be analyzed."),
        ] {
            assert_eq!(with(column, options), expected, "{column} {options}");
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for (text, words) in [
            (
                "CREATE INDEX taken ON t (c)",
                "Index 'taken' already exists",
            ),
            (
                "CREATE INDEX ON t (x)",
                "Undefined column name x in table ks.t",
            ),
            (
                "CREATE INDEX ON t (p)",
                "Cannot create secondary index on the only partition key column p",
            ),
            (
                "CREATE INDEX ON t (d)",
                "Secondary indexes are not supported on duration columns",
            ),
            (
                "CREATE INDEX ON t (f)",
                "Cannot create values() index on frozen column f. Frozen collections are immutable \
                 and must be fully indexed by using the 'full(f)' modifier",
            ),
            (
                "CREATE INDEX ON t (full(l))",
                "full() indexes can only be created on frozen collections",
            ),
            (
                "CREATE INDEX ON t (keys(c))",
                "Cannot create keys() index on c. Non-collection columns only support simple \
                 indexes",
            ),
            (
                "CREATE INDEX ON t (keys(l))",
                "Cannot create index on keys of column l with non-map type",
            ),
            (
                "CREATE INDEX ON t (n)",
                "Cannot create index on non-frozen UDT column n",
            ),
            (
                "CREATE CUSTOM INDEX ON t (c)",
                "Must specify index implementation via USING",
            ),
            (
                "CREATE INDEX ON t (c, l)",
                "Only CUSTOM indexes support multiple columns",
            ),
        ] {
            assert_eq!(index(text).unwrap_err().message, words, "{text}");
        }
    }
}
