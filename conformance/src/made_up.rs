//! What makes up inputs, shared with the fuzzer in process as files: nothing in them is of this
//! workspace, and this crate depends on no other one of it.

#[path = "../../fuzz/src/corpus.rs"]
pub mod corpus;
#[path = "../../fuzz/src/dice.rs"]
pub mod dice;
#[path = "../../fuzz/src/extended_json.rs"]
pub mod extended_json;
#[path = "../../fuzz/src/mutate.rs"]
pub mod mutate;
#[path = "../../fuzz/src/structure.rs"]
pub mod structure;
