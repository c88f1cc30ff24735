//! Checks that bytes are a BSON document, nested values included, without decoding it. A document
//! that passes can be read by the `bson` crate without an error or a panic, and by [`elements`]
//! without further checks.

use bson::oid::ObjectId;
use bson::{DateTime, RawBsonRef, RawDocument};

use super::{Malformed, take, take_chunk, take_cstring, take_i32, take_to_zero};

/// How deep documents may be nested: 200 levels within a field of a command. Deeper ones are
/// refused by MongoDB too.
const MAX_DEPTH: usize = 202;

/// The smallest document: a length and the end.
const EMPTY_BYTES: usize = 5;

/// Checks a document that fills `bytes`.
pub(crate) fn check(bytes: &[u8]) -> Result<(), Malformed> {
    check_nested(bytes, 1)
}

fn check_nested(bytes: &[u8], depth: usize) -> Result<(), Malformed> {
    if depth > MAX_DEPTH {
        return Err(Malformed {
            code: tessera_mongo_language::error::Code::OVERFLOW,
            message: "documents are nested too deeply",
        });
    }
    let mut input = bytes;
    let length = take_i32(&mut input).and_then(|length| usize::try_from(length).ok());
    if length != Some(bytes.len()) || bytes.len() < EMPTY_BYTES {
        return Err(Malformed::bson("a document's length is not its own"));
    }
    let Some((0, mut input)) = input.split_last().map(|(last, rest)| (*last, rest)) else {
        return Err(Malformed::bson("a document does not end with a zero"));
    };
    while let Some((kind, rest)) = input.split_first() {
        input = rest;
        take_cstring(&mut input).ok_or(Malformed::bson("a field has no proper name"))?;
        check_value(*kind, &mut input, depth)?;
    }
    Ok(())
}

fn check_value(kind: u8, input: &mut &[u8], depth: usize) -> Result<(), Malformed> {
    const CUT_OFF: Malformed = Malformed::bson("a value is longer than its document");
    if let Some(length) = fixed_length(kind) {
        return take(input, length).map(|_| ()).ok_or(CUT_OFF);
    }
    match kind {
        0x08 => match take(input, 1) {
            Some([0 | 1]) => Ok(()),
            _ => Err(Malformed::bson("a boolean is neither true nor false")),
        },
        // string, code, symbol
        0x02 | 0x0d | 0x0e => check_string(input),
        // A database pointer: a string and an object id.
        0x0c => {
            check_string(input)?;
            take(input, 12).map(|_| ()).ok_or(CUT_OFF)
        }
        0x0b => {
            let parts = take_cstring(input).and_then(|_| take_cstring(input));
            parts
                .map(|_| ())
                .ok_or(Malformed::bson("a regular expression is cut off"))
        }
        // document, array
        0x03 | 0x04 => check_nested(take_sized(input).ok_or(CUT_OFF)?, depth + 1),
        0x05 => check_binary(input),
        0x0f => {
            let whole = take_sized(input).ok_or(CUT_OFF)?;
            let mut inner = whole.get(4..).ok_or(CUT_OFF)?;
            check_string(&mut inner)?;
            check_nested(inner, depth + 1)
        }
        _ => Err(Malformed::bson("a value is of no known type")),
    }
}

/// How long all values of a type are that may have any bytes.
fn fixed_length(kind: u8) -> Option<usize> {
    match kind {
        // null, undefined, the smallest and the largest key
        0x0a | 0x06 | 0xff | 0x7f => Some(0),
        0x10 => Some(4),
        // double, datetime, timestamp, long
        0x01 | 0x09 | 0x11 | 0x12 => Some(8),
        0x07 => Some(12),
        0x13 => Some(16),
        _ => None,
    }
}

/// Takes a value that begins with its own length, that length included.
fn take_sized<'a>(input: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = take_i32(&mut &**input)?;
    take(input, usize::try_from(length).ok()?)
}

fn check_string(input: &mut &[u8]) -> Result<(), Malformed> {
    const MALFORMED: Malformed = Malformed::bson("a string is cut off");
    let length = take_i32(input).ok_or(MALFORMED)?;
    let length = usize::try_from(length).map_err(|_| MALFORMED)?;
    let bytes = take(input, length).ok_or(MALFORMED)?;
    let Some((0, text)) = bytes.split_last().map(|(last, text)| (*last, text)) else {
        return Err(Malformed::bson("a string does not end with a zero"));
    };
    match std::str::from_utf8(text) {
        Ok(_) => Ok(()),
        Err(_) => Err(Malformed::bson("a string is not UTF-8")),
    }
}

