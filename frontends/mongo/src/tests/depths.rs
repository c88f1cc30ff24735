//! Whatever may be nested is taken up to its limit, or refused, on the stack that a thread of the
//! server has: also in a build that is not optimized.

use bson::{Bson, Document, doc};

use crate::client::Client;

/// The stack of the threads that serve, and no more.
const STACK: usize = 2 << 20;

/// Something within itself.
type Form = fn(Bson) -> Bson;

/// The form within itself, but no deeper than what a client could make and send.
fn nested(form: Form, depth: usize, innermost: impl Into<Bson>) -> Bson {
    const MOST_LEVELS: usize = 230;
    let depth = depth.min(MOST_LEVELS / levels(&form(Bson::Null)));
    (0..depth).fold(innermost.into(), |inner, _| form(inner))
}

/// How many documents and arrays are within each other.
fn levels(value: &Bson) -> usize {
    match value {
        Bson::Document(document) => 1 + document.values().map(levels).max().unwrap_or(0),
        Bson::Array(values) => 1 + values.iter().map(levels).max().unwrap_or(0),
        _ => 0,
    }
}

/// Depths around every limit.
fn depths() -> impl Iterator<Item = usize> {
    let steps = (1..=96).step_by(19);
    steps
        .chain(97..=101)
        .chain((110..190).step_by(20))
        .chain(193..=202)
}

const EXPRESSIONS: &[Form] = &[
    |inner| doc! { "$add": [inner, 1] }.into(),
    |inner| doc! { "$cond": [true, inner, 0] }.into(),
    |inner| doc! { "$cond": { "if": inner, "then": 1, "else": 0 } }.into(),
    |inner| doc! { "$let": { "vars": { "x": inner }, "in": "$$x" } }.into(),
    |inner| doc! { "$let": { "vars": { "x": 1 }, "in": inner } }.into(),
    |inner| doc! { "$map": { "input": [1], "in": inner } }.into(),
    |inner| doc! { "$filter": { "input": [1], "cond": inner } }.into(),
    |inner| doc! { "$reduce": { "input": [1], "initialValue": 0, "in": inner } }.into(),
    |inner| doc! { "$switch": { "branches": [{ "case": true, "then": inner }] } }.into(),
    |inner| doc! { "$mergeObjects": [inner] }.into(),
    |inner| doc! { "$not": inner }.into(),
    |inner| doc! { "$and": [inner, true] }.into(),
    |inner| doc! { "x": inner }.into(),
    |inner| Bson::Array(vec![inner]),
    |inner| doc! { "$literal": inner }.into(),
];

const SCHEMAS: &[Form] = &[
    |inner| doc! { "properties": { "a": inner } }.into(),
    |inner| doc! { "items": inner }.into(),
    |inner| doc! { "items": [inner] }.into(),
    |inner| doc! { "anyOf": [inner] }.into(),
    |inner| doc! { "allOf": [inner] }.into(),
    |inner| doc! { "oneOf": [inner] }.into(),
    |inner| doc! { "not": inner }.into(),
    |inner| doc! { "additionalProperties": inner }.into(),
    |inner| doc! { "patternProperties": { "a": inner } }.into(),
    |inner| doc! { "dependencies": { "a": inner } }.into(),
];

const FILTERS: &[Form] = &[
    |inner| doc! { "$and": [inner] }.into(),
    |inner| doc! { "$or": [inner, { "a": 1 }] }.into(),
    |inner| doc! { "$nor": [inner] }.into(),
    |inner| doc! { "a": { "$elemMatch": inner } }.into(),
    |inner| doc! { "a": { "$not": { "$elemMatch": inner } } }.into(),
    |inner| doc! { "a": { "$all": [{ "$elemMatch": inner }] } }.into(),
    |inner| doc! { "a": inner }.into(),
];

const VALUES: &[Form] = &[
    |inner| doc! { "a": inner }.into(),
    |inner| Bson::Array(vec![inner]),
    |inner| Bson::Array(vec![doc! { "a": inner }.into()]),
];

