//! Server parameters: a table of what `getParameter` shows and `setParameter` changes.

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};

use bson::{Bson, Document, bson, doc};
use tessera_mongo_language::error::{Code, bad_value, type_mismatch};

use crate::auth::scram::{MECHANISMS, Mechanism};
use crate::failure::{Failure, Result};
use crate::logical;
use crate::service::Service;

/// One parameter.
pub(crate) struct Parameter {
    pub(crate) name: &'static str,
    pub(crate) at_startup: bool,
    pub(crate) at_runtime: bool,
    /// Its value unless someone changed it.
    initial: fn(&Service) -> Bson,
    /// The value to keep of one that was sent.
    accept: fn(&Bson) -> Result<Bson>,
}

impl Parameter {
    const fn fixed(name: &'static str, initial: fn(&Service) -> Bson) -> Self {
        Self {
            name,
            at_startup: true,
            at_runtime: false,
            initial,
            accept: |_| Err(Failure::new(Code::ILLEGAL_OPERATION, "not settable")),
        }
    }

    const fn settable(
        name: &'static str,
        initial: fn(&Service) -> Bson,
        accept: fn(&Bson) -> Result<Bson>,
    ) -> Self {
        Self {
            name,
            at_startup: true,
            at_runtime: true,
            initial,
            accept,
        }
    }
}

/// The form in which users and roles are kept: that of MongoDB since 3.0.
pub(crate) const AUTH_SCHEMA_VERSION: i32 = 5;
/// How long a cursor may stay unused, in milliseconds.
pub(crate) const CURSOR_TIMEOUT_MS: &str = "cursorTimeoutMillis";
/// How long a transaction may stay open, in seconds.
pub(crate) const TRANSACTION_LIFETIME_S: &str = "transactionLifetimeLimitSeconds";

const PARAMETERS: &[Parameter] = &[
    // The form in which users and roles are kept, which mongodump asks for.
    Parameter::fixed("authSchemaVersion", |_| AUTH_SCHEMA_VERSION.into()),
    Parameter::fixed("authenticationMechanisms", |_| {
        let names = MECHANISMS.into_iter().map(Mechanism::name);
        Bson::Array(names.map(Bson::from).collect())
    }),
    Parameter::settable("automationServiceDescriptor", |_| "".into(), descriptor),
    Parameter::settable(CURSOR_TIMEOUT_MS, |_| 600_000i64.into(), positive),
    Parameter::fixed("enableTestCommands", |service| {
        service.config.test_commands.into()
    }),
    Parameter::fixed("featureCompatibilityVersion", |_| {
        doc! { "version": "8.0" }.into()
    }),
    Parameter::fixed("localLogicalSessionTimeoutMinutes", |_| {
        i64::from(logical::TIMEOUT_MINUTES).into()
    }),
    Parameter::settable(
        "logComponentVerbosity",
        |_| bson!({ "verbosity": 0 }),
        verbosity,
    ),
    Parameter::settable("logLevel", |_| 0.into(), log_level),
    Parameter::settable("quiet", |_| false.into(), truth),
    Parameter::fixed("scramIterationCount", |_| iterations(Mechanism::Sha1)),
    Parameter::fixed("scramSHA256IterationCount", |_| {
        iterations(Mechanism::Sha256)
    }),
    Parameter::settable(TRANSACTION_LIFETIME_S, |_| 60.into(), positive),
];

fn iterations(mechanism: Mechanism) -> Bson {
    i64::from(mechanism.iterations()).into()
}

fn number(value: &Bson) -> Option<f64> {
    match value {
        Bson::Int32(value) => Some(f64::from(*value)),
        #[expect(clippy::cast_precision_loss, reason = "parameters are small")]
        Bson::Int64(value) => Some(*value as f64),
        Bson::Double(value) => Some(*value),
        Bson::Decimal128(value) => value.to_string().parse().ok(),
        Bson::Boolean(value) => Some(f64::from(u8::from(*value))),
        _ => None,
    }
}

