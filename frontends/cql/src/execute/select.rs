//! SELECT: rows are read in order, filtered, put together and cut into pages.

use std::ops::RangeInclusive;

use bytes::Bytes;
use tessera_core::continuation::Continuation;
use tessera_core::definition::IndexState;
use tessera_core::model::bounded_value;
use tessera_core::reading::IndexSpan;

use super::collect::{Collector, Limits};
use super::evaluate::{Scope, bind};
use super::index_reader::{IndexSink, LookedUp};
use super::indexed::check_wanted;
use super::keys::{combinations, row_key};
use super::line::{Lens, Line};
use super::model::index_value;
use super::nearest::{self, Nearest};
use super::paging::PagingState;
use super::reader::{Flow, Place as RowPlace, Reader, Sink, Slice};
use super::{Answer, Context, Outcome, now_of};
use crate::catalog::Place;
use crate::error::{Answers, CqlError, ErrorKind, Result};
use crate::failure::Failure;
use crate::plan::{
    Choice, ClusteringStep, ClusteringTest, Expression, Filter, Partitions, Plan, Select, Test,
    TokenRange,
};
use crate::schema::{Column, Table};
use crate::system;
use crate::wire::Consistency;

/// Runs a SELECT.
pub(super) async fn select(
    plan: &Plan,
    select: &Select,
    context: &Context<'_>,
) -> std::result::Result<Answer, Failure> {
    let given = bind(&plan.variables, context.values)?;
    let clock = context.service.store.clock();
    let scope = Scope {
        table: select.table(),
        given: &given,
        clock,
        now: now_of(context),
        line: None,
        aggregates: &[],
    };
    check_filters(select, &scope)?;
    let limits = limits(select, context, &scope)?;
    let (limits, warning) = nearest::limits(select, context, limits)?;
    let nearest = Nearest::of(select, &scope)?;
    let after = context.paging_state.map(PagingState::decode).transpose()?;
    let memory = context.service.store.memory();
    let mut collector = Collector::new(select, &scope, limits, after.as_ref(), memory);
    collector.nearest = nearest;
    let mut charge = tessera_core::throughput::Charge::default();
    match &select.relation.place {
        Place::Computed => computed(select, context, &scope, &mut collector).await?,
        Place::Stored { name, .. } => {
            let mut transaction = context.service.store.begin().await?;
            let container = transaction.container(name).await?;
            if !select.relation.is_in_force(&container) {
                return Err(Failure::Stale);
            }
            let mut reader = Reader {
                transaction: &mut transaction,
                container,
                lens: Lens {
                    table: select.table(),
                    needed: &select.needed,
                    now: scope.now,
                },
                shows_statics: select.shows_statics || select.is_distinct,
                most: collector.most(),
            };
            read(select, &scope, &mut reader, after.as_ref(), &mut collector).await?;
            charge = transaction.meter().charge();
        }
    }
    Ok(Answer {
        outcome: Outcome::Rows(collector.finish()?),
        charge,
        warnings: warnings(select).into_iter().chain(warning).collect(),
    })
}

/// What Cassandra warns of: results for which many partitions are read.
fn warnings(select: &Select) -> Vec<String> {
    let keys = select.table().partition_key().count();
    let is_of_key = |filter: &Filter| filter.column < keys;
    let is_in = |choice: &Choice| !matches!(choice, Choice::One(_));
    let words = match &select.route.partitions {
        _ if !select.is_grouped => return Vec::new(),
        Partitions::All if !select.route.filters.iter().any(is_of_key) => {
            "Aggregation query used without partition key"
        }
        Partitions::Keys(choices, _) if choices.iter().any(is_in) => {
            "Aggregation query used on multiple partition keys (IN restriction)"
        }
        _ => return Vec::new(),
    };
    vec![words.to_owned()]
}

/// Refuses what rows cannot be asked for, also where there are none.
fn check_filters(select: &Select, scope: &Scope<'_>) -> Result<()> {
    let table = select.table();
    for filter in &select.route.filters {
        let column = table.columns.get(filter.column);
        let name = column.map_or("", |column| column.name.as_str());
        if let Test::Together(step) = &filter.test {
            check_together(table, step, scope)?;
            continue;
        }
        if let Test::Entry(key, _, value) = &filter.test {
            scope.must_be_given(key, "map key", name)?;
            scope.must_be_given(value, "map value", name)?;
            continue;
        }
        for value in filter.values() {
            scope.must_be_given(value, "value", name)?;
        }
    }
    Ok(())
}

/// Refuses values of several columns together that are not given, or too long for an index.
fn check_together(table: &Table, step: &ClusteringStep, scope: &Scope<'_>) -> Result<()> {
    let columns: Vec<&Column> = table
        .clustering()
        .skip(step.start)
        .take(step.count)
        .collect();
    let is_indexed = |column: &Column| {
        let mut indexes = table.indexes.iter();
        indexes.any(|index| index.column == column.name)
    };
    let scope = Scope { ..*scope };
    for values in scope.tuples(&step.test, &columns)? {
        for (value, _) in values.iter().zip(&columns).filter(|(_, it)| is_indexed(it)) {
            check_wanted(value)?;
        }
    }
    Ok(())
}

