//! `$regexFind`, `$regexFindAll` and `$regexMatch`.

use bson::{Bson, doc};

use super::operator::{Form, Named, Operator, optional, required, take};
use super::string::count;
use super::{Value, fail, is_nullish, null, some};
use crate::error::{Code, Result};
use crate::regex::{self, Captures, Regex};

const ARGUMENTS: Named = Named {
    fields: &[
        required("input", 31022),
        required("regex", 31023),
        optional("options"),
    ],
    not_object: 51103,
    unknown: 31024,
};

/// Longer patterns are refused.
const MAX_PATTERN: usize = 16 << 10;

/// What all matches of one text may take.
const MAX_OUTPUT_BYTES: usize = 64 << 20;

pub(super) const OPERATORS: &[Operator] = &[
    Operator::values("$regexFind", Form::Named(&ARGUMENTS), |v, _| {
        let Some((text, regex)) = parse("$regexFind", v)? else {
            return null();
        };
        match regex.captures_at(&text, 0)? {
            Some(captures) => some(describe(&text, &captures, (0, 0)).0),
            None => null(),
        }
    }),
    Operator::values(
        "$regexFindAll",
        Form::Named(&ARGUMENTS),
        |v, _| match parse("$regexFindAll", v)? {
            Some((text, regex)) => some(find_all(&text, &regex)?),
            None => some(Vec::<Bson>::new()),
        },
    ),
    Operator::values(
        "$regexMatch",
        Form::Named(&ARGUMENTS),
        |v, _| match parse("$regexMatch", v)? {
            Some((text, regex)) => some(regex.is_match(&text)?),
            None => some(false),
        },
    ),
];

/// The text and the pattern; none if either is null.
fn parse(name: &str, values: Vec<Value<'_>>) -> Result<Option<(String, Regex)>> {
    let [input, pattern, options] = take(values);
    let regex = parse_pattern(name, pattern.as_deref(), options.as_deref())?;
    let text = match input.as_deref() {
        Some(Bson::String(text)) => Some(text.clone()),
        other if is_nullish(other) => None,
        _ => return fail(51104, format!("{name} needs 'input' to be of type string")),
    };
    Ok(text.zip(regex))
}

fn parse_pattern(
    name: &str,
    pattern: Option<&Bson>,
    options: Option<&Bson>,
) -> Result<Option<Regex>> {
    let (pattern, own_options) = match pattern {
        Some(Bson::String(pattern)) => (Some(pattern.as_str()), ""),
        Some(Bson::RegularExpression(regex)) => {
            (Some(regex.pattern.as_str()), regex.options.as_str())
        }
        other if is_nullish(other) => (None, ""),
        _ => {
            return fail(
                51105,
                format!("{name} needs 'regex' to be of type string or regex"),
            );
        }
    };
    let options = match options {
        Some(Bson::String(_)) if !own_options.is_empty() => {
            return fail(
                51107,
                format!("{name}: found regex options in both 'regex' and 'options'"),
            );
        }
        Some(Bson::String(options)) => options.as_str(),
        other if is_nullish(other) => own_options,
        _ => {
            return fail(
                51106,
                format!("{name} needs 'options' to be of type string"),
            );
        }
    };
    if pattern.is_some_and(|pattern| pattern.contains('\0')) {
        return fail(
            51109,
            format!("{name}: regular expression cannot contain a null byte"),
        );
    }
    if options.contains('\0') {
        return fail(
            51110,
            format!("{name}: regular expression options contain a null byte"),
        );
    }
    if pattern.is_some_and(|pattern| pattern.len() > MAX_PATTERN) {
        return fail(
            51111,
            format!("Invalid Regex in {name}: the pattern is too long"),
        );
    }
    let Some(pattern) = pattern else {
        return Ok(None);
    };
    match Regex::new(pattern, options) {
        Ok(regex) => Ok(Some(regex)),
        Err(error) if error.code == regex::BAD_PATTERN => {
            fail(51111, format!("Invalid Regex in {name}: {}", error.message))
        }
        Err(mut error) => {
            if error.code == Code::BAD_VALUE {
                error.code = regex::BAD_OPTION;
            }
            Err(error)
        }
    }
}

/// A place in a text: bytes and code points before it.
type Place = (usize, usize);

