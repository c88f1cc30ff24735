//! `$sort`: all documents in memory, or only as many as later stages take.

use bson::{Bson, Document};
use tessera_core::deadline;

use super::StageContext;
use super::environment::BATCH;
use super::kept::{ENTRY, Kept};
use super::stage::Stage;
use super::step::Step;
use crate::collation::Collation;
use crate::error::Result;
use crate::expression::fail;
use crate::expression::order::Order;
use crate::expression::path_components as components;
use crate::number::Number;
use crate::size::document_footprint;

/// A sort may be by this many fields.
const MAX_FIELDS: usize = 32;

/// The fields of a sort, and the order that they make.
#[derive(Clone, Debug, PartialEq)]
pub struct Sort {
    /// As it was written.
    pub pattern: Document,
    pub(super) order: Order,
}

impl Sort {
    /// A sort by a pattern that is known to be one.
    pub(super) fn new(pattern: Document) -> Self {
        let direction = |value: &Bson| Number::from_bson(value).map(Number::to_i64_saturating);
        let fields = pattern.iter().filter_map(|(path, value)| {
            direction(value).map(|direction| (path.as_str(), direction < 0))
        });
        let order = Order::new(fields);
        Self { pattern, order }
    }

    /// Parses the pattern of a `$sort`. Directions are truncated to integers; what is said about
    /// documents besides their fields is nothing here, and leaves them as they are.
    pub fn parse(pattern: &Document) -> Result<Self> {
        let mut fields = 0;
        for direction in pattern.values() {
            match direction {
                Bson::Document(meta) => {
                    parse_meta(meta)?;
                    continue;
                }
                direction => match Number::from_bson(direction).map(Number::to_i64_saturating) {
                    Some(1 | -1) => fields += 1,
                    Some(_) => {
                        let message = "$sort key ordering must be 1 (for ascending) or -1";
                        return fail(15975, message);
                    }
                    None => return fail(15974, "Illegal key in $sort specification"),
                },
            }
        }
        pattern
            .keys()
            .try_for_each(|path| components(path).map(|_| ()))?;
        if pattern.is_empty() {
            return fail(15976, "$sort stage must have at least one sort key");
        }
        if fields > MAX_FIELDS {
            return fail(
                13103,
                format!("too many compound keys, at most {MAX_FIELDS}"),
            );
        }
        Ok(Self::new(pattern.clone()))
    }
}

fn parse_meta(meta: &Document) -> Result<()> {
    match meta.get("$meta") {
        Some(Bson::String(name)) if meta.len() == 1 => match name.as_str() {
            "randVal" | "searchScore" | "vectorSearchScore" | "score" => Ok(()),
            "textScore" | "geoNearDistance" => fail(
                40218,
                format!("query requires {name} metadata, but it is not available"),
            ),
            _ => fail(31138, format!("Illegal $meta sort: {name}")),
        },
        Some(_) if meta.len() == 1 => fail(31138, "Illegal $meta sort"),
        _ => fail(
            17312,
            "$meta is the only expression supported by $sort right now",
        ),
    }
}

/// `$sort`.
pub(super) fn parse(argument: &Bson, _: &StageContext<'_>) -> Result<Vec<Stage>> {
    match argument {
        Bson::Document(pattern) => Ok(vec![Stage::Sort(Sort::parse(pattern)?)]),
        _ => fail(15973, "the $sort key specification must be an object"),
    }
}

/// Documents with the keys by which they sort.
pub(super) struct Sorting {
    order: Order,
    collation: Collation,
    kept: Kept,
    /// Only so many of the first are wanted.
    limit: Option<usize>,
    held: Vec<(Vec<u8>, Document)>,
    sorted: std::vec::IntoIter<(Vec<u8>, Document)>,
}

impl Sorting {
    pub(super) fn new(
        order: Order,
        collation: Collation,
        limit: Option<usize>,
        memory_limit: usize,
    ) -> Self {
        let (held, sorted) = (Vec::new(), Vec::new().into_iter());
        Self {
            order,
            collation,
            kept: Kept::new(memory_limit),
            limit,
            held,
            sorted,
        }
    }

    fn sort(&mut self) -> Result<()> {
        deadline::sort_by(&mut self.held, |(a, _), (b, _)| a.cmp(b))?;
        if let Some(limit) = self.limit
            && self.held.len() > limit
        {
            self.held.truncate(limit);
            self.kept.clear();
            // What is less than before fits.
            let _fits = self.kept.set(self.held.iter().map(footprint).sum());
        }
        Ok(())
    }
}

fn footprint((key, document): &(Vec<u8>, Document)) -> usize {
    key.len() + document_footprint(document) + ENTRY
}

impl Step for Sorting {
    fn take(&mut self, document: Document, _: &mut Vec<Document>) -> Result<()> {
        let entry = (self.order.key(&document, &self.collation)?, document);
        let mut fits = self.kept.add(footprint(&entry));
        self.held.push(entry);
        // Twice as many as are wanted, so that sorting now and then costs little for each.
        let crowded = self
            .limit
            .is_some_and(|limit| self.held.len() / 2 > limit.max(BATCH));
        if crowded || self.limit.is_some() && !fits {
            self.sort()?;
            fits = self.kept.add(0);
        }
        if !fits {
            return fail(
                292,
                "Exceeded memory limit for $sort, but did not allow external sort. \
                 Pass allowDiskUse:true to opt in.",
            );
        }
        Ok(())
    }

    fn drain(&mut self, output: &mut Vec<Document>) -> Result<()> {
        if !self.held.is_empty() {
            self.sort()?;
            self.sorted = std::mem::take(&mut self.held).into_iter();
        }
        output.extend(
            self.sorted
                .by_ref()
                .take(BATCH)
                .map(|(_, document)| document),
        );
        Ok(())
    }
}
