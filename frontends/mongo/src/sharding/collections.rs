//! The commands that change how a collection is sharded.

use bson::{Bson, Document, RawBsonRef, doc};
use tessera_core::job::JobId;
use tessera_core::key::PartitionId;
use tessera_mongo_language::collation::Collation;
use tessera_mongo_language::error::{Code, bad_value};

use crate::access::{Access, Action, Need};
use crate::collection::{Namespace, check_database};
use crate::command::Command;
use crate::failure::{Failure, Result};
use crate::fields::{
    ANY, ARRAY, BINARY, BOOL_OR_NUMBER, DOCUMENT, Field, Fields, NUMBER, STRING, optional, required,
};
use crate::index::IndexSpec;
use crate::reply::Reply;
use crate::request::Request;
use crate::service::Service;
use crate::sharding::key::AskedKey;
use crate::sharding::layout::{FIRST_SHARD, parse_shard_name, shard_name, shards};
use crate::sharding::place::{self, Current, Wanted};

/// The most physical partitions that a client can ask for at once.
const MAX_PARTITIONS: i64 = 1_024;

pub(crate) const COMMANDS: &[Command] = &[
    Command::new(
        "enableSharding",
        "Enables sharding of a database; it is always enabled.",
        Access::Decide(|request| {
            let database = request.argument().as_str().unwrap_or_default();
            Ok(vec![Need::on_database(Action::EnableSharding, database)])
        }),
        |service, _, request| Box::pin(enable_sharding(service, request)),
    )
    .also(&["enablesharding"])
    .writes(),
    Command::new(
        "shardCollection",
        "Shards a collection by the hash of a key.",
        Access::Decide(|request| needs(request, Action::EnableSharding)),
        |service, _, request| Box::pin(shard_collection(service, request)),
    )
    .also(&["shardcollection"])
    .writes(),
    Command::new(
        "reshardCollection",
        "Changes the shard key of a collection online.",
        Access::Decide(|request| needs(request, Action::ReshardCollection)),
        |service, _, request| Box::pin(reshard_collection(service, request)),
    )
    .writes(),
    Command::new(
        "refineCollectionShardKey",
        "Adds fields to the shard key of a collection.",
        Access::Decide(|request| needs(request, Action::RefineCollectionShardKey)),
        |service, _, request| Box::pin(refine_shard_key(service, request)),
    )
    .writes(),
    Command::new(
        "unshardCollection",
        "Turns a sharded collection into an unsharded one.",
        Access::Decide(|request| needs(request, Action::UnshardCollection)),
        |service, _, request| Box::pin(unshard_collection(service, request)),
    )
    .writes(),
    Command::new(
        "moveCollection",
        "Moves a collection that is not sharded to a shard.",
        Access::Decide(|request| needs(request, Action::MoveCollection)),
        |service, _, request| Box::pin(move_collection(service, request)),
    )
    .writes(),
    Command::new(
        "abortReshardCollection",
        "Aborts a running resharding.",
        Access::Decide(|request| needs(request, Action::ReshardCollection)),
        |service, _, request| Box::pin(abort_reshard(service, request)),
    )
    .also(&["abortUnshardCollection", "abortMoveCollection"])
    .writes(),
    Command::new(
        "commitReshardCollection",
        "Commits a running resharding; the server does so by itself.",
        Access::Decide(|request| needs(request, Action::ReshardCollection)),
        |service, _, request| Box::pin(commit_reshard(service, request)),
    )
    .writes(),
    Command::new(
        "cleanupReshardCollection",
        "Cleans up after a failed resharding; nothing is left by one.",
        Access::Decide(|request| needs(request, Action::ReshardCollection)),
        |service, _, request| Box::pin(cleanup_reshard(service, request)),
    )
    .writes(),
];

pub(super) fn needs(request: &Request<'_>, action: Action) -> Result<Vec<Need>> {
    let namespace = namespace(request)?;
    Ok(vec![Need::on_collection(
        action,
        namespace.database(),
        namespace.collection(),
    )])
}

