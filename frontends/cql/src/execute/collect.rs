//! What becomes of rows that were found: filtered, grouped, sorted, counted, and written down.

mod grouping;

use std::borrow::Cow;

use bytes::Bytes;
use tessera_core::clock::Clock;
use tessera_core::memory_budget::MemoryBudget;

use self::grouping::Group;
use super::evaluate::{Given, Scope};
use super::line::Line;
use super::nearest::Nearest;
use super::paging::PagingState;
use super::reader::{Flow, Place, Sink};
use crate::error::Result;
use crate::granted::{Growing, ROW};
use crate::plan::{Expression, Select};
use crate::schema::Table;
use crate::types::{column_json, compare, to_json};
use crate::wire::{Metadata, Rows};

/// How many rows may be given.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) rows: u32,
    pub(super) per_partition: u32,
    pub(super) page: u32,
}

/// The cells of a row of the result.
type Cells = Vec<Option<Vec<u8>>>;

/// Takes the rows of a SELECT.
pub(super) struct Collector<'a> {
    ground: Ground<'a>,
    select: &'a Select,
    limits: Limits,
    rows: Rows,
    /// What all rows take.
    growing: Growing<'a>,
    /// Rows that must be sorted before they are written, with what they are sorted by.
    unsorted: Vec<(Cells, Cells)>,
    group: Option<Group>,
    /// The last row that belongs to what was given.
    last: Option<(Bytes, Bytes)>,
    /// How many rows of its partition had been given with it.
    last_count: u32,
    /// Rows given of the partition that is being read.
    partition: Bytes,
    in_partition: u32,
    is_full: bool,
    /// Where the page of the index began that is being read.
    pub(super) index_page: Bytes,
    /// What rows are sorted by instead of their columns.
    pub(super) nearest: Option<Nearest<'a>>,
}

/// What all rows of a SELECT are looked at with.
#[derive(Clone, Copy)]
struct Ground<'a> {
    table: &'a Table,
    given: &'a [Given<'a>],
    clock: &'a Clock,
    now: i64,
}

impl<'a> Ground<'a> {
    fn scope<'s>(self, line: Option<&'s Line<'s>>, aggregates: &'s [Option<Vec<u8>>]) -> Scope<'s>
    where
        'a: 's,
    {
        Scope {
            table: self.table,
            given: self.given,
            clock: self.clock,
            now: self.now,
            line,
            aggregates,
        }
    }
}

impl<'a> Collector<'a> {
    pub(super) fn new(
        select: &'a Select,
        scope: &Scope<'a>,
        limits: Limits,
        after: Option<&PagingState>,
        memory: &'a MemoryBudget,
    ) -> Self {
        let remaining = after.map_or(limits.rows, |state| state.remaining.min(limits.rows));
        Self {
            ground: Ground {
                table: select.table(),
                given: scope.given,
                clock: scope.clock,
                now: scope.now,
            },
            select,
            limits: Limits {
                rows: remaining,
                // What all rows of a partition share comes once.
                per_partition: if select.is_distinct {
                    1
                } else {
                    limits.per_partition
                },
                ..limits
            },
            rows: Rows::new(Metadata::of(select.selection.columns.clone())),
            growing: Growing::new(memory),
            unsorted: Vec::new(),
            group: None,
            last: after.map(|state| (state.partition.clone(), state.row.clone())),
            partition: after
                .map(|state| state.partition.clone())
                .unwrap_or_default(),
            in_partition: after.map_or(0, |state| state.in_partition),
            last_count: after.map_or(0, |state| state.in_partition),
            is_full: false,
            index_page: after.map(|state| state.index.clone()).unwrap_or_default(),
            nearest: None,
        }
    }

    /// How many rows are wanted, as far as that is known.
    pub(super) fn most(&self) -> usize {
        let is_any_last = self.select.is_grouped || self.nearest.is_some();
        if is_any_last || !self.select.route.filters.is_empty() {
            return usize::MAX;
        }
        let most = self.limits.rows.min(self.limits.page).saturating_add(1);
        usize::try_from(most).unwrap_or(usize::MAX)
    }

    fn given_rows(&self) -> u32 {
        u32::try_from(self.rows.len() + self.unsorted.len()).unwrap_or(u32::MAX)
    }

    /// Whether another row of the result would be one too many, for the page or for all.
    fn has_enough(&self) -> bool {
        let given = self.given_rows();
        given >= self.limits.rows || given >= self.limits.page
    }

