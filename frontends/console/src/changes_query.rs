//! What a request for changes asks for: its parameters, and how it wants them.

use std::time::Duration;

use hyper::header::{ACCEPT, HeaderMap};
use percent_encoding::percent_decode_str;
use tessera_core::feed::changes::{ChangesMode, ChangesStart, FeedRange, WHOLE};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::changes_text::Form;

/// How many changes an answer has if it does not say.
const USUAL: usize = 1_000;
/// The most that one may ask for, unless it follows.
const MOST: usize = 100_000;

/// A request for changes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Wish {
    pub(crate) form: Form,
    pub(crate) begin: Begin,
    /// Whether the answer goes on when all that there is was told.
    pub(crate) follows: bool,
    /// How many changes it has at most, but for the rest of a transaction.
    pub(crate) limit: Option<usize>,
    /// What is sent where nothing happens, and how often.
    pub(crate) heartbeat: Duration,
}

/// Where it begins.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Begin {
    /// Behind a token, in a part of what that reads.
    Behind(String, Option<FeedRange>),
    At(ChangesStart, ChangesMode, FeedRange),
}

impl Wish {
    /// Reads parameters and headers. What is wrong is said in a sentence.
    pub(crate) fn read(query: &str, headers: &HeaderMap) -> Result<Self, String> {
        let accepts = headers.get(ACCEPT).and_then(|value| value.to_str().ok());
        let mut form = match accepts {
            Some(accepts) if accepts.contains("text/event-stream") => Form::Events,
            _ => Form::Lines,
        };
        let (mut from, mut mode, mut after, mut range) = (None, None, None, None);
        let (mut limit, mut follows) = (None, None);
        let mut heartbeat = Duration::from_secs(15);
        for (name, value) in parameters(query)? {
            match name.as_str() {
                "from" => from = Some(start(&value)?),
                "mode" => mode = Some(mode_of(&value)?),
                "after" => after = Some(value),
                "feed-range" => range = Some(range_of(&value)?),
                "limit" => limit = Some(limit_of(&value)?),
                "follow" => follows = Some(truth(&name, &value)?),
                "heartbeat" => heartbeat = heartbeat_of(&value)?,
                "format" => form = Form::named(&value)?,
                other => {
                    return Err(format!(
                        "there is no parameter '{other}'; there is from, mode, after, feed-range, \
                         limit, follow, heartbeat and format"
                    ));
                }
            }
        }
        // What a browser says when it comes back is newer than the address it was given.
        let last = headers.get("last-event-id");
        let last = last.and_then(|value| value.to_str().ok());
        let after = last
            .filter(|id| !id.is_empty())
            .map(str::to_owned)
            .or(after);
        let begin = match after {
            Some(token) => {
                if last.is_none() && (from.is_some() || mode.is_some()) {
                    return Err(
                        "'after' goes on with the mode and from the place that its token has: \
                         leave out 'from' and 'mode'"
                            .into(),
                    );
                }
                Begin::Behind(token, range)
            }
            None => Begin::At(
                from.unwrap_or(ChangesStart::Now),
                mode.unwrap_or(ChangesMode::LatestVersion),
                range.unwrap_or(WHOLE),
            ),
        };
        let follows = follows.unwrap_or(form == Form::Events);
        let usual = (!follows).then_some(USUAL);
        Ok(Self {
            form,
            begin,
            follows,
            limit: limit.or(usual),
            heartbeat,
        })
    }
}

/// Names and values, decoded.
fn parameters(query: &str) -> Result<Vec<(String, String)>, String> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let decoded = pairs.map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let decode = |text: &str| {
            let text = percent_decode_str(text).decode_utf8();
            let text = text.map_err(|_| format!("'{pair}' is not UTF-8"));
            text.map(std::borrow::Cow::into_owned)
        };
        Ok((decode(name)?, decode(value)?))
    });
    let decoded = decoded.collect::<Result<Vec<(String, String)>, String>>()?;
    for (place, (name, _)) in decoded.iter().enumerate() {
        if decoded
            .iter()
            .skip(place + 1)
            .any(|(other, _)| other == name)
        {
            return Err(format!("'{name}' is there twice"));
        }
    }
    Ok(decoded)
}

fn start(value: &str) -> Result<ChangesStart, String> {
    match value {
        "beginning" => return Ok(ChangesStart::Beginning),
        "now" => return Ok(ChangesStart::Now),
        _ => {}
    }
    let moment = OffsetDateTime::parse(value, &Rfc3339).ok();
    let millis = moment.map(|moment| moment.unix_timestamp_nanos() / 1_000_000);
    let millis = millis.and_then(|millis| u64::try_from(millis).ok());
    millis.map(ChangesStart::At).ok_or_else(|| {
        format!(
            "from={value} is not a place to begin: give beginning, now, or a time such as \
             2026-11-19T12:00:00Z"
        )
    })
}

fn mode_of(value: &str) -> Result<ChangesMode, String> {
    match value {
        "latest" => Ok(ChangesMode::LatestVersion),
        "all" => Ok(ChangesMode::AllVersions),
        other => Err(format!(
            "mode={other} is not a mode: give latest (the latest version of each item) or all \
             (all versions and deletes)"
        )),
    }
}

