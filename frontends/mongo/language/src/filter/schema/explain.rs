//! Which rules a value breaks, in the words of MongoDB's `errInfo`.

use bson::{Bson, Document, doc};

use super::matching::{first_duplicate, first_failing};
use super::{Additional, Dependency, Keyword, Members, Rule, Schema, Subject};
use crate::compare::type_name;
use crate::error::Result;

pub(super) fn root(schema: &Schema, document: &Document) -> Result<Document> {
    let subject = Subject::Document(document);
    let mut details = doc! {"operatorName": "$jsonSchema"};
    details.extend(schema.notes.clone());
    let of_objects = |rule: &Rule| match &rule.keyword {
        Keyword::Type(types) => types.contains_type(subject.element_type()),
        _ => true,
    };
    if schema.rules.iter().all(of_objects) {
        details.insert("schemaRulesNotSatisfied", broken(schema, subject)?);
    } else {
        details.insert("specifiedAs", doc! {"$jsonSchema": schema.source.clone()});
        details.insert("reason", "expression always evaluates to false");
    }
    Ok(details)
}

/// The rules that the value breaks.
fn broken(schema: &Schema, subject: Subject<'_>) -> Result<Vec<Document>> {
    let mut all = Vec::new();
    for rule in &schema.rules {
        if !rule.keyword.accepts(subject)? {
            explain(rule, subject, &mut all)?;
        }
    }
    Ok(all)
}

fn explain(rule: &Rule, subject: Subject<'_>, all: &mut Vec<Document>) -> Result<()> {
    let name = rule.stated.keys().next().map_or("", String::as_str);
    let operator = || doc! {"operatorName": name};
    let items = subject.array().unwrap_or_default();
    let empty = Document::new();
    let document = subject.document().unwrap_or(&empty);
    all.push(match &rule.keyword {
        Keyword::Members(members) => return explain_members(members, document, all),
        Keyword::Properties(properties) => {
            let failing = failing_properties(properties, document)?;
            with(operator(), doc! {"propertiesNotSatisfied": failing})
        }
        Keyword::Dependencies(notes, dependencies) => {
            let failing = failing_dependencies(dependencies, document)?;
            with(
                with(operator(), notes.clone()),
                doc! {"failingDependencies": failing},
            )
        }
        Keyword::AllOf(schemas) | Keyword::AnyOf(schemas) => with(
            operator(),
            doc! {"schemasNotSatisfied": failing_schemas(schemas, subject)?},
        ),
        Keyword::OneOf(schemas) => with(operator(), not_one_of(schemas, subject)?),
        Keyword::Not(_) => with(operator(), doc! {"reason": "child expression matched"}),
        Keyword::Encrypt => with(operator(), doc! {"reason": "value was not encrypted"}),
        Keyword::Items(schema) => {
            let reason = "At least one item did not match the sub-schema";
            let fault = failing_item(schema, items, 0, reason)?;
            with(with(operator(), schema.notes.clone()), fault)
        }
        Keyword::ItemList(schemas) => {
            with(operator(), doc! {"details": failing_items(schemas, items)?})
        }
        Keyword::AdditionalItems(from, Additional::Valid(schema)) => {
            let reason = "At least one additional item did not match the sub-schema";
            with(operator(), failing_item(schema, items, *from, reason)?)
        }
        keyword => {
            let stated = doc! {"operatorName": name, "specifiedAs": rule.stated.clone()};
            with(stated, simple_fault(keyword, subject)?)
        }
    });
    Ok(())
}

fn with(mut details: Document, more: Document) -> Document {
    details.extend(more);
    details
}

