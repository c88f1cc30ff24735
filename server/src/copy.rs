//! `tessera copy`: all data from one engine to another.
//!
//! A data folder that a server has open is copied from a checkpoint, which that server makes beside
//! it and which is removed afterwards.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tessera_core::engine::{Engine, KeyRange};
use tessera_storage::copy::{Copied, copy};
use tokio::runtime::Runtime;

use crate::error::Error;
use crate::settings::{Config, EngineChoice, Settings, parse_engine};
use crate::signals::Signals;
use crate::{control, output, storage, telemetry};

/// How often the progress is shown.
const PACE: Duration = Duration::from_millis(200);

/// Copies everything from the engine `from` to the engine `to`, each an address or a data folder.
pub(crate) fn command(settings: &Settings, from: &str, to: &str) -> Result<(), Error> {
    telemetry::init(&settings.config);
    let source = config(&settings.config, from)?;
    let target = config(&settings.config, to)?;
    if *source.engine() == EngineChoice::Rocks && !storage::holds_data(&source.data) {
        return Err(Error::Failed(format!("{from} holds no data to copy")));
    }
    let runtime =
        Runtime::new().map_err(|error| Error::Failed(format!("cannot start threads: {error}")))?;
    runtime.block_on(async {
        let (source_engine, _checkpoint) = open_source(&source).await?;
        let target_engine = storage::open_any(&target).await?;
        let mut signals = Signals::install()
            .map_err(|error| Error::Failed(format!("cannot listen for signals: {error}")))?;
        let copied = tokio::select! {
            copied = run(source_engine.as_ref(), target_engine.as_ref()) => copied,
            signal = signals.next() => Err(Error::Failed(format!(
                "not copied: {signal}; the same command goes on from here"
            ))),
        };
        let closed = [source_engine.close().await, target_engine.close().await];
        let copied = copied?;
        for closed in closed {
            closed.map_err(|error| Error::Failed(error.to_string()))?;
        }
        let (from, to) = (storage::place(&source), storage::place(&target));
        output::print(&format!(
            "Copied {from} to {to}: {} entries, {:.1} MB, {} of them new there; count and \
             checksum agree.\n",
            copied.entries,
            megabytes(copied.bytes),
            copied.written
        ))?;
        Ok(())
    })
}

/// The settings with another engine: an address, or else a data folder.
fn config(config: &Config, text: &str) -> Result<Config, Error> {
    let mut config = config.clone();
    config.memory = false;
    match parse_engine(text) {
        Some(EngineChoice::Postgres(address)) => config.engine = EngineChoice::Postgres(address),
        _ if text.contains("://") => {
            return Err(Error::Settings(
                "an engine is a data folder, or an address that begins with postgres:// and that \
                 can be read"
                    .to_owned(),
            ));
        }
        _ => {
            config.engine = EngineChoice::Rocks;
            config.data = PathBuf::from(text);
        }
    }
    Ok(config)
}

/// Opens the source, or a checkpoint of it made by the server that has it open.
async fn open_source(config: &Config) -> Result<(Arc<dyn Engine>, Option<Checkpoint>), Error> {
    let mut config = config.clone();
    let checkpoint = match config.engine() {
        EngineChoice::Rocks => Checkpoint::of_running(&config.data).await?,
        EngineChoice::Memory | EngineChoice::Postgres(_) => None,
    };
    if let Some(checkpoint) = &checkpoint {
        config.data.clone_from(&checkpoint.folder);
    }
    Ok((storage::open_any(&config).await?, checkpoint))
}

/// A folder with the data of one moment, removed when this is dropped.
struct Checkpoint {
    folder: PathBuf,
}

impl Checkpoint {
    /// Asks the server that runs on `data` for a checkpoint. None: no server runs there.
    async fn of_running(data: &Path) -> Result<Option<Self>, Error> {
        let unusable = || Error::Failed(format!("cannot make a folder beside {}", data.display()));
        let data = std::path::absolute(data).map_err(|_| unusable())?;
        let (Some(parent), Some(name)) = (data.parent(), data.file_name()) else {
            return Err(unusable());
        };
        // Beside the data, where its files need not be copied to be kept.
        let name = format!(".{}.copy-{}", name.to_string_lossy(), std::process::id());
        let folder = parent.join(name);
        let text = folder.to_str().filter(|text| !text.contains('\n'));
        let made = control::ask_for_backup(&data, text.ok_or_else(unusable)?).await?;
        Ok(made.map(|_size| Self { folder }))
    }
}

impl Drop for Checkpoint {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.folder) {
            let folder = self.folder.display();
            tracing::warn!(%error, "the folder {folder} is of no more use and can be removed");
        }
    }
}

async fn run(from: &dyn Engine, to: &dyn Engine) -> Result<Copied, Error> {
    let everything = KeyRange::all();
    let expected = from.approximate_size(&everything).await.unwrap_or(0);
    let is_watched = std::io::stderr().is_terminal();
    let mut shown = Instant::now();
    let copied = copy(from, to, |copied| {
        if is_watched && shown.elapsed() >= PACE {
            shown = Instant::now();
            show(copied, expected);
        }
    })
    .await;
    if is_watched {
        // Clears the progress line.
        let _written = write!(std::io::stderr(), "\r\x1b[K").is_ok();
    }
    copied.map_err(|error| Error::Failed(format!("not copied: {error}")))
}

/// One line that is overwritten.
fn show(copied: Copied, expected: u64) {
    const WIDTH: u64 = 30;
    let filled = (copied.bytes * WIDTH)
        .checked_div(expected)
        .unwrap_or(0)
        .min(WIDTH);
    let bar: String = (0..WIDTH)
        .map(|place| if place < filled { '#' } else { '.' })
        .collect();
    let megabytes = megabytes(copied.bytes);
    let line = format!("\r[{bar}] {} entries, {megabytes:.1} MB", copied.entries);
    let _written = std::io::stderr().write_all(line.as_bytes()).is_ok();
}

#[expect(clippy::cast_precision_loss, reason = "for people, with one digit")]
fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}
