//! `collStats`, `dbStats` and `dataSize`: sizes and counts.

use bson::{Bson, Document, doc};
use tessera_core::Transaction;
use tessera_mongo_language::error::{Code, bad_value};

use crate::API;
use crate::access::{Access, Action, Need};
use crate::collection::{Collection, Namespace};
use crate::command::Command;
use crate::data::Data;
use crate::failure::{Failure, Result};
use crate::fields::{BOOL_OR_NUMBER, DOCUMENT, Field, Fields, NUMBER, optional};
use crate::reply::Reply;
use crate::request::Request;
use crate::service::Service;
use crate::session::Session;
use crate::write::target::{Target, on_view};

pub(crate) const COMMANDS: &[Command] = &[
    Command::new(
        "collStats",
        "Returns the size of a collection.",
        Access::Collection(&[Action::CollStats]),
        |service, session, request| Box::pin(coll_stats(service, session, request)),
    )
    .also(&["collstats"]),
    Command::new(
        "dbStats",
        "Returns the size of a database.",
        Access::Database(&[Action::DbStats]),
        |service, session, request| Box::pin(db_stats(service, session, request)),
    )
    .also(&["dbstats"]),
    Command::new(
        "dataSize",
        "Returns the size of a range of documents.",
        Access::Decide(needs_to_measure),
        |service, session, request| Box::pin(data_size(service, session, request)),
    )
    .also(&["datasize"]),
];

const COLL_STATS: &[Field] = &[
    optional("scale", NUMBER),
    optional("verbose", BOOL_OR_NUMBER),
];
const DB_STATS: &[Field] = &[optional("scale", NUMBER), optional("freeStorage", NUMBER)];
const DATA_SIZE: &[Field] = &[
    optional("keyPattern", DOCUMENT),
    optional("min", DOCUMENT),
    optional("max", DOCUMENT),
    optional("estimate", BOOL_OR_NUMBER),
];
fn needs_to_measure(request: &Request<'_>) -> Result<Vec<Need>> {
    let namespace = Namespace::parse(request.argument().as_str().unwrap_or_default())?;
    let (database, collection) = (namespace.database(), namespace.collection());
    Ok(vec![Need::on_collection(
        Action::Find,
        database,
        collection,
    )])
}

/// How much a collection holds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Size {
    pub(crate) count: i64,
    pub(crate) bytes: i64,
    pub(crate) on_disk: i64,
    pub(crate) indexes: Vec<(String, i64)>,
}

impl Size {
    /// What is known of a collection's size.
    pub(crate) async fn of(
        data: &Data,
        transaction: &Transaction,
        target: &Target,
    ) -> Result<Self> {
        let statistics = transaction.statistics(&target.container).await?;
        let mut size = Self::default();
        for partition in &statistics {
            size.count += partition.tally.items;
            size.bytes += partition.tally.bytes;
        }
        let storage = target.container.storage();
        let range = tessera_core::key::items(storage);
        let on_disk = data.store.engine().approximate_size(&range).await;
        size.on_disk = signed(on_disk.map_err(tessera_core::Error::from)?);
        size.indexes
            .push((target.collection.id_index.name.clone(), size.count * 16));
        for (spec, id, _) in target.collection.live_indexes(&target.container.definition) {
            let range = tessera_core::key::index(storage, id);
            let bytes = data.store.engine().approximate_size(&range).await;
            let bytes = bytes.map_err(tessera_core::Error::from)?;
            size.indexes.push((spec.name.clone(), signed(bytes)));
        }
        Ok(size)
    }

    fn index_bytes(&self) -> i64 {
        self.indexes.iter().map(|(_, bytes)| bytes).sum()
    }

    /// As `collStats` shows it.
    pub(crate) fn shown(&self, collection: &Collection, scale: i64) -> Document {
        let scaled = |bytes: i64| number(bytes / scale);
        let mut shown = doc! {
            "size": scaled(self.bytes),
            "count": number(self.count),
            "numOrphanDocs": 0,
            "storageSize": scaled(self.on_disk),
            "freeStorageSize": 0,
            "capped": collection.capped.is_some(),
            "nindexes": i32::try_from(self.indexes.len()).unwrap_or(i32::MAX),
            "indexBuilds": [],
            "totalIndexSize": scaled(self.index_bytes()),
            "totalSize": scaled(self.on_disk + self.index_bytes()),
            "indexSizes": self.indexes.iter()
                .map(|(name, bytes)| (name.clone(), scaled(*bytes)))
                .collect::<Document>(),
            "scaleFactor": number(scale),
        };
        if self.count > 0 {
            shown.insert("avgObjSize", number(self.bytes / self.count));
        }
        if let Some(capped) = collection.capped {
            shown.insert("max", number(capped.max.unwrap_or(0)));
            shown.insert("maxSize", scaled(capped.size));
        }
        shown
    }
}

