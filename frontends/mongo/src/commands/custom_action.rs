//! `customAction` of Cosmos DB: creates collections with throughput, changes and reads it.

use bson::{Bson, Document, doc};
use tessera_core::provisioning::Throughput;
use tessera_core::throughput::{PARTITION_MAX_RUS, partitions_for};
use tessera_mongo_language::error::{Code, bad_value, failed_to_parse};

use crate::API;
use crate::access::{Access, Action, Need};
use crate::collection::{Collection, Namespace, check_database};
use crate::command::Command;
use crate::failure::{Failure, Result};
use crate::fields::{ARRAY, DOCUMENT, Field, Fields, NUMBER, STRING, optional, required};
use crate::index::{IndexSpec, build};
use crate::reply::Reply;
use crate::request::Request;
use crate::service::Service;
use crate::sharding;
use crate::write::target::{self, Target};

pub(crate) const COMMANDS: &[Command] = &[Command::new(
    "customAction",
    "Creates, changes and shows collections and databases with throughput, as Cosmos DB does.",
    Access::Decide(needs),
    |service, _, request| Box::pin(custom_action(service, request)),
)
.writes()];

/// On the collection that an action names, or on the database.
fn needs(request: &Request<'_>) -> Result<Vec<Need>> {
    const ACTIONS: [Action; 2] = [Action::CreateCollection, Action::CollMod];
    let (database, name) = (request.database, request.body.get("collection")?);
    let need = |action| match name.and_then(|name| name.as_str()) {
        Some(name) => Need::on_collection(action, database, name),
        None => Need::on_database(action, database),
    };
    let mut needs: Vec<Need> = ACTIONS.map(need).into();
    if request.is_on("indexes") {
        needs.push(need(Action::CreateIndex));
    }
    Ok(needs)
}

/// One action.
struct CustomAction {
    name: &'static str,
    run: for<'a> fn(
        &'a Service,
        &'a Request<'a>,
    ) -> tessera_core::engine::BoxFuture<'a, Result<Reply>>,
}

const ACTIONS: &[CustomAction] = &[
    CustomAction {
        name: "CreateCollection",
        run: |service, request| Box::pin(create(service, request)),
    },
    CustomAction {
        name: "UpdateCollection",
        run: |service, request| Box::pin(update(service, request)),
    },
    CustomAction {
        name: "GetCollection",
        run: |service, request| Box::pin(show(service, request)),
    },
    CustomAction {
        name: "CreateDatabase",
        run: |service, request| Box::pin(change_database(service, request)),
    },
    CustomAction {
        name: "UpdateDatabase",
        run: |service, request| Box::pin(change_database(service, request)),
    },
    CustomAction {
        name: "GetDatabase",
        run: |service, request| Box::pin(show_database(service, request)),
    },
];

async fn custom_action(service: &Service, request: &Request<'_>) -> Result<Reply> {
    let name = request.collection()?;
    let Some(action) = ACTIONS
        .iter()
        .find(|action| action.name.eq_ignore_ascii_case(name))
    else {
        let known: Vec<&str> = ACTIONS.iter().map(|action| action.name).collect();
        let message = format!(
            "there is no customAction '{name}'; there is {}",
            known.join(", ")
        );
        return Err(bad_value(message).into());
    };
    (action.run)(service, request).await
}

const SETTINGS: &[Field] = &[optional("maxThroughput", NUMBER)];

async fn create(service: &Service, request: &Request<'_>) -> Result<Reply> {
    const FIELDS: &[Field] = &[
        required("collection", STRING),
        optional("offerThroughput", NUMBER),
        optional("autoScaleSettings", DOCUMENT),
        optional("shardKey", STRING),
        optional("indexes", ARRAY),
    ];
    let fields = Fields::of(request, FIELDS)?;
    let namespace = Namespace::new(
        request.database,
        fields.str("collection").unwrap_or_default(),
    )?;
    namespace.check_creatable()?;
    let throughput = throughput(&fields)?;
    check_shard_key(throughput, fields.str("shardKey").is_some())?;
    let collection = Collection::new(Document::new())?;
    let indexes = indexes(request, &collection)?;
    match fields.str("shardKey") {
        Some(path) => {
            // As many as the throughput needs: each has an even share of it.
            let partitions = partitions_for(throughput.map(Throughput::units));
            create_sharded(service, &namespace, (path, partitions)).await?;
        }
        None => {
            let transactions = &service.data.transactions;
            let mut scope = transactions.scope(service, request).await?;
            target::create(&service.data, &mut scope, &namespace, &collection).await?;
            scope.succeed();
        }
    }
    build::build(&service.data, &namespace, indexes).await?;
    if throughput.is_some() {
        service
            .store
            .provision(&namespace.container, throughput)
            .await?;
    }
    Ok(Reply::ok())
}

async fn create_sharded(
    service: &Service,
    namespace: &Namespace,
    placement: (&str, u32),
) -> Result<()> {
    let mut transaction = service.store.begin().await?;
    if Target::find(&service.data, &mut transaction, namespace)
        .await?
        .is_some()
    {
        let message = format!("Collection {namespace} already exists.");
        return Err(Failure::new(Code::NAMESPACE_EXISTS, message));
    }
    sharding::shard_by_hash(service, namespace, placement).await
}

