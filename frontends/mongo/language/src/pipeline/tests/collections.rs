//! Stages that read and write other collections, and updates.

use super::*;

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
            // The values of an array, an empty one is null, as what is missing is.
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
        (bson!([{ "$lookup": { "x": 1 } }]), 9),
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
    assert_eq!(pipeline.touches().len(), 2);
    assert_eq!(pipeline.without_leading(2).stages().len(), 2);
}
