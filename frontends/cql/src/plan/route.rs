//! How rows are found: by partition, by token, by index; and what is then asked of each of them.

use super::restriction::{
    Choice, ClusteringStep, ClusteringTest, Filter, Restrictions, Test, TokenRange,
    clustering_place,
};
use crate::error::{Result, refuse};
use crate::schema::{ColumnKind, Index, Table};
use crate::statement::{Comparator, IndexTargetKind};

pub(crate) const NEEDS_FILTERING: &str = "Cannot execute this query as it might involve data \
     filtering and thus may have unpredictable performance. If you want to execute this query \
     despite the performance unpredictability, use ALLOW FILTERING";

/// How rows are found.
#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) partitions: Partitions,
    /// What bounds the rows of each partition, in the order of the clustering columns.
    pub(crate) clustering: Vec<ClusteringStep>,
    /// What must be asked of each row.
    pub(crate) filters: Vec<Filter>,
    /// The index that finds the rows, and which filter it is for.
    pub(crate) index: Option<(Index, usize)>,
}

/// Which partitions are read.
#[derive(Debug)]
pub(crate) enum Partitions {
    All,
    Tokens(TokenRange),
    /// A choice for each column of the partition key, and which tokens of them.
    Keys(Vec<Choice>, Option<TokenRange>),
}

/// The way to the rows that restrictions ask for.
pub(super) fn route(
    table: &Table,
    restrictions: Restrictions,
    allow_filtering: bool,
) -> Result<Route> {
    let keys = table.partition_key().count();
    let Restrictions {
        filters,
        mut together,
        token,
    } = restrictions;
    let mut by_kind = Sorted::default();
    for filter in filters {
        match table.columns.get(filter.column).map(|column| column.kind) {
            Some(ColumnKind::PartitionKey) => by_kind.partition.push(filter),
            Some(ColumnKind::Clustering(_)) => by_kind.clustering.push(filter),
            _ => by_kind.others.push(filter),
        }
    }
    let has_index = |filter: &Filter| index_of(table, filter).is_some();
    let any_index = by_kind.all().any(has_index);
    let may_filter = allow_filtering || any_index;
    let mut left: Vec<Filter> = Vec::new();
    let partitions = partitions(keys, &mut by_kind.partition, token);
    left.append(&mut by_kind.partition);
    let (free, free_together) = (by_kind.clustering.clone(), together.clone());
    let mut clustering = take_prefix(table, &mut by_kind.clustering, &mut together);
    if !may_filter {
        check_contains(&by_kind.clustering, clustering.last())?;
        check_clustering(table, &by_kind.clustering, &together, clustering.last())?;
    }
    let is_slice = |step: &ClusteringStep| matches!(step.test, ClusteringTest::Slice { .. });
    if together.iter().any(is_slice) {
        return refuse("Multi-column slice restrictions cannot be used for filtering.");
    }
    // Where an index is asked for one clustering column, the others before it are no help.
    let beside = match by_kind.clustering.is_empty() && together.is_empty() {
        true => 0,
        false => clustering.len(),
    };
    if !matches!(partitions, Partitions::Keys(..)) {
        // Of all partitions, each row is asked.
        clustering.clear();
        (by_kind.clustering, together) = (free, free_together);
    }
    left.append(&mut by_kind.clustering);
    left.extend(together.into_iter().map(|step| Filter {
        column: keys + step.start,
        test: Test::Together(step),
    }));
    left.append(&mut by_kind.others);
    let indexed = left
        .iter()
        .enumerate()
        .find_map(|(place, filter)| index_of(table, filter).map(|index| (index.clone(), place)));
    let unsupported = left.len() - usize::from(indexed.is_some());
    if unsupported + beside > 0 && !allow_filtering {
        return refuse(NEEDS_FILTERING);
    }
    let index = indexed.filter(|_| !matches!(partitions, Partitions::Keys(..)));
    Ok(Route {
        partitions,
        clustering,
        filters: left,
        index,
    })
}

/// Which partitions are read. Takes out what names them as a whole.
fn partitions(keys: usize, filters: &mut Vec<Filter>, token: Option<TokenRange>) -> Partitions {
    let choice_at = |place: usize| {
        let filter = filters.iter().find(|filter| filter.column == place);
        filter.and_then(choice_of)
    };
    let choices: Option<Vec<Choice>> = (0..keys).map(choice_at).collect();
    if let Some(choices) = choices.filter(|choices| !choices.is_empty()) {
        filters.clear();
        return Partitions::Keys(choices, token);
    }
    token.map_or(Partitions::All, Partitions::Tokens)
}

#[derive(Default)]
struct Sorted {
    partition: Vec<Filter>,
    clustering: Vec<Filter>,
    others: Vec<Filter>,
}

impl Sorted {
    fn all(&self) -> impl Iterator<Item = &Filter> {
        self.partition
            .iter()
            .chain(&self.clustering)
            .chain(&self.others)
    }
}

/// The values that a column must have one of, if a filter says so.
pub(super) fn choice_of(filter: &Filter) -> Option<Choice> {
    match &filter.test {
        Test::Compare(Comparator::Equal, value) => Some(Choice::One(value.clone())),
        Test::In(choice) => Some(choice.clone()),
        _ => None,
    }
}