/// What is wrong with the value by keywords that have no schemas within.
fn simple_fault(keyword: &Keyword, subject: Subject<'_>) -> Result<Document> {
    let document = subject.document();
    let items = subject.array().unwrap_or_default();
    let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
    let value = subject.to_bson();
    Ok(match keyword {
        Keyword::Required(names) => {
            let missing = |name: &&String| document.is_none_or(|all| !all.contains_key(*name));
            doc! {"missingProperties": names.iter().filter(missing).cloned().collect::<Vec<_>>()}
        }
        Keyword::MinProperties(_) | Keyword::MaxProperties(_) => doc! {
            "reason": "specified number of properties was not satisfied",
            "numberOfProperties": number(document.map_or(0, Document::len)),
        },
        Keyword::AdditionalItems(from, _) => doc! {
            "reason": "found additional items",
            "additionalItems": items.get(*from..).unwrap_or_default().to_vec(),
        },
        Keyword::MinItems(_) | Keyword::MaxItems(_) => doc! {
            "reason": "array did not match specified length",
            "consideredValue": value,
            "numberOfItems": number(items.len()),
        },
        Keyword::UniqueItems => {
            let mut fault = doc! {"reason": "found a duplicate item", "consideredValue": value};
            fault.extend(
                first_duplicate(items)?.map(|item| ("duplicatedValue".into(), item.clone())),
            );
            fault
        }
        Keyword::Type(_) => doc! {
            "reason": "type did not match",
            "consideredType": type_name(&value),
            "consideredValue": value,
        },
        keyword => doc! {"reason": reason(keyword), "consideredValue": value},
    })
}

fn reason(keyword: &Keyword) -> &'static str {
    match keyword {
        Keyword::MultipleOf(_) => "considered value is not a multiple of the specified value",
        Keyword::MinLength(_) | Keyword::MaxLength(_) => {
            "specified string length was not satisfied"
        }
        Keyword::Pattern(_) => "regular expression did not match",
        Keyword::Enum(_) => "value was not found in enum",
        _ => "comparison failed",
    }
}

fn failing_properties(
    properties: &[(String, Schema)],
    document: &Document,
) -> Result<Vec<Document>> {
    let mut all = Vec::new();
    for (name, schema) in properties {
        let Some(value) = document.get(name) else {
            continue;
        };
        let details = broken(schema, Subject::Value(value))?;
        if !details.is_empty() {
            let failing = with(doc! {"propertyName": name}, schema.notes.clone());
            all.push(with(failing, doc! {"details": details}));
        }
    }
    Ok(all)
}

fn explain_members(members: &Members, document: &Document, all: &mut Vec<Document>) -> Result<()> {
    let mut additional = Vec::new();
    let mut matched = Vec::new();
    for (name, value) in document {
        for (pattern, schema) in &members.patterns {
            if !pattern.is_match(name)? {
                continue;
            }
            let details = broken(schema, Subject::Value(value))?;
            if !details.is_empty() {
                let failing = with(doc! {"propertyName": name}, schema.notes.clone());
                let rest = doc! {"regexMatched": pattern.pattern(), "details": details};
                matched.push(with(failing, rest));
            }
        }
        if members.is_additional(name)? && !members.accepts_additional(value)? {
            additional.push((name, value));
        }
    }
    if let Some((name, value)) = additional.first() {
        let mut details = doc! {"operatorName": "additionalProperties"};
        if let Additional::Valid(schema) = &members.additional {
            details.extend(schema.notes.clone());
            let reason = "at least one additional property did not match the subschema";
            details.insert("reason", reason);
            details.insert("failingProperty", *name);
            details.insert("details", broken(schema, Subject::Value(value))?);
        } else {
            let names: Vec<_> = additional.iter().map(|(name, _)| name.as_str()).collect();
            details.insert("specifiedAs", doc! {"additionalProperties": false});
            details.insert("additionalProperties", names);
        }
        all.push(details);
    }
    if !matched.is_empty() {
        all.push(doc! {"operatorName": "patternProperties", "details": matched});
    }
    Ok(())
}

