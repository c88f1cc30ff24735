//! The client's options for the answer: its format, its level of metadata, and whether it has a
//! body.

use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderValue};

use crate::entity::{Metadata, Select};
use crate::error::{Code, Result};
use crate::head::Head;
use crate::header_names;
use crate::reply::ErrorForm;

/// Atom was dropped from Table storage with this version of the protocol; Cosmos never had it.
const FIRST_VERSION_WITHOUT_ATOM: &str = "2015-12-11";

/// Refuses an invalid version of the protocol.
pub(crate) fn check_version(head: &Head<'_>) -> Result<()> {
    match head.header(&header_names::VERSION) {
        Some(version) if !is_version(version) => {
            let why = format!("x-ms-version is '{version}', and must be a date such as 2019-02-02");
            Err(Code::InvalidHeaderValue.because(why))
        }
        _ => Ok(()),
    }
}

/// Whether this could name a version of the protocol: they are dates, which sort as text.
pub(crate) fn is_version(text: &str) -> bool {
    text.len() == "2015-04-05".len()
        && text.bytes().zip(0..).all(|(byte, index)| match index {
            4 | 7 => byte == b'-',
            _ => byte.is_ascii_digit(),
        })
}

/// The usual values, which need not be parsed for every request.
const USUAL: &[(&str, Metadata)] = &[
    ("application/json;odata=nometadata", Metadata::None),
    ("application/json;odata=minimalmetadata", Metadata::Minimal),
    ("application/json;odata=fullmetadata", Metadata::Full),
];

/// The format of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Json(Metadata),
    Atom,
}

impl Format {
    /// The format of the answer. `$format` precedes `Accept`.
    pub(crate) fn of_answer(head: &Head<'_>) -> Result<Self> {
        let asked = head.query.get("$format").or(head.header(&ACCEPT));
        let Some(asked) = asked else {
            return Ok(Self::Json(Metadata::Minimal));
        };
        if let Some((_, level)) = USUAL.iter().find(|(usual, _)| *usual == asked) {
            return Ok(Self::Json(*level));
        }
        if let Some(json) = asked.split(',').find_map(json_level) {
            return Ok(Self::Json(json));
        }
        if asked.contains("atom") {
            return Self::atom(head);
        }
        match asked {
            "json" => Ok(Self::Json(Metadata::Minimal)),
            _ if asked.contains("*/*") || asked.contains("application/*") => {
                Ok(Self::Json(Metadata::Minimal))
            }
            // Clients of operations that answer XML ask for that, and get JSON from the others.
            _ if asked.contains("xml") => Ok(Self::Json(Metadata::Minimal)),
            _ => Err(Code::MediaTypeNotSupported.because(format!(
                "'{asked}' is asked for, and there is application/json"
            ))),
        }
    }

    /// The format in which the request's body is.
    pub(crate) fn of_body(head: &Head<'_>) -> Result<Self> {
        match head.header(&CONTENT_TYPE) {
            Some(sent) if sent.contains("atom") => Self::atom(head),
            _ => Ok(Self::Json(Metadata::None)),
        }
    }

    fn atom(head: &Head<'_>) -> Result<Self> {
        let version = head.header(&header_names::VERSION).unwrap_or_default();
        if head.speaks_atom && version < FIRST_VERSION_WITHOUT_ATOM {
            Ok(Self::Atom)
        } else {
            Err(Code::AtomFormatNotSupported.into())
        }
    }

    /// The content type of an answer in this format.
    pub(crate) fn content_type(self, is_feed: bool) -> HeaderValue {
        HeaderValue::from_static(match (self, is_feed) {
            (Self::Json(Metadata::None), _) => {
                "application/json;odata=nometadata;streaming=true;charset=utf-8"
            }
            (Self::Json(Metadata::Minimal), _) => {
                "application/json;odata=minimalmetadata;streaming=true;charset=utf-8"
            }
            (Self::Json(Metadata::Full), _) => {
                "application/json;odata=fullmetadata;streaming=true;charset=utf-8"
            }
            (Self::Atom, true) => "application/atom+xml;type=feed;charset=utf-8",
            (Self::Atom, false) => "application/atom+xml;type=entry;charset=utf-8",
        })
    }
}

fn json_level(media_type: &str) -> Option<Metadata> {
    let media_type = media_type.trim();
    let parameters = media_type.strip_prefix("application/json")?;
    let level = parameters
        .split(';')
        .find_map(|parameter| parameter.trim().strip_prefix("odata="));
    Some(match level {
        Some("nometadata") => Metadata::None,
        Some("fullmetadata") => Metadata::Full,
        _ => Metadata::Minimal,
    })
}

/// The form of refusals for this client, if its operation returns tables and entities.
pub(crate) fn error_form(head: &Head<'_>) -> ErrorForm {
    match Format::of_answer(head) {
        Ok(Format::Atom) => ErrorForm::Atom,
        _ => ErrorForm::Json,
    }
}

/// Whether the client wants to see what it created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Prefer {
    ReturnContent,
    ReturnNoContent,
}

impl Prefer {
    /// The preference in the request, if any.
    pub(crate) fn of(head: &Head<'_>) -> Option<Self> {
        match head.header(&header_names::PREFER)? {
            "return-content" => Some(Self::ReturnContent),
            "return-no-content" => Some(Self::ReturnNoContent),
            _ => None,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ReturnContent => "return-content",
            Self::ReturnNoContent => "return-no-content",
        }
    }
}

/// `$top`, if given: 0 to `limit`, and no limit of the service's own where it has none.
pub(crate) fn top(head: &Head<'_>, limit: Option<usize>) -> Result<Option<usize>> {
    let Some(text) = head.query.get("$top") else {
        return Ok(None);
    };
    let refused = || {
        let range = limit.map_or_else(|| "0 or more".to_owned(), |limit| format!("0 to {limit}"));
        Code::InvalidInput.because(format!("$top is '{text}', and may be {range}"))
    };
    let top: usize = text.trim().parse().map_err(|_| refused())?;
    let allowed = limit.is_none_or(|limit| top <= limit);
    allowed.then_some(Some(top)).ok_or_else(refused)
}

/// `$select`; none if everything is asked for.
pub(crate) fn select(head: &Head<'_>) -> Result<Option<Select>> {
    Select::parse(head.query.get("$select").unwrap_or_default())
}
