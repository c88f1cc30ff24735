//! What each command needs, from MongoDB's documentation: written down here apart from what the
//! front end declares, so that the two can be held against each other.
//!
//! Needs are `ACTION RESOURCE`, all of those between commas, one of those between `or`. Resources
//! are `cluster`, `any` for all databases, `db` for the one at hand, and collections as
//! `DATABASE.COLLECTION`. `anyone` needs no login, `user` needs nothing else.

use bson::{Bson, Document, doc};

/// Where a command is sent to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum To {
    /// The database at hand.
    Database,
    /// `admin`; the database at hand is in its fields, if anywhere.
    Admin,
}

/// One command, or one case of it.
pub(super) struct Row {
    pub(super) name: &'static str,
    /// What is special about it.
    pub(super) case: &'static str,
    pub(super) to: To,
    pub(super) needs: &'static str,
    /// An example for a database.
    pub(super) example: fn(&str) -> Document,
}

type Example = fn(&str) -> Document;

const fn at(name: &'static str, case: &'static str, needs: &'static str, example: Example) -> Row {
    Row {
        name,
        case,
        to: To::Database,
        needs,
        example,
    }
}

const fn admin(
    name: &'static str,
    case: &'static str,
    needs: &'static str,
    example: Example,
) -> Row {
    Row {
        to: To::Admin,
        ..at(name, case, needs, example)
    }
}

fn ns(database: &str, name: &str) -> String {
    format!("{database}.{name}")
}

fn stages(stages: Vec<Document>) -> Document {
    doc! { "aggregate": "c", "pipeline": stages, "cursor": {} }
}

fn server(stage: Document) -> Document {
    doc! { "aggregate": 1, "pipeline": [stage], "cursor": {} }
}

fn on(database: &str, name: &str) -> Bson {
    let resource = doc! { "db": database, "collection": name };
    Bson::from(doc! { "resource": resource, "actions": ["find"] })
}

fn bulk(database: &str, operation: Document) -> Document {
    doc! { "bulkWrite": 1, "ops": [operation], "nsInfo": [{ "ns": ns(database, "c") }] }
}

