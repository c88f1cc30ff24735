//! Aggregation pipelines: stages parsed once, run over a stream of documents.
