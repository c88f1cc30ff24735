//! `convertToCapped`, `cloneCollectionAsCapped` and `compact`: copies of collections in another
//! form.

use std::sync::Arc;

use bson::{Bson, Document, RawBsonRef, doc};
use tessera_core::Error as CoreError;
use tessera_core::reading::{PageRequest, Span};
use tessera_mongo_language::error::{Code, Error, bad_value, type_mismatch};

use crate::access::{Access, Action, Need};
use crate::collection::{Collection, Namespace};
use crate::command::Command;
use crate::commands::asked;
use crate::data::Data;
use crate::failure::{Failure, Result};
use crate::fields::{BOOL, Field, Fields, NUMBER, STRING, optional, required};
use crate::reply::Reply;
use crate::request::Request;
use crate::service::Service;
use crate::session::Session;
use crate::sharding::config;
use crate::transaction::Scope;
use crate::write::document::NewDocument;
use crate::write::store;
use crate::write::target::{self, Target, on_view};

pub(crate) const COMMANDS: &[Command] = &[
    Command::new(
        "convertToCapped",
        "Converts a collection to a capped one.",
        Access::Collection(&[Action::ConvertToCapped]),
        |service, session, request| Box::pin(convert(service, session, request)),
    )
    .writes(),
    Command::new(
        "cloneCollectionAsCapped",
        "Copies a collection into a capped one.",
        Access::Decide(needs_to_clone),
        |service, session, request| Box::pin(clone(service, session, request)),
    )
    .writes(),
    Command::new(
        "compact",
        "Releases unused space of a collection; the server does so by itself.",
        Access::Collection(&[Action::Compact]),
        |service, session, request| Box::pin(compact(service, session, request)),
    ),
    Command::new(
        "validateDBMetadata",
        "Checks collections against a version of the stable API.",
        Access::Decide(needs_of_metadata),
        |service, session, request| Box::pin(validate_metadata(service, session, request)),
    ),
];

const COMPACT: &[Field] = &[
    optional("dryRun", BOOL),
    optional("force", BOOL),
    optional("freeSpaceTargetMB", NUMBER),
];
const METADATA: &[Field] = &[
    required("apiParameters", crate::fields::DOCUMENT),
    optional("db", STRING),
    optional("collection", STRING),
];

fn needs_to_clone(request: &Request<'_>) -> Result<Vec<Need>> {
    const TO: [Action; 3] = [Action::Insert, Action::CreateIndex, Action::ConvertToCapped];
    let (database, from) = (request.database, request.collection()?);
    let to = request.body.get("toCollection")?;
    let to = to.and_then(|to| to.as_str()).unwrap_or_default();
    let mut needs = vec![Need::on_collection(Action::Find, database, from)];
    needs.extend(TO.map(|action| Need::on_collection(action, database, to)));
    Ok(needs)
}

/// Of all databases unless it names one, or a collection of it.
fn needs_of_metadata(request: &Request<'_>) -> Result<Vec<Need>> {
    let fields = Fields::of(request, METADATA)?;
    let validate = Action::Validate;
    Ok(vec![match (fields.str("db"), fields.str("collection")) {
        (Some(database), Some(name)) => Need::on_collection(validate, database, name),
        (Some(database), None) => Need::on_database(validate, database),
        (None, _) => Need::on_any_database(validate),
    }])
}

/// The most bytes of a capped collection.
const MAX_BYTES: i64 = 1 << 50;
/// Documents that are copied in one step.
const STEP: usize = 200;

/// The size that a command asks for. These commands are older than strict fields.
fn size(request: &Request<'_>) -> Result<i64> {
    let size = request.body.get("size")?;
    let size = size.filter(|size| crate::fields::float(*size).is_some());
    let size = size.map_or(0, asked::rounded);
    if size <= 0 {
        let message = "the capped size must be at least 1";
        return Err(Failure::new(Code::INVALID_OPTIONS, message));
    }
    if size > MAX_BYTES {
        return Err(bad_value(format!("the capped size {size} is more than {MAX_BYTES}")).into());
    }
    Ok(size)
}

async fn source(service: &Service, namespace: &Namespace) -> Result<Target> {
    let mut transaction = service.store.begin().await?;
    let found = Target::find(&service.data, &mut transaction, namespace).await?;
    match found {
        None => {
            let message = format!("source collection {namespace} does not exist");
            Err(Failure::new(Code::NAMESPACE_NOT_FOUND, message))
        }
        Some(target) if target.collection.view.is_some() => Err(on_view(namespace)),
        Some(target) => Ok(target),
    }
}

async fn convert(
    service: &Service,
    _session: &mut Session,
    request: &Request<'_>,
) -> Result<Reply> {
    let name = request.collection()?;
    if name.starts_with('.') {
        let message = format!("Invalid namespace specified '{}.{name}'", request.database);
        return Err(Failure::new(Code::INVALID_NAMESPACE, message));
    }
    let namespace = Namespace::unchecked(request.database, name);
    config::check_write(&namespace)?;
    let size = size(request)?;
    let _changing = service.data.lock_schema(&namespace).await;
    let source = source(service, &namespace).await?;
    let unique = bson::Uuid::new();
    let temporary = namespace.sibling(&format!("tmp.convertToCapped.{unique}"));
    copy(&service.data, &source, &temporary, size).await?;
    let store = &service.store;
    let replaced = store.replace_container(&temporary.container, &namespace.container);
    if let Err(error) = replaced.await {
        drop_quietly(&service.data, &temporary).await?;
        return Err(error.into());
    }
    Ok(Reply::ok())
}