/// The namespace that is the command's argument.
pub(super) fn namespace(request: &Request<'_>) -> Result<Namespace> {
    match request.argument() {
        RawBsonRef::String(name) => Ok(Namespace::parse(name)?),
        other => Err(crate::fields::wrong_type(
            request.name(),
            request.name(),
            other.element_type(),
            &[bson::spec::ElementType::String],
        )
        .into()),
    }
}

/// The namespace of a collection that may be sharded: not one that the server keeps for itself.
fn shardable(request: &Request<'_>) -> Result<Namespace> {
    let namespace = namespace(request)?;
    if matches!(namespace.database(), "config" | "local") {
        let message = format!("collection {namespace} cannot be sharded");
        return Err(Failure::new(Code::NAMESPACE_CANNOT_BE_SHARDED, message));
    }
    namespace.check_creatable()?;
    Ok(namespace)
}

async fn enable_sharding(service: &Service, request: &Request<'_>) -> Result<Reply> {
    const FIELDS: &[Field] = &[optional("primaryShard", STRING)];
    let fields = Fields::of(request, FIELDS)?;
    let Some(database) = request.argument().as_str() else {
        return Err(bad_value("enableSharding takes the name of a database").into());
    };
    check_database(database)?;
    if let Some(shard) = fields.str("primaryShard") {
        require_shard(service, shard).await?;
    }
    Ok(Reply::ok())
}

async fn require_shard(service: &Service, name: &str) -> Result<PartitionId> {
    let known = shards(service).await?.iter().any(|shard| shard == name);
    match parse_shard_name(name) {
        Some(number) if known => Ok(number),
        _ => {
            let message = format!("Shard {name} does not exist");
            Err(Failure::new(Code::SHARD_NOT_FOUND, message))
        }
    }
}

async fn shard_collection(service: &Service, request: &Request<'_>) -> Result<Reply> {
    const FIELDS: &[Field] = &[
        required("key", DOCUMENT),
        optional("unique", BOOL_OR_NUMBER),
        optional("numInitialChunks", NUMBER),
        optional("presplitHashedZones", BOOL_OR_NUMBER),
        optional("collation", DOCUMENT),
        optional("timeseries", DOCUMENT),
        optional("collectionUUID", BINARY),
        optional("implicitlyCreateIndex", BOOL_OR_NUMBER),
        optional("enforceUniquenessCheck", BOOL_OR_NUMBER),
    ];
    let fields = Fields::of(request, FIELDS)?;
    let namespace = shardable(request)?;
    if fields.document("timeseries").is_some() {
        let message = "time series collections cannot be sharded";
        return Err(Failure::new(Code::INVALID_OPTIONS, message));
    }
    check_uuid(service, &namespace, &fields).await?;
    check_collation(service, &namespace, &fields).await?;
    let wanted = wanted(&fields, false)?;
    place::shard(service, &namespace, &wanted).await?;
    let mut reply = doc! {
        "_t": "ShardCollectionResponse",
        "collectionsharded": namespace.to_string(),
    };
    reply.extend(
        wanted
            .key
            .note()
            .map(|note| ("note".to_owned(), Bson::String(note))),
    );
    Ok(reply.into())
}

async fn reshard_collection(service: &Service, request: &Request<'_>) -> Result<Reply> {
    const FIELDS: &[Field] = &[
        required("key", DOCUMENT),
        optional("unique", BOOL_OR_NUMBER),
        optional("numInitialChunks", NUMBER),
        optional("collation", DOCUMENT),
        optional("zones", ARRAY),
        optional("collectionUUID", BINARY),
        optional("shardDistribution", ARRAY),
        optional("forceRedistribution", BOOL_OR_NUMBER),
        optional("reshardingUUID", BINARY),
        optional("numSamplesPerChunk", NUMBER),
        optional("implicitlyCreateIndex", BOOL_OR_NUMBER),
        optional("performVerification", BOOL_OR_NUMBER),
        optional("provenance", STRING),
        optional("relaxed", BOOL_OR_NUMBER),
    ];
    let fields = Fields::of(request, FIELDS)?;
    let namespace = shardable(request)?;
    check_uuid(service, &namespace, &fields).await?;
    check_collation(service, &namespace, &fields).await?;
    let force = fields.bool("forceRedistribution").unwrap_or(false);
    let wanted = wanted(&fields, force)?;
    place::reshard(service, &namespace, &wanted).await?;
    let mut reply = Document::new();
    reply.extend(
        wanted
            .key
            .note()
            .map(|note| ("note".to_owned(), Bson::String(note))),
    );
    Ok(reply.into())
}

