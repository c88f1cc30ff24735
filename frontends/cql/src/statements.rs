//! Runs one statement of a request, whatever it is.

use std::collections::HashMap;
use std::sync::Arc;

use tessera_core::deadline;
use tessera_core::throughput::Charge;

use crate::auth::{self, Manager, Permitted, Rights};
use crate::catalog::Catalog;
use crate::define;
use crate::describe;
use crate::error::{CqlError, Result, refuse};
use crate::execute::{self, Context, Outcome};
use crate::failure::Failure;
use crate::plan::{self, Plan};
use crate::prepared::{Prepared, is_on_rows};
use crate::service::Service;
use crate::session::Session;
use crate::statement::{DropKind, Parsed, QualifiedName, Resource, Statement};
use crate::traces::Trace;
use crate::wire::{ColumnSpec, Parameters, ResultBody, Value};

/// How often a statement is planned again while definitions change.
const ATTEMPTS: usize = 20;
/// What Cosmos DB calls request units per second in the payload of a request.
const THROUGHPUT: &str = "cosmosdb_provisioned_throughput";

/// A request that runs statements.
pub(crate) struct Asking<'a> {
    pub(crate) service: &'a Service,
    pub(crate) session: &'a Session,
    pub(crate) parameters: &'a Parameters<'a>,
    pub(crate) payload: &'a [(&'a str, &'a [u8])],
    /// The keyspace of names without one.
    pub(crate) keyspace: Option<Arc<str>>,
}

/// What a statement gives.
#[derive(Debug)]
pub(crate) struct Given {
    pub(crate) body: ResultBody,
    pub(crate) warnings: Vec<String>,
    pub(crate) charge: Charge,
}

impl From<ResultBody> for Given {
    fn from(body: ResultBody) -> Self {
        Self {
            body,
            warnings: Vec::new(),
            charge: Charge::default(),
        }
    }
}

/// Notes a step of a request that is traced.
pub(crate) fn note(trace: &mut Option<Trace>, step: impl FnOnce() -> String) {
    if let Some(trace) = trace {
        trace.step(step());
    }
}

