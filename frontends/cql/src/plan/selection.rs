//! What a SELECT gives of each row: columns, their parts, and what is computed of them.

use std::sync::Arc;

use super::expression::{Expression, Part, Typed};
use super::typing::{Planner, Receiver, cannot_infer, find_column};
use crate::error::{CqlError, Result};
use crate::functions::Aggregate;
use crate::schema::Table;
use crate::statement::{self, ColumnTime, Selector, quoted};
use crate::types::{DataType, Native};
use crate::wire::ColumnSpec;

/// What each row of the result is made of.
#[derive(Debug)]
pub(crate) struct Selection {
    pub(crate) items: Vec<Expression>,
    /// The names and types of the items, if one text of JSON is made of them.
    pub(crate) json: Option<Vec<(String, DataType)>>,
    pub(crate) columns: Arc<[ColumnSpec]>,
}

impl Planner<'_> {
    pub(super) fn selection(
        &mut self,
        selection: &statement::Selection,
        is_json: bool,
    ) -> Result<Selection> {
        self.has_rows = true;
        let selected = self.selected(selection);
        self.has_rows = false;
        let (items, columns) = selected?;
        if !is_json {
            return Ok(Selection {
                items,
                json: None,
                columns: columns.into(),
            });
        }
        let names = columns
            .into_iter()
            .map(|column| (column.name, column.data_type))
            .collect();
        Ok(Selection {
            items,
            json: Some(names),
            columns: [self.spec("[json]", Native::Text)].into(),
        })
    }

    pub(super) fn spec(&self, name: &str, data_type: impl Into<DataType>) -> ColumnSpec {
        ColumnSpec {
            keyspace: self.table.keyspace.clone(),
            table: self.table.name.clone(),
            name: name.to_owned(),
            data_type: data_type.into(),
        }
    }

    fn selected(
        &mut self,
        selection: &statement::Selection,
    ) -> Result<(Vec<Expression>, Vec<ColumnSpec>)> {
        let selectors = match selection {
            statement::Selection::All => {
                let table = self.table;
                let specs = table
                    .columns
                    .iter()
                    .map(|column| self.spec(&column.name, column.data_type.clone()));
                let items = (0..table.columns.len()).map(Expression::Column);
                return Ok((items.collect(), specs.collect()));
            }
            statement::Selection::Some(selectors) => selectors,
        };
        let mut items = Vec::with_capacity(selectors.len());
        let mut specs = Vec::with_capacity(selectors.len());
        for (selector, alias) in selectors {
            if !has_own_type(selector) {
                return cannot_infer(selector);
            }
            let typed = self.typed(selector, None)?;
            let name = alias.clone();
            let name = name.unwrap_or_else(|| computed(selector, &typed.expression).to_string());
            specs.push(self.spec(&name, typed.data_type));
            items.push(typed.expression);
        }
        Ok((items, specs))
    }

    /// What only rows have.
    pub(super) fn of_row(&mut self, what: &Selector) -> Result<Typed> {
        if !self.has_rows {
            return Err(CqlError::invalid(format!("{what} cannot be used here")));
        }
        match what {
            Selector::Column(name) => {
                let place = find_column(self.table, name)?;
                Ok(Typed::new(Expression::Column(place), self.type_at(place)))
            }
            Selector::CountRows => Ok(self.add_aggregate(Aggregate::count_rows(), None)),
            Selector::ColumnTime { what, of } => self.column_time(*what, of),
            Selector::Field(of, name) => {
                let typed = self.typed(of, None)?;
                let (place, data_type) = field_of((&of.to_string(), &typed.data_type), name)?;
                Ok(Typed::new(
                    Expression::Field(Box::new(typed), place),
                    data_type,
                ))
            }
            Selector::Element(of, key) => {
                let of_text = of.to_string();
                let of = self.typed(of, None)?;
                let (key_type, value_type) = element_types("Element", &of.data_type, &of_text)?;
                let name = &format!("key({of_text})");
                let data_type = &key_type;
                let key = self.term(key, Receiver { name, data_type })?;
                Ok(Typed::new(
                    Expression::Element(Box::new(of), Box::new(key)),
                    value_type,
                ))
            }
            Selector::Slice(of, from, to) => {
                let of_text = of.to_string();
                let of = self.typed(of, None)?;
                let (key_type, _) = element_types("Slice", &of.data_type, &of_text)?;
                let name = &format!("key({of_text})");
                let data_type = &key_type;
                let mut bound = |term: &Option<statement::Term>| {
                    let term = term.as_ref();
                    term.map(|term| self.term(term, Receiver { name, data_type }).map(Box::new))
                        .transpose()
                };
                let (from, to) = (bound(from)?, bound(to)?);
                let data_type = of.data_type.clone();
                Ok(Typed::new(
                    Expression::Slice(Box::new(of), from, to),
                    data_type,
                ))
            }
            other => self.typed(other, None),
        }
    }

    fn type_at(&self, place: usize) -> DataType {
        let column = self.table.columns.get(place);
        column.map_or_else(|| Native::Blob.into(), |column| column.data_type.clone())
    }

    fn column_time(&mut self, what: ColumnTime, of: &Selector) -> Result<Typed> {
        let (name, inner) = match of {
            Selector::Column(name) => (name, None),
            Selector::Field(inner, _)
            | Selector::Element(inner, _)
            | Selector::Slice(inner, _, _) => match &**inner {
                Selector::Column(name) => (name, Some(of)),
                _ => return Err(CqlError::invalid("only parts of columns have a time")),
            },
            _ => return Err(CqlError::invalid("only columns have a time")),
        };
        let place = find_column(self.table, name)?;
        let function = match what {
            ColumnTime::WriteTime => "writetime",
            ColumnTime::MaxWriteTime => "maxwritetime",
            ColumnTime::TimeToLive => "ttl",
        };
        let table = self.table;
        let column = table.columns.get(place);
        if column.is_some_and(|column| column.is_key()) {
            return Err(CqlError::invalid(format!(
                "Cannot use selection function {function} on PRIMARY KEY part {}",
                quoted(name)
            )));
        }
        let data_type = self.type_at(place);
        let native = match what {
            ColumnTime::TimeToLive => Native::Int,
            _ => Native::Bigint,
        };
        let is_many = data_type.is_multi_cell() && what != ColumnTime::MaxWriteTime;
        let is_slice = matches!(inner, None | Some(Selector::Slice(..)));
        let result = if is_many && is_slice {
            DataType::list(native)
        } else {
            native.into()
        };
        let part = match inner {
            None => None,
            Some(Selector::Field(_, field)) => {
                Some(Part::Field(field_of((name, &data_type), field)?.0))
            }
            Some(part) => match self.of_row(part)?.expression {
                Expression::Element(_, key) => Some(Part::Element(*key)),
                Expression::Slice(_, from, to) => {
                    Some(Part::Slice(from.map(|from| *from), to.map(|to| *to)))
                }
                _ => None,
            },
        };
        let expression = Expression::ColumnTime {
            what,
            column: place,
            part: part.map(Box::new),
        };
        Ok(Typed::new(expression, result))
    }
}