pub(super) const ROWS: &[Row] = &[
    at(
        "abortReshardCollection",
        "",
        "reshardCollection db.c",
        |db| doc! { "abortReshardCollection": ns(db, "c") },
    ),
    admin(
        "abortTransaction",
        "of one's own session",
        "user",
        |_| doc! { "abortTransaction": 1 },
    ),
    admin(
        "addShard",
        "",
        "addShard cluster",
        |_| doc! { "addShard": "x" },
    ),
    admin(
        "addShardToZone",
        "",
        "enableSharding cluster or find config.shards, update config.shards, find config.tags, update config.tags, remove config.tags",
        |_| doc! { "addShardToZone": "x", "zone": "z" },
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
                doc! { "$graphLookup": { "from": "d", "startWith": "$a", "connectFromField": "a", "connectToField": "b", "as": "x" } },
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
        server(doc! { "$documents": [] })
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
        |_| server(doc! { "$listLocalSessions": {} }),
    ),
    at(
        "aggregate",
        "with $listLocalSessions of all",
        "listSessions cluster",
        |_| server(doc! { "$listLocalSessions": { "allUsers": true } }),
    ),
    at(
        "aggregate",
        "with $listSessions of another",
        "listSessions cluster",
        |_| server(doc! { "$listSessions": { "users": [{ "user": "x", "db": "admin" }] } }),
    ),
    at(
        "aggregate",
        "with $listClusterCatalog",
        "listCollections db",
        |_| server(doc! { "$listClusterCatalog": {} }),
    ),
    admin(
        "aggregate",
        "with $listClusterCatalog of all databases",
        "listClusterCatalog cluster",
        |_| server(doc! { "$listClusterCatalog": {} }),
    ),
    admin("aggregate", "with $currentOp of one's own", "user", |_| {
        server(doc! { "$currentOp": {} })
    }),
    admin(
        "aggregate",
        "with $currentOp of all users",
        "inprog cluster",
        |_| server(doc! { "$currentOp": { "allUsers": true } }),
    ),
    admin(
        "aggregate",
        "with $queryStats",
        "queryStatsRead cluster",
        |_| server(doc! { "$queryStats": {} }),
    ),
    admin(
        "aggregate",
        "with $querySettings",
        "querySettings cluster",
        |_| server(doc! { "$querySettings": {} }),
    ),
    admin(
        "aggregate",
        "with $shardedDataDistribution",
        "shardedDataDistribution cluster",
        |_| server(doc! { "$shardedDataDistribution": {} }),
    ),
    at(
        "authenticate",
        "",
        "anyone",
        |_| doc! { "authenticate": 1, "mechanism": "MONGODB-X509" },
    ),
    admin(
        "balancerCollectionStatus",
        "",
        "enableSharding db.c",
        |db| doc! { "balancerCollectionStatus": ns(db, "c") },
    ),
    admin(
        "balancerStart",
        "",
        "update config.settings",
        |_| doc! { "balancerStart": 1 },
    ),
    admin(
        "balancerStatus",
        "",
        "find config.settings",
        |_| doc! { "balancerStatus": 1 },
    ),
    admin(
        "balancerStop",
        "",
        "update config.settings",
        |_| doc! { "balancerStop": 1 },
    ),
    at("buildInfo", "", "anyone", |_| doc! { "buildInfo": 1 }),
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
            doc! { "update": 0, "filter": { "_id": 1 }, "updateMods": { "$set": { "a": 1 } }, "upsert": true },
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
        "cleanupReshardCollection",
        "",
        "reshardCollection db.c",
        |db| doc! { "cleanupReshardCollection": ns(db, "c") },
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
    at(
        "commitReshardCollection",
        "",
        "reshardCollection db.c",
        |db| doc! { "commitReshardCollection": ns(db, "c") },
    ),
    admin(
        "commitTransaction",
        "of one's own session",
        "user",
        |_| doc! { "commitTransaction": 1 },
    ),
    at("compact", "", "compact db.c", |_| doc! { "compact": "c" }),
    admin(
        "configureFailPoint",
        "where tests are allowed",
        "user",
        |_| doc! { "configureFailPoint": "x", "mode": "off" },
    ),
    at(
        "connPoolStats",
        "",
        "connPoolStats cluster",
        |_| doc! { "connPoolStats": 1 },
    ),
    at(
        "connectionStatus",
        "",
        "anyone",
        |_| doc! { "connectionStatus": 1 },
    ),
    at(
        "convertToCapped",
        "",
        "convertToCapped db.c",
        |_| doc! { "convertToCapped": "c", "size": 0 },
    ),
    at("count", "", "find db.c", |_| doc! { "count": "c" }),
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
        "createRole",
        "",
        "createRole db",
        |_| doc! { "createRole": "r", "privileges": [], "roles": [] },
    ),
    at(
        "createRole",
        "with a role",
        "createRole db, grantRole db",
        |_| doc! { "createRole": "r", "privileges": [], "roles": ["read"] },
    ),
    at(
        "createRole",
        "with a role of another database",
        "createRole db, grantRole elsewhere",
        |_| doc! { "createRole": "r", "privileges": [], "roles": [{ "role": "read", "db": "elsewhere" }] },
    ),
    at(
        "createRole",
        "with a privilege on a database",
        "createRole db, grantRole elsewhere",
        |_| doc! { "createRole": "r", "privileges": [on("elsewhere", "")], "roles": [] },
    ),
    at(
        "createRole",
        "with a privilege on a collection",
        "createRole db, grantRole elsewhere",
        |_| doc! { "createRole": "r", "privileges": [on("elsewhere", "c")], "roles": [] },
    ),
    at(
        "createRole",
        "with a privilege on all databases",
        "createRole db, grantRole admin",
        |_| doc! { "createRole": "r", "privileges": [on("", "")], "roles": [] },
    ),
    at(
        "createRole",
        "with a privilege on a collection of all databases",
        "createRole db, grantRole admin",
        |_| doc! { "createRole": "r", "privileges": [on("", "c")], "roles": [] },
    ),
    at(
        "createRole",
        "with a privilege on the cluster",
        "createRole db, grantRole admin",
        |_| doc! { "createRole": "r", "privileges": [{ "resource": { "cluster": true }, "actions": ["killop"] }], "roles": [] },
    ),
    at(
        "createRole",
        "with a privilege on everything",
        "createRole db, grantRole admin",
        |_| doc! { "createRole": "r", "privileges": [{ "resource": { "anyResource": true }, "actions": ["anyAction"] }], "roles": [] },
    ),
    at(
        "createRole",
        "with restrictions",
        "createRole db, setAuthenticationRestriction db",
        |_| doc! { "createRole": "r", "privileges": [], "roles": [], "authenticationRestrictions": [] },
    ),
    at(
        "createUser",
        "",
        "createUser db",
        |_| doc! { "createUser": "", "pwd": "x", "roles": [] },
    ),
    at(
        "createUser",
        "with a role",
        "createUser db, grantRole elsewhere",
        |_| doc! { "createUser": "", "pwd": "x", "roles": [{ "role": "read", "db": "elsewhere" }] },
    ),
    at(
        "createUser",
        "with restrictions",
        "createUser db, setAuthenticationRestriction db",
        |_| doc! { "createUser": "", "pwd": "x", "roles": [], "authenticationRestrictions": [] },
    ),
    admin(
        "currentOp",
        "",
        "inprog cluster",
        |_| doc! { "currentOp": 1 },
    ),
    admin(
        "currentOp",
        "of one's own",
        "user",
        |_| doc! { "currentOp": 1, "$ownOps": true },
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
        |_| doc! { "customAction": "UpdateCollection", "collection": "system.users", "indexes": [] },
    ),
    at(
        "dataSize",
        "",
        "find db.c",
        |db| doc! { "dataSize": ns(db, "c") },
    ),
    at("dbStats", "", "dbStats db", |_| doc! { "dbStats": 1 }),
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
    at("drop", "", "dropCollection db.n", |_| doc! { "drop": "n" }),
    at(
        "dropAllRolesFromDatabase",
        "",
        "dropRole db",
        |_| doc! { "dropAllRolesFromDatabase": 1 },
    ),
    at(
        "dropAllUsersFromDatabase",
        "",
        "dropUser db",
        |_| doc! { "dropAllUsersFromDatabase": 1 },
    ),
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
    at("dropRole", "", "dropRole db", |_| doc! { "dropRole": "r" }),
    at("dropUser", "", "dropUser db", |_| doc! { "dropUser": "u" }),
    admin(
        "enableSharding",
        "",
        "enableSharding db",
        |db| doc! { "enableSharding": db },
    ),
    at(
        "endSessions",
        "of one's own",
        "anyone",
        |_| doc! { "endSessions": [] },
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
    at(
        "explain",
        "an update",
        "update db.c",
        |_| doc! { "explain": { "update": "c", "updates": [{ "q": {}, "u": { "$set": { "a": 1 } } }] } },
    ),
    at(
        "explain",
        "a pipeline",
        "find db.c, find db.d",
        |_| doc! { "explain": { "aggregate": "c", "pipeline": [{ "$unionWith": "d" }], "cursor": {} } },
    ),
    at("features", "", "anyone", |_| doc! { "features": 1 }),
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
        |_| doc! { "findAndModify": "c", "query": { "_id": 1 }, "update": { "$set": { "a": 1 } }, "upsert": true },
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
        |_| doc! { "findAndModify": "c", "update": { "$set": { "a": 1 } }, "bypassDocumentValidation": true },
    ),
    at(
        "flushRouterConfig",
        "",
        "flushRouterConfig cluster",
        |_| doc! { "flushRouterConfig": 1 },
    ),
    admin("fsync", "", "fsync cluster", |_| doc! { "fsync": 1 }),
    admin(
        "fsyncUnlock",
        "",
        "unlock cluster",
        |_| doc! { "fsyncUnlock": 1 },
    ),
    admin(
        "getCmdLineOpts",
        "",
        "getCmdLineOpts cluster",
        |_| doc! { "getCmdLineOpts": 1 },
    ),
    admin(
        "getDefaultRWConcern",
        "",
        "getDefaultRWConcern cluster",
        |_| doc! { "getDefaultRWConcern": 1 },
    ),
    at(
        "getLastRequestStatistics",
        "of one's own connection",
        "user",
        |_| doc! { "getLastRequestStatistics": 1 },
    ),
    admin(
        "getLog",
        "",
        "getLog cluster",
        |_| doc! { "getLog": "global" },
    ),
    at(
        "getMore",
        "of one's own cursor",
        "user",
        |_| doc! { "getMore": 1i64, "collection": "c" },
    ),
    admin(
        "getParameter",
        "",
        "getParameter cluster",
        |_| doc! { "getParameter": "*" },
    ),
    admin(
        "getShardMap",
        "",
        "getShardMap cluster",
        |_| doc! { "getShardMap": 1 },
    ),
    at(
        "getShardVersion",
        "",
        "getShardVersion db.c",
        |db| doc! { "getShardVersion": ns(db, "c") },
    ),
    at(
        "grantPrivilegesToRole",
        "on the database",
        "grantRole db",
        |db| doc! { "grantPrivilegesToRole": "r", "privileges": [on(db, "c")] },
    ),
    at(
        "grantPrivilegesToRole",
        "on another",
        "grantRole elsewhere",
        |_| doc! { "grantPrivilegesToRole": "r", "privileges": [on("elsewhere", "")] },
    ),
    at(
        "grantPrivilegesToRole",
        "on everything",
        "grantRole admin",
        |_| doc! { "grantPrivilegesToRole": "r", "privileges": [{ "resource": { "anyResource": true }, "actions": ["anyAction"] }] },
    ),
    at(
        "grantRolesToRole",
        "",
        "grantRole elsewhere",
        |_| doc! { "grantRolesToRole": "r", "roles": [{ "role": "read", "db": "elsewhere" }] },
    ),
    at(
        "grantRolesToUser",
        "",
        "grantRole elsewhere",
        |_| doc! { "grantRolesToUser": "u", "roles": [{ "role": "read", "db": "elsewhere" }] },
    ),
    at("hello", "", "anyone", |_| doc! { "hello": 1 }),
    at(
        "hostInfo",
        "",
        "hostInfo cluster",
        |_| doc! { "hostInfo": 1 },
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
        "invalidateUserCache",
        "",
        "invalidateUserCache cluster",
        |_| doc! { "invalidateUserCache": 1 },
    ),
    at(
        "killAllSessions",
        "",
        "killAnySession cluster",
        |_| doc! { "killAllSessions": [{ "user": "x", "db": "x" }] },
    ),
    at(
        "killAllSessionsByPattern",
        "",
        "killAnySession cluster",
        |_| doc! { "killAllSessionsByPattern": [{ "uid": 1 }] },
    ),
    at(
        "killCursors",
        "of one's own",
        "user",
        |_| doc! { "killCursors": "c", "cursors": [1i64] },
    ),
    admin(
        "killOp",
        "of another",
        "killop cluster",
        |_| doc! { "killOp": 1, "op": 2_000_000_000 },
    ),
    at(
        "killSessions",
        "of one's own",
        "user",
        |_| doc! { "killSessions": [{ "id": 1 }] },
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
    at("listCommands", "", "anyone", |_| doc! { "listCommands": 1 }),
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
    admin(
        "listShards",
        "",
        "listShards cluster",
        |_| doc! { "listShards": 1 },
    ),
    admin(
        "lockInfo",
        "",
        "serverStatus cluster",
        |_| doc! { "lockInfo": 1 },
    ),
    admin(
        "logRotate",
        "",
        "logRotate cluster",
        |_| doc! { "logRotate": 1 },
    ),
    at("logout", "", "anyone", |_| doc! { "logout": 1 }),
    at("mapReduce", "", "find db.c", |_| doc! { "mapReduce": "c" }),
    admin(
        "mergeChunks",
        "",
        "splitChunk db.c",
        |db| doc! { "mergeChunks": ns(db, "c") },
    ),
    admin(
        "moveChunk",
        "",
        "moveChunk db.c",
        |db| doc! { "moveChunk": ns(db, "c") },
    ),
    admin(
        "moveCollection",
        "",
        "moveCollection db.c",
        |db| doc! { "moveCollection": ns(db, "c") },
    ),
    admin(
        "movePrimary",
        "",
        "moveChunk db",
        |db| doc! { "movePrimary": db },
    ),
    admin(
        "moveRange",
        "",
        "moveChunk db.c",
        |db| doc! { "moveRange": ns(db, "c") },
    ),
    admin(
        "partitionInsight",
        "",
        "shardingState cluster",
        |db| doc! { "partitionInsight": ns(db, "c") },
    ),
    at("ping", "", "anyone", |_| doc! { "ping": 1 }),
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
        "refineCollectionShardKey",
        "",
        "refineCollectionShardKey db.c",
        |db| doc! { "refineCollectionShardKey": ns(db, "c") },
    ),
    at(
        "refreshSessions",
        "of one's own",
        "user",
        |_| doc! { "refreshSessions": [] },
    ),
    admin(
        "removeShard",
        "",
        "removeShard cluster",
        |_| doc! { "removeShard": "x" },
    ),
    admin(
        "removeShardFromZone",
        "",
        "enableSharding cluster or find config.shards, update config.shards, find config.tags, update config.tags, remove config.tags",
        |_| doc! { "removeShardFromZone": "x", "zone": "z" },
    ),
    admin(
        "renameCollection",
        "in a database",
        "renameCollectionSameDB db, find db.n or renameCollectionSameDB db, not find db.o or find db.n, dropCollection db.n, insert db.o, createIndex db.o",
        |db| doc! { "renameCollection": ns(db, "n"), "to": ns(db, "o") },
    ),
    admin(
        "renameCollection",
        "dropping the target",
        "dropCollection db.o, renameCollectionSameDB db, find db.n or dropCollection db.o, renameCollectionSameDB db, not find db.o or find db.n, dropCollection db.n, insert db.o, createIndex db.o, dropCollection db.o",
        |db| doc! { "renameCollection": ns(db, "n"), "to": ns(db, "o"), "dropTarget": true },
    ),
    admin(
        "renameCollection",
        "to another database",
        "find db.n, dropCollection db.n, insert elsewhere.o, createIndex elsewhere.o",
        |db| doc! { "renameCollection": ns(db, "n"), "to": "elsewhere.o" },
    ),
    admin(
        "replSetGetConfig",
        "",
        "replSetGetConfig cluster",
        |_| doc! { "replSetGetConfig": 1 },
    ),
    admin(
        "replSetGetStatus",
        "",
        "replSetGetStatus cluster",
        |_| doc! { "replSetGetStatus": 1 },
    ),
    admin(
        "reshardCollection",
        "",
        "reshardCollection db.c",
        |db| doc! { "reshardCollection": ns(db, "c") },
    ),
    at(
        "revokePrivilegesFromRole",
        "",
        "revokeRole elsewhere",
        |_| doc! { "revokePrivilegesFromRole": "r", "privileges": [on("elsewhere", "c")] },
    ),
    at(
        "revokePrivilegesFromRole",
        "on the cluster",
        "revokeRole admin",
        |_| doc! { "revokePrivilegesFromRole": "r", "privileges": [{ "resource": { "cluster": true }, "actions": ["killop"] }] },
    ),
    at(
        "revokeRolesFromRole",
        "",
        "revokeRole elsewhere",
        |_| doc! { "revokeRolesFromRole": "r", "roles": [{ "role": "read", "db": "elsewhere" }] },
    ),
    at(
        "revokeRolesFromUser",
        "",
        "revokeRole elsewhere",
        |_| doc! { "revokeRolesFromUser": "u", "roles": [{ "role": "read", "db": "elsewhere" }] },
    ),
    at(
        "rolesInfo",
        "of a database",
        "viewRole db",
        |_| doc! { "rolesInfo": 1 },
    ),
    at(
        "rolesInfo",
        "of another database",
        "viewRole elsewhere",
        |_| doc! { "rolesInfo": { "role": "r", "db": "elsewhere" } },
    ),
    at("saslContinue", "", "anyone", |_| doc! { "saslContinue": 1 }),
    at("saslStart", "", "anyone", |_| doc! { "saslStart": 1 }),
    at(
        "serverStatus",
        "",
        "serverStatus cluster",
        |_| doc! { "serverStatus": 1 },
    ),
    admin(
        "setDefaultRWConcern",
        "",
        "setDefaultRWConcern cluster",
        |_| doc! { "setDefaultRWConcern": 1 },
    ),
    admin(
        "setParameter",
        "",
        "setParameter cluster",
        |_| doc! { "setParameter": 1 },
    ),
    admin(
        "shardCollection",
        "",
        "enableSharding db.c",
        |db| doc! { "shardCollection": ns(db, "c") },
    ),
    admin(
        "split",
        "",
        "splitChunk db.c",
        |db| doc! { "split": ns(db, "c") },
    ),
    at("startSession", "", "user", |_| doc! { "startSession": 1 }),
    admin("top", "", "top cluster", |_| doc! { "top": 1 }),
    admin(
        "unshardCollection",
        "",
        "unshardCollection db.c",
        |db| doc! { "unshardCollection": ns(db, "c") },
    ),
    at(
        "update",
        "",
        "update db.c",
        |_| doc! { "update": "c", "updates": [{ "q": {}, "u": { "$set": { "a": 1 } } }] },
    ),
    at(
        "update",
        "an upsert",
        "update db.c, insert db.c",
        |_| doc! { "update": "c", "updates": [{ "q": { "_id": 1 }, "u": { "$set": { "a": 1 } }, "upsert": true }] },
    ),
    at(
        "update",
        "with bypassDocumentValidation",
        "update db.c, bypassDocumentValidation db.c",
        |_| doc! { "update": "c", "updates": [{ "q": {}, "u": { "$set": { "a": 1 } } }], "bypassDocumentValidation": true },
    ),
    at(
        "updateRole",
        "its privileges",
        "revokeRole any, grantRole elsewhere",
        |_| doc! { "updateRole": "r", "privileges": [on("elsewhere", "c")] },
    ),
    at(
        "updateRole",
        "its roles",
        "revokeRole any, grantRole elsewhere",
        |_| doc! { "updateRole": "r", "roles": [{ "role": "read", "db": "elsewhere" }] },
    ),
    at(
        "updateRole",
        "its restrictions",
        "revokeRole any, setAuthenticationRestriction db",
        |_| doc! { "updateRole": "r", "authenticationRestrictions": [] },
    ),
    at(
        "updateUser",
        "the password of another",
        "changePassword db",
        |_| doc! { "updateUser": "u", "pwd": "x" },
    ),
    at(
        "updateUser",
        "the mechanisms of another",
        "changePassword db",
        |_| doc! { "updateUser": "u", "mechanisms": ["SCRAM-SHA-256"] },
    ),
    at(
        "updateUser",
        "with digestPassword alone",
        "changePassword db",
        |_| doc! { "updateUser": "u", "digestPassword": true },
    ),
    at(
        "updateUser",
        "the data of another",
        "changeCustomData db",
        |_| doc! { "updateUser": "u", "customData": {} },
    ),
    at(
        "updateUser",
        "the roles",
        "revokeRole any, grantRole elsewhere",
        |_| doc! { "updateUser": "u", "roles": [{ "role": "read", "db": "elsewhere" }] },
    ),
    at(
        "updateUser",
        "the restrictions",
        "setAuthenticationRestriction db",
        |_| doc! { "updateUser": "u", "authenticationRestrictions": [] },
    ),
    admin(
        "updateZoneKeyRange",
        "",
        "enableSharding cluster or find config.shards, update config.shards, find config.tags, update config.tags, remove config.tags",
        |db| doc! { "updateZoneKeyRange": ns(db, "c") },
    ),
    at(
        "usersInfo",
        "of a database",
        "viewUser db",
        |_| doc! { "usersInfo": 1 },
    ),
    at(
        "usersInfo",
        "of another database",
        "viewUser elsewhere",
        |_| doc! { "usersInfo": { "user": "u", "db": "elsewhere" } },
    ),
    at(
        "usersInfo",
        "of all databases",
        "viewUser cluster",
        |_| doc! { "usersInfo": { "forAllDBs": true } },
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
    at("whatsmyuri", "", "anyone", |_| doc! { "whatsmyuri": 1 }),
];
