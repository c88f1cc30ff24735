//! Terms: constants, markers, collections, functions, arithmetic.
//!
//! ```text
//! term    = product (("+" | "-") product)*
//! product = group (("*" | "/" | "%") group)*
//! group   = "-"? simple
//! simple  = value | function | "(" type ")" simple | CAST "(" simple AS native ")"
//! ```

use nom::Parser;

use super::lexer::{Token, TokenKind};
use super::mistake::{Read, no_choice};
use super::name::{data_type, function_name, is_function_call, is_name, name, native_type};
use super::tokens::{
    Tokens, count_operation, deeper, keyword, list, list_between, list_in_parentheses, symbol,
};
use crate::statement::{Arithmetic, Constant, ConstantKind, Marker, Term};

pub(super) fn term(input: Tokens<'_>) -> Read<'_, Term> {
    let (mut input, mut left) = product(input)?;
    while let Some(operator) = operator(input, &SUMS) {
        // `c = value + c` puts a column where a product should be.
        if is_name(input, 1) && !is_function_call(input.skip(1)) && !starts_term(input.skip(1)) {
            break;
        }
        count_operation(input)?;
        let (rest, right) = product(input.skip(1))?;
        left = operation(operator, left, right);
        input = rest;
    }
    Ok((input, left))
}

pub(super) const SUMS: [Arithmetic; 2] = [Arithmetic::Add, Arithmetic::Subtract];
pub(super) const PRODUCTS: [Arithmetic; 3] = [
    Arithmetic::Multiply,
    Arithmetic::Divide,
    Arithmetic::Remainder,
];

fn product(input: Tokens<'_>) -> Read<'_, Term> {
    chain(input, &PRODUCTS, group, operation)
}

/// Operands with some of these operators between them, joined from the left.
pub(super) fn chain<'t, T>(
    input: Tokens<'t>,
    operators: &[Arithmetic],
    operand: fn(Tokens<'t>) -> Read<'t, T>,
    join: fn(Arithmetic, T, T) -> T,
) -> Read<'t, T> {
    let (mut input, mut left) = operand(input)?;
    while let Some(operator) = operator(input, operators) {
        count_operation(input)?;
        let (rest, right) = operand(input.skip(1))?;
        left = join(operator, left, right);
        input = rest;
    }
    Ok((input, left))
}

fn operation(operator: Arithmetic, left: Term, right: Term) -> Term {
    let (left, right) = (Box::new(left), Box::new(right));
    Term::Operation {
        operator,
        left,
        right,
    }
}

/// The operator that comes next, if it is one of these.
fn operator(input: Tokens<'_>, operators: &[Arithmetic]) -> Option<Arithmetic> {
    let text = &input
        .ahead(0)
        .filter(|token| token.kind == TokenKind::Symbol)?
        .text;
    let is_next = |operator: &&Arithmetic| text.len() == 1 && text.starts_with(operator.symbol());
    operators.iter().find(is_next).copied()
}

fn group(input: Tokens<'_>) -> Read<'_, Term> {
    if input.is_symbol("-") {
        let (input, inner) = simple(input.skip(1))?;
        return Ok((input, Term::Negation(Box::new(inner))));
    }
    simple(input)
}

/// Words that begin a term although they are names as well.
fn starts_term(input: Tokens<'_>) -> bool {
    input.is_keyword("cast") && input.is_symbol_ahead(1, "(")
}

fn simple(input: Tokens<'_>) -> Read<'_, Term> {
    if let Some((input, constant)) = constant(input) {
        return Ok((input, Term::Constant(constant)));
    }
    if input.is_keyword("null") {
        return Ok((input.skip(1), Term::Null));
    }
    if let Some(read) = marker(input) {
        let (input, marker) = read?;
        return Ok((input, Term::Marker(marker)));
    }
    if starts_term(input) {
        return deeper(input.skip(2), cast);
    }
    if is_function_call(input) {
        let (input, name) = function_name(input)?;
        let (input, arguments) = deeper(input, list_in_parentheses(term))?;
        return Ok((input, Term::Function { name, arguments }));
    }
    if input.is_symbol("[") {
        let (input, terms) = deeper(input, list_between("[", "]", term))?;
        return Ok((input, Term::List(terms)));
    }
    if input.is_symbol("{") {
        return deeper(input.skip(1), braces);
    }
    if input.is_symbol("(") {
        return deeper(input.skip(1), parentheses);
    }
    // A name that is no function: what follows it is what cannot be.
    no_choice(if is_name(input, 0) {
        input.skip(1)
    } else {
        input
    })
}

fn cast(input: Tokens<'_>) -> Read<'_, Term> {
    let (input, inner) = simple(input)?;
    let (input, ()) = keyword("as").parse(input)?;
    let (input, native) = native_type(input)?;
    let (input, ()) = symbol(")").parse(input)?;
    Ok((input, Term::Cast(Box::new(inner), native)))
}

/// A type before a term, or a tuple.
fn parentheses(input: Tokens<'_>) -> Read<'_, Term> {
    let is_type = is_name(input, 0) && !is_function_call(input) || input.is_keyword("set");
    // A string may be the class of a type, too; then it stands alone.
    let is_class = input.is_kind(TokenKind::String)
        && input.is_symbol_ahead(1, ")")
        && begins_simple(input.skip(2));
    if is_type && !starts_term(input) || is_class {
        let (input, data_type) = data_type(input)?;
        let (input, ()) = symbol(")").parse(input)?;
        let (input, inner) = simple(input)?;
        return Ok((input, Term::TypeHint(data_type, Box::new(inner))));
    }
    let (input, terms) = list(term)(input)?;
    let (input, ()) = symbol(")").parse(input)?;
    Ok((input, Term::Tuple(terms)))
}

/// Whether a term may begin here.
fn begins_simple(input: Tokens<'_>) -> bool {
    constant(input).is_some()
        || ["(", "[", "{", "?", ":"]
            .iter()
            .any(|open| input.is_symbol(open))
        || is_function_call(input)
}

/// After an opening brace: a set, a map or a user type.
fn braces(input: Tokens<'_>) -> Read<'_, Term> {
    if input.is_symbol("}") {
        return Ok((input.skip(1), Term::Set(Vec::new())));
    }
    if is_name(input, 0) && input.is_symbol_ahead(1, ":") {
        let field = |input| {
            let (input, name) = name(input)?;
            let (input, ()) = symbol(":").parse(input)?;
            let (input, value) = term(input)?;
            Ok((input, (name, value)))
        };
        let (input, fields) = list(field)(input)?;
        let (input, ()) = symbol("}").parse(input)?;
        return Ok((input, Term::UserType(fields)));
    }
    let (input, first) = term(input)?;
    if !input.is_symbol(":") {
        let (input, mut terms) = (input, vec![first]);
        let (input, rest) = following(input, term)?;
        terms.extend(rest);
        let (input, ()) = symbol("}").parse(input)?;
        return Ok((input, Term::Set(terms)));
    }
    let (input, value) = term(input.skip(1))?;
    let mut entries = vec![(first, value)];
    let (input, rest) = following(input, map_entry)?;
    entries.extend(rest);
    let (input, ()) = symbol("}").parse(input)?;
    Ok((input, Term::Map(entries)))
}

pub(super) fn map_entry(input: Tokens<'_>) -> Read<'_, (Term, Term)> {
    let (input, key) = term(input)?;
    let (input, ()) = symbol(":").parse(input)?;
    let (input, value) = term(input)?;
    Ok((input, (key, value)))
}

/// More of a list whose first item was read.
pub(super) fn following<'t, T>(
    input: Tokens<'t>,
    rule: impl Fn(Tokens<'t>) -> Read<'t, T>,
) -> Read<'t, Vec<T>> {
    if input.is_symbol(",") {
        list(rule)(input.skip(1))
    } else {
        Ok((input, Vec::new()))
    }
}

/// A constant, if one is next.
pub(super) fn constant(input: Tokens<'_>) -> Option<(Tokens<'_>, Constant)> {
    let token = input.ahead(0)?;
    let (kind, text) = constant_of(token)?;
    Some((input.skip(1), Constant { kind, text }))
}

fn constant_of(token: &Token<'_>) -> Option<(ConstantKind, String)> {
    let kind = match token.kind {
        TokenKind::String => ConstantKind::String,
        TokenKind::Integer => ConstantKind::Integer,
        TokenKind::Boolean => ConstantKind::Boolean,
        TokenKind::Duration => ConstantKind::Duration,
        TokenKind::Uuid => ConstantKind::Uuid,
        TokenKind::Hex => ConstantKind::Hex,
        TokenKind::Float | TokenKind::Word => {
            let word = token.text.to_ascii_lowercase();
            let text = match word.as_str() {
                "nan" | "-nan" => "NaN",
                "infinity" => "Infinity",
                "-infinity" => "-Infinity",
                _ if token.kind == TokenKind::Word => return None,
                _ => &token.text,
            };
            return Some((ConstantKind::Float, text.to_owned()));
        }
        TokenKind::QuotedName | TokenKind::Symbol | TokenKind::End => return None,
    };
    Some((kind, token.text.clone().into_owned()))
}

/// A marker, if one is next: `?` or `:name`.
pub(super) fn marker(input: Tokens<'_>) -> Option<Read<'_, Marker>> {
    if input.is_symbol("?") {
        return Some(Ok((input.skip(1), input.new_marker(None))));
    }
    if !input.is_symbol(":") {
        return None;
    }
    Some(name(input.skip(1)).map(|(rest, name)| (rest, input.new_marker(Some(name)))))
}

/// A whole number or a marker.
pub(super) fn integer_or_marker(input: Tokens<'_>) -> Read<'_, Term> {
    if let Some(read) = marker(input) {
        let (input, marker) = read?;
        return Ok((input, Term::Marker(marker)));
    }
    match constant(input) {
        Some((rest, constant)) if constant.kind == ConstantKind::Integer => {
            Ok((rest, Term::Constant(constant)))
        }
        _ => no_choice(input),
    }
}

#[cfg(test)]
mod tests {
    use crate::parser::run;

    use super::*;

    fn shown(text: &str) -> String {
        match run(text, term) {
            Ok((term, _)) => term.to_string(),
            Err(error) => error.message,
        }
    }

    #[test]
    fn terms_are_read() {
        for text in [
            "1",
            "-1.5",
            "'a'",
            "true",
            "0xff",
            "1h",
            "NULL",
            "?",
            "[1, 2]",
            "[]",
            "{1, 2}",
            "{}",
            "{1: 'a', 2: 'b'}",
            "{a: 1, \"B\": 2}",
            "(1, 'a')",
            "now()",
            "ks.f(1, 'a')",
            "1 + 2 * 3 - 4",
            "-f(1)",
            "(int)1",
            "(list<int>)[1]",
            "CAST(1 AS text)",
            "NaN",
            "-Infinity",
            "f47ac10b-58cc-4372-a567-0e02b2c3d479",
            "token(1, 2)",
            "{(1, 2): [3]}",
            "{now(): 1}",
            "(set<int>){1}",
            "{a: {b: 1}}",
        ] {
            assert_eq!(shown(text), text);
        }
        assert_eq!(shown("(ks.u)?"), "(ks.u)?");
        assert_eq!(shown(":a"), "?");
        assert_eq!(shown("('a')"), "('a')");
    }

    #[test]
    fn products_bind_closer_than_sums() {
        let (sum, _) = run("1 + 2 * 3", term).unwrap();
        let Term::Operation {
            operator, right, ..
        } = sum
        else {
            panic!()
        };
        assert_eq!(
            (operator, right.to_string()),
            (Arithmetic::Add, "2 * 3".to_owned())
        );
        let (difference, _) = run("1 - 2 - 3", term).unwrap();
        let Term::Operation { left, .. } = difference else {
            panic!()
        };
        assert_eq!(left.to_string(), "1 - 2");
    }

    #[test]
    fn markers_are_counted() {
        let (_, context) = run("(?, [:b, ?], f(:\"C\"))", term).unwrap();
        let names = [None, Some("b".to_owned()), None, Some("C".to_owned())];
        assert_eq!(context.into_markers(), names);
    }
}
