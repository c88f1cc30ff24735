//! The catalog in force.
//!
//! An engine of our own is changed by this server alone, which reads the catalog anew after each
//! change. One that other servers share is looked at again when they announce a change, and after a
//! second at the latest; and no write misses what they changed, because it checks the definition of
//! what it writes to.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use tessera_core::Store;
use tokio::sync::{Mutex, MutexGuard};

use super::Catalog;
use super::load::load;
use crate::error::Result;

/// How long a catalog may be out of date if others change it, too.
const FRESH: Duration = Duration::from_secs(1);

/// Gives the catalog in force.
pub(crate) struct Catalogs {
    store: Store,
    loaded: RwLock<Option<Loaded>>,
    /// Held while the catalog is read, so that no older one takes the place of a newer.
    loading: Mutex<()>,
    /// Held while a definition changes.
    changing: Mutex<()>,
}

struct Loaded {
    catalog: Arc<Catalog>,
    at: Instant,
    /// What the store had heard of other servers before.
    news: u64,
}

impl Catalogs {
    pub(crate) fn new(store: Store) -> Self {
        Self {
            store,
            loaded: RwLock::default(),
            loading: Mutex::default(),
            changing: Mutex::default(),
        }
    }

    /// The catalog in force.
    pub(crate) async fn current(&self) -> Result<Arc<Catalog>> {
        match self.fresh() {
            Some(catalog) => Ok(catalog),
            None => {
                let _loading = self.loading.lock().await;
                // Another one may have read it meanwhile.
                match self.fresh() {
                    Some(catalog) => Ok(catalog),
                    None => self.load().await,
                }
            }
        }
    }

    /// Reads it anew, after a definition changed or was found to be another one.
    pub(crate) async fn reload(&self) -> Result<Arc<Catalog>> {
        let _loading = self.loading.lock().await;
        self.load().await
    }

    /// Lets changes of definitions wait for each other.
    pub(crate) async fn lock(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().await
    }

    fn fresh(&self) -> Option<Arc<Catalog>> {
        let loaded = self.loaded.read().unwrap_or_else(PoisonError::into_inner);
        let loaded = loaded.as_ref()?;
        let is_fresh = !self.store.engine().capabilities().shared
            || (loaded.at.elapsed() < FRESH && loaded.news == self.store.news());
        is_fresh.then(|| Arc::clone(&loaded.catalog))
    }

    async fn load(&self) -> Result<Arc<Catalog>> {
        let (at, news) = (Instant::now(), self.store.news());
        let before = {
            let loaded = self.loaded.read().unwrap_or_else(PoisonError::into_inner);
            loaded.as_ref().map(|loaded| Arc::clone(&loaded.catalog))
        };
        let catalog = Arc::new(load(&self.store, before.as_deref()).await?);
        let mut loaded = self.loaded.write().unwrap_or_else(PoisonError::into_inner);
        *loaded = Some(Loaded {
            catalog: Arc::clone(&catalog),
            at,
            news,
        });
        Ok(catalog)
    }
}
