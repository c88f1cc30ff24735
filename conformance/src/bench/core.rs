//! The core and the engine without a protocol: measured by an example of the engines' crate, which
//! this one may not depend on.

use std::process::Command;

use tessera_conformance::binary;

use crate::Failure;
use crate::bench::Scale;
use crate::bench::figures::Report;

pub(crate) fn run(report: &mut Report, scale: &Scale) -> Result<(), Failure> {
    let (items, rounds) = scale.core;
    let status = Command::new(binary::example("engine_bench")?)
        .args(["--items", &items.to_string()])
        .args(["--rounds", &rounds.to_string()])
        .status()?;
    report.missed_elsewhere |= !status.success();
    Ok(())
}
