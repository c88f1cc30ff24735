//! `count` and `distinct`: queries that return no documents.

use std::collections::BTreeSet;
use std::sync::Arc;

use bson::{Bson, Document, RawBsonRef, doc};
use tessera_core::Transaction;
use tessera_core::deadline;
use tessera_mongo_language::collation::Collation;
use tessera_mongo_language::error::{Code, Error, bad_value, failed_to_parse};
use tessera_mongo_language::key;
use tessera_mongo_language::path::{Path, values_at};

use crate::access::{Access, Action};
use crate::collection::{Collection, Namespace};
use crate::command::Command;
use crate::commands::statements::count as number;
use crate::commands::{asked, view};
use crate::execute::Execution;
use crate::execute::computed;
use crate::execute::query::Query;
use crate::failure::Result;
use crate::fields::{
    ANY, BOOL_OR_NUMBER, DOCUMENT, Field, Fields, NUMBER, STRING, exact, float, optional, required,
};
use crate::reply::Reply;
use crate::request::Request;
use crate::service::Service;
use crate::session::Session;
use crate::sharding::config;
use crate::transaction::Scope;
use crate::write::target::Target;

pub(crate) const COMMANDS: &[Command] = &[
    Command::new(
        "count",
        "Counts documents.",
        Access::Collection(&[Action::Find]),
        |service, session, request| Box::pin(count(service, session, request)),
    )
    .reads()
    .stable(),
    Command::new(
        "distinct",
        "Returns the distinct values of a field.",
        Access::Collection(&[Action::Find]),
        |service, session, request| Box::pin(distinct(service, session, request)),
    )
    .in_transactions()
    .reads()
    .snapshots(),
];

pub(crate) const COUNT: &[Field] = &[
    optional("query", DOCUMENT),
    optional("limit", ANY),
    optional("skip", NUMBER),
    optional("hint", ANY),
    optional("collation", DOCUMENT),
    optional("fields", ANY),
    optional("queryOptions", DOCUMENT),
    optional("collectionUUID", ANY),
];

pub(crate) const DISTINCT: &[Field] = &[
    required("key", STRING),
    optional("query", DOCUMENT),
    optional("collation", DOCUMENT),
    optional("hint", ANY),
    optional("queryOptions", DOCUMENT),
    optional("collectionUUID", ANY),
    optional("includeQueryStatsMetrics", BOOL_OR_NUMBER),
];

/// The most bytes of the values of one answer.
const MAX_DISTINCT_BYTES: usize = 16 * 1024 * 1024;
/// Documents that are looked at in one step.
const STEP: usize = 1_000;

async fn count(service: &Service, session: &mut Session, request: &Request<'_>) -> Result<Reply> {
    let namespace = Namespace::new(request.database, request.collection()?)?;
    let fields = Fields::of(request, COUNT)?;
    if let Some(documents) = config::documents(service, &namespace).await? {
        let found = computed::answer(&count_query(service, &fields, None)?, documents)?;
        return Ok(doc! { "n": number(found.len() as u64) }.into());
    }
    let mut scope = service.data.transactions.scope(service, request).await?;
    let mut reader = scope.reader(&service.data).await?;
    let target = Target::find(&service.data, &mut reader, &namespace).await?;
    let Some(target) = target else {
        count_query(service, &fields, None)?;
        drop(reader);
        scope.succeed();
        return Ok(doc! { "n": 0 }.into());
    };
    if target.collection.view.is_some() {
        drop(reader);
        return view::count(service, session, request, (&target, &fields)).await;
    }
    let query = count_query(service, &fields, Some(&target.collection))?;
    let plain = query.matches_all() && query.hint == crate::plan::Hint::None;
    let found = if plain && !request.in_transaction() {
        let statistics = reader.statistics(&target.container).await?;
        let all: i64 = statistics
            .iter()
            .map(|partition| partition.tally.items)
            .sum();
        let rest = u64::try_from(all).unwrap_or(0).saturating_sub(query.skip);
        query.limit.map_or(rest, |limit| rest.min(limit))
    } else {
        run_count(&mut reader, &target, query).await?.0
    };
    session.spent(reader.meter());
    drop(reader);
    scope.succeed();
    Ok(doc! { "n": number(found) }.into())
}

/// The query of a `count`.
pub(crate) fn count_query(
    service: &Service,
    fields: &Fields<'_>,
    collection: Option<&Collection>,
) -> Result<Query> {
    let collation = asked::collation(fields.document("collation"), collection)?;
    let context = asked::context(service, collation, None)?;
    let mut query = Query::by_filter(asked::query(fields, "query")?, context)?;
    query.hint = asked::hint(fields.get("hint"))?;
    query.skip = asked::not_negative(fields, "skip")?.unwrap_or(0);
    query.limit = limit(fields.get("limit"))?;
    Ok(query)
}

