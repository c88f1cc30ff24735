//! The requests that are sent most need no more instructions than is committed.

use std::process::Command;

#[test]
fn the_hottest_requests_cost_what_is_committed() {
    let program = env!("CARGO_BIN_EXE_tessera-conformance");
    let counted = Command::new(program).arg("instructions").output().unwrap();
    let (said, complaint) = (
        String::from_utf8_lossy(&counted.stdout),
        String::from_utf8_lossy(&counted.stderr),
    );
    assert!(counted.status.success(), "{said}{complaint}");
}
