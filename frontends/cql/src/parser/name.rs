//! Names and types.

use nom::Parser;

use super::lexer::{Token, TokenKind};
use super::mistake::{Read, no_choice, refuse};
use super::tokens::{Tokens, deeper_type, list, string, symbol};
use crate::statement::{QualifiedName, RawType, Statement, is_reserved, is_reserved_type};
use crate::types::Native;

/// The name that a token is: in lower case unless it is quoted.
pub(super) fn name_of(token: &Token<'_>) -> Option<String> {
    match token.kind {
        TokenKind::QuotedName => Some(token.text.clone().into_owned()),
        TokenKind::Word => {
            let name = token.text.to_ascii_lowercase();
            (!is_reserved(&name)).then_some(name)
        }
        _ => None,
    }
}

/// A name of anything. Quoted and empty is the name of no column that can be defined.
pub(super) fn name(input: Tokens<'_>) -> Read<'_, String> {
    match input.next() {
        (rest, Some(token)) => match name_of(token) {
            Some(name) => Ok((rest, name)),
            None => no_choice(input),
        },
        (_, None) => no_choice(input),
    }
}

/// A name that something can be defined with: not the empty one.
pub(super) fn defined_name(input: Tokens<'_>) -> Read<'_, String> {
    let is_empty = input
        .ahead(0)
        .is_some_and(|token| token.kind == TokenKind::QuotedName && token.text.is_empty());
    if is_empty {
        no_choice(input)
    } else {
        name(input)
    }
}

/// Whether a name begins so many places ahead.
pub(super) fn is_name(input: Tokens<'_>, places: usize) -> bool {
    input
        .ahead(places)
        .is_some_and(|token| name_of(token).is_some())
}

/// A name for which markers are refused in words of their own.
fn fixed_name<'t>(input: Tokens<'t>, what: &str) -> Read<'t, String> {
    if input.is_symbol("?") {
        return refuse(
            input,
            format!("Bind variables cannot be used for {what} names"),
        );
    }
    defined_name(input)
}

pub(super) fn keyspace_name(input: Tokens<'_>) -> Read<'_, String> {
    fixed_name(input, "keyspace")
}

pub(super) fn index_name(input: Tokens<'_>) -> Read<'_, String> {
    fixed_name(input, "index")
}

/// A name, perhaps after that of its keyspace.
fn qualified<'t>(input: Tokens<'t>, what: &str) -> Read<'t, QualifiedName> {
    let has_keyspace = input.is_symbol_ahead(1, ".");
    let (input, first) = fixed_name(input, if has_keyspace { "keyspace" } else { what })?;
    if !has_keyspace {
        return Ok((
            input,
            QualifiedName {
                keyspace: None,
                name: first,
            },
        ));
    }
    let (input, name) = fixed_name(input.skip(1), what)?;
    Ok((
        input,
        QualifiedName {
            keyspace: Some(first),
            name,
        },
    ))
}

