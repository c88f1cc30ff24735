//! The one place that opens an engine.

use std::path::Path;
use std::sync::Arc;

use rustix::process::{Resource, getrlimit};
use tessera_core::engine::{Engine, EngineError};
use tessera_storage::copy::holds_unfinished_copy;
use tessera_storage::{EngineConfig, PostgresEngine};

use crate::error::Error;
use crate::settings::{Config, EngineChoice};

/// Address space for RocksDB's cache and the threads' stacks and heaps, far more than their memory.
const RESERVED_ADDRESS_BYTES: u64 = 2 << 30;

/// The engine's name for display.
pub(crate) fn name(config: &Config) -> &'static str {
    match config.engine() {
        EngineChoice::Rocks => "rocks",
        EngineChoice::Memory => "memory",
        EngineChoice::Postgres(_) => "postgres",
    }
}

/// The place of the data for display.
pub(crate) fn place(config: &Config) -> String {
    match config.engine() {
        EngineChoice::Rocks => config.data.display().to_string(),
        EngineChoice::Memory => "memory".to_owned(),
        EngineChoice::Postgres(address) => address.to_string(),
    }
}

/// Opens the engine of `config`, unless its data is incomplete.
pub(crate) async fn open(config: &Config) -> Result<Arc<dyn Engine>, Error> {
    let engine = open_any(config).await?;
    let failed = |error: EngineError| Error::Failed(error.to_string());
    if holds_unfinished_copy(engine.as_ref())
        .await
        .map_err(failed)?
    {
        engine.close().await.map_err(failed)?;
        return Err(Error::Failed(format!(
            "{} holds a copy that was not finished: give the same tessera copy command again",
            place(config)
        )));
    }
    Ok(engine)
}

/// Opens the engine of `config` without that check.
pub(crate) async fn open_any(config: &Config) -> Result<Arc<dyn Engine>, Error> {
    if *config.engine() == EngineChoice::Rocks {
        check_address_space(config, getrlimit(Resource::As).current)?;
    }
    let embedded = match config.engine() {
        EngineChoice::Memory => EngineConfig::Memory,
        EngineChoice::Rocks => EngineConfig::Rocks {
            path: config.data.clone(),
            durability: config.durability,
            memory_bytes: config.engine_memory_bytes(),
        },
        EngineChoice::Postgres(address) => {
            let engine = PostgresEngine::connect(address, config.engine_connections).await;
            return match engine {
                Ok(engine) => Ok(Arc::new(engine)),
                Err(error) => Err(Error::Failed(error.to_string())),
            };
        }
    };
    tessera_storage::open(&embedded).map_err(|error| Error::Failed(error.to_string()))
}

/// RocksDB aborts the process if there is no address space for its cache; this returns an error
/// before.
fn check_address_space(config: &Config, limit: Option<u64>) -> Result<(), Error> {
    let memory = u64::try_from(config.memory_limit_bytes).unwrap_or(u64::MAX);
    let needed = RESERVED_ADDRESS_BYTES.saturating_add(memory);
    match limit {
        Some(limit) if limit < needed => Err(Error::Failed(format!(
            "the process may use {} MB of addresses (ulimit -v), and the engine rocks needs {} MB \
             with memory-limit: raise it, and limit memory with a control group instead",
            limit >> 20,
            needed >> 20
        ))),
        _ => Ok(()),
    }
}

/// Whether the folder `data` holds data.
pub(crate) fn holds_data(data: &Path) -> bool {
    data.join("rocks").is_dir()
}
