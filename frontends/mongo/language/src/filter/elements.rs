//! `$exists` and `$type`.

use bson::Bson;
use bson::spec::ElementType;

use super::parse::{Operand, Parser};
use super::{Node, Test};
use crate::error::{Result, bad_value, failed_to_parse, type_mismatch};
use crate::number::Number;

/// The types and the names and numbers by which `$type` knows them.
const TYPES: &[(&str, i32, ElementType)] = &[
    ("double", 1, ElementType::Double),
    ("string", 2, ElementType::String),
    ("object", 3, ElementType::EmbeddedDocument),
    ("array", 4, ElementType::Array),
    ("binData", 5, ElementType::Binary),
    ("undefined", 6, ElementType::Undefined),
    ("objectId", 7, ElementType::ObjectId),
    ("bool", 8, ElementType::Boolean),
    ("date", 9, ElementType::DateTime),
    ("null", 10, ElementType::Null),
    ("regex", 11, ElementType::RegularExpression),
    ("dbPointer", 12, ElementType::DbPointer),
    ("javascript", 13, ElementType::JavaScriptCode),
    ("symbol", 14, ElementType::Symbol),
    (
        "javascriptWithScope",
        15,
        ElementType::JavaScriptCodeWithScope,
    ),
    ("int", 16, ElementType::Int32),
    ("timestamp", 17, ElementType::Timestamp),
    ("long", 18, ElementType::Int64),
    ("decimal", 19, ElementType::Decimal128),
    ("minKey", -1, ElementType::MinKey),
    ("maxKey", 127, ElementType::MaxKey),
];

const NUMBERS: [ElementType; 4] = [
    ElementType::Int32,
    ElementType::Int64,
    ElementType::Double,
    ElementType::Decimal128,
];

/// A set of BSON types.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct TypeSet {
    /// The alias `number`, which stands for four types.
    number: bool,
    types: Vec<ElementType>,
}

impl TypeSet {
    /// One type, a number or a name, or an array of them.
    pub fn parse(operator: &str, given: &Bson) -> Result<Self> {
        let mut set = Self::default();
        match given {
            Bson::Array(types) => {
                for one in types {
                    set.add(operator, one)?;
                }
            }
            one => set.add(operator, one)?,
        }
        if set == Self::default() {
            return Err(failed_to_parse(format!(
                "{operator} must match at least one type"
            )));
        }
        Ok(set)
    }

    fn add(&mut self, operator: &str, given: &Bson) -> Result<()> {
        if let Bson::String(name) = given {
            return self.add_named(name);
        }
        let Some(number) = Number::from_bson(given) else {
            let message = format!("{operator} must be represented as a number or a string");
            return Err(type_mismatch(message));
        };
        let code = number.as_i64_exact();
        let known = TYPES
            .iter()
            .find(|(_, known, _)| code == Some(i64::from(*known)));
        let Some((_, _, element_type)) = known else {
            return Err(bad_value(format!("Invalid numerical type code: {given}")));
        };
        self.types.push(*element_type);
        Ok(())
    }

    /// Adds a type by its name.
    pub fn add_named(&mut self, name: &str) -> Result<()> {
        if name == "number" {
            self.number = true;
            return Ok(());
        }
        let Some((_, _, element_type)) = TYPES.iter().find(|(known, ..)| *known == name) else {
            return Err(bad_value(format!("Unknown type name alias: {name}")));
        };
        self.types.push(*element_type);
        Ok(())
    }

    /// Whether the value has one of the types.
    pub fn contains(&self, value: &Bson) -> bool {
        self.contains_type(value.element_type())
    }

    /// Whether this is one of the types.
    pub fn contains_type(&self, element_type: ElementType) -> bool {
        self.types.contains(&element_type) || (self.number && NUMBERS.contains(&element_type))
    }

