//! Cuts a text into tokens, as Cassandra's lexer does.
//!
//! A minus right before a digit belongs to the number; durations and UUIDs are tokens of their own.

use std::borrow::Cow;

use nom::branch::alt;
use nom::bytes::complete::{tag, tag_no_case, take_while, take_while_m_n, take_while1};
use nom::character::complete::{char, digit1, one_of, satisfy};
use nom::combinator::{opt, recognize};
use nom::multi::{many0_count, many1_count};
use nom::{IResult, Parser};

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenKind {
    /// A keyword or a name without quotes.
    Word,
    QuotedName,
    String,
    Integer,
    Float,
    Boolean,
    Duration,
    Uuid,
    Hex,
    Symbol,
    End,
}

/// A token. Strings and quoted names are without their quotes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Token<'t> {
    pub(super) kind: TokenKind,
    pub(super) text: Cow<'t, str>,
    /// Where it begins, in bytes.
    pub(super) start: usize,
    /// Its place among all tokens, blanks and comments included.
    pub(super) index: usize,
}

/// The tokens of a text, the last of which is the end.
pub(super) struct Lexed<'t> {
    pub(super) tokens: Vec<Token<'t>>,
    /// Where each token begins, blanks and comments included.
    pub(super) starts: Vec<usize>,
    /// What could not be a token, and where that is.
    pub(super) error: Option<String>,
    pub(super) error_start: usize,
}

/// Room for the tokens of most statements.
const USUAL_TOKENS: usize = 32;

/// What stands for the end of a text.
const END: &str = "'<EOF>'";

type Cut<'t> = IResult<&'t str, &'t str>;

/// Cuts the text. What no token begins with ends it.
pub(super) fn lex(text: &str, limit: usize) -> Lexed<'_> {
    let mut lexed = Lexed {
        tokens: Vec::with_capacity(USUAL_TOKENS.min(text.len() + 1)),
        starts: Vec::with_capacity(USUAL_TOKENS.min(text.len())),
        error: None,
        error_start: text.len(),
    };
    let mut rest = text;
    while !rest.is_empty() {
        let start = text.len() - rest.len();
        let index = lexed.starts.len();
        lexed.starts.push(start);
        if let Ok((after, _)) = blank(rest) {
            rest = after;
            continue;
        }
        match token(rest) {
            Ok((after, kind, token_text)) if lexed.tokens.len() < limit => {
                lexed.tokens.push(Token {
                    kind,
                    text: token_text,
                    start,
                    index,
                });
                rest = after;
            }
            Ok(_) => {
                lexed.error = Some(format!("The statement has more than {limit} tokens"));
                break;
            }
            Err(words) => {
                // What is not closed is noticed at the end.
                let place = if words.contains(END) {
                    text.len()
                } else {
                    start
                };
                lexed.error = Some(format!("{} {words}", line_and_column(text, place)));
                lexed.error_start = start;
                break;
            }
        }
    }
    let index = lexed.starts.len();
    let end = Token {
        kind: TokenKind::End,
        text: Cow::Borrowed("<EOF>"),
        start: text.len(),
        index,
    };
    lexed.tokens.push(end);
    lexed
}

/// `line 1:7`: lines count from one, characters from zero.
pub(super) fn line_and_column(text: &str, start: usize) -> String {
    let before = text.get(..start).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before
        .rsplit('\n')
        .next()
        .map_or(0, |line| line.chars().count());
    format!("line {line}:{column}")
}

/// Blanks, or a comment.
fn blank(input: &str) -> Cut<'_> {
    let line = recognize((
        alt((tag("--"), tag("//"))),
        take_while(|c| c != '\n' && c != '\r'),
    ));
    let spaces = take_while1(|c| matches!(c, ' ' | '\t' | '\n' | '\r'));
    if let Some(after) = input.strip_prefix("/*")
        && let Some((_, rest)) = after.split_once("*/")
    {
        let length = input.len() - rest.len();
        return Ok((rest, input.get(..length).unwrap_or_default()));
    }
    alt((spaces, line)).parse(input)
}

