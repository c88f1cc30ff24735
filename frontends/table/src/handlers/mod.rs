//! The operations, one function each: values in, a [`Reply`] or a refusal out.

mod account;
mod batch;
mod browsers;
mod entities;
mod tables;

use std::time::SystemTime;

use bytes::Bytes;
use hyper::header::WWW_AUTHENTICATE;
use hyper::{Method, StatusCode};
use tessera_core::{Store, deadline};
use tessera_frontend::{Guessing, LoginGate};
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

/// How many bytes of a body are read in a step.
const BYTES_IN_STEP: usize = 32;

/// Everything that the operations need.
pub(crate) struct Service {
    pub(crate) store: Store,
    pub(crate) mode: Mode,
    pub(crate) authenticator: Authenticator,
}

/// One request and its context.
pub(crate) struct Call<'a> {
    pub(crate) service: &'a Service,
    pub(crate) head: &'a Head<'a>,
    pub(crate) body: Bytes,
    pub(crate) grant: Grant,
    pub(crate) id: Uuid,
}

/// An authorized operation: decided by the request's head, before its body is read.
pub(crate) struct Admission {
    admitted: Result<Admitted>,
    /// Whether a refusal is written in XML, whatever the client prefers.
    answers_xml: bool,
}

/// Boxed, because it is moved several times between the head and the handler.
enum Admitted {
    Preflight,
    Operation(Box<(Operation, Grant)>),
}

impl Admission {
    /// Whether the request is authorized, so that its body is needed.
    pub(crate) fn is_granted(&self) -> bool {
        self.admitted.is_ok()
    }

    /// The name of the operation, for diagnostics.
    pub(crate) fn operation(&self) -> &'static str {
        match &self.admitted {
            Ok(Admitted::Operation(admitted)) => admitted.0.name(),
            Ok(Admitted::Preflight) => "Preflight",
            Err(_) => "refused",
        }
    }

    /// A request that ended with a bug of the server.
    pub(crate) fn mistaken() -> Self {
        Self {
            admitted: Err(Code::InternalError.into()),
            answers_xml: false,
        }
    }
}

impl Service {
    /// Decides whether a request is authorized. Wrong keys are answered with increasing delays.
    pub(crate) async fn admit(
        &self,
        head: &Head<'_>,
        resource: Result<Resource>,
        gate: &LoginGate,
    ) -> Admission {
        let mut answers_xml = head.method == Method::OPTIONS;
        let operation = match resource {
            Ok(_) if answers_xml => Ok(None),
            Ok(resource) => Operation::of(head, resource).map(Some),
            Err(refusal) => Err(refusal),
        };
        if let Ok(Some(operation)) = &operation {
            answers_xml = operation.answers_xml();
        }
        let admitted = match operation {
            Ok(operation) => self.decide(head, operation, gate).await,
            Err(refusal) => Err(refusal),
        };
        Admission {
            admitted,
            answers_xml,
        }
    }

    async fn decide(
        &self,
        head: &Head<'_>,
        operation: Option<Operation>,
        gate: &LoginGate,
    ) -> Result<Admitted> {
        let is_public = self.authenticator.is_public(head.account);
        if is_public {
            browsers::check(self, head).await?;
        }
        let Some(operation) = operation else {
            return Ok(Admitted::Preflight);
        };
        if self.mode == Mode::Cosmos && operation.answers_xml() {
            return Err(not_in_cosmos());
        }
        options::check_version(head)?;
        let grant = self.authorize(head).await;
        match &grant {
            Ok(_) => gate.accepted(Guessing::Key, head.account),
            // A public key cannot be guessed.
            Err(refusal) if refusal.code == Code::AuthenticationFailed && !is_public => {
                Box::pin(gate.refused(Guessing::Key, head.account)).await;
            }
            Err(_) => {}
        }
        Ok(Admitted::Operation(Box::new((operation, grant?))))
    }

