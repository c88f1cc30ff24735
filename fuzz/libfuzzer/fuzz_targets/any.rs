//! Any target of `tessera-fuzz`, named by the environment variable `TARGET`.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use tessera_fuzz::targets::{self, Fuzzed};

static TARGET: LazyLock<Fuzzed> = LazyLock::new(|| {
    let name = std::env::var("TARGET").unwrap_or_default();
    targets::find(&name).unwrap_or_else(|| panic!("TARGET={name}: there is no such target"))
});

fuzz_target!(|input: &[u8]| (TARGET.target.run)(input));
