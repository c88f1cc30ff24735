//! The report about a container of a data folder: by the server that runs on it, or by this process
//! when none does.

use tessera_advisor::{Printed, Question, Refusal, of_container};
use tessera_core::Store;
use tessera_core::engine::Engine;
use tessera_core::name::ContainerName;
use tessera_core::store::StoreOptions;
use tokio::runtime::Runtime;

use super::printed;
use crate::error::Error;
use crate::settings::{Config, EngineChoice};
use crate::{control, front_ends, storage};

/// Has the container read, and reports.
pub(super) fn report(
    config: &Config,
    name: &ContainerName,
    question: &Question,
) -> Result<Printed, Error> {
    let runtime =
        Runtime::new().map_err(|error| Error::Failed(format!("cannot start threads: {error}")))?;
    runtime.block_on(async {
        if *config.engine() == EngineChoice::Rocks {
            if !storage::holds_data(&config.data) {
                let data = config.data.display();
                return Err(Error::Failed(format!(
                    "{data} holds no data; name the data folder with --data"
                )));
            }
            let data = std::path::absolute(&config.data);
            let data = data.map_err(|error| Error::Failed(error.to_string()))?;
            let asked = control::Advice {
                container: name.clone(),
                question: question.clone(),
            };
            if let Some(printed) = control::ask_for_advice(&data, &asked).await? {
                return Ok(printed);
            }
        }
        let engine = storage::open(config).await?;
        let read = read(&engine, name, question).await;
        let closed = engine.close().await;
        closed
            .map_err(|error| Error::Failed(error.to_string()))
            .and(read)
    })
}

async fn read(
    engine: &std::sync::Arc<dyn Engine>,
    name: &ContainerName,
    question: &Question,
) -> Result<Printed, Error> {
    let options = StoreOptions {
        models: front_ends::models(),
        ..StoreOptions::default()
    };
    let store = Store::open(engine.clone(), options).await;
    let store = store.map_err(|error| Error::Failed(format!("cannot read {name}: {error}")))?;
    answer(&store, name, question).await
}

/// The answer about a container of an open store.
pub(crate) async fn answer(
    store: &Store,
    name: &ContainerName,
    question: &Question,
) -> Result<Printed, Error> {
    match of_container(store, name, question).await {
        Ok(report) => printed(&report),
        Err(Refusal::Question(words)) => Err(Error::Settings(words)),
        Err(Refusal::Nothing(words)) => Err(Error::Failed(words)),
        Err(Refusal::Core(error)) => Err(Error::Failed(format!("cannot read {name}: {error}"))),
    }
}