impl Asking<'_> {
    /// Runs a statement that was just parsed.
    pub(crate) async fn run(&self, parsed: &Parsed, trace: &mut Option<Trace>) -> Result<Given> {
        deadline::doing(parsed.statement.kind());
        match &parsed.statement {
            other if is_on_rows(other) => self.plan_and_execute(parsed, trace).await,
            other if define::is_definition(other) => self.define(parsed).await,
            other => self.answer(other).await,
        }
    }

    /// What neither reads nor writes rows, nor defines anything.
    async fn answer(&self, statement: &Statement) -> Result<Given> {
        let rights = Rights::of(self.service, self.session).await?;
        let catalog = self.service.catalog().await?;
        let keyspace = self.keyspace.as_deref();
        let statement = rights.statement(statement, keyspace, &catalog)?;
        match &*statement {
            Statement::Use(keyspace) => {
                if catalog.find(keyspace).is_none() {
                    return refuse(format!("Keyspace '{keyspace}' does not exist"));
                }
                self.session.use_keyspace(keyspace);
                Ok(ResultBody::SetKeyspace(keyspace.clone()).into())
            }
            Statement::Describe(what) => {
                let page = describe::Page {
                    size: self.parameters.page_size,
                    state: self.parameters.paging_state,
                };
                let rows = describe::run(self.service, &catalog, (what, keyspace), &page).await?;
                Ok(ResultBody::Rows(rows).into())
            }
            Statement::Access(access) => {
                let manager = Manager {
                    service: self.service,
                    rights: &rights,
                    keyspace,
                };
                let (body, warnings) = auth::run(&manager, access).await?;
                let mut given = Given::from(body);
                given.warnings = warnings;
                Ok(given)
            }
            _ => refuse("This statement cannot be run"),
        }
    }

    async fn define(&self, parsed: &Parsed) -> Result<Given> {
        let statement = &parsed.statement;
        if !parsed.markers.is_empty() && matches!(statement, Statement::CreateView(_)) {
            return refuse("Bind variables are not allowed in CREATE MATERIALIZED VIEW statements");
        }
        let keyspace = self.keyspace.as_deref();
        let rights = Rights::of(self.service, self.session).await?;
        let wanted = define::Wanted {
            statement,
            keyspace,
            throughput: self.throughput()?,
            rights: &rights,
        };
        let defined = define::run(self.service, &wanted).await?;
        if let Some(user) = rights.user() {
            for resource in &defined.created {
                auth::grant_to_creator(self.service, user, resource).await?;
            }
        }
        if defined.change.is_some() {
            for resource in dropped(statement, keyspace) {
                auth::revoke_from_all(self.service, &resource).await?;
            }
        }
        let body = defined
            .change
            .map_or(ResultBody::Void, ResultBody::SchemaChange);
        let mut given = Given::from(body);
        given.warnings = defined.warnings;
        Ok(given)
    }

    /// The throughput that the request wants for what it creates.
    fn throughput(&self) -> Result<Option<u32>> {
        let mut payload = self.payload.iter();
        let Some((_, value)) = payload.find(|(name, _)| *name == THROUGHPUT) else {
            return Ok(None);
        };
        let number = str::from_utf8(value)
            .ok()
            .and_then(|text| text.parse().ok());
        let invalid = || CqlError::invalid(format!("Invalid value for '{THROUGHPUT}'"));
        number.map(Some).ok_or_else(invalid)
    }

    /// Plans and runs a statement on rows, again if definitions change meanwhile.
    async fn plan_and_execute(&self, parsed: &Parsed, trace: &mut Option<Trace>) -> Result<Given> {
        let rights = Rights::of(self.service, self.session).await?;
        let mut catalog = self.service.catalog().await?;
        for _ in 0..ATTEMPTS {
            note(trace, || "Preparing statement".to_owned());
            let plan = match plan::prepare(parsed, &catalog, self.keyspace.as_deref()) {
                Ok(plan) => plan,
                Err(error) => match self.newer(&catalog).await? {
                    // What is not there may have been defined on another server just now.
                    Some(newer) => {
                        catalog = newer;
                        continue;
                    }
                    None => return Err(error),
                },
            };
            match self.execute(rights.plan(&plan)?, trace).await {
                Err(Failure::Stale) => catalog = self.service.catalogs.reload().await?,
                Ok(given) => return Ok(given),
                Err(failure) => return Err(failure.into()),
            }
        }
        Err(Failure::Stale.into())
    }

    /// A newer catalog, if other servers may have changed it and did.
    async fn newer(&self, catalog: &Arc<Catalog>) -> Result<Option<Arc<Catalog>>> {
        if !self.service.store.engine().capabilities().shared {
            return Ok(None);
        }
        let newer = self.service.catalogs.reload().await?;
        Ok((newer.version != catalog.version).then_some(newer))
    }

    /// Runs a plan with the values of the request.
    async fn execute(
        &self,
        plan: Permitted<'_, Plan>,
        trace: &mut Option<Trace>,
    ) -> std::result::Result<Given, Failure> {
        let ordered;
        let values = match &self.parameters.names {
            None => self.parameters.values.as_slice(),
            Some(names) => {
                ordered = by_position(&plan.variables, names, &self.parameters.values)?;
                &ordered
            }
        };
        let expected = plan.variables.len();
        if values.len() != expected {
            return Err(CqlError::invalid(format!(
                "there were {expected} markers(?) in CQL but {} bound variables",
                values.len()
            ))
            .into());
        }
        let serial = self.parameters.serial_consistency;
        if serial.is_some_and(|level| !level.is_serial()) {
            return Err(CqlError::invalid(
                "Invalid consistency for conditional update. Must be one of SERIAL or \
                 LOCAL_SERIAL",
            )
            .into());
        }
        let context = self.context(values);
        note(trace, || {
            format!(
                "Executing statement at consistency {}",
                context.consistency.name()
            )
        });
        let answer = execute::run(plan, &context).await?;
        Ok(given(answer, trace))
    }

    /// Runs a prepared statement. Of the columns, says whether the client knows them.
    pub(crate) async fn execute_prepared(
        &self,
        prepared: &Prepared,
        client_knows: Option<&[u8]>,
        trace: &mut Option<Trace>,
    ) -> Result<Given> {
        deadline::doing(prepared.parsed.statement.kind());
        let rights = Rights::of(self.service, self.session).await?;
        let mut catalog = self.service.catalog().await?;
        for _ in 0..ATTEMPTS {
            let current = match prepared.current(&catalog) {
                Ok(Some(current)) => current,
                Ok(None) => return self.run(&prepared.parsed, trace).await,
                // It can no longer be planned: its table is gone, or is another one. The client
                // prepares it again, and hears why not.
                Err(_) => {
                    self.service.prepared.forget(&prepared.id);
                    return Err(unprepared(&prepared.id));
                }
            };
            match self.execute(rights.plan(&current.plan)?, trace).await {
                Err(Failure::Stale) => catalog = self.service.catalogs.reload().await?,
                Err(failure) => return Err(failure.into()),
                Ok(mut given) => {
                    if let ResultBody::Rows(rows) = &mut given.body {
                        let known = match client_knows {
                            Some(id) => id == current.result_metadata_id,
                            None => current.has_first_columns,
                        };
                        // The rows of a conditional write have columns of their own.
                        let is_planned = current.plan.result_columns.is_some();
                        let skips = self.parameters.skip_metadata && known && is_planned;
                        rows.metadata.skip_columns = skips;
                        if client_knows.is_some() && !known && is_planned {
                            let id = current.result_metadata_id.to_vec();
                            rows.metadata.new_metadata_id = Some(id);
                        }
                    }
                    return Ok(given);
                }
            }
        }
        Err(Failure::Stale.into())
    }

    /// What comes with each run of a plan.
    pub(crate) fn context<'c>(&'c self, values: &'c [Value<'c>]) -> Context<'c> {
        let parameters = self.parameters;
        Context {
            service: self.service,
            values,
            consistency: parameters.consistency,
            timestamp: parameters.timestamp,
            now_in_seconds: parameters.now_in_seconds,
            page_size: parameters.page_size.filter(|size| *size > 0),
            paging_state: parameters.paging_state,
        }
    }
}

