//! Records from a source, one after the other: the wanted values and the size of each.

use super::source::{Format, Source};
use super::value::Scalar;
use super::{csv_records, ndjson};
use crate::error::Error;

/// No item of any API is larger. Longer ones are not held in memory.
pub(super) const MAX_RECORD_BYTES: u64 = 16 << 20;

/// How many lines that could not be read are named.
const NAMED_LINES: usize = 5;

/// Lines that could not be read.
#[derive(Debug, Default, serde::Serialize)]
pub(super) struct Rejected {
    pub(super) lines: u64,
    /// The first of them.
    pub(super) first: Vec<RejectedLine>,
}

/// One line that could not be read.
#[derive(Debug, serde::Serialize)]
pub(super) struct RejectedLine {
    pub(super) line: u64,
    pub(super) cause: String,
}

impl Rejected {
    pub(super) fn add(&mut self, line: u64, cause: String) {
        self.lines += 1;
        if self.first.len() < NAMED_LINES {
            self.first.push(RejectedLine { line, cause });
        }
    }
}

/// What is told of each record: the values of the wanted fields, and its size in bytes.
pub(super) type OnRecord<'a> = &'a mut dyn FnMut(&[Scalar], usize);

/// Reads all records of `source`, with the values of `fields`.
pub(super) fn read(
    source: &mut Source,
    fields: &[String],
    on_record: OnRecord<'_>,
) -> Result<Rejected, Error> {
    let read = match source.format {
        Format::Ndjson => ndjson::read(&mut source.input, fields, on_record),
        Format::Csv => csv_records::read(&mut source.input, fields, on_record),
    };
    read.map_err(|cause| Error::Failed(format!("cannot read {}: {cause}", source.name)))
}

/// The fields that a key could be made of, as the beginning of the file shows them.
pub(super) fn proposed_fields(source: &Source) -> Vec<String> {
    match source.format {
        Format::Ndjson => ndjson::common_scalars(&source.head),
        Format::Csv => csv_records::columns(&source.head),
    }
}
