//! Keys in readable form: the values of the memcomparable bytes, where they can be recovered.
//!
//! Bytes do not tell which type of number they came from, nor what a text was before its collation;
//! documents and the rare types are left alone, too. What cannot be told is none.

use bson::oid::ObjectId;
use tessera_core::encoding::{invert, take_bytes, take_i64};

use crate::key::tag;

/// The values that stand one behind the other in a key without a collation.
pub fn values(mut encoded: &[u8]) -> Option<Vec<String>> {
    let mut values = Vec::new();
    while !encoded.is_empty() {
        values.push(value(&mut encoded)?);
    }
    Some(values)
}

fn value(input: &mut &[u8]) -> Option<String> {
    let (kind, rest) = input.split_first()?;
    *input = rest;
    Some(match *kind {
        tag::NULL => "null".to_owned(),
        tag::NAN => "NaN".to_owned(),
        tag::ZERO => "0".to_owned(),
        tag::NEGATIVE => format!("-{}", magnitude(input, true)?),
        tag::POSITIVE => magnitude(input, false)?,
        tag::STRING => format!("{:?}", String::from_utf8(take_bytes(input)?.into()).ok()?),
        tag::OBJECT_ID => {
            let (id, rest) = input.split_first_chunk()?;
            *input = rest;
            format!("ObjectId('{}')", ObjectId::from_bytes(*id).to_hex())
        }
        tag::FALSE => "false".to_owned(),
        tag::TRUE => "true".to_owned(),
        tag::DATE => {
            let date = bson::DateTime::from_millis(take_i64(input)?);
            format!("ISODate('{}')", date.try_to_rfc3339_string().ok()?)
        }
        _ => return None,
    })
}

/// A number without its sign, if a double holds it.
fn magnitude(input: &mut &[u8], is_inverted: bool) -> Option<String> {
    let (number, rest) = input.split_first_chunk::<9>()?;
    *input = rest;
    let mut number = *number;
    if is_inverted {
        invert(&mut number);
    }
    let (bits, exactness) = number.split_first_chunk()?;
    let is_exact = exactness == [tag::EXACT];
    is_exact.then(|| f64::from_bits(u64::from_be_bytes(*bits)).to_string())
}

#[cfg(test)]
mod tests {
    use bson::{Bson, doc};

    use super::*;
    use crate::collation::Collation;
    use crate::key;

    #[test]
    fn common_values_are_read_back() {
        let id = ObjectId::from_bytes([7; 12]);
        let date = bson::DateTime::from_millis(0);
        for (value, expected) in [
            (Bson::from("a \"b\""), r#""a \"b\"""#),
            (Bson::from(42), "42"),
            (Bson::from(-1.5), "-1.5"),
            (Bson::from(0_i64), "0"),
            (Bson::Null, "null"),
            (Bson::from(true), "true"),
            (Bson::from(id), "ObjectId('070707070707070707070707')"),
            (Bson::from(date), "ISODate('1970-01-01T00:00:00Z')"),
        ] {
            let encoded = key::encode(&value, &Collation::default());
            assert_eq!(values(&encoded), Some(vec![expected.to_owned()]));
        }
    }

    #[test]
    fn values_follow_each_other_and_what_is_not_known_is_none() {
        let mut encoded = key::encode(&Bson::from("x"), &Collation::default());
        encoded.extend(key::encode(&Bson::from(7), &Collation::default()));
        let both = vec!["\"x\"".to_owned(), "7".to_owned()];
        assert_eq!(values(&encoded), Some(both));
        let document = key::encode(&Bson::from(doc! { "a": 1 }), &Collation::default());
        assert_eq!(values(&document), None);
        for length in 1..encoded.len() {
            assert_ne!(values(encoded.get(..length).unwrap()), values(&encoded));
        }
        let beyond = key::encode(&Bson::from(i64::MAX), &Collation::default());
        assert_eq!(values(&beyond), None);
    }
}
