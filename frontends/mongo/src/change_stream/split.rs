//! `$changeStreamSplitLargeEvent`: an event that no reply has room for in fragments, each with some
//! of its fields and a token to resume behind it.

use bson::{Bson, Document, doc};
use tessera_mongo_language::error::{Code, Error};
use tessera_mongo_language::size::{document_size, value_size};

use crate::change_stream::token::Token;
use crate::failure::{Failure, Result};

/// The most bytes of an event: a document and a little more.
pub(crate) const MAX_EVENT_BYTES: usize = (16 << 20) + (16 << 10);

/// What each fragment has beside fields of the event: its token and its number.
const HEAD_BYTES: usize = 512;

/// What the name of a field takes beside its letters: its type and its end.
const NAME_BYTES: usize = 2;

/// An event with the token behind which the stream goes on.
pub(crate) type Told = (Token, Document);

/// The fragments of an event whose token is this one. Small fields come first, so that many are
/// together.
pub(crate) fn split(token: Token, mut event: Document, max_bytes: usize) -> Result<Vec<Told>> {
    event.remove("_id");
    let mut fields: Vec<(usize, String, Bson)> = event
        .into_iter()
        .map(|(name, value)| (value_size(&value) + name.len() + NAME_BYTES, name, value))
        .collect();
    fields.sort_by_key(|(size, ..)| *size);
    let mut fragments = vec![Document::new()];
    let mut used = HEAD_BYTES;
    for (size, name, value) in fields {
        if HEAD_BYTES + size > max_bytes {
            let message = format!(
                "The field '{name}' of a change stream event has {size} bytes: too many even for \
                 an event of its own"
            );
            return Err(too_large(message));
        }
        if used + size > max_bytes {
            fragments.push(Document::new());
            used = HEAD_BYTES;
        }
        used += size;
        if let Some(last) = fragments.last_mut() {
            last.insert(name, value);
        }
    }
    let of = i32::try_from(fragments.len()).unwrap_or(i32::MAX);
    let numbered = (1..).zip(fragments).map(|(number, fields)| {
        let token = match number == of {
            true => token,
            false => Token::part(token.position, number.unsigned_abs() - 1),
        };
        let mut fragment = doc! {
            "_id": token.document(),
            "splitEvent": { "fragment": number, "of": of },
        };
        fragment.extend(fields);
        (token, fragment)
    });
    Ok(numbered.collect())
}

/// The failure of a stream at an event that is too large, and that is not to be split.
pub(crate) fn unsplit(event: &Document) -> Failure {
    let size = document_size(event);
    let id = event.get("_id").cloned().unwrap_or(Bson::Null);
    too_large(format!(
        "BSONObj size: {size} is invalid. Size must be between 0 and {MAX_EVENT_BYTES}: the event \
         with _id {id} is larger; end the pipeline with $changeStreamSplitLargeEvent, or show less"
    ))
}

fn too_large(message: String) -> Failure {
    Error::new(Code::BSON_OBJECT_TOO_LARGE, message).into()
}

#[cfg(test)]
mod tests {
    use tessera_core::feed::position::Position;
    use tessera_core::feed::stamp::Stamp;

    use super::*;
    use crate::change_stream::token::At;

    fn event(sizes: &[usize]) -> Document {
        let fields = sizes.iter().enumerate();
        let mut event = doc! { "_id": "token" };
        event.extend(fields.map(|(at, size)| (format!("f{at}"), Bson::from("x".repeat(*size)))));
        event
    }

    fn fragments(sizes: &[usize], max_bytes: usize) -> Vec<Told> {
        let token = Token::event(Position::at(Stamp::end_of(1, 7)));
        split(token, event(sizes), max_bytes).unwrap()
    }

    fn names(fragment: &Document) -> Vec<&str> {
        fragment.keys().skip(2).map(String::as_str).collect()
    }

    #[test]
    fn all_fields_come_in_some_fragment_none_of_which_is_too_large() {
        for (sizes, max_bytes) in [
            (&[1_000, 1_000, 1_000][..], 2_600),
            (&[1, 2_000, 3, 900, 900, 900], 2_600),
            (&[2_000; 7], 2_600),
            (&[10; 100], 1_000),
        ] {
            let fragments = fragments(sizes, max_bytes);
            assert!(fragments.len() > 1);
            let mut whole = doc! { "_id": "token" };
            for (at, (token, fragment)) in fragments.iter().enumerate() {
                assert!(document_size(fragment) <= max_bytes);
                assert_eq!(fragment.get_document("_id").unwrap(), &token.document());
                let number = fragment.get_document("splitEvent").unwrap();
                let told = |name| usize::try_from(number.get_i32(name).unwrap()).unwrap();
                assert_eq!(told("fragment"), at + 1);
                assert_eq!(told("of"), fragments.len());
                let expected = match at + 1 == fragments.len() {
                    true => At::Event,
                    false => At::Part(u32::try_from(at).unwrap()),
                };
                assert_eq!(token.at, expected);
                for name in names(fragment) {
                    whole.insert(name, fragment.get(name).unwrap().clone());
                }
            }
            let mut expected: Vec<_> = event(sizes).into_iter().collect();
            let mut found: Vec<_> = whole.into_iter().collect();
            for fields in [&mut expected, &mut found] {
                fields.sort_by(|(a, _), (b, _)| a.cmp(b));
            }
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn small_fields_are_together() {
        let fragments = fragments(&[2_000, 1, 2_000, 2], 2_600);
        let shown: Vec<_> = fragments.iter().map(|(_, it)| names(it)).collect();
        assert_eq!(shown, [vec!["f1", "f3", "f0"], vec!["f2"]]);
    }

    #[test]
    fn a_field_that_is_too_large_alone_is_refused() {
        let token = Token::event(Position::at(Stamp::end_of(1, 7)));
        let refused = split(token, event(&[3_000]), 2_600).unwrap_err();
        assert_eq!(refused.code().0, 10_334);
        assert_eq!(unsplit(&event(&[3_000])).code().0, 10_334);
    }
}
