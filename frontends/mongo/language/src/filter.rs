//! Query filters: parsed once, matched against each document.
//!
//! [`parse`](Filter::parse) turns a filter document into a tree of [`Node`]s: logic over [`Test`]s
//! of the values at a path. The tree is open to the planner, which takes equalities and ranges from
//! it. Operators are rows of the tables in `operators`; each family has a file, which holds how its
//! operators are parsed and what they accept.

mod arrays;
mod bits;
mod comparison;
mod elements;
mod evaluation;
mod implication;
mod logical;
mod matching;
mod normalize;
mod operators;
mod parse;
mod schema;
mod serialize;
mod unsupported;
mod validator;

use bson::{Bson, Document};

use crate::collation::Collation;
use crate::error::Result;
use crate::expression::Expression;
use crate::expression::variables::{Context, Variables};
use crate::path::Path;
use crate::regex::Regex;

pub use bits::{BitTest, Mask};
pub use comparison::{Comparison, Members};
pub use elements::TypeSet;
pub use parse::{Place, is_operator_document};
pub use schema::Schema;
pub use validator::Validator;

/// A parsed filter, with the collation it compares strings by and the variables it was given.
#[derive(Clone, Debug, PartialEq)]
pub struct Filter {
    root: Node,
    collation: Collation,
    variables: Variables,
}

/// A condition on a document.
#[derive(Clone, Debug, PartialEq)]
pub enum Node {
    /// All must hold; none is always true.
    And(Vec<Self>),
    /// At least one must hold.
    Or(Vec<Self>),
    /// None may hold.
    Nor(Vec<Self>),
    /// Must not hold.
    Not(Box<Self>),
    /// Some value at the path must pass the test.
    Field {
        /// Where; [`Path::itself`] in the conditions of [`Test::Element`].
        path: Path,
        /// What.
        test: Test,
    },
    /// `$expr`: must be true as expressions see it.
    Expression(Box<Computed>),
    /// `$jsonSchema`.
    Schema(Box<Schema>),
    /// `$sampleRate`: holds for this share of the documents, at random.
    Sample(f64),
    /// `$alwaysTrue`.
    AlwaysTrue,
    /// `$alwaysFalse`, and `$all` of nothing.
    AlwaysFalse,
}

/// A condition on one value. Elements of an array are tried before the array itself.
#[derive(Clone, Debug, PartialEq)]
pub enum Test {
    /// `$eq`, `$lt`, `$lte`, `$gt`, `$gte`: within one type, but for null, MinKey and MaxKey.
    Compare {
        /// How.
        op: Comparison,
        /// With what.
        value: Bson,
    },
    /// `$in`.
    In(Members),
    /// `$regex`, or a regular expression as the value.
    Regex(Regex),
    /// `$exists: true`; its contrary is a [`Node::Not`].
    Exists,
    /// `$type`.
    Type(TypeSet),
    /// `$size`: an array of that many elements.
    Size(usize),
    /// `$elemMatch` with conditions on fields: an array one of whose documents meets them.
    Document(Box<Node>),
    /// `$elemMatch` with operators: an array one of whose elements passes all of them.
    Element(Vec<Node>),
    /// `$mod`.
    Modulo {
        /// Never 0.
        divisor: i64,
        /// What must be left.
        remainder: i64,
    },
    /// `$bitsAllSet` and its kin.
    Bits {
        /// Which.
        test: BitTest,
        /// Of these bits.
        mask: Mask,
    },
}

/// A parsed `$expr` and what it was parsed from.
#[derive(Clone, Debug, PartialEq)]
pub struct Computed {
    /// As it was written.
    pub source: Bson,
    /// What is evaluated.
    pub expression: Expression,
}

impl Filter {
    /// Parses the filter of a query.
    pub fn parse(filter: &Document, context: &Context) -> Result<Self> {
        Self::parse_in(filter, context, Place::Query)
    }

    /// Parses a filter where not everything that queries may ask is allowed.
    pub fn parse_in(filter: &Document, context: &Context, place: Place) -> Result<Self> {
        let root = parse::filter(filter, context, place)?;
        let root = normalize::normalize(root, &context.collation);
        Ok(Self {
            root,
            collation: context.collation.clone(),
            variables: context.variables.clone(),
        })
    }

