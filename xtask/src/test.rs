//! `cargo xtask test`: the workspace's tests, then the judges and the conformance suite, then what failed and
//! one closing line.

use std::{
    io::{BufRead as _, BufReader},
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, bail};

use crate::{conformance, judges, run, tools};

/// What a line begins with by which a test says what it has counted.
const COUNTED: &str = "counted: ";

/// How many lines of what a failed test says are said once more at the end.
const SAID_AGAIN: usize = 40;

/// How many tests passed, failed and were left out, and what those that failed say.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
    pub(crate) ignored: usize,
    failures: Vec<String>,
}

impl Tally {
    /// Counts a judge or a scenario that failed, and says so now and at the end.
    pub(crate) fn fail(&mut self, what: &str) {
        run::say(what);
        self.failed += 1;
        // First it says its name, and last why.
        let (name, said) = what.split_once('\n').unwrap_or((what, ""));
        let lines: Vec<&str> = said.lines().collect();
        let last = &lines[lines.len().saturating_sub(SAID_AGAIN)..];
        self.failures.push(format!("{name}\n{}", last.join("\n")));
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.ignored += other.ignored;
        self.failures.extend(other.failures);
    }
}

/// Reads what a test harness writes.
#[derive(Debug, Default)]
struct Harness {
    tally: Tally,
    /// Within what failed tests say.
    in_failures: bool,
}

impl Harness {
    fn read(&mut self, line: &str) {
        match line.strip_prefix("test result: ") {
            Some(closing) => {
                self.in_failures = false;
                self.close(closing);
            }
            // Their names follow below a headline that is the same.
            None if line == "failures:" => self.in_failures = !self.in_failures,
            None if self.in_failures => self.failure(line),
            None => {}
        }
    }

    /// Each test that failed has a headline of its own.
    fn failure(&mut self, line: &str) {
        let failures = &mut self.tally.failures;
        if line.starts_with("---- ") && line.ends_with(" stdout ----") {
            failures.push(line.to_owned());
        } else if let Some(failure) = failures.last_mut()
            && failure.lines().count() < SAID_AGAIN
        {
            failure.push('\n');
            failure.push_str(line);
        }
    }

    fn close(&mut self, rest: &str) {
        let counts = rest.split_once(". ").map_or("", |(_, counts)| counts);
        for part in counts.split("; ") {
            match part.split_once(' ') {
                Some((number, "passed")) => self.tally.passed += number.parse().unwrap_or(0),
                Some((number, "failed")) => self.tally.failed += number.parse().unwrap_or(0),
                Some((number, "ignored")) => self.tally.ignored += number.parse().unwrap_or(0),
                _ => {}
            }
        }
    }
}

/// Runs everything; fails when one test or judge failed.
///
/// # Errors
/// When something cannot be run, or a test failed.
pub(crate) fn run() -> Result<()> {
    tools::program("git")?;
    tools::runtimes()?;
    let mut arguments = vec!["test", "--workspace", "--no-fail-fast"];
    if run::in_ci() {
        arguments.push("--locked");
    }
    run::say(&format!("$ cargo {}", arguments.join(" ")));
    let (mut tally, succeeded) = counted(&mut run::cargo(arguments))?;
    tally.add(judges::all(None)?);
    tally.add(conformance::all()?);
    close(tally, succeeded)
}

/// Runs a `cargo test`, its output shown, and counts. What tests have counted themselves is said once more
/// at the end.
///
/// # Errors
/// When cargo cannot be run.
pub(crate) fn counted(command: &mut Command) -> Result<(Tally, bool)> {
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .context("starting cargo test")?;
    let stdout = child.stdout.take().context("no pipe to cargo test")?;
    let mut harness = Harness::default();
    let mut counts = Vec::new();
    for line in BufReader::new(stdout).split(b'\n') {
        let line = line.context("reading what cargo test writes")?;
        let line = String::from_utf8_lossy(&line);
        harness.read(&line);
        run::say(&line);
        counts.extend(count(&line).map(str::to_owned));
    }
    for line in counts {
        run::say(&line);
    }
    let status = child.wait().context("waiting for cargo test")?;
    Ok((harness.tally, status.success()))
}

/// What a test has counted, if a line says so.
fn count(line: &str) -> Option<&str> {
    line.find(COUNTED).map(|at| &line[at..])
}

/// Says what failed tests say and the closing line; fails when something failed.
///
/// # Errors
/// When a test failed or the runner did.
pub(crate) fn close(tally: Tally, succeeded: bool) -> Result<()> {
    let good = succeeded && tally.failed == 0;
    let word = if good { "ok" } else { "FAILED" };
    let Tally {
        passed,
        failed,
        ignored,
        failures,
    } = tally;
    if !failures.is_empty() {
        run::say(&format!("\nwhat failed:\n\n{}\n", failures.join("\n\n")));
    }
    run::say(&format!(
        "test result: {word}. {passed} passed; {failed} failed; {ignored} ignored; judges included"
    ));
    if !good {
        bail!("tests failed");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_test_has_counted_is_found_also_behind_its_name() {
        assert_eq!(count("counted: 3 worlds"), Some("counted: 3 worlds"));
        let behind = "test a::b ... counted: 3 worlds";
        assert_eq!(count(behind), Some("counted: 3 worlds"));
        assert_eq!(count("test a::b ... ok"), None);
    }

    #[test]
    fn closing_lines_of_a_harness_are_added_up_and_what_failed_is_kept() {
        let mut harness = Harness::default();
        for line in [
            "running 3 tests",
            "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s",
            "failures:",
            "",
            "---- a::b stdout ----",
            "thread 'a::b' panicked",
            "---- a::c stdout ----",
            "",
            "failures:",
            "    a::b",
            "test result: FAILED. 2 passed; 4 failed; 0 ignored; 0 measured; 0 filtered out",
        ] {
            harness.read(line);
        }
        let expected = Tally {
            passed: 5,
            failed: 4,
            ignored: 1,
            failures: vec![
                "---- a::b stdout ----\nthread 'a::b' panicked".to_owned(),
                "---- a::c stdout ----\n".to_owned(),
            ],
        };
        assert_eq!(harness.tally, expected);
    }
}
