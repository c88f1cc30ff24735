//! A request in, a response out: one function for each kind of request.

use tessera_core::Error;
use tessera_core::deadline;
use tessera_core::memory_budget::{Grant, Purpose};

use crate::auth::{self, Rights, without_password};
use crate::error::{CqlError, Result};
use crate::execute;
use crate::failure::Failure;
use crate::parser::parse;
use crate::prepared::{Current, Prepared};
use crate::service::Service;
use crate::session::{Session, Stage, Started, Startup};
use crate::statements::{Asking, Given, given, note, unprepared};
use crate::system::CQL_VERSION;
use crate::traces::Trace;
use crate::wire::{
    self, Batch, Execute, Extras, Header, Parameters, Prepare, Query, QueryOrId, Request,
    RequestEnvelope, Response, ResultBody, Version,
};

/// The class that clients know the way to log in by.
const AUTHENTICATOR: &str = "org.apache.cassandra.auth.PasswordAuthenticator";
/// What the charge of a request is called in the payload of its answer.
const CHARGE: &str = "RequestCharge";
/// Older versions of the language that are spoken as well. Clients compare them literally.
const CQL_VERSIONS: [&str; 6] = [CQL_VERSION, "3.4.6", "3.4.5", "3.4.4", "3.3.1", "3.0.0"];
/// Steps for each statement of a batch.
const STATEMENT_STEPS: usize = 50;
/// A statement takes so many times its length when it is parsed: a literal of one digit is a term.
const PARSED: usize = 32;
/// Statements of up to 4 KiB are part of what their connection is guaranteed.
const GUARANTEED: u32 = 128 << 10;
/// How often a batch is planned again while definitions change.
const ATTEMPTS: usize = 20;

/// What goes back to the client.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) response: Response,
    pub(crate) extras: Extras,
}

impl From<Response> for Reply {
    fn from(response: Response) -> Self {
        let extras = Extras::default();
        Self { response, extras }
    }
}

impl From<CqlError> for Reply {
    fn from(error: CqlError) -> Self {
        Response::Error(error).into()
    }
}

/// Answers STARTUP, after which everything travels as agreed.
pub(crate) fn start(
    service: &Service,
    session: &Session,
    header: Header,
    body: &[u8],
) -> Result<(Startup, Response)> {
    session.expect(header.opcode)?;
    let envelope = RequestEnvelope::decode(header, body)?;
    let Request::Startup(options) = envelope.request else {
        return Err(CqlError::protocol("A STARTUP message is expected"));
    };
    let startup = Startup::read(&options, header.version)?;
    session.agree(startup, Started::new(header.version, &options));
    if service.config.requires_authentication {
        session.move_to(Stage::Authenticating);
        return Ok((startup, Response::Authenticate(AUTHENTICATOR.to_owned())));
    }
    session.move_to(Stage::Ready);
    Ok((startup, Response::Ready))
}

/// Answers a request whose body is not compressed.
pub(crate) async fn answer(
    service: &Service,
    session: &Session,
    header: Header,
    body: &[u8],
) -> Reply {
    let envelope = match session.expect(header.opcode) {
        Ok(()) => RequestEnvelope::decode(header, body).map_err(CqlError::from),
        Err(error) => Err(error),
    };
    let envelope = match envelope {
        Ok(envelope) => envelope,
        Err(error) => return error.into(),
    };
    let asked = Asked {
        service,
        session,
        version: header.version,
        envelope: &envelope,
    };
    match &envelope.request {
        Request::Startup(_) => CqlError::protocol("Unexpected message STARTUP").into(),
        Request::Options => Response::Supported(supported()).into(),
        Request::Register(kinds) => {
            session.register(kinds);
            Response::Ready.into()
        }
        Request::AuthResponse(token) => log_in(service, session, *token).await,
        Request::Query(query) => asked.traced(Job::Query(query)).await,
        Request::Prepare(prepare) => asked.traced(Job::Prepare(prepare)).await,
        Request::Execute(execute) => asked.traced(Job::Execute(execute)).await,
        Request::Batch(batch) => asked.traced(Job::Batch(batch)).await,
    }
}

/// Answers AUTH_RESPONSE, one at a time, so that no connection keeps others from logging in. If
/// nobody is asked who they are, everybody remains nobody.
async fn log_in(service: &Service, session: &Session, token: Option<&[u8]>) -> Reply {
    if service.config.requires_authentication {
        let _turn = session.turn_to_log_in().await;
        match auth::admit(service, &session.gate, token).await {
            Ok(user) => session.log_in(&user),
            Err(error) => return error.into(),
        }
    }
    Response::AuthSuccess(None).into()
}

/// What OPTIONS is answered with.
fn supported() -> Vec<(String, Vec<String>)> {
    let list = |name: &str, values: &[&str]| {
        let values = values.iter().map(|value| (*value).to_owned());
        (name.to_owned(), values.collect())
    };
    let versions: Vec<&str> = wire::VERSIONS.split(", ").collect();
    vec![
        list("PROTOCOL_VERSIONS", &versions),
        list("COMPRESSION", &["snappy", "lz4"]),
        list("CQL_VERSION", &CQL_VERSIONS),
    ]
}

