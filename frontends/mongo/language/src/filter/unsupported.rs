//! `$text`, `$where` and geography: understood, and refused with the code of a server that lacks
//! the index or the interpreter they need.

use bson::{Bson, Document};

use super::Node;
use super::parse::{Operand, Parser, Place};
use crate::error::{Code, Error, Result, bad_value, type_mismatch};

/// `$near` where results are not sorted by distance.
const NEAR_NOT_ALLOWED: Code = Code(5_626_500);

pub(super) fn code(parser: Parser<'_>, name: &str, value: &Bson) -> Result<Option<Node>> {
    if parser.place != Place::Query {
        return Err(bad_value(format!("{name} is not allowed in this context")));
    }
    if parser.nested {
        return Err(bad_value(format!(
            "{name} can only be applied to the top-level document"
        )));
    }
    match value {
        Bson::String(_) | Bson::JavaScriptCode(_) | Bson::JavaScriptCodeWithScope(_) => Err(
            bad_value("$where cannot run: this server has no JavaScript engine"),
        ),
        _ => Err(bad_value("$where got bad type")),
    }
}

pub(super) fn text(parser: Parser<'_>, name: &str, value: &Bson) -> Result<Option<Node>> {
    if parser.nested {
        return Err(bad_value(format!(
            "{name} can only be applied to the top-level document"
        )));
    }
    if !matches!(parser.place, Place::Query | Place::Match) {
        return Err(bad_value(format!("{name} is not allowed in this context")));
    }
    let Bson::Document(options) = value else {
        return Err(bad_value(format!("{name} expects an object")));
    };
    validate_text(options)?;
    Err(Error::new(
        Code::INDEX_NOT_FOUND,
        "text index required for $text query",
    ))
}

fn validate_text(options: &Document) -> Result<()> {
    for (name, value) in options {
        let fits = match name.as_str() {
            "$search" | "$language" => matches!(value, Bson::String(_)),
            "$caseSensitive" | "$diacriticSensitive" => matches!(value, Bson::Boolean(_)),
            _ => return Err(bad_value(format!("extra fields in $text: {name}"))),
        };
        if !fits {
            return Err(type_mismatch(format!("{name} of $text has the wrong type")));
        }
    }
    if !options.contains_key("$search") {
        return Err(Error::new(
            Code::NO_SUCH_KEY,
            "Missing expected field \"$search\"",
        ));
    }
    Ok(())
}

pub(super) fn near(parser: Parser<'_>, operand: &Operand<'_>) -> Result<Option<Node>> {
    let name = operand.name;
    if parser.place != Place::Query || parser.nested {
        let message = format!("{name} is not allowed in this context");
        return Err(Error::new(NEAR_NOT_ALLOWED, message));
    }
    let message = format!("unable to find index for {name} query");
    Err(Error::new(Code::NO_QUERY_EXECUTION_PLANS, message))
}

pub(super) fn geometry(_: Parser<'_>, operand: &Operand<'_>) -> Result<Option<Node>> {
    let name = operand.name;
    let message = format!("{name} is not supported: this server has no geospatial queries");
    Err(Error::new(Code::NOT_IMPLEMENTED, message))
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::super::testing::refuse;

    #[test]
    fn refuses_with_the_code_of_a_server_without_it() {
        refuse([
            (doc! {"$where": "this.a > 1"}, 2),
            (doc! {"$where": 1}, 2),
            (doc! {"$text": {"$search": "x"}}, 27),
            (doc! {"$text": {}}, 4),
            (doc! {"$text": "x"}, 2),
            (doc! {"$text": {"$search": "x", "$foo": 1}}, 2),
            (doc! {"$text": {"$search": 1}}, 14),
            (doc! {"a": {"$near": [0, 0]}}, 291),
            (
                doc! {"a": {"$elemMatch": {"b": {"$nearSphere": [0, 0]}}}},
                5_626_500,
            ),
            (doc! {"a": {"$geoWithin": {"$box": [[0, 0], [1, 1]]}}}, 238),
        ]);
    }
}
