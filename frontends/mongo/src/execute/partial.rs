//! Decodes only those fields of a stored document that a filter or a sort uses: decoding all others
//! would cost more than the rest of the query.

use bson::{Bson, Document, RawDocument};
use tessera_core::deadline;
use tessera_mongo_language::filter::Filter;
use tessera_mongo_language::sort::SortPattern;

use super::{BYTES_IN_STEP, damaged, decode};
use crate::failure::Result;
use crate::plan::predicate;
use crate::wire::document::elements_among;

/// So many fields are looked for by their names.
const MOST_NAMES: usize = 32;

/// The fields of documents that are looked at.
#[derive(Clone, Debug)]
pub(crate) enum Looked {
    /// All, or it is not known which.
    All,
    /// Those of these names.
    Fields(Vec<String>),
}

impl Looked {
    pub(crate) fn by_filter(filter: &Filter) -> Self {
        match predicate::paths(filter) {
            None => Self::All,
            Some(paths) => Self::at(paths.iter().map(String::as_str)),
        }
    }

    pub(crate) fn by_sort(sort: &SortPattern) -> Self {
        match sort.fields() {
            None => Self::All,
            Some(fields) => Self::at(fields.into_iter().map(|(path, _)| path.as_str())),
        }
    }

    fn at<'a>(paths: impl Iterator<Item = &'a str>) -> Self {
        let mut names: Vec<String> = Vec::new();
        for path in paths {
            let name = path.split('.').next().unwrap_or_default();
            if names.iter().any(|known| known == name) {
                continue;
            }
            // To look for each of many names costs more than reading all fields.
            if names.len() >= MOST_NAMES {
                return Self::All;
            }
            names.push(name.to_owned());
        }
        Self::Fields(names)
    }

    /// These fields of a stored document, in its order.
    pub(crate) fn of(&self, body: &[u8]) -> Result<Document> {
        let Self::Fields(names) = self else {
            return decode(body);
        };
        let document = RawDocument::from_bytes(body).map_err(|_| damaged())?;
        deadline::step(body.len() / BYTES_IN_STEP)?;
        let mut looked_at = Document::new();
        for (name, value) in elements_among(document, names) {
            looked_at.insert(name, Bson::try_from(value).map_err(|_| damaged())?);
        }
        Ok(looked_at)
    }
}

#[cfg(test)]
mod tests {
    use bson::doc;
    use tessera_mongo_language::expression::Context;

    use super::*;

    fn looked_at(filter: Document) -> Document {
        let body = doc! {
            "_id": 1, "text": "long", "a": { "b": [1, { "c": 2 }] }, "d": [true, Bson::Null],
            "when": bson::DateTime::from_millis(5), "e": 1.5, "a.b": "odd",
            "bytes": bson::Binary { subtype: bson::spec::BinarySubtype::Generic, bytes: vec![1] },
        };
        let filter = Filter::parse(&filter, &Context::default()).unwrap();
        Looked::by_filter(&filter)
            .of(&body.to_vec().unwrap())
            .unwrap()
    }

    #[test]
    fn only_fields_of_the_condition_are_read() {
        assert_eq!(
            looked_at(doc! { "_id": { "$gte": 1, "$lt": 5 } }),
            doc! { "_id": 1 }
        );
        let both = looked_at(doc! { "$or": [{ "e": 1 }, { "a.b.c": 2 }, { "a.x": 1 }] });
        assert_eq!(both, doc! { "a": { "b": [1, { "c": 2 }] }, "e": 1.5 });
        assert_eq!(looked_at(doc! { "missing": 1 }), doc! {});
        assert_eq!(
            looked_at(doc! { "d.1": Bson::Null }),
            doc! { "d": [true, Bson::Null] }
        );
        let expression = doc! { "$expr": { "$eq": ["$e", 1] } };
        assert_eq!(looked_at(expression).len(), 8);
    }

    #[test]
    fn an_order_looks_at_its_own_fields() {
        let order = doc! { "a.b": 1, "e": -1 };
        let sort = SortPattern::parse(&order, &Context::default().collation);
        let body = doc! { "_id": 1, "e": 2, "a": { "b": 3 }, "c": 4 };
        let read = Looked::by_sort(&sort.unwrap()).of(&body.to_vec().unwrap());
        assert_eq!(read.unwrap(), doc! { "e": 2, "a": { "b": 3 } });
    }
}
