//! The rows that an UPDATE or a DELETE is of.

use super::modify::{Kind, Modification, key_count};
use super::restriction::{ClusteringTest, Filter, Restrictions, Test, clustering_place};
use super::route::{check_clustering, choice_of, take_prefix};
use crate::error::{Result, refuse};
use crate::schema::Table;

/// The rows of an UPDATE or a DELETE: by their whole keys, or for DELETE by a part of them.
pub(super) fn set_where(
    table: &Table,
    plan: &mut Modification,
    restrictions: Restrictions,
) -> Result<()> {
    let kind = plan.kind.name();
    let Restrictions {
        filters,
        mut together,
        token,
    } = restrictions;
    if token.is_some() {
        return refuse(format!(
            "The token function cannot be used in WHERE clauses for {kind} statements"
        ));
    }
    let partition = table.partition_key().count();
    let others: Vec<String> = filters
        .iter()
        .filter_map(|filter| table.columns.get(filter.column))
        .filter(|column| !column.is_key())
        .map(|column| column.name.clone())
        .collect();
    let (keys, mut clustering): (Vec<Filter>, Vec<Filter>) = filters
        .into_iter()
        .partition(|filter| clustering_place(table, filter.column).is_none());
    partition_choices(table, plan, &keys)?;
    if !others.is_empty() {
        return refuse(format!(
            "Non PRIMARY KEY columns found in where clause: {} ",
            others.join(", ")
        ));
    }
    let has_clustering = !clustering.is_empty() || !together.is_empty();
    plan.clustering = take_prefix(table, &mut clustering, &mut together);
    check_clustering(table, &clustering, &together, plan.clustering.last())?;
    if let Some(filter) = clustering.first() {
        let name = table
            .columns
            .get(filter.column)
            .map_or("", |column| column.name.as_str());
        let kind = plan.kind.name();
        return refuse(match &filter.test {
            Test::Contains(_) => format!("Cannot use {kind} with CONTAINS"),
            Test::ContainsKey(_) => format!("Cannot use {kind} with CONTAINS KEY"),
            _ => format!("Cannot restrict clustering column {name} in this way"),
        });
    }
    let covered: usize = plan
        .clustering
        .iter()
        .filter(|step| !matches!(step.test, ClusteringTest::Slice { .. }))
        .map(|step| step.count)
        .sum();
    let count = table.columns.len().min(key_count(table)) - partition;
    check_rows(table, plan, has_clustering, covered == count)
}

/// The partitions: a value, or several, for each column of their key.
fn partition_choices(table: &Table, plan: &mut Modification, keys: &[Filter]) -> Result<()> {
    let mut missing = Vec::new();
    for (place, column) in table.partition_key().enumerate() {
        let filter = keys.iter().find(|filter| filter.column == place);
        match filter.map(choice_of) {
            None => missing.push(column.name.as_str()),
            Some(Some(choice)) => plan.partition.push(choice),
            Some(None) => {
                return refuse(format!(
                    "Only EQ and IN relation are supported on the partition key (unless you use \
                     the token() function) for {} statements",
                    plan.kind.name()
                ));
            }
        }
    }
    if !missing.is_empty() {
        return refuse(format!(
            "Some partition key parts are missing: {}",
            missing.join(", ")
        ));
    }
    Ok(())
}

fn missing_clustering(table: &Table, plan: &Modification) -> String {
    let done: usize = plan.clustering.iter().map(|step| step.count).sum();
    let missing: Vec<&str> = table
        .clustering()
        .skip(done)
        .map(|column| column.name.as_str())
        .collect();
    format!("Some clustering keys are missing: {}", missing.join(", "))
}

fn check_rows(
    table: &Table,
    plan: &mut Modification,
    has_clustering: bool,
    is_whole: bool,
) -> Result<()> {
    let kind = plan.kind.name();
    let has_slice = plan
        .clustering
        .iter()
        .any(|step| matches!(step.test, ClusteringTest::Slice { .. }));
    if plan.is_static && table.clustering().next().is_some() {
        // A condition on a row may name that row all the same.
        if has_clustering && !plan.condition.is_of_rows(table) {
            return refuse(format!(
                "Invalid restrictions on clustering columns since the {kind} statement modifies \
                 only static columns"
            ));
        }
        if !is_whole && plan.condition.is_of_rows(table) {
            return refuse(match (plan.kind, table.clustering().next()) {
                (Kind::Delete, Some(_)) => {
                    "DELETE statements must restrict all PRIMARY KEY columns \
                     with equality relations in order to use IF condition on non static columns"
                        .to_owned()
                }
                _ => missing_clustering(table, plan),
            });
        }
        plan.is_static = !has_clustering;
        return Ok(());
    }
    plan.is_static = false;
    if has_slice && plan.kind == Kind::Update {
        return refuse(
            "Slice restrictions are not supported on the clustering columns in UPDATE statements",
        );
    }
    if is_whole {
        return Ok(());
    }
    if plan.kind == Kind::Update {
        return refuse(missing_clustering(table, plan));
    }
    if plan.condition.is_conditional() {
        return refuse(
            "DELETE statements must restrict all PRIMARY KEY columns with equality relations in \
             order to delete non static columns",
        );
    }
    if !plan.deletes_all {
        return refuse("Range deletions are not supported for specific columns");
    }
    Ok(())
}
