//! A plan as `explain` shows it: MongoDB's names for its stages, with counts if it was executed.

use bson::{Bson, Document, doc};

use crate::execute::query::Query;
use crate::execute::scanner::Counts;
use crate::index::IndexSpec;
use crate::plan::bounds::FieldBound;
use crate::plan::{Access, IndexAccess, Plan, RowAccess, ScanAccess};

/// What a plan did when it was run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ran {
    pub(crate) returned: u64,
    pub(crate) counts: Counts,
    pub(crate) millis: u64,
}

/// The tree of stages of a plan.
pub(crate) fn stages(plan: &Plan, query: &Query, ran: Option<Ran>) -> Document {
    let covered = matches!(&plan.access, Access::Index(index) if index.covered);
    let residual = !query.matches_all();
    let mut tree = access(&plan.access, query, residual, ran);
    if query.sort.is_some() && !plan.is_sorted {
        tree = above(
            "SORT",
            doc! {
                "sortPattern": query.sort_document.clone(),
                "memLimit": 104_857_600,
                "type": "simple",
            },
            tree,
            ran,
        );
        if let Some(limit) = query.limit {
            let kept = i64::try_from(limit.saturating_add(query.skip)).unwrap_or(i64::MAX);
            tree.insert("limitAmount", kept);
        }
    }
    if query.skip > 0 {
        let amount = i64::try_from(query.skip).unwrap_or(i64::MAX);
        tree = above("SKIP", doc! { "skipAmount": amount }, tree, ran);
    }
    if let Some(limit) = query
        .limit
        .filter(|_| query.sort.is_none() || plan.is_sorted)
    {
        let amount = i64::try_from(limit).unwrap_or(i64::MAX);
        tree = above("LIMIT", doc! { "limitAmount": amount }, tree, ran);
    }
    if query.return_key {
        tree = above("RETURN_KEY", doc! {}, tree, ran);
    } else if query.projection.is_some() {
        let simple = query.projection_document.values().all(|value| {
            matches!(
                value,
                Bson::Boolean(_) | Bson::Int32(_) | Bson::Int64(_) | Bson::Double(_)
            )
        }) && query
            .projection_document
            .keys()
            .all(|path| !path.contains('.'));
        let stage = match (covered, simple) {
            (true, _) => "PROJECTION_COVERED",
            (false, true) => "PROJECTION_SIMPLE",
            (false, false) => "PROJECTION_DEFAULT",
        };
        let by = doc! { "transformBy": query.projection_document.clone() };
        tree = above(stage, by, tree, ran);
    }
    tree
}

/// The stages that read.
pub(crate) fn access(
    access_: &Access,
    query: &Query,
    residual: bool,
    ran: Option<Ran>,
) -> Document {
    match access_ {
        Access::Nothing => stage("EOF", doc! {}, ran),
        Access::Point(_) => stage(
            "EXPRESS_IXSCAN",
            doc! { "keyPattern": "{ _id: 1 }", "indexName": "_id_" },
            ran,
        ),
        Access::Scan(scan) => collection_scan(scan, query, residual, ran),
        Access::Rows(rows) => {
            let tree = row_scan(rows, ran);
            fetch(tree, query, residual, ran)
        }
        Access::Index(index) => {
            let tree = index_scan(index, ran);
            if index.covered {
                return tree;
            }
            fetch(tree, query, residual, ran)
        }
        Access::Union(parts) => {
            let inputs = parts.iter().map(|part| match part {
                Access::Index(index) => Bson::Document(index_scan(index, None)),
                Access::Rows(rows) => Bson::Document(row_scan(rows, None)),
                other => Bson::Document(access(other, query, false, None)),
            });
            let mut or = stage("OR", doc! {}, ran);
            or.insert("inputStages", inputs.collect::<Vec<_>>());
            fetch(or, query, residual, ran)
        }
    }
}

fn collection_scan(scan: &ScanAccess, query: &Query, residual: bool, ran: Option<Ran>) -> Document {
    let mut own = Document::new();
    if residual {
        own.insert("filter", query.filter.to_document());
    }
    own.insert("direction", direction(scan.reverse));
    let name = match scan.span {
        tessera_core::reading::Span::Partition { .. } => "CLUSTERED_IXSCAN",
        _ => "COLLSCAN",
    };
    let mut tree = stage(name, own, ran);
    if let Some(ran) = ran {
        tree.insert("docsExamined", number(ran.counts.documents));
    }
    tree
}

