//! Aggregation expressions: parsed once, evaluated for each document.
