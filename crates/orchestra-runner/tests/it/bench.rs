//! What measures plans is run, so that it does not rot between measurements. How long it takes is nothing
//! that a test asks.

use std::process::Command;

#[test]
fn ten_thousand_jobs_come_to_their_end_in_memory() {
    let mut path = std::env::current_exe().unwrap();
    path.pop();
    path.pop();
    let mut measure = Command::new(path.join("examples/plans_bench"));
    let measured = measure.arg("core").output().unwrap();
    let said = String::from_utf8_lossy(&measured.stdout);
    let complaint = String::from_utf8_lossy(&measured.stderr);
    assert!(measured.status.success(), "{said}{complaint}");
    assert!(
        said.contains("10000 jobs in memory: valid after "),
        "{said}"
    );
}