/// A request that may be traced.
enum Job<'a> {
    Query(&'a Query<'a>),
    Prepare(&'a Prepare<'a>),
    Execute(&'a Execute<'a>),
    Batch(&'a Batch<'a>),
}

impl Job<'_> {
    /// What its trace is called.
    fn name(&self) -> &'static str {
        match self {
            Self::Query(_) => "Execute CQL3 query",
            Self::Prepare(_) => "Preparing CQL3 query",
            Self::Execute(_) => "Execute CQL3 prepared query",
            Self::Batch(_) => "Execute batch of CQL3 queries",
        }
    }

    fn parameters(&self, service: &Service) -> Vec<(String, String)> {
        let pair = |name: &str, value: String| (name.to_owned(), value);
        let shown = |text: &str| without_password(text).into_owned();
        let of = |parameters: &Parameters<'_>| {
            let mut pairs = vec![pair(
                "consistency_level",
                parameters.consistency.name().to_owned(),
            )];
            if let Some(serial) = parameters.serial_consistency {
                pairs.push(pair("serial_consistency_level", serial.name().to_owned()));
            }
            if let Some(size) = parameters.page_size {
                pairs.push(pair("page_size", size.to_string()));
            }
            pairs
        };
        let (query, mut pairs) = match self {
            Self::Query(query) => (Some(shown(query.query)), of(&query.parameters)),
            Self::Prepare(prepare) => (Some(shown(prepare.query)), Vec::new()),
            Self::Execute(execute) => {
                let prepared = service.prepared.find(execute.id);
                let query = prepared.map(|prepared| shown(&prepared.query));
                (query, of(&execute.parameters))
            }
            Self::Batch(batch) => (None, of(&batch.parameters)),
        };
        pairs.extend(query.map(|query| pair("query", query)));
        pairs
    }
}

struct Asked<'a> {
    service: &'a Service,
    session: &'a Session,
    version: Version,
    envelope: &'a RequestEnvelope<'a>,
}

