//! `$batch`: the multipart form of an entity group transaction.