fn check_binary(input: &mut &[u8]) -> Result<(), Malformed> {
    const OLD_SUBTYPE: u8 = 2;
    const MALFORMED: Malformed = Malformed::bson("binary data is cut off");
    let length = take_i32(input).ok_or(MALFORMED)?;
    let length = usize::try_from(length).map_err(|_| MALFORMED)?;
    let subtype = take(input, 1).ok_or(MALFORMED)?;
    let mut data = take(input, length).ok_or(MALFORMED)?;
    if subtype == [OLD_SUBTYPE] {
        let inner = take_i32(&mut data).and_then(|inner| usize::try_from(inner).ok());
        if inner != Some(data.len()) {
            return Err(Malformed::bson("binary data has two lengths that differ"));
        }
    }
    Ok(())
}

/// The fields of a document that was checked. The `bson` crate checks again whatever it reads,
/// which takes longer than anything else that a short request needs.
pub(crate) fn elements(document: &RawDocument) -> Elements<'_> {
    let bytes = document.as_bytes();
    Elements {
        document,
        rest: bytes.get(4..bytes.len() - 1).unwrap_or_default(),
        position: 0,
    }
}

/// Of a document that was checked, the fields of these names.
pub(crate) fn elements_among<'a>(
    document: &'a RawDocument,
    names: &[String],
) -> impl Iterator<Item = (&'a str, RawBsonRef<'a>)> {
    let mut all = elements(document);
    std::iter::from_fn(move || {
        loop {
            let mut rest = all.rest;
            let (kind, named) = rest.split_first()?;
            rest = named;
            let key = take_to_zero(&mut rest)?;
            if names.iter().any(|name| name.as_bytes() == key) {
                return all.next();
            }
            skip_value(*kind, &mut rest)?;
            all.rest = rest;
            all.position += 1;
        }
    })
}

/// Skips a value that was checked.
fn skip_value(kind: u8, input: &mut &[u8]) -> Option<()> {
    let length = match kind {
        0x08 => 1,
        0x03 | 0x04 | 0x0f => return take_sized(input).map(|_| ()),
        0x02 | 0x0d | 0x0e => usize::try_from(take_i32(input)?).ok()?,
        0x05 => usize::try_from(take_i32(input)?).ok()? + 1,
        _ => match fixed_length(kind) {
            Some(length) => length,
            None => return check_value(kind, input, 1).ok(),
        },
    };
    take(input, length).map(|_| ())
}

/// Reads one field after the other.
pub(crate) struct Elements<'a> {
    document: &'a RawDocument,
    rest: &'a [u8],
    /// How many fields stand before the rest.
    position: usize,
}

impl<'a> Iterator for Elements<'a> {
    type Item = (&'a str, RawBsonRef<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let (kind, rest) = self.rest.split_first()?;
        self.rest = rest;
        let position = self.position;
        self.position += 1;
        let key = take_cstring(&mut self.rest)?;
        let value = match usual_value(*kind, &mut self.rest) {
            Some(value) => value,
            None => {
                // It was checked, so that this only finds where it ends.
                check_value(*kind, &mut self.rest, 1).ok()?;
                // Not by its name, which another field may have too.
                let own = self.document.iter_elements().nth(position)?;
                own.ok()?.value().ok()?
            }
        };
        Some((key, value))
    }
}

