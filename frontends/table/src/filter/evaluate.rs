//! Whether an entity meets a filter.
//!
//! Comparisons know types. A property that is missing, or that is not of the constant's type,
//! meets no comparison, not even `ne`. The logic above is two-valued: `not (missing eq 1)` holds.
//!
//! Of the numbers only the plain constant `3` fits more than one type: the service compares it
//! with Int32, Int64 and Double alike. `3L` meets Int64 only and `3.0` Double only, so an Int32
//! is never equal to `3L`.

use tessera_core::deadline;

use super::expression::{Comparator, Expression};
use crate::entity::Value;

/// A value with properties: an entity or a table.
pub(crate) trait Properties {
    /// A property by its exact name, `PartitionKey`, `RowKey` and `Timestamp` included.
    fn get(&self, name: &str) -> Option<Value<'_>>;
}

/// Steps to evaluate a part of an expression: its property is looked for among all others.
const STEPS: usize = 8;

/// Whether the properties meet the expression.
pub(crate) fn matches(expression: &Expression, properties: &impl Properties) -> bool {
    deadline::note(STEPS);
    match expression {
        Expression::Constant(constant) => *constant,
        Expression::Property(name) => properties.get(name) == Some(Value::Boolean(true)),
        Expression::Comparison(comparison) => properties
            .get(&comparison.property)
            .is_some_and(|value| holds(&value, comparison.comparator, &comparison.constant)),
        Expression::And(parts) => parts.iter().all(|part| matches(part, properties)),
        Expression::Or(parts) => parts.iter().any(|part| matches(part, properties)),
        Expression::Not(inner) => !matches(inner, properties),
    }
}

fn holds(property: &Value<'_>, comparator: Comparator, constant: &Value<'_>) -> bool {
    let order = match (property, constant) {
        // By bytes of UTF-8, which is the order of code points and of the stored keys.
        (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
        (Value::Int32(left), Value::Int32(right)) => Some(left.cmp(right)),
        (Value::Int64(left), Value::Int64(right)) => Some(left.cmp(right)),
        (Value::Int64(left), Value::Int32(right)) => Some(left.cmp(&i64::from(*right))),
        (Value::Double(left), Value::Double(right)) => left.partial_cmp(right),
        (Value::Double(left), Value::Int32(right)) => left.partial_cmp(&f64::from(*right)),
        (Value::Boolean(left), Value::Boolean(right)) => Some(left.cmp(right)),
        (Value::DateTime(left), Value::DateTime(right)) => Some(left.cmp(right)),
        (Value::Guid(left), Value::Guid(right)) => Some(left.cmp(right)),
        (Value::Binary(left), Value::Binary(right)) => Some(left.cmp(right)),
        _ => return false,
    };
    comparator.accepts(order)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entity::DateTime;
    use crate::filter::parse;

    struct Entity(Vec<(&'static str, Value<'static>)>);

    impl Properties for Entity {
        fn get(&self, name: &str) -> Option<Value<'_>> {
            let mut properties = self.0.iter();
            let (_, value) = properties.find(|(property, _)| *property == name)?;
            Some(value.clone())
        }
    }

    fn entity() -> Entity {
        let guid = "22222222-2222-2222-2222-222222222222";
        Entity(vec![
            ("PartitionKey", Value::String("p".into())),
            ("RowKey", Value::String("r".into())),
            ("text", Value::String("b".into())),
            ("empty", Value::String("".into())),
            ("int", Value::Int32(3)),
            ("long", Value::Int64(9_007_199_254_740_993)),
            ("five", Value::Int64(5)),
            ("double", Value::Double(5.0)),
            ("nan", Value::Double(f64::NAN)),
            ("yes", Value::Boolean(true)),
            ("no", Value::Boolean(false)),
            ("time", Value::DateTime(DateTime { ticks: 10_000_000 })),
            ("guid", Value::Guid(guid.parse().unwrap())),
            ("bytes", Value::Binary(vec![1, 2].into())),
        ])
    }

    fn check(filters: &[&str], expected: bool) {
        for filter in filters {
            let expression = parse(filter).unwrap().unwrap();
            assert_eq!(matches(&expression, &entity()), expected, "{filter}");
        }
    }

    #[test]
    fn values_of_one_type_compare() {
        let meets = [
            "PartitionKey eq 'p' and RowKey gt 'q' and RowKey lt 's'",
            "text ge 'b' and text gt 'a' and text gt 'B' and text lt 'ü' and text lt 'ba'",
            "empty eq '' and text ne ''",
            "int eq 3 and int lt 4 and int ge -3",
            "long eq 9007199254740993L and long ne 9007199254740992L",
            "double eq 5.0 and double gt 4.5 and double lt INF and double gt -INF",
            "yes eq true and yes ne false and yes gt false and no lt true",
            "time eq datetime'1970-01-01T00:00:01Z' and time gt datetime'1969-12-31'",
            "guid gt guid'11111111-1111-1111-1111-111111111111'",
            "guid ne guid'33333333-3333-3333-3333-333333333333'",
            "bytes eq X'0102' and bytes gt binary'01' and bytes lt X'02'",
            "nan ne 1.0 and nan ne NaN",
        ];
        check(&meets, true);
        let fails = [
            "text eq 'B'",
            "text lt 'b'",
            "int gt 3",
            "long lt 9007199254740993L",
            "nan eq NaN",
            "nan lt 1.0 or nan ge 1.0",
            "guid lt guid'22222222-2222-2222-2222-222222222222'",
        ];
        check(&fails, false);
    }

    #[test]
    fn a_plain_number_fits_all_numeric_types_and_no_other_does() {
        check(
            &[
                "int eq 3",
                "five eq 5",
                "five lt 6",
                "double eq 5",
                "double gt 4",
            ],
            true,
        );
        let fails = [
            "int eq 3L",
            "int ne 4L",
            "int eq 3.0",
            "int gt 2.5",
            "five eq 5.0",
            "double eq 5L",
            "double ne 4L",
        ];
        check(&fails, false);
    }

    #[test]
    fn missing_and_mismatched_properties_meet_no_comparison() {
        for comparator in ["eq", "ne", "gt", "ge", "lt", "le"] {
            for (property, constant) in [
                ("missing", "1"),
                ("missing", "''"),
                ("partitionkey", "'p'"),
                ("int", "'3'"),
                ("double", "''"),
                ("time", "''"),
                ("empty", "guid'00000000-0000-0000-0000-000000000000'"),
                ("empty", "datetime'2023-01-01T00:00:00Z'"),
                ("empty", "binary''"),
                ("guid", "'22222222-2222-2222-2222-222222222222'"),
                ("PartitionKey", "5"),
                ("yes", "1"),
            ] {
                let filter = format!("{property} {comparator} {constant}");
                check(&[&filter], false);
                check(&[&format!("not ({filter})")], true);
            }
        }
    }

    #[test]
    fn logic_has_two_values() {
        let meets = [
            "true",
            "yes",
            "not no",
            "not missing",
            "not text",
            "not b eq true",
            "false or yes and true",
            "(true and RowKey eq 'r') and (false or PartitionKey eq 'p')",
            "not (no or int eq 4)",
        ];
        check(&meets, true);
        check(
            &["false", "no", "missing", "text", "not yes", "yes and no"],
            false,
        );
    }
}
