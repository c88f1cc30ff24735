//! `$jsonSchema`: the part of JSON Schema draft 4 that MongoDB knows, with BSON's types.
//!
//! A schema is a list of rules, one for each keyword that demands something. Most keywords look
//! only at values of one type and are content with all others.

mod explain;
mod matching;
mod parse;

use std::collections::HashSet;

use bson::spec::ElementType;
use bson::{Bson, Document};

use super::TypeSet;
use super::parse::{Parser, Place};
use super::{Comparison, Node};
use crate::error::{Code, Error, Result, type_mismatch};
use crate::members::Members as OneOf;
use crate::number::Number;
use crate::regex::Regex;

/// A parsed schema.
#[derive(Clone, Debug, PartialEq)]
pub struct Schema {
    rules: Vec<Rule>,
    /// `title` and `description`, for those who read that a document failed.
    notes: Document,
    source: Document,
}

/// What one keyword demands, and how it was written.
#[derive(Clone, Debug, PartialEq)]
struct Rule {
    stated: Document,
    keyword: Keyword,
}

#[derive(Clone, Debug, PartialEq)]
enum Keyword {
    /// `minimum` and `maximum`, exclusive or not.
    Bound(Comparison, Bson),
    MultipleOf(Bson),
    MinLength(i64),
    MaxLength(i64),
    Pattern(Regex),
    MinItems(i64),
    MaxItems(i64),
    UniqueItems,
    Items(Box<Schema>),
    ItemList(Vec<Schema>),
    /// What comes behind as many items as `items` has schemas.
    AdditionalItems(usize, Additional),
    Properties(Vec<(String, Schema)>),
    Members(Members),
    Required(Vec<String>),
    MinProperties(i64),
    MaxProperties(i64),
    Dependencies(Document, Vec<(String, Dependency)>),
    AllOf(Vec<Schema>),
    AnyOf(Vec<Schema>),
    OneOf(Vec<Schema>),
    Not(Box<Schema>),
    /// Values with their fields in one order.
    Enum(OneOf),
    Type(TypeSet),
    Encrypt,
}

/// `patternProperties` and `additionalProperties`: what is asked of properties by their names.
#[derive(Clone, Debug, PartialEq)]
struct Members {
    /// Those that `properties` names are not additional.
    named: HashSet<String>,
    patterns: Vec<(Regex, Schema)>,
    additional: Additional,
}

/// What else may be there.
#[derive(Clone, Debug, PartialEq)]
enum Additional {
    Anything,
    Nothing,
    Valid(Box<Schema>),
}

/// What must hold if a property is there.
#[derive(Clone, Debug, PartialEq)]
enum Dependency {
    Properties(Vec<String>),
    Schema(Schema),
}

/// What a schema looks at: the document itself, or a value within it.
#[derive(Clone, Copy)]
enum Subject<'a> {
    Document(&'a Document),
    Value(&'a Bson),
}

impl<'a> Subject<'a> {
    fn document(self) -> Option<&'a Document> {
        match self {
            Self::Document(document) => Some(document),
            Self::Value(value) => value.as_document(),
        }
    }

    fn value(self) -> Option<&'a Bson> {
        match self {
            Self::Document(_) => None,
            Self::Value(value) => Some(value),
        }
    }

    fn array(self) -> Option<&'a [Bson]> {
        self.value().and_then(Bson::as_array).map(Vec::as_slice)
    }

    fn number(self) -> Option<Number> {
        self.value().and_then(Number::from_bson)
    }

    fn string(self) -> Option<&'a str> {
        self.value().and_then(Bson::as_str)
    }

    fn element_type(self) -> ElementType {
        self.value()
            .map_or(ElementType::EmbeddedDocument, Bson::element_type)
    }

    fn to_bson(self) -> Bson {
        match self {
            Self::Document(document) => Bson::Document(document.clone()),
            Self::Value(value) => value.clone(),
        }
    }
}

impl Schema {
    /// Parses a schema.
    pub fn parse(source: &Document) -> Result<Self> {
        parse::schema(source, 0)
    }

    /// The schema as it was written.
    pub fn source(&self) -> &Document {
        &self.source
    }

    /// Whether the document is valid.
    pub fn is_valid(&self, document: &Document) -> Result<bool> {
        self.accepts(Subject::Document(document))
    }

    /// Which rules the document breaks, as the reply to a failed write tells it.
    pub fn explain(&self, document: &Document) -> Result<Document> {
        explain::root(self, document)
    }
}