/// A kind of token: its rule, and what it may begin with. Most tokens are words, which need not be
/// tried as numbers first.
type TokenRule = (TokenKind, fn(char) -> bool, fn(&str) -> Cut<'_>);

const RULES: [TokenRule; 8] = [
    (TokenKind::Uuid, |first| first.is_ascii_hexdigit(), uuid),
    (TokenKind::Hex, |first| first == '0', hex),
    (TokenKind::Duration, begins_duration, duration),
    (TokenKind::Integer, begins_number, integer),
    (TokenKind::Float, begins_number, float),
    (
        TokenKind::Boolean,
        |first| matches!(first, 't' | 'T' | 'f' | 'F'),
        boolean,
    ),
    (TokenKind::Word, |first| first.is_ascii_alphabetic(), word),
    (TokenKind::Symbol, |_| true, symbol),
];

fn begins_number(first: char) -> bool {
    first.is_ascii_digit() || first == '-'
}

fn begins_duration(first: char) -> bool {
    begins_number(first) || first == 'P'
}

type Cutting<'t> = Result<(&'t str, TokenKind, Cow<'t, str>), String>;

/// The token at the start.
fn token(input: &str) -> Cutting<'_> {
    let Some(first) = input.chars().next() else {
        return Err("no viable alternative at character '<EOF>'".to_owned());
    };
    match first {
        '\'' => delimited(input, '\'', TokenKind::String),
        '"' if !input.starts_with("\"\"") || input.starts_with("\"\"\"") => {
            delimited(input, '"', TokenKind::QuotedName)
        }
        '"' => {
            let rest = input.get(2..).unwrap_or_default();
            Ok((rest, TokenKind::QuotedName, Cow::Borrowed("")))
        }
        '$' => dollars(input),
        _ => {
            for (kind, may_begin, rule) in RULES {
                if may_begin(first)
                    && let Ok((rest, text)) = rule(input)
                {
                    return Ok((rest, kind, Cow::Borrowed(text)));
                }
            }
            Err(format!("no viable alternative at character '{first}'"))
        }
    }
}

/// A text between quotes, in which two quotes stand for one.
fn delimited(input: &str, quote: char, kind: TokenKind) -> Cutting<'_> {
    let body = input.get(1..).unwrap_or_default();
    let mut end = 0;
    let mut has_quotes = false;
    loop {
        let rest = body.get(end..).unwrap_or_default();
        let Some(at) = rest.find(quote) else {
            return Err(format!("mismatched character {END} expecting '{quote}'"));
        };
        let after = rest.get(at + 1..).unwrap_or_default();
        if let Some(more) = after.strip_prefix(quote) {
            has_quotes = true;
            end = body.len() - more.len();
            continue;
        }
        let text = body.get(..end + at).unwrap_or_default();
        let (double, single) = (format!("{quote}{quote}"), quote.to_string());
        let text = if has_quotes {
            Cow::Owned(text.replace(&double, &single))
        } else {
            Cow::Borrowed(text)
        };
        return Ok((after, kind, text));
    }
}

/// A text between two pairs of dollars, in which nothing has a meaning.
fn dollars(input: &str) -> Cutting<'_> {
    let Some(body) = input.strip_prefix("$$") else {
        return Err(format!("mismatched character {END} expecting '$'"));
    };
    match body.split_once("$$") {
        Some((text, rest)) => Ok((rest, TokenKind::String, Cow::Borrowed(text))),
        None => Err(format!("mismatched character {END} expecting '$'")),
    }
}

fn hex_digits(input: &str, count: usize) -> Cut<'_> {
    take_while_m_n(count, count, |c: char| c.is_ascii_hexdigit()).parse(input)
}

fn uuid(input: &str) -> Cut<'_> {
    let four = |input| hex_digits(input, 4);
    let groups = (char('-'), four, char('-'), four, char('-'), four, char('-'));
    recognize((|i| hex_digits(i, 8), groups, |i| hex_digits(i, 12))).parse(input)
}

fn hex(input: &str) -> Cut<'_> {
    recognize((
        tag_no_case("0x"),
        take_while(|c: char| c.is_ascii_hexdigit()),
    ))
    .parse(input)
}