pub(super) fn table_name(input: Tokens<'_>) -> Read<'_, QualifiedName> {
    qualified(input, "table")
}

pub(super) fn qualified_index_name(input: Tokens<'_>) -> Read<'_, QualifiedName> {
    qualified(input, "index")
}

/// A name, a string, or a quoted name.
pub(super) fn role_name(input: Tokens<'_>) -> Read<'_, String> {
    if input.is_kind(TokenKind::String) {
        return string(input);
    }
    fixed_name(input, "role")
}

/// The name of a function: TOKEN and COUNT are such, too.
pub(super) fn function_name(input: Tokens<'_>) -> Read<'_, QualifiedName> {
    let local = |input: Tokens<'_>| -> Option<String> {
        if input.is_keyword("token") {
            return Some("token".to_owned());
        }
        input.ahead(0).and_then(name_of)
    };
    let Some(first) = local(input) else {
        return no_choice(input);
    };
    if !input.is_symbol_ahead(1, ".") {
        return Ok((
            input.skip(1),
            QualifiedName {
                keyspace: None,
                name: first,
            },
        ));
    }
    match local(input.skip(2)) {
        Some(name) => Ok((
            input.skip(3),
            QualifiedName {
                keyspace: Some(first),
                name,
            },
        )),
        None => no_choice(input.skip(2)),
    }
}

/// Whether the name of a function and a parenthesis follow.
pub(super) fn is_function_call(input: Tokens<'_>) -> bool {
    let is_named = |places| is_name(input, places) || input.is_keyword_ahead(places, "token");
    is_named(0) && input.is_symbol_ahead(1, "(")
        || is_name(input, 0)
            && input.is_symbol_ahead(1, ".")
            && is_named(2)
            && input.is_symbol_ahead(3, "(")
}

/// A name of a user type. The names of native types are none.
pub(super) fn type_name(input: Tokens<'_>) -> Read<'_, QualifiedName> {
    let (rest, found) = qualified(input, "type")?;
    let at = input.skip(if found.keyspace.is_some() { 2 } else { 0 });
    let is_bare = at.is_kind(TokenKind::Word);
    if is_bare && is_reserved_type(&found.name) {
        return refuse(
            at,
            format!("Invalid (reserved) user type name {}", found.name),
        );
    }
    if is_bare && Native::from_name(&found.name).is_some() {
        return no_choice(at);
    }
    Ok((rest, found))
}

/// A native type.
pub(super) fn native_type(input: Tokens<'_>) -> Read<'_, Native> {
    let native = input
        .ahead(0)
        .filter(|token| token.kind == TokenKind::Word)
        .and_then(|token| Native::from_name(&token.text.to_ascii_lowercase()));
    match native {
        Some(native) => Ok((input.skip(1), native)),
        None => no_choice(input),
    }
}

/// A type as it is written.
pub(super) fn data_type(input: Tokens<'_>) -> Read<'_, RawType> {
    if input.is_kind(TokenKind::String) {
        let (input, class) = string(input)?;
        return Ok((input, RawType::Custom(class)));
    }
    let is_generic = input.is_symbol_ahead(1, "<");
    match input
        .ahead(0)
        .map(|token| token.text.to_ascii_lowercase())
        .as_deref()
    {
        Some(generic) if is_generic && input.is_kind(TokenKind::Word) => {
            let start = input.skip(2);
            let (rest, data_type) = deeper_type(start, |inner| generic_type(inner, generic))?;
            let (rest, ()) = symbol(">").parse(rest)?;
            Ok((rest, data_type))
        }
        _ => match native_type(input) {
            Ok((rest, native)) if !rest.is_symbol(".") => Ok((rest, RawType::Native(native))),
            _ => type_name(input).map(|(rest, name)| (rest, RawType::User(name))),
        },
    }
}

/// What is between the angle brackets of a type.
fn generic_type<'t>(input: Tokens<'t>, generic: &str) -> Read<'t, RawType> {
    let boxed = |rule: fn(Box<RawType>) -> RawType| {
        let (rest, inner) = data_type(input)?;
        Ok((rest, rule(Box::new(inner))))
    };
    match generic {
        "list" => boxed(RawType::List),
        "set" => boxed(RawType::Set),
        "frozen" => boxed(RawType::Frozen),
        "map" => {
            let (rest, key) = data_type(input)?;
            let (rest, ()) = symbol(",").parse(rest)?;
            let (rest, value) = data_type(rest)?;
            Ok((rest, RawType::Map(Box::new(key), Box::new(value))))
        }
        "tuple" => {
            let (rest, types) = list(data_type)(input)?;
            Ok((rest, RawType::Tuple(types)))
        }
        "vector" => {
            let (rest, element) = data_type(input)?;
            let (rest, ()) = symbol(",").parse(rest)?;
            let (rest, dimension) = integer(rest)?;
            Ok((rest, RawType::Vector(Box::new(element), dimension)))
        }
        _ => no_choice(input),
    }
}

/// A whole number that is no value: a dimension, a timestamp of a definition.
pub(super) fn integer(input: Tokens<'_>) -> Read<'_, i64> {
    match input.next() {
        (rest, Some(token)) if token.kind == TokenKind::Integer => match token.text.parse() {
            Ok(number) => Ok((rest, number)),
            Err(_) => refuse(input, format!("For input string: \"{}\"", token.text)),
        },
        _ => super::mistake::expected(input, "INTEGER"),
    }
}

/// `USE keyspace`.
pub(super) fn use_keyspace(input: Tokens<'_>) -> Read<'_, Statement> {
    let (input, name) = keyspace_name(input)?;
    Ok((input, Statement::Use(name)))
}