async fn refine_shard_key(service: &Service, request: &Request<'_>) -> Result<Reply> {
    const FIELDS: &[Field] = &[
        required("key", DOCUMENT),
        optional("collectionUUID", BINARY),
        optional("enforceUniquenessCheck", BOOL_OR_NUMBER),
    ];
    let fields = Fields::of(request, FIELDS)?;
    let namespace = shardable(request)?;
    check_uuid(service, &namespace, &fields).await?;
    let key = asked_key(&fields)?;
    let current = Current::sharded(service, &namespace).await?;
    let extends = current
        .shard_key()
        .is_some_and(|current| key.extends(current));
    if !extends {
        let message = format!(
            "refineCollectionShardKey shard key {} must extend {}",
            key.key,
            current.shard_key().cloned().unwrap_or_default()
        );
        return Err(Failure::new(Code::INVALID_OPTIONS, message));
    }
    let wanted = Wanted {
        key,
        unique: None,
        partitions: None,
        force: false,
    };
    place::reshard(service, &namespace, &wanted).await?;
    Ok(Reply::ok())
}

async fn unshard_collection(service: &Service, request: &Request<'_>) -> Result<Reply> {
    const FIELDS: &[Field] = &[
        optional("toShard", STRING),
        optional("performVerification", BOOL_OR_NUMBER),
    ];
    let fields = Fields::of(request, FIELDS)?;
    let namespace = shardable(request)?;
    if let Some(shard) = fields.str("toShard") {
        require_shard(service, shard).await?;
    }
    place::unshard(service, &namespace).await?;
    Ok(Reply::ok())
}

async fn move_collection(service: &Service, request: &Request<'_>) -> Result<Reply> {
    const FIELDS: &[Field] = &[
        required("toShard", STRING),
        optional("performVerification", BOOL_OR_NUMBER),
    ];
    let fields = Fields::of(request, FIELDS)?;
    let namespace = shardable(request)?;
    let current = Current::load(service, &namespace).await?;
    let Some(current) = current else {
        let message = format!("Namespace {namespace} does not exist");
        return Err(Failure::new(Code::NAMESPACE_NOT_FOUND, message));
    };
    if current.shard_key().is_some() {
        let message = format!("Namespace {namespace} is sharded: unshard it first");
        return Err(Failure::new(Code::NAMESPACE_CANNOT_BE_SHARDED, message));
    }
    let shard = fields.str("toShard").unwrap_or_default();
    if require_shard(service, shard).await? != FIRST_SHARD {
        let message = format!(
            "collections that are not sharded lie on {}: shard the collection to spread it",
            shard_name(FIRST_SHARD)
        );
        return Err(Failure::new(Code::COMMAND_NOT_SUPPORTED, message));
    }
    Ok(Reply::ok())
}

/// The number of the relocation of a collection that is under way.
async fn job_of(service: &Service, request: &Request<'_>) -> Result<JobId> {
    const FIELDS: &[Field] = &[optional("userCanceled", ANY)];
    Fields::of(request, FIELDS)?;
    let namespace = namespace(request)?;
    let job = service.store.relocation_of(&namespace.container).await?;
    job.ok_or_else(|| {
        let message = format!("there is no resharding of {namespace} under way");
        Failure::new(Code::NO_SUCH_RESHARD_COLLECTION, message)
    })
}

