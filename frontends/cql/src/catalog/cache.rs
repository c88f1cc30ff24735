//! The catalog in force.
//!
//! An engine of our own is changed by this server alone, which reads the catalog anew after each
//! change. One that other servers share is looked at again after a second; and no write misses what
//! they changed, because it checks the definition of what it writes to.

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
    loaded: RwLock<Option<(Arc<Catalog>, Instant)>>,
    /// Held while the catalog is read, so that no older one takes the place of a newer.
    loading: Mutex<()>,
    /// Held while a definition changes.
    changing: Mutex<()>,
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
        let (catalog, read_at) = loaded.as_ref()?;
        let is_fresh = !self.store.engine().capabilities().shared || read_at.elapsed() < FRESH;
        is_fresh.then(|| Arc::clone(catalog))
    }

    async fn load(&self) -> Result<Arc<Catalog>> {
        let begun = Instant::now();
        let before = {
            let loaded = self.loaded.read().unwrap_or_else(PoisonError::into_inner);
            loaded.as_ref().map(|(catalog, _)| Arc::clone(catalog))
        };
        let catalog = Arc::new(load(&self.store, before.as_deref()).await?);
        let mut loaded = self.loaded.write().unwrap_or_else(PoisonError::into_inner);
        *loaded = Some((Arc::clone(&catalog), begun));
        Ok(catalog)
    }
}
