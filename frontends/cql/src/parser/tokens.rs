//! The tokens that are left, and the smallest rules over them.

use std::cell::{Cell, RefCell};

use nom::Parser;
use tessera_core::deadline;

use super::lexer::{Token, TokenKind};
use super::mistake::{Mistake, Read, expected, no_choice, refuse};
use super::{DEPTH_LIMIT, TYPE_DEPTH_LIMIT};
use crate::statement::Marker;

/// A rule as a value.
pub(super) type Rule<T> = for<'t> fn(Tokens<'t>) -> Read<'t, T>;

/// What is known of a whole statement while it is read.
#[derive(Debug, Default)]
pub(super) struct Context {
    markers: RefCell<Vec<Option<String>>>,
    operations: Cell<usize>,
}

/// How many operators between numbers a statement may have: a sum is as deep as it is long.
const OPERATION_LIMIT: usize = 1000;

impl Context {
    pub(super) fn into_markers(self) -> Vec<Option<String>> {
        self.markers.into_inner()
    }
}

/// The tokens that are left, and how much deeper they may nest.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tokens<'t> {
    tokens: &'t [Token<'t>],
    context: &'t Context,
    depth: Depth,
}

/// How much deeper the tokens may nest.
#[derive(Clone, Copy, Debug)]
struct Depth {
    of_terms: usize,
    of_types: usize,
}

impl<'t> Tokens<'t> {
    /// The last token is the end of the text.
    pub(super) fn new(tokens: &'t [Token<'t>], context: &'t Context) -> Self {
        let depth = Depth {
            of_terms: DEPTH_LIMIT,
            of_types: TYPE_DEPTH_LIMIT,
        };
        Self {
            tokens,
            context,
            depth,
        }
    }

    pub(super) fn left(self) -> usize {
        self.tokens.len()
    }

    /// The token so many places ahead.
    pub(super) fn ahead(self, places: usize) -> Option<&'t Token<'t>> {
        self.tokens.get(places)
    }

    pub(super) fn is_kind(self, kind: TokenKind) -> bool {
        self.is_kind_ahead(0, kind)
    }

    pub(super) fn is_kind_ahead(self, places: usize, kind: TokenKind) -> bool {
        self.ahead(places).is_some_and(|token| token.kind == kind)
    }

    pub(super) fn is_symbol(self, symbol: &str) -> bool {
        self.is_symbol_ahead(0, symbol)
    }

    pub(super) fn is_symbol_ahead(self, places: usize, symbol: &str) -> bool {
        self.ahead(places)
            .is_some_and(|token| token.kind == TokenKind::Symbol && token.text == symbol)
    }

    pub(super) fn is_keyword(self, word: &str) -> bool {
        self.is_keyword_ahead(0, word)
    }

    pub(super) fn is_keyword_ahead(self, places: usize, word: &str) -> bool {
        self.ahead(places).is_some_and(|token| {
            token.kind == TokenKind::Word && token.text.eq_ignore_ascii_case(word)
        })
    }

    /// The next token, and what follows it. The end follows itself.
    pub(super) fn next(self) -> (Self, Option<&'t Token<'t>>) {
        deadline::note(1);
        match self.tokens.split_first() {
            Some((token, rest)) if !rest.is_empty() => (
                Self {
                    tokens: rest,
                    ..self
                },
                Some(token),
            ),
            other => (self, other.map(|(token, _)| token)),
        }
    }

    /// After so many tokens.
    pub(super) fn skip(self, count: usize) -> Self {
        (0..count).fold(self, |input, _| input.next().0)
    }

    pub(super) fn new_marker(self, name: Option<String>) -> Marker {
        let mut markers = self.context.markers.borrow_mut();
        markers.push(name);
        Marker(markers.len() - 1)
    }
}

/// Runs a rule one level deeper.
pub(super) fn deeper<'t, T>(
    input: Tokens<'t>,
    rule: impl FnOnce(Tokens<'t>) -> Read<'t, T>,
) -> Read<'t, T> {
    let of_terms = input.depth.of_terms.checked_sub(1);
    let depth = of_terms.map(|of_terms| Depth {
        of_terms,
        ..input.depth
    });
    at_depth(input, depth, rule)
}

/// Runs a rule one level deeper within a type.
pub(super) fn deeper_type<'t, T>(
    input: Tokens<'t>,
    rule: impl FnOnce(Tokens<'t>) -> Read<'t, T>,
) -> Read<'t, T> {
    let of_types = input.depth.of_types.checked_sub(1);
    let depth = of_types.map(|of_types| Depth {
        of_types,
        ..input.depth
    });
    at_depth(input, depth, rule)
}

fn at_depth<'t, T>(
    input: Tokens<'t>,
    depth: Option<Depth>,
    rule: impl FnOnce(Tokens<'t>) -> Read<'t, T>,
) -> Read<'t, T> {
    let Some(depth) = depth else {
        return refuse(input, "The statement is nested too deep");
    };
    let (rest, value) = rule(Tokens { depth, ..input })?;
    Ok((
        Tokens {
            depth: input.depth,
            ..rest
        },
        value,
    ))
}

/// Counts one operator between numbers.
pub(super) fn count_operation(input: Tokens<'_>) -> Read<'_, ()> {
    let count = input.context.operations.get() + 1;
    input.context.operations.set(count);
    if count > OPERATION_LIMIT {
        return refuse(input, "The statement has too many operators");
    }
    Ok((input, ()))
}

/// This keyword.
pub(super) fn keyword<'t>(
    word: &'static str,
) -> impl Parser<Tokens<'t>, Output = (), Error = Mistake> + Clone {
    move |input: Tokens<'t>| {
        if input.is_keyword(word) {
            return Ok((input.skip(1), ()));
        }
        // Cassandra's lexer has one name for two words each.
        let name = match word {
            "table" => "COLUMNFAMILY".to_owned(),
            word => word.to_uppercase(),
        };
        expected(input, format!("K_{name}"))
    }
}

