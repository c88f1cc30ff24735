//! Numbers that are never given twice, handed out from blocks so that takers do not conflict.

use bytes::Bytes;
use tokio::sync::Mutex;

use crate::encoding::take_u64;
use crate::engine::{CommitOutcome, Engine};
use crate::error::{Error, Result};
use crate::key::{self, system};
use crate::write_set::WriteSet;

/// How many numbers one stored step reserves. The rest of a block is lost when the process ends.
const BLOCK: u64 = 256;

/// One sequence of numbers, starting at 1.
pub(crate) struct Sequence {
    key: Bytes,
    block: Mutex<std::ops::Range<u64>>,
}

impl Sequence {
    pub(crate) fn new(name: &str) -> Self {
        Self {
            key: key::system_key(system::SEQUENCE, name.as_bytes()),
            block: Mutex::new(0..0),
        }
    }

    /// The next number.
    pub(crate) async fn next(&self, engine: &dyn Engine) -> Result<u64> {
        let mut block = self.block.lock().await;
        if let Some(number) = block.next() {
            return Ok(number);
        }
        let mut reserved = self.reserve(engine).await?;
        let number = reserved
            .next()
            .ok_or_else(|| Error::Internal("an empty block".into()))?;
        *block = reserved;
        Ok(number)
    }

    async fn reserve(&self, engine: &dyn Engine) -> Result<std::ops::Range<u64>> {
        loop {
            let snapshot = engine.snapshot().await?;
            let start = match snapshot.get(&self.key).await? {
                None => 1,
                Some(stored) => take_u64(&mut stored.as_ref())
                    .ok_or_else(|| Error::Corrupt("a sequence cannot be read".into()))?,
            };
            let end = start + BLOCK;
            let mut writes = WriteSet::default();
            writes.put(self.key.clone(), Bytes::copy_from_slice(&end.to_be_bytes()));
            match snapshot.commit(writes).await? {
                CommitOutcome::Done(_) => return Ok(start..end),
                // Another server took the block, or may have: take the next one, there are enough.
                CommitOutcome::Conflict | CommitOutcome::Unknown => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::MemoryEngine;

    #[tokio::test]
    async fn two_takers_never_get_the_same_number() {
        let engine = MemoryEngine::new();
        let (first, second) = (Sequence::new("n"), Sequence::new("n"));
        let mut taken = Vec::new();
        for _ in 0..600 {
            taken.push(first.next(&engine).await.unwrap());
            taken.push(second.next(&engine).await.unwrap());
        }
        taken.sort_unstable();
        taken.dedup();
        assert_eq!(taken.len(), 1_200);
    }
}