fn duration(input: &str) -> Cut<'_> {
    let minus = || opt(char('-'));
    let standard = recognize((minus(), many1_count((digit1, duration_unit))));
    let two = |input| take_while_m_n(2, 2, |c: char| c.is_ascii_digit()).parse(input);
    let four = take_while_m_n(4, 4, |c: char| c.is_ascii_digit());
    let date = (four, char('-'), two, char('-'), two);
    let time = (char('T'), two, char(':'), two, char(':'), two);
    let alternative = recognize((minus(), char('P'), date, time));
    let weeks = recognize((minus(), char('P'), digit1, char('W')));
    let part = |letter| recognize((digit1::<&str, nom::error::Error<&str>>, char(letter)));
    let days = recognize(many1_count(alt((part('Y'), part('M'), part('D')))));
    let clock = || recognize((char('T'), many1_count((digit1, one_of("HMS")))));
    let iso = recognize((
        minus(),
        char('P'),
        alt((recognize((days, opt(clock()))), clock())),
    ));
    alt((standard, alternative, weeks, iso)).parse(input)
}

fn duration_unit(input: &str) -> Cut<'_> {
    let long = alt((
        tag_no_case("mo"),
        tag_no_case("ms"),
        tag_no_case("us"),
        tag_no_case("µs"),
        tag_no_case("ns"),
    ));
    alt((long, recognize(one_of("yYwWdDhHmMsS")))).parse(input)
}

fn digits(input: &str) -> Cut<'_> {
    recognize((opt(char('-')), digit1)).parse(input)
}

fn exponent(input: &str) -> Cut<'_> {
    recognize((one_of("eE"), opt(one_of("+-")), digit1)).parse(input)
}

/// Digits that no fraction and no exponent follow; a range may.
fn integer(input: &str) -> Cut<'_> {
    let (rest, text) = digits(input)?;
    let is_range = rest.starts_with("..") && !rest.starts_with("...");
    if is_range || (!rest.starts_with('.') && exponent(rest).is_err()) {
        return Ok((rest, text));
    }
    Err(nom::Err::Error(nom::error::make_error(
        input,
        nom::error::ErrorKind::Digit,
    )))
}

fn float(input: &str) -> Cut<'_> {
    let number = recognize((
        digits,
        opt((char('.'), take_while(|c: char| c.is_ascii_digit()))),
        opt(exponent),
    ));
    // These words with a minus are numbers; without it, they are words.
    let named = |input| {
        let (rest, text) = recognize((
            char('-'),
            alt((tag_no_case("nan"), tag_no_case("infinity"))),
        ))
        .parse(input)?;
        ends_word(rest).map(|()| (rest, text))
    };
    alt((number, named)).parse(input)
}

fn boolean(input: &str) -> Cut<'_> {
    let (rest, text) = alt((tag_no_case("true"), tag_no_case("false"))).parse(input)?;
    ends_word(rest).map(|()| (rest, text))
}

fn ends_word(rest: &str) -> Result<(), nom::Err<nom::error::Error<&str>>> {
    if rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_') {
        return Err(nom::Err::Error(nom::error::make_error(
            rest,
            nom::error::ErrorKind::Alpha,
        )));
    }
    Ok(())
}

fn word(input: &str) -> Cut<'_> {
    let first = satisfy(|c| c.is_ascii_alphabetic());
    let more = satisfy(|c| c.is_ascii_alphanumeric() || c == '_');
    recognize((first, many0_count(more))).parse(input)
}

