//! What each built-in role allows, from MongoDB's documentation, apart from what the front end
//! declares.
//!
//! Where actions apply is `own` for the database that the role belongs to, `any` for all databases
//! but `local` and `config`, `all` for everything there is, `cluster`, or a database, or a
//! collection as `DATABASE.COLLECTION`, in which the database may be `own` or `*`.

/// One role.
pub(super) struct Role {
    pub(super) name: &'static str,
    /// Whether `admin` alone has it.
    pub(super) in_admin: bool,
    /// The roles that it contains, as `ROLE` or `ROLE@DATABASE`.
    pub(super) contains: &'static [&'static str],
    pub(super) allows: &'static [(&'static str, &'static str)],
}

const READ: &str = "changeStream collStats dbHash dbStats find killCursors listCollections \
                    listIndexes listSearchIndexes planCacheRead";
const WRITE: &str = "convertToCapped createCollection createIndex dropCollection dropIndex insert \
                     remove renameCollectionSameDB update";
const DB_ADMIN: &str = "bypassDocumentValidation collMod collStats compact convertToCapped \
                        createCollection createIndex dbStats dropCollection dropDatabase dropIndex \
                        enableProfiler listCollections listIndexes listSearchIndexes \
                        planCacheIndexFilter planCacheRead planCacheWrite reIndex \
                        renameCollectionSameDB validate";
const PROFILE: &str = "convertToCapped createCollection dropCollection";
const USER_ADMIN: &str = "changeCustomData changePassword createRole createUser dropRole dropUser \
                          grantRole revokeRole setAuthenticationRestriction viewRole viewUser";
const SHARDING: &str = "analyzeShardKey enableSharding moveCollection refineCollectionShardKey \
                        reshardCollection unshardCollection";
const MONITOR: &str = "collStats dbStats getShardVersion indexStats";
const CHUNKS: &str = "clearJumboFlag moveChunk splitChunk splitVector";
const RESTORE: &str = "bypassDocumentValidation collMod convertToCapped createCollection \
                       createIndex dropCollection insert";

