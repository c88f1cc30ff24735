//! The one place that opens an engine.

use std::path::Path;
use std::sync::Arc;

use tessera_core::engine::{Engine, EngineError};
use tessera_storage::copy::holds_unfinished_copy;
use tessera_storage::{EngineConfig, PostgresEngine};

use crate::error::Error;
use crate::settings::{Config, EngineChoice};

/// The engine's name, as people see it.
pub(crate) fn name(config: &Config) -> &'static str {
    match config.engine() {
        EngineChoice::Rocks => "rocks",
        EngineChoice::Memory => "memory",
        EngineChoice::Postgres(_) => "postgres",
    }
}

/// Where the data is, as people see it.
pub(crate) fn place(config: &Config) -> String {
    match config.engine() {
        EngineChoice::Rocks => config.data.display().to_string(),
        EngineChoice::Memory => "memory".to_owned(),
        EngineChoice::Postgres(address) => address.to_string(),
    }
}

/// Opens the engine that `config` asks for, unless its data is not whole.
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

/// Opens the engine that `config` asks for, whatever is in it.
pub(crate) async fn open_any(config: &Config) -> Result<Arc<dyn Engine>, Error> {
    let embedded = match config.engine() {
        EngineChoice::Memory => EngineConfig::Memory,
        EngineChoice::Rocks => EngineConfig::Rocks {
            path: config.data.clone(),
            durability: config.durability,
            memory_bytes: config.memory_limit_bytes,
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

/// Whether the folder `data` holds data.
pub(crate) fn holds_data(data: &Path) -> bool {
    data.join("rocks").is_dir()
}
