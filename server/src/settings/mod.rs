//! Every setting, defined once: the rows here drive the file, the environment, the flags, the help
//! and `tessera config`.
//!
//! Adding a setting is a field in [`Config`] and a row in [`FIXED`]; partitions and front ends
//! bring their own rows.

pub(crate) mod console;
pub(crate) mod cql;
#[cfg(test)]
mod document;
mod feeds;
mod file;
mod machine_memory;
pub(crate) mod mongo;
mod partitions;
mod print;
mod resolve;
pub(crate) mod table;
mod value;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use tessera_core::memory_budget::MemoryBudget;
use tessera_storage::{Address, Durability};
use tracing_subscriber::filter::LevelFilter;

use crate::front_ends;
pub(crate) use resolve::{Origin, Settings, Sources};
pub(crate) use value::engine as parse_engine;

/// The settings of the server, parsed and checked.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Config {
    pub(crate) memory: bool,
    pub(crate) engine: EngineChoice,
    pub(crate) engine_connections: usize,
    pub(crate) data: PathBuf,
    pub(crate) durability: Durability,
    pub(crate) memory_limit_bytes: usize,
    /// The front ends that are not off, by name, with their addresses.
    pub(crate) listen: Vec<(&'static str, SocketAddr)>,
    pub(crate) cql: cql::CqlSettings,
    pub(crate) mongo: mongo::MongoSettings,
    pub(crate) console: console::ConsoleSettings,
    pub(crate) table: table::TableSettings,
    pub(crate) partitions: partitions::PartitionSettings,
    pub(crate) feeds: feeds::FeedSettings,
    pub(crate) max_connections: usize,
    pub(crate) idle_timeout: Option<Duration>,
    pub(crate) read_timeout: Duration,
    pub(crate) shutdown_timeout: Duration,
    pub(crate) tls_cert: Option<PathBuf>,
    pub(crate) tls_key: Option<PathBuf>,
    pub(crate) tls_self_signed: bool,
    pub(crate) log: LogFormat,
    pub(crate) log_level: LevelFilter,
}

/// Where the data is kept, unless `memory` is set.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum EngineChoice {
    Rocks,
    Memory,
    Postgres(Box<Address>),
}

/// How log lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogFormat {
    Text,
    Json,
}

/// One setting: `name = …` in the file, `TESSERA_NAME` in the environment, `--name` as a flag.
#[derive(Clone, Copy)]
pub(crate) struct Setting {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// The placeholder of the value in help texts.
    pub(crate) placeholder: &'static str,
    /// Whether the value is secret.
    pub(crate) secret: bool,
    /// The default. None: unset.
    pub(crate) default: Option<&'static str>,
    pub(crate) help: &'static str,
    /// Finishes the sentence "allowed is …".
    pub(crate) allowed: &'static str,
    apply: Apply,
}

/// How a value is written in TOML, and whether a flag needs one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Switch,
    Number,
    Text,
}

/// Stores a value. None means that it is not allowed.
#[derive(Clone, Copy)]
enum Apply {
    Field(fn(&mut Config, &str) -> Option<()>),
    Listener,
}

impl Setting {
    /// The setting of a front end: where it listens.
    pub(crate) const fn listener(
        name: &'static str,
        default: &'static str,
        help: &'static str,
    ) -> Self {
        Self {
            name,
            kind: Kind::Text,
            placeholder: "ADDR",
            secret: false,
            default: Some(default),
            help,
            allowed: "an address such as 127.0.0.1:8080 (port 0 takes a free one), a port of this \
                      machine, or off",
            apply: Apply::Listener,
        }
    }

    /// The environment variable of this setting.
    pub(crate) fn variable(&self) -> String {
        format!(
            "TESSERA_{}",
            self.name.to_ascii_uppercase().replace('-', "_")
        )
    }

    /// A value as it may be shown.
    fn shown<'a>(&self, text: &'a str) -> &'a str {
        if self.secret { "(hidden)" } else { text }
    }

    fn apply(&self, config: &mut Config, text: &str) -> Option<()> {
        match self.apply {
            Apply::Field(apply) => apply(config, text),
            Apply::Listener => {
                let address = value::listen_address(text)?;
                config
                    .listen
                    .extend(address.map(|address| (self.name, address)));
                Some(())
            }
        }
    }
}

/// Every setting, in display order.
pub(crate) fn all() -> Vec<Setting> {
    let of_row = |row: &'static front_ends::Row| {
        std::iter::once(row.setting).chain(row.options.iter().copied())
    };
    let front_ends = front_ends::TABLE.iter().flat_map(of_row);
    let (data, rest) = FIXED
        .split_at_checked(DATA_SETTINGS)
        .unwrap_or((FIXED, &[]));
    data.iter()
        .chain(partitions::OPTIONS)
        .chain(feeds::OPTIONS)
        .copied()
        .chain(front_ends)
        .chain(rest.iter().copied())
        .collect()
}

