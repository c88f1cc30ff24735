//! Commands about documents: reading them, writing them, and what is left open between commands.

use bson::doc;

use super::{Row, admin, at, bulk, ns, of_server, stages};

pub(super) const ROWS: &[Row] = &[
    admin(
        "abortTransaction",
        "of one's own session",
        "user",
        |_| doc! { "abortTransaction": 1 },
    ),
    at("aggregate", "", "find db.c", |_| stages(vec![])),
    at("aggregate", "with $lookup", "find db.c, find db.d", |_| {
        stages(vec![
            doc! { "$lookup": { "from": "d", "localField": "a", "foreignField": "b", "as": "x" } },
        ])
    }),
    at(
        "aggregate",
        "with $graphLookup",
        "find db.c, find db.d",
        |_| {
            stages(vec![
                doc! { "$graphLookup": { "from": "d", "startWith": "$a", "connectFromField": "a",
                "connectToField": "b", "as": "x" } },
            ])
        },
    ),
    at(
        "aggregate",
        "with $unionWith in $facet",
        "find db.c, find db.d",
        |_| stages(vec![doc! { "$facet": { "f": [{ "$unionWith": "d" }] } }]),
    ),
    at(
        "aggregate",
        "with $unionWith of system data",
        "find db.c, find db.system.users",
        |_| stages(vec![doc! { "$unionWith": "system.users" }]),
    ),
    at("aggregate", "with $documents", "user", |_| {
        of_server(doc! { "$documents": [] })
    }),
    at(
        "aggregate",
        "with $out",
        "find db.c, insert db.o, remove db.o",
        |_| stages(vec![doc! { "$out": "o" }]),
    ),
    at(
        "aggregate",
        "with $out to another database",
        "find db.c, insert elsewhere.o, remove elsewhere.o",
        |_| stages(vec![doc! { "$out": { "db": "elsewhere", "coll": "o" } }]),
    ),
    at(
        "aggregate",
        "with $out and bypassDocumentValidation",
        "find db.c, insert db.o, remove db.o, bypassDocumentValidation db.o",
        |_| {
            let mut command = stages(vec![doc! { "$out": "o" }]);
            command.insert("bypassDocumentValidation", true);
            command
        },
    ),
    at(
        "aggregate",
        "with $merge",
        "find db.c, insert db.o, update db.o",
        |_| stages(vec![doc! { "$merge": "o" }]),
    ),
    at(
        "aggregate",
        "with $merge to another database",
        "find db.c, insert elsewhere.o, update elsewhere.o",
        |_| {
            stages(vec![
                doc! { "$merge": { "into": { "db": "elsewhere", "coll": "o" } } },
            ])
        },
    ),
    at(
        "aggregate",
        "with $merge that only inserts",
        "find db.c, insert db.o",
        |_| {
            stages(vec![
                doc! { "$merge": { "into": "o", "whenMatched": "fail" } },
            ])
        },
    ),
    at(
        "aggregate",
        "with $merge that only updates",
        "find db.c, update db.o",
        |_| {
            stages(vec![
                doc! { "$merge": { "into": "o", "whenNotMatched": "discard" } },
            ])
        },
    ),
    at("aggregate", "with $collStats", "collStats db.c", |_| {
        stages(vec![doc! { "$collStats": { "count": {} } }])
    }),
    at("aggregate", "with $indexStats", "indexStats db.c", |_| {
        stages(vec![doc! { "$indexStats": {} }])
    }),
    at(
        "aggregate",
        "with $planCacheStats",
        "planCacheRead db.c",
        |_| stages(vec![doc! { "$planCacheStats": {} }]),
    ),
    at(
        "aggregate",
        "with $listLocalSessions of one's own",
        "user",
        |_| of_server(doc! { "$listLocalSessions": {} }),
    ),
    at(
        "aggregate",
        "with $listLocalSessions of all",
        "listSessions cluster",
        |_| of_server(doc! { "$listLocalSessions": { "allUsers": true } }),
    ),
    at(
        "aggregate",
        "with $listSessions of another",
        "listSessions cluster",
        |_| of_server(doc! { "$listSessions": { "users": [{ "user": "x", "db": "admin" }] } }),
    ),
    at(
        "aggregate",
        "with $listClusterCatalog",
        "listCollections db",
        |_| of_server(doc! { "$listClusterCatalog": {} }),
    ),
    admin(
        "aggregate",
        "with $listClusterCatalog of all databases",
        "listClusterCatalog cluster",
        |_| of_server(doc! { "$listClusterCatalog": {} }),
    ),
    admin("aggregate", "with $currentOp of one's own", "user", |_| {
        of_server(doc! { "$currentOp": {} })
    }),
    admin(
        "aggregate",
        "with $currentOp of all users",
        "inprog cluster",
        |_| of_server(doc! { "$currentOp": { "allUsers": true } }),
    ),
    admin(
        "aggregate",
        "with $queryStats",
        "queryStatsRead cluster",
        |_| of_server(doc! { "$queryStats": {} }),
    ),
    admin(
        "aggregate",
        "with $querySettings",
        "querySettings cluster",
        |_| of_server(doc! { "$querySettings": {} }),
    ),
    admin(
        "aggregate",
        "with $shardedDataDistribution",
        "shardedDataDistribution cluster",
        |_| of_server(doc! { "$shardedDataDistribution": {} }),
    ),
    admin("bulkWrite", "an insert", "insert db.c", |db| {
        bulk(db, doc! { "insert": 0, "document": {} })
    }),
    admin("bulkWrite", "an update", "update db.c", |db| {
        bulk(
            db,
            doc! { "update": 0, "filter": {}, "updateMods": { "$set": { "a": 1 } } },
        )
    }),
    admin("bulkWrite", "an upsert", "update db.c, insert db.c", |db| {
        bulk(
            db,
            doc! { "update": 0, "filter": { "_id": 1 }, "updateMods": { "$set": { "a": 1 } },
            "upsert": true },
        )
    }),
    admin("bulkWrite", "a delete", "remove db.c", |db| {
        bulk(db, doc! { "delete": 0, "filter": {} })
    }),
    admin(
        "bulkWrite",
        "with bypassDocumentValidation",
        "insert db.c, bypassDocumentValidation db.c",
        |db| {
            let mut command = bulk(db, doc! { "insert": 0, "document": {} });
            command.insert("bypassDocumentValidation", true);
            command
        },
    ),
    admin(
        "commitTransaction",
        "of one's own session",
        "user",
        |_| doc! { "commitTransaction": 1 },
    ),
    at("count", "", "find db.c", |_| doc! { "count": "c" }),
    at(
        "dataSize",
        "",
        "find db.c",
        |db| doc! { "dataSize": ns(db, "c") },
    ),
    at(
        "delete",
        "",
        "remove db.c",
        |_| doc! { "delete": "c", "deletes": [{ "q": {}, "limit": 1 }] },
    ),
    at(
        "distinct",
        "",
        "find db.c",
        |_| doc! { "distinct": "c", "key": "a" },
    ),
    at(
        "explain",
        "a find",
        "find db.c",
        |_| doc! { "explain": { "find": "c" } },
    ),
    at(
        "explain",
        "a find of system data",
        "find db.system.users",
        |_| doc! { "explain": { "find": "system.users" } },
    ),
    at(
        "explain",
        "a delete",
        "remove db.c",
        |_| doc! { "explain": { "delete": "c", "deletes": [{ "q": {}, "limit": 1 }] } },
    ),
    at("explain", "an update", "update db.c", |_| {
        doc! { "explain": { "update": "c", "updates": [{ "q": {}, "u": { "$set": {
        "a": 1 } } }] } }
    }),
    at("explain", "a pipeline", "find db.c, find db.d", |_| {
        doc! { "explain": { "aggregate": "c", "pipeline": [{ "$unionWith": "d" }],
        "cursor": {} } }
    }),
    at("find", "", "find db.c", |_| doc! { "find": "c" }),
    at(
        "find",
        "system data",
        "find db.system.users",
        |_| doc! { "find": "system.users" },
    ),
    at(
        "findAndModify",
        "an update",
        "find db.c, update db.c",
        |_| doc! { "findAndModify": "c", "update": { "$set": { "a": 1 } } },
    ),
    at(
        "findAndModify",
        "an upsert",
        "find db.c, update db.c, insert db.c",
        |_| {
            doc! { "findAndModify": "c", "query": { "_id": 1 }, "update": { "$set": { "a": 1 } },
            "upsert": true }
        },
    ),
    at(
        "findAndModify",
        "a removal",
        "find db.c, remove db.c",
        |_| doc! { "findAndModify": "c", "remove": true },
    ),
    at(
        "findAndModify",
        "with bypassDocumentValidation",
        "find db.c, update db.c, bypassDocumentValidation db.c",
        |_| {
            doc! { "findAndModify": "c", "update": { "$set": { "a": 1 } },
            "bypassDocumentValidation": true }
        },
    ),
    at(
        "getMore",
        "of one's own cursor",
        "user",
        |_| doc! { "getMore": 1i64, "collection": "c" },
    ),
    at(
        "insert",
        "",
        "insert db.c",
        |_| doc! { "insert": "c", "documents": [{}] },
    ),
    at(
        "insert",
        "with bypassDocumentValidation",
        "insert db.c, bypassDocumentValidation db.c",
        |_| doc! { "insert": "c", "documents": [{}], "bypassDocumentValidation": true },
    ),
    at(
        "insert",
        "system data",
        "insert db.system.users",
        |_| doc! { "insert": "system.users", "documents": [] },
    ),
    at(
        "killCursors",
        "of one's own",
        "user",
        |_| doc! { "killCursors": "c", "cursors": [1i64] },
    ),
    at("mapReduce", "", "find db.c", |_| doc! { "mapReduce": "c" }),
    at(
        "update",
        "",
        "update db.c",
        |_| doc! { "update": "c", "updates": [{ "q": {}, "u": { "$set": { "a": 1 } } }] },
    ),
    at("update", "an upsert", "update db.c, insert db.c", |_| {
        doc! { "update": "c", "updates": [{ "q": { "_id": 1 }, "u": { "$set": { "a": 1 } },
        "upsert": true }] }
    }),
    at(
        "update",
        "with bypassDocumentValidation",
        "update db.c, bypassDocumentValidation db.c",
        |_| {
            doc! { "update": "c", "updates": [{ "q": {}, "u": { "$set": { "a": 1 } } }],
            "bypassDocumentValidation": true }
        },
    ),
];