fn symbol(input: &str) -> Cut<'_> {
    let double = alt((
        tag("+="),
        tag("-="),
        tag("<="),
        tag(">="),
        tag("!="),
        tag(".."),
    ));
    alt((double, recognize(one_of("()[]{}<>=+-*/%,;:.?")))).parse(input)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<(TokenKind, String)> {
        let lexed = lex(text, 1000);
        assert_eq!(lexed.error, None, "{text}");
        let tokens = lexed
            .tokens
            .into_iter()
            .filter(|token| token.kind != TokenKind::End);
        tokens
            .map(|token| (token.kind, token.text.into_owned()))
            .collect()
    }

    #[test]
    fn each_kind_of_token_is_told() {
        for (text, kind, content) in [
            ("abc_1", TokenKind::Word, "abc_1"),
            ("\"A \"\"b\"\"\"", TokenKind::QuotedName, "A \"b\""),
            ("\"\"", TokenKind::QuotedName, ""),
            ("'it''s'", TokenKind::String, "it's"),
            ("''", TokenKind::String, ""),
            ("$$a'b$c$$", TokenKind::String, "a'b$c"),
            ("12", TokenKind::Integer, "12"),
            ("-12", TokenKind::Integer, "-12"),
            ("1.5", TokenKind::Float, "1.5"),
            ("1.", TokenKind::Float, "1."),
            ("-1e5", TokenKind::Float, "-1e5"),
            ("1.5E-3", TokenKind::Float, "1.5E-3"),
            ("-Infinity", TokenKind::Float, "-Infinity"),
            ("TRUE", TokenKind::Boolean, "TRUE"),
            ("trueish", TokenKind::Word, "trueish"),
            ("1h30m", TokenKind::Duration, "1h30m"),
            ("-5mo", TokenKind::Duration, "-5mo"),
            ("12µs", TokenKind::Duration, "12µs"),
            ("P1Y2MT3H", TokenKind::Duration, "P1Y2MT3H"),
            (
                "P0001-02-03T04:05:06",
                TokenKind::Duration,
                "P0001-02-03T04:05:06",
            ),
            ("P3W", TokenKind::Duration, "P3W"),
            ("PT5S", TokenKind::Duration, "PT5S"),
            ("0xCAfe", TokenKind::Hex, "0xCAfe"),
            ("0x", TokenKind::Hex, "0x"),
            (
                "f47ac10b-58cc-4372-a567-0e02b2c3d479",
                TokenKind::Uuid,
                "f47ac10b-58cc-4372-a567-0e02b2c3d479",
            ),
            ("!=", TokenKind::Symbol, "!="),
        ] {
            assert_eq!(kinds(text), [(kind, content.to_owned())], "{text}");
        }
    }

    #[test]
    fn no_rule_is_left_out_that_would_apply() {
        let rests = [
            "",
            "a",
            "1",
            "x1",
            "rue",
            "ALSE ",
            "1h30m",
            "h",
            "mo",
            "12.5e3",
            "nan",
            "infinity",
            "1W",
            "1Y2MT3H",
            "T5S",
            "0001-02-03T04:05:06",
            ".5",
            "..",
            "=",
            "-",
            "-1",
            "47ac10b-58cc-4372-a567-0e02b2c3d479",
        ];
        let mut applied = 0;
        for first in (0..=0x2ff).filter_map(char::from_u32) {
            for rest in rests {
                let text = format!("{first}{rest}");
                for (kind, may_begin, rule) in RULES {
                    let applies = rule(&text).is_ok();
                    assert!(may_begin(first) || !applies, "{kind:?} {text:?}");
                    applied += usize::from(applies);
                }
            }
        }
        assert!(applied > 1_000, "{applied}");
    }

    #[test]
    fn neighbours_are_told_apart() {
        let texts = |text| {
            kinds(text)
                .into_iter()
                .map(|(_, text)| text)
                .collect::<Vec<_>>()
        };
        assert_eq!(texts("x = x -3"), ["x", "=", "x", "-3"]);
        assert_eq!(texts("x - 3"), ["x", "-", "3"]);
        assert_eq!(texts("m[1..2]"), ["m", "[", "1", "..", "2", "]"]);
        assert_eq!(texts("a.b"), ["a", ".", "b"]);
        assert_eq!(texts("a--b\nc//d\re/*f\n*/g"), ["a", "c", "e", "g"]);
        assert_eq!(texts("a/b"), ["a", "/", "b"]);
        assert_eq!(texts("?:n"), ["?", ":", "n"]);
    }

    #[test]
    fn mistakes_name_the_place() {
        for (text, words) in [
            ("a @", "line 1:2 no viable alternative at character '@'"),
            (
                "a\n 'b",
                "line 2:3 mismatched character '<EOF>' expecting '''",
            ),
            (
                "\"x",
                "line 1:2 mismatched character '<EOF>' expecting '\"'",
            ),
            ("$$x", "line 1:3 mismatched character '<EOF>' expecting '$'"),
            ("é", "line 1:0 no viable alternative at character 'é'"),
        ] {
            assert_eq!(lex(text, 1000).error.as_deref(), Some(words));
        }
        let many = lex("a a a", 2);
        assert_eq!(
            many.error.as_deref(),
            Some("The statement has more than 2 tokens")
        );
    }
}