fn indexes(request: &Request<'_>, collection: &Collection) -> Result<Vec<IndexSpec>> {
    let mut specs = Vec::new();
    for spec in request.documents("indexes")?.unwrap_or_default() {
        let spec = super::asked::owned(spec)?;
        // Every collection has it; clients that list all indexes name it, too.
        if spec
            .get_document("key")
            .is_ok_and(|key| key.keys().eq(["_id"]))
        {
            continue;
        }
        specs.push(IndexSpec::parse(&spec, &collection.collation)?);
    }
    Ok(specs)
}

async fn update(service: &Service, request: &Request<'_>) -> Result<Reply> {
    const FIELDS: &[Field] = &[
        required("collection", STRING),
        optional("offerThroughput", NUMBER),
        optional("autoScaleSettings", DOCUMENT),
        optional("indexes", ARRAY),
    ];
    let fields = Fields::of(request, FIELDS)?;
    let target = existing(service, request, &fields).await?;
    let asked = indexes(request, &target.collection)?;
    let missing = asked.into_iter().filter(|spec| {
        let mut known = target.collection.indexes.iter();
        !known.any(|index| index.key == spec.key)
    });
    let throughput = throughput(&fields)?;
    check_shard_key(throughput, target.collection.shard_key.is_some())?;
    build::build(&service.data, &target.namespace, missing.collect()).await?;
    if let Some(throughput) = throughput {
        let container = &target.namespace.container;
        service.store.provision(container, Some(throughput)).await?;
    }
    Ok(Reply::ok())
}

async fn show(service: &Service, request: &Request<'_>) -> Result<Reply> {
    const FIELDS: &[Field] = &[required("collection", STRING)];
    let fields = Fields::of(request, FIELDS)?;
    let target = existing(service, request, &fields).await?;
    let mut reply = doc! {
        "database": request.database,
        "collection": fields.str("collection").unwrap_or_default(),
    };
    if let Some(shard_key) = &target.collection.shard_key {
        let paths = shard_key.paths.iter();
        let definition: Document = paths
            .map(|path| (path.clone(), Bson::from("hash")))
            .collect();
        reply.insert("shardKeyDefinition", definition);
    }
    show_throughput(&mut reply, Throughput::of(&target.container.definition));
    Ok(reply.into())
}

/// Of what scales, Cosmos DB shows a tenth as there at all times.
fn show_throughput(reply: &mut Document, throughput: Option<Throughput>) {
    match throughput {
        Some(Throughput::Manual(units)) => {
            reply.insert("provisionedThroughput", number(units));
        }
        Some(Throughput::Autoscale(units)) => {
            reply.insert("provisionedThroughput", number(units / 10));
            reply.insert("autoScaleSettings", doc! { "maxThroughput": number(units) });
        }
        None => {}
    }
}

fn number(units: u32) -> i32 {
    i32::try_from(units).unwrap_or(i32::MAX)
}

/// Databases come into being with their first collection. What there can be before is throughput
/// that their collections share.
async fn change_database(service: &Service, request: &Request<'_>) -> Result<Reply> {
    const FIELDS: &[Field] = &[
        optional("offerThroughput", NUMBER),
        optional("autoScaleSettings", DOCUMENT),
    ];
    let fields = Fields::of(request, FIELDS)?;
    check_database(request.database)?;
    let throughput = throughput(&fields)?;
    if throughput.is_some() {
        let store = &service.store;
        store
            .provision_database(API, request.database, throughput)
            .await?;
    }
    Ok(Reply::ok())
}

async fn show_database(service: &Service, request: &Request<'_>) -> Result<Reply> {
    Fields::of(request, &[])?;
    let mut reply = doc! { "database": request.database };
    let shared = service.store.database_throughput(API, request.database);
    show_throughput(&mut reply, shared.await?);
    Ok(reply.into())
}

async fn existing(service: &Service, request: &Request<'_>, fields: &Fields<'_>) -> Result<Target> {
    let name = fields.str("collection").unwrap_or_default();
    let namespace = Namespace::new(request.database, name)?;
    let mut transaction = service.store.begin().await?;
    let target = Target::find(&service.data, &mut transaction, &namespace).await?;
    target.ok_or_else(|| {
        let message = format!("Collection {namespace} does not exist.");
        Failure::new(Code::NAMESPACE_NOT_FOUND, message)
    })
}

/// Without a shard key all is in one physical partition, which has no more than so much.
fn check_shard_key(throughput: Option<Throughput>, is_sharded: bool) -> Result<()> {
    let units = throughput.map_or(0, Throughput::units);
    if is_sharded || units <= PARTITION_MAX_RUS {
        return Ok(());
    }
    let message = format!("throughput beyond {PARTITION_MAX_RUS} RU/s needs a shardKey");
    Err(bad_value(message).into())
}

/// The throughput that is asked for. Cosmos DB takes one of both forms.
fn throughput(fields: &Fields<'_>) -> Result<Option<Throughput>> {
    let settings = fields.document("autoScaleSettings");
    let settings = settings
        .map(|settings| Fields::of_document("autoScaleSettings", settings, SETTINGS))
        .transpose()?;
    let scaled = settings.and_then(|settings| settings.integer("maxThroughput"));
    let asked = match (fields.integer("offerThroughput"), scaled) {
        (None, None) => return Ok(None),
        (Some(_), Some(_)) => {
            let message = "offerThroughput and autoScaleSettings cannot both be given";
            return Err(failed_to_parse(message).into());
        }
        (Some(units), None) => Throughput::manual(u32::try_from(units).unwrap_or(u32::MAX)),
        (None, Some(units)) => Throughput::autoscale(u32::try_from(units).unwrap_or(u32::MAX)),
    };
    asked
        .map(Some)
        .map_err(|error| bad_value(error.to_string()).into())
}
