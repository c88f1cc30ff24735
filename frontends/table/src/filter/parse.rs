//! The grammar of `$filter`.
//!
//! ```text
//! disjunction = conjunction ("or" conjunction)*
//! conjunction = condition ("and" condition)*
//! condition   = "not" condition | "(" disjunction ")" | comparison
//! comparison  = operand (("eq" | "ne" | "gt" | "ge" | "lt" | "le") operand)?
//! operand     = property | constant
//! ```
//!
//! One side of a comparison is a property and the other a constant. As in the service, the words
//! are in lower case only, and there are no functions, no arithmetic and no `null`. Only Boolean
//! operands may stand alone: a property, `true`, `false`. The service allows 15 comparisons; here
//! the length and the nesting are limited instead.

use nom::Parser;
use nom::bytes::complete::take_while;
use nom::character::complete::satisfy;
use nom::combinator::{map, recognize, verify};
use nom::sequence::preceded;

use super::expression::{Comparator, Comparison, Expression};
use super::literal::{self, begins_name, continues_name};
use super::mistake::{Mistake, Parsed, refuse};
use crate::entity::Value;
use crate::error::{Code, Result};

const LENGTH_LIMIT: usize = 32 * 1024;
const DEPTH_LIMIT: usize = 200;

/// Reads a filter; none if the text is blank.
pub(crate) fn parse(text: &str) -> Result<Option<Expression>> {
    if text.len() > LENGTH_LIMIT {
        let why = format!("The filter is longer than {LENGTH_LIMIT} bytes.");
        return Err(Code::InvalidInput.because(why));
    }
    if text.trim().is_empty() {
        return Ok(None);
    }
    match whole(text) {
        Ok((_, expression)) => Ok(Some(expression)),
        Err(nom::Err::Error(mistake) | nom::Err::Failure(mistake)) => Err(mistake.into_error(text)),
        // The parsers of complete texts never ask for more.
        Err(nom::Err::Incomplete(_)) => Err(Code::InvalidInput.into()),
    }
}

/// An open level around a condition: the whole filter, or a parenthesis.
#[derive(Default)]
struct Group {
    /// Parts joined by `or` that are complete.
    any: Vec<Expression>,
    /// Parts joined by `and`, the last of which were read last.
    all: Vec<Expression>,
    /// How many `not` stand before it.
    negations: usize,
}

impl Group {
    fn end_conjunction(&mut self) {
        let all = std::mem::take(&mut self.all);
        self.any.push(Expression::all(all));
    }

    fn end(mut self) -> Expression {
        self.end_conjunction();
        negated(Expression::any(self.any), self.negations)
    }
}

fn negated(expression: Expression, times: usize) -> Expression {
    (0..times).fold(expression, |inner, _| Expression::Not(Box::new(inner)))
}

/// Reads a whole filter. Open levels are on a stack of its own, so that nesting does not exhaust
/// the thread's.
fn whole(text: &str) -> Parsed<'_, Expression> {
    let mut outer: Vec<Group> = Vec::new();
    let mut group = Group::default();
    let mut depth = 0;
    let mut rest = text;
    loop {
        let (after, opened) = prefix(rest, &mut depth)?;
        rest = after;
        if let Opened::Parenthesis { negations } = opened {
            let inner = Group {
                negations,
                ..Group::default()
            };
            outer.push(std::mem::replace(&mut group, inner));
            continue;
        }
        let (after, condition) = comparison(rest)?;
        rest = after;
        group.all.push(negated(condition, opened.negations()));
        depth -= opened.negations();
        // What ends here is a condition of the level around it.
        loop {
            if let Ok((after, _)) = word_is("and").parse(rest) {
                rest = after;
                break;
            }
            if let Ok((after, _)) = word_is("or").parse(rest) {
                rest = after;
                group.end_conjunction();
                break;
            }
            (rest, _) = space(rest)?;
            let Some(around) = outer.pop() else {
                if rest.is_empty() {
                    return Ok((rest, group.end()));
                }
                return unexpected(rest, "`and`, `or` or the end is expected");
            };
            let Some(after) = rest.strip_prefix(')') else {
                return unexpected(rest, "`and`, `or` or `)` is expected");
            };
            rest = after;
            let ended = std::mem::replace(&mut group, around);
            depth -= ended.negations + 1;
            group.all.push(ended.end());
        }
    }
}

