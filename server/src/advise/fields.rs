//! The wanted fields of a JSON document, picked out while it is parsed.
//!
//! Nothing else of the document is kept: not a value, not a name.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use tessera_advisor::Scalar;

/// Names of fields, and below each the names inside of it.
#[derive(Debug, Default)]
pub(super) struct FieldTree {
    children: Vec<(String, Self)>,
    /// Which value of the record the field is, if it is wanted itself.
    slot: Option<usize>,
}

impl FieldTree {
    /// A tree of paths with dots; the first is value 0 of a record, the next value 1.
    pub(super) fn new<'a>(paths: impl IntoIterator<Item = &'a str>) -> Self {
        let mut tree = Self::default();
        for (slot, path) in paths.into_iter().enumerate() {
            tree.insert(path, slot);
        }
        tree
    }

    fn insert(&mut self, path: &str, slot: usize) {
        let (name, rest) = match path.split_once('.') {
            Some((name, rest)) => (name, Some(rest)),
            None => (path, None),
        };
        let known = self.children.iter().position(|(child, _)| child == name);
        if known.is_none() {
            self.children.push((name.to_owned(), Self::default()));
        }
        let position = known.unwrap_or(self.children.len() - 1);
        let Some((_, child)) = self.children.get_mut(position) else {
            return;
        };
        match rest {
            Some(rest) => child.insert(rest, slot),
            None => child.slot = Some(slot),
        }
    }

    /// Reads a document into `values`, one for each path. What does not occur is missing.
    pub(super) fn read(&self, document: &[u8], values: &mut [Scalar]) -> Result<(), String> {
        values.iter_mut().for_each(Scalar::clear);
        let mut deserializer = serde_json::Deserializer::from_slice(document);
        let picked = deserializer
            .deserialize_map(Picker { tree: self, values })
            .and_then(|()| deserializer.end());
        picked.map_err(|error| {
            error
                .to_string()
                .replace(" at line 1 column ", " at column ")
        })
    }
}

/// Takes the wanted fields out of one value.
struct Picker<'a> {
    tree: &'a FieldTree,
    values: &'a mut [Scalar],
}

impl Picker<'_> {
    fn set(self, set: impl FnOnce(&mut Scalar)) {
        let slot = self.tree.slot.and_then(|slot| self.values.get_mut(slot));
        if let Some(scalar) = slot {
            set(scalar);
        }
    }
}