/// These keywords, one after the other.
pub(super) fn keywords<'t>(words: &'static [&'static str]) -> impl Fn(Tokens<'t>) -> Read<'t, ()> {
    move |input| {
        let mut rest = input;
        for word in words {
            rest = keyword(word).parse(rest)?.0;
        }
        Ok((rest, ()))
    }
}

/// This symbol.
pub(super) fn symbol<'t>(
    symbol: &'static str,
) -> impl Parser<Tokens<'t>, Output = (), Error = Mistake> + Clone {
    move |input: Tokens<'t>| {
        if input.is_symbol(symbol) {
            return Ok((input.skip(1), ()));
        }
        expected(input, format!("'{symbol}'"))
    }
}

/// If the next tokens are these keywords: takes them.
pub(super) fn has_keywords<'t>(
    input: Tokens<'t>,
    words: &'static [&'static str],
) -> Read<'t, bool> {
    match words.first() {
        Some(first) if input.is_keyword(first) => {
            let (input, ()) = keywords(words)(input)?;
            Ok((input, true))
        }
        _ => Ok((input, false)),
    }
}

pub(super) fn if_not_exists(input: Tokens<'_>) -> Read<'_, bool> {
    has_keywords(input, &["if", "not", "exists"])
}

pub(super) fn if_exists(input: Tokens<'_>) -> Read<'_, bool> {
    has_keywords(input, &["if", "exists"])
}

/// If the next token is this keyword: what follows it.
pub(super) fn after_keyword<'t, T>(
    input: Tokens<'t>,
    word: &'static str,
    rule: impl FnOnce(Tokens<'t>) -> Read<'t, T>,
) -> Read<'t, Option<T>> {
    if !input.is_keyword(word) {
        return Ok((input, None));
    }
    let (input, value) = rule(input.skip(1))?;
    Ok((input, Some(value)))
}

/// One or more, with this symbol between them.
pub(super) fn list_by<'t, T>(
    separator: &'static str,
    rule: impl Fn(Tokens<'t>) -> Read<'t, T>,
) -> impl Fn(Tokens<'t>) -> Read<'t, Vec<T>> {
    move |input| {
        let (mut input, first) = rule(input)?;
        let mut items = vec![first];
        while input.is_symbol(separator) {
            let (rest, item) = rule(input.skip(1))?;
            items.push(item);
            input = rest;
        }
        Ok((input, items))
    }
}

/// One or more, with commas between them.
pub(super) fn list<'t, T>(
    rule: impl Fn(Tokens<'t>) -> Read<'t, T>,
) -> impl Fn(Tokens<'t>) -> Read<'t, Vec<T>> {
    list_by(",", rule)
}

/// One or more, with AND between them.
pub(super) fn conjunction<'t, T>(
    rule: impl Fn(Tokens<'t>) -> Read<'t, T>,
) -> impl Fn(Tokens<'t>) -> Read<'t, Vec<T>> {
    move |input| {
        let (mut input, first) = rule(input)?;
        let mut items = vec![first];
        while input.is_keyword("and") {
            let (rest, item) = rule(input.skip(1))?;
            items.push(item);
            input = rest;
        }
        Ok((input, items))
    }
}

/// A list in parentheses, which may be empty.
pub(super) fn list_in_parentheses<'t, T>(
    rule: impl Fn(Tokens<'t>) -> Read<'t, T>,
) -> impl Fn(Tokens<'t>) -> Read<'t, Vec<T>> {
    list_between("(", ")", rule)
}

/// A list between two symbols, which may be empty.
pub(super) fn list_between<'t, T>(
    open: &'static str,
    close: &'static str,
    rule: impl Fn(Tokens<'t>) -> Read<'t, T>,
) -> impl Fn(Tokens<'t>) -> Read<'t, Vec<T>> {
    move |input| {
        let (input, ()) = symbol(open).parse(input)?;
        if input.is_symbol(close) {
            return Ok((input.skip(1), Vec::new()));
        }
        let (input, items) = list(&rule)(input)?;
        let (input, ()) = symbol(close).parse(input)?;
        Ok((input, items))
    }
}

/// A string.
pub(super) fn string(input: Tokens<'_>) -> Read<'_, String> {
    match input.next() {
        (rest, Some(token)) if token.kind == TokenKind::String => {
            Ok((rest, token.text.clone().into_owned()))
        }
        _ => expected(input, "STRING_LITERAL"),
    }
}

/// The rule that the next keyword begins. The keyword is taken.
pub(super) fn choose<'t, T: 'static>(
    rules: &'static [(&'static str, Rule<T>)],
) -> impl Fn(Tokens<'t>) -> Read<'t, T> {
    move |input| match rules.iter().find(|(word, _)| input.is_keyword(word)) {
        Some((_, rule)) => rule(input.skip(1)),
        None => no_choice(input),
    }
}

/// As many of this symbol as there are.
pub(super) fn skip_symbols<'t>(input: Tokens<'t>, symbol: &str) -> Tokens<'t> {
    let mut input = input;
    while input.is_symbol(symbol) {
        input = input.skip(1);
    }
    input
}

/// Nothing but the end.
pub(super) fn end(input: Tokens<'_>) -> Read<'_, ()> {
    if input.is_kind(TokenKind::End) {
        Ok((input, ()))
    } else {
        expected(input, "EOF")
    }
}