fn failing_dependencies(
    dependencies: &[(String, Dependency)],
    document: &Document,
) -> Result<Vec<Document>> {
    let mut all = Vec::new();
    for (name, dependency) in dependencies {
        if !document.contains_key(name) || dependency.holds(document)? {
            continue;
        }
        let failing = doc! {"conditionalProperty": name};
        all.push(match dependency {
            Dependency::Properties(names) => {
                let missing = names
                    .iter()
                    .filter(|name| !document.contains_key(name))
                    .cloned();
                with(
                    failing,
                    doc! {"missingProperties": missing.collect::<Vec<_>>()},
                )
            }
            Dependency::Schema(schema) => with(
                failing,
                doc! {"details": broken(schema, Subject::Document(document))?},
            ),
        });
    }
    Ok(all)
}

fn failing_schemas(schemas: &[Schema], subject: Subject<'_>) -> Result<Vec<Document>> {
    let mut all = Vec::new();
    for (schema, index) in schemas.iter().zip(0_i32..) {
        let details = broken(schema, subject)?;
        if !details.is_empty() {
            let failing = with(doc! {"index": index}, schema.notes.clone());
            all.push(with(failing, doc! {"details": details}));
        }
    }
    Ok(all)
}

fn not_one_of(schemas: &[Schema], subject: Subject<'_>) -> Result<Document> {
    let mut matching = Vec::new();
    for (schema, index) in schemas.iter().zip(0_i32..) {
        if schema.accepts(subject)? {
            matching.push(index);
        }
    }
    Ok(if matching.is_empty() {
        doc! {"schemasNotSatisfied": failing_schemas(schemas, subject)?}
    } else {
        doc! {"reason": "more than one subschema matched", "matchingSchemaIndexes": matching}
    })
}

/// The first item, from a position on, that the schema does not accept.
fn failing_item(schema: &Schema, items: &[Bson], from: usize, reason: &str) -> Result<Document> {
    let rest = items.get(from..).unwrap_or_default();
    let index = first_failing(schema, rest)?.unwrap_or_default();
    let details = match rest.get(index) {
        Some(item) => broken(schema, Subject::Value(item))?,
        None => Vec::new(),
    };
    let index = i64::try_from(from + index).unwrap_or(i64::MAX);
    Ok(doc! {"reason": reason, "itemIndex": index, "details": details})
}

