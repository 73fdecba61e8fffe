//! `cargo xtask soak`: the fault tests at full size, again and again.
//!
//! A test that has a long variant asks for it by the environment variable `ORCHESTRA_SOAK`, and
//! prints what it has counted: the lines that begin with `counted: ` come once more behind all tests.
//! A real small model holds its conversations last.

use anyhow::{Result, bail};

use crate::{model, run, test, tools};

/// Runs the tests whose names hold one of `words`, or all where there is none, optimised and at full
/// size, `rounds` times.
///
/// # Errors
/// At the first round with a failure, or when a CI machine has no Node.js or Python.
pub(crate) fn run(rounds: u32, words: &[&str]) -> Result<()> {
    tools::runtimes()?;
    for round in 1..=rounds {
        run::say(&format!("== soak, round {round} of {rounds}"));
        let arguments = ["test", "--workspace", "--release", "--no-fail-fast"];
        let mut command = run::cargo(arguments);
        command.args(["--", "--show-output"]).args(words);
        command.env("ORCHESTRA_SOAK", "1");
        let (mut tally, mut succeeded) = test::counted(&mut command)?;
        if words.is_empty() || words.iter().any(|word| word.starts_with(model::TESTS)) {
            let (more, is_good) = model::run()?;
            tally.add(more);
            succeeded &= is_good;
        }
        if test::close(tally, succeeded).is_err() {
            bail!("soak failed in round {round}");
        }
    }
    Ok(())
}
