//! Commands about collections, indexes and databases.

use bson::doc;

use super::{Row, admin, at, ns};

pub(super) const ROWS: &[Row] = &[
    at(
        "checkMetadataConsistency",
        "of a collection",
        "checkMetadataConsistency db.c",
        |_| doc! { "checkMetadataConsistency": "c" },
    ),
    at(
        "checkMetadataConsistency",
        "of a database",
        "checkMetadataConsistency db",
        |_| doc! { "checkMetadataConsistency": 1 },
    ),
    admin(
        "checkMetadataConsistency",
        "of all",
        "checkMetadataConsistency cluster",
        |_| doc! { "checkMetadataConsistency": 1 },
    ),
    at(
        "cloneCollectionAsCapped",
        "",
        "find db.c, insert db.o, createIndex db.o, convertToCapped db.o",
        |_| doc! { "cloneCollectionAsCapped": "c", "toCollection": "o", "size": 1000 },
    ),
    at("collMod", "", "collMod db.c", |_| doc! { "collMod": "c" }),
    at(
        "collStats",
        "",
        "collStats db.c",
        |_| doc! { "collStats": "c" },
    ),
    at("compact", "", "compact db.c", |_| doc! { "compact": "c" }),
    at(
        "convertToCapped",
        "",
        "convertToCapped db.c",
        |_| doc! { "convertToCapped": "c", "size": 0 },
    ),
    at(
        "create",
        "",
        "createCollection db.n or insert db.n",
        |_| doc! { "create": "n" },
    ),
    at(
        "create",
        "a capped collection",
        "createCollection db.n, convertToCapped db.n or insert db.n, convertToCapped db.n",
        |_| doc! { "create": "n", "capped": true, "size": 1 },
    ),
    at(
        "create",
        "a view",
        "createCollection db.w, find db.c or createCollection db.w, not find db.w",
        |_| doc! { "create": "w", "viewOn": "c", "pipeline": [] },
    ),
    at(
        "create",
        "a view of system data",
        "createCollection db.w, find db.system.users or createCollection db.w, not find db.w",
        |_| doc! { "create": "w", "viewOn": "system.users", "pipeline": [] },
    ),
    at(
        "createIndexes",
        "",
        "createIndex db.c",
        |_| doc! { "createIndexes": "c", "indexes": [{ "key": { "a": 1 }, "name": "a_1" }] },
    ),
    at(
        "customAction",
        "on a collection",
        "createCollection db.c, collMod db.c",
        |_| doc! { "customAction": "GetCollection", "collection": "c" },
    ),
    at(
        "customAction",
        "on a database",
        "createCollection db, collMod db",
        |_| doc! { "customAction": "GetDatabase" },
    ),
    at(
        "customAction",
        "on system data",
        "createCollection db.system.users, collMod db.system.users, createIndex db.system.users",
        |_| {
            doc! { "customAction": "UpdateCollection", "collection": "system.users",
            "indexes": [] }
        },
    ),
    at("dbStats", "", "dbStats db", |_| doc! { "dbStats": 1 }),
    at("drop", "", "dropCollection db.n", |_| doc! { "drop": "n" }),
    at(
        "dropDatabase",
        "",
        "dropDatabase db",
        |_| doc! { "dropDatabase": 1 },
    ),
    at(
        "dropIndexes",
        "",
        "dropIndex db.c",
        |_| doc! { "dropIndexes": "c", "index": "a_1" },
    ),
    at(
        "listCollections",
        "",
        "listCollections db",
        |_| doc! { "listCollections": 1 },
    ),
    at(
        "listCollections",
        "names alone",
        "listCollections db",
        |_| doc! { "listCollections": 1, "nameOnly": true },
    ),
    admin(
        "listDatabases",
        "those that one may see",
        "user",
        |_| doc! { "listDatabases": 1 },
    ),
    admin(
        "listDatabases",
        "all",
        "listDatabases cluster",
        |_| doc! { "listDatabases": 1, "authorizedDatabases": false },
    ),
    at(
        "listIndexes",
        "",
        "listIndexes db.c",
        |_| doc! { "listIndexes": "c" },
    ),
    at(
        "planCacheClear",
        "",
        "planCacheWrite db.c",
        |_| doc! { "planCacheClear": "c" },
    ),
    at(
        "planCacheClearFilters",
        "",
        "planCacheIndexFilter db.c",
        |_| doc! { "planCacheClearFilters": "c" },
    ),
    at(
        "planCacheListFilters",
        "",
        "planCacheIndexFilter db.c",
        |_| doc! { "planCacheListFilters": "c" },
    ),
    at(
        "planCacheSetFilter",
        "",
        "planCacheIndexFilter db.c",
        |_| doc! { "planCacheSetFilter": "c" },
    ),
    at("reIndex", "", "reIndex db.c", |_| doc! { "reIndex": "c" }),
    admin(
        "renameCollection",
        "in a database",
        "renameCollectionSameDB db, find db.n or \
         renameCollectionSameDB db, not find db.o or \
         find db.n, dropCollection db.n, insert db.o, createIndex db.o",
        |db| doc! { "renameCollection": ns(db, "n"), "to": ns(db, "o") },
    ),
    admin(
        "renameCollection",
        "dropping the target",
        "dropCollection db.o, renameCollectionSameDB db, find db.n or \
         dropCollection db.o, renameCollectionSameDB db, not find db.o or \
         find db.n, dropCollection db.n, insert db.o, createIndex db.o, dropCollection db.o",
        |db| doc! { "renameCollection": ns(db, "n"), "to": ns(db, "o"), "dropTarget": true },
    ),
    admin(
        "renameCollection",
        "to another database",
        "find db.n, dropCollection db.n, insert elsewhere.o, createIndex elsewhere.o",
        |db| doc! { "renameCollection": ns(db, "n"), "to": "elsewhere.o" },
    ),
    at(
        "validate",
        "",
        "validate db.c",
        |_| doc! { "validate": "c" },
    ),
    at(
        "validateDBMetadata",
        "",
        "validate any",
        |_| doc! { "validateDBMetadata": 1, "apiParameters": { "version": "1" } },
    ),
    at(
        "validateDBMetadata",
        "of a database",
        "validate db",
        |db| doc! { "validateDBMetadata": 1, "apiParameters": { "version": "1" }, "db": db },
    ),
];