impl<'de> DeserializeSeed<'de> for Picker<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Picker<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON document")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        self.set(|scalar| scalar.set_boolean(value));
        Ok(())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<(), E> {
        self.set(|scalar| scalar.set_integer(value));
        Ok(())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<(), E> {
        self.set(|scalar| match i64::try_from(value) {
            Ok(value) => scalar.set_integer(value),
            Err(_) => scalar.set_double(value as f64),
        });
        Ok(())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<(), E> {
        self.set(|scalar| scalar.set_double(value));
        Ok(())
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<(), E> {
        self.set(|scalar| scalar.set_text(value.as_bytes()));
        Ok(())
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.set(Scalar::clear);
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<(), A::Error> {
        while values.next_element::<IgnoredAny>()?.is_some() {}
        self.set(Scalar::clear);
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(child) = map.next_key_seed(NameOf(self.tree))? {
            match child {
                Some(tree) => map.next_value_seed(Picker {
                    tree,
                    values: &mut *self.values,
                })?,
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

/// Finds what the tree has under the name of a field, without copying the name.
struct NameOf<'a>(&'a FieldTree);

impl<'de, 'a> DeserializeSeed<'de> for NameOf<'a> {
    type Value = Option<&'a FieldTree>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'a> Visitor<'_> for NameOf<'a> {
    type Value = Option<&'a FieldTree>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a field")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Self::Value, E> {
        let found = self.0.children.iter().find(|(child, _)| child == name);
        Ok(found.map(|(_, tree)| tree))
    }
}

/// The top-level fields of a document that hold a scalar, in their order. None if it is none.
pub(super) fn scalar_fields(document: &[u8]) -> Option<Vec<String>> {
    struct IsScalar(bool);

    impl<'de> serde::Deserialize<'de> for IsScalar {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            let value = <serde_json::Value as serde::Deserialize>::deserialize(deserializer)?;
            Ok(Self(
                value.is_string() || value.is_number() || value.is_boolean(),
            ))
        }
    }

    struct Names;

    impl<'de> Visitor<'de> for Names {
        type Value = Vec<String>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a JSON document")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Vec<String>, A::Error> {
            let mut names = Vec::new();
            while let Some((name, IsScalar(is_scalar))) = map.next_entry::<String, IsScalar>()? {
                if is_scalar && !names.contains(&name) {
                    names.push(name);
                }
            }
            Ok(names)
        }
    }

    let mut deserializer = serde_json::Deserializer::from_slice(document);
    let names = deserializer.deserialize_map(Names).ok()?;
    deserializer.end().ok().map(|()| names)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names of the values at these paths.
    fn pick(paths: &[&str], document: &str) -> Result<Vec<String>, String> {
        let tree = FieldTree::new(paths.iter().copied());
        let mut values = vec![Scalar::default(); paths.len()];
        tree.read(document.as_bytes(), &mut values)?;
        let names = values.iter().map(|value| {
            let mut name = String::new();
            value.write_name(&mut name);
            name
        });
        Ok(names.collect())
    }

    #[test]
    fn fields_are_picked_wherever_they_are() {
        for (paths, document, expected) in [
            (
                &["a"][..],
                r#"{"x":[{"a":1}],"a":"v","y":null}"#,
                &[r#""v""#][..],
            ),
            (
                &["a.b", "a.c.d", "e"],
                r#"{"a":{"c":{"d":true},"b":2.5},"e":-3}"#,
                &["2.5", "true", "-3"],
            ),
            (&["a", "a.b"], r#"{"a":{"b":1}}"#, &["none", "1"]),
            (&["a", "a.b"], r#"{"a":5}"#, &["5", "none"]),
            (
                &["a", "b", "c"],
                r#"{"a":null,"b":[1,2],"c":{}}"#,
                &["none", "none", "none"],
            ),
            (&["a"], r#"{"a":1,"a":2}"#, &["2"]),
            (&["a"], r#"{"a":1,"a":[3]}"#, &["none"]),
            (&["a"], r#"{"\u0061":"\u00e9\n"}"#, &[r#""é\n""#]),
            (
                &["a"],
                r#"{"a":18446744073709551615}"#,
                &["18446744073709552000"],
            ),
            (&["a"], "{}", &["none"]),
        ] {
            assert_eq!(pick(paths, document).unwrap(), expected, "{document}");
        }
    }

    #[test]
    fn what_is_no_document_is_refused() {
        for (document, part) in [
            ("", "EOF"),
            ("7", "expected a JSON document at column 1"),
            (r#"{"a":1"#, "EOF"),
            (r#"{"a":1} x"#, "trailing characters at column 9"),
            (r#"{"a":1}{"a":2}"#, "trailing"),
            ("[1]", "expected a JSON document"),
            (r#"{"a":"#, "EOF"),
        ] {
            let error = pick(&["a"], document).unwrap_err();
            assert!(error.contains(part), "{document}: {error}");
        }
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(pick(&["a"], &deep).unwrap(), ["none"]);
    }

    #[test]
    fn scalars_at_the_top_are_proposed() {
        let document = br#"{"id":1,"s":"x","o":{"p":1},"l":[],"n":null,"b":false,"id":2}"#;
        assert_eq!(scalar_fields(document).unwrap(), ["id", "s", "b"]);
        assert_eq!(scalar_fields(b"[1]"), None);
    }
}
