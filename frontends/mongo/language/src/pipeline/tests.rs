//! Pipelines over collections in memory.

mod collections;
mod windows;

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::task::{Context as TaskContext, Poll, Waker};

use bson::{Bson, Document, bson, doc};

use super::{
    BoxFuture, Documents, Environment, Merge, MergeAction, Namespace, Out, Pipeline, Source, Stage,
    SystemStage, collect,
};
use crate::error::Result;
use crate::expression::{Context, Variables, fail};

/// Collections by name.
#[derive(Default)]
struct Memory {
    collections: Mutex<HashMap<String, Vec<Document>>>,
}

impl Memory {
    fn documents(&self, name: &str) -> Vec<Document> {
        self.collections
            .lock()
            .unwrap()
            .get(name)
            .cloned()
            .unwrap_or_default()
    }
}

/// An environment that can be shared with the sources that it opens.
#[derive(Clone, Default)]
struct Shared(Arc<Memory>);

impl Environment for Shared {
    fn aggregate<'a>(
        &'a self,
        namespace: Option<&'a Namespace>,
        pipeline: Pipeline,
    ) -> BoxFuture<'a, Result<Box<dyn Source>>> {
        let documents = namespace.map(|namespace| self.0.documents(&namespace.collection));
        let source = Box::new(Documents::new(documents.unwrap_or_default()));
        let environment: Arc<dyn Environment> = Arc::new(self.clone());
        Box::pin(async move { Ok(pipeline.run(source, &environment)) })
    }

    fn system<'a>(&'a self, stage: &'a SystemStage) -> BoxFuture<'a, Result<Box<dyn Source>>> {
        let answer: Box<dyn Source> =
            Box::new(Documents::new(vec![doc! { "stage": stage.asked.name() }]));
        Box::pin(async move { Ok(answer) })
    }

    fn out<'a>(&'a self, target: &'a Out, documents: Box<dyn Source>) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let documents = collect(documents).await?;
            let mut collections = self.0.collections.lock().unwrap();
            collections.insert(target.namespace.collection.clone(), documents);
            Ok(())
        })
    }

    fn merge<'a>(
        &'a self,
        merge: &'a Merge,
        documents: Vec<Document>,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let mut collections = self.0.collections.lock().unwrap();
            let target = collections
                .entry(merge.into.collection.clone())
                .or_default();
            for document in documents {
                let same = |other: &Document| {
                    merge
                        .on_fields()
                        .iter()
                        .all(|field| other.get(field) == document.get(field))
                };
                let place = target.iter().position(same);
                let existing = place.and_then(|place| target.get(place).cloned());
                match (merge.decide(document, existing)?, place) {
                    (MergeAction::Insert(document), _) => target.push(document),
                    (MergeAction::Replace(document), Some(place)) => target[place] = document,
                    _ => {}
                }
            }
            Ok(())
        })
    }

    fn memory_limit(&self) -> usize {
        1 << 20
    }
}

/// Nothing here ever has to wait, but for its next turn.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    const MAX_TURNS: usize = 1_000;
    let mut future = Box::pin(future);
    for _ in 0..MAX_TURNS {
        let mut context = TaskContext::from_waker(Waker::noop());
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
    }
    panic!("waits for something")
}

fn shared() -> Shared {
    let shared = Shared::default();
    let mut collections = shared.0.collections.lock().unwrap();
    collections.insert(
        "c".into(),
        vec![
            doc! { "_id": 1, "a": 3, "t": "x", "l": [1, 2], "o": { "p": 1, "q": 2 } },
            doc! { "_id": 2, "a": 1, "t": "y", "l": [] },
            doc! { "_id": 3, "a": 2, "t": "x", "o": [{ "p": 5 }, 6] },
        ],
    );
    collections.insert(
        "d".into(),
        vec![
            doc! { "_id": 10, "k": 1, "up": 20 },
            doc! { "_id": 20, "k": 2, "up": 30 },
            doc! { "_id": 30, "k": [1, 3], "up": 10 },
            doc! { "_id": 40 },
        ],
    );
    drop(collections);
    shared
}

fn run_on(environment: &Shared, stages: &Bson) -> Result<Vec<Document>> {
    let Bson::Array(stages) = stages else {
        panic!("{stages} is no array")
    };
    let pipeline = Pipeline::parse(stages, &Context::default())?;
    let source = Box::new(Documents::new(environment.0.documents("c")));
    let environment: Arc<dyn Environment> = Arc::new(environment.clone());
    block_on(collect(pipeline.run(source, &environment)))
}

