//! The write lock of `fsync` with `lock`, for copies of the data; `fsyncUnlock` releases it. Locks
//! are counted.

use std::sync::atomic::{AtomicI64, Ordering};

use tokio::sync::Notify;

/// How often writes are locked.
#[derive(Debug, Default)]
pub(crate) struct WriteLock {
    count: AtomicI64,
    unlocked: Notify,
}

impl WriteLock {
    /// Locks once more; answers how often it is locked then.
    pub(crate) fn lock(&self) -> i64 {
        self.count.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// Unlocks once; answers how often it is locked then. None: it was not.
    pub(crate) fn unlock(&self) -> Option<i64> {
        let less = |count: i64| (count > 0).then(|| count - 1);
        let before = self
            .count
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, less)
            .ok()?;
        if before == 1 {
            self.unlocked.notify_waiters();
        }
        Some(before - 1)
    }

    /// Waits until writes may go on.
    pub(crate) async fn passed(&self) {
        loop {
            let unlocked = self.unlocked.notified();
            if self.count.load(Ordering::Acquire) == 0 {
                return;
            }
            unlocked.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn writes_wait_for_the_last_unlock() {
        let lock = WriteLock::default();
        assert_eq!(lock.unlock(), None);
        lock.passed().await;
        assert_eq!((lock.lock(), lock.lock()), (1, 2));
        assert_eq!(lock.unlock(), Some(1));
        let waited = tokio::time::timeout(Duration::from_millis(10), lock.passed());
        assert!(waited.await.is_err());
        let (_, unlocked) = tokio::join!(lock.passed(), async { lock.unlock() });
        assert_eq!(unlocked, Some(0));
    }
}
