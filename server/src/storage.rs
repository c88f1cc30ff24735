//! The one place that opens an engine.

use std::path::Path;
use std::sync::Arc;

use tessera_core::engine::Engine;
use tessera_storage::EngineConfig;

use crate::error::Error;
use crate::settings::Config;

/// The engine's name, as people see it.
pub(crate) fn name(config: &Config) -> &'static str {
    if config.memory { "memory" } else { "rocks" }
}

/// Opens the engine that `config` asks for.
pub(crate) fn open(config: &Config) -> Result<Arc<dyn Engine>, Error> {
    let engine = if config.memory {
        EngineConfig::Memory
    } else {
        EngineConfig::Rocks {
            path: config.data.clone(),
            durability: config.durability,
            memory_bytes: config.memory_limit_bytes,
        }
    };
    tessera_storage::open(&engine).map_err(|error| Error::Failed(error.to_string()))
}

/// Whether the folder `data` holds data.
pub(crate) fn holds_data(data: &Path) -> bool {
    data.join("rocks").is_dir()
}