/// Each row: stages over the collection `c`, and what they give.
fn gives<const N: usize>(rows: [(Bson, Bson); N]) {
    for (stages, expected) in rows {
        let documents = run_on(&shared(), &stages);
        let documents = documents.unwrap_or_else(|error| panic!("{stages}: {error}"));
        let found = Bson::Array(documents.into_iter().map(Bson::Document).collect());
        assert_eq!(found, expected, "{stages}");
    }
}

/// Each row: stages, and the code of their error.
fn fails<const N: usize>(rows: [(Bson, i32); N]) {
    for (stages, code) in rows {
        match run_on(&shared(), &stages) {
            Ok(documents) => panic!("{stages} gives {documents:?}, not the error {code}"),
            Err(error) => assert_eq!(error.code.0, code, "{stages}: {error}"),
        }
    }
}

#[test]
fn filters_and_cuts() {
    gives([
        (
            bson!([{ "$match": { "a": { "$gt": 1 } } }, { "$project": { "a": 1 } }]),
            { bson!([{ "_id": 1, "a": 3 }, { "_id": 3, "a": 2 }]) },
        ),
        (
            bson!([{ "$skip": 1 }, { "$limit": 1 }, { "$project": { "a": 1 } }]),
            { bson!([{ "_id": 2, "a": 1 }]) },
        ),
        (bson!([{ "$count": "n" }]), bson!([{ "n": 3 }])),
        (
            bson!([{ "$match": { "a": 9 } }, { "$count": "n" }]),
            bson!([]),
        ),
        (
            bson!([{ "$sort": { "a": -1 } }, { "$project": { "_id": 1 } }]),
            { bson!([{ "_id": 1 }, { "_id": 3 }, { "_id": 2 }]) },
        ),
        (
            bson!([{ "$sort": { "a": 1 } }, { "$limit": 1 }, { "$project": { "_id": 1 } }]),
            { bson!([{ "_id": 2 }]) },
        ),
        (
            bson!([{ "$documents": [{ "x": { "$add": [1, 1] } }] }]),
            bson!([{ "x": 2 }]),
        ),
    ]);
    fails([
        (bson!([1]), 14),
        (bson!([{}]), 40323),
        (bson!([{ "$skip": 1, "$limit": 1 }]), 40323),
        (bson!([{ "$none": 1 }]), 40324),
        (bson!([{ "$match": 1 }]), 15959),
        (bson!([{ "$skip": -1 }]), 5107200),
        (bson!([{ "$limit": 0 }]), 15958),
        (bson!([{ "$limit": "x" }]), 5107201),
        (bson!([{ "$sort": 1 }]), 15973),
        (bson!([{ "$sort": { "a": "x" } }]), 15974),
        (bson!([{ "$sort": { "a": 2 } }]), 15975),
        (bson!([{ "$sort": {} }]), 15976),
        (bson!([{ "$count": 1 }]), 40156),
        (bson!([{ "$count": "" }]), 40157),
        (bson!([{ "$count": "$a" }]), 40158),
        (bson!([{ "$count": "a.b" }]), 40160),
        (bson!([{ "$count": "_id" }]), 9039800),
        (bson!([{ "$limit": 1 }, { "$documents": [] }]), 40602),
        (bson!([{ "$documents": 1 }]), 5858203),
    ]);
}

