//! The file with the records: opening it and detecting its format.

use std::fs::File;
use std::io::{self, BufReader, Cursor, Read};
use std::path::Path;

use crate::error::Error;

/// How much of the file the format detection reads.
const HEAD_BYTES: u64 = 1 << 20;
const BUFFER_BYTES: usize = 256 << 10;

/// The format of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// One JSON document on each line.
    Ndjson,
    /// Comma-separated values, with the names of the columns first.
    Csv,
}

/// An open file.
pub(super) struct Source {
    /// Its name for messages.
    pub(super) name: String,
    pub(super) format: Format,
    /// Its first bytes, which `input` repeats.
    pub(super) head: Vec<u8>,
    pub(super) input: Input,
}

/// All bytes of the file.
pub(super) type Input = BufReader<io::Chain<Cursor<Vec<u8>>, Box<dyn Read>>>;

impl Source {
    /// Opens a file; `-` is standard input.
    pub(super) fn open(path: &Path) -> Result<Self, Error> {
        let is_standard_input = path.as_os_str() == "-";
        let name = match is_standard_input {
            true => "standard input".to_owned(),
            false => path.display().to_string(),
        };
        let failed = |error: io::Error| Error::Failed(format!("cannot read {name}: {error}"));
        let mut input: Box<dyn Read> = match is_standard_input {
            true => Box::new(io::stdin().lock()),
            false => Box::new(File::open(path).map_err(failed)?),
        };
        let mut head = Vec::new();
        let looked_at = input.by_ref().take(HEAD_BYTES).read_to_end(&mut head);
        looked_at.map_err(failed)?;
        if let Some(rest) = head.strip_prefix("\u{feff}".as_bytes()) {
            head = rest.to_vec();
        }
        if head.trim_ascii().is_empty() {
            return Err(Error::Failed(format!("{name} holds no records")));
        }
        Ok(Self {
            format: format_of(path, &head),
            input: BufReader::with_capacity(BUFFER_BYTES, Cursor::new(head.clone()).chain(input)),
            name,
            head,
        })
    }
}

/// By the file's name, or else by how it begins.
fn format_of(path: &Path, head: &[u8]) -> Format {
    let extension = path.extension().unwrap_or_default().to_ascii_lowercase();
    match extension.to_str() {
        Some("csv") => Format::Csv,
        Some("ndjson" | "jsonl" | "json") => Format::Ndjson,
        _ if head.trim_ascii_start().starts_with(b"{") => Format::Ndjson,
        _ => Format::Csv,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_is_told_by_name_or_beginning() {
        for (path, head, expected) in [
            ("a.csv", "{", Format::Csv),
            ("a.CSV", "", Format::Csv),
            ("a.ndjson", "x", Format::Ndjson),
            ("a.jsonl", "x", Format::Ndjson),
            ("-", "\n {\"a\":1}", Format::Ndjson),
            ("-", "a,b\n", Format::Csv),
        ] {
            assert_eq!(
                format_of(Path::new(path), head.as_bytes()),
                expected,
                "{path} {head}"
            );
        }
    }
}
