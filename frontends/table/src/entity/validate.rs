//! The limits of entities.

use std::borrow::Borrow;

use super::Value;
use super::value::utf16_bytes;
use crate::error::{Code, Result, ServiceError};

/// The longest name of a property, in UTF-16 units.
const NAME_UNITS_MAX: usize = 255;

/// The limits of one of the two services.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    partition_key_bytes: usize,
    row_key_bytes: usize,
    /// How the bytes of a key are counted.
    key_bytes: fn(&str) -> usize,
    property_count: usize,
    value_bytes: usize,
    entity_bytes: usize,
    batch_bytes: usize,
    /// Names of properties that the service keeps for itself.
    reserved: &'static [&'static str],
}

impl Limits {
    /// Azure Table storage.
    pub(crate) const STORAGE: Self = Self {
        partition_key_bytes: 1024,
        row_key_bytes: 1024,
        key_bytes: utf16_bytes,
        property_count: 252,
        value_bytes: 64 * 1024,
        entity_bytes: 1024 * 1024,
        batch_bytes: 4 * 1024 * 1024,
        reserved: &[],
    };

    /// Azure Cosmos DB for Table.
    pub(crate) const COSMOS: Self = Self {
        partition_key_bytes: 2048,
        row_key_bytes: 255,
        key_bytes: str::len,
        entity_bytes: 2 * 1024 * 1024,
        batch_bytes: 2 * 1024 * 1024,
        reserved: &["id", "rid", "etag", "ResourceId"],
        ..Self::STORAGE
    };

    /// Whether these can be the keys of an entity.
    pub(crate) fn check_keys(&self, partition_key: &str, row_key: &str) -> Result<()> {
        self.check_key("PartitionKey", partition_key, self.partition_key_bytes)?;
        self.check_key("RowKey", row_key, self.row_key_bytes)
    }

