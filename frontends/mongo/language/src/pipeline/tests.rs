//! Pipelines over collections in memory.

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
        let answer: Box<dyn Source> = Box::new(Documents::new(vec![doc! { "stage": stage.name }]));
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

/// Nothing here ever has to wait.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = Box::pin(future);
    match future
        .as_mut()
        .poll(&mut TaskContext::from_waker(Waker::noop()))
    {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("waits for something"),
    }
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
            bson!([{ "$bucketAuto": { "groupBy": "$a", "buckets": 2, "granularity": "POWERSOF2" } }]),
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

#[test]
fn computes_over_windows() {
    let window = |output: Bson| {
        bson!([
            { "$setWindowFields": { "sortBy": { "a": 1 }, "output": { "w": output } } },
            { "$project": { "_id": 0, "w": 1 } },
        ])
    };
    let rows = |values: [Bson; 3]| {
        Bson::Array(
            values
                .into_iter()
                .map(|value| bson!({ "w": value }))
                .collect(),
        )
    };
    let running = bson!({ "documents": ["unbounded", "current"] });
    // The values of `a` are 1, 2, 3 in their order.
    for (output, values) in [
        (bson!({ "$sum": "$a" }), [bson!(6), bson!(6), bson!(6)]),
        (
            bson!({ "$sum": "$a", "window": running.clone() }),
            [bson!(1), bson!(3), bson!(6)],
        ),
        (
            bson!({ "$push": "$a", "window": { "documents": [-1, 0] } }),
            [bson!([1]), bson!([1, 2]), bson!([2, 3])],
        ),
        (
            bson!({ "$sum": "$a", "window": { "range": [0, 1] } }),
            [bson!(3), bson!(5), bson!(3)],
        ),
        (bson!({ "$rank": {} }), [bson!(1), bson!(2), bson!(3)]),
        (bson!({ "$denseRank": {} }), [bson!(1), bson!(2), bson!(3)]),
        (
            bson!({ "$documentNumber": {} }),
            [bson!(1), bson!(2), bson!(3)],
        ),
        (
            bson!({ "$shift": { "output": "$a", "by": -1, "default": 0 } }),
            [bson!(0), bson!(1), bson!(2)],
        ),
        (
            bson!({ "$derivative": { "input": { "$multiply": ["$a", 2] } },
                "window": { "documents": [-1, 0] } }),
            [bson!(null), bson!(2.0), bson!(2.0)],
        ),
        (
            bson!({ "$integral": { "input": "$a" }, "window": running.clone() }),
            [bson!(0), bson!(1.5), bson!(4.0)],
        ),
        (
            bson!({ "$expMovingAvg": { "input": "$a", "alpha": 0.5 } }),
            [bson!(1), bson!(1.5), bson!(2.25)],
        ),
        (
            bson!({ "$covariancePop": ["$a", "$a"], "window": running }),
            [bson!(0.0), bson!(0.25), bson!(2.0 / 3.0)],
        ),
        (
            bson!({ "$locf": { "$cond": [{ "$eq": ["$a", 1] }, "$a", null] } }),
            [bson!(1), bson!(1), bson!(1)],
        ),
        (
            bson!({ "$linearFill": { "$cond": [{ "$eq": ["$a", 2] }, null, "$a"] } }),
            [bson!(1), bson!(2.0), bson!(3)],
        ),
    ] {
        gives([(window(output), rows(values))]);
    }
}