/// A value of one of the types that commands are made of; nothing is taken if it is of another.
fn usual_value<'a>(kind: u8, input: &mut &'a [u8]) -> Option<RawBsonRef<'a>> {
    Some(match kind {
        0x01 => RawBsonRef::Double(f64::from_le_bytes(take_chunk(input)?)),
        0x02 => {
            let length = usize::try_from(take_i32(input)?).ok()?;
            let (_, text) = take(input, length)?.split_last()?;
            RawBsonRef::String(std::str::from_utf8(text).ok()?)
        }
        0x03 => RawBsonRef::Document(RawDocument::from_bytes(take_sized(input)?).ok()?),
        0x07 => RawBsonRef::ObjectId(ObjectId::from_bytes(take_chunk(input)?)),
        0x08 => RawBsonRef::Boolean(take(input, 1)? == [1]),
        0x09 => {
            let millis = i64::from_le_bytes(take_chunk(input)?);
            RawBsonRef::DateTime(DateTime::from_millis(millis))
        }
        0x0a => RawBsonRef::Null,
        0x10 => RawBsonRef::Int32(take_i32(input)?),
        0x12 => RawBsonRef::Int64(i64::from_le_bytes(take_chunk(input)?)),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use bson::spec::BinarySubtype;
    use bson::{Bson, doc};
    use proptest::prelude::*;

    use super::*;

    /// Fields of one name each have their own value, of whatever type.
    #[test]
    fn fields_of_one_name_are_told_apart() {
        let types = bson::Document::from_reader(every_type().as_slice()).unwrap();
        let mut raw = bson::RawDocumentBuf::new();
        let mut expected = Vec::new();
        for (_, value) in types {
            raw.append(
                bson::raw::cstr!("a"),
                bson::RawBson::try_from(value.clone()).unwrap(),
            );
            expected.push(value);
        }
        let found = elements(&raw).map(|(name, value)| {
            assert_eq!(name, "a");
            Bson::try_from(value).unwrap()
        });
        assert_eq!(found.collect::<Vec<_>>(), expected);
        let names = ["a".to_owned()];
        let found = elements_among(&raw, &names).map(|(_, value)| Bson::try_from(value).unwrap());
        assert_eq!(found.collect::<Vec<_>>(), expected);
    }

    fn every_type() -> Vec<u8> {
        let binary = |subtype| {
            Bson::Binary(bson::Binary {
                subtype,
                bytes: vec![1, 2],
            })
        };
        let scope = bson::JavaScriptCodeWithScope {
            code: "f()".into(),
            scope: doc! { "x": 1 },
        };
        let text = |text: &str| text.try_into().unwrap();
        let regex = bson::Regex {
            pattern: text("a"),
            options: text("i"),
        };
        let document = doc! {
            "double": 1.5, "string": "text", "document": { "a": 1 }, "array": [1, "b"],
            "binary": binary(BinarySubtype::Generic), "old": binary(BinarySubtype::BinaryOld),
            "undefined": Bson::Undefined, "id": ObjectId::new(), "bool": true,
            "date": DateTime::from_millis(1), "null": Bson::Null,
            "regex": regex,
            "code": Bson::JavaScriptCode("f".into()), "symbol": Bson::Symbol("s".into()),
            "scope": Bson::JavaScriptCodeWithScope(scope), "int": 1,
            "timestamp": bson::Timestamp { time: 1, increment: 2 }, "long": 1i64,
            "decimal": "1.5".parse::<bson::Decimal128>().unwrap(),
            "min": Bson::MinKey, "max": Bson::MaxKey,
        };
        document.to_vec().unwrap()
    }

    #[test]
    fn every_type_passes_and_every_truncation_does_not() {
        let bytes = every_type();
        assert_eq!(check(&bytes), Ok(()));
        for length in 0..bytes.len() {
            let mut cut = bytes[..length].to_vec();
            assert!(check(&cut).is_err(), "{length}");
            // Nor with a length and an end that fit.
            if length > EMPTY_BYTES {
                cut[..4].copy_from_slice(&i32::try_from(length).unwrap().to_le_bytes());
                cut[length - 1] = 0;
                if check(&cut).is_ok() {
                    read_all(&cut);
                }
            }
        }
    }

    #[test]
    fn elements_are_what_the_crate_reads() {
        let bytes = every_type();
        let document = RawDocument::from_bytes(&bytes).unwrap();
        let read: Vec<_> = elements(document).collect();
        let expected: Vec<_> = document
            .iter_elements()
            .map(|element| element.unwrap())
            .map(|element| (element.key().as_str(), element.value().unwrap()))
            .collect();
        assert_eq!(format!("{read:?}"), format!("{expected:?}"));
        assert_eq!(read.len(), 21);
        assert_eq!(elements(&bson::RawDocumentBuf::new()).count(), 0);
    }

    #[test]
    fn deep_documents_are_refused() {
        let nested = |depth: usize| {
            (1..depth)
                .fold(doc! {}, |inner, _| doc! { "a": inner })
                .to_vec()
                .unwrap()
        };
        assert_eq!(check(&nested(MAX_DEPTH)), Ok(()));
        assert_eq!(check(&nested(MAX_DEPTH + 1)).unwrap_err().code.0, 15);
    }

    /// Reads every value, which must neither fail nor panic.
    fn read_all(bytes: &[u8]) {
        let document = RawDocument::from_bytes(bytes).unwrap();
        bson::Document::try_from(document).unwrap();
    }

    proptest! {
        #[test]
        fn what_passes_can_be_read(position in 0usize..400, byte: u8) {
            let mut bytes = every_type();
            let position = position % bytes.len();
            bytes[position] = byte;
            if check(&bytes).is_ok() {
                read_all(&bytes);
            }
        }
    }
}
