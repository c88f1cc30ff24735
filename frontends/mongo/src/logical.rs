//! Logical sessions: what clients name in `lsid`, apart from the connections they come over.
//!
//! A session begins when its id is first used and ends on request of the client, when it is killed,
//! or half an hour after its last use. Its owner is part of its key: users cannot use sessions of
//! others.

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use bson::spec::{BinarySubtype, ElementType};
use bson::{Binary, Bson, Document, RawBsonRef, RawDocument, doc};
use dashmap::DashMap;
use sha2::{Digest as _, Sha256};
use tessera_mongo_language::error::{Code, Error};

use crate::failure::{Failure, Result};
use crate::fields::{self, ANY, BINARY, Field, Fields, optional, required};

/// How long a session lives unused; `hello` announces it.
pub(crate) const TIMEOUT_MINUTES: u32 = 30;
const TIMEOUT_MS: u64 = TIMEOUT_MINUTES as u64 * 60_000;
/// How often sessions are looked through for those that have expired.
const SWEEP_MS: u64 = 60_000;
/// More sessions than this at once are refused.
const MAX_SESSIONS: usize = 1_000_000;

/// The number that a client gave to its session.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct SessionId(pub(crate) [u8; 16]);

/// A session and its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct SessionKey {
    pub(crate) id: SessionId,
    pub(crate) owner: Owner,
}

/// Who a session belongs to: the hash of `user@database`, of nothing for who has not said.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Owner(pub(crate) [u8; 32]);

/// All sessions in use.
#[derive(Debug, Default)]
pub(crate) struct LogicalSessions {
    /// When each was last used, in milliseconds since 1970.
    last_use: DashMap<SessionKey, AtomicU64, ahash::RandomState>,
    last_sweep: AtomicU64,
}

impl LogicalSessions {
    /// Notes that a session is used.
    pub(crate) fn touch(&self, key: SessionKey, now_ms: u64) -> Result<()> {
        if let Some(last_use) = self.last_use.get(&key) {
            last_use.store(now_ms, Ordering::Relaxed);
            return Ok(());
        }
        if self.last_use.len() >= MAX_SESSIONS {
            let message = "Unable to add session into the cache because the number of active \
                           sessions is too high";
            return Err(Failure::new(Code::TOO_MANY_LOGICAL_SESSIONS, message));
        }
        self.last_use.insert(key, AtomicU64::new(now_ms));
        Ok(())
    }

    /// Forgets a session; false if it was not in use.
    pub(crate) fn end(&self, key: &SessionKey) -> bool {
        self.last_use.remove(key).is_some()
    }

    /// All sessions, and when each was last used, in milliseconds since 1970.
    pub(crate) fn all(&self) -> Vec<(SessionKey, u64)> {
        let sessions = self.last_use.iter();
        sessions
            .map(|entry| (*entry.key(), entry.value().load(Ordering::Relaxed)))
            .collect()
    }

    /// The sessions that are like this.
    pub(crate) fn matching(&self, matches: impl Fn(&SessionKey) -> bool) -> Vec<SessionKey> {
        let keys = self.last_use.iter().map(|entry| *entry.key());
        keys.filter(matches).collect()
    }

    /// Forgets the sessions that were not used for too long, and answers them; looks for them only
    /// from time to time.
    pub(crate) fn expire(&self, now_ms: u64) -> Vec<SessionKey> {
        let last = self.last_sweep.load(Ordering::Relaxed);
        let due = now_ms >= last.saturating_add(SWEEP_MS);
        let ours = due
            && self
                .last_sweep
                .compare_exchange(last, now_ms, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok();
        if !ours {
            return Vec::new();
        }
        let mut expired = Vec::new();
        self.last_use.retain(|key, last_use| {
            let last_use = last_use.load(Ordering::Relaxed);
            let alive = now_ms < last_use.saturating_add(TIMEOUT_MS);
            if !alive {
                expired.push(*key);
            }
            alive
        });
        expired
    }

    pub(crate) fn count(&self) -> usize {
        self.last_use.len()
    }
}

const LSID: &[Field] = &[
    required("id", BINARY),
    optional("uid", BINARY),
    optional("txnNumber", ANY),
    optional("txnUUID", ANY),
];

impl SessionId {
    /// Reads `{ id: UUID }`.
    pub(crate) fn parse(document: &RawDocument) -> Result<Self> {
        if let Some(id) = Self::plain(document) {
            return Ok(id);
        }
        let fields = Fields::of_document("lsid", document, LSID)?;
        let Some(RawBsonRef::Binary(id)) = fields.get("id") else {
            return Err(not_a_uuid().into());
        };
        if id.subtype != BinarySubtype::Uuid {
            let (found, expected) = (ElementType::Binary, &[ElementType::Binary]);
            return Err(fields::wrong_type("lsid", "id", found, expected).into());
        }
        let id = id.bytes.try_into().map_err(|_| not_a_uuid())?;
        Ok(Self(id))
    }

