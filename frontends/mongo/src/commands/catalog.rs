//! `listCollections` and `listDatabases`, with filters.

use std::collections::BTreeMap;

use bson::{Bson, Document, doc};
use tessera_core::name::ContainerName;
use tessera_core::{Error as CoreError, Transaction};
use tessera_mongo_language::collation::Collation;
use tessera_mongo_language::filter::Filter;

use crate::API;
use crate::access::{self, Access, Action, Need};
use crate::auth::login::Identity;
use crate::collection::{Collection, Namespace};
use crate::command::Command;
use crate::commands::asked;
use crate::failure::{Failure, Result};
use crate::fields::{BOOL, BOOL_OR_NUMBER, DOCUMENT, Field, Fields, optional};
use crate::listing;
use crate::reply::Reply;
use crate::request::Request;
use crate::service::Service;
use crate::session::Session;
use crate::sharding::config;

pub(crate) const COMMANDS: &[Command] = &[
    Command::new(
        "listCollections",
        "Lists the collections and views of a database.",
        Access::Judge(may_list_collections),
        |service, session, request| Box::pin(list_collections(service, session, request)),
    )
    .stable(),
    Command::new(
        "listDatabases",
        "Lists the databases.",
        // Everybody sees the databases in which they may do something.
        Access::Authenticated,
        |service, session, request| Box::pin(list_databases(service, session, request)),
    )
    .admin_only()
    .stable(),
];

const COLLECTIONS: &[Field] = &[
    optional("filter", DOCUMENT),
    optional("nameOnly", BOOL),
    optional("authorizedCollections", BOOL),
    optional("cursor", DOCUMENT),
];

const DATABASES: &[Field] = &[
    optional("filter", DOCUMENT),
    optional("nameOnly", BOOL_OR_NUMBER),
    optional("authorizedDatabases", BOOL),
];

/// The names of the collections on which they may do something are for everybody who asks for no
/// more.
fn may_list_collections(request: &Request<'_>, user: &Identity) -> Result<bool> {
    let database = request.database;
    let modest = request.is_on("authorizedCollections") && request.is_on("nameOnly");
    Ok(
        user.may(&Need::on_database(Action::ListCollections, database))
            || (modest && user.reaches_database(database)),
    )
}

/// Containers that are read in one step.
const STEP: usize = 1_000;

async fn list_collections(
    service: &Service,
    session: &Session,
    request: &Request<'_>,
) -> Result<Reply> {
    let fields = Fields::of(request, COLLECTIONS)?;
    let only_authorized = fields.bool("authorizedCollections").unwrap_or(false);
    let filter = filter(service, &fields)?;
    let name_only = fields.bool("nameOnly").unwrap_or(false);
    let size = listing::batch_size(fields.document("cursor"))?;
    let mut found = Vec::new();
    let mut from = String::new();
    let lists_all = fields
        .document("filter")
        .is_none_or(|filter| filter.is_empty());
    let is_own = |name: &str| {
        let all = !(only_authorized && name_only);
        all || session.may(|user| user.reaches_collection(request.database, name))
    };
    let is_listed =
        |name: &str| (!lists_all || !config::is_unlisted(service, name)) && is_own(name);
    for name in config::names(request.database).filter(|name| is_listed(name)) {
        let mut shown = doc! { "name": name, "type": "collection" };
        if !name_only {
            shown.insert("options", Document::new());
            shown.insert("info", doc! { "readOnly": true });
        }
        if filter.matches(&shown)? {
            found.push(shown);
        }
    }
    loop {
        let database = request.database;
        let page = service
            .store
            .describe_containers(API, database, &from, STEP)
            .await?;
        let is_last = page.len() < STEP;
        for (name, definition) in page {
            from = format!("{}\0", name.container);
            let namespace = Namespace::unchecked(database, &name.container);
            let in_config = database == config::DATABASE;
            if config::is_computed(&namespace) || in_config && !is_listed(&name.container) {
                continue;
            }
            if !is_own(&name.container) {
                continue;
            }
            let read = definition.map_err(Failure::from);
            let read = read.and_then(|it| Ok(service.data.collections.of(&it)?));
            let mut shown = doc! { "name": name.container };
            match read {
                Ok(collection) => show(&mut shown, &collection, name_only),
                Err(failure) => show_damaged(&mut shown, &failure, name_only),
            }
            if filter.matches(&shown)? {
                found.push(shown);
            }
        }
        if is_last {
            break;
        }
    }
    let namespace = format!("{}.$cmd.listCollections", request.database);
    listing::reply(&service.data, request, (&namespace, found), size)
}

