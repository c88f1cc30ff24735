//! The requests that are sent most need no more instructions than the ledger of the wave lets them.

use std::process::Command;

#[test]
fn the_hottest_requests_cost_little_more_than_when_the_wave_began() {
    let program = env!("CARGO_BIN_EXE_tessera-conformance");
    let counted = Command::new(program)
        .args(["instructions", "--processes", "3"])
        .output()
        .unwrap();
    let (said, complaint) = (
        String::from_utf8_lossy(&counted.stdout),
        String::from_utf8_lossy(&counted.stderr),
    );
    assert!(counted.status.success(), "{said}{complaint}");
}
