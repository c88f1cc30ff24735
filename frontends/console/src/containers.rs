//! `GET /api/containers` and one of them: sizes and load as JSON.

use hyper::{Method, StatusCode};
use serde::Serialize;
use tessera_core::Error;
use tessera_core::insight::{HotKey, Insight, LargeKey, PartitionInsight, Warning};
use tessera_core::name::ContainerName;
use tessera_core::provisioning::Throughput;

use crate::Console;
use crate::advice::Advice;
use crate::reply::Reply;
use crate::routes::{Call, Route};

pub(crate) const ROUTES: &[Route] = &[
    Route {
        method: Method::GET,
        path: "/api/containers",
        is_public: false,
        run: |call| Box::pin(list(call)),
    },
    Route {
        method: Method::GET,
        path: "/api/containers/{api}/{database}/{container}",
        is_public: false,
        run: |call| Box::pin(show(call)),
    },
];

/// The JSON form of a container: totals, and each partition.
#[derive(Serialize)]
pub(crate) struct Shown {
    api: String,
    database: String,
    container: String,
    throughput: Option<ShownThroughput>,
    /// Its share of its database's throughput, if it has none of its own.
    shared: Option<ShownThroughput>,
    items: i64,
    bytes: i64,
    request_units_per_second: f64,
    /// That of the hottest partition.
    normalised_consumption: Option<f64>,
    request_units: f64,
    requests: u64,
    throttled: u64,
    partitions: Vec<ShownPartition>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    hot_keys: Vec<ShownHotKey>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    large_keys: Vec<ShownLargeKey>,
    warnings: Vec<ShownWarning>,
    advice: Advice,
    /// Why its definition cannot be read, if it cannot.
    #[serde(skip_serializing_if = "Option::is_none")]
    damage: Option<String>,
}

#[derive(Serialize)]
pub(crate) struct ShownThroughput {
    mode: &'static str,
    request_units_per_second: u32,
}

#[derive(Serialize)]
struct ShownPartition {
    id: u32,
    /// Texts, because tokens are larger than the numbers of JavaScript.
    first_token: String,
    last_token: String,
    items: i64,
    bytes: i64,
    budget: Option<f64>,
    request_units_per_second: f64,
    normalised_consumption: Option<f64>,
    request_units: f64,
    requests: u64,
    throttled: u64,
}

#[derive(Serialize)]
struct ShownHotKey {
    key: String,
    partition: u32,
    request_units_per_second: f64,
    error: f64,
    share: f64,
}

#[derive(Serialize)]
struct ShownLargeKey {
    key: String,
    partition: u32,
    items: i64,
    bytes: i64,
}

#[derive(Serialize)]
struct ShownWarning {
    limit: &'static str,
    partition: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    used: f64,
    message: String,
}

async fn list(call: &Call<'_>) -> Reply {
    match listed(call.console).await {
        Ok(shown) => Reply::json(StatusCode::OK, &shown),
        Err(error) => failure(&error),
    }
}