/// How many rows of [`FIXED`] are about data; those of partitions and front ends follow them.
const DATA_SETTINGS: usize = 6;

const FIXED: &[Setting] = &[
    Setting {
        name: "memory",
        kind: Kind::Switch,
        placeholder: "BOOL",
        secret: false,
        default: Some("false"),
        help: "Keep all data in memory and none on disk; it is lost when the server stops",
        allowed: "true or false",
        apply: Apply::Field(|config, text| value::switch(text).map(|on| config.memory = on)),
    },
    Setting {
        name: "engine",
        kind: Kind::Text,
        placeholder: "rocks|memory|postgres://…",
        // The address of a database has a password in it.
        secret: true,
        default: None,
        help: "Storage engine: rocks, in the folder data; memory; or a PostgreSQL database, \
               postgres://USER:PASSWORD@HOST:PORT/DATABASE, which several servers may share. \
               rocks if not set",
        allowed: "rocks, memory, or an address such as postgres://ada:secret@db1,db2:5433/shop",
        apply: Apply::Field(|config, text| {
            config.engine = value::engine(text)?;
            Some(())
        }),
    },
    Setting {
        name: "engine-connections",
        kind: Kind::Number,
        placeholder: "N",
        secret: false,
        default: Some("64"),
        help: "Largest number of connections to a PostgreSQL database",
        allowed: "a whole number from 1 to 10000",
        apply: Apply::Field(|config, text| {
            let count = text.parse().ok();
            config.engine_connections = count.filter(|count| (1..=10_000).contains(count))?;
            Some(())
        }),
    },
    Setting {
        name: "data",
        kind: Kind::Text,
        placeholder: "DIR",
        secret: false,
        default: Some("./tessera-data"),
        help: "Data folder; created if it is missing, its parent folder is not",
        allowed: "a folder",
        apply: Apply::Field(|config, text| value::path(text).map(|path| config.data = path)),
    },
    Setting {
        name: "durability",
        kind: Kind::Text,
        placeholder: "group|periodic",
        secret: false,
        default: Some("group"),
        help: "When a write is acknowledged: after a sync to disk that concurrent writes share \
               (group), or before a sync that follows within 100 ms (periodic)",
        allowed: "group or periodic",
        apply: Apply::Field(|config, text| {
            value::one_of(
                text,
                &[
                    ("group", Durability::Group),
                    ("periodic", Durability::Periodic),
                ],
            )
            .map(|durability| config.durability = durability)
        }),
    },
    Setting {
        name: "memory-limit",
        kind: Kind::Text,
        placeholder: "SIZE",
        secret: false,
        default: Some("auto"),
        help: "Memory for data: half for the engine's caches and buffers, half for requests, \
               replies, sorts, cursors and open transactions, which are refused beyond it. auto: \
               a quarter of the machine's, 256MB to 2GB",
        allowed: "auto, or a size from 64MB on, such as 512MB or 4GB",
        apply: Apply::Field(|config, text| {
            config.memory_limit_bytes = match text {
                "auto" => machine_memory::share(),
                text => value::size(text).filter(|bytes| *bytes >= 64 << 20)?,
            };
            Some(())
        }),
    },
    Setting {
        name: "max-connections",
        kind: Kind::Number,
        placeholder: "N",
        secret: false,
        default: Some("2000"),
        help: "Connections of each front end; at the limit, the one idle for longest is closed for \
               a new one",
        allowed: "a whole number from 1 to 1000000",
        apply: Apply::Field(|config, text| {
            let count = text
                .parse()
                .ok()
                .filter(|count| (1..=1_000_000).contains(count))?;
            config.max_connections = count;
            Some(())
        }),
    },
    Setting {
        name: "idle-timeout",
        kind: Kind::Text,
        placeholder: "TIME",
        secret: false,
        default: Some("30m"),
        help: "Idle time between requests after which a connection is closed",
        allowed: "a time such as 500ms, 30s, 10m or 1h, or off",
        apply: Apply::Field(|config, text| {
            config.idle_timeout = if text == "off" {
                None
            } else {
                Some(value::duration(text)?)
            };
            Some(())
        }),
    },
    Setting {
        name: "read-timeout",
        kind: Kind::Text,
        placeholder: "TIME",
        secret: false,
        default: Some("30s"),
        help: "How long a client may stall within a request, a reply or the TLS handshake",
        allowed: "a time such as 500ms, 30s or 10m",
        apply: Apply::Field(|config, text| {
            value::duration(text).map(|time| config.read_timeout = time)
        }),
    },
    Setting {
        name: "shutdown-timeout",
        kind: Kind::Text,
        placeholder: "TIME",
        secret: false,
        default: Some("10s"),
        help: "How long a shutdown waits for running requests",
        allowed: "a time such as 500ms, 30s or 10m",
        apply: Apply::Field(|config, text| {
            value::duration(text).map(|time| config.shutdown_timeout = time)
        }),
    },
    Setting {
        name: "tls-cert",
        kind: Kind::Text,
        placeholder: "FILE",
        secret: false,
        default: None,
        help: "Certificate chain (PEM) for TLS; needs tls-key",
        allowed: "a file",
        apply: Apply::Field(|config, text| {
            config.tls_cert = Some(value::path(text)?);
            Some(())
        }),
    },
    Setting {
        name: "tls-key",
        kind: Kind::Text,
        placeholder: "FILE",
        secret: false,
        default: None,
        help: "Private key of tls-cert (PEM)",
        allowed: "a file",
        apply: Apply::Field(|config, text| {
            config.tls_key = Some(value::path(text)?);
            Some(())
        }),
    },
    Setting {
        name: "tls-self-signed",
        kind: Kind::Switch,
        placeholder: "BOOL",
        secret: false,
        default: Some("false"),
        help: "Serve TLS with a self-signed certificate, kept in the data folder",
        allowed: "true or false",
        apply: Apply::Field(|config, text| {
            value::switch(text).map(|on| config.tls_self_signed = on)
        }),
    },
    Setting {
        name: "log",
        kind: Kind::Text,
        placeholder: "text|json",
        secret: false,
        default: Some("text"),
        help: "Format of log lines on standard error",
        allowed: "text or json",
        apply: Apply::Field(|config, text| {
            value::one_of(
                text,
                &[("text", LogFormat::Text), ("json", LogFormat::Json)],
            )
            .map(|format| config.log = format)
        }),
    },
    Setting {
        name: "log-level",
        kind: Kind::Text,
        placeholder: "LEVEL",
        secret: false,
        default: Some("info"),
        help: "Lowest level of log lines: off, error, warn, info, debug or trace; SIGHUP reads it \
               again",
        allowed: "off, error, warn, info, debug or trace",
        apply: Apply::Field(|config, text| {
            value::one_of(text, LEVELS).map(|level| config.log_level = level)
        }),
    },
];

