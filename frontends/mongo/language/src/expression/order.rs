//! The order by some fields, as bytes: what sorts, windows and the best of a group compare by.

use bson::{Bson, Document};
use tessera_core::encoding::invert;

use crate::collation::Collation;
use crate::error::Result;
use crate::key;
use crate::path::{Path, keys};

/// Fields and their directions.
#[derive(Clone, Debug, PartialEq)]
pub struct Order {
    fields: Vec<(Path, bool)>,
}

impl Order {
    /// The order by paths, each of which may be descending.
    pub fn new<'a>(fields: impl IntoIterator<Item = (&'a str, bool)>) -> Self {
        let fields = fields.into_iter();
        Self {
            fields: fields
                .map(|(path, down)| (Path::parse(path), down))
                .collect(),
        }
    }

    /// The bytes by which a document sorts. An array counts by its least element, or by its
    /// greatest if the field is descending.
    pub fn key(&self, document: &Document, collation: &Collation) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        for (path, descending) in &self.fields {
            let found = keys(document, std::slice::from_ref(path))?;
            let encode = |entry: &Vec<Option<Bson>>| {
                let value = entry
                    .first()
                    .and_then(Option::as_ref)
                    .unwrap_or(&Bson::Null);
                key::encode(value, collation)
            };
            let encoded = found.entries.iter().map(encode);
            if *descending {
                let mut key = encoded.max().unwrap_or_default();
                invert(&mut key);
                bytes.extend(key);
            } else {
                bytes.extend(encoded.min().unwrap_or_default());
            }
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::Order;
    use crate::collation::Collation;

    #[test]
    fn orders_documents() {
        let order = Order::new([("a", false), ("b.c", true)]);
        let sorted = [
            doc! { "a": [] },
            doc! { "a": null, "b": { "c": 2 } },
            doc! { "b": { "c": 1 } },
            doc! { "a": [5, 1], "b": [{ "c": 1 }, { "c": 9 }] },
            doc! { "a": 1, "b": { "c": 8 } },
            doc! { "a": 2 },
            doc! { "a": "x" },
        ];
        let keys: Vec<_> = sorted
            .iter()
            .map(|d| order.key(d, &Collation::default()).unwrap())
            .collect();
        assert!(keys.is_sorted(), "{keys:?}");
    }
}