/// What an executed plan gives to the client.
pub(crate) fn given(answer: execute::Answer, trace: &mut Option<Trace>) -> Given {
    let body = match answer.outcome {
        Outcome::Void => ResultBody::Void,
        Outcome::Rows(rows) => {
            note(trace, || format!("Read {} rows", rows.len()));
            ResultBody::Rows(rows)
        }
    };
    note(trace, || {
        format!("Charged {} request units", answer.charge.request_units())
    });
    Given {
        body,
        warnings: answer.warnings,
        charge: answer.charge,
    }
}

/// The client must prepare the statement again.
pub(crate) fn unprepared(id: &[u8]) -> CqlError {
    let hex: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    CqlError::new(
        crate::error::ErrorKind::Unprepared { id: id.to_vec() },
        format!(
            "Prepared query with ID {hex} not found (either the query was not prepared on this \
             host (maybe the host has been restarted?) or you have prepared too many queries and \
             it has been evicted from the internal cache)"
        ),
    )
}

/// The values in the order of the markers, of values that came by name.
fn by_position<'v>(
    variables: &[ColumnSpec],
    names: &[&str],
    values: &[Value<'v>],
) -> Result<Vec<Value<'v>>> {
    // Of values with one name the first counts.
    let given = names.iter().zip(values).rev();
    let given: HashMap<&str, &Value<'v>> = given.map(|(name, value)| (*name, value)).collect();
    let value_of = |variable: &ColumnSpec| {
        let value = given.get(variable.name.as_str()).copied();
        let missing = || {
            let name = &variable.name;
            CqlError::invalid(format!("Missing value for bind variable {name}"))
        };
        value.copied().ok_or_else(missing)
    };
    variables.iter().map(value_of).collect()
}

/// What a statement dropped, on which nobody has permissions any more.
fn dropped(statement: &Statement, keyspace: Option<&str>) -> Vec<Resource> {
    let Statement::Drop(dropped) = statement else {
        return Vec::new();
    };
    match &dropped.kind {
        DropKind::Keyspace(name) => vec![
            Resource::Keyspace(name.clone()),
            Resource::AllFunctionsIn(name.clone()),
        ],
        DropKind::Table(name) | DropKind::View(name) => vec![Resource::Table(QualifiedName {
            keyspace: name
                .keyspace
                .clone()
                .or_else(|| keyspace.map(str::to_owned)),
            name: name.name.clone(),
        })],
        _ => Vec::new(),
    }
}