    /// Whether the document meets the filter.
    pub fn matches(&self, document: &Document) -> Result<bool> {
        Ok(self.matches_with_position(document)?.is_some())
    }

    /// Whether the document meets the filter, and if so the position in an array by which it did,
    /// which is what the positional operator `$` of updates and projections means.
    pub fn matches_with_position(&self, document: &Document) -> Result<Option<Option<usize>>> {
        matching::Matcher::new(&self.collation, &self.variables).run(&self.root, document)
    }

    /// Whether a value by itself meets the filter, as an element of an array that `$pull` looks at
    /// when its condition is made of operators. Fields are not looked up: the tests see the value.
    pub fn matches_value(&self, value: &Bson) -> Result<bool> {
        matching::Matcher::new(&self.collation, &self.variables).value(&self.root, value)
    }

    /// The tree.
    pub fn root(&self) -> &Node {
        &self.root
    }

    /// How strings compare.
    pub fn collation(&self) -> &Collation {
        &self.collation
    }

    /// The variables that `$expr` sees.
    pub fn variables(&self) -> &Variables {
        &self.variables
    }

    /// Whether every document meets it.
    pub fn is_empty(&self) -> bool {
        matches!(&self.root, Node::And(nodes) if nodes.is_empty())
    }

    /// Whether every document that meets this filter surely meets the other, so that a partial
    /// index with that filter has them all. It may be so without being seen to be.
    pub fn implies(&self, other: &Self) -> bool {
        self.collation == other.collation
            && implication::Implication::new(self).holds(&self.root, &other.root)
    }

    /// Whether a partial index may have this filter.
    pub fn fits_partial_index(&self) -> bool {
        implication::fits_partial_index(&self.root)
    }

    /// The filter written in one way for all filters that mean the same tree, as explain shows it.
    pub fn to_document(&self) -> Document {
        self.root.to_document()
    }
}

/// Whether the operator of that name is given to a path or a value, rather than standing alone.
pub(crate) fn is_operator_on_values(name: &str) -> bool {
    operators::on_fields(name).is_some()
}

impl Node {
    /// A test of the values at a path.
    pub fn field(path: &Path, test: Test) -> Self {
        Self::Field {
            path: path.clone(),
            test,
        }
    }

    /// The conditions that must all hold: those of a conjunction, or this one.
    pub fn conjuncts(&self) -> &[Self] {
        match self {
            Self::And(nodes) => nodes,
            other => std::slice::from_ref(other),
        }
    }

    fn negated(self) -> Self {
        Self::Not(Box::new(self))
    }

    fn all(mut nodes: Vec<Self>) -> Self {
        match (nodes.len(), nodes.pop()) {
            (1, Some(only)) => only,
            (_, last) => {
                nodes.extend(last);
                Self::And(nodes)
            }
        }
    }

    /// See [`Filter::to_document`].
    pub fn to_document(&self) -> Document {
        serialize::document(self)
    }
}

#[cfg(test)]
mod testing {
    //! What the tests of every family need.

    use bson::Document;

    use super::{Filter, Place};
    use crate::expression::variables::Context;

    /// Each row: a filter, a document, whether they match.
    pub(super) fn check(rows: impl IntoIterator<Item = (Document, Document, bool)>) {
        for (filter, document, expected) in rows {
            let parsed = Filter::parse(&filter, &Context::default()).unwrap();
            let matched = parsed.matches(&document).unwrap();
            assert_eq!(matched, expected, "{filter} on {document}");
        }
    }

    /// Each row: a filter that is refused, and the code.
    pub(super) fn refuse(rows: impl IntoIterator<Item = (Document, i32)>) {
        for (filter, code) in rows {
            let error = Filter::parse(&filter, &Context::default()).unwrap_err();
            assert_eq!(error.code.0, code, "{filter}: {error}");
        }
    }

