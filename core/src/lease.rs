//! Work that one of several servers on the same engine does for all of them.
//!
//! A lease is a record with an owner and an end. It saves work and keeps servers from getting in
//! each other's way; nothing goes wrong if two do the same for a moment, as with clocks that
//! differ.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::key::{self, system};
use crate::store::Store;

/// A lease that ends later than this many terms from now was given by a wrong clock.
const MOST_TERMS: u64 = 2;

#[derive(Serialize, Deserialize)]
struct Record {
    owner: u64,
    until_ms: u64,
}

impl Store {
    /// Whether this server has the lease for some work now. Called at least once in each `term`;
    /// when a server stops calling, another one gets the lease after that.
    pub async fn leads(&self, work: &str, term: Duration) -> Result<bool> {
        if !self.engine().capabilities().shared {
            return Ok(true);
        }
        let mut transaction = self.begin().await?;
        let key = key::system_key(system::LEASE, work.as_bytes());
        let stored = transaction.get(&key).await?;
        let now_ms = transaction.now_ms();
        let term_ms = u64::try_from(term.as_millis()).unwrap_or(u64::MAX);
        // A lease that cannot be read was written by another release, and ends now.
        let stored: Option<Record> = stored.and_then(|stored| serde_json::from_slice(&stored).ok());
        if let Some(Record { owner, until_ms }) = stored {
            let left_ms = until_ms.saturating_sub(now_ms);
            let is_own = owner == self.instance();
            if !is_own && left_ms > 0 && left_ms <= term_ms.saturating_mul(MOST_TERMS) {
                return Ok(false);
            }
            if is_own && left_ms > term_ms / 2 {
                return Ok(true);
            }
        }
        let record = Record {
            owner: self.instance(),
            until_ms: now_ms.saturating_add(term_ms),
        };
        let record = serde_json::to_vec(&record).map_err(|it| Error::Internal(it.to_string()))?;
        transaction.writes.put(key, record.into());
        match transaction.commit().await {
            Ok(_) => Ok(true),
            // Another server took it, or may have.
            Err(Error::Conflict | Error::OutcomeUnknown) => Ok(false),
            Err(error) => Err(error),
        }
    }
}