/// The factor by which sizes are divided.
pub(crate) fn scale(fields: &Fields<'_>) -> Result<i64> {
    match fields.integer("scale") {
        None => Ok(1),
        Some(scale) if scale > 0 => Ok(scale),
        Some(scale) => Err(bad_value(format!(
            "BSON field 'scale' value must be >= 1, actual value '{scale}'"
        ))
        .into()),
    }
}

async fn coll_stats(
    service: &Service,
    _session: &mut Session,
    request: &Request<'_>,
) -> Result<Reply> {
    let namespace = Namespace::new(request.database, request.collection()?)?;
    let fields = Fields::of(request, COLL_STATS)?;
    let scale = scale(&fields)?;
    let mut transaction = service.store.begin().await?;
    let target = Target::find(&service.data, &mut transaction, &namespace).await?;
    let mut reply = doc! { "ns": namespace.to_string() };
    match target {
        Some(target) if target.collection.view.is_some() => return Err(on_view(&namespace)),
        Some(target) => {
            let size = Size::of(&service.data, &transaction, &target).await?;
            reply.extend(size.shown(&target.collection, scale));
        }
        None => {
            let none = Collection::new(Document::new())?;
            let mut shown = Size::default().shown(&none, scale);
            shown.remove("capped");
            shown.remove("numOrphanDocs");
            reply.extend(shown);
        }
    }
    Ok(reply.into())
}

async fn db_stats(
    service: &Service,
    _session: &mut Session,
    request: &Request<'_>,
) -> Result<Reply> {
    let fields = Fields::of(request, DB_STATS)?;
    let scale = scale(&fields)?;
    let (mut collections, mut views, mut indexes) = (0, 0, 0);
    let mut total = Size::default();
    let mut index_bytes = 0;
    let mut transaction = service.store.begin().await?;
    for name in service
        .store
        .list_containers(API, Some(request.database))
        .await?
    {
        let namespace = Namespace::unchecked(&name.database, &name.container);
        let target = Target::readable(&service.data, &mut transaction, &namespace).await?;
        let Some(target) = target else {
            continue;
        };
        if target.collection.view.is_some() {
            views += 1;
            continue;
        }
        let size = Size::of(&service.data, &transaction, &target).await?;
        collections += 1;
        indexes += size.indexes.len();
        total.count += size.count;
        total.bytes += size.bytes;
        total.on_disk += size.on_disk;
        index_bytes += size.index_bytes();
    }
    let scaled = |bytes: i64| decimal(bytes) / decimal(scale);
    let average = if total.count > 0 {
        decimal(total.bytes) / decimal(total.count)
    } else {
        0.0
    };
    let reply = doc! {
        "db": request.database,
        "collections": i64::from(collections),
        "views": i64::from(views),
        "objects": total.count,
        "avgObjSize": average,
        "dataSize": scaled(total.bytes),
        "storageSize": scaled(total.on_disk),
        "indexes": i64::try_from(indexes).unwrap_or(i64::MAX),
        "indexSize": scaled(index_bytes),
        "totalSize": scaled(total.on_disk + index_bytes),
        "scaleFactor": scale,
        "fsUsedSize": 0.0,
        "fsTotalSize": 0.0,
    };
    Ok(reply.into())
}

async fn data_size(
    service: &Service,
    _session: &mut Session,
    request: &Request<'_>,
) -> Result<Reply> {
    let Some(full) = request.argument().as_str() else {
        let message = "dataSize must be given the full name of a collection";
        return Err(Failure::new(Code::INVALID_NAMESPACE, message));
    };
    let fields = Fields::of(request, DATA_SIZE)?;
    let namespace = Namespace::parse(full)?;
    if fields.get("min").is_some() != fields.get("max").is_some() {
        let message = "min and max must both be given, or neither";
        return Err(bad_value(message).into());
    }
    let began = std::time::Instant::now();
    let mut transaction = service.store.begin().await?;
    let target = Target::find(&service.data, &mut transaction, &namespace).await?;
    let (count, bytes) = match target {
        Some(target) => {
            let size = Size::of(&service.data, &transaction, &target).await?;
            (size.count, size.bytes)
        }
        None => (0, 0),
    };
    let reply = doc! {
        "size": bytes,
        "numObjects": count,
        "millis": i32::try_from(began.elapsed().as_millis()).unwrap_or(i32::MAX),
        "estimate": fields.bool("estimate").unwrap_or(false),
    };
    Ok(reply.into())
}

fn number(number: i64) -> Bson {
    i32::try_from(number).map_or(Bson::Int64(number), Bson::Int32)
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[expect(clippy::cast_precision_loss, reason = "sizes are shown as doubles")]
fn decimal(number: i64) -> f64 {
    number as f64
}
