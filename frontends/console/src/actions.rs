//! Changes of a container: throughput, splits, merges. Each returns the container after the change.

use hyper::{Method, StatusCode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tessera_core::Error;
use tessera_core::name::ContainerName;
use tessera_core::provisioning::Throughput;

use crate::containers;
use crate::reply::Reply;
use crate::routes::{Call, Route};

pub(crate) const ROUTES: &[Route] = &[
    Route {
        method: Method::POST,
        path: "/api/containers/{api}/{database}/{container}/throughput",
        is_public: false,
        run: |call| Box::pin(act(call, Action::Provision)),
    },
    Route {
        method: Method::POST,
        path: "/api/containers/{api}/{database}/{container}/split",
        is_public: false,
        run: |call| Box::pin(act(call, Action::Split)),
    },
    Route {
        method: Method::POST,
        path: "/api/containers/{api}/{database}/{container}/merge",
        is_public: false,
        run: |call| Box::pin(act(call, Action::Merge)),
    },
];

#[derive(Clone, Copy)]
enum Action {
    Provision,
    Split,
    Merge,
}

/// The throughput to set.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Wanted {
    Manual(u32),
    Autoscale(u32),
    Unlimited(bool),
}

/// The partition to split, or to merge with its right neighbour.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Chosen {
    partition: u32,
}

async fn act(call: &Call<'_>, action: Action) -> Reply {
    let name = match containers::name(call) {
        Ok(name) => name,
        Err(refusal) => return refusal,
    };
    let done = match action {
        Action::Provision => provision(call, &name).await,
        Action::Split => split(call, &name).await,
        Action::Merge => merge(call, &name).await,
    };
    match done {
        Ok(()) => containers::answer(call.console, &name).await,
        Err(failure) => failure.into(),
    }
}

pub(crate) enum Failure {
    Unreadable(String),
    Core(Error),
}

impl From<Failure> for Reply {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Unreadable(reason) => Self::error(StatusCode::BAD_REQUEST, &reason),
            Failure::Core(error) => containers::failure(&error),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Core(error)
    }
}

async fn provision(call: &Call<'_>, name: &ContainerName) -> Result<(), Failure> {
    let throughput = wanted_throughput(call)?;
    Ok(call.console.store.provision(name, throughput).await?)
}

/// The throughput in the body; none is unlimited.
pub(crate) fn wanted_throughput(call: &Call<'_>) -> Result<Option<Throughput>, Failure> {
    let expected = r#"{"manual": 400}, {"autoscale": 1000} or {"unlimited": true}"#;
    match read(call, expected)? {
        Wanted::Manual(units) => Ok(Some(Throughput::manual(units)?)),
        Wanted::Autoscale(units) => Ok(Some(Throughput::autoscale(units)?)),
        Wanted::Unlimited(true) => Ok(None),
        Wanted::Unlimited(false) => {
            Err(Failure::Unreadable(format!("the body must be {expected}")))
        }
    }
}

async fn split(call: &Call<'_>, name: &ContainerName) -> Result<(), Failure> {
    let Chosen { partition } = read(call, r#"{"partition": 0}"#)?;
    call.console
        .store
        .split_partition(name, partition, None)
        .await?;
    Ok(())
}

async fn merge(call: &Call<'_>, name: &ContainerName) -> Result<(), Failure> {
    let Chosen { partition } = read(call, r#"{"partition": 0}"#)?;
    call.console.store.merge_partitions(name, partition).await?;
    Ok(())
}

/// Parses the body, whose form is `expected`.
pub(crate) fn read<T: DeserializeOwned>(call: &Call<'_>, expected: &str) -> Result<T, Failure> {
    serde_json::from_slice(call.body)
        .map_err(|error| Failure::Unreadable(format!("the body must be like {expected}: {error}")))
}
