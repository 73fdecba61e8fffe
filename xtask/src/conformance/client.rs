//! The scenarios in which the suite is the server: the transport in both eras, what a client makes
//! of what a server says, and authorization.

use anyhow::{Context as _, Result};

use super::server::Suite;
use crate::{run, test::Tally};

/// What is played, in the suite's words: what each revision requires, what belongs to extensions,
/// and whatever else the suite has.
const SETS: [(&str, &[&str]); 5] = [
    (
        "client 2025-06-18",
        &["--suite", "all", "--spec-version", "2025-06-18"],
    ),
    ("client 2025-11-25", &["--requirements", "2025-11-25"]),
    ("client 2026-07-28", &["--requirements", "2026-07-28"]),
    ("client extensions", &["--suite", "extensions"]),
    ("client all", &["--suite", "all"]),
];

/// Plays all of it.
///
/// # Errors
/// When the suite cannot be run. A scenario that fails is counted.
pub(super) fn play(suite: &Suite) -> Result<Tally> {
    let mut tally = Tally::default();
    let fixture = run::target().join("debug/examples/conformance_client");
    let fixture = fixture
        .to_str()
        .context("the path of the fixture is no text")?;
    for (what, wanted) in SETS {
        let mut command = suite.command();
        command.args(["client", "--command", fixture]).args(wanted);
        Suite::counted(what, &mut command, &mut tally)?;
    }
    Ok(tally)
}
