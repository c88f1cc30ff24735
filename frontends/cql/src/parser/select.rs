//! SELECT.

use nom::Parser;

use super::lexer::TokenKind;
use super::mistake::Read;
use super::name::{name, table_name};
use super::relation::relations;
use super::selector::{selection, selector};
use super::term::{integer_or_marker, term};
use super::tokens::{Tokens, after_keyword, has_keywords, keyword, keywords, list};
use crate::statement::{OrderBy, Select, Statement};

pub(super) fn select(input: Tokens<'_>) -> Read<'_, Statement> {
    let (input, is_json) = modifier(input, "json");
    let (input, is_distinct) = modifier(input, "distinct");
    let (input, selection) = selection(input)?;
    let (input, ()) = keyword("from").parse(input)?;
    let (input, table) = table_name(input)?;
    let (input, relations) = after_keyword(input, "where", relations)?;
    let (input, group_by) = after_keyword(input, "group", |input| {
        let (input, ()) = keyword("by").parse(input)?;
        list(selector)(input)
    })?;
    let (input, order_by) = after_keyword(input, "order", |input| {
        let (input, ()) = keyword("by").parse(input)?;
        list(order)(input)
    })?;
    let (input, per_partition_limit) = after_keyword(input, "per", |input| {
        let (input, ()) = keywords(&["partition", "limit"])(input)?;
        integer_or_marker(input)
    })?;
    let (input, limit) = after_keyword(input, "limit", integer_or_marker)?;
    let (input, allow_filtering) = has_keywords(input, &["allow", "filtering"])?;
    let select = Select {
        is_json,
        is_distinct,
        selection,
        table,
        relations: relations.unwrap_or_default(),
        group_by: group_by.unwrap_or_default(),
        order_by: order_by.unwrap_or_default(),
        per_partition_limit,
        limit,
        allow_filtering,
    };
    Ok((input, Statement::Select(select)))
}

/// JSON and DISTINCT are names, too. They are meant as such if nothing to select follows them.
fn modifier<'t>(input: Tokens<'t>, word: &'static str) -> (Tokens<'t>, bool) {
    let after = input.skip(1);
    let is_star = after.is_symbol("*") && after.is_keyword_ahead(1, "from");
    let is_operator = after.is_kind(TokenKind::Symbol)
        && !["(", "{", "?", ":"]
            .iter()
            .any(|open| after.is_symbol(open))
        && !is_star;
    let is_end = after.is_keyword("from") || after.is_keyword("as") || is_operator;
    if input.is_keyword(word) && !is_end {
        (after, true)
    } else {
        (input, false)
    }
}