#[test]
fn changes_fields() {
    gives([
        (
            bson!([{ "$match": { "_id": 1 } }, { "$project": { "a": 1, "_id": 0 } }]),
            { bson!([{ "a": 3 }]) },
        ),
        (
            bson!([{ "$match": { "_id": 1 } }, { "$project": { "l": 0, "o.p": 0 } }]),
            { bson!([{ "_id": 1, "a": 3, "t": "x", "o": { "q": 2 } }]) },
        ),
        (
            bson!([{ "$match": { "_id": 3 } }, { "$project": { "o": { "p": 1 } } }]),
            { bson!([{ "_id": 3, "o": [{ "p": 5 }] }]) },
        ),
        (
            bson!([{ "$match": { "_id": 1 } }, { "$project": { "b": "$a", "o.r": "$t" } }]),
            { bson!([{ "_id": 1, "o": { "r": "x" }, "b": 3 }]) },
        ),
        (
            bson!([{ "$match": { "_id": 2 } }, { "$addFields": { "a": "$$REMOVE", "n.m": 1 } }]),
            { bson!([{ "_id": 2, "t": "y", "l": [], "n": { "m": 1 } }]) },
        ),
        (
            bson!([{ "$match": { "_id": 3 } }, { "$set": { "o.z": "$a" } }]),
            { bson!([{ "_id": 3, "a": 2, "t": "x", "o": [{ "p": 5, "z": 2 }, { "z": 2 }] }]) },
        ),
        (
            bson!([{ "$match": { "_id": 2 } }, { "$unset": ["l", "t"] }]),
            { bson!([{ "_id": 2, "a": 1 }]) },
        ),
        (
            bson!([{ "$match": { "_id": 1 } }, { "$replaceRoot": { "newRoot": "$o" } }]),
            { bson!([{ "p": 1, "q": 2 }]) },
        ),
        (
            bson!([{ "$limit": 1 }, { "$replaceWith": { "x": "$a" } }]),
            bson!([{ "x": 3 }]),
        ),
    ]);
    fails([
        (bson!([{ "$project": 1 }]), 15969),
        (bson!([{ "$project": {} }]), 51272),
        (bson!([{ "$project": { "a": 1, "b": 0 } }]), 31254),
        (bson!([{ "$project": { "a": 0, "b": 1 } }]), 31253),
        (bson!([{ "$project": { "a": 0, "b": "$c" } }]), 31310),
        (
            bson!([{ "$project": { "a": 0, "b": { "$add": [1] } } }]),
            31252,
        ),
        (bson!([{ "$project": { "a": 1, "a.b": 1 } }]), 31249),
        (bson!([{ "$project": { "a.b": 1, "a": 1 } }]), 31250),
        (bson!([{ "$project": { "a": {} } }]), 51270),
        (bson!([{ "$project": { "a.$": 1 } }]), 31324),
        (bson!([{ "$project": { "a": { "$none": 1 } } }]), 31325),
        (bson!([{ "$addFields": 1 }]), 40272),
        (bson!([{ "$addFields": { "a": 1, "a.b": 1 } }]), 40176),
        (bson!([{ "$unset": 1 }]), 31002),
        (bson!([{ "$unset": [] }]), 31119),
        (bson!([{ "$unset": [1] }]), 31120),
        (bson!([{ "$replaceRoot": 1 }]), 40229),
        (bson!([{ "$replaceRoot": {} }]), 40414),
        (bson!([{ "$replaceRoot": { "newRoot": "$a" } }]), 40228),
    ]);
}

#[test]
fn unwinds_and_redacts() {
    gives([
        (bson!([{ "$unwind": "$l" }, { "$project": { "l": 1 } }]), {
            bson!([{ "_id": 1, "l": 1 }, { "_id": 1, "l": 2 }])
        }),
        (
            bson!([
                { "$unwind": {
                    "path": "$l", "preserveNullAndEmptyArrays": true, "includeArrayIndex": "i",
                } },
                { "$project": { "l": 1, "i": 1 } },
            ]),
            bson!([
                { "_id": 1, "l": 1, "i": 0_i64 }, { "_id": 1, "l": 2, "i": 1_i64 },
                { "_id": 2, "i": null }, { "_id": 3, "i": null },
            ]),
        ),
        (
            bson!([{ "$match": { "_id": 1 } }, { "$redact": {
                "$cond": [{ "$eq": ["$p", 1] }, "$$PRUNE", "$$DESCEND"],
            } }]),
            bson!([{ "_id": 1, "a": 3, "t": "x", "l": [1, 2] }]),
        ),
    ]);
    fails([
        (bson!([{ "$unwind": 1 }]), 15981),
        (bson!([{ "$unwind": {} }]), 28812),
        (bson!([{ "$unwind": "l" }]), 28818),
        (bson!([{ "$unwind": { "path": 1 } }]), 28808),
        (
            bson!([{ "$unwind": { "path": "$l", "preserveNullAndEmptyArrays": 1 } }]),
            28809,
        ),
        (
            bson!([{ "$unwind": { "path": "$l", "includeArrayIndex": "" } }]),
            28810,
        ),
        (bson!([{ "$unwind": { "path": "$l", "x": 1 } }]), 28811),
        (
            bson!([{ "$unwind": { "path": "$l", "includeArrayIndex": "$i" } }]),
            28822,
        ),
        (bson!([{ "$redact": "x" }]), 17053),
        (bson!([{ "$sample": 1 }]), 28745),
        (bson!([{ "$sample": { "size": "x" } }]), 28746),
        (bson!([{ "$sample": { "size": 0 } }]), 28747),
        (bson!([{ "$sample": { "x": 1 } }]), 28748),
        (bson!([{ "$sample": {} }]), 28749),
    ]);
    assert_eq!(
        run_on(&shared(), &bson!([{ "$sample": { "size": 2 } }]))
            .unwrap()
            .len(),
        2
    );
}

