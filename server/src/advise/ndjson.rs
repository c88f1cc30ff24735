//! Records as one JSON document on each line.

use std::io::{BufRead, Read};

use tessera_advisor::{Proposal, Rejected, Scalar};

use super::fields::{FieldTree, scalar_fields};
use super::records::{MAX_RECORD_BYTES, OnRecord};

/// Reads all documents. A record's size is that of its line.
pub(super) fn read(
    input: &mut impl BufRead,
    fields: &[String],
    on_record: OnRecord<'_>,
) -> Result<Rejected, String> {
    let tree = FieldTree::new(fields.iter().map(String::as_str));
    let mut values = vec![Scalar::default(); fields.len()];
    let mut rejected = Rejected::default();
    let mut line = Vec::new();
    let mut number = 0;
    loop {
        line.clear();
        let mut limited = input.by_ref().take(MAX_RECORD_BYTES);
        let length = limited.read_until(b'\n', &mut line);
        if length.map_err(|error| error.to_string())? == 0 {
            return Ok(rejected);
        }
        number += 1;
        if line.len() as u64 == MAX_RECORD_BYTES && !line.ends_with(b"\n") {
            input.skip_until(b'\n').map_err(|error| error.to_string())?;
            rejected.add(number, "longer than 16 MB".to_owned());
            continue;
        }
        let document = line.trim_ascii();
        if document.is_empty() {
            continue;
        }
        match tree.read(document, &mut values) {
            Ok(()) => on_record(&values, document.len()),
            Err(cause) => rejected.add(number, cause),
        }
    }
}

/// The top-level fields that hold a scalar in at least half of the first documents, in the order in
/// which they turn up.
pub(super) fn common_scalars(head: &[u8]) -> Vec<String> {
    let mut proposal = Proposal::default();
    for names in head.split(|byte| *byte == b'\n').filter_map(scalar_fields) {
        if proposal.is_full() {
            break;
        }
        proposal.note(names.iter().map(String::as_str));
    }
    proposal.fields()
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
            let _fields = common_scalars(bytes);
        };
        let target = Target {
            name: "records",
            run,
        };
        let corpus = "{\"a\":1}\\r\\n\\n {\"a\":\"x\",\"b\":{\"c\":null}}\\nnonsense\n\
            {\"a\":[1,{\"$oid\":\"x\"}]}\\n{}\n\
            {\"a\":1e400,\"\\\\u0000\":true}\n";
        let outcome = bounded(target, corpus, 5_000);
        assert!(outcome.findings.is_empty(), "{:#?}", outcome.findings);
    }

    #[test]
    fn lines_become_records() {
        let text = "{\"a\":1}\r\n\n  {\"a\":\"x\"}\nnonsense\n{}\n{\"a\":2}";
        let mut seen = Vec::new();
        let rejected = read(
            &mut text.as_bytes(),
            &["a".to_owned()],
            &mut |values, bytes| {
                seen.push((first_name(values), bytes));
            },
        )
        .unwrap();
        let seen: Vec<_> = seen
            .iter()
            .map(|(name, bytes)| (name.as_str(), *bytes))
            .collect();
        assert_eq!(seen, [("1", 7), ("\"x\"", 9), ("none", 2), ("2", 7)]);
        assert_eq!((rejected.lines(), rejected.first()[0].line), (1, 4));
    }

    #[test]
    fn a_line_without_end_is_left_out() {
        let long = vec![b' '; 2 * usize::try_from(MAX_RECORD_BYTES).unwrap() + 7];
        let mut text = [&b"{}\n"[..], &long, b"\n{}\n"].concat();
        for expected in [2, 1] {
            let mut records = 0;
            let rejected = read(&mut text.as_slice(), &[], &mut |_, _| records += 1).unwrap();
            assert_eq!((records, rejected.first()[0].line), (expected, 2));
            text.truncate(text.len() - 4);
        }
    }

    #[test]
    fn rare_fields_are_not_proposed() {
        let head = b"{\"id\":1,\"rare\":1}\n{\"id\":2,\"x\":1}\n{\"x\":2,\"id\":3,\"a.b\":1}\n{\"i";
        assert_eq!(common_scalars(head), ["id", "x"]);
    }
}
