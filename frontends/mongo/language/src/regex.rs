//! Regular expressions as MongoDB writes them, matched by PCRE2.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use bson::Bson;
use pcre2::bytes::{Regex as Pcre, RegexBuilder};

use crate::error::{Code, Error, Result, bad_value};

/// Longer patterns do not compile.
const MAX_PATTERN_BYTES: usize = 16 * 1024;

/// How many steps one match may take, so that a pattern cannot hold a worker for long.
const MATCH_LIMIT: u32 = 2_000_000;

/// How much memory one match may take for backtracking.
const HEAP_LIMIT_KIB: u32 = 16 * 1024;

const JIT_STACK_BYTES: usize = 1 << 20;

/// How many compiled patterns are kept for the next query that has them.
const CACHED_PATTERNS: usize = 256;

/// The option of a pattern is none of `imsxu`.
pub const BAD_OPTION: Code = Code(51108);
/// The pattern does not compile.
pub const BAD_PATTERN: Code = Code(51091);
/// Matching was given up.
pub const MATCH_FAILED: Code = Code(51156);

/// A compiled pattern with its options. Equal if both are written the same.
#[derive(Clone, Debug)]
pub struct Regex {
    pattern: String,
    options: String,
    compiled: Arc<Pcre>,
}

impl PartialEq for Regex {
    fn eq(&self, other: &Self) -> bool {
        self.pattern == other.pattern && self.options == other.options
    }
}

impl Regex {
    /// Compiles the pattern. Options: `i` ignores case, `m` lets anchors match at line ends, `s`
    /// lets the dot match line ends, `x` allows blanks and comments, `u` is what is done anyway.
    pub fn new(pattern: &str, options: &str) -> Result<Self> {
        if let Some(unknown) = options.chars().find(|option| !"imsxu".contains(*option)) {
            let message = format!("invalid flag in regex options: {unknown}");
            return Err(Error::new(BAD_OPTION, message));
        }
        if pattern.contains('\0') {
            return Err(bad_value(
                "Regular expression cannot contain an embedded null byte",
            ));
        }
        let compiled = cached(pattern, options)?;
        Ok(Self {
            pattern: pattern.to_owned(),
            options: options.to_owned(),
            compiled,
        })
    }

    /// The pattern of a BSON regular expression.
    pub fn from_bson(regex: &bson::Regex) -> Result<Self> {
        Self::new(regex.pattern.as_str(), regex.options.as_str())
    }

    /// The BSON value.
    pub fn to_bson(&self) -> Bson {
        match (
            self.pattern.as_str().try_into(),
            self.options.as_str().try_into(),
        ) {
            (Ok(pattern), Ok(options)) => Bson::RegularExpression(bson::Regex { pattern, options }),
            // There is no null byte in it, which is the only thing that could be wrong.
            _ => Bson::String(self.pattern.clone()),
        }
    }

    /// As it was written.
    pub fn pattern(&self) -> &str {
        &self.pattern
    }

    /// As they were written.
    pub fn options(&self) -> &str {
        &self.options
    }

    /// Whether this is that very value, rather than whether it matches something.
    pub fn is(&self, regex: &bson::Regex) -> bool {
        self.pattern == regex.pattern.as_str() && self.options == regex.options.as_str()
    }

    /// Whether the pattern occurs in the text.
    pub fn is_match(&self, text: &str) -> Result<bool> {
        self.compiled.is_match(text.as_bytes()).map_err(failed)
    }

    /// Where the pattern next occurs from byte `start` on, and its groups; group 0 is all of it.
    pub fn captures_at(&self, text: &str, start: usize) -> Result<Option<Captures>> {
        let mut locations = self.compiled.capture_locations();
        let found = self
            .compiled
            .captures_read_at(&mut locations, text.as_bytes(), start);
        if found.map_err(failed)?.is_none() {
            return Ok(None);
        }
        let group = |number| locations.get(number).map(|(start, end)| start..end);
        Ok(Some((0..locations.len()).map(group).collect()))
    }

    /// The text that everything this pattern matches begins with, if the pattern says so in the
    /// simplest way: by `^` and plain characters. An index can be searched by it.
    pub fn literal_prefix(&self) -> Option<String> {
        if self.options.contains(['i', 'm', 'x']) || self.pattern.contains('|') {
            return None;
        }
        let rest = self
            .pattern
            .strip_prefix('^')
            .or_else(|| self.pattern.strip_prefix("\\A"))?;
        let mut prefix = String::new();
        let mut characters = rest.chars();
        while let Some(character) = characters.next() {
            match character {
                // The last character need not be there.
                '*' | '?' | '{' => {
                    prefix.pop();
                    break;
                }
                '\\' => match characters.next() {
                    Some(escaped) if escaped.is_ascii_punctuation() => prefix.push(escaped),
                    _ => break,
                },
                '.' | '+' | '[' | ']' | '(' | ')' | '^' | '$' | '}' => break,
                plain => prefix.push(plain),
            }
        }
        (!prefix.is_empty()).then_some(prefix)
    }

    /// Whether nothing but its prefix decides a match, so that an index needs no look at the value.
    pub fn is_only_prefix(&self) -> bool {
        self.literal_prefix().is_some_and(|prefix| {
            self.pattern.strip_prefix('^').is_some_and(|rest| {
                rest == prefix || rest.strip_suffix(".*").is_some_and(|plain| plain == prefix)
            })
        })
    }
}