/// The place and the type of a field.
pub(super) fn field_of(
    (of, data_type): (&str, &DataType),
    name: &str,
) -> Result<(usize, DataType)> {
    let DataType::User { definition, .. } = data_type else {
        return Err(CqlError::invalid(format!(
            "Invalid field selection: {of} of type {data_type} is not a user type"
        )));
    };
    let fields = definition.fields.iter().enumerate();
    let mut found = fields.filter(|(_, (field, _))| field == name);
    match found.next() {
        Some((place, (_, data_type))) => Ok((place, data_type.clone())),
        None => Err(CqlError::invalid(format!(
            "{of} of type {data_type} has no field {name}"
        ))),
    }
}

/// The types of the keys and of the elements of a map or a set.
fn element_types(what: &str, data_type: &DataType, name: &str) -> Result<(DataType, DataType)> {
    match data_type {
        DataType::Map { key, value, .. } => Ok(((**key).clone(), (**value).clone())),
        DataType::Set { element, .. } => Ok(((**element).clone(), (**element).clone())),
        DataType::List { .. } => Err(CqlError::invalid(format!(
            "{what} selection is only allowed on sets and maps, but {name} is a list"
        ))),
        _ => Err(CqlError::invalid(format!(
            "Invalid element selection: {name} is of type {data_type} is not a collection"
        ))),
    }
}

/// Whether what is selected tells its type: constants fit many, and so does what is made of them.
fn has_own_type(selector: &Selector) -> bool {
    let any = |inner: &[Selector]| inner.iter().any(has_own_type);
    match selector {
        Selector::Constant(_) => false,
        Selector::List(inner) | Selector::Set(inner) => any(inner),
        Selector::Tuple(inner) => inner.iter().all(has_own_type),
        Selector::MapOrUserType(entries) => {
            entries.iter().any(|(key, _)| has_own_type(key))
                && entries.iter().any(|(_, value)| has_own_type(value))
        }
        _ => true,
    }
}

/// What is computed for a selector: a cast to the type that a value has is only that value.
fn computed<'s>(selector: &'s Selector, expression: &Expression) -> &'s Selector {
    match (selector, expression) {
        (Selector::Cast(..), Expression::Cast(..)) => selector,
        (Selector::Cast(inner, _), _) => computed(inner, expression),
        _ => selector,
    }
}

/// Which columns of a table expressions look at.
pub(super) fn columns_of(table: &Table, expressions: &[&Expression]) -> Vec<bool> {
    let mut needed = vec![false; table.columns.len()];
    for expression in expressions {
        expression.walk(&mut |inner| {
            if let Expression::Column(place) | Expression::ColumnTime { column: place, .. } = inner
                && let Some(needed) = needed.get_mut(*place)
            {
                *needed = true;
            }
        });
    }
    needed
}
