//! IF: whether a row is what a statement expects.

use super::evaluate::{Evaluated, Scope};
use super::filter::{contains, entry, is_so};
use super::line::Line;
use super::write::Write;
use crate::error::{CqlError, Result};
use crate::plan::{Choice, ColumnCondition, ConditionPart, ConditionTest, Expression};
use crate::schema::Column;
use crate::statement::Comparator;
use crate::types::{DataType, Native, compare, list_elements, tuple_components};

/// Whether a row meets all conditions of a statement.
pub(super) fn met(
    write: &Write,
    conditions: &[ColumnCondition],
    line: Option<&Line<'_>>,
) -> Result<bool> {
    let table = write.plan.table();
    let scope = Scope {
        table,
        given: &write.given,
        clock: &write.clock,
        now: write.stamp.now,
        line: None,
        aggregates: &[],
    };
    for condition in conditions {
        let Some(column) = table.columns.get(condition.column) else {
            return Ok(false);
        };
        let value = line.and_then(|line| line.values.get(condition.column)?.as_deref());
        if !scope.meets(column, condition, value)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn no_null(comparator: &str) -> CqlError {
    CqlError::invalid(format!(
        "Invalid comparison with null for operator \"{comparator}\""
    ))
}

impl<'a> Scope<'a> {
    fn meets(
        &self,
        column: &Column,
        condition: &'a ColumnCondition,
        value: Option<&[u8]>,
    ) -> Result<bool> {
        let (data_type, part) = self.part(column, condition, value)?;
        let value = part.as_deref();
        match &condition.test {
            ConditionTest::Compare(comparator, wanted) => {
                if self.is_unset(wanted) {
                    return Err(CqlError::invalid("Invalid 'unset' value in condition"));
                }
                let wanted = self.evaluate(wanted)?;
                // A collection of cells that is empty is null.
                let wanted =
                    wanted.filter(|wanted| !is_empty_collection(&data_type, wanted, column));
                compared(&data_type, *comparator, value, wanted.as_deref())
            }
            ConditionTest::In(choice) => {
                let wanted = self.wanted(choice)?;
                Ok(wanted.iter().any(|wanted| match (value, wanted) {
                    (Some(value), Some(wanted)) => compare(&data_type, value, wanted).is_eq(),
                    (None, None) => true,
                    _ => false,
                }))
            }
            ConditionTest::Contains(wanted) => match (value, self.evaluate(wanted)?) {
                (_, None) => Err(no_null("CONTAINS")),
                (None, _) => Ok(false),
                (Some(value), Some(wanted)) => contains(&data_type, value, &wanted),
            },
            ConditionTest::ContainsKey(wanted) => match (value, self.evaluate(wanted)?) {
                (_, None) => Err(no_null("CONTAINS KEY")),
                (None, _) => Ok(false),
                (Some(value), Some(wanted)) => Ok(entry(&data_type, value, &wanted)?.is_some()),
            },
        }
    }

    /// The column or the part of it that a condition is about.
    fn part(
        &self,
        column: &Column,
        condition: &'a ColumnCondition,
        value: Option<&[u8]>,
    ) -> Result<(DataType, Option<Vec<u8>>)> {
        let data_type = &column.data_type;
        match &condition.part {
            None => Ok((data_type.clone(), value.map(<[u8]>::to_vec))),
            Some(ConditionPart::Field(place)) => {
                let inner = data_type
                    .inner()
                    .get(*place)
                    .map_or_else(|| DataType::Native(Native::Blob), |inner| (*inner).clone());
                let field = match value {
                    Some(value) => {
                        let fields = tuple_components(value, data_type)?;
                        fields.get(*place).copied().flatten().map(<[u8]>::to_vec)
                    }
                    None => None,
                };
                Ok((inner, field))
            }
            Some(ConditionPart::Element(key)) => {
                let what = match data_type {
                    DataType::List { .. } => "list",
                    _ => "map",
                };
                let key = self.evaluate(key)?.ok_or_else(|| {
                    CqlError::invalid(format!("Invalid null value for {what} element access"))
                })?;
                self.element_part(data_type, &key, value)
            }
        }
    }

    fn element_part(
        &self,
        data_type: &DataType,
        key: &[u8],
        value: Option<&[u8]>,
    ) -> Result<(DataType, Option<Vec<u8>>)> {
        match data_type {
            DataType::List { element, .. } => {
                let index = key.try_into().map_or(-1, i32::from_be_bytes);
                let Ok(index) = usize::try_from(index) else {
                    return Err(CqlError::invalid(format!(
                        "Invalid negative list index {index}"
                    )));
                };
                let found = match value {
                    Some(value) => {
                        let elements = list_elements(value, "list")?;
                        elements.get(index).map(|element| element.to_vec())
                    }
                    None => None,
                };
                Ok(((**element).clone(), found))
            }
            DataType::Map { value: inner, .. } => {
                let found = match value {
                    Some(value) => entry(data_type, value, key)?.map(<[u8]>::to_vec),
                    None => None,
                };
                Ok(((**inner).clone(), found))
            }
            other => Ok((other.clone(), None)),
        }
    }

    /// The values of IN, of which some may be null.
    fn wanted(&self, choice: &'a Choice) -> Result<Vec<Evaluated<'a>>> {
        let one = |expression: &'a Expression| {
            if self.is_unset(expression) {
                return Err(CqlError::invalid("Invalid 'unset' value in condition"));
            }
            self.evaluate(expression)
        };
        match choice {
            Choice::One(expression) => Ok(vec![one(expression)?]),
            // What is not given is none of them.
            Choice::Many(expressions) => {
                let given = expressions.iter().filter(|it| !self.is_unset(it));
                given.map(one).collect()
            }
            Choice::List(list) => {
                let list = one(list)?
                    .ok_or_else(|| CqlError::invalid("Invalid null list in IN condition"))?;
                let elements = list_elements(&list, "list")?.into_iter();
                Ok(elements
                    .map(|element| Some(std::borrow::Cow::Owned(element.to_vec())))
                    .collect())
            }
        }
    }
}

fn is_empty_collection(data_type: &DataType, value: &[u8], column: &Column) -> bool {
    data_type.is_collection() && column.data_type.is_multi_cell() && value == [0, 0, 0, 0]
}

fn compared(
    data_type: &DataType,
    comparator: Comparator,
    value: Option<&[u8]>,
    wanted: Option<&[u8]>,
) -> Result<bool> {
    match (value, wanted) {
        (Some(value), Some(wanted)) => Ok(is_so(comparator, compare(data_type, value, wanted))),
        (value, None) => match comparator {
            Comparator::Equal => Ok(value.is_none()),
            Comparator::NotEqual => Ok(value.is_some()),
            other => Err(no_null(other.symbol())),
        },
        (None, Some(_)) => Ok(comparator == Comparator::NotEqual),
    }
}