    /// Whether these properties can be stored, each on its own.
    pub(crate) fn check_properties(&self, properties: &[(String, Value<'_>)]) -> Result<()> {
        for (name, value) in properties {
            self.check_name(name)?;
            if value.size() > self.value_bytes {
                return Err(Code::PropertyValueTooLarge.because(format!("it is that of '{name}'")));
            }
            if matches!(value, Value::DateTime(moment) if !moment.in_range()) {
                let why = format!("the time in '{name}' is not between 1601 and 9999");
                return Err(Code::OutOfRangeInput.because(why));
            }
        }
        Ok(())
    }

    /// Whether they can be stored together. After a merge these are the merged ones.
    pub(crate) fn check_entity<'v>(
        &self,
        partition_key: &str,
        row_key: &str,
        properties: impl IntoIterator<Item = (impl AsRef<str>, impl Borrow<Value<'v>>)>,
    ) -> Result<()> {
        let mut count = 0;
        let mut bytes = 4 + utf16_bytes(partition_key) + utf16_bytes(row_key);
        for (name, value) in properties {
            count += 1;
            bytes += property_bytes(name.as_ref(), value.borrow());
        }
        if count > self.property_count {
            return Err(Code::TooManyProperties.into());
        }
        if bytes > self.entity_bytes {
            let why = format!(
                "it has {bytes} bytes, and {} are allowed",
                self.entity_bytes
            );
            return Err(Code::EntityTooLarge.because(why));
        }
        Ok(())
    }

    /// Whether a batch may have this size.
    pub(crate) fn check_batch(&self, bytes: usize) -> Result<()> {
        if bytes > self.batch_bytes {
            return Err(Code::RequestBodyTooLarge.into());
        }
        Ok(())
    }

    fn check_key(&self, name: &str, key: &str, bytes_max: usize) -> Result<()> {
        if (self.key_bytes)(key) > bytes_max {
            let why = format!("The {name} may have {bytes_max} bytes.");
            return Err(Code::PropertyValueTooLarge.because(why));
        }
        let forbidden = |char: char| matches!(char, '/' | '\\' | '#' | '?') || char.is_control();
        if key.contains(forbidden) {
            let words = format!(
                "The '{name}' parameter of value '{}' is out of range.",
                key.escape_debug()
            );
            let why = "A key cannot have / \\ # ? and control characters.";
            return Err(ServiceError::new(Code::OutOfRangeInput, words).with_detail(why));
        }
        Ok(())
    }

    fn check_name(&self, name: &str) -> Result<()> {
        if name.encode_utf16().count() > NAME_UNITS_MAX {
            return Err(Code::PropertyNameTooLong.into());
        }
        if !is_identifier(name) {
            let why = format!(
                "'{}' is not letters, digits and underscores, beginning with no digit",
                name.escape_debug()
            );
            return Err(Code::PropertyNameInvalid.because(why));
        }
        if self.reserved.contains(&name) {
            let why = format!("'{name}' is kept for the service itself");
            return Err(Code::PropertyNameInvalid.because(why));
        }
        Ok(())
    }
}

/// The size of a property: 8 bytes, its name, its value, and 4 more for a length.
fn property_bytes(name: &str, value: &Value<'_>) -> usize {
    let length = match value {
        Value::String(_) | Value::Binary(_) => 4,
        _ => 0,
    };
    8 + utf16_bytes(name) + length + value.size()
}

/// Names are identifiers of C#. Of the rarer marks and connectors only the common ranges are
/// accepted.
fn is_identifier(name: &str) -> bool {
    let mut chars = name.chars();
    let is_start = |char: char| char == '_' || char.is_alphabetic();
    let is_part = |char: char| {
        is_start(char)
            || char.is_numeric()
            || matches!(
                char,
                '\u{300}'..='\u{36f}' | '\u{200c}' | '\u{200d}' | '\u{203f}' | '\u{2040}'
            )
    };
    chars.next().is_some_and(is_start) && chars.all(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entity::{DateTime, Stored, encode};

    type Properties = Vec<(String, Value<'static>)>;

    fn check_keys(limits: Limits, keys: (&str, &str), expected: Option<Code>) {
        let refusal = limits.check_keys(keys.0, keys.1).err();
        assert_eq!(refusal.map(|refusal| refusal.code), expected, "{keys:?}");
    }

    fn check_property(limits: Limits, name: &str, value: Value<'_>, expected: Option<Code>) {
        let refusal = limits.check_properties(&[(name.to_owned(), value)]).err();
        assert_eq!(refusal.map(|refusal| refusal.code), expected, "{name}");
    }

    fn texts(count: usize, length: usize) -> Properties {
        let text = |number| {
            let text = Value::String("x".repeat(length).into());
            (format!("p{number:03}"), text)
        };
        (0..count).map(text).collect()
    }

    #[test]
    fn keys_are_short() {
        let too_large = Some(Code::PropertyValueTooLarge);
        for (length, expected) in [(0, None), (512, None), (513, too_large)] {
            let key = "\u{e9}".repeat(length);
            check_keys(Limits::STORAGE, (&key, ""), expected);
            check_keys(Limits::STORAGE, ("", &key), expected);
        }
        check_keys(Limits::COSMOS, (&"x".repeat(2048), &"x".repeat(255)), None);
        check_keys(Limits::COSMOS, ("", &"x".repeat(256)), too_large);
        check_keys(Limits::COSMOS, ("", &"\u{e9}".repeat(128)), too_large);
    }

    #[test]
    fn keys_have_no_forbidden_characters() {
        let controls = ('\0'..='\u{1f}').chain('\u{7f}'..='\u{9f}');
        for char in controls.chain(['/', '\\', '#', '?']) {
            let key = format!("a{char}b");
            check_keys(Limits::STORAGE, (&key, ""), Some(Code::OutOfRangeInput));
            check_keys(Limits::STORAGE, ("", &key), Some(Code::OutOfRangeInput));
        }
        check_keys(Limits::STORAGE, ("it's 100% +&,", "\u{a0}\u{1f600}"), None);
    }

    #[test]
    fn names_are_identifiers() {
        for (name, expected) in [
            ("a", None),
            ("_propertyid", None),
            ("a1_\u{e9}", None),
            ("\u{554a}\u{9f44}", None),
            ("e\u{301}", None),
            ("", Some(Code::PropertyNameInvalid)),
            ("123", Some(Code::PropertyNameInvalid)),
            ("a-b", Some(Code::PropertyNameInvalid)),
            ("a b", Some(Code::PropertyNameInvalid)),
            ("a.b", Some(Code::PropertyNameInvalid)),
            (&"a".repeat(255), None),
            (&"a".repeat(256), Some(Code::PropertyNameTooLong)),
        ] {
            check_property(Limits::STORAGE, name, Value::Int32(1), expected);
        }
        for name in ["id", "rid", "etag", "ResourceId"] {
            check_property(Limits::STORAGE, name, Value::Int32(1), None);
            let expected = Some(Code::PropertyNameInvalid);
            check_property(Limits::COSMOS, name, Value::Int32(1), expected);
        }
    }

    #[test]
    fn values_are_bounded() {
        let too_large = Some(Code::PropertyValueTooLarge);
        for (length, expected) in [(32 * 1024, None), (32 * 1024 + 1, too_large)] {
            let value = Value::String("a".repeat(length).into());
            check_property(Limits::STORAGE, "a", value, expected);
        }
        for (length, expected) in [(64 * 1024, None), (64 * 1024 + 1, too_large)] {
            let value = Value::Binary(vec![0; length].into());
            check_property(Limits::STORAGE, "a", value, expected);
        }
        for (time, expected) in [
            ("1600-12-31T23:59:59Z", Some(Code::OutOfRangeInput)),
            ("1601-01-01T00:00:00Z", None),
        ] {
            let value = Value::DateTime(DateTime::parse(time).unwrap());
            check_property(Limits::STORAGE, "a", value, expected);
        }
    }

    #[test]
    fn entities_are_bounded() {
        let check = |properties: Properties, expected: Option<Code>| {
            let borrowed = properties.iter().map(|(name, value)| (name, value));
            let refusal = Limits::STORAGE.check_entity("p", "r", borrowed).err();
            assert_eq!(refusal.map(|refusal| refusal.code), expected);
            let bytes = encode(&properties);
            let stored = Stored::new(&bytes).unwrap();
            let refusal = Limits::STORAGE.check_entity("p", "r", stored.iter()).err();
            assert_eq!(refusal.map(|refusal| refusal.code), expected);
        };
        check(texts(252, 1), None);
        check(texts(253, 1), Some(Code::TooManyProperties));
        // 4 + 2 * 2 for the entity, and each property 8 + 2 * 4 + 4 + 2 * its length.
        let whole = 1024 * 1024;
        let length = (whole - 8) / 16 / 2 - 10;
        let mut properties = texts(16, length);
        check(properties.clone(), None);
        let left = whole - 8 - 16 * (20 + 2 * length);
        let grown = Value::String("x".repeat(length + left / 2 + 1).into());
        properties.first_mut().unwrap().1 = grown;
        check(properties, Some(Code::EntityTooLarge));
    }
}
