//! The memory allocator, and returning freed memory to the system.

use std::hint::black_box;
use std::time::Duration;

/// Write sets are allocated on one thread and freed on another, which is slow with the system's
/// allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How often freed memory is returned to the system.
const PERIOD: Duration = Duration::from_secs(1);

/// A block for which the allocator has a page of its own.
const OWN_PAGE_BYTES: usize = 1 << 20;

/// Returns freed memory to the system. The allocator does so a second later, but only when a page
/// is freed then, which does not happen on an idle server: hundreds of megabytes stayed after the
/// last client had gone.
pub(crate) async fn give_back_what_is_freed() {
    let mut ticks = tokio::time::interval(PERIOD);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        // Nothing is written to it, so that it takes no memory.
        drop(black_box(Vec::<u8>::with_capacity(OWN_PAGE_BYTES)));
    }
}
