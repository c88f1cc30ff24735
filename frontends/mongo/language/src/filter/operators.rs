//! The table of all operators.

use super::parse::{Operand, Parser};
use super::{Node, arrays, bits, comparison, elements, evaluation, logical, schema, unsupported};
use crate::error::Result;
use bson::Bson;

/// Parses an operator that stands for itself in a filter. Nothing comes of `$comment`.
pub(super) type OnDocument = fn(Parser<'_>, &str, &Bson) -> Result<Option<Node>>;

/// Parses an operator that is given to a path. Nothing comes of `$options`.
pub(super) type OnField = fn(Parser<'_>, &Operand<'_>) -> Result<Option<Node>>;

const ON_DOCUMENTS: &[(&str, OnDocument)] = &[
    ("$alwaysFalse", evaluation::always),
    ("$alwaysTrue", evaluation::always),
    ("$and", logical::tree),
    ("$comment", evaluation::comment),
    ("$db", comparison::reference),
    ("$expr", evaluation::expression),
    ("$id", comparison::reference),
    ("$jsonSchema", schema::operator),
    ("$nor", logical::tree),
    ("$or", logical::tree),
    ("$ref", comparison::reference),
    ("$sampleRate", evaluation::sample),
    ("$text", unsupported::text),
    ("$where", unsupported::code),
];

const ON_FIELDS: &[(&str, OnField)] = &[
    ("$all", arrays::all),
    ("$bitsAllClear", bits::parse),
    ("$bitsAllSet", bits::parse),
    ("$bitsAnyClear", bits::parse),
    ("$bitsAnySet", bits::parse),
    ("$elemMatch", arrays::element_match),
    ("$eq", comparison::compare),
    ("$exists", elements::exists),
    ("$geoIntersects", unsupported::geometry),
    ("$geoNear", unsupported::near),
    ("$geoWithin", unsupported::geometry),
    ("$gt", comparison::compare),
    ("$gte", comparison::compare),
    ("$in", comparison::any_of),
    ("$lt", comparison::compare),
    ("$lte", comparison::compare),
    ("$mod", evaluation::modulo),
    ("$ne", comparison::not_equal),
    ("$near", unsupported::near),
    ("$nearSphere", unsupported::near),
    ("$nin", comparison::none_of),
    ("$not", logical::not),
    ("$options", evaluation::regex_options),
    ("$regex", evaluation::regex),
    ("$size", arrays::size),
    ("$type", elements::of_type),
    ("$within", unsupported::geometry),
];

pub(super) fn on_documents(name: &str) -> Option<OnDocument> {
    find(ON_DOCUMENTS, name)
}

pub(super) fn on_fields(name: &str) -> Option<OnField> {
    find(ON_FIELDS, name)
}

fn find<T: Copy>(table: &[(&str, T)], name: &str) -> Option<T> {
    let position = table.binary_search_by_key(&name, |(name, _)| name).ok()?;
    table.get(position).map(|(_, parse)| *parse)
}

#[cfg(test)]
mod tests {
    use super::{ON_DOCUMENTS, ON_FIELDS};

    #[test]
    fn tables_are_sorted() {
        assert!(ON_DOCUMENTS.is_sorted_by_key(|(name, _)| name));
        assert!(ON_FIELDS.is_sorted_by_key(|(name, _)| name));
    }
}
