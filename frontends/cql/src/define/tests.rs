//! Definitions run against a store in memory.
