//! `$addToSet`, `$pop`, `$pull` and `$pullAll`.

use std::sync::Arc;

use bson::{Bson, Document};

use super::modifier::{At, Change, Modifier};
use crate::{
    collation::Collation,
    compare::type_name,
    error::{Result, bad_value, failed_to_parse, type_mismatch},
    expression::variables::Context,
    filter::{Filter, Place, is_operator_on_values},
    members::{Members, add_missing, position},
    number::Number,
};

pub(super) fn add_to_set(operand: &Bson, context: &Context) -> Result<Arc<dyn Modifier>> {
    let given = match operand {
        Bson::Document(document) => match document.iter().next() {
            Some((name, each)) if name == "$each" => each_of_set(document, each)?,
            _ => std::slice::from_ref(operand),
        },
        _ => std::slice::from_ref(operand),
    };
    let mut values = Vec::with_capacity(given.len());
    add_missing(&mut values, given, &context.collation)?;
    Ok(Arc::new(AddToSet {
        values,
        collation: context.collation.clone(),
    }))
}

fn each_of_set<'a>(document: &Document, each: &'a Bson) -> Result<&'a [Bson]> {
    let Bson::Array(values) = each else {
        return Err(type_mismatch(format!(
            "The argument to $each in $addToSet must be an array but it was of type {}",
            type_name(each)
        )));
    };
    if document.len() > 1 {
        return Err(bad_value(format!(
            "Found unexpected fields after $each in $addToSet: {document}"
        )));
    }
    Ok(values)
}

/// Adds values that an array has not; these differ from each other.
#[derive(Debug)]
struct AddToSet {
    values: Vec<Bson>,
    collation: Collation,
}

impl Modifier for AddToSet {
    fn change(&self, value: &mut Bson, place: At<'_>) -> Result<Change> {
        let Bson::Array(elements) = value else {
            return Err(bad_value(format!(
                "Cannot apply $addToSet to non-array field. Field named '{place}' has non-array \
                 type {}",
                type_name(value)
            )));
        };
        let length = elements.len();
        let added = add_missing(elements, &self.values, &self.collation)?;
        Ok(if added {
            Change::Appended(length)
        } else {
            Change::None
        })
    }

    fn create(&self) -> Result<Option<Bson>> {
        Ok(Some(Bson::Array(self.values.clone())))
    }
}

fn changed_if(changed: bool) -> Change {
    if changed {
        Change::Changed
    } else {
        Change::None
    }
}

pub(super) fn pop(operand: &Bson, _: &Context) -> Result<Arc<dyn Modifier>> {
    match Number::from_bson(operand).and_then(Number::as_i64_exact) {
        Some(1) => Ok(Arc::new(Pop { first: false })),
        Some(-1) => Ok(Arc::new(Pop { first: true })),
        _ => Err(failed_to_parse(format!(
            "$pop expects 1 or -1, found: {operand}"
        ))),
    }
}

/// Removes one end of an array.
#[derive(Debug)]
struct Pop {
    first: bool,
}

impl Modifier for Pop {
    fn change(&self, value: &mut Bson, place: At<'_>) -> Result<Change> {
        let Bson::Array(elements) = value else {
            return Err(type_mismatch(format!(
                "Path '{place}' contains an element of non-array type '{}'",
                type_name(value)
            )));
        };
        if elements.is_empty() {
            return Ok(Change::None);
        }
        if self.first {
            elements.remove(0);
        } else {
            elements.pop();
        }
        Ok(Change::Changed)
    }

    fn create(&self) -> Result<Option<Bson>> {
        Ok(None)
    }
}

pub(super) fn pull(operand: &Bson, context: &Context) -> Result<Arc<dyn Modifier>> {
    let parse = |filter: &Document| Filter::parse_in(filter, context, Place::ArrayFilter);
    let which = match operand {
        Bson::Document(condition) if !begins_with_operator(condition) => {
            Which::Documents(parse(condition)?)
        }
        Bson::Document(_) | Bson::RegularExpression(_) => {
            Which::Values(parse(&wrapped(operand.clone()))?)
        }
        value => Which::equal(vec![value.clone()], context)?,
    };
    Ok(Arc::new(Pull {
        name: "$pull",
        which,
        collation: context.collation.clone(),
    }))
}

