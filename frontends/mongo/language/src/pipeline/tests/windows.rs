//! Windows, gaps and memory.

use super::*;

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
    let window = |output: Bson| {
        let fields = doc! { "sortBy": { "a": 1 }, "output": { "w": output } };
        bson!([{ "$setWindowFields": fields }])
    };
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
    let large: Vec<Document> = (0..500)
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
