//! Telling other servers that something was appended.
//!
//! A NOTIFY within each commit would make all commits wait for one lock. So a task with a
//! connection of its own sends one for all commits of a while. It is a hint: whoever follows looks
//! now and then in any case.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tessera_core::engine::EngineResult;
use tessera_core::key;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tracing::debug;

use super::connection::Connection;
use super::failure::Failure;
use super::{Flavour, Shared, news};

/// For how long after a hint there is no other.
const PAUSE: Duration = Duration::from_millis(20);

/// Sends hints, from the first one on.
#[derive(Default)]
pub(super) struct Hints {
    due: Arc<Notify>,
    task: Mutex<Option<JoinHandle<()>>>,
}

impl Hints {
    /// Has a hint sent soon.
    pub(super) fn tell(&self, shared: &Arc<Shared>) {
        if shared.pool.flavour() != Flavour::Postgres {
            return;
        }
        self.due.notify_one();
        let mut task = self.task.lock().unwrap_or_else(PoisonError::into_inner);
        if task.is_none()
            && let Ok(runtime) = Handle::try_current()
        {
            *task = Some(runtime.spawn(send_all(Arc::downgrade(shared), Arc::clone(&self.due))));
        }
    }

    pub(super) fn stop(&self) {
        let task = self
            .task
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(task) = task {
            task.abort();
        }
    }
}

impl Drop for Hints {
    fn drop(&mut self) {
        self.stop();
    }
}

async fn send_all(shared: Weak<Shared>, due: Arc<Notify>) {
    let mut connection = None;
    loop {
        due.notified().await;
        let Some(shared) = shared.upgrade() else {
            return;
        };
        if let Err(error) = send(&shared, &mut connection).await {
            debug!(%error, "other servers were not told that something was appended");
        }
        drop(shared);
        tokio::time::sleep(PAUSE).await;
    }
}

async fn send(shared: &Arc<Shared>, kept: &mut Option<Connection>) -> EngineResult<()> {
    shared.pool.check_open()?;
    let connection = match kept.take() {
        Some(connection) if connection.is_usable() && !connection.is_old() => connection,
        _ => shared.pool.open().await?,
    };
    let hint = news::announcement(&shared.name, &[vec![key::LOG].into()]).unwrap_or_default();
    let sent = connection
        .answer(connection.client.batch_execute(&hint))
        .await;
    sent.map_err(Failure::into_engine_error)?;
    *kept = Some(connection);
    Ok(())
}