fn range_of(value: &str) -> Result<FeedRange, String> {
    let range = value.split_once("..").and_then(|(first, last)| {
        let range: FeedRange = (first.parse().ok()?, last.parse().ok()?);
        (range.0 <= range.1).then_some(range)
    });
    range.ok_or_else(|| {
        format!(
            "feed-range={value} is not a range: give the first and the last token as FIRST..LAST; \
             GET …/feed lists the ranges of the physical partitions"
        )
    })
}

fn limit_of(value: &str) -> Result<usize, String> {
    let limit = value
        .parse()
        .ok()
        .filter(|limit| (1..=MOST).contains(limit));
    limit.ok_or_else(|| format!("limit={value} is not a number from 1 to {MOST}"))
}

fn heartbeat_of(value: &str) -> Result<Duration, String> {
    let seconds = value.strip_suffix('s').unwrap_or(value).parse().ok();
    let seconds = seconds.filter(|seconds| (1..=300).contains(seconds));
    let seconds = seconds.ok_or_else(|| format!("heartbeat={value} is not 1 to 300 seconds"));
    seconds.map(Duration::from_secs)
}

fn truth(name: &str, value: &str) -> Result<bool, String> {
    match value {
        "true" => Ok(true),
        "false" => Ok(false),
        other => Err(format!("{name}={other} is neither true nor false")),
    }
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    fn read(query: &str) -> Result<Wish, String> {
        Wish::read(query, &HeaderMap::new())
    }

    #[test]
    fn parameters_say_where_to_begin_and_how_to_go_on() {
        let begin = |query| read(query).unwrap().begin;
        let at = |start| Begin::At(start, ChangesMode::LatestVersion, WHOLE);
        assert_eq!(begin(""), at(ChangesStart::Now));
        assert_eq!(begin("from=beginning"), at(ChangesStart::Beginning));
        assert_eq!(
            begin("from=1970-01-01T00:00:01.5Z"),
            at(ChangesStart::At(1_500))
        );
        assert_eq!(
            begin("from=1970-01-01T01%3A00%3A01%2B01:00"),
            at(ChangesStart::At(1_000))
        );
        let all = Begin::At(ChangesStart::Now, ChangesMode::AllVersions, (-5, 7));
        assert_eq!(begin("mode=all&feed-range=-5..7"), all);
        let behind = Begin::Behind("abc".into(), Some((0, 0)));
        assert_eq!(begin("after=abc&feed-range=0..0"), behind);
        let wish = read("follow=true&limit=5&heartbeat=2s").unwrap();
        assert_eq!((wish.follows, wish.limit), (true, Some(5)));
        assert_eq!(wish.heartbeat, Duration::from_secs(2));
        let wish = read("follow=true").unwrap();
        assert_eq!((wish.follows, wish.limit), (true, None));
        let wish = read("format=events").unwrap();
        assert_eq!((wish.form, wish.follows), (Form::Events, true));
        let wish = read("").unwrap();
        assert_eq!((wish.form, wish.limit), (Form::Lines, Some(USUAL)));
    }

    #[test]
    fn a_browser_that_comes_back_goes_on_where_it_was() {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        headers.insert("last-event-id", HeaderValue::from_static("newer"));
        for query in ["mode=all&from=beginning", "after=older", ""] {
            let wish = Wish::read(query, &headers).unwrap();
            assert_eq!(wish.begin, Begin::Behind("newer".into(), None), "{query}");
            assert_eq!((wish.form, wish.follows), (Form::Events, true));
        }
        headers.insert("last-event-id", HeaderValue::from_static(""));
        let wish = Wish::read("after=older", &headers).unwrap();
        assert_eq!(wish.begin, Begin::Behind("older".into(), None));
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        for (query, named) in [
            ("form=now", "'form'"),
            ("from=yesterday", "from=yesterday"),
            ("from=", "from="),
            ("from=1969-12-31T23:59:59Z", "from=1969"),
            ("from=2026-11-19", "from=2026-11-19"),
            ("mode=full", "mode=full"),
            ("mode", "mode="),
            ("after=x&mode=all", "'after'"),
            ("after=x&from=now", "'after'"),
            ("feed-range=5", "feed-range=5"),
            ("feed-range=5..4", "feed-range=5..4"),
            ("feed-range=..", "feed-range=.."),
            ("feed-range=0..9223372036854775808", "feed-range=0"),
            ("limit=0", "limit=0"),
            ("limit=-1", "limit=-1"),
            ("limit=100001", "limit=100001"),
            ("limit=many", "limit=many"),
            ("follow=1", "follow=1"),
            ("heartbeat=0", "heartbeat=0"),
            ("heartbeat=301", "heartbeat=301"),
            ("format=xml", "format=xml"),
            ("limit=1&limit=2", "'limit' is there twice"),
            ("from=%ff", "%ff"),
        ] {
            let refusal = read(query).unwrap_err();
            assert!(refusal.contains(named), "{query}: {refusal}");
        }
    }
}