async fn clone(service: &Service, _session: &mut Session, request: &Request<'_>) -> Result<Reply> {
    let RawBsonRef::String(from) = request.argument() else {
        let found = crate::fields::type_name(request.argument().element_type());
        let message = format!("the collection's name is of type {found}, expected a string");
        return Err(type_mismatch(message).into());
    };
    let to = match request.body.get("toCollection")? {
        Some(RawBsonRef::String(to)) => to,
        None => "",
        Some(other) => {
            let found = crate::fields::type_name(other.element_type());
            let message = format!("toCollection is of type {found}, expected a string");
            return Err(type_mismatch(message).into());
        }
    };
    let from = Namespace::new(request.database, from)?;
    let to = Namespace::new(request.database, to)?;
    to.check_creatable()?;
    config::check_write(&to)?;
    let size = size(request)?;
    let source = source(service, &from).await?;
    let mut transaction = service.store.begin().await?;
    if Target::find(&service.data, &mut transaction, &to)
        .await?
        .is_some()
    {
        let message =
            format!("cloneCollectionAsCapped failed - destination collection {to} already exists");
        return Err(Failure::new(Code::NAMESPACE_EXISTS, message));
    }
    copy(&service.data, &source, &to, size).await?;
    Ok(Reply::ok())
}

/// Copies documents in their order into a new capped collection, where the last ones stay.
async fn copy(data: &Data, source: &Target, to: &Namespace, size: i64) -> Result<()> {
    let mut options = Document::new();
    options.insert("capped", true);
    options.insert(
        "size",
        i32::try_from(size).map_or(Bson::Int64(size), Bson::Int32),
    );
    let collection = Collection::new(options)?;
    target::create(data, &mut Scope::Alone, to, &collection).await?;
    let mut continuation = None;
    loop {
        let mut transaction = data.store.begin().await?;
        let container = transaction.container(&source.namespace.container).await?;
        let request = PageRequest {
            max_items: STEP,
            continuation: continuation.take(),
            ..PageRequest::default()
        };
        let page = transaction.scan(&container, &Span::All, &request).await?;
        for item in page.items {
            insert(data, to, &item.body).await?;
        }
        match page.continuation {
            None => return Ok(()),
            next => continuation = next,
        }
    }
}

async fn insert(data: &Data, to: &Namespace, body: &bytes::Bytes) -> Result<()> {
    let raw = bson::RawDocument::from_bytes(body)?;
    let id = raw
        .get("_id")?
        .map(Bson::try_from)
        .transpose()?
        .unwrap_or(Bson::Null);
    let document = Arc::new(NewDocument {
        id,
        body: body.clone(),
    });
    let (handle, to) = (data.clone(), to.clone());
    data.store
        .run(&[], move |transaction| {
            let (data, to, document) = (handle.clone(), to.clone(), Arc::clone(&document));
            Box::pin(async move {
                let Some(target) = Target::for_write(&data, transaction, &to).await? else {
                    return Err(CoreError::NotFound(to.to_string()).into());
                };
                store::insert(&data, transaction, &target, &document, true).await?;
                Ok::<_, Failure>(())
            })
        })
        .await?;
    Ok(())
}

async fn drop_quietly(data: &Data, namespace: &Namespace) -> Result<()> {
    match data.store.drop_container(&namespace.container).await {
        Ok(()) | Err(CoreError::NotFound(_)) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

async fn compact(
    service: &Service,
    _session: &mut Session,
    request: &Request<'_>,
) -> Result<Reply> {
    let name = request.collection()?;
    if name.starts_with('.') {
        let message = format!("Invalid namespace specified '{}.{name}'", request.database);
        return Err(Failure::new(Code::INVALID_NAMESPACE, message));
    }
    let fields = Fields::of(request, COMPACT)?;
    if let Some(target) = fields.get("freeSpaceTargetMB")
        && crate::fields::float(target).is_none_or(|megabytes| megabytes < 1.0)
    {
        let message = "BSON field 'freeSpaceTargetMB' value must be >= 1";
        return Err(bad_value(message).into());
    }
    source(service, &Namespace::unchecked(request.database, name)).await?;
    let mut reply = Document::new();
    if fields.bool("dryRun").unwrap_or(false) {
        reply.insert("estimatedBytesFreed", 0);
    } else {
        reply.insert("bytesFreed", 0);
    }
    Ok(reply.into())
}

async fn validate_metadata(
    _service: &Service,
    _session: &mut Session,
    request: &Request<'_>,
) -> Result<Reply> {
    const PARAMETERS: &[Field] = &[
        required("version", STRING),
        optional("strict", BOOL),
        optional("deprecationErrors", BOOL),
    ];
    let fields = Fields::of(request, METADATA)?;
    if let Some(parameters) = fields.document("apiParameters") {
        let path = "validateDBMetadata.apiParameters";
        let parameters = Fields::of_document(path, parameters, PARAMETERS)?;
        if parameters.str("version") != Some("1") {
            let message = "API version must be \"1\"";
            return Err(Error::new(Code::API_VERSION_ERROR, message).into());
        }
    }
    Ok(doc! { "apiVersionErrors": [] }.into())
}
