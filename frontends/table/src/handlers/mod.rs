//! The operations, one function each: values in, a [`Reply`] or a refusal out.

mod account;
mod batch;
mod entities;
mod tables;

use std::time::SystemTime;

use bytes::Bytes;
use hyper::header::{HOST, WWW_AUTHENTICATE};
use hyper::{HeaderMap, StatusCode};
use tessera_core::Store;
use uuid::Uuid;

use crate::address::Resource;
use crate::answer::Answer;
use crate::auth::{self, Action, Authenticator, Grant};
use crate::entity::{DateTime, Limits, Origin};
use crate::error::{Code, Result, ServiceError};
use crate::head::Head;
use crate::operation::Operation;
use crate::options::{self, Format};
use crate::reply::{ErrorForm, Reply};
use crate::tables::{self as records, Mode};

/// Everything that the operations need.
pub(crate) struct Service {
    pub(crate) store: Store,
    pub(crate) mode: Mode,
    pub(crate) authenticator: Authenticator,
}

/// One request on its way through an operation.
pub(crate) struct Call<'a> {
    pub(crate) service: &'a Service,
    pub(crate) head: &'a Head,
    pub(crate) body: Bytes,
    pub(crate) grant: Grant,
    pub(crate) id: Uuid,
}

impl Service {
    /// Answers one request, if it could be read; refusals are answers too.
    pub(crate) async fn answer(
        &self,
        head: &Head,
        asked: Result<(Resource, Bytes)>,
        id: Uuid,
    ) -> Reply {
        let mut form = options::error_form(head);
        let asked = asked.and_then(|(resource, body)| Ok((Operation::of(head, resource)?, body)));
        let answered = match asked {
            Ok((operation, body)) => {
                if operation.answers_xml() {
                    form = ErrorForm::Xml;
                }
                self.run(head, operation, body, id).await
            }
            Err(refusal) => Err(refusal),
        };
        let mut reply = answered.unwrap_or_else(|refusal| {
            let mut reply = Reply::refusal(&refusal, form, id, self.now());
            if reply.status == StatusCode::UNAUTHORIZED {
                reply = reply.with(WWW_AUTHENTICATE, self.authenticator.challenge());
            }
            reply
        });
        reply.stamp(self.mode, id, head.headers.get("x-ms-client-request-id"));
        account::add_cors_headers(self, head, &mut reply.headers).await;
        reply
    }

    async fn run(&self, head: &Head, operation: Operation, body: Bytes, id: Uuid) -> Result<Reply> {
        if operation == Operation::Preflight {
            return account::preflight(self, head).await;
        }
        if self.mode == Mode::Cosmos && operation.is_of_storage() {
            return Err(not_in_cosmos());
        }
        options::check_version(head)?;
        let call = Call {
            service: self,
            head,
            body,
            grant: self.authorize(head).await?,
            id,
        };
        match operation {
            Operation::Preflight => account::preflight(self, head).await,
            Operation::GetServiceProperties => account::get_properties(&call).await,
            Operation::SetServiceProperties => account::set_properties(&call).await,
            Operation::GetServiceStats => account::get_stats(&call),
            Operation::QueryTables => tables::query(&call).await,
            Operation::CreateTable => tables::create(&call).await,
            Operation::GetTable(table) => tables::get(&call, &table).await,
            Operation::DeleteTable(table) => tables::delete(&call, &table).await,
            Operation::GetAcl(table) => account::get_acl(&call, &table).await,
            Operation::SetAcl(table) => account::set_acl(&call, &table).await,
            Operation::QueryEntities(table) => entities::query(&call, &table).await,
            Operation::InsertEntity(_)
            | Operation::UpdateEntity(..)
            | Operation::DeleteEntity(_) => entities::change(&call, operation).await,
            Operation::GetEntity(entity) => entities::get(&call, &entity).await,
            Operation::Batch => batch::run(&call).await,
        }
    }

    /// What the request may do. A signature may leave that to a policy stored with its table.
    async fn authorize(&self, head: &Head) -> Result<Grant> {
        let now = SystemTime::now();
        let claim = auth::authenticate(&self.authenticator, head, now)?;
        let policy = match claim.policy_name() {
            None => None,
            Some((table, id)) => {
                let container = records::container(self.mode, &head.account, table)?;
                let record = records::find(&self.store, &container).await.ok();
                record.and_then(|record| record.policies.into_iter().find(|policy| policy.id == id))
            }
        };
        claim.grant(policy.as_ref(), head, now)
    }

    pub(crate) fn now(&self) -> DateTime {
        DateTime::of(SystemTime::now())
    }

    fn limits(&self) -> &'static Limits {
        match self.mode {
            Mode::Storage => &Limits::STORAGE,
            Mode::Cosmos => &Limits::COSMOS,
        }
    }
}

impl Call<'_> {
    fn allow(&self, action: Action<'_>) -> Result<()> {
        self.grant.check(action)
    }
}

fn not_in_cosmos() -> ServiceError {
    let message = "Azure Cosmos DB for Table has no service properties, statistics and access \
                   policies, and this server plays it (setting table-mode). Azure Table storage \
                   has them.";
    ServiceError::new(Code::NotImplemented, message)
}

/// Writes answers to this request.
fn answer<'a>(service: &Service, head: &'a Head, format: Format, base: &'a str) -> Answer<'a> {
    Answer {
        format,
        origin: Origin {
            base,
            account: &head.account,
        },
        now: service.now(),
    }
}

/// The URL of the account's service, as this client writes it.
fn base_url(head: &Head) -> String {
    let scheme = if head.tls { "https" } else { "http" };
    let host = header_text(&head.headers, HOST.as_str());
    if head.path_style {
        format!("{scheme}://{host}/{}", head.account)
    } else {
        format!("{scheme}://{host}")
    }
}

fn header_text<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    let value = headers.get(name).and_then(|value| value.to_str().ok());
    value.unwrap_or_default()
}