/// All containers, without the keys of each.
async fn listed(console: &Console) -> Result<Vec<Shown>, Error> {
    let mut listed = Vec::new();
    for mut insight in insights(console).await? {
        insight.hot_keys.clear();
        match console.store.warnings(&insight).await {
            Ok(warnings) => listed.push(Shown::of(insight, Vec::new(), warnings)),
            // It was dropped meanwhile.
            Err(Error::NotFound(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(listed)
}

async fn show(call: &Call<'_>) -> Reply {
    let name = match name(call) {
        Ok(name) => name,
        Err(refusal) => return refusal,
    };
    answer(call.console, &name).await
}

/// One container, as it is now.
pub(crate) async fn answer(console: &Console, name: &ContainerName) -> Reply {
    let shown = async {
        let insight = console.store.insight(name).await?;
        let large_keys = console.store.largest_keys(name).await?;
        let warnings = insight.warnings(&large_keys);
        Ok(Shown::of(insight, large_keys, warnings))
    };
    match shown.await {
        Ok(shown) => Reply::json(StatusCode::OK, &shown),
        Err(error) => failure(&error),
    }
}

/// The container that the path names.
pub(crate) fn name(call: &Call<'_>) -> Result<ContainerName, Reply> {
    let [api, database, container, ..] = call.parts.as_slice() else {
        let message = "the path must name an API, a database and a container";
        return Err(Reply::error(StatusCode::NOT_FOUND, message));
    };
    Ok(ContainerName::new(api, database, container))
}

/// All containers. One that is dropped meanwhile is left out.
pub(crate) async fn insights(console: &Console) -> Result<Vec<Insight>, Error> {
    let mut insights = Vec::new();
    for name in console.store.all_containers().await? {
        match console.store.insight(&name).await {
            Ok(insight) => insights.push(insight),
            Err(Error::NotFound(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(insights)
}

pub(crate) fn failure(error: &Error) -> Reply {
    let status = match error {
        Error::NotFound(_) => StatusCode::NOT_FOUND,
        Error::Rejected(_) | Error::AlreadyExists(_) | Error::InvalidContinuation(_) => {
            StatusCode::BAD_REQUEST
        }
        Error::HistoryLost(_) => StatusCode::GONE,
        Error::Throttled { .. } => StatusCode::TOO_MANY_REQUESTS,
        Error::Conflict => StatusCode::CONFLICT,
        Error::Unavailable(_) | Error::ReadOnly(_) | Error::OutOfMemory(_) => {
            StatusCode::SERVICE_UNAVAILABLE
        }
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    let reply = Reply::error(status, &error.to_string());
    match error {
        Error::Throttled { retry_after, .. } => reply.with_retry(*retry_after),
        _ => reply,
    }
}

impl Shown {
    fn of(insight: Insight, large_keys: Vec<LargeKey>, warnings: Vec<Warning>) -> Self {
        let partitions = &insight.partitions;
        let items = partitions
            .iter()
            .map(|partition| partition.statistics.tally.items);
        let bytes = partitions
            .iter()
            .map(|partition| partition.statistics.tally.bytes);
        let rates = partitions
            .iter()
            .map(|partition| partition.request_units_per_second);
        let charges = partitions.iter().map(|partition| partition.charged);
        let consumption = partitions.iter().filter_map(|it| it.normalised_consumption);
        Self {
            items: items.sum(),
            bytes: bytes.sum(),
            request_units_per_second: rates.sum(),
            normalised_consumption: consumption.reduce(f64::max),
            request_units: charges
                .sum::<tessera_core::throughput::Charge>()
                .request_units(),
            requests: partitions.iter().map(|partition| partition.requests).sum(),
            throttled: partitions.iter().map(|partition| partition.throttled).sum(),
            warnings: warnings.into_iter().map(ShownWarning::of).collect(),
            advice: Advice::of(&insight),
            throughput: insight.throughput.map(ShownThroughput::of),
            shared: insight.shared.map(ShownThroughput::of),
            partitions: partitions.iter().map(ShownPartition::of).collect(),
            hot_keys: insight.hot_keys.into_iter().map(ShownHotKey::of).collect(),
            large_keys: large_keys.into_iter().map(ShownLargeKey::of).collect(),
            damage: insight.damage,
            api: insight.name.api,
            database: insight.name.database,
            container: insight.name.container,
        }
    }
}

impl ShownThroughput {
    pub(crate) fn of(throughput: Throughput) -> Self {
        Self {
            mode: match throughput {
                Throughput::Manual(_) => "manual",
                Throughput::Autoscale(_) => "autoscale",
            },
            request_units_per_second: throughput.units(),
        }
    }
}

impl ShownPartition {
    fn of(partition: &PartitionInsight) -> Self {
        let statistics = &partition.statistics;
        Self {
            id: statistics.partition,
            first_token: statistics.first.to_string(),
            last_token: statistics.last.to_string(),
            items: statistics.tally.items,
            bytes: statistics.tally.bytes,
            budget: partition.budget,
            request_units_per_second: partition.request_units_per_second,
            normalised_consumption: partition.normalised_consumption,
            request_units: partition.charged.request_units(),
            requests: partition.requests,
            throttled: partition.throttled,
        }
    }
}

impl ShownHotKey {
    fn of(hot: HotKey) -> Self {
        Self {
            key: hot.key,
            partition: hot.partition,
            request_units_per_second: hot.request_units_per_second,
            error: hot.error,
            share: hot.share,
        }
    }
}

impl ShownLargeKey {
    fn of(large: LargeKey) -> Self {
        Self {
            key: large.key,
            partition: large.partition,
            items: large.tally.items,
            bytes: large.tally.bytes,
        }
    }
}

impl ShownWarning {
    fn of(warning: Warning) -> Self {
        Self {
            limit: warning.limit.name(),
            partition: warning.partition,
            key: warning.key,
            used: warning.used,
            message: warning.message,
        }
    }
}
