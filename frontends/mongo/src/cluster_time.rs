//! The cluster time, which replies carry and clients return: seconds and a count within the second.
//! It never goes back, and every write advances it.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use bson::spec::BinarySubtype;
use bson::{Binary, RawDocumentBuf, Timestamp, rawdoc};
use tessera_core::clock::Clock;

/// Tells the cluster's time.
#[derive(Debug, Default)]
pub(crate) struct ClusterTime {
    began: u64,
    last: AtomicU64,
    /// The time of the latest write, or of the start: what was written before is not known.
    written: AtomicU64,
}

impl ClusterTime {
    pub(crate) fn new(clock: &Clock) -> Self {
        let began = seconds(clock) << 32 | 1;
        Self {
            began,
            last: AtomicU64::new(began),
            written: AtomicU64::new(began),
        }
    }

    /// When the server was started.
    pub(crate) fn began(&self) -> Timestamp {
        timestamp(self.began)
    }

    /// Nothing was written since this time.
    pub(crate) fn written(&self) -> Timestamp {
        timestamp(self.written.load(Ordering::Acquire))
    }

    /// The time of the latest write, or the start of this second if that is later.
    pub(crate) fn now(&self, clock: &Clock) -> Timestamp {
        let floor = seconds(clock) << 32 | 1;
        let last = self.last.fetch_max(floor, Ordering::AcqRel);
        timestamp(last.max(floor))
    }

    /// A time after every time that was told before.
    pub(crate) fn advance(&self, clock: &Clock) -> Timestamp {
        let floor = seconds(clock) << 32 | 1;
        let next = |last: u64| floor.max(last.saturating_add(1));
        let last = self
            .last
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |last| Some(next(last)));
        let advanced = next(last.unwrap_or_else(|last| last));
        self.written.fetch_max(advanced, Ordering::AcqRel);
        timestamp(advanced)
    }
}

fn seconds(clock: &Clock) -> u64 {
    (clock.now_ms() / 1_000) & u64::from(u32::MAX)
}

fn timestamp(value: u64) -> Timestamp {
    let [a, b, c, d, e, f, g, h] = value.to_be_bytes();
    Timestamp {
        time: u32::from_be_bytes([a, b, c, d]),
        increment: u32::from_be_bytes([e, f, g, h]),
    }
}

/// Appends `ok`, the cluster's time and the operation's time to a reply. This is done for every
/// reply, so the bytes are made once and only the times are filled in.
pub(crate) fn complete(reply: RawDocumentBuf, ok: Option<f64>, time: Timestamp) -> RawDocumentBuf {
    let mut bytes = reply.into_bytes();
    bytes.pop();
    if let Some(ok) = ok {
        bytes.extend_from_slice(b"\x01ok\0");
        bytes.extend_from_slice(&ok.to_le_bytes());
    }
    let mut parts = template().iter().peekable();
    while let Some(part) = parts.next() {
        bytes.extend_from_slice(part);
        if parts.peek().is_some() {
            bytes.extend_from_slice(&time.increment.to_le_bytes());
            bytes.extend_from_slice(&time.time.to_le_bytes());
        }
    }
    let length = i32::try_from(bytes.len()).unwrap_or(i32::MAX);
    if let Some(place) = bytes.first_chunk_mut() {
        *place = length.to_le_bytes();
    }
    // The length was just set, so this cannot fail; an empty reply would be the lesser evil.
    RawDocumentBuf::from_bytes(bytes).unwrap_or_default()
}

/// What stands before, between and behind the two times.
fn template() -> &'static [Vec<u8>] {
    static TEMPLATE: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    TEMPLATE.get_or_init(|| {
        const MARK: [u8; 8] = [0xa5, 0x5a, 0xc3, 0x3c, 0x96, 0x69, 0xf0, 0x0f];
        let mark = Timestamp {
            increment: u32::from_le_bytes([0xa5, 0x5a, 0xc3, 0x3c]),
            time: u32::from_le_bytes([0x96, 0x69, 0xf0, 0x0f]),
        };
        // Nobody signs times here, and drivers do not look.
        let hash = Binary {
            subtype: BinarySubtype::Generic,
            bytes: vec![0; 20],
        };
        let document = rawdoc! {
            "$clusterTime": { "clusterTime": mark, "signature": { "hash": hash, "keyId": 0i64 } },
            "operationTime": mark,
        };
        let mut rest = document.as_bytes().get(4..).unwrap_or_default();
        let mut parts = Vec::new();
        while let Some(at) = rest.windows(MARK.len()).position(|window| window == MARK) {
            parts.push(rest.get(..at).unwrap_or_default().to_vec());
            rest = rest.get(at + MARK.len()..).unwrap_or_default();
        }
        parts.push(rest.to_vec());
        parts
    })
}

#[cfg(test)]
mod tests {
    use bson::{Bson, Document, doc};

    use super::*;

    #[test]
    fn time_never_goes_back_and_writes_move_it() {
        let clock = Clock::manual(5_000);
        let time = ClusterTime::default();
        let at = |time, increment| Timestamp { time, increment };
        assert_eq!(time.now(&clock), at(5, 1));
        assert_eq!(time.advance(&clock), at(5, 2));
        assert_eq!(time.advance(&clock), at(5, 3));
        assert_eq!(time.now(&clock), at(5, 3));
        clock.advance(1_000);
        assert_eq!(time.now(&clock), at(6, 1));
    }

    #[test]
    fn replies_are_completed_in_place() {
        let time = Timestamp {
            time: 7,
            increment: 8,
        };
        let reply = complete(rawdoc! { "n": 1 }, Some(1.0), time);
        let reply = Document::try_from(&*reply).unwrap();
        assert_eq!(
            reply.keys().collect::<Vec<_>>(),
            ["n", "ok", "$clusterTime", "operationTime"]
        );
        assert_eq!(reply.get_timestamp("operationTime").unwrap(), time);
        let gossip = reply.get_document("$clusterTime").unwrap();
        assert_eq!(gossip.get("clusterTime"), Some(&Bson::Timestamp(time)));
        assert_eq!(
            gossip
                .get_document("signature")
                .unwrap()
                .get_i64("keyId")
                .unwrap(),
            0
        );

        let failed = complete(rawdoc! { "ok": 0.0 }, None, time);
        let failed = Document::try_from(&*failed).unwrap();
        assert_eq!(failed.get("ok"), doc! { "ok": 0.0 }.get("ok"));
    }
}