    /// Whether rows are sorted before they are given.
    fn is_sorted(&self) -> bool {
        !self.select.sort.is_empty() || self.nearest.is_some()
    }

    /// What a row is sorted by; none if it is not among those that are asked for.
    fn sort_keys(&self, line: &Line<'_>) -> Result<Option<Cells>> {
        if let Some(nearest) = &self.nearest {
            return Ok(nearest.rank(line)?.map(|rank| vec![Some(rank)]));
        }
        let key = |(column, _): &(usize, bool)| line.values.get(*column).cloned().flatten();
        let keys = self.select.sort.iter();
        Ok(Some(keys.map(|by| key(by).map(Cow::into_owned)).collect()))
    }

    fn plain(&mut self, place: &Place<'_>, line: &Line<'_>) -> Result<Flow> {
        let is_sorted = self.is_sorted();
        if !is_sorted && self.has_enough() {
            self.is_full = true;
            return Ok(Flow::Stop);
        }
        let cells = {
            let scope = self.ground.scope(Some(line), &[]);
            let cells: Result<Vec<Option<Cow<'_, [u8]>>>> = self
                .select
                .selection
                .items
                .iter()
                .map(|item| scope.evaluate(item))
                .collect();
            cells?
        };
        let bytes = cells.iter().flatten().map(|cell| cell.len() + 4).sum();
        if !is_sorted {
            if let Err(refused) = self.growing.add(bytes) {
                // Where a page may end anywhere it ends where memory does.
                if self.limits.page == u32::MAX || self.rows.len() == 0 {
                    return Err(tessera_core::Error::from(refused).into());
                }
                self.is_full = true;
                return Ok(Flow::Stop);
            }
            match &self.select.selection.json {
                None => self.rows.push(cells.iter().map(|cell| cell.as_deref())),
                Some(names) => {
                    let text = json_row(names, &cells)?;
                    self.rows.push([Some(text.as_bytes())]);
                }
            }
        } else {
            let Some(keys) = self.sort_keys(line)? else {
                return Ok(Flow::More);
            };
            let owned = cells
                .into_iter()
                .map(|cell| cell.map(Cow::into_owned))
                .collect();
            self.keep_unsorted(keys, owned)?;
            self.keep_nearest();
        }
        self.in_partition += 1;
        self.last_count = self.in_partition;
        self.last = Some((place.partition.clone(), place.row.clone()));
        Ok(self.after_row())
    }

    /// Forgets rows that are not among the nearest so far, once there are many of them.
    fn keep_nearest(&mut self) {
        let most = usize::try_from(self.limits.rows).unwrap_or(usize::MAX);
        if self.nearest.is_some() && self.unsorted.len() >= most.saturating_mul(2) {
            self.unsorted
                .sort_by(|(left, _), (right, _)| left.cmp(right));
            self.unsorted.truncate(most);
        }
    }

    fn after_row(&mut self) -> Flow {
        // Nobody looks whether anything follows a full page: the next one tells.
        if self.nearest.is_some() {
            return Flow::More;
        }
        let is_sorted = self.is_sorted();
        if !is_sorted && self.given_rows() >= self.limits.page {
            self.is_full = true;
            return Flow::Stop;
        }
        // Of partitions that are sorted together, as many rows as are wanted of all.
        let most = if is_sorted {
            self.limits.per_partition.min(self.limits.rows)
        } else {
            self.limits.per_partition
        };
        if self.in_partition >= most {
            Flow::NextPartition
        } else {
            Flow::More
        }
    }

    fn count(&mut self, cells: &Cells) -> Result<()> {
        let bytes = cells.iter().flatten().map(|cell| cell.len() + 4).sum();
        let counted = self.growing.add(bytes);
        Ok(counted.map_err(tessera_core::Error::from)?)
    }

    fn keep_unsorted(&mut self, keys: Cells, cells: Cells) -> Result<()> {
        let bytes = |cells: &Cells| {
            cells
                .iter()
                .flatten()
                .map(|cell| cell.len() + 24)
                .sum::<usize>()
        };
        let counted = self.growing.add(ROW + bytes(&keys) + bytes(&cells));
        counted.map_err(tessera_core::Error::from)?;
        self.unsorted.push((keys, cells));
        Ok(())
    }

