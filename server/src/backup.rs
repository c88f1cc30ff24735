//! `tessera backup`: a consistent copy of all data, complete or absent.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use tessera_core::engine::Engine;
use tokio::fs;
use tokio::runtime::Runtime;

use crate::error::Error;
use crate::settings::{EngineChoice, Origin, Settings};
use crate::{control, output, storage, telemetry};

/// Has the data that `settings` name copied to `target`: by the server that runs on it, or by this
/// process when none does.
pub(crate) fn command(settings: &Settings, target: &Path) -> Result<(), Error> {
    let config = &settings.config;
    match config.engine() {
        EngineChoice::Rocks => {}
        EngineChoice::Memory => {
            let origins = [settings.origin("memory"), settings.origin("engine")];
            let origin = origins.iter().find(|origin| **origin != Origin::Default);
            return Err(Error::Settings(format!(
                "the memory engine ({}) keeps nothing on disk, so there is nothing to back up",
                origin.unwrap_or(&Origin::Default)
            )));
        }
        EngineChoice::Postgres(address) => {
            return Err(Error::Settings(format!(
                "the data is in {address} (engine, {}): back it up with pg_dump or pg_basebackup",
                settings.origin("engine")
            )));
        }
    }
    let absolute = |path: &Path| {
        std::path::absolute(path)
            .map_err(|error| Error::Failed(format!("cannot find {}: {error}", path.display())))
    };
    let (data, target) = (absolute(&config.data)?, absolute(target)?);
    let text = target
        .to_str()
        .filter(|text| !text.contains('\n'))
        .ok_or_else(|| {
            Error::Settings(format!(
                "the folder name {target:?} is not plain text; choose another"
            ))
        })?;
    telemetry::init(config);
    let runtime =
        Runtime::new().map_err(|error| Error::Failed(format!("cannot start threads: {error}")))?;
    let size = runtime.block_on(async {
        match control::ask_for_backup(&data, text).await? {
            Some(size) => Ok(size),
            None => run_alone(settings, &data, &target).await,
        }
    })?;
    let (data, word) = (data.display(), output::shell_word(text));
    output::print(&format!(
        "Copied {data} to {text} ({size}).\nOpen it with: tessera serve --data {word}\n"
    ))?;
    Ok(())
}

async fn run_alone(settings: &Settings, data: &Path, target: &Path) -> Result<String, Error> {
    if !storage::holds_data(data) {
        return Err(Error::Failed(format!(
            "nothing to back up: {} holds no data and no server runs on it; name the data folder \
             with --data (a server started with --memory has none and cannot be backed up)",
            data.display()
        )));
    }
    let engine = storage::open(&settings.config).await?;
    let copied = run(engine.as_ref(), data, target)
        .await
        .map_err(Error::Failed);
    let closed = engine
        .close()
        .await
        .map_err(|error| Error::Failed(error.to_string()));
    closed.and(copied)
}

/// Copies the data of `engine`, which lives in the folder `data`, to the folder `target`. Returns
/// its size.
///
/// The copy grows under another name beside `target` and is renamed when it is whole.
pub(crate) async fn run(engine: &dyn Engine, data: &Path, target: &Path) -> Result<String, String> {
    let failed = |what: &str, error: io::Error| {
        format!("cannot {what} for the backup {}: {error}", target.display())
    };
    check_free(target).await?;
    let (Some(parent), Some(name)) = (target.parent(), target.file_name()) else {
        return Err(format!(
            "{} cannot hold a backup; choose a new folder",
            target.display()
        ));
    };
    fs::create_dir_all(parent)
        .await
        .map_err(|error| failed("make the folder", error))?;
    check_outside(parent, data)
        .await
        .map_err(|error| failed("use the folder", error))?;

    let partial = parent.join(partial_name(&name.to_string_lossy()));
    let copied = async {
        engine
            .checkpoint(&partial)
            .await
            .map_err(|error| error.to_string())?;
        let bytes = size_of(&partial)
            .await
            .map_err(|error| failed("read the copy", error))?;
        rename(&partial, target)
            .await
            .map_err(|error| failed("put the copy in place", error))?;
        Ok(bytes)
    };
    let copied: Result<u64, String> = copied.await;
    if copied.is_err() {
        // The rest is named as partial; the reason for the failure matters more than this error.
        let _removed = fs::remove_dir_all(&partial).await.is_ok();
    }
    copied.map(megabytes)
}

async fn check_free(target: &Path) -> Result<(), String> {
    let refused = |cause: &str| format!("cannot make a backup in {}: {cause}", target.display());
    match fs::read_dir(target).await {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => Err(refused(
            "a file stands there; name a folder that does not exist yet",
        )),
        Err(error) => Err(refused(&error.to_string())),
        Ok(mut entries) => match entries.next_entry().await {
            Ok(None) => Ok(()),
            Ok(Some(_)) => Err(refused("the folder is not empty; name a new one")),
            Err(error) => Err(refused(&error.to_string())),
        },
    }
}

/// A backup inside the data folder would be lost together with it.
async fn check_outside(parent: &Path, data: &Path) -> io::Result<()> {
    let (parent, data) = (
        fs::canonicalize(parent).await?,
        fs::canonicalize(data).await?,
    );
    if parent.starts_with(&data) {
        return Err(io::Error::other(
            "it lies inside the data folder; choose one outside",
        ));
    }
    Ok(())
}

fn partial_name(name: &str) -> String {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let number = COUNTER.fetch_add(1, Ordering::Relaxed);
    format!(".{name}.partial-{}-{number}", std::process::id())
}

/// The engine has synced what is inside; the new name is synced here.
async fn rename(partial: &Path, target: &Path) -> io::Result<()> {
    fs::rename(partial, target).await?;
    let parent: PathBuf = target.parent().unwrap_or(target).to_owned();
    fs::File::open(parent).await?.sync_all().await
}

async fn size_of(folder: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let mut entries = fs::read_dir(folder).await?;
        while let Some(entry) = entries.next_entry().await? {
            let metadata = entry.metadata().await?;
            if metadata.is_dir() {
                folders.push(entry.path());
            } else {
                bytes += metadata.len();
            }
        }
    }
    Ok(bytes)
}

fn megabytes(bytes: u64) -> String {
    const KB: u64 = 1 << 10;
    const MB: u64 = 1 << 20;
    match bytes {
        ..MB => format!("{} KB", bytes.div_ceil(KB)),
        _ => format!("{}.{} MB", bytes / MB, bytes % MB * 10 / MB),
    }
}
