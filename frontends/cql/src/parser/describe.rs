//! DESCRIBE.

use nom::Parser;

use super::mistake::Read;
use super::name::{function_name, is_name, keyspace_name, name, table_name, type_name};
use super::tokens::{Tokens, has_keywords, keyword};
use crate::statement::{Describe, DescribeWhat, QualifiedName, Statement};

pub(super) fn describe(input: Tokens<'_>) -> Read<'_, Statement> {
    let (input, what) = what(input)?;
    let (input, with_internals) = has_keywords(input, &["with", "internals"])?;
    Ok((
        input,
        Statement::Describe(Describe {
            what,
            with_internals,
        }),
    ))
}

/// Words that describe all of a kind.
const PLURALS: [(&str, DescribeWhat); 7] = [
    ("aggregates", DescribeWhat::Aggregates),
    ("cluster", DescribeWhat::Cluster),
    ("columnfamilies", DescribeWhat::Tables),
    ("functions", DescribeWhat::Functions),
    ("keyspaces", DescribeWhat::Keyspaces),
    ("tables", DescribeWhat::Tables),
    ("types", DescribeWhat::Types),
];

fn what(input: Tokens<'_>) -> Read<'_, DescribeWhat> {
    // These are names, too, if they stand before a point.
    let is_alone = !input.is_symbol_ahead(1, ".");
    if let Some((_, what)) = PLURALS
        .iter()
        .find(|(word, _)| is_alone && input.is_keyword(word))
    {
        return Ok((input.skip(1), what.clone()));
    }
    let (rest, is_full) = has_keywords(input, &["full"])?;
    if is_full || rest.is_keyword("schema") {
        let (rest, ()) = keyword("schema").parse(rest)?;
        return Ok((rest, DescribeWhat::Schema { is_full }));
    }
    let only = input.is_keyword("only") && input.is_keyword_ahead(1, "keyspace");
    let rest = input.skip(usize::from(only));
    if rest.is_keyword("keyspace") {
        let rest = rest.skip(1);
        if !is_name(rest, 0) && !rest.is_symbol("?") {
            return Ok((rest, DescribeWhat::Keyspace { name: None, only }));
        }
        let (rest, name) = keyspace_name(rest)?;
        return Ok((
            rest,
            DescribeWhat::Keyspace {
                name: Some(name),
                only,
            },
        ));
    }
    one(input)
}

fn one(input: Tokens<'_>) -> Read<'_, DescribeWhat> {
    let named = is_name(input, 1);
    if input.is_keyword("table") || input.is_keyword("columnfamily") {
        return table_name(input.skip(1)).map(|(rest, name)| (rest, DescribeWhat::Table(name)));
    }
    if input.is_keyword("index") {
        return table_name(input.skip(1)).map(|(rest, name)| (rest, DescribeWhat::Index(name)));
    }
    if input.is_keyword("materialized") {
        let (input, ()) = keyword("view").parse(input.skip(1))?;
        return table_name(input).map(|(rest, name)| (rest, DescribeWhat::View(name)));
    }
    if input.is_keyword("type") && named {
        return type_name(input.skip(1)).map(|(rest, name)| (rest, DescribeWhat::Type(name)));
    }
    if input.is_keyword("function") && named {
        let (rest, name) = function_name(input.skip(1))?;
        return Ok((rest, DescribeWhat::Function(name)));
    }
    if input.is_keyword("aggregate") && named {
        let (rest, name) = function_name(input.skip(1))?;
        return Ok((rest, DescribeWhat::Aggregate(name)));
    }
    let (rest, first) = name(input)?;
    if !rest.is_symbol(".") {
        let name = QualifiedName {
            keyspace: None,
            name: first,
        };
        return Ok((rest, DescribeWhat::Any(name)));
    }
    let (rest, name) = name(rest.skip(1))?;
    let name = QualifiedName {
        keyspace: Some(first),
        name,
    };
    Ok((rest, DescribeWhat::Any(name)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parser::parse;

    #[test]
    fn everything_can_be_described() {
        for (text, expected) in [
            ("DESCRIBE CLUSTER", "Cluster"),
            ("DESC SCHEMA", "Schema { is_full: false }"),
            ("DESCRIBE FULL SCHEMA", "Schema { is_full: true }"),
            ("DESCRIBE KEYSPACES", "Keyspaces"),
            (
                "DESCRIBE KEYSPACE ks",
                "Keyspace { name: Some(\"ks\"), only: false }",
            ),
            (
                "DESCRIBE ONLY KEYSPACE ks",
                "Keyspace { name: Some(\"ks\"), only: true }",
            ),
            ("DESCRIBE KEYSPACE", "Keyspace { name: None, only: false }"),
            ("DESCRIBE TABLES", "Tables"),
            ("DESCRIBE TABLE ks.t;", "Table("),
            ("DESCRIBE INDEX ks.i", "Index("),
            ("DESCRIBE MATERIALIZED VIEW v", "View("),
            ("DESCRIBE TYPES", "Types"),
            ("DESCRIBE TYPE ks.u", "Type("),
            ("DESCRIBE FUNCTIONS", "Functions"),
            ("DESCRIBE FUNCTION f", "Function("),
            ("DESCRIBE AGGREGATES", "Aggregates"),
            ("DESCRIBE AGGREGATE f", "Aggregate("),
            ("DESCRIBE ks.t", "Any("),
            ("DESCRIBE \"T\"", "Any("),
            ("DESCRIBE tables.x", "Any("),
        ] {
            let parsed = parse(text).unwrap_or_else(|error| panic!("{text}: {}", error.message));
            let Statement::Describe(describe) = parsed.statement else {
                panic!("{text}")
            };
            let what = format!("{:?}", describe.what);
            assert!(what.starts_with(expected), "{text}: {what}");
        }
        let parsed = parse("DESCRIBE TABLE t WITH INTERNALS").unwrap();
        let Statement::Describe(describe) = parsed.statement else {
            panic!()
        };
        assert!(describe.with_internals);
    }
}
