//! Events for clients that registered for them: schema changes.
//!
//! One server is the whole cluster, so there are no events about nodes.

use tokio::sync::broadcast;

use crate::wire::{Event, SchemaChange};

/// A client that is so far behind loses the oldest; it reads everything again when it reconnects.
const KEPT: usize = 1_024;

/// Spreads events.
pub(crate) struct Events {
    sender: broadcast::Sender<Event>,
}

impl Default for Events {
    fn default() -> Self {
        let (sender, _) = broadcast::channel(KEPT);
        Self { sender }
    }
}

impl Events {
    /// Tells everyone who listens that a definition changed.
    pub(crate) fn schema_changed(&self, change: &SchemaChange) {
        // Nobody may be listening.
        let _listeners = self.sender.send(Event::Schema(change.clone())).unwrap_or(0);
    }

    pub(crate) fn listen(&self) -> broadcast::Receiver<Event> {
        self.sender.subscribe()
    }
}