pub(super) fn operator(parser: Parser<'_>, name: &str, value: &Bson) -> Result<Option<Node>> {
    if matches!(parser.place, Place::ArrayFilter | Place::Projection) {
        let message = format!("{name} is not allowed in this context");
        return Err(Error::new(Code::QUERY_FEATURE_NOT_ALLOWED, message));
    }
    let Bson::Document(source) = value else {
        return Err(type_mismatch(format!("{name} must be an object")));
    };
    Ok(Some(Node::Schema(Box::new(Schema::parse(source)?))))
}

#[cfg(test)]
mod tests {
    use bson::spec::BinarySubtype;
    use bson::{Binary, Bson, Document, doc};

    use super::Schema;

    fn check(rows: impl IntoIterator<Item = (Document, Document, bool)>) {
        for (schema, document, expected) in rows {
            let valid = Schema::parse(&schema).unwrap().is_valid(&document).unwrap();
            assert_eq!(valid, expected, "{schema} on {document}");
        }
    }

    /// Rows of a schema for the property `a`, a value of it, and whether it is valid.
    fn check_property(rows: impl IntoIterator<Item = (Document, Bson, bool)>) {
        let rows = rows.into_iter();
        check(rows.map(|(schema, value, expected)| {
            (
                doc! {"properties": {"a": schema}},
                doc! {"a": value},
                expected,
            )
        }));
    }

    #[test]
    fn knows_types() {
        check_property([
            (doc! {"bsonType": "int"}, 1.into(), true),
            (doc! {"bsonType": "int"}, 1_i64.into(), false),
            (doc! {"bsonType": ["int", "string"]}, "x".into(), true),
            (doc! {"bsonType": "number"}, 1.5.into(), true),
            (doc! {"type": "number"}, 1.into(), true),
            (doc! {"type": "boolean"}, true.into(), true),
            (doc! {"type": ["null", "string"]}, Bson::Null, true),
            (
                doc! {"type": "string"},
                Bson::Array(vec!["x".into()]),
                false,
            ),
        ]);
        check([
            (doc! {"bsonType": "object"}, doc! {}, true),
            (doc! {"bsonType": "array"}, doc! {}, false),
            (
                doc! {"properties": {"a": {"bsonType": "int"}}},
                doc! {},
                true,
            ),
        ]);
    }

    #[test]
    fn bounds_numbers() {
        check_property([
            (doc! {"minimum": 1}, 1.0.into(), true),
            (doc! {"minimum": 1}, 0.into(), false),
            (doc! {"minimum": 1}, "x".into(), true),
            (
                doc! {"minimum": 1, "exclusiveMinimum": true},
                1.into(),
                false,
            ),
            (
                doc! {"minimum": 1, "exclusiveMinimum": false},
                1.into(),
                true,
            ),
            (doc! {"maximum": 1}, 2.into(), false),
            (
                doc! {"maximum": 1, "exclusiveMaximum": true},
                1.into(),
                false,
            ),
            (doc! {"multipleOf": 3}, 9.into(), true),
            (doc! {"multipleOf": 3}, 10.into(), false),
            (doc! {"multipleOf": 0.1}, 0.3.into(), true),
            (doc! {"multipleOf": 3}, "x".into(), true),
        ]);
        check([(doc! {"minimum": 1}, doc! {}, true)]);
    }

    #[test]
    fn bounds_strings_and_arrays() {
        let array = |values: &[i32]| Bson::from(values.to_vec());
        let documents = |all: Vec<Document>| Bson::from(all);
        check_property([
            (doc! {"minLength": 2}, "é".into(), false),
            (doc! {"maxLength": 1}, "é".into(), true),
            (doc! {"maxLength": 1}, 12.into(), true),
            (doc! {"pattern": "^x"}, "xyz".into(), true),
            (doc! {"pattern": "^x"}, "yz".into(), false),
            (doc! {"minItems": 2}, array(&[1]), false),
            (doc! {"maxItems": 2}, array(&[1, 2]), true),
            (doc! {"uniqueItems": true}, array(&[1, 2, 1]), false),
            (doc! {"uniqueItems": false}, array(&[1, 1]), true),
            (
                doc! {"uniqueItems": true},
                documents(vec![doc! {"x": 1, "y": 2}, doc! {"y": 2.0, "x": 1}]),
                false,
            ),
            (doc! {"items": {"maximum": 5}}, array(&[1, 9]), false),
            (doc! {"items": {"maximum": 5}}, 9.into(), true),
            (doc! {"items": [{"maximum": 5}]}, array(&[1, 9]), true),
            (
                doc! {"items": [{"maximum": 5}], "additionalItems": false},
                array(&[1, 9]),
                false,
            ),
            (
                doc! {"items": [{"maximum": 5}], "additionalItems": {"minimum": 9}},
                array(&[1, 9]),
                true,
            ),
            (doc! {"additionalItems": false}, array(&[1]), true),
        ]);
    }