/// The most documents that are counted. A negative limit is a limit: it once meant something else.
fn limit(asked: Option<RawBsonRef<'_>>) -> Result<Option<u64>> {
    let Some(asked) = asked else {
        return Ok(None);
    };
    if float(asked).is_none() {
        return Err(bad_value("limit value is not a valid number").into());
    }
    let limit = exact(asked).ok_or_else(|| failed_to_parse("limit is no whole number"))?;
    match limit.checked_abs() {
        Some(limit) => Ok(u64::try_from(limit).ok().filter(|limit| *limit > 0)),
        None => Err(bad_value("limit value for count cannot be min long").into()),
    }
}

/// Counts by looking.
pub(crate) async fn run_count(
    transaction: &mut Transaction,
    target: &Target,
    query: Query,
) -> Result<(u64, Execution)> {
    let query = Arc::new(query);
    let plan = query
        .plan(transaction, &target.container, &target.collection)
        .await?;
    let mut execution = Execution::new(query, plan);
    let mut found = 0;
    while execution
        .next(transaction, &target.container, STEP)
        .await?
        .is_some()
    {
        found += 1;
    }
    Ok((found, execution))
}

async fn distinct(
    service: &Service,
    session: &mut Session,
    request: &Request<'_>,
) -> Result<Reply> {
    let namespace = Namespace::new(request.database, request.collection()?)?;
    let fields = Fields::of(request, DISTINCT)?;
    let key = fields.str("key").unwrap_or_default();
    if key.contains('\0') {
        let message = "the key of a distinct must not contain NUL";
        return Err(Error::new(Code(31_032), message).into());
    }
    let mut scope = service.reading_scope(request).await?;
    let mut reader = scope.reader(&service.data).await?;
    let target = Target::find(&service.data, &mut reader, &namespace).await?;
    let Some(target) = target else {
        distinct_query(service, &fields, None)?;
        drop(reader);
        scope.succeed();
        return Ok(distinct_reply(Vec::new(), &scope));
    };
    if target.collection.view.is_some() {
        drop(reader);
        let read = (&target, &fields);
        let values = view::distinct(session, request, &mut scope, read).await?;
        scope.succeed();
        return Ok(distinct_reply(values, &scope));
    }
    let query = distinct_query(service, &fields, Some(&target.collection))?;
    let (values, _) = run_distinct(&mut reader, &target, query, key).await?;
    session.spent(reader.meter());
    drop(reader);
    scope.succeed();
    Ok(distinct_reply(values, &scope))
}

fn distinct_reply(values: Vec<Bson>, scope: &Scope) -> Reply {
    let mut reply = doc! { "values": values };
    if let Some(at) = scope.at() {
        reply.insert("atClusterTime", at.time);
    }
    reply.into()
}

/// The query of a `distinct`.
pub(crate) fn distinct_query(
    service: &Service,
    fields: &Fields<'_>,
    collection: Option<&Collection>,
) -> Result<Query> {
    let collation = asked::collation(fields.document("collation"), collection)?;
    let context = asked::context(service, collation, None)?;
    let mut query = Query::by_filter(asked::query(fields, "query")?, context)?;
    query.hint = asked::hint(fields.get("hint"))?;
    Ok(query)
}

/// Collects the different values at a path.
pub(crate) async fn run_distinct(
    transaction: &mut Transaction,
    target: &Target,
    query: Query,
    path: &str,
) -> Result<(Vec<Bson>, Execution)> {
    let query = Arc::new(query);
    let plan = query
        .plan(transaction, &target.container, &target.collection)
        .await?;
    let mut execution = Execution::new(Arc::clone(&query), plan);
    let mut distinct = Distinct::new(query.collation().clone());
    let path = Path::parse(path);
    while let Some(row) = execution.next(transaction, &target.container, STEP).await? {
        distinct.take(&row.into_document()?, &path)?;
    }
    Ok((distinct.into_values(), execution))
}

/// Values, each once, in their order.
pub(crate) struct Distinct {
    collation: Collation,
    seen: BTreeSet<Vec<u8>>,
    values: Vec<(Vec<u8>, Bson)>,
    bytes: usize,
}

impl Distinct {
    pub(crate) fn new(collation: Collation) -> Self {
        Self {
            collation,
            seen: BTreeSet::new(),
            values: Vec::new(),
            bytes: 0,
        }
    }

    /// Takes the values of a document.
    pub(crate) fn take(&mut self, document: &Document, path: &Path) -> Result<()> {
        for value in values_at(document, path).into_iter().flatten() {
            match value {
                Bson::Array(elements) => {
                    elements
                        .iter()
                        .try_for_each(|element| self.take_value(element))?;
                }
                value => self.take_value(value)?,
            }
        }
        Ok(())
    }

    fn take_value(&mut self, value: &Bson) -> Result<()> {
        deadline::step(1)?;
        let encoded = key::encode(value, &self.collation);
        if self.seen.insert(encoded.clone()) {
            self.bytes += encoded.len() + 16;
            self.values.push((encoded, value.clone()));
        }
        if self.bytes > MAX_DISTINCT_BYTES {
            let message = "distinct too big, 16mb cap";
            return Err(Error::new(Code(17_217), message).into());
        }
        Ok(())
    }

    pub(crate) fn into_values(mut self) -> Vec<Bson> {
        self.values.sort_by(|(a, _), (b, _)| a.cmp(b));
        self.values.into_iter().map(|(_, value)| value).collect()
    }
}
