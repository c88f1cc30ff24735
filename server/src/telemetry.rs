//! Logs: to standard error, as text or JSON.

use std::io::{self, IsTerminal};
use std::panic::PanicHookInfo;
use std::sync::OnceLock;

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::reload::{self, Handle};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry};

use crate::settings::{Config, LogFormat};

/// The handle by which the level is changed while the server runs.
static FILTER: OnceLock<Handle<Targets, Registry>> = OnceLock::new();

/// Starts logging. Panics become log lines too: they happen inside a connection's span, which the
/// line names.
pub(crate) fn init(config: &Config) {
    let (filter, handle) = reload::Layer::new(filter(config.log_level));
    let lines = fmt::layer()
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal());
    let lines = match config.log {
        LogFormat::Text => lines.boxed(),
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    };
    let started = tracing_subscriber::registry()
        .with(lines.with_filter(filter))
        .try_init();
    // A second logger can only exist in tests.
    let _already_started = started.is_err() || FILTER.set(handle).is_err();
    std::panic::set_hook(Box::new(log_panic));
}

/// Changes the level; returns it.
pub(crate) fn set_level(level: LevelFilter) -> String {
    let changed = FILTER.get().map(|handle| handle.reload(filter(level)));
    match changed {
        Some(Ok(())) => level.to_string(),
        Some(Err(_)) | None => "as it was".to_owned(),
    }
}

/// Libraries log warnings and errors only.
fn filter(level: LevelFilter) -> Targets {
    Targets::new()
        .with_target("tessera", level)
        .with_default(level.min(LevelFilter::WARN))
}

fn log_panic(panic: &PanicHookInfo<'_>) {
    let cause = panic.payload_as_str().unwrap_or("unknown");
    let location = panic
        .location()
        .map(ToString::to_string)
        .unwrap_or_default();
    tracing::error!(cause, location, "panicked: this is a bug");
}