/// Whether a condition is about the elements themselves: `{$gt: 1}`, not `{a: 1}` or `{$or: […]}`.
fn begins_with_operator(condition: &Document) -> bool {
    condition
        .keys()
        .next()
        .is_some_and(|name| is_operator_on_values(name))
}

/// A document whose only field has no name: what a condition on elements is matched against.
fn wrapped(value: Bson) -> Document {
    Document::from_iter([(String::new(), value)])
}

pub(super) fn pull_all(operand: &Bson, context: &Context) -> Result<Arc<dyn Modifier>> {
    let Bson::Array(values) = operand else {
        return Err(bad_value(format!(
            "$pullAll requires an array argument but was given a {}",
            type_name(operand)
        )));
    };
    Ok(Arc::new(Pull {
        name: "$pullAll",
        which: Which::equal(values.clone(), context)?,
        collation: context.collation.clone(),
    }))
}

/// Removes elements of an array.
#[derive(Debug)]
struct Pull {
    name: &'static str,
    which: Which,
    collation: Collation,
}

#[derive(Debug)]
enum Which {
    /// Those equal to one of these, which are also ready to be looked up if they are many.
    Equal(Vec<Bson>, Option<Members>),
    /// Documents that match.
    Documents(Filter),
    /// Values that match when [`wrapped`].
    Values(Filter),
}

impl Which {
    fn equal(values: Vec<Bson>, context: &Context) -> Result<Self> {
        let members = Members::of_many(&values, &context.collation)?;
        Ok(Self::Equal(values, members))
    }
}

impl Pull {
    fn takes(&self, element: &Bson) -> Result<bool> {
        match (&self.which, element) {
            (Which::Equal(_, Some(members)), _) => members.contains(element),
            (Which::Equal(values, None), _) => {
                Ok(position(values, element, &self.collation)?.is_some())
            }
            (Which::Documents(filter), Bson::Document(document)) => filter.matches(document),
            (Which::Documents(_), _) => Ok(false),
            (Which::Values(filter), _) => filter.matches(&wrapped(element.clone())),
        }
    }
}

impl Modifier for Pull {
    fn change(&self, value: &mut Bson, _: At<'_>) -> Result<Change> {
        let Bson::Array(elements) = value else {
            return Err(bad_value(format!(
                "Cannot apply {} to a non-array value",
                self.name
            )));
        };
        let before = elements.len();
        let mut kept = Vec::with_capacity(before);
        for element in std::mem::take(elements) {
            if !self.takes(&element)? {
                kept.push(element);
            }
        }
        *elements = kept;
        Ok(changed_if(elements.len() < before))
    }

