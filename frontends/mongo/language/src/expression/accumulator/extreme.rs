//! The least and greatest values, and the first and last by an order.

use std::collections::BTreeMap;

use bson::spec::BinarySubtype;
use bson::{Binary, Bson};
use tessera_core::deadline;

use super::{Accumulate, Accumulator, Kind, MAX_BYTES};
use crate::collation::Collation;
use crate::error::Result;
use crate::expression::order::Order;
use crate::expression::{Expression, ParseContext, fail, is_nullish};
use crate::number::Number;
use crate::size::footprint;
use crate::{compare, key};

/// The least or the greatest value; null if there is none but null.
#[derive(Debug)]
pub(super) struct Extreme {
    greatest: bool,
    collation: Collation,
    value: Option<Bson>,
}

impl Extreme {
    pub(super) fn new(greatest: bool, collation: Collation) -> Self {
        Self {
            greatest,
            collation,
            value: None,
        }
    }
}

impl Accumulate for Extreme {
    fn add(&mut self, value: Option<Bson>) -> Result<()> {
        let Some(value) = value.filter(|value| !is_nullish(Some(value))) else {
            return Ok(());
        };
        let better = self.value.as_ref().is_none_or(|best| {
            let order = compare::compare(&value, best, &self.collation);
            if self.greatest {
                order.is_gt()
            } else {
                order.is_lt()
            }
        });
        if better {
            self.value = Some(value);
        }
        Ok(())
    }

    fn value(&self) -> Bson {
        self.value.clone().unwrap_or(Bson::Null)
    }

    fn size(&self) -> usize {
        64 + self.value.as_ref().map_or(0, footprint)
    }
}

/// Values by their keys, of which only so many of the first are kept.
#[derive(Debug)]
struct Kept {
    count: usize,
    /// By key, and of equal keys by when they came.
    entries: BTreeMap<(Vec<u8>, usize), Bson>,
    came: usize,
    size: usize,
}

impl Kept {
    fn new(count: usize) -> Self {
        Self {
            count,
            entries: BTreeMap::new(),
            came: 0,
            size: 64,
        }
    }

    /// Of equal keys, what came earlier stays before what comes later.
    fn insert(&mut self, key: Vec<u8>, value: Bson) -> Result<()> {
        deadline::step(2)?;
        if self.entries.len() >= self.count {
            let last = self.entries.last_key_value();
            if last.is_none_or(|((last, _), _)| *last <= key) {
                return Ok(());
            }
            if let Some(((key, _), value)) = self.entries.pop_last() {
                self.size -= key.len() + footprint(&value) + 48;
            }
        }
        self.size += key.len() + footprint(&value) + 48;
        if self.size > MAX_BYTES {
            return fail(146, "an accumulator of several values used too much memory");
        }
        self.came += 1;
        self.entries.insert((key, self.came), value);
        Ok(())
    }

    fn values(&self) -> impl DoubleEndedIterator<Item = Bson> {
        self.entries.values().cloned()
    }
}

fn inverted(mut key: Vec<u8>) -> Vec<u8> {
    tessera_core::encoding::invert(&mut key);
    key
}

/// The so many least or greatest values.
#[derive(Debug)]
pub(super) struct Extremes {
    greatest: bool,
    collation: Collation,
    kept: Kept,
}

impl Extremes {
    pub(super) fn new(greatest: bool, count: usize, collation: Collation) -> Self {
        Self {
            greatest,
            collation,
            kept: Kept::new(count),
        }
    }
}

impl Accumulate for Extremes {
    fn add(&mut self, value: Option<Bson>) -> Result<()> {
        let Some(value) = value.filter(|value| !is_nullish(Some(value))) else {
            return Ok(());
        };
        let key = key::encode(&value, &self.collation);
        self.kept
            .insert(if self.greatest { inverted(key) } else { key }, value)
    }

    fn value(&self) -> Bson {
        Bson::Array(self.kept.values().collect())
    }

    fn size(&self) -> usize {
        self.kept.size
    }
}

/// What is first, or last, by an order of the documents.
#[derive(Debug)]
pub(super) struct Best {
    last: bool,
    several: bool,
    kept: Kept,
}

impl Best {
    pub(super) fn new(last: bool, several: bool, count: usize) -> Self {
        Self {
            last,
            several,
            kept: Kept::new(count),
        }
    }

    /// The key of a document and its value, as one value.
    pub(super) fn entry(key: Vec<u8>, value: Option<Bson>) -> Bson {
        let key = Binary {
            subtype: BinarySubtype::Generic,
            bytes: key,
        };
        Bson::Array(vec![Bson::Binary(key), value.unwrap_or(Bson::Null)])
    }
}

impl Accumulate for Best {
    fn add(&mut self, value: Option<Bson>) -> Result<()> {
        let Some(Bson::Array(entry)) = value else {
            return Ok(());
        };
        let mut entry = entry.into_iter();
        if let (Some(Bson::Binary(key)), Some(value)) = (entry.next(), entry.next()) {
            // From the end, the order is the reverse one.
            let key = if self.last {
                inverted(key.bytes)
            } else {
                key.bytes
            };
            self.kept.insert(key, value)?;
        }
        Ok(())
    }

    fn value(&self) -> Bson {
        if !self.several {
            return self.kept.values().next().unwrap_or(Bson::Null);
        }
        let values = self.kept.values();
        Bson::Array(if self.last {
            values.rev().collect()
        } else {
            values.collect()
        })
    }

    fn size(&self) -> usize {
        self.kept.size
    }
}

/// An object of `output`, `sortBy` and, if several are asked for, `n`.
pub(super) fn parse_best(
    argument: &Bson,
    context: &ParseContext<'_>,
    last: bool,
    several: bool,
) -> Result<Accumulator> {
    let Bson::Document(fields) = argument else {
        return fail(5788001, "specification must be an object");
    };
    let known = |name: &str| matches!(name, "output" | "sortBy") || several && name == "n";
    if let Some(name) = fields.keys().find(|name| !known(name)) {
        return fail(5788002, format!("Unknown argument '{name}'"));
    }
    let count = match fields.get("n") {
        Some(count) => Some(Expression::parse(count, context)?),
        None if several => return fail(5788003, "Missing value for 'n'"),
        None => None,
    };
    let Some(output) = fields.get("output") else {
        return fail(5788004, "Missing value for 'output'");
    };
    let order = match fields.get("sortBy") {
        Some(Bson::Document(order)) => parse_order(order)?,
        Some(_) => return fail(10065, "invalid parameter: expected an object (sortBy)"),
        None => return fail(5788005, "Missing value for 'sortBy'"),
    };
    Ok(Accumulator {
        kind: Kind::Best {
            order,
            last,
            several,
        },
        argument: Expression::parse(output, context)?,
        count,
        collation: context.collation().clone(),
    })
}

/// Fields with 1 or -1.
pub(crate) fn parse_order(order: &bson::Document) -> Result<Order> {
    let mut fields = Vec::with_capacity(order.len());
    for (path, direction) in order {
        let direction = match Number::from_bson(direction) {
            Some(direction) => direction.as_i64_exact(),
            None => return fail(15974, "Illegal key in $sort specification"),
        };
        match direction {
            Some(1) => fields.push((path.as_str(), false)),
            Some(-1) => fields.push((path.as_str(), true)),
            _ => return fail(15975, "$sort key ordering must be 1 (for ascending) or -1"),
        }
    }
    if fields.is_empty() {
        return fail(15976, "$sort stage must have at least one sort key");
    }
    Ok(Order::new(fields))
}
