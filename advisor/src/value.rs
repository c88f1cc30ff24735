//! One scalar of a record, as a partition key holds it.
//!
//! The bytes are those that CQL and Table hash: UTF-8 for text, big-endian for numbers. A number
//! that is whole is an integer however it was written, so that 1 and 1.0 are one key.

use std::fmt::Write as _;

/// What kind of value a field has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Absent, null, or nothing that a key can be made of.
    #[default]
    Missing,
    Boolean,
    Integer,
    Double,
    Text,
}

/// The value of one field. Its buffer is used again for each record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scalar {
    kind: Kind,
    bytes: Vec<u8>,
}

impl Scalar {
    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Makes it missing.
    pub fn clear(&mut self) {
        self.set(Kind::Missing, &[]);
    }

    /// Makes it a text.
    pub fn set_text(&mut self, text: &[u8]) {
        self.set(Kind::Text, text);
    }

    /// Makes it a boolean.
    pub fn set_boolean(&mut self, value: bool) {
        self.set(Kind::Boolean, &[u8::from(value)]);
    }

    /// Makes it an integer.
    pub fn set_integer(&mut self, value: i64) {
        self.set(Kind::Integer, &value.to_be_bytes());
    }

    /// Makes it a double.
    pub fn set_double(&mut self, value: f64) {
        const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;
        if value.fract() == 0.0 && value.abs() < TWO_TO_63 {
            #[expect(clippy::cast_possible_truncation, reason = "whole and within range")]
            self.set_integer(value as i64);
        } else {
            self.set(Kind::Double, &value.to_be_bytes());
        }
    }

    fn set(&mut self, kind: Kind, bytes: &[u8]) {
        self.kind = kind;
        self.bytes.clear();
        self.bytes.extend_from_slice(bytes);
    }

    /// Appends the value as people write it: text in quotes, so that `"1"` is not `1`.
    pub fn write_name(&self, out: &mut String) {
        let number = || self.bytes.first_chunk::<8>().copied().unwrap_or_default();
        // Writing to a string cannot fail.
        let _written = match self.kind {
            Kind::Missing => write!(out, "none"),
            Kind::Boolean => write!(out, "{}", self.bytes == [1]),
            Kind::Integer => write!(out, "{}", i64::from_be_bytes(number())),
            Kind::Double => write!(out, "{}", f64::from_be_bytes(number())),
            Kind::Text => write!(out, "{:?}", String::from_utf8_lossy(&self.bytes)),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(set: impl Fn(&mut Scalar), name: &str, bytes: &[u8]) {
        let mut scalar = Scalar::default();
        set(&mut scalar);
        let mut written = String::new();
        scalar.write_name(&mut written);
        assert_eq!((written.as_str(), scalar.bytes()), (name, bytes));
    }

    #[test]
    fn values_have_a_name_and_the_bytes_of_a_key() {
        let seven = 7i64.to_be_bytes();
        check(|_| {}, "none", b"");
        check(|s| s.set_text(b"a\"b"), r#""a\"b""#, b"a\"b");
        check(|s| s.set_integer(7), "7", &seven);
        check(|s| s.set_double(7.0), "7", &seven);
        check(|s| s.set_double(-0.0), "0", &[0; 8]);
        check(|s| s.set_double(1.5), "1.5", &1.5f64.to_be_bytes());
        check(
            |s| s.set_double(1e30),
            &format!("{}", 1e30),
            &1e30f64.to_be_bytes(),
        );
        check(|s| s.set_boolean(true), "true", &[1]);
        check(
            |s| {
                s.set_integer(7);
                s.clear();
            },
            "none",
            b"",
        );
    }
}