    fn create(&self) -> Result<Option<Bson>> {
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use bson::{Bson, bson, doc};

    use crate::{
        collation::Collation,
        compare::tests::regex,
        expression::variables::Context,
        update::{
            Update,
            tests::{MISSING, check_field, refuse_field},
        },
    };

    #[test]
    fn sets_have_each_value_once() {
        let rows = [
            (bson!([1]), bson!(2), bson!([1, 2])),
            (bson!([1]), bson!(1.0), bson!([1])),
            (bson!([]), bson!([1, 1]), bson!([[1, 1]])),
            (MISSING, bson!(1), bson!([1])),
            (bson!([1]), bson!({ "$each": [3, 1, 3] }), bson!([1, 3])),
            (MISSING, bson!({ "$each": [2, 2, 1] }), bson!([2, 1])),
            (MISSING, bson!({ "$each": [] }), bson!([])),
            (
                bson!([{ "x": 1, "y": 2 }]),
                bson!({ "y": 2, "x": 1 }),
                bson!([{ "x": 1, "y": 2 }, { "y": 2, "x": 1 }]),
            ),
        ];
        check_field("$addToSet", rows);
        let refused = [
            (bson!(1), bson!(1), 2),
            (Bson::Null, bson!(1), 2),
            (bson!([]), bson!({ "$each": 1 }), 14),
            (bson!([]), bson!({ "$each": [1], "$slice": 1 }), 2),
        ];
        refuse_field("$addToSet", refused);
    }

    #[test]
    fn pops_take_one_end() {
        let rows = [
            (bson!([1, 2]), bson!(1), bson!([1])),
            (bson!([1, 2]), bson!(-1.0), bson!([2])),
            (bson!([]), bson!(1), bson!([])),
            (MISSING, bson!(1), MISSING),
        ];
        check_field("$pop", rows);
        let refused = [
            (bson!(1), bson!(1), 14),
            (Bson::Null, bson!(1), 14),
            (bson!([1]), bson!(2), 9),
            (bson!([1]), bson!("1"), 9),
            (bson!([1]), bson!(0.5), 9),
        ];
        refuse_field("$pop", refused);
    }

    #[test]
    fn pulls_take_what_matches() {
        let rows = [
            (bson!([1, 2, 1.0]), bson!(1), bson!([2])),
            (bson!([1, 5, 9]), bson!({ "$gte": 5 }), bson!([1])),
            (bson!(["x", "yx"]), regex("^x", ""), bson!(["yx"])),
            (bson!([[1], [2]]), bson!([1]), bson!([[2]])),
            (bson!([1, null]), Bson::Null, bson!([1])),
            (bson!([regex("a", "i")]), regex("a", "i"), bson!([])),
            (bson!([1, {}]), bson!({}), bson!([1])),
            (
                bson!([{ "b": 1, "c": 2 }, { "b": 2 }, 1]),
                bson!({ "b": 1 }),
                bson!([{ "b": 2 }, 1]),
            ),
            (
                bson!([{ "b": [1, 5] }, { "b": [2] }]),
                bson!({ "b": { "$elemMatch": { "$gt": 4 } } }),
                bson!([{ "b": [2] }]),
            ),
            (
                bson!([{ "b": 1 }, { "c": 1 }]),
                bson!({ "$or": [{ "b": 1 }, { "c": 2 }] }),
                bson!([{ "c": 1 }]),
            ),
            (MISSING, bson!(1), MISSING),
        ];
        check_field("$pull", rows);
        let refused = [
            (bson!(1), bson!(1), 2),
            (bson!([]), bson!({ "$badop": 1 }), 2),
            (bson!([]), bson!({ "$each": [1] }), 2),
        ];
        refuse_field("$pull", refused);
    }

    #[test]
    fn pulls_of_all_take_what_is_equal() {
        let rows = [
            (bson!([1, 2, 3]), bson!([1, 3.0]), bson!([2])),
            (bson!([1]), bson!([]), bson!([1])),
        ];
        check_field("$pullAll", rows);
        let refused = [(bson!(1), bson!([1]), 2), (bson!([]), bson!(1), 2)];
        refuse_field("$pullAll", refused);
    }

    #[test]
    fn strings_compare_by_the_collation() {
        let context = Context {
            collation: Collation::parse(&doc! { "locale": "en", "strength": 1 }).unwrap(),
            ..Context::default()
        };
        for (update, expected) in [
            (bson!({ "$addToSet": { "a": "X" } }), bson!(["x", "y"])),
            (bson!({ "$pull": { "a": "X" } }), bson!(["y"])),
            (bson!({ "$pull": { "a": { "$eq": "X" } } }), bson!(["y"])),
            (bson!({ "$pullAll": { "a": ["Y"] } }), bson!(["x"])),
        ] {
            let applied = Update::parse(&update, &[], &context)
                .and_then(|update| update.apply(doc! { "a": ["x", "y"] }, None, false))
                .unwrap();
            assert_eq!(applied.document.get("a"), Some(&expected), "{update}");
        }
    }
}