    /// The number in a document that is nothing but `{ id: UUID }`, as every client sends it: such
    /// documents begin alike, and their length says that nothing else is in them.
    fn plain(document: &RawDocument) -> Option<Self> {
        const BEGINNING: &[u8] = b"\x1e\0\0\0\x05id\0\x10\0\0\0\x04";
        let id = document.as_bytes().strip_prefix(BEGINNING)?;
        id.first_chunk().copied().map(Self)
    }

    /// A number that nobody had before.
    pub(crate) fn random() -> Self {
        Self(bson::Uuid::new().bytes())
    }

    /// As clients write it.
    pub(crate) fn to_document(self) -> Document {
        let id = Bson::Binary(Binary {
            subtype: BinarySubtype::Uuid,
            bytes: self.0.to_vec(),
        });
        doc! { "id": id }
    }
}

impl SessionKey {
    /// Bytes that no other session has, of the same number or not. Sessions of clients that need
    /// no login have their number alone.
    pub(crate) fn to_bytes(self) -> Vec<u8> {
        let mut bytes = self.id.0.to_vec();
        if self.owner != Owner::nobody() {
            bytes.extend(self.owner.0);
        }
        bytes
    }

    /// As servers write it.
    pub(crate) fn to_document(self) -> Document {
        let mut document = self.id.to_document();
        let uid = Bson::Binary(Binary {
            subtype: BinarySubtype::Generic,
            bytes: self.owner.0.to_vec(),
        });
        document.insert("uid", uid);
        document
    }
}

impl Owner {
    /// The owner of this name, `user@database`.
    pub(crate) fn of(user: &str) -> Self {
        Self(Sha256::digest(user).into())
    }

    /// Who has not said who they are. Every request asks for its owner, so it is hashed once.
    pub(crate) fn nobody() -> Self {
        static NOBODY: OnceLock<Owner> = OnceLock::new();
        *NOBODY.get_or_init(|| Self::of(""))
    }
}

impl Default for Owner {
    fn default() -> Self {
        Self::nobody()
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .iter()
            .take(4)
            .try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

fn not_a_uuid() -> Error {
    let message = "uuid must be a 16-byte binary field with UUID (4) subtype";
    Error::new(Code::INVALID_UUID, message)
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use super::*;

    fn key(number: u8) -> SessionKey {
        SessionKey {
            id: SessionId([number; 16]),
            owner: Owner::of(""),
        }
    }

    #[test]
    fn unused_sessions_expire() {
        let sessions = LogicalSessions::default();
        sessions.touch(key(1), 1_000).unwrap();
        sessions.touch(key(2), 1_000).unwrap();
        assert!(sessions.expire(SWEEP_MS).is_empty());
        sessions.touch(key(2), TIMEOUT_MS).unwrap();
        assert_eq!(sessions.expire(TIMEOUT_MS + 1_000), [key(1)]);
        assert!(
            sessions.expire(TIMEOUT_MS + 1_001).is_empty(),
            "not again so soon"
        );
        assert_eq!(sessions.count(), 1);
        assert!(sessions.end(&key(2)) && !sessions.end(&key(2)));
    }

    #[test]
    fn the_same_number_of_another_owner_is_another_session() {
        let sessions = LogicalSessions::default();
        let other = SessionKey {
            owner: Owner::of("ada@admin"),
            ..key(1)
        };
        sessions.touch(key(1), 1).unwrap();
        assert!(!sessions.end(&other));
        assert!(sessions.end(&key(1)));
    }

    #[test]
    fn ids_are_uuids() {
        let code = |id: Bson| {
            let document = doc! { "id": id }.to_vec().unwrap();
            let document = RawDocument::from_bytes(&document).unwrap();
            SessionId::parse(document)
                .err()
                .map(|failure| failure.code().0)
        };
        let binary = |subtype, length| {
            Bson::Binary(Binary {
                subtype,
                bytes: vec![0; length],
            })
        };
        assert_eq!(code(binary(BinarySubtype::Uuid, 16)), None);
        assert_eq!(code(binary(BinarySubtype::Uuid, 15)), Some(207));
        assert_eq!(code(binary(BinarySubtype::Generic, 16)), Some(14));
        assert_eq!(code(Bson::Int32(1)), Some(14));
        assert_eq!(SessionId::parse(&rawdoc! {}).unwrap_err().code().0, 40414);
    }
}
