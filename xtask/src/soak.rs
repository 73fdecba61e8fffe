//! `cargo xtask soak`: many rounds of tests.
//!
//! By default, the fault tests at full size: a test that has a long variant reads the environment
//! variable `ORCHESTRA_SOAK`. A real small model holds its conversations last. `soak flaky` repeats the
//! ordinary tests while the machine is busy.

use std::{
    collections::BTreeMap,
    hint,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use anyhow::{Result, bail};

use crate::{model, nextest, run, test, tools};

/// Number of threads that keep the processor busy during `soak flaky`.
const BUSY_LOOPS: usize = 4;

/// Runs the tests whose names contain one of `words`, or all without words, optimised and at full size,
/// `rounds` times.
///
/// # Errors
/// At the first round with a failure, or when a CI machine has no Node.js or Python.
pub(crate) fn run(rounds: u32, words: &[&str]) -> Result<()> {
    tools::runtimes()?;
    for round in 1..=rounds {
        run::say(&format!("== soak, round {round} of {rounds}"));
        let report = nextest::run(nextest::SOAK, |command| {
            command.arg("--release").args(words);
            command.env("ORCHESTRA_SOAK", "1");
            command.envs(run::BACKTRACES);
        })?;
        let mut tally = test::Tally::from(report);
        if words.is_empty() || words.iter().any(|word| word.starts_with(model::TESTS)) {
            tally.add(model::run()?);
        }
        if test::close(&tally).is_err() {
            bail!("soak failed in round {round}");
        }
    }
    Ok(())
}

/// Runs all tests `rounds` times beside busy loops, without retries, and prints each test that failed
/// once.
///
/// # Errors
/// When a test failed in any round, or the tests cannot be run. Failures of the rounds before that are
/// printed.
pub(crate) fn flaky(rounds: u32) -> Result<()> {
    tools::program("git")?;
    tools::runtimes()?;
    nextest::build()?;
    let (mut passed, mut completed) = (0, 0);
    let mut failures = BTreeMap::new();
    let outcome = beside_busy_loops(|| {
        for round in 1..=rounds {
            run::say(&format!("== soak flaky, round {round} of {rounds}"));
            let report = nextest::run(nextest::DEFAULT, |command| {
                command.args(["--retries", "0"]);
            })?;
            passed += report.passed;
            completed = round;
            for failure in report.failed {
                let (_, count) = failures.entry(failure.name).or_insert((failure.output, 0));
                *count += 1;
            }
        }
        anyhow::Ok(())
    });
    for (name, (output, count)) in &failures {
        run::say(&format!(
            "---- {name} ---- failed in {count} of {completed} rounds, first with\n{output}\n"
        ));
    }
    outcome?;
    let failed: u32 = failures.values().map(|(_, count)| count).sum();
    let word = if failed == 0 { "ok" } else { "FAILED" };
    run::say(&format!(
        "test result: {word}. {passed} passed; {failed} failed; 0 ignored; in {rounds} rounds"
    ));
    if failed > 0 {
        bail!("{} tests failed", failures.len());
    }
    Ok(())
}

/// Does `work` while threads keep the processor busy, which end with it.
fn beside_busy_loops<T>(work: impl FnOnce() -> T) -> T {
    /// Ends the loops also when the work panics.
    struct Stop<'a>(&'a AtomicBool);
    impl Drop for Stop<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let _stop = Stop(&stop);
        for _ in 0..BUSY_LOOPS {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    hint::spin_loop();
                }
            });
        }
        work()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_loops_end_with_the_work() {
        assert_eq!(beside_busy_loops(|| 3), 3);
    }
}
