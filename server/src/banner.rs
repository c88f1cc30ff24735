//! The banner that `tessera serve` prints once it is ready.

use std::path::Path;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tessera_frontend::Listener;
use tessera_storage::Durability;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime as _, SystemTime};

use crate::front_ends::{self, Endpoint, Trust};
use crate::settings::{Config, EngineChoice};
use crate::tls::Tls;
use crate::{VERSION, storage};

/// The contents of the banner.
pub(crate) struct Banner<'a> {
    pub(crate) config: &'a Config,
    pub(crate) data: Option<&'a Path>,
    pub(crate) tls: Option<&'a Tls>,
    pub(crate) listeners: &'a [Listener],
    pub(crate) took: Duration,
}

/// The banner, with a line to paste for each front end.
pub(crate) fn text(banner: &Banner<'_>) -> String {
    let mut lines = vec![("data", data(banner)), ("engine", engine(banner.config))];
    lines.extend(banner.tls.map(|tls| ("tls", certificate(tls))));
    lines.extend(banner.listeners.iter().map(|listener| {
        (
            listener.name,
            format!("{:<22} {}", listener.address, connect(listener, banner)),
        )
    }));
    let mut text = format!("Tessera {VERSION}\n");
    for (name, value) in lines {
        text.push_str(&format!("  {name:<9} {value}\n"));
    }
    text.push_str(&format!(
        "Ready in {} ms. Stop with Ctrl-C.\n",
        banner.took.as_millis()
    ));
    text
}

/// The same as one line of JSON, in the shape of the log's lines, for machines that read both.
pub(crate) fn json(banner: &Banner<'_>) -> String {
    let mut now = String::new();
    // Without a time the line is still true.
    let _formatted = SystemTime.format_time(&mut Writer::new(&mut now)).is_ok();
    let listener = |listener: &Listener| {
        let about = json!({
            "address": listener.address,
            "tls": listener.tls,
            "connect": connect(listener, banner),
        });
        (listener.name.to_owned(), about)
    };
    let listeners: Map<String, Value> = banner.listeners.iter().map(listener).collect();
    let line = json!({
        "timestamp": now,
        "level": "INFO",
        "message": "ready",
        "version": VERSION,
        "data": data(banner),
        "engine": engine(banner.config),
        "certificate": banner.tls.map(certificate),
        "listeners": listeners,
        "milliseconds": u64::try_from(banner.took.as_millis()).unwrap_or(u64::MAX),
        "target": "tessera::banner",
    });
    format!("{line}\n")
}

fn data(banner: &Banner<'_>) -> String {
    match banner.data {
        Some(folder) => folder.display().to_string(),
        None if *banner.config.engine() == EngineChoice::Memory => {
            "in memory only: lost when the server stops".to_owned()
        }
        None => storage::place(banner.config),
    }
}

fn engine(config: &Config) -> String {
    let name = storage::name(config);
    if let EngineChoice::Postgres(_) = config.engine() {
        return format!("{name}: other servers may use the same data");
    }
    match config.durability {
        _ if *config.engine() == EngineChoice::Memory => name.to_owned(),
        Durability::Group => format!("{name}, durability group: every answered write is on disk"),
        Durability::Periodic => {
            format!("{name}, durability periodic: a crash may lose the newest writes")
        }
    }
}

fn certificate(tls: &Tls) -> String {
    let kind = match tls.trust {
        Trust::Own(_) | Trust::Unkept => "self-signed certificate",
        Trust::Given | Trust::Plain => "certificate",
    };
    format!("{kind}, SHA-256 {}", tls.fingerprint)
}

fn connect(listener: &Listener, banner: &Banner<'_>) -> String {
    let row = front_ends::TABLE
        .iter()
        .find(|row| row.setting.name == listener.name);
    let tls = banner.tls.map_or(Trust::Plain, |tls| tls.trust.clone());
    let endpoint = Endpoint {
        address: listener.address,
        tls,
    };
    row.map(|row| (row.connect)(banner.config, &endpoint))
        .unwrap_or_default()
}
