//! `GET /api/databases` and the throughput of one, which its containers share.

use std::collections::BTreeMap;

use hyper::{Method, StatusCode};
use serde::Serialize;
use tessera_core::Error;
use tessera_core::provisioning::Throughput;

use crate::Console;
use crate::actions::{Failure, wanted_throughput};
use crate::containers::{ShownThroughput, failure};
use crate::reply::Reply;
use crate::routes::{Call, Route};

pub(crate) const ROUTES: &[Route] = &[
    Route {
        method: Method::GET,
        path: "/api/databases",
        is_public: false,
        run: |call| Box::pin(list(call)),
    },
    Route {
        method: Method::POST,
        path: "/api/databases/{api}/{database}/throughput",
        is_public: false,
        run: |call| Box::pin(provision(call)),
    },
];

#[derive(Serialize)]
struct Shown {
    api: String,
    database: String,
    containers: usize,
    /// The throughput shared by its containers without their own.
    throughput: Option<ShownThroughput>,
}

async fn list(call: &Call<'_>) -> Reply {
    match databases(call.console).await {
        Ok(shown) => Reply::json(StatusCode::OK, &shown),
        Err(error) => failure(&error),
    }
}

/// Every database with a container or with throughput.
async fn databases(console: &Console) -> Result<Vec<Shown>, Error> {
    let mut found: BTreeMap<(String, String), (usize, Option<Throughput>)> = BTreeMap::new();
    for name in console.store.all_containers().await? {
        found.entry((name.api, name.database)).or_default().0 += 1;
    }
    for (api, database, throughput) in console.store.database_throughputs().await? {
        found.entry((api, database)).or_default().1 = Some(throughput);
    }
    let shown = found
        .into_iter()
        .map(|((api, database), (containers, throughput))| Shown {
            api,
            database,
            containers,
            throughput: throughput.map(ShownThroughput::of),
        });
    Ok(shown.collect())
}

async fn provision(call: &Call<'_>) -> Reply {
    let [api, database] = call.parts.as_slice() else {
        let message = "the path must name an API and a database";
        return Reply::error(StatusCode::NOT_FOUND, message);
    };
    let done = async {
        let throughput = wanted_throughput(call)?;
        let store = &call.console.store;
        store.provision_database(api, database, throughput).await?;
        Ok::<_, Failure>(())
    };
    match done.await {
        Ok(()) => list(call).await,
        Err(failure) => failure.into(),
    }
}
