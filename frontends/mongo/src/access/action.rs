//! The actions that a role can allow, by MongoDB's names.

/// Declares the actions with the names that `createRole` and `rolesInfo` use.
macro_rules! actions {
    ($($action:ident $name:literal,)*) => {
        /// Something that a role can allow.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub(crate) enum Action {
            $($action,)*
        }

        const NAMES: &[(Action, &str)] = &[$((Action::$action, $name),)*];
    };
}

actions! {
    Anything "anyAction",
    // data
    Find "find",
    Insert "insert",
    Update "update",
    Remove "remove",
    BypassDocumentValidation "bypassDocumentValidation",
    // collections and indexes
    ChangeStream "changeStream",
    CollMod "collMod",
    CollStats "collStats",
    Compact "compact",
    ConvertToCapped "convertToCapped",
    CreateCollection "createCollection",
    CreateIndex "createIndex",
    DbHash "dbHash",
    DbStats "dbStats",
    DropCollection "dropCollection",
    DropDatabase "dropDatabase",
    DropIndex "dropIndex",
    EnableProfiler "enableProfiler",
    IndexStats "indexStats",
    KillCursors "killCursors",
    ListCollections "listCollections",
    ListIndexes "listIndexes",
    ListSearchIndexes "listSearchIndexes",
    PlanCacheIndexFilter "planCacheIndexFilter",
    PlanCacheRead "planCacheRead",
    PlanCacheWrite "planCacheWrite",
    ReIndex "reIndex",
    RenameCollectionSameDb "renameCollectionSameDB",
    Validate "validate",
    // users and roles
    ChangeCustomData "changeCustomData",
    ChangePassword "changePassword",
    ChangeOwnCustomData "changeOwnCustomData",
    ChangeOwnPassword "changeOwnPassword",
    CreateRole "createRole",
    CreateUser "createUser",
    DropRole "dropRole",
    DropUser "dropUser",
    GrantRole "grantRole",
    RevokeRole "revokeRole",
    SetAuthenticationRestriction "setAuthenticationRestriction",
    ViewRole "viewRole",
    ViewUser "viewUser",
    // sharding
    AddShard "addShard",
    AnalyzeShardKey "analyzeShardKey",
    CheckMetadataConsistency "checkMetadataConsistency",
    ClearJumboFlag "clearJumboFlag",
    EnableSharding "enableSharding",
    FlushRouterConfig "flushRouterConfig",
    GetShardMap "getShardMap",
    GetShardVersion "getShardVersion",
    ListShards "listShards",
    MoveChunk "moveChunk",
    MoveCollection "moveCollection",
    RefineCollectionShardKey "refineCollectionShardKey",
    RemoveShard "removeShard",
    ReshardCollection "reshardCollection",
    ShardingState "shardingState",
    ShardedDataDistribution "shardedDataDistribution",
    SplitChunk "splitChunk",
    SplitVector "splitVector",
    UnshardCollection "unshardCollection",
    // the server
    AppendOplogNote "appendOplogNote",
    ApplicationMessage "applicationMessage",
    ConnPoolStats "connPoolStats",
    ConnPoolSync "connPoolSync",
    Fsync "fsync",
    GetClusterParameter "getClusterParameter",
    GetCmdLineOpts "getCmdLineOpts",
    GetDefaultRwConcern "getDefaultRWConcern",
    GetLog "getLog",
    GetParameter "getParameter",
    HostInfo "hostInfo",
    Impersonate "impersonate",
    Inprog "inprog",
    InvalidateUserCache "invalidateUserCache",
    KillAnyCursor "killAnyCursor",
    KillAnySession "killAnySession",
    Killop "killop",
    ListClusterCatalog "listClusterCatalog",
    ListDatabases "listDatabases",
    ListSampledQueries "listSampledQueries",
    ListSessions "listSessions",
    LogRotate "logRotate",
    Netstat "netstat",
    QuerySettings "querySettings",
    QueryStatsRead "queryStatsRead",
    ReplSetConfigure "replSetConfigure",
    ReplSetGetConfig "replSetGetConfig",
    ReplSetGetStatus "replSetGetStatus",
    ReplSetStateChange "replSetStateChange",
    Resync "resync",
    ServerStatus "serverStatus",
    SetClusterParameter "setClusterParameter",
    SetDefaultRwConcern "setDefaultRWConcern",
    SetFeatureCompatibilityVersion "setFeatureCompatibilityVersion",
    SetParameter "setParameter",
    SetUserWriteBlock "setUserWriteBlockMode",
    Shutdown "shutdown",
    Top "top",
    Touch "touch",
    Unlock "unlock",
    UseUuid "useUUID",
}

impl Action {
    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        let named = NAMES.iter().find(|(action, _)| *action == self);
        named.map_or("", |(_, name)| name)
    }

    /// The action of this name.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        let named = NAMES.iter().find(|(_, known)| *known == name);
        named.map(|(action, _)| *action)
    }
}
