//! Names as statements write them: bare where CQL reads them back, else in double quotes.

use std::borrow::Cow;
use std::fmt;

use crate::types::Native;

/// The words that are never names unless quoted.
const RESERVED: [&str; 57] = [
    "add",
    "allow",
    "alter",
    "and",
    "apply",
    "asc",
    "authorize",
    "batch",
    "begin",
    "by",
    "columnfamily",
    "create",
    "delete",
    "desc",
    "describe",
    "drop",
    "entries",
    "execute",
    "from",
    "full",
    "grant",
    "if",
    "in",
    "index",
    "infinity",
    "insert",
    "into",
    "is",
    "keyspace",
    "limit",
    "materialized",
    "modify",
    "nan",
    "norecursive",
    "not",
    "null",
    "of",
    "on",
    "or",
    "order",
    "primary",
    "rename",
    "revoke",
    "schema",
    "select",
    "set",
    "table",
    "to",
    "token",
    "truncate",
    "unlogged",
    "update",
    "use",
    "using",
    "view",
    "where",
    "with",
];

/// Whether a word is never a name unless quoted.
pub(crate) fn is_reserved(word: &str) -> bool {
    RESERVED.binary_search(&word).is_ok()
}

/// The name as CQL reads it back.
pub(crate) fn quoted(name: &str) -> Cow<'_, str> {
    let mut bytes = name.bytes();
    let is_bare = bytes.next().is_some_and(|first| first.is_ascii_lowercase())
        && bytes.all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
        && !is_reserved(name)
        // Words as well, but no names.
        && !matches!(name, "true" | "false");
    if is_bare {
        Cow::Borrowed(name)
    } else {
        Cow::Owned(format!("\"{}\"", name.replace('"', "\"\"")))
    }
}

/// Names that no user type may have unless quoted, to keep them for types to come.
const RESERVED_TYPES: [&str; 7] = [
    "bitstring",
    "byte",
    "complex",
    "date",
    "enum",
    "interval",
    "macaddr",
];

/// Whether a word is the name of no user type unless quoted, though it may name other things.
pub(crate) fn is_reserved_type(word: &str) -> bool {
    RESERVED_TYPES.contains(&word)
}

/// The name of a user type as CQL reads it back: bare it must not be that of another type.
pub(crate) fn quoted_type(name: &str) -> Cow<'_, str> {
    if is_reserved_type(name) || Native::from_name(name).is_some() {
        return Cow::Owned(format!("\"{name}\""));
    }
    quoted(name)
}

/// The name of something in a keyspace, which may be left out.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct QualifiedName {
    pub(crate) keyspace: Option<String>,
    pub(crate) name: String,
}

impl fmt::Display for QualifiedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(keyspace) = &self.keyspace {
            write!(f, "{}.", quoted(keyspace))?;
        }
        write!(f, "{}", quoted(&self.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_where_they_must_be() {
        assert!(RESERVED.is_sorted());
        for (name, written) in [
            ("a_1", "a_1"),
            ("A", "\"A\""),
            ("1a", "\"1a\""),
            ("select", "\"select\""),
            ("key", "key"),
            ("with space", "\"with space\""),
            ("q\"q", "\"q\"\"q\""),
            ("", "\"\""),
        ] {
            assert_eq!(quoted(name), written);
        }
    }
}