fn order(input: Tokens<'_>) -> Read<'_, OrderBy> {
    let (input, column) = name(input)?;
    let (input, near) = after_keyword(input, "ann", |input| {
        let (input, ()) = keyword("of").parse(input)?;
        term(input)
    })?;
    let (input, is_descending) = has_keywords(input, &["desc"])?;
    let (input, _) = if is_descending {
        (input, false)
    } else {
        has_keywords(input, &["asc"])?
    };
    Ok((
        input,
        OrderBy {
            column,
            near,
            is_descending,
        },
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parser::parse;
    use crate::statement::{Comparator, InValues, Relation, Selection, Selector, Term};

    fn selected(text: &str) -> Select {
        match parse(text) {
            Ok(parsed) => match parsed.statement {
                Statement::Select(select) => select,
                other => panic!("{other:?}"),
            },
            Err(error) => panic!("{text}: {}", error.message),
        }
    }

    fn first(text: &str) -> Selector {
        match selected(text).selection {
            Selection::Some(mut selectors) => selectors.remove(0).0,
            Selection::All => panic!("{text}"),
        }
    }

    #[test]
    fn every_clause_is_read() {
        let select = selected(
            "SELECT JSON DISTINCT a AS x, \"B\" FROM ks.t WHERE a = 1 AND b IN (1, 2) AND c > ? \
             GROUP BY a, b ORDER BY b DESC, c ASC PER PARTITION LIMIT 2 LIMIT :n ALLOW FILTERING;",
        );
        assert!(select.is_json && select.is_distinct && select.allow_filtering);
        assert_eq!(select.table.to_string(), "ks.t");
        assert_eq!(select.relations.len(), 3);
        assert_eq!((select.group_by.len(), select.order_by.len()), (2, 2));
        assert!(select.order_by[0].is_descending && !select.order_by[1].is_descending);
        assert_eq!(select.per_partition_limit.unwrap().to_string(), "2");
        assert!(matches!(select.limit, Some(Term::Marker(marker)) if marker.0 == 1));
        let Selection::Some(selectors) = select.selection else {
            panic!()
        };
        assert_eq!(selectors[0].1.as_deref(), Some("x"));
        assert_eq!(selectors[1].0, Selector::Column("B".to_owned()));
    }

    #[test]
    fn words_that_are_names_as_well_are_told_apart() {
        assert!(!selected("SELECT json FROM t").is_json);
        assert!(!selected("SELECT json, a FROM t").is_json);
        assert!(!selected("SELECT distinct AS d FROM t").is_distinct);
        assert!(selected("SELECT json * FROM t").is_json);
        assert!(selected("SELECT json json FROM t").is_json);
        assert!(selected("SELECT distinct a FROM t").is_distinct);
        assert_eq!(
            first("SELECT ttl FROM t"),
            Selector::Column("ttl".to_owned())
        );
        assert_eq!(
            first("SELECT count FROM t"),
            Selector::Column("count".to_owned())
        );
        assert_eq!(
            first("SELECT key FROM t"),
            Selector::Column("key".to_owned())
        );
    }

    #[test]
    fn selectors_of_every_kind_are_read() {
        for (text, expected) in [
            ("count(*)", "CountRows"),
            ("COUNT(1)", "CountRows"),
            ("writetime(a)", "ColumnTime"),
            ("maxwritetime(a[1])", "ColumnTime"),
            ("ttl(a.b)", "ColumnTime"),
            ("cast(a + 1 AS text)", "Cast"),
            ("toJson(a)", "Function"),
            ("ks.f(a, 1, ?)", "Function"),
            ("token(a, b)", "Function"),
            ("a + b * -c", "Operation"),
            ("-a", "Negation"),
            ("a.b.c", "Field"),
            ("a['k']", "Element"),
            ("a[1..2]", "Slice"),
            ("a[1..]", "Slice"),
            ("a[..2]", "Slice"),
            ("(int)?", "TypeHint"),
            ("(list<int>)[1]", "TypeHint"),
            ("(a, b)", "Tuple"),
            ("(a)", "Tuple"),
            ("[a, 1]", "List"),
            ("{a}", "Set"),
            ("{'k': a}", "MapOrUserType"),
            ("1", "Constant"),
            ("null", "Null"),
            ("?", "Marker"),
        ] {
            let selector = format!("{:?}", first(&format!("SELECT {text} FROM t")));
            assert!(selector.starts_with(expected), "{text}: {selector}");
        }
        let Selector::Tuple(inner) = first("SELECT (a) AS b FROM t") else {
            panic!()
        };
        assert_eq!(inner, [Selector::Column("a".to_owned())]);
    }

    #[test]
    fn relations_of_every_kind_are_read() {
        let relation = |text: &str| {
            selected(&format!("SELECT * FROM t WHERE {text}"))
                .relations
                .remove(0)
        };
        let text = |text: &str| text.to_owned();
        assert_eq!(
            relation("(a) <= (1)"),
            Relation::CompareTuple {
                columns: vec![text("a")],
                comparator: Comparator::LessOrEqual,
                value: Term::Tuple(vec![Term::Constant(crate::statement::Constant {
                    kind: crate::statement::ConstantKind::Integer,
                    text: text("1"),
                })]),
            }
        );
        assert_eq!(relation("a IS NOT NULL"), Relation::IsNotNull(text("a")));
        assert_eq!(
            relation("((a IS NOT NULL))"),
            Relation::IsNotNull(text("a"))
        );
        for (text, expected) in [
            ("a != 1", "Compare {"),
            ("m['k'] = 1", "CompareElement"),
            ("a IN ()", "In {"),
            ("a IN ?", "In {"),
            ("m CONTAINS KEY 1", "Contains { column: \"m\", is_key: true"),
            ("m CONTAINS 1", "Contains { column: \"m\", is_key: false"),
            ("a LIKE 'x%'", "Like"),
            ("token(a, b) > token(1, 2)", "Token"),
            ("token(a) > -9223372036854775808", "Token"),
            ("(a, b) > (1, 2)", "CompareTuple"),
            ("(a, b) = ?", "CompareTuple"),
            ("(a, b) IN ((1, 2), (3, 4))", "InTuples"),
            ("(a, b) IN (?, :x)", "InTuples"),
            ("(a, b) IN ?", "InTuples"),
            ("(a, b) IN ()", "InTuples"),
            ("expr(i, 'x')", "IndexExpression"),
        ] {
            let relation = format!("{:?}", relation(text));
            assert!(relation.starts_with(expected), "{text}: {relation}");
        }
        assert!(matches!(
            relation("a IN (1, 2)"),
            Relation::In { values: InValues::Terms(terms), .. } if terms.len() == 2
        ));
        let near = selected("SELECT * FROM t ORDER BY v ANN OF [1, 2] LIMIT 3");
        assert!(near.order_by[0].near.is_some());
    }

    #[test]
    fn markers_count_in_the_order_of_the_text() {
        let parsed = parse("SELECT (int)?, f(:a) FROM t WHERE b = ? AND c IN :d LIMIT ?").unwrap();
        let names = [None, Some("a".to_owned()), None, Some("d".to_owned()), None];
        assert_eq!(parsed.markers, names);
    }

    #[test]
    fn mistakes_name_line_column_and_cause() {
        for (text, message) in [
            (
                "SELECT * fom users",
                "line 1:9 mismatched input 'fom' expecting K_FROM \
                (SELECT * [fom]...)",
            ),
            (
                "SELEC * FROM t",
                "line 1:0 no viable alternative at input 'SELEC' ([SELEC]...)",
            ),
            (
                "SELECT * FROM",
                "line 0:-1 no viable alternative at input '<EOF>'",
            ),
            ("", "line 0:-1 no viable alternative at input '<EOF>'"),
            (
                "SELECT * FROM t WHERE",
                "line 0:-1 no viable alternative at input '<EOF>'",
            ),
            (
                "SELECT *\nFROM t\n WHERE a = = 1",
                "line 3:11 no viable alternative at input '=' (...FROM t WHERE a = [=]...)",
            ),
            (
                "SELECT * FROM t; x",
                "line 1:17 mismatched input 'x' expecting EOF \
                (SELECT * FROM t; [x])",
            ),
            (
                "SELECT * FROM t WHERE a = @",
                "line 1:26 no viable alternative at character '@'",
            ),
            (
                "SELECT * FROM ?",
                "Bind variables cannot be used for table names",
            ),
            (
                "SELECT * FROM ?.t",
                "Bind variables cannot be used for keyspace names",
            ),
            (
                "SELECT a b FROM t",
                "line 1:9 mismatched input 'b' expecting K_FROM \
                (SELECT a [b]...)",
            ),
            (
                "SELECT * FROM t LIMIT 'a'",
                "line 1:22 no viable alternative at input 'a' \
                (SELECT * FROM t LIMIT [']...)",
            ),
        ] {
            let error = parse(text).unwrap_err();
            let message: String = message.split_whitespace().collect::<Vec<_>>().join(" ");
            let got = error
                .message
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" ");
            assert_eq!(got, message, "{text}");
        }
    }
}
