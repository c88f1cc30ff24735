//! Candidates for a partition key, and the key that a record has under one of them.

use tessera_core::hash::murmur3;

use crate::survey::MAX_CANDIDATES;
use crate::value::{Kind, Scalar};

/// More fields than any API takes for a partition key.
const MAX_FIELDS: usize = 8;

/// Longer names of keys are shortened: enough of each is kept to recognise it.
const MAX_NAME_CHARS: usize = 60;

/// One candidate: the fields whose values make up the partition key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyPath {
    fields: Vec<String>,
}

impl KeyPath {
    /// Reads `FIELD[,FIELD…]`; a dot leads into a nested document.
    pub fn parse(text: &str) -> Result<Self, String> {
        let fields: Vec<String> = text
            .split(',')
            .map(|field| field.trim().to_owned())
            .collect();
        if fields
            .iter()
            .any(|field| field.split('.').any(str::is_empty))
        {
            return Err(format!("{text:?} has an empty field name"));
        }
        if fields.len() > MAX_FIELDS {
            return Err(format!("a key has at most {MAX_FIELDS} fields"));
        }
        let is_twice = |(at, field)| fields.iter().skip(at + 1).any(|other| other == field);
        if fields.iter().enumerate().any(is_twice) {
            return Err(format!("{text:?} names a field twice"));
        }
        Ok(Self { fields })
    }

    /// A key of one field, whatever its name holds.
    pub fn of_field(name: String) -> Self {
        Self { fields: vec![name] }
    }

    /// The fields, in the order of the key.
    pub fn fields(&self) -> &[String] {
        &self.fields
    }

    /// Reads several, each once.
    pub fn parse_all<T: AsRef<str>>(texts: &[T]) -> Result<Vec<Self>, String> {
        let mut keys: Vec<Self> = Vec::new();
        for text in texts {
            let key = Self::parse(text.as_ref())?;
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        if keys.len() > MAX_CANDIDATES {
            return Err(format!(
                "at most {MAX_CANDIDATES} keys can be looked at together"
            ));
        }
        Ok(keys)
    }
}

impl std::fmt::Display for KeyPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.fields.join(","))
    }
}

/// The logical partition that a record falls into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    /// Where on the ring it lies.
    pub(crate) token: i64,
    /// Tells it from other keys, also from those with the same bytes but of another type.
    pub(crate) identity: u64,
    /// How long its value is.
    pub(crate) bytes: usize,
    /// Whether every field had a value.
    pub(crate) is_whole: bool,
}

impl Key {
    /// The key with these values.
    pub(crate) fn of<'a>(mut values: impl Iterator<Item = &'a Scalar> + Clone) -> Self {
        let mut only = values.clone();
        let token = match (only.next(), only.next()) {
            (Some(value), None) => murmur3::token(value.bytes()),
            // A column too long for any key is as good as none.
            _ => murmur3::token(
                &murmur3::composite_key(values.clone().map(Scalar::bytes)).unwrap_or_default(),
            ),
        };
        let kinds = values
            .clone()
            .fold(0, |kinds, value| kinds << 3 | value.kind() as u64);
        Self {
            token,
            identity: token.cast_unsigned() ^ scramble(kinds),
            bytes: values.clone().map(|value| value.bytes().len()).sum(),
            is_whole: values.all(|value| value.kind() != Kind::Missing),
        }
    }

    /// A key of a stored item, which lies where its front end placed it.
    pub(crate) fn stored(token: i64, partition_key: &[u8]) -> Self {
        Self {
            token,
            identity: murmur3::token(partition_key).cast_unsigned(),
            bytes: partition_key.len(),
            is_whole: true,
        }
    }
}

/// Spreads small numbers over all bits, so that combining one with a hash cannot undo the hash of
/// another key.
fn scramble(number: u64) -> u64 {
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ (mixed >> 29)
}

/// The name of the key with these values.
pub(crate) fn name<'a>(values: impl Iterator<Item = &'a Scalar>) -> Box<str> {
    let mut name = String::with_capacity(24);
    for (position, value) in values.enumerate() {
        if position > 0 {
            name.push_str(", ");
        }
        value.write_name(&mut name);
    }
    shortened(name)
}

/// As much of a name as is shown.
pub(crate) fn shortened(mut name: String) -> Box<str> {
    if let Some((end, _)) = name.char_indices().nth(MAX_NAME_CHARS) {
        name.truncate(end);
        name.push('…');
    }
    name.into_boxed_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Scalar {
        let mut scalar = Scalar::default();
        scalar.set_text(text.as_bytes());
        scalar
    }

    fn integer(value: i64) -> Scalar {
        let mut scalar = Scalar::default();
        scalar.set_integer(value);
        scalar
    }

    #[test]
    fn candidates_are_read() {
        for (given, fields) in [
            ("tenant", &["tenant"][..]),
            ("tenant, day", &["tenant", "day"]),
            ("address.city,id", &["address.city", "id"]),
        ] {
            assert_eq!(KeyPath::parse(given).unwrap().fields(), fields);
        }
        for (given, part) in [
            ("", "empty"),
            ("a,,b", "empty"),
            ("a..b", "empty"),
            ("a.", "empty"),
            ("a,b,a", "twice"),
            ("a,b,c,d,e,f,g,h,i", "at most 8"),
        ] {
            let error = KeyPath::parse(given).unwrap_err();
            assert!(error.contains(part), "{given}: {error}");
        }
        assert_eq!(KeyPath::parse_all(&["a", "b,c", "a"]).unwrap().len(), 2);
        let many: Vec<String> = (0..13).map(|number| format!("f{number}")).collect();
        assert!(
            KeyPath::parse_all(&many)
                .unwrap_err()
                .contains("at most 12")
        );
    }

    #[test]
    fn keys_lie_where_cassandra_puts_them() {
        assert_eq!(Key::of([text("key1")].iter()).token, 1573573083296714675);
        assert_eq!(Key::of([integer(42)].iter()).token, 8623491988607824794);
        let composite = murmur3::composite_key([&b"a"[..], &1i64.to_be_bytes()]).unwrap();
        let key = Key::of([text("a"), integer(1)].iter());
        assert_eq!(key.token, murmur3::token(&composite));
        assert_eq!((key.bytes, key.is_whole), (9, true));
    }

    #[test]
    fn keys_of_different_types_are_different() {
        let eight = text(str::from_utf8(&7i64.to_be_bytes()).unwrap());
        let keys = [
            vec![Scalar::default()],
            vec![text("")],
            vec![integer(7)],
            vec![eight],
            vec![Scalar::default(), text("")],
            vec![text(""), Scalar::default()],
        ];
        let keys: Vec<Key> = keys.iter().map(|values| Key::of(values.iter())).collect();
        for (position, key) in keys.iter().enumerate() {
            for other in &keys[..position] {
                assert_ne!(key.identity, other.identity, "{key:?} {other:?}");
            }
        }
        let whole: Vec<bool> = keys.iter().map(|key| key.is_whole).collect();
        assert_eq!(whole, [false, true, true, true, false, false]);
    }

    #[test]
    fn names_can_be_read_and_end() {
        assert_eq!(&*name([text("a"), integer(1)].iter()), r#""a", 1"#);
        assert_eq!(name([text(&"é".repeat(100))].iter()).chars().count(), 61);
    }
}