    #[test]
    fn looks_at_properties() {
        check([
            (
                doc! {"required": ["a", "b"]},
                doc! {"a": 1, "b": Bson::Null},
                true,
            ),
            (doc! {"required": ["a", "b"]}, doc! {"a": 1}, false),
            (doc! {"minProperties": 2}, doc! {"a": 1}, false),
            (doc! {"maxProperties": 2}, doc! {"a": 1}, true),
            (
                doc! {"properties": {"a": {}}, "additionalProperties": false},
                doc! {"a": 1, "b": 1},
                false,
            ),
            (
                doc! {"patternProperties": {"^n": {"type": "number"}}},
                doc! {"n1": "x"},
                false,
            ),
            (
                doc! {
                    "patternProperties": {"^n": {}},
                    "additionalProperties": {"type": "string"},
                },
                doc! {"n1": 1, "x": "y"},
                true,
            ),
            (doc! {"dependencies": {"a": ["b"]}}, doc! {"a": 1}, false),
            (doc! {"dependencies": {"a": ["b"]}}, doc! {"c": 1}, true),
            (
                doc! {"dependencies": {"a": {"required": ["b"]}}},
                doc! {"a": 1},
                false,
            ),
            (
                doc! {"properties": {"a": {"properties": {"b": {"type": "string"}}}}},
                doc! {"a": {"b": 1}},
                false,
            ),
        ]);
    }

    #[test]
    fn combines_schemas() {
        let (low, high) = (doc! {"maximum": 5}, doc! {"minimum": 3});
        check_property([
            (doc! {"allOf": [low.clone(), high.clone()]}, 4.into(), true),
            (doc! {"allOf": [low.clone(), high.clone()]}, 9.into(), false),
            (doc! {"anyOf": [low.clone(), high.clone()]}, 9.into(), true),
            (doc! {"oneOf": [low.clone(), high.clone()]}, 4.into(), false),
            (doc! {"oneOf": [low.clone(), high]}, 9.into(), true),
            (doc! {"not": low}, 4.into(), false),
            (doc! {"enum": [1, {"x": 1, "y": 2}]}, 1.0.into(), true),
            (
                doc! {"enum": [{"x": 1, "y": 2}]},
                doc! {"y": 2, "x": 1}.into(),
                true,
            ),
            (doc! {"enum": [1]}, Bson::from(vec![1]), false),
        ]);
        let secret = Binary {
            subtype: BinarySubtype::Encrypted,
            bytes: vec![1],
        };
        check_property([
            (doc! {"encrypt": {}}, Bson::Binary(secret), true),
            (doc! {"encrypt": {}}, "plain".into(), false),
        ]);
    }

    #[test]
    fn refuses_bad_schemas() {
        for (schema, code) in [
            (doc! {"unknown": 1}, 9),
            (doc! {"$ref": "#"}, 9),
            (doc! {"format": "email"}, 9),
            (doc! {"required": "a"}, 14),
            (doc! {"required": []}, 9),
            (doc! {"required": ["a", "a"]}, 9),
            (doc! {"required": [1]}, 14),
            (doc! {"minLength": -1}, 9),
            (doc! {"minLength": "1"}, 9),
            (doc! {"maximum": "1"}, 14),
            (doc! {"exclusiveMaximum": true}, 9),
            (doc! {"maximum": 1, "exclusiveMaximum": 1}, 14),
            (doc! {"multipleOf": 0}, 9),
            (doc! {"pattern": "["}, 51091),
            (doc! {"pattern": 1}, 14),
            (doc! {"patternProperties": {"[": {}}}, 2),
            (doc! {"allOf": []}, 2),
            (doc! {"allOf": [1]}, 14),
            (doc! {"not": 1}, 14),
            (doc! {"enum": []}, 9),
            (doc! {"enum": [1, 1.0]}, 9),
            (doc! {"bsonType": "nosuch"}, 2),
            (doc! {"bsonType": "integer"}, 9),
            (doc! {"type": "int"}, 2),
            (doc! {"type": "string", "bsonType": "string"}, 9),
            (doc! {"type": []}, 9),
            (doc! {"type": 1}, 14),
            (doc! {"items": 1}, 14),
            (doc! {"uniqueItems": 1}, 14),
            (doc! {"dependencies": {"a": []}}, 9),
            (doc! {"dependencies": {"a": 1}}, 14),
            (doc! {"properties": {"a": {"default": 0}}}, 9),
            (doc! {"title": 1}, 14),
        ] {
            let error = Schema::parse(&schema).unwrap_err();
            assert_eq!(error.code.0, code, "{schema}: {error}");
        }
    }
}