/// The index that finds what a filter asks for.
pub(super) fn index_of<'t>(table: &'t Table, filter: &Filter) -> Option<&'t Index> {
    let column = &table.columns.get(filter.column)?.name;
    let kinds: &[IndexTargetKind] = match &filter.test {
        Test::Compare(Comparator::Equal, _) => &[IndexTargetKind::Simple, IndexTargetKind::Full],
        Test::Contains(_) => &[IndexTargetKind::Values],
        Test::ContainsKey(_) => &[IndexTargetKind::Keys],
        Test::Entry(_, Comparator::Equal, _) => &[IndexTargetKind::Entries],
        _ => return None,
    };
    let is_it = |index: &&Index| index.column == *column && kinds.contains(&index.kind);
    let mut found = table.indexes.iter().filter(is_it);
    let first = found.next()?;
    // One that changes texts is asked first: what it finds is what rows are asked for, too.
    let analyzed = std::iter::once(first).chain(found);
    let mut analyzed = analyzed.filter(|index| index.is_analyzed);
    Some(analyzed.next().unwrap_or(first))
}

/// Takes out what bounds the rows of a partition: `=` and IN from the first clustering column on,
/// and at last a slice.
pub(super) fn take_prefix(
    table: &Table,
    filters: &mut Vec<Filter>,
    together: &mut Vec<ClusteringStep>,
) -> Vec<ClusteringStep> {
    let mut steps: Vec<ClusteringStep> = Vec::new();
    let mut next = 0;
    let count = table.clustering().count();
    while next < count {
        let is_next = |filter: &Filter| clustering_place(table, filter.column) == Some(next);
        if let Some(place) = filters
            .iter()
            .position(|f| is_next(f) && choice_of(f).is_some())
        {
            let filter = filters.remove(place);
            if let Some(choice) = choice_of(&filter) {
                steps.push(ClusteringStep {
                    start: next,
                    count: 1,
                    test: ClusteringTest::Equal(choice),
                });
            }
            next += 1;
            continue;
        }
        let is_slice = |step: &ClusteringStep| matches!(step.test, ClusteringTest::Slice { .. });
        let exact = together
            .iter()
            .position(|step| step.start == next && !is_slice(step));
        if let Some(place) = exact {
            let step = together.remove(place);
            next += step.count;
            steps.push(step);
            continue;
        }
        // Slices end the prefix; one column or several may have two of them.
        let mut place = 0;
        while let Some(filter) = filters.get(place) {
            if let (true, Some(test)) = (is_next(filter), slice_of(filter)) {
                filters.remove(place);
                steps.push(ClusteringStep {
                    start: next,
                    count: 1,
                    test,
                });
            } else {
                place += 1;
            }
        }
        let (slices, others): (Vec<_>, Vec<_>) = std::mem::take(together)
            .into_iter()
            .partition(|step| step.start == next && is_slice(step));
        *together = others;
        steps.extend(slices);
        break;
    }
    steps
}

pub(super) fn slice_of(filter: &Filter) -> Option<ClusteringTest> {
    use super::restriction::{Bound, Tuple};
    let Test::Compare(comparator, value) = &filter.test else {
        return None;
    };
    let bound = |is_inclusive| {
        Some(Bound {
            values: Tuple::Each(vec![value.clone()]),
            is_inclusive,
        })
    };
    let (lower, upper) = match comparator {
        Comparator::Greater => (bound(false), None),
        Comparator::GreaterOrEqual => (bound(true), None),
        Comparator::Less => (None, bound(false)),
        Comparator::LessOrEqual => (None, bound(true)),
        Comparator::Equal | Comparator::NotEqual => return None,
    };
    Some(ClusteringTest::Slice { lower, upper })
}

fn check_contains(clustering: &[Filter], last: Option<&ClusteringStep>) -> Result<()> {
    let is_containing =
        |filter: &Filter| matches!(filter.test, Test::Contains(_) | Test::ContainsKey(_));
    // Behind a slice nothing can be restricted, however.
    let is_sliced = last.is_some_and(|step| matches!(step.test, ClusteringTest::Slice { .. }));
    if !is_sliced && clustering.iter().any(is_containing) {
        return refuse(
            "Clustering columns can only be restricted with CONTAINS with a secondary index or \
             filtering",
        );
    }
    Ok(())
}

/// Refuses restrictions of clustering columns behind ones that are free or sliced.
pub(super) fn check_clustering(
    table: &Table,
    filters: &[Filter],
    together: &[ClusteringStep],
    last: Option<&ClusteringStep>,
) -> Result<()> {
    let is_sliced = last.is_some_and(|step| matches!(step.test, ClusteringTest::Slice { .. }));
    let is_containing =
        |filter: &Filter| matches!(filter.test, Test::Contains(_) | Test::ContainsKey(_));
    let first_left = filters
        .iter()
        .filter(|filter| is_sliced || !is_containing(filter))
        .filter_map(|filter| clustering_place(table, filter.column))
        .chain(together.iter().map(|step| step.start))
        .min();
    let Some(place) = first_left else {
        return Ok(());
    };
    let name = |place: usize| {
        let column = table.clustering().nth(place);
        column.map_or(String::new(), |column| column.name.clone())
    };
    let column = name(place);
    refuse(match last {
        Some(step) if matches!(step.test, ClusteringTest::Slice { .. }) => format!(
            "Clustering column \"{column}\" cannot be restricted (preceding column \"{}\" is \
             restricted by a non-EQ relation)",
            name(step.start)
        ),
        _ => {
            let free = last.map_or(0, |step| step.start + step.count);
            format!(
                "PRIMARY KEY column \"{column}\" cannot be restricted as preceding column \"{}\" \
                 is not restricted",
                name(free)
            )
        }
    })
}
