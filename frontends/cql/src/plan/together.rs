//! Relations on several clustering columns together: `(a, b) > (1, 2)`.

use super::expression::Expression;
use super::restriction::{Bound, ClusteringStep, ClusteringTest, Tuple, receiver};
use super::typing::{Planner, Receiver};
use crate::error::{Result, refuse};
use crate::schema::Column;
use crate::statement::{Comparator, InValues, Term, quoted};
use crate::types::DataType;

impl Planner<'_> {
    /// The first clustering column of a relation on several, and their number and types.
    fn together(&self, columns: &[String], relation: &str) -> Result<(usize, Vec<Column>)> {
        let clustering: Vec<&Column> = self.table.clustering().collect();
        let mut found: Vec<Column> = Vec::with_capacity(columns.len());
        let mut start = None;
        for name in columns {
            let (_, column) = self.column(name)?;
            let Some(place) = clustering.iter().position(|known| known.name == *name) else {
                return refuse(format!(
                    "Multi-column relations can only be applied to clustering columns but was \
                     applied to: {}",
                    quoted(name)
                ));
            };
            if found.iter().any(|other| other.name == *name) {
                return refuse(format!(
                    "Column \"{name}\" appeared twice in a relation: {relation}"
                ));
            }
            let expected = start.map_or(place, |start: usize| start + found.len());
            if place != expected {
                return refuse(format!(
                    "Clustering columns must appear in the PRIMARY KEY order in multi-column \
                     relations: {relation}"
                ));
            }
            start.get_or_insert(place);
            found.push(column);
        }
        Ok((start.unwrap_or(0), found))
    }

    pub(super) fn compare_tuple(
        &mut self,
        columns: &[String],
        comparator: Comparator,
        value: &Term,
    ) -> Result<ClusteringStep> {
        let names = columns.join(", ");
        let relation = format!("({names}) {} {value}", comparator.symbol());
        if comparator == Comparator::NotEqual {
            return refuse(format!("Unsupported \"!=\" relation: {relation}"));
        }
        let (start, found) = self.together(columns, &relation)?;
        let values = self.tuple_values(value, &found, false)?;
        let bound = |is_inclusive| {
            Some(Bound {
                values: values.clone(),
                is_inclusive,
            })
        };
        let test = match comparator {
            Comparator::Equal | Comparator::NotEqual => ClusteringTest::EqualTuple(values),
            Comparator::Greater | Comparator::GreaterOrEqual => ClusteringTest::Slice {
                lower: bound(comparator == Comparator::GreaterOrEqual),
                upper: None,
            },
            Comparator::Less | Comparator::LessOrEqual => ClusteringTest::Slice {
                lower: None,
                upper: bound(comparator == Comparator::LessOrEqual),
            },
        };
        Ok(ClusteringStep {
            start,
            count: found.len(),
            test,
        })
    }

    pub(super) fn in_tuples(
        &mut self,
        columns: &[String],
        values: &InValues,
    ) -> Result<ClusteringStep> {
        let names = columns.join(", ");
        let (start, found) = self.together(columns, &format!("({names}) IN"))?;
        let test = match values {
            InValues::Marker(marker) => {
                let tuple = tuple_type(&found);
                let data_type = &DataType::list(tuple.clone()).freeze();
                let name = &format!("in({})", columns.join(","));
                let list = self.marker(*marker, Receiver { name, data_type });
                ClusteringTest::InTupleList(list, tuple)
            }
            InValues::Terms(terms) => {
                let tuples: Result<Vec<Tuple>> = terms
                    .iter()
                    .map(|term| self.tuple_values(term, &found, true))
                    .collect();
                match <[Tuple; 1]>::try_from(tuples?) {
                    Ok([only]) => ClusteringTest::EqualTuple(only),
                    Err(tuples) => ClusteringTest::InTuples(tuples),
                }
            }
        };
        Ok(ClusteringStep {
            start,
            count: found.len(),
            test,
        })
    }

    /// The values of a tuple for these columns, by itself or in a list of them.
    fn tuple_values(&mut self, value: &Term, columns: &[Column], is_listed: bool) -> Result<Tuple> {
        match value {
            Term::Tuple(terms) => {
                if terms.len() != columns.len() {
                    // Too many values of an IN cannot be those of its list.
                    if is_listed && terms.len() > columns.len() {
                        return refuse(format!(
                            "Invalid list literal for in({}): value {value} is not of type {}",
                            names(columns).join(","),
                            tuple_type(columns).freeze()
                        ));
                    }
                    return refuse(format!(
                        "Expected {} elements in value tuple, but got {}: {value}",
                        columns.len(),
                        terms.len()
                    ));
                }
                let each: Result<Vec<Expression>> = terms
                    .iter()
                    .zip(columns)
                    .map(|(term, column)| self.term(term, receiver(column)))
                    .collect();
                Ok(Tuple::Each(each?))
            }
            Term::Marker(marker) => {
                let data_type = tuple_type(columns);
                let name = &format!("({})", names(columns).join(","));
                let receiver = Receiver {
                    name,
                    data_type: &data_type,
                };
                Ok(Tuple::Whole(self.marker(*marker, receiver), data_type))
            }
            // Parentheses around one term are not a tuple to the parser.
            other => match columns {
                [column] => Ok(Tuple::Each(vec![self.term(other, receiver(column))?])),
                _ => refuse(format!(
                    "Invalid tuple literal for ({}): it is not a tuple: {other}",
                    columns.len()
                )),
            },
        }
    }
}

fn names(columns: &[Column]) -> Vec<&str> {
    columns.iter().map(|column| column.name.as_str()).collect()
}

fn tuple_type(columns: &[Column]) -> DataType {
    DataType::Tuple(
        columns
            .iter()
            .map(|column| column.data_type.clone())
            .collect(),
    )
}
