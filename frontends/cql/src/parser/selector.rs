//! Selectors: columns, their parts, functions and arithmetic over them.

use nom::Parser;

use super::mistake::{Read, expected, no_choice};
use super::name::{data_type, function_name, is_function_call, is_name, name, native_type};
use super::term::{PRODUCTS, SUMS, chain, constant, following, marker, term};
use super::tokens::{
    Tokens, after_keyword, deeper, keyword, list, list_between, list_in_parentheses, symbol,
};
use crate::statement::{Arithmetic, ColumnTime, RawType, Selection, Selector};

/// All columns, or selectors with their aliases.
pub(super) fn selection(input: Tokens<'_>) -> Read<'_, Selection> {
    if input.is_symbol("*") {
        return Ok((input.skip(1), Selection::All));
    }
    let aliased = |input| {
        let (input, selector) = selector(input)?;
        let (input, alias) = after_keyword(input, "as", name)?;
        Ok((input, (selector, alias)))
    };
    let (input, selectors) = list(aliased)(input)?;
    Ok((input, Selection::Some(selectors)))
}

pub(super) fn selector(input: Tokens<'_>) -> Read<'_, Selector> {
    chain(input, &SUMS, product, operation)
}

fn product(input: Tokens<'_>) -> Read<'_, Selector> {
    chain(input, &PRODUCTS, group, operation)
}

fn operation(operator: Arithmetic, left: Selector, right: Selector) -> Selector {
    let (left, right) = (Box::new(left), Box::new(right));
    Selector::Operation {
        operator,
        left,
        right,
    }
}

fn group(input: Tokens<'_>) -> Read<'_, Selector> {
    if input.is_symbol("-") {
        let (input, inner) = deeper(input.skip(1), group)?;
        return Ok((input, Selector::Negation(Box::new(inner))));
    }
    let (input, whole) = simple(input)?;
    parts(input, whole)
}

/// Fields, elements and slices of what was read. Each is a level of its own, since the value is.
fn parts(input: Tokens<'_>, whole: Selector) -> Read<'_, Selector> {
    if input.is_symbol(".") {
        let (input, field) = name(input.skip(1))?;
        let part = Selector::Field(Box::new(whole), field);
        return deeper(input, |input| parts(input, part));
    }
    if !input.is_symbol("[") {
        return Ok((input, whole));
    }
    let (input, part) = element(input.skip(1), whole)?;
    let (input, ()) = symbol("]").parse(input)?;
    deeper(input, |input| parts(input, part))
}

/// `key`, `from..`, `..to` or `from..to`.
fn element(input: Tokens<'_>, whole: Selector) -> Read<'_, Selector> {
    let whole = Box::new(whole);
    if input.is_symbol("..") {
        let (input, to) = term(input.skip(1))?;
        return Ok((input, Selector::Slice(whole, None, Some(to))));
    }
    let (input, from) = term(input)?;
    if !input.is_symbol("..") {
        return Ok((input, Selector::Element(whole, from)));
    }
    let input = input.skip(1);
    if input.is_symbol("]") {
        return Ok((input, Selector::Slice(whole, Some(from), None)));
    }
    let (input, to) = term(input)?;
    Ok((input, Selector::Slice(whole, Some(from), Some(to))))
}

/// The functions of which the argument is a column and not its value.
const COLUMN_TIMES: [(&str, ColumnTime); 3] = [
    ("writetime", ColumnTime::WriteTime),
    ("maxwritetime", ColumnTime::MaxWriteTime),
    ("ttl", ColumnTime::TimeToLive),
];

fn simple(input: Tokens<'_>) -> Read<'_, Selector> {
    if let Some((input, constant)) = constant(input) {
        return Ok((input, Selector::Constant(constant)));
    }
    if input.is_keyword("null") {
        return Ok((input.skip(1), Selector::Null));
    }
    if let Some(read) = marker(input) {
        let (input, marker) = read?;
        return Ok((input, Selector::Marker(marker)));
    }
    if is_function_call(input) {
        return deeper(input, function);
    }
    if is_name(input, 0) {
        let (input, column) = name(input)?;
        return Ok((input, Selector::Column(column)));
    }
    if input.is_symbol("[") {
        let (input, selectors) = deeper(input, list_between("[", "]", selector))?;
        return Ok((input, Selector::List(selectors)));
    }
    if input.is_symbol("{") {
        return deeper(input.skip(1), braces);
    }
    if input.is_symbol("(") {
        return deeper(input.skip(1), parentheses);
    }
    no_choice(input)
}

fn function(input: Tokens<'_>) -> Read<'_, Selector> {
    // One of each row is as good as the row.
    let is_one = input.ahead(2).is_some_and(|token| token.text == "1");
    let is_of_rows = input.is_symbol_ahead(2, "*") || is_one && input.is_symbol_ahead(3, ")");
    if input.is_keyword("count") && is_of_rows {
        let (input, ()) = symbol(")").parse(input.skip(3))?;
        return Ok((input, Selector::CountRows));
    }
    if input.is_keyword("cast") {
        let (input, inner) = selector(input.skip(2))?;
        let (input, ()) = keyword("as").parse(input)?;
        let (input, native) = native_type(input)?;
        let (input, ()) = symbol(")").parse(input)?;
        return Ok((input, Selector::Cast(Box::new(inner), native)));
    }
    if let Some((_, what)) = COLUMN_TIMES.iter().find(|(word, _)| input.is_keyword(word)) {
        let (input, column) = name(input.skip(2))?;
        let (input, of) = parts(input, Selector::Column(column))?;
        let (input, ()) = symbol(")").parse(input)?;
        return Ok((
            input,
            Selector::ColumnTime {
                what: *what,
                of: Box::new(of),
            },
        ));
    }
    let (input, name) = function_name(input)?;
    let (input, arguments) = list_in_parentheses(selector)(input)?;
    Ok((input, Selector::Function { name, arguments }))
}

/// A type before a selector, or selectors.
fn parentheses(input: Tokens<'_>) -> Read<'_, Selector> {
    if let Ok((after, data_type)) = data_type(input)
        && after.is_symbol(")")
        && (begins_selector(after.skip(1)) || is_negative(after.skip(1), &data_type))
    {
        let (input, inner) = simple(after.skip(1))?;
        return Ok((input, Selector::TypeHint(data_type, Box::new(inner))));
    }
    let (input, selectors) = list(selector)(input)?;
    let (input, ()) = symbol(")").parse(input)?;
    Ok((input, Selector::Tuple(selectors)))
}

/// Whether this is a negative number, behind a type that no column is called by: behind a name, it
/// would be taken off.
fn is_negative(input: Tokens<'_>, before: &RawType) -> bool {
    matches!(before, RawType::Native(_))
        && constant(input).is_some_and(|(_, constant)| constant.text.starts_with('-'))
}

/// Whether a selector may begin here, which nothing but a type can stand before.
fn begins_selector(input: Tokens<'_>) -> bool {
    let is_word = is_name(input, 0) && !input.is_keyword("as");
    is_word
        || constant(input).is_some_and(|(_, constant)| !constant.text.starts_with('-'))
        || input.is_keyword("null")
        || ["(", "{", "?", ":"]
            .iter()
            .any(|open| input.is_symbol(open))
        || input.is_symbol("[")
}

fn braces(input: Tokens<'_>) -> Read<'_, Selector> {
    if input.is_symbol("}") {
        return Ok((input.skip(1), Selector::Set(Vec::new())));
    }
    let (input, first) = selector(input)?;
    if !input.is_symbol(":") {
        let mut selectors = vec![first];
        let (input, rest) = following(input, selector)?;
        selectors.extend(rest);
        let (input, ()) = symbol("}").parse(input)?;
        return Ok((input, Selector::Set(selectors)));
    }
    let entry = |input| {
        let (input, key) = selector(input)?;
        let (input, ()) = symbol(":").parse(input)?;
        let (input, value) = selector(input)?;
        Ok((input, (key, value)))
    };
    let (input, value) = selector(input.skip(1))?;
    let mut entries = vec![(first, value)];
    let (input, rest) = following(input, entry)?;
    entries.extend(rest);
    if !input.is_symbol("}") {
        return expected(input, "'}'");
    }
    Ok((input.skip(1), Selector::MapOrUserType(entries)))
}
