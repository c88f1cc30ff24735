//! `$jsonSchema`: the part of JSON Schema draft 4 that MongoDB knows, with BSON's types.
//!
//! A schema is a list of rules, one for each keyword that demands something. Most keywords look only
//! at values of one type and are content with all others.

mod explain;
mod matching;
mod parse;

use bson::spec::ElementType;
use bson::{Bson, Document};

use super::TypeSet;
use super::parse::{Parser, Place};
use super::{Comparison, Node};
use crate::error::{Code, Error, Result, type_mismatch};
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
    Enum(Vec<Bson>),
    Type(TypeSet),
    Encrypt,
}

/// `patternProperties` and `additionalProperties`: what is asked of properties by their names.
#[derive(Clone, Debug, PartialEq)]
struct Members {
    /// Those that `properties` names are not additional.
    named: Vec<String>,
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
