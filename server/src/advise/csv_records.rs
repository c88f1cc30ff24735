//! Records as comma-separated values with a line of names. Every value is text, and an empty one is
//! missing.

use std::io::{self, Read};

use csv::{ByteRecord, ErrorKind, ReaderBuilder};

use tessera_advisor::{Rejected, Scalar};

use super::records::{MAX_RECORD_BYTES, OnRecord};

/// The most bytes read for one record: the longest one, and the reader's read-ahead.
const ALLOWANCE: u64 = MAX_RECORD_BYTES + (1 << 20);

/// Reads all records. A record's size is that of its names and values, since items hold both.
pub(super) fn read(
    input: &mut impl Read,
    fields: &[String],
    on_record: OnRecord<'_>,
) -> Result<Rejected, String> {
    let mut reader = ReaderBuilder::new().from_reader(Rationed {
        input,
        left: ALLOWANCE,
    });
    let columns = reader
        .byte_headers()
        .map_err(|error| error.to_string())?
        .clone();
    let places = places(&columns, fields)?;
    let names_bytes: usize = columns.iter().map(<[u8]>::len).sum();
    let mut values = vec![Scalar::default(); fields.len()];
    let mut record = ByteRecord::new();
    let mut rejected = Rejected::default();
    loop {
        reader.get_mut().left = ALLOWANCE;
        let line = reader.position().line();
        match reader.read_byte_record(&mut record) {
            Ok(false) => return Ok(rejected),
            Ok(true) => {}
            Err(error) => match error.kind() {
                ErrorKind::UnequalLengths {
                    expected_len, len, ..
                } => {
                    let line = error.position().map_or(line, csv::Position::line);
                    rejected.add(line, format!("{len} values for {expected_len} columns"));
                    continue;
                }
                // The start of the next record is unknown.
                _ => return Err(format!("line {line}: {error}")),
            },
        }
        for (value, place) in values.iter_mut().zip(&places) {
            match record.get(*place) {
                Some(text) if !text.is_empty() => value.set_text(text),
                _ => value.clear(),
            }
        }
        on_record(&values, names_bytes + record.as_slice().len());
    }
}

/// Where each field stands in a record.
fn places(columns: &ByteRecord, fields: &[String]) -> Result<Vec<usize>, String> {
    let place = |field: &String| {
        let place = columns.iter().position(|column| column == field.as_bytes());
        place.ok_or_else(|| {
            let columns: Vec<_> = columns.iter().map(String::from_utf8_lossy).collect();
            format!(
                "it has no column {field:?}; its columns are {}",
                columns.join(", ")
            )
        })
    };
    fields.iter().map(place).collect()
}

/// The names of the columns.
pub(super) fn columns(head: &[u8]) -> Vec<String> {
    let mut reader = ReaderBuilder::new().from_reader(head);
    let columns = reader.byte_headers().ok();
    let columns = columns.into_iter().flatten().map(String::from_utf8_lossy);
    columns.map(std::borrow::Cow::into_owned).collect()
}

/// Delivers a limited number of bytes: a quote that is never closed would otherwise make the rest
/// of the file one record in memory.
struct Rationed<R> {
    input: R,
    left: u64,
}

impl<R: Read> Read for Rationed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 {
            return Err(io::Error::other(
                "a record longer than 16 MB begins here; is a quote not closed?",
            ));
        }
        let most = usize::try_from(self.left)
            .unwrap_or(usize::MAX)
            .min(buffer.len());
        let read = self
            .input
            .read(buffer.get_mut(..most).unwrap_or_default())?;
        self.left -= read as u64;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use tessera_frontend::testing::Target;
    use tessera_fuzz::run::bounded;

    use super::super::records::first_name;
    use super::*;

    #[test]
    fn made_up_records_are_read_or_refused() {
        let run = |bytes: &[u8]| {
            let mut count = 0;
            let fields = ["a".to_owned(), "b.c".to_owned()];
            let _refused = read(&mut &*bytes, &fields, &mut |_, _| count += 1).is_err();
            assert!(count <= bytes.len());
        };
        let target = Target {
            name: "records",
            run,
        };
        let corpus = "a,b\\n1,2\\n\"x,\"\"y\",\\n\na\\r\\n1,2,3\\r\\n\nb,a,a\\n,,\\n";
        let outcome = bounded(target, corpus, 5_000);
        assert!(outcome.findings.is_empty(), "{:#?}", outcome.findings);
    }

    fn read_all(text: &[u8], field: &str) -> Result<(Vec<(String, usize)>, Rejected), String> {
        let mut seen = Vec::new();
        let rejected = read(&mut &*text, &[field.to_owned()], &mut |values, bytes| {
            seen.push((first_name(values), bytes));
        })?;
        Ok((seen, rejected))
    }

    #[test]
    fn rows_become_records() {
        let text = b"id,city\n1,Berlin\n2,\n3\n4,\"a, b\"\n";
        let (seen, rejected) = read_all(text, "city").unwrap();
        let seen: Vec<_> = seen
            .iter()
            .map(|(name, bytes)| (name.as_str(), *bytes))
            .collect();
        assert_eq!(seen, [("\"Berlin\"", 13), ("none", 7), ("\"a, b\"", 11)]);
        assert_eq!(rejected.lines(), 1);
        assert_eq!(rejected.first()[0].line, 4);
        assert_eq!(rejected.first()[0].cause, "1 values for 2 columns");
    }

    #[test]
    fn an_unknown_column_is_refused_at_once() {
        let error = read_all(b"id,city\n1,x\n", "town").unwrap_err();
        assert!(
            error.contains("\"town\"") && error.contains("id, city"),
            "{error}"
        );
    }

    #[test]
    fn an_open_quote_does_not_fill_the_memory() {
        let mut text = b"id,city\n1,\"".to_vec();
        text.resize(40 << 20, b'x');
        let error = read_all(&text, "city").unwrap_err();
        assert!(
            error.contains("quote") && error.contains("line 2"),
            "{error}"
        );
    }

    #[test]
    fn columns_are_proposed() {
        assert_eq!(columns(b"id,\"a,b\"\n1,2\n"), ["id", "a,b"]);
    }
}