fn fetch(tree: Document, query: &Query, residual: bool, ran: Option<Ran>) -> Document {
    let mut own = Document::new();
    if residual && !is_bounded_exactly(query, &tree) {
        own.insert("filter", query.filter.to_document());
    }
    let mut fetch = above("FETCH", own, tree, ran);
    if let Some(ran) = ran {
        fetch.insert("docsExamined", number(ran.counts.documents));
        fetch.insert("alreadyHasObj", 0);
    }
    fetch
}

/// Whether the bounds of an index scan say all that the filter does: its fields are those of the
/// index, each with one condition.
fn is_bounded_exactly(query: &Query, tree: &Document) -> bool {
    let Ok(bounds) = tree.get_document("indexBounds") else {
        return false;
    };
    let multikey = tree.get_bool("isMultiKey").unwrap_or(false);
    !multikey
        && query.filter_document.iter().all(|(path, condition)| {
            let bounded = bounds.get_array(path).is_ok_and(|intervals| {
                intervals.first() != Some(&Bson::String("[MinKey, MaxKey]".to_owned()))
            });
            let exact = match condition {
                Bson::Document(operators) => operators.keys().all(|operator| {
                    ["$eq", "$gt", "$gte", "$lt", "$lte", "$in"].contains(&operator.as_str())
                        || !operator.starts_with('$')
                }),
                Bson::Null | Bson::Array(_) | Bson::RegularExpression(_) => false,
                _ => true,
            };
            bounded && exact
        })
}

fn row_scan(rows: &RowAccess, ran: Option<Ran>) -> Document {
    scan(&rows.spec, &rows.bounds, (rows.reverse, &[]), ran)
}

fn index_scan(index: &IndexAccess, ran: Option<Ran>) -> Document {
    scan(
        &index.spec,
        &index.bounds,
        (index.reverse, &index.multikey),
        ran,
    )
}

fn scan(
    spec: &IndexSpec,
    bounds: &[FieldBound],
    (reverse, multikey): (bool, &[u8]),
    ran: Option<Ran>,
) -> Document {
    let mut paths = Document::new();
    for (position, field) in spec.fields.iter().enumerate() {
        let is_multikey = multikey.iter().any(|m| usize::from(*m) == position);
        let through = if is_multikey {
            vec![Bson::String(field.path.clone())]
        } else {
            Vec::new()
        };
        paths.insert(field.path.clone(), through);
    }
    let mut key = spec.key.clone();
    if spec.wildcard.is_some() {
        key = bounds
            .iter()
            .map(|bound| (bound.path.clone(), Bson::Int32(1)))
            .collect();
    }
    let mut own = doc! {
        "keyPattern": key,
        "indexName": spec.name.clone(),
        "isMultiKey": !multikey.is_empty(),
        "multiKeyPaths": paths,
        "isUnique": spec.unique,
        "isSparse": spec.sparse,
        "isPartial": spec.partial.is_some(),
        "indexVersion": 2,
        "direction": direction(reverse),
    };
    if !spec.collation.is_simple() {
        own.insert("collation", spec.collation.to_document());
    }
    let mut shown = Document::new();
    for bound in bounds {
        let backwards = bound.order.is_descending() != reverse;
        shown.insert(bound.path.clone(), bound.intervals.shown(backwards));
    }
    own.insert("indexBounds", shown);
    let mut tree = stage("IXSCAN", own, ran);
    if let Some(ran) = ran {
        tree.insert("keysExamined", number(ran.counts.keys));
        tree.insert("seeks", 1);
        tree.insert("dupsTested", 0);
        tree.insert("dupsDropped", 0);
    }
    tree
}

/// A stage with what it has besides.
pub(crate) fn stage(name: &str, own: Document, ran: Option<Ran>) -> Document {
    let mut stage = doc! { "stage": name };
    if let Some(ran) = ran {
        stage.insert("nReturned", number(ran.returned));
        stage.insert("executionTimeMillisEstimate", number(ran.millis));
        stage.insert(
            "works",
            number(ran.counts.keys.max(ran.counts.documents) + 1),
        );
        stage.insert("advanced", number(ran.returned));
        stage.insert("needTime", 0);
        stage.insert("needYield", 0);
        stage.insert("saveState", 0);
        stage.insert("restoreState", 0);
        stage.insert("isEOF", 1);
    }
    stage.extend(own);
    stage
}

/// A stage that works on what another gives.
pub(crate) fn above(name: &str, own: Document, input: Document, ran: Option<Ran>) -> Document {
    let mut stage = stage(name, own, ran);
    stage.insert("inputStage", input);
    stage
}

fn direction(reverse: bool) -> &'static str {
    if reverse { "backward" } else { "forward" }
}

pub(crate) fn number(number: u64) -> Bson {
    i32::try_from(number).map_or_else(
        |_| Bson::Int64(i64::try_from(number).unwrap_or(i64::MAX)),
        Bson::Int32,
    )
}
