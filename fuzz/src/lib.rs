//! A fuzzer of every decoder and parser, and of whole front ends over a store in memory.
//!
//! Inputs come from a small [`corpus`] by [`mutate`] (bytes) and [`structure`] (JSON), without
//! looking at coverage, so that it works with any toolchain; `libfuzzer/` is a crate outside of the
//! workspace that hands the same [`targets`] to libFuzzer. An input is known by its target, a seed
//! and a number, and is made again from these. [`run`] bounds each in time: a freeze is a finding.

pub mod corpus;
pub mod dice;
pub mod extended_json;
pub mod finding;
mod language;
pub mod mutate;
pub mod run;
pub mod structure;
pub mod targets;
mod whole;