/// Where each group of a match is, in bytes; groups that took no part have no place.
pub type Captures = Vec<Option<Range<usize>>>;

fn failed(error: pcre2::Error) -> Error {
    let message = format!("Error occurred while executing the regular expression: {error}");
    Error::new(MATCH_FAILED, message)
}

fn compile(pattern: &str, options: &str) -> Result<Pcre> {
    if pattern.len() > MAX_PATTERN_BYTES {
        let message = "Regular expression is invalid: pattern string is longer than the limit";
        return Err(Error::new(BAD_PATTERN, message));
    }
    // The crate has no setters for the limits; at the start of a pattern they can only be lowered.
    let limited = format!("(*LIMIT_MATCH={MATCH_LIMIT})(*LIMIT_HEAP={HEAP_LIMIT_KIB}){pattern}");
    RegexBuilder::new()
        .utf(true)
        .caseless(options.contains('i'))
        .multi_line(options.contains('m'))
        .dotall(options.contains('s'))
        .extended(options.contains('x'))
        .jit_if_available(true)
        .max_jit_stack_size(Some(JIT_STACK_BYTES))
        .build(&limited)
        .map_err(|error| {
            Error::new(
                BAD_PATTERN,
                format!("Regular expression is invalid: {error}"),
            )
        })
}

type Cache = HashMap<(String, String), Arc<Pcre>>;

fn cached(pattern: &str, options: &str) -> Result<Arc<Pcre>> {
    static CACHE: Mutex<Option<Cache>> = Mutex::new(None);

    let key = (pattern.to_owned(), options.to_owned());
    let lock = || CACHE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = lock().as_ref().and_then(|cache| cache.get(&key)) {
        return Ok(Arc::clone(known));
    }
    let compiled = Arc::new(compile(pattern, options)?);
    let mut guard = lock();
    let cache = guard.get_or_insert_default();
    if cache.len() >= CACHED_PATTERNS {
        cache.clear();
    }
    cache.insert(key, Arc::clone(&compiled));
    Ok(compiled)
}

#[cfg(test)]
mod tests {
    use super::Regex;

    #[test]
    fn matches_by_options() {
        for (pattern, options, text, expected) in [
            ("^app", "", "apple", true),
            ("^App", "", "apple", false),
            ("^App", "i", "apple", true),
            ("^CAFÉ", "i", "café", true),
            ("^b", "", "a\nb", false),
            ("^b", "m", "a\nb", true),
            ("a.b", "", "a\nb", false),
            ("a.b", "s", "a\nb", true),
            ("a b # c", "x", "ab", true),
            ("(?i)a(?-i)bc", "", "Abc", true),
            ("^.$", "u", "é", true),
            ("\\w", "", "é", false),
            ("(?<=a)b(?!c)", "", "abd", true),
            ("", "", "", true),
        ] {
            let regex = Regex::new(pattern, options).unwrap();
            assert_eq!(
                regex.is_match(text).unwrap(),
                expected,
                "/{pattern}/{options} {text:?}"
            );
        }
    }

    #[test]
    fn refuses_bad_patterns() {
        let long = "a".repeat(16_385);
        for (pattern, options, code) in [
            ("[a", "", 51091),
            ("a\0b", "", 2),
            ("a", "g", 51108),
            ("a", "i\0m", 51108),
            (&long, "", 51091),
        ] {
            let error = Regex::new(pattern, options).unwrap_err();
            assert_eq!(error.code.0, code, "{:.10} {options:?}", pattern);
        }
        let longest = "a".repeat(16_384);
        assert!(
            Regex::new(&longest, "")
                .unwrap()
                .is_match(&longest)
                .unwrap()
        );
    }

    #[test]
    fn gives_up_on_catastrophic_patterns() {
        let regex = Regex::new("^(a+)+$", "").unwrap();
        let text = format!("{}b", "a".repeat(64));
        assert_eq!(regex.is_match(&text).unwrap_err().code, super::MATCH_FAILED);
    }

    #[test]
    fn knows_the_literal_prefix() {
        for (pattern, options, expected, only) in [
            ("^abc", "", Some("abc"), true),
            ("^abc.*", "", Some("abc"), true),
            ("^abc$", "", Some("abc"), false),
            ("^a\\.b", "", Some("a.b"), false),
            ("^ab*", "", Some("a"), false),
            ("^ab+", "", Some("ab"), false),
            ("^a|b", "", None, false),
            ("^abc", "i", None, false),
            ("abc", "", None, false),
            ("^\\d", "", None, false),
        ] {
            let regex = Regex::new(pattern, options).unwrap();
            assert_eq!(
                regex.literal_prefix().as_deref(),
                expected,
                "/{pattern}/{options}"
            );
            assert_eq!(regex.is_only_prefix(), only, "/{pattern}/{options}");
        }
    }

    #[test]
    fn finds_groups() {
        let regex = Regex::new("(b)(x)?", "").unwrap();
        let found = regex.captures_at("abcb", 2).unwrap();
        assert_eq!(found, Some(vec![Some(3..4), Some(3..4), None]));
        assert_eq!(regex.captures_at("aaa", 0).unwrap(), None);
    }
}
