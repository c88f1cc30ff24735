//! Resume tokens: a position in the change feed as clients carry it, `{_data: "…"}` in hexadecimal
//! digits.

use bson::{Document, RawBsonRef, RawDocument, doc};
use tessera_core::feed::position::Position;
use tessera_mongo_language::error::{Code, Error, failed_to_parse};

use crate::failure::{Failure, Result};

/// The form of the bytes below. Another form would have another number.
const FORMAT: u8 = 1;

/// More digits than any token has.
const MAX_DIGITS: usize = 256;

/// Where a stream stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) position: Position,
    pub(crate) at: At,
}

/// What stands at the position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum At {
    /// The event of this change, or the last part of what it is told in.
    Event,
    /// An earlier part, by its number: one of several events of the change, or of the fragments of
    /// a large one.
    Part(u32),
    /// The end of the stream, which this change brought.
    Invalidate,
    /// No event: all before was told (a high-water mark).
    Mark,
}

impl Token {
    /// The token of the event of a change.
    pub(crate) fn event(position: Position) -> Self {
        let at = At::Event;
        Self { position, at }
    }

    /// The token of a part of what a change is told in.
    pub(crate) fn part(position: Position, number: u32) -> Self {
        let at = At::Part(number);
        Self { position, at }
    }

    /// The token of the end of a stream, which the change at this position brought.
    pub(crate) fn invalidate(position: Position) -> Self {
        let at = At::Invalidate;
        Self { position, at }
    }

    /// The token that says that everything up to here was told.
    pub(crate) fn mark(position: Position) -> Self {
        let at = At::Mark;
        Self { position, at }
    }

    /// The token as clients see it.
    pub(crate) fn document(self) -> Document {
        doc! { "_data": self.text() }
    }

    fn text(self) -> String {
        let mut bytes = vec![FORMAT];
        match self.at {
            At::Event => bytes.push(0),
            At::Invalidate => bytes.push(1),
            At::Mark => bytes.push(2),
            At::Part(number) => {
                bytes.push(3);
                bytes.extend(number.to_be_bytes());
            }
        }
        bytes.extend(self.position.encode());
        let bytes = bytes.into_iter();
        bytes.map(|byte| format!("{byte:02X}")).collect()
    }

    /// Reads a token that a client sent.
    pub(crate) fn parse(document: &RawDocument) -> Result<Self> {
        let data = document.get("_data").ok().flatten();
        let Some(RawBsonRef::String(text)) = data else {
            let message = "Bad resume token: _data of missing or of wrong type";
            return Err(Error::new(Code(40_647), message).into());
        };
        check_type_bits(document)?;
        if text.is_empty() {
            let message = "Bad resume token: _data is empty";
            return Err(Error::new(Code(40_649), message).into());
        }
        let bytes = unhex(text).ok_or_else(|| {
            let message = "resume token string was not a valid hex string";
            Failure::from(failed_to_parse(message))
        })?;
        if bytes.first() == Some(&0) {
            let message = "Invalid resume token: its _data begins with an unknown type, 0";
            return Err(Error::new(Code(50_811), message).into());
        }
        Self::decode(&bytes).ok_or_else(|| {
            let message = "Invalid resume token: it is of another server, or damaged";
            Failure::new(Code::INVALID_RESUME_TOKEN, message)
        })
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (&[format, at], mut position) = bytes.split_first_chunk()?;
        let at = match at {
            0 => At::Event,
            1 => At::Invalidate,
            2 => At::Mark,
            3 => {
                let (number, rest) = position.split_first_chunk()?;
                position = rest;
                At::Part(u32::from_be_bytes(*number))
            }
            _ => return None,
        };
        let position = Position::decode(position)?;
        (format == FORMAT).then_some(Self { position, at })
    }
}

/// What MongoDB keeps beside `_data` where values cannot be told from that alone; no token of this
/// server has any.
fn check_type_bits(document: &RawDocument) -> Result<()> {
    match document.get("_typeBits").ok().flatten() {
        None | Some(RawBsonRef::Binary(_)) => Ok(()),
        Some(_) => {
            let message = "Bad resume token: _typeBits of wrong type";
            Err(Error::new(Code(40_648), message).into())
        }
    }
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    if text.len() > MAX_DIGITS || !text.len().is_multiple_of(2) {
        return None;
    }
    let digit = |digit: &u8| char::from(*digit).to_digit(16);
    let pairs = text.as_bytes().chunks_exact(2);
    pairs
        .map(|pair| {
            let [high, low] = pair else { return None };
            u8::try_from(digit(high)? << 4 | digit(low)?).ok()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use bson::{RawDocumentBuf, rawdoc};
    use proptest::prelude::*;
    use tessera_core::feed::stamp::Stamp;

    use super::*;

    fn stamps() -> impl Strategy<Value = Stamp> {
        let parts = (any::<u64>(), any::<u64>(), any::<u32>(), any::<u32>());
        parts.prop_map(|(epoch, version, commit, entry)| Stamp {
            epoch,
            version,
            commit,
            entry,
        })
    }

    fn tokens() -> impl Strategy<Value = Token> {
        let kinds = prop_oneof![
            Just(At::Event),
            Just(At::Invalidate),
            Just(At::Mark),
            any::<u32>().prop_map(At::Part),
        ];
        let positions = (stamps(), proptest::option::of(stamps()));
        (positions, kinds).prop_map(|((stamp, displaced), at)| {
            let position = Position { stamp, displaced };
            Token { position, at }
        })
    }

    fn parse(text: &str) -> std::result::Result<Token, i32> {
        let document = rawdoc! { "_data": text };
        Token::parse(&document).map_err(|failure| failure.code().0)
    }

    proptest! {
        #[test]
        fn tokens_are_read_back(token in tokens()) {
            prop_assert_eq!(parse(&token.text()), Ok(token));
            prop_assert_eq!(parse(&token.text().to_lowercase()), Ok(token));
        }

        #[test]
        fn damaged_tokens_are_refused(token in tokens(), length in 0..52_usize) {
            let text = token.text();
            let code = match length {
                0 => 40_649,
                length if length % 2 == 0 => 260,
                _ => 9,
            };
            prop_assert_eq!(parse(&text[..length]), Err(code));
            let longer = format!("{text}00");
            prop_assert!(parse(&longer).is_err());
        }
    }

    #[test]
    fn what_is_no_token_has_its_code() {
        let refused = |document: RawDocumentBuf| Token::parse(&document).unwrap_err().code().0;
        assert_eq!(refused(rawdoc! {}), 40_647);
        assert_eq!(refused(rawdoc! { "_data": 5 }), 40_647);
        assert_eq!(refused(rawdoc! { "_data": "" }), 40_649);
        assert_eq!(refused(rawdoc! { "_data": "xyz!" }), 9);
        assert_eq!(refused(rawdoc! { "_data": "abc" }), 9);
        assert_eq!(refused(rawdoc! { "_data": "é".repeat(40) }), 9);
        assert_eq!(refused(rawdoc! { "_data": "00" }), 50_811);
        assert_eq!(refused(rawdoc! { "_data": "00", "_typeBits": "x" }), 40_648);
        // As MongoDB's own begin.
        assert_eq!(refused(rawdoc! { "_data": "8263F1" }), 260);
        assert_eq!(refused(rawdoc! { "_data": "1".repeat(1_000) }), 9);
    }
}
