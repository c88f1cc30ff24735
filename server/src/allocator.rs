//! Where memory comes from, and that it goes back.

use std::hint::black_box;
use std::time::Duration;

/// Write sets are made on one thread and freed on another, which the system's allocator is slow at.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How often freed memory is given back to the system.
const PERIOD: Duration = Duration::from_secs(1);

/// A block that the allocator has a page of its own for.
const OWN_PAGE_BYTES: usize = 1 << 20;

/// Gives freed memory back to the system. The allocator does so a second later, but only when
/// somebody frees a page then, which nobody does on a server that has nothing to do: hundreds of
/// megabytes stayed after the last client had gone.
pub(crate) async fn give_back_what_is_freed() {
    let mut ticks = tokio::time::interval(PERIOD);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        // Nothing is written to it, so that it takes no memory.
        drop(black_box(Vec::<u8>::with_capacity(OWN_PAGE_BYTES)));
    }
}
