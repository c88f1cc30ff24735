//! Whether the database answers: one line in the log when it stops, one when it does again.
//!
//! A host that loses power closes no connection, and a process that is stopped keeps its own open.
//! So every answer is waited for only so long, and what took longer is as good as lost.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio_postgres::Error;
use tracing::{info, warn};

use super::address::Address;
use super::failure::Failure;

/// Where some connections work and others do not, the loss is not told more often than this.
const QUIET: Duration = Duration::from_secs(10);

/// What is known of the way to the database, shared by all its connections.
#[derive(Debug)]
pub(super) struct Reach {
    /// The address as people may see it.
    place: String,
    /// How long an answer may take.
    answer: Duration,
    is_lost: AtomicBool,
    told: Mutex<Told>,
}

/// What the log was told last.
#[derive(Debug, Default)]
struct Told {
    /// That the database is lost, and not yet that it is back.
    is_lost: bool,
    lost_at: Option<Instant>,
}

impl Reach {
    pub(super) fn new(address: &Address) -> Self {
        Self {
            place: address.to_string(),
            answer: address.answer_timeout(),
            is_lost: AtomicBool::new(false),
            told: Mutex::default(),
        }
    }

    /// How long an answer may take.
    pub(super) fn answer_timeout(&self) -> Duration {
        self.answer
    }

    /// What `request` answers, or that nothing came in this time.
    pub(super) async fn answer_within<T>(
        &self,
        patience: Duration,
        request: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Failure> {
        let answer = self.wait(patience, request).await?;
        answer.map_err(|error| Failure::of(&error))
    }

    /// Waits for anything that the database answers.
    pub(super) async fn wait<T>(
        &self,
        patience: Duration,
        request: impl Future<Output = T>,
    ) -> Result<T, Failure> {
        match tokio::time::timeout(patience, request).await {
            Ok(answer) => Ok(answer),
            Err(_) => {
                let text = format!("{} did not answer within {patience:?}", self.place);
                self.note_lost(&text);
                Err(Failure::Silent(text))
            }
        }
    }

    /// Says that the database cannot be reached, unless that was said already.
    pub(super) fn note_lost(&self, cause: &str) {
        if self.is_lost.swap(true, Ordering::Relaxed) {
            return;
        }
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.lost_at.is_none_or(|at| at.elapsed() >= QUIET) {
            warn!(
                cause,
                "the database is lost; requests fail until it answers"
            );
            told.is_lost = true;
            told.lost_at = Some(Instant::now());
        }
    }

    /// Says that the database answers again, if it had stopped.
    pub(super) fn note_answer(&self) {
        if self.is_lost.load(Ordering::Relaxed) && self.is_lost.swap(false, Ordering::Relaxed) {
            let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
            if std::mem::take(&mut told.is_lost) {
                info!("{} answers again", self.place);
            }
        }
    }
}