/// What is shown of a collection behind its name. A filter sees no more than the client will.
fn show(shown: &mut Document, collection: &Collection, name_only: bool) {
    shown.insert("type", collection.kind());
    if name_only {
        return;
    }
    shown.insert("options", collection.options.clone());
    if collection.view.is_some() {
        shown.insert("info", doc! { "readOnly": true });
        return;
    }
    let info = doc! { "readOnly": false, "uuid": collection.uuid_bson() };
    shown.insert("info", info);
    let mut id_index = collection.id_index.document.clone();
    id_index.remove("clustered");
    if !collection.options.contains_key("clusteredIndex") {
        shown.insert("idIndex", id_index);
    }
}

/// A collection whose definition cannot be read is there, and can be dropped.
fn show_damaged(shown: &mut Document, failure: &Failure, name_only: bool) {
    shown.insert("type", "collection");
    if !name_only {
        shown.insert("options", Document::new());
        let damage = failure.error.message.as_str();
        shown.insert("info", doc! { "readOnly": true, "damaged": damage });
    }
}

fn filter(service: &Service, fields: &Fields<'_>) -> Result<Filter> {
    let context = asked::context(service, Collation::default(), None)?;
    Ok(Filter::parse(&asked::query(fields, "filter")?, &context)?)
}

async fn list_databases(
    service: &Service,
    session: &mut Session,
    request: &Request<'_>,
) -> Result<Reply> {
    let fields = Fields::of(request, DATABASES)?;
    let filter = filter(service, &fields)?;
    let name_only = fields.bool("nameOnly").unwrap_or(false);
    let may_see_all = session.may(|user| user.may(&Need::on_cluster(Action::ListDatabases)));
    let only_authorized = fields.bool("authorizedDatabases");
    if !may_see_all && only_authorized == Some(false) {
        return Err(access::refused(request));
    }
    let only_authorized = only_authorized.unwrap_or(!may_see_all);
    let mut by_database: BTreeMap<String, Vec<ContainerName>> = BTreeMap::new();
    for name in ["admin", "config", "local"] {
        by_database.insert(name.to_owned(), Vec::new());
    }
    for name in service.store.list_containers(API, None).await? {
        by_database
            .entry(name.database.clone())
            .or_default()
            .push(name);
    }
    let mut transaction = service.store.begin().await?;
    let (mut databases, mut total) = (Vec::new(), 0);
    for (database, names) in by_database {
        if only_authorized && !session.may(|user| user.reaches_database(&database)) {
            continue;
        }
        let mut shown = doc! { "name": database };
        if !name_only {
            let size = size_of(&mut transaction, &names).await?;
            shown.insert("sizeOnDisk", size);
            shown.insert("empty", size == 0);
            total += size;
        }
        if filter.matches(&shown)? {
            databases.push(Bson::Document(shown));
        }
    }
    session.spent(transaction.meter());
    let mut reply = doc! { "databases": databases };
    if !name_only {
        reply.insert("totalSize", total);
        reply.insert("totalSizeMb", total / (1024 * 1024));
    }
    Ok(reply.into())
}

/// The bytes of the documents of some collections. Of one whose definition is damaged they are not
/// known.
pub(crate) async fn size_of(transaction: &mut Transaction, names: &[ContainerName]) -> Result<i64> {
    let mut size = 0;
    for name in names {
        let container = match transaction.container(name).await {
            Err(CoreError::NotFound(_) | CoreError::Corrupt(_)) => continue,
            container => container?,
        };
        let statistics = transaction.statistics(&container).await?;
        size += statistics
            .iter()
            .map(|partition| partition.tally.bytes)
            .sum::<i64>();
    }
    Ok(size)
}
