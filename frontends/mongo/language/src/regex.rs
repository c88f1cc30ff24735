//! Regular expressions as MongoDB writes them, matched by PCRE2.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use bson::Bson;
use pcre2::bytes::{Regex as Pcre, RegexBuilder};
use tessera_core::deadline::{self, STEPS_BETWEEN_LOOKS};
use tessera_core::memory_budget::{Grant, Purpose};

use crate::error::{Code, Error, Result, bad_value};

/// Longer patterns do not compile.
const MAX_PATTERN_BYTES: usize = 16 * 1024;

/// How many steps one match may take: few at first, so that a pattern cannot hold a worker for
/// long, and more if these were not enough.
const MATCH_LIMITS: [u32; 6] = [64, 512, 4_096, 32_768, 262_144, 2_000_000];

/// Which limit a match begins with. Its steps are a fraction of a millisecond.
const FIRST_LIMIT: usize = 3;

/// A step that meets a back reference compares as many bytes as the group has, which is not
/// counted. So many bytes are compared at most before a match is given up or tried with more steps.
const MAX_COMPARED: usize = 16 << 20;

/// A match with back references that took so long without an end is given up: more steps would take
/// much longer.
const MAX_ATTEMPT: Duration = Duration::from_millis(50);

/// Steps to compile a byte of a pattern.
const BYTE_STEPS: usize = 8;

/// What a compiled pattern takes, with the machine code that it is made into: what small ones were
/// measured to take.
const COMPILED_BYTES: usize = 12 << 10;

/// Steps that are known to be many, before which the worker is given away.
const MANY_STEPS: usize = 10_000;

/// The number of PCRE2's error for a match that reached its limit.
const LIMIT_REACHED: i32 = -47;

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
    compiled: Arc<Compiled>,
    /// What it takes: a request may have hundreds of thousands of patterns.
    _memory: Arc<Grant>,
}

