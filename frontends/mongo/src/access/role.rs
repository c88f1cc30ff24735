//! The built-in roles as a table: which role allows which actions on what.

use super::Action::{self, *};
use super::privilege::{Pattern, Privilege};

/// Where the actions of a built-in role apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    /// The database that the role belongs to, and its ordinary collections.
    Own,
    /// Every database but `local` and `config`.
    Any,
    Cluster,
    /// Everything there is.
    Everything,
    /// One collection's system data, wherever the role applies.
    OwnCollection(&'static str),
    /// A database by name.
    Named(&'static str),
}

/// One built-in role.
struct Row {
    name: &'static str,
    /// Whether it exists in `admin` alone.
    admin_only: bool,
    grants: &'static [(Scope, &'static [&'static [Action]])],
}

const READ: &[Action] = &[
    ChangeStream,
    CollStats,
    DbHash,
    DbStats,
    Find,
    KillCursors,
    ListCollections,
    ListIndexes,
    PlanCacheRead,
];
const WRITE: &[Action] = &[
    ConvertToCapped,
    CreateCollection,
    CreateIndex,
    DropCollection,
    DropIndex,
    Insert,
    Remove,
    RenameCollectionSameDb,
    Update,
];
const DB_ADMIN: &[Action] = &[
    AnalyzeShardKey,
    BypassDocumentValidation,
    CollMod,
    CollStats,
    Compact,
    ConvertToCapped,
    CreateCollection,
    CreateIndex,
    DbStats,
    DropCollection,
    DropDatabase,
    DropIndex,
    EnableProfiler,
    IndexStats,
    ListCollections,
    ListIndexes,
    PlanCacheIndexFilter,
    PlanCacheRead,
    PlanCacheWrite,
    ReIndex,
    RenameCollectionSameDb,
    Validate,
];
const USER_ADMIN: &[Action] = &[
    ChangeCustomData,
    ChangePassword,
    CreateRole,
    CreateUser,
    DropRole,
    DropUser,
    GrantRole,
    RevokeRole,
    SetAuthenticationRestriction,
    ViewRole,
    ViewUser,
];
const CLUSTER_MONITOR: &[Action] = &[
    ConnPoolStats,
    GetClusterParameter,
    GetCmdLineOpts,
    GetDefaultRwConcern,
    GetLog,
    GetParameter,
    GetShardMap,
    HostInfo,
    Inprog,
    ListClusterCatalog,
    ListDatabases,
    ListSessions,
    ListShards,
    Netstat,
    QueryStatsRead,
    ReplSetGetConfig,
    ReplSetGetStatus,
    ServerStatus,
    SetFeatureCompatibilityVersion,
    ShardedDataDistribution,
    ShardingState,
    Top,
];
const MONITOR_ANY: &[Action] = &[
    CollStats,
    DbStats,
    GetShardVersion,
    IndexStats,
    ListCollections,
    ListIndexes,
    UseUuid,
];
const CLUSTER_MANAGER: &[Action] = &[
    AddShard,
    AppendOplogNote,
    ApplicationMessage,
    FlushRouterConfig,
    GetClusterParameter,
    GetDefaultRwConcern,
    ListSessions,
    ListShards,
    RemoveShard,
    ReplSetConfigure,
    ReplSetGetConfig,
    ReplSetGetStatus,
    ReplSetStateChange,
    Resync,
    SetClusterParameter,
    SetDefaultRwConcern,
    SetFeatureCompatibilityVersion,
];
const MANAGER_ANY: &[Action] = &[
    AnalyzeShardKey,
    ClearJumboFlag,
    EnableSharding,
    GetShardVersion,
    MoveChunk,
    MoveCollection,
    RefineCollectionShardKey,
    ReshardCollection,
    SplitChunk,
    SplitVector,
    UnshardCollection,
];
const HOST_MANAGER: &[Action] = &[
    ApplicationMessage,
    ConnPoolSync,
    FlushRouterConfig,
    Fsync,
    GetClusterParameter,
    InvalidateUserCache,
    KillAnyCursor,
    KillAnySession,
    Killop,
    LogRotate,
    Resync,
    SetClusterParameter,
    SetParameter,
    Shutdown,
    Touch,
    Unlock,
];
const BACKUP_CLUSTER: &[Action] = &[
    AppendOplogNote,
    GetParameter,
    ListDatabases,
    ListClusterCatalog,
    ServerStatus,
    SetUserWriteBlock,
];
const BACKUP_ANY: &[Action] = &[Find, ListCollections, ListIndexes, CollStats, DbStats];
const RESTORE_ANY: &[Action] = &[
    BypassDocumentValidation,
    CollMod,
    ConvertToCapped,
    CreateCollection,
    CreateIndex,
    DropCollection,
    Insert,
    ListCollections,
    ListIndexes,
];
const RESTORE_CLUSTER: &[Action] = &[GetParameter];

use Scope::{Any, Cluster, Everything, Named, Own, OwnCollection};

const ROLES: &[Row] = &[
    Row {
        name: "read",
        admin_only: false,
        grants: &[(Own, &[READ])],
    },
    Row {
        name: "readWrite",
        admin_only: false,
        grants: &[(Own, &[READ, WRITE])],
    },
    Row {
        name: "dbAdmin",
        admin_only: false,
        grants: &[
            (Own, &[DB_ADMIN]),
            (
                OwnCollection("system.profile"),
                &[READ, &[DropCollection, CreateCollection]],
            ),
        ],
    },
    Row {
        name: "userAdmin",
        admin_only: false,
        grants: &[(Own, &[USER_ADMIN])],
    },
    Row {
        name: "dbOwner",
        admin_only: false,
        grants: &[
            (Own, &[READ, WRITE, DB_ADMIN, USER_ADMIN]),
            (
                OwnCollection("system.profile"),
                &[READ, &[DropCollection, CreateCollection]],
            ),
        ],
    },
    Row {
        name: "enableSharding",
        admin_only: false,
        grants: &[(
            Any,
            &[&[
                EnableSharding,
                AnalyzeShardKey,
                RefineCollectionShardKey,
                ReshardCollection,
            ]],
        )],
    },
    Row {
        name: "readAnyDatabase",
        admin_only: true,
        grants: &[
            (Any, &[READ]),
            (Cluster, &[&[ListDatabases, ListClusterCatalog]]),
        ],
    },
    Row {
        name: "readWriteAnyDatabase",
        admin_only: true,
        grants: &[
            (Any, &[READ, WRITE]),
            (Cluster, &[&[ListDatabases, ListClusterCatalog]]),
        ],
    },
    Row {
        name: "userAdminAnyDatabase",
        admin_only: true,
        grants: &[
            (Any, &[USER_ADMIN]),
            (Named("local"), &[USER_ADMIN]),
            (Named("config"), &[USER_ADMIN]),
            (Cluster, &[&[InvalidateUserCache, ListDatabases, ViewUser]]),
            (
                SYSTEM_USERS,
                &[&[Find, ListIndexes, CollStats, DbHash, DbStats, PlanCacheRead]],
            ),
            (
                SYSTEM_ROLES,
                &[&[Find, ListIndexes, CollStats, DbHash, DbStats, PlanCacheRead]],
            ),
        ],
    },
    Row {
        name: "dbAdminAnyDatabase",
        admin_only: true,
        grants: &[
            (Any, &[DB_ADMIN]),
            (Cluster, &[&[ListDatabases, ListClusterCatalog]]),
        ],
    },
    Row {
        name: "clusterMonitor",
        admin_only: true,
        grants: &[
            (Cluster, &[CLUSTER_MONITOR]),
            (Any, &[MONITOR_ANY]),
            (Named("config"), &[READ, MONITOR_ANY]),
            (Named("local"), &[READ, MONITOR_ANY]),
        ],
    },
    Row {
        name: "clusterManager",
        admin_only: true,
        grants: &[
            (Cluster, &[CLUSTER_MANAGER]),
            (Any, &[MANAGER_ANY]),
            (Named("config"), &[READ, WRITE, MANAGER_ANY]),
            (Named("local"), &[READ]),
        ],
    },
    Row {
        name: "hostManager",
        admin_only: true,
        grants: &[(Cluster, &[HOST_MANAGER]), (Any, &[&[KillCursors]])],
    },
    Row {
        name: "clusterAdmin",
        admin_only: true,
        grants: &[
            (Cluster, &[CLUSTER_MONITOR, CLUSTER_MANAGER, HOST_MANAGER]),
            (
                Any,
                &[MONITOR_ANY, MANAGER_ANY, &[DropDatabase, KillCursors]],
            ),
            (Named("config"), &[READ, WRITE, MONITOR_ANY, MANAGER_ANY]),
            (Named("local"), &[READ, MONITOR_ANY]),
        ],
    },
    Row {
        name: "backup",
        admin_only: true,
        grants: &[
            (Cluster, &[BACKUP_CLUSTER]),
            (Any, &[BACKUP_ANY]),
            (Named("config"), &[BACKUP_ANY, &[Insert, Update]]),
            (Named("local"), &[BACKUP_ANY]),
            (SYSTEM_USERS, &[&[Find]]),
            (SYSTEM_ROLES, &[&[Find]]),
        ],
    },
    Row {
        name: "restore",
        admin_only: true,
        grants: &[
            (Cluster, &[RESTORE_CLUSTER]),
            (Any, &[RESTORE_ANY, USER_ADMIN]),
            (SYSTEM_USERS, &[&[Find, Insert, Update, Remove]]),
            (SYSTEM_ROLES, &[&[Find, Insert, Update, Remove]]),
        ],
    },
    Row {
        name: "root",
        admin_only: true,
        grants: &[(Everything, &[&[Anything]])],
    },
    Row {
        name: "__system",
        admin_only: true,
        grants: &[(Everything, &[&[Anything]])],
    },
];
const SYSTEM_USERS: Scope = OwnCollection("system.users");
const SYSTEM_ROLES: Scope = OwnCollection("system.roles");

/// The names of the built-in roles that a database has.
pub(crate) fn built_in_names(database: &str) -> impl Iterator<Item = &'static str> {
    let in_admin = database == "admin";
    let there = ROLES.iter().filter(move |row| in_admin || !row.admin_only);
    there.map(|row| row.name)
}

/// What a built-in role of a database allows; none if there is no such role there.
pub(crate) fn built_in(name: &str, database: &str) -> Option<Vec<Privilege>> {
    let row = ROLES.iter().find(|row| row.name == name)?;
    if row.admin_only && database != "admin" {
        return None;
    }
    let grant = |(scope, actions): &(Scope, &[&[Action]])| {
        let pattern = match scope {
            Own => Pattern::Database(database.to_owned()),
            Any => Pattern::AnyDatabase,
            Cluster => Pattern::Cluster,
            Everything => Pattern::Anything,
            OwnCollection(name) => Pattern::Collection(database.to_owned(), (*name).to_owned()),
            Named(database) => Pattern::Database((*database).to_owned()),
        };
        Privilege::new(pattern, actions.concat())
    };
    Some(row.grants.iter().map(grant).collect())
}