impl Asked<'_> {
    /// Runs a request, and keeps its trace if it wants one.
    async fn traced(&self, job: Job<'_>) -> Reply {
        let mut trace = self.envelope.wants_tracing.then(|| {
            let clock = self.service.store.clock();
            let mut trace = Trace::begin(clock, self.session.peer, job.name());
            for (name, value) in job.parameters(self.service) {
                trace.parameter(&name, value);
            }
            trace
        });
        let answered = match job {
            Job::Query(query) => self.query(query, &mut trace).await,
            Job::Prepare(prepare) => self.prepare(prepare, &mut trace).await,
            Job::Execute(execute) => self.execute(execute, &mut trace).await,
            Job::Batch(batch) => self.batch(batch, &mut trace).await,
        };
        let mut extras = Extras::default();
        if let Some(mut trace) = trace {
            trace.end();
            extras.tracing = Some(trace.id);
            self.service.traces.keep(trace);
        }
        match answered {
            Ok(given) => {
                extras.warnings = given.warnings;
                let charge = given.charge.request_units();
                if charge > 0.0 && self.reads_payload() {
                    let bytes = charge.to_be_bytes().to_vec();
                    extras.payload.push((CHARGE.to_owned(), bytes));
                }
                let response = Response::Result(given.body);
                Reply { response, extras }
            }
            Err(error) => Reply {
                response: Response::Error(error),
                extras,
            },
        }
    }

    /// Whether the client can read a payload: it sends one, or is known to.
    fn reads_payload(&self) -> bool {
        !self.envelope.payload.is_empty() || self.session.reads_payloads()
    }

    fn asking<'r>(&'r self, parameters: &'r Parameters<'r>) -> Asking<'r> {
        let keyspace = parameters.keyspace.map(Into::into);
        Asking {
            service: self.service,
            session: self.session,
            parameters,
            payload: &self.envelope.payload,
            keyspace: keyspace.or_else(|| self.session.keyspace()),
        }
    }

    /// What a statement takes while it is parsed, planned and run.
    fn room_to_parse(&self, text: &str) -> Result<Grant> {
        let mut granted = Grant::new(Purpose::Values, GUARANTEED);
        let bytes = text.len().saturating_mul(PARSED);
        let covered = granted.cover(self.service.store.memory(), bytes);
        covered.map_err(Error::from)?;
        Ok(granted)
    }

    async fn query(&self, query: &Query<'_>, trace: &mut Option<Trace>) -> Result<Given> {
        note(trace, || {
            format!("Parsing {}", without_password(query.query))
        });
        let _granted = self.room_to_parse(query.query)?;
        let parsed = parse(query.query)?;
        self.asking(&query.parameters).run(&parsed, trace).await
    }

    async fn prepare(&self, prepare: &Prepare<'_>, trace: &mut Option<Trace>) -> Result<Given> {
        note(trace, || {
            format!("Parsing {}", without_password(prepare.query))
        });
        let _granted = self.room_to_parse(prepare.query)?;
        let session_keyspace = self.session.keyspace();
        let keyspace = prepare.keyspace.or(session_keyspace.as_deref());
        let mut catalog = self.service.catalog().await?;
        let prepared = match Prepared::new(prepare.query, keyspace, &catalog) {
            Ok(prepared) => prepared,
            Err(error) => {
                // What is not there may have been defined on another server just now.
                if !self.service.store.engine().capabilities().shared {
                    return Err(error);
                }
                catalog = self.service.catalogs.reload().await?;
                Prepared::new(prepare.query, keyspace, &catalog)?
            }
        };
        let current = prepared.current(&catalog)?;
        // What a role may not run it is not told of either.
        let rights = Rights::of(self.service, self.session).await?;
        match &current {
            Some(current) => rights.plan(&current.plan).map(|_| ())?,
            None => {
                let statement = &prepared.parsed.statement;
                rights
                    .statement(statement, keyspace, &catalog)
                    .map(|_| ())?
            }
        }
        let prepared = self.service.prepared.keep(prepared);
        Ok(ResultBody::Prepared(described(&prepared, current.as_ref())).into())
    }

    async fn execute(&self, execute: &Execute<'_>, trace: &mut Option<Trace>) -> Result<Given> {
        let Some(prepared) = self.service.prepared.find(execute.id) else {
            return Err(unprepared(execute.id));
        };
        let asking = Asking {
            service: self.service,
            session: self.session,
            parameters: &execute.parameters,
            payload: &self.envelope.payload,
            keyspace: prepared.keyspace.clone(),
        };
        let known = execute.result_metadata_id;
        let mut given = asking.execute_prepared(&prepared, known, trace).await?;
        if !self.version.is_framed()
            && let ResultBody::Rows(rows) = &mut given.body
        {
            rows.metadata.new_metadata_id = None;
        }
        Ok(given)
    }

    /// Plans each statement of a batch and runs them as one.
    async fn batch(&self, batch: &Batch<'_>, trace: &mut Option<Trace>) -> Result<Given> {
        let asking = self.asking(&batch.parameters);
        let rights = Rights::of(self.service, self.session).await?;
        for _ in 0..ATTEMPTS {
            let catalog = self.service.catalog().await?;
            let mut plans = Vec::with_capacity(batch.queries.len());
            let mut granted = Vec::new();
            for query in &batch.queries {
                let prepared = match query.query {
                    QueryOrId::Id(id) => {
                        let found = self.service.prepared.find(id);
                        found.ok_or_else(|| unprepared(id))?
                    }
                    QueryOrId::Query(text) => {
                        note(trace, || format!("Parsing {text}"));
                        let keyspace = asking.keyspace.as_deref();
                        granted.push(self.room_to_parse(text)?);
                        Prepared::new(text, keyspace, &catalog)?.into()
                    }
                };
                deadline::step(STATEMENT_STEPS)?;
                let current = prepared.current(&catalog);
                let current = current.map_err(|_| unprepared(&prepared.id))?;
                let Some(Current { plan, .. }) = current else {
                    return Err(CqlError::invalid(
                        "Invalid statement in batch: only UPDATE, INSERT and DELETE statements \
                         are allowed.",
                    ));
                };
                let expected = plan.variables.len();
                if query.values.len() != expected {
                    return Err(CqlError::invalid(format!(
                        "There were {expected} markers(?) in CQL but {} bound variables",
                        query.values.len()
                    )));
                }
                plans.push(plan);
            }
            let mut statements = Vec::with_capacity(plans.len());
            for (plan, query) in plans.iter().zip(&batch.queries) {
                statements.push((rights.plan(plan)?, query.values.as_slice()));
            }
            note(trace, || {
                format!("Executing a batch of {}", statements.len())
            });
            match execute::run_batch(batch.kind, &statements, &asking.context(&[])).await {
                Ok(answer) => return Ok(given(answer, trace)),
                Err(Failure::Stale) => drop(self.service.catalogs.reload().await?),
                Err(failure) => return Err(failure.into()),
            }
        }
        Err(Failure::Stale.into())
    }
}

/// A prepared statement as clients are told of it.
fn described(prepared: &Prepared, current: Option<&Current>) -> wire::Prepared {
    let plan = current.map(|current| &current.plan);
    wire::Prepared {
        id: prepared.id.to_vec(),
        result_metadata_id: current
            .map_or(prepared.id, |now| now.result_metadata_id)
            .to_vec(),
        markers: plan.map_or_else(Vec::new, |plan| plan.variables.clone()),
        partition_key: plan.map_or_else(Vec::new, |plan| plan.partition_key_indexes.clone()),
        result: plan.and_then(|plan| plan.result_columns.clone()),
    }
}