    fn push_cells(&mut self, cells: &[Option<Vec<u8>>]) -> Result<()> {
        match &self.select.selection.json {
            None => self.rows.push(cells.iter().map(Option::as_deref)),
            Some(names) => {
                let borrowed: Vec<Option<Cow<'_, [u8]>>> = cells
                    .iter()
                    .map(|cell| cell.as_deref().map(Cow::Borrowed))
                    .collect();
                let text = json_row(names, &borrowed)?;
                self.rows.push([Some(text.as_bytes())]);
            }
        }
        Ok(())
    }

    /// The rows of the page, and where the next one begins.
    pub(super) fn finish(mut self) -> Result<Rows> {
        let is_aggregate = self.select.is_grouped && self.select.group_by.is_empty();
        if is_aggregate && self.group.is_none() {
            // Aggregates of no rows are a row.
            let nothing = Bytes::new();
            let place = Place {
                partition: &nothing,
                row: &nothing,
            };
            let line = Line {
                values: vec![None; self.select.table().columns.len()],
                ..Line::default()
            };
            self.group = Some(self.new_group(&place, &line, Vec::new())?);
        }
        if !self.is_full {
            self.end_group()?;
            let is_paged = !self.select.group_by.is_empty() && self.select.sort.is_empty();
            self.is_full = is_paged && self.given_rows() >= self.limits.page;
        }
        self.sort()?;
        let given = self.given_rows();
        let remaining = self.limits.rows.saturating_sub(given);
        if self.is_full && remaining > 0 {
            let (partition, row) = self.last.clone().unwrap_or_default();
            let state = PagingState {
                partition,
                row,
                in_partition: self.last_count,
                remaining,
                index: self.index_page.clone(),
            };
            self.rows.metadata.paging_state = Some(state.encode());
        }
        self.rows.granted = self.growing.finish();
        Ok(self.rows)
    }

    fn sort(&mut self) -> Result<()> {
        let mut unsorted = std::mem::take(&mut self.unsorted);
        let columns = &self.select.table().columns;
        let is_nearest = self.nearest.is_some();
        unsorted.sort_by(|(left, _), (right, _)| {
            if is_nearest {
                return left.cmp(right);
            }
            let mut orders = self.select.sort.iter().zip(left.iter().zip(right)).map(
                |((column, is_descending), (left, right))| {
                    let order = match (left, right, columns.get(*column)) {
                        (Some(left), Some(right), Some(column)) => {
                            compare(&column.data_type, left, right)
                        }
                        _ => left.is_some().cmp(&right.is_some()),
                    };
                    if *is_descending {
                        order.reverse()
                    } else {
                        order
                    }
                },
            );
            orders
                .find(|order| order.is_ne())
                .unwrap_or(std::cmp::Ordering::Equal)
        });
        let most = usize::try_from(self.limits.rows).unwrap_or(usize::MAX);
        for (_, cells) in unsorted.into_iter().take(most) {
            self.push_cells(&cells)?;
        }
        Ok(())
    }
}

impl Sink for Collector<'_> {
    fn take(&mut self, place: &Place<'_>, line: &Line<'_>) -> Result<Flow> {
        let select = self.select;
        if !select.route.filters.is_empty() {
            let scope = self.ground.scope(Some(line), &[]);
            if !scope.passes(select.table(), &select.route.filters)? {
                return Ok(Flow::More);
            }
        }
        if select.is_grouped {
            return self.grouped(place, line);
        }
        if self.partition != *place.partition {
            self.partition = place.partition.clone();
            self.in_partition = 0;
        }
        if self.in_partition >= self.limits.per_partition {
            return Ok(Flow::NextPartition);
        }
        self.plain(place, line)
    }
}

fn has_aggregate(item: &Expression) -> bool {
    let mut found = false;
    item.walk(&mut |inner| found |= matches!(inner, Expression::Aggregate(_)));
    found
}

/// A row as an object of JSON.
fn json_row(
    names: &[(String, crate::types::DataType)],
    cells: &[Option<Cow<'_, [u8]>>],
) -> Result<String> {
    let mut entries = Vec::with_capacity(names.len());
    for ((name, data_type), cell) in names.iter().zip(cells) {
        let value = match cell {
            None => "null".to_owned(),
            Some(value) => to_json(data_type, value)?,
        };
        entries.push(format!("{}: {value}", column_json(name)));
    }
    Ok(format!("{{{}}}", entries.join(", ")))
}
