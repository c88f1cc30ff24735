//! The core and the engine without a protocol: measured by an example of the engines' crate, which
//! this one may not depend on.

use std::process::Command;

use tessera_conformance::binary;

use crate::Failure;
use crate::bench::figures::Report;

pub(crate) fn run(report: &mut Report) -> Result<(), Failure> {
    let status = Command::new(binary::example("engine_bench")?).status()?;
    report.missed_elsewhere |= !status.success();
    Ok(())
}
