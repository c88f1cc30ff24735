//! Records from a source, one after the other: the wanted values and the size of each.

use tessera_advisor::{Rejected, Scalar};

use super::source::{Format, Source};
use super::{csv_records, ndjson};
use crate::error::Error;

/// No item of any API is larger. Longer ones are not held in memory.
pub(super) const MAX_RECORD_BYTES: u64 = 16 << 20;

/// The receiver of records: the values of the wanted fields, and the size in bytes.
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

/// The fields at the beginning of the file that a key could consist of.
pub(super) fn proposed_fields(source: &Source) -> Vec<String> {
    match source.format {
        Format::Ndjson => ndjson::common_scalars(&source.head),
        Format::Csv => csv_records::columns(&source.head),
    }
}

/// The first of some values, in readable form.
#[cfg(test)]
pub(super) fn first_name(values: &[Scalar]) -> String {
    let mut name = String::new();
    if let Some(value) = values.first() {
        value.write_name(&mut name);
    }
    name
}