fn limits(select: &Select, context: &Context<'_>, scope: &Scope<'_>) -> Result<Limits> {
    let limit = |expression: &Option<Expression>, words: &str, name: &str| {
        let Some(expression) = expression else {
            return Ok(None);
        };
        if scope.is_unset(expression) {
            return Ok(None);
        }
        let scope = Scope { ..*scope };
        let value = scope.evaluate(expression)?;
        let Some(value) = value else {
            return Err(CqlError::invalid(format!("Invalid null value of {name}")));
        };
        let count = value.as_ref().try_into().map_or(0, i32::from_be_bytes);
        match u32::try_from(count) {
            Ok(count) if count > 0 => Ok(Some(count)),
            _ => Err(CqlError::invalid(format!(
                "{words} must be strictly positive"
            ))),
        }
    };
    let page_size = context
        .page_size
        .and_then(|size| u32::try_from(size).ok())
        .filter(|n| *n > 0);
    if !select.sort.is_empty() && page_size.is_some() && !select.is_grouped {
        return Err(CqlError::invalid(
            "Cannot page queries with both ORDER BY and a IN restriction on the partition key; you \
             must either remove the ORDER BY or the IN and sort client side, or disable paging for \
             this query",
        ));
    }
    Ok(Limits {
        rows: limit(&select.limit, "LIMIT", "limit")?.unwrap_or(u32::MAX),
        per_partition: limit(
            &select.per_partition_limit,
            // Cassandra calls both limits this.
            "LIMIT",
            "per_partition_limit",
        )?
        .unwrap_or(u32::MAX),
        page: page_size.unwrap_or(u32::MAX),
    })
}

/// Reads what is stored.
async fn read(
    select: &Select,
    scope: &Scope<'_>,
    reader: &mut Reader<'_>,
    after: Option<&PagingState>,
    collector: &mut Collector<'_>,
) -> Result<()> {
    let Some((first, last)) = wanted_tokens(select, scope)? else {
        return Ok(());
    };
    if select.route.index.is_some() {
        let tokens = first..=last;
        return read_indexed((select, &tokens), scope, reader, after, collector).await;
    }
    let place = after.map(|state| (&state.partition, &state.row));
    match &select.route.partitions {
        Partitions::All | Partitions::Tokens(_) => {
            reader.tokens((first, last), place, collector).await
        }
        Partitions::Keys(choices, _) => {
            let keys = scope.partition_keys(select.table(), choices)?;
            let ranges = scope.ranges(select.table(), &select.route.clustering)?;
            combinations(keys.len(), ranges.len())?;
            let mut is_behind = place.is_none();
            for key in &keys {
                let token = tessera_core::hash::murmur3::token(key);
                if !(first..=last).contains(&token) {
                    continue;
                }
                let is_here = place.is_some_and(|(partition, _)| partition == key);
                if !is_behind && !is_here {
                    continue;
                }
                is_behind = true;
                let slice = Slice {
                    key,
                    ranges: &ranges,
                    is_whole: is_whole(select),
                    is_reversed: select.is_reversed,
                    after: place.filter(|_| is_here).map(|(_, row)| row),
                };
                if reader.partition(&slice, collector).await? == Flow::Stop {
                    break;
                }
            }
            Ok(())
        }
    }
}

/// Reads what an index finds.
async fn read_indexed(
    (select, tokens): (&Select, &RangeInclusive<i64>),
    scope: &Scope<'_>,
    reader: &mut Reader<'_>,
    after: Option<&PagingState>,
    collector: &mut Collector<'_>,
) -> Result<()> {
    let Some((index, filter)) = &select.route.index else {
        return Ok(());
    };
    let place = after.map(|state| (&state.partition, &state.row));
    let value = index_wanted(select, scope, *filter)?;
    let definition = reader.container.definition.index(&index.name);
    let ready = definition.filter(|definition| definition.state == IndexState::Ready);
    let Some(id) = ready.map(|definition| definition.id) else {
        return Err(not_available(&index.name));
    };
    let span = IndexSpan::equal(id, bounded_value(value.into()));
    let start = after
        .map(|state| &state.index)
        .filter(|start| !start.is_empty());
    let start = start.map(|start| Continuation::decode(start)).transpose()?;
    let filter = select.route.filters.get(*filter);
    let keys = select.table().partition_key().count();
    let looked_up = LookedUp {
        span: &span,
        is_of_key: filter.is_some_and(|filter| filter.column < keys),
        tokens,
    };
    reader.indexed(&looked_up, start, place, collector).await
}

/// An index that is being built, and so does not find everything.
fn not_available(index: &str) -> CqlError {
    let answers = Answers {
        consistency: Consistency::One,
        received: 0,
        required: 1,
    };
    CqlError::new(
        ErrorKind::ReadFailure {
            answers,
            failures: Vec::new(),
            data_present: false,
        },
        format!("The secondary index '{index}' is not yet available"),
    )
}

