//! IF: what must be true of a row before it changes.

use super::expression::Expression;
use super::restriction::{Choice, receiver};
use super::selection::field_of;
use super::typing::{Planner, Receiver, find_column};
use crate::error::{Result, refuse};
use crate::schema::{Column, ColumnKind, Table};
use crate::statement::{self, Comparator, If, InValues, Place, Term};
use crate::types::{DataType, Native};

/// When a change is made at all.
#[derive(Debug)]
pub(crate) enum Condition {
    Always,
    NotExists,
    Exists,
    All(Vec<ColumnCondition>),
}

/// What must be true of a column or a part of one.
#[derive(Debug)]
pub(crate) struct ColumnCondition {
    /// Its place in the table.
    pub(crate) column: usize,
    pub(crate) part: Option<ConditionPart>,
    pub(crate) test: ConditionTest,
}

#[derive(Debug)]
pub(crate) enum ConditionPart {
    Element(Expression),
    Field(usize),
}

#[derive(Debug)]
pub(crate) enum ConditionTest {
    Compare(Comparator, Expression),
    In(Choice),
    Contains(Expression),
    ContainsKey(Expression),
}

impl Condition {
    pub(crate) fn is_conditional(&self) -> bool {
        !matches!(self, Self::Always)
    }

    /// Whether it looks at columns that are not static.
    pub(super) fn is_of_rows(&self, table: &Table) -> bool {
        match self {
            Self::All(conditions) => conditions.iter().any(|condition| {
                let column = table.columns.get(condition.column);
                column.is_some_and(|column| column.kind != ColumnKind::Static)
            }),
            Self::Always | Self::Exists | Self::NotExists => false,
        }
    }
}

impl Planner<'_> {
    pub(super) fn condition(&mut self, condition: &If) -> Result<Condition> {
        match condition {
            If::Always => return Ok(Condition::Always),
            If::All(_) if self.table.is_counter() => {
                return refuse("Conditions on counters are not supported");
            }
            _ if self.table.is_counter() => {
                return refuse("Conditional updates are not supported on counter tables");
            }
            If::Exists => return Ok(Condition::Exists),
            If::All(_) => {}
        }
        let If::All(conditions) = condition else {
            return Ok(Condition::Always);
        };
        let typed: Result<Vec<ColumnCondition>> = conditions
            .iter()
            .map(|condition| self.column_condition(condition))
            .collect();
        Ok(Condition::All(typed?))
    }

    fn condition_column(&self, name: &str) -> Result<(usize, Column)> {
        let place = find_column(self.table, name)?;
        let Some(column) = self.table.columns.get(place) else {
            return refuse("the column is gone");
        };
        if column.is_key() {
            return refuse(format!(
                "PRIMARY KEY column '{name}' cannot have IF conditions"
            ));
        }
        Ok((place, column.clone()))
    }

    fn column_condition(&mut self, condition: &statement::Condition) -> Result<ColumnCondition> {
        match condition {
            statement::Condition::Compare {
                place,
                comparator,
                value,
            } => {
                let (column, part, receiver) = self.place(place)?;
                check_durations(&receiver.data_type, *comparator)?;
                let value = self.term(value, receiver.as_receiver())?;
                Ok(ColumnCondition {
                    column,
                    part,
                    test: ConditionTest::Compare(*comparator, value),
                })
            }
            statement::Condition::In { place, values } => {
                let (column, part, receiver) = self.place(place)?;
                let choice = match values {
                    InValues::Marker(marker) => {
                        let data_type = &DataType::list(receiver.data_type.freeze()).freeze();
                        let name = &format!("in({})", receiver.name);
                        Choice::List(self.marker(*marker, Receiver { name, data_type }))
                    }
                    InValues::Terms(terms) => {
                        let typed: Result<Vec<Expression>> = terms
                            .iter()
                            .map(|term| self.term(term, receiver.as_receiver()))
                            .collect();
                        Choice::Many(typed?)
                    }
                };
                Ok(ColumnCondition {
                    column,
                    part,
                    test: ConditionTest::In(choice),
                })
            }
            statement::Condition::Contains {
                column,
                is_key,
                value,
            } => self.contains_condition(column, *is_key, value),
        }
    }

    fn contains_condition(
        &mut self,
        name: &str,
        is_key: bool,
        value: &Term,
    ) -> Result<ColumnCondition> {
        let (column, found) = self.condition_column(name)?;
        let value = self.contained(&found, is_key, value)?;
        Ok(ColumnCondition {
            column,
            part: None,
            test: if is_key {
                ConditionTest::ContainsKey(value)
            } else {
                ConditionTest::Contains(value)
            },
        })
    }

    fn place(&mut self, place: &Place) -> Result<(usize, Option<ConditionPart>, OwnReceiver)> {
        match place {
            Place::Column(name) => {
                let (place, column) = self.condition_column(name)?;
                let receiver = receiver(&column);
                Ok((place, None, OwnReceiver::of(receiver)))
            }
            Place::Element(name, key) => {
                let (place, column) = self.condition_column(name)?;
                let int = DataType::Native(Native::Int);
                let (key_name, key_type, value_type) = match &column.data_type {
                    DataType::List { element, .. } => (format!("idx({name})"), &int, element),
                    DataType::Map { key, value, .. } => (format!("key({name})"), &**key, value),
                    other => {
                        return refuse(format!(
                            "Invalid element access syntax for non-collection column {name} \
                             ({other})"
                        ));
                    }
                };
                let key = self.term(
                    key,
                    Receiver {
                        name: &key_name,
                        data_type: key_type,
                    },
                )?;
                let receiver = OwnReceiver {
                    name: format!("value({name})"),
                    data_type: (**value_type).clone(),
                };
                Ok((place, Some(ConditionPart::Element(key)), receiver))
            }
            Place::Field(name, field) => {
                let (place, column) = self.condition_column(name)?;
                let DataType::User { .. } = &column.data_type else {
                    return refuse(format!("Cannot use field access on non-UDT column {name}"));
                };
                let Ok((index, data_type)) = field_of((name, &column.data_type), field) else {
                    return refuse(format!(
                        "UDT column {name} does not have a field named {field}"
                    ));
                };
                let name = format!("{name}.{field}");
                let receiver = OwnReceiver { name, data_type };
                Ok((place, Some(ConditionPart::Field(index)), receiver))
            }
        }
    }
}

/// A receiver that owns its parts.
struct OwnReceiver {
    name: String,
    data_type: DataType,
}

impl OwnReceiver {
    fn of(receiver: Receiver<'_>) -> Self {
        Self {
            name: receiver.name.to_owned(),
            data_type: receiver.data_type.clone(),
        }
    }

    fn as_receiver(&self) -> Receiver<'_> {
        Receiver {
            name: &self.name,
            data_type: &self.data_type,
        }
    }
}

fn check_durations(data_type: &DataType, comparator: Comparator) -> Result<()> {
    let is_slice = !matches!(comparator, Comparator::Equal | Comparator::NotEqual);
    let has_duration = data_type.any(&|inner| *inner == DataType::Native(Native::Duration));
    if !is_slice || !has_duration {
        return Ok(());
    }
    refuse(match data_type {
        DataType::Tuple(_) => "Slice conditions are not supported on tuples containing durations",
        DataType::User { .. } => "Slice conditions are not supported on UDTs containing durations",
        DataType::Native(_) => "Slice conditions are not supported on durations",
        _ => "Slice conditions are not supported on collections containing durations",
    })
}
