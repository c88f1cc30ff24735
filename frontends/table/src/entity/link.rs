//! The addresses of entities and tables, relative to the address of the account.

use std::fmt;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// All but what RFC 3986 leaves unreserved.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~');

/// `table(PartitionKey='p',RowKey='r')`.
#[derive(Clone, Copy)]
pub(crate) struct EntityLink<'a> {
    pub(crate) table: &'a str,
    pub(crate) partition_key: &'a str,
    pub(crate) row_key: &'a str,
}

impl fmt::Display for EntityLink<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (table, partition_key, row_key) = (
            utf8_percent_encode(self.table, ENCODED),
            Literal(self.partition_key),
            Literal(self.row_key),
        );
        write!(f, "{table}(PartitionKey={partition_key},RowKey={row_key})")
    }
}

/// `Tables('t')`.
#[derive(Clone, Copy)]
pub(crate) struct TableLink<'a>(pub(crate) &'a str);

impl fmt::Display for TableLink<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tables({})", Literal(self.0))
    }
}

/// A text in single quotes, its own quotes doubled.
struct Literal<'a>(&'a str);

impl fmt::Display for Literal<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("'")?;
        for (index, part) in self.0.split('\'').enumerate() {
            if index > 0 {
                f.write_str("%27%27")?;
            }
            write!(f, "{}", utf8_percent_encode(part, ENCODED))?;
        }
        f.write_str("'")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_quoted_and_encoded() {
        for (key, expected) in [
            ("", "t(PartitionKey='',RowKey='r')"),
            ("a-b_c.d~e", "t(PartitionKey='a-b_c.d~e',RowKey='r')"),
            ("it's", "t(PartitionKey='it%27%27s',RowKey='r')"),
            ("a b&c%", "t(PartitionKey='a%20b%26c%25',RowKey='r')"),
            ("\u{e9}", "t(PartitionKey='%C3%A9',RowKey='r')"),
        ] {
            let link = EntityLink {
                table: "t",
                partition_key: key,
                row_key: "r",
            };
            assert_eq!(link.to_string(), expected);
        }
        assert_eq!(TableLink("mytable").to_string(), "Tables('mytable')");
    }
}
