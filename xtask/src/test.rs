//! `cargo xtask test`: the workspace's tests, then the documentation tests, the external checks and the
//! conformance suite, then a summary that ends with one closing line.

use std::{thread, time::Duration};

use anyhow::{Result, anyhow, bail};

use crate::{conformance, judges, nextest, run, tools};

/// Maximum number of lines of a failed check's output in the summary.
const MAX_LINES: usize = 40;

/// Maximum number of flaky tests in a run that passes.
const MAX_FLAKY: usize = 3;

/// Far more than building and running all documentation tests takes.
const DOC_LIMIT: Duration = Duration::from_secs(20 * 60);

/// Totals of the tests and checks, and the output of those that failed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
    pub(crate) ignored: usize,
    failures: Vec<String>,
    flaky: Vec<String>,
    counted: Vec<String>,
}

impl Tally {
    /// Counts a failed check, and prints its output now and in the summary.
    pub(crate) fn fail(&mut self, what: &str) {
        run::say(what);
        // The name comes first, and the reason last.
        let (name, output) = what.split_once('\n').unwrap_or((what, ""));
        let lines: Vec<&str> = output.lines().collect();
        let last = &lines[lines.len().saturating_sub(MAX_LINES)..];
        self.failed += 1;
        self.failures.push(format!("{name}\n{}", last.join("\n")));
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.ignored += other.ignored;
        self.failures.extend(other.failures);
        self.flaky.extend(other.flaky);
        self.counted.extend(other.counted);
    }

    /// The summary that ends a run. Its last line is one that readers of `cargo test` recognise.
    fn summary(&self) -> String {
        let mut summary = String::new();
        for line in &self.counted {
            summary.push_str(&format!("{line}\n"));
        }
        if !self.flaky.is_empty() {
            let flaky = self.flaky.join("\n\n");
            summary.push_str(&format!(
                "\nflaky tests, which passed when run again:\n\n{flaky}\n\n"
            ));
        }
        if !self.failures.is_empty() {
            let failures = self.failures.join("\n\n");
            summary.push_str(&format!("\nfailures:\n\n{failures}\n\n"));
        }
        if self.flaky.len() > MAX_FLAKY {
            let count = self.flaky.len();
            summary.push_str(&format!(
                "{count} flaky tests, where at most {MAX_FLAKY} are allowed\n"
            ));
        }
        let word = if self.is_good() { "ok" } else { "FAILED" };
        let Self {
            passed,
            failed,
            ignored,
            ..
        } = self;
        summary.push_str(&format!(
            "test result: {word}. {passed} passed; {failed} failed; {ignored} ignored; judges included"
        ));
        summary
    }

    fn is_good(&self) -> bool {
        self.failed == 0 && self.flaky.len() <= MAX_FLAKY
    }
}

impl From<nextest::Report> for Tally {
    fn from(report: nextest::Report) -> Self {
        let shown = |failures: Vec<nextest::Failure>| {
            let shown = failures.into_iter();
            shown.map(|failure| format!("---- {} ----\n{}", failure.name, failure.output))
        };
        Self {
            passed: report.passed,
            failed: report.failed.len(),
            ignored: 0,
            failures: shown(report.failed).collect(),
            flaky: shown(report.flaky).collect(),
            counted: report.counted,
        }
    }
}

/// Runs everything.
///
/// # Errors
/// When something cannot be run, a test or check failed, or too many tests are flaky.
pub(crate) fn run() -> Result<()> {
    tools::program("git")?;
    tools::runtimes()?;
    let mut tally = Tally::from(nextest::run(nextest::DEFAULT, |_| {})?);
    run::build()?;
    // All at once, because most checks wait for most of their time.
    let (judges, others) = thread::scope(|scope| {
        let others = [conformance::all, documentation].map(|check| scope.spawn(check));
        (judges::all(None), others.map(|check| check.join()))
    });
    tally.add(judges?);
    for check in others {
        tally.add(check.map_err(|_| anyhow!("a check panicked"))??);
    }
    close(&tally)
}

/// Runs the documentation tests, which nextest does not run. They count as one test.
fn documentation() -> Result<Tally> {
    run::say("== documentation tests");
    let mut tally = Tally::default();
    let arguments = ["test", "--quiet", "--workspace", "--doc", "--no-fail-fast"];
    let ended = run::run_within(run::cargo(arguments).args(run::features()), DOC_LIMIT)?;
    match ended.success {
        true => tally.passed += 1,
        false => tally.fail(&format!(
            "documentation tests ... FAILED\n{}{}",
            ended.out, ended.complaint
        )),
    }
    Ok(tally)
}

/// Prints the summary.
///
/// # Errors
/// When a test or check failed, or too many tests are flaky.
pub(crate) fn close(tally: &Tally) -> Result<()> {
    run::say(&tally.summary());
    if !tally.is_good() {
        bail!("tests failed");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_lists_totals_flaky_tests_and_failures_before_the_closing_line() {
        let tally = Tally {
            passed: 5,
            failed: 1,
            ignored: 2,
            failures: vec!["---- a::it b ----\npanicked".to_owned()],
            flaky: vec!["---- a::it c ----\ntoo late".to_owned()],
            counted: vec!["counted: 3 worlds".to_owned()],
        };
        let expected = "counted: 3 worlds\n\n\
            flaky tests, which passed when run again:\n\n---- a::it c ----\ntoo late\n\n\n\
            failures:\n\n---- a::it b ----\npanicked\n\n\
            test result: FAILED. 5 passed; 1 failed; 2 ignored; judges included";
        assert_eq!(tally.summary(), expected);
    }

    #[test]
    fn more_than_three_flaky_tests_fail_the_run() {
        let with = |count| Tally {
            flaky: vec![String::new(); count],
            ..Tally::default()
        };
        assert!(with(3).is_good());
        assert!(!with(4).is_good());
    }
}