#[test]
fn groups() {
    gives([
        (
            bson!([{ "$group": { "_id": "$t", "n": { "$sum": 1 }, "s": { "$sum": "$a" } } }]),
            { bson!([{ "_id": "x", "n": 2, "s": 5 }, { "_id": "y", "n": 1, "s": 1 }]) },
        ),
        (
            bson!([{ "$group": { "_id": null, "m": { "$max": "$a" } } }]),
            { bson!([{ "_id": null, "m": 3 }]) },
        ),
        (
            bson!([{ "$group": { "_id": { "k": "$t", "z": "$none" } } }]),
            { bson!([{ "_id": { "k": "x" } }, { "_id": { "k": "y" } }]) },
        ),
        (bson!([{ "$sortByCount": "$t" }]), {
            bson!([{ "_id": "x", "count": 2 }, { "_id": "y", "count": 1 }])
        }),
        (
            bson!([{ "$bucket": { "groupBy": "$a", "boundaries": [0, 2, 4] } }]),
            { bson!([{ "_id": 0, "count": 1 }, { "_id": 2, "count": 2 }]) },
        ),
        (
            bson!([{ "$bucket": { "groupBy": "$a", "boundaries": [0, 2], "default": "more",
                "output": { "s": { "$sum": "$a" } } } }]),
            bson!([{ "_id": 0, "s": 1 }, { "_id": "more", "s": 5 }]),
        ),
        (
            bson!([{ "$bucketAuto": { "groupBy": "$a", "buckets": 2 } }]),
            {
                bson!([
                    { "_id": { "min": 1, "max": 3 }, "count": 2 },
                    { "_id": { "min": 3, "max": 3 }, "count": 1 },
                ])
            },
        ),
        (
            bson!([{ "$bucketAuto": {
                "groupBy": "$a", "buckets": 2, "granularity": "POWERSOF2",
            } }]),
            bson!([
                { "_id": { "min": 0.5, "max": 4.0 }, "count": 3 },
            ]),
        ),
    ]);
}

#[test]
fn refuses_malformed_groups() {
    fails([
        (bson!([{ "$group": 1 }]), 15947),
        (bson!([{ "$group": {} }]), 15955),
        (bson!([{ "$group": { "_id": { "a": 1 } } }]), 17390),
        (bson!([{ "$group": { "_id": 1, "a": 1 } }]), 40234),
        (
            bson!([{ "$group": { "_id": 1, "a.b": { "$sum": 1 } } }]),
            40235,
        ),
        (bson!([{ "$sortByCount": 1 }]), 40149),
        (bson!([{ "$sortByCount": "t" }]), 40148),
        (bson!([{ "$sortByCount": {} }]), 40147),
        (bson!([{ "$bucket": 1 }]), 40201),
        (
            bson!([{ "$bucket": { "groupBy": 1, "boundaries": [0, 1] } }]),
            40202,
        ),
        (
            bson!([{ "$bucket": { "groupBy": "$a", "boundaries": 1 } }]),
            40200,
        ),
        (
            bson!([{ "$bucket": { "groupBy": "$a", "boundaries": ["$a", 1] } }]),
            40191,
        ),
        (
            bson!([{ "$bucket": { "groupBy": "$a", "boundaries": [1] } }]),
            40192,
        ),
        (
            bson!([{ "$bucket": { "groupBy": "$a", "boundaries": [1, "x"] } }]),
            40193,
        ),
        (
            bson!([{ "$bucket": { "groupBy": "$a", "boundaries": [2, 1] } }]),
            40194,
        ),
        (
            bson!([{ "$bucket": { "groupBy": "$a", "boundaries": [1, 2], "output": 1 } }]),
            40196,
        ),
        (bson!([{ "$bucket": { "x": 1 } }]), 40197),
        (bson!([{ "$bucket": { "groupBy": "$a" } }]), 40198),
        (
            bson!([{ "$bucket": { "groupBy": "$a", "boundaries": [1, 3], "default": 2 } }]),
            40199,
        ),
        (
            bson!([{ "$bucket": { "groupBy": "$a", "boundaries": [0, 2] } }]),
            40069,
        ),
        (
            bson!([{ "$bucketAuto": { "groupBy": "$a", "buckets": 0 } }]),
            40243,
        ),
        (
            bson!([{ "$bucketAuto": { "groupBy": "$t", "buckets": 1, "granularity": "R5" } }]),
            40258,
        ),
    ]);
}