/// The prefix of a condition.
enum Opened {
    Condition { negations: usize },
    Parenthesis { negations: usize },
}

impl Opened {
    fn negations(&self) -> usize {
        match self {
            Self::Condition { negations } | Self::Parenthesis { negations } => *negations,
        }
    }
}

/// Reads every `not`, and one parenthesis. `depth` is how many of them are open.
fn prefix<'t>(mut input: &'t str, depth: &mut usize) -> Parsed<'t, Opened> {
    let mut negations = 0;
    loop {
        (input, _) = space(input)?;
        if let Ok((rest, _)) = word_is("not").parse(input) {
            deeper(rest, depth)?;
            negations += 1;
            input = rest;
            continue;
        }
        let Some(rest) = input.strip_prefix('(') else {
            return Ok((input, Opened::Condition { negations }));
        };
        deeper(rest, depth)?;
        return Ok((rest, Opened::Parenthesis { negations }));
    }
}

fn deeper<'t>(input: &'t str, depth: &mut usize) -> Parsed<'t, ()> {
    *depth += 1;
    if *depth > DEPTH_LIMIT {
        return refuse(input, "the nesting is too deep");
    }
    Ok((input, ()))
}

fn comparison(input: &str) -> Parsed<'_, Expression> {
    let (rest, left) = operand(input)?;
    let (after_left, _) = space(rest)?;
    let comparator = name(after_left)
        .ok()
        .and_then(|(rest, word)| Some((rest, Comparator::from_word(word)?)));
    let Some((rest, comparator)) = comparator else {
        return Ok((rest, alone(input, left)?.1));
    };
    let (rest, _) = space(rest)?;
    let (rest, right) = operand(rest)?;
    let (property, comparator, constant) = match (left, right) {
        (Operand::Property(name), Operand::Constant(constant)) => (name, comparator, constant),
        (Operand::Constant(constant), Operand::Property(name)) => {
            (name, comparator.mirrored(), constant)
        }
        (Operand::Property(_), Operand::Property(_)) => {
            return refuse(
                input,
                "two properties cannot be compared; a string stands in quotes",
            );
        }
        (Operand::Constant(_), Operand::Constant(_)) => {
            return refuse(input, "two constants cannot be compared");
        }
    };
    let property = property.to_owned();
    let comparison = Comparison {
        property,
        comparator,
        constant,
    };
    Ok((rest, Expression::Comparison(comparison)))
}

/// An operand that is not compared.
fn alone<'t>(input: &'t str, operand: Operand<'t>) -> Parsed<'t, Expression> {
    match operand {
        Operand::Property(name) if is_operator(name) => {
            refuse(input, "a property or a constant is expected")
        }
        Operand::Property(name) => Ok((input, Expression::Property(name.to_owned()))),
        Operand::Constant(Value::Boolean(constant)) => Ok((input, Expression::Constant(constant))),
        Operand::Constant(_) => refuse(input, "a constant that is not Boolean must be compared"),
    }
}

enum Operand<'t> {
    Property(&'t str),
    Constant(Value<'static>),
}

fn operand(input: &str) -> Parsed<'_, Operand<'_>> {
    match input.chars().next() {
        Some('\'') => map(literal::string, |text| {
            Operand::Constant(Value::String(text.into()))
        })
        .parse(input),
        Some('-' | '0'..='9') => map(literal::number, Operand::Constant).parse(input),
        Some(first) if begins_name(first) => word(input),
        Some('"') => refuse(input, "a string stands in single quotes"),
        _ => refuse(input, "a property or a constant is expected"),
    }
}

fn word(input: &str) -> Parsed<'_, Operand<'_>> {
    let (rest, word) = name(input)?;
    if rest.starts_with('\'') {
        let (rest, constant) = literal::typed(input, word, rest)?;
        return Ok((rest, Operand::Constant(constant)));
    }
    if let Some(constant) = literal::word(word) {
        return Ok((rest, Operand::Constant(constant)));
    }
    if word == "null" {
        return refuse(
            input,
            "there is no null: a missing property matches no comparison",
        );
    }
    if rest.trim_start().starts_with('(') {
        return refuse(input, "there are no functions");
    }
    Ok((rest, Operand::Property(word)))
}

/// The error for unexpected text.
fn unexpected<'t, T>(rest: &'t str, expected: &'static str) -> Parsed<'t, T> {
    let word = name(rest).map_or("", |(_, word)| word);
    match word {
        "add" | "sub" | "mul" | "div" | "mod" => refuse(rest, "there is no arithmetic"),
        _ if !is_operator(word) && is_operator(&word.to_ascii_lowercase()) => {
            refuse(rest, "operators are written in lower case")
        }
        _ => refuse(rest, expected),
    }
}

fn is_operator(word: &str) -> bool {
    matches!(word, "and" | "or" | "not") || Comparator::from_word(word).is_some()
}

fn name(input: &str) -> Parsed<'_, &str> {
    recognize((satisfy(begins_name), take_while(continues_name))).parse(input)
}

