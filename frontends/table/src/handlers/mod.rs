//! The operations, one function each: values in, a [`Reply`] or a refusal out.

mod account;
mod batch;
mod entities;
mod tables;

use std::time::SystemTime;

use bytes::Bytes;
use hyper::header::WWW_AUTHENTICATE;
use hyper::{Method, StatusCode};
use tessera_core::Store;
use uuid::Uuid;

use crate::address::Resource;
use crate::answer::Answer;
use crate::auth::{self, Action, Authenticator, Grant};
use crate::entity::{DateTime, Limits};
use crate::error::{Code, Result, ServiceError};
use crate::head::Head;
use crate::header_names;
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
    pub(crate) head: &'a Head<'a>,
    pub(crate) body: Bytes,
    pub(crate) grant: Grant,
    pub(crate) id: Uuid,
}

impl Service {
    /// Answers one request, if it could be read; refusals are answers too.
    pub(crate) async fn answer(
        &self,
        head: &Head<'_>,
        asked: Result<(Resource, Bytes)>,
        id: Uuid,
    ) -> Reply {
        let mut answers_xml = head.method == Method::OPTIONS;
        let answered = match asked {
            Ok(_) if answers_xml => Box::pin(account::preflight(self, head)).await,
            Ok((resource, body)) => match Operation::of(head, resource) {
                Ok(operation) => {
                    answers_xml = operation.answers_xml();
                    self.run(head, operation, body, id).await
                }
                Err(refusal) => Err(refusal),
            },
            Err(refusal) => Err(refusal),
        };
        let mut reply = answered.unwrap_or_else(|refusal| {
            let form = if answers_xml {
                ErrorForm::Xml
            } else {
                options::error_form(head)
            };
            let mut reply = Reply::refusal(&refusal, form, id, self.now());
            if reply.status == StatusCode::UNAUTHORIZED {
                reply = reply.with(&WWW_AUTHENTICATE, self.authenticator.challenge());
            }
            reply
        });
        reply.stamp(
            self.mode,
            id,
            head.headers.get(&header_names::CLIENT_REQUEST_ID),
        );
        account::add_cors_headers(self, head, &mut reply.headers).await;
        reply
    }

    async fn run(
        &self,
        head: &Head<'_>,
        operation: Operation,
        body: Bytes,
        id: Uuid,
    ) -> Result<Reply> {
        if self.mode == Mode::Cosmos && operation.answers_xml() {
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
        // All but the read of one entity are boxed: the future of a request is copied to where it
        // runs, and is as large as the largest that it may await. It would also hold twice what is
        // moved out of the operation, which is therefore borrowed.
        match &operation {
            Operation::GetEntity(entity) => entities::get(&call, entity).await,
            Operation::GetServiceProperties => Box::pin(account::get_properties(&call)).await,
            Operation::SetServiceProperties => Box::pin(account::set_properties(&call)).await,
            Operation::GetServiceStats => account::get_stats(&call),
            Operation::QueryTables => Box::pin(tables::query(&call)).await,
            Operation::CreateTable => Box::pin(tables::create(&call)).await,
            Operation::GetTable(table) => Box::pin(tables::get(&call, table)).await,
            Operation::DeleteTable(table) => Box::pin(tables::delete(&call, table)).await,
            Operation::GetAcl(table) => Box::pin(account::get_acl(&call, table)).await,
            Operation::SetAcl(table) => Box::pin(account::set_acl(&call, table)).await,
            Operation::QueryEntities(table) => Box::pin(entities::query(&call, table)).await,
            Operation::InsertEntity(_)
            | Operation::UpdateEntity(..)
            | Operation::DeleteEntity(_) => Box::pin(entities::change(&call, operation)).await,
            Operation::Batch => Box::pin(batch::run(&call)).await,
        }
    }

    /// What the request may do. A signature may leave that to a policy stored with its table.
    async fn authorize(&self, head: &Head<'_>) -> Result<Grant> {
        let now = SystemTime::now();
        let claim = auth::authenticate(&self.authenticator, head, now)?;
        let policy = match claim.policy_name() {
            None => None,
            Some((table, id)) => {
                let container = records::container(self.mode, head.account, table)?;
                let record = Box::pin(records::find(&self.store, &container)).await.ok();
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
fn answer<'a>(head: &'a Head<'_>, format: Format) -> Answer<'a> {
    Answer {
        format,
        origin: head.origin(),
    }
}
