//! The relations of WHERE, and the operators that they share with conditions.

use nom::Parser;

use super::mistake::{Read, no_choice};
use super::name::{index_name, is_name, name};
use super::term::{marker, term};
use super::tokens::{Tokens, conjunction, deeper, keywords, list, list_in_parentheses, symbol};
use crate::statement::{Comparator, InValues, Relation, Term};

/// Relations with AND between them.
pub(super) fn relations(input: Tokens<'_>) -> Read<'_, Vec<Relation>> {
    conjunction(relation)(input)
}

fn relation(input: Tokens<'_>) -> Read<'_, Relation> {
    if input.is_keyword("token") {
        let (input, columns) = columns(input.skip(1))?;
        let (input, comparator) = comparator(input)?;
        let (input, value) = term(input)?;
        return Ok((
            input,
            Relation::Token {
                columns,
                comparator,
                value,
            },
        ));
    }
    if input.is_keyword("expr") && input.is_symbol_ahead(1, "(") {
        return index_expression(input.skip(2));
    }
    if !input.is_symbol("(") {
        return column_relation(input);
    }
    let is_tuple =
        is_name(input, 1) && (input.is_symbol_ahead(2, ",") || input.is_symbol_ahead(2, ")"));
    if is_tuple {
        return tuple_relation(input);
    }
    let (input, inner) = deeper(input.skip(1), relation)?;
    let (input, ()) = symbol(")").parse(input)?;
    Ok((input, inner))
}

fn columns(input: Tokens<'_>) -> Read<'_, Vec<String>> {
    let (input, ()) = symbol("(").parse(input)?;
    let (input, columns) = list(name)(input)?;
    let (input, ()) = symbol(")").parse(input)?;
    Ok((input, columns))
}

fn index_expression(input: Tokens<'_>) -> Read<'_, Relation> {
    let (input, index) = index_name(input)?;
    let (input, ()) = symbol(",").parse(input)?;
    let (input, value) = term(input)?;
    let (input, ()) = symbol(")").parse(input)?;
    Ok((input, Relation::IndexExpression { index, value }))
}

fn column_relation(input: Tokens<'_>) -> Read<'_, Relation> {
    let (input, column) = name(input)?;
    if input.is_keyword("like") {
        let (input, pattern) = term(input.skip(1))?;
        return Ok((input, Relation::Like { column, pattern }));
    }
    if input.is_keyword("is") {
        let (input, ()) = keywords(&["is", "not", "null"])(input)?;
        return Ok((input, Relation::IsNotNull(column)));
    }
    if input.is_keyword("in") {
        let (input, values) = in_values(input.skip(1))?;
        return Ok((input, Relation::In { column, values }));
    }
    if input.is_keyword("contains") {
        let (input, is_key) = contains(input)?;
        let (input, value) = term(input)?;
        return Ok((
            input,
            Relation::Contains {
                column,
                is_key,
                value,
            },
        ));
    }
    if input.is_symbol("[") {
        let (input, key) = term(input.skip(1))?;
        let (input, ()) = symbol("]").parse(input)?;
        let (input, comparator) = comparator(input)?;
        let (input, value) = term(input)?;
        return Ok((
            input,
            Relation::CompareElement {
                column,
                key,
                comparator,
                value,
            },
        ));
    }
    let (input, comparator) = comparator(input)?;
    let (input, value) = term(input)?;
    Ok((
        input,
        Relation::Compare {
            column,
            comparator,
            value,
        },
    ))
}

fn tuple_relation(input: Tokens<'_>) -> Read<'_, Relation> {
    let (input, columns) = columns(input)?;
    if input.is_keyword("in") {
        let (input, values) = in_values(input.skip(1))?;
        return Ok((input, Relation::InTuples { columns, values }));
    }
    let (input, comparator) = comparator(input)?;
    let (rest, value) = if input.is_symbol("(") {
        let (rest, terms) = list_in_parentheses(term)(input)?;
        (rest, Term::Tuple(terms))
    } else {
        match marker(input) {
            Some(read) => {
                let (rest, marker) = read?;
                (rest, Term::Marker(marker))
            }
            None => return no_choice(input),
        }
    };
    Ok((
        rest,
        Relation::CompareTuple {
            columns,
            comparator,
            value,
        },
    ))
}

/// CONTAINS, and whether KEY follows.
pub(super) fn contains(input: Tokens<'_>) -> Read<'_, bool> {
    let input = input.skip(1);
    let is_key = input.is_keyword("key");
    Ok((input.skip(usize::from(is_key)), is_key))
}

/// A marker, or terms in parentheses.
pub(super) fn in_values(input: Tokens<'_>) -> Read<'_, InValues> {
    if let Some(read) = marker(input) {
        let (input, marker) = read?;
        return Ok((input, InValues::Marker(marker)));
    }
    if !input.is_symbol("(") {
        return no_choice(input);
    }
    let (input, terms) = list_in_parentheses(term)(input)?;
    Ok((input, InValues::Terms(terms)))
}

const COMPARATORS: [Comparator; 6] = [
    Comparator::Equal,
    Comparator::NotEqual,
    Comparator::Less,
    Comparator::LessOrEqual,
    Comparator::Greater,
    Comparator::GreaterOrEqual,
];

pub(super) fn comparator(input: Tokens<'_>) -> Read<'_, Comparator> {
    match COMPARATORS
        .iter()
        .find(|comparator| input.is_symbol(comparator.symbol()))
    {
        Some(comparator) => Ok((input.skip(1), *comparator)),
        None => no_choice(input),
    }
}
