//! `GET /health`: whether the server can serve, and its listeners.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use hyper::{Method, StatusCode};
use serde::Serialize;
use tessera_core::engine::{Engine, EngineError};

use crate::Console;
use crate::reply::Reply;
use crate::routes::Route;

pub(crate) const ROUTES: &[Route] = &[Route {
    method: Method::GET,
    path: "/health",
    is_public: true,
    run: |call| Box::pin(health(call.console)),
}];

/// An engine that needs longer for one key is not healthy, and monitors do not wait for ever.
const ENGINE_TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Serialize)]
struct Health<'a> {
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    version: &'a str,
    uptime_seconds: u64,
    engine: &'a str,
    listeners: BTreeMap<&'a str, Listener>,
}

#[derive(Serialize)]
struct Listener {
    address: SocketAddr,
    tls: bool,
}

async fn health(console: &Console) -> Reply {
    let (code, status, reason) = match probe(console.store.engine().as_ref()).await {
        Ok(()) => (StatusCode::OK, "ok", None),
        Err(error) => (
            StatusCode::SERVICE_UNAVAILABLE,
            status(&error),
            Some(error.to_string()),
        ),
    };
    let about = &console.about;
    let listener = |listener: &tessera_frontend::Listener| {
        (
            listener.name,
            Listener {
                address: listener.address,
                tls: listener.tls,
            },
        )
    };
    let body = Health {
        status,
        reason,
        version: about.version,
        uptime_seconds: about.started.elapsed().as_secs(),
        engine: about.engine,
        listeners: about.listeners.iter().map(listener).collect(),
    };
    Reply::json(code, &body)
}

async fn probe(engine: &dyn Engine) -> Result<(), EngineError> {
    tokio::time::timeout(ENGINE_TIMEOUT, engine.probe())
        .await
        .unwrap_or_else(|_elapsed| {
            Err(EngineError::Unavailable(format!(
                "no answer within {} s",
                ENGINE_TIMEOUT.as_secs()
            )))
        })
}

fn status(error: &EngineError) -> &'static str {
    match error {
        EngineError::ReadOnly(_) => "read-only",
        EngineError::Corrupt(_) => "damaged",
        EngineError::Unavailable(_) | EngineError::TooLarge { .. } => "unavailable",
    }
}