async fn abort_reshard(service: &Service, request: &Request<'_>) -> Result<Reply> {
    let job = job_of(service, request).await?;
    match service.store.cancel_job(job).await {
        Ok(()) => Ok(Reply::ok()),
        // It came to its end meanwhile.
        Err(tessera_core::Error::NotFound(_)) => Err(Failure::new(
            Code::RESHARD_COLLECTION_COMMITTED,
            "the resharding was committed already",
        )),
        Err(error) => Err(error.into()),
    }
}

async fn commit_reshard(service: &Service, request: &Request<'_>) -> Result<Reply> {
    job_of(service, request).await?;
    Ok(Reply::ok())
}

async fn cleanup_reshard(service: &Service, request: &Request<'_>) -> Result<Reply> {
    let namespace = namespace(request)?;
    let current = Current::load(service, &namespace).await?;
    if current.is_none() {
        let message = format!("Namespace {namespace} does not exist");
        return Err(Failure::new(Code::NAMESPACE_NOT_FOUND, message));
    }
    Ok(Reply::ok())
}

fn asked_key(fields: &Fields<'_>) -> Result<AskedKey> {
    let pattern = fields.document("key").map(Document::try_from).transpose()?;
    Ok(AskedKey::parse(&pattern.unwrap_or_default())?)
}

fn wanted(fields: &Fields<'_>, force: bool) -> Result<Wanted> {
    let key = asked_key(fields)?;
    let unique = if fields.bool("unique").unwrap_or(false) {
        Some(IndexSpec::parse(
            &key.unique_index()?,
            &Collation::default(),
        )?)
    } else {
        None
    };
    let partitions = match fields.integer("numInitialChunks") {
        None | Some(0) => None,
        Some(count) if (1..=MAX_PARTITIONS).contains(&count) => u32::try_from(count).ok(),
        Some(count) => {
            let message =
                format!("numInitialChunks must be from 1 to {MAX_PARTITIONS}, and is {count}");
            return Err(bad_value(message).into());
        }
    };
    Ok(Wanted {
        key,
        unique,
        partitions,
        force,
    })
}

/// Refuses a command that is meant for another collection of the same name.
async fn check_uuid(service: &Service, namespace: &Namespace, fields: &Fields<'_>) -> Result<()> {
    let Some(RawBsonRef::Binary(expected)) = fields.get("collectionUUID") else {
        return Ok(());
    };
    let current = Current::load(service, namespace).await?;
    let is_same =
        current.is_some_and(|current| current.collection.uuid.bytes().as_slice() == expected.bytes);
    if is_same {
        return Ok(());
    }
    let failure = Failure::new(
        Code::COLLECTION_UUID_MISMATCH,
        "Collection UUID does not match",
    );
    let uuid = Bson::Binary(bson::Binary {
        subtype: expected.subtype,
        bytes: expected.bytes.to_vec(),
    });
    Err(failure
        .with("db", namespace.database())
        .with("collectionUUID", uuid)
        .with("expectedCollection", namespace.collection())
        .with("actualCollection", Bson::Null))
}

/// Documents are placed by what they are, not by what collates alike: a collection with a collation
/// is only sharded by someone who says so.
async fn check_collation(
    service: &Service,
    namespace: &Namespace,
    fields: &Fields<'_>,
) -> Result<()> {
    let asked = fields
        .document("collation")
        .map(Document::try_from)
        .transpose()?;
    if let Some(asked) = asked {
        if Collation::parse(&asked)?.is_simple() {
            return Ok(());
        }
        return Err(bad_value("the collation of a shard key must be {locale: 'simple'}").into());
    }
    let current = Current::load(service, namespace).await?;
    if current.is_some_and(|current| !current.collection.collation.is_simple()) {
        let message = format!(
            "{namespace} has a default collation: pass collation: {{locale: 'simple'}} to place \
             its documents without it"
        );
        return Err(bad_value(message).into());
    }
    Ok(())
}
