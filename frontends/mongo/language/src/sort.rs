//! Sort patterns: the order in which documents are answered.
