//! The grammar of CQL: a text in, a [`Parsed`] statement out. Pure, and bounded in depth and size.
//!
//! `lexer` cuts the text into tokens; the other files are the grammar over tokens, one per family
//! of statements. One or two tokens ahead decide every choice, so that no text is read twice and
//! markers are counted as they come.

mod access;
mod alteration;
mod creation;
mod describe;
mod drop;
#[cfg(test)]
mod fuzz;
mod lexer;
mod mistake;
mod modification;
mod name;
mod property;
mod relation;
mod select;
mod selector;
mod table;
mod term;
mod tokens;

use tessera_core::deadline;

use crate::error::{CqlError, Result};
use crate::statement::{Parsed, RawType, Statement};
use mistake::Read;
use tokens::{Context, Rule, Tokens, choose, end};

/// How deep terms and selectors may nest.
const DEPTH_LIMIT: usize = 50;
/// How deep types may nest as they are written. What a type is resolved to is written with a
/// `frozen<>` around each level of it, and is read again by the same rule: see
/// `schema::type_limits`.
pub(crate) const TYPE_DEPTH_LIMIT: usize = 2 * DEPTH_LIMIT;
/// How many tokens a statement may have.
const TOKEN_LIMIT: usize = 2_000_000;

/// How many bytes of a text are read in a step.
const BYTES_IN_STEP: usize = 8;

/// What each first word begins.
const STATEMENTS: &[(&str, Rule<Statement>)] = &[
    ("add", access::add_identity),
    ("alter", alteration::alter),
    ("begin", modification::batch),
    ("create", creation::create),
    ("delete", modification::delete),
    ("desc", describe::describe),
    ("describe", describe::describe),
    ("drop", drop::drop),
    ("grant", access::grant),
    ("insert", modification::insert),
    ("list", access::list_access),
    ("revoke", access::revoke),
    ("select", select::select),
    ("truncate", table::truncate),
    ("update", modification::update),
    ("use", name::use_keyspace),
];

/// Reads one statement, after which semicolons may follow.
pub(crate) fn parse(text: &str) -> Result<Parsed> {
    let (statement, context) = run(text, |input| {
        let (input, statement) = choose(STATEMENTS)(input)?;
        Ok((tokens::skip_symbols(input, ";"), statement))
    })?;
    let markers = context.into_markers();
    Ok(Parsed { statement, markers })
}

/// Reads a type alone, as the schema's own tables hold it.
pub(crate) fn parse_type(text: &str) -> Result<RawType> {
    run(text, name::data_type).map(|(data_type, _)| data_type)
}

/// Runs a rule over a whole text.
fn run<T>(text: &str, rule: impl for<'t> Fn(Tokens<'t>) -> Read<'t, T>) -> Result<(T, Context)> {
    deadline::step(text.len() / BYTES_IN_STEP)?;
    let context = Context::default();
    let lexed = lexer::lex(text, TOKEN_LIMIT);
    let input = Tokens::new(&lexed.tokens, &context);
    let parsed = rule(input).and_then(|(input, value)| Ok((end(input)?.0, value)));
    match parsed {
        Ok((_, value)) => match lexed.error {
            // Rules cannot say it.
            None => deadline::step(1)
                .map(|()| (value, context))
                .map_err(CqlError::from),
            Some(error) => Err(CqlError::syntax(error)),
        },
        Err(nom::Err::Error(mistake) | nom::Err::Failure(mistake)) => {
            Err(CqlError::syntax(mistake.message(text, &lexed)))
        }
        // Rules over all tokens never ask for more.
        Err(nom::Err::Incomplete(_)) => Err(CqlError::syntax("the statement is incomplete")),
    }
}