    /// The same outside of queries.
    pub(super) fn refuse_in(place: Place, rows: impl IntoIterator<Item = (Document, i32)>) {
        for (filter, code) in rows {
            let error = Filter::parse_in(&filter, &Context::default(), place).unwrap_err();
            assert_eq!(error.code.0, code, "{filter} in {place:?}: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use bson::{Bson, doc};

    use super::testing::{check, refuse};
    use super::{Filter, Node, Place, Test};
    use crate::collation::Collation;
    use crate::expression::variables::Context;

    #[test]
    fn takes_fields_and_references_as_values() {
        check([
            (doc! {}, doc! {"a": 1}, true),
            (doc! {"a": {"b": 1}}, doc! {"a": {"b": 1}}, true),
            (doc! {"a": {"b": 1}}, doc! {"a": {"b": 1, "c": 2}}, false),
            (
                doc! {"a": {"x": 1, "y": 2}},
                doc! {"a": {"y": 2, "x": 1}},
                false,
            ),
            (doc! {"a": {}}, doc! {"a": {}}, true),
            (
                doc! {"a": {"$ref": "c", "$id": 1}},
                doc! {"a": {"$ref": "c", "$id": 1}},
                true,
            ),
            (
                doc! {"a": {"$elemMatch": {"$ref": "c", "$id": 1}}},
                doc! {"a": [{"$ref": "c", "$id": 1, "x": 2}]},
                true,
            ),
        ]);
        refuse([
            (doc! {"$foo": 1}, 2),
            (doc! {"a": {"$foo": 1}}, 2),
            (doc! {"a": {"$gt": 1, "b": 1}}, 2),
            (doc! {vec!["a"; 201].join("."): 1}, 5_729_100),
        ]);
    }

    #[test]
    fn refuses_filters_that_are_nested_too_deeply() {
        let mut filter = doc! {"a": 1};
        for _ in 0..100 {
            filter = doc! {"$and": [filter]};
        }
        refuse([(filter, 15)]);
    }

    #[test]
    fn says_where_in_an_array_it_matched() {
        for (filter, document, expected) in [
            (doc! {"a": 2}, doc! {"a": [1, 2]}, Some(1)),
            (doc! {"a": 2}, doc! {"a": 2}, None),
            (
                doc! {"a.b": 3},
                doc! {"a": [{"b": 1}, {"b": [2, 3]}]},
                Some(1),
            ),
            (
                doc! {"a": {"$elemMatch": {"$gt": 5}}},
                doc! {"a": [1, 9]},
                Some(1),
            ),
            (
                doc! {"a.b": {"$elemMatch": {"$gt": 5}}},
                doc! {"a": [{}, {"b": [1, 1, 9]}]},
                Some(1),
            ),
            (doc! {"a.1": 2}, doc! {"a": [1, 2]}, None),
            (doc! {"a": {"$all": [3, 5]}}, doc! {"a": [1, 3, 5]}, Some(2)),
            // The last condition decides, in the order of the normalised filter.
            (
                doc! {"a": {"$gt": 1, "$lt": 3}},
                doc! {"a": [0, 2]},
                Some(1),
            ),
            (
                doc! {"$or": [{"a": 2}, {"a": 4}]},
                doc! {"a": [1, 2]},
                Some(1),
            ),
            (doc! {"$or": [{"a": 2}, {"b": 4}]}, doc! {"a": [1, 2]}, None),
            (doc! {"a": {"$not": {"$gt": 5}}}, doc! {"a": [1, 2]}, None),
        ] {
            let parsed = Filter::parse(&filter, &Context::default()).unwrap();
            let position = parsed.matches_with_position(&document).unwrap();
            assert_eq!(position, Some(expected), "{filter} on {document}");
        }
    }

    #[test]
    fn matches_values_by_themselves() {
        for (filter, value, expected) in [
            (doc! {"": {"$gt": 3, "$lt": 6}}, Bson::Int32(4), true),
            (doc! {"": {"$gt": 3, "$lt": 6}}, Bson::Int32(7), false),
            (doc! {"": {"$not": {"$in": [1]}}}, Bson::Int32(1), false),
        ] {
            let parsed = Filter::parse(&filter, &Context::default()).unwrap();
            assert_eq!(
                parsed.matches_value(&value).unwrap(),
                expected,
                "{filter} on {value}"
            );
        }
    }

    #[test]
    fn compares_by_collation() {
        let collation = Collation::parse(&doc! {"locale": "en", "strength": 2}).unwrap();
        let context = Context {
            collation,
            ..Context::default()
        };
        for (filter, expected) in [
            (doc! {"a": "ABC"}, true),
            (doc! {"a": {"$in": ["x", "ABC"]}}, true),
            (doc! {"a": {"$ne": "ABC"}}, false),
            (doc! {"a": {"$gt": "ABB"}}, true),
            (doc! {"a": {"$regex": "ABC"}}, false),
            (
                doc! {"$jsonSchema": {"properties": {"a": {"enum": ["ABC"]}}}},
                false,
            ),
        ] {
            let parsed = Filter::parse(&filter, &context).unwrap();
            assert_eq!(
                parsed.matches(&doc! {"a": "abc"}).unwrap(),
                expected,
                "{filter}"
            );
        }
    }

    #[test]
    fn shows_its_tree() {
        let filter = doc! {"b": {"$gt": 1}, "$and": [{"a": 1}]};
        let parsed = Filter::parse(&filter, &Context::default()).unwrap();
        let fields: Vec<_> = parsed
            .root()
            .conjuncts()
            .iter()
            .map(|node| match node {
                Node::Field {
                    path,
                    test: Test::Compare { op, value },
                } => (path.as_str(), op.name(), value.clone()),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(
            fields,
            [("a", "$eq", Bson::Int32(1)), ("b", "$gt", Bson::Int32(1))]
        );
    }

    #[test]
    fn writes_itself_in_one_way() {
        for (filter, expected) in [
            (doc! {}, doc! {}),
            (doc! {"a": 1}, doc! {"a": {"$eq": 1}}),
            (
                doc! {"a": 1, "b": 2},
                doc! {"$and": [{"a": {"$eq": 1}}, {"b": {"$eq": 2}}]},
            ),
            (doc! {"a": {"$ne": 1}}, doc! {"a": {"$not": {"$eq": 1}}}),
            (
                doc! {"a": {"$exists": false}},
                doc! {"a": {"$not": {"$exists": true}}},
            ),
            (doc! {"a": {"$in": [2, 1, 2]}}, doc! {"a": {"$in": [1, 2]}}),
            (
                doc! {"$or": [{"a": 2}, {"a": 1}]},
                doc! {"a": {"$in": [1, 2]}},
            ),
            (
                doc! {"a": {"$type": "number"}},
                doc! {"a": {"$type": ["number"]}},
            ),
            (
                doc! {"a": {"$not": {"$gt": 1, "$lt": 0}}},
                doc! {"$nor": [{"$and": [{"a": {"$lt": 0}}, {"a": {"$gt": 1}}]}]},
            ),
            (
                doc! {"a": {"$elemMatch": {"$gt": 1, "$not": {"$lt": 5}}}},
                doc! {"a": {"$elemMatch": {"$gt": 1, "$not": {"$lt": 5}}}},
            ),
            (
                doc! {"a": {"$regex": "^x", "$options": "i"}},
                doc! {"a": {"$regex": "^x", "$options": "i"}},
            ),
            (
                doc! {"a": {"$bitsAllSet": 5}},
                doc! {"a": {"$bitsAllSet": [0_i64, 2_i64]}},
            ),
        ] {
            let parsed = Filter::parse(&filter, &Context::default()).unwrap();
            assert_eq!(parsed.to_document(), expected, "{filter}");
            let again = Filter::parse(&parsed.to_document(), &Context::default()).unwrap();
            assert_eq!(again.to_document(), expected, "{filter}");
        }
    }

    #[test]
    fn restricts_what_some_places_may_ask() {
        for place in [Place::ArrayFilter, Place::Projection] {
            super::testing::refuse_in(
                place,
                [
                    (doc! {"$expr": true}, 224),
                    (doc! {"$jsonSchema": {}}, 224),
                    (doc! {"$where": "1"}, 2),
                    (doc! {"$text": {"$search": "x"}}, 2),
                    (doc! {"a": {"$near": [0, 0]}}, 5_626_500),
                ],
            );
        }
        super::testing::refuse_in(
            Place::Match,
            [
                (doc! {"$where": "1"}, 2),
                (doc! {"a": {"$near": [0, 0]}}, 5_626_500),
                (doc! {"$text": {"$search": "x"}}, 27),
            ],
        );
        super::testing::refuse_in(
            Place::Validator,
            [
                (doc! {"$where": "1"}, 2),
                (doc! {"a": {"$near": [0, 0]}}, 5_626_500),
            ],
        );
    }
}