#[test]
fn fills_gaps() {
    let documents = |documents: Bson| bson!({ "$documents": documents });
    gives([
        (
            bson!([
                documents(bson!([{ "v": 1 }, { "v": 4, "k": 1 }])),
                { "$densify": { "field": "v", "range": { "step": 2, "bounds": "full" } } },
            ]),
            bson!([{ "v": 1 }, { "v": 3 }, { "v": 4, "k": 1 }]),
        ),
        (
            bson!([
                documents(bson!([{ "v": 1, "p": "a" }, { "v": 2, "p": "b" }])),
                { "$densify": { "field": "v", "partitionByFields": ["p"],
                    "range": { "step": 1, "bounds": [0, 2] } } },
            ]),
            bson!([
                { "p": "a", "v": 0 }, { "v": 1, "p": "a" },
                { "p": "b", "v": 0 }, { "p": "b", "v": 1 }, { "v": 2, "p": "b" },
            ]),
        ),
        (
            bson!([
                documents(bson!([{ "t": 1, "a": 1, "b": 5 }, { "t": 2 }, { "t": 3, "a": 3 }])),
                { "$fill": { "sortBy": { "t": 1 }, "output": {
                    "a": { "method": "linear" }, "b": { "method": "locf" }, "c": { "value": "x" },
                } } },
            ]),
            bson!([
                { "t": 1, "a": 1, "b": 5, "c": "x" }, { "t": 2, "a": 2.0, "b": 5, "c": "x" },
                { "t": 3, "a": 3, "b": 5, "c": "x" },
            ]),
        ),
    ]);
    let densify = |range: Bson| bson!([{ "$densify": { "field": "a", "range": range } }]);
    fails([
        (bson!([{ "$densify": 1 }]), 9),
        (bson!([{ "$densify": {} }]), 40414),
        (densify(bson!({ "step": 0, "bounds": "full" })), 5733401),
        (densify(bson!({ "step": 1, "bounds": "x" })), 5946802),
        (densify(bson!({ "step": 1, "bounds": [1] })), 5733403),
        (densify(bson!({ "step": 1, "bounds": [2, 1] })), 5733402),
        (densify(bson!({ "step": 1, "bounds": [1, 2.0] })), 5876900),
        (
            densify(bson!({ "step": 1, "bounds": "partition" })),
            5733408,
        ),
        (
            densify(bson!({ "step": 1, "bounds": [1, 2], "unit": "day" })),
            5733409,
        ),
        (bson!([{ "$fill": 1 }]), 9),
        (bson!([{ "$fill": { "output": {} } }]), 6050203),
        (bson!([{ "$fill": { "output": { "a": 1 } } }]), 6050200),
        (
            bson!([{ "$fill": { "output": { "a": { "method": "x" } } } }]),
            6050202,
        ),
        (
            bson!([{ "$fill": { "output": { "a": { "method": "linear" } } } }]),
            605001,
        ),
    ]);
}

#[test]
fn refuses_malformed_windows() {
    let window = |output: Bson| bson!([{ "$setWindowFields": { "sortBy": { "a": 1 }, "output": { "w": output } } }]);
    fails([
        (bson!([{ "$setWindowFields": 1 }]), 9),
        (bson!([{ "$setWindowFields": {} }]), 40414),
        (bson!([{ "$setWindowFields": { "x": 1 } }]), 40415),
        (
            bson!([{ "$setWindowFields": { "output": {}, "partitionBy": { "$literal": [] } } }]),
            14,
        ),
        (window(bson!(1)), 9),
        (window(bson!({ "$none": 1 })), 9),
        (window(bson!({ "$sum": 1, "$avg": 1 })), 9),
        (
            window(bson!({ "$sum": 1, "window": { "documents": [1, 0] } })),
            5339900,
        ),
        (
            window(bson!({ "$sum": 1, "window": { "documents": [1] } })),
            9,
        ),
        (window(bson!({ "$rank": {}, "window": {} })), 5371601),
        (window(bson!({ "$rank": 1 })), 5371603),
        (window(bson!({ "$shift": { "output": 1 } })), 9),
        (window(bson!({ "$derivative": { "input": 1 } })), 9),
        (
            bson!([{ "$setWindowFields": { "output": {
                "w": { "$sum": 1, "window": { "documents": [0, 1] } } } } }]),
            5339901,
        ),
        (
            bson!([{ "$setWindowFields": { "output": { "w": { "$rank": {} } } } }]),
            5371602,
        ),
    ]);
}

#[test]
fn keeps_within_memory() {
    let shared = shared();
    let large: Vec<Document> = (0..200)
        .map(|id| doc! { "_id": id, "x": "y".repeat(10_000) })
        .collect();
    shared
        .0
        .collections
        .lock()
        .unwrap()
        .insert("c".into(), large);
    for (stages, code) in [
        (bson!([{ "$sort": { "_id": -1 } }]), Some(292)),
        (bson!([{ "$sort": { "_id": -1 } }, { "$limit": 3 }]), None),
        (
            bson!([{ "$group": { "_id": null, "all": { "$push": "$x" } } }]),
            Some(292),
        ),
        (bson!([{ "$facet": { "f": [] } }]), Some(292)),
        (
            bson!([{ "$bucketAuto": { "groupBy": "$_id", "buckets": 2 } }]),
            Some(292),
        ),
    ] {
        let error = run_on(&shared, &stages).err().map(|error| error.code.0);
        assert_eq!(error, code, "{stages}");
    }
}