pub(super) const ROLES: &[Role] = &[
    Role {
        name: "read",
        in_admin: false,
        contains: &[],
        allows: &[("own", READ)],
    },
    Role {
        name: "readWrite",
        in_admin: false,
        contains: &["read"],
        allows: &[("own", WRITE)],
    },
    Role {
        name: "dbAdmin",
        in_admin: false,
        contains: &[],
        allows: &[
            ("own", DB_ADMIN),
            ("own.system.profile", READ),
            ("own.system.profile", PROFILE),
        ],
    },
    Role {
        name: "userAdmin",
        in_admin: false,
        contains: &[],
        allows: &[("own", USER_ADMIN)],
    },
    Role {
        name: "dbOwner",
        in_admin: false,
        contains: &["readWrite", "dbAdmin", "userAdmin"],
        allows: &[],
    },
    Role {
        name: "enableSharding",
        in_admin: false,
        contains: &[],
        allows: &[("any", SHARDING), ("cluster", "enableSharding")],
    },
    Role {
        name: "readAnyDatabase",
        in_admin: true,
        contains: &[],
        allows: &[
            ("any", READ),
            ("cluster", "listDatabases"),
            ("*.system.js", READ),
        ],
    },
    Role {
        name: "readWriteAnyDatabase",
        in_admin: true,
        contains: &["readAnyDatabase"],
        allows: &[("any", WRITE), ("*.system.js", WRITE)],
    },
    Role {
        name: "userAdminAnyDatabase",
        in_admin: true,
        contains: &[],
        allows: &[
            ("any", USER_ADMIN),
            ("local", USER_ADMIN),
            ("config", USER_ADMIN),
            ("cluster", "invalidateUserCache listDatabases viewUser"),
            ("admin.system.users", READ),
            ("admin.system.users", "createIndex dropIndex"),
            ("admin.system.roles", READ),
            ("admin.system.roles", "createIndex dropIndex"),
            ("*.system.users", READ),
            ("admin.system.version", READ),
            ("admin.system.backup_users", READ),
        ],
    },
    Role {
        name: "dbAdminAnyDatabase",
        in_admin: true,
        contains: &[],
        allows: &[
            ("any", DB_ADMIN),
            ("cluster", "listDatabases"),
            ("*.system.profile", READ),
            ("*.system.profile", PROFILE),
        ],
    },
    Role {
        name: "clusterMonitor",
        in_admin: true,
        contains: &["read@config", "read@local"],
        allows: &[
            (
                "cluster",
                "connPoolStats getCmdLineOpts getDefaultRWConcern getLog getParameter getShardMap \
                 hostInfo inprog listClusterCatalog listDatabases listSampledQueries listSessions \
                 listShards netstat queryStatsRead replSetGetConfig replSetGetStatus serverStatus \
                 shardedDataDistribution shardingState top useUUID",
            ),
            ("any", MONITOR),
            ("config", MONITOR),
            ("local", MONITOR),
            ("config.system.sessions", MONITOR),
            ("local.system.replset", "find"),
            ("*.system.profile", "find"),
        ],
    },
    Role {
        name: "clusterManager",
        in_admin: true,
        contains: &["enableSharding", "read@config"],
        allows: &[
            (
                "cluster",
                "addShard appendOplogNote applicationMessage checkMetadataConsistency \
                 flushRouterConfig getClusterParameter getDefaultRWConcern listSessions listShards \
                 querySettings removeShard replSetConfigure replSetGetConfig replSetGetStatus \
                 replSetStateChange resync setClusterParameter setDefaultRWConcern \
                 setFeatureCompatibilityVersion",
            ),
            ("any", CHUNKS),
            ("config", CHUNKS),
            ("config", SHARDING),
            ("config", "insert update remove"),
            ("local", CHUNKS),
            ("local", SHARDING),
            ("local", "insert update remove"),
            ("local.system.replset", READ),
        ],
    },
    Role {
        name: "hostManager",
        in_admin: true,
        contains: &[],
        allows: &[
            (
                "cluster",
                "applicationMessage connPoolSync flushRouterConfig fsync invalidateUserCache \
                 killAnyCursor killAnySession killop logRotate resync setParameter shutdown touch \
                 unlock",
            ),
            ("any", "killCursors"),
        ],
    },
    Role {
        name: "clusterAdmin",
        in_admin: true,
        contains: &["clusterMonitor", "clusterManager", "hostManager"],
        allows: &[("any", "dropDatabase")],
    },
    Role {
        name: "backup",
        in_admin: true,
        contains: &[],
        allows: &[
            (
                "cluster",
                "appendOplogNote getParameter listDatabases serverStatus setUserWriteBlockMode \
                 useUUID",
            ),
            (
                "all",
                "collStats listCollections listIndexes listSearchIndexes",
            ),
            ("any", "find"),
            ("config", "find"),
            ("local", "find"),
            ("config.settings", "find insert update"),
            ("*.system.js", "find"),
            ("*.system.users", "find"),
            ("*.system.profile", "find"),
            ("admin.system.roles", "find"),
            ("admin.system.version", "find"),
            ("admin.system.backup_users", "find"),
        ],
    },
    Role {
        name: "restore",
        in_admin: true,
        contains: &[],
        allows: &[
            ("cluster", "getParameter setUserWriteBlockMode useUUID"),
            ("all", "listCollections"),
            ("any", RESTORE),
            ("any", USER_ADMIN),
            ("config", RESTORE),
            ("local", RESTORE),
            ("*.system.js", RESTORE),
            ("admin.tempusers", "find"),
            ("admin.temproles", "find"),
            ("admin.system.backup_users", RESTORE),
            ("admin.system.version", RESTORE),
            ("admin.system.version", "find"),
            ("*.system.users", RESTORE),
            ("*.system.users", "find update remove"),
            ("admin.system.roles", RESTORE),
            ("admin.system.roles", "find update remove"),
        ],
    },
    Role {
        name: "root",
        in_admin: true,
        contains: &[],
        allows: &[("all", "anyAction")],
    },
    Role {
        name: "__system",
        in_admin: true,
        contains: &[],
        allows: &[("all", "anyAction")],
    },
];

/// Where this server differs from MongoDB, and why.
pub(super) const DIFFERENCES: &[(&str, &str)] = &[
    (
        "root",
        "allows everything; MongoDB's is the sum of the other roles, which leaves out a few \
         actions that only members of a cluster need",
    ),
    (
        "restore",
        "also writes `admin.system.roles`: MongoDB restores roles by an internal command; write \
         access to `system.users` already allows becoming any user",
    ),
    (
        "system.views",
        "counts as an ordinary collection; nothing is stored there, since views are defined with \
         their collections",
    ),
    (
        "customAction, getLastRequestStatistics, partitionInsight",
        "are not commands of MongoDB; the first and the second are those of Cosmos DB",
    ),
    (
        "usersInfo",
        "with `showCredentials` needs `viewUser` even for the own user: an unattended session \
         should not expose credentials for offline guessing",
    ),
    (
        "mapReduce",
        "is always refused, after the check; MongoDB also asks for the rights of its output",
    ),
    (
        "$currentOp",
        "shows every user their own commands, as mongod does; mongos needs \
         `inprog` unless `localOps` is set",
    ),
    (
        "a stage about a collection within $lookup or $unionWith",
        "needs its action on the collection of the command, and `find` on the collection of the \
         stage around it",
    ),
];
