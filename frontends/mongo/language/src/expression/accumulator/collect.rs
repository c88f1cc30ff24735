//! Accumulators that keep values as they are.

use std::collections::{HashSet, VecDeque};

use bson::{Bson, Document};

use super::{Accumulate, MAX_BYTES};
use crate::collation::Collation;
use crate::compare::type_name;
use crate::error::Result;
use crate::expression::fail;
use crate::key;
use crate::size::footprint;

fn grow(size: &mut usize, value: &Bson, name: &str) -> Result<()> {
    *size += footprint(value);
    if *size > MAX_BYTES {
        return fail(
            146,
            format!("{name} used too much memory and cannot spill to disk"),
        );
    }
    Ok(())
}

/// The first value; null if it is missing.
#[derive(Debug, Default)]
pub(super) struct First {
    value: Option<Bson>,
}

impl Accumulate for First {
    fn add(&mut self, value: Option<Bson>) -> Result<()> {
        if self.value.is_none() {
            self.value = Some(value.unwrap_or(Bson::Null));
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

/// The last value; null if it is missing.
#[derive(Debug, Default)]
pub(super) struct Last {
    value: Option<Bson>,
}

impl Accumulate for Last {
    fn add(&mut self, value: Option<Bson>) -> Result<()> {
        self.value = value;
        Ok(())
    }

    fn value(&self) -> Bson {
        self.value.clone().unwrap_or(Bson::Null)
    }

    fn size(&self) -> usize {
        64 + self.value.as_ref().map_or(0, footprint)
    }
}

/// The first so many values.
#[derive(Debug)]
pub(super) struct FirstSome {
    count: usize,
    values: Vec<Bson>,
    size: usize,
}

impl FirstSome {
    pub(super) fn new(count: usize) -> Self {
        Self {
            count,
            values: Vec::new(),
            size: 64,
        }
    }
}

impl Accumulate for FirstSome {
    fn add(&mut self, value: Option<Bson>) -> Result<()> {
        if self.values.len() < self.count {
            let value = value.unwrap_or(Bson::Null);
            grow(&mut self.size, &value, "$firstN")?;
            self.values.push(value);
        }
        Ok(())
    }

    fn value(&self) -> Bson {
        Bson::Array(self.values.clone())
    }

    fn size(&self) -> usize {
        self.size
    }
}

/// The last so many values.
#[derive(Debug)]
pub(super) struct LastSome {
    count: usize,
    values: VecDeque<Bson>,
    size: usize,
}

impl LastSome {
    pub(super) fn new(count: usize) -> Self {
        Self {
            count,
            values: VecDeque::new(),
            size: 64,
        }
    }
}

impl Accumulate for LastSome {
    fn add(&mut self, value: Option<Bson>) -> Result<()> {
        let value = value.unwrap_or(Bson::Null);
        if self.values.len() == self.count
            && let Some(dropped) = self.values.pop_front()
        {
            self.size -= footprint(&dropped);
        }
        grow(&mut self.size, &value, "$lastN")?;
        self.values.push_back(value);
        Ok(())
    }

    fn value(&self) -> Bson {
        Bson::Array(self.values.iter().cloned().collect())
    }

    fn size(&self) -> usize {
        self.size
    }
}

/// All values that are there.
#[derive(Debug, Default)]
pub(super) struct Push {
    values: Vec<Bson>,
    size: usize,
}

impl Accumulate for Push {
    fn add(&mut self, value: Option<Bson>) -> Result<()> {
        if let Some(value) = value {
            grow(&mut self.size, &value, "$push")?;
            self.values.push(value);
        }
        Ok(())
    }

    fn value(&self) -> Bson {
        Bson::Array(self.values.clone())
    }

    fn remove_first(&mut self, values: &[Option<Bson>]) -> Result<bool> {
        let there = values.iter().flatten().count().min(self.values.len());
        for gone in self.values.drain(..there) {
            self.size -= footprint(&gone);
        }
        Ok(true)
    }

    fn size(&self) -> usize {
        64 + self.size
    }
}

/// All different values that are there, or all different elements of arrays.
#[derive(Debug)]
pub(super) struct AddToSet {
    collation: Collation,
    of_arrays: bool,
    seen: HashSet<Vec<u8>>,
    values: Vec<Bson>,
    size: usize,
}

impl AddToSet {
    pub(super) fn new(collation: Collation, of_arrays: bool) -> Self {
        Self {
            collation,
            of_arrays,
            seen: HashSet::new(),
            values: Vec::new(),
            size: 64,
        }
    }

    fn insert(&mut self, value: Bson) -> Result<()> {
        let key = key::encode(&value, &self.collation);
        if !self.seen.contains(&key) {
            self.size += key.len();
            grow(&mut self.size, &value, "$addToSet")?;
            self.seen.insert(key);
            self.values.push(value);
        }
        Ok(())
    }
}

impl Accumulate for AddToSet {
    fn add(&mut self, value: Option<Bson>) -> Result<()> {
        match value {
            None => Ok(()),
            Some(Bson::Array(items)) if self.of_arrays => {
                items.into_iter().try_for_each(|item| self.insert(item))
            }
            Some(other) if self.of_arrays => fail(
                14,
                format!("$setUnion requires array inputs, not {}", type_name(&other)),
            ),
            Some(value) => self.insert(value),
        }
    }

    fn value(&self) -> Bson {
        Bson::Array(self.values.clone())
    }

    fn size(&self) -> usize {
        self.size
    }
}

/// The elements of all arrays.
#[derive(Debug, Default)]
pub(super) struct ConcatArrays {
    values: Vec<Bson>,
    size: usize,
}

impl Accumulate for ConcatArrays {
    fn add(&mut self, value: Option<Bson>) -> Result<()> {
        match value {
            None => Ok(()),
            Some(Bson::Array(items)) => {
                for item in items {
                    grow(&mut self.size, &item, "$concatArrays")?;
                    self.values.push(item);
                }
                Ok(())
            }
            Some(other) => fail(
                14,
                format!(
                    "$concatArrays requires array inputs, not {}",
                    type_name(&other)
                ),
            ),
        }
    }

    fn value(&self) -> Bson {
        Bson::Array(self.values.clone())
    }

    fn size(&self) -> usize {
        64 + self.size
    }
}

/// One object with the fields of all, later ones over earlier ones.
#[derive(Debug)]
pub(super) struct MergeObjects {
    merged: Document,
    size: usize,
    not_object: i32,
}

impl MergeObjects {
    /// With the code of the error for what is no object, which groups and operators differ in.
    pub(super) fn new(not_object: i32) -> Self {
        Self {
            merged: Document::new(),
            size: 0,
            not_object,
        }
    }
}

impl Accumulate for MergeObjects {
    fn add(&mut self, value: Option<Bson>) -> Result<()> {
        match value {
            None | Some(Bson::Null | Bson::Undefined) => Ok(()),
            Some(Bson::Document(fields)) => {
                for (name, value) in fields {
                    grow(&mut self.size, &value, "$mergeObjects")?;
                    self.merged.insert(name, value);
                }
                Ok(())
            }
            Some(other) => {
                let found = type_name(&other);
                fail(
                    self.not_object,
                    format!("$mergeObjects requires object inputs, not {found}"),
                )
            }
        }
    }

    fn value(&self) -> Bson {
        Bson::Document(self.merged.clone())
    }

    fn size(&self) -> usize {
        64 + self.size
    }
}
