//! Pipelines over collections in memory.
