//! The hash of a BSON value, by which hashed indexes and hashed shard keys order documents.