const PIPELINES: &[Form] = &[
    |inner| doc! { "$facet": { "x": [inner] } }.into(),
    |inner| doc! { "$unionWith": { "coll": "one", "pipeline": [inner] } }.into(),
    |inner| doc! { "$lookup": { "from": "one", "pipeline": [inner], "as": "x" } }.into(),
];

/// Commands that hold something of this depth.
fn commands(depth: usize) -> Vec<Document> {
    let mut commands = Vec::new();
    let mut aggregate = |stage: Document| {
        commands.push(doc! { "aggregate": "one", "pipeline": [stage], "cursor": {} });
    };
    for form in EXPRESSIONS {
        let expression = nested(*form, depth, "$a");
        aggregate(doc! { "$project": { "x": expression.clone() } });
        aggregate(doc! { "$group": { "_id": expression.clone() } });
        aggregate(doc! { "$match": { "$expr": expression } });
    }
    for form in PIPELINES {
        let stage = nested(*form, depth, doc! { "$match": { "a": 1 } });
        aggregate(stage.as_document().unwrap().clone());
    }
    aggregate(doc! { "$project": nested(VALUES[0], depth, 1) });
    for form in FILTERS {
        let filter = nested(*form, depth, doc! { "b": 1 });
        commands.push(doc! { "find": "one", "filter": filter });
    }
    for form in SCHEMAS {
        let schema = nested(*form, depth, doc! { "bsonType": "int" });
        commands.push(doc! { "find": "one", "filter": { "$jsonSchema": schema } });
    }
    for form in VALUES {
        let value = nested(*form, depth, 1);
        let update = doc! { "q": { "_id": 2 }, "u": { "$set": { "v": value.clone() } } };
        commands.push(doc! { "update": "c", "updates": [update] });
        commands.push(doc! { "insert": "c", "documents": [{ "v": value.clone() }] });
        commands.push(doc! { "find": "c", "filter": { "v": { "$in": [value.clone()] } } });
        commands.push(doc! { "find": "c", "filter": { "v": { "$gt": value } } });
    }
    let path = vec!["v"; depth].join(".");
    commands.push(doc! { "find": "c", "filter": { &path: 1 }, "sort": { &path: 1 } });
    commands.push(doc! { "find": "c", "projection": { &path: 1 } });
    commands.push(doc! { "distinct": "c", "key": &path });
    let update = doc! { "q": { "_id": 3 }, "u": { "$set": { &path: 1 } }, "upsert": true };
    commands.push(doc! { "update": "c", "updates": [update] });
    commands.push(doc! { "update": "c", "updates": [{ "q": {}, "u": { "$inc": { path: 1 } } }] });
    commands
}

#[test]
fn what_is_nested_fits_on_a_stack_or_is_refused() {
    let run =
        || {
            let runtime = tokio::runtime::Builder::new_current_thread();
            let runtime = { runtime }.enable_all().build().unwrap();
            runtime.block_on(async {
                let mut client = Client::new().await;
                client
                .run("db", doc! { "createIndexes": "c", "indexes": [
                    { "key": { "v": 1 }, "name": "v" }, { "key": { "$**": 1 }, "name": "all" },
                ] })
                .await;
                // Pipelines within pipelines do not multiply over one document.
                client
                    .insert("db", "one", vec![doc! { "_id": 1, "a": 1 }])
                    .await;
                for id in 1..4 {
                    client
                        .insert("db", "c", vec![doc! { "_id": id, "a": 1 }])
                        .await;
                }
                let (mut taken, mut refused) = (0, 0);
                for depth in depths() {
                    for command in commands(depth) {
                        // What no message may be does not come so far.
                        let bytes = command.to_vec();
                        if bytes.is_err() || crate::wire::document::check(&bytes.unwrap()).is_err()
                        {
                            continue;
                        }
                        let name = command.keys().next().unwrap().clone();
                        let shown = format!("{name} of depth {depth}");
                        match client.code("db", command).await {
                            0 => taken += 1,
                            code => {
                                assert_ne!(code, 1, "{shown}");
                                refused += 1;
                            }
                        }
                    }
                }
                assert!(taken > 200 && refused > 100, "{taken} and {refused}");
            });
        };
    let thread = std::thread::Builder::new().stack_size(STACK);
    thread.spawn(run).unwrap().join().unwrap();
}