    /// Answers one request, with a refusal if it is not authorized or cannot be read.
    pub(crate) async fn answer(
        &self,
        head: &Head<'_>,
        admission: Admission,
        body: Result<Bytes>,
        id: Uuid,
    ) -> Reply {
        let answers_xml = admission.answers_xml;
        let answered = match admission
            .admitted
            .and_then(|admitted| Ok((admitted, body?)))
        {
            Ok((Admitted::Preflight, _)) => Box::pin(account::preflight(self, head)).await,
            Ok((Admitted::Operation(admitted), body)) => {
                let (operation, grant) = *admitted;
                let call = Call {
                    service: self,
                    head,
                    body,
                    grant,
                    id,
                };
                match deadline::step(call.body.len() / BYTES_IN_STEP) {
                    Ok(()) => self.run(&call, operation).await,
                    Err(interruption) => Err(interruption.into()),
                }
            }
            Err(refusal) => Err(refusal),
        };
        let reply = match answered {
            Ok(reply) => reply,
            Err(refusal) if answers_xml => self.refusal(&refusal, ErrorForm::Xml, id),
            Err(refusal) => self.refusal(&refusal, options::error_form(head), id),
        };
        self.complete(head, reply, id).await
    }

    /// The answer to a request that panicked; the log has the details.
    pub(crate) async fn mistake(&self, head: &Head<'_>, id: Uuid) -> Reply {
        let refusal = ServiceError::from(Code::InternalError);
        let reply = self.refusal(&refusal, options::error_form(head), id);
        self.complete(head, reply, id).await
    }

    fn refusal(&self, refusal: &ServiceError, form: ErrorForm, id: Uuid) -> Reply {
        let reply = Reply::refusal(refusal, form, id, self.now());
        if reply.status == StatusCode::UNAUTHORIZED {
            return reply.with(&WWW_AUTHENTICATE, self.authenticator.challenge());
        }
        reply
    }

    async fn complete(&self, head: &Head<'_>, mut reply: Reply, id: Uuid) -> Reply {
        let client_id = head.headers.get(&header_names::CLIENT_REQUEST_ID);
        reply.stamp(self.mode, id, client_id);
        account::add_cors_headers(self, head, &mut reply.headers).await;
        reply
    }

    async fn run(&self, call: &Call<'_>, operation: Operation) -> Result<Reply> {
        // All but the read of one entity are boxed: the future of a request is copied to where it
        // runs, and is as large as the largest that it may await. It would also hold twice what is
        // moved out of the operation, which is therefore borrowed.
        match &operation {
            Operation::GetEntity(entity) => entities::get(call, entity).await,
            Operation::GetServiceProperties => Box::pin(account::get_properties(call)).await,
            Operation::SetServiceProperties => Box::pin(account::set_properties(call)).await,
            Operation::GetServiceStats => account::get_stats(call),
            Operation::QueryTables => Box::pin(tables::query(call)).await,
            Operation::CreateTable => Box::pin(tables::create(call)).await,
            Operation::GetTable(table) => Box::pin(tables::get(call, table)).await,
            Operation::DeleteTable(table) => Box::pin(tables::delete(call, table)).await,
            Operation::GetAcl(table) => Box::pin(account::get_acl(call, table)).await,
            Operation::SetAcl(table) => Box::pin(account::set_acl(call, table)).await,
            Operation::QueryEntities(table) => Box::pin(entities::query(call, table)).await,
            Operation::InsertEntity(_)
            | Operation::UpdateEntity(..)
            | Operation::DeleteEntity(_) => Box::pin(entities::change(call, operation)).await,
            Operation::Batch => Box::pin(batch::run(call)).await,
        }
    }

    /// The permissions of the request. A signature may leave them to a policy stored with its
    /// table.
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
    Code::NotImplemented.because(message)
}

/// Writes answers to this request.
fn answer<'a>(head: &'a Head<'_>, format: Format) -> Answer<'a> {
    Answer {
        format,
        origin: head.origin(),
    }
}