fn word_is<'t>(
    expected: &'static str,
) -> impl Parser<&'t str, Output = &'t str, Error = Mistake<'t>> {
    preceded(space, verify(name, move |word: &str| word == expected))
}

fn space(input: &str) -> Parsed<'_, &str> {
    take_while(char::is_whitespace).parse(input)
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use proptest::prelude::*;
    use uuid::Uuid;

    use super::*;
    use crate::entity::DateTime;

    fn compared(
        property: &str,
        comparator: Comparator,
        constant: impl Into<Value<'static>>,
    ) -> Expression {
        Expression::Comparison(Comparison {
            property: property.to_owned(),
            comparator,
            constant: constant.into(),
        })
    }

    fn equal(property: &str, constant: Value<'static>) -> Expression {
        compared(property, Comparator::Equal, constant)
    }

    fn string(text: &'static str) -> Value<'static> {
        Value::String(text.into())
    }

    fn check(text: &str, expected: Expression) {
        assert_eq!(parse(text).unwrap(), Some(expected), "{text}");
    }

    /// `at` counts from 1.
    fn check_mistake(text: &str, at: usize, what: &str) {
        let error = parse(text).expect_err(text);
        assert_eq!(error.code, Code::InvalidInput, "{text}");
        assert_eq!(error.message, "One of the request inputs is not valid.");
        let expected = format!("The filter at character {at}: {what}");
        assert!(error.detail.starts_with(&expected), "{text}: {error:?}");
    }

    #[test]
    fn a_blank_filter_is_none() {
        for text in ["", " ", "\t\r\n"] {
            assert_eq!(parse(text), Ok(None), "{text:?}");
        }
    }

    #[test]
    fn comparisons_have_the_property_left() {
        for (text, expected) in [
            (
                "  PartitionKey   eq\t'a'  ",
                equal("PartitionKey", string("a")),
            ),
            ("'a' eq PartitionKey", equal("PartitionKey", string("a"))),
            (
                "5 lt n",
                compared("n", Comparator::GreaterThan, Value::Int32(5)),
            ),
            (
                "n ge -5L",
                compared("n", Comparator::GreaterOrEqual, Value::Int64(-5)),
            ),
            (
                "n ne 1.5",
                compared("n", Comparator::NotEqual, Value::Double(1.5)),
            ),
            ("_foo eq truE", equal("_foo", Value::Boolean(true))),
            ("größe eq'o''clock'", equal("größe", string("o'clock"))),
            (
                "a eq 'x eq ''y'' or z'",
                equal("a", string("x eq 'y' or z")),
            ),
            ("b eq X'ff'", equal("b", Value::Binary(vec![255].into()))),
            (
                "t gt datetime'1970-01-01T00:00:00.001Z'",
                compared(
                    "t",
                    Comparator::GreaterThan,
                    Value::DateTime(DateTime { ticks: 10_000 }),
                ),
            ),
            (
                "guid eq GUID'00000000-0000-0000-0000-000000000000'",
                equal("guid", Value::Guid(Uuid::nil())),
            ),
            ("lt eq INF", equal("lt", Value::Double(f64::INFINITY))),
            ("nothing eq 1", equal("nothing", Value::Int32(1))),
        ] {
            check(text, expected);
        }
    }

    #[test]
    fn or_joins_and_which_joins_not() {
        let property = |name: &str| Expression::Property(name.to_owned());
        let not = |inner| Expression::Not(Box::new(inner));
        let [a, b, c] = ["a", "b", "c"].map(property);
        for (text, expected) in [
            (
                "a and b or c",
                Expression::Or(vec![Expression::And(vec![a.clone(), b.clone()]), c.clone()]),
            ),
            (
                "a and(b or c)",
                Expression::And(vec![a.clone(), Expression::Or(vec![b.clone(), c.clone()])]),
            ),
            (
                "((a)and(b))and c",
                Expression::And(vec![a.clone(), b.clone(), c]),
            ),
            (
                "not a and b",
                Expression::And(vec![not(a.clone()), b.clone()]),
            ),
            ("not b eq true", not(equal("b", Value::Boolean(true)))),
            ("not(not a)", not(not(a.clone()))),
            ("not not a", not(not(a))),
            (
                "true and b",
                Expression::And(vec![Expression::Constant(true), b]),
            ),
            ("FALSE", Expression::Constant(false)),
        ] {
            check(text, expected);
        }
    }

    #[test]
    fn refuses_what_the_service_refuses_and_says_where() {
        for (text, at, what) in [
            ("n eq null", 6, "there is no null"),
            ("null", 1, "there is no null"),
            ("1 eq 1", 1, "two constants"),
            ("true eq true", 1, "two constants"),
            ("a eq b", 1, "two properties"),
            ("PartitionKey eq eq 'a'", 1, "two properties"),
            ("(1)", 2, "a constant that is not Boolean"),
            ("(1 === 1)", 2, "a constant that is not Boolean"),
            ("('a')", 2, "a constant that is not Boolean"),
            ("(\"a\" eq \"a\")", 2, "a string stands in single quotes"),
            ("a eq 'x' eq 5.0", 10, "`and`, `or` or the end"),
            ("(a eq 'x' eq 5.0)", 11, "`and`, `or` or `)`"),
            ("a eq 1 and and b eq 2", 12, "a property or a constant"),
            ("a and or", 7, "a property or a constant"),
            ("a eq 1 and", 11, "a property or a constant"),
            ("a eq", 5, "a property or a constant"),
            ("(a eq 1", 8, "`and`, `or` or `)`"),
            ("a eq 1)", 7, "`and`, `or` or the end"),
            ("()", 2, "a property or a constant"),
            ("foo bar baz", 5, "`and`, `or` or the end"),
            ("a eq 1 OR b eq 2", 8, "operators are written in lower case"),
            ("ü EQ 1", 3, "operators are written in lower case"),
            ("(a And b)", 4, "operators are written in lower case"),
            ("startswith(a,'x')", 1, "there are no functions"),
            ("not startswith (a,'x')", 5, "there are no functions"),
            ("a add 1 eq 2", 3, "there is no arithmetic"),
            ("a eq 1 add 1", 8, "there is no arithmetic"),
            ("a eq 2147483648", 6, "this is not an Int32"),
            ("a eq 1.5L", 6, "this is not an Int64"),
            ("a eq 5and b", 6, "this is not a number"),
            ("a eq 'x", 6, "the string has no closing quote"),
            ("a eq guid'x'", 6, "this is not a GUID"),
            ("a eq datetime'x'", 6, "this is not a time"),
            ("a eq X'1'", 6, "bytes are written"),
            ("a eq time'1'", 6, "constants have no such type"),
            ("a-b eq 1", 2, "`and`, `or` or the end"),
        ] {
            check_mistake(text, at, what);
        }
    }

    #[test]
    fn length_and_nesting_are_limited() {
        let nested = |depth: usize| format!("{}a{}", "(".repeat(depth), ")".repeat(depth));
        let negated = |depth: usize| format!("{}a", "not ".repeat(depth));
        // A stack far smaller than that of the threads that serve.
        let parse = |text: String| {
            let thread = std::thread::Builder::new().stack_size(512 * 1024);
            thread.spawn(move || parse(&text)).unwrap().join().unwrap()
        };
        let both = |depth: usize| {
            let half = depth / 2;
            let ends = ")".repeat(half);
            format!("{}{}a{ends}", "not ".repeat(depth % 2), "not(".repeat(half))
        };
        let mixed = |depth: usize| {
            let opens = "(b and c or not x eq 1 and ".repeat(depth - 1);
            format!("{opens}not a{}", " or y eq 2)".repeat(depth - 1))
        };
        // Side by side nothing is deep.
        let wide = format!("{}a", "not(not(a)) and (not a) or ".repeat(DEPTH_LIMIT));
        assert!(parse(wide).is_ok());
        for write in [&nested as &dyn Fn(usize) -> String, &negated, &both, &mixed] {
            assert!(parse(write(DEPTH_LIMIT)).is_ok());
            let error = parse(write(DEPTH_LIMIT + 1)).unwrap_err();
            assert!(error.detail.contains("the nesting is too deep"));
        }
        let chain = "a or ".repeat(LENGTH_LIMIT / 5);
        assert!(parse(format!("{chain}a")).is_ok());
        assert!(parse(format!("{chain}{chain}a")).is_err());
    }

    fn write(expression: &Expression) -> String {
        let chain = |parts: &[Expression], word: &str| {
            let parts: Vec<String> = parts
                .iter()
                .map(|part| format!("({})", write(part)))
                .collect();
            parts.join(word)
        };
        match expression {
            Expression::Constant(constant) => constant.to_string(),
            Expression::Property(name) => name.clone(),
            Expression::Comparison(comparison) => {
                let words = ["eq", "ne", "gt", "ge", "lt", "le"];
                let word = words
                    .into_iter()
                    .find(|word| Comparator::from_word(word) == Some(comparison.comparator));
                let constant = write_constant(&comparison.constant);
                format!("{} {} {constant}", comparison.property, word.unwrap())
            }
            Expression::And(parts) => chain(parts, " and "),
            Expression::Or(parts) => chain(parts, "or"),
            Expression::Not(inner) => format!("not({})", write(inner)),
        }
    }

    fn write_constant(constant: &Value<'_>) -> String {
        match constant {
            Value::String(text) => format!("'{}'", text.replace('\'', "''")),
            Value::Int32(number) => number.to_string(),
            Value::Int64(number) => format!("{number}L"),
            Value::Double(number) => format!("{number:e}D"),
            Value::Boolean(value) => value.to_string(),
            Value::Guid(guid) => format!("guid'{guid}'"),
            Value::Binary(bytes) => {
                let mut text = "X'".to_owned();
                for byte in &**bytes {
                    write!(text, "{byte:02x}").unwrap();
                }
                text + "'"
            }
            Value::DateTime(_) => unreachable!("not generated"),
        }
    }

    fn constants() -> impl Strategy<Value = Value<'static>> {
        prop_oneof![
            any_string().prop_map(|text| Value::String(text.into())),
            any::<i32>().prop_map(Value::Int32),
            any::<i64>().prop_map(Value::Int64),
            any::<f64>().prop_map(Value::Double),
            any::<bool>().prop_map(Value::Boolean),
            any::<u128>().prop_map(|guid| Value::Guid(Uuid::from_u128(guid))),
            any::<Vec<u8>>().prop_map(|bytes| Value::Binary(bytes.into())),
        ]
    }

    fn any_string() -> impl Strategy<Value = String> {
        "[a'\"() ü]{0,6}"
    }

    fn expressions() -> impl Strategy<Value = Expression> {
        let comparators = proptest::sample::select(vec![
            Comparator::Equal,
            Comparator::NotEqual,
            Comparator::GreaterThan,
            Comparator::GreaterOrEqual,
            Comparator::LessThan,
            Comparator::LessOrEqual,
        ]);
        let leaf = prop_oneof![
            any::<bool>().prop_map(Expression::Constant),
            "p[a-zü_0-9]{0,4}".prop_map(Expression::Property),
            ("p[a-zü_0-9]{0,4}", comparators, constants())
                .prop_map(|(name, comparator, constant)| compared(&name, comparator, constant)),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            let parts = proptest::collection::vec(inner.clone(), 2..4);
            prop_oneof![
                parts.clone().prop_map(Expression::all),
                parts.prop_map(Expression::any),
                inner.prop_map(|inner| Expression::Not(Box::new(inner))),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(expression in expressions()) {
            let text = write(&expression);
            prop_assert_eq!(parse(&text), Ok(Some(expression)), "{}", text);
        }

        #[test]
        fn any_text_is_read_or_refused(
            text in ".*",
            words in "(and|or|not|eq|[(]|[)]| |'|''|a|1|L|-|[.]|X|guid|null|INF|ü){0,20}",
        ) {
            for text in [text, words] {
                if let Err(error) = parse(&text) {
                    prop_assert_eq!(error.code, Code::InvalidInput);
                }
            }
        }
    }
}
