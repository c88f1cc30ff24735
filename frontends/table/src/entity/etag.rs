//! The tag of one version of an entity: its time, in quotes.

use std::fmt;
use std::ops::Range;

use percent_encoding::percent_decode_str;

use super::DateTime;
use super::datetime::LENGTH;
use crate::error::{Code, Result, ServiceError};

/// Writes the tag of a version, such as `W/"datetime'2026-11-16T01%3A44%3A04.3937880Z'"`.
#[derive(Clone, Copy)]
pub(crate) struct Etag(pub(crate) DateTime);

impl fmt::Display for Etag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        put_etag(f, self.0)
    }
}

/// The positions of the colons of a time: after the hour and after the minute.
const COLONS: [usize; 2] = [13, 16];

/// The tag of a version, for a header.
pub(crate) fn etag(version: DateTime) -> String {
    let mut tag = String::with_capacity(2 * LENGTH);
    // Writing to memory cannot fail.
    put_etag(&mut tag, version).ok();
    tag
}

fn put_etag(out: &mut impl fmt::Write, version: DateTime) -> fmt::Result {
    let (mut buffer, [hour, minute]) = ([0; LENGTH], COLONS);
    let text = version.text(&mut buffer);
    let part = |range: Range<usize>| text.get(range).unwrap_or_default();
    for text in [
        "W/\"datetime'",
        part(0..hour),
        "%3A",
        part(hour + 1..minute),
        "%3A",
        part(minute + 1..LENGTH),
        "'\"",
    ] {
        out.write_str(text)?;
    }
    Ok(())
}

/// Reads a tag that a client sent. A weak tag that names no time is well formed, and the tag of
/// no version: none.
pub(crate) fn parse_etag(tag: &str) -> Result<Option<DateTime>> {
    let opaque = tag
        .strip_prefix("W/")
        .or_else(|| tag.strip_prefix("w/"))
        .and_then(|quoted| quoted.strip_prefix('"')?.strip_suffix('"'))
        .filter(|opaque| !opaque.contains('"'))
        .ok_or_else(|| malformed(tag))?;
    let time = opaque
        .strip_prefix("datetime'")
        .and_then(|time| time.strip_suffix('\''))
        .and_then(|time| percent_decode_str(time).decode_utf8().ok());
    Ok(time.and_then(|time| DateTime::parse(&time)))
}

fn malformed(tag: &str) -> ServiceError {
    ServiceError::new(
        Code::InvalidInput,
        format!(
            "The etag value '{tag}' specified in one of the request headers is not valid. \
             Please make sure only one etag value is specified and is valid."
        ),
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn moment() -> DateTime {
        DateTime::parse("2026-11-16T01:44:04.393788Z").unwrap()
    }

    #[test]
    fn has_seven_digits_and_no_colon() {
        assert_eq!(
            etag(moment()),
            "W/\"datetime'2026-11-16T01%3A44%3A04.3937880Z'\""
        );
    }

    #[test]
    fn reads_weak_tags() {
        for (tag, expected) in [
            (
                "W/\"datetime'2026-11-16T01%3A44%3A04.3937880Z'\"",
                Some(moment()),
            ),
            (
                "w/\"datetime'2026-11-16T01%3a44%3a04.393788Z'\"",
                Some(moment()),
            ),
            (
                "W/\"datetime'2026-11-16T01:44:04.393788Z'\"",
                Some(moment()),
            ),
            ("W/\"wrong\"", None),
            ("W/\"datetime'yesterday'\"", None),
            ("W/\"\"", None),
        ] {
            assert_eq!(parse_etag(tag), Ok(expected), "{tag}");
        }
    }

    #[test]
    fn refuses_other_tags() {
        for tag in [
            "",
            "\"",
            "*",
            "wrong",
            "\"wrong\"",
            "W/",
            "W/\"",
            "W/wrong",
            "\"datetime'2015-01-01T23%3A14%3A33.4980000Z'\"",
            "datetime'2015-01-01T23%3A14%3A33.4980000Z'",
            "W/\"a\",W/\"b\"",
        ] {
            let refusal = parse_etag(tag).unwrap_err();
            assert_eq!(refusal.code, Code::InvalidInput, "{tag}");
            assert!(refusal.message.contains(&format!("'{tag}'")), "{refusal:?}");
        }
    }

    proptest! {
        #[test]
        fn tags_read_back(micros in 0u64..253_402_300_800_000_000) {
            let version = DateTime::from_version(micros);
            prop_assert_eq!(parse_etag(&etag(version)), Ok(Some(version)));
        }
    }
}