/// A match as the operators show it, and the place where it begins.
fn describe(text: &str, captures: &Captures, (bytes, points): Place) -> (bson::Document, Place) {
    let piece = |range: &Option<std::ops::Range<usize>>| {
        range
            .clone()
            .and_then(|range| text.get(range))
            .map_or(Bson::Null, Bson::from)
    };
    let start = captures
        .first()
        .cloned()
        .flatten()
        .map_or(bytes, |range| range.start);
    let before = text
        .get(bytes..start)
        .map_or(0, |before| before.chars().count());
    let index = points + before;
    let found = doc! {
        "match": captures.first().map_or(Bson::Null, piece),
        "idx": count(index),
        "captures": captures.iter().skip(1).map(piece).collect::<Vec<_>>(),
    };
    (found, (start, index))
}

fn find_all(text: &str, regex: &Regex) -> Result<Vec<Bson>> {
    let mut found = Vec::new();
    let mut place = (0, 0);
    let mut size = 0;
    loop {
        let Some(captures) = regex.captures_at(text, place.0)? else {
            break;
        };
        let (match_, (start, index)) = describe(text, &captures, place);
        let matched = captures
            .first()
            .cloned()
            .flatten()
            .map_or(0, |range| range.len());
        size += matched * captures.len().max(1) + 64;
        if size > MAX_OUTPUT_BYTES {
            return fail(
                51151,
                "$regexFindAll: the matches exceed the limit of 64 MB",
            );
        }
        found.push(Bson::Document(match_));
        // After an empty match the search goes on behind the next character.
        let step = match matched {
            0 => text
                .get(start..)
                .and_then(|rest| rest.chars().next())
                .map_or(0, char::len_utf8),
            length => length,
        };
        let passed = text
            .get(start..start + step)
            .map_or(0, |passed| passed.chars().count());
        place = (start + step, index + passed);
        if step == 0 || place.0 >= text.len() {
            break;
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use bson::{Bson, Regex, bson};

    use crate::expression::tests::{fails, gives};

    fn regex(pattern: &str, options: &str) -> Bson {
        Bson::RegularExpression(Regex {
            pattern: pattern.try_into().unwrap(),
            options: options.try_into().unwrap(),
        })
    }

    #[test]
    fn finds() {
        gives([
            (
                bson!({ "$regexFind": { "input": "äXbc", "regex": "(b)(z)?" } }),
                bson!({ "match": "b", "idx": 2, "captures": ["b", null] }),
            ),
            (
                bson!({ "$regexFind": { "input": "abc", "regex": "x" } }),
                bson!(null),
            ),
            (
                bson!({ "$regexFind": { "input": null, "regex": "x" } }),
                bson!(null),
            ),
            (
                bson!({ "$regexFindAll": { "input": "aXa", "regex": regex("A", "i") } }),
                bson!([
                    { "match": "a", "idx": 0, "captures": [] },
                    { "match": "a", "idx": 2, "captures": [] },
                ]),
            ),
            (
                bson!({ "$regexFindAll": { "input": "ab", "regex": "" } }),
                bson!([
                    { "match": "", "idx": 0, "captures": [] },
                    { "match": "", "idx": 1, "captures": [] },
                ]),
            ),
            (
                bson!({ "$regexFindAll": { "input": null, "regex": "a" } }),
                bson!([]),
            ),
            (
                bson!({ "$regexMatch": { "input": "ABC", "regex": "b", "options": "i" } }),
                bson!(true),
            ),
            (
                bson!({ "$regexMatch": { "input": "$none", "regex": "b" } }),
                bson!(false),
            ),
        ]);
    }

    #[test]
    fn refuses_malformed_patterns() {
        fails([
            (bson!({ "$regexFind": 1 }), 51103),
            (bson!({ "$regexFind": { "x": 1 } }), 31024),
            (bson!({ "$regexFind": { "regex": "a" } }), 31022),
            (bson!({ "$regexFind": { "input": "a" } }), 31023),
            (bson!({ "$regexFind": { "input": 1, "regex": "a" } }), 51104),
            (bson!({ "$regexFind": { "input": "a", "regex": 1 } }), 51105),
            (
                bson!({ "$regexFind": { "input": "a", "regex": "a", "options": 1 } }),
                51106,
            ),
            (
                bson!({ "$regexFind": { "input": "a", "regex": regex("a", "i"), "options": "i" } }),
                51107,
            ),
            (
                bson!({ "$regexFind": { "input": "a", "regex": "a", "options": "k" } }),
                51108,
            ),
            (
                bson!({ "$regexFind": { "input": "a", "regex": "a\u{0}" } }),
                51109,
            ),
            (
                bson!({ "$regexFind": { "input": "a", "regex": "(" } }),
                51111,
            ),
        ]);
    }
}