/// A pattern, compiled once for each limit that was needed: limits are part of what is compiled.
#[derive(Debug)]
struct Compiled {
    with_limits: [OnceLock<Pcre>; MATCH_LIMITS.len()],
    refers_back: bool,
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
        if pattern.len() > MAX_PATTERN_BYTES {
            let message = "Regular expression is invalid: pattern string is longer than the limit";
            return Err(Error::new(BAD_PATTERN, message));
        }
        let regex = Self {
            pattern: pattern.to_owned(),
            options: options.to_owned(),
            _memory: Arc::new(deadline::grant(Purpose::Values, COMPILED_BYTES)?),
            compiled: cached(pattern, options),
        };
        regex.at_limit(FIRST_LIMIT)?;
        Ok(regex)
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
        self.attempt(text.len(), |regex| regex.is_match(text.as_bytes()))
    }

    /// Where the pattern next occurs from byte `start` on, and its groups; group 0 is all of it.
    pub fn captures_at(&self, text: &str, start: usize) -> Result<Option<Captures>> {
        self.attempt(text.len().saturating_sub(start), |regex| {
            let mut locations = regex.capture_locations();
            let found = regex.captures_read_at(&mut locations, text.as_bytes(), start)?;
            let group = |number| locations.get(number).map(|(start, end)| start..end);
            Ok(found.map(|_| (0..locations.len()).map(group).collect()))
        })
    }

    /// Matches with few steps, and with more as long as these do not suffice.
    fn attempt<T>(
        &self,
        length: usize,
        run: impl Fn(&Pcre) -> std::result::Result<T, pcre2::Error>,
    ) -> Result<T> {
        deadline::step(1 + length / 256)?;
        let mut level = self.compiled.first_limit(length);
        if level < FIRST_LIMIT {
            deadline::step(MANY_STEPS)?;
        }
        loop {
            let began = self.compiled.refers_back.then(Instant::now);
            let error = match run(self.at_limit(level)?) {
                Ok(found) => return Ok(found),
                Err(error) => error,
            };
            let is_last = level + 1 >= MATCH_LIMITS.len();
            let is_slow = began.is_some_and(|began| began.elapsed() > MAX_ATTEMPT);
            if error.code() != LIMIT_REACHED || is_last || is_slow {
                return Err(failed(error));
            }
            deadline::step(MANY_STEPS)?;
            level += 1;
        }
    }

    fn at_limit(&self, level: usize) -> Result<&Pcre> {
        let place = self.compiled.with_limits.get(level);
        let limit = MATCH_LIMITS.get(level);
        let (Some(place), Some(limit)) = (place, limit) else {
            let message = "a pattern has no such limit";
            return Err(Error::new(Code::INTERNAL_ERROR, message));
        };
        match place.get() {
            Some(compiled) => Ok(compiled),
            None => {
                // As long as a thousand steps, and for a long pattern as long as many of them.
                deadline::step(STEPS_BETWEEN_LOOKS as usize + self.pattern.len() * BYTE_STEPS)?;
                let compiled = compile(&self.pattern, &self.options, *limit)?;
                Ok(place.get_or_init(|| compiled))
            }
        }
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

impl Compiled {
    fn new(pattern: &str) -> Self {
        Self {
            with_limits: Default::default(),
            refers_back: may_refer_back(pattern),
        }
    }

    /// With which limit a match of so many bytes begins.
    fn first_limit(&self, length: usize) -> usize {
        if !self.refers_back {
            return FIRST_LIMIT;
        }
        let fits = |limit: &u32| (*limit as usize).saturating_mul(length) <= MAX_COMPARED;
        let fitting = MATCH_LIMITS.iter().take_while(|limit| fits(limit)).count();
        fitting.saturating_sub(1).min(FIRST_LIMIT)
    }
}

/// Whether a pattern may have back references: `\\1`, `\\g{1}`, `\\k<name>`, `(?P=name)`.
fn may_refer_back(pattern: &str) -> bool {
    let refers = |pair: &[u8]| matches!(pair, [b'\\', b'1'..=b'9' | b'g' | b'k']);
    pattern.contains("(?P=") || pattern.as_bytes().windows(2).any(refers)
}

fn compile(pattern: &str, options: &str, match_limit: u32) -> Result<Pcre> {
    // The crate has no setters for the limits; at the start of a pattern they can only be lowered.
    let limited = format!("(*LIMIT_MATCH={match_limit})(*LIMIT_HEAP={HEAP_LIMIT_KIB}){pattern}");
    RegexBuilder::new()
        .utf(true)
        .caseless(options.contains('i'))
        .multi_line(options.contains('m'))
        .dotall(options.contains('s'))
        .extended(options.contains('x'))
        // Compiled code does not count what backtracks into a repeated character.
        .jit_if_available(!may_refer_back(pattern))
        .max_jit_stack_size(Some(JIT_STACK_BYTES))
        .build(&limited)
        .map_err(|error| {
            Error::new(
                BAD_PATTERN,
                format!("Regular expression is invalid: {error}"),
            )
        })
}

type Cache = HashMap<(String, String), Arc<Compiled>>;

fn cached(pattern: &str, options: &str) -> Arc<Compiled> {
    static CACHE: Mutex<Option<Cache>> = Mutex::new(None);

    let key = (pattern.to_owned(), options.to_owned());
    let mut guard = CACHE.lock().unwrap_or_else(PoisonError::into_inner);
    let cache = guard.get_or_insert_default();
    if let Some(known) = cache.get(&key) {
        return Arc::clone(known);
    }
    if cache.len() >= CACHED_PATTERNS {
        cache.clear();
    }
    let compiled = Arc::new(Compiled::new(pattern));
    cache.insert(key, Arc::clone(&compiled));
    compiled
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
    fn gives_up_on_back_references_that_compare_for_long() {
        for (pattern, unit, times) in [
            ("^(.*)\\1z", "a", 1_000_000),
            ("^(.*)\\g{1}z", "a", 4_000_000),
            ("^(?<x>.*)\\k<x>z", "ab", 300_000),
            ("^(?P<x>.+)(?P=x)z", "a", 200_000),
            ("(.*)\\1\\1z", "abc", 100_000),
            ("^(?=(a*))(?=(a*))\\1\\2\\1\\2.*(?<=a)b", "a", 100_000),
            ("^(.*)(.*)\\2\\1z", "a", 20_000),
            ("(?i)^(.*)\\1z", "aA", 200_000),
        ] {
            let began = std::time::Instant::now();
            let regex = Regex::new(pattern, "").unwrap();
            let outcome = regex.is_match(&unit.repeat(times));
            assert_ne!(outcome, Ok(true), "{pattern}");
            let took = began.elapsed();
            assert!(took.as_secs() < 30, "{pattern} took {took:?}");
        }
        for (pattern, text) in [
            ("^(a+)-\\1$", "aaa-aaa"),
            ("(\\w+) \\1", "one two two"),
            ("^(a*)b\\1$", "aabaa"),
        ] {
            assert!(Regex::new(pattern, "").unwrap().is_match(text).unwrap());
            let long = format!("{}{text}", "x\n".repeat(200));
            let regex = Regex::new(pattern, "m").unwrap();
            assert!(regex.is_match(&long).unwrap(), "{pattern}");
        }
    }

    #[test]
    fn goes_on_with_more_steps_where_few_do_not_suffice() {
        let text = format!("{}c", "ab".repeat(2_000));
        for (pattern, expected) in [("^(?:a|b|ab)*c$", true), ("a.*b.*a.*d", false)] {
            let regex = Regex::new(pattern, "").unwrap();
            assert_eq!(regex.is_match(&text), Ok(expected), "{pattern}");
        }
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