    /// The numbers of the types, as explain shows them, `number` by its name.
    pub(super) fn to_bson(&self) -> Bson {
        let number = self.number.then(|| Bson::from("number"));
        let code = |element_type: &ElementType| {
            TYPES
                .iter()
                .find(|(.., known)| known == element_type)
                .map(|(_, code, _)| (*code).into())
        };
        Bson::Array(
            number
                .into_iter()
                .chain(self.types.iter().filter_map(code))
                .collect(),
        )
    }
}

pub(super) fn of_type(_: Parser<'_>, operand: &Operand<'_>) -> Result<Option<Node>> {
    let types = TypeSet::parse(operand.name, operand.value)?;
    Ok(Some(Node::field(operand.path, Test::Type(types))))
}

pub(super) fn exists(_: Parser<'_>, operand: &Operand<'_>) -> Result<Option<Node>> {
    let node = Node::field(operand.path, Test::Exists);
    Ok(Some(if is_true(operand.value) {
        node
    } else {
        node.negated()
    }))
}

/// What counts as true where any value may stand for a boolean.
fn is_true(value: &Bson) -> bool {
    match value {
        Bson::Boolean(value) => *value,
        Bson::Null | Bson::Undefined => false,
        value => Number::from_bson(value).is_none_or(|number| !number.is_zero()),
    }
}

#[cfg(test)]
mod tests {
    use bson::{Bson, doc};

    use super::super::testing::{check, refuse};

    #[test]
    fn knows_what_is_there() {
        check([
            (doc! {"a": {"$exists": true}}, doc! {"a": Bson::Null}, true),
            (doc! {"a": {"$exists": true}}, doc! {}, false),
            (doc! {"a": {"$exists": 0}}, doc! {}, true),
            (doc! {"a": {"$exists": "no"}}, doc! {"a": 1}, true),
            (doc! {"a": {"$exists": Bson::Null}}, doc! {"a": 1}, false),
            (
                doc! {"a.b": {"$exists": true}},
                doc! {"a": [1, {"b": 1}]},
                true,
            ),
            (doc! {"a.b": {"$exists": false}}, doc! {"a": [1]}, true),
            (doc! {"a": {"$exists": true}}, doc! {"a": []}, true),
            (doc! {"a.1": {"$exists": true}}, doc! {"a": [1]}, false),
        ]);
    }

    #[test]
    fn knows_types() {
        check([
            (doc! {"a": {"$type": "int"}}, doc! {"a": 1}, true),
            (doc! {"a": {"$type": 16}}, doc! {"a": 1_i64}, false),
            (doc! {"a": {"$type": 2.0}}, doc! {"a": "x"}, true),
            (doc! {"a": {"$type": "number"}}, doc! {"a": 1.5}, true),
            (
                doc! {"a": {"$type": ["bool", 10]}},
                doc! {"a": Bson::Null},
                true,
            ),
            (doc! {"a": {"$type": "null"}}, doc! {}, false),
            (doc! {"a": {"$type": "array"}}, doc! {"a": []}, true),
            (doc! {"a": {"$type": "array"}}, doc! {"a": 1}, false),
            (doc! {"a": {"$type": "string"}}, doc! {"a": [1, "x"]}, true),
            (doc! {"a": {"$type": -1}}, doc! {"a": Bson::MinKey}, true),
            (doc! {"a": {"$type": 127}}, doc! {"a": Bson::MaxKey}, true),
            (
                doc! {"a": {"$type": "undefined"}},
                doc! {"a": Bson::Undefined},
                true,
            ),
        ]);
        refuse([
            (doc! {"a": {"$type": "Double"}}, 2),
            (doc! {"a": {"$type": ""}}, 2),
            (doc! {"a": {"$type": 0}}, 2),
            (doc! {"a": {"$type": 99}}, 2),
            (doc! {"a": {"$type": 1.5}}, 2),
            (doc! {"a": {"$type": true}}, 14),
            (doc! {"a": {"$type": {}}}, 14),
            (doc! {"a": {"$type": [[1]]}}, 14),
            (doc! {"a": {"$type": []}}, 9),
        ]);
    }
}
