//! Rows that are put together: `GROUP BY`, and aggregates of all rows.

use std::borrow::Cow;

use bytes::Bytes;

use super::super::line::Line;
use super::super::reader::{Flow, Place};
use super::{Cells, Collector, has_aggregate};
use crate::error::Result;
use crate::functions::Accumulator;

/// Rows that are put together.
pub(super) struct Group {
    partition: Bytes,
    key: Cells,
    /// The values of the first row.
    first: Cells,
    /// What the selection gives of the first row, where it needs no aggregate.
    items: Cells,
    states: Vec<Accumulator>,
}

impl Collector<'_> {
    pub(super) fn grouped(&mut self, place: &Place<'_>, line: &Line<'_>) -> Result<Flow> {
        let key: Cells = {
            let scope = self.ground.scope(Some(line), &[]);
            let values: Result<Vec<Option<Cow<'_, [u8]>>>> = self
                .select
                .group_by
                .iter()
                .map(|group| scope.evaluate(&group.expression))
                .collect();
            values?
                .into_iter()
                .map(|value| value.map(Cow::into_owned))
                .collect()
        };
        let is_new = match &self.group {
            None => true,
            Some(group) => {
                !self.select.group_by.is_empty()
                    && (group.partition != place.partition || group.key != key)
            }
        };
        if is_new {
            let is_same_partition = self
                .group
                .as_ref()
                .is_some_and(|group| group.partition == place.partition);
            self.end_group()?;
            if !is_same_partition && self.partition != *place.partition {
                self.in_partition = 0;
            }
            let is_sorted = !self.select.sort.is_empty();
            if !is_sorted && self.has_enough() && !self.select.group_by.is_empty() {
                self.is_full = true;
                return Ok(Flow::Stop);
            }
            if self.in_partition >= self.limits.per_partition {
                return Ok(Flow::NextPartition);
            }
            self.group = Some(self.new_group(place, line, key)?);
        }
        let select = self.select;
        if let Some(mut group) = self.group.take() {
            for ((aggregate, of), state) in select.aggregates.iter().zip(&mut group.states) {
                match of {
                    None => aggregate.add(state, Some(&[]))?,
                    Some(of) => {
                        let scope = self.ground.scope(Some(line), &[]);
                        aggregate.add(state, scope.evaluate(of)?.as_deref())?;
                    }
                }
            }
            self.group = Some(group);
        }
        self.partition = place.partition.clone();
        self.last = Some((place.partition.clone(), place.row.clone()));
        Ok(if select.is_distinct {
            Flow::NextPartition
        } else {
            Flow::More
        })
    }

    pub(super) fn new_group(
        &self,
        place: &Place<'_>,
        line: &Line<'_>,
        key: Cells,
    ) -> Result<Group> {
        let scope = self.ground.scope(Some(line), &[]);
        let mut items = Vec::with_capacity(self.select.selection.items.len());
        for item in &self.select.selection.items {
            let value = if has_aggregate(item) {
                None
            } else {
                scope.evaluate(item)?.map(Cow::into_owned)
            };
            items.push(value);
        }
        let owned = |value: &Option<Cow<'_, [u8]>>| value.as_deref().map(<[u8]>::to_vec);
        Ok(Group {
            partition: place.partition.clone(),
            key,
            first: line.values.iter().map(owned).collect(),
            items,
            states: vec![Accumulator::default(); self.select.aggregates.len()],
        })
    }

    /// Writes down the group that is open.
    pub(super) fn end_group(&mut self) -> Result<()> {
        let Some(group) = self.group.take() else {
            return Ok(());
        };
        let select = self.select;
        let results: Result<Cells> = select
            .aggregates
            .iter()
            .zip(&group.states)
            .map(|((aggregate, _), state)| aggregate.finish(state))
            .collect();
        let results = results?;
        let line = Line {
            values: group
                .first
                .iter()
                .map(|value| value.as_deref().map(Cow::Borrowed))
                .collect(),
            ..Line::default()
        };
        let mut cells: Vec<Option<Vec<u8>>> = Vec::with_capacity(group.items.len());
        for (item, value) in select.selection.items.iter().zip(&group.items) {
            cells.push(if has_aggregate(item) {
                let scope = self.ground.scope(Some(&line), &results);
                scope.evaluate(item)?.map(Cow::into_owned)
            } else {
                value.clone()
            });
        }
        if select.sort.is_empty() {
            self.count(&cells)?;
            self.push_cells(&cells)?;
        } else {
            let key = |(column, _): &(usize, bool)| group.first.get(*column).cloned().flatten();
            let keys = select.sort.iter().map(key).collect();
            self.keep_unsorted(keys, cells)?;
        }
        self.in_partition += 1;
        self.last_count = self.in_partition;
        Ok(())
    }
}