fn failing_items(schemas: &[Schema], items: &[Bson]) -> Result<Vec<Document>> {
    let mut all = Vec::new();
    for ((schema, item), index) in schemas.iter().zip(items).zip(0_i64..) {
        let details = broken(schema, Subject::Value(item))?;
        if !details.is_empty() {
            all.push(doc! {"itemIndex": index, "details": details});
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use bson::{Document, doc};

    use super::super::Schema;

    fn rules(schema: Document, document: Document) -> Document {
        let mut details = Schema::parse(&schema).unwrap().explain(&document).unwrap();
        assert_eq!(details.remove("operatorName"), Some("$jsonSchema".into()));
        details
    }

    fn one(rule: Document) -> Document {
        doc! {"schemaRulesNotSatisfied": [rule]}
    }

    /// What is said about the property `a` of a schema and a value.
    fn about_property(schema: Document, value: impl Into<bson::Bson>) -> Document {
        let all = rules(doc! {"properties": {"a": schema}}, doc! {"a": value});
        let rule = all.get_array("schemaRulesNotSatisfied").unwrap()[0]
            .as_document()
            .unwrap();
        assert_eq!(rule.get_str("operatorName").unwrap(), "properties");
        let property = rule.get_array("propertiesNotSatisfied").unwrap()[0]
            .as_document()
            .unwrap();
        assert_eq!(property.get_str("propertyName").unwrap(), "a");
        property.get_array("details").unwrap()[0]
            .as_document()
            .unwrap()
            .clone()
    }

    #[test]
    fn tells_what_a_value_breaks() {
        for (schema, value, expected) in [
            (
                doc! {"minimum": 5, "exclusiveMinimum": true},
                bson::Bson::Int32(5),
                doc! {
                    "operatorName": "minimum",
                    "specifiedAs": {"minimum": 5, "exclusiveMinimum": true},
                    "reason": "comparison failed",
                    "consideredValue": 5,
                },
            ),
            (
                doc! {"bsonType": "string"},
                5.into(),
                doc! {
                    "operatorName": "bsonType",
                    "specifiedAs": {"bsonType": "string"},
                    "reason": "type did not match",
                    "consideredValue": 5,
                    "consideredType": "int",
                },
            ),
            (
                doc! {"uniqueItems": true},
                vec![1, 2, 1].into(),
                doc! {
                    "operatorName": "uniqueItems",
                    "specifiedAs": {"uniqueItems": true},
                    "reason": "found a duplicate item",
                    "consideredValue": [1, 2, 1],
                    "duplicatedValue": 1,
                },
            ),
            (
                doc! {"oneOf": [{"minimum": 1}, {"maximum": 3}]},
                2.into(),
                doc! {
                    "operatorName": "oneOf",
                    "reason": "more than one subschema matched",
                    "matchingSchemaIndexes": [0, 1],
                },
            ),
            (
                doc! {"not": {"minimum": 1}},
                2.into(),
                doc! {"operatorName": "not", "reason": "child expression matched"},
            ),
        ] {
            assert_eq!(about_property(schema.clone(), value), expected, "{schema}");
        }
    }

    #[test]
    fn tells_which_item_and_which_schema() {
        let text = doc! {
            "operatorName": "type",
            "specifiedAs": {"type": "string"},
            "reason": "type did not match",
            "consideredValue": 1,
            "consideredType": "int",
        };
        assert_eq!(
            about_property(
                doc! {"items": {"type": "string"}},
                vec!["x".into(), bson::Bson::from(1)]
            ),
            doc! {
                "operatorName": "items",
                "reason": "At least one item did not match the sub-schema",
                "itemIndex": 1_i64,
                "details": [text.clone()],
            }
        );
        assert_eq!(
            about_property(doc! {"anyOf": [{"type": "string"}]}, 1),
            doc! {
                "operatorName": "anyOf",
                "schemasNotSatisfied": [{"index": 0, "details": [text]}],
            }
        );
    }

    #[test]
    fn tells_which_properties() {
        for (schema, document, expected) in [
            (
                doc! {"required": ["a", "b"]},
                doc! {"a": 1},
                doc! {
                    "operatorName": "required",
                    "specifiedAs": {"required": ["a", "b"]},
                    "missingProperties": ["b"],
                },
            ),
            (
                doc! {"properties": {"a": {}}, "additionalProperties": false},
                doc! {"_id": 1, "a": 1},
                doc! {
                    "operatorName": "additionalProperties",
                    "specifiedAs": {"additionalProperties": false},
                    "additionalProperties": ["_id"],
                },
            ),
            (
                doc! {"dependencies": {"a": ["b", "c"]}},
                doc! {"a": 1, "b": 1},
                doc! {
                    "operatorName": "dependencies",
                    "failingDependencies": [
                        {"conditionalProperty": "a", "missingProperties": ["c"]},
                    ],
                },
            ),
            (
                doc! {"minProperties": 3},
                doc! {"a": 1},
                doc! {
                    "operatorName": "minProperties",
                    "specifiedAs": {"minProperties": 3},
                    "reason": "specified number of properties was not satisfied",
                    "numberOfProperties": 1_i64,
                },
            ),
        ] {
            assert_eq!(rules(schema.clone(), document), one(expected), "{schema}");
        }
    }

    #[test]
    fn quotes_titles() {
        let schema = doc! {
            "title": "people",
            "properties": {"a": {"minimum": 1, "description": "how many"}},
        };
        let details = rules(schema, doc! {"a": 0});
        assert_eq!(details.get_str("title").unwrap(), "people");
        assert!(details.to_string().contains("how many"));
    }
}
