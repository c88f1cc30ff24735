//! The rows whose vectors are most like another one. All that are wanted are compared with it, so
//! that what is found is exact; of those found so far only as many are kept as are asked for.

use super::Context;
use super::collect::Limits;
use super::evaluate::Scope;
use super::line::Line;
use crate::error::{CqlError, Result, refuse};
use crate::plan::{Near, Select};
use crate::types::{DataType, Similarity, is_zero, vector_floats};
use crate::wire::Consistency;

/// So many rows may be asked for.
const MOST: u32 = 1_000;

/// What rows are compared with.
pub(super) struct Nearest<'a> {
    near: &'a Near,
    data_type: &'a DataType,
    to: Vec<f32>,
}

impl<'a> Nearest<'a> {
    /// None if the SELECT does not ask for the nearest.
    pub(super) fn of(select: &'a Select, scope: &Scope<'_>) -> Result<Option<Self>> {
        let Some(near) = &select.near else {
            return Ok(None);
        };
        let Some(column) = select.table().columns.get(near.column) else {
            return Ok(None);
        };
        let scope = Scope { ..*scope };
        scope.must_be_given(&near.to, "value", &column.name)?;
        let to = scope.required(&near.to, &column.name)?;
        let to = vector_floats(&to, &column.data_type)?;
        check_vector(near.similarity, &to)?;
        Ok(Some(Self {
            near,
            data_type: &column.data_type,
            to,
        }))
    }

    /// Where a row comes among the others, the nearest first; none if it has no vector.
    pub(super) fn rank(&self, line: &Line<'_>) -> Result<Option<Vec<u8>>> {
        let vector = line.values.get(self.near.column).and_then(Option::as_deref);
        let Some(vector) = vector else {
            return Ok(None);
        };
        let vector = vector_floats(vector, self.data_type)?;
        let similarity = self.near.similarity.of(&vector, &self.to);
        Ok(similarity.map(|similarity| descending(similarity).to_vec()))
    }
}

/// A number as bytes of which the smallest come first for the largest.
fn descending(number: f32) -> [u8; 4] {
    let bits = number.to_bits();
    let is_negative = bits >> 31 == 1;
    let ascending = if is_negative { !bits } else { bits | 1 << 31 };
    (!ascending).to_be_bytes()
}

/// Refuses vectors that cannot be compared with any other.
pub(super) fn check_vector(similarity: Similarity, vector: &[f32]) -> Result<()> {
    if let Some((place, odd)) = vector.iter().enumerate().find(|(_, it)| !it.is_finite()) {
        return refuse(format!("non-finite value at vector[{place}]={odd}"));
    }
    if similarity == Similarity::Cosine && is_zero(vector) {
        return refuse("Zero vectors cannot be indexed or queried with cosine similarity");
    }
    Ok(())
}

/// How many rows may be given, and what is to be said of it: the nearest come in one page.
pub(super) fn limits(
    select: &Select,
    context: &Context<'_>,
    asked: Limits,
) -> Result<(Limits, Option<String>)> {
    if select.near.is_none() {
        return Ok((asked, None));
    }
    if matches!(
        context.consistency,
        Consistency::Serial | Consistency::LocalSerial
    ) {
        return Err(CqlError::invalid(format!(
            "Top-K queries can only be run with consistency level ONE/LOCAL_ONE. Consistency level \
             {} was used.",
            context.consistency.name()
        )));
    }
    let Limits { rows, page, .. } = asked;
    if rows == u32::MAX {
        return refuse(
            "Top-K queries must have a limit specified and the limit must be less than the query \
             page size",
        );
    }
    if asked.per_partition != u32::MAX {
        return refuse("Top-K queries do not support per-partition limits");
    }
    if rows > MOST {
        return refuse(format!(
            "Use of ANN OF in an ORDER BY clause requires a LIMIT that is not greater than {MOST}. \
             LIMIT was {rows}"
        ));
    }
    let warning = (page < rows).then(|| {
        format!(
            "Top-K queries do not support paging and the page size is set to {page}, which is less \
             than LIMIT {rows}. The page size has been set to {rows} to match the LIMIT."
        )
    });
    let page = u32::MAX;
    Ok((Limits { page, ..asked }, warning))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_comes_first() {
        let numbers = [3.5, 1.0, 0.25, 0.0, -0.5, -2.0];
        let ranks: Vec<[u8; 4]> = numbers.into_iter().map(descending).collect();
        assert!(ranks.is_sorted());
    }
}
