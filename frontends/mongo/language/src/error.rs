//! What MongoDB answers when something is wrong: a code, its name, and a message.

use std::{borrow::Cow, fmt};

use bson::Document;
use tessera_core::deadline::Interruption;

/// The result of everything in this crate that a client's input can make fail.
pub type Result<T> = std::result::Result<T, Error>;

/// An error as the client sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct Error {
    /// The number that programs go by.
    pub code: Code,
    /// The text for people.
    pub message: String,
    /// What the reply carries as `errInfo`, for the few errors that explain themselves.
    pub details: Option<Document>,
}

impl Error {
    /// An error without details.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            details: None,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} ({})", self.message, self.code.name())
    }
}

impl std::error::Error for Error {}

impl From<Interruption> for Error {
    fn from(interruption: Interruption) -> Self {
        let code = match interruption {
            Interruption::TimeLimit => Code::MAX_TIME_MS_EXPIRED,
            Interruption::Cancelled => Code::INTERRUPTED,
            Interruption::Shutdown => Code::INTERRUPTED_AT_SHUTDOWN,
            Interruption::Crowded => Code::ADMISSION_QUEUE_OVERFLOW,
            Interruption::Memory(_) => Code::EXCEEDED_MEMORY_LIMIT,
        };
        Self::new(code, interruption.to_string())
    }
}

/// An argument that is wrong in some way that no other code tells.
pub fn bad_value(message: impl Into<String>) -> Error {
    Error::new(Code::BAD_VALUE, message)
}

/// A specification that cannot be understood.
pub fn failed_to_parse(message: impl Into<String>) -> Error {
    Error::new(Code::FAILED_TO_PARSE, message)
}

/// A value of the wrong type.
pub fn type_mismatch(message: impl Into<String>) -> Error {
    Error::new(Code::TYPE_MISMATCH, message)
}

/// The number of an error. Errors that MongoDB raises at a single place have no name but their
/// number, and are written as such: `Code(40324)`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Code(pub i32);

impl Code {
    /// What replies carry as `codeName`.
    pub fn name(self) -> Cow<'static, str> {
        NAMES
            .binary_search_by_key(&self.0, |(number, _)| *number)
            .ok()
            .and_then(|position| NAMES.get(position))
            .map_or_else(
                || Cow::Owned(format!("Location{}", self.0)),
                |(_, name)| Cow::Borrowed(*name),
            )
    }
}

/// Declares the named codes, in ascending order of their numbers.
macro_rules! codes {
    ($($constant:ident = $number:literal $name:literal,)*) => {
        impl Code {
            $(
                #[doc = concat!("`", $name, "`")]
                pub const $constant: Self = Self($number);
            )*
        }

        const NAMES: &[(i32, &str)] = &[$(($number, $name),)*];
    };
}

