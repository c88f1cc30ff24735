//! What is wrong with a statement, and where, in the words of Cassandra.

use nom::IResult;
use nom::error::{ErrorKind, ParseError};

use super::lexer::{Lexed, Token, TokenKind, line_and_column};
use super::tokens::Tokens;

/// What rules return.
pub(super) type Read<'t, T> = IResult<Tokens<'t>, T, Mistake>;

/// A mistake: how many tokens are left from it on, and what is wrong there.
#[derive(Debug)]
pub(super) struct Mistake {
    left: usize,
    what: What,
}

#[derive(Debug)]
enum What {
    /// No choice begins with the token.
    NoChoice,
    /// Exactly this was expected.
    Expected(String),
    /// The rules were kept, and yet it cannot be right.
    Words(String),
}

/// How many tokens before the wrong one are repeated.
const TOKENS_BEFORE: usize = 10;

impl Mistake {
    /// The whole message.
    pub(super) fn message(self, text: &str, lexed: &Lexed<'_>) -> String {
        let what = match self.what {
            What::Words(words) => return words,
            what => what,
        };
        let index = lexed.tokens.len().saturating_sub(self.left);
        let Some(token) = lexed.tokens.get(index).or(lexed.tokens.last()) else {
            return "the statement is empty".to_owned();
        };
        // What could not be a token comes before what could not be a statement.
        if token.start >= lexed.error_start
            && let Some(error) = &lexed.error
        {
            return error.clone();
        }
        let shown = token
            .text
            .replace('\n', "\\n")
            .replace('\r', "\\r")
            .replace('\t', "\\t");
        let words = match what {
            What::Expected(expected) => format!("mismatched input '{shown}' expecting {expected}"),
            What::NoChoice | What::Words(_) => {
                format!("no viable alternative at input '{shown}'")
            }
        };
        if token.kind == TokenKind::End {
            return format!("line 0:-1 {words}");
        }
        let place = line_and_column(text, token.start);
        format!("{place} {words} ({})", snippet(text, token, lexed))
    }
}

/// The wrong token in brackets, after those before it.
fn snippet(text: &str, token: &Token<'_>, lexed: &Lexed<'_>) -> String {
    let first = token.index.saturating_sub(TOKENS_BEFORE);
    let from = lexed.starts.get(first).copied().unwrap_or(0);
    let before = text.get(from..token.start).unwrap_or_default();
    let rest = text.get(token.start..).unwrap_or_default();
    // As many characters as the token has without quotes, which is how Cassandra counts.
    let characters = token.text.chars().count();
    let length: usize = rest.chars().take(characters).map(char::len_utf8).sum();
    let (wrong, after) = rest.split_at_checked(length).unwrap_or((rest, ""));
    let start = if from == 0 { "" } else { "..." };
    let end = if after.is_empty() { "" } else { "..." };
    format!("{start}{before}[{wrong}]{end}").replace('\n', "")
}

/// No choice begins with the next token.
pub(super) fn no_choice<T>(input: Tokens<'_>) -> Read<'_, T> {
    Err(nom::Err::Error(Mistake {
        left: input.left(),
        what: What::NoChoice,
    }))
}

/// The next token is not this one.
pub(super) fn expected<T>(input: Tokens<'_>, what: impl Into<String>) -> Read<'_, T> {
    let what = What::Expected(what.into());
    Err(nom::Err::Error(Mistake {
        left: input.left(),
        what,
    }))
}

/// Ends the reading for a reason that is no place in the text.
pub(super) fn refuse<T>(input: Tokens<'_>, words: impl Into<String>) -> Read<'_, T> {
    let what = What::Words(words.into());
    Err(nom::Err::Failure(Mistake {
        left: input.left(),
        what,
    }))
}

impl<'t> ParseError<Tokens<'t>> for Mistake {
    fn from_error_kind(input: Tokens<'t>, _: ErrorKind) -> Self {
        Self {
            left: input.left(),
            what: What::NoChoice,
        }
    }

    fn append(_: Tokens<'t>, _: ErrorKind, other: Self) -> Self {
        other
    }

    /// Of two choices that failed, the one that came further says more.
    fn or(self, other: Self) -> Self {
        if self.left <= other.left { self } else { other }
    }
}
