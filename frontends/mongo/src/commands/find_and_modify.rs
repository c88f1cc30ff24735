//! `findAndModify`: changes one document and returns it, before or after the change.

use std::sync::Arc;

use bson::{Bson, Document, RawBsonRef, doc};
use tessera_mongo_language::error::failed_to_parse;
use tessera_mongo_language::projection::Projection;
use tessera_mongo_language::update::Update;

use crate::access::{Access, Action, Need, writing};
use crate::collection::{Collection, Namespace};
use crate::command::Command;
use crate::commands::asked::{self, CONSTANTS};
use crate::commands::changing::{Changes, Changing};
use crate::commands::repeats;
use crate::commands::statements::{StatementIds, count};
use crate::commands::update::array_filters;
use crate::execute::query::Query;
use crate::failure::Result;
use crate::fields::{ANY, ARRAY, BOOL_OR_NUMBER, DOCUMENT, Field, Fields, NUMBER, optional};
use crate::reply::Reply;
use crate::request::Request;
use crate::service::Service;
use crate::session::Session;
use crate::sharding::config;
use crate::write::change::{Change, Kind};
use crate::write::retry::Numbered;
use crate::write::throttle::Throttle;

pub(crate) const COMMANDS: &[Command] = &[Command::new(
    "findAndModify",
    "Changes or removes one document and returns it.",
    Access::Decide(needs),
    |service, session, request| Box::pin(run(service, session, request)),
)
.also(&["findandmodify"])
.in_transactions()
.retryable()
.writes()
.stable()];

pub(crate) const FIELDS: &[Field] = &[
    optional("query", DOCUMENT),
    optional("sort", DOCUMENT),
    optional("remove", BOOL_OR_NUMBER),
    optional("update", ANY),
    optional("new", BOOL_OR_NUMBER),
    optional("fields", DOCUMENT),
    optional("upsert", BOOL_OR_NUMBER),
    optional("bypassDocumentValidation", BOOL_OR_NUMBER),
    optional("collation", DOCUMENT),
    optional("arrayFilters", ARRAY),
    optional("hint", ANY),
    optional("let", DOCUMENT),
    optional("stmtId", NUMBER),
    optional("sampleId", ANY),
    optional("legacyRuntimeConstants", ANY).refused(51_196, CONSTANTS),
    optional("collectionUUID", ANY),
];

/// It finds, and does what its options say.
fn needs(request: &Request<'_>) -> Result<Vec<Need>> {
    let mut actions = vec![Action::Find];
    match request.is_on("remove") {
        true => actions.push(Action::Remove),
        false => actions.push(Action::Update),
    }
    if request.is_on("upsert") {
        actions.push(Action::Insert);
    }
    writing::needs(request, &actions)
}

/// A change and what its reply is made of.
pub(crate) struct Modification {
    pub(crate) change: Change,
    answers_new: bool,
    projection: Option<Projection>,
}

async fn run(service: &Service, session: &mut Session, request: &Request<'_>) -> Result<Reply> {
    let namespace = Namespace::new(request.database, request.collection()?)?;
    config::check_write(&namespace)?;
    let fields = Fields::of(request, FIELDS)?;
    check(&fields)?;
    let mut scope = service.data.transactions.scope(service, request).await?;
    let collection = Changing::collection(&service.data, &mut scope, &namespace).await?;
    let modification = read(service, &fields, collection.as_deref())?;
    let ids = StatementIds::read_one(&fields);
    let changing = Changing {
        namespace,
        change: Arc::new(modification.change.clone()),
        numbered: Numbered::of(request).map(|numbered| (numbered, ids)),
        keeps_images: true,
    };
    let mut throttle = Throttle::of(session, request);
    let changes = changing
        .run(&service.data, session, &mut scope, &mut throttle)
        .await?;
    scope.succeed();
    let mut reply = modification.reply(&changes)?;
    if changes.retried {
        reply.insert("retriedStmtId", ids);
    }
    Ok(reply.into())
}

/// Refuses options that contradict each other.
fn check(fields: &Fields<'_>) -> Result<()> {
    let flag = |name| fields.bool(name).unwrap_or(false);
    let has_update = fields
        .get("update")
        .is_some_and(|update| update != RawBsonRef::Null);
    let refused = if flag("remove") {
        if has_update {
            "Cannot specify both an update and remove=true"
        } else if flag("upsert") {
            "Cannot specify both upsert=true and remove=true"
        } else if flag("new") {
            "Cannot specify both new=true and remove=true; 'remove' always returns the deleted \
             document"
        } else if fields.get("arrayFilters").is_some() {
            "Cannot specify arrayFilters and remove=true"
        } else {
            return Ok(());
        }
    } else if has_update {
        return Ok(());
    } else {
        "Either an update or remove=true must be specified"
    };
    Err(failed_to_parse(refused).into())
}

/// The change that the command asks for.
pub(crate) fn read(
    service: &Service,
    fields: &Fields<'_>,
    collection: Option<&Collection>,
) -> Result<Modification> {
    let flag = |name| fields.bool(name).unwrap_or(false);
    let collation = asked::collation(fields.document("collation"), collection)?;
    let context = asked::context(service, collation, fields.document("let"))?;
    let filter = asked::query(fields, "query")?;
    let mut query = Query::by_filter(filter.clone(), context.clone())?;
    query.hint = asked::hint(fields.get("hint"))?;
    query.needs_position = true;
    let query = query.sorted(asked::order(fields, "sort")?)?;
    let shown = asked::projection(fields, "fields")?;
    let projection = match shown.is_empty() {
        true => None,
        false => Some(Projection::parse_with_filter(&shown, &filter, &context)?),
    };
    let kind = if flag("remove") {
        Kind::Delete
    } else {
        let update = fields.get("update").unwrap_or(RawBsonRef::Null);
        let update = Update::parse(&repeats::update(update)?, &array_filters(fields)?, &context)?;
        Kind::Update {
            update: Arc::new(update),
            upsert: flag("upsert"),
            supplied: None,
        }
    };
    Ok(Modification {
        change: Change {
            query: Arc::new(query),
            kind,
            multi: false,
            bypass_validation: flag("bypassDocumentValidation"),
        },
        answers_new: flag("new"),
        projection,
    })
}

impl Modification {
    fn reply(&self, changes: &Changes) -> Result<Document> {
        let found = changes.matched + u64::from(changes.upserted.is_some());
        let mut last = doc! { "n": count(found) };
        if matches!(self.change.kind, Kind::Update { .. }) {
            last.insert("updatedExisting", changes.matched > 0);
        }
        if let Some(id) = &changes.upserted {
            last.insert("upserted", id.clone());
        }
        let image = if self.answers_new {
            &changes.after
        } else {
            &changes.before
        };
        let value = match (image, &self.projection) {
            (None, _) => Bson::Null,
            (Some(image), None) => Bson::Document(image.clone()),
            (Some(image), Some(projection)) => {
                Bson::Document(projection.apply(image.clone(), changes.position)?)
            }
        };
        Ok(doc! { "lastErrorObject": last, "value": value })
    }
}