#[test]
fn reads_other_collections() {
    let ids = || bson!({ "$project": { "_id": 1, "d": "$d._id" } });
    gives([
        (
            bson!([
                { "$lookup": { "from": "d", "localField": "a", "foreignField": "k", "as": "d" } },
                ids(),
            ]),
            bson!([
                { "_id": 1, "d": [30] }, { "_id": 2, "d": [10, 30] },
                { "_id": 3, "d": [20] },
            ]),
        ),
        (
            bson!([
                { "$lookup": {
                    "from": "d", "let": { "a": "$a" }, "as": "d",
                    "pipeline": [{ "$match": { "$expr": { "$eq": ["$k", "$$a"] } } }],
                } },
                ids(),
            ]),
            bson!([
                { "_id": 1, "d": [] }, { "_id": 2, "d": [10] },
                { "_id": 3, "d": [20] },
            ]),
        ),
        (
            bson!([
                { "$lookup": {
                    "from": "d", "localField": "l", "foreignField": "k", "as": "d",
                    "pipeline": [{ "$match": { "_id": { "$lt": 30 } } }],
                } },
                ids(),
            ]),
            // The values of an array, nothing for an empty one, and null for what is missing.
            bson!([
                { "_id": 1, "d": [10, 20] }, { "_id": 2, "d": [] },
                { "_id": 3, "d": [] },
            ]),
        ),
        (
            bson!([
                { "$limit": 1 },
                { "$graphLookup": {
                    "from": "d", "startWith": 20, "connectFromField": "up", "connectToField": "_id",
                    "as": "d", "depthField": "n", "maxDepth": 1,
                } },
                { "$project": { "d._id": 1, "d.n": 1 } },
            ]),
            bson!([{ "_id": 1, "d": [{ "_id": 20, "n": 0_i64 }, { "_id": 30, "n": 1_i64 }] }]),
        ),
        (
            bson!([
                { "$limit": 1 }, { "$project": { "_id": 1 } },
                { "$unionWith": { "coll": "d", "pipeline": [{ "$match": { "k": 2 } }] } },
            ]),
            bson!([{ "_id": 1 }, { "_id": 20, "k": 2, "up": 30 }]),
        ),
        (
            bson!([{ "$facet": {
                "n": [{ "$count": "n" }],
                "d": [{ "$limit": 1 }, { "$project": { "_id": 1 } }],
            } }]),
            bson!([{ "n": [{ "n": 3 }], "d": [{ "_id": 1 }] }]),
        ),
        (
            bson!([{ "$collStats": {} }]),
            bson!([{ "stage": "$collStats" }]),
        ),
    ]);
}

#[test]
fn refuses_malformed_readers() {
    fails([
        (bson!([{ "$lookup": 1 }]), 9),
        (bson!([{ "$lookup": { "x": 1 } }]), 40415),
        (bson!([{ "$lookup": { "from": "d" } }]), 40414),
        (bson!([{ "$lookup": { "from": "d", "as": "x" } }]), 9),
        (
            bson!([{ "$lookup": { "from": "d", "as": "x", "localField": "a" } }]),
            9,
        ),
        (
            bson!([{ "$lookup": { "from": "d", "as": "x.", "pipeline": [] } }]),
            40353,
        ),
        (
            bson!([{ "$lookup": { "from": "d", "as": "x", "pipeline": [{ "$out": "y" }] } }]),
            51047,
        ),
        (bson!([{ "$lookup": { "as": "x", "pipeline": [] } }]), 9),
        (bson!([{ "$graphLookup": 1 }]), 9),
        (bson!([{ "$graphLookup": {} }]), 40105),
        (bson!([{ "$graphLookup": { "x": 1 } }]), 40104),
        (bson!([{ "$graphLookup": { "maxDepth": "x" } }]), 40100),
        (bson!([{ "$graphLookup": { "maxDepth": -1 } }]), 40101),
        (bson!([{ "$graphLookup": { "as": 1 } }]), 40103),
        (bson!([{ "$unionWith": 1 }]), 9),
        (
            bson!([{ "$unionWith": { "coll": "d", "pipeline": [{ "$out": "y" }] } }]),
            31441,
        ),
        (bson!([{ "$facet": 1 }]), 40169),
        (bson!([{ "$facet": { "a": 1 } }]), 40170),
        (bson!([{ "$facet": { "a": [1] } }]), 40171),
        (
            bson!([{ "$facet": { "a": [{ "$facet": { "b": [] } }] } }]),
            40600,
        ),
        (bson!([{ "$facet": { "a.b": [] } }]), 16412),
    ]);
}