codes! {
    INTERNAL_ERROR = 1 "InternalError",
    BAD_VALUE = 2 "BadValue",
    NO_SUCH_KEY = 4 "NoSuchKey",
    GRAPH_CONTAINS_CYCLE = 5 "GraphContainsCycle",
    HOST_UNREACHABLE = 6 "HostUnreachable",
    UNKNOWN_ERROR = 8 "UnknownError",
    FAILED_TO_PARSE = 9 "FailedToParse",
    USER_NOT_FOUND = 11 "UserNotFound",
    UNSUPPORTED_FORMAT = 12 "UnsupportedFormat",
    UNAUTHORIZED = 13 "Unauthorized",
    TYPE_MISMATCH = 14 "TypeMismatch",
    OVERFLOW = 15 "Overflow",
    INVALID_LENGTH = 16 "InvalidLength",
    PROTOCOL_ERROR = 17 "ProtocolError",
    AUTHENTICATION_FAILED = 18 "AuthenticationFailed",
    ILLEGAL_OPERATION = 20 "IllegalOperation",
    INVALID_BSON = 22 "InvalidBSON",
    ALREADY_INITIALIZED = 23 "AlreadyInitialized",
    LOCK_TIMEOUT = 24 "LockTimeout",
    NAMESPACE_NOT_FOUND = 26 "NamespaceNotFound",
    INDEX_NOT_FOUND = 27 "IndexNotFound",
    PATH_NOT_VIABLE = 28 "PathNotViable",
    NON_EXISTENT_PATH = 29 "NonExistentPath",
    ROLE_NOT_FOUND = 31 "RoleNotFound",
    ROLES_NOT_RELATED = 32 "RolesNotRelated",
    PRIVILEGE_NOT_FOUND = 33 "PrivilegeNotFound",
    CANNOT_BACKFILL_ARRAY = 34 "CannotBackfillArray",
    USER_MODIFICATION_FAILED = 35 "UserModificationFailed",
    FILE_RENAME_FAILED = 37 "FileRenameFailed",
    CONFLICTING_UPDATE_OPERATORS = 40 "ConflictingUpdateOperators",
    CURSOR_NOT_FOUND = 43 "CursorNotFound",
    LOCK_BUSY = 46 "LockBusy",
    NO_MATCHING_DOCUMENT = 47 "NoMatchingDocument",
    NAMESPACE_EXISTS = 48 "NamespaceExists",
    INVALID_ROLE_MODIFICATION = 49 "InvalidRoleModification",
    MAX_TIME_MS_EXPIRED = 50 "MaxTimeMSExpired",
    DOLLAR_PREFIXED_FIELD_NAME = 52 "DollarPrefixedFieldName",
    INVALID_ID_FIELD = 53 "InvalidIdField",
    NOT_SINGLE_VALUE_FIELD = 54 "NotSingleValueField",
    INVALID_DB_REF = 55 "InvalidDBRef",
    EMPTY_FIELD_NAME = 56 "EmptyFieldName",
    DOTTED_FIELD_NAME = 57 "DottedFieldName",
    ROLE_MODIFICATION_FAILED = 58 "RoleModificationFailed",
    COMMAND_NOT_FOUND = 59 "CommandNotFound",
    SHARD_KEY_NOT_FOUND = 61 "ShardKeyNotFound",
    WRITE_CONCERN_TIMEOUT = 64 "WriteConcernTimeout",
    IMMUTABLE_FIELD = 66 "ImmutableField",
    CANNOT_CREATE_INDEX = 67 "CannotCreateIndex",
    INDEX_ALREADY_EXISTS = 68 "IndexAlreadyExists",
    SHARD_NOT_FOUND = 70 "ShardNotFound",
    INVALID_OPTIONS = 72 "InvalidOptions",
    INVALID_NAMESPACE = 73 "InvalidNamespace",
    NO_REPLICATION_ENABLED = 76 "NoReplicationEnabled",
    UNKNOWN_REPL_WRITE_CONCERN = 79 "UnknownReplWriteConcern",
    INDEX_OPTIONS_CONFLICT = 85 "IndexOptionsConflict",
    INDEX_KEY_SPECS_CONFLICT = 86 "IndexKeySpecsConflict",
    NETWORK_TIMEOUT = 89 "NetworkTimeout",
    SHUTDOWN_IN_PROGRESS = 91 "ShutdownInProgress",
    INVALID_REPLICA_SET_CONFIG = 93 "InvalidReplicaSetConfig",
    NOT_YET_INITIALIZED = 94 "NotYetInitialized",
    OPERATION_FAILED = 96 "OperationFailed",
    UNSATISFIABLE_WRITE_CONCERN = 100 "UnsatisfiableWriteConcern",
    NOT_EXACT_VALUE_FIELD = 111 "NotExactValueField",
    WRITE_CONFLICT = 112 "WriteConflict",
    COMMAND_NOT_SUPPORTED = 115 "CommandNotSupported",
    CONFLICTING_OPERATION_IN_PROGRESS = 117 "ConflictingOperationInProgress",
    NAMESPACE_NOT_SHARDED = 118 "NamespaceNotSharded",
    DOCUMENT_VALIDATION_FAILURE = 121 "DocumentValidationFailure",
    NOT_A_REPLICA_SET = 123 "NotAReplicaSet",
    COMMAND_FAILED = 125 "CommandFailed",
    FAILED_TO_SATISFY_READ_PREFERENCE = 133 "FailedToSatisfyReadPreference",
    CAPPED_POSITION_LOST = 136 "CappedPositionLost",
    EXCEEDED_MEMORY_LIMIT = 146 "ExceededMemoryLimit",
    READ_CONCERN_MAJORITY_NOT_ENABLED = 148 "ReadConcernMajorityNotEnabled",
    INCOMPATIBLE_COLLATION_VERSION = 161 "IncompatibleCollationVersion",
    COLLECTION_IS_EMPTY = 162 "CollectionIsEmpty",
    VIEW_DEPTH_LIMIT_EXCEEDED = 165 "ViewDepthLimitExceeded",
    COMMAND_NOT_SUPPORTED_ON_VIEW = 166 "CommandNotSupportedOnView",
    OPTION_NOT_SUPPORTED_ON_VIEW = 167 "OptionNotSupportedOnView",
    INVALID_PIPELINE_OPERATOR = 168 "InvalidPipelineOperator",
    TOO_MANY_MATCHING_DOCUMENTS = 170 "TooManyMatchingDocuments",
    CANNOT_INDEX_PARALLEL_ARRAYS = 171 "CannotIndexParallelArrays",
    QUERY_PLAN_KILLED = 175 "QueryPlanKilled",
    AMBIGUOUS_INDEX_KEY_PATTERN = 181 "AmbiguousIndexKeyPattern",
    CLIENT_METADATA_APP_NAME_TOO_LARGE = 184 "ClientMetadataAppNameTooLarge",
    CLIENT_METADATA_DOCUMENT_TOO_LARGE = 185 "ClientMetadataDocumentTooLarge",
    CLIENT_METADATA_CANNOT_BE_MUTATED = 186 "ClientMetadataCannotBeMutated",
    PRIMARY_STEPPED_DOWN = 189 "PrimarySteppedDown",
    VIEW_PIPELINE_MAX_SIZE_EXCEEDED = 195 "ViewPipelineMaxSizeExceeded",
    INVALID_INDEX_SPECIFICATION_OPTION = 197 "InvalidIndexSpecificationOption",
    NO_SUCH_SESSION = 206 "NoSuchSession",
    INVALID_UUID = 207 "InvalidUUID",
    KEY_NOT_FOUND = 211 "KeyNotFound",
    INCOMPLETE_TRANSACTION_HISTORY = 217 "IncompleteTransactionHistory",
    QUERY_FEATURE_NOT_ALLOWED = 224 "QueryFeatureNotAllowed",
    TRANSACTION_TOO_OLD = 225 "TransactionTooOld",
    ATOMICITY_FAILURE = 226 "AtomicityFailure",
    MAX_SUB_PIPELINE_DEPTH_EXCEEDED = 232 "MaxSubPipelineDepthExceeded",
    CURSOR_KILLED = 237 "CursorKilled",
    NOT_IMPLEMENTED = 238 "NotImplemented",
    SNAPSHOT_TOO_OLD = 239 "SnapshotTooOld",
    CONVERSION_FAILURE = 241 "ConversionFailure",
    CANNOT_CREATE_COLLECTION = 242 "CannotCreateCollection",
    NOT_YET_AVAILABLE_TRANSACTION_ABORTED = 244 "NOT_YET_AVAILABLE_TransactionAborted",
    SNAPSHOT_UNAVAILABLE = 246 "SnapshotUnavailable",
    STALE_CHUNK_HISTORY = 250 "StaleChunkHistory",
    NO_SUCH_TRANSACTION = 251 "NoSuchTransaction",
    TRANSACTION_COMMITTED = 256 "TransactionCommitted",
    TRANSACTION_TOO_LARGE = 257 "TransactionTooLarge",
    INVALID_RESUME_TOKEN = 260 "InvalidResumeToken",
    TOO_MANY_LOGICAL_SESSIONS = 261 "TooManyLogicalSessions",
    EXCEEDED_TIME_LIMIT = 262 "ExceededTimeLimit",
    OPERATION_NOT_SUPPORTED_IN_TRANSACTION = 263 "OperationNotSupportedInTransaction",
    INDEX_BUILD_ABORTED = 276 "IndexBuildAborted",
    CHANGE_STREAM_FATAL_ERROR = 280 "ChangeStreamFatalError",
    WOULD_CHANGE_OWNING_SHARD = 283 "WouldChangeOwningShard",
    CHANGE_STREAM_HISTORY_LOST = 286 "ChangeStreamHistoryLost",
    TRANSACTION_EXCEEDED_LIFETIME_LIMIT_SECONDS = 290 "TransactionExceededLifetimeLimitSeconds",
    NO_QUERY_EXECUTION_PLANS = 291 "NoQueryExecutionPlans",
    QUERY_EXCEEDED_MEMORY_LIMIT_NO_DISK_USE_ALLOWED =
        292 "QueryExceededMemoryLimitNoDiskUseAllowed",
    OBJECT_IS_BUSY = 314 "ObjectIsBusy",
    API_VERSION_ERROR = 322 "APIVersionError",
    API_STRICT_ERROR = 323 "APIStrictError",
    MECHANISM_UNAVAILABLE = 334 "MechanismUnavailable",
    RESHARD_COLLECTION_IN_PROGRESS = 338 "ReshardCollectionInProgress",
    NO_SUCH_RESHARD_COLLECTION = 339 "NoSuchReshardCollection",
    RESHARD_COLLECTION_COMMITTED = 340 "ReshardCollectionCommitted",
    RESHARD_COLLECTION_ABORTED = 341 "ReshardCollectionAborted",
    UNSUPPORTED_OP_QUERY_COMMAND = 352 "UnsupportedOpQueryCommand",
    CANNOT_CONVERT_INDEX_TO_UNIQUE = 359 "CannotConvertIndexToUnique",
    COLLECTION_UUID_MISMATCH = 361 "CollectionUUIDMismatch",
    CANNOT_DROP_SHARD_KEY_INDEX = 370 "CannotDropShardKeyIndex",
    USER_WRITES_BLOCKED = 371 "UserWritesBlocked",
    REAUTHENTICATION_REQUIRED = 391 "ReauthenticationRequired",
    QUERY_REJECTED_BY_SETTINGS = 411 "QueryRejectedBySettings",
    ADMISSION_QUEUE_OVERFLOW = 433 "AdmissionQueueOverflow",
    RATE_LIMIT_EXCEEDED = 449 "RateLimitExceeded",
    POOLED_CONNECTION_ACQUISITION_REJECTED = 450 "PooledConnectionAcquisitionRejected",
    INGRESS_REQUEST_RATE_LIMIT_EXCEEDED = 462 "IngressRequestRateLimitExceeded",
    NOT_WRITABLE_PRIMARY = 10107 "NotWritablePrimary",
    BSON_OBJECT_TOO_LARGE = 10334 "BSONObjectTooLarge",
    DUPLICATE_KEY = 11000 "DuplicateKey",
    INTERRUPTED_AT_SHUTDOWN = 11600 "InterruptedAtShutdown",
    INTERRUPTED = 11601 "Interrupted",
    INTERRUPTED_DUE_TO_REPL_STATE_CHANGE = 11602 "InterruptedDueToReplStateChange",
    MERGE_STAGE_NO_MATCHING_DOCUMENT = 13113 "MergeStageNoMatchingDocument",
    DATABASE_DIFFER_CASE = 13297 "DatabaseDifferCase",
    STALE_CONFIG = 13388 "StaleConfig",
    NOT_PRIMARY_NO_SECONDARY_OK = 13435 "NotPrimaryNoSecondaryOk",
    OUT_OF_DISK_SPACE = 14031 "OutOfDiskSpace",
    NAMESPACE_CANNOT_BE_SHARDED = 28769 "NamespaceCannotBeSharded",
    SEARCH_NOT_ENABLED = 31082 "SearchNotEnabled",
    IDL_DUPLICATE_FIELD = 40413 "IDLDuplicateField",
    IDL_FAILED_TO_PARSE = 40414 "IDLFailedToParse",
    IDL_UNKNOWN_FIELD = 40415 "IDLUnknownField",
    NOT_A_RETRYABLE_WRITE_COMMAND = 50768 "NotARetryableWriteCommand",
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_codes_are_listed_once_in_order() {
        assert!(NAMES.is_sorted_by(|a, b| a.0 < b.0));
    }

    #[test]
    fn codes_have_the_names_that_drivers_expect() {
        for (code, name) in [
            (Code::BAD_VALUE, "BadValue"),
            (Code(2), "BadValue"),
            (Code::DUPLICATE_KEY, "DuplicateKey"),
            (Code::IDL_UNKNOWN_FIELD, "IDLUnknownField"),
            (Code(50768), "NotARetryableWriteCommand"),
            (Code(40324), "Location40324"),
            (Code(0), "Location0"),
        ] {
            assert_eq!(code.name(), name);
        }
    }
}
