//! The table of built-in roles: the actions that each allows on which resources.

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
    /// A collection of system data in the database that the role belongs to.
    OwnCollection(&'static str),
    /// A collection of this name in every database.
    EveryCollection(&'static str),
    /// A database by name.
    Named(&'static str),
    /// A collection by name.
    Collection(&'static str, &'static str),
}

/// One built-in role.
struct Row {
    name: &'static str,
    /// Whether it exists in `admin` alone.
    admin_only: bool,
    grants: Grants,
}

/// Actions, and what they are allowed on.
type Grants = &'static [(Scope, &'static [&'static [Action]])];

const READ: &[Action] = &[
    ChangeStream,
    CollStats,
    DbHash,
    DbStats,
    Find,
    KillCursors,
    ListCollections,
    ListIndexes,
    ListSearchIndexes,
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
    ListCollections,
    ListIndexes,
    ListSearchIndexes,
    PlanCacheIndexFilter,
    PlanCacheRead,
    PlanCacheWrite,
    ReIndex,
    RenameCollectionSameDb,
    Validate,
];
/// What administrators of a database may do with its profile besides reading it.
const PROFILE: &[Action] = &[ConvertToCapped, CreateCollection, DropCollection];
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
const SHARDING: &[Action] = &[
    AnalyzeShardKey,
    EnableSharding,
    MoveCollection,
    RefineCollectionShardKey,
    ReshardCollection,
    UnshardCollection,
];
const CLUSTER_MONITOR: &[Action] = &[
    ConnPoolStats,
    GetCmdLineOpts,
    GetDefaultRwConcern,
    GetLog,
    GetParameter,
    GetShardMap,
    HostInfo,
    Inprog,
    ListClusterCatalog,
    ListDatabases,
    ListSampledQueries,
    ListSessions,
    ListShards,
    Netstat,
    QueryStatsRead,
    ReplSetGetConfig,
    ReplSetGetStatus,
    ServerStatus,
    ShardedDataDistribution,
    ShardingState,
    Top,
    UseUuid,
];
const MONITOR_ANY: &[Action] = &[CollStats, DbStats, GetShardVersion, IndexStats];
const CLUSTER_MANAGER: &[Action] = &[
    AddShard,
    AppendOplogNote,
    ApplicationMessage,
    CheckMetadataConsistency,
    EnableSharding,
    FlushRouterConfig,
    GetClusterParameter,
    GetDefaultRwConcern,
    ListSessions,
    ListShards,
    QuerySettings,
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
const MANAGER_ANY: &[Action] = &[ClearJumboFlag, MoveChunk, SplitChunk, SplitVector];
const CHANGE: &[Action] = &[Insert, Update, Remove];
const HOST_MANAGER: &[Action] = &[
    ApplicationMessage,
    ConnPoolSync,
    FlushRouterConfig,
    Fsync,
    InvalidateUserCache,
    KillAnyCursor,
    KillAnySession,
    Killop,
    LogRotate,
    Resync,
    SetParameter,
    Shutdown,
    Touch,
    Unlock,
];
const BACKUP_CLUSTER: &[Action] = &[
    AppendOplogNote,
    GetParameter,
    ListDatabases,
    ServerStatus,
    SetUserWriteBlock,
    UseUuid,
];
const BACKUP_EVERYTHING: &[Action] = &[CollStats, ListCollections, ListIndexes, ListSearchIndexes];
const RESTORE: &[Action] = &[
    BypassDocumentValidation,
    CollMod,
    ConvertToCapped,
    CreateCollection,
    CreateIndex,
    DropCollection,
    Insert,
];
const RESTORE_CLUSTER: &[Action] = &[GetParameter, SetUserWriteBlock, UseUuid];
const READ_AND_INDEX: &[&[Action]] = &[READ, &[CreateIndex, DropIndex]];

use Scope::{Any, Cluster, Collection, EveryCollection, Everything, Named, Own, OwnCollection};

const SYSTEM_USERS: Scope = Collection("admin", "system.users");
const SYSTEM_ROLES: Scope = Collection("admin", "system.roles");
const SYSTEM_VERSION: Scope = Collection("admin", "system.version");
const BACKUP_USERS: Scope = Collection("admin", "system.backup_users");

/// A role that every database has.
const fn everywhere(name: &'static str, grants: Grants) -> Row {
    Row {
        name,
        admin_only: false,
        grants,
    }
}

/// A role of `admin` alone.
const fn in_admin(name: &'static str, grants: Grants) -> Row {
    Row {
        name,
        admin_only: true,
        grants,
    }
}

const ROLES: &[Row] = &[
    everywhere("read", &[(Own, &[READ])]),
    everywhere("readWrite", &[(Own, &[READ, WRITE])]),
    everywhere(
        "dbAdmin",
        &[
            (Own, &[DB_ADMIN]),
            (OwnCollection("system.profile"), &[READ, PROFILE]),
        ],
    ),
    everywhere("userAdmin", &[(Own, &[USER_ADMIN])]),
    everywhere(
        "dbOwner",
        &[
            (Own, &[READ, WRITE, DB_ADMIN, USER_ADMIN]),
            (OwnCollection("system.profile"), &[READ, PROFILE]),
        ],
    ),
    everywhere(
        "enableSharding",
        &[(Any, &[SHARDING]), (Cluster, &[&[EnableSharding]])],
    ),
    in_admin(
        "readAnyDatabase",
        &[
            (Any, &[READ]),
            (EveryCollection("system.js"), &[READ]),
            (Cluster, &[&[ListDatabases]]),
        ],
    ),
    in_admin(
        "readWriteAnyDatabase",
        &[
            (Any, &[READ, WRITE]),
            (EveryCollection("system.js"), &[READ, WRITE]),
            (Cluster, &[&[ListDatabases]]),
        ],
    ),
    in_admin(
        "userAdminAnyDatabase",
        &[
            (Any, &[USER_ADMIN]),
            (Named("local"), &[USER_ADMIN]),
            (Named("config"), &[USER_ADMIN]),
            (Cluster, &[&[InvalidateUserCache, ListDatabases, ViewUser]]),
            (SYSTEM_USERS, READ_AND_INDEX),
            (SYSTEM_ROLES, READ_AND_INDEX),
            (EveryCollection("system.users"), &[READ]),
            (SYSTEM_VERSION, &[READ]),
            (BACKUP_USERS, &[READ]),
        ],
    ),
    in_admin(
        "dbAdminAnyDatabase",
        &[
            (Any, &[DB_ADMIN]),
            (EveryCollection("system.profile"), &[READ, PROFILE]),
            (Cluster, &[&[ListDatabases]]),
        ],
    ),
    in_admin(
        "clusterMonitor",
        &[
            (Cluster, &[CLUSTER_MONITOR]),
            (Any, &[MONITOR_ANY]),
            (Named("config"), &[READ, MONITOR_ANY]),
            (Named("local"), &[READ, MONITOR_ANY]),
            (Collection("config", "system.sessions"), &[MONITOR_ANY]),
            (Collection("local", "system.replset"), &[&[Find]]),
            (EveryCollection("system.profile"), &[&[Find]]),
        ],
    ),
    in_admin(
        "clusterManager",
        &[
            (Cluster, &[CLUSTER_MANAGER]),
            (Any, &[MANAGER_ANY, SHARDING]),
            (Named("config"), &[READ, CHANGE, MANAGER_ANY, SHARDING]),
            (Named("local"), &[CHANGE, MANAGER_ANY, SHARDING]),
            (Collection("local", "system.replset"), &[READ]),
        ],
    ),
    in_admin(
        "hostManager",
        &[(Cluster, &[HOST_MANAGER]), (Any, &[&[KillCursors]])],
    ),
    in_admin(
        "clusterAdmin",
        &[
            (Cluster, &[CLUSTER_MONITOR, CLUSTER_MANAGER, HOST_MANAGER]),
            (
                Any,
                &[
                    MONITOR_ANY,
                    MANAGER_ANY,
                    SHARDING,
                    &[DropDatabase, KillCursors],
                ],
            ),
            (
                Named("config"),
                &[READ, CHANGE, MONITOR_ANY, MANAGER_ANY, SHARDING],
            ),
            (
                Named("local"),
                &[READ, CHANGE, MONITOR_ANY, MANAGER_ANY, SHARDING],
            ),
            (Collection("config", "system.sessions"), &[MONITOR_ANY]),
            (Collection("local", "system.replset"), &[READ]),
            (EveryCollection("system.profile"), &[&[Find]]),
        ],
    ),
    in_admin(
        "backup",
        &[
            (Cluster, &[BACKUP_CLUSTER]),
            (Everything, &[BACKUP_EVERYTHING]),
            (Any, &[&[Find]]),
            (Named("config"), &[&[Find]]),
            (Named("local"), &[&[Find]]),
            (Collection("config", "settings"), &[&[Find, Insert, Update]]),
            (EveryCollection("system.js"), &[&[Find]]),
            (EveryCollection("system.users"), &[&[Find]]),
            (EveryCollection("system.profile"), &[&[Find]]),
            (SYSTEM_ROLES, &[&[Find]]),
            (SYSTEM_VERSION, &[&[Find]]),
            (BACKUP_USERS, &[&[Find]]),
        ],
    ),
    in_admin(
        "restore",
        &[
            (Cluster, &[RESTORE_CLUSTER]),
            (Everything, &[&[ListCollections]]),
            (Any, &[RESTORE, USER_ADMIN]),
            (Named("config"), &[RESTORE]),
            (Named("local"), &[RESTORE]),
            (EveryCollection("system.js"), &[RESTORE]),
            (Collection("admin", "tempusers"), &[&[Find]]),
            (Collection("admin", "temproles"), &[&[Find]]),
            (BACKUP_USERS, &[RESTORE]),
            (SYSTEM_VERSION, &[RESTORE, &[Find]]),
            (
                EveryCollection("system.users"),
                &[RESTORE, &[Find, Update, Remove]],
            ),
            // MongoDB restores roles by a command of its own, and lets this role make their index.
            (SYSTEM_ROLES, &[RESTORE, &[Find, Update, Remove]]),
        ],
    ),
    in_admin("root", &[(Everything, &[&[Anything]])]),
    in_admin("__system", &[(Everything, &[&[Anything]])]),
];

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
            EveryCollection(name) => Pattern::AnyDatabaseCollection((*name).to_owned()),
            Named(database) => Pattern::Database((*database).to_owned()),
            Collection(database, name) => {
                Pattern::Collection((*database).to_owned(), (*name).to_owned())
            }
        };
        Privilege::new(pattern, actions.concat())
    };
    Some(row.grants.iter().map(grant).collect())
}
