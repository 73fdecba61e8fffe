//! `cargo xtask soak`: many rounds of tests.
//!
//! By default, the fault tests at full size: a test that has a long variant reads the environment
//! variable `ORCHESTRA_SOAK`. A real small model holds its conversations last. `soak flaky` repeats the
//! ordinary tests while the machine is busy. `soak board` has many clients use one board while git, kills and
//! removals disturb them.

use std::{
    collections::BTreeMap,
    hint,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::{Context as _, Result, bail};

use crate::{model, nextest, run, test, tools};

/// Number of threads that keep the processor busy during `soak flaky`.
const BUSY_LOOPS: usize = 4;

/// Test of `soak board`, in `orchestra`.
const BOARD_TEST: &str = "board_soak::";

/// Minutes of `soak board`.
const BOARD_MINUTES: u32 = 10;

/// Most minutes of `soak board`: a claim ends after 30, and then another client may have the task.
const MAX_BOARD_MINUTES: u32 = 25;

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

/// Size of `soak board`, and the seed of its faults.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Board {
    minutes: u32,
    seed: u64,
}

impl Board {
    /// Reads `--minutes` and `--seed`. Without a seed, the clock gives one.
    ///
    /// # Errors
    /// When there is another option, or a number is out of range.
    pub(crate) fn parse(mut words: &[&str]) -> Result<Self> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let mut board = Self {
            minutes: BOARD_MINUTES,
            seed: u64::from(since.unwrap_or_default().subsec_nanos()),
        };
        while let [name, value, rest @ ..] = words {
            match *name {
                "--minutes" => board.minutes = minutes(value)?,
                "--seed" => {
                    board.seed = value.parse().context("--seed is not a whole number")?;
                }
                unknown => bail!("no such option of soak board: {unknown}"),
            }
            words = rest;
        }
        match words {
            [] => Ok(board),
            [name, ..] => bail!("{name} of soak board needs a number"),
        }
    }

    /// Has eight worktrees with four clients each use one board, and compares what was acknowledged with the board.
    /// Prints the counters.
    ///
    /// # Errors
    /// When an acknowledged change was lost, a task was claimed twice, an id was given twice, or `doctor` finds
    /// something.
    pub(crate) fn run(&self) -> Result<()> {
        tools::program("git")?;
        let Self { minutes, seed } = self;
        run::say(&format!("== soak board, {minutes} minutes, seed {seed}"));
        let report = nextest::run(nextest::SOAK, |command| {
            command.args(["--release", "--test", "it", BOARD_TEST]);
            command.env("ORCHESTRA_SOAK_MINUTES", minutes.to_string());
            command.env("ORCHESTRA_SOAK_SEED", seed.to_string());
            command.envs(run::BACKTRACES);
        })?;
        test::close(&report.into())
    }
}

fn minutes(text: &str) -> Result<u32> {
    match text.parse() {
        Ok(minutes) if (1..=MAX_BOARD_MINUTES).contains(&minutes) => Ok(minutes),
        _ => bail!("--minutes must be 1 to {MAX_BOARD_MINUTES}, got {text:?}"),
    }
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
    fn options_of_the_soak_of_a_board_are_bounded() {
        let parse = |text: &str| {
            let words: Vec<&str> = text.split_whitespace().collect();
            Board::parse(&words)
        };
        let board = Board {
            minutes: 3,
            seed: 7,
        };
        assert_eq!(parse("--minutes 3 --seed 7").unwrap(), board);
        assert_eq!(parse("").unwrap().minutes, BOARD_MINUTES);
        for (text, expected) in [
            ("--minutes 0", "must be 1 to 25"),
            ("--minutes 26", "must be 1 to 25"),
            ("--minutes", "needs a number"),
            ("--rounds 3", "no such option"),
            ("--seed x", "not a whole number"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn busy_loops_end_with_the_work() {
        assert_eq!(beside_busy_loops(|| 3), 3);
    }
}