fn positive(value: &Bson) -> Result<Bson> {
    let number = number(value).ok_or_else(|| bad_value("the value must be a number"))?;
    if !(1.0..=9e15).contains(&number) {
        return Err(bad_value("the value must be at least 1").into());
    }
    #[expect(clippy::cast_possible_truncation, reason = "checked to be in range")]
    let whole = number as i64;
    Ok(whole.into())
}

fn log_level(value: &Bson) -> Result<Bson> {
    let wrong = || bad_value(format!("Invalid value for logLevel: {value}"));
    let number = number(value).ok_or_else(wrong)?;
    if !(0.0..=5.0).contains(&number) {
        return Err(wrong().into());
    }
    #[expect(clippy::cast_possible_truncation, reason = "checked to be in range")]
    let level = number as i32;
    Ok(level.into())
}

fn truth(value: &Bson) -> Result<Bson> {
    match (number(value), value) {
        (Some(number), _) => Ok((number != 0.0).into()),
        // Anything that is there means yes.
        (None, Bson::String(_) | Bson::Document(_) | Bson::Array(_)) => Ok(true.into()),
        (None, _) => Err(bad_value(format!("Invalid value for quiet: {value}")).into()),
    }
}

fn verbosity(value: &Bson) -> Result<Bson> {
    match value {
        Bson::Document(_) => Ok(value.clone()),
        _ => Err(type_mismatch("logComponentVerbosity must be a document").into()),
    }
}

fn descriptor(value: &Bson) -> Result<Bson> {
    const LONGEST: usize = 64;
    match value {
        Bson::String(text) if text.len() <= LONGEST => Ok(value.clone()),
        Bson::String(_) => {
            let message = "automationServiceDescriptor must be no more than 64 characters";
            Err(Failure::new(Code::OVERFLOW, message))
        }
        _ => Err(type_mismatch("automationServiceDescriptor must be a string").into()),
    }
}

/// The values that were changed.
#[derive(Debug, Default)]
pub(crate) struct Parameters {
    changed: RwLock<BTreeMap<&'static str, Bson>>,
}

/// The parameter of this name.
pub(crate) fn find(name: &str) -> Option<&'static Parameter> {
    PARAMETERS.iter().find(|parameter| parameter.name == name)
}

/// All parameters, by name.
pub(crate) fn all() -> impl Iterator<Item = &'static Parameter> {
    PARAMETERS.iter()
}

impl Parameters {
    /// What a parameter is now.
    pub(crate) fn get(&self, service: &Service, parameter: &Parameter) -> Bson {
        let changed = self.changed.read().unwrap_or_else(PoisonError::into_inner);
        let changed = changed.get(parameter.name).cloned();
        changed.unwrap_or_else(|| (parameter.initial)(service))
    }

    /// Changes a parameter.
    pub(crate) fn set(&self, parameter: &'static Parameter, value: &Bson) -> Result<()> {
        if !parameter.at_runtime {
            let message = format!("not allowed to change [{}] at runtime", parameter.name);
            return Err(Failure::new(Code::ILLEGAL_OPERATION, message));
        }
        let value = (parameter.accept)(value)?;
        let mut changed = self.changed.write().unwrap_or_else(PoisonError::into_inner);
        changed.insert(parameter.name, value);
        Ok(())
    }

    /// A parameter that is a whole number.
    pub(crate) fn integer(&self, service: &Service, name: &str) -> i64 {
        let value = find(name).map(|parameter| self.get(service, parameter));
        match value {
            Some(Bson::Int32(value)) => value.into(),
            Some(Bson::Int64(value)) => value,
            _ => 0,
        }
    }
}

/// How a parameter is shown with its details.
pub(crate) fn detailed(parameter: &Parameter, value: Bson) -> Document {
    doc! {
        "value": value,
        "settableAtRuntime": parameter.at_runtime,
        "settableAtStartup": parameter.at_startup,
    }
}
