//! Whether the requests of a connection are still wanted, for those that compute for long.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tessera_core::deadline::{Interruption, Watch};

use crate::Shutdown;

/// Cancels the requests of a connection when the server stops or needs the connection's place.
pub struct Wanted(pub Shutdown);

impl Watch for Wanted {
    fn interruption(&self, is_long: bool) -> Option<Interruption> {
        // Requests that end soon are not cancelled.
        (is_long && self.0.is_requested()).then_some(Interruption::Shutdown)
    }
}

/// Cancels the requests of a connection that is gone. Held by the connection, which drops it at its
/// end.
pub struct Gone(Arc<Watched>);

struct Watched {
    wanted: Wanted,
    is_gone: AtomicBool,
}

impl Gone {
    /// For an open connection.
    pub fn new(shutdown: Shutdown) -> Self {
        Self(Arc::new(Watched {
            wanted: Wanted(shutdown),
            is_gone: AtomicBool::new(false),
        }))
    }

    /// For the connection's requests.
    pub fn watch(&self) -> Arc<dyn Watch> {
        Arc::clone(&self.0) as Arc<dyn Watch>
    }
}

impl Drop for Gone {
    fn drop(&mut self) {
        self.0.is_gone.store(true, Ordering::Relaxed);
    }
}

impl Watch for Watched {
    fn interruption(&self, is_long: bool) -> Option<Interruption> {
        if self.is_gone.load(Ordering::Relaxed) {
            return Some(Interruption::Cancelled);
        }
        self.wanted.interruption(is_long)
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::watch;

    use super::*;

    #[test]
    fn requests_are_wanted_until_their_connection_or_the_server_ends() {
        let (stop, stopping) = watch::channel(false);
        let gone = Gone::new(Shutdown::new(stopping));
        let watch = gone.watch();
        assert_eq!(watch.interruption(true), None);
        stop.send_replace(true);
        assert_eq!(watch.interruption(false), None);
        assert_eq!(watch.interruption(true), Some(Interruption::Shutdown));
        drop(gone);
        assert_eq!(watch.interruption(false), Some(Interruption::Cancelled));
    }
}
