//! Errors in filters, with their positions.

use std::borrow::Cow;

use nom::IResult;
use nom::error::{ErrorKind, ParseError};

use crate::error::{Code, ServiceError};

/// The result of parts of the grammar.
pub(super) type Parsed<'t, T> = IResult<&'t str, T, Mistake<'t>>;

/// An error: the rest of the text from its position on, and its description.
#[derive(Debug)]
pub(super) struct Mistake<'t> {
    at: &'t str,
    what: Cow<'static, str>,
}

/// Ends the parse: no other reading of the text is tried.
pub(super) fn refuse<'t, T>(at: &'t str, what: impl Into<Cow<'static, str>>) -> Parsed<'t, T> {
    let what = what.into();
    Err(nom::Err::Failure(Mistake { at, what }))
}

impl Mistake<'_> {
    /// The refusal, the service's message followed by the detail. `text` is the whole filter.
    pub(super) fn into_error(self, text: &str) -> ServiceError {
        let before = text.len().saturating_sub(self.at.len());
        let characters = text
            .char_indices()
            .take_while(|(index, _)| *index < before)
            .count();
        Code::InvalidInput.because(format!(
            "The filter at character {}: {}.",
            characters + 1,
            self.what
        ))
    }
}

impl<'t> ParseError<&'t str> for Mistake<'t> {
    fn from_error_kind(at: &'t str, _: ErrorKind) -> Self {
        let what = Cow::Borrowed("this is not understood");
        Self { at, what }
    }

    fn append(_: &'t str, _: ErrorKind, other: Self) -> Self {
        other
    }
}
