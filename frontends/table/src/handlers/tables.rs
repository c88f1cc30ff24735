//! Operations on tables.

use hyper::StatusCode;
use hyper::header::{HeaderName, LOCATION};
use serde::Deserialize;

use super::{Call, answer};
use crate::auth::Action;
use crate::change::read_body;
use crate::continuation_header;
use crate::entity::{TableLink, Value};
use crate::error::{Code, Result, ServiceError};
use crate::filter;
use crate::header_names;
use crate::model::API;
use crate::options::{self, Format, Prefer};
use crate::reply::Reply;
use crate::tables::{self, Mode, TableRecord};
use tessera_core::provisioning::Throughput;

/// The most tables in one page.
const MAX_TABLES: usize = 1_000;

/// `POST /Tables`.
pub(super) async fn create(call: &Call<'_>) -> Result<Reply> {
    let mode = call.service.mode;
    let answer_format = Format::of_answer(call.head)?;
    let body = read_body(Format::of_body(call.head)?, &call.body)?;
    let name = body.into_table_name();
    let name = name.ok_or_else(|| Code::InvalidInput.because("the body must hold a TableName"))?;
    call.allow(Action::CreateTable)?;
    let container = tables::container(mode, call.head.account, &name)?;
    let throughput = throughput(call)?;
    tables::create(&call.service.store, &container, &name, throughput).await?;
    let location = format!("{}/{}", call.head.origin(), TableLink(&name));
    let prefer = Prefer::of(call.head);
    let reply = if prefer == Some(Prefer::ReturnNoContent) {
        Reply::empty(StatusCode::NO_CONTENT).with(&header_names::DATA_SERVICE_ID, &location)
    } else {
        let body = answer(call.head, answer_format).table(&name);
        Reply::new(StatusCode::CREATED, answer_format.content_type(false), body)
    };
    let reply = reply.with(&LOCATION, &location);
    Ok(with_preference(reply, prefer))
}

/// The throughput that the client provisions, which only Cosmos knows.
fn throughput(call: &Call<'_>) -> Result<Option<Throughput>> {
    if call.service.mode == Mode::Storage {
        return Ok(None);
    }
    let manual = call.head.header(&header_names::OFFER_THROUGHPUT);
    let autoscale = call.head.header(&header_names::OFFER_AUTOSCALE);
    let (name, text) = match (manual, autoscale) {
        (None, None) => return Ok(None),
        (Some(text), None) => (&header_names::OFFER_THROUGHPUT, text),
        (None, Some(text)) => (&header_names::OFFER_AUTOSCALE, text),
        (Some(_), Some(text)) => {
            let both = format!("{} is given too", header_names::OFFER_THROUGHPUT);
            return Err(invalid_header(&header_names::OFFER_AUTOSCALE, text, &both));
        }
    };
    let asked = match manual {
        Some(text) => text.parse().ok().map(Throughput::manual),
        None => serde_json::from_str(text)
            .ok()
            .map(|settings: Autoscale| Throughput::autoscale(settings.max_throughput)),
    };
    let expected = "it must be a number of request units per second, or {\"maxThroughput\": N}";
    let asked = asked.ok_or_else(|| invalid_header(name, text, expected))?;
    asked
        .map(Some)
        .map_err(|error| invalid_header(name, text, &error.to_string()))
}

/// The autoscale maximum in the header.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Autoscale {
    max_throughput: u32,
}

fn invalid_header(name: &HeaderName, text: &str, reason: &str) -> ServiceError {
    Code::InvalidHeaderValue.because(format!("{name} is '{text}': {reason}"))
}

/// `GET /Tables`.
pub(super) async fn query(call: &Call<'_>) -> Result<Reply> {
    call.allow(Action::QueryTables)?;
    let format = Format::of_answer(call.head)?;
    let filter = filter::parse(call.head.query.get("$filter").unwrap_or_default())?;
    let max = options::top(call.head, Some(MAX_TABLES))?.unwrap_or(MAX_TABLES);
    let mut from = match continuation_header::read_table(call.head)? {
        // The first name that can come behind this one.
        Some(last) => format!("{last}\0"),
        None => String::new(),
    };
    let (store, account) = (&call.service.store, call.head.account);
    let mut names = Vec::new();
    let mut next = None;
    'pages: loop {
        let page = store
            .describe_containers(API, account, &from, MAX_TABLES)
            .await?;
        let is_last = page.len() < MAX_TABLES;
        for (container, definition) in page {
            // A table whose record cannot be read is listed, so that it can be deleted.
            let record = definition.and_then(|it| TableRecord::read(&it.schema));
            let record = record.unwrap_or_else(|_| TableRecord::nameless(&container.container));
            if filter
                .as_ref()
                .is_none_or(|filter| filter::matches(filter, &record))
            {
                if names.len() == max {
                    next = Some(from);
                    break 'pages;
                }
                names.push(record.name);
            }
            from = container.container;
        }
        if is_last {
            break;
        }
        from.push('\0');
    }
    let names = names.iter().map(String::as_str);
    let body = answer(call.head, format).tables(names);
    let reply = Reply::new(StatusCode::OK, format.content_type(true), body);
    Ok(match next {
        None => reply,
        Some(last) => reply.with(
            &header_names::NEXT_TABLE_NAME,
            &continuation_header::encode(last.trim_end_matches('\0')),
        ),
    })
}

impl filter::Properties for TableRecord {
    fn get(&self, name: &str) -> Option<Value<'_>> {
        (name == "TableName").then(|| Value::String(self.name.as_str().into()))
    }
}

/// `GET /Tables('name')`.
pub(super) async fn get(call: &Call<'_>, table: &str) -> Result<Reply> {
    call.allow(Action::QueryTables)?;
    let format = Format::of_answer(call.head)?;
    let container = tables::container(call.service.mode, call.head.account, table)?;
    let store = &call.service.store;
    let record = tables::find(store, &container).await?;
    let body = answer(call.head, format).table(&record.name);
    let reply = Reply::new(StatusCode::OK, format.content_type(false), body);
    Ok(match call.service.mode {
        Mode::Storage => reply,
        Mode::Cosmos => with_throughput(reply, tables::throughput(store, &container).await?),
    })
}

/// Adds the table's throughput, in the header with which clients set it.
fn with_throughput(reply: Reply, throughput: Option<Throughput>) -> Reply {
    match throughput {
        None => reply,
        Some(Throughput::Manual(units)) => {
            reply.with(&header_names::OFFER_THROUGHPUT, &units.to_string())
        }
        Some(Throughput::Autoscale(units)) => {
            let settings = format!("{{\"maxThroughput\":{units}}}");
            reply.with(&header_names::OFFER_AUTOSCALE, &settings)
        }
    }
}

/// `DELETE /Tables('name')`.
pub(super) async fn delete(call: &Call<'_>, table: &str) -> Result<Reply> {
    call.allow(Action::DeleteTable)?;
    let container = tables::container(call.service.mode, call.head.account, table)?;
    tables::delete(&call.service.store, &container).await?;
    Ok(Reply::empty(StatusCode::NO_CONTENT))
}

/// Adds the preference that was applied, if the client stated one.
pub(super) fn with_preference(reply: Reply, prefer: Option<Prefer>) -> Reply {
    match prefer {
        None => reply,
        Some(prefer) => reply.with(&header_names::PREFERENCE_APPLIED, prefer.name()),
    }
}