/// Whether the clustering columns are all known.
fn is_whole(select: &Select) -> bool {
    let steps = &select.route.clustering;
    let is_slice = |test: &ClusteringTest| matches!(test, ClusteringTest::Slice { .. });
    let count: usize = steps.iter().map(|step| step.count).sum();
    !steps.iter().any(|step| is_slice(&step.test)) && count == select.table().clustering().count()
}

/// The first and the last token that a SELECT asks for; none if nothing can be between.
fn wanted_tokens(select: &Select, scope: &Scope<'_>) -> Result<Option<(i64, i64)>> {
    match &select.route.partitions {
        Partitions::Tokens(range) | Partitions::Keys(_, Some(range)) => token_bounds(scope, range),
        Partitions::All | Partitions::Keys(_, None) => Ok(Some((i64::MIN, i64::MAX))),
    }
}

/// The first and the last token of a range; none if nothing is in it.
fn token_bounds(scope: &Scope<'_>, range: &TokenRange) -> Result<Option<(i64, i64)>> {
    let token = |bound: &Option<(Expression, bool)>| -> Result<Option<(i64, bool)>> {
        let Some((expression, is_inclusive)) = bound else {
            return Ok(None);
        };
        let scope = Scope { ..*scope };
        let value = scope.required(expression, "partition key token")?;
        let token = value
            .as_ref()
            .try_into()
            .map_or(i64::MIN, i64::from_be_bytes);
        Ok(Some((token, *is_inclusive)))
    };
    let first = match token(&range.lower)? {
        None => i64::MIN,
        Some((token, true)) => token,
        Some((token, false)) => match token.checked_add(1) {
            Some(next) => next,
            None => return Ok(None),
        },
    };
    // The smallest token is behind all others as an end: so rings close.
    let last = match token(&range.upper)? {
        None | Some((i64::MIN, _)) => i64::MAX,
        Some((token, true)) => token,
        Some((token, false)) => token - 1,
    };
    Ok((first <= last).then_some((first, last)))
}

/// The value that is looked up in an index.
fn index_wanted(select: &Select, scope: &Scope<'_>, filter: usize) -> Result<Vec<u8>> {
    let (Some(filter), Some((index, _))) = (select.route.filters.get(filter), &select.route.index)
    else {
        return Ok(Vec::new());
    };
    let scope = Scope { ..*scope };
    let name = &index.column;
    let column = select.table().columns.get(filter.column);
    let Some(column) = column else {
        return Ok(Vec::new());
    };
    Ok(match &filter.test {
        Test::Compare(_, value) | Test::Contains(value) | Test::ContainsKey(value) => {
            let value = scope.required(value, name)?;
            check_wanted(&value)?;
            index_value(column, index, &value, &[])
        }
        Test::Entry(key, _, value) => {
            let (key, value) = (scope.required(key, name)?, scope.required(value, name)?);
            index_value(column, index, &key, &value)
        }
        _ => Vec::new(),
    })
}

/// Gives the rows of a table that is computed.
async fn computed(
    select: &Select,
    context: &Context<'_>,
    scope: &Scope<'_>,
    collector: &mut Collector<'_>,
) -> Result<()> {
    let table = select.table();
    let rows = system::rows(context.service, &table.keyspace, &table.name).await?;
    let keys = match &select.route.partitions {
        Partitions::Keys(choices, _) => Some(scope.partition_keys(table, choices)?),
        _ => None,
    };
    let ranges = scope.ranges(table, &select.route.clustering)?;
    combinations(keys.as_ref().map_or(1, Vec::len), ranges.len())?;
    let keyed = super::computed::keyed(table, rows);
    let after = context.paging_state.map(PagingState::decode).transpose()?;
    let mut rows = super::computed::ordered(keyed, keys.as_deref(), select.is_reversed);
    // The ranges are sorted, and none overlaps another.
    rows.retain(|row| {
        let behind = ranges.partition_point(|range| *range.start <= *row.clustering);
        let before = behind.checked_sub(1).and_then(|place| ranges.get(place));
        before.is_some_and(|range| range.contains(&row.clustering))
    });
    let mut is_behind = after.is_none();
    let mut skipped: Option<Bytes> = None;
    for row in &rows {
        let row_key = row_key(&row.clustering);
        if !is_behind {
            is_behind = after
                .as_ref()
                .is_some_and(|after| after.partition == row.partition && after.row == row_key);
            continue;
        }
        if skipped.as_ref() == Some(&row.partition) {
            continue;
        }
        let line = Line {
            values: row
                .cells
                .iter()
                .map(|cell| cell.as_deref().map(std::borrow::Cow::Borrowed))
                .collect(),
            ..Line::default()
        };
        let place = RowPlace {
            partition: &row.partition,
            row: &row_key,
        };
        match collector.take(&place, &line)? {
            Flow::More => {}
            Flow::NextPartition => skipped = Some(row.partition.clone()),
            Flow::Stop => break,
        }
    }
    Ok(())
}

impl IndexSink for Collector<'_> {
    fn begin_page(&mut self, start: Option<&Continuation>) {
        self.index_page = start.map(Continuation::encode).unwrap_or_default();
    }

    fn rows(&mut self) -> &mut dyn Sink {
        self
    }
}