const LEVELS: &[(&str, LevelFilter)] = &[
    ("off", LevelFilter::OFF),
    ("error", LevelFilter::ERROR),
    ("warn", LevelFilter::WARN),
    ("info", LevelFilter::INFO),
    ("debug", LevelFilter::DEBUG),
    ("trace", LevelFilter::TRACE),
];

impl Config {
    /// The engine in force.
    pub(crate) fn engine(&self) -> &EngineChoice {
        if self.memory {
            &EngineChoice::Memory
        } else {
            &self.engine
        }
    }

    /// The engine's part of the memory: half of it for the caches and buffers of an engine on this
    /// machine's disk.
    pub(crate) fn engine_memory_bytes(&self) -> usize {
        match self.engine() {
            EngineChoice::Rocks => self.memory_limit_bytes / 2,
            EngineChoice::Memory | EngineChoice::Postgres(_) => 0,
        }
    }

    /// The part that all requests share.
    pub(crate) fn memory_budget(&self) -> MemoryBudget {
        let engine = self.engine_memory_bytes();
        MemoryBudget::new(self.memory_limit_bytes.saturating_sub(engine), engine)
    }

    /// The initial values: each row with a default overwrites its field.
    fn blank() -> Self {
        Self {
            memory: false,
            engine: EngineChoice::Rocks,
            engine_connections: 0,
            data: PathBuf::new(),
            durability: Durability::Group,
            memory_limit_bytes: 0,
            listen: Vec::new(),
            cql: cql::CqlSettings::default(),
            mongo: mongo::MongoSettings::default(),
            console: console::ConsoleSettings::default(),
            table: table::TableSettings::default(),
            partitions: partitions::PartitionSettings::default(),
            feeds: feeds::FeedSettings::default(),
            max_connections: 0,
            idle_timeout: None,
            read_timeout: Duration::ZERO,
            shutdown_timeout: Duration::ZERO,
            tls_cert: None,
            tls_key: None,
            tls_self_signed: false,
            log: LogFormat::Text,
            log_level: LevelFilter::OFF,
        }
    }
}

/// The known name that is most like `name`.
pub(crate) fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let name = name.to_ascii_lowercase().replace('_', "-");
    known
        .map(|candidate| (strsim::osa_distance(&name, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= candidate.len().div_ceil(3))
        .min()
        .map(|(_, candidate)| candidate)
}