#[test]
fn writes() {
    let written = |stages: Bson| {
        let shared = shared();
        run_on(&shared, &stages).map(|answer| {
            assert_eq!(answer, []);
            shared.0.documents("w")
        })
    };
    let first = bson!({ "$limit": 1 });
    let brief = bson!({ "$project": { "a": 1 } });
    let out = written(bson!([first.clone(), brief.clone(), { "$out": "w" }])).unwrap();
    assert_eq!(out, [doc! { "_id": 1, "a": 3 }]);
    // What is there, how it is merged, and what is there afterwards.
    for (options, existing, expected) in [
        (doc! {}, None, Some(doc! { "_id": 1, "a": 3 })),
        (
            doc! {},
            Some(doc! { "_id": 1, "b": 1 }),
            Some(doc! { "_id": 1, "b": 1, "a": 3 }),
        ),
        (
            doc! { "whenMatched": "replace" },
            Some(doc! { "_id": 1, "b": 1 }),
            Some(doc! { "_id": 1, "a": 3 }),
        ),
        (
            doc! { "whenMatched": "keepExisting" },
            Some(doc! { "_id": 1, "b": 1 }),
            Some(doc! { "_id": 1, "b": 1 }),
        ),
        (doc! { "whenNotMatched": "discard" }, None, None),
        (
            doc! { "whenMatched": [{ "$set": { "b": { "$add": ["$b", "$$new.a"] } } }] },
            Some(doc! { "_id": 1, "b": 1 }),
            Some(doc! { "_id": 1, "b": 4 }),
        ),
    ] {
        let shared = shared();
        shared
            .0
            .collections
            .lock()
            .unwrap()
            .insert("w".into(), existing.into_iter().collect());
        let mut merge = doc! { "into": "w" };
        merge.extend(options);
        run_on(
            &shared,
            &bson!([first.clone(), brief.clone(), { "$merge": merge.clone() }]),
        )
        .unwrap();
        assert_eq!(shared.0.documents("w"), Vec::from_iter(expected), "{merge}");
    }
}

#[test]
fn refuses_malformed_writers() {
    fails([
        (bson!([{ "$out": 1 }]), 16990),
        (bson!([{ "$out": "" }]), 73),
        (bson!([{ "$out": "system.x" }]), 17385),
        (bson!([{ "$out": { "db": "admin", "coll": "x" } }]), 31321),
        (bson!([{ "$out": "x" }, { "$limit": 1 }]), 40601),
        (bson!([{ "$merge": 1 }]), 14),
        (bson!([{ "$merge": {} }]), 40414),
        (bson!([{ "$merge": { "into": 1 } }]), 51178),
        (bson!([{ "$merge": { "into": "" } }]), 5786800),
        (bson!([{ "$merge": { "into": {} } }]), 5786801),
        (bson!([{ "$merge": { "into": "x", "on": 1 } }]), 51186),
        (bson!([{ "$merge": { "into": "x", "on": [] } }]), 51187),
        (bson!([{ "$merge": { "into": "x", "on": [1] } }]), 51134),
        (
            bson!([{ "$merge": { "into": "x", "on": ["a", "a"] } }]),
            31465,
        ),
        (
            bson!([{ "$merge": { "into": "x", "whenMatched": 1 } }]),
            51191,
        ),
        (
            bson!([{ "$merge": { "into": "x", "whenMatched": "x" } }]),
            2,
        ),
        (
            bson!([{ "$merge": { "into": "x", "let": {} , "whenMatched": "merge" } }]),
            51199,
        ),
        (
            bson!([{ "$merge": { "into": "x", "let": { "new": 1 }, "whenMatched": [] } }]),
            51273,
        ),
        (
            bson!([{ "$merge": { "into": "x", "whenMatched": "fail", "whenNotMatched": "fail" } }]),
            51181,
        ),
        (
            bson!([{ "$merge": { "into": "x", "whenMatched": [{ "$limit": 1 }] } }]),
            72,
        ),
        (
            bson!([{ "$merge": { "into": "x", "whenNotMatched": "fail" } }]),
            13113,
        ),
    ]);
}

#[test]
fn updates() {
    let update = |stages: Bson, document: Document| {
        let Bson::Array(stages) = stages else {
            return fail(14, "no array");
        };
        let pipeline = Pipeline::parse_update(&stages, &Context::default())?;
        pipeline.update(document, &Variables::default())
    };
    let stages = bson!([{ "$set": { "b": "$a" } }, { "$unset": "a" }]);
    assert_eq!(update(stages, doc! { "a": 1 }), Ok(doc! { "b": 1 }));
    let replaced = update(bson!([{ "$replaceWith": { "c": "$a" } }]), doc! { "a": 1 });
    assert_eq!(replaced, Ok(doc! { "c": 1 }));
    let refused = update(bson!([{ "$match": {} }]), doc! {});
    assert_eq!(refused.unwrap_err().code.0, 72);
}

#[test]
fn shows_its_stages() {
    let stages = [
        Bson::Document(doc! { "$match": { "a": 1 } }),
        Bson::Document(doc! { "$sort": { "a": 1 } }),
        Bson::Document(doc! { "$lookup": { "from": "d", "as": "x", "pipeline": [] } }),
        Bson::Document(doc! { "$out": "w" }),
    ];
    let pipeline = Pipeline::parse(&stages, &Context::default()).unwrap();
    assert!(matches!(
        pipeline.stages(),
        [Stage::Match(_), Stage::Sort(_), ..]
    ));
    assert!(matches!(pipeline.writes(), Some(Stage::Out(_))));
    assert_eq!(pipeline.reads().len(), 1);
    assert_eq!(pipeline.without_leading(2).stages().len(), 2);
}
